//! A worker's block store: the replicas in its own directory.
//!
//! A replica is written to a temporary file and renamed, so a file under a block's name was once complete on disk. A replica that is found corrupt is
//! quarantined: renamed and never read again. It is deleted only when the coordinator reports enough valid replicas, because a corrupt replica is
//! better than none for an operator who has to rescue a file by hand.
//!
//! The block store reports every change to the coordinator, in the order of the changes.

use super::block::{BlockFile, BlockWriter, is_corruption};
use super::{BlockId, BlockInfo, StoreReport, sync_dir};
use crate::wire::FromWorker;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Extension of a replica that is being written; a number follows.
const TEMP_EXTENSION: &str = "tmp";

/// Extension of a quarantined replica.
const CORRUPT_EXTENSION: &str = "corrupt";

/// The replicas in a worker's directory.
#[derive(Debug)]
pub struct BlockStore {
    dir: PathBuf,
    index: Mutex<Index>,
    /// Makes the names of temporary files unique, so that two writers of one block do not share a file.
    next_writer: AtomicU64,
}

#[derive(Debug, Default)]
struct Index {
    valid: BTreeMap<BlockId, BlockInfo>,
    corrupt: BTreeSet<BlockId>,
    coordinator: Option<Sender<FromWorker>>,
}

impl Index {
    /// Sends a report. The caller holds the lock, so that the coordinator receives reports in the order of the changes. Without a
    /// connection nothing is sent: the next connection begins with a full report.
    fn report(&self, report: StoreReport) {
        if let Some(coordinator) = &self.coordinator {
            let _ = coordinator.send(FromWorker::Store(report));
        }
    }
}

impl BlockStore {
    /// Opens the store in a directory, which is created if necessary. Sizes and checksum tables of existing replicas are verified; content is
    /// verified whenever it is read. Temporary files of an earlier process are deleted.
    pub fn open(dir: PathBuf) -> io::Result<BlockStore> {
        fs::create_dir_all(&dir)?;
        let mut index = Index::default();
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let block = path.file_stem().and_then(|stem| stem.to_str()).and_then(BlockId::parse);
            match (block, path.extension().and_then(|extension| extension.to_str())) {
                (Some(block), None) => match BlockFile::open(&path, block) {
                    Ok(file) => {
                        index.valid.insert(block, file.info());
                    }
                    Err(error) if is_corruption(&error) => {
                        tracing::warn!("replica {} is corrupt and was quarantined: {error}", path.display());
                        fs::rename(&path, path.with_extension(CORRUPT_EXTENSION))?;
                        index.corrupt.insert(block);
                    }
                    Err(error) => return Err(error),
                },
                (Some(block), Some(CORRUPT_EXTENSION)) => {
                    index.corrupt.insert(block);
                }
                (Some(_), Some(extension)) if extension.starts_with(TEMP_EXTENSION) => fs::remove_file(&path)?,
                // Not a file of this store: left alone.
                _ => {}
            }
        }
        Ok(BlockStore { dir, index: Mutex::new(index), next_writer: AtomicU64::new(0) })
    }

    /// Sends a full report over a new connection to the coordinator, and from then on a report of every change.
    pub fn report_to(&self, coordinator: Sender<FromWorker>) {
        let mut index = self.index();
        index.coordinator = Some(coordinator);
        let blocks = index.valid.values().copied().collect();
        index.report(StoreReport::Full { blocks, corrupt: index.corrupt.iter().copied().collect() });
    }

    /// Sends a report that is not about a change of this store.
    pub(super) fn report(&self, report: StoreReport) {
        self.index().report(report);
    }

    /// Opens a replica. Returns `NotFound` if there is no valid one here.
    pub(super) fn open_block(&self, block: BlockId) -> io::Result<BlockFile> {
        if !self.index().valid.contains_key(&block) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.quarantine_on_corruption(block, BlockFile::open(&self.path(block), block))
    }

    /// Reads from a replica. A corrupt one is quarantined and reported to the coordinator.
    pub(super) fn read_at(&self, file: &BlockFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.quarantine_on_corruption(file.info().block, file.read_at(offset, buffer))
    }

    /// Reads a whole replica and verifies its checksums. A corrupt one is quarantined and reported to the coordinator if `quarantine` is set;
    /// otherwise nothing is changed.
    pub(super) fn verify(&self, block: BlockId, quarantine: bool) -> io::Result<BlockInfo> {
        if quarantine {
            let file = self.open_block(block)?;
            return self.quarantine_on_corruption(block, file.verify()).map(|()| file.info());
        }
        let verified = BlockFile::open(&self.path(block), block).and_then(|file| file.verify().map(|()| file.info()));
        match verified {
            // Missing, unless it was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.index().valid.contains_key(&block) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
            verified => verified,
        }
    }

    /// Blocks with a valid replica here.
    pub(super) fn blocks(&self) -> Vec<BlockId> {
        self.index().valid.keys().copied().collect()
    }

    /// Passes on the result of a read. If it shows that the replica is corrupt or missing, the replica is quarantined and reported.
    fn quarantine_on_corruption<T>(&self, block: BlockId, result: io::Result<T>) -> io::Result<T> {
        let error = match result {
            Err(error) if is_corruption(&error) || error.kind() == io::ErrorKind::NotFound => error,
            result => return result,
        };
        let mut index = self.index();
        if index.valid.remove(&block).is_some() {
            tracing::warn!("the replica of block {block} is corrupt and was quarantined: {error}");
            if fs::rename(self.path(block), self.path(block).with_extension(CORRUPT_EXTENSION)).is_ok() {
                index.corrupt.insert(block);
            }
            index.report(StoreReport::Corrupt { block });
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Begins to write a replica.
    pub(super) fn create(&self, block: BlockId) -> io::Result<ReplicaWriter<'_>> {
        let number = self.next_writer.fetch_add(1, Ordering::Relaxed);
        let temp_path = self.path(block).with_extension(format!("{TEMP_EXTENSION}{number}"));
        let writer = BlockWriter::new(File::create_new(&temp_path)?);
        Ok(ReplicaWriter { store: self, block, writer: Some(writer), temp_path })
    }

    /// Deletes a replica, valid or quarantined.
    pub(super) fn delete(&self, block: BlockId) {
        let mut index = self.index();
        if index.valid.remove(&block).is_some() {
            remove_file(&self.path(block));
        }
        drop(index);
        self.delete_corrupt(block);
    }

    /// Deletes a quarantined replica.
    pub(super) fn delete_corrupt(&self, block: BlockId) {
        if self.index().corrupt.remove(&block) {
            remove_file(&self.path(block).with_extension(CORRUPT_EXTENSION));
        }
    }

    fn path(&self, block: BlockId) -> PathBuf {
        self.dir.join(block.to_string())
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        // No code panics under the lock in the middle of a change, so a poisoned index is consistent.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a replica. If dropped before [`ReplicaWriter::finish`], it removes its temporary file.
#[derive(Debug)]
pub(super) struct ReplicaWriter<'a> {
    store: &'a BlockStore,
    block: BlockId,
    writer: Option<BlockWriter<File>>,
    temp_path: PathBuf,
}

impl ReplicaWriter<'_> {
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.writer.as_mut().expect("finished only once").write(content)
    }

    /// Adds the replica to the store. It is durable once this returns.
    pub(super) fn finish(mut self) -> io::Result<BlockInfo> {
        let (file, info) = self.writer.take().expect("finished only once").finish(self.block)?;
        file.sync_all()?;
        let mut index = self.store.index();
        fs::rename(&self.temp_path, self.store.path(self.block))?;
        sync_dir(&self.store.dir)?;
        index.valid.insert(self.block, info);
        index.report(StoreReport::Received(info));
        drop(index);
        self.store.delete_corrupt(self.block);
        Ok(info)
    }
}

impl Drop for ReplicaWriter<'_> {
    fn drop(&mut self) {
        // After the rename there is no file of this name.
        let _ = fs::remove_file(&self.temp_path);
    }
}

fn remove_file(path: &Path) {
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

    fn write(store: &BlockStore, content: &[u8]) -> BlockInfo {
        let mut writer = store.create(BLOCK).unwrap();
        writer.write(content).unwrap();
        writer.finish().unwrap()
    }

    fn flip(dir: &Path, at: usize) {
        let path = dir.join(BLOCK.to_string());
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_replica_survives_a_restart_and_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let info = write(&BlockStore::open(dir.path().into()).unwrap(), b"hello");
        fs::write(dir.path().join(format!("{BLOCK}.tmp3")), b"partial").unwrap();
        fs::write(dir.path().join("README"), b"a foreign file").unwrap();
        let store = BlockStore::open(dir.path().into()).unwrap();
        let (coordinator, reports) = mpsc::channel();
        store.report_to(coordinator);
        let received = reports.recv().unwrap();
        assert!(
            matches!(&received, FromWorker::Store(StoreReport::Full { blocks: all, corrupt }) if *all == [info] && corrupt.is_empty()),
            "{received:?}"
        );
        assert!(!dir.path().join(format!("{BLOCK}.tmp3")).exists());
        assert!(dir.path().join("README").exists());
        let mut buffer = [0; 10];
        let read = store.read_at(&store.open_block(BLOCK).unwrap(), 1, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"ello");
    }

    #[test]
    fn a_corrupt_replica_is_quarantined_and_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlockStore::open(dir.path().into()).unwrap();
        write(&store, b"hello");
        let (coordinator, reports) = mpsc::channel();
        store.report_to(coordinator);
        flip(dir.path(), 2);
        let file = store.open_block(BLOCK).unwrap();
        assert!(store.read_at(&file, 0, &mut [0; 5]).is_err());
        assert!(store.read_at(&file, 0, &mut [0; 5]).is_err());
        assert_eq!(store.open_block(BLOCK).unwrap_err().kind(), io::ErrorKind::NotFound);
        let received: Vec<_> = reports.try_iter().skip(1).collect();
        assert!(matches!(received[..], [FromWorker::Store(StoreReport::Corrupt { block: BLOCK })]), "{received:?}");
        assert!(dir.path().join(format!("{BLOCK}.corrupt")).exists());
        write(&store, b"hello");
        assert!(!dir.path().join(format!("{BLOCK}.corrupt")).exists(), "a valid one replaced it");
        store.delete(BLOCK);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn looking_for_corrupt_replicas_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlockStore::open(dir.path().into()).unwrap();
        write(&store, b"hello");
        let before = store.verify(BLOCK, false).unwrap();
        flip(dir.path(), 2);
        assert!(is_corruption(&store.verify(BLOCK, false).unwrap_err()));
        flip(dir.path(), 2);
        assert_eq!(store.verify(BLOCK, false).unwrap(), before, "it was left in its place");
        fs::remove_file(store.path(BLOCK)).unwrap();
        assert!(is_corruption(&store.verify(BLOCK, false).unwrap_err()));
        assert_eq!(store.blocks(), [BLOCK]);
        assert!(is_corruption(&store.verify(BLOCK, true).unwrap_err()));
        assert_eq!(store.blocks(), []);
    }

    #[test]
    fn corruption_of_the_table_is_found_on_open() {
        let dir = tempfile::tempdir().unwrap();
        write(&BlockStore::open(dir.path().into()).unwrap(), b"hello");
        flip(dir.path(), 6);
        let store = BlockStore::open(dir.path().into()).unwrap();
        assert!(store.blocks().is_empty());
        assert!(store.index().corrupt.contains(&BLOCK));
        // The quarantine survives another restart.
        assert!(BlockStore::open(dir.path().into()).unwrap().index().corrupt.contains(&BLOCK));
    }

    #[test]
    fn an_unfinished_replica_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlockStore::open(dir.path().into()).unwrap();
        store.create(BLOCK).unwrap().write(b"hel").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
