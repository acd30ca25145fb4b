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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::{JobKey, State};

    /// Two maps launched at 0 s on nodes 0 and 1. The first took 10 s; the second is at 40 % at 20 s. With 50 s for the second, the mean is 30 s.
    fn one_slow_map(maps: u32) -> (State, JobKey) {
        let mut state = cluster(2, 1, 1);
        let job = submit(&mut state, &job(0, maps, 0));
        let first = state.launch(job, TaskKey::map(0), NodeId(0), at(0.0));
        let second = state.launch(job, TaskKey::map(1), NodeId(1), at(0.0));
        state.finish(job, first, 0, false, at(10.0));
        state.set_progress(second, 400_000);
        (state, job)
    }

    fn stragglers(state: &State, rate_below: f64, min_runtime_s: u64) -> Vec<TaskId> {
        let speculation = Speculation { rate_below, min_runtime: Span::from_secs(min_runtime_s) };
        speculation.stragglers(View { now: at(20.0), state })
    }

    #[test]
    fn a_straggler_is_slower_than_a_fraction_of_the_mean_rate() {
        let (state, job) = one_slow_map(2);
        let slow = TaskKey::map(1).of(state.job(job).id());
        // Its rate is 2 % per second, the mean rate 3.33 %, a fraction of 0.6.
        assert_eq!(stragglers(&state, 0.61, 1), [slow]);
        assert_eq!(stragglers(&state, 0.59, 1), []);
    }

    #[test]
    fn a_straggler_has_run_for_the_minimum() {
        let (state, _) = one_slow_map(2);
        assert_eq!(stragglers(&state, 0.9, 20).len(), 1);
        assert_eq!(stragglers(&state, 0.9, 21), []);
    }

    #[test]
    fn a_job_with_pending_tasks_and_a_speculated_task_have_no_stragglers() {
        let (state, _) = one_slow_map(3);
        assert_eq!(stragglers(&state, 0.9, 1), []);
        let (mut state, job) = one_slow_map(2);
        state.launch_speculative(job, TaskKey::map(1), NodeId(0), at(15.0));
        assert_eq!(stragglers(&state, 0.9, 1), []);
    }

    #[test]
    fn a_second_attempt_runs_on_another_node() {
        let (state, job) = one_slow_map(2);
        let view = View { now: at(20.0), state: &state };
        let [done, slow] = [0, 1].map(|map| TaskKey::map(map).of(state.job(job).id()));
        assert!(runs_elsewhere(view, slow, NodeId(0)));
        assert!(!runs_elsewhere(view, slow, NodeId(1)));
        assert!(!runs_elsewhere(view, done, NodeId(1)), "it has finished");
    }

    #[test]
    fn the_fraction_is_between_0_and_1() {
        for (rate_below, valid) in [(0.0, false), (0.5, true), (1.0, false), (f64::NAN, false)] {
            let speculation = Speculation { rate_below, min_runtime: Span::ZERO };
            assert_eq!(speculation.check().is_ok(), valid, "{rate_below}");
        }
    }
}
