//! Ids of jobs, tasks, attempts, nodes and racks. An attempt's id contains its task's and its job's.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Index, IndexMut};

/// A job, numbered by the backend. No two live jobs have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

/// A node, numbered by the backend from zero without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A rack, numbered by the backend. Numbers should be small: indexes are kept per rack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RackId(pub u32);

/// The two kinds of task, and of the slots that run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reads a split of the input and writes partitioned output to its node's disk.
    Map,
    /// Fetches its partition from every map, merges and reduces it, and writes the job's output.
    Reduce,
}

/// A task within its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// Map or reduce.
    pub kind: Kind,
    /// Counted from zero within the kind. The rest of a map that ended early is a new map with a new index.
    pub index: u32,
}

/// A task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The job it is part of.
    pub job: JobId,
    /// Map or reduce.
    pub kind: Kind,
    /// Counted from zero within the kind. The rest of a map that ended early is a new map with a new index.
    pub index: u32,
}

/// One execution of a task on one node. A resumed task runs under a new attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The executed task.
    pub task: TaskId,
    /// Counted from zero within the task.
    pub number: u16,
}

impl Kind {
    /// Both kinds, maps first.
    pub const BOTH: [Kind; 2] = [Kind::Map, Kind::Reduce];

    /// Zero for map, one for reduce.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl TaskKey {
    /// The map of this index.
    pub fn map(index: u32) -> TaskKey {
        TaskKey { kind: Kind::Map, index }
    }

    /// The reduce of this index.
    pub fn reduce(index: u32) -> TaskKey {
        TaskKey { kind: Kind::Reduce, index }
    }

    /// This task of a job.
    pub fn of(self, job: JobId) -> TaskId {
        TaskId { job, kind: self.kind, index: self.index }
    }
}

impl TaskId {
    /// The task within its job.
    pub fn key(self) -> TaskKey {
        TaskKey { kind: self.kind, index: self.index }
    }
}

impl AttemptId {
    /// The attempt of this number at a task.
    pub fn new(job: JobId, kind: Kind, index: u32, number: u16) -> AttemptId {
        AttemptId { task: TaskId { job, kind, index }, number }
    }
}

/// One value for maps and one for reduces, indexed by [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerKind<T>([T; 2]);

impl<T> PerKind<T> {
    /// A value for maps and a value for reduces.
    pub const fn new(map: T, reduce: T) -> PerKind<T> {
        PerKind([map, reduce])
    }

    /// The value that `of` returns for each kind, maps first.
    pub fn from_fn(of: impl FnMut(Kind) -> T) -> PerKind<T> {
        PerKind(Kind::BOTH.map(of))
    }

    /// The result of `of` for each value.
    pub fn map<U>(self, of: impl FnMut(T) -> U) -> PerKind<U> {
        PerKind(self.0.map(of))
    }

    /// Both values, maps first.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Both values, maps first, for changing.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }
}

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;

    #[inline]
    fn index(&self, kind: Kind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    #[inline]
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        &mut self.0[kind as usize]
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
