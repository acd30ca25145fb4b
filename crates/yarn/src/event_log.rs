//! The sidecar's event log file: every event given to the core, with the core's actions, in the format of [`giveway_core::event_log`].
//!
//! A sidecar that was killed leaves a file that may end within a record. The next sidecar truncates it after the last complete record, replays it to
//! restore the core's state, and appends to it. Records are not synced one by one: whatever a crash of the machine loses, the plug-in's next
//! snapshot restores.

use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogWriteError, EventLogWriter, Record};
use giveway_core::{Action, Event, Setup, Span, Time};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thiserror::Error;

/// Why an event log file cannot be created or continued.
#[derive(Debug, Error)]
pub enum EventLogFileError {
    /// The file cannot be opened, read or written.
    #[error("cannot use {file} as an event log: {error}; check the path")]
    Io {
        /// Path of the event log.
        file: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The header cannot be encoded.
    #[error(transparent)]
    Write(#[from] EventLogWriteError),
    /// The file is not an event log, or is damaged.
    #[error("cannot continue event log {file}: {error}")]
    Read {
        /// Path of the event log.
        file: PathBuf,
        error: EventLogError,
    },
    /// The file was written with a different setup.
    #[error(
        "cannot continue event log {file}: it was written with policy `{policy}` and a different setup; use a new file"
    )]
    SetupMismatch {
        /// Path of the event log.
        file: PathBuf,
        /// Name of the policy in the event log's header.
        policy: String,
    },
}

/// An event log file open for appending. Records are buffered in memory until [`flush`](EventLogFile::flush).
#[derive(Debug)]
pub struct EventLogFile {
    file: File,
    writer: EventLogWriter,
    buffer: Vec<u8>,
    start_time: Time,
}

impl EventLogFile {
    /// Creates the file, or opens the one that exists and passes its records to `on_record` in order.
    ///
    /// A record that was cut off at the end is removed from the file. The file must have been written with the same `setup`.
    pub fn open(
        path: &Path,
        setup: &Setup,
        mut on_record: impl FnMut(Record),
    ) -> Result<EventLogFile, EventLogFileError> {
        let io = |error| EventLogFileError::Io { file: path.into(), error };
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.len() == 0 {
            let (writer, header) = EventLogWriter::begin(setup)?;
            file.write_all(&header).map_err(io)?;
            return Ok(EventLogFile { file, writer, buffer: Vec::new(), start_time: Time::ZERO });
        }
        let mut decoder = EventLogDecoder::new();
        let mut last_time = Time::ZERO;
        let mut chunk = vec![0; 1 << 20];
        let read_error = |error| EventLogFileError::Read { file: path.into(), error };
        loop {
            let read_bytes = file.read(&mut chunk).map_err(io)?;
            if read_bytes == 0 {
                break;
            }
            decoder.feed(&chunk[..read_bytes]);
            while let Some(record) = decoder.pull().map_err(read_error)? {
                last_time = record.now;
                on_record(record);
            }
        }
        match decoder.finish() {
            Ok(()) | Err(EventLogError::Truncated { .. }) => {}
            Err(error) => return Err(read_error(error)),
        }
        let Some(writer) = decoder.writer() else {
            return Err(read_error(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
        };
        let file_setup = decoder.setup().expect("a decoder with a writer has read the header");
        if file_setup != setup {
            return Err(EventLogFileError::SetupMismatch { file: path.into(), policy: file_setup.policy.name.clone() });
        }
        file.set_len(decoder.valid_bytes()).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        // The log's clock includes the time without a sidecar, taken from the file's last modification.
        let idle =
            metadata.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok()).unwrap_or_default();
        let start_time = last_time + Span(u64::try_from(idle.as_micros()).unwrap_or(0));
        Ok(EventLogFile { file, writer, buffer: Vec::new(), start_time })
    }

    /// The time at which this process continues the log, on the log's clock. Zero for a new file.
    pub fn start_time(&self) -> Time {
        self.start_time
    }

    /// Buffers one record.
    pub fn record(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), EventLogWriteError> {
        self.writer.record(now, event, actions, &mut self.buffer)
    }

    /// Writes the buffered records to the file. Does not sync.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the buffered records and the closing record, and syncs the file.
    pub fn close(mut self) -> io::Result<()> {
        self.writer.close(&mut self.buffer);
        self.file.write_all(&self.buffer)?;
        self.file.sync_all()
    }
}
