//! The line of things to come, earliest first.
//!
//! A [`Tick`] is small and plain, and it is never taken back: what has been overtaken carries an old version and is dropped
//! when its turn comes. Ticks of one instant come out in the order they went in, so one seed gives one run.

use giveway_core::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Stands for "no node", "no slot", "no fault" where a number is packed small.
pub(crate) const NONE: u32 = u32::MAX;

/// Something that may happen at its time, if its version still holds then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// The next job arrives.
    Arrival,
    /// A node has something to report, or an order to receive.
    Beat { node: u32 },
    /// The next node on the ring offers its free slots.
    Offer { node: u32, version: u32 },
    /// A reduce has been launched and begins to fetch.
    Launched { attempt: u32, version: u32 },
    /// A reduce has fetched everything, or its pace must be looked at again.
    Fetched { fetch: u32, version: u32 },
    /// An attempt has paused, ended early or been killed.
    Stopped { attempt: u32, version: u32 },
    /// The core wished to be woken.
    Wake { version: u32 },
    /// A node falls silent.
    Failure { node: u32, fault: u32 },
    /// A node has been silent for too long.
    Loss { node: u32, outage: u32 },
    /// A node is repaired.
    Return { node: u32, outage: u32 },
}

impl Tick {
    /// Whether this can move a stuck run on. Offers and wakes repeat for ever while a policy leaves a task waiting, and a
    /// failure frees nothing; a run that has only these before it is at its end.
    pub(crate) fn stirs(self) -> bool {
        !matches!(self, Tick::Offer { .. } | Tick::Wake { .. } | Tick::Failure { .. })
    }
}

#[derive(Clone, Copy)]
struct Entry {
    at: Time,
    order: u64,
    tick: Tick,
}

/// A queue of ticks.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    pushed: u64,
    stirring: usize,
}

impl Queue {
    /// Puts a tick in line. What never happens takes no room.
    pub(crate) fn push(&mut self, at: Time, tick: Tick) {
        if at == Time::NEVER {
            return;
        }
        self.pushed += 1;
        self.stirring += usize::from(tick.stirs());
        self.heap.push(Entry { at, order: self.pushed, tick });
    }

    /// Takes the earliest tick.
    pub(crate) fn pop(&mut self) -> Option<(Time, Tick)> {
        let entry = self.heap.pop()?;
        self.stirring -= usize::from(entry.tick.stirs());
        Some((entry.at, entry.tick))
    }

    /// Whether something is in line that can move a stuck run on.
    pub(crate) fn stirs(&self) -> bool {
        self.stirring > 0
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        // The standard heap gives the largest first; the earliest is the largest here.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_comes_first_and_equals_keep_their_order() {
        let mut queue = Queue::default();
        queue.push(Time(5), Tick::Beat { node: 1 });
        queue.push(Time(3), Tick::Beat { node: 2 });
        queue.push(Time(5), Tick::Beat { node: 3 });
        queue.push(Time::NEVER, Tick::Arrival);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let beat = |at, node| (Time(at), Tick::Beat { node });
        assert_eq!(order, [beat(3, 2), beat(5, 1), beat(5, 3)]);
    }

    #[test]
    fn offers_and_wakes_alone_do_not_stir() {
        let mut queue = Queue::default();
        queue.push(Time(1), Tick::Arrival);
        queue.push(Time(2), Tick::Wake { version: 0 });
        queue.push(Time(2), Tick::Offer { node: 0, version: 0 });
        assert!(queue.stirs());
        queue.pop();
        assert!(!queue.stirs());
    }

    #[test]
    fn a_tick_is_small() {
        assert!(size_of::<Tick>() <= 12 && size_of::<Entry>() <= 32);
    }
}
