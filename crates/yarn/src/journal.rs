//! The event log on disk: what the core was told and what it said, written as it happens.
//!
//! A sidecar that was killed leaves an event log that ends somewhere in a record. The next one reads it, drops what is not whole, and goes on with it: its
//! core then knows all that the last one knew. It is not synced record by record: what a crash of the machine takes away, the cluster tells
//! again.

use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogWriteError, EventLogWriter, Record};
use giveway_core::{Action, Event, Setup, Span, Time};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thiserror::Error;

/// Why an event log cannot be begun or continued.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file cannot be opened, read or written.
    #[error("cannot use {file} as an event log ({error}); check the path")]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The setup cannot be written.
    #[error(transparent)]
    Write(#[from] EventLogWriteError),
    /// It is no event log, or damaged.
    #[error("{file} cannot be continued: {error}")]
    EventLog {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        error: EventLogError,
    },
    /// It was made by a scheduler of another setup.
    #[error("{file} is an event log of policy `{theirs}` with another setup; give this run a file of its own")]
    Setup {
        /// The file.
        file: PathBuf,
        /// The policy on the event log.
        theirs: String,
    },
}

/// An event log that grows.
#[derive(Debug)]
pub struct Journal {
    file: File,
    writer: EventLogWriter,
    buffer: Vec<u8>,
    /// When the first thing told to it from now on happens, on the event log's own clock.
    begins: Time,
}

impl Journal {
    /// Begins an event log, or continues the one that is there; what is on it is given to `known`, record by record.
    pub fn open(path: &Path, setup: &Setup, mut known: impl FnMut(Record)) -> Result<Journal, JournalError> {
        let io = |error| JournalError::Io { file: path.into(), error };
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        if meta.len() == 0 {
            let (writer, head) = EventLogWriter::begin(setup)?;
            file.write_all(&head).map_err(io)?;
            return Ok(Journal { file, writer, buffer: Vec::new(), begins: Time::ZERO });
        }
        let mut decoder = EventLogDecoder::new();
        let mut last = Time::ZERO;
        let mut piece = vec![0; 1 << 20];
        let fault = |error| JournalError::EventLog { file: path.into(), error };
        loop {
            let read = file.read(&mut piece).map_err(io)?;
            if read == 0 {
                break;
            }
            decoder.feed(&piece[..read]);
            while let Some(record) = decoder.pull().map_err(fault)? {
                last = record.now;
                known(record);
            }
        }
        match decoder.finish() {
            Ok(()) | Err(EventLogError::Truncated { .. }) => {}
            Err(error) => return Err(fault(error)),
        }
        let Some(writer) = decoder.writer() else {
            let cut = EventLogError::Truncated { record: 0, valid_bytes: 0 };
            return Err(fault(cut));
        };
        let theirs = decoder.setup().expect("there is a writer, so there was a head");
        if theirs != setup {
            return Err(JournalError::Setup { file: path.into(), theirs: theirs.policy.name.clone() });
        }
        file.set_len(decoder.valid_bytes()).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        // The event log's clock went on while nobody wrote: as long as the file has not changed.
        let away =
            meta.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok()).unwrap_or_default();
        let begins = last + Span(u64::try_from(away.as_micros()).unwrap_or(0));
        Ok(Journal { file, writer, buffer: Vec::new(), begins })
    }

    /// When the first thing told to it from now on happens, on the event log's own clock.
    pub fn begins(&self) -> Time {
        self.begins
    }

    /// Notes one call of the core; it is on disk after the next [`flush`](Journal::flush).
    pub fn record(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), EventLogWriteError> {
        self.writer.record(now, event, actions, &mut self.buffer)
    }

    /// Hands what was noted to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the closing record.
    pub fn close(mut self) -> io::Result<()> {
        self.writer.close(&mut self.buffer);
        self.file.write_all(&self.buffer)?;
        self.file.sync_all()
    }
}
