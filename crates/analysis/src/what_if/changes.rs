//! The same jobs in two runs: how much sooner or later each one ends, and why.

use super::percentile;
use giveway_core::{JobId, plural};
use giveway_sim::metrics::JobMetrics;
use giveway_sim::workload::{JobPlan, RecordedJob, Workload};
use serde::Serialize;
use std::collections::BTreeMap;

/// A job counts as faster or slower if its completion time changes by more than this fraction.
const NOTICEABLE: f64 = 0.01;

/// Times of one job in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobTime {
    /// From submission to success, in seconds.
    pub completion_s: f64,
    /// From submission to the first map, in seconds; none if unknown.
    pub wait_s: Option<f64>,
    /// Execution time over execution time alone on the cluster; none if unknown.
    pub slowdown: Option<f64>,
    /// Number of times that a reduce of it was paused.
    pub pauses: u32,
    /// Number of its attempts that were killed by preemption.
    pub kills: u32,
    /// Number of its maps that ended early.
    pub early_ends: u32,
}

/// Times of all jobs in one run, by job number; none for jobs that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTimes(pub Vec<Option<JobTime>>);

impl JobTimes {
    /// The times of a simulated run of `jobs` jobs.
    pub fn simulated(jobs: usize, metrics: &[JobMetrics]) -> JobTimes {
        let mut times = vec![None; jobs];
        for job in metrics {
            if let Some(time) = times.get_mut(job.job.0 as usize) {
                *time = Some(JobTime {
                    completion_s: job.completion_s,
                    wait_s: Some(job.wait_s),
                    slowdown: job.slowdown,
                    pauses: job.pauses,
                    kills: job.kills,
                    early_ends: job.early_ends,
                });
            }
        }
        JobTimes(times)
    }

    /// The recorded times.
    pub fn recorded(jobs: &[RecordedJob]) -> JobTimes {
        let time = |job: &RecordedJob| {
            Some(JobTime { completion_s: job.completion_s?, wait_s: job.wait_s, ..JobTime::default() })
        };
        JobTimes(jobs.iter().map(time).collect())
    }

    fn get(&self, job: JobId) -> Option<&JobTime> {
        self.0.get(job.0 as usize)?.as_ref()
    }

    /// The jobs that have a time in all of these runs.
    pub fn in_all(runs: &[&JobTimes]) -> Vec<JobId> {
        let jobs = runs.first().map_or(0, |run| run.0.len()) as u32;
        (0..jobs).map(JobId).filter(|job| runs.iter().all(|run| run.get(*job).is_some())).collect()
    }

    /// Statistics of some of the jobs.
    pub fn statistics(&self, jobs: &[JobId]) -> Statistics {
        let times: Vec<&JobTime> = jobs.iter().filter_map(|job| self.get(*job)).collect();
        let mut completions: Vec<f64> = times.iter().map(|time| time.completion_s).collect();
        completions.sort_unstable_by(f64::total_cmp);
        let waits: Option<Vec<f64>> = times.iter().map(|time| time.wait_s).collect();
        let slowdowns: Option<Vec<f64>> = times.iter().map(|time| time.slowdown).collect();
        Statistics {
            jobs: times.len(),
            mean_s: mean(&completions),
            p50_s: percentile(&completions, 50.0),
            p95_s: percentile(&completions, 95.0),
            p99_s: percentile(&completions, 99.0),
            max_s: completions.last().copied(),
            mean_wait_s: waits.and_then(|waits| mean(&waits)),
            mean_slowdown: slowdowns.as_deref().and_then(mean),
            max_slowdown: slowdowns.and_then(|slowdowns| slowdowns.into_iter().reduce(f64::max)),
        }
    }
}

/// Statistics of completion times in seconds, of waiting times and of slowdowns. None without jobs, or if a job's value is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of jobs.
    pub jobs: usize,
    /// Mean completion time.
    pub mean_s: Option<f64>,
    /// Median completion time.
    pub p50_s: Option<f64>,
    /// 95th percentile of the completion time.
    pub p95_s: Option<f64>,
    /// 99th percentile of the completion time.
    pub p99_s: Option<f64>,
    /// Longest completion time.
    pub max_s: Option<f64>,
    /// Mean time from submission to the first map.
    pub mean_wait_s: Option<f64>,
    /// Mean slowdown.
    pub mean_slowdown: Option<f64>,
    /// Largest slowdown.
    pub max_slowdown: Option<f64>,
}

/// The completion time of one job in two runs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobChange {
    /// Number of the job.
    pub job: JobId,
    /// In the first run.
    pub before_s: f64,
    /// In the second run.
    pub after_s: f64,
}

impl JobChange {
    /// Seconds by which the job ends later; negative if it ends sooner.
    pub fn later_s(&self) -> f64 {
        self.after_s - self.before_s
    }

    /// Whether it ends sooner by more than 1 %.
    pub fn is_faster(&self) -> bool {
        self.later_s() < -NOTICEABLE * self.before_s
    }

    /// Whether it ends later by more than 1 %.
    pub fn is_slower(&self) -> bool {
        self.later_s() > NOTICEABLE * self.before_s
    }
}

/// The changes of these jobs from one run to another, in the order of their numbers.
pub fn changes(before: &JobTimes, after: &JobTimes, jobs: &[JobId]) -> Vec<JobChange> {
    let change = |job: &JobId| {
        let (before_s, after_s) = (before.get(*job)?.completion_s, after.get(*job)?.completion_s);
        Some(JobChange { job: *job, before_s, after_s })
    };
    jobs.iter().filter_map(change).collect()
}

/// The changes of the jobs of one user, pool or size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupChange {
    /// Name of the group.
    pub name: String,
    /// Number of its jobs.
    pub jobs: usize,
    /// Mean completion time in the first run.
    pub before_mean_s: f64,
    /// Mean completion time in the second run.
    pub after_mean_s: f64,
    /// Jobs that end sooner by more than 1 %.
    pub faster: usize,
    /// Jobs that end later by more than 1 %.
    pub slower: usize,
}

/// The changes by group, such as user; groups sorted by their key.
pub fn by_group<'a, K: Ord + Clone>(
    workload: &'a Workload,
    changes: &[JobChange],
    key: impl Fn(&'a JobPlan) -> K,
    name: impl Fn(&K) -> String,
) -> Vec<GroupChange> {
    let mut groups: BTreeMap<K, Vec<&JobChange>> = BTreeMap::new();
    for change in changes {
        if let Some(plan) = workload.jobs.get(change.job.0 as usize) {
            groups.entry(key(plan)).or_default().push(change);
        }
    }
    let of = |time: fn(&JobChange) -> f64, changes: &[&JobChange]| {
        changes.iter().map(|change| time(change)).sum::<f64>() / changes.len().max(1) as f64
    };
    groups
        .into_iter()
        .map(|(group, changes)| GroupChange {
            name: name(&group),
            jobs: changes.len(),
            before_mean_s: of(|change| change.before_s, &changes),
            after_mean_s: of(|change| change.after_s, &changes),
            faster: changes.iter().filter(|change| change.is_faster()).count(),
            slower: changes.iter().filter(|change| change.is_slower()).count(),
        })
        .collect()
}

/// A job that ends later, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Its times.
    pub change: JobChange,
    /// What differs between the runs.
    pub reason: String,
}

/// The `count` jobs that lose most time, with the reason of each.
pub fn losses(
    workload: &Workload,
    before: &JobTimes,
    after: &JobTimes,
    changes: &[JobChange],
    count: usize,
) -> Vec<Loss> {
    let mut slower: Vec<&JobChange> = changes.iter().filter(|change| change.is_slower()).collect();
    slower.sort_by(|a, b| b.later_s().total_cmp(&a.later_s()).then(a.job.cmp(&b.job)));
    slower.truncate(count);
    slower.into_iter().map(|change| Loss { change: *change, reason: reason(workload, before, after, change) }).collect()
}

/// Why a job ends later, from what the two runs tell about it.
fn reason(workload: &Workload, before: &JobTimes, after: &JobTimes, change: &JobChange) -> String {
    let (Some(old), Some(new)) = (before.get(change.job), after.get(change.job)) else { return String::new() };
    let mut parts = Vec::new();
    if let (Some(old_s), Some(new_s)) = (old.wait_s, new.wait_s)
        && new_s - old_s > change.later_s() / 4.0
    {
        parts.push(format!("its first map waited {} instead of {}", short_s(new_s), short_s(old_s)));
    }
    let (old_count, new_count) = (overtakers(workload, before, change.job), overtakers(workload, after, change.job));
    if new_count > old_count {
        parts.push(format!("{new_count} of the jobs submitted later finished before it, instead of {old_count}"));
    }
    let more = |of: fn(&JobTime) -> u32| of(new).saturating_sub(of(old));
    let stops = [
        (more(|time| time.early_ends), "more map", "ended early"),
        (more(|time| time.pauses), "more pause", "of its reduces"),
        (more(|time| time.kills), "more attempt", "killed, with loss of work"),
    ];
    let is_more = stops.into_iter().filter(|(count, ..)| *count > 0);
    parts.extend(is_more.map(|(count, what, how)| format!("{} {how}", plural(count, what))));
    if parts.is_empty() {
        parts.push("its tasks had fewer slots at the same time, slower ones, or input farther away".into());
    }
    parts.join("; ")
}

/// Seconds, with a decimal where a whole number would hide the difference.
fn short_s(seconds: f64) -> String {
    let text = if seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
    format!("{} s", text.trim_end_matches(".0"))
}

/// Number of jobs that were submitted after a job and ended before it.
fn overtakers(workload: &Workload, times: &JobTimes, job: JobId) -> usize {
    let end_s = |plan: &JobPlan| Some(plan.submit.as_secs_f64() + times.get(plan.id)?.completion_s);
    let Some(own) = workload.jobs.get(job.0 as usize) else { return 0 };
    let Some(own_end_s) = end_s(own) else { return 0 };
    let later = workload.jobs.get(job.0 as usize + 1..).unwrap_or_default();
    let later = later.iter().take_while(|plan| plan.submit.as_secs_f64() < own_end_s);
    later.filter(|plan| end_s(plan).is_some_and(|end_s| end_s < own_end_s)).count()
}

/// How far a simulation is from what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimulationError {
    /// Number of jobs compared.
    pub jobs: usize,
    /// Median of the relative error of completion times, without its sign.
    pub median: f64,
    /// 90th percentile of the same.
    pub p90: f64,
    /// Simulated mean completion time over the recorded one, minus 1.
    pub of_mean: f64,
}

/// The error of a simulation under the recorded policy; none without jobs to compare.
pub fn error_of(recorded: &JobTimes, simulated: &JobTimes, jobs: &[JobId]) -> Option<SimulationError> {
    let changes = changes(recorded, simulated, jobs);
    // A job that took no time has no relative error.
    let mut errors: Vec<f64> = changes
        .iter()
        .filter(|change| change.before_s > 0.0)
        .map(|change| (change.later_s() / change.before_s).abs())
        .collect();
    errors.sort_unstable_by(f64::total_cmp);
    let total = |of: fn(&JobChange) -> f64| changes.iter().map(of).sum::<f64>();
    Some(SimulationError {
        jobs: errors.len(),
        median: percentile(&errors, 50.0)?,
        p90: percentile(&errors, 90.0)?,
        of_mean: total(|change| change.after_s) / total(|change| change.before_s) - 1.0,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::fixture;

    fn times(seconds: &[f64]) -> JobTimes {
        let time = |completion_s: &f64| {
            (*completion_s > 0.0).then(|| JobTime {
                completion_s: *completion_s,
                wait_s: Some(1.0),
                ..JobTime::default()
            })
        };
        JobTimes(seconds.iter().map(time).collect())
    }

    fn three_jobs() -> Workload {
        let mut workload = fixture::workload(3);
        workload.jobs[2].user = "ann".into();
        workload
    }

    #[test]
    fn only_jobs_of_both_runs_are_compared() {
        let (before, after) = (times(&[10.0, 0.0, 100.0]), times(&[5.0, 7.0, 100.5]));
        let jobs = JobTimes::in_all(&[&before, &after]);
        assert_eq!(jobs, [JobId(0), JobId(2)]);
        let changes = changes(&before, &after, &jobs);
        assert!(changes[0].is_faster() && !changes[0].is_slower());
        assert!(!changes[1].is_faster() && !changes[1].is_slower(), "half a percent is not noticeable");
        let workload = three_jobs();
        let users = by_group(&workload, &changes, |plan| plan.user.as_str(), |user| (*user).into());
        let row = |name: &str, before_mean_s, after_mean_s, faster| GroupChange {
            name: name.into(),
            jobs: 1,
            before_mean_s,
            after_mean_s,
            faster,
            slower: 0,
        };
        assert_eq!(users, [row("ann", 100.0, 100.5, 0), row("user", 10.0, 5.0, 1)]);
        let statistics = before.statistics(&jobs);
        assert_eq!((statistics.mean_s, statistics.p50_s, statistics.max_s), (Some(55.0), Some(10.0), Some(100.0)));
        assert_eq!((statistics.mean_wait_s, statistics.mean_slowdown), (Some(1.0), None));
    }

    #[test]
    fn a_loss_has_a_reason() {
        let workload = three_jobs();
        let before = times(&[10.0, 20.0, 30.0]);
        let mut after = times(&[40.0, 20.0, 30.0]);
        let first = after.0[0].as_mut().unwrap();
        (first.wait_s, first.early_ends) = (Some(12.0), 3);
        let jobs = JobTimes::in_all(&[&before, &after]);
        let all = losses(&workload, &before, &after, &changes(&before, &after, &jobs), 5);
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].reason,
            "its first map waited 12 s instead of 1 s; 2 of the jobs submitted later finished before it, instead of 0; 3 more maps ended early"
        );
    }

    #[test]
    fn the_error_of_a_simulation_has_no_sign() {
        let (recorded, simulated) = (times(&[10.0, 10.0, 10.0]), times(&[9.0, 12.0, 10.0]));
        let error = error_of(&recorded, &simulated, &JobTimes::in_all(&[&recorded])).unwrap();
        assert_eq!((error.jobs, (error.median * 100.0).round(), (error.p90 * 100.0).round()), (3, 10.0, 20.0));
        assert!((error.of_mean - 1.0 / 30.0).abs() < 1e-9);
        assert_eq!(error_of(&recorded, &simulated, &[]), None);
    }
}
