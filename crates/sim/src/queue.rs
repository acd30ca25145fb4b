//! The line of things to come, earliest first.
//!
//! A [`Tick`] is small and plain, and it is never taken back: what has been overtaken carries an old version and is
//! dropped when its turn comes. Ticks of one instant come out in the order they went in, so one seed gives one run.
//!
//! Nearly all ticks lie a few heartbeats ahead, spread evenly. So the next minutes are a wheel of short buckets, each
//! sorted only when its turn comes, and a heap holds what lies further off. The twin in the tests is a heap alone.

use crate::ring::Ring;
use giveway_core::{Span, Time};
use std::cmp::{Ordering, Reverse};
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
    Timers,
    /// A node falls silent.
    Failure { node: u32, fault: u32 },
    /// A node has been silent for too long.
    Loss { node: u32, outage: u32 },
    /// A node is repaired.
    Return { node: u32, outage: u32 },
}

impl Tick {
    /// Whether this can move a stuck run on. Offers and wakes repeat for ever while a policy leaves a task waiting, and
    /// a failure frees nothing; a run that has only these before it is at its end.
    pub(crate) fn stirs(self) -> bool {
        !matches!(self, Tick::Offer { .. } | Tick::Timers | Tick::Failure { .. })
    }
}

#[derive(Clone, Copy)]
struct Entry {
    at: Time,
    tick: Tick,
}

/// What lies beyond the wheel, with its place in the order of coming.
struct Far {
    entry: Entry,
    order: u64,
}

/// Buckets of the wheel.
const WHEEL: u64 = 4_096;
/// Buckets in one heartbeat, roughly: few enough to make use of each, many enough to keep them short.
const PER_BEAT: u64 = 64;

/// A queue of ticks.
pub(crate) struct Queue {
    /// The bucket of an instant is its microseconds without these low bits.
    bucket_bits: u32,
    /// Which bucket is being emptied, and what is left of it, latest first.
    turn: u64,
    current: Vec<Entry>,
    wheel: Vec<Vec<Entry>>,
    /// Emptied buckets: the last one is filled next, while its memory is still in the cache.
    spare: Vec<Vec<Entry>>,
    /// Which buckets of the wheel hold something.
    filled: Ring,
    /// What lies beyond the wheel.
    far: BinaryHeap<Far>,
    put_far: u64,
    stirring: usize,
}

impl Queue {
    pub(crate) fn new(heartbeat: Span) -> Queue {
        Queue {
            bucket_bits: (heartbeat.0 / PER_BEAT).max(1).ilog2(),
            turn: 0,
            current: Vec::new(),
            wheel: vec![Vec::new(); WHEEL as usize],
            spare: Vec::new(),
            filled: Ring::new(WHEEL as usize),
            far: BinaryHeap::new(),
            put_far: 0,
            stirring: 0,
        }
    }

    /// Puts a tick in line. What never happens takes no room.
    pub(crate) fn push(&mut self, at: Time, tick: Tick) {
        if at == Time::NEVER {
            return;
        }
        self.stirring += usize::from(tick.stirs());
        let entry = Entry { at, tick };
        if self.bucket(at) <= self.turn {
            let place = self.current.partition_point(|other| other.at > at);
            self.current.insert(place, entry);
        } else {
            self.put_by(entry);
        }
    }

    /// Takes the earliest tick.
    pub(crate) fn pop(&mut self) -> Option<(Time, Tick)> {
        if self.current.is_empty() {
            self.turn_wheel();
        }
        let entry = self.current.pop()?;
        self.stirring -= usize::from(entry.tick.stirs());
        Some((entry.at, entry.tick))
    }

    /// Whether something is in line that can move a stuck run on.
    pub(crate) fn stirs(&self) -> bool {
        self.stirring > 0
    }

    fn bucket(&self, at: Time) -> u64 {
        at.0 >> self.bucket_bits
    }

    /// Puts an entry of a later bucket where it waits for its turn.
    fn put_by(&mut self, entry: Entry) {
        let bucket = self.bucket(entry.at);
        if bucket < self.turn + WHEEL {
            let entries = &mut self.wheel[(bucket % WHEEL) as usize];
            if entries.is_empty() {
                *entries = self.spare.pop().unwrap_or_default();
                self.filled.set((bucket % WHEEL) as u32, true);
            }
            entries.push(entry);
        } else {
            self.put_far += 1;
            self.far.push(Far { entry, order: self.put_far });
        }
    }

    /// Goes on to the next bucket that holds something, if there is one.
    fn turn_wheel(&mut self) {
        let next = self.turn + 1;
        let on_wheel = self.filled.next_from((next % WHEEL) as u32);
        let on_wheel = on_wheel.map(|place| next + (u64::from(place) + WHEEL - next % WHEEL) % WHEEL);
        let beyond = self.far.peek().map(|far| self.bucket(far.entry.at));
        let Some(turn) = on_wheel.into_iter().chain(beyond).min() else { return };
        self.turn = turn;
        if self.filled.set((turn % WHEEL) as u32, false) {
            let entries = std::mem::take(&mut self.wheel[(turn % WHEEL) as usize]);
            self.spare.push(std::mem::replace(&mut self.current, entries));
        }
        // What was far comes near before anything else of its bucket can, so each bucket holds its entries in the order of coming.
        while let Some(far) = self.far.peek().filter(|far| self.bucket(far.entry.at) < turn + WHEEL) {
            let entry = far.entry;
            self.far.pop();
            if self.bucket(entry.at) == turn { self.current.push(entry) } else { self.put_by(entry) }
        }
        self.current.reverse();
        self.current.sort_by_key(|entry| Reverse(entry.at));
    }
}

impl Ord for Far {
    fn cmp(&self, other: &Far) -> Ordering {
        // The earliest is the largest, for a heap gives the largest first.
        (other.entry.at, other.order).cmp(&(self.entry.at, self.order))
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Far) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Far {
    fn eq(&self, other: &Far) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Far {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn earlier_comes_first_and_equals_keep_their_order() {
        let mut queue = Queue::new(Span::from_secs(3));
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
        let mut queue = Queue::new(Span::from_secs(3));
        queue.push(Time(1), Tick::Arrival);
        queue.push(Time(2), Tick::Timers);
        queue.push(Time(2), Tick::Offer { node: 0, version: 0 });
        assert!(queue.stirs());
        queue.pop();
        assert!(!queue.stirs());
    }

    #[test]
    fn a_tick_is_small() {
        assert!(size_of::<Tick>() <= 12 && size_of::<Entry>() <= 24);
    }

    proptest! {
        /// The obvious twin: one heap. Spans reach from nothing over the wheel's edge to far beyond it.
        #[test]
        fn the_wheel_does_what_a_heap_does(
            steps in prop::collection::vec((any::<bool>(), 0u32..34, any::<u64>()), 1..400),
        ) {
            let mut queue = Queue::new(Span::from_secs(3));
            let mut heap = BinaryHeap::new();
            let (mut now, mut order) = (Time::ZERO, 0);
            for (push, bits, noise) in steps {
                if push {
                    order += 1;
                    let (at, tick) = (now + Span(noise & ((1 << bits) - 1)), Tick::Beat { node: order as u32 });
                    queue.push(at, tick);
                    heap.push(Far { entry: Entry { at, tick }, order });
                } else {
                    let expected = heap.pop().map(|Far { entry, .. }| (entry.at, entry.tick));
                    let popped = queue.pop();
                    prop_assert_eq!(popped, expected);
                    now = popped.map_or(now, |(at, _)| at);
                }
            }
            while let Some(Far { entry, .. }) = heap.pop() {
                prop_assert_eq!(queue.pop(), Some((entry.at, entry.tick)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
