//! The event queue of the simulation, earliest event first.
//!
//! A [`SimEvent`] is small, and it is never removed before its time: an event that has become stale carries an old version and is dropped
//! when it is taken. Events of the same instant come out in the order in which they were pushed, so one seed gives one run.
//!
//! Nearly all events lie a few heartbeats ahead, evenly distributed. So the near future is a timing wheel of short buckets, each sorted when
//! it becomes current, and a heap holds what lies beyond the wheel. The reference implementation in the tests is a heap alone.

use crate::circular_bit_set::CircularBitSet;
use giveway_core::{Span, Time};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Marks an absent node, job, key or fault where an `Option` would take too much space.
pub(crate) const NONE: u32 = u32::MAX;

/// An event of the simulator's own queue. One with a version is stale if that version is no longer current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimEvent {
    /// The next job is submitted.
    JobArrival,
    /// A node has ended attempts to report, or stop requests to receive.
    Heartbeat { node: u32 },
    /// A node sends a heartbeat to offer its free slots.
    Offer { node: u32, version: u32 },
    /// The process of a reduce has started; the reduce begins to fetch.
    ReduceLaunched { attempt: u32, version: u32 },
    /// A reduce may have fetched everything; otherwise its rate has changed and needs a new deadline.
    FetchDue { fetch: u32, version: u32 },
    /// An attempt has paused, ended early or been killed.
    AttemptStopped { attempt: u32, version: u32 },
    /// A timer of the core expires.
    TimersDue,
    /// A node fails.
    NodeFailure { node: u32, fault: u32 },
    /// A node has sent no heartbeat for `lost_after`.
    LossTimeout { node: u32, outage: u32 },
    /// A node is repaired.
    NodeRepair { node: u32, outage: u32 },
}

impl SimEvent {
    /// Whether this event can get a stuck run going again. Offers and timers repeat forever while a policy leaves a task pending, and a
    /// failure frees nothing; a run that has only these ahead of it has reached its end.
    pub(crate) fn can_make_progress(self) -> bool {
        !matches!(self, SimEvent::Offer { .. } | SimEvent::TimersDue | SimEvent::NodeFailure { .. })
    }
}

#[derive(Clone, Copy)]
struct Entry {
    at: Time,
    event: SimEvent,
}

/// An entry beyond the wheel, with a sequence number that keeps entries of the same instant in order.
struct OverflowEntry {
    entry: Entry,
    sequence: u64,
}

/// Number of buckets of the wheel.
const WHEEL_BUCKETS: u64 = 4_096;
/// Approximate number of buckets in one heartbeat interval: enough to keep buckets short, few enough that each one is used.
const BUCKETS_PER_HEARTBEAT: u64 = 64;

/// Events in order of time, then of insertion.
pub(crate) struct EventQueue {
    /// The bucket number of an instant is its microseconds shifted right by this many bits.
    bucket_bits: u32,
    /// Number of the bucket that is being emptied.
    current_bucket: u64,
    /// What is left of that bucket, latest first.
    current: Vec<Entry>,
    wheel: Vec<Vec<Entry>>,
    /// Emptied buckets for reuse, last in first out, because their memory is still in the cache.
    spare: Vec<Vec<Entry>>,
    /// The buckets of the wheel that are not empty.
    occupied: CircularBitSet,
    overflow: BinaryHeap<OverflowEntry>,
    overflow_sequence: u64,
    /// Number of queued events that can make progress.
    progress_events: usize,
}

impl EventQueue {
    pub(crate) fn new(heartbeat: Span) -> EventQueue {
        EventQueue {
            bucket_bits: (heartbeat.0 / BUCKETS_PER_HEARTBEAT).max(1).ilog2(),
            current_bucket: 0,
            current: Vec::new(),
            wheel: vec![Vec::new(); WHEEL_BUCKETS as usize],
            spare: Vec::new(),
            occupied: CircularBitSet::new(WHEEL_BUCKETS as usize),
            overflow: BinaryHeap::new(),
            overflow_sequence: 0,
            progress_events: 0,
        }
    }

    /// Queues an event. One at `NEVER` is not stored.
    pub(crate) fn push(&mut self, at: Time, event: SimEvent) {
        if at == Time::NEVER {
            return;
        }
        self.progress_events += usize::from(event.can_make_progress());
        let entry = Entry { at, event };
        if self.bucket(at) <= self.current_bucket {
            let index = self.current.partition_point(|other| other.at > at);
            self.current.insert(index, entry);
        } else {
            self.insert_later(entry);
        }
    }

    /// Removes and returns the earliest event.
    pub(crate) fn pop(&mut self) -> Option<(Time, SimEvent)> {
        if self.current.is_empty() {
            self.advance_wheel();
        }
        let entry = self.current.pop()?;
        self.progress_events -= usize::from(entry.event.can_make_progress());
        Some((entry.at, entry.event))
    }

    /// Whether another event is due at `now`, the time of the last event taken.
    pub(crate) fn has_event_at(&self, now: Time) -> bool {
        // All events of an instant are in one bucket.
        self.current.last().is_some_and(|entry| entry.at <= now)
    }

    /// Whether any queued event can get a stuck run going again.
    pub(crate) fn can_make_progress(&self) -> bool {
        self.progress_events > 0
    }

    fn bucket(&self, at: Time) -> u64 {
        at.0 >> self.bucket_bits
    }

    /// Stores an entry of a later bucket in the wheel or, beyond it, in the heap.
    fn insert_later(&mut self, entry: Entry) {
        let bucket = self.bucket(entry.at);
        if bucket < self.current_bucket + WHEEL_BUCKETS {
            let entries = &mut self.wheel[(bucket % WHEEL_BUCKETS) as usize];
            if entries.is_empty() {
                *entries = self.spare.pop().unwrap_or_default();
                self.occupied.set((bucket % WHEEL_BUCKETS) as u32, true);
            }
            entries.push(entry);
        } else {
            self.overflow_sequence += 1;
            self.overflow.push(OverflowEntry { entry, sequence: self.overflow_sequence });
        }
    }

    /// Makes the next bucket that is not empty the current one, if there is one.
    fn advance_wheel(&mut self) {
        let next = self.current_bucket + 1;
        let on_wheel = self.occupied.next_from((next % WHEEL_BUCKETS) as u32);
        let on_wheel =
            on_wheel.map(|index| next + (u64::from(index) + WHEEL_BUCKETS - next % WHEEL_BUCKETS) % WHEEL_BUCKETS);
        let beyond = self.overflow.peek().map(|far| self.bucket(far.entry.at));
        let Some(bucket) = on_wheel.into_iter().chain(beyond).min() else { return };
        self.current_bucket = bucket;
        if self.occupied.set((bucket % WHEEL_BUCKETS) as u32, false) {
            let entries = std::mem::take(&mut self.wheel[(bucket % WHEEL_BUCKETS) as usize]);
            self.spare.push(std::mem::replace(&mut self.current, entries));
        }
        // Overflow entries move into the wheel before anything else of their bucket can be pushed there, so each bucket keeps insertion order.
        while let Some(far) = self.overflow.peek().filter(|far| self.bucket(far.entry.at) < bucket + WHEEL_BUCKETS) {
            let entry = far.entry;
            self.overflow.pop();
            if self.bucket(entry.at) == bucket { self.current.push(entry) } else { self.insert_later(entry) }
        }
        self.current.reverse();
        self.current.sort_by_key(|entry| Reverse(entry.at));
    }
}

impl Ord for OverflowEntry {
    fn cmp(&self, other: &OverflowEntry) -> Ordering {
        // Reversed, because `BinaryHeap` returns the largest entry first.
        (other.entry.at, other.sequence).cmp(&(self.entry.at, self.sequence))
    }
}

impl PartialOrd for OverflowEntry {
    fn partial_cmp(&self, other: &OverflowEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OverflowEntry {
    fn eq(&self, other: &OverflowEntry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OverflowEntry {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn earliest_first_and_equal_times_in_insertion_order() {
        let mut queue = EventQueue::new(Span::from_secs(3));
        queue.push(Time(5), SimEvent::Heartbeat { node: 1 });
        queue.push(Time(3), SimEvent::Heartbeat { node: 2 });
        queue.push(Time(5), SimEvent::Heartbeat { node: 3 });
        queue.push(Time::NEVER, SimEvent::JobArrival);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let heartbeat = |at, node| (Time(at), SimEvent::Heartbeat { node });
        assert_eq!(order, [heartbeat(3, 2), heartbeat(5, 1), heartbeat(5, 3)]);
    }

    #[test]
    fn offers_and_timers_alone_cannot_make_progress() {
        let mut queue = EventQueue::new(Span::from_secs(3));
        queue.push(Time(1), SimEvent::JobArrival);
        queue.push(Time(2), SimEvent::TimersDue);
        queue.push(Time(2), SimEvent::Offer { node: 0, version: 0 });
        assert!(queue.can_make_progress());
        queue.pop();
        assert!(!queue.can_make_progress());
    }

    #[test]
    fn an_event_takes_at_most_12_bytes() {
        assert!(size_of::<SimEvent>() <= 12 && size_of::<Entry>() <= 24);
    }

    proptest! {
        /// The reference implementation is one heap. Delays range from zero over the end of the wheel to far beyond it.
        #[test]
        fn the_wheel_pops_what_a_heap_pops(
            steps in prop::collection::vec((any::<bool>(), 0u32..34, any::<u64>()), 1..400),
        ) {
            let mut queue = EventQueue::new(Span::from_secs(3));
            let mut heap = BinaryHeap::new();
            let (mut now, mut sequence) = (Time::ZERO, 0);
            for (push, bits, noise) in steps {
                if push {
                    sequence += 1;
                    let at = now + Span(noise & ((1 << bits) - 1));
                    let event = SimEvent::Heartbeat { node: sequence as u32 };
                    queue.push(at, event);
                    heap.push(OverflowEntry { entry: Entry { at, event }, sequence });
                } else {
                    let expected = heap.pop().map(|OverflowEntry { entry, .. }| (entry.at, entry.event));
                    let popped = queue.pop();
                    prop_assert_eq!(popped, expected);
                    now = popped.map_or(now, |(at, _)| at);
                }
            }
            while let Some(OverflowEntry { entry, .. }) = heap.pop() {
                prop_assert_eq!(queue.pop(), Some((entry.at, entry.event)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
