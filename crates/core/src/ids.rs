//! Names of things. An attempt's name contains its task's and its job's, so late news is recognised and a person can read it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A job, numbered by the body that submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

/// A node, numbered by the body from zero without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A rack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RackId(pub u32);

/// The two kinds of task, and of the slots that run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reads a split of the input, writes partitioned output to its node's own disk.
    Map,
    /// Fetches its partition from every map, merges, reduces, writes the job's output.
    Reduce,
}

/// A task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The job.
    pub job: JobId,
    /// Map or reduce.
    pub kind: Kind,
    /// Which one, from zero. The rest of a map that ended early is a new map with a new index.
    pub index: u32,
}

/// One try at running a task on one node. A resumed task runs under a new attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The task.
    pub task: TaskId,
    /// Which try, from zero.
    pub number: u16,
}

impl Kind {
    /// Both kinds, maps first.
    pub const BOTH: [Kind; 2] = [Kind::Map, Kind::Reduce];

    /// Zero for map, one for reduce: the place of this kind in a two-element array.
    pub fn ix(self) -> usize {
        self as usize
    }
}

impl AttemptId {
    /// Shorthand for an attempt at a task of a job.
    pub fn new(job: JobId, kind: Kind, index: u32, number: u16) -> AttemptId {
        AttemptId { task: TaskId { job, kind, index }, number }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for RackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rack {}", self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Map => "map",
            Kind::Reduce => "reduce",
        })
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.job, self.kind, self.index)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.number)
    }
}
