//! A worker's shelf: the replicas in its own folder.
//!
//! A replica is written beside and renamed, so what has a block's name was once whole on disk. One that turns out to be damaged is set aside
//! under another name and never read again; it is kept until the coordinator says that the block is whole without it, because a
//! damaged replica is better than none for whoever has to rescue a file by hand.
//!
//! The shelf tells the coordinator whatever changes, in the order in which it changes.

use super::block::{BlockFile, BlockWriter, is_damage};
use super::{BlockId, Held, StoreNews, sync_folder};
use crate::wire::FromWorker;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Behind the name of a replica that is not whole yet, and of one that is damaged.
const UNFINISHED: &str = "new";
const DAMAGED: &str = "damaged";

/// The replicas in a worker's folder.
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
    kept: Mutex<Kept>,
    /// Numbers for unfinished files, so that two writers of one block do not meet.
    next_writer: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    sound: BTreeMap<BlockId, Held>,
    damaged: BTreeSet<BlockId>,
    coordinator: Option<Sender<FromWorker>>,
}

impl Kept {
    /// Said under the lock, so that the coordinator hears things in the order in which they happened. Without a line nothing is said: the
    /// next line begins with everything.
    fn tell(&self, news: StoreNews) {
        if let Some(coordinator) = &self.coordinator {
            let _ = coordinator.send(FromWorker::Store(news));
        }
    }
}

impl Shelf {
    /// Looks at what an earlier life left: sizes and tables are checked, contents whenever they are read.
    pub fn open(folder: PathBuf) -> io::Result<Shelf> {
        fs::create_dir_all(&folder)?;
        let mut kept = Kept::default();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let block = path.file_stem().and_then(|stem| stem.to_str()).and_then(BlockId::parse);
            match (block, path.extension().and_then(|extension| extension.to_str())) {
                (Some(block), None) => match BlockFile::open(&path, block) {
                    Ok(file) => {
                        kept.sound.insert(block, file.held());
                    }
                    Err(error) if is_damage(&error) => {
                        tracing::warn!("{} is damaged and set aside: {error}", path.display());
                        fs::rename(&path, path.with_extension(DAMAGED))?;
                        kept.damaged.insert(block);
                    }
                    Err(error) => return Err(error),
                },
                (Some(block), Some(DAMAGED)) => {
                    kept.damaged.insert(block);
                }
                (Some(_), Some(extension)) if extension.starts_with(UNFINISHED) => fs::remove_file(&path)?,
                // Not ours; nobody asked us to remove it.
                _ => {}
            }
        }
        Ok(Shelf { folder, kept: Mutex::new(kept), next_writer: AtomicU64::new(0) })
    }

    /// There is a new line to the coordinator: says everything, and from now on every change.
    pub fn report_to(&self, coordinator: Sender<FromWorker>) {
        let mut kept = self.kept();
        kept.coordinator = Some(coordinator);
        let held = kept.sound.values().copied().collect();
        kept.tell(StoreNews::Holds { held, damaged: kept.damaged.iter().copied().collect() });
    }

    /// Says something that is no change of the shelf.
    pub(super) fn tell(&self, news: StoreNews) {
        self.kept().tell(news);
    }

    /// A replica, if there is a sound one here.
    pub(super) fn block(&self, block: BlockId) -> io::Result<BlockFile> {
        if !self.kept().sound.contains_key(&block) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.judged(block, BlockFile::open(&self.path(block), block))
    }

    /// Reads from a replica. One that is damaged is set aside, and the coordinator hears of it.
    pub(super) fn read_at(&self, file: &BlockFile, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.judged(file.held().block, file.read_at(at, buffer))
    }

    /// Reads a replica from end to end.
    pub(super) fn check(&self, block: BlockId) -> io::Result<Held> {
        let file = self.block(block)?;
        self.judged(block, file.check()).map(|()| file.held())
    }

    /// All blocks of which there are replicas here.
    pub(super) fn blocks(&self) -> Vec<BlockId> {
        self.kept().sound.keys().copied().collect()
    }

    /// A replica that cannot be read any more, or is no longer there, is set aside.
    fn judged<T>(&self, block: BlockId, read: io::Result<T>) -> io::Result<T> {
        let error = match read {
            Err(error) if is_damage(&error) || error.kind() == io::ErrorKind::NotFound => error,
            read => return read,
        };
        let mut kept = self.kept();
        if kept.sound.remove(&block).is_some() {
            tracing::warn!("block {block} is damaged and set aside: {error}");
            if fs::rename(self.path(block), self.path(block).with_extension(DAMAGED)).is_ok() {
                kept.damaged.insert(block);
            }
            kept.tell(StoreNews::Bad { block });
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Begins to write a replica.
    pub(super) fn create(&self, block: BlockId) -> io::Result<Incoming<'_>> {
        let number = self.next_writer.fetch_add(1, Ordering::Relaxed);
        let beside = self.path(block).with_extension(format!("{UNFINISHED}{number}"));
        let writer = BlockWriter::new(File::create_new(&beside)?);
        Ok(Incoming { shelf: self, block, writer: Some(writer), beside })
    }

    /// Removes a block, sound or damaged.
    pub(super) fn forget(&self, block: BlockId) {
        let mut kept = self.kept();
        if kept.sound.remove(&block).is_some() {
            remove(&self.path(block));
        }
        drop(kept);
        self.discard(block);
    }

    /// Removes a damaged replica.
    pub(super) fn discard(&self, block: BlockId) {
        if self.kept().damaged.remove(&block) {
            remove(&self.path(block).with_extension(DAMAGED));
        }
    }

    fn path(&self, block: BlockId) -> PathBuf {
        self.folder.join(block.to_string())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing under the lock panics half way through a change.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A replica on its way to the shelf. Dropped before it is finished, it leaves nothing.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    shelf: &'a Shelf,
    block: BlockId,
    writer: Option<BlockWriter<File>>,
    beside: PathBuf,
}

impl Incoming<'_> {
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.writer.as_mut().expect("finished only once").write(content)
    }

    /// Puts it on the shelf: once this returns, it survives whatever happens to the process.
    pub(super) fn finish(mut self) -> io::Result<Held> {
        let (file, held) = self.writer.take().expect("finished only once").finish(self.block)?;
        file.sync_all()?;
        let mut kept = self.shelf.kept();
        fs::rename(&self.beside, self.shelf.path(self.block))?;
        sync_folder(&self.shelf.folder)?;
        kept.sound.insert(self.block, held);
        kept.tell(StoreNews::Got(held));
        drop(kept);
        self.shelf.discard(self.block);
        Ok(held)
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing of this name.
        let _ = fs::remove_file(&self.beside);
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const BLOCK: BlockId = BlockId(0xab);

    fn put(shelf: &Shelf, content: &[u8]) -> Held {
        let mut incoming = shelf.create(BLOCK).unwrap();
        incoming.write(content).unwrap();
        incoming.finish().unwrap()
    }

    fn flip(folder: &Path, at: usize) {
        let path = folder.join(BLOCK.to_string());
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_replica_survives_a_restart_and_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let held = put(&Shelf::open(folder.path().into()).unwrap(), b"hello");
        fs::write(folder.path().join(format!("{BLOCK}.new3")), b"half").unwrap();
        fs::write(folder.path().join("README"), b"a stranger's").unwrap();
        let shelf = Shelf::open(folder.path().into()).unwrap();
        let (line, news) = mpsc::channel();
        shelf.report_to(line);
        let said = news.recv().unwrap();
        assert!(
            matches!(&said, FromWorker::Store(StoreNews::Holds { held: all, damaged }) if *all == [held] && damaged.is_empty()),
            "{said:?}"
        );
        assert!(!folder.path().join(format!("{BLOCK}.new3")).exists());
        assert!(folder.path().join("README").exists());
        let mut buffer = [0; 10];
        let read = shelf.read_at(&shelf.block(BLOCK).unwrap(), 1, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"ello");
    }

    #[test]
    fn a_damaged_replica_is_set_aside_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path().into()).unwrap();
        put(&shelf, b"hello");
        let (line, news) = mpsc::channel();
        shelf.report_to(line);
        flip(folder.path(), 2);
        let file = shelf.block(BLOCK).unwrap();
        assert!(shelf.read_at(&file, 0, &mut [0; 5]).is_err());
        assert!(shelf.read_at(&file, 0, &mut [0; 5]).is_err());
        assert_eq!(shelf.block(BLOCK).unwrap_err().kind(), io::ErrorKind::NotFound);
        let said: Vec<_> = news.try_iter().skip(1).collect();
        assert!(matches!(said[..], [FromWorker::Store(StoreNews::Bad { block: BLOCK })]), "{said:?}");
        assert!(folder.path().join(format!("{BLOCK}.damaged")).exists());
        put(&shelf, b"hello");
        assert!(!folder.path().join(format!("{BLOCK}.damaged")).exists(), "a sound one took its place");
        shelf.forget(BLOCK);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn damage_from_before_the_start_is_found_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        put(&Shelf::open(folder.path().into()).unwrap(), b"hello");
        flip(folder.path(), 6);
        let shelf = Shelf::open(folder.path().into()).unwrap();
        assert!(shelf.blocks().is_empty());
        assert!(shelf.kept().damaged.contains(&BLOCK));
        // And by the next start it is still known.
        assert!(Shelf::open(folder.path().into()).unwrap().kept().damaged.contains(&BLOCK));
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path().into()).unwrap();
        shelf.create(BLOCK).unwrap().write(b"hel").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
