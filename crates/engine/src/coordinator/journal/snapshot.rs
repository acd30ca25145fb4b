//! Snapshots in a journal: all that follows from the frames before it, so that recovery need not read those.
//!
//! A snapshot is a frame of its own, with one record and no events. Its bytes are a version and the snapshot in that version's encoding.

use super::records::{Batch, Metadata};
use super::{JournalError, JournalFile};
use crate::coordinator::job_table::TableSnapshot;
use giveway_core::event_log::EventLogWriter;
use giveway_core::{Snapshot, Time};
use serde::{Deserialize, Serialize};

/// The version that is written and read.
const VERSION: u8 = 6;

/// First bytes of the content of a frame with a snapshot: one record of metadata, of this kind. No other frame begins like this.
const FIRST_BYTES: [u8; 2] = [1, 7];

/// The state of a coordinator after some frame of its journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JournalSnapshot {
    /// Time of the last event.
    pub(crate) now: Time,
    pub(crate) core: Snapshot,
    pub(crate) table: TableSnapshot,
}

/// A snapshot with its place in the event log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored<S> {
    pub(super) position: EventLogWriter,
    pub(super) snapshot: S,
}

/// The only record of a frame with a snapshot.
pub(super) fn encode(position: &EventLogWriter, snapshot: &JournalSnapshot) -> Result<Batch, JournalError> {
    let stored = Stored { position: position.clone(), snapshot };
    let bytes = postcard::to_extend(&stored, vec![VERSION]).map_err(|error| JournalError::Frame(error.to_string()))?;
    Ok(Batch { metadata: vec![Metadata::Snapshot(bytes)], events: Vec::new() })
}

/// True if a frame with this content has a snapshot.
pub(super) fn is_snapshot(content: &[u8]) -> bool {
    content.starts_with(&FIRST_BYTES)
}

/// The snapshot in a frame.
pub(super) fn decode(content: &[u8], file: &JournalFile) -> Result<Stored<JournalSnapshot>, JournalError> {
    let invalid = |error| JournalError::Decode { path: file.path.clone(), error };
    let batch: Batch = postcard::from_bytes(content).map_err(invalid)?;
    let Some(Metadata::Snapshot(bytes)) = batch.metadata.first() else {
        return Err(invalid(postcard::Error::DeserializeBadEnum));
    };
    match bytes.split_first() {
        Some((&VERSION, bytes)) => postcard::from_bytes(bytes).map_err(invalid),
        other => {
            let found = other.map_or(0, |(&found, _)| found);
            Err(JournalError::SnapshotVersion { path: file.path.clone(), found, known: VERSION })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_with_a_snapshot_is_known_by_its_first_bytes() {
        let batch = Batch { metadata: vec![Metadata::Snapshot(vec![])], events: Vec::new() };
        assert!(is_snapshot(&postcard::to_allocvec(&batch).unwrap()));
        let metadata = vec![Metadata::JobDiscarded { job: giveway_core::JobId(7) }];
        assert!(!is_snapshot(&postcard::to_allocvec(&Batch { metadata, events: Vec::new() }).unwrap()));
    }
}
