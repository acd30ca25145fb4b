//! What others see of a run: every event and every action as they happen, and the totals at the end.

use giveway_core::{Action, Event, Time};

/// Watches a run. Event logs, metrics and checkers are observers; an empty one costs nothing.
pub trait Observer {
    /// The core was told of an event and answered with these actions.
    fn saw(&mut self, now: Time, event: &Event, actions: &[Action]);

    /// A job is over: so many of so many now, for a progress bar.
    fn closed(&mut self, _now: Time, _closed: usize, _jobs: usize) {}
}

/// Watches nothing.
impl Observer for () {
    fn saw(&mut self, _now: Time, _event: &Event, _actions: &[Action]) {}
}

/// Two observers watch one run.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.saw(now, event, actions);
        self.1.saw(now, event, actions);
    }

    fn closed(&mut self, now: Time, closed: usize, jobs: usize) {
        self.0.closed(now, closed, jobs);
        self.1.closed(now, closed, jobs);
    }
}

/// An observer can be lent.
impl<O: Observer> Observer for &mut O {
    fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
        (**self).saw(now, event, actions);
    }

    fn closed(&mut self, now: Time, closed: usize, jobs: usize) {
        (**self).closed(now, closed, jobs);
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events the core handled.
    pub events: u64,
    /// Ticks of the simulator's own queue, those that had been overtaken among them.
    pub ticks: u64,
    /// Attempts launched.
    pub launches: u64,
    /// Events the core refused. A sound body and a sound core refuse each other nothing.
    pub refusals: u64,
    /// When the last event happened.
    pub end: Time,
    /// Jobs submitted so far.
    pub jobs_submitted: usize,
    /// Jobs that are over.
    pub jobs_closed: usize,
    /// Jobs that were submitted and are not over, or that the core would not take. Not zero at the end means that the
    /// policy left work undone for ever.
    pub jobs_unfinished: usize,
    /// The most jobs that were live at once.
    pub jobs_live_max: usize,
}
