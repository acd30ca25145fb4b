//! The simulator's own picture of a node: what runs there, what was left there, what is on its way to it.

use crate::attempts::{Attempts, Kept, Order};
use giveway_core::{AttemptId, JobId, Kind, NodeSpec, Time};
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

/// An attempt that runs on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) place: u32,
    /// Whose it is, so that nobody has to look the attempt up to know.
    pub(crate) whose: Whose,
    /// When its work is done; never while that cannot be known, and once it has been stopped.
    pub(crate) end: Time,
}

/// A job and a kind of task in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose(u32);

impl Whose {
    pub(crate) fn of(attempt: AttemptId) -> Whose {
        Whose(attempt.task.job.0 << 1 | attempt.task.kind as u32)
    }

    pub(crate) fn job(self) -> JobId {
        JobId(self.0 >> 1)
    }

    pub(crate) fn kind(self) -> Kind {
        Kind::BOTH[(self.0 & 1) as usize]
    }
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
    pub(crate) fn enter(&mut self, attempt: AttemptId, running: Running) -> bool {
        let free = &mut self.free[attempt.task.kind.ix()];
        assert!(*free > 0, "attempt {attempt} was launched on a node without a free slot");
        *free -= 1;
        let was_last = *free == 0;
        self.next_end = self.next_end.min(running.end);
        self.running.push(running);
        was_last
    }

    /// An attempt leaves its slot; true if no other was free.
    pub(crate) fn leave(&mut self, place: u32, kind: Kind) -> bool {
        let at = self.running.iter().position(|running| running.place == place).expect("it runs here");
        let gone = self.running.swap_remove(at);
        if gone.end == self.next_end {
            self.find_next_end();
        }
        self.free[kind.ix()] += 1;
        self.free[kind.ix()] == 1
    }

    /// An attempt that still runs here.
    pub(crate) fn find(&self, attempt: AttemptId, attempts: &Attempts) -> Option<Running> {
        self.running.iter().copied().find(|running| attempts[running.place].id == attempt)
    }

    /// The end of an attempt has become known, or will not come.
    pub(crate) fn set_end(&mut self, place: u32, end: Time) {
        let running = self.running.iter_mut().find(|running| running.place == place).expect("it runs here");
        running.end = end;
        self.find_next_end();
    }

    fn find_next_end(&mut self) {
        self.next_end = self.running.iter().map(|running| running.end).min().unwrap_or(Time::NEVER);
    }

    /// When the next attempt here has done its work.
    pub(crate) fn next_end(&self) -> Time {
        self.next_end
    }

    /// An attempt that has done its work by now, the earliest first.
    pub(crate) fn next_ended(&self, now: Time) -> Option<u32> {
        if self.next_end > now {
            return None;
        }
        self.running.iter().find(|running| running.end == self.next_end).map(|running| running.place)
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
