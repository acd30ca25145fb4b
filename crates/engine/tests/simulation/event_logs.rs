//! The event logs in the journals: replaying them through a scheduler gives the recorded actions, across restarts of the coordinator too.

use super::disk::ModelDisk;
use super::oracle::Violation;
use super::world::CLUSTER;
use crate::coordinator::journal::{self, JournalFile};
use giveway_core::Scheduler;
use giveway_core::event_log::{EventLogDecoder, EventLogError};
use std::path::Path;

/// Replays the event logs of all journals. Returns the number of their records and of the snapshots beside them.
pub(super) fn replay_all(disk: &ModelDisk) -> Result<(u64, u64), Violation> {
    let (mut records, mut snapshots) = (0, 0);
    for (path, bytes) in disk.files_below(Path::new(CLUSTER)) {
        if !path.ends_with("log") || !journal::is_journal(&bytes) {
            continue;
        }
        let file = JournalFile { path, bytes, synced_bytes: 0 };
        let wrong = |problem: String| Violation(format!("{}: {problem}", file.path.display()));
        let (events, _, in_file) = journal::event_log(&file).map_err(|error| wrong(error.to_string()))?;
        records += replay(&events).map_err(wrong)?;
        snapshots += in_file;
    }
    Ok((records, snapshots))
}

fn replay(events: &[u8]) -> Result<u64, String> {
    let text = |error: EventLogError| error.to_string();
    let mut decoder = EventLogDecoder::new();
    decoder.feed(events);
    let (mut core, mut actions): (Option<Scheduler>, _) = (None, Vec::new());
    while let Some(record) = decoder.pull().map_err(text)? {
        let core = match &mut core {
            Some(core) => core,
            None => {
                let setup = decoder.setup().cloned().ok_or("the log has no setup")?;
                core.insert(Scheduler::new(setup).map_err(|error| error.to_string())?)
            }
        };
        actions.clear();
        core.handle(record.now, &record.event, &mut actions);
        if actions != record.actions {
            let number = decoder.records();
            return Err(format!("record {number}, {:?}: {actions:?} instead of {:?}", record.event, record.actions));
        }
    }
    Ok(decoder.records())
}
