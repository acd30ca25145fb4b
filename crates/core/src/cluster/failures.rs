//! Failed attempts: retries after a delay, nodes that are excluded, and their probes.

use super::{Cluster, Decision, Decisions};
use crate::action::Action;
use crate::ids::{AttemptId, JobId, Kind, NodeId, TaskId};
use crate::reason::Refusal;
use crate::state::{AttemptRole, Exclusion, JobKey};
use crate::timer::Timer;
use crate::units::Time;

impl Cluster {
    /// An attempt failed: its task is tried again later, or its job fails.
    pub(super) fn attempt_failed(
        &mut self,
        attempt: AttemptId,
        out: &mut Vec<Action>,
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        if self.end_paused(attempt, false) {
            return Ok(());
        }
        let (job, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        if self.state.job(job).is_closed() {
            return self.attempt_ended(attempt);
        }
        let (task, node) = (attempt.task.key(), self.state.node_of(job, attempt));
        let rules = self.policy.failures;
        let counted = self.state.nodes().is_usable(node);
        let elsewhere_until = self.now + rules.retry_elsewhere;
        let failures = self.state.record_failure(job, task, node, counted, elsewhere_until);
        if role == AttemptRole::Primary {
            self.fail_primary(job, attempt, None);
        } else {
            self.end_speculative(job, attempt);
        }
        // A job with failures refuses no node, whether for maps or for reduces.
        self.rerank_both(job);
        self.probe_failed(node, attempt, out);
        if counted && failures >= rules.max_task_failures {
            due.push(Decision::FailJob(job));
        } else if self.setup.capabilities.bind_tasks && self.state.job(job).is_ready(task) {
            self.back_off(job, attempt.task, self.now + rules.delay(failures), out);
            self.wake_at(elsewhere_until, None, out);
        }
        Ok(())
    }

    fn back_off(&mut self, job: JobKey, task: TaskId, retry_at: Time, out: &mut Vec<Action>) {
        if retry_at <= self.now || self.state.job(job).is_open() {
            return;
        }
        self.state.back_off(job, task.key(), retry_at);
        self.rerank(job, task.kind);
        self.wake_at(retry_at, Some(task), out);
    }

    /// A node whose probe failed is probed again later.
    fn probe_failed(&mut self, node: NodeId, attempt: AttemptId, out: &mut Vec<Action>) {
        let (now, rules) = (self.now, self.policy.failures);
        if let Some(exclusion) = self.state.exclusion_mut(node).filter(|of| of.probe == Some(attempt)) {
            exclusion.probe = None;
            exclusion.failed_probes += 1;
            exclusion.probe_at = now + rules.probe_delay(exclusion.failed_probes);
            let probe_at = exclusion.probe_at;
            self.wake_at(probe_at, None, out);
        }
    }

    /// A task has succeeded on a node: the nodes where it had failed are to blame.
    pub(super) fn blame_nodes(&mut self, job: JobKey, attempt: AttemptId, out: &mut Vec<Action>) {
        if !self.setup.capabilities.bind_tasks {
            return;
        }
        let succeeded_on = self.state.node_of(job, attempt);
        for node in self.state.take_failed_on(job, attempt.task.key()).into_iter().flatten() {
            if node != succeeded_on && self.state.nodes().is_usable(node) {
                self.node_failed(node, attempt.task.job, out);
            }
        }
    }

    /// Counts a failure against a node. One with too many is excluded.
    fn node_failed(&mut self, node: NodeId, job: JobId, out: &mut Vec<Action>) {
        let (now, rules) = (self.now, self.policy.failures);
        self.state.record_node_failure(node, job, now);
        let Some((failures, jobs)) = rules.excludes(self.state.nodes(), node, now) else { return };
        self.drop_reservations_on(node);
        let probe_at = now + rules.probe_delay(0);
        let exclusion = Exclusion { since: now, failures, jobs, probe_at, failed_probes: 0, probe: None };
        self.state.exclude_node(node, exclusion);
        self.nodes_changed();
        self.wake_at(probe_at, None, out);
    }

    fn drop_reservations_on(&mut self, node: NodeId) {
        for kind in Kind::BOTH {
            while let Some(reservation) = self.state.take_reservation(node, kind) {
                self.rerank(reservation.job, kind);
            }
        }
    }

    /// An administrator wants no new tasks on a node. This replaces an exclusion because of failures, so that no probe starts there.
    pub(super) fn node_drained(&mut self, node: NodeId) -> Result<(), Refusal> {
        self.check_known(node)?;
        if self.state.node(node).exclusion().is_some_and(Exclusion::is_drain) {
            return Ok(());
        }
        self.drop_reservations_on(node);
        self.state.include_node(node);
        self.state.exclude_node(node, Exclusion::drain(self.now));
        self.nodes_changed();
        Ok(())
    }

    /// Fails if a node never joined.
    fn check_known(&self, node: NodeId) -> Result<(), Refusal> {
        if (node.0 as usize) < self.state.nodes().len() { Ok(()) } else { Err(Refusal::UnknownNode(node)) }
    }

    /// An administrator has a node used again.
    pub(super) fn node_included(&mut self, node: NodeId) -> Result<(), Refusal> {
        self.check_known(node)?;
        if self.state.include_node(node) {
            self.nodes_changed();
        }
        Ok(())
    }

    /// True if an offer of a node is only good for a probe; none if it is good for nothing, because the node is excluded.
    pub(crate) fn is_probe(&self, node: NodeId) -> Option<bool> {
        match self.state.node(node).exclusion() {
            None => Some(false),
            Some(exclusion) if exclusion.probe.is_none() && exclusion.probe_at <= self.now => Some(true),
            Some(_) => None,
        }
    }

    pub(crate) fn set_probe(&mut self, node: NodeId, attempt: AttemptId) {
        if let Some(exclusion) = self.state.exclusion_mut(node) {
            exclusion.probe = Some(attempt);
        }
    }

    /// An attempt on this node ended, but did not fail. If it was the probe of an excluded node and has a result, the node is taken back;
    /// without a result, another probe may start.
    pub(super) fn probe_ended(&mut self, node: NodeId, attempt: AttemptId, has_result: bool) {
        let now = self.now;
        match self.state.exclusion_mut(node) {
            Some(exclusion) if exclusion.probe == Some(attempt) => {
                (exclusion.probe, exclusion.probe_at) = (None, now);
                if has_result {
                    self.state.include_node(node);
                    self.nodes_changed();
                }
            }
            _ => {}
        }
    }

    /// Lets the retry timer fire at this time, so that the backend offers slots again; a task may then run again.
    fn wake_at(&mut self, at: Time, task: Option<TaskId>, out: &mut Vec<Action>) {
        if at > self.now && at != Time::NEVER {
            self.retries.insert((at, task));
            self.set_retry_timer(out);
        }
    }

    /// The retry timer fired: tasks whose delay is over may run again.
    pub(super) fn retry(&mut self, out: &mut Vec<Action>) {
        while let Some((at, task)) = self.retries.first().copied().filter(|&(at, _)| at <= self.now) {
            self.retries.remove(&(at, task));
            let Some((task, job)) = task.and_then(|task| Some((task, self.state.find(task.job)?))) else { continue };
            if !self.state.job(job).is_closed() && self.state.end_back_off(job, task.key(), self.now) {
                self.rerank(job, task.kind);
            }
        }
        self.set_retry_timer(out);
    }

    pub(super) fn set_retry_timer(&mut self, out: &mut Vec<Action>) {
        let Some(&(at, _)) = self.retries.first() else { return };
        if self.timers.expiry(Timer::Retry).is_none_or(|expiry| at < expiry) {
            self.timers.set(Timer::Retry, at);
            out.push(Action::SetTimer { timer: Timer::Retry, at });
        }
    }
}
