//! Nodes: their slots, the attempts that run or are paused there, and reservations of slots that are being freed.

use super::job_table::JobKey;
use super::node_types::{NodeType, NodeTypes};
use super::racks::Racks;
use crate::event::NodeSpec;
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A node. The fields that every launch and every end of an attempt touch come first and share cache lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct Node {
    #[serde(skip)]
    pub(super) free: PerKind<u16>,
    pub(super) up: bool,
    /// The number of its type.
    pub(super) node_type: u16,
    pub(super) running: PerKind<SmallVec<[RunningAttempt; 8]>>,
    /// Reduces whose state is kept here.
    pub(super) paused: Vec<(JobKey, u32)>,
    /// How many may be paused here at once.
    pub(super) pause_limit: u32,
    /// Served in this order.
    pub(super) reservations: PerKind<Vec<Reservation>>,
    pub(super) spec: NodeSpec,
    /// The latest failures of attempts here, oldest first.
    pub(super) failures: Vec<(Time, JobId)>,
    pub(super) exclusion: Option<Box<Exclusion>>,
}

/// An excluded node gets no tasks but probes. The order of the fields is part of the format of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Since when it is excluded.
    pub since: Time,
    /// The failures it was excluded for.
    pub failures: u32,
    /// The number of jobs whose attempts failed.
    pub jobs: u32,
    /// When the next probe may start.
    pub probe_at: Time,
    /// Probes that have failed.
    pub failed_probes: u32,
    /// The running probe.
    pub probe: Option<AttemptId>,
}

impl Exclusion {
    /// The exclusion of a node that an administrator drains: for no failure, and without probes.
    pub fn drain(since: Time) -> Exclusion {
        Exclusion { since, failures: 0, jobs: 0, probe_at: Time::NEVER, failed_probes: 0, probe: None }
    }

    /// True if an administrator drains the node.
    pub fn is_drain(&self) -> bool {
        self.failures == 0
    }
}

/// How many of its latest failures a node remembers.
const FAILURES_KEPT: usize = 32;

/// An attempt that holds a slot of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunningAttempt {
    /// Its job.
    pub job: JobKey,
    /// Its task's index within the kind of the slot.
    pub task: u32,
    /// Its number within the task.
    pub number: u16,
}

/// A reservation of a slot of a node: the next free one goes to this job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Key of the job at the time of the reservation.
    pub job: JobKey,
    /// Id of that job. The reservation is void if the key now belongs to another job.
    pub id: JobId,
    /// The index of a task, if the slot is for this one.
    pub task: Option<u32>,
}

impl Node {
    pub(super) fn new(spec: NodeSpec, node_type: u16) -> Node {
        Node {
            free: PerKind::new(spec.map_slots, spec.reduce_slots),
            spec,
            up: true,
            node_type,
            running: Default::default(),
            paused: Vec::new(),
            pause_limit: u32::MAX,
            reservations: Default::default(),
            failures: Vec::new(),
            exclusion: None,
        }
    }

    /// False after the node was lost, until it joins again.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Its exclusion, if it gets no tasks because it failed those of several jobs or is drained. A node that is down may be drained.
    pub fn exclusion(&self) -> Option<&Exclusion> {
        self.exclusion.as_deref()
    }

    /// The latest failures of attempts here and their jobs, oldest first.
    pub fn failures(&self) -> &[(Time, JobId)] {
        &self.failures
    }

    pub(super) fn add_failure(&mut self, job: JobId, now: Time) {
        if self.failures.len() == FAILURES_KEPT {
            self.failures.remove(0);
        }
        self.failures.push((now, job));
    }

    /// Its slots, speed and disk.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Number of free slots of a kind, reserved ones included.
    #[inline]
    pub fn free(&self, kind: Kind) -> u16 {
        self.free[kind]
    }

    /// The attempts that hold a slot of a kind.
    pub fn running(&self, kind: Kind) -> &[RunningAttempt] {
        &self.running[kind]
    }

    /// The reduces that are paused here, oldest first.
    pub fn paused(&self) -> &[(JobKey, u32)] {
        &self.paused
    }

    /// How many reduces may be paused here at once.
    pub fn pause_limit(&self) -> u32 {
        self.pause_limit
    }

    /// Reservations of slots of a kind, in the order in which they are served.
    pub fn reservations(&self, kind: Kind) -> &[Reservation] {
        &self.reservations[kind]
    }
}

/// All nodes, with totals over those that are up and not excluded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeTable {
    pub(super) nodes: Vec<Node>,
    pub(super) types: NodeTypes,
    #[serde(skip)]
    pub(super) racks: Racks,
    #[serde(skip)]
    pub(super) free: PerKind<u32>,
    #[serde(skip)]
    pub(super) slots: PerKind<u32>,
    #[serde(skip)]
    pub(super) reservations: PerKind<u32>,
    /// The nodes with reservations.
    #[serde(skip)]
    pub(super) reserved: PerKind<BTreeSet<NodeId>>,
    /// How many reservations each job has, by its key and its id.
    #[serde(skip)]
    pub(super) reserved_by_job: PerKind<BTreeMap<(JobKey, JobId), u32>>,
    #[serde(skip)]
    pub(super) up: u32,
    #[serde(skip)]
    pub(super) excluded: u32,
}

impl NodeTable {
    /// Number of nodes that have ever joined; their ids are below it.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if no node has joined.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node that has joined, up or down.
    #[inline]
    pub fn get(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    /// A node, if it is up.
    pub fn up(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(node.0 as usize).filter(|node| node.up)
    }

    /// All nodes that have joined, up or down, by id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// The ids of the nodes that are up.
    pub fn ids_up(&self) -> impl Iterator<Item = NodeId> {
        self.iter().filter(|(_, node)| node.up).map(|(id, _)| id)
    }

    /// Number of nodes that are up.
    pub fn up_count(&self) -> u32 {
        self.up
    }

    /// True if a node is up and not excluded.
    pub fn is_usable(&self, node: NodeId) -> bool {
        self.up(node).is_some_and(|up| up.exclusion.is_none())
    }

    /// The ids of the nodes that are up and not excluded.
    pub fn ids_usable(&self) -> impl Iterator<Item = NodeId> {
        self.iter().filter(|(_, node)| node.up && node.exclusion.is_none()).map(|(id, _)| id)
    }

    /// Number of nodes that are up and excluded.
    pub fn excluded_count(&self) -> u32 {
        self.excluded
    }

    /// Number of nodes that are up and not excluded.
    pub fn usable_count(&self) -> u32 {
        self.up - self.excluded
    }

    /// The types of nodes, by number. Those without slots have no node that is usable.
    #[inline]
    pub fn types(&self) -> &[NodeType] {
        self.types.all()
    }

    /// Changes whenever the types or their slots do.
    #[inline]
    pub fn types_version(&self) -> u64 {
        self.types.version()
    }

    /// The number of a node's type.
    #[inline]
    pub fn type_of(&self, node: NodeId) -> usize {
        usize::from(self.get(node).node_type)
    }

    /// Seconds of work at speed 1 that all slots of a kind do per second.
    pub fn capacity(&self, kind: Kind) -> f64 {
        self.types().iter().map(|of| f64::from(of.slots[kind]) * of.speed).sum()
    }

    /// The rack of each node.
    pub fn racks(&self) -> &Racks {
        &self.racks
    }

    /// Slots of the nodes that are up and not excluded, by kind.
    pub fn slots(&self) -> PerKind<u32> {
        self.slots
    }

    /// Free slots of the nodes that are up and not excluded, by kind, reserved ones included.
    pub fn free(&self) -> PerKind<u32> {
        self.free
    }

    /// Reservations that have not been served, by kind.
    pub fn reservations(&self) -> PerKind<u32> {
        self.reservations
    }

    /// The nodes with reservations of slots of a kind.
    pub fn ids_reserved(&self, kind: Kind) -> impl Iterator<Item = NodeId> {
        self.reserved[kind].iter().copied()
    }

    /// The jobs with reservations of slots of a kind, as they were then, and how many each has.
    pub fn reserved_by_job(&self, kind: Kind) -> impl Iterator<Item = (JobKey, JobId, u32)> {
        self.reserved_by_job[kind].iter().map(|(&(job, id), &reserved)| (job, id, reserved))
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }

    pub(super) fn add_reservation(&mut self, node: NodeId, kind: Kind, reservation: Reservation) {
        self.get_mut(node).reservations[kind].push(reservation);
        self.count_reservation(node, kind, reservation);
    }

    /// Counts a reservation that a node has.
    pub(super) fn count_reservation(&mut self, node: NodeId, kind: Kind, reservation: Reservation) {
        self.reservations[kind] += 1;
        self.reserved[kind].insert(node);
        *self.reserved_by_job[kind].entry((reservation.job, reservation.id)).or_default() += 1;
    }

    /// Removes a reservation by its position.
    pub(super) fn remove_reservation(&mut self, node: NodeId, kind: Kind, at: usize) -> Reservation {
        let reservations = &mut self.get_mut(node).reservations[kind];
        let removed = reservations.remove(at);
        if reservations.is_empty() {
            self.reserved[kind].remove(&node);
        }
        self.reservations[kind] -= 1;
        let owner = (removed.job, removed.id);
        let of_job = self.reserved_by_job[kind].get_mut(&owner).expect("each reservation is counted");
        *of_job -= 1;
        if *of_job == 0 {
            self.reserved_by_job[kind].remove(&owner);
        }
        removed
    }

    /// An attempt takes a slot. If the backend granted it one on a full node, the node has more attempts than slots until some of them end.
    pub(super) fn take_slot(&mut self, node: NodeId, kind: Kind, attempt: RunningAttempt) {
        let place = self.get_mut(node);
        assert!(place.up, "{node} is down");
        place.running[kind].push(attempt);
        if place.free[kind] > 0 {
            place.free[kind] -= 1;
            let is_counted = place.exclusion.is_none();
            self.free[kind] -= u32::from(is_counted);
        }
    }

    pub(super) fn set_slots(&mut self, node: NodeId, slots: PerKind<u16>) {
        let place = &mut self.nodes[node.0 as usize];
        let (had, was_free) = (PerKind::new(place.spec.map_slots, place.spec.reduce_slots), place.free);
        (place.spec.map_slots, place.spec.reduce_slots) = (slots[Kind::Map], slots[Kind::Reduce]);
        place.free = PerKind::from_fn(|kind| usize::from(slots[kind]).saturating_sub(place.running[kind].len()) as u16);
        if place.exclusion.is_some() {
            return;
        }
        for kind in Kind::BOTH {
            self.slots[kind] = self.slots[kind] - u32::from(had[kind]) + u32::from(slots[kind]);
            self.free[kind] = self.free[kind] - u32::from(was_free[kind]) + u32::from(place.free[kind]);
        }
        self.types.remove(place.node_type, PerKind::from_fn(|kind| u32::from(had[kind])));
        self.types.add(place);
    }

    pub(super) fn free_slot(&mut self, node: NodeId, kind: Kind, attempt: RunningAttempt) {
        let place = self.get_mut(node);
        let running = &mut place.running[kind];
        let at = running.iter().position(|&other| other == attempt).expect("an attempt frees only its own slot");
        running.remove(at);
        if running.len() < usize::from(place.spec.slots(kind)) {
            place.free[kind] += 1;
            let is_counted = place.exclusion.is_none();
            self.free[kind] += u32::from(is_counted);
        }
    }
}
