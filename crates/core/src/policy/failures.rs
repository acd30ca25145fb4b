//! Failures of attempts: where and when a failed task is tried again, and which nodes are excluded.
//!
//! A failed task waits for a moment and then prefers nodes on which it has not failed. A job avoids a node on which several of its tasks failed
//! (Hadoop's `mapreduce.job.maxtaskfailures.per.tracker`). A node that fails tasks of several jobs is excluded for all (as in YARN and
//! Spark): it gets no tasks but a probe now and then, until a probe succeeds. A failure counts against a node once the same task has succeeded elsewhere: a task
//! that fails everywhere has a program or an input that is wrong, and no node is to blame.

use crate::ids::{Kind, NodeId};
use crate::policy::matching::Matcher;
use crate::state::{Job, JobKey, NodeTable};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// The factor on a delay that doubles with each failure stops to grow after this many.
const MAX_DOUBLINGS: u32 = 4;

/// At most one in this many nodes is excluded, and a job avoids at most one in this many, but one in any case. If more fail, the cause is not
/// a node.
const NODES_PER_EXCLUDED: u32 = 3;

/// How failed tasks are tried again, and when nodes are excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Failures {
    /// A job fails when one of its tasks has failed this often. Failures on excluded nodes do not count.
    pub max_task_failures: u8,
    /// How long a task waits after its first failure; doubled with each further one.
    pub retry_delay: Span,
    /// How long a failed task then waits for a node on which it has not failed.
    pub retry_elsewhere: Span,
    /// A job avoids a node on which this many of its attempts failed.
    pub job_node_failures: u8,
    /// A node is excluded after this many failures within `failure_window`, if they are of at least `exclude_jobs` jobs.
    pub exclude_failures: u32,
    /// See `exclude_failures`.
    pub exclude_jobs: u32,
    /// Older failures of a node are forgotten.
    pub failure_window: Span,
    /// How long after its exclusion a node gets a probe: one task. Doubled with each failed probe, up to 16 times.
    pub probe_after: Span,
}

impl Default for Failures {
    fn default() -> Failures {
        Failures {
            max_task_failures: 4,
            retry_delay: Span::from_secs(1),
            retry_elsewhere: Span::from_secs(60),
            job_node_failures: 3,
            exclude_failures: 4,
            exclude_jobs: 2,
            failure_window: Span::from_secs(600),
            probe_after: Span::from_secs(60),
        }
    }
}

impl Failures {
    pub(super) fn is_default(&self) -> bool {
        *self == Failures::default()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let counts = [
            ("max_task_failures", u32::from(self.max_task_failures)),
            ("job_node_failures", u32::from(self.job_node_failures)),
            ("exclude_failures", self.exclude_failures),
            ("exclude_jobs", self.exclude_jobs),
        ];
        if let Some((key, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(format!("failures.{key} is 0; write at least 1"));
        }
        if self.retry_delay > Span::from_secs(3_600) {
            return Err("failures.retry_delay is longer than an hour; write at most \"1h\"".into());
        }
        if self.probe_after.is_zero() {
            return Err(
                "failures.probe_after is zero, so that nothing would be excluded; write \"1s\" or longer".into()
            );
        }
        Ok(())
    }

    pub(super) fn spans_mut(&mut self) -> [&mut Span; 4] {
        [&mut self.retry_delay, &mut self.retry_elsewhere, &mut self.failure_window, &mut self.probe_after]
    }

    /// How long a task waits after this many failures.
    pub fn delay(&self, failures: u8) -> Span {
        doubled(self.retry_delay, u32::from(failures).saturating_sub(1))
    }

    /// How long an excluded node waits for a probe after this many failed probes.
    pub fn probe_delay(&self, failed_probes: u32) -> Span {
        doubled(self.probe_after, failed_probes)
    }

    /// The failures of a node within the window and the number of jobs they are of, if it is to be excluded.
    pub fn excludes(&self, nodes: &NodeTable, node: NodeId, now: Time) -> Option<(u32, u32)> {
        let failing = nodes.up(node).filter(|up| up.exclusion().is_none())?;
        let recent: Vec<_> =
            failing.failures().iter().filter(|(at, _)| now.since(*at) <= self.failure_window).collect();
        let mut jobs: Vec<_> = recent.iter().map(|(_, job)| *job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let (failures, jobs) = (recent.len() as u32, jobs.len() as u32);
        let is_last = |kind: Kind| {
            let own = u32::from(failing.spec().slots(kind));
            own > 0 && own == nodes.slots()[kind]
        };
        let allowed = most_avoided(nodes.up_count()) > nodes.excluded_count() && !Kind::BOTH.into_iter().any(is_last);
        (failures >= self.exclude_failures && jobs >= self.exclude_jobs && allowed).then_some((failures, jobs))
    }

    /// True if a job leaves a node to others because its own tasks failed there. Of the nodes where it may run tasks of the kind, it avoids only so
    /// many that others are left: those with slots, and with strict matching those that are suggested for it. A node that keeps a paused reduce of
    /// the job is not avoided, nor is one that is excluded: it gets only probes, whose failures do not count.
    pub fn job_avoids(
        &self,
        job: &Job,
        key: JobKey,
        kind: Kind,
        node: NodeId,
        nodes: &NodeTable,
        matcher: Option<&Matcher>,
    ) -> bool {
        let is_bad = |&&(_, failures): &&(NodeId, u8)| failures >= self.job_node_failures;
        let mut bad = job.failed_on().iter().filter(is_bad).map(|&(bad, _)| bad);
        if job.failed_on().is_empty() || !bad.clone().any(|bad| bad == node) {
            return false;
        }
        let keeps_paused = || nodes.get(node).paused().iter().any(|&(owner, _)| owner == key);
        if !nodes.is_usable(node) || (kind == Kind::Reduce && keeps_paused()) {
            return false;
        }
        let may_run = |other: &NodeId| {
            let has_slots = nodes.get(*other).spec().slots(kind) > 0;
            has_slots && nodes.is_usable(*other) && matcher.is_none_or(|matcher| matcher.may_run(job, *other))
        };
        let avoided = bad.by_ref().filter(may_run).count() as u32;
        let enough = (avoided * NODES_PER_EXCLUDED) as usize;
        avoided <= most_avoided(nodes.ids_usable().filter(may_run).take(enough).count() as u32)
    }
}

fn most_avoided(nodes: u32) -> u32 {
    if nodes < 2 { 0 } else { (nodes / NODES_PER_EXCLUDED).max(1) }
}

fn doubled(span: Span, times: u32) -> Span {
    Span(span.0.saturating_mul(1 << times.min(MAX_DOUBLINGS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobId, TaskKey};
    use crate::policy::test_state::{at, cluster, job, submit};

    #[test]
    fn delays_double_up_to_a_limit() {
        let failures = Failures::default();
        let delays = [1, 2, 3, 5, 6, 255].map(|count| failures.delay(count).as_secs_f64());
        assert_eq!(delays, [1.0, 2.0, 4.0, 16.0, 16.0, 16.0]);
        assert_eq!(failures.probe_delay(1), Span::from_secs(120));
        assert_eq!(doubled(Span::FOREVER, 3), Span::FOREVER);
    }

    #[test]
    fn a_node_is_excluded_for_recent_failures_of_several_jobs() {
        let failures = Failures::default();
        let excludes = |failed: &[(f64, u32)], nodes: u32| {
            let mut state = cluster(nodes, 1, 1);
            failed.iter().for_each(|&(when_s, job)| state.record_node_failure(NodeId(0), JobId(job), at(when_s)));
            failures.excludes(state.nodes(), NodeId(0), at(700.0))
        };
        assert_eq!(excludes(&[(650.0, 1), (650.0, 1), (660.0, 2), (670.0, 1)], 2), Some((4, 2)));
        assert_eq!(excludes(&[(650.0, 1), (650.0, 1), (660.0, 1), (670.0, 1)], 2), None, "all of one job");
        assert_eq!(excludes(&[(650.0, 1), (660.0, 2), (670.0, 1)], 2), None, "three");
        assert_eq!(excludes(&[(50.0, 1), (650.0, 1), (660.0, 2), (670.0, 1)], 2), None, "the first is too old");
        assert_eq!(excludes(&[(650.0, 1), (650.0, 1), (660.0, 2), (670.0, 1)], 1), None, "the only node");
    }

    #[test]
    fn a_job_avoids_the_nodes_that_failed_its_tasks_unless_they_are_many() {
        let mut state = cluster(3, 4, 1);
        let key = submit(&mut state, &job(0, 9, 0));
        let fail = |state: &mut crate::state::State, map: u32, node: u32| {
            state.record_failure(key, TaskKey::map(map), NodeId(node), true, at(9.0));
        };
        let avoids = |state: &crate::state::State, node: u32| {
            Failures::default().job_avoids(state.job(key), key, Kind::Map, NodeId(node), state.nodes(), None)
        };
        [0, 1].iter().for_each(|&map| fail(&mut state, map, 0));
        assert!(!avoids(&state, 0), "two failures");
        fail(&mut state, 2, 0);
        assert_eq!([0, 1, 2].map(|node| avoids(&state, node)), [true, false, false]);
        [3, 4, 5].iter().for_each(|&map| fail(&mut state, map, 1));
        assert_eq!([0, 1, 2].map(|node| avoids(&state, node)), [false; 3], "two of three nodes");
    }

    #[test]
    fn counts_of_zero_and_endless_delays_are_refused() {
        assert_eq!(Failures::default().check(), Ok(()));
        for broken in [
            Failures { max_task_failures: 0, ..Failures::default() },
            Failures { exclude_jobs: 0, ..Failures::default() },
            Failures { probe_after: Span::ZERO, ..Failures::default() },
            Failures { retry_delay: Span::FOREVER, ..Failures::default() },
        ] {
            assert!(broken.check().is_err(), "{broken:?}");
        }
    }
}
