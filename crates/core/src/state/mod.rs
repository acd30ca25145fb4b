//! The state of the cluster: jobs, tasks, attempts and nodes, and the legal transitions between their states.
//!
//! All fields are private. Queries read; transitions (`transitions.rs`) change jobs and nodes together with the counts that are kept beside
//! them, and panic on a transition that is not legal: the scheduler refuses events that would require one. Nothing here ranks
//! or chooses, and nothing here depends on a policy. What a policy derives from the state (estimates, shares, classes) is stored with the
//! job, but computed elsewhere.

mod application;
pub mod bit_set;
mod check;
mod estimate;
mod failure_transitions;
mod job;
mod job_pending_maps;
mod job_steps;
mod job_table;
mod launch_order;
mod node;
mod node_types;
mod pending_maps;
mod racks;
mod restore;
mod returned_maps;
mod task;
mod transitions;

pub use estimate::{Estimate, JobLag};
pub use job::{Headroom, Job, TaskCounts};
pub use job_table::{JobKey, JobTable};
pub use node::{Exclusion, Node, NodeTable, Reservation, RunningAttempt};
pub use node_types::NodeType;
pub use racks::Racks;
pub use task::{SpeculativeAttempt, Task, TaskHistory, TaskState};
pub use transitions::{AttemptRole, FailedPrimary};

use crate::ids::{JobId, NodeId};
use serde::{Deserialize, Serialize};

/// A reduce with this progress has fetched all its input: the first third of its progress is the shuffle.
pub const SHUFFLE_DONE_PPM: u32 = crate::units::WHOLE_PPM / 3 + 1;

/// Everything the scheduler knows of its cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "restore::Stored")]
pub struct State {
    jobs: JobTable,
    nodes: NodeTable,
}

impl State {
    /// The live jobs.
    pub fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    /// The nodes.
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The key of a live job.
    pub fn find(&self, id: JobId) -> Option<JobKey> {
        self.jobs.find(id)
    }

    /// A live job.
    #[inline]
    pub fn job(&self, job: JobKey) -> &Job {
        self.jobs.get(job)
    }

    /// A live job, for changes that concern no node.
    #[inline]
    pub(crate) fn job_mut(&mut self, job: JobKey) -> &mut Job {
        self.jobs.get_mut(job)
    }

    /// A node that has joined, up or down.
    #[inline]
    pub fn node(&self, node: NodeId) -> &Node {
        self.nodes.get(node)
    }

    /// Jobs to change and nodes to read, at the same time.
    pub(crate) fn jobs_and_nodes(&mut self) -> (&mut JobTable, &NodeTable) {
        (&mut self.jobs, &self.nodes)
    }
}
