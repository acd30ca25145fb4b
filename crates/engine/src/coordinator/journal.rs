//! The coordinator's durable state: the folder `journal`.
//!
//! `event-log` has every event with the core's actions, in the format that all backends write. `metadata.jsonl` has what only this backend
//! needs and the event log has no fields for: plans, counters, failures, results of jobs; one JSON object per line. Both are append-only. Each
//! sync writes the metadata first. So metadata that the event log depends on is always there; metadata whose event is missing after a crash
//! belongs to work that is discarded or reported again.
//!
//! Recovery truncates both files to their last complete record. No effect of the truncated part has been executed.

use crate::job::Plan;
use crate::wire::Counters;
use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogWriteError, EventLogWriter, Record};
use giveway_core::{Action, AttemptId, Event, JobId, Outcome, Setup, SetupError, Time};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A line of `metadata.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metadata {
    /// The first line. Job ids continue from those of the previous journal.
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
    /// The journal has no event log.
    #[error("cannot read the journal: {} does not exist; use the release that wrote this journal, or another directory", path.display())]
    NoEventLog {
        /// The missing file.
        path: PathBuf,
    },
    /// The event log is damaged.
    #[error("cannot read the journal {}: {error}", path.display())]
    EventLog {
        /// The file.
        path: PathBuf,
        /// The damage.
        error: EventLogError,
    },
    /// A line of the metadata cannot be parsed.
    #[error("cannot parse line {line} of the journal's metadata {}: {error}; use the release that wrote it", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's error.
        error: serde_json::Error,
    },
    /// An event cannot be encoded.
    #[error("cannot write to the journal: {0}")]
    Encode(#[from] EventLogWriteError),
    /// A new journal cannot be started with the setup of the current one.
    #[error("cannot start a new journal: {0}")]
    Setup(#[from] SetupError),
}

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    event_log: AppendFile,
    metadata: AppendFile,
    writer: EventLogWriter,
}

/// The contents of an existing journal, and the journal itself, open for appending.
pub(crate) struct RecoveredJournal {
    pub(crate) setup: Setup,
    pub(crate) records: Vec<Record>,
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) journal: Journal,
}

const EVENT_LOG: &str = "event-log";
const METADATA: &str = "metadata.jsonl";

impl Journal {
    /// Creates a new journal in a folder. An existing one is archived as `journal-NNNN`. Each step is one rename, so a crash at any moment
    /// leaves a complete journal.
    pub(crate) fn create(folder: &Path, setup: &Setup, next_job: u32) -> Result<Journal, JournalError> {
        let (new, current) = (folder.join("journal.new"), folder.join("journal"));
        if new.exists() {
            fs::remove_dir_all(&new).map_err(io_error(&new))?;
        }
        fs::create_dir_all(&new).map_err(io_error(&new))?;
        let (writer, head) = EventLogWriter::begin(setup)?;
        let mut journal = Journal {
            event_log: AppendFile::create(new.join(EVENT_LOG))?,
            metadata: AppendFile::create(new.join(METADATA))?,
            writer,
        };
        journal.event_log.pending = head;
        journal.append_metadata(&Metadata::JournalCreated { next_job });
        journal.sync()?;
        sync_folder(&new)?;
        if current.exists() {
            let archived = |number: u32| folder.join(format!("journal-{number:04}"));
            let number = (1..).find(|&number| !archived(number).exists()).expect("there is always a next number");
            fs::rename(&current, archived(number)).map_err(io_error(&current))?;
        }
        fs::rename(&new, &current).map_err(io_error(&current))?;
        sync_folder(folder)?;
        (journal.event_log.path, journal.metadata.path) = (current.join(EVENT_LOG), current.join(METADATA));
        Ok(journal)
    }

    /// Opens the journal in a folder and truncates incomplete records. `None` if there is no journal.
    pub(crate) fn recover(folder: &Path) -> Result<Option<RecoveredJournal>, JournalError> {
        let current = folder.join("journal");
        if !current.exists() && !complete_interrupted_create(folder, &current)? {
            return Ok(None);
        }
        let path = current.join(EVENT_LOG);
        let mut decoder = EventLogDecoder::new();
        let mut records = Vec::new();
        let damaged = |error| JournalError::EventLog { path: path.clone(), error };
        let mut file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => JournalError::NoEventLog { path: path.clone() },
            _ => io_error(&path)(error),
        })?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let bytes = file.read(&mut buffer).map_err(io_error(&path))?;
            if bytes == 0 {
                break;
            }
            decoder.feed(&buffer[..bytes]);
            while let Some(record) = decoder.pull().map_err(damaged)? {
                records.push(record);
            }
        }
        let (Some(setup), Some(writer)) = (decoder.setup().cloned(), decoder.writer()) else {
            return Err(damaged(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
        };
        let (metadata, valid_bytes) = read_metadata(&current.join(METADATA))?;
        let journal = Journal {
            event_log: AppendFile::open(path, decoder.valid_bytes())?,
            metadata: AppendFile::open(current.join(METADATA), valid_bytes)?,
            writer,
        };
        Ok(Some(RecoveredJournal { setup, records, metadata, journal }))
    }

    /// Appends a call of the core to the event log. Durable after the next sync.
    pub(crate) fn append_event(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), JournalError> {
        Ok(self.writer.record(now, event, actions, &mut self.event_log.pending)?)
    }

    /// Appends a line to the metadata. Durable after the next sync.
    pub(crate) fn append_metadata(&mut self, metadata: &Metadata) {
        serde_json::to_writer(&mut self.metadata.pending, metadata).expect("metadata is plain data");
        self.metadata.pending.push(b'\n');
    }

    /// Writes and syncs all appended records, the metadata first. Does nothing if there are none.
    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        self.metadata.sync()?;
        self.event_log.sync()
    }

    /// Size of the event log on disk.
    pub(crate) fn event_log_bytes(&self) -> u64 {
        self.event_log.bytes
    }
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

/// Reads the complete lines of the metadata, and returns their size.
fn read_metadata(path: &Path) -> Result<(Vec<Metadata>, u64), JournalError> {
    let file = File::open(path).map_err(io_error(path))?;
    let mut reader = BufReader::new(file);
    let (mut metadata, mut valid_bytes, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line).map_err(io_error(path))?;
        // A last line without a newline is incomplete.
        if bytes == 0 || !line.ends_with(b"\n") {
            return Ok((metadata, valid_bytes));
        }
        let parsed = serde_json::from_slice(&line).map_err(|error| JournalError::Metadata {
            path: path.into(),
            line: metadata.len() + 1,
            error,
        })?;
        metadata.push(parsed);
        valid_bytes += bytes as u64;
    }
}

/// An append-only file with a buffer of records that are not written yet.
#[derive(Debug)]
struct AppendFile {
    path: PathBuf,
    file: File,
    /// Size on disk.
    bytes: u64,
    pending: Vec<u8>,
}

impl AppendFile {
    fn create(path: PathBuf) -> Result<AppendFile, JournalError> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io_error(&path))?;
        Ok(AppendFile { path, file, bytes: 0, pending: Vec::new() })
    }

    /// Opens an existing file and truncates it to `valid_bytes`.
    fn open(path: PathBuf, valid_bytes: u64) -> Result<AppendFile, JournalError> {
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io_error(&path))?;
        file.set_len(valid_bytes).map_err(io_error(&path))?;
        file.seek(SeekFrom::End(0)).map_err(io_error(&path))?;
        file.sync_all().map_err(io_error(&path))?;
        Ok(AppendFile { path, file, bytes: valid_bytes, pending: Vec::new() })
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.pending).and_then(|()| self.file.sync_data()).map_err(io_error(&self.path))?;
        self.bytes += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
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

    /// Creates a journal with three events and three failures.
    fn create_journal(folder: &Path) {
        let mut journal = Journal::create(folder, &setup(), 7).unwrap();
        for at in 1..4 {
            journal.append_event(Time(at), &Event::TimerFired { timer: Timer::Estimates }, &[]).unwrap();
            journal.append_metadata(&Metadata::FailureReported { job: JobId(at as u32), text: "line\nbreak".into() });
            journal.sync().unwrap();
        }
    }

    #[test]
    fn an_event_log_truncated_at_any_byte_recovers_its_complete_records() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        let current = folder.path().join("journal");
        let event_log = fs::read(current.join(EVENT_LOG)).unwrap();
        let head = EventLogWriter::begin(&setup()).unwrap().1.len();
        let mut max_records = 0;
        for length in head..event_log.len() {
            fs::write(current.join(EVENT_LOG), &event_log[..length]).unwrap();
            let mut recovered = Journal::recover(folder.path()).unwrap().unwrap();
            let complete = recovered.records.len();
            assert!(complete >= max_records, "a longer event log has no fewer records");
            max_records = complete;
            recovered.journal.append_event(Time(9), &Event::TimerFired { timer: Timer::Estimates }, &[]).unwrap();
            recovered.journal.sync().unwrap();
            let again = Journal::recover(folder.path()).unwrap().unwrap();
            assert_eq!(again.records.len(), complete + 1);
        }
        assert_eq!(max_records, 2, "the last record was incomplete each time");
    }

    #[test]
    fn truncated_metadata_loses_only_its_last_line() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        let path = folder.path().join("journal").join(METADATA);
        let metadata = fs::read(&path).unwrap();
        fs::write(&path, &metadata[..metadata.len() - 3]).unwrap();
        let recovered = Journal::recover(folder.path()).unwrap().unwrap();
        assert_eq!(recovered.metadata.len(), 3);
        assert!(matches!(recovered.metadata[0], Metadata::JournalCreated { next_job: 7 }));
    }

    #[test]
    fn a_crash_between_the_renames_of_create_recovers_the_new_journal() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        create_journal(folder.path());
        fs::rename(folder.path().join("journal"), folder.path().join("journal.new")).unwrap();
        let recovered = Journal::recover(folder.path()).unwrap().unwrap();
        assert!(matches!(recovered.metadata[0], Metadata::JournalCreated { next_job: 7 }));
    }

    #[test]
    fn create_archives_the_existing_journal() {
        let folder = tempfile::tempdir().unwrap();
        create_journal(folder.path());
        create_journal(folder.path());
        assert!(folder.path().join("journal-0001").join(EVENT_LOG).exists());
        assert_eq!(Journal::recover(folder.path()).unwrap().unwrap().records.len(), 3);
    }
}
