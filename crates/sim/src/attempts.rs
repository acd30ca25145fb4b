//! The attempts that are running now.
//!
//! Most of them are maps of whole splits, which [`Running`] in their node's list describes completely. The others also have an [`Attempt`] in
//! an [`AttemptSlab`], whose keys are reused.

use crate::event_queue::NONE;
use crate::tasks::{MapRun, ReduceProgress, ReduceRun};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Time};

/// An attempt in its node's list. Tens of thousands of these are visited in random order, so they are kept small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    job_and_kind: JobAndKind,
    index: u32,
    number: u16,
    /// Key in the slab; [`NONE`] for a map that works on a whole split.
    pub(crate) key: u32,
    /// When its process has started and the work begins.
    pub(crate) ready: Time,
}

/// A job and a task kind, packed in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobAndKind(u32);

/// State of an attempt that is not a map working on a whole split.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) node: u32,
    /// Grows whenever a queued simulator event for this attempt becomes stale; also across reuse of the key.
    pub(crate) version: u32,
    pub(crate) activity: Activity,
}

#[derive(Debug)]
pub(crate) enum Activity {
    Map(MapRun),
    Reduce(ReduceRun),
    Stopping(StopOutcome),
}

/// The outcome of an attempt that was stopped before it finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StopOutcome {
    Killed,
    Failed,
    Paused(ReduceProgress),
    EndedEarly { done_bytes: u64, output_bytes: u64, bytes: u64 },
}

/// State that a paused reduce left on its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PausedReduce {
    pub(crate) attempt: AttemptId,
    pub(crate) progress: ReduceProgress,
}

/// A request from the core to stop an attempt, in transit to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopRequest {
    pub(crate) attempt: AttemptId,
    pub(crate) kind: StopKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopKind {
    Pause,
    EndEarly,
    Kill,
}

/// Attempts by key.
#[derive(Default)]
pub(crate) struct AttemptSlab {
    entries: Vec<Attempt>,
    free: Vec<u32>,
}

impl Running {
    pub(crate) fn new(id: AttemptId, key: u32, ready: Time) -> Running {
        Running { job_and_kind: JobAndKind::of(id), index: id.task.index, number: id.number, key, ready }
    }

    pub(crate) fn id(&self) -> AttemptId {
        AttemptId::new(self.job_and_kind.job(), self.job_and_kind.kind(), self.index, self.number)
    }

    pub(crate) fn job_and_kind(&self) -> JobAndKind {
        self.job_and_kind
    }
}

impl JobAndKind {
    fn of(attempt: AttemptId) -> JobAndKind {
        JobAndKind(attempt.task.job.0 << 1 | attempt.task.kind as u32)
    }

    pub(crate) fn job(self) -> JobId {
        JobId(self.0 >> 1)
    }

    pub(crate) fn kind(self) -> Kind {
        Kind::BOTH[(self.0 & 1) as usize]
    }
}

impl AttemptSlab {
    /// Stores an attempt and returns its key.
    pub(crate) fn add(&mut self, id: AttemptId, node: NodeId, activity: Activity) -> u32 {
        let mut attempt = Attempt { id, node: node.0, version: 0, activity };
        match self.free.pop() {
            Some(key) => {
                attempt.version = self.entries[key as usize].version;
                self.entries[key as usize] = attempt;
                key
            }
            None => {
                self.entries.push(attempt);
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Frees the key of an attempt, unless it is [`NONE`]. Queued events for it become stale. The activity stays readable until the key
    /// is reused.
    pub(crate) fn remove(&mut self, key: u32) {
        if key != NONE {
            self.entries[key as usize].version += 1;
            self.free.push(key);
        }
    }

    /// The activity stored under a key; none for [`NONE`].
    pub(crate) fn activity(&self, key: u32) -> Option<&Activity> {
        Some(&self.entries.get(key as usize)?.activity)
    }

    pub(crate) fn activity_mut(&mut self, key: u32) -> Option<&mut Activity> {
        Some(&mut self.entries.get_mut(key as usize)?.activity)
    }
}

impl std::ops::Index<u32> for AttemptSlab {
    type Output = Attempt;
    fn index(&self, key: u32) -> &Attempt {
        &self.entries[key as usize]
    }
}

impl std::ops::IndexMut<u32> for AttemptSlab {
    fn index_mut(&mut self, key: u32) -> &mut Attempt {
        &mut self.entries[key as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_attempt_takes_at_most_24_bytes() {
        assert!(size_of::<Running>() <= 24);
    }

    #[test]
    fn packing_preserves_the_attempt_id() {
        for kind in Kind::BOTH {
            let id = AttemptId::new(JobId(7), kind, 4_000_000_000, 65_535);
            assert_eq!(Running::new(id, NONE, Time::ZERO).id(), id);
        }
    }
}
