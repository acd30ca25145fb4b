//! The programs of a cluster, in the folder `programs` of its folder: one file for each, named by its SHA-256, that only the owner can read and execute.
//!
//! A file is there completely or not at all, and is on disk before the job that needs it is in the journal. It is removed when no live job needs it,
//! unless a client is about to submit one: a [`Pin`] prevents that.

use super::id::Hasher;
use super::{PROGRAM_BYTES_MAX, ProgramId, elf};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use thiserror::Error;

/// The folder in the cluster directory.
const FOLDER: &str = "programs";

/// Extension of a file that is being written.
const NEW: &str = "new";

/// Why a program is not stored.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error(
        "the program has {bytes} bytes, and at most {PROGRAM_BYTES_MAX} are accepted; build it with --release, or `strip` it"
    )]
    TooLarge { bytes: u64 },
    #[error("the program cannot be used: {0}")]
    Unusable(String),
    #[error(
        "the program was changed or damaged on its way: its SHA-256 is not the announced one; submit the job again"
    )]
    OtherContent,
    #[error("cannot store the program: {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

/// The coordinator's answer to a client that offers a program.
#[derive(Debug)]
pub(crate) enum Offer {
    /// It is the coordinator's own executable: its applications are built in.
    BuiltIn,
    /// It is there. Not removed while the pin exists.
    Stored(Pin),
    /// It is to be sent.
    Wanted(Box<Upload>),
}

/// The programs of a cluster.
pub(crate) struct ProgramStore {
    folder: PathBuf,
    /// Number of pins by program.
    pins: Mutex<BTreeMap<ProgramId, usize>>,
    next_upload: AtomicU64,
    /// Called when the last pin of a program is dropped.
    on_unpinned: Box<dyn Fn(ProgramId) + Send + Sync>,
}

impl std::fmt::Debug for ProgramStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl ProgramStore {
    /// The programs of the cluster in a folder. `on_unpinned` is called when the last pin of a program is dropped.
    pub(crate) fn new(cluster: &Path, on_unpinned: impl Fn(ProgramId) + Send + Sync + 'static) -> Arc<ProgramStore> {
        Arc::new(ProgramStore {
            folder: cluster.join(FOLDER),
            pins: Mutex::default(),
            next_upload: AtomicU64::new(0),
            on_unpinned: Box::new(on_unpinned),
        })
    }

    /// Where a program is.
    pub(crate) fn path(cluster: &Path, program: ProgramId) -> PathBuf {
        cluster.join(FOLDER).join(program.to_string())
    }

    /// Removes the programs that are not needed and unfinished uploads. Called at the start, when nothing is pinned. Files of other names are not ours.
    pub(crate) fn retain(&self, needed: impl Fn(ProgramId) -> bool) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_removed = match entry.file_name().to_str().and_then(ProgramId::parse) {
                Some(program) => !needed(program),
                None => path.extension().is_some_and(|extension| extension == NEW),
            };
            if is_removed {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Removes a program that no live job needs, unless it is pinned.
    pub(crate) fn remove(&self, program: ProgramId) {
        let pins = self.pins();
        if pins.contains_key(&program) {
            return;
        }
        let path = self.folder.join(program.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove the program {}: {error}; remove it by hand", path.display());
            }
            _ => {}
        }
    }

    /// Handles the offer of a program.
    pub(crate) fn offer(self: &Arc<ProgramStore>, program: ProgramId, bytes: u64) -> Result<Offer, StoreError> {
        if bytes > PROGRAM_BYTES_MAX {
            return Err(StoreError::TooLarge { bytes });
        }
        if bytes == 0 {
            return Err(StoreError::Unusable("the file is empty; give the program that `cargo build` made".into()));
        }
        if is_own_executable(program, bytes) {
            return Ok(Offer::BuiltIn);
        }
        // Pinned first: from now on it is not removed.
        let pin = self.pin(program);
        if fs::metadata(self.folder.join(program.to_string())).is_ok_and(|found| found.len() == bytes) {
            return Ok(Offer::Stored(pin));
        }
        Ok(Offer::Wanted(Box::new(Upload::begin(pin, program, bytes)?)))
    }

    /// Prevents the removal of a program, whether it is there or not.
    pub(crate) fn pin(self: &Arc<ProgramStore>, program: ProgramId) -> Pin {
        *self.pins().entry(program).or_default() += 1;
        Pin { store: Arc::clone(self), program }
    }

    fn pins(&self) -> MutexGuard<'_, BTreeMap<ProgramId, usize>> {
        // A map of numbers is not left in an invalid state by a panic.
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares sizes first: nearly every offered program has another size than this process's executable.
fn is_own_executable(program: ProgramId, bytes: u64) -> bool {
    static OWN: OnceLock<Option<ProgramId>> = OnceLock::new();
    let Ok(own) = File::open("/proc/self/exe") else { return false };
    own.metadata().is_ok_and(|metadata| metadata.len() == bytes)
        && *OWN.get_or_init(|| ProgramId::of(own).ok().map(|(own, _)| own)) == Some(program)
}

/// While it exists, a program is not removed.
#[derive(Debug)]
pub(crate) struct Pin {
    store: Arc<ProgramStore>,
    program: ProgramId,
}

impl Pin {
    pub(crate) fn program(&self) -> ProgramId {
        self.program
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.store.pins();
        match pins.get_mut(&self.program) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                pins.remove(&self.program);
                drop(pins);
                (self.store.on_unpinned)(self.program);
            }
        }
    }
}

/// A program that a client is sending. What is incomplete is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Upload {
    pin: Option<Pin>,
    program: ProgramId,
    bytes: u64,
    received: u64,
    first_bytes: Vec<u8>,
    hasher: Hasher,
    file: File,
    path: PathBuf,
}

impl Upload {
    fn begin(pin: Pin, program: ProgramId, bytes: u64) -> Result<Upload, StoreError> {
        let store = Arc::clone(&pin.store);
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |error| StoreError::Io { path, error }
        };
        crate::wire::run_folder::make_private(&store.folder).map_err(failed(&store.folder))?;
        let number = store.next_upload.fetch_add(1, Ordering::Relaxed);
        let path = store.folder.join(format!("{}-{number}.{NEW}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o700).open(&path).map_err(failed(&path))?;
        let (received, first_bytes, hasher) = (0, Vec::new(), Hasher::default());
        Ok(Upload { pin: Some(pin), program, bytes, received, first_bytes, hasher, file, path })
    }

    /// Adds a piece. Returns the pin of the program once it is complete and stored.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<Option<Pin>, StoreError> {
        self.received = self.received.saturating_add(piece.len() as u64);
        if piece.is_empty() || self.received > self.bytes {
            return Err(StoreError::OtherContent);
        }
        let missing = elf::HEADER_BYTES.saturating_sub(self.first_bytes.len());
        if missing > 0 {
            self.first_bytes.extend_from_slice(piece.get(..missing).unwrap_or(piece));
        }
        if self.first_bytes.len() >= elf::HEADER_BYTES || self.received == self.bytes {
            elf::check(&self.first_bytes).map_err(StoreError::Unusable)?;
        }
        self.hasher.update(piece);
        self.file.write_all(piece).map_err(|error| self.failed(error))?;
        if self.received < self.bytes {
            return Ok(None);
        }
        if self.hasher.clone().finish() != self.program {
            return Err(StoreError::OtherContent);
        }
        self.publish().map_err(|error| self.failed(error))?;
        Ok(self.pin.take())
    }

    /// Two clients may send the same program at the same time: the second one replaces the file by the same content.
    fn publish(&self) -> io::Result<()> {
        self.file.sync_all()?;
        let Some(folder) = self.path.parent() else { return Ok(()) };
        fs::rename(&self.path, folder.join(self.program.to_string()))?;
        File::open(folder)?.sync_all()
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), error }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Fails if it was completed: it has another name then.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Something with the header of an executable for this machine, and its id.
    fn program(rest: &[u8]) -> (Vec<u8>, ProgramId) {
        let mut bytes = fs::read("/proc/self/exe").unwrap();
        bytes.truncate(elf::HEADER_BYTES);
        bytes.extend(rest);
        let (id, _) = ProgramId::of(bytes.as_slice()).unwrap();
        (bytes, id)
    }

    fn store(folder: &Path) -> (Arc<ProgramStore>, Arc<Mutex<Vec<ProgramId>>>) {
        let unpinned = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&unpinned);
        (ProgramStore::new(folder, move |program| list.lock().unwrap().push(program)), unpinned)
    }

    fn wanted(store: &Arc<ProgramStore>, id: ProgramId, bytes: u64) -> Box<Upload> {
        match store.offer(id, bytes).unwrap() {
            Offer::Wanted(upload) => upload,
            other => panic!("{other:?}"),
        }
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder.join(FOLDER)).unwrap().count()
    }

    #[test]
    fn a_program_is_stored_once_and_kept_while_it_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let (store, unpinned) = store(folder.path());
        let (bytes, id) = program(&[7; 100]);
        let mut upload = wanted(&store, id, bytes.len() as u64);
        assert!(upload.add(&bytes[..3]).unwrap().is_none());
        let pin = upload.add(&bytes[3..]).unwrap().unwrap();
        drop(upload);
        let path = ProgramStore::path(folder.path(), id);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(files(folder.path()), 1);
        let Offer::Stored(second) = store.offer(id, bytes.len() as u64).unwrap() else { panic!("it is stored") };
        drop(pin);
        store.remove(id);
        assert!(path.exists() && unpinned.lock().unwrap().is_empty(), "pinned by the second client");
        drop(second);
        assert_eq!(*unpinned.lock().unwrap(), [id]);
        store.remove(id);
        store.remove(id);
        assert!(!path.exists());
    }

    #[test]
    fn nothing_is_left_of_an_upload_that_is_refused_or_not_completed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, unpinned) = store(folder.path());
        let (bytes, id) = program(&[7; 100]);
        let length = bytes.len() as u64;
        let mut damaged = bytes.clone();
        damaged[50] ^= 1;
        assert!(matches!(wanted(&store, id, length).add(&damaged), Err(StoreError::OtherContent)));
        assert!(matches!(wanted(&store, id, length - 1).add(&bytes), Err(StoreError::OtherContent)));
        assert!(matches!(wanted(&store, id, length).add(&[]), Err(StoreError::OtherContent)));
        let (text, of_text) = (b"#!/bin/sh\n", ProgramId::of(&b"#!/bin/sh\n"[..]).unwrap().0);
        let error = wanted(&store, of_text, text.len() as u64).add(text).unwrap_err();
        assert!(error.to_string().contains("not an executable"), "{error}");
        assert!(matches!(store.offer(id, PROGRAM_BYTES_MAX + 1), Err(StoreError::TooLarge { .. })));
        wanted(&store, id, length).add(&bytes[..60]).unwrap();
        assert_eq!(files(folder.path()), 0);
        assert_eq!(unpinned.lock().unwrap().len(), 5);
    }

    #[test]
    fn the_executable_of_this_process_is_built_in() {
        let folder = tempfile::tempdir().unwrap();
        let (id, bytes) = ProgramId::of(File::open("/proc/self/exe").unwrap()).unwrap();
        assert!(matches!(store(folder.path()).0.offer(id, bytes).unwrap(), Offer::BuiltIn));
    }

    #[test]
    fn a_start_removes_what_no_live_job_needs() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = store(folder.path());
        let (needed, other) = (program(b"a").1, program(b"b").1);
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        for name in [needed.to_string(), other.to_string(), "12-0.new".into(), "strange".into()] {
            fs::write(folder.path().join(FOLDER).join(name), "x").unwrap();
        }
        store.retain(|program| program == needed);
        assert_eq!(files(folder.path()), 2);
        assert!(ProgramStore::path(folder.path(), needed).exists());
        assert!(folder.path().join(FOLDER).join("strange").exists(), "a file that is not the store's was removed");
    }
}
