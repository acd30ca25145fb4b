//! The model of a cluster: nodes, network, heartbeats, costs and failures.
//!
//! [`by_name`] has the clusters of the four papers; [`mod@file`] reads a cluster from a TOML file, and any cluster can be written as such a file.

pub mod catalog;
pub mod file;
mod write;

pub use catalog::{UnknownCluster, by_name, names};

use giveway_core::{Kind, NodeId, NodeSpec, Span, Time};
use serde::{Deserialize, Serialize};

/// A simulated cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Name in messages and reports.
    pub name: String,
    /// Nodes by number.
    pub nodes: Vec<NodeModel>,
    /// Interval between two heartbeats of a node.
    pub heartbeat: Span,
    /// When nodes report to the core and receive its requests.
    pub reporting: HeartbeatMode,
    /// Time without heartbeats after which a node counts as lost.
    pub lost_after: Span,
    /// Size of an input block.
    pub block_bytes: u64,
    /// Replicas of each block.
    pub replicas: u32,
    /// Fraction (over 0, up to 1) of the link rate that a flow across racks gets.
    pub cross_rack: f64,
    /// Time and memory costs of tasks in addition to their work.
    pub costs: Costs,
    /// Variation of task times: the standard deviation of their logarithm.
    pub noise: f64,
    /// Attempts that are slowed down at random.
    pub stragglers: Stragglers,
    /// Failures of nodes.
    pub faults: Faults,
}

/// When nodes report to the core and receive its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeartbeatMode {
    /// Ends of tasks, slot offers and stop requests travel with periodic heartbeats, as in Hadoop 1.
    #[default]
    Heartbeat,
    /// A node also sends a heartbeat when a task ends there, like Hadoop's out-of-band heartbeats.
    OutOfBand,
    /// Ends and stop requests travel without delay, and free slots are offered after the events of each instant, as in the embedded engine.
    Immediate,
}

/// A node and its network link.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeModel {
    /// Properties that the core receives.
    pub spec: NodeSpec,
    /// Link rate, in each direction.
    pub net_bytes_per_s: u64,
    /// What its tasks share. If absent, every task computes and reads at full speed, however many run.
    pub shared: Option<SharedHardware>,
}

/// Hardware for which the tasks of a node contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedHardware {
    /// Number of cores. A task uses at most one.
    pub cores: u16,
    /// Number of disks, each with the rate of the node's specification. A task uses at most one at a time.
    pub disks: u16,
    /// Memory for the page cache. Map output that is no longer in it is read from disk when it is fetched. If absent, all of it is in memory.
    pub page_cache_bytes: Option<u64>,
}

/// Costs of tasks in addition to their work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// Starting a process for a task.
    pub launch: Span,
    /// Pausing a reduce and writing its index record, without flushing its memory.
    pub pause: Span,
    /// Largest amount that a reduce holds in memory and flushes when it pauses.
    pub pause_flush_bytes: u64,
    /// Reading the index record and rebuilding the merge.
    pub resume: Span,
    /// Closing the output of a map that ends early.
    pub end_early: Span,
    /// Killing a task.
    pub kill: Span,
    /// Merging one gigabyte in the sort phase of a reduce.
    pub sort_per_gb: Span,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            launch: Span::from_secs(1),
            pause: Span::from_millis(200),
            pause_flush_bytes: 128 << 20,
            resume: Span::from_millis(500),
            end_early: Span::from_millis(200),
            kill: Span::from_millis(100),
            sort_per_gb: Span::from_secs(4),
        }
    }
}

impl Costs {
    /// The costs of the embedded engine, whose tasks are threads: what `giveway bench engine` measures, rounded up to 10 ms.
    pub fn engine() -> Costs {
        let ten = Span::from_millis(10);
        Costs { launch: Span::ZERO, pause: ten, resume: ten, end_early: ten, kill: ten, ..Costs::default() }
    }
}

/// Attempts that are slowed down at random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stragglers {
    /// Fraction (0-1) of the attempts.
    pub share: f64,
    /// Factor on their compute time.
    pub factor: f64,
}

impl Default for Stragglers {
    fn default() -> Stragglers {
        Stragglers { share: 0.0, factor: 1.0 }
    }
}

/// Failures of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Failures at given times.
    pub scripted: Vec<ScriptedFault>,
    /// Failures at random times.
    pub random: Option<RandomFaults>,
    /// Nodes that fail the attempts launched there.
    pub task_failures: Vec<TaskFailures>,
}

/// A node that fails attempts, such as one whose disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFailures {
    /// Number of the node.
    pub node: NodeId,
    /// Attempts launched from this time on fail, in seconds from the start.
    pub from_s: f64,
    /// Attempts launched from this time on succeed again; never if absent.
    pub until_s: Option<f64>,
    /// Fraction (0-1) of the attempts that fail.
    pub share: f64,
    /// Time from the start of the process to the failure.
    pub after: Span,
}

/// A failure at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFault {
    /// Number of the node.
    pub node: NodeId,
    /// Time of the failure, in seconds from the start.
    pub at_s: f64,
    /// Time from the failure to the repair, in seconds; the node comes back empty. Never repaired if absent.
    #[serde(default)]
    pub back_after_s: Option<f64>,
}

/// Random failures, independent for each node, with exponential up and down times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomFaults {
    /// Mean time between repair and failure.
    pub mean_up: Span,
    /// Mean time between failure and repair.
    pub mean_down: Span,
    /// No failures start after this time; all nodes are repaired.
    #[serde(default = "default_fault_horizon")]
    pub until: Span,
}

fn default_fault_horizon() -> Span {
    Span::from_secs(7 * 86_400)
}

impl Cluster {
    /// Total number of slots of a kind.
    pub fn slots(&self, kind: Kind) -> u32 {
        self.nodes.iter().map(|node| u32::from(node.spec.slots(kind))).sum()
    }

    /// Total compute speed of all slots of a kind, in slots of speed 1.
    pub fn speed_slots(&self, kind: Kind) -> f64 {
        self.nodes.iter().map(|node| f64::from(node.spec.slots(kind)) * f64::from(node.spec.speed_ppm) / 1e6).sum()
    }

    /// Time of a node's first heartbeat: the heartbeats of all nodes are spread evenly over one interval.
    pub fn first_heartbeat(&self, node: NodeId) -> Time {
        Time(self.heartbeat.0 * u64::from(node.0) / self.nodes.len().max(1) as u64)
    }
}
