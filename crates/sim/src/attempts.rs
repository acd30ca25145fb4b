//! The attempts that run now.
//!
//! Most are maps of whole splits. All there is to say of those stands with their node, as [`Running`]; the others have more to say and
//! have an [`Attempt`] besides, in numbered places that are used again.

use crate::queue::NONE;
use crate::tasks::{Done, MapRun, ReduceRun};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Time};

/// An attempt as its node sees it. Tens of thousands of these are visited in no order a cache could guess, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    whose: Whose,
    index: u32,
    number: u16,
    /// Where more is said of it; [`NONE`] for a map at work on a whole split.
    pub(crate) place: u32,
    /// When its process is up.
    pub(crate) ready: Time,
}

/// A job and a kind of task in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose(u32);

/// What there is to say of an attempt that is not just a map at work on a whole split.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) node: u32,
    /// Grows with everything that makes a tick in line meaningless, and never falls while its place is used again.
    pub(crate) version: u32,
    pub(crate) run: Run,
}

/// What an attempt does.
#[derive(Debug)]
pub(crate) enum Run {
    Map(MapRun),
    Reduce(ReduceRun),
    Stopping(Stop),
}

/// How an attempt ends that does not finish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stop {
    Killed,
    Paused(Done),
    EndedEarly { done_bytes: u64, output_bytes: u64, bytes: u64 },
}

/// What a paused reduce left on its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) from: AttemptId,
    pub(crate) done: Done,
}

/// An order on its way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) attempt: AttemptId,
    pub(crate) what: Demand,
}

/// What an order demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    Pause,
    EndEarly,
    Kill,
}

/// The attempts of which there is more to say.
#[derive(Default)]
pub(crate) struct Attempts {
    places: Vec<Attempt>,
    free: Vec<u32>,
}

impl Running {
    pub(crate) fn new(id: AttemptId, place: u32, ready: Time) -> Running {
        Running { whose: Whose::of(id), index: id.task.index, number: id.number, place, ready }
    }

    pub(crate) fn id(&self) -> AttemptId {
        AttemptId::new(self.whose.job(), self.whose.kind(), self.index, self.number)
    }

    pub(crate) fn whose(&self) -> Whose {
        self.whose
    }
}

impl Whose {
    fn of(attempt: AttemptId) -> Whose {
        Whose(attempt.task.job.0 << 1 | attempt.task.kind as u32)
    }

    pub(crate) fn job(self) -> JobId {
        JobId(self.0 >> 1)
    }

    pub(crate) fn kind(self) -> Kind {
        Kind::BOTH[(self.0 & 1) as usize]
    }
}

impl Attempts {
    /// Gives an attempt a place.
    pub(crate) fn add(&mut self, id: AttemptId, node: NodeId, run: Run) -> u32 {
        let mut attempt = Attempt { id, node: node.0, version: 0, run };
        match self.free.pop() {
            Some(place) => {
                attempt.version = self.places[place as usize].version;
                self.places[place as usize] = attempt;
                place
            }
            None => {
                self.places.push(attempt);
                self.places.len() as u32 - 1
            }
        }
    }

    /// Frees the place of an attempt, if it has one; ticks in line for it mean nothing from now on. What it did is there until the
    /// place is used again.
    pub(crate) fn remove(&mut self, place: u32) {
        if place != NONE {
            self.places[place as usize].version += 1;
            self.free.push(place);
        }
    }

    /// What an attempt does, if there is more to say of it.
    pub(crate) fn run(&self, place: u32) -> Option<&Run> {
        Some(&self.places.get(place as usize)?.run)
    }

    /// The same, to change.
    pub(crate) fn run_mut(&mut self, place: u32) -> Option<&mut Run> {
        Some(&mut self.places.get_mut(place as usize)?.run)
    }
}

impl std::ops::Index<u32> for Attempts {
    type Output = Attempt;
    fn index(&self, place: u32) -> &Attempt {
        &self.places[place as usize]
    }
}

impl std::ops::IndexMut<u32> for Attempts {
    fn index_mut(&mut self, place: u32) -> &mut Attempt {
        &mut self.places[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_small() {
        assert!(size_of::<Running>() <= 24);
    }

    #[test]
    fn an_attempt_keeps_its_name() {
        for kind in Kind::BOTH {
            let id = AttemptId::new(JobId(7), kind, 4_000_000_000, 65_535);
            assert_eq!(Running::new(id, NONE, Time::ZERO).id(), id);
        }
    }
}
