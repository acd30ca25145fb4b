//! Jobs: their tasks, the counts kept of them, and what the policy has derived for them.

use super::SHUFFLE_DONE_PPM;
use super::bit_set::BitSet;
use super::estimate::Estimate;
use super::pending_maps::PendingMaps;
use super::racks::Racks;
use super::task::{SpeculativeAttempt, Task, TaskHistory, TaskState};
use crate::action::{Locality, Work};
use crate::event::{Hint, JobSpec, Priority, Split};
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskKey};
use crate::units::{Span, Time, WHOLE_PPM};
use rustc_hash::FxHashMap;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// The position of a live job in the [`JobTable`]. Reused after the job is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(u32);

impl JobKey {
    /// The key as an array index. Keys of live jobs are small: freed ones are used first.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The key as a number, for a [`BitSet`] of jobs.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The key of this number.
    #[inline]
    pub(crate) fn from_number(number: u32) -> JobKey {
        JobKey(number)
    }
}

/// All live jobs. A job is live from its submission until its last attempt has left its slot.
#[derive(Debug, Default)]
pub struct JobTable {
    jobs: Slab<Job>,
    by_id: FxHashMap<JobId, JobKey>,
    submitted: u32,
}

impl JobTable {
    /// The key of a live job.
    pub fn find(&self, id: JobId) -> Option<JobKey> {
        self.by_id.get(&id).copied()
    }

    /// A live job.
    #[inline]
    pub fn get(&self, job: JobKey) -> &Job {
        self.jobs.get(job.index()).expect("the key of a live job")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, job: JobKey) -> &mut Job {
        self.jobs.get_mut(job.index()).expect("the key of a live job")
    }

    /// All live jobs in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (JobKey, &Job)> + Clone {
        self.jobs.iter().map(|(key, job)| (JobKey(key as u32), job))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (JobKey, &mut Job)> {
        self.jobs.iter_mut().map(|(key, job)| (JobKey(key as u32), job))
    }

    /// The keys of all live jobs.
    pub fn keys(&self) -> Vec<JobKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// Number of live jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if no job is live.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn insert(&mut self, spec: &JobSpec, user: u32, open: bool, nodes: usize, now: Time) -> JobKey {
        self.submitted += 1;
        let job = Job::new(spec, user, self.submitted, open, nodes, now);
        let key = JobKey(self.jobs.insert(job) as u32);
        self.by_id.insert(spec.id, key);
        key
    }

    pub(super) fn remove(&mut self, job: JobKey) {
        let removed = self.jobs.remove(job.index());
        self.by_id.remove(&removed.id);
    }
}

/// A live job.
#[derive(Debug)]
pub struct Job {
    pub(super) id: JobId,
    /// As it was submitted, without its splits.
    pub(super) spec: Box<JobSpec>,
    user: u32,
    priority: Priority,
    submitted: Time,
    sequence: u32,
    pub(super) splits: Arc<[Split]>,
    pub(super) tasks: PerKind<Vec<Task>>,
    /// Task entries of an open job that are neither finished nor requested any more.
    pub(super) released: PerKind<u32>,
    /// The size of its splits, if they all have the same.
    block_bytes: Option<u64>,
    /// Output of each finished map.
    pub(super) map_outputs: Vec<u64>,
    histories: FxHashMap<TaskKey, TaskHistory>,
    /// Whether work of any of its tasks was ever lost with a node. Most jobs have histories of other kinds only.
    pub(super) has_lost_work: bool,
    pub(super) counts: PerKind<TaskCounts>,
    pub(super) pending_maps: PendingMaps,
    /// Pending reduces; the last one is launched first.
    pub(super) pending_reduces: Vec<u32>,
    /// Paused reduces, oldest first, each with `refused_offers` at the time of its pause.
    pub(super) paused: VecDeque<(u32, u64)>,
    refused_offers: u64,
    /// Finished maps whose output was lost with a node while no reduce needed it, and that node.
    pub(super) unneeded_lost_outputs: Vec<(u32, NodeId)>,
    pub(super) speculative: Vec<SpeculativeAttempt>,
    slowstart_maps: u32,
    pub(super) first_launch: Option<Time>,
    delayed_since: PerKind<Option<Time>>,
    pub(super) map_nodes: BitSet,
    /// The types of nodes that hold its input, as bits.
    input_types: u64,
    input_bytes: u64,
    pub(super) mapped_bytes: u64,
    pub(super) output_bytes: u64,
    hint: Option<Hint>,
    estimate_bias: f64,
    estimate: Estimate,
    classes: [Option<u16>; 2],
    /// Slot time received by attempts that have ended.
    pub(super) ended_service: Span,
    /// Nodes on which attempts failed, and how many.
    pub(super) failed_on: SmallVec<[(NodeId, u8); 2]>,
    pub(super) closed: bool,
    open: bool,
    /// Slots that an open job requests for lost work.
    recovering: u32,
}

/// Counts over a job's tasks of one kind.
#[derive(Debug, Default)]
pub struct TaskCounts {
    /// Finished tasks.
    pub done: u32,
    /// Tasks that need a slot.
    pub pending: u32,
    /// Of the pending tasks, those that wait before a retry, because they failed.
    pub backing_off: u32,
    /// Paused tasks.
    pub paused: u32,
    /// Tasks that hold a slot, those requested to stop included.
    pub running: Vec<u32>,
    /// Of the running tasks, those requested to stop.
    pub stopping: u32,
    /// Speculative attempts that hold a slot.
    pub speculative: u32,
    /// Slots reserved for the job.
    pub reserved: u32,
    /// Slot time of the finished tasks that `finished` counts.
    pub finished_time: Span,
    /// Finished whole tasks; parts of maps that ended early do not count.
    pub finished: u32,
    /// Slots the job is entitled to under the policy's share.
    pub fair_share: f64,
    /// The allocation that the job's groups have been charged for.
    pub(super) charged: u32,
    /// Work of the finished tasks: their time on a node of speed 1 without reading splits, in seconds. Kept only under a policy that
    /// compares nodes or the work of jobs.
    pub finished_work_s: f64,
}

impl TaskCounts {
    /// Slots allocated: those it holds and those reserved for it, without those that are being freed.
    pub fn allocated(&self) -> u32 {
        (self.running.len() as u32 + self.speculative + self.reserved).saturating_sub(self.stopping)
    }

    /// Tasks that can use a slot now and have none reserved.
    pub fn demand(&self) -> u32 {
        (self.pending + self.paused).saturating_sub(self.backing_off + self.reserved)
    }
}

// Queries.
impl Job {
    /// Its id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The user who submitted it, as an index into the scheduler's list of users.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Its priority within its pool.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// When it was submitted.
    pub fn submitted(&self) -> Time {
        self.submitted
    }

    /// Its position in the order of submission.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Its input.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Input bytes of its finished maps.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    /// Size of its input.
    pub fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// A task.
    #[inline]
    pub fn task(&self, task: TaskKey) -> &Task {
        &self.tasks[task.kind][task.index as usize]
    }

    /// A task, if it exists.
    pub fn find_task(&self, task: TaskKey) -> Option<&Task> {
        self.tasks[task.kind].get(task.index as usize)
    }

    /// Number of task entries of a kind: indexes are below it.
    pub fn task_end(&self, kind: Kind) -> u32 {
        self.tasks[kind].len() as u32
    }

    /// Counts over its tasks of a kind.
    #[inline]
    pub fn counts(&self, kind: Kind) -> &TaskCounts {
        &self.counts[kind]
    }

    /// Number of tasks of a kind, pending ones included. Of an open job, those known so far.
    pub fn total(&self, kind: Kind) -> u32 {
        let entries = self.tasks[kind].len() as u32;
        if self.open { entries - self.released[kind] + self.counts[kind].pending } else { entries }
    }

    /// Number of tasks of a kind that are not done.
    pub fn left(&self, kind: Kind) -> u32 {
        self.total(kind) - self.counts[kind].done
    }

    /// True once every map is done.
    pub fn maps_done(&self) -> bool {
        self.counts[Kind::Map].done == self.total(Kind::Map)
    }

    /// True once every task is done and no more can be requested.
    pub fn is_complete(&self) -> bool {
        !self.open && self.maps_done() && self.counts[Kind::Reduce].done == self.total(Kind::Reduce)
    }

    /// True if tasks of a kind may start: reduces may after the slow start.
    pub fn may_start(&self, kind: Kind) -> bool {
        kind == Kind::Map || self.counts[Kind::Map].done >= self.slowstart_maps
    }

    /// Maps that must be done before its reduces may start.
    pub fn slowstart_maps(&self) -> u32 {
        self.slowstart_maps
    }

    /// True if it can use a free slot of this kind.
    pub fn needs_slot(&self, kind: Kind) -> bool {
        !self.closed && self.counts[kind].demand() > 0 && self.may_start(kind)
    }

    /// True once it has ended and only waits for its last attempts to leave their slots.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if its tasks become known only as it requests slots: it ends when the backend reports so.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Slots that an open job requests for work that was lost with a node.
    pub fn recovering(&self) -> u32 {
        self.recovering
    }

    /// True if no attempt of it holds a slot.
    pub fn holds_no_slot(&self) -> bool {
        self.speculative.is_empty() && self.counts.iter().all(|counts| counts.running.is_empty())
    }

    /// When its first map was launched.
    pub fn first_launch(&self) -> Option<Time> {
        self.first_launch
    }

    /// Task times known in advance.
    pub fn hint(&self) -> Option<Hint> {
        self.hint
    }

    /// Factor on every estimate of it.
    pub fn estimate_bias(&self) -> f64 {
        self.estimate_bias
    }

    /// What is estimated of it.
    #[inline]
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Its class in each of COSHH's two classifications.
    pub fn classes(&self) -> [Option<u16>; 2] {
        self.classes
    }

    /// Slot time received by its attempts that have ended.
    pub fn ended_service(&self) -> Span {
        self.ended_service
    }

    /// Its paused reduces, oldest first, each with the number of offers the job had refused when it paused.
    pub fn paused(&self) -> &VecDeque<(u32, u64)> {
        &self.paused
    }

    /// Offers that it has refused while it waited for the node of a paused reduce.
    pub fn refused_offers(&self) -> u64 {
        self.refused_offers
    }

    /// Since when it has refused offers of nodes that are not local to its data or its maps.
    pub fn delayed_since(&self, kind: Kind) -> Option<Time> {
        self.delayed_since[kind]
    }

    /// The pending reduce that is launched next on a node; none if all prefer other nodes.
    pub fn next_pending_reduce(&self, node: NodeId, now: Time) -> Option<u32> {
        let accepts = |reduce: &u32| !self.prefers_elsewhere(TaskKey::reduce(*reduce), node, now);
        self.pending_reduces.iter().rev().copied().find(accepts)
    }

    /// True if the location of some of its input is known.
    pub fn has_input_locations(&self) -> bool {
        self.pending_maps.has_hosts()
    }

    /// True if nodes of a type held some of its input when it was submitted or its replicas were placed.
    pub fn has_input_on_type(&self, node_type: usize) -> bool {
        self.input_types >> node_type & 1 == 1
    }

    /// True if a node ran or runs maps of it.
    pub fn mapped_on(&self, node: NodeId) -> bool {
        self.map_nodes.contains(node.0)
    }

    /// True if a task has a speculative attempt.
    pub fn is_speculated(&self, task: TaskKey) -> bool {
        self.speculative.iter().any(|attempt| attempt.task == task)
    }

    /// The id of a task's current or last attempt.
    pub fn attempt(&self, task: TaskKey) -> AttemptId {
        AttemptId { task: task.of(self.id), number: self.task(task).number }
    }

    /// Input bytes of a map.
    pub fn map_bytes(&self, map: u32) -> u64 {
        let whole = || self.splits[self.task(TaskKey::map(map)).split as usize].bytes;
        self.part_bytes(map).or(self.block_bytes).unwrap_or_else(whole)
    }

    /// Input bytes of a map that is a part of one that ended early.
    pub fn part_bytes(&self, map: u32) -> Option<u64> {
        self.history(TaskKey::map(map))?.bytes
    }

    /// First byte of its split that a map reads.
    pub fn map_start_bytes(&self, map: u32) -> u64 {
        self.history(TaskKey::map(map)).map_or(0, |history| history.start_bytes)
    }

    /// Slot time that counts towards a task's result, its running attempt included.
    pub fn service(&self, key: TaskKey, now: Time) -> Span {
        let kept = self.history(key).map_or(Span::ZERO, |history| history.kept_service);
        let task = self.task(key);
        if task.holds_slot() { kept + now.since(task.launched) } else { kept }
    }

    /// When a task's first attempt was launched.
    pub fn first_launched(&self, task: TaskKey) -> Time {
        let first = self.history(task).and_then(|history| history.first_launched);
        first.unwrap_or(self.task(task).launched)
    }

    /// The node that a task's work was lost with, until it runs again.
    pub fn lost_with(&self, task: TaskKey) -> Option<NodeId> {
        self.history(task)?.lost_with
    }

    /// True if work of any of its tasks was ever lost with a node.
    pub fn has_lost_work(&self) -> bool {
        self.has_lost_work
    }

    /// Its tasks that are pending because their work was lost with a node.
    pub fn lost_pending(&self) -> Vec<TaskKey> {
        if !self.has_lost_work {
            return Vec::new();
        }
        let is_lost = |key: &TaskKey, history: &TaskHistory| {
            history.lost_with.is_some() && self.task(*key).state() == TaskState::Pending
        };
        let lost = self.histories.iter().filter(|(key, history)| is_lost(key, history));
        let mut lost: Vec<TaskKey> = lost.map(|(&key, _)| key).collect();
        lost.sort_unstable();
        lost
    }

    /// True if a finished map's output was lost while no reduce needed it.
    pub fn has_lost_output(&self, map: u32) -> bool {
        self.unneeded_lost_outputs.iter().any(|&(lost, _)| lost == map)
    }

    /// The work of an attempt at a map.
    pub fn map_work(&self, map: u32, locality: Locality) -> Work {
        let split = self.task(TaskKey::map(map)).split;
        Work::Map { split, start_bytes: self.map_start_bytes(map), bytes: self.map_bytes(map), locality }
    }

    /// Distance of a node from a map's input.
    pub fn locality(&self, map: u32, node: NodeId, racks: &Racks) -> Locality {
        let hosts = &self.splits[self.task(TaskKey::map(map)).split as usize].hosts;
        if hosts.contains(&node) {
            Locality::Node
        } else if hosts.iter().any(|&host| racks.of(host) == racks.of(node)) {
            Locality::Rack
        } else {
            Locality::Remote
        }
    }

    /// Output of all its maps, extrapolated from those that are done.
    pub fn intermediate_bytes(&self) -> Option<f64> {
        (self.mapped_bytes > 0).then(|| self.output_bytes as f64 * self.input_bytes as f64 / self.mapped_bytes as f64)
    }

    /// True if some reduce that is not done has not fetched all its input.
    pub fn needs_map_output(&self) -> bool {
        let fetches = |task: &Task| task.state != TaskState::Done && task.progress_ppm < SHUFFLE_DONE_PPM;
        self.tasks[Kind::Reduce].iter().any(fetches) || (self.open && self.counts[Kind::Reduce].pending > 0)
    }

    #[inline]
    pub(super) fn history(&self, task: TaskKey) -> Option<&TaskHistory> {
        if self.task(task).has_history { self.histories.get(&task) } else { None }
    }
}

// What the policy keeps with a job.
impl Job {
    pub(crate) fn set_estimate(&mut self, estimate: Estimate) {
        self.estimate = estimate;
    }

    pub(crate) fn set_fair_share(&mut self, kind: Kind, slots: f64) {
        self.counts[kind].fair_share = slots;
    }

    pub(crate) fn set_recovering(&mut self, slots: u32) {
        self.recovering = slots;
    }

    pub(crate) fn set_classes(&mut self, classes: [Option<u16>; 2]) {
        self.classes = classes;
    }

    /// Records that its groups are charged for its present allocation; returns by how much that grew.
    #[inline]
    pub(crate) fn charge(&mut self, kind: Kind) -> i64 {
        let counts = &mut self.counts[kind];
        let allocated = counts.allocated();
        i64::from(allocated) - i64::from(std::mem::replace(&mut counts.charged, allocated))
    }

    /// Records that its groups are charged for nothing; returns what they were charged for.
    pub(crate) fn discharge(&mut self, kind: Kind) -> i64 {
        i64::from(std::mem::take(&mut self.counts[kind].charged))
    }

    /// Starts to refuse offers of nodes that are not local, if it does not already; returns since when it does.
    pub(crate) fn begin_delay(&mut self, kind: Kind, now: Time) -> Time {
        *self.delayed_since[kind].get_or_insert(now)
    }

    pub(crate) fn end_delay(&mut self, kind: Kind) {
        self.delayed_since[kind] = None;
    }

    pub(crate) fn refuse_offer(&mut self) {
        self.refused_offers += 1;
    }

    /// A pending map with input on a node. It takes `&mut self` because the index drops launched maps when it meets them.
    pub(crate) fn node_local_map(&mut self, node: NodeId, racks: &Racks, now: Time) -> Option<u32> {
        self.search_maps(node, now, |maps, tasks, splits, accepts| {
            maps.on_node(node, racks.node_count(), tasks, splits, accepts)
        })
    }

    /// A pending map with input in the rack of a node.
    pub(crate) fn rack_local_map(&mut self, node: NodeId, racks: &Racks, now: Time) -> Option<u32> {
        self.search_maps(node, now, |maps, tasks, splits, accepts| {
            maps.in_rack(racks.of(node), racks, tasks, splits, accepts)
        })
    }

    /// The pending map for a node that failed or was lost first.
    pub(crate) fn failed_map(&mut self, node: NodeId, now: Time) -> Option<u32> {
        if self.failed_on.is_empty() && !self.has_lost_work {
            return None;
        }
        let histories = &self.histories;
        let has_failed = |map: u32| {
            let history = histories.get(&TaskKey::map(map));
            history.is_some_and(|history| {
                let is_lost = history.lost_with.is_some();
                (history.failures > 0 || is_lost) && !history.prefers_elsewhere(node, now)
            })
        };
        self.pending_maps.first_returned(&has_failed)
    }

    /// Any pending map for a node.
    pub(crate) fn any_pending_map(&mut self, node: NodeId, now: Time) -> Option<u32> {
        self.search_maps(node, now, |maps, _, _, accepts| maps.any(accepts))
    }

    /// True if [`Job::take_returned_splits`] has something to report.
    #[inline]
    pub(crate) fn has_newly_returned_maps(&self) -> bool {
        self.pending_maps.has_newly_returned()
    }

    /// The splits of the maps that have become pending again, or were added as the rest of another, since the last call.
    pub(crate) fn take_returned_splits(&mut self) -> impl Iterator<Item = &Split> {
        let maps = self.pending_maps.take_newly_returned();
        maps.into_iter().map(|map| &self.splits[self.tasks[Kind::Map][map as usize].split as usize])
    }

    /// Searches the pending maps. Of those that have run before, only those that do not prefer another node are accepted.
    fn search_maps(
        &mut self,
        node: NodeId,
        now: Time,
        search: impl FnOnce(&mut PendingMaps, &[Task], &[Split], &dyn Fn(u32) -> bool) -> Option<u32>,
    ) -> Option<u32> {
        let maps = &self.tasks[Kind::Map];
        let histories = &self.histories;
        let accepts = |map: u32| {
            let history = if maps[map as usize].has_history { histories.get(&TaskKey::map(map)) } else { None };
            history.is_none_or(|history| !history.prefers_elsewhere(node, now))
        };
        search(&mut self.pending_maps, maps, &self.splits, &accepts)
    }

    /// Records the types of nodes that hold its input.
    pub(crate) fn set_input_types(&mut self, type_of: impl Fn(NodeId) -> usize) {
        let hosts = self.splits.iter().flat_map(|split| &split.hosts);
        self.input_types = hosts.fold(0, |types, &host| types | 1 << type_of(host));
    }

    /// Moves its input to other nodes, split by split.
    pub(crate) fn place_replicas(&mut self, mut hosts_of: impl FnMut(&Split) -> crate::event::Hosts) {
        for split in Arc::make_mut(&mut self.splits).iter_mut() {
            split.hosts = hosts_of(split);
        }
        self.pending_maps = PendingMaps::new(&self.splits);
    }
}

// Steps of the transitions.
impl Job {
    pub(super) fn new(spec: &JobSpec, user: u32, sequence: u32, open: bool, nodes: usize, now: Time) -> Job {
        let requested = PerKind::new(spec.splits.len() as u32, spec.reduces);
        // An open job's tasks are counted until they run.
        let (mut splits, reduces) = if open { ([].into(), 0) } else { (Arc::clone(&spec.splits), spec.reduces) };
        // A replica on a node that never joined is of no use, and waiting for that node would only delay the job.
        let nodes = nodes as u32;
        if splits.iter().any(|split| split.hosts.iter().any(|host| host.0 >= nodes)) {
            Arc::make_mut(&mut splits).iter_mut().for_each(|split| split.hosts.retain(|host| host.0 < nodes));
        }
        let maps: Vec<Task> = (0..splits.len() as u32).map(Task::new).collect();
        let first_bytes = splits.first().map(|split| split.bytes);
        let slowstart_maps = (maps.len() as u64 * u64::from(spec.slowstart_ppm)).div_ceil(u64::from(WHOLE_PPM)) as u32;
        Job {
            id: spec.id,
            spec: Box::new(JobSpec { splits: Arc::from([]), ..spec.clone() }),
            user,
            priority: spec.priority,
            submitted: now,
            sequence,
            pending_maps: PendingMaps::new(&splits),
            block_bytes: first_bytes.filter(|&first| splits.iter().all(|split| split.bytes == first)),
            map_outputs: vec![0; maps.len()],
            tasks: PerKind::new(maps, vec![Task::new(0); reduces as usize]),
            released: PerKind::default(),
            histories: FxHashMap::default(),
            has_lost_work: false,
            counts: requested.map(|pending| TaskCounts { pending, ..TaskCounts::default() }),
            pending_reduces: (0..reduces).rev().collect(),
            paused: VecDeque::new(),
            refused_offers: 0,
            unneeded_lost_outputs: Vec::new(),
            speculative: Vec::new(),
            slowstart_maps,
            first_launch: None,
            delayed_since: PerKind::default(),
            map_nodes: BitSet::default(),
            input_types: 0,
            input_bytes: splits.iter().map(|split| split.bytes).sum(),
            splits,
            mapped_bytes: 0,
            output_bytes: 0,
            hint: spec.hint,
            estimate_bias: f64::from(spec.estimate_bias_ppm) / f64::from(WHOLE_PPM),
            estimate: Estimate::default(),
            classes: [None; 2],
            ended_service: Span::ZERO,
            failed_on: SmallVec::new(),
            closed: false,
            open,
            recovering: 0,
        }
    }

    pub(super) fn history_mut(&mut self, task: TaskKey) -> &mut TaskHistory {
        self.tasks[task.kind][task.index as usize].has_history = true;
        self.histories.entry(task).or_default()
    }

    #[inline]
    pub(super) fn task_mut(&mut self, task: TaskKey) -> &mut Task {
        &mut self.tasks[task.kind][task.index as usize]
    }

    /// A pending or paused task starts an attempt.
    pub(super) fn start(&mut self, key: TaskKey, node: NodeId, now: Time) -> AttemptId {
        let counts = &mut self.counts[key.kind];
        let task = &mut self.tasks[key.kind][key.index as usize];
        match task.state {
            TaskState::Pending => counts.pending -= 1,
            TaskState::Paused => counts.paused -= 1,
            state => unreachable!("a task that is {state:?} cannot start"),
        }
        let launched_before = (task.attempts > 0).then_some(task.launched);
        task.state = TaskState::Running;
        task.node = node;
        task.number = task.attempts;
        task.attempts += 1;
        task.launched = now;
        task.running_position = counts.running.len() as u32;
        counts.running.push(key.index);
        if let Some(launched) = launched_before {
            let history = self.history_mut(key);
            history.first_launched.get_or_insert(launched);
            history.lost_with = None;
        }
        if key.kind == Kind::Map {
            self.pending_maps.remove(key.index);
            self.first_launch.get_or_insert(now);
            self.map_nodes.insert(node.0);
        }
        self.attempt(key)
    }

    /// A running task leaves the list of running tasks; the caller sets its new state.
    pub(super) fn stop(&mut self, key: TaskKey, now: Time) {
        let counts = &mut self.counts[key.kind];
        let task = &mut self.tasks[key.kind][key.index as usize];
        assert!(task.holds_slot(), "a task that is {:?} cannot stop", task.state);
        counts.stopping -= u32::from(task.is_stopping());
        self.ended_service += now.since(task.launched);
        let at = task.running_position as usize;
        counts.running.swap_remove(at);
        if let Some(&moved) = counts.running.get(at) {
            self.tasks[key.kind][moved as usize].running_position = at as u32;
        }
    }

    /// A stopped, done or paused task is pending again, from the beginning. The task of an open job is released instead, because the
    /// backend will request a new slot.
    pub(super) fn make_pending(&mut self, key: TaskKey, lost_with: Option<NodeId>) {
        self.has_lost_work |= lost_with.is_some();
        self.counts[key.kind].pending += 1;
        if self.open {
            let task = self.task_mut(key);
            (task.state, task.node) = (TaskState::Done, NodeId(u32::MAX));
            self.released[key.kind] += 1;
            return;
        }
        let task = self.task_mut(key);
        task.state = TaskState::Pending;
        task.progress_ppm = 0;
        if task.has_history || lost_with.is_some() {
            let history = self.history_mut(key);
            (history.kept_service, history.lost_with) = (Span::ZERO, lost_with);
        }
        match key.kind {
            Kind::Map => self.pending_maps.add_returned(key.index),
            Kind::Reduce => self.pending_reduces.push(key.index),
        }
    }

    /// A running task finished; a map's output is on its node. `rates` are the node's speed and disk rate, if the work is to be counted.
    pub(super) fn finish(&mut self, key: TaskKey, output_bytes: u64, rates: Option<(f64, f64)>, now: Time) {
        let service = self.service(key, now);
        let bytes = if key.kind == Kind::Map { self.map_bytes(key.index) } else { 0 };
        // The time of a part of a split says nothing about the time of a whole one.
        let is_whole = key.kind == Kind::Reduce || self.part_bytes(key.index).is_none();
        self.stop(key, now);
        let task = self.task_mut(key);
        task.state = TaskState::Done;
        task.progress_ppm = WHOLE_PPM;
        let counts = &mut self.counts[key.kind];
        counts.done += 1;
        if is_whole {
            counts.finished += 1;
            counts.finished_time += service;
            if let Some((speed, disk)) = rates {
                counts.finished_work_s += (service.as_secs_f64() - bytes as f64 / disk.max(1.0)).max(0.0) * speed;
            }
        }
        if key.kind == Kind::Map {
            self.mapped_bytes += bytes;
            self.output_bytes += output_bytes;
            self.map_outputs[key.index as usize] = output_bytes;
        }
    }

    /// A running map ended early: the mapped bytes are a finished map, the rest becomes a new pending one.
    pub(super) fn end_early(&mut self, map: u32, done_bytes: u64, output_bytes: u64, now: Time) {
        let key = TaskKey::map(map);
        let (split, preemptions) = (self.task(key).split, self.task(key).preemptions);
        let (start_bytes, bytes) = (self.map_start_bytes(map), self.map_bytes(map));
        if done_bytes == 0 {
            self.stop(key, now);
            self.make_pending(key, None);
            return;
        }
        let rest_bytes = bytes - done_bytes;
        self.history_mut(key).bytes = Some(done_bytes);
        self.finish(key, output_bytes, None, now);
        if rest_bytes == 0 {
            return;
        }
        let rest = TaskKey::map(self.tasks[Kind::Map].len() as u32);
        self.tasks[Kind::Map].push(Task { preemptions, ..Task::new(split) });
        self.map_outputs.push(0);
        let history = self.history_mut(rest);
        (history.start_bytes, history.bytes) = (start_bytes + done_bytes, Some(rest_bytes));
        self.counts[Kind::Map].pending += 1;
        self.pending_maps.add_returned(rest.index);
    }

    /// A running reduce paused; its node keeps its state.
    pub(super) fn pause(&mut self, reduce: u32, progress_ppm: u32, now: Time) {
        let key = TaskKey::reduce(reduce);
        let kept_service = self.service(key, now);
        self.stop(key, now);
        let task = self.task_mut(key);
        task.state = TaskState::Paused;
        task.progress_ppm = progress_ppm;
        self.history_mut(key).kept_service = kept_service;
        self.counts[Kind::Reduce].paused += 1;
        self.paused.push_back((reduce, self.refused_offers));
    }

    /// A paused reduce of an open job ended on its own, with or without a result.
    pub(super) fn end_paused(&mut self, reduce: u32, finished: bool) {
        let key = TaskKey::reduce(reduce);
        self.unlist_paused(reduce);
        self.counts[Kind::Reduce].paused -= 1;
        if !finished {
            self.make_pending(key, None);
            return;
        }
        let service = self.history(key).map_or(Span::ZERO, |history| history.kept_service);
        let task = self.task_mut(key);
        (task.state, task.progress_ppm) = (TaskState::Done, WHOLE_PPM);
        let counts = &mut self.counts[Kind::Reduce];
        counts.done += 1;
        counts.finished += 1;
        counts.finished_time += service;
    }

    /// A paused reduce leaves the list of paused ones.
    pub(super) fn unlist_paused(&mut self, reduce: u32) {
        let at = self.paused.iter().position(|&(task, _)| task == reduce).expect("a paused reduce is listed");
        self.paused.remove(at);
    }

    /// Adds the entry of a task that an open job runs in a slot it was granted. The task stays pending.
    pub(super) fn add_task(&mut self, kind: Kind) -> TaskKey {
        let key = TaskKey { kind, index: self.tasks[kind].len() as u32 };
        if kind == Kind::Map {
            // Nothing is known of its input; one split of no bytes serves all of them.
            if self.splits.is_empty() {
                self.splits = Arc::from([Split::default()]);
            }
            self.map_outputs.push(0);
        }
        self.tasks[kind].push(Task::new(0));
        key
    }

    /// A finished map's output is lost and needed: it is pending again.
    pub(super) fn undo_map(&mut self, map: u32, lost_with: NodeId) {
        let key = TaskKey::map(map);
        assert!(self.task(key).state == TaskState::Done, "only a finished map can be undone");
        self.mapped_bytes -= self.map_bytes(map);
        self.output_bytes -= self.map_outputs[map as usize];
        self.counts[Kind::Map].done -= 1;
        self.make_pending(key, Some(lost_with));
    }
}
