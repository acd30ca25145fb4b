//! The state as a snapshot, and back. A snapshot may come from a file: one that is not consistent is refused.

use super::job_table::JobKey;
use super::node::RunningAttempt;
use super::task::{SpeculativeAttempt, TaskHistory, TaskState};
use super::{Estimate, Job, JobLag, Reservation, State};
use crate::event::JobSpec;
use crate::ids::{JobId, Kind, NodeId, PerKind, TaskKey};
use crate::snapshot::{
    AttemptSnapshot, FinishedTasks, JobKeys, JobMemory, JobSnapshot, NodeOrder, NodeSnapshot, OpenJobSnapshot,
    SpeculativeSnapshot, TaskSnapshot,
};
use crate::units::{Span, WHOLE_PPM};
use std::collections::BTreeSet;

/// A snapshot contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inconsistent;

/// Slot times beyond this cannot have been measured. Sums of shorter ones do not overflow.
const SERVICE_MAX: Span = Span(u64::MAX >> 24);

pub(super) fn ensure(holds: bool) -> Result<(), Inconsistent> {
    if holds { Ok(()) } else { Err(Inconsistent) }
}

/// Puts a list into the order of another, which must have the same members.
fn reorder<T: Copy + PartialEq + Ord>(
    list: &mut [T],
    order: impl Iterator<Item = Option<T>>,
) -> Result<(), Inconsistent> {
    let order: Vec<T> = order.collect::<Option<_>>().ok_or(Inconsistent)?;
    let (mut before, mut after) = (list.to_vec(), order.clone());
    before.sort_unstable();
    after.sort_unstable();
    ensure(before == after)?;
    list.copy_from_slice(&order);
    Ok(())
}

fn is_finite(estimate: &Estimate) -> bool {
    let lag = |of: &JobLag| [of.entitled_s, of.received_s, of.held_speed, of.share, of.share_if_fair, of.due_slots];
    let values = estimate.task_work_s.iter().chain(estimate.tasks_left.iter()).copied();
    values.chain(estimate.lag.iter().flat_map(lag)).all(f64::is_finite)
}

impl State {
    /// All nodes, by id.
    pub(crate) fn node_snapshots(&self) -> Vec<NodeSnapshot> {
        let snapshot = |node: &super::Node| NodeSnapshot {
            spec: node.spec.clone(),
            up: node.up,
            pause_limit: node.pause_limit,
            failures: node.failures.clone(),
            exclusion: node.exclusion.as_deref().copied(),
            order: self.node_order(node),
        };
        self.nodes.nodes.iter().map(snapshot).collect()
    }

    fn node_order(&self, node: &super::Node) -> NodeOrder {
        let id = |job: JobKey| self.job(job).id;
        let running = |kind: Kind| node.running[kind].iter().map(|of| (id(of.job), of.task, of.number)).collect();
        let reserved =
            |kind: Kind| node.reservations[kind].iter().map(|of| (of.job.number(), of.id, of.task)).collect();
        NodeOrder {
            running: PerKind::from_fn(running),
            paused: node.paused.iter().map(|&(job, reduce)| (id(job), reduce)).collect(),
            reservations: PerKind::from_fn(reserved),
        }
    }

    /// Sets the reservations of a node, and the order of what runs and is paused there. All jobs must be there.
    pub(crate) fn restore_node_order(&mut self, node: NodeId, order: &NodeOrder) -> Result<(), Inconsistent> {
        let (jobs, restored) = (&self.jobs, self.nodes.get_mut(node));
        for kind in Kind::BOTH {
            let attempt =
                |&(job, task, number): &(JobId, u32, u16)| Some(RunningAttempt { job: jobs.find(job)?, task, number });
            reorder(&mut restored.running[kind], order.running[kind].iter().map(attempt))?;
        }
        reorder(&mut restored.paused, order.paused.iter().map(|&(job, reduce)| Some((jobs.find(job)?, reduce))))?;
        let may_reserve = restored.up && restored.exclusion.is_none();
        for kind in Kind::BOTH {
            for &(key, id, task) in &order.reservations[kind] {
                let job = JobKey::from_number(key);
                ensure(may_reserve)?;
                // The job may have ended since.
                if self.jobs.find(id) == Some(job) {
                    ensure(task.is_none_or(|index| self.job(job).find_task(TaskKey { kind, index }).is_some()))?;
                    self.jobs.get_mut(job).counts[kind].reserved += 1;
                }
                self.nodes.add_reservation(node, kind, Reservation { job, id, task });
            }
        }
        Ok(())
    }

    /// How jobs are numbered.
    pub(crate) fn job_keys(&self) -> JobKeys {
        self.jobs.keys_snapshot()
    }

    /// Numbers jobs as before; this many follow.
    pub(crate) fn restore_keys(&mut self, keys: &JobKeys, live: usize) -> Result<(), Inconsistent> {
        self.jobs.restore_keys(keys, live)
    }

    /// Checks that each job has a key that is not free. All jobs must be there.
    pub(crate) fn check_keys(&self) -> Result<(), Inconsistent> {
        self.jobs.check_keys()
    }

    /// The speed and disk rate of each type of node.
    pub(crate) fn node_types(&self) -> Vec<(f64, f64)> {
        self.nodes.types().iter().map(|of| (of.speed, of.disk_bytes_per_s)).collect()
    }

    /// Numbers the types of node as before.
    pub(crate) fn restore_node_types(&mut self, types: &[(f64, f64)]) -> Result<(), Inconsistent> {
        ensure(self.nodes.types.restore(types))
    }

    /// Sets what a node that has just joined had in a snapshot.
    pub(crate) fn restore_node(&mut self, node: NodeId, snapshot: &NodeSnapshot) {
        if let Some(exclusion) = snapshot.exclusion.filter(|exclusion| snapshot.up || exclusion.is_drain()) {
            self.exclude_node(node, exclusion);
        }
        let restored = self.nodes.get_mut(node);
        restored.pause_limit = snapshot.pause_limit;
        snapshot.failures.iter().for_each(|&(at, job)| restored.add_failure(job, at));
        if !snapshot.up {
            self.take_node_down(node);
        }
    }

    /// Adds a job with its tasks and their attempts. If it fails, the state is of no further use.
    pub(crate) fn restore_job(&mut self, user: u32, snapshot: &JobSnapshot) -> Result<JobKey, Inconsistent> {
        let spec = &snapshot.spec;
        let memory = &snapshot.memory;
        let has_limits = spec.reduces <= JobSpec::MAX_REDUCES && spec.slowstart_ppm <= WHOLE_PPM;
        ensure(has_limits && spec.estimate_bias_ppm > 0)?;
        ensure(self.jobs.find(spec.id).is_none())?;
        spec.splits.iter().try_fold(0_u64, |sum, split| sum.checked_add(split.bytes)).ok_or(Inconsistent)?;
        ensure(u32::try_from(snapshot.tasks[Kind::Map].len()).is_ok())?;
        if let Some(open) = memory.open {
            ensure(open.requested.iter().all(|&slots| slots <= JobSpec::MAX_REDUCES))?;
        } else {
            ensure(!spec.splits.is_empty() && snapshot.tasks[Kind::Map].len() >= spec.splits.len())?;
            ensure(snapshot.tasks[Kind::Reduce].len() == spec.reduces as usize)?;
        }
        let nodes = self.nodes.len();
        let job = Job::new(spec, user, memory.sequence, memory.open.is_some(), nodes, snapshot.submitted);
        let key = self.jobs.restore(memory.key, job)?;
        for kind in Kind::BOTH {
            for (index, task) in (0..).zip(&snapshot.tasks[kind]) {
                self.restore_task(key, TaskKey { kind, index }, task, snapshot.closed)?;
            }
        }
        for other in &snapshot.speculative {
            self.restore_speculative(key, other)?;
        }
        self.restore_lists(key, snapshot)?;
        let job = self.jobs.get_mut(key);
        job.recount(memory.open)?;
        for kind in Kind::BOTH {
            let FinishedTasks { count, time, work_s } = snapshot.finished[kind];
            ensure(work_s.is_finite() && work_s >= 0.0)?;
            // A task whose output was lost may have finished several times.
            ensure(time <= SERVICE_MAX && count <= u32::MAX / 2)?;
            let counts = &mut job.counts[kind];
            (counts.finished, counts.finished_time, counts.finished_work_s) = (count, time, work_s);
        }
        ensure(snapshot.ended_service <= SERVICE_MAX)?;
        (job.first_launch, job.ended_service) = (snapshot.first_launch, snapshot.ended_service);
        job.restore_observed(memory)?;
        if snapshot.closed {
            self.close_job(key);
            ensure(!self.job(key).holds_no_slot())?;
        }
        Ok(key)
    }

    fn restore_task(
        &mut self,
        key: JobKey,
        task: TaskKey,
        snapshot: &TaskSnapshot,
        closed: bool,
    ) -> Result<(), Inconsistent> {
        let nodes = self.nodes.len() as u32;
        let job = self.jobs.get_mut(key);
        ensure(task.kind == Kind::Reduce || (snapshot.split as usize) < job.splits.len())?;
        let history = snapshot.history.unwrap_or_default();
        let named = history.failed_on.iter().flatten().chain(&history.lost_with);
        ensure(named.into_iter().all(|node| node.0 < nodes))?;
        job.restore_task(task, snapshot)?;
        let Some(attempt) = snapshot.attempt else { return Ok(()) };
        let is_known = attempt.node.0 < nodes || (job.is_open() && attempt.state == TaskState::Done);
        ensure(attempt.number < attempt.attempts && attempt.progress_ppm <= WHOLE_PPM && is_known)?;
        ensure(!job.is_open() || attempt.state != TaskState::Pending)?;
        if task.kind == Kind::Map && attempt.node.0 < nodes {
            job.map_nodes.insert(attempt.node.0);
        }
        match attempt.state {
            TaskState::Running | TaskState::Stopping(_) => {
                self.restore_running(key, task, attempt.number, attempt.node)
            }
            // Listed by `restore_lists`. The nodes of a closed job have dropped its paused reduces, and may be lost since.
            TaskState::Paused => ensure(task.kind == Kind::Reduce && (closed || self.nodes.up(attempt.node).is_some())),
            TaskState::Pending | TaskState::Done => Ok(()),
        }
    }

    fn restore_running(&mut self, job: JobKey, task: TaskKey, number: u16, node: NodeId) -> Result<(), Inconsistent> {
        let is_granted = self.jobs.get(job).is_open();
        ensure(self.nodes.up(node).is_some_and(|up| is_granted || up.free(task.kind) > 0))?;
        self.nodes.take_slot(node, task.kind, RunningAttempt { job, task: task.index, number });
        Ok(())
    }

    fn restore_speculative(&mut self, key: JobKey, snapshot: &SpeculativeSnapshot) -> Result<(), Inconsistent> {
        let &SpeculativeSnapshot { kind, index, number, node, launched, stopping } = snapshot;
        let task = TaskKey { kind, index };
        let job = self.jobs.get_mut(key);
        let known = job.speculative.iter().any(|other| (other.task, other.number) == (task, number));
        let primary = job.find_task(task).ok_or(Inconsistent)?;
        ensure(!known && number < primary.attempts && number != primary.number)?;
        ensure((node.0 as usize) < self.nodes.nodes.len())?;
        ensure(stopping || primary.holds_slot())?;
        job.speculative.push(SpeculativeAttempt { task, number, node, launched, stopping });
        job.counts[kind].speculative += 1;
        if kind == Kind::Map {
            job.map_nodes.insert(node.0);
        }
        self.restore_running(key, task, number, node)
    }

    /// The lists of pending and paused reduces, of lost outputs and of failures.
    fn restore_lists(&mut self, key: JobKey, snapshot: &JobSnapshot) -> Result<(), Inconsistent> {
        let nodes = self.nodes.len() as u32;
        let job = self.jobs.get_mut(key);
        let reduces = || (0..job.task_end(Kind::Reduce)).map(TaskKey::reduce);
        let is_paused = |task: &TaskKey| job.task(*task).state == TaskState::Paused;
        let paused: BTreeSet<u32> = reduces().filter(is_paused).map(|task| task.index).collect();
        let ready: BTreeSet<u32> = reduces().filter(|task| job.is_ready(*task)).map(|task| task.index).collect();
        let is_permutation = |list: &[u32], set: &BTreeSet<u32>| {
            list.len() == set.len() && list.iter().copied().collect::<BTreeSet<u32>>() == *set
        };
        ensure(is_permutation(&snapshot.paused, &paused) && is_permutation(&snapshot.pending_reduces, &ready))?;
        let lost: BTreeSet<u32> = snapshot.unneeded_lost_outputs.iter().map(|&(map, _)| map).collect();
        ensure(lost.len() == snapshot.unneeded_lost_outputs.len())?;
        let is_done = |map: u32| job.find_task(TaskKey::map(map)).is_some_and(|task| task.state == TaskState::Done);
        ensure(lost.into_iter().all(is_done))?;
        ensure(snapshot.unneeded_lost_outputs.iter().all(|(_, node)| node.0 < nodes))?;
        ensure(snapshot.failed_on.iter().all(|(node, _)| node.0 < nodes))?;
        job.pending_reduces = snapshot.pending_reduces.clone();
        job.paused = snapshot.paused.iter().map(|&reduce| (reduce, 0)).collect();
        job.unneeded_lost_outputs = snapshot.unneeded_lost_outputs.clone();
        job.failed_on = snapshot.failed_on.iter().copied().collect();
        for &reduce in snapshot.paused.iter().filter(|_| !snapshot.closed) {
            let node = self.jobs.get(key).task(TaskKey::reduce(reduce)).node;
            self.nodes.get_mut(node).paused.push((key, reduce));
        }
        Ok(())
    }
}

impl Job {
    /// The job as plain data.
    pub(crate) fn snapshot(&self, key: JobKey) -> JobSnapshot {
        let finished = |kind: Kind| {
            let counts = &self.counts[kind];
            FinishedTasks { count: counts.finished, time: counts.finished_time, work_s: counts.finished_work_s }
        };
        let speculative = |other: &SpeculativeAttempt| SpeculativeSnapshot {
            kind: other.task.kind,
            index: other.task.index,
            number: other.number,
            node: other.node,
            launched: other.launched,
            stopping: other.stopping,
        };
        JobSnapshot {
            spec: JobSpec { splits: self.splits.clone(), ..(*self.spec).clone() },
            submitted: self.submitted(),
            closed: self.closed,
            tasks: PerKind::from_fn(|kind| {
                (0..self.task_end(kind)).map(|index| self.task_snapshot(TaskKey { kind, index })).collect()
            }),
            pending_reduces: self.pending_reduces.clone(),
            paused: self.paused.iter().map(|&(reduce, _)| reduce).collect(),
            unneeded_lost_outputs: self.unneeded_lost_outputs.clone(),
            speculative: self.speculative.iter().map(speculative).collect(),
            first_launch: self.first_launch,
            ended_service: self.ended_service,
            failed_on: self.failed_on.to_vec(),
            finished: PerKind::from_fn(finished),
            memory: JobMemory { key: key.number(), ..self.memory() },
        }
    }

    fn memory(&self) -> JobMemory {
        let maps = &self.counts[Kind::Map];
        let open = OpenJobSnapshot {
            requested: PerKind::from_fn(|kind| self.counts[kind].pending),
            recovering: self.recovering,
        };
        JobMemory {
            key: 0,
            sequence: self.sequence,
            open: self.open.then_some(open),
            estimate: self.estimate,
            fair_share: PerKind::from_fn(|kind| self.counts[kind].fair_share),
            maps_done_at: self.maps_done_at,
            wait_s: self.counts[Kind::Reduce].finished_wait_s,
            kept_waits: self.kept_waits(),
            parts: (maps.finished_parts, maps.finished_parts_work_s),
            classes: self.classes,
            delayed_since: self.delayed_since,
            delayed_until: PerKind::default(),
            work_ahead_s: PerKind::default(),
            running: PerKind::from_fn(|kind| self.counts[kind].running.clone()),
            returned_maps: self.pending_maps.returned().collect(),
            refused_since_pause: self.paused.iter().map(|&(_, before)| self.refused_offers - before).collect(),
            map_nodes: self.map_nodes.iter().collect(),
            input_types: self.input_types,
            has_lost_work: self.has_lost_work,
        }
    }

    fn kept_waits(&self) -> Vec<(u32, Span)> {
        let wait = |reduce: u32| self.history(TaskKey::reduce(reduce)).map_or(Span::ZERO, |history| history.kept_wait);
        let all = (0..self.task_end(Kind::Reduce)).map(|reduce| (reduce, wait(reduce)));
        all.filter(|(_, wait)| !wait.is_zero()).collect()
    }

    /// Sets what was observed of it. Its classes are set by whoever knows which there are.
    fn restore_observed(&mut self, memory: &JobMemory) -> Result<(), Inconsistent> {
        let &JobMemory { maps_done_at, wait_s, ref kept_waits, parts, delayed_since, .. } = memory;
        self.delayed_since = delayed_since;
        ensure([wait_s, parts.0, parts.1].iter().all(|sum| sum.is_finite() && *sum >= 0.0))?;
        self.maps_done_at = maps_done_at.filter(|_| self.maps_done());
        self.has_lost_work |= memory.has_lost_work;
        self.counts[Kind::Reduce].finished_wait_s = wait_s;
        for &(reduce, wait) in kept_waits {
            let key = TaskKey::reduce(reduce);
            ensure(reduce < self.task_end(Kind::Reduce) && wait <= SERVICE_MAX && self.history(key).is_some())?;
            self.history_mut(key).kept_wait = wait;
        }
        let maps = &mut self.counts[Kind::Map];
        (maps.finished_parts, maps.finished_parts_work_s) = parts;
        Ok(())
    }

    /// Sets its lags only: estimates are computed anew.
    pub(crate) fn restore_lags(&mut self, memory: &JobMemory) -> Result<(), Inconsistent> {
        ensure(is_finite(&memory.estimate))?;
        self.estimate.lag = memory.estimate.lag;
        Ok(())
    }

    /// Sets what was computed for it, and the order of its lists.
    pub(crate) fn restore_computed(&mut self, memory: &JobMemory, nodes: u32) -> Result<(), Inconsistent> {
        ensure(is_finite(&memory.estimate) && memory.fair_share.iter().all(|share| !share.is_nan()))?;
        self.estimate = memory.estimate;
        for kind in Kind::BOTH {
            self.counts[kind].fair_share = memory.fair_share[kind];
            reorder(&mut self.counts[kind].running, memory.running[kind].iter().copied().map(Some))?;
            for (position, &task) in (0..).zip(&memory.running[kind]) {
                self.tasks[kind][task as usize].running_position = position;
            }
        }
        ensure(self.pending_maps.reorder_returned(&memory.returned_maps))?;
        ensure(memory.refused_since_pause.len() == self.paused.len())?;
        self.refused_offers = memory.refused_since_pause.iter().copied().max().unwrap_or(0);
        for ((_, before), &since) in self.paused.iter_mut().zip(&memory.refused_since_pause) {
            *before = self.refused_offers - since;
        }
        ensure(memory.map_nodes.iter().all(|&node| node < nodes))?;
        memory.map_nodes.iter().for_each(|&node| self.map_nodes.insert(node));
        self.input_types = memory.input_types;
        Ok(())
    }

    fn task_snapshot(&self, key: TaskKey) -> TaskSnapshot {
        let task = self.task(key);
        let output_bytes = match (key.kind, task.state) {
            (Kind::Map, TaskState::Done) => self.map_outputs.get(key.index as usize).copied().unwrap_or(0),
            _ => 0,
        };
        let attempt = (task.attempts > 0).then_some(AttemptSnapshot {
            state: task.state,
            node: task.node,
            launched: task.launched,
            progress_ppm: task.progress_ppm,
            number: task.number,
            attempts: task.attempts,
            protected: task.protected,
            output_bytes,
        });
        let history = self.history(key).copied();
        TaskSnapshot { split: task.split, preemptions: task.preemptions, attempt, history }
    }

    /// Sets a task's own data. The counts are wrong until [`Job::recount`].
    fn restore_task(&mut self, key: TaskKey, snapshot: &TaskSnapshot) -> Result<(), Inconsistent> {
        let splits = self.splits.len();
        let index = key.index as usize;
        if self.open {
            self.add_task(key.kind);
        } else if key.kind == Kind::Map && index >= splits {
            self.tasks[Kind::Map].push(super::Task::new(snapshot.split));
            self.map_outputs.push(0);
        }
        let task = self.task_mut(key);
        ensure(task.split == snapshot.split)?;
        task.preemptions = snapshot.preemptions;
        if let Some(attempt) = snapshot.attempt {
            task.state = attempt.state;
            (task.node, task.launched, task.progress_ppm) = (attempt.node, attempt.launched, attempt.progress_ppm);
            (task.number, task.attempts, task.protected) = (attempt.number, attempt.attempts, attempt.protected);
            if key.kind == Kind::Map && attempt.state == TaskState::Done {
                self.map_outputs[index] = attempt.output_bytes;
            }
        }
        let state = self.task(key).state;
        if let Some(history) = snapshot.history {
            ensure(history.retry_at.is_none() || state == TaskState::Pending)?;
            ensure(history.kept_service <= SERVICE_MAX)?;
            if let (Kind::Map, Some(bytes)) = (key.kind, history.bytes) {
                let end = history.start_bytes.checked_add(bytes);
                let whole = self.splits.get(snapshot.split as usize).map(|split| split.bytes);
                ensure(end.is_some() && end <= whole)?;
            }
            self.has_lost_work |= history.lost_with.is_some();
            *self.history_mut(key) = TaskHistory { kept_wait: Span::ZERO, ..history };
        }
        if key.kind == Kind::Map {
            let is_part = index >= splits || snapshot.history.is_some_and(|history| history.bytes.is_some());
            let is_fresh = snapshot.attempt.is_none() && !is_part;
            match (self.is_ready(key), is_fresh) {
                (true, true) => {}
                (true, false) => {
                    self.pending_maps.remove(key.index);
                    self.pending_maps.add_returned(key.index);
                }
                (false, _) => self.pending_maps.remove(key.index),
            }
        }
        Ok(())
    }

    /// Counts tasks and bytes again, after tasks were restored.
    fn recount(&mut self, open: Option<OpenJobSnapshot>) -> Result<(), Inconsistent> {
        let add = |sum: u64, bytes: u64| sum.checked_add(bytes).ok_or(Inconsistent);
        let (mut all_bytes, mut mapped_bytes, mut output_bytes) = (0, 0, 0);
        for kind in Kind::BOTH {
            let mut counts = std::mem::take(&mut self.counts[kind]);
            counts.pending = open.map_or(0, |open| open.requested[kind]);
            for index in 0..self.task_end(kind) {
                let key = TaskKey { kind, index };
                let state = self.task(key).state;
                counts.backing_off += u32::from(self.retry_at(key).is_some());
                counts.stopping += u32::from(self.task(key).is_stopping());
                match state {
                    TaskState::Pending => counts.pending += 1,
                    TaskState::Paused => counts.paused += 1,
                    TaskState::Done if self.task(key).node == NodeId(u32::MAX) => self.released[kind] += 1,
                    TaskState::Done => counts.done += 1,
                    TaskState::Running | TaskState::Stopping(_) => {
                        self.task_mut(key).running_position = counts.running.len() as u32;
                        counts.running.push(index);
                    }
                }
                if kind == Kind::Map {
                    let bytes = self.map_bytes(index);
                    all_bytes = add(all_bytes, bytes)?;
                    if state == TaskState::Done {
                        mapped_bytes = add(mapped_bytes, bytes)?;
                        output_bytes = add(output_bytes, self.map_outputs[index as usize])?;
                    }
                }
            }
            self.counts[kind] = counts;
        }
        (self.mapped_bytes, self.output_bytes) = (mapped_bytes, output_bytes);
        self.recovering = open.map_or(0, |open| open.recovering);
        ensure(all_bytes == self.input_bytes())
    }
}
