//! Timers: the instants at which the backend must call the scheduler again.

use crate::units::Time;
use serde::{Deserialize, Serialize};

/// A timer of the scheduler. Each has at most one expiry; setting it again replaces that.
///
/// The order of the variants is part of the event log's format, and the order in which timers that expire at the same instant fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Estimates and shares are computed again, and all jobs are ranked by them.
    Estimates,
    /// Jobs that are entitled to more slots may preempt others.
    Preemption,
    /// Running tasks are compared to find stragglers.
    Speculation,
    /// A failed task may run again, a node with failures may be used again, or an excluded node may be probed. The backend offers free
    /// slots, as after every event.
    Retry,
}

impl Timer {
    /// All timers, in the order in which they fire.
    pub const ALL: [Timer; 4] = [Timer::Estimates, Timer::Preemption, Timer::Speculation, Timer::Retry];
}

/// The pending expiries, for a backend that drives the scheduler: it records each `SetTimer` with [`Timers::set`], waits until
/// [`Timers::next`], and reports `TimerFired` for what [`Timers::expire`] returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    expiry: [Option<Time>; Timer::ALL.len()],
}

impl Timers {
    /// Sets a timer, replacing its pending expiry.
    pub fn set(&mut self, timer: Timer, at: Time) {
        self.expiry[timer as usize] = Some(at);
    }

    /// The earliest pending expiry.
    pub fn next(&self) -> Option<Time> {
        self.expiry.iter().flatten().min().copied()
    }

    /// Clears a timer, because it fired.
    pub fn clear(&mut self, timer: Timer) {
        self.expiry[timer as usize] = None;
    }

    /// The expiry of a timer, if it is set.
    pub fn expiry(&self, timer: Timer) -> Option<Time> {
        self.expiry[timer as usize]
    }

    /// Clears and returns a timer that has expired by `now`: the earliest, and of those that expire together the first in [`Timer::ALL`].
    pub fn expire(&mut self, now: Time) -> Option<Timer> {
        let next = self.next().filter(|&at| at <= now)?;
        let timer = Timer::ALL.into_iter().find(|&timer| self.expiry(timer) == Some(next))?;
        self.clear(timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_by_time_and_then_in_order() {
        let mut timers = Timers::default();
        timers.set(Timer::Speculation, Time(5));
        timers.set(Timer::Preemption, Time(5));
        timers.set(Timer::Estimates, Time(9));
        timers.set(Timer::Estimates, Time(7));
        assert_eq!((timers.next(), timers.expire(Time(4))), (Some(Time(5)), None));
        let fired: Vec<Timer> = std::iter::from_fn(|| timers.expire(Time(7))).collect();
        assert_eq!(fired, [Timer::Preemption, Timer::Speculation, Timer::Estimates]);
        assert_eq!(timers.next(), None);
    }
}
