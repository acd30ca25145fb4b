//! Runs the cases of an experiment.
//!
//! A paper's file lists [`Case`]s; its claims, tables and figures are quantities of the resulting [`Runs`]. Every case runs once per seed and policy. All policies of a case and
//! seed get the same jobs, the same block placement and the same failures.

use super::changes::Changes;
use super::observation::{ObservationOptions, RunObserver};
use super::recovery::BaseOrder;
use anyhow::{Context, Result, ensure};
use giveway_core::{Capabilities, Event, JobId, Policy, Scheduler, Setup, Time};
use giveway_sim::cluster;
use giveway_sim::comparison::Comparison;
use giveway_sim::metrics::{GroupMetrics, JobMetrics, Summary};
use giveway_sim::workload;
use indicatif::ProgressBar;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// Decision times are measured for this many seeds: each takes a second run, and they vary little.
pub const TIMED_SEEDS: u64 = 3;

/// A workload on a cluster under several policies.
pub struct Case {
    pub name: String,
    pub workload: String,
    /// The workload's default cluster if absent.
    pub cluster: Option<String>,
    /// Applied to cluster and workload, the same for every policy.
    pub changes: Changes,
    pub policies: Vec<Policy>,
    pub seeds: u32,
    /// What to record beside the run's summary.
    pub observation: ObservationOptions,
}

impl Case {
    fn trial(&self, seed: u64) -> Result<Comparison> {
        let mut workload = workload::by_name(&self.workload, seed)?;
        let default_cluster = || {
            workload::default_cluster_for(&self.workload)
                .with_context(|| format!("workload `{}` has no default cluster", self.workload))
        };
        let mut cluster = cluster::by_name(self.cluster.as_deref().map_or_else(default_cluster, Ok)?)?;
        self.changes.apply(&mut cluster, &mut workload, seed)?;
        Ok(Comparison::new(cluster, workload, seed))
    }

    /// Runs one seed under every policy, in the order of the policies. Fails if a policy leaves jobs unfinished.
    fn run(&self, seed: u64) -> Result<Vec<Run>> {
        let trial = self.trial(seed)?;
        let timed = self.observation.decision_times && seed <= TIMED_SEEDS;
        let run = |policy: &Policy| {
            let mut observed =
                RunObserver::new(ObservationOptions { decision_times: timed, ..self.observation }, &trial);
            let result = trial.run(policy, &mut observed)?;
            let unfinished = result.stats.jobs_unfinished;
            ensure!(unfinished == 0, "{}: {unfinished} jobs unfinished under {}, seed {seed}", self.name, policy.name);
            let events = observed.take_events();
            let decision_s =
                events.map(|events| decision_times(&trial, policy, &events)).transpose()?.unwrap_or_default();
            Ok(Run { summary: result.summary, jobs: result.jobs, observed, decision_s })
        };
        self.policies.iter().map(run).collect()
    }
}

/// Wall-clock seconds that the scheduler core needs for a run's events: cumulative up to each job's submission, and the total last. The
/// events are replayed without a backend, so that nothing else is timed.
fn decision_times(trial: &Comparison, policy: &Policy, events: &[(Time, Event)]) -> Result<Vec<f64>> {
    let setup = Setup {
        policy: policy.clone(),
        tenants: trial.workload.tenants.clone(),
        capabilities: Capabilities::ALL,
        seed: trial.seed,
    };
    let mut scheduler = Scheduler::new(setup)?;
    let mut actions = Vec::new();
    let (mut times_s, start) = (Vec::new(), Instant::now());
    for (now, event) in events {
        if matches!(event, Event::JobSubmitted(_)) {
            times_s.push(start.elapsed().as_secs_f64());
        }
        actions.clear();
        scheduler.handle(*now, event, &mut actions);
    }
    times_s.push(start.elapsed().as_secs_f64());
    Ok(times_s)
}

/// The results of one policy with one seed.
pub struct Run {
    /// Metrics of all jobs and by size group.
    pub summary: Summary,
    /// Metrics of each job, in order of completion.
    pub jobs: Vec<JobMetrics>,
    /// What the case's observation options selected.
    pub observed: RunObserver,
    /// Cumulative decision time in seconds at each job's submission, and the total last. Empty unless the case selected it, and beyond
    /// [`TIMED_SEEDS`].
    pub decision_s: Vec<f64>,
}

impl Run {
    /// A figure of all jobs or of a size group: a field of the summary or one of those below. NaN if it has no value. Panics if there is no such
    /// figure.
    pub fn figure(&self, metric: &str, group: Option<&str>) -> f64 {
        let job = group.and_then(|group| self.group(group)).map(|(number, _)| JobId(number as u32));
        if let Some(jobs) = metric.strip_prefix("completion_s_of_first_").and_then(|jobs| jobs.parse().ok()) {
            return self.mean_completion_of_first_s(jobs);
        }
        if let Some(jobs) = metric.strip_prefix("decision_ms_at_").and_then(|jobs| jobs.parse::<usize>().ok()) {
            return self.decision_s.get(jobs).map_or(f64::NAN, |seconds| seconds * 1e3);
        }
        let decision_s = self.decision_s.last().copied().unwrap_or(f64::NAN);
        match metric {
            "decision_ms" => decision_s * 1e3,
            "decision_share" => decision_s / self.figure("mean_completion_s", None),
            "pauses_per_job" => self.figure("pauses", group) / self.figure("jobs", group).max(1.0),
            // Each job of the failure experiments is a group of its own.
            "last_recovery_wait_s" => self.observed.recovery().max_wait_s(job),
            "fifo_violated_s" => self.observed.recovery().violated_s(BaseOrder::Submission),
            "fair_violated_s" => self.observed.recovery().violated_s(BaseOrder::EqualShares),
            _ => self.summary_figure(metric, group),
        }
    }

    /// Values of all jobs, or of a group's: a field of [`JobMetrics`], or `task_s`, the duration of each finished task.
    pub fn distribution(&self, metric: &str, group: Option<&str>) -> Vec<f64> {
        if metric == "task_s" {
            return self.observed.recovery().task_s().to_vec();
        }
        let group = group.and_then(|group| self.group(group)).map(|(number, _)| number);
        let jobs = self.jobs.iter().filter(|job| group.is_none_or(|group| usize::from(job.group) == group));
        jobs.map(|job| number(&serde_json::to_value(job).unwrap_or_default(), metric)).collect()
    }

    /// The number of a size group and its figures.
    fn group(&self, name: &str) -> Option<(usize, &GroupMetrics)> {
        let (at, (_, metrics)) = self.summary.groups.iter().enumerate().find(|(_, (group, _))| group == name)?;
        Some((at, metrics))
    }

    fn summary_figure(&self, metric: &str, group: Option<&str>) -> f64 {
        let figures = match group {
            None => serde_json::to_value(&self.summary),
            Some(name) => serde_json::to_value(self.group(name).unwrap_or_else(|| panic!("no size group `{name}`")).1),
        };
        number(&figures.unwrap_or_default(), metric)
    }

    /// Mean completion time of the first submitted jobs, in seconds.
    fn mean_completion_of_first_s(&self, jobs: usize) -> f64 {
        let first = self.jobs.iter().filter(|job| (job.job.0 as usize) < jobs);
        first.map(|job| job.completion_s).sum::<f64>() / jobs as f64
    }
}

/// A number in an object; NaN for null.
fn number(object: &serde_json::Value, name: &str) -> f64 {
    let value = object.get(name).unwrap_or_else(|| panic!("no figure `{name}`"));
    value.as_f64().unwrap_or(f64::NAN)
}

/// The runs of all cases: by case, then by policy, in the order of the seeds.
pub struct Runs(BTreeMap<String, Vec<(String, Vec<Run>)>>);

impl Runs {
    /// Runs all cases, in parallel. `bar` advances with each case and seed.
    pub fn execute(cases: &[Case], bar: &ProgressBar) -> Result<Runs> {
        let work: Vec<(&Case, u64)> =
            cases.iter().flat_map(|case| (1..=u64::from(case.seeds)).map(move |seed| (case, seed))).collect();
        bar.set_length(work.len() as u64);
        let run_case = |(case, seed): &(&Case, u64)| {
            let result = case.run(*seed).with_context(|| format!("case {}, seed {seed}", case.name));
            bar.inc(1);
            result
        };
        let results: Vec<_> = work.par_iter().with_max_len(1).map(run_case).collect();
        let mut runs = Runs(BTreeMap::new());
        for ((case, _), result) in work.iter().zip(results) {
            let by_policy = runs
                .0
                .entry(case.name.clone())
                .or_insert_with(|| case.policies.iter().map(|policy| (policy.name.clone(), Vec::new())).collect());
            for ((_, seeds), run) in by_policy.iter_mut().zip(result?) {
                seeds.push(run);
            }
        }
        Ok(runs)
    }

    /// The runs of one policy in one case, one per seed. Panics if the case did not run under that policy.
    pub fn get(&self, case: &str, policy: &str) -> &[Run] {
        let by_policy = self.0.get(case).unwrap_or_else(|| panic!("case {case} was not run"));
        let found = by_policy.iter().find(|(name, _)| name == policy);
        &found.unwrap_or_else(|| panic!("case {case} was not run under {policy}")).1
    }

    /// One run without any event for every case and policy.
    #[cfg(test)]
    pub fn without_events(cases: &[Case]) -> Result<Runs> {
        use giveway_sim::metrics::{Grouping, Metrics};
        let of_case = |case: &Case| {
            let trial = case.trial(1)?;
            let run = |policy: &Policy| {
                let groups = Grouping::listed(trial.workload.groups.clone(), trial.groups());
                let summary = Metrics::new(&trial.workload.tenants, groups, Vec::new()).summary(&policy.name, 1, None);
                let observed = RunObserver::new(case.observation, &trial);
                (policy.name.clone(), vec![Run { summary, jobs: Vec::new(), observed, decision_s: Vec::new() }])
            };
            Ok((case.name.clone(), case.policies.iter().map(run).collect()))
        };
        Ok(Runs(cases.iter().map(of_case).collect::<Result<_>>()?))
    }
}
