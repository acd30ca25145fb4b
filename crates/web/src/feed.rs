//! Where records come from: a file that is read once, or the journal of a cluster, which grows and may be replaced.

use crate::model::Model;
use giveway_core::event_log::{EventLogDecoder, EventLogError};
use giveway_core::{SetupError, Time};
use giveway_engine::coordinator::{self, Clock, ClockReading, JournalError, JournalTail};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Why an event log cannot be shown.
#[derive(Debug, Error)]
pub enum FeedError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}; check the path", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The journal of a cluster is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The event log is damaged.
    #[error("cannot read the event log {}: {error}", path.display())]
    EventLog {
        /// The file.
        path: PathBuf,
        /// The damage.
        error: EventLogError,
    },
    /// Its setup is not valid in this release.
    #[error("cannot use the event log {}: {error}", path.display())]
    Setup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: SetupError,
    },
}

/// Reads an event log, or the journal of a cluster, to its end. One whose writer was stopped is read as far as it is complete.
pub fn read(path: &Path) -> Result<Model, FeedError> {
    read_until(path, Time::NEVER)
}

/// Reads an event log or journal up to an instant: the state that was known then.
pub fn read_until(path: &Path, until: Time) -> Result<Model, FeedError> {
    let failed = |error| FeedError::Io { path: path.into(), error };
    let mut bytes = fs::read(path).map_err(failed)?;
    let is_journal = coordinator::is_journal(&bytes);
    if is_journal {
        bytes = coordinator::read_event_log(path)?;
    }
    let mut decoder = EventLogDecoder::new();
    decoder.feed(&bytes);
    let mut model: Option<Model> = None;
    pull(path, &mut decoder, &mut model, 1, until)?;
    if let Err(error @ EventLogError::NotAnEventLog) = decoder.finish() {
        return Err(FeedError::EventLog { path: path.into(), error });
    }
    let mut model = match model {
        Some(model) => model,
        None => empty(path, &decoder, 1)?,
    };
    if is_journal && until == Time::NEVER {
        model.clock = clock(path, coordinator::read_clock(path)?, model.now);
    }
    Ok(model)
}

fn empty(path: &Path, decoder: &EventLogDecoder, epoch: u64) -> Result<Model, FeedError> {
    match decoder.setup() {
        Some(setup) => Model::new(setup.clone(), epoch).map_err(|error| FeedError::Setup { path: path.into(), error }),
        None => {
            let error = decoder.finish().err().unwrap_or(EventLogError::NotAnEventLog);
            Err(FeedError::EventLog { path: path.into(), error })
        }
    }
}

/// Applies all complete records up to an instant. Returns their number.
fn pull(
    path: &Path,
    decoder: &mut EventLogDecoder,
    model: &mut Option<Model>,
    epoch: u64,
    until: Time,
) -> Result<usize, FeedError> {
    let mut applied = 0;
    let damaged = |error| FeedError::EventLog { path: path.into(), error };
    while let Some(record) = decoder.pull().map_err(damaged)? {
        if model.is_none() {
            *model = Some(empty(path, decoder, epoch)?);
        }
        if record.now > until {
            break;
        }
        if let Some(model) = model {
            model.apply(&record);
        }
        applied += 1;
    }
    Ok(applied)
}

/// The wall clock in a journal. One of a release that did not record it is as old as its last record: it is written as things happen.
fn clock(path: &Path, recorded: Clock, now: Time) -> Clock {
    let mut clock = recorded;
    if clock.readings().is_empty()
        && let Some(unix_us) = modified_us(path)
    {
        clock.add(ClockReading { at: now, unix_us });
    }
    clock
}

fn modified_us(path: &Path) -> Option<u64> {
    fs::metadata(path).and_then(|found| found.modified()).ok().and_then(unix_us)
}

fn unix_us(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_micros()).ok())
}

/// Follows the journal of a cluster. It reads the file that the coordinator writes, so the coordinator does nothing for it, and it works while the
/// coordinator is down.
#[derive(Debug)]
pub struct JournalFeed {
    folder: PathBuf,
    tail: Option<JournalTail>,
    decoder: EventLogDecoder,
    epoch: u64,
}

impl JournalFeed {
    /// A feed of the cluster in a folder.
    pub fn new(folder: &Path) -> JournalFeed {
        JournalFeed { folder: folder.into(), tail: None, decoder: EventLogDecoder::new(), epoch: 0 }
    }

    /// Reads what is new. `model` is replaced if the journal is another one than at the last call. Returns true if something changed.
    pub fn poll(&mut self, model: &mut Option<Model>) -> Result<bool, FeedError> {
        let path = coordinator::journal_path(&self.folder);
        let mut changed = false;
        if self.tail.as_ref().is_none_or(|tail| !tail.is_current()) {
            match JournalTail::open(&path) {
                Ok(tail) => {
                    self.epoch = tail.identity();
                    (self.tail, self.decoder, *model) = (Some(tail), EventLogDecoder::new(), None);
                    changed = true;
                }
                // No cluster has run there yet.
                Err(JournalError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(tail) = &mut self.tail else { return Ok(changed) };
        let events = tail.read()?;
        if events.is_empty() {
            return Ok(changed);
        }
        self.decoder.feed(&events);
        let before = model.as_ref().map(|model| model.now);
        changed |= pull(&path, &mut self.decoder, model, self.epoch, Time::NEVER)? > 0;
        if model.is_none() {
            *model = empty(&path, &self.decoder, self.epoch).ok();
        }
        if let Some(model) = model.as_mut().filter(|model| before != Some(model.now)) {
            model.clock = clock(&path, tail.clock().clone(), model.now);
        }
        Ok(changed)
    }
}
