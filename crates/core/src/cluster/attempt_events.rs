//! Events of attempts: progress, results, pauses, early ends, failures.

use super::{Cluster, Decision, Decisions};
use crate::action::{Action, Outcome, PreemptAction};
use crate::event::Progress;
use crate::ids::{AttemptId, Kind};
use crate::policy::estimates;
use crate::policy::orders::Order;
use crate::reason::{Reason, Refusal};
use crate::state::{AttemptRole, FailedPrimary, JobKey, Task, TaskState};

impl Cluster {
    pub(super) fn set_progress(&mut self, progress: &[Progress]) {
        progress.iter().for_each(|report| self.state.set_progress(report.attempt, report.progress_ppm));
    }

    pub(super) fn attempt_finished(
        &mut self,
        attempt: AttemptId,
        output_bytes: u64,
        out: &mut Vec<Action>,
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        if self.end_paused(attempt, true) {
            return Ok(());
        }
        let (job, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        self.probe_ended(self.state.node_of(job, attempt), attempt, true);
        match role {
            AttemptRole::StoppingSpeculative => {
                self.end_speculative(job, attempt);
                self.reap(job);
                return Ok(());
            }
            AttemptRole::Speculative => self.state.promote_speculative(job, attempt),
            AttemptRole::Primary => {}
        }
        self.blame_nodes(job, attempt, out);
        let could_start = self.state.job(job).may_start(Kind::Reduce);
        let count_work = self.needs.finished_work || self.needs.remaining_area;
        self.state.finish(job, attempt, output_bytes, count_work, self.now);
        for (attempt, node) in self.state.stop_speculative(job, Some(attempt.task.key())) {
            out.push(Action::Kill { attempt, node, reason: Reason::OtherAttemptFinished });
        }
        if self.state.job(job).is_closed() {
            self.rerank(job, attempt.task.kind);
            self.reap(job);
        } else {
            self.task_done(job, attempt.task.kind, could_start, out, due);
        }
        Ok(())
    }

    /// After a task of a job is done: its reduces may start, or the job may be complete.
    fn task_done(&mut self, job: JobKey, kind: Kind, could_start: bool, out: &mut Vec<Action>, due: &mut Decisions) {
        if self.state.job(job).is_complete() {
            self.close(job, Outcome::Succeeded, out);
            return;
        }
        self.rerank(job, kind);
        if kind == Kind::Map && self.state.job(job).total(Kind::Reduce) > 0 {
            let follows_maps = self.policy.reduce.order.needs().remaining_work;
            let may_start = self.state.job(job).may_start(Kind::Reduce);
            if follows_maps {
                let estimate = estimates::update_shuffle(self.state.job(job), self.now);
                self.state.job_mut(job).set_estimate(estimate);
            }
            if follows_maps || may_start != could_start {
                self.rerank(job, Kind::Reduce);
            }
            if may_start && !could_start {
                due.push(Decision::Preempt(Kind::Reduce));
            }
        }
    }

    pub(super) fn attempt_paused(&mut self, attempt: AttemptId, progress_ppm: u32) -> Result<(), Refusal> {
        if self.job_is_closed(attempt) {
            return self.attempt_ended(attempt);
        }
        let job = self.stopping_job(attempt, PreemptAction::Pause)?;
        self.probe_ended(self.state.node_of(job, attempt), attempt, false);
        self.state.pause(job, attempt, progress_ppm, self.now);
        self.rerank(job, Kind::Reduce);
        Ok(())
    }

    pub(super) fn attempt_ended_early(
        &mut self,
        attempt: AttemptId,
        done_bytes: u64,
        output_bytes: u64,
        out: &mut Vec<Action>,
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        if self.job_is_closed(attempt) {
            return self.attempt_ended(attempt);
        }
        let key = self.stopping_job(attempt, PreemptAction::EndEarly)?;
        let job = self.state.job(key);
        if done_bytes > job.map_bytes(attempt.task.index) {
            return Err(Refusal::NotRequested(attempt));
        }
        let could_start = job.may_start(Kind::Reduce);
        self.probe_ended(self.state.node_of(key, attempt), attempt, done_bytes > 0);
        self.state.end_early(key, attempt, done_bytes, output_bytes, self.now);
        self.task_done(key, Kind::Map, could_start, out, due);
        Ok(())
    }

    /// True if the attempt's job was closed while the attempt was stopping: its work is of no use.
    fn job_is_closed(&self, attempt: AttemptId) -> bool {
        self.state.role(attempt).is_some_and(|(job, _)| self.state.job(job).is_closed())
    }

    /// The job of an attempt that was requested to stop in this way.
    fn stopping_job(&self, attempt: AttemptId, action: PreemptAction) -> Result<JobKey, Refusal> {
        let (job, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        let state = self.state.job(job).task(attempt.task.key()).state();
        if role == AttemptRole::Primary && state == TaskState::Stopping(action) {
            Ok(job)
        } else {
            Err(Refusal::NotRequested(attempt))
        }
    }

    /// An attempt ended without a result and without a failure of its own: its task starts again.
    pub(super) fn attempt_ended(&mut self, attempt: AttemptId) -> Result<(), Refusal> {
        if self.end_paused(attempt, false) {
            return Ok(());
        }
        let (job, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        self.probe_ended(self.state.node_of(job, attempt), attempt, false);
        if role == AttemptRole::Primary {
            self.fail_primary(job, attempt, None);
        } else {
            self.end_speculative(job, attempt);
        }
        self.reap(job);
        Ok(())
    }

    /// Ends a paused attempt of an open job: on such a cluster it may run on without a slot, and end. Returns whether it is one.
    pub(super) fn end_paused(&mut self, attempt: AttemptId, finished: bool) -> bool {
        if attempt.task.kind == Kind::Map {
            return false;
        }
        let Some(key) = self.state.find(attempt.task.job) else { return false };
        let job = self.state.job(key);
        let is_paused = |task: &Task| task.state() == TaskState::Paused && task.number() == attempt.number;
        if !job.is_open() || job.is_closed() || !job.find_task(attempt.task.key()).is_some_and(is_paused) {
            return false;
        }
        self.state.end_paused(key, attempt.task.index, finished);
        self.rerank(key, Kind::Reduce);
        true
    }

    /// The backend could not stop an attempt. The slot that was to be freed is not reserved any more.
    pub(super) fn stop_failed(&mut self, attempt: AttemptId) -> Result<(), Refusal> {
        let (job, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        let (key, task) = (attempt.task.key(), self.state.job(job).task(attempt.task.key()));
        if role != AttemptRole::Primary || !task.is_stopping() || self.state.job(job).is_closed() {
            return Err(Refusal::NotRequested(attempt));
        }
        let node = task.node();
        self.state.cancel_stop(job, key);
        self.rerank(job, key.kind);
        if let Some(beneficiary) = self.state.drop_newest_reservation(node, key.kind) {
            self.rerank(beneficiary, key.kind);
        }
        Ok(())
    }

    pub(super) fn attempt_protected(&mut self, attempt: AttemptId) -> Result<(), Refusal> {
        match self.state.role(attempt) {
            Some((job, AttemptRole::Primary)) => {
                self.state.protect(job, attempt.task.key());
                Ok(())
            }
            _ => Err(Refusal::StaleAttempt(attempt)),
        }
    }

    /// A primary attempt ended without a result. `lost_with` is its node if that was lost.
    pub(super) fn fail_primary(&mut self, job: JobKey, attempt: AttemptId, lost_with: Option<crate::NodeId>) {
        let outcome = self.state.fail_primary(job, attempt, lost_with, self.now);
        if outcome == FailedPrimary::Replaced {
            // The failed attempt may have fetched output that was lost since; its replacement has not.
            self.run_lost_maps_again(job);
        }
        self.rerank(job, attempt.task.kind);
    }

    pub(super) fn end_speculative(&mut self, job: JobKey, attempt: AttemptId) {
        self.state.end_speculative(job, attempt, self.now);
        self.rerank(job, attempt.task.kind);
    }

    /// A reduce starts to fetch from the beginning, so maps whose output was lost while no reduce needed it must run again.
    pub(crate) fn run_lost_maps_again(&mut self, job: JobKey) {
        if self.state.undo_lost_maps(job) {
            self.rerank(job, Kind::Map);
        }
    }

    /// A user requested that an attempt free its slot. The slot is not reserved: it goes to the job that ranks first.
    pub(super) fn yield_requested(&mut self, attempt: AttemptId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let (key, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        let (task, able) = (attempt.task.key(), self.setup.capabilities);
        let (action, able) = match task.kind {
            Kind::Map => (PreemptAction::EndEarly, able.end_maps_early),
            Kind::Reduce => (PreemptAction::Pause, able.pause_reduces),
        };
        let job = self.state.job(key);
        let stoppable = role == AttemptRole::Primary && job.task(task).state() == TaskState::Running;
        if !able || !stoppable || job.is_speculated(task) || job.is_closed() {
            return Err(Refusal::NotRequested(attempt));
        }
        self.stop_attempt(key, task, action, Reason::RequestedByUser, out);
        Ok(())
    }
}
