//! Transitions after failures of attempts: tasks that back off before a retry, and nodes that are excluded and probed.

use super::State;
use super::job::Job;
use super::job_table::JobKey;
use super::node::Exclusion;
use super::task::TaskState;
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskKey};
use crate::units::Time;

impl State {
    /// Records a failure of a task on a node; returns how often the task has failed. If not `counted`, only the place is remembered.
    pub(crate) fn record_failure(
        &mut self,
        job: JobKey,
        task: TaskKey,
        node: NodeId,
        counted: bool,
        elsewhere_until: Time,
    ) -> u8 {
        let usable = self.nodes.usable_count() as usize;
        let failed = self.jobs.get_mut(job);
        match failed.failed_on.iter_mut().find(|(other, _)| *other == node) {
            Some((_, failures)) => *failures = failures.saturating_add(1),
            None => failed.failed_on.push((node, 1)),
        }
        let history = failed.history_mut(task);
        history.failures = history.failures.saturating_add(u8::from(counted));
        let [first, second, _] = history.failed_on;
        let others = [first, second].map(|other| other.filter(|&other| other != node));
        history.failed_on = [Some(node), others[0], others[1]];
        // If it has failed everywhere, it prefers any node to the last one.
        if history.failed_on.iter().flatten().count() >= usable {
            history.failed_on = [Some(node).filter(|_| usable > 1), None, None];
        }
        history.elsewhere_until = elsewhere_until;
        history.failures
    }

    /// The nodes of a task's last failures, which are forgotten.
    pub(crate) fn take_failed_on(&mut self, job: JobKey, task: TaskKey) -> [Option<NodeId>; 3] {
        let job = self.jobs.get_mut(job);
        if job.task(task).has_history { std::mem::take(&mut job.history_mut(task).failed_on) } else { [None; 3] }
    }

    /// Records that an attempt of a job failed on a node, and the same task succeeded elsewhere.
    pub(crate) fn record_node_failure(&mut self, node: NodeId, job: JobId, now: Time) {
        self.nodes.get_mut(node).add_failure(job, now);
    }

    /// A pending task waits until `retry_at` before it may run again; [`State::end_back_off`] ends that.
    pub(crate) fn back_off(&mut self, job: JobKey, task: TaskKey, retry_at: Time) {
        let job = self.jobs.get_mut(job);
        assert!(job.is_ready(task), "only a pending task backs off");
        match task.kind {
            Kind::Map => job.pending_maps.remove(task.index),
            Kind::Reduce => job.pending_reduces.retain(|&reduce| reduce != task.index),
        }
        job.history_mut(task).retry_at = Some(retry_at);
        job.counts[task.kind].backing_off += 1;
    }

    /// Ends the wait of a task, if it is over by `now`; returns whether it was.
    pub(crate) fn end_back_off(&mut self, job: JobKey, task: TaskKey, now: Time) -> bool {
        let job = self.jobs.get_mut(job);
        if job.retry_at(task).is_none_or(|retry_at| now < retry_at) {
            return false;
        }
        job.history_mut(task).retry_at = None;
        job.counts[task.kind].backing_off -= 1;
        match task.kind {
            Kind::Map => job.pending_maps.add_returned(task.index),
            Kind::Reduce => job.pending_reduces.push(task.index),
        }
        true
    }

    /// Excludes a node: its slots no longer count, but attempts that run there go on. Its reservations must have been removed.
    pub(crate) fn exclude_node(&mut self, node: NodeId, exclusion: Exclusion) {
        let excluded = self.nodes.get_mut(node);
        let reserved = Kind::BOTH.iter().any(|&kind| !excluded.reservations[kind].is_empty());
        assert!(excluded.exclusion.is_none() && !reserved, "{node} cannot be excluded");
        excluded.exclusion = Some(Box::new(exclusion));
        if !excluded.up {
            return;
        }
        let (free, node_type) = (excluded.free, excluded.node_type);
        let slots = PerKind::from_fn(|kind| u32::from(excluded.spec.slots(kind)));
        self.nodes.excluded += 1;
        self.nodes.types.remove(node_type, slots);
        for kind in Kind::BOTH {
            self.nodes.slots[kind] -= slots[kind];
            self.nodes.free[kind] -= u32::from(free[kind]);
        }
    }

    /// Takes an excluded node back and forgets the failures there; returns false if it was not excluded.
    pub(crate) fn include_node(&mut self, node: NodeId) -> bool {
        let included = self.nodes.get_mut(node);
        if included.exclusion.take().is_none() {
            return false;
        }
        included.failures.clear();
        if !included.up {
            return true;
        }
        let (free, slots) = (included.free, PerKind::from_fn(|kind| u32::from(included.spec.slots(kind))));
        self.nodes.excluded -= 1;
        for kind in Kind::BOTH {
            self.nodes.slots[kind] += slots[kind];
            self.nodes.free[kind] += u32::from(free[kind]);
        }
        let nodes = &mut self.nodes;
        nodes.types.add(&nodes.nodes[node.0 as usize]);
        self.jobs.iter_mut().for_each(|(_, job)| job.failed_on.retain(|(other, _)| *other != node));
        true
    }

    /// Changes the exclusion of a node, if it is excluded.
    pub(crate) fn exclusion_mut(&mut self, node: NodeId) -> Option<&mut Exclusion> {
        self.nodes.nodes.get_mut(node.0 as usize)?.exclusion.as_deref_mut()
    }

    /// The node whose slot an attempt holds.
    pub(crate) fn node_of(&self, job: JobKey, attempt: AttemptId) -> NodeId {
        let job = self.jobs.get(job);
        let is_it =
            |other: &&super::SpeculativeAttempt| (other.task, other.number) == (attempt.task.key(), attempt.number);
        let speculative = job.speculative.iter().find(is_it);
        speculative.map_or_else(|| job.task(attempt.task.key()).node, |speculative| speculative.node)
    }
}

impl Job {
    /// True if a task is pending and does not back off.
    pub fn is_ready(&self, task: TaskKey) -> bool {
        self.find_task(task).is_some_and(|found| found.state == TaskState::Pending) && self.retry_at(task).is_none()
    }

    /// When a task that backs off after a failure may run again.
    pub fn retry_at(&self, task: TaskKey) -> Option<Time> {
        self.find_task(task)?;
        self.history(task)?.retry_at
    }

    /// Until when a task that failed prefers other nodes.
    pub fn elsewhere_until(&self, task: TaskKey) -> Option<Time> {
        self.history(task).map(|history| history.elsewhere_until)
    }

    /// The earliest time at which a task of a kind that backs off may run again.
    pub fn next_retry(&self, kind: Kind) -> Option<Time> {
        let tasks = (0..self.task_end(kind)).map(|index| TaskKey { kind, index });
        tasks.filter_map(|task| self.retry_at(task)).min()
    }

    /// True if a task still prefers other nodes than this one, because it failed here.
    #[inline]
    pub fn prefers_elsewhere(&self, task: TaskKey, node: NodeId, now: Time) -> bool {
        self.history(task).is_some_and(|history| history.prefers_elsewhere(node, now))
    }

    /// How often a task has failed and the node of its last failure; none if it has not failed.
    pub fn last_failure(&self, task: TaskKey) -> Option<(u8, NodeId)> {
        let history = self.history(task)?;
        Some((history.failures, history.failed_on[0]?))
    }

    /// The nodes on which attempts of the job failed, and how many.
    pub fn failed_on(&self) -> &[(NodeId, u8)] {
        &self.failed_on
    }
}
