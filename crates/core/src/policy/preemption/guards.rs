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
    /// Those that have less than this left, judged by their progress so far.
    pub min_time_left: Span,
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

    /// The same guards for a beneficiary that has this much work left, in slot time: nothing is protected for longer than the beneficiary takes in all, because
    /// waiting would then cost it more than the preemption can cost the victim. Its work is rounded up to a power of two, so that most beneficiaries have the
    /// same guards.
    pub(super) fn for_beneficiary(&self, work_left: Span) -> Guards {
        let work_left = Span(work_left.0.max(1).checked_next_power_of_two().unwrap_or(u64::MAX));
        let min_runtime = self.min_runtime.min(work_left);
        Guards { min_runtime, min_time_left: self.min_time_left.min(work_left), ..*self }
    }

    /// True if these guards, which are for a beneficiary, protect every attempt that those of the same rule for another one protect.
    pub(super) fn protect_all_of(&self, other: &Guards) -> bool {
        other.min_runtime <= self.min_runtime && other.min_time_left <= self.min_time_left
    }

    fn protects(&self, job: &Job, key: TaskKey, now: Time) -> bool {
        let task = job.task(key);
        let progress_ppm = f64::from(task.progress_ppm());
        let just_launched = || now.since(task.launched()) < self.min_runtime;
        let nearly_done = || self.max_progress.is_some_and(|limit| progress_ppm > limit * f64::from(WHOLE_PPM));
        let preempted_often = || self.max_preemptions.is_some_and(|limit| u32::from(task.preemptions()) >= limit);
        let soon_done =
            || !self.min_time_left.is_zero() && time_left(job, key, now).is_some_and(|left| left < self.min_time_left);
        let is_slack = || {
            self.max_slackness.is_some_and(|limit| {
                let since_start = now.since(job.first_launched(key));
                slackness(since_start, job.service(key, now), task.progress_ppm()) >= limit
            })
        };
        just_launched() || nearly_done() || preempted_often() || soon_done() || is_slack()
    }

    /// When an attempt that was launched too recently to be preempted has run long enough; none if it has, or does not run.
    pub(super) fn young_until(&self, job: &Job, key: TaskKey, now: Time) -> Option<Time> {
        let task = job.task(key);
        let until = task.launched() + self.min_runtime;
        (task.state() == TaskState::Running && now < until).then_some(until)
    }
}

/// The time that a running task has left at its rate so far; none before it has made enough progress to tell.
pub fn time_left(job: &Job, key: TaskKey, now: Time) -> Option<Span> {
    let progress_ppm = job.task(key).progress_ppm();
    let left_per_done = f64::from(WHOLE_PPM) / f64::from(progress_ppm.max(1)) - 1.0;
    (progress_ppm > WHOLE_PPM / 50).then(|| job.service(key, now).scaled(left_per_done))
}

/// True if a task's attempt may be preempted: it runs, was not requested to stop, has no speculative attempt, and no guard protects it.
pub fn is_preemptable(job: &Job, task: TaskKey, guards: &Guards, now: Time) -> bool {
    let runs = job.task(task).state() == TaskState::Running;
    runs && !job.task(task).is_protected() && !job.is_speculated(task) && !guards.protects(job, task, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::PreemptAction;
    use crate::ids::{Kind, NodeId};
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::{JobKey, State};

    const REDUCE: TaskKey = TaskKey { kind: Kind::Reduce, index: 0 };

    /// A reduce that ran from 0 s to 10 s, was paused at 50 % and runs again since 40 s, at 50 % still.
    fn resumed() -> (State, JobKey) {
        let mut state = cluster(1, 1, 1);
        let job = submit(&mut state, &job(0, 1, 1));
        let attempt = state.launch(job, REDUCE, NodeId(0), at(0.0));
        state.request_stop(job, REDUCE, PreemptAction::Pause);
        state.pause(job, attempt, 500_000, at(10.0));
        state.relaunch(job, 0, NodeId(0), at(40.0));
        (state, job)
    }

    fn is_protected(guards: Guards, secs: f64) -> bool {
        let (state, job) = resumed();
        !is_preemptable(state.job(job), REDUCE, &guards, at(secs))
    }

    #[test]
    fn without_guards_every_running_attempt_is_preemptable() {
        assert!(!is_protected(Guards::default(), 40.0));
    }

    #[test]
    fn each_guard_protects_from_its_limit_on() {
        // At 50 s it has had 20 s of slot time for half its work, 40 s undisturbed: slackness 50 / 40 = 1.25.
        let slackness = |limit| Guards { max_slackness: Some(limit), ..Guards::default() };
        assert!(is_protected(slackness(1.25), 50.0));
        assert!(!is_protected(slackness(1.26), 50.0));
        // The present attempt has run 10 s at 50 s.
        let runtime = |secs| Guards { min_runtime: Span::from_secs(secs), ..Guards::default() };
        assert!(!is_protected(runtime(10), 50.0));
        assert!(is_protected(runtime(11), 50.0));
        let progress = |limit| Guards { max_progress: Some(limit), ..Guards::default() };
        assert!(is_protected(progress(0.49), 50.0));
        assert!(!is_protected(progress(0.5), 50.0), "progress must exceed the limit");
        // 20 s for half its work: 20 s left.
        let time_left = |secs| Guards { min_time_left: Span::from_secs(secs), ..Guards::default() };
        assert!(is_protected(time_left(21), 50.0));
        assert!(!is_protected(time_left(20), 50.0));
        let preemptions = |limit| Guards { max_preemptions: Some(limit), ..Guards::default() };
        assert!(is_protected(preemptions(1), 50.0), "the pause was one preemption");
        assert!(!is_protected(preemptions(2), 50.0));
    }

    #[test]
    fn attempts_that_stop_or_have_a_speculative_attempt_are_not_preemptable() {
        let (mut state, key) = resumed();
        state.request_stop(key, REDUCE, PreemptAction::Kill);
        assert!(!is_preemptable(state.job(key), REDUCE, &Guards::default(), at(50.0)));
        let mut state = cluster(2, 1, 1);
        let key = submit(&mut state, &job(0, 1, 1));
        state.launch(key, REDUCE, NodeId(0), at(0.0));
        state.launch_speculative(key, REDUCE, NodeId(1), at(5.0));
        assert!(!is_preemptable(state.job(key), REDUCE, &Guards::default(), at(50.0)));
    }

    #[test]
    fn limits_that_make_no_sense_are_rejected() {
        for limit in [0.99, f64::NAN] {
            assert!(Guards { max_slackness: Some(limit), ..Guards::default() }.check().is_err(), "{limit}");
        }
        for limit in [-0.1, 1.1, f64::NAN] {
            assert!(Guards { max_progress: Some(limit), ..Guards::default() }.check().is_err(), "{limit}");
        }
        let limits = Guards { max_slackness: Some(1.0), max_progress: Some(1.0), ..Guards::default() };
        assert_eq!(limits.check(), Ok(()));
    }
}
