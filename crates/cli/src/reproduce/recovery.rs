//! What becomes of lost work: how long it waits for a slot, and for how long the base policy's order is violated meanwhile.

use giveway_core::{Action, AttemptId, Event, JobId, Kind, NodeId, TaskId, Time};
use giveway_sim::Observer;
use std::collections::{BTreeMap, HashMap};

/// What a base policy's order is, as far as two jobs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Jobs that came first come first.
    Submission,
    /// All jobs hold equally much.
    EqualShares,
}

/// Lost work that waited for a slot.
#[derive(Clone, Copy, Debug)]
struct Wait {
    from: Time,
    until: Time,
    job: JobId,
    kind: Kind,
}

/// A job took a slot or left one.
#[derive(Clone, Copy, Debug)]
struct Hold {
    at: Time,
    job: JobId,
    kind: Kind,
    change: i64,
}

/// Watches a run in which nodes may be lost.
#[derive(Default)]
pub struct Recovery {
    nodes: HashMap<NodeId, [i64; 2]>,
    slots: [i64; 2],
    lost_at: HashMap<NodeId, Time>,
    jobs: Vec<JobId>,
    running: BTreeMap<AttemptId, (NodeId, Time)>,
    /// Where each finished task ran.
    done: HashMap<TaskId, NodeId>,
    lost: HashMap<TaskId, Time>,
    task_s: Vec<f64>,
    holds: Vec<Hold>,
    waits: Vec<Wait>,
}

impl Recovery {
    /// Seconds each attempt took that finished its task.
    pub fn task_s(&self) -> &[f64] {
        &self.task_s
    }

    /// From the notice of a loss until the last lost task of this job ran again.
    pub fn until_all_run_s(&self, job: JobId) -> f64 {
        let waits = self.waits.iter().filter(|wait| wait.job == job);
        waits.map(|wait| wait.until.since(wait.from).as_secs_f64()).fold(0.0, f64::max)
    }

    /// For how long lost work of some job waited although, by this order, another job held slots that were due to it.
    pub fn violated_s(&self, order: Order) -> f64 {
        let mut moments: Vec<Time> = self.waits.iter().flat_map(|wait| [wait.from, wait.until]).collect();
        moments.extend(self.holds.iter().map(|hold| hold.at));
        moments.sort_unstable();
        moments.dedup();
        let mut held: HashMap<(JobId, Kind), i64> = HashMap::new();
        let mut holds = self.holds.iter().peekable();
        let mut violated_s = 0.0;
        for stretch in moments.windows(2) {
            while let Some(hold) = holds.next_if(|hold| hold.at <= stretch[0]) {
                *held.entry((hold.job, hold.kind)).or_default() += hold.change;
            }
            let mut waiting = self.waits.iter().filter(|wait| wait.from <= stretch[0] && stretch[1] <= wait.until);
            if waiting.any(|wait| self.is_violated(order, wait, &held)) {
                violated_s += stretch[1].since(stretch[0]).as_secs_f64();
            }
        }
        violated_s
    }

    fn is_violated(&self, order: Order, wait: &Wait, held: &HashMap<(JobId, Kind), i64>) -> bool {
        let holds = |job: JobId| held.get(&(job, wait.kind)).copied().unwrap_or(0);
        let mut others = self.jobs.iter().copied().filter(|job| *job != wait.job);
        match order {
            Order::Submission => others.any(|job| job > wait.job && holds(job) > 0),
            Order::EqualShares => {
                let at_work = 1 + others.clone().filter(|job| holds(*job) > 0).count() as i64;
                let share = self.slots[wait.kind.ix()] / at_work;
                holds(wait.job) < share && others.any(|job| holds(job) > share)
            }
        }
    }

    fn launched(&mut self, now: Time, attempt: AttemptId, node: NodeId) {
        let task = attempt.task;
        let with_its_output = self.done.remove(&task).and_then(|home| self.lost_at.get(&home).copied());
        if let Some(from) = self.lost.remove(&task).or(with_its_output) {
            self.waits.push(Wait { from, until: now, job: task.job, kind: task.kind });
        }
        self.holds.push(Hold { at: now, job: task.job, kind: task.kind, change: 1 });
        self.running.insert(attempt, (node, now));
    }

    fn ended(&mut self, now: Time, attempt: AttemptId, finished: bool) {
        let Some((node, since)) = self.running.remove(&attempt) else { return };
        self.holds.push(Hold { at: now, job: attempt.task.job, kind: attempt.task.kind, change: -1 });
        if finished {
            self.task_s.push(now.since(since).as_secs_f64());
            self.done.insert(attempt.task, node);
        }
    }

    fn node_lost(&mut self, now: Time, node: NodeId) {
        self.lost_at.insert(node, now);
        for (all, gone) in self.slots.iter_mut().zip(self.nodes.remove(&node).unwrap_or_default()) {
            *all -= gone;
        }
        let there = self.running.iter().filter(|(_, (on, _))| *on == node);
        for attempt in there.map(|(attempt, _)| *attempt).collect::<Vec<_>>() {
            self.ended(now, attempt, false);
            self.lost.insert(attempt.task, now);
        }
    }
}

impl Observer for Recovery {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        match event {
            Event::NodeJoined { node, spec } => {
                let slots = Kind::BOTH.map(|kind| i64::from(spec.slots(kind)));
                self.nodes.insert(*node, slots);
                self.slots.iter_mut().zip(slots).for_each(|(all, new)| *all += new);
            }
            Event::NodeLost { node } => self.node_lost(now, *node),
            Event::JobSubmitted(spec) => self.jobs.push(spec.id),
            Event::AttemptFinished { attempt, .. } => self.ended(now, *attempt, true),
            Event::AttemptFailed { attempt }
            | Event::AttemptKilled { attempt }
            | Event::AttemptPaused { attempt, .. }
            | Event::AttemptEndedEarly { attempt, .. } => self.ended(now, *attempt, false),
            _ => {}
        }
        for action in actions {
            if let Action::Launch { attempt, node, .. } = action {
                self.launched(now, *attempt, *node);
            }
        }
    }
}
