//! Releases Jobs that were submitted suspended, in the policy's order, and tells the others their place.

use super::{Controller, Subject};
use crate::request::{ObjectKind, Operation};
use giveway_core::cluster::Blocked;
use giveway_core::{JobId, Kind, Span, plural};

/// A Job is told its place again if it has changed, but not more often than this.
const TELL_INTERVAL: Span = Span::from_secs(30);

impl Controller {
    /// Releases the Jobs that rank first, as long as there is a slot for a pod of each: free, or being freed for it.
    pub(super) fn release_jobs(&mut self) {
        let held = |controller: &Controller, job: JobId| {
            let key = controller.job_ids.get(&job)?;
            controller.jobs.get(key).filter(|entry| entry.is_held()).map(|_| key.clone())
        };
        if self.records_only() || !self.jobs.values().any(|job| job.id.is_some() && job.is_held()) {
            return;
        }
        let ranking = self.core.rank_jobs();
        let status =
            |job: JobId| self.core.job_status(job).map(|status| status.tasks[Kind::Reduce]).unwrap_or_default();
        let stopping: u32 = self.core.running_jobs().map(|job| status(job).stopping).sum();
        let requested: u32 =
            self.core.running_jobs().filter(|&job| held(self, job).is_none()).map(|job| status(job).pending).sum();
        let mut slots = (self.core.slots(Kind::Reduce).0 + stopping).saturating_sub(requested);
        let held_jobs: Vec<(JobId, String)> =
            ranking.into_iter().filter_map(|job| held(self, job).map(|key| (job, key))).collect();
        let count = held_jobs.len();
        let mut place = 0;
        for (job, key) in held_jobs {
            if slots > 0 {
                slots = slots.saturating_sub(self.requested_slots(&key));
                self.release(&key);
            } else {
                place += 1;
                self.tell_place(job, &key, place, count);
            }
        }
    }

    fn release(&mut self, key: &str) {
        let Some(job) = self.jobs.get_mut(key).filter(|job| job.retry.may_request(self.now)) else { return };
        let Some(object) = &job.object else { return };
        let metadata = object.metadata.clone();
        job.retry.in_flight = true;
        let operation = Operation::ReleaseJob { resource_version: metadata.resource_version };
        self.request(&metadata.namespace, &metadata.name, operation, Subject::Job(key.to_owned()));
    }

    /// Records an Event with a held Job's place in the queue, and how many Jobs, held or not, rank before it.
    fn tell_place(&mut self, id: JobId, key: &str, place: usize, count: usize) {
        let before = match self.core.blocked(id, Kind::Reduce) {
            Some(Blocked::Queued(positions)) => positions.first().map_or(0, |position| position.ahead.len()),
            _ => 0,
        };
        let policy = &self.options.policy.name;
        let message = format!(
            "waits for CPU: place {place} of {count} in the queue; {} before it under policy {policy}",
            plural(before as u64, "Job")
        );
        let now = self.now;
        let Some(job) = self.jobs.get_mut(key) else { return };
        let is_told = |(at, told): &(giveway_core::Time, String)| *told == message || now.since(*at) < TELL_INTERVAL;
        if job.told.as_ref().is_some_and(is_told) {
            return;
        }
        job.told = Some((now, message.clone()));
        let Some(object) = &job.object else { return };
        let metadata = object.metadata.clone();
        let operation = Operation::RecordEvent { kind: ObjectKind::Job, uid: metadata.uid, reason: "Waiting", message };
        self.request(&metadata.namespace, &metadata.name, operation, Subject::Event);
    }
}
