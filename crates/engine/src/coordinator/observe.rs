//! What the simulation asks a coordinator.

use super::state_machine::Coordinator;
use giveway_core::Kind;
impl Coordinator {
    /// Why the jobs that have not ended run or wait.
    pub(crate) fn explain_unfinished(&self) -> Vec<String> {
        let unfinished = self.table.jobs.iter().filter(|(_, record)| !record.finalized).map(|(&job, _)| job);
        let blocked = |job, kind| format!("{kind}s {:?}", self.core.blocked(job, kind));
        let text =
            |job| format!("{job} {:?} {:?}", self.core.job_status(job), Kind::BOTH.map(|kind| blocked(job, kind)));
        unfinished.map(text).collect()
    }

    /// Number of events in the journal's log.
    pub(crate) fn journalled_events(&self) -> u64 {
        self.journal.events()
    }

    pub(crate) fn live_jobs(&self) -> usize {
        self.core.live_job_count()
    }

    /// Number of jobs, live and ended, of which it can tell.
    pub(crate) fn known_jobs(&self) -> usize {
        self.table.jobs.len()
    }
}
