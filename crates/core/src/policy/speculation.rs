//! Speculative execution: which running tasks are stragglers that deserve a second attempt.

use super::{Needs, View, estimates};
use crate::ids::{Kind, NodeId, TaskId, TaskKey};
use crate::state::{Job, TaskState};
use crate::units::{Span, Time, WHOLE_PPM};
use serde::{Deserialize, Serialize};

/// When a task is a straggler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// Its progress rate is below this fraction (0-1) of its job's mean rate.
    pub rate_below: f64,
    /// It has run at least this long.
    pub min_runtime: Span,
}

impl Speculation {
    pub(super) fn needs(&self) -> Needs {
        Needs { attempt_progress: true, ..Needs::NOTHING }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let valid = self.rate_below > 0.0 && self.rate_below < 1.0;
        if valid { Ok(()) } else { Err("rate_below is a fraction between 0 and 1; write for example 0.5".into()) }
    }

    pub(super) fn spans_mut(&mut self) -> [&mut Span; 1] {
        [&mut self.min_runtime]
    }

    /// All stragglers, job by job. A job with pending tasks has none: a slot is better spent on those.
    pub fn stragglers(&self, view: View<'_>) -> Vec<TaskId> {
        let mut stragglers = Vec::new();
        for (_, job) in view.state.jobs().iter().filter(|(_, job)| !job.is_closed()) {
            for kind in Kind::BOTH.into_iter().filter(|&kind| job.counts(kind).demand() == 0) {
                let Some(mean) = estimates::observed_task_time(job, kind, view.now) else { continue };
                let running = job.counts(kind).running.iter().map(|&index| TaskKey { kind, index });
                let straggling = running.filter(|&key| self.is_straggler(job, key, mean.as_secs_f64(), view.now));
                stragglers.extend(straggling.map(|key| key.of(job.id())));
            }
        }
        stragglers
    }

    fn is_straggler(&self, job: &Job, key: TaskKey, mean_s: f64, now: Time) -> bool {
        let task = job.task(key);
        let runtime = now.since(task.launched());
        if task.state() != TaskState::Running || job.is_speculated(key) || runtime < self.min_runtime {
            return false;
        }
        let rate = f64::from(task.progress_ppm()) / f64::from(WHOLE_PPM) / runtime.as_secs_f64().max(1e-6);
        rate < self.rate_below / mean_s.max(1e-6)
    }
}

/// True if a straggler still runs, elsewhere than on this node.
pub fn runs_elsewhere(view: View<'_>, straggler: TaskId, node: NodeId) -> bool {
    let job = view.state.find(straggler.job).map(|job| view.state.job(job));
    let task = job.and_then(|job| job.find_task(straggler.key()));
    task.is_some_and(|task| task.state() == TaskState::Running && task.node() != node)
}
