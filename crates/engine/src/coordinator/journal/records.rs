//! The records of a journal: to bytes and back, without files.

use super::{JournalError, JournalFile, frames};
use crate::job::Plan;
use crate::wire::Counters;
use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogWriter, Record};
use giveway_core::{Action, AttemptId, Event, JobId, Outcome, Setup, Time};
use serde::{Deserialize, Serialize};

/// What a journal has beside events. New variants go to the end: the position is part of the format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Metadata {
    /// The first record. Job ids continue from those of the previous journal.
    JournalCreated { next_job: u32 },
    /// A job was planned. Its output folder is created next.
    JobPlanned(Box<Plan>),
    /// An attempt ended with these counters.
    CountersReported { attempt: AttemptId, counters: Counters },
    /// Something failed in a job.
    FailureReported { job: JobId, text: String },
    /// A client killed a job that had no tasks to kill: all had ended and its output was not published, or none had started.
    KillRequested { job: JobId },
    /// A job has ended and its output has been published or removed.
    JobFinalized { job: JobId, outcome: Outcome, next_round: Option<JobId> },
    /// A planned job was not accepted, and its output folder has been removed.
    JobDiscarded { job: JobId },
}

/// The records of one frame.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Batch {
    metadata: Vec<Metadata>,
    /// Bytes of the event log. The event logs of all frames together are one.
    pub(super) events: Vec<u8>,
}

/// Encodes records into frames.
#[derive(Debug)]
pub(crate) struct JournalEncoder {
    pending: Batch,
    writer: EventLogWriter,
    /// Length of all frames so far.
    bytes: u64,
}

impl JournalEncoder {
    /// The encoder of a new journal. Its first frame begins the file.
    pub(crate) fn begin(setup: &Setup, next_job: u32) -> Result<JournalEncoder, JournalError> {
        let (writer, events) = EventLogWriter::begin(setup)?;
        let pending = Batch { metadata: vec![Metadata::JournalCreated { next_job }], events };
        Ok(JournalEncoder { pending, writer, bytes: 0 })
    }

    /// Appends a call of the core.
    pub(crate) fn append_event(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), JournalError> {
        Ok(self.writer.record(now, event, actions, &mut self.pending.events)?)
    }

    /// Appends metadata.
    pub(crate) fn append_metadata(&mut self, metadata: Metadata) {
        self.pending.metadata.push(metadata);
    }

    /// The records appended since the last call, as one frame. Empty if there are none.
    pub(crate) fn take_frame(&mut self) -> Result<Vec<u8>, JournalError> {
        let pending = std::mem::take(&mut self.pending);
        if pending.metadata.is_empty() && pending.events.is_empty() {
            return Ok(Vec::new());
        }
        let content = postcard::to_allocvec(&pending).map_err(|error| JournalError::Frame(error.to_string()))?;
        let mut frame = Vec::with_capacity(frames::MAGIC.len() + content.len() + 8);
        if self.bytes == 0 {
            frame.extend_from_slice(&frames::MAGIC);
        }
        if !frames::write(&content, &mut frame) {
            return Err(JournalError::Frame(format!("{} bytes at once are too much", content.len())));
        }
        self.bytes += frame.len() as u64;
        Ok(frame)
    }

    /// Length of all frames so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The contents of a journal.
#[derive(Debug)]
pub(crate) struct DecodedJournal {
    pub(crate) setup: Setup,
    pub(crate) records: Vec<Record>,
    pub(crate) metadata: Vec<Metadata>,
    /// Continues the journal.
    pub(crate) encoder: JournalEncoder,
    /// Length without an incomplete last frame.
    pub(crate) valid_bytes: u64,
}

/// Decodes a journal. An incomplete last frame that was not synced is dropped.
pub(crate) fn decode(file: &JournalFile) -> Result<DecodedJournal, JournalError> {
    let Contents { metadata, events, valid_bytes } = contents(file)?;
    let damaged = |error| JournalError::EventLog { path: file.path.clone(), error };
    let mut decoder = EventLogDecoder::new();
    decoder.feed(&events);
    let mut records = Vec::new();
    while let Some(record) = decoder.pull().map_err(damaged)? {
        records.push(record);
    }
    let (Some(setup), Some(writer)) = (decoder.setup().cloned(), decoder.writer()) else {
        return Err(damaged(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
    };
    let encoder = JournalEncoder { pending: Batch::default(), writer, bytes: valid_bytes };
    Ok(DecodedJournal { setup, records, metadata, encoder, valid_bytes })
}

/// The event log in a journal.
pub(super) fn event_log(file: &JournalFile) -> Result<Vec<u8>, JournalError> {
    contents(file).map(|contents| contents.events)
}

struct Contents {
    pub(super) metadata: Vec<Metadata>,
    events: Vec<u8>,
    valid_bytes: u64,
}

fn contents(file: &JournalFile) -> Result<Contents, JournalError> {
    let damaged = |at_bytes| JournalError::Damaged { path: file.path.clone(), at_bytes };
    let (frames, valid_bytes) = frames::read_all(&file.bytes).map_err(|found| damaged(found.at_bytes))?;
    if (valid_bytes as u64) < file.synced_bytes {
        return Err(damaged(valid_bytes));
    }
    if valid_bytes < file.bytes.len() {
        let dropped = file.bytes.len() - valid_bytes;
        tracing::warn!("{}: dropped the last {dropped} bytes, which were not written completely", file.path.display());
    }
    let mut contents = Contents { metadata: Vec::new(), events: Vec::new(), valid_bytes: valid_bytes as u64 };
    for frame in frames {
        let batch: Batch =
            postcard::from_bytes(frame).map_err(|error| JournalError::Decode { path: file.path.clone(), error })?;
        contents.metadata.extend(batch.metadata);
        contents.events.extend(batch.events);
    }
    Ok(contents)
}
