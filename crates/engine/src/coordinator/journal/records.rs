//! The records of a journal: to bytes and back, without files.

use super::clock::{Clock, ClockReading};
use super::snapshot::{self, JournalSnapshot, Stored};
use super::{JournalError, JournalFile, frames};
use crate::job::Plan;
use crate::program::ProgramId;
use crate::wire::Counters;
use giveway_core::event_log::{EventLogDecoder, EventLogError, EventLogReader, EventLogWriter, Record};
use giveway_core::{Action, AttemptId, Event, JobId, Outcome, Setup, Time};
use serde::{Deserialize, Serialize};

/// What a journal has beside events. New variants go to the end: the position is part of the format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Metadata {
    /// The first record. Job ids continue from those of the previous journal.
    JournalCreated { next_job: u32 },
    /// A job was planned. Its output folder is created next.
    JobPlanned {
        plan: Box<Plan>,
        /// The program that it was shipped with.
        program: Option<ProgramId>,
    },
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
    /// All that follows from the records before it, in the encoding of `snapshot.rs`.
    Snapshot(Vec<u8>),
    /// The wall clock at a time of the journal: after each start, and after the clock was set.
    ClockRead(ClockReading),
}

/// The records of one frame.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) metadata: Vec<Metadata>,
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
    /// Length of those before the last snapshot, and its own.
    snapshot_at: u64,
    snapshot_bytes: u64,
}

impl JournalEncoder {
    /// The encoder of a new journal. Its first frame begins the file.
    pub(crate) fn begin(setup: &Setup, next_job: u32) -> Result<JournalEncoder, JournalError> {
        let (writer, events) = EventLogWriter::begin(setup)?;
        let pending = Batch { metadata: vec![Metadata::JournalCreated { next_job }], events };
        Ok(JournalEncoder { pending, writer, bytes: 0, snapshot_at: 0, snapshot_bytes: 0 })
    }

    /// Appends a call of the core.
    pub(crate) fn append_event(&mut self, now: Time, event: &Event, actions: &[Action]) -> Result<(), JournalError> {
        Ok(self.writer.record(now, event, actions, &mut self.pending.events)?)
    }

    pub(crate) fn append_metadata(&mut self, metadata: Metadata) {
        self.pending.metadata.push(metadata);
    }

    /// The records appended since the last call, as one frame. Empty if there are none.
    pub(crate) fn take_frame(&mut self) -> Result<Vec<u8>, JournalError> {
        let pending = std::mem::take(&mut self.pending);
        if pending.metadata.is_empty() && pending.events.is_empty() {
            return Ok(Vec::new());
        }
        self.frame(&pending)
    }

    /// A frame with a snapshot of what all records so far have given. There must be no records since the last frame.
    pub(crate) fn snapshot_frame(&mut self, snapshot: &JournalSnapshot) -> Result<Vec<u8>, JournalError> {
        let batch = snapshot::encode(&self.writer, snapshot)?;
        self.snapshot_at = self.bytes;
        let frame = self.frame(&batch)?;
        self.snapshot_bytes = frame.len() as u64;
        Ok(frame)
    }

    fn frame(&mut self, batch: &Batch) -> Result<Vec<u8>, JournalError> {
        let content = postcard::to_allocvec(batch).map_err(|error| JournalError::Frame(error.to_string()))?;
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

    /// Number of events so far.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn events(&self) -> u64 {
        self.writer.records()
    }

    /// True if the journal is longer than `bytes_max`, and several times as long as its last snapshot. With many live jobs a new journal may itself be longer
    /// than `bytes_max`; it must not be replaced with every frame.
    pub(crate) fn is_replacement_due(&self, bytes_max: u64) -> bool {
        self.bytes > bytes_max.max(self.snapshot_bytes.saturating_mul(4))
    }

    /// True if the frames since the last snapshot have `bytes_min` bytes, and several times as many as the snapshot: writing snapshots is then a
    /// small part of all writing.
    pub(crate) fn is_snapshot_due(&self, bytes_min: u64) -> bool {
        let since = self.bytes.saturating_sub(self.snapshot_at + self.snapshot_bytes);
        since >= bytes_min.max(self.snapshot_bytes.saturating_mul(4))
    }
}

/// The contents of a journal.
#[derive(Debug)]
pub(crate) struct DecodedJournal {
    pub(crate) setup: Setup,
    pub(crate) snapshot: Option<JournalSnapshot>,
    /// The records after the snapshot, or all.
    pub(crate) records: Vec<Record>,
    /// Number of the first of them, from 1.
    pub(crate) first_record: u64,
    /// The metadata after the snapshot, or all.
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) encoder: JournalEncoder,
    /// Length without an incomplete last frame.
    pub(crate) valid_bytes: u64,
}

/// Decodes a journal from its last snapshot on. An incomplete last frame that was not synced is dropped.
pub(crate) fn decode(file: &JournalFile) -> Result<DecodedJournal, JournalError> {
    let damaged = |error| JournalError::EventLog { path: file.path.clone(), error };
    let (frames, valid_bytes) = frames(file)?;
    let first = frames.first().map_or(Ok(Batch::default()), |frame| batch(frame, file))?;
    let setup = EventLogReader::open(&first.events).map_err(damaged)?.setup().clone();
    let (mut snapshot_at, mut snapshot_bytes) = (0, 0);
    let last_snapshot = frames.iter().rposition(|frame| snapshot::is_snapshot(frame));
    let (mut decoder, snapshot, rest) = match last_snapshot {
        None => (EventLogDecoder::new(), None, frames.as_slice()),
        Some(at) => {
            let (before, rest) = frames.split_at(at);
            let (frame, rest) = rest.split_at(1);
            let frame = frame.first().copied().unwrap_or_default();
            let Stored { position, snapshot } = snapshot::decode(frame, file)?;
            let frame_bytes = |frame: &&[u8]| (frames::HEADER_BYTES + frame.len()) as u64;
            snapshot_at = frames::MAGIC.len() as u64 + before.iter().map(frame_bytes).sum::<u64>();
            snapshot_bytes = frame_bytes(&frame);
            (EventLogDecoder::resume(setup.clone(), &position), Some(snapshot), rest)
        }
    };
    let (mut metadata, mut records, first_record) = (Vec::new(), Vec::new(), decoder.records() + 1);
    for frame in rest {
        let batch = batch(frame, file)?;
        metadata.extend(batch.metadata);
        decoder.feed(&batch.events);
        while let Some(record) = decoder.pull().map_err(damaged)? {
            records.push(record);
        }
    }
    let Some(writer) = decoder.writer() else {
        return Err(damaged(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
    };
    let encoder = JournalEncoder { pending: Batch::default(), writer, bytes: valid_bytes, snapshot_at, snapshot_bytes };
    Ok(DecodedJournal { setup, snapshot, records, first_record, metadata, encoder, valid_bytes })
}

/// The event log in a journal, the wall clock, and the number of snapshots.
pub(crate) fn event_log(file: &JournalFile) -> Result<(Vec<u8>, Clock, u64), JournalError> {
    let (mut events, mut clock, mut snapshots) = (Vec::new(), Clock::default(), 0);
    for frame in frames(file)?.0 {
        if snapshot::is_snapshot(frame) {
            snapshots += 1;
            continue;
        }
        let batch = batch(frame, file)?;
        events.extend(batch.events);
        batch.metadata.iter().for_each(|metadata| clock.apply(metadata));
    }
    Ok((events, clock, snapshots))
}

/// The contents of all frames, and the length of the journal without an incomplete last one.
fn frames(file: &JournalFile) -> Result<(Vec<&[u8]>, u64), JournalError> {
    let damaged = |at_bytes| JournalError::Damaged { path: file.path.clone(), at_bytes };
    let (frames, valid_bytes) = frames::read_all(&file.bytes).map_err(|found| damaged(found.at_bytes))?;
    if (valid_bytes as u64) < file.synced_bytes {
        return Err(damaged(valid_bytes));
    }
    if valid_bytes < file.bytes.len() {
        let dropped = file.bytes.len() - valid_bytes;
        tracing::warn!("{}: dropped the last {dropped} bytes, which were not written completely", file.path.display());
    }
    Ok((frames, valid_bytes as u64))
}

fn batch(frame: &[u8], file: &JournalFile) -> Result<Batch, JournalError> {
    postcard::from_bytes(frame).map_err(|error| JournalError::Decode { path: file.path.clone(), error })
}
