//! Jobs: their tasks, the counts kept of them, and what the policy has derived for them.

use super::SHUFFLE_DONE_PPM;
use super::bit_set::BitSet;
use super::estimate::Estimate;
use super::launch_order::LaunchOrder;
use super::pending_maps::PendingMaps;
use super::racks::Racks;
use super::restore;
use super::task::{SpeculativeAttempt, Task, TaskHistory, TaskState};
use crate::action::{Locality, PreemptAction, Work};
use crate::event::{Hint, JobSpec, Priority, Split};
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskKey};
use crate::lifecycle::StopRequest;
use crate::units::{Span, Time};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// A live job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub(super) id: JobId,
    /// As it was submitted, without its splits.
    pub(super) spec: Box<JobSpec>,
    #[serde(skip)]
    pub(super) application: Box<str>,
    pub(super) user: u32,
    #[serde(skip)]
    pub(super) priority: Priority,
    pub(super) submitted: Time,
    pub(super) sequence: u32,
    pub(super) splits: Arc<[Split]>,
    pub(super) tasks: PerKind<Vec<Task>>,
    /// Task entries of an open job that are neither finished nor requested any more.
    #[serde(skip)]
    pub(super) released: PerKind<u32>,
    /// The size of its splits, if they all have the same.
    #[serde(skip)]
    pub(super) block_bytes: Option<u64>,
    /// Output of each finished map.
    pub(super) map_outputs: Vec<u64>,
    #[serde(serialize_with = "restore::sorted")]
    pub(super) histories: FxHashMap<TaskKey, TaskHistory>,
    /// Whether work of any of its tasks was ever lost with a node. Most jobs have histories of other kinds only.
    pub(super) has_lost_work: bool,
    pub(super) counts: PerKind<TaskCounts>,
    #[serde(skip)]
    pub(super) launch_order: PerKind<LaunchOrder>,
    pub(super) pending_maps: PendingMaps,
    /// Pending reduces; the last one is launched first.
    pub(super) pending_reduces: Vec<u32>,
    /// Paused reduces, oldest first, each with `refused_offers` at the time of its pause.
    pub(super) paused: VecDeque<(u32, u64)>,
    pub(super) refused_offers: u64,
    /// Finished maps whose output was lost with a node while no reduce needed it, and that node.
    pub(super) unneeded_lost_outputs: Vec<(u32, NodeId)>,
    pub(super) speculative: Vec<SpeculativeAttempt>,
    #[serde(skip)]
    pub(super) slowstart_maps: u32,
    pub(super) first_launch: Option<Time>,
    pub(super) delayed_since: PerKind<Option<Time>>,
    pub(super) map_nodes: BitSet,
    /// The types of nodes that hold its input, as bits.
    pub(super) input_types: u64,
    #[serde(skip)]
    pub(super) input_bytes: u64,
    #[serde(skip)]
    pub(super) mapped_bytes: u64,
    #[serde(skip)]
    pub(super) output_bytes: u64,
    /// When its last map was done, while all are.
    pub(super) maps_done_at: Option<Time>,
    #[serde(skip)]
    pub(super) hint: Option<Hint>,
    #[serde(skip)]
    pub(super) estimate_bias: f64,
    pub(super) estimate: Estimate,
    pub(super) classes: [Option<u16>; 2],
    /// Slot time received by attempts that have ended.
    pub(super) ended_service: Span,
    /// Nodes on which attempts failed, and how many.
    pub(super) failed_on: SmallVec<[(NodeId, u8); 2]>,
    pub(super) closed: bool,
    pub(super) open: bool,
    /// Slots that an open job requests for lost work.
    pub(super) recovering: u32,
    /// What the backend would grant an open job now; everything if it did not say. Not part of snapshots: a backend that continues from one says it anew.
    #[serde(skip)]
    pub(super) headroom: Option<Headroom>,
}

/// What the backend of an open job would grant it: [`Event::HeadroomSet`](crate::Event::HeadroomSet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// At most so many free slots.
    pub slots: u32,
    /// Whether also those that attempts of its pool leave.
    pub freed: bool,
}

/// Counts over a job's tasks of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
    #[serde(skip)]
    pub(super) charged: u32,
    /// Work of the finished tasks: their time on a node of speed 1 without reading splits, in seconds. Kept only under a policy that
    /// compares nodes or the work of jobs.
    pub finished_work_s: f64,
    /// The part of `finished_work_s` that reduces spent before their job's last map was done, waiting for map output.
    pub finished_wait_s: f64,
    /// Finished parts of maps that ended early, in whole splits. Kept like `finished_work_s`.
    pub finished_parts: f64,
    /// The work of these parts, in seconds.
    pub finished_parts_work_s: f64,
}

impl TaskCounts {
    /// Slots allocated: those it holds and those reserved for it, without those that are being freed.
    pub fn allocated(&self) -> u32 {
        (self.running.len() as u32 + self.speculative + self.reserved).saturating_sub(self.stopping)
    }

    /// Slots that the job's groups have been charged for.
    pub fn charged(&self) -> u32 {
        self.charged
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

    /// As it was submitted, with the present locations of its input.
    pub fn spec(&self) -> JobSpec {
        JobSpec { splits: Arc::clone(&self.splits), ..(*self.spec).clone() }
    }

    /// Its name, as it was submitted.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its application: its user and its name, with each number in it replaced.
    pub fn application(&self) -> &str {
        &self.application
    }

    /// The user who submitted it, as an index into the scheduler's list of users.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// The name of its pool, as it was submitted.
    pub fn pool(&self) -> &str {
        &self.spec.pool
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

    /// The tasks that hold a slot, those requested to stop included, that of the oldest attempt first.
    pub fn running_oldest_first(&self, kind: Kind) -> impl Iterator<Item = u32> + '_ {
        self.launch_order[kind].running(&self.tasks[kind])
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

    /// True if it holds a slot of this kind that was not requested to be freed.
    #[inline]
    pub fn may_lose_slot(&self, kind: Kind) -> bool {
        !self.closed && self.counts[kind].running.len() as u32 > self.counts[kind].stopping
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

    /// Of a number of free slots, those that its backend would grant it.
    pub fn within_headroom(&self, free: u32) -> u32 {
        self.headroom.map_or(free, |headroom| free.min(headroom.slots))
    }

    /// True if its backend would grant it the slots that are freed for it.
    pub fn gets_freed_slots(&self) -> bool {
        self.headroom.is_none_or(|headroom| headroom.freed)
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

    /// The part of a running reduce's time in its slot that was before the job's last map was done. It waited then for map output, mostly.
    pub fn wait_for_maps(&self, key: TaskKey, now: Time) -> Span {
        if key.kind == Kind::Map {
            return Span::ZERO;
        }
        let kept = self.history(key).map_or(Span::ZERO, |history| history.kept_wait);
        let task = self.task(key);
        if task.holds_slot() { kept + self.maps_done_at.unwrap_or(now).min(now).since(task.launched) } else { kept }
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

    /// When an attempt that holds a slot was launched, and how it was requested to stop.
    pub(crate) fn launched_and_stop(&self, task: TaskKey, number: u16) -> (Time, Option<StopRequest>) {
        let request = |action, preempted| StopRequest { action, preempted };
        if let Some(other) = self.speculative.iter().find(|other| (other.task, other.number) == (task, number)) {
            return (other.launched, other.stopping.then_some(request(PreemptAction::Kill, false)));
        }
        let primary = self.task(task);
        match primary.state {
            TaskState::Stopping(action) => (primary.launched, Some(request(action, !self.closed))),
            _ => (primary.launched, None),
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

    /// Sets up to how many slots of a kind it ranks first.
    pub(crate) fn set_due(&mut self, kind: Kind, slots: f64, position: u32) {
        let lag = &mut self.estimate.lag[kind];
        (lag.due_slots, lag.due_position) = (slots, position);
    }

    pub(crate) fn set_fair_share(&mut self, kind: Kind, slots: f64) {
        self.counts[kind].fair_share = slots;
    }

    pub(crate) fn set_recovering(&mut self, slots: u32) {
        self.recovering = slots;
    }

    pub(crate) fn set_headroom(&mut self, headroom: Headroom) {
        self.headroom = Some(headroom);
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
