//! The facts: nodes, jobs, tasks, and the legal moves between their states.
//!
//! Nothing here ranks or chooses. A move that is not legal is refused by the caller before it is made; the counts kept beside the
//! facts (free slots, waiting tasks) are changed only together with them.

pub mod bits;
pub mod check;
pub mod holdouts;
pub mod job;
pub mod node;
pub mod racks;
pub mod waiting;

pub use holdouts::Holdouts;
pub use job::{Facts, Job, Task, TaskState, Twin};
pub use node::{Claim, Node};
pub use racks::Racks;

use crate::ids::{JobId, Kind, NodeId};
use rustc_hash::FxHashMap;

/// Where a live job stands in the job table. Used again after the job is closed.
pub type JobIx = u32;

/// All facts the core knows.
#[derive(Debug, Default)]
pub struct State {
    /// Nodes by number, up or down.
    pub nodes: Vec<Node>,
    /// The rack of each node.
    pub racks: Racks,
    /// Live jobs; a closed job leaves its place empty.
    pub jobs: Vec<Option<Job>>,
    places: Vec<JobIx>,
    by_id: FxHashMap<JobId, JobIx>,
    /// Free slots of all nodes that are up.
    pub free: [u32; 2],
    /// Slots of all nodes that are up.
    pub slots: [u32; 2],
    /// Nodes that are up.
    pub nodes_up: u32,
    /// Claims that wait for their slot.
    pub claims: [u32; 2],
    /// Jobs that hold out for a better node.
    pub holdouts: [Holdouts; 2],
    submitted: u32,
}

impl State {
    /// The table place of a live job.
    pub fn find(&self, id: JobId) -> Option<JobIx> {
        self.by_id.get(&id).copied()
    }

    /// A live job.
    pub fn job(&self, jx: JobIx) -> &Job {
        self.jobs[jx as usize].as_ref().expect("a job index outlived its job")
    }

    /// A live job, to change.
    pub fn job_mut(&mut self, jx: JobIx) -> &mut Job {
        self.jobs[jx as usize].as_mut().expect("a job index outlived its job")
    }

    /// Live jobs in table order.
    pub fn live(&self) -> impl Iterator<Item = (JobIx, &Job)> + Clone {
        self.jobs.iter().enumerate().filter_map(|(jx, job)| job.as_ref().map(|job| (jx as JobIx, job)))
    }

    /// How many jobs are live.
    pub fn live_count(&self) -> usize {
        self.by_id.len()
    }

    /// The number the next job gets in the order of submission.
    pub fn next_seq(&mut self) -> u32 {
        self.submitted += 1;
        self.submitted
    }

    /// Gives a job a place.
    pub fn admit(&mut self, job: Job) -> JobIx {
        let jx = self.places.pop().unwrap_or(self.jobs.len() as JobIx);
        if jx as usize == self.jobs.len() {
            self.jobs.push(None);
        }
        self.by_id.insert(job.id, jx);
        self.holdouts.iter_mut().for_each(|holdouts| holdouts.ask_again(jx));
        self.jobs[jx as usize] = Some(job);
        jx
    }

    /// Takes a job's place away.
    pub fn remove(&mut self, jx: JobIx) {
        let id = self.job(jx).id;
        self.jobs[jx as usize] = None;
        self.by_id.remove(&id);
        self.places.push(jx);
    }

    /// The node, if it is up.
    pub fn up(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(node.0 as usize).filter(|node| node.up)
    }

    /// The nodes that are up.
    pub fn up_nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes.len() as u32).map(NodeId).filter(|node| self.up(*node).is_some())
    }

    /// A node by number; it must have joined once.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    /// A node by number, to change.
    pub fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }

    /// A node is seen to run more than it was said to have slots: then it has one more.
    pub fn grow(&mut self, node: NodeId, kind: Kind) {
        let place = self.node_mut(node);
        match kind {
            Kind::Map => place.spec.map_slots += 1,
            Kind::Reduce => place.spec.reduce_slots += 1,
        }
        place.free[kind.ix()] += 1;
        self.free[kind.ix()] += 1;
        self.slots[kind.ix()] += 1;
    }

    /// An attempt of a job takes a slot.
    pub fn take_slot(&mut self, node: NodeId, kind: Kind, jx: JobIx, task: u32, number: u16) {
        let place = self.node_mut(node);
        assert!(place.up && place.free[kind.ix()] > 0, "{node} has no free {kind} slot");
        place.free[kind.ix()] -= 1;
        place.running[kind.ix()].push((jx, task, number));
        self.free[kind.ix()] -= 1;
    }

    /// An attempt of a job leaves its slot.
    pub fn leave_slot(&mut self, node: NodeId, kind: Kind, jx: JobIx, task: u32, number: u16) {
        let place = self.node_mut(node);
        let running = &mut place.running[kind.ix()];
        let at = running
            .iter()
            .position(|&entry| entry == (jx, task, number))
            .expect("an attempt left a slot it never took");
        running.remove(at);
        place.free[kind.ix()] += 1;
        self.free[kind.ix()] += 1;
    }
}
