//! Reference implementation of the metrics, for tests: every attempt is an interval from its launch to its end, and every metric is computed by a
//! pass over all of them.

use giveway_core::{
    Action, AttemptId, Event, JobId, JobSpec, Kind, NodeId, Outcome, Start, TaskId, Tenants, Time, Work,
};
use std::collections::{BTreeMap, BTreeSet};

/// Time, event, and the actions that followed it.
pub(super) type Record = (Time, Event, Vec<Action>);

/// The metrics that the reference implementation computes.
pub(super) struct ReferenceMetrics {
    pub(super) mean_completion_s: Option<f64>,
    pub(super) mean_wait_s: Option<f64>,
    pub(super) mean_reduce_wait_s: Option<f64>,
    pub(super) utilisation: Option<f64>,
    pub(super) lost_work_s: f64,
    pub(super) lost_output_s: f64,
    pub(super) recovery_wait_s: Option<f64>,
    pub(super) dissatisfaction: Option<f64>,
    pub(super) fairness: Option<f64>,
    pub(super) jain_index: Option<f64>,
    pub(super) preemptions: (u64, u64, u64),
}

/// An attempt from launch to end. Instants are positions in the event log; a launch comes after the event that caused it.
struct Interval {
    attempt: AttemptId,
    node: NodeId,
    work: Work,
    from: usize,
    to: usize,
    end: Option<Event>,
}

struct EventLogView<'a> {
    event_log: &'a [Record],
    intervals: Vec<Interval>,
    jobs: BTreeMap<JobId, (usize, &'a JobSpec)>,
    closed: BTreeMap<JobId, (usize, Outcome)>,
}

pub(super) fn compute(event_log: &[Record], tenants: &Tenants) -> ReferenceMetrics {
    let view = EventLogView::new(event_log);
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let succeeded = || view.closed.iter().filter(|(_, (_, outcome))| *outcome == Outcome::Succeeded);
    let submit_s = |job: &JobId| view.at_s(view.jobs[job].0);
    let first_map_s = |job: &JobId| {
        let maps = view
            .intervals
            .iter()
            .filter(|interval| interval.attempt.task.job == *job && interval.attempt.task.kind == Kind::Map);
        view.at_s(maps.map(|interval| interval.from).min().unwrap())
    };
    let (lost_work_s, lost_output_s, recovery) = view.losses();
    let (dissatisfaction, fairness) = view.user_shares(tenants);
    let utilisation = view.utilisation();
    ReferenceMetrics {
        mean_completion_s: mean(succeeded().map(|(job, (end, _))| view.at_s(*end) - submit_s(job)).collect()),
        mean_wait_s: mean(succeeded().map(|(job, _)| first_map_s(job) - submit_s(job)).collect()),
        mean_reduce_wait_s: mean(view.reduce_waits()),
        utilisation,
        lost_work_s,
        lost_output_s,
        recovery_wait_s: mean(recovery),
        dissatisfaction,
        fairness,
        jain_index: view.jain_index(tenants),
        preemptions: view.preemptions(),
    }
}

impl<'a> EventLogView<'a> {
    fn new(event_log: &'a [Record]) -> EventLogView<'a> {
        let (mut intervals, mut jobs, mut closed) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (at, (_, event, actions)) in event_log.iter().enumerate() {
            if let Event::JobSubmitted(spec) = event {
                jobs.insert(spec.id, (at, &**spec));
            }
            for action in actions {
                match action {
                    Action::Launch { attempt, node, work, .. } => {
                        let ends =
                            |event: &Event| ended(event) == Some(*attempt) || *event == Event::NodeLost { node: *node };
                        let to = (at + 1..event_log.len()).find(|later| ends(&event_log[*later].1));
                        let end = to.map(|to| event_log[to].1.clone());
                        let to = to.unwrap_or(event_log.len());
                        intervals.push(Interval { attempt: *attempt, node: *node, work: *work, from: at, to, end });
                    }
                    Action::CloseJob { job, outcome } => {
                        closed.insert(*job, (at, *outcome));
                    }
                    _ => {}
                }
            }
        }
        EventLogView { event_log, intervals, jobs, closed }
    }

    fn at_s(&self, position: usize) -> f64 {
        self.event_log[position.min(self.event_log.len() - 1)].0.as_secs_f64()
    }

    /// The interval that completed a task, if the task is done just before the event at this position.
    fn done(&self, task: TaskId, position: usize) -> Option<&Interval> {
        self.done_by(task, position, position)
    }

    /// Like [`EventLogView::done`], with only the launches before a given position considered.
    fn done_by(&self, task: TaskId, position: usize, launches_before: usize) -> Option<&Interval> {
        let mut done: Option<&Interval> = None;
        for interval in
            self.intervals.iter().filter(|interval| interval.attempt.task == task && interval.from < launches_before)
        {
            // A task that is launched again after it was done is no longer done.
            done = done.filter(|first| first.to > interval.from);
            if interval.to < position && interval.produced_output() && done.is_none_or(|first| interval.to < first.to) {
                done = Some(interval);
            }
        }
        done
    }

    fn running(&self, task: TaskId, position: usize) -> usize {
        self.intervals
            .iter()
            .filter(|interval| interval.attempt.task == task && interval.from < position && interval.to >= position)
            .count()
    }

    /// All tasks of a job that exist at a position; a remainder exists from the early end on.
    fn tasks(&self, job: JobId, position: usize) -> Vec<TaskId> {
        let spec = self.jobs[&job].1;
        let unnumbered_remainders = self
            .intervals
            .iter()
            .filter(|interval| interval.attempt.task.job == job && interval.to < position && interval.has_remainder());
        let maps = spec.splits.len() as u32 + unnumbered_remainders.count() as u32;
        let all = (0..maps).map(|index| (Kind::Map, index)).chain((0..spec.reduces).map(|index| (Kind::Reduce, index)));
        all.map(|(kind, index)| TaskId { job, kind, index }).collect()
    }

    fn reduce_waits(&self) -> Vec<f64> {
        let mut seen = BTreeSet::new();
        let mut waits = Vec::new();
        for interval in &self.intervals {
            let task = interval.attempt.task;
            if task.kind == Kind::Map || !seen.insert(task) {
                continue;
            }
            // The event that caused the launch counts.
            let now = interval.from + 1;
            let maps: Vec<TaskId> =
                self.tasks(task.job, now).into_iter().filter(|task| task.kind == Kind::Map).collect();
            let ends: Vec<Option<usize>> =
                maps.iter().map(|map| self.done(*map, now).map(|interval| interval.to)).collect();
            let last = ends.iter().map(|end| end.unwrap_or(usize::MAX)).max().unwrap();
            waits.push(if last == usize::MAX { 0.0 } else { self.at_s(interval.from) - self.at_s(last) });
        }
        waits
    }

    /// Lost work, lost output, and the recovery waits of tasks that ran again because a node was lost.
    fn losses(&self) -> (f64, f64, Vec<f64>) {
        let (mut work_s, mut output_s, mut waits) = (0.0, 0.0, Vec::new());
        let span_s = |interval: &Interval| self.at_s(interval.to) - self.at_s(interval.from);
        for interval in &self.intervals {
            let task = interval.attempt.task;
            let closed = self.closed.get(&task.job).map_or(usize::MAX, |(at, _)| *at);
            let late = interval.to > closed || self.done(task, interval.to).is_some();
            let wasted = match &interval.end {
                None => false,
                Some(Event::AttemptFinished { .. } | Event::AttemptPaused { .. }) => late,
                Some(Event::AttemptEndedEarly { done_bytes, .. }) => late || *done_bytes == 0,
                Some(_) => true,
            };
            // The work of a paused attempt is lost if its node was lost before it was continued, or if its continuation was wasted.
            if wasted {
                work_s += span_s(interval);
                let mut at = interval;
                while let Some(before) = self.intervals.iter().find(|before| at.continues(before.attempt)) {
                    work_s += span_s(before);
                    at = before;
                }
            }
            let continued = |later: &Interval| later.continues(interval.attempt);
            let lost_paused = matches!(interval.end, Some(Event::AttemptPaused { .. }))
                && !self.intervals.iter().any(continued)
                && self.lost_within(interval.node, interval.to, closed).is_some();
            if lost_paused {
                work_s += span_s(interval);
                let mut at = interval;
                while let Some(before) = self.intervals.iter().find(|before| at.continues(before.attempt)) {
                    work_s += span_s(before);
                    at = before;
                }
            }
        }
        for interval in &self.intervals {
            let task = interval.attempt.task;
            let before: Vec<&Interval> = self
                .intervals
                .iter()
                .filter(|other| other.attempt.task == task && other.from < interval.from)
                .collect();
            if let Some(done) = self.done_by(task, interval.from + 1, interval.from) {
                if task.kind == Kind::Map
                    && let Some(lost) = self.lost_within(done.node, done.to, interval.from + 1)
                {
                    output_s += span_s(done);
                    waits.push(self.at_s(interval.from) - self.at_s(lost));
                }
                continue;
            }
            let last = before.iter().filter(|other| other.to <= interval.from).max_by_key(|other| other.to);
            let running = before.iter().any(|other| other.to > interval.from);
            match last.map(|last| (last, last.end.as_ref().unwrap())) {
                Some((last, Event::NodeLost { .. })) if !running => {
                    waits.push(self.at_s(interval.from) - self.at_s(last.to))
                }
                Some((last, Event::AttemptPaused { .. })) => {
                    if let Some(lost) = self.lost_within(last.node, last.to, interval.from + 1) {
                        waits.push(self.at_s(interval.from) - self.at_s(lost));
                    }
                }
                _ => {}
            }
        }
        (work_s, output_s, waits)
    }

    fn lost_within(&self, node: NodeId, from: usize, to: usize) -> Option<usize> {
        (from + 1..to.min(self.event_log.len())).find(|at| self.event_log[*at].1 == Event::NodeLost { node })
    }

    fn preemptions(&self) -> (u64, u64, u64) {
        let count =
            |which: &dyn Fn(&Interval) -> bool| self.intervals.iter().filter(|interval| which(interval)).count() as u64;
        let preempted = |interval: &Interval| {
            self.event_log[interval.from..interval.to].iter().flat_map(|(_, _, actions)| actions).any(|action| {
                matches!(action, Action::Kill { attempt, reason, .. }
                    if reason.is_preemption() && *attempt == interval.attempt)
            })
        };
        (
            count(&|interval| matches!(interval.end, Some(Event::AttemptPaused { .. }))),
            count(&|interval| matches!(interval.end, Some(Event::AttemptKilled { .. })) && preempted(interval)),
            count(&|interval| matches!(interval.end, Some(Event::AttemptEndedEarly { .. }))),
        )
    }

    /// The busy fraction of the slots from the first submission to the last close.
    fn utilisation(&self) -> Option<f64> {
        let first = self.jobs.values().map(|(at, _)| *at).min().unwrap();
        let last = self.closed.values().map(|(at, _)| *at).max().unwrap();
        let (mut busy, mut slots) = (0.0, 0.0);
        for position in first..last {
            // The level after this record holds until the next record.
            let span_s = self.at_s(position + 1) - self.at_s(position);
            busy += self.live(position + 1).len() as f64 * span_s;
            slots += self.slots(position + 1) * span_s;
        }
        Some(busy / slots)
    }

    /// The attempts that run before the record at this position.
    fn live(&self, position: usize) -> Vec<&Interval> {
        self.intervals.iter().filter(|interval| interval.from < position && interval.to >= position).collect()
    }

    /// COSHH's dissatisfaction and fairness, averaged over the completions of jobs.
    fn user_shares(&self, tenants: &Tenants) -> (Option<f64>, Option<f64>) {
        let (mut dissatisfaction, mut fairness, mut samples) = (0.0, 0.0, 0.0);
        for (closed, _) in self.closed.values().filter(|(_, outcome)| *outcome == Outcome::Succeeded) {
            let after = closed + 1;
            samples += 1.0;
            let live = self.live(after);
            let allocated = |name: &str| {
                live.iter().filter(|interval| self.jobs[&interval.attempt.task.job].1.user == name).count() as f64
            };
            let mut users: BTreeMap<&str, (f64, f64)> = tenants
                .users
                .iter()
                .map(|user| (user.name.as_str(), (user.weight, f64::from(user.min_share))))
                .collect();
            for (_, spec) in self.jobs.values() {
                users.entry(&spec.user).or_insert((1.0, 0.0));
            }
            users.retain(|name, _| allocated(name) > 0.0 || self.has_demand(name, after));
            for (name, (weight, min_share)) in &users {
                if allocated(name) < *min_share && self.has_demand(name, after) {
                    dissatisfaction += (min_share - allocated(name)) / min_share * weight;
                }
                let peers: Vec<_> = users.iter().filter(|(_, (other, _))| other == weight).collect();
                let mean = peers.iter().map(|(name, (_, min))| allocated(name) - min).sum::<f64>() / peers.len() as f64;
                fairness += (allocated(name) - min_share - mean).abs();
            }
        }
        (Some(dissatisfaction / samples), Some(fairness / samples))
    }

    /// Jain's index of the users' mean slots while they had work.
    fn jain_index(&self, tenants: &Tenants) -> Option<f64> {
        let users: BTreeSet<&str> = self.jobs.values().map(|(_, spec)| &*spec.user).collect();
        let rate = |user: &&str| {
            let (mut active_s, mut slot_s) = (0.0, 0.0);
            for position in 1..self.event_log.len() {
                let span_s = self.at_s(position) - self.at_s(position - 1);
                let is_own = |interval: &&&Interval| self.jobs[&interval.attempt.task.job].1.user == *user;
                let slots = self.live(position).iter().filter(is_own).count();
                if slots > 0 || self.has_demand(user, position) {
                    active_s += span_s;
                    slot_s += slots as f64 * span_s;
                }
            }
            let declared = tenants.users.iter().find(|declared| declared.name == *user);
            slot_s / active_s / declared.map_or(1.0, |declared| declared.weight)
        };
        let rates: Vec<f64> = users.iter().map(rate).filter(|rate| rate.is_finite()).collect();
        let squares = rates.iter().map(|rate| rate * rate).sum::<f64>();
        (squares > 0.0).then(|| rates.iter().sum::<f64>().powi(2) / (rates.len() as f64 * squares))
    }

    fn slots(&self, position: usize) -> f64 {
        let mut nodes = BTreeMap::new();
        for (_, event, _) in &self.event_log[..position] {
            match event {
                Event::NodeJoined { node, spec } => {
                    nodes.insert(*node, f64::from(spec.map_slots + spec.reduce_slots));
                }
                Event::NodeLost { node } => {
                    nodes.remove(node);
                }
                _ => {}
            }
        }
        nodes.values().sum()
    }

    fn has_demand(&self, user: &str, position: usize) -> bool {
        let open = |job: &JobId| self.closed.get(job).is_none_or(|(at, _)| *at >= position);
        let jobs = self.jobs.iter().filter(|(job, (at, spec))| spec.user == user && *at < position && open(job));
        let waits = |task: TaskId| self.running(task, position) == 0 && self.done(task, position).is_none();
        jobs.flat_map(|(job, _)| self.tasks(*job, position)).any(waits)
    }
}

impl Interval {
    fn produced_output(&self) -> bool {
        match self.end {
            Some(Event::AttemptFinished { .. }) => true,
            Some(Event::AttemptEndedEarly { done_bytes, .. }) => done_bytes > 0,
            _ => false,
        }
    }

    fn has_remainder(&self) -> bool {
        match (&self.end, self.work) {
            (Some(Event::AttemptEndedEarly { done_bytes, .. }), Work::Map { bytes, .. }) => {
                *done_bytes > 0 && *done_bytes < bytes
            }
            _ => false,
        }
    }

    fn continues(&self, other: AttemptId) -> bool {
        match self.work {
            Work::Reduce { start: Start::Resumed { from } | Start::Migrated { from, .. } } => from == other,
            _ => false,
        }
    }
}

fn ended(event: &Event) -> Option<AttemptId> {
    match event {
        Event::AttemptFinished { attempt, .. }
        | Event::AttemptFailed { attempt }
        | Event::AttemptKilled { attempt }
        | Event::AttemptLost { attempt }
        | Event::AttemptPaused { attempt, .. }
        | Event::AttemptEndedEarly { attempt, .. } => Some(*attempt),
        _ => None,
    }
}
