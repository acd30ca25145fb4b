//! The simulator's own picture of a node: what runs there, what was left there, what is on its way to it.

use crate::attempts::{Kept, Order, Running};
use giveway_core::{AttemptId, Kind, NodeSpec, Time};
use smallvec::SmallVec;

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) up: bool,
    /// Whether the core takes it for up.
    pub(crate) known_up: bool,
    /// Counts its failures.
    pub(crate) outage: u32,
    free: [u16; 2],
    slots: [u16; 2],
    pub(crate) running: SmallVec<[Running; 12]>,
    /// The earliest end among them.
    next_end: Time,
    pub(crate) orders: Vec<Order>,
    pub(crate) kept: Vec<Kept>,
    /// When it last beat, on the grid or off it.
    pub(crate) last_beat: Time,
    /// The earliest beat that is in line for it; never if there is none.
    pub(crate) expected: Time,
}

impl Node {
    pub(crate) fn new(spec: &NodeSpec) -> Node {
        let slots = Kind::BOTH.map(|kind| spec.slots(kind));
        Node {
            up: true,
            known_up: true,
            outage: 0,
            free: slots,
            slots,
            running: SmallVec::new(),
            next_end: Time::NEVER,
            orders: Vec::new(),
            kept: Vec::new(),
            last_beat: Time::NEVER,
            expected: Time::NEVER,
        }
    }

    pub(crate) fn has_free(&self, kind: Kind) -> bool {
        self.up && self.free[kind.ix()] > 0
    }

    /// An attempt takes a slot; true if it was the last free one.
    pub(crate) fn enter(&mut self, kind: Kind, running: Running) -> bool {
        let free = &mut self.free[kind.ix()];
        assert!(*free > 0, "attempt {} was launched on a node without a free slot", running.id());
        *free -= 1;
        let was_last = *free == 0;
        self.next_end = self.next_end.min(running.end);
        self.running.push(running);
        was_last
    }

    /// The attempt in this place of the list leaves its slot.
    pub(crate) fn leave(&mut self, at: usize) -> Running {
        let gone = self.running.swap_remove(at);
        if gone.end == self.next_end {
            self.find_next_end();
        }
        self.free[gone.whose().kind().ix()] += 1;
        gone
    }

    /// Where an attempt stands in the list, if it still runs here.
    pub(crate) fn find(&self, attempt: AttemptId) -> Option<usize> {
        self.running.iter().position(|running| running.id() == attempt)
    }

    /// Where the attempt stands of which more is said in this place.
    pub(crate) fn at(&self, place: u32) -> usize {
        self.running.iter().position(|running| running.place == place).expect("it runs here")
    }

    /// The end of an attempt has become known, or will not come.
    pub(crate) fn set_end(&mut self, at: usize, end: Time) {
        self.running[at].end = end;
        self.find_next_end();
    }

    fn find_next_end(&mut self) {
        self.next_end = self.running.iter().map(|running| running.end).min().unwrap_or(Time::NEVER);
    }

    /// When the next attempt here has done its work.
    pub(crate) fn next_end(&self) -> Time {
        self.next_end
    }

    /// Where an attempt stands that has done its work by now, the earliest first.
    pub(crate) fn next_ended(&self, now: Time) -> Option<usize> {
        if self.next_end > now {
            return None;
        }
        self.running.iter().position(|running| running.end == self.next_end)
    }

    /// Takes what a paused attempt left.
    pub(crate) fn take_kept(&mut self, from: AttemptId) -> Option<Kept> {
        let at = self.kept.iter().position(|kept| kept.from == from)?;
        Some(self.kept.swap_remove(at))
    }

    /// Everything on the node is gone.
    pub(crate) fn fail(&mut self) {
        self.up = false;
        self.outage += 1;
        self.free = self.slots;
        self.running.clear();
        self.next_end = Time::NEVER;
        self.orders.clear();
        self.kept.clear();
    }
}
