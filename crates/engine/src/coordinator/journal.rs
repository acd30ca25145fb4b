//! The coordinator's durable state: the file `log` in the folder `journal`.
//!
//! It has every event with the core's actions, in the format that all backends write (an event log), and the metadata that only this backend needs
//! and an event log has no fields for: plans, counters, failures, results of jobs. Both are appended together: what was appended between two syncs is
//! one checksummed frame (`frames.rs`), so after a crash all of it is there, or nothing. No effect of a dropped frame has been executed.
//!
//! Now and then a frame has a snapshot (`snapshot.rs`) of all that follows from the frames before it. Recovery begins at the last one.
//!
//! `records.rs` converts between records and bytes; here are the files. Beside `log` is the file `synced` with the length of `log` at its last sync. It is
//! not synced itself, so after a power cut it may be out of date, but never ahead: a last frame that is damaged and within that length had been on
//! disk, and is reported like any other damage. One beyond it is the rest of an interrupted write, and is dropped.
//!
//! A coordinator locks its folder while it uses the journal: the lock is released when it is dropped, or with the process.

mod checksums;
mod clock;
mod frames;
mod records;
mod snapshot;
mod tail;

pub use clock::{Clock, ClockReading};
pub use tail::{JournalTail, journal_path};

pub(crate) use checksums::{correct_event_log, with_checksums};
pub(crate) use records::{DecodedJournal, JournalEncoder, Metadata, decode, event_log};
pub(crate) use snapshot::JournalSnapshot;

use super::archives;
use super::file_system::{AppendFile, Disk, FileSystem};
use crate::planted::{Bug, planted};
use giveway_core::SetupError;
use giveway_core::event_log::{EventLogError, EventLogWriteError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A file operation failed.
    #[error("cannot read or write the journal: {}: {error}; free disk space or check the permissions, then start again: no accepted job is lost", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// Another coordinator uses the journal.
    #[error("another coordinator uses {}; stop it first, or choose another directory", folder.display())]
    Locked { folder: PathBuf },
    /// The folder has a journal of a release with another format.
    #[error("cannot read the journal: {} does not exist; use the release that wrote this journal, or another directory", path.display())]
    OtherFormat { path: PathBuf },
    /// The file is damaged.
    #[error(
        "cannot read the journal {}: it is damaged at byte {at_bytes}; restore it from a backup, or move the directory away and submit the jobs again",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        /// Where the damage begins.
        at_bytes: usize,
    },
    /// The event log in the journal is invalid.
    #[error("cannot read the journal {}: {error}", path.display())]
    EventLog { path: PathBuf, error: EventLogError },
    /// A record cannot be decoded although its checksum is right.
    #[error("cannot read the journal {}: {error}; use the release that wrote it", path.display())]
    Decode { path: PathBuf, error: postcard::Error },
    /// A snapshot has another version.
    #[error("cannot read the journal {}: its snapshot has version {found}, this release reads version {known}; use the release that wrote it", path.display())]
    SnapshotVersion { path: PathBuf, found: u8, known: u8 },
    /// The records of one sync cannot be encoded.
    #[error("cannot write to the journal: {0}")]
    Frame(String),
    /// An event cannot be encoded.
    #[error("cannot write to the journal: {0}")]
    Encode(#[from] EventLogWriteError),
    /// A new journal cannot be started with the setup of the current one.
    #[error("cannot start a new journal: {0}")]
    Setup(#[from] SetupError),
}

/// The right to use the journal in a folder. Released when dropped.
#[derive(Debug)]
pub struct JournalLock(File);

/// Interval at which a taken lock is tried again.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Drop for JournalLock {
    fn drop(&mut self) {
        // Closing it is not enough: a child that another thread is starting right now may have a copy of the descriptor.
        let _ = self.0.unlock();
    }
}

impl JournalLock {
    /// Locks a cluster directory, which must exist.
    pub(crate) fn acquire(folder: &Path) -> Result<JournalLock, JournalError> {
        let path = folder.join("lock");
        let file = File::create(&path).map_err(io_error(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(JournalLock(file)),
            Err(fs::TryLockError::WouldBlock) => Err(JournalError::Locked { folder: folder.into() }),
            Err(fs::TryLockError::Error(error)) => Err(io_error(&path)(error)),
        }
    }

    /// Waits until no coordinator uses a cluster directory. Fails with [`JournalError::Locked`] if one still does after `timeout`.
    pub fn wait_until_free(folder: &Path, timeout: Duration) -> Result<(), JournalError> {
        JournalLock::acquire_within(folder, timeout).map(drop)
    }

    /// Locks a cluster directory as soon as it is free.
    pub(crate) fn acquire_within(folder: &Path, timeout: Duration) -> Result<JournalLock, JournalError> {
        let started = Instant::now();
        loop {
            match JournalLock::acquire(folder) {
                Err(JournalError::Locked { .. }) if started.elapsed() < timeout => {
                    std::thread::sleep(LOCK_POLL_INTERVAL);
                }
                acquired => return acquired,
            }
        }
    }
}

/// A journal that is open for appending.
pub(crate) struct Journal {
    disk: Arc<dyn FileSystem>,
    folder: PathBuf,
    file: Box<dyn AppendFile>,
    bytes: u64,
}

const LOG: &str = "log";

const SYNCED: &str = "synced";

impl Journal {
    /// Creates a journal with its first records. An existing one is archived as `journal-NNNN`, under the next number. Each step is one rename, so a crash at any
    /// moment leaves a complete journal.
    pub(crate) fn create(disk: Arc<dyn FileSystem>, folder: &Path, content: &[u8]) -> Result<Journal, JournalError> {
        let (new, current) = (folder.join("journal.new"), folder.join("journal"));
        disk.remove_folder(&new).map_err(io_error(&new))?;
        disk.create_folder(&new).map_err(io_error(&new))?;
        let path = new.join(LOG);
        disk.write(&path, content).map_err(io_error(&path))?;
        if !planted(Bug::RenamedBeforeSynced) {
            disk.sync(&path).map_err(io_error(&path))?;
        }
        disk.sync(&new).map_err(io_error(&new))?;
        if disk.exists(&current).map_err(io_error(&current))? {
            let last = last_archive(&*disk, folder).map_err(io_error(folder))?.unwrap_or(0);
            let free = folder.join(archives::name(last.saturating_add(1)));
            disk.rename(&current, &free).map_err(io_error(&current))?;
        }
        disk.rename(&new, &current).map_err(io_error(&current))?;
        disk.sync(folder).map_err(io_error(folder))?;
        Journal::open(disk, folder, content.len() as u64)
    }

    /// Opens the existing journal for appending. `valid_bytes` is the length of its valid part; the rest is cut off.
    pub(crate) fn open(disk: Arc<dyn FileSystem>, folder: &Path, valid_bytes: u64) -> Result<Journal, JournalError> {
        let path = folder.join("journal").join(LOG);
        let file = disk.open_to_append(&path, valid_bytes).map_err(io_error(&path))?;
        Ok(Journal { disk, folder: folder.into(), file, bytes: valid_bytes })
    }

    /// The bytes of the journal in a folder; `None` if there is none yet. Completes an interrupted [`Journal::create`].
    pub(crate) fn read(disk: &dyn FileSystem, folder: &Path) -> Result<Option<JournalFile>, JournalError> {
        let current = folder.join("journal");
        if disk.exists(&current).map_err(io_error(&current))? {
            // It was not completed. If somebody moved the present journal away, it must not take its place later.
            let new = folder.join("journal.new");
            disk.remove_folder(&new).map_err(io_error(&new))?;
        } else if !complete_interrupted_create(disk, folder, &current)? {
            return Ok(None);
        }
        JournalFile::read(disk, current.join(LOG)).map(Some)
    }

    /// Appends a frame and makes it durable.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), JournalError> {
        let path = self.folder.join("journal").join(LOG);
        let sync = |file: &mut Box<dyn AppendFile>| if planted(Bug::SkippedSync) { Ok(()) } else { file.sync() };
        self.file.append(frame).and_then(|()| sync(&mut self.file)).map_err(io_error(&path))?;
        self.bytes += frame.len() as u64;
        // Only serves to detect damage: without it, or with an older one, the journal is as good.
        let _ = self.disk.overwrite(&path.with_file_name(SYNCED), synced_text(self.bytes).as_bytes());
        Ok(())
    }

    /// Appends a last frame, if there is one, and starts a new journal in the place of this one, which is archived.
    pub(crate) fn replace(&mut self, last: &[u8], content: &[u8]) -> Result<(), JournalError> {
        if !last.is_empty() {
            self.append(last)?;
        }
        *self = Journal::create(Arc::clone(&self.disk), &self.folder, content)?;
        Ok(())
    }
}

/// The bytes of a journal.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    /// This many bytes, or more, were on disk.
    pub(crate) synced_bytes: u64,
}

impl JournalFile {
    fn read(disk: &dyn FileSystem, path: PathBuf) -> Result<JournalFile, JournalError> {
        let bytes = disk.read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => JournalError::OtherFormat { path: path.clone() },
            _ => io_error(&path)(error),
        })?;
        let synced = disk.read(&path.with_file_name(SYNCED)).ok();
        let synced = synced.as_deref().and_then(|text| text.strip_suffix(b"\n"));
        let synced_bytes = synced.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0);
        Ok(JournalFile { path, bytes, synced_bytes })
    }
}

/// Content of [`SYNCED`]. Always of the same length.
pub(crate) fn synced_text(bytes: u64) -> String {
    format!("{bytes:020}\n")
}

/// True if these are the first bytes of a journal file.
pub fn is_journal(bytes: &[u8]) -> bool {
    bytes.starts_with(&frames::MAGIC)
}

/// The event log in a journal file (`journal/log` in a cluster directory), as far as it is synced. It has no closing record. May be called while a
/// coordinator uses the journal.
pub fn read_event_log(path: &Path) -> Result<Vec<u8>, JournalError> {
    read_journal(path).map(|(events, _)| events)
}

/// The event log and the wall clock in a journal file.
pub fn read_journal(path: &Path) -> Result<(Vec<u8>, Clock), JournalError> {
    // The coordinator may be appending: what it has synced since is missing, which is no damage.
    let file = JournalFile { synced_bytes: 0, ..JournalFile::read(&Disk, path.into())? };
    records::event_log(&file).map(|(events, clock, _)| (events, clock))
}

/// Completes a [`Journal::create`] that was killed between its two renames: the old journal is archived, the new one is complete but not in
/// its place. Returns whether that was the case.
fn complete_interrupted_create(disk: &dyn FileSystem, folder: &Path, current: &Path) -> Result<bool, JournalError> {
    let new = folder.join("journal.new");
    if !disk.exists(&new).map_err(io_error(&new))? || last_archive(disk, folder).map_err(io_error(folder))?.is_none() {
        return Ok(false);
    }
    disk.rename(&new, current).and_then(|()| disk.sync(folder)).map_err(io_error(current))?;
    Ok(true)
}

/// The highest number of an archived journal.
fn last_archive(disk: &dyn FileSystem, folder: &Path) -> io::Result<Option<u32>> {
    Ok(disk.list(folder)?.iter().filter_map(|entry| archives::number(&entry.name)).max())
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::Io { path: path.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::policy::catalog;
    use giveway_core::{Event, JobId, Setup, Time, Timer};

    /// A journal with its encoder.
    pub(super) struct Open {
        journal: Journal,
        encoder: JournalEncoder,
    }

    impl Open {
        pub(super) fn create(folder: &Path) -> Open {
            let setup = Setup::new(catalog::by_name("fifo").unwrap());
            let mut encoder = JournalEncoder::begin(&setup, 7).unwrap();
            let content = encoder.take_frame().unwrap();
            Open { journal: Journal::create(Arc::new(Disk), folder, &content).unwrap(), encoder }
        }

        pub(super) fn append(&mut self, at: u32) {
            self.encoder.append_event(Time(at.into()), &Event::TimerFired { timer: Timer::Estimates }, &[]).unwrap();
            self.encoder.append_metadata(Metadata::FailureReported { job: JobId(at), text: "line\nbreak".into() });
            self.journal.append(&self.encoder.take_frame().unwrap()).unwrap();
        }
    }

    /// Creates a journal with three frames after the first, each with an event and a failure. Returns the path of its file.
    fn create_journal(folder: &Path) -> PathBuf {
        let mut open = Open::create(folder);
        (1..4).for_each(|at| open.append(at));
        folder.join("journal").join(LOG)
    }

    fn recover(folder: &Path) -> Result<DecodedJournal, JournalError> {
        decode(&Journal::read(&Disk, folder)?.expect("a journal"))
    }

    #[test]
    fn a_journal_truncated_at_any_byte_recovers_whole_frames() {
        let folder = tempfile::tempdir().unwrap();
        let path = create_journal(folder.path());
        let log = fs::read(&path).unwrap();
        let first = {
            let (frames, _) = frames::read_all(&log).unwrap();
            frames::MAGIC.len() + 8 + frames[0].len()
        };
        let mut max_records = 0;
        for length in first..log.len() {
            fs::write(&path, &log[..length]).unwrap();
            // As after a power cut: what is missing was not synced.
            fs::remove_file(path.with_file_name(SYNCED)).unwrap();
            let decoded = recover(folder.path()).unwrap();
            let complete = decoded.records.len();
            assert_eq!(decoded.metadata.len(), complete + 1, "events and metadata of a frame belong together");
            assert!(complete >= max_records, "a longer journal has no fewer records");
            max_records = complete;
            let journal = Journal::open(Arc::new(Disk), folder.path(), decoded.valid_bytes).unwrap();
            Open { journal, encoder: decoded.encoder }.append(9);
            assert_eq!(recover(folder.path()).unwrap().records.len(), complete + 1);
        }
        assert_eq!(max_records, 2, "the last frame was incomplete each time");
    }

    #[test]
    fn no_changed_bit_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = create_journal(folder.path());
        let log = fs::read(&path).unwrap();
        for at in 0..log.len() {
            let mut changed = log.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, &changed).unwrap();
            let error = recover(folder.path()).err().unwrap_or_else(|| panic!("byte {at}: accepted"));
            assert!(matches!(error, JournalError::Damaged { .. }), "byte {at}: {error}");
        }
    }

    #[test]
    fn a_folder_is_locked_until_its_lock_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let lock = JournalLock::acquire(folder.path()).unwrap();
        assert!(matches!(JournalLock::acquire(folder.path()), Err(JournalError::Locked { .. })));
        drop(lock);
        JournalLock::acquire(folder.path()).unwrap();
    }

    #[test]
    fn a_crash_between_the_renames_of_create_recovers_the_new_journal() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        create_journal(folder.path());
        fs::rename(folder.path().join("journal"), folder.path().join("journal.new")).unwrap();
        let decoded = recover(folder.path()).unwrap();
        assert!(matches!(decoded.metadata[0], Metadata::JournalCreated { next_job: 7 }));
    }

    /// Archives are removed, by the coordinator or by hand. What is left still tells that a journal was there.
    #[test]
    fn archives_that_were_removed_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        (0..3).for_each(|_| drop(create_journal(folder.path())));
        fs::remove_dir_all(at("journal-0001")).unwrap();
        create_journal(folder.path());
        assert!(at("journal-0003").exists() && !at("journal-0001").exists(), "the order of numbers is that of time");
        fs::rename(at("journal"), at("journal.new")).unwrap();
        assert_eq!(recover(folder.path()).unwrap().records.len(), 3);
        // One that was not completed does not come back when the journal after it was moved away.
        fs::create_dir(at("journal.new")).unwrap();
        recover(folder.path()).unwrap();
        fs::rename(at("journal"), at("moved")).unwrap();
        assert!(Journal::read(&Disk, folder.path()).unwrap().is_none());
    }

    #[test]
    fn create_archives_the_existing_journal() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        create_journal(folder.path());
        assert!(folder.path().join("journal-0001").join(LOG).exists());
        assert_eq!(recover(folder.path()).unwrap().records.len(), 3);
    }
}
