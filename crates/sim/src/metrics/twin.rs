//! The figures found slowly: every attempt is a line from its launch to its end, and every question goes through all of
//! them.

use giveway_core::{
    Action, AttemptId, Event, JobId, JobSpec, Kind, NodeId, Outcome, Reason, Start, TaskId, Tenants, Time, Work,
};
use std::collections::{BTreeMap, BTreeSet};

/// When, what happened, what was asked for.
pub(super) type Record = (Time, Event, Vec<Action>);

/// The figures the twin finds.
pub(super) struct Found {
    pub(super) mean_completion_s: Option<f64>,
    pub(super) mean_wait_s: Option<f64>,
    pub(super) mean_reduce_wait_s: Option<f64>,
    pub(super) utilisation: Option<f64>,
    pub(super) lost_work_s: f64,
    pub(super) lost_output_s: f64,
    pub(super) recovery_wait_s: Option<f64>,
    pub(super) dissatisfaction: Option<f64>,
    pub(super) fairness: Option<f64>,
    pub(super) gave_way: (u64, u64, u64),
}

/// An attempt from launch to end. Instants are places on the event log: a launch comes after the event it answers.
struct Line {
    attempt: AttemptId,
    node: NodeId,
    work: Work,
    from: usize,
    to: usize,
    end: Option<Event>,
}

struct Reading<'a> {
    event_log: &'a [Record],
    lines: Vec<Line>,
    jobs: BTreeMap<JobId, (usize, &'a JobSpec)>,
    closed: BTreeMap<JobId, (usize, Outcome)>,
}

pub(super) fn figures(event_log: &[Record], tenants: &Tenants) -> Found {
    let reading = Reading::new(event_log);
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let succeeded = || reading.closed.iter().filter(|(_, (_, outcome))| *outcome == Outcome::Succeeded);
    let submit_s = |job: &JobId| reading.at_s(reading.jobs[job].0);
    let first_map_s = |job: &JobId| {
        let maps =
            reading.lines.iter().filter(|line| line.attempt.task.job == *job && line.attempt.task.kind == Kind::Map);
        reading.at_s(maps.map(|line| line.from).min().unwrap())
    };
    let (lost_work_s, lost_output_s, recovery) = reading.losses();
    let (dissatisfaction, fairness, utilisation) = reading.levels(tenants);
    Found {
        mean_completion_s: mean(succeeded().map(|(job, (end, _))| reading.at_s(*end) - submit_s(job)).collect()),
        mean_wait_s: mean(succeeded().map(|(job, _)| first_map_s(job) - submit_s(job)).collect()),
        mean_reduce_wait_s: mean(reading.reduce_waits()),
        utilisation,
        lost_work_s,
        lost_output_s,
        recovery_wait_s: mean(recovery),
        dissatisfaction,
        fairness,
        gave_way: reading.gave_way(),
    }
}

impl<'a> Reading<'a> {
    fn new(event_log: &'a [Record]) -> Reading<'a> {
        let (mut lines, mut jobs, mut closed) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
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
                        lines.push(Line { attempt: *attempt, node: *node, work: *work, from: at, to, end });
                    }
                    Action::CloseJob { job, outcome } => {
                        closed.insert(*job, (at, *outcome));
                    }
                    _ => {}
                }
            }
        }
        Reading { event_log, lines, jobs, closed }
    }

    fn at_s(&self, place: usize) -> f64 {
        self.event_log[place.min(self.event_log.len() - 1)].0.as_secs_f64()
    }

    /// The line that did a task, if it is done just before the event at this place on the event log.
    fn done(&self, task: TaskId, place: usize) -> Option<&Line> {
        self.done_by(task, place, place)
    }

    /// The same, if only launches before a certain place are known.
    fn done_by(&self, task: TaskId, place: usize, launches_before: usize) -> Option<&Line> {
        let mut done: Option<&Line> = None;
        for line in self.lines.iter().filter(|line| line.attempt.task == task && line.from < launches_before) {
            // What is launched again after it was done is done no longer.
            done = done.filter(|first| first.to > line.from);
            if line.to < place && line.kept_all() && done.is_none_or(|first| line.to < first.to) {
                done = Some(line);
            }
        }
        done
    }

    fn running(&self, task: TaskId, place: usize) -> usize {
        self.lines.iter().filter(|line| line.attempt.task == task && line.from < place && line.to >= place).count()
    }

    /// All tasks of a job that exist at a place on the event log; a rest exists from the early end on.
    fn tasks(&self, job: JobId, place: usize) -> Vec<TaskId> {
        let spec = self.jobs[&job].1;
        let rests =
            self.lines.iter().filter(|line| line.attempt.task.job == job && line.to < place && line.left_rest());
        let maps = spec.splits.len() as u32 + rests.count() as u32;
        let all = (0..maps).map(|index| (Kind::Map, index)).chain((0..spec.reduces).map(|index| (Kind::Reduce, index)));
        all.map(|(kind, index)| TaskId { job, kind, index }).collect()
    }

    fn reduce_waits(&self) -> Vec<f64> {
        let mut seen = BTreeSet::new();
        let mut waits = Vec::new();
        for line in &self.lines {
            let task = line.attempt.task;
            if task.kind == Kind::Map || !seen.insert(task) {
                continue;
            }
            // The event that the launch answers has happened.
            let now = line.from + 1;
            let maps: Vec<TaskId> =
                self.tasks(task.job, now).into_iter().filter(|task| task.kind == Kind::Map).collect();
            let ends: Vec<Option<usize>> = maps.iter().map(|map| self.done(*map, now).map(|line| line.to)).collect();
            let last = ends.iter().map(|end| end.unwrap_or(usize::MAX)).max().unwrap();
            waits.push(if last == usize::MAX { 0.0 } else { self.at_s(line.from) - self.at_s(last) });
        }
        waits
    }

    /// Lost work, lost output, and the waits of what ran again because a node was lost.
    fn losses(&self) -> (f64, f64, Vec<f64>) {
        let (mut work_s, mut output_s, mut waits) = (0.0, 0.0, Vec::new());
        let span_s = |line: &Line| self.at_s(line.to) - self.at_s(line.from);
        for line in &self.lines {
            let task = line.attempt.task;
            let closed = self.closed.get(&task.job).map_or(usize::MAX, |(at, _)| *at);
            let late = line.to > closed || self.done(task, line.to).is_some();
            let wasted = match &line.end {
                None => false,
                Some(Event::AttemptFinished { .. } | Event::AttemptPaused { .. }) => late,
                Some(Event::AttemptEndedEarly { done_bytes, .. }) => late || *done_bytes == 0,
                Some(_) => true,
            };
            // A paused attempt was in vain if its node was lost before it went on, or if what went on from it was in
            // vain.
            if wasted {
                work_s += span_s(line);
                let mut at = line;
                while let Some(before) = self.lines.iter().find(|before| at.goes_on_from(before.attempt)) {
                    work_s += span_s(before);
                    at = before;
                }
            }
            let gone_on = |later: &Line| later.goes_on_from(line.attempt);
            let lost_paused = matches!(line.end, Some(Event::AttemptPaused { .. }))
                && !self.lines.iter().any(gone_on)
                && self.lost_within(line.node, line.to, closed).is_some();
            if lost_paused {
                work_s += span_s(line);
                let mut at = line;
                while let Some(before) = self.lines.iter().find(|before| at.goes_on_from(before.attempt)) {
                    work_s += span_s(before);
                    at = before;
                }
            }
        }
        for line in &self.lines {
            let task = line.attempt.task;
            let before: Vec<&Line> =
                self.lines.iter().filter(|other| other.attempt.task == task && other.from < line.from).collect();
            if let Some(done) = self.done_by(task, line.from + 1, line.from) {
                if task.kind == Kind::Map
                    && let Some(lost) = self.lost_within(done.node, done.to, line.from + 1)
                {
                    output_s += span_s(done);
                    waits.push(self.at_s(line.from) - self.at_s(lost));
                }
                continue;
            }
            let last = before.iter().filter(|other| other.to <= line.from).max_by_key(|other| other.to);
            let running = before.iter().any(|other| other.to > line.from);
            match last.map(|last| (last, last.end.as_ref().unwrap())) {
                Some((last, Event::NodeLost { .. })) if !running => {
                    waits.push(self.at_s(line.from) - self.at_s(last.to))
                }
                Some((last, Event::AttemptPaused { .. })) => {
                    if let Some(lost) = self.lost_within(last.node, last.to, line.from + 1) {
                        waits.push(self.at_s(line.from) - self.at_s(lost));
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

    fn gave_way(&self) -> (u64, u64, u64) {
        let count = |which: &dyn Fn(&Line) -> bool| self.lines.iter().filter(|line| which(line)).count() as u64;
        let asked = |line: &Line| {
            self.event_log[line.from..line.to].iter().flat_map(|(_, _, actions)| actions).any(|action| {
                matches!(action, Action::Kill { attempt, reason: Reason::PreemptedFor { .. } | Reason::PreemptedForRecovery { .. }, .. }
                    if *attempt == line.attempt)
            })
        };
        (
            count(&|line| matches!(line.end, Some(Event::AttemptPaused { .. }))),
            count(&|line| matches!(line.end, Some(Event::AttemptKilled { .. })) && asked(line)),
            count(&|line| matches!(line.end, Some(Event::AttemptEndedEarly { .. }))),
        )
    }

    /// COSHH's dissatisfaction and fairness, and the part of the slots in use, averaged from the first submission to
    /// the last close.
    fn levels(&self, tenants: &Tenants) -> (Option<f64>, Option<f64>, Option<f64>) {
        let first = self.jobs.values().map(|(at, _)| *at).min().unwrap();
        let last = self.closed.values().map(|(at, _)| *at).max().unwrap();
        let (mut dissatisfaction, mut fairness, mut busy, mut slots) = (0.0, 0.0, 0.0, 0.0);
        for place in first..last {
            // The level after this record holds until the next.
            let (after, span_s) = (place + 1, self.at_s(place + 1) - self.at_s(place));
            if span_s == 0.0 {
                continue;
            }
            let live: Vec<&Line> = self.lines.iter().filter(|line| line.from < after && line.to >= after).collect();
            busy += live.len() as f64 * span_s;
            slots += self.slots(after) * span_s;
            let mut users: BTreeMap<&str, (f64, f64)> = tenants
                .users
                .iter()
                .map(|user| (user.name.as_str(), (user.weight, f64::from(user.min_share))))
                .collect();
            for (at, spec) in self.jobs.values() {
                if *at < after {
                    users.entry(&spec.user).or_insert((1.0, 0.0));
                }
            }
            let held =
                |name: &str| live.iter().filter(|line| self.jobs[&line.attempt.task.job].1.user == name).count() as f64;
            for (name, (weight, min_share)) in &users {
                if held(name) < *min_share && self.wants(name, after) {
                    dissatisfaction += (min_share - held(name)) / min_share * weight * span_s;
                }
                let peers: Vec<_> = users.iter().filter(|(_, (other, _))| other == weight).collect();
                let mean = peers.iter().map(|(name, (_, min))| held(name) - min).sum::<f64>() / peers.len() as f64;
                fairness += (held(name) - min_share - mean).abs() * span_s;
            }
        }
        let length_s = self.at_s(last) - self.at_s(first);
        (Some(dissatisfaction / length_s), Some(fairness / length_s), Some(busy / slots))
    }

    fn slots(&self, place: usize) -> f64 {
        let mut nodes = BTreeMap::new();
        for (_, event, _) in &self.event_log[..place] {
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

    fn wants(&self, user: &str, place: usize) -> bool {
        let open = |job: &JobId| self.closed.get(job).is_none_or(|(at, _)| *at >= place);
        let jobs = self.jobs.iter().filter(|(job, (at, spec))| spec.user == user && *at < place && open(job));
        let waits = |task: TaskId| self.running(task, place) == 0 && self.done(task, place).is_none();
        jobs.flat_map(|(job, _)| self.tasks(*job, place)).any(waits)
    }
}

impl Line {
    fn kept_all(&self) -> bool {
        match self.end {
            Some(Event::AttemptFinished { .. }) => true,
            Some(Event::AttemptEndedEarly { done_bytes, .. }) => done_bytes > 0,
            _ => false,
        }
    }

    fn left_rest(&self) -> bool {
        match (&self.end, self.work) {
            (Some(Event::AttemptEndedEarly { done_bytes, .. }), Work::Map { bytes, .. }) => {
                *done_bytes > 0 && *done_bytes < bytes
            }
            _ => false,
        }
    }

    fn goes_on_from(&self, other: AttemptId) -> bool {
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
        | Event::AttemptPaused { attempt, .. }
        | Event::AttemptEndedEarly { attempt, .. } => Some(*attempt),
        _ => None,
    }
}
