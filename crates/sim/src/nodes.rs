//! The simulator's state of one node: running attempts, slots, and the files of paused reduces.

use crate::attempts::{PausedReduce, Running};
use giveway_core::{AttemptId, Kind, NodeSpec, Time};
use smallvec::SmallVec;

/// One node. The fields that every heartbeat reads come first, so that they share a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    pub(crate) up: bool,
    /// Whether the core believes the node is up. It lags `up` by the loss timeout.
    pub(crate) core_sees_up: bool,
    free: [u16; 2],
    slots: [u16; 2],
    /// Number of failures so far; identifies the current outage.
    pub(crate) outage: u32,
    /// Time of the last heartbeat, scheduled or out of band; `NEVER` before the first one.
    pub(crate) last_heartbeat: Time,
    /// Time of the earliest queued heartbeat; `NEVER` if none is queued.
    pub(crate) heartbeat_due: Time,
    /// The earliest end of an attempt here and its index in `running`; of equal ends the first.
    next_end: Time,
    next_end_index: usize,
    /// By attempt, when its work is done; `NEVER` while that is unknown, and once the attempt is being stopped.
    ends: SmallVec<[Time; 12]>,
    /// The attempts, in the order of `ends`.
    running: SmallVec<[Running; 12]>,
    /// Reduces that paused here and have not been resumed.
    pub(crate) paused: Vec<PausedReduce>,
}

impl Node {
    pub(crate) fn new(spec: &NodeSpec) -> Node {
        let slots = Kind::BOTH.map(|kind| spec.slots(kind));
        Node {
            up: true,
            core_sees_up: true,
            free: slots,
            slots,
            outage: 0,
            last_heartbeat: Time::NEVER,
            heartbeat_due: Time::NEVER,
            next_end: Time::NEVER,
            next_end_index: 0,
            ends: SmallVec::new(),
            running: SmallVec::new(),
            paused: Vec::new(),
        }
    }

    pub(crate) fn has_free(&self, kind: Kind) -> bool {
        self.up && self.free[kind.index()] > 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The attempts that run here, each with its end.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Running, Time)> {
        self.running.iter().zip(self.ends.iter().copied())
    }

    /// The attempt at this index of the list, and its end.
    pub(crate) fn attempt(&self, index: usize) -> (Running, Time) {
        (self.running[index], self.ends[index])
    }

    /// Occupies a slot with an attempt; true if it was the last free one of its kind.
    pub(crate) fn occupy_slot(&mut self, kind: Kind, running: Running, end: Time) -> bool {
        let free = &mut self.free[kind.index()];
        assert!(*free > 0, "attempt {} was launched on a node without a free slot", running.id());
        *free -= 1;
        let was_last = *free == 0;
        if end < self.next_end {
            (self.next_end, self.next_end_index) = (end, self.ends.len());
        }
        self.ends.push(end);
        self.running.push(running);
        was_last
    }

    /// Removes the attempt at this index of the list from its slot; true if no other slot of its kind was free.
    pub(crate) fn release_slot(&mut self, index: usize) -> (Running, bool) {
        let removed = self.running.swap_remove(index);
        self.ends.swap_remove(index);
        self.find_next_end();
        let free = &mut self.free[removed.job_and_kind().kind().index()];
        *free += 1;
        (removed, *free == 1)
    }

    /// The index of an attempt in the list, if it still runs here.
    pub(crate) fn find(&self, attempt: AttemptId) -> Option<usize> {
        self.running.iter().position(|running| running.id() == attempt)
    }

    /// The index of the attempt with this slab key. It must run here.
    pub(crate) fn index_of_key(&self, key: u32) -> usize {
        self.running.iter().position(|running| running.key == key).expect("the attempt runs on this node")
    }

    /// Sets the end of an attempt, once it is known.
    pub(crate) fn set_end(&mut self, index: usize, end: Time) {
        self.ends[index] = end;
        self.find_next_end();
    }

    /// Sets the ends of those attempts for which `end` has one, given index and id.
    pub(crate) fn set_ends(&mut self, end: impl Fn(usize, AttemptId) -> Option<Time>) {
        for (index, (running, known)) in self.running.iter().zip(&mut self.ends).enumerate() {
            *known = end(index, running.id()).unwrap_or(*known);
        }
        self.find_next_end();
    }

    /// Marks an attempt as being stopped: it will not reach its end, and its state is in the slab under `key`.
    pub(crate) fn mark_stopping(&mut self, index: usize, key: u32) {
        self.running[index].key = key;
        self.set_end(index, Time::NEVER);
    }

    fn find_next_end(&mut self) {
        (self.next_end, self.next_end_index) = (Time::NEVER, 0);
        for (index, &end) in self.ends.iter().enumerate() {
            if end < self.next_end {
                (self.next_end, self.next_end_index) = (end, index);
            }
        }
    }

    /// The earliest end of an attempt here; `NEVER` if none is known.
    pub(crate) fn next_end(&self) -> Time {
        self.next_end
    }

    /// The index of the attempt with the earliest end, if that end has been reached.
    pub(crate) fn next_ended(&self, now: Time) -> Option<usize> {
        (self.next_end <= now).then_some(self.next_end_index)
    }

    /// Removes and returns the state of a paused reduce.
    pub(crate) fn take_paused(&mut self, attempt: AttemptId) -> Option<PausedReduce> {
        let index = self.paused.iter().position(|paused| paused.attempt == attempt)?;
        Some(self.paused.swap_remove(index))
    }

    /// Takes the node down with everything on it; returns the attempts that ran there.
    pub(crate) fn fail(&mut self) -> SmallVec<[Running; 12]> {
        self.up = false;
        self.outage += 1;
        self.free = self.slots;
        self.next_end = Time::NEVER;
        self.paused.clear();
        self.ends.clear();
        std::mem::take(&mut self.running)
    }
}
