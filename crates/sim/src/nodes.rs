//! The simulator's own picture of a node: what runs there, and what was left there.

use crate::attempts::{Kept, Running};
use giveway_core::{AttemptId, Kind, NodeSpec, Time};
use smallvec::SmallVec;

/// One node. What every beat looks at stands first and lies together in memory.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    pub(crate) up: bool,
    /// Whether the core takes it for up.
    pub(crate) known_up: bool,
    free: [u16; 2],
    slots: [u16; 2],
    /// Counts its failures.
    pub(crate) outage: u32,
    /// When it last beat, on the grid or off it.
    pub(crate) last_beat: Time,
    /// The earliest beat that is in line for it; never if there is none.
    pub(crate) expected: Time,
    /// The earliest end of an attempt here, and where that one stands; of equals the first.
    next_end: Time,
    next_at: usize,
    /// When each attempt's work is done; never while that cannot be known, and once it has been stopped.
    ends: SmallVec<[Time; 12]>,
    /// The attempts, in the same order.
    running: SmallVec<[Running; 12]>,
    pub(crate) kept: Vec<Kept>,
}

impl Node {
    pub(crate) fn new(spec: &NodeSpec) -> Node {
        let slots = Kind::BOTH.map(|kind| spec.slots(kind));
        Node {
            up: true,
            known_up: true,
            free: slots,
            slots,
            outage: 0,
            last_beat: Time::NEVER,
            expected: Time::NEVER,
            next_end: Time::NEVER,
            next_at: 0,
            ends: SmallVec::new(),
            running: SmallVec::new(),
            kept: Vec::new(),
        }
    }

    pub(crate) fn has_free(&self, kind: Kind) -> bool {
        self.up && self.free[kind.index()] > 0
    }

    /// Whether nothing runs here.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The attempts that run here, each with its end.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Running, Time)> {
        self.running.iter().zip(self.ends.iter().copied())
    }

    /// The attempt in this place of the list, and its end.
    pub(crate) fn attempt(&self, at: usize) -> (Running, Time) {
        (self.running[at], self.ends[at])
    }

    /// An attempt takes a slot; true if it was the last free one.
    pub(crate) fn enter(&mut self, kind: Kind, running: Running, end: Time) -> bool {
        let free = &mut self.free[kind.index()];
        assert!(*free > 0, "attempt {} was launched on a node without a free slot", running.id());
        *free -= 1;
        let was_last = *free == 0;
        if end < self.next_end {
            (self.next_end, self.next_at) = (end, self.ends.len());
        }
        self.ends.push(end);
        self.running.push(running);
        was_last
    }

    /// The attempt in this place of the list leaves its slot; true if no other was free.
    pub(crate) fn leave(&mut self, at: usize) -> (Running, bool) {
        let gone = self.running.swap_remove(at);
        self.ends.swap_remove(at);
        self.find_next_end();
        let free = &mut self.free[gone.whose().kind().index()];
        *free += 1;
        (gone, *free == 1)
    }

    /// Where an attempt stands in the list, if it still runs here.
    pub(crate) fn find(&self, attempt: AttemptId) -> Option<usize> {
        self.running.iter().position(|running| running.id() == attempt)
    }

    /// Where the attempt stands of which more is said in this place.
    pub(crate) fn at(&self, place: u32) -> usize {
        self.running.iter().position(|running| running.place == place).expect("it runs here")
    }

    /// The end of an attempt has become known.
    pub(crate) fn set_end(&mut self, at: usize, end: Time) {
        self.ends[at] = end;
        self.find_next_end();
    }

    /// An attempt was stopped: its end will not come, and there is more to say of it in this place.
    pub(crate) fn stop(&mut self, at: usize, place: u32) {
        self.running[at].place = place;
        self.set_end(at, Time::NEVER);
    }

    fn find_next_end(&mut self) {
        (self.next_end, self.next_at) = (Time::NEVER, 0);
        for (at, &end) in self.ends.iter().enumerate() {
            if end < self.next_end {
                (self.next_end, self.next_at) = (end, at);
            }
        }
    }

    /// When the next attempt here has done its work.
    pub(crate) fn next_end(&self) -> Time {
        self.next_end
    }

    /// Where an attempt stands that has done its work by now, the earliest first.
    pub(crate) fn next_ended(&self, now: Time) -> Option<usize> {
        (self.next_end <= now).then_some(self.next_at)
    }

    /// Takes what a paused attempt left.
    pub(crate) fn take_kept(&mut self, from: AttemptId) -> Option<Kept> {
        let at = self.kept.iter().position(|kept| kept.from == from)?;
        Some(self.kept.swap_remove(at))
    }

    /// Everything on the node is gone; returns what ran there.
    pub(crate) fn fail(&mut self) -> SmallVec<[Running; 12]> {
        self.up = false;
        self.outage += 1;
        self.free = self.slots;
        self.next_end = Time::NEVER;
        self.kept.clear();
        self.ends.clear();
        std::mem::take(&mut self.running)
    }
}
