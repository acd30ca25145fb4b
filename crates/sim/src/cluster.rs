//! A cluster as the simulator knows it: machines, network, habits and accidents.
//!
//! [`by_name`] knows the clusters of the four papers; [`mod@file`] reads what a user wrote, and any cluster
//! can be written as such a file.

pub mod catalog;
pub mod file;
mod write;

pub use catalog::{UnknownCluster, by_name, names};

use giveway_core::{Kind, NodeId, NodeSpec, Span, Time};
use serde::{Deserialize, Serialize};

/// A whole simulated cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// What people call it.
    pub name: String,
    /// Its nodes, in the order of their numbers.
    pub nodes: Vec<NodeModel>,
    /// How often a node beats.
    pub heartbeat: Span,
    /// When word travels between the nodes and the core.
    pub word: Word,
    /// How long a node may be silent before it counts as lost.
    pub lost_after: Span,
    /// Size of a block of input.
    pub block_bytes: u64,
    /// Replicas of each block.
    pub replicas: u32,
    /// What part of the link speed a flow gets when it leaves its rack, of 1.
    pub cross_rack: f64,
    /// What tasks cost beside their work.
    pub costs: Costs,
    /// How much task times vary: the standard deviation of their logarithm.
    pub noise: f64,
    /// Tasks that are slow for no reason one can see.
    pub stragglers: Stragglers,
    /// Accidents.
    pub faults: Faults,
}

/// When word travels between the nodes and the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Ends of tasks, offers of slots and orders all travel with the beats, as in Hadoop 1.
    #[default]
    WithBeats,
    /// A node also beats at once when a task ends there, as Hadoop can be told to.
    EndsAtOnce,
    /// Ends and orders travel at once, and free slots are offered whenever anything has happened, as in the embedded
    /// engine.
    AtOnce,
}

/// One machine.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeModel {
    /// What the core is told of it.
    pub spec: NodeSpec,
    /// How fast its link carries data, each way.
    pub net_bytes_per_s: u64,
}

/// What tasks cost beside their work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// Starting a process for a task.
    pub launch: Span,
    /// Stopping a reduce and writing its index record, beside flushing what it holds in memory.
    pub pause: Span,
    /// The most a reduce holds in memory, to be flushed when it pauses.
    pub pause_flush_bytes: u64,
    /// Reading the index record back and rebuilding the merge.
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

/// Tasks that are slow for no reason one can see.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stragglers {
    /// What part of the attempts, of 1.
    pub share: f64,
    /// How many times longer they take.
    pub factor: f64,
}

impl Default for Stragglers {
    fn default() -> Stragglers {
        Stragglers { share: 0.0, factor: 1.0 }
    }
}

/// Accidents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Failures at given times.
    pub scripted: Vec<ScriptedFault>,
    /// Failures at random times.
    pub random: Option<RandomFaults>,
}

/// A failure at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFault {
    /// Which node.
    pub node: NodeId,
    /// When it falls silent, seconds from the beginning.
    pub at_s: f64,
    /// When it comes back, empty, seconds after it fell silent; never if left out.
    #[serde(default)]
    pub back_after_s: Option<f64>,
}

/// Failures at random times, each node on its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomFaults {
    /// Mean time a node stays up.
    pub mean_up: Span,
    /// Mean time it stays down.
    pub mean_down: Span,
    /// No failures after this; all nodes come back.
    #[serde(default = "a_week")]
    pub until: Span,
}

fn a_week() -> Span {
    Span::from_secs(7 * 86_400)
}

impl Cluster {
    /// All slots of a kind.
    pub fn slots(&self, kind: Kind) -> u32 {
        self.nodes.iter().map(|node| u32::from(node.spec.slots(kind))).sum()
    }

    /// What all slots of a kind compute together, in slots of speed 1.
    pub fn speed_slots(&self, kind: Kind) -> f64 {
        self.nodes.iter().map(|node| f64::from(node.spec.slots(kind)) * f64::from(node.spec.speed_ppm) / 1e6).sum()
    }

    /// When a node first beats: the beats of all nodes are spread evenly over one interval.
    pub fn first_beat(&self, node: NodeId) -> Time {
        Time(self.heartbeat.0 * u64::from(node.0) / self.nodes.len().max(1) as u64)
    }
}
