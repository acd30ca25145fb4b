//! Where records come from: a file that is read once, or one that grows and may be replaced: the journal of a cluster, or an event log that a program
//! is writing.

use crate::model::Model;
use giveway_core::event_log::{EventLogDecoder, EventLogError};
use giveway_core::{JobId, SetupError, Time};
use giveway_engine::coordinator::{self, Clock, ClockReading, JournalError, JournalTail};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Why an event log cannot be shown.
#[derive(Debug, Error)]
pub enum FeedError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}; check the path", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The journal of a cluster is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The event log is damaged.
    #[error("cannot read the event log {}: {error}", path.display())]
    EventLog { path: PathBuf, error: EventLogError },
    /// Its setup is not valid in this release.
    #[error("cannot use the event log {}: {error}", path.display())]
    Setup {
        path: PathBuf,
        /// What is wrong with it.
        error: SetupError,
    },
}

/// The journals in a cluster directory, oldest first.
pub fn journals(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_archived =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal-"));
    let paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut logs: Vec<PathBuf> = paths.filter(is_archived).map(|path| path.join("log")).collect();
    // A number of five digits is higher than one of four.
    logs.sort_by_cached_key(|log| (log.as_os_str().len(), log.clone()));
    logs.push(coordinator::journal_path(folder));
    logs.retain(|path| path.exists());
    Ok(logs)
}

/// The last archived journal in a cluster directory that has this job, read to its end. None if none has it or can be read.
pub fn archived(folder: &Path, job: JobId) -> Option<Model> {
    let current = coordinator::journal_path(folder);
    let archived = journals(folder).ok()?.into_iter().rev().filter(|path| *path != current);
    archived.filter_map(|path| read(&path).ok()).find(|model| model.job(job).is_some())
}

/// Reads an event log, or the journal of a cluster, to its end. One whose writer was stopped is read as far as it is complete.
pub fn read(path: &Path) -> Result<Model, FeedError> {
    read_until(path, Time::NEVER)
}

/// Reads an event log or journal up to an instant: the state that was known then.
pub fn read_until(path: &Path, until: Time) -> Result<Model, FeedError> {
    let failed = |error| FeedError::Io { path: path.into(), error };
    let mut bytes = fs::read(path).map_err(failed)?;
    let mut recorded = None;
    if coordinator::is_journal(&bytes) {
        let (events, clock) = coordinator::read_journal(path)?;
        (bytes, recorded) = (events, Some(clock));
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
    if let Some(recorded) = recorded.filter(|_| until == Time::NEVER) {
        model.clock = clock(path, recorded, model.now);
    }
    Ok(model)
}

/// The model of an event log that a coordinator has sent, as far as it is complete.
pub fn received(folder: &Path, log: &[u8], clock: Clock) -> Result<Model, FeedError> {
    let mut decoder = EventLogDecoder::new();
    decoder.feed(log);
    let mut model = None;
    pull(folder, &mut decoder, &mut model, 1, Time::NEVER)?;
    let mut model = model.map_or_else(|| empty(folder, &decoder, 1), Ok)?;
    model.clock = clock;
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

/// A log that grows while it is shown.
pub trait Feed: Send {
    /// Reads what is new. `model` is replaced if the log is another one than at the last call. Returns true if something changed. After an error the
    /// next call begins anew, because what was read may be wrong.
    fn poll(&mut self, model: &mut Option<Model>) -> Result<bool, FeedError>;
}

/// Follows an event log or a journal, whichever a file is. A file that does not exist yet will be an event log.
pub fn follow(path: &Path) -> Result<Box<dyn Feed>, FeedError> {
    let failed = |error| FeedError::Io { path: path.into(), error };
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => drop(file.take(64).read_to_end(&mut head).map_err(failed)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    if coordinator::is_journal(&head) {
        return Ok(Box::new(JournalFeed::new(path)));
    }
    let mut feed = EventLogFeed::new(path);
    // What is no event log is refused at once.
    feed.poll(&mut None)?;
    Ok(Box::new(EventLogFeed::new(path)))
}

/// Follows the journal of a cluster. It reads the file that the coordinator writes, so the coordinator does nothing for it, and it works while the
/// coordinator is down.
#[derive(Debug)]
pub struct JournalFeed {
    path: PathBuf,
    tail: Option<JournalTail>,
    decoder: EventLogDecoder,
    epoch: u64,
}

impl JournalFeed {
    /// A feed of a journal, which need not exist yet.
    pub fn new(path: &Path) -> JournalFeed {
        JournalFeed { path: path.into(), tail: None, decoder: EventLogDecoder::new(), epoch: 0 }
    }

    fn read_new(&mut self, model: &mut Option<Model>) -> Result<bool, FeedError> {
        let path = &self.path;
        let mut changed = false;
        if self.tail.as_ref().is_none_or(|tail| !tail.is_current()) {
            match JournalTail::open(path) {
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
        changed |= pull(path, &mut self.decoder, model, self.epoch, Time::NEVER)? > 0;
        if model.is_none() {
            *model = empty(path, &self.decoder, self.epoch).ok();
        }
        if let Some(model) = model.as_mut().filter(|model| before != Some(model.now)) {
            model.clock = clock(path, tail.clock().clone(), model.now);
        }
        Ok(changed)
    }
}

impl Feed for JournalFeed {
    fn poll(&mut self, model: &mut Option<Model>) -> Result<bool, FeedError> {
        self.read_new(model).inspect_err(|_| *self = JournalFeed::new(&self.path))
    }
}

/// Follows an event log that a program, such as the YARN sidecar, is writing.
#[derive(Debug)]
pub struct EventLogFeed {
    path: PathBuf,
    file: Option<File>,
    read_bytes: u64,
    decoder: EventLogDecoder,
    /// Changes when reading begins anew.
    epoch: u64,
}

impl EventLogFeed {
    /// A feed of the event log in a file, which need not exist yet.
    pub fn new(path: &Path) -> EventLogFeed {
        EventLogFeed::of_epoch(path, modified_us(path).unwrap_or(1))
    }

    fn of_epoch(path: &Path, epoch: u64) -> EventLogFeed {
        EventLogFeed { path: path.into(), file: None, read_bytes: 0, decoder: EventLogDecoder::new(), epoch }
    }

    /// True if the path still names the file that was read, and the file is not shorter than what was read of it.
    fn is_current(&self) -> bool {
        let Some(open) = self.file.as_ref().and_then(|file| file.metadata().ok()) else { return false };
        let named = fs::metadata(&self.path);
        open.len() >= self.read_bytes && named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()))
    }

    fn read_new(&mut self, model: &mut Option<Model>) -> Result<bool, FeedError> {
        let mut changed = false;
        if !self.is_current() {
            match File::open(&self.path) {
                Ok(file) => {
                    *self = EventLogFeed { file: Some(file), ..EventLogFeed::of_epoch(&self.path, self.epoch + 1) };
                    (*model, changed) = (None, true);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(FeedError::Io { path: self.path.clone(), error }),
            }
        }
        let Some(file) = &mut self.file else { return Ok(changed) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| FeedError::Io { path: self.path.clone(), error })?;
        self.read_bytes += bytes.len() as u64;
        self.decoder.feed(&bytes);
        let applied = pull(&self.path, &mut self.decoder, model, self.epoch, Time::NEVER)?;
        if model.is_none() {
            *model = empty(&self.path, &self.decoder, self.epoch).ok();
        }
        if let Some(model) = model.as_mut().filter(|_| applied > 0 || changed) {
            model.clock = clock(&self.path, Clock::default(), model.now);
        }
        Ok(changed || applied > 0)
    }
}

impl Feed for EventLogFeed {
    fn poll(&mut self, model: &mut Option<Model>) -> Result<bool, FeedError> {
        self.read_new(model).inspect_err(|_| *self = EventLogFeed::of_epoch(&self.path, self.epoch + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::io::Write;

    #[test]
    fn an_event_log_is_followed_as_it_grows_and_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.eventlog");
        let (mut feed, mut model) = (EventLogFeed::new(&path), None);
        assert!(!feed.poll(&mut model).unwrap() && model.is_none(), "it does not exist yet");
        let bytes = fixture::event_log();
        let mut file = File::create(&path).unwrap();
        for piece in bytes.chunks(bytes.len() / 7) {
            file.write_all(piece).unwrap();
            feed.poll(&mut model).unwrap();
        }
        let expected = read(&path).unwrap();
        let followed = model.as_ref().unwrap();
        assert_eq!((followed.now, followed.jobs.len()), (expected.now, expected.jobs.len()));
        assert!(!feed.poll(&mut model).unwrap(), "nothing is new");
        let epoch = model.as_ref().unwrap().epoch;
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(feed.poll(&mut model).unwrap());
        let replaced = model.as_ref().unwrap();
        assert!(replaced.now < expected.now && replaced.epoch != epoch);
    }

    #[test]
    fn what_is_no_event_log_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "not an event log, but long enough to be one, or so it seems at first sight").unwrap();
        assert!(follow(&path).is_err());
    }
}
