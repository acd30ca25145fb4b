//! Observations of a simulated run beyond its summary.

use super::recovery::RecoveryObserver;
use crate::report::Chart;
use giveway_core::{Action, Event, JobSpec, Time};
use giveway_sim::Observer;
use giveway_sim::comparison::Comparison;
use serde::Deserialize;

/// What to record of a run. Nothing by default.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObservationOptions {
    /// The events, from which the decision time is measured by replay.
    pub decision_times: bool,
    /// Slots in use over time, by job.
    pub slots: bool,
    /// Waits of lost tasks and violations of the job order.
    pub recovery: bool,
}

/// Records what the options select.
pub struct RunObserver {
    events: Option<Vec<(Time, Event)>>,
    chart: Option<Chart>,
    recovery: Option<RecoveryObserver>,
}

impl RunObserver {
    /// An observer for one run of a trial.
    pub fn new(options: ObservationOptions, trial: &Comparison) -> RunObserver {
        let group_per_job = |spec: &JobSpec| spec.id.0 as u16;
        RunObserver {
            events: options.decision_times.then(Vec::new),
            chart: options.slots.then(|| Chart::new(group_per_job, trial.workload.jobs.len())),
            recovery: options.recovery.then(RecoveryObserver::default),
        }
    }

    /// Removes and returns the recorded events, to release their memory; `None` on a second call or if they were not selected.
    pub fn take_events(&mut self) -> Option<Vec<(Time, Event)>> {
        self.events.take()
    }

    /// Slots in use over time. Panics if the case did not select `slots`.
    pub fn chart(&self) -> &Chart {
        self.chart.as_ref().expect("a case that observes slots")
    }

    /// Waits of lost tasks. Panics if the case did not select `recovery`.
    pub fn recovery(&self) -> &RecoveryObserver {
        self.recovery.as_ref().expect("a case that observes recovery")
    }
}

impl Observer for RunObserver {
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
