//! Metrics of a run.
//!
//! [`Metrics`] receives every event with the actions that followed it, and computes a [`Summary`]. Its only input is the content of an event
//! log, so it measures a simulated run, a run of the engine and a Hadoop cluster in the same way.
//!
//! * `mod.rs` follows jobs, tasks and attempts through the changes that a [`Lifecycle`] reports.
//! * `job.rs` is the state of a live job.
//! * `time_weighted.rs` integrates available and busy slots over time; `user_shares.rs` has how evenly users are served.
//! * `absolute_deviation.rs` maintains a sum of deviations from a mean while the values change.
//! * `summary.rs` turns counters into metrics and defines their names.
//! * `tests/reference.rs` computes the same metrics slowly, by a pass over the whole event log for each.
//!
//! Times are whole microseconds and sums of them are exact, so metrics do not depend on the order of summation. No hash table is iterated in its
//! order. The wall-clock cost of decisions is not measured here, because it differs from run to run.

mod job;
mod summary;
#[cfg(test)]
mod tests;
mod time_weighted;
mod user_shares;

pub use summary::{DetailMetrics, GroupMetrics, JobMetrics, KeyMetrics, Summary};

use crate::Observer;
use giveway_core::{
    Action, Change, End, Event, JobId, JobSpec, Kind, Lifecycle, Locality, NodeId, NodeSpec, Outcome, RunningAttempt,
    Start, TaskId, Tenants, Time, Work,
};
use job::{LiveJob, OutputLocation, Paused};
use rustc_hash::FxHashMap;
use summary::Counters;
use time_weighted::{Integrals, TimeWeighted};
use user_shares::UserShares;

/// Computes metrics from events and actions.
#[derive(Clone, Debug)]
pub struct Metrics {
    groups: Grouping,
    /// By job number, the execution time of the job alone on the cluster.
    isolated_s: Vec<f64>,
    events: u64,
    /// Time of the last event.
    latest: Time,
    time_weighted: TimeWeighted,
    user_shares: UserShares,
    /// The integrals when the last job closed.
    integrals_at_last_close: Integrals,
    jobs: Vec<Option<Box<LiveJob>>>,
    /// Unused indices of `jobs`.
    free: Vec<u32>,
    live: u32,
    job_ix: FxHashMap<JobId, u32>,
    /// The running attempts. Those of unknown jobs are not charged.
    attempts: Lifecycle<Option<Charge>>,
    nodes: Vec<Node>,
    /// Tasks that were lost with a node and have not been launched again, with the time of the loss.
    lost_tasks: FxHashMap<TaskId, Time>,
    /// By group.
    counters: Vec<Counters>,
    finished: Vec<JobMetrics>,
}

/// Assigns jobs to size groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Names of the groups, smallest first.
    names: Vec<String>,
    /// The group of each job, by its number.
    by_job: Vec<u16>,
}

impl Grouping {
    /// The groups of a workload, by job number; jobs beyond the list belong to the last group.
    pub fn listed(names: Vec<String>, by_job: Vec<u16>) -> Grouping {
        let names = if names.is_empty() { vec!["all".into()] } else { names };
        Grouping { names, by_job }
    }

    fn of(&self, spec: &JobSpec) -> u16 {
        let last = self.names.len() as u16 - 1;
        self.by_job.get(spec.id.0 as usize).copied().unwrap_or(last).min(last)
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    up: bool,
    slots: [u16; 2],
    /// The times at which it was lost.
    losses: Vec<Time>,
}

/// What the end of an attempt is charged to. The attempt keeps it, because it may end after its job.
#[derive(Clone, Copy, Debug)]
struct Charge {
    user: u32,
    group: u16,
    /// Slot time of the paused attempts whose progress a reduce continues.
    retained_us: u64,
}

impl Metrics {
    /// Starts with no events. `isolated_s` is, by job number, the execution time of each job alone on the cluster in seconds; jobs beyond the
    /// list have no slowdown.
    pub fn new(tenants: &Tenants, groups: Grouping, isolated_s: Vec<f64>) -> Metrics {
        Metrics {
            counters: vec![Counters::default(); groups.names.len()],
            groups,
            isolated_s,
            events: 0,
            latest: Time::ZERO,
            time_weighted: TimeWeighted::default(),
            user_shares: UserShares::new(tenants),
            integrals_at_last_close: Integrals::default(),
            jobs: Vec::new(),
            free: Vec::new(),
            live: 0,
            job_ix: FxHashMap::default(),
            attempts: Lifecycle::default(),
            nodes: Vec::new(),
            lost_tasks: FxHashMap::default(),
            finished: Vec::new(),
        }
    }

    /// Processes one record of an event log.
    pub fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.events += 1;
        self.latest = now;
        let finished_before = self.finished.len();
        let mut attempts = std::mem::take(&mut self.attempts);
        attempts.observe(event, actions, now, &mut |change| self.on_change(now, change));
        self.attempts = attempts;
        (finished_before..self.finished.len()).for_each(|_| self.user_shares.sample());
    }

    /// The jobs that succeeded, in the order of their completion.
    pub fn jobs(&self) -> &[JobMetrics] {
        &self.finished
    }

    /// Names of the size groups, smallest first.
    pub fn groups(&self) -> &[String] {
        &self.groups.names
    }

    fn on_change(&mut self, now: Time, change: Change<'_, Option<Charge>>) {
        match change {
            Change::JobSubmitted(spec) => self.on_job_submitted(now, spec),
            Change::JobClosed { job, outcome } => self.close_job(now, job, outcome),
            Change::NodeJoined { node, spec } => self.on_node_joined(now, node, spec),
            Change::NodeLost { node } => self.on_node_lost(now, node),
            Change::Launched { attempt, .. } => attempt.data = self.on_launch(now, attempt),
            // Slots of simulated nodes do not change.
            Change::StopRequested { .. } | Change::SlotsSet { .. } => {}
            Change::Ended { attempt, end } => self.on_attempt_ended(now, &attempt, end),
        }
    }

    fn on_job_submitted(&mut self, now: Time, spec: &JobSpec) {
        if self.job_ix.contains_key(&spec.id) {
            return;
        }
        let group = self.groups.of(spec);
        let user = self.user_shares.user(&spec.user);
        let live = LiveJob::new(spec, now, group, user);
        self.time_weighted.start(now);
        self.user_shares.change_demand(now, user, i64::from(live.pending));
        self.counters[usize::from(group)].submitted += 1;
        self.live += 1;
        let ix = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        self.jobs[ix as usize] = Some(Box::new(live));
        self.job_ix.insert(spec.id, ix);
    }

    fn close_job(&mut self, now: Time, id: JobId, outcome: Outcome) {
        let Some(ix) = self.job_ix.remove(&id) else { return };
        let job = self.jobs[ix as usize].take().expect("an indexed job is live");
        self.free.push(ix);
        self.live -= 1;
        if !self.lost_tasks.is_empty() {
            self.lost_tasks.retain(|task, _| task.job != id);
        }
        self.user_shares.change_demand(now, job.user, -i64::from(job.pending));
        let counters = &mut self.counters[usize::from(job.group)];
        match outcome {
            Outcome::Succeeded => {
                let isolated_s = self.isolated_s.get(id.0 as usize).copied();
                self.finished.push(JobMetrics::new(id, &job, now, isolated_s));
            }
            Outcome::Killed => counters.killed += 1,
            Outcome::Failed => counters.failed += 1,
        }
        self.integrals_at_last_close = self.time_weighted.integrals(now);
    }

    fn on_node_joined(&mut self, now: Time, id: NodeId, spec: &NodeSpec) {
        let at = id.0 as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, Node::default);
        }
        if self.nodes[at].up {
            return;
        }
        let slots = Kind::BOTH.map(|kind| spec.slots(kind));
        (self.nodes[at].up, self.nodes[at].slots) = (true, slots);
        self.time_weighted.change_slots(now, slots.map(i64::from));
    }

    fn on_node_lost(&mut self, now: Time, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id.0 as usize).filter(|node| node.up) else { return };
        node.up = false;
        node.losses.push(now);
        let slots = node.slots;
        self.time_weighted.change_slots(now, slots.map(|slots| -i64::from(slots)));
        for job in self.jobs.iter_mut().flatten() {
            for paused in job.paused.extract_if(.., |paused| paused.node == id) {
                self.counters[usize::from(job.group)].lost_us += paused.retained_us;
                self.lost_tasks.insert(TaskId { job: job.id, kind: Kind::Reduce, index: paused.index }, now);
            }
        }
    }

    /// Records a launch. Returns what to charge the attempt's end to; none if its job is unknown.
    fn on_launch(&mut self, now: Time, attempt: &RunningAttempt<Option<Charge>>) -> Option<Charge> {
        let task = attempt.id.task;
        let &ix = self.job_ix.get(&task.job)?;
        let job = self.jobs[ix as usize].as_mut().expect("an indexed job is live");
        let counters = &mut self.counters[usize::from(job.group)];
        let (user, group) = (job.user, job.group);
        let lost_output = job.lost_output(task).and_then(|location| {
            let lost_at = *self.nodes.get(location.node as usize)?.losses.get(location.loss as usize)?;
            counters.lost_output_us += location.duration_us;
            Some(lost_at)
        });
        let lost_at = if self.lost_tasks.is_empty() { None } else { self.lost_tasks.remove(&task) }.or(lost_output);
        let (first, change) = job.on_launch(task, now);
        self.user_shares.change_demand(now, user, change);
        let mut retained_us = 0;
        match attempt.work {
            Work::Map { locality, .. } => {
                counters.launches[locality as usize] += 1;
                if lost_at.is_some() {
                    counters.recovered_maps += 1;
                    counters.recovered_local_maps += u64::from(locality == Locality::Node);
                }
            }
            Work::Reduce { start } => {
                if first {
                    counters.reduces += 1;
                    counters.reduce_wait_us += job.since_map_phase(now).0;
                }
                retained_us = job.remove_paused(task.index);
                match start {
                    // It starts from the beginning although it was paused: the retained progress is lost.
                    Start::Fresh => counters.lost_us += std::mem::take(&mut retained_us),
                    Start::Resumed { .. } => counters.resumes += 1,
                    Start::Migrated { .. } => counters.migrations += 1,
                }
            }
        }
        if let Some(lost_at) = lost_at {
            counters.recovered += 1;
            counters.recovery_wait_us += now.since(lost_at).0;
        }
        self.time_weighted.change_busy(now, task.kind, 1);
        self.user_shares.change_allocated(now, user, 1);
        Some(Charge { user, group, retained_us })
    }

    fn on_attempt_ended(&mut self, now: Time, attempt: &RunningAttempt<Option<Charge>>, end: End) {
        let Some(charge) = attempt.data else { return };
        let (task, spent_us) = (attempt.id.task, now.since(attempt.launched).0);
        let job = match self.job_ix.get(&task.job) {
            Some(&ix) => self.jobs[ix as usize].as_mut(),
            None => None,
        };
        // Work that another attempt has already done is wasted, and so is an early end without any output. After a resync the work continues.
        let redundant = job.as_ref().is_none_or(|job| job.is_done(task));
        let wasted = redundant || !(end.has_result() || matches!(end, End::Paused | End::Resynced));
        if let Some(job) = job {
            match end {
                End::Paused => {
                    job.pauses += 1;
                    let retained_us = charge.retained_us + spent_us;
                    job.paused.push(Paused { index: task.index, node: attempt.node, retained_us });
                }
                End::Killed { preempted: true } => job.kills += 1,
                End::EndedEarly { .. } => job.early_ends += 1,
                _ => {}
            }
            if end.has_result() && task.kind == Kind::Map && !redundant {
                let node = attempt.node.0;
                let loss = self.nodes.get(node as usize).map_or(0, |node| node.losses.len()) as u32;
                job.set_output_location(task.index, now, OutputLocation { node, loss, duration_us: spent_us });
            }
            let (pending, mut change) = job.on_stop(task, end.has_result());
            if let End::EndedEarly { done_bytes, .. } = end
                && let Work::Map { bytes, .. } = attempt.work
                && (1..bytes).contains(&done_bytes)
            {
                change += job.add_remainder();
            }
            self.user_shares.change_demand(now, charge.user, change);
            if end == End::NodeLost && pending {
                self.lost_tasks.insert(task, now);
            }
        }
        self.time_weighted.change_busy(now, task.kind, -1);
        self.user_shares.change_allocated(now, charge.user, -1);
        let counters = &mut self.counters[usize::from(charge.group)];
        match end {
            End::Paused => counters.pauses += 1,
            End::EndedEarly { .. } => counters.early_ends += 1,
            End::Killed { preempted: true } => counters.kills += 1,
            _ => {}
        }
        counters.busy_us[task.kind.index()] += spent_us;
        if wasted {
            let lost_us = spent_us + charge.retained_us;
            counters.lost_us += lost_us;
            if end == (End::Killed { preempted: true }) {
                counters.preempted_us += lost_us;
            }
        }
    }
}

impl Observer for Metrics {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        Metrics::observe(self, now, event, actions);
    }
}
