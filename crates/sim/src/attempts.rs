//! The attempts that run now, in numbered places that are used again.

use crate::tasks::{Done, MapRun, ReduceRun};
use giveway_core::{AttemptId, NodeId, Time};

/// One attempt on its node. Tens of thousands of these are visited in no order a cache could guess, so each fills one
/// line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) node: u32,
    /// Grows with everything that makes a tick in line meaningless, and never falls while its place is used again.
    pub(crate) version: u32,
    /// When its process is up.
    pub(crate) ready: Time,
    pub(crate) run: Run,
}

/// What an attempt does. Maps are many and small; the others can afford a place of their own.
#[derive(Debug)]
pub(crate) enum Run {
    Map(MapRun),
    Reduce(Box<ReduceRun>),
    Stopping(Box<Stop>),
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

/// All attempts that run now.
#[derive(Default)]
pub(crate) struct Attempts {
    places: Vec<Attempt>,
    free: Vec<u32>,
}

impl Attempts {
    /// Gives an attempt a place.
    pub(crate) fn add(&mut self, id: AttemptId, node: NodeId, ready: Time, run: Run) -> u32 {
        let mut attempt = Attempt { id, node: node.0, version: 0, ready, run };
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

    /// Frees the place of an attempt; ticks in line for it mean nothing from now on. What it did is there until the
    /// place is used again.
    pub(crate) fn remove(&mut self, place: u32) -> &Attempt {
        self.places[place as usize].version += 1;
        self.free.push(place);
        &self.places[place as usize]
    }

    /// How many run.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
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
    fn an_attempt_fills_one_line() {
        assert_eq!(size_of::<Attempt>(), 64);
    }
}
