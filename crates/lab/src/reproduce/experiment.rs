//! Runs the cases of an experiment.
//!
//! A paper's file lists [`Case`]s and evaluates the resulting [`Runs`]. Every case runs once per seed and policy. All policies of a case and
//! seed get the same jobs, the same block placement and the same failures.

use super::observation::{ObservationOptions, RunObserver};
use anyhow::{Context, Result, ensure};
use giveway_core::policy::catalog;
use giveway_core::{Capabilities, Event, Policy, Scheduler, Setup, Time};
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::comparison::Comparison;
use giveway_sim::metrics::{GroupMetrics, JobMetrics, Summary};
use giveway_sim::workload::{self, Workload};
use indicatif::ProgressBar;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// Number of seeds and of points per curve.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Seeds of the comparisons behind headlines.
    pub seeds: u32,
    /// Seeds of each point of a curve and of each row of a sensitivity table.
    pub sweep_seeds: u32,
    /// Run fewer points of each curve.
    pub quick: bool,
}

impl Scale {
    /// The points of a curve: `quick` in a quick run, otherwise `all`.
    pub fn points<T: Copy>(&self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.quick { quick.into() } else { all.into() }
    }
}

/// Decision times are measured for this many seeds: each takes a second run, and they vary little.
pub const TIMED_SEEDS: u64 = 3;

/// Changes a cluster and a workload before a run.
type Modification = Box<dyn Fn(&mut Cluster, &mut Workload) + Send + Sync>;

/// A workload on a cluster under several policies.
pub struct Case {
    name: String,
    workload: String,
    cluster: Option<String>,
    modifications: Vec<Modification>,
    policies: Vec<Policy>,
    seeds: u32,
    observation: ObservationOptions,
}

impl Case {
    /// A named workload on its default cluster under policies of the catalogue. Panics if the catalogue lacks a policy.
    pub fn new(name: impl Into<String>, workload: impl Into<String>, policies: &[&str], seeds: u32) -> Case {
        let policies = policies.iter().map(|name| catalog::by_name(name).expect("a policy of the catalogue")).collect();
        Case {
            name: name.into(),
            workload: workload.into(),
            cluster: None,
            modifications: Vec::new(),
            policies,
            seeds,
            observation: ObservationOptions::default(),
        }
    }

    /// Replaces the workload's default cluster by another named cluster.
    pub fn on_cluster(self, cluster: impl Into<String>) -> Case {
        Case { cluster: Some(cluster.into()), ..self }
    }

    /// Applies a change to cluster and workload, after those before it, the same for every policy.
    pub fn modified(mut self, modification: impl Fn(&mut Cluster, &mut Workload) + Send + Sync + 'static) -> Case {
        self.modifications.push(Box::new(modification));
        self
    }

    /// Adds policies that are not in the catalogue.
    pub fn with_policies(mut self, policies: impl IntoIterator<Item = Policy>) -> Case {
        self.policies.extend(policies);
        self
    }

    /// Records more than the run's summary.
    pub fn observed(self, observation: ObservationOptions) -> Case {
        Case { observation, ..self }
    }

    fn trial(&self, seed: u64) -> Result<Comparison> {
        let mut workload = workload::by_name(&self.workload, seed)?;
        let default_cluster = || {
            workload::default_cluster_for(&self.workload)
                .with_context(|| format!("workload `{}` has no default cluster", self.workload))
        };
        let mut cluster = cluster::by_name(self.cluster.as_deref().map_or_else(default_cluster, Ok)?)?;
        for modify in &self.modifications {
            modify(&mut cluster, &mut workload);
        }
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
    /// Mean completion time of all jobs, in seconds; NaN if none finished.
    pub fn completion_s(&self) -> f64 {
        self.summary.key_metrics.mean_completion_s.unwrap_or(f64::NAN)
    }

    /// The figures of a size group. Panics if the workload has no such group.
    pub fn group(&self, name: &str) -> &GroupMetrics {
        &self.summary.groups.iter().find(|(group, _)| group == name).expect("a size group of the workload").1
    }

    /// Mean completion time of a size group, in seconds; NaN if none of its jobs finished.
    pub fn group_completion_s(&self, name: &str) -> f64 {
        self.group(name).key_metrics.mean_completion_s.unwrap_or(f64::NAN)
    }
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

    /// A figure for each seed.
    pub fn values(&self, case: &str, policy: &str, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.get(case, policy).iter().map(figure).collect()
    }

    /// The relative change of a figure from one policy to another (0.1 is 10 % more), for each seed.
    pub fn change(&self, case: &str, from: &str, to: &str, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let (from, to) = (self.values(case, from, &figure), self.values(case, to, &figure));
        from.iter().zip(to).map(|(from, to)| to / from - 1.0).collect()
    }
}
