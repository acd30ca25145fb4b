//! The coordinator's durable state: the file `log` in the folder `journal`.
//!
//! It has every event with the core's actions, in the format that all backends write (an event log), and the metadata that only this backend needs
//! and an event log has no fields for: plans, counters, failures, results of jobs. Both are appended together: what was appended between two syncs is
//! one checksummed frame (`frames.rs`), so after a crash all of it is there, or nothing. No effect of a dropped frame has been executed.
//!
//! A journal is locked while it is open: the lock is released when the journal is dropped, or with the process.

mod frames;
mod tail;

pub use tail::{JournalTail, journal_path};

use crate::job::Plan;
use crate::wire::Counters;
use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogWriteError, EventLogWriter, Record};
use giveway_core::{Action, AttemptId, Event, JobId, Outcome, Setup, SetupError, Time};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// What a journal has beside events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Metadata {
    /// The first record. Job ids continue from those of the previous journal.
    JournalCreated { next_job: u32 },
    /// A job was planned.
    JobPlanned(Box<Plan>),
    /// An attempt ended with these counters.
    CountersReported { attempt: AttemptId, counters: Counters },
    /// Something failed in a job.
    FailureReported { job: JobId, text: String },
    /// A client killed a job whose tasks had all ended, before its output was published.
    KillRequested { job: JobId },
    /// A job has ended and its output has been published or removed.
    JobFinalized { job: JobId, outcome: Outcome, next_round: Option<JobId> },
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A file operation failed.
    #[error("cannot read or write the journal: {}: {error}; free disk space or check the permissions, then start again: no accepted job is lost", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another coordinator uses the journal.
    #[error("another coordinator uses {}; stop it first, or choose another directory", folder.display())]
    Locked {
        /// The cluster's folder.
        folder: PathBuf,
    },
    /// The folder has a journal of a release with another format.
    #[error("cannot read the journal: {} does not exist; use the release that wrote this journal, or another directory", path.display())]
    OtherFormat {
        /// The missing file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "cannot read the journal {}: it is damaged at byte {at_bytes}, and more follows; restore it from a backup, or move the folder away and submit the jobs again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        at_bytes: usize,
    },
    /// The event log in the journal is invalid.
    #[error("cannot read the journal {}: {error}", path.display())]
    EventLog {
        /// The file.
        path: PathBuf,
        /// The damage.
        error: EventLogError,
    },
    /// A record cannot be decoded although its checksum is right.
    #[error("cannot read the journal {}: {error}; use the release that wrote it", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// The decoder's error.
        error: postcard::Error,
    },
    /// The records of one sync cannot be encoded.
    #[error("cannot write to the journal {}: {reason}", path.display())]
    Frame {
        /// The file.
        path: PathBuf,
        /// The encoder's error.
        reason: String,
    },
    /// An event cannot be encoded.
    #[error("cannot write to the journal: {0}")]
    Encode(#[from] EventLogWriteError),
    /// A new journal cannot be started with the setup of the current one.
    #[error("cannot start a new journal: {0}")]
    Setup(#[from] SetupError),
}

/// The records of one frame.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Batch {
    metadata: Vec<Metadata>,
    /// Bytes of the event log. The event logs of all frames together are one.
    events: Vec<u8>,
}

/// The right to use the journal in a folder. Released when dropped.
#[derive(Debug)]
pub(crate) struct JournalLock(Arc<LockedFile>);

#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing it is not enough: a child that another thread is starting right now may have a copy of the descriptor.
        let _ = self.0.unlock();
    }
}

impl JournalLock {
    /// Locks a cluster's folder, which must exist.
    pub(crate) fn acquire(folder: &Path) -> Result<JournalLock, JournalError> {
        let path = folder.join("lock");
        let file = File::create(&path).map_err(io_error(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(JournalLock(Arc::new(LockedFile(file)))),
            Err(fs::TryLockError::WouldBlock) => Err(JournalError::Locked { folder: folder.into() }),
            Err(fs::TryLockError::Error(error)) => Err(io_error(&path)(error)),
        }
    }
}

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Size on disk.
    bytes: u64,
    pending: Batch,
    writer: EventLogWriter,
    lock: JournalLock,
}

/// The contents of an existing journal, and the journal itself, open for appending.
pub(crate) struct RecoveredJournal {
    pub(crate) setup: Setup,
    pub(crate) records: Vec<Record>,
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) journal: Journal,
}

/// Result of [`Journal::recover`].
pub(crate) enum OpenedJournal {
    /// There is no journal yet.
    Empty(JournalLock),
    /// The journal was read.
    Recovered(Box<RecoveredJournal>),
}

const LOG: &str = "log";

impl Journal {
    /// Creates a new journal in a folder. An existing one is archived as `journal-NNNN`. Each step is one rename, so a crash at any moment
    /// leaves a complete journal.
    pub(crate) fn create(
        folder: &Path,
        setup: &Setup,
        next_job: u32,
        lock: JournalLock,
    ) -> Result<Journal, JournalError> {
        let (new, current) = (folder.join("journal.new"), folder.join("journal"));
        if new.exists() {
            fs::remove_dir_all(&new).map_err(io_error(&new))?;
        }
        fs::create_dir_all(&new).map_err(io_error(&new))?;
        let (writer, events) = EventLogWriter::begin(setup)?;
        let path = new.join(LOG);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io_error(&path))?;
        file.write_all(&frames::MAGIC).map_err(io_error(&path))?;
        let pending = Batch { metadata: vec![Metadata::JournalCreated { next_job }], events };
        let mut journal = Journal { path, file, bytes: frames::MAGIC.len() as u64, pending, writer, lock };
        journal.sync()?;
        sync_folder(&new)?;
        if current.exists() {
            let archived = |number: u32| folder.join(format!("journal-{number:04}"));
            let free = (1..=u32::MAX).map(archived).find(|path| !path.exists());
            fs::rename(&current, free.unwrap_or_else(|| archived(0))).map_err(io_error(&current))?;
        }
        fs::rename(&new, &current).map_err(io_error(&current))?;
        sync_folder(folder)?;
        journal.path = current.join(LOG);
        Ok(journal)
    }

    /// Starts a new journal in the place of this one, which is archived.
    pub(crate) fn replace(&self, folder: &Path, setup: &Setup, next_job: u32) -> Result<Journal, JournalError> {
        Journal::create(folder, setup, next_job, JournalLock(Arc::clone(&self.lock.0)))
    }

    /// Opens the journal in a folder and drops an incomplete last frame.
    pub(crate) fn recover(folder: &Path, lock: JournalLock) -> Result<OpenedJournal, JournalError> {
        let current = folder.join("journal");
        if !current.exists() && !complete_interrupted_create(folder, &current)? {
            return Ok(OpenedJournal::Empty(lock));
        }
        let path = current.join(LOG);
        let Contents { metadata, events, valid_bytes } = read_contents(&path)?;
        let damaged = |error| JournalError::EventLog { path: path.clone(), error };
        let mut decoder = EventLogDecoder::new();
        decoder.feed(&events);
        let mut records = Vec::new();
        while let Some(record) = decoder.pull().map_err(damaged)? {
            records.push(record);
        }
        let (Some(setup), Some(writer)) = (decoder.setup().cloned(), decoder.writer()) else {
            return Err(damaged(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
        };
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io_error(&path))?;
        file.set_len(valid_bytes).map_err(io_error(&path))?;
        file.seek(SeekFrom::End(0)).map_err(io_error(&path))?;
        file.sync_all().map_err(io_error(&path))?;
        let journal = Journal { path, file, bytes: valid_bytes, pending: Batch::default(), writer, lock };
        Ok(OpenedJournal::Recovered(Box::new(RecoveredJournal { setup, records, metadata, journal })))
    }

    /// Appends a call of the core. Durable after the next sync.
    pub(crate) fn append_event(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), JournalError> {
        Ok(self.writer.record(now, event, actions, &mut self.pending.events)?)
    }

    /// Appends metadata. Durable after the next sync.
    pub(crate) fn append_metadata(&mut self, metadata: Metadata) {
        self.pending.metadata.push(metadata);
    }

    /// Writes and syncs all appended records as one frame. Does nothing if there are none.
    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        if self.pending.metadata.is_empty() && self.pending.events.is_empty() {
            return Ok(());
        }
        let failed = |reason: String| JournalError::Frame { path: self.path.clone(), reason };
        let content = postcard::to_allocvec(&self.pending).map_err(|error| failed(error.to_string()))?;
        let mut frame = Vec::with_capacity(content.len() + 8);
        if !frames::write(&content, &mut frame) {
            return Err(failed(format!("{} bytes at once are too much", content.len())));
        }
        self.file.write_all(&frame).and_then(|()| self.file.sync_data()).map_err(io_error(&self.path))?;
        self.bytes += frame.len() as u64;
        self.pending = Batch::default();
        Ok(())
    }

    /// Size on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a journal file has.
struct Contents {
    metadata: Vec<Metadata>,
    events: Vec<u8>,
    valid_bytes: u64,
}

fn read_contents(path: &Path) -> Result<Contents, JournalError> {
    let file = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => JournalError::OtherFormat { path: path.into() },
        _ => io_error(path)(error),
    })?;
    let damaged = |frames::Damaged { at_bytes }| JournalError::Damaged { path: path.into(), at_bytes };
    let (frames, valid_bytes) = frames::read_all(&file).map_err(damaged)?;
    let mut contents = Contents { metadata: Vec::new(), events: Vec::new(), valid_bytes: valid_bytes as u64 };
    for frame in frames {
        let batch: Batch =
            postcard::from_bytes(frame).map_err(|error| JournalError::Decode { path: path.into(), error })?;
        contents.metadata.extend(batch.metadata);
        contents.events.extend(batch.events);
    }
    Ok(contents)
}

/// True if these are the first bytes of a journal file.
pub fn is_journal(bytes: &[u8]) -> bool {
    bytes.starts_with(&frames::MAGIC)
}

/// The event log in a journal file (`journal/log` in a cluster's folder), as far as it is synced. It has no end record. May be called while a
/// coordinator uses the journal.
pub fn read_event_log(path: &Path) -> Result<Vec<u8>, JournalError> {
    read_contents(path).map(|contents| contents.events)
}

fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(folder))
}

/// Completes a [`Journal::create`] that was killed between its two renames: the old journal is archived, the new one is complete but not in
/// its place. Returns whether that was the case.
fn complete_interrupted_create(folder: &Path, current: &Path) -> Result<bool, JournalError> {
    let has_archive = folder.join("journal-0001").exists();
    let new = folder.join("journal.new");
    if !has_archive || !new.exists() {
        return Ok(false);
    }
    fs::rename(&new, current).map_err(io_error(current))?;
    sync_folder(folder)?;
    Ok(true)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::Io { path: path.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::Timer;
    use giveway_core::policy::catalog;

    fn setup() -> Setup {
        Setup::new(catalog::by_name("fifo").unwrap())
    }

    fn lock(folder: &Path) -> JournalLock {
        JournalLock::acquire(folder).unwrap()
    }

    fn append(journal: &mut Journal, at: u32) {
        journal.append_event(Time(at.into()), &Event::TimerFired { timer: Timer::Estimates }, &[]).unwrap();
        journal.append_metadata(Metadata::FailureReported { job: JobId(at), text: "line\nbreak".into() });
        journal.sync().unwrap();
    }

    /// Creates a journal with three frames after the first, each with an event and a failure.
    fn create_journal(folder: &Path) {
        let mut journal = Journal::create(folder, &setup(), 7, lock(folder)).unwrap();
        (1..4).for_each(|at| append(&mut journal, at));
    }

    fn recover(folder: &Path) -> Result<RecoveredJournal, JournalError> {
        match Journal::recover(folder, lock(folder))? {
            OpenedJournal::Recovered(found) => Ok(*found),
            OpenedJournal::Empty(_) => panic!("no journal"),
        }
    }

    #[test]
    fn a_journal_truncated_at_any_byte_recovers_whole_frames() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        let path = folder.path().join("journal").join(LOG);
        let log = fs::read(&path).unwrap();
        let first = {
            let (frames, _) = frames::read_all(&log).unwrap();
            frames::MAGIC.len() + 8 + frames[0].len()
        };
        let mut max_records = 0;
        for length in first..log.len() {
            fs::write(&path, &log[..length]).unwrap();
            let mut recovered = recover(folder.path()).unwrap();
            let complete = recovered.records.len();
            assert_eq!(recovered.metadata.len(), complete + 1, "events and metadata of a frame belong together");
            assert!(complete >= max_records, "a longer journal has no fewer records");
            max_records = complete;
            append(&mut recovered.journal, 9);
            drop(recovered);
            assert_eq!(recover(folder.path()).unwrap().records.len(), complete + 1);
        }
        assert_eq!(max_records, 2, "the last frame was incomplete each time");
    }

    #[test]
    fn no_changed_bit_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        let path = folder.path().join("journal").join(LOG);
        let log = fs::read(&path).unwrap();
        for at in 0..log.len() {
            let mut changed = log.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, &changed).unwrap();
            match recover(folder.path()) {
                // A damaged last frame cannot be told from one that was not synced.
                Ok(recovered) => assert_eq!(recovered.records.len(), 2, "byte {at}"),
                Err(error) => assert!(matches!(error, JournalError::Damaged { .. }), "byte {at}: {error}"),
            }
        }
    }

    #[test]
    fn a_journal_is_locked_while_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(folder.path(), &setup(), 1, lock(folder.path())).unwrap();
        assert!(matches!(JournalLock::acquire(folder.path()), Err(JournalError::Locked { .. })));
        let second = journal.replace(folder.path(), &setup(), 1).unwrap();
        drop(journal);
        assert!(matches!(JournalLock::acquire(folder.path()), Err(JournalError::Locked { .. })));
        drop(second);
        lock(folder.path());
    }

    #[test]
    fn a_crash_between_the_renames_of_create_recovers_the_new_journal() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        create_journal(folder.path());
        fs::rename(folder.path().join("journal"), folder.path().join("journal.new")).unwrap();
        let recovered = recover(folder.path()).unwrap();
        assert!(matches!(recovered.metadata[0], Metadata::JournalCreated { next_job: 7 }));
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
