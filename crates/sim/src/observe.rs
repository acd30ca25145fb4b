//! Observers of a run: they receive every event and every action as it happens.

use giveway_core::{Action, Event, Time};

/// Observes a run. Event log writers, metrics and checkers are observers; `()` observes nothing at no cost.
pub trait Observer {
    /// Called after the core has handled `event` and returned `actions`, before the actions are performed.
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]);

    /// Called when a job is closed: `closed` of `jobs` are closed now. For progress bars.
    fn on_job_closed(&mut self, _now: Time, _closed: usize, _jobs: usize) {}
}

impl Observer for () {
    fn observe(&mut self, _now: Time, _event: &Event, _actions: &[Action]) {}
}

/// Calls both observers, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.observe(now, event, actions);
        self.1.observe(now, event, actions);
    }

    fn on_job_closed(&mut self, now: Time, closed: usize, jobs: usize) {
        self.0.on_job_closed(now, closed, jobs);
        self.1.on_job_closed(now, closed, jobs);
    }
}

impl<O: Observer> Observer for &mut O {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        (**self).observe(now, event, actions);
    }

    fn on_job_closed(&mut self, now: Time, closed: usize, jobs: usize) {
        (**self).on_job_closed(now, closed, jobs);
    }
}

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Events that the core handled.
    pub events: u64,
    /// Events that the simulator took from its own queue, including stale ones.
    pub sim_events: u64,
    /// Attempts launched.
    pub launches: u64,
    /// Events that the core refused; 0 unless the simulator or the core has a bug.
    pub refusals: u64,
    /// Virtual time of the last event.
    pub end: Time,
    /// Jobs submitted so far.
    pub jobs_submitted: usize,
    /// Jobs that the core has closed.
    pub jobs_closed: usize,
    /// Jobs that are not closed, including those the core refused. Not zero at the end means that the policy starved them.
    pub jobs_unfinished: usize,
    /// Largest number of jobs that were live at the same time.
    pub max_live_jobs: usize,
}
