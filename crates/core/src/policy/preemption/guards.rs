//! Guards: which attempts are protected from preemption, so that no task is preempted repeatedly (FCS, section 4).

use crate::ids::TaskKey;
use crate::policy::estimates::slackness;
use crate::state::{Job, TaskState};
use crate::units::{Span, Time, WHOLE_PPM};
use serde::{Deserialize, Serialize};

/// Which attempts are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    /// Those of a task whose time since its first launch is at least this many times what it would have taken undisturbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_slackness: Option<f64>,
    /// Those that were launched less than this ago.
    pub min_runtime: Span,
    /// Those whose progress is over this fraction (0-1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_progress: Option<f64>,
    /// Those of a task that was preempted this often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_preemptions: Option<u32>,
}

impl Guards {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.max_slackness.is_some_and(|limit| limit.is_nan() || limit < 1.0) {
            return Err("guards.max_slackness below 1 would protect every attempt; write 1 or more".into());
        }
        if self.max_progress.is_some_and(|limit| !(0.0..=1.0).contains(&limit)) {
            return Err("guards.max_progress is a fraction (0-1); write for example 0.7".into());
        }
        Ok(())
    }

    fn protects(&self, job: &Job, key: TaskKey, now: Time) -> bool {
        let task = job.task(key);
        let is_slack = self.max_slackness.is_some_and(|limit| {
            let since_start = now.since(job.first_launched(key));
            slackness(since_start, job.service(key, now), task.progress_ppm()) >= limit
        });
        let just_launched = now.since(task.launched()) < self.min_runtime;
        let progress_ppm = f64::from(task.progress_ppm());
        let nearly_done = self.max_progress.is_some_and(|limit| progress_ppm > limit * f64::from(WHOLE_PPM));
        let preempted_often = self.max_preemptions.is_some_and(|limit| u32::from(task.preemptions()) >= limit);
        is_slack || just_launched || nearly_done || preempted_often
    }
}

/// True if a task's attempt may be preempted: it runs, was not requested to stop, has no speculative attempt, and no guard protects it.
pub fn is_preemptable(job: &Job, task: TaskKey, guards: &Guards, now: Time) -> bool {
    let runs = job.task(task).state() == TaskState::Running;
    runs && !job.is_speculated(task) && !guards.protects(job, task, now)
}
