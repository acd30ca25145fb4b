//! What the coordinator must not forget, on disk.
//!
//! The *event log* is the core's: every event and what the core answered, in the format all bodies write. The *notes* beside it hold what only this
//! body needs and the event log has no words for: plans, counters, what went wrong; one JSON object to a line. Both only grow. Within a batch the
//! notes are synced first, so whatever the event log speaks of has its notes; notes the event log never came to speak of belong to nothing and are
//! skipped.
//!
//! After a crash the event log is cut back to its last whole record: whatever was cut had not been acted upon.

use crate::job::Plan;
use crate::wire::Counters;
use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogWriter, Record};
use giveway_core::{Action, AttemptId, Event, JobId, Outcome, Setup, Time};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A line of the notes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// The first line: job numbers go on from here.
    Begun { next_job: u32 },
    /// A job was planned.
    Planned(Box<Plan>),
    /// An attempt is over and this is what it counted.
    Counted { attempt: AttemptId, counters: Counters },
    /// Something went wrong in a job.
    Problem { job: JobId, text: String },
    /// A job is over and its output has been published or removed.
    Ended { job: JobId, outcome: Outcome, next: Option<JobId> },
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The disk says no.
    #[error("the journal {}: {error}; free space or check the permissions, then start again: nothing accepted is lost", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// The event log is damaged.
    #[error("the journal {}: {error}", path.display())]
    EventLog {
        /// The file.
        path: PathBuf,
        /// How.
        error: EventLogError,
    },
    /// A line of the notes makes no sense.
    #[error("the journal's notes {}, line {line}: {problem}; use the release that wrote them", path.display())]
    Note {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A record that cannot be written down.
    #[error("cannot be written down: {0}")]
    Record(String),
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    event_log: Log,
    notes: Log,
    writer: EventLogWriter,
}

/// What a journal of an earlier life holds.
pub(crate) struct Found {
    pub(crate) setup: Setup,
    pub(crate) records: Vec<Record>,
    pub(crate) notes: Vec<Note>,
    pub(crate) journal: Journal,
}

const EVENT_LOG: &str = "event log";
const NOTES: &str = "notes";

impl Journal {
    /// Begins a new journal in a folder; one that is there is put aside under a number. Each step is one rename, so there is no moment at
    /// which a crash could leave half a journal.
    pub(crate) fn begin(folder: &Path, setup: &Setup, next_job: u32) -> Result<Journal, JournalError> {
        let (new, place) = (folder.join("journal.new"), folder.join("journal"));
        if new.exists() {
            fs::remove_dir_all(&new).map_err(io_error(&new))?;
        }
        fs::create_dir_all(&new).map_err(io_error(&new))?;
        let (writer, head) = EventLogWriter::begin(setup).map_err(|error| JournalError::Record(error.to_string()))?;
        let mut journal =
            Journal { event_log: Log::create(new.join(EVENT_LOG))?, notes: Log::create(new.join(NOTES))?, writer };
        journal.event_log.pending = head;
        journal.note(&Note::Begun { next_job });
        journal.sync()?;
        sync_folder(&new)?;
        if place.exists() {
            let old = |number: u32| folder.join(format!("journal-{number:04}"));
            let number = (1..).find(|&number| !old(number).exists()).expect("there is always a next number");
            fs::rename(&place, old(number)).map_err(io_error(&place))?;
        }
        fs::rename(&new, &place).map_err(io_error(&place))?;
        sync_folder(folder)?;
        (journal.event_log.path, journal.notes.path) = (place.join(EVENT_LOG), place.join(NOTES));
        Ok(journal)
    }

    /// Opens the journal of an earlier life, if there is one, and cuts off what was not written whole.
    pub(crate) fn find(folder: &Path) -> Result<Option<Found>, JournalError> {
        let place = folder.join("journal");
        if !place.exists() && !finish_change(folder, &place)? {
            return Ok(None);
        }
        let path = place.join(EVENT_LOG);
        let mut decoder = EventLogDecoder::new();
        let mut records = Vec::new();
        let damaged = |error| JournalError::EventLog { path: path.clone(), error };
        let mut file = File::open(&path).map_err(io_error(&path))?;
        let mut piece = vec![0; 1 << 20];
        loop {
            let bytes = file.read(&mut piece).map_err(io_error(&path))?;
            if bytes == 0 {
                break;
            }
            decoder.feed(&piece[..bytes]);
            while let Some(record) = decoder.pull().map_err(damaged)? {
                records.push(record);
            }
        }
        let (Some(setup), Some(writer)) = (decoder.setup().cloned(), decoder.writer()) else {
            return Err(damaged(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
        };
        let (notes, valid_bytes) = read_notes(&place.join(NOTES))?;
        let journal = Journal {
            event_log: Log::go_on(path, decoder.valid_bytes())?,
            notes: Log::go_on(place.join(NOTES), valid_bytes)?,
            writer,
        };
        Ok(Some(Found { setup, records, notes, journal }))
    }

    /// Puts a call of the core on the event log; it is there after the next sync.
    pub(crate) fn record(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), JournalError> {
        self.writer
            .record(now, event, actions, &mut self.event_log.pending)
            .map_err(|error| JournalError::Record(error.to_string()))
    }

    /// Puts a line into the notes; it is there after the next sync.
    pub(crate) fn note(&mut self, note: &Note) {
        serde_json::to_writer(&mut self.notes.pending, note).expect("notes are plain data");
        self.notes.pending.push(b'\n');
    }

    /// Brings everything to the disk, the notes first.
    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        self.notes.sync()?;
        self.event_log.sync()
    }

    /// How long the event log is.
    pub(crate) fn event_log_bytes(&self) -> u64 {
        self.event_log.bytes
    }
}

fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(folder))
}

/// Killed between putting the old journal aside and putting the new one in its place: the new one is whole, and takes it now.
fn finish_change(folder: &Path, place: &Path) -> Result<bool, JournalError> {
    let was_there = folder.join("journal-0001").exists();
    let new = folder.join("journal.new");
    if !was_there || !new.exists() {
        return Ok(false);
    }
    fs::rename(&new, place).map_err(io_error(place))?;
    sync_folder(folder)?;
    Ok(true)
}

fn read_notes(path: &Path) -> Result<(Vec<Note>, u64), JournalError> {
    let file = File::open(path).map_err(io_error(path))?;
    let mut reader = BufReader::new(file);
    let (mut notes, mut valid_bytes, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line).map_err(io_error(path))?;
        // A last line without its end was not written whole.
        if bytes == 0 || !line.ends_with(b"\n") {
            return Ok((notes, valid_bytes));
        }
        let note = serde_json::from_slice(&line).map_err(|error| JournalError::Note {
            path: path.into(),
            line: notes.len() + 1,
            problem: error.to_string(),
        })?;
        notes.push(note);
        valid_bytes += bytes as u64;
    }
}

/// A file that grows at its end.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
    pending: Vec<u8>,
}

impl Log {
    fn create(path: PathBuf) -> Result<Log, JournalError> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io_error(&path))?;
        Ok(Log { path, file, bytes: 0, pending: Vec::new() })
    }

    fn go_on(path: PathBuf, valid_bytes: u64) -> Result<Log, JournalError> {
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io_error(&path))?;
        file.set_len(valid_bytes).map_err(io_error(&path))?;
        file.seek(SeekFrom::End(0)).map_err(io_error(&path))?;
        file.sync_all().map_err(io_error(&path))?;
        Ok(Log { path, file, bytes: valid_bytes, pending: Vec::new() })
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

    fn write(folder: &Path) {
        let mut journal = Journal::begin(folder, &setup(), 7).unwrap();
        for at in 1..4 {
            journal.record(Time(at), &Event::TimerFired { timer: Timer::Estimates }, &[]).unwrap();
            journal.note(&Note::Problem { job: JobId(at as u32), text: "line\nbreak".into() });
            journal.sync().unwrap();
        }
    }

    /// Killed at any byte, the journal opens with what was whole and goes on.
    #[test]
    fn a_journal_cut_anywhere_goes_on_from_its_last_whole_record() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let place = folder.path().join("journal");
        let event_log = fs::read(place.join(EVENT_LOG)).unwrap();
        let head = EventLogWriter::begin(&setup()).unwrap().1.len();
        let mut most = 0;
        for cut in head..event_log.len() {
            fs::write(place.join(EVENT_LOG), &event_log[..cut]).unwrap();
            let mut found = Journal::find(folder.path()).unwrap().unwrap();
            let whole = found.records.len();
            assert!(whole >= most, "a longer event log has no fewer records");
            most = whole;
            found.journal.record(Time(9), &Event::TimerFired { timer: Timer::Estimates }, &[]).unwrap();
            found.journal.sync().unwrap();
            let again = Journal::find(folder.path()).unwrap().unwrap();
            assert_eq!(again.records.len(), whole + 1);
        }
        assert_eq!(most, 2, "the last record was cut each time");
    }

    #[test]
    fn torn_notes_lose_their_last_line_only() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let path = folder.path().join("journal").join(NOTES);
        let notes = fs::read(&path).unwrap();
        fs::write(&path, &notes[..notes.len() - 3]).unwrap();
        let found = Journal::find(folder.path()).unwrap().unwrap();
        assert_eq!(found.notes.len(), 3);
        assert!(matches!(found.notes[0], Note::Begun { next_job: 7 }));
    }

    #[test]
    fn killed_between_two_journals_the_new_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        write(folder.path());
        fs::rename(folder.path().join("journal"), folder.path().join("journal.new")).unwrap();
        let found = Journal::find(folder.path()).unwrap().unwrap();
        assert!(matches!(found.notes[0], Note::Begun { next_job: 7 }));
    }

    #[test]
    fn a_new_journal_puts_the_old_one_aside() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        write(folder.path());
        assert!(folder.path().join("journal-0001").join(EVENT_LOG).exists());
        assert_eq!(Journal::find(folder.path()).unwrap().unwrap().records.len(), 3);
    }
}
