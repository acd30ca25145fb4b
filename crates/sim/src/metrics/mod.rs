//! What a run was like, in numbers.
//!
//! [`Metrics`] looks on: it is shown every event and the actions that followed, keeps what the figures need, and at the
//! end gives a [`Summary`]. It sees nothing but the event log, so it measures a simulated run, the engine's and a Hadoop
//! cluster's alike.
//!
//! * `mod.rs` follows jobs, tasks and attempts through the events.
//! * `job.rs` is what is remembered of a job while it lives.
//! * `levels.rs` integrates over time: slots there and in use, and COSHH's dissatisfaction and fairness.
//! * `spread.rs` keeps a sum of distances from a mean while the values change.
//! * `summary.rs` turns counts into figures and gives them their names.
//! * `twin.rs`, for tests, finds the same figures by going through the whole event log for each, slowly and obviously.
//!
//! Times inside are whole microseconds and sums of them are exact, so figures do not depend on the order of summation.
//! Nothing is ever read from a hash table in its order. What decisions cost in wall time is not here: that differs from
//! run to run.

mod job;
mod levels;
mod spread;
mod summary;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

pub use summary::{Figures, GroupFigures, JobFigures, MoreFigures, Summary};

use crate::Observer;
use giveway_core::{
    Action, AttemptId, Event, JobId, JobSpec, Kind, Locality, NodeId, NodeSpec, Outcome, Reason, Start, TaskId,
    Tenants, Time, Work,
};
use job::{Home, Live, Paused};
use levels::{Levels, Sums};
use rustc_hash::FxHashMap;
use summary::Tally;

/// Looks on and counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    groups: Grouping,
    /// By job number, seconds the job would take if it were alone on the cluster.
    alone_s: Vec<f64>,
    events: u64,
    latest: Time,
    levels: Levels,
    /// The sums over time when the last job closed.
    at_close: Sums,
    jobs: Vec<Option<Box<Live>>>,
    free: Vec<u32>,
    live: u32,
    job_ix: FxHashMap<JobId, u32>,
    /// Where each attempt runs.
    host: FxHashMap<AttemptId, NodeId>,
    nodes: Vec<Node>,
    /// Tasks that were lost with a node and have not been launched again yet.
    lost: FxHashMap<TaskId, Time>,
    tallies: Vec<Tally>,
    finished: Vec<JobFigures>,
}

/// How jobs are put into groups by size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Names of the groups, smallest first.
    names: Vec<String>,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// By job number.
    Listed(Vec<u16>),
    /// For each group but the last, the most maps a job in it has.
    UpToMaps(Vec<u32>),
}

impl Grouping {
    /// The groups of a workload; jobs it does not list belong to the last.
    pub fn listed(names: Vec<String>, by_job: Vec<u16>) -> Grouping {
        let names = if names.is_empty() { vec!["all".into()] } else { names };
        Grouping { names, rule: Rule::Listed(by_job) }
    }

    /// Groups for an event log of which nothing else is known: up to 10 maps, up to 100, and more.
    pub fn by_maps() -> Grouping {
        let names = ["small", "medium", "large"].map(String::from).into();
        Grouping { names, rule: Rule::UpToMaps(vec![10, 100]) }
    }

    fn of(&self, spec: &JobSpec) -> u16 {
        let last = self.names.len() as u16 - 1;
        match &self.rule {
            Rule::Listed(by_job) => by_job.get(spec.id.0 as usize).copied().unwrap_or(last).min(last),
            Rule::UpToMaps(limits) => limits.iter().filter(|limit| spec.splits.len() > **limit as usize).count() as u16,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    up: bool,
    slots: [u16; 2],
    /// When it was lost, each time.
    losses: Vec<Time>,
    running: Vec<Running>,
}

/// An attempt that holds a slot. It may outlive its job, so it knows what its end is booked on.
#[derive(Clone, Copy, Debug)]
struct Running {
    attempt: AttemptId,
    since: Time,
    user: u32,
    group: u16,
    gives_way: bool,
    /// A map's input.
    bytes: u64,
    /// Time of the paused attempts whose work a reduce goes on with.
    kept_us: u64,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Paused,
    EndedEarly { done_bytes: u64 },
    Killed,
    Failed,
}

impl Metrics {
    /// Begins to look on. `alone_s` has, by job number, the seconds each job would take alone; without it there is no
    /// slowdown.
    pub fn new(tenants: &Tenants, groups: Grouping, alone_s: Vec<f64>) -> Metrics {
        Metrics {
            tallies: vec![Tally::default(); groups.names.len()],
            groups,
            alone_s,
            events: 0,
            latest: Time::ZERO,
            levels: Levels::new(tenants),
            at_close: Sums::default(),
            jobs: Vec::new(),
            free: Vec::new(),
            live: 0,
            job_ix: FxHashMap::default(),
            host: FxHashMap::default(),
            nodes: Vec::new(),
            lost: FxHashMap::default(),
            finished: Vec::new(),
        }
    }

    /// Takes in one record of the event log.
    pub fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.events += 1;
        self.latest = now;
        match event {
            Event::SlotsOffered { .. }
            | Event::ProgressReported { .. }
            | Event::TimerFired { .. }
            | Event::JobKilled { .. }
            | Event::MapOutputLost { .. }
            | Event::YieldRequested { .. } => {}
            // What the core refused has not happened.
            _ if actions.iter().any(|action| matches!(action, Action::Refuse { .. })) => {}
            // Told only by a body that grants slots itself; what it granted comes back as a launch.
            Event::SlotsRequested { .. } | Event::SlotGranted { .. } | Event::JobEnded { .. } | Event::Resynced => {}
            Event::JobSubmitted(spec) | Event::JobOpened(spec) => self.submitted(now, spec),
            Event::NodeJoined { node, spec } => self.joined(now, *node, spec),
            Event::NodeLost { node } => self.node_lost(now, *node),
            Event::AttemptFinished { attempt, .. } => self.ended(now, *attempt, End::Finished),
            Event::AttemptFailed { attempt } => self.ended(now, *attempt, End::Failed),
            Event::AttemptKilled { attempt } => self.ended(now, *attempt, End::Killed),
            Event::AttemptPaused { attempt, .. } => self.ended(now, *attempt, End::Paused),
            Event::AttemptEndedEarly { attempt, done_bytes, .. } => {
                self.ended(now, *attempt, End::EndedEarly { done_bytes: *done_bytes })
            }
        }
        for action in actions {
            match action {
                Action::Launch { attempt, node, work, .. } => self.launched(now, *attempt, *node, *work),
                Action::Kill {
                    attempt,
                    node,
                    reason: Reason::PreemptedFor { .. } | Reason::PreemptedForRecovery { .. },
                } => {
                    let running = self.nodes.get_mut(node.0 as usize).map(|node| &mut node.running);
                    if let Some(victim) = running.and_then(|all| all.iter_mut().find(|one| one.attempt == *attempt)) {
                        victim.gives_way = true;
                    }
                }
                Action::CloseJob { job, outcome } => self.job_closed(now, *job, *outcome),
                _ => {}
            }
        }
    }

    /// The jobs that succeeded, in the order they finished.
    pub fn jobs(&self) -> &[JobFigures] {
        &self.finished
    }

    /// Names of the size groups, smallest first.
    pub fn groups(&self) -> &[String] {
        &self.groups.names
    }

    fn submitted(&mut self, now: Time, spec: &JobSpec) {
        if self.job_ix.contains_key(&spec.id) {
            return;
        }
        let group = self.groups.of(spec);
        let user = self.levels.user(now, &spec.user);
        let live = Live::new(spec, now, group, user);
        self.levels.began(now);
        self.levels.wanted(now, user, i64::from(live.waiting));
        self.tallies[usize::from(group)].submitted += 1;
        self.live += 1;
        let ix = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        self.jobs[ix as usize] = Some(Box::new(live));
        self.job_ix.insert(spec.id, ix);
    }

    fn job_closed(&mut self, now: Time, id: JobId, outcome: Outcome) {
        let Some(ix) = self.job_ix.remove(&id) else { return };
        let job = self.jobs[ix as usize].take().expect("an indexed job is live");
        self.free.push(ix);
        self.live -= 1;
        if !self.lost.is_empty() {
            self.lost.retain(|task, _| task.job != id);
        }
        self.levels.wanted(now, job.user, -i64::from(job.waiting));
        let tally = &mut self.tallies[usize::from(job.group)];
        match outcome {
            Outcome::Succeeded => {
                let alone_s = self.alone_s.get(id.0 as usize).copied();
                self.finished.push(JobFigures::new(id, &job, now, alone_s));
            }
            Outcome::Killed => tally.killed += 1,
            Outcome::Failed => tally.failed += 1,
        }
        self.at_close = self.levels.sums(now);
    }

    fn joined(&mut self, now: Time, id: NodeId, spec: &NodeSpec) {
        let at = id.0 as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, Node::default);
        }
        if self.nodes[at].up {
            return;
        }
        let slots = Kind::BOTH.map(|kind| spec.slots(kind));
        (self.nodes[at].up, self.nodes[at].slots) = (true, slots);
        self.levels.slots(now, slots.map(i64::from));
    }

    fn node_lost(&mut self, now: Time, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id.0 as usize).filter(|node| node.up) else { return };
        node.up = false;
        node.losses.push(now);
        let (slots, running) = (node.slots, std::mem::take(&mut node.running));
        self.levels.slots(now, slots.map(|slots| -i64::from(slots)));
        for attempt in running {
            self.host.remove(&attempt.attempt);
            self.left_slot(now, &attempt, true);
            let task = attempt.attempt.task;
            if let Some(job) = self.job_mut(task.job) {
                let (waiting, change) = job.stopped(task, false);
                self.levels.wanted(now, attempt.user, change);
                if waiting {
                    self.lost.insert(task, now);
                }
            }
        }
        for job in self.jobs.iter_mut().flatten() {
            for paused in job.paused.extract_if(.., |paused| paused.node == id) {
                self.tallies[usize::from(job.group)].lost_us += paused.kept_us;
                self.lost.insert(TaskId { job: job.id, kind: Kind::Reduce, index: paused.index }, now);
            }
        }
    }

    fn launched(&mut self, now: Time, attempt: AttemptId, node: NodeId, work: Work) {
        let (task, at) = (attempt.task, node.0 as usize);
        let Some(&ix) = self.job_ix.get(&task.job) else { return };
        let job = self.jobs[ix as usize].as_mut().expect("an indexed job is live");
        let tally = &mut self.tallies[usize::from(job.group)];
        let (user, group) = (job.user, job.group);
        let lost_output = job.lost_output(task).and_then(|home| {
            let lost_at = *self.nodes.get(home.node as usize)?.losses.get(home.loss as usize)?;
            tally.lost_output_us += home.took_us;
            Some(lost_at)
        });
        let lost_at = if self.lost.is_empty() { None } else { self.lost.remove(&task) }.or(lost_output);
        let (first, change) = job.started(task, now);
        self.levels.wanted(now, user, change);
        let (mut bytes, mut kept_us) = (0, 0);
        match work {
            Work::Map { bytes: length, locality, .. } => {
                bytes = length;
                tally.launches[locality as usize] += 1;
                if lost_at.is_some() {
                    tally.recovered_maps += 1;
                    tally.recovered_near += u64::from(locality == Locality::Node);
                }
            }
            Work::Reduce { start } => {
                if first {
                    tally.reduces += 1;
                    tally.reduce_wait_us += job.since_maps(now).0;
                }
                kept_us = job.unpaused(task.index);
                match start {
                    // It begins again although it was paused: what it had is gone.
                    Start::Fresh => tally.lost_us += std::mem::take(&mut kept_us),
                    Start::Resumed { .. } => tally.resumes += 1,
                    Start::Migrated { .. } => tally.migrations += 1,
                }
            }
        }
        if let Some(lost_at) = lost_at {
            tally.recovered += 1;
            tally.recovery_wait_us += now.since(lost_at).0;
        }
        self.levels.busy(now, user, task.kind, 1);
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, Node::default);
        }
        self.nodes[at].running.push(Running { attempt, since: now, user, group, gives_way: false, bytes, kept_us });
        self.host.insert(attempt, node);
    }

    fn ended(&mut self, now: Time, attempt: AttemptId, end: End) {
        let Some(node) = self.host.remove(&attempt) else { return };
        let running = &mut self.nodes[node.0 as usize].running;
        let at = running.iter().position(|one| one.attempt == attempt).expect("a hosted attempt runs on its host");
        let gone = running.swap_remove(at);
        let loss = self.nodes[node.0 as usize].losses.len() as u32;
        let task = attempt.task;
        let tally = &mut self.tallies[usize::from(gone.group)];
        let job = match self.job_ix.get(&task.job) {
            Some(&ix) => self.jobs[ix as usize].as_mut(),
            None => None,
        };
        // What another attempt did before counts for nothing, and neither does an early end with nothing to show.
        let useless = job.as_ref().is_none_or(|job| job.is_done(task));
        let wasted = useless || matches!(end, End::Killed | End::Failed | End::EndedEarly { done_bytes: 0 });
        if let Some(job) = job {
            match end {
                End::Paused => {
                    job.pauses += 1;
                    let kept_us = gone.kept_us + now.since(gone.since).0;
                    job.paused.push(Paused { index: task.index, node, kept_us });
                }
                End::Killed if gone.gives_way => job.kills += 1,
                End::EndedEarly { .. } => job.early_ends += 1,
                _ => {}
            }
            let done = end == End::Finished || matches!(end, End::EndedEarly { done_bytes } if done_bytes > 0);
            if done && task.kind == Kind::Map && !useless {
                job.mapped(task.index, now, Home { node: node.0, loss, took_us: now.since(gone.since).0 });
            }
            let (_, mut change) = job.stopped(task, done);
            if let End::EndedEarly { done_bytes } = end
                && (1..gone.bytes).contains(&done_bytes)
            {
                change += job.left_rest();
            }
            self.levels.wanted(now, gone.user, change);
        }
        match end {
            End::Paused => tally.pauses += 1,
            End::EndedEarly { .. } => tally.early_ends += 1,
            End::Killed if gone.gives_way => tally.kills += 1,
            _ => {}
        }
        self.left_slot(now, &gone, wasted);
    }

    /// An attempt's slot is free again; its time was for nothing if it was `wasted`.
    fn left_slot(&mut self, now: Time, gone: &Running, wasted: bool) {
        let (kind, spent_us) = (gone.attempt.task.kind, now.since(gone.since).0);
        self.levels.busy(now, gone.user, kind, -1);
        let tally = &mut self.tallies[usize::from(gone.group)];
        tally.busy_us[kind.index()] += spent_us;
        if wasted {
            tally.lost_us += spent_us + gone.kept_us;
        }
    }

    fn job_mut(&mut self, id: JobId) -> Option<&mut Live> {
        let ix = *self.job_ix.get(&id)?;
        self.jobs[ix as usize].as_deref_mut()
    }
}

impl Observer for Metrics {
    fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
        Metrics::saw(self, now, event, actions);
    }
}
