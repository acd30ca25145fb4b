//! What an experiment may look at beyond the usual figures.

use super::recovery::Recovery;
use crate::report::Chart;
use giveway_core::{Action, Event, JobSpec, Time};
use giveway_sim::Observer;
use giveway_sim::comparison::Comparison;

/// What to look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// How long the decisions take.
    pub decisions: bool,
    /// Slots over time, job by job.
    pub slots: bool,
    /// What becomes of lost work.
    pub recovery: bool,
}

/// Looks on.
pub struct Watched {
    events: Option<Vec<(Time, Event)>>,
    chart: Option<Chart>,
    recovery: Option<Recovery>,
}

impl Watched {
    /// Begins to look on.
    pub fn new(watch: Watch, trial: &Comparison) -> Watched {
        let each_its_own = |spec: &JobSpec| spec.id.0 as u16;
        Watched {
            events: watch.decisions.then(Vec::new),
            chart: watch.slots.then(|| Chart::new(each_its_own, trial.workload.jobs.len())),
            recovery: watch.recovery.then(Recovery::default),
        }
    }

    /// Everything the core was told, for the last time: it is not kept.
    pub fn take_events(&mut self) -> Option<Vec<(Time, Event)>> {
        self.events.take()
    }

    /// Slots over time.
    pub fn chart(&self) -> &Chart {
        self.chart.as_ref().expect("a case whose slots are watched")
    }

    /// What became of lost work.
    pub fn recovery(&self) -> &Recovery {
        self.recovery.as_ref().expect("a case whose recovery is watched")
    }
}

impl Observer for Watched {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        if let Some(events) = &mut self.events {
            events.push((now, event.clone()));
        }
        if let Some(chart) = &mut self.chart {
            chart.observe(now, event, actions);
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.observe(now, event, actions);
        }
    }
}
