//! States that are read from a snapshot, which may come from a damaged file. What follows from the rest is computed again, and a state that contradicts itself
//! is refused: every `State` that there is can be used.

use super::bit_set::BitSet;
use super::job_table::{JobKey, JobTable};
use super::launch_order::LaunchOrder;
use super::node::NodeTable;
use super::node_types::{MAX_TYPES, NodeTypes};
use super::{Job, JobLag, State, TaskState};
use crate::event::JobSpec;
use crate::ids::{JobId, Kind, NodeId, PerKind, TaskKey};
use crate::units::{Span, WHOLE_PPM};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A state as it is stored.
#[derive(Deserialize)]
pub(super) struct Stored {
    jobs: JobTable,
    nodes: NodeTable,
}

#[derive(Clone, Copy, Debug, Error)]
#[error("the snapshot contradicts itself")]
pub(super) struct Inconsistent;

/// Slot times beyond this cannot have been measured. Sums of shorter ones do not overflow.
const SERVICE_MAX: Span = Span(u64::MAX >> 24);

fn ensure(holds: bool) -> Result<(), Inconsistent> {
    if holds { Ok(()) } else { Err(Inconsistent) }
}

/// Writes a map in the order of its keys.
pub(super) fn sorted<'a, K: Ord + Serialize + 'a, V: Serialize + 'a, S: Serializer>(
    map: impl IntoIterator<Item = (&'a K, &'a V)>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(map.into_iter().collect::<BTreeMap<_, _>>())
}

fn is_permutation<T: Copy + Ord>(list: impl IntoIterator<Item = T>, of: impl IntoIterator<Item = T>) -> bool {
    let (mut list, mut of) = (list.into_iter().collect::<Vec<T>>(), of.into_iter().collect::<Vec<T>>());
    list.sort_unstable();
    of.sort_unstable();
    list == of
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        postcard::to_allocvec(self) == postcard::to_allocvec(other)
    }
}

impl TryFrom<Stored> for State {
    type Error = Inconsistent;

    fn try_from(Stored { jobs, nodes }: Stored) -> Result<State, Inconsistent> {
        let mut state = State { jobs, nodes };
        state.nodes.recount()?;
        state.jobs.index()?;
        let (nodes, submitted) = (state.nodes.len(), state.jobs.submitted);
        for (_, job) in state.jobs.iter_mut() {
            ensure(job.sequence <= submitted)?;
            job.recount(nodes)?;
        }
        state.check_nodes_of_jobs()?;
        state.check().map_err(|_| Inconsistent)?;
        Ok(state)
    }
}

impl State {
    /// The same nodes, and the keys of the jobs without the jobs.
    pub(crate) fn without_jobs(&self) -> State {
        State { jobs: self.jobs.without_jobs(), nodes: self.nodes.clone() }
    }

    /// Adds a job of another state under its key.
    pub(crate) fn add_job_of(&mut self, other: &State, key: JobKey, user: u32) {
        self.jobs.put(key, Job { user, ..other.job(key).clone() });
    }

    /// Forgets what groups were charged for.
    pub(crate) fn discharge_all(&mut self) {
        let counts = self.jobs.iter_mut().flat_map(|(_, job)| job.counts.iter_mut());
        counts.for_each(|counts| counts.charged = 0);
    }

    /// Forgets what a policy has computed and reserved, without what it has observed.
    pub(crate) fn forget_decisions(&mut self) {
        self.nodes.drop_reservations();
        for (_, job) in self.jobs.iter_mut() {
            job.estimate = super::Estimate { lag: job.estimate.lag, ..super::Estimate::default() };
            job.counts.iter_mut().for_each(|counts| (counts.fair_share, counts.reserved) = (0.0, 0));
        }
    }

    /// Gives each job another id.
    pub(crate) fn renumber(&mut self, number: &mut impl FnMut(&mut JobId)) {
        for (_, job) in self.jobs.iter_mut() {
            number(&mut job.id);
            job.spec.id = job.id;
        }
        self.jobs.by_id = self.jobs.iter().map(|(key, job)| (job.id, key)).collect();
        for node in &mut self.nodes.nodes {
            node.reservations.iter_mut().flatten().for_each(|of| number(&mut of.id));
            node.failures.iter_mut().for_each(|(_, job)| number(job));
            let probe = node.exclusion.as_mut().and_then(|of| of.probe.as_mut());
            probe.into_iter().for_each(|probe| number(&mut probe.task.job));
        }
        for reserved in self.nodes.reserved_by_job.iter_mut() {
            let of_jobs = std::mem::take(reserved).into_iter();
            reserved.extend(of_jobs.map(|((key, mut id), slots)| {
                number(&mut id);
                ((key, id), slots)
            }));
        }
    }

    /// Open jobs are open no more: they have the tasks that they run or request now.
    pub(crate) fn close_task_lists(&mut self) {
        self.jobs.iter_mut().for_each(|(_, job)| job.close_task_list());
    }

    /// What runs and is paused on nodes is just what jobs have there, and reservations are of tasks that exist.
    fn check_nodes_of_jobs(&self) -> Result<(), Inconsistent> {
        let on_node = |node: NodeId| self.nodes.up(node).ok_or(Inconsistent);
        let (mut running, mut paused) = (Vec::new(), Vec::new());
        for (key, job) in self.jobs.iter() {
            for kind in Kind::BOTH {
                for &index in &job.counts[kind].running {
                    let task = job.task(TaskKey { kind, index });
                    on_node(task.node)?;
                    running.push((task.node, kind, key, index, task.number));
                }
            }
            for other in &job.speculative {
                on_node(other.node)?;
                running.push((other.node, other.task.kind, key, other.task.index, other.number));
            }
            for &(reduce, _) in job.paused.iter().filter(|_| !job.closed) {
                let node = job.task(TaskKey::reduce(reduce)).node;
                on_node(node)?;
                paused.push((node, key, reduce));
            }
        }
        let listed = |kind: Kind| {
            let of_node = move |(id, node): (NodeId, &super::Node)| {
                let attempts: Vec<_> = node.running[kind].to_vec();
                attempts.into_iter().map(move |of| (id, kind, of.job, of.task, of.number))
            };
            self.nodes.iter().flat_map(of_node)
        };
        ensure(is_permutation(Kind::BOTH.into_iter().flat_map(listed), running))?;
        let kept = self.nodes.iter().flat_map(|(id, node)| node.paused.iter().map(move |&(job, of)| (id, job, of)));
        ensure(is_permutation(kept, paused))?;
        for (kind, node) in Kind::BOTH.into_iter().flat_map(|kind| self.nodes.iter().map(move |(_, node)| (kind, node)))
        {
            for reservation in &node.reservations[kind] {
                ensure(node.up && node.exclusion.is_none())?;
                // The job may have ended since.
                if self.jobs.find(reservation.id) == Some(reservation.job) {
                    let exists = |index| self.job(reservation.job).find_task(TaskKey { kind, index }).is_some();
                    ensure(reservation.task.is_none_or(exists))?;
                }
            }
        }
        Ok(())
    }
}

impl NodeTable {
    /// Computes what follows from the nodes.
    fn recount(&mut self) -> Result<(), Inconsistent> {
        self.types.clear()?;
        let mut reserved = Vec::new();
        for (id, node) in (0..).map(NodeId).zip(&mut self.nodes) {
            let spec = &node.spec;
            ensure(spec.speed_ppm > 0 && spec.disk_bytes_per_s > 0)?;
            ensure(usize::from(node.node_type) < self.types.all().len())?;
            ensure(node.exclusion.is_none() || node.up || node.exclusion.as_deref().is_some_and(|of| of.is_drain()))?;
            self.racks.join(id, spec.rack);
            let is_usable = node.up && node.exclusion.is_none();
            self.up += u32::from(node.up);
            self.excluded += u32::from(node.up && !is_usable);
            for kind in Kind::BOTH {
                let slots = node.spec.slots(kind);
                node.free[kind] = usize::from(slots).saturating_sub(node.running[kind].len()) as u16;
                if is_usable {
                    self.free[kind] += u32::from(node.free[kind]);
                    self.slots[kind] += u32::from(slots);
                }
                reserved.extend(node.reservations[kind].iter().map(|&reservation| (id, kind, reservation)));
            }
            if is_usable {
                self.types.add(node);
            }
        }
        reserved.into_iter().for_each(|(id, kind, reservation)| self.count_reservation(id, kind, reservation));
        Ok(())
    }

    fn drop_reservations(&mut self) {
        (self.reservations, self.reserved, self.reserved_by_job) = Default::default();
        self.nodes.iter_mut().for_each(|node| node.reservations = Default::default());
    }
}

impl NodeTypes {
    /// Forgets the slots of all types, of which each has a rate.
    fn clear(&mut self) -> Result<(), Inconsistent> {
        let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
        self.all.iter_mut().for_each(|of| of.slots = PerKind::default());
        let are_rates = self.all.iter().all(|of| is_rate(of.speed) && is_rate(of.disk_bytes_per_s));
        ensure(self.all.len() <= MAX_TYPES && are_rates)
    }
}

impl JobTable {
    /// Finds jobs by their ids, and counts what they request to stop. Keys without a job are free.
    fn index(&mut self) -> Result<(), Inconsistent> {
        let stopping = |kind: Kind| self.iter().map(move |(_, job)| job.counts[kind].stopping);
        self.stopping = PerKind::from_fn(|kind| stopping(kind).fold(0, u32::saturating_add));
        self.by_id = self.iter().map(|(key, job)| (job.id, key)).collect();
        ensure(self.by_id.len() == self.keys().len())?;
        let unused = (0..).zip(&self.jobs).filter(|(_, job)| job.is_none()).map(|(key, _)| key);
        ensure(is_permutation(self.free.iter().copied(), unused))
    }
}

impl Job {
    /// Computes what follows from its specification and its tasks, and checks the rest.
    fn recount(&mut self, nodes: usize) -> Result<(), Inconsistent> {
        // Nothing follows from the input of an open job, which is not known.
        let splits = if self.open { [].into() } else { std::sync::Arc::clone(&self.splits) };
        let spec = JobSpec { splits, ..(*self.spec).clone() };
        let has_limits = spec.reduces <= JobSpec::MAX_REDUCES && spec.slowstart_ppm <= WHOLE_PPM;
        ensure(has_limits && spec.estimate_bias_ppm > 0)?;
        spec.splits.iter().try_fold(0_u64, |sum, split| sum.checked_add(split.bytes)).ok_or(Inconsistent)?;
        let node_count = u32::try_from(nodes).map_err(|_| Inconsistent)?;
        ensure(spec.splits.iter().flat_map(|split| &split.hosts).all(|host| host.0 < node_count))?;
        ensure(self.id == spec.id)?;
        let derived = Job::new(&spec, self.user, self.sequence, self.open, nodes, self.submitted);
        self.application = derived.application;
        (self.priority, self.slowstart_maps) = (derived.priority, derived.slowstart_maps);
        (self.block_bytes, self.input_bytes) = (derived.block_bytes, derived.input_bytes);
        (self.hint, self.estimate_bias) = (derived.hint, derived.estimate_bias);
        if self.open {
            ensure(self.counts.iter().all(|counts| counts.pending <= JobSpec::MAX_REDUCES))?;
        } else {
            ensure(!self.splits.is_empty() && self.tasks[Kind::Map].len() >= self.splits.len())?;
            ensure(self.tasks[Kind::Reduce].len() == self.spec.reduces as usize)?;
        }
        ensure(u32::try_from(self.tasks[Kind::Map].len()).is_ok())?;
        ensure(self.map_outputs.len() == self.tasks[Kind::Map].len())?;
        self.check_histories(node_count)?;
        for kind in Kind::BOTH {
            self.check_tasks(kind, node_count)?;
        }
        self.check_speculative()?;
        self.check_lists(node_count)?;
        self.check_observed()?;
        ensure(!self.closed || !self.holds_no_slot())
    }

    fn check_histories(&self, nodes: u32) -> Result<(), Inconsistent> {
        for (&key, history) in &self.histories {
            let task = self.find_task(key).ok_or(Inconsistent)?;
            let named = history.failed_on.iter().flatten().chain(&history.lost_with);
            ensure(task.has_history && named.into_iter().all(|node| node.0 < nodes))?;
            ensure(history.retry_at.is_none() || task.state == TaskState::Pending)?;
            ensure(history.kept_service <= SERVICE_MAX && history.kept_wait <= SERVICE_MAX)?;
            if let (Kind::Map, Some(bytes)) = (key.kind, history.bytes) {
                let end = history.start_bytes.checked_add(bytes);
                ensure(end.is_some() && end <= self.splits.get(task.split as usize).map(|split| split.bytes))?;
            }
        }
        Ok(())
    }

    /// Checks the tasks of a kind, and counts what they have done.
    fn check_tasks(&mut self, kind: Kind, nodes: u32) -> Result<(), Inconsistent> {
        let with_history = self.histories.keys().filter(|key| key.kind == kind).count();
        ensure(self.tasks[kind].iter().filter(|task| task.has_history).count() == with_history)?;
        let add = |sum: u64, bytes: u64| sum.checked_add(bytes).ok_or(Inconsistent);
        let mut all_bytes = 0;
        for index in 0..self.task_end(kind) {
            let (key, task) = (TaskKey { kind, index }, *self.task(TaskKey { kind, index }));
            let is_released = self.open && task.state == TaskState::Done && task.node == NodeId(u32::MAX);
            self.released[kind] += u32::from(is_released);
            ensure(kind == Kind::Reduce || (task.split as usize) < self.splits.len())?;
            ensure(task.number < task.attempts.max(1) && task.progress_ppm <= WHOLE_PPM)?;
            ensure(task.attempts > 0 || task.state == TaskState::Pending)?;
            ensure(task.attempts == 0 || task.node.0 < nodes || is_released)?;
            ensure(!self.open || task.state != TaskState::Pending)?;
            ensure(kind == Kind::Reduce || task.state != TaskState::Paused)?;
            if kind == Kind::Map {
                let bytes = self.map_bytes(index);
                all_bytes = add(all_bytes, bytes)?;
                if task.state == TaskState::Done && !is_released {
                    self.mapped_bytes = add(self.mapped_bytes, bytes)?;
                    self.output_bytes = add(self.output_bytes, self.map_outputs[key.index as usize])?;
                }
            }
        }
        ensure(kind == Kind::Reduce || all_bytes == self.splits.iter().map(|split| split.bytes).sum::<u64>())?;
        let running = &self.counts[kind].running;
        let is_listed = |(position, &index): (u32, &u32)| {
            let task = self.find_task(TaskKey { kind, index });
            task.is_some_and(|task| task.holds_slot() && task.running_position == position)
        };
        ensure((0..).zip(running).all(is_listed))?;
        self.launch_order[kind] = LaunchOrder::of(running, &self.tasks[kind]);
        Ok(())
    }

    fn check_speculative(&self) -> Result<(), Inconsistent> {
        let names: BTreeSet<_> = self.speculative.iter().map(|other| (other.task, other.number)).collect();
        ensure(names.len() == self.speculative.len())?;
        for other in &self.speculative {
            let primary = self.find_task(other.task).ok_or(Inconsistent)?;
            ensure(other.number < primary.attempts && other.number != primary.number)?;
            ensure(other.stopping || primary.holds_slot())?;
        }
        let of_kind = |kind: Kind| self.speculative.iter().filter(|other| other.task.kind == kind).count();
        ensure(Kind::BOTH.iter().all(|&kind| self.counts[kind].speculative as usize == of_kind(kind)))
    }

    /// The lists of pending and paused tasks, of lost outputs and of failures.
    fn check_lists(&mut self, nodes: u32) -> Result<(), Inconsistent> {
        let of_kind = |kind: Kind| (0..self.task_end(kind)).map(move |index| TaskKey { kind, index });
        let is_paused = |task: &TaskKey| self.task(*task).state == TaskState::Paused;
        let paused = of_kind(Kind::Reduce).filter(is_paused).map(|task| task.index);
        ensure(is_permutation(self.paused.iter().map(|&(reduce, _)| reduce), paused))?;
        ensure(self.paused.iter().all(|&(_, refused)| refused <= self.refused_offers))?;
        let ready = |kind: Kind| of_kind(kind).filter(|task| self.is_ready(*task)).map(|task| task.index);
        ensure(is_permutation(self.pending_reduces.iter().copied(), ready(Kind::Reduce)))?;
        let is_part = |map: u32| map as usize >= self.splits.len() || self.part_bytes(map).is_some();
        let has_returned = |map: &u32| self.task(TaskKey::map(*map)).attempts > 0 || is_part(*map);
        ensure(is_permutation(self.pending_maps.returned(), ready(Kind::Map).filter(has_returned)))?;
        let mut pending = BitSet::with_capacity(self.task_end(Kind::Map));
        ready(Kind::Map).for_each(|map| pending.insert(map));
        let lost: BTreeSet<u32> = self.unneeded_lost_outputs.iter().map(|&(map, _)| map).collect();
        ensure(lost.len() == self.unneeded_lost_outputs.len())?;
        let is_done = |map: u32| self.find_task(TaskKey::map(map)).is_some_and(|task| task.state == TaskState::Done);
        ensure(lost.into_iter().all(is_done))?;
        ensure(self.unneeded_lost_outputs.iter().all(|(_, node)| node.0 < nodes))?;
        ensure(self.failed_on.iter().all(|(node, _)| node.0 < nodes))?;
        ensure(self.map_nodes.iter().all(|node| node < nodes))?;
        let splits = if self.open { &[][..] } else { &self.splits };
        self.pending_maps.complete(pending, splits);
        Ok(())
    }

    /// What was observed and computed of it is possible.
    fn check_observed(&self) -> Result<(), Inconsistent> {
        let lag = |of: &JobLag| [of.entitled_s, of.received_s, of.held_speed, of.share, of.share_if_fair, of.due_slots];
        let estimated = self.estimate.task_work_s.iter().chain(self.estimate.tasks_left.iter()).copied();
        ensure(estimated.chain(self.estimate.lag.iter().flat_map(lag)).all(f64::is_finite))?;
        for counts in self.counts.iter() {
            let sums =
                [counts.finished_work_s, counts.finished_wait_s, counts.finished_parts, counts.finished_parts_work_s];
            ensure(sums.iter().all(|sum| sum.is_finite() && *sum >= 0.0) && !counts.fair_share.is_nan())?;
            // A task whose output was lost may have finished several times.
            ensure(counts.finished_time <= SERVICE_MAX && counts.finished <= u32::MAX / 2)?;
            ensure(counts.reserved <= u32::MAX / 2)?;
        }
        ensure(self.ended_service <= SERVICE_MAX && (self.maps_done_at.is_none() || self.maps_done()))
    }
}
