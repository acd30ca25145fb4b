//! Recovery of lost tasks: how long they wait for a slot, and how long the base policy's order is violated meanwhile.

use giveway_core::{
    Action, Change, End, Event, JobId, Kind, Lifecycle, NodeId, NodeSpec, RunningAttempt, TaskId, Time,
};
use giveway_sim::Observer;
use std::collections::HashMap;

/// The order of jobs under a base policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseOrder {
    /// Jobs in order of submission (FIFO).
    Submission,
    /// All jobs with work are entitled to the same number of slots (Fair).
    EqualShares,
}

/// The wait of a lost task, from the detection of the loss to its next launch.
#[derive(Clone, Copy, Debug)]
struct Wait {
    from: Time,
    until: Time,
    job: JobId,
    kind: Kind,
}

/// A change of the slots allocated to a job: +1 for a launch, -1 for an attempt's end.
#[derive(Clone, Copy, Debug)]
struct SlotChange {
    at: Time,
    job: JobId,
    kind: Kind,
    delta: i64,
}

/// Observes a run in which nodes may be lost.
#[derive(Default)]
pub struct RecoveryObserver {
    /// Map and reduce slots of each live node.
    node_slots: HashMap<NodeId, [i64; 2]>,
    slots: [i64; 2],
    lost_at: HashMap<NodeId, Time>,
    jobs: Vec<JobId>,
    running: Lifecycle,
    /// The node on which each finished task ran.
    finished_on: HashMap<TaskId, NodeId>,
    /// Tasks that ran on a lost node and were not launched again, with the time of the loss.
    lost: HashMap<TaskId, Time>,
    task_s: Vec<f64>,
    slot_changes: Vec<SlotChange>,
    waits: Vec<Wait>,
}

impl RecoveryObserver {
    /// Duration of each attempt that finished its task, in seconds.
    pub fn task_s(&self) -> &[f64] {
        &self.task_s
    }

    /// Seconds from the detection of a loss until the last lost task was launched again, of one job or of all; 0 if none was lost.
    pub fn max_wait_s(&self, job: Option<JobId>) -> f64 {
        let waits = self.waits.iter().filter(|wait| job.is_none_or(|job| wait.job == job));
        waits.map(|wait| wait.until.since(wait.from).as_secs_f64()).fold(0.0, f64::max)
    }

    /// Seconds during which a lost task waited although another job had slots allocated to which, by this order, the lost task's job was entitled.
    pub fn violated_s(&self, order: BaseOrder) -> f64 {
        let mut instants: Vec<Time> = self.waits.iter().flat_map(|wait| [wait.from, wait.until]).collect();
        instants.extend(self.slot_changes.iter().map(|change| change.at));
        instants.sort_unstable();
        instants.dedup();
        let mut allocated: HashMap<(JobId, Kind), i64> = HashMap::new();
        let mut changes = self.slot_changes.iter().peekable();
        let mut violated_s = 0.0;
        for interval in instants.windows(2) {
            while let Some(change) = changes.next_if(|change| change.at <= interval[0]) {
                *allocated.entry((change.job, change.kind)).or_default() += change.delta;
            }
            let mut waiting = self.waits.iter().filter(|wait| wait.from <= interval[0] && interval[1] <= wait.until);
            if waiting.any(|wait| self.is_violated(order, wait, &allocated)) {
                violated_s += interval[1].since(interval[0]).as_secs_f64();
            }
        }
        violated_s
    }

    fn is_violated(&self, order: BaseOrder, wait: &Wait, allocated: &HashMap<(JobId, Kind), i64>) -> bool {
        let slots_of = |job: JobId| allocated.get(&(job, wait.kind)).copied().unwrap_or(0);
        let mut others = self.jobs.iter().copied().filter(|job| *job != wait.job);
        match order {
            BaseOrder::Submission => others.any(|job| job > wait.job && slots_of(job) > 0),
            BaseOrder::EqualShares => {
                let active = 1 + others.clone().filter(|job| slots_of(*job) > 0).count() as i64;
                let share = self.slots[wait.kind.index()] / active;
                slots_of(wait.job) < share && others.any(|job| slots_of(job) > share)
            }
        }
    }

    fn on_change(&mut self, now: Time, change: Change<'_>) {
        match change {
            Change::JobSubmitted(spec) => self.jobs.push(spec.id),
            Change::NodeJoined { node, spec } => self.on_node_joined(node, spec),
            Change::NodeLost { node } => self.on_node_lost(now, node),
            Change::Launched { attempt, .. } => self.on_launch(now, attempt.id.task),
            Change::Ended { attempt, end } => self.on_attempt_end(now, &attempt, end),
            Change::JobClosed { .. } | Change::StopRequested { .. } | Change::SlotsSet { .. } => {}
        }
    }

    fn on_node_joined(&mut self, node: NodeId, spec: &NodeSpec) {
        let slots = Kind::BOTH.map(|kind| i64::from(spec.slots(kind)));
        self.node_slots.insert(node, slots);
        self.slots.iter_mut().zip(slots).for_each(|(total, new)| *total += new);
    }

    fn on_node_lost(&mut self, now: Time, node: NodeId) {
        self.lost_at.insert(node, now);
        for (total, lost) in self.slots.iter_mut().zip(self.node_slots.remove(&node).unwrap_or_default()) {
            *total -= lost;
        }
    }

    fn on_launch(&mut self, now: Time, task: TaskId) {
        // A finished map runs again only because its output was lost with its node.
        let output_lost_at = self.finished_on.remove(&task).and_then(|node| self.lost_at.get(&node).copied());
        if let Some(from) = self.lost.remove(&task).or(output_lost_at) {
            self.waits.push(Wait { from, until: now, job: task.job, kind: task.kind });
        }
        self.slot_changes.push(SlotChange { at: now, job: task.job, kind: task.kind, delta: 1 });
    }

    fn on_attempt_end(&mut self, now: Time, attempt: &RunningAttempt, end: End) {
        let task = attempt.id.task;
        self.slot_changes.push(SlotChange { at: now, job: task.job, kind: task.kind, delta: -1 });
        match end {
            End::Finished { .. } => {
                self.task_s.push(now.since(attempt.launched).as_secs_f64());
                self.finished_on.insert(task, attempt.node);
            }
            End::NodeLost => {
                self.lost.insert(task, now);
            }
            End::Paused | End::EndedEarly { .. } | End::Killed { .. } | End::Failed | End::Resynced => {}
        }
    }
}

impl Observer for RecoveryObserver {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        let mut running = std::mem::take(&mut self.running);
        running.observe(event, actions, now, &mut |change| self.on_change(now, change));
        self.running = running;
    }
}
