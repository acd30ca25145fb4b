//! Where experiments are run: cases in, what each policy made of each seed out.
//!
//! A paper's file says which cases it needs ([`Case`]) and later reads what came of them ([`Runs`]). In between every case runs under every seed,
//! all policies of a case on the same jobs, the same data and the same accidents.

use super::watch::{Watch, Watched};
use crate::parallel;
use anyhow::{Context, Result, ensure};
use giveway_core::policy::catalog;
use giveway_core::{Capabilities, Event, Policy, Scheduler, Setup, Time};
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::comparison::Comparison;
use giveway_sim::metrics::{GroupMetrics, JobMetrics, Summary};
use giveway_sim::workload::{self, Workload};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::time::Instant;

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Seeds of the comparisons that headlines rest on.
    pub seeds: u32,
    /// Seeds of each point of a curve.
    pub sweep_seeds: u32,
    /// Fewer points on each curve.
    pub quick: bool,
}

impl Scale {
    /// All of these points, or only those at these places if it should be quick.
    pub fn points<T: Copy>(&self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.quick { quick.into() } else { all.into() }
    }
}

/// Changes a cluster and a workload before they are used.
type Change = Box<dyn Fn(&mut Cluster, &mut Workload) + Send + Sync>;

/// A workload on a cluster under some policies.
pub struct Case {
    name: String,
    workload: String,
    cluster: Option<String>,
    change: Option<Change>,
    policies: Vec<Policy>,
    seeds: u32,
    watch: Watch,
}

impl Case {
    /// A named workload on its own cluster under policies of the catalogue.
    pub fn new(name: impl Into<String>, workload: impl Into<String>, policies: &[&str], seeds: u32) -> Case {
        let policies = policies.iter().map(|name| catalog::by_name(name).expect("a policy of the catalogue")).collect();
        Case {
            name: name.into(),
            workload: workload.into(),
            cluster: None,
            change: None,
            policies,
            seeds,
            watch: Watch::default(),
        }
    }

    /// On another named cluster.
    pub fn on(self, cluster: impl Into<String>) -> Case {
        Case { cluster: Some(cluster.into()), ..self }
    }

    /// With cluster and workload changed, for every policy alike.
    pub fn with(self, change: impl Fn(&mut Cluster, &mut Workload) + Send + Sync + 'static) -> Case {
        Case { change: Some(Box::new(change)), ..self }
    }

    /// Under policies that are in no catalogue, too.
    pub fn and_under(mut self, policies: impl IntoIterator<Item = Policy>) -> Case {
        self.policies.extend(policies);
        self
    }

    /// With somebody who looks closer.
    pub fn watched(self, watch: Watch) -> Case {
        Case { watch, ..self }
    }

    fn trial(&self, seed: u64) -> Result<Comparison> {
        let mut workload = workload::by_name(&self.workload, seed)?;
        let own = || workload::default_cluster_for(&self.workload).context("a workload without a cluster");
        let mut cluster = cluster::by_name(self.cluster.as_deref().map_or_else(own, Ok)?)?;
        if let Some(change) = &self.change {
            change(&mut cluster, &mut workload);
        }
        Ok(Comparison::new(cluster, workload, seed))
    }

    fn run(&self, seed: u64) -> Result<Vec<Run>> {
        let trial = self.trial(seed)?;
        let under = |policy: &Policy| {
            let mut watched = Watched::new(self.watch, &trial);
            let trialled = trial.run(policy, &mut watched)?;
            let left = trialled.stats.jobs_unfinished;
            ensure!(left == 0, "{}: {} left {left} jobs unfinished with seed {seed}", self.name, policy.name);
            let events = watched.take_events();
            let decided_s =
                events.map(|events| decision_times(&trial, policy, &events)).transpose()?.unwrap_or_default();
            Ok(Run { summary: trialled.summary, jobs: trialled.jobs, watched, decided_s })
        };
        self.policies.iter().map(under).collect()
    }
}

/// How long the core takes for its decisions up to each job's submission, and to the end: the same events once more, with nothing else between them.
fn decision_times(trial: &Comparison, policy: &Policy, events: &[(Time, Event)]) -> Result<Vec<f64>> {
    let setup = Setup {
        policy: policy.clone(),
        tenants: trial.workload.tenants.clone(),
        capabilities: Capabilities::ALL,
        seed: trial.seed,
    };
    let mut scheduler = Scheduler::new(setup)?;
    let mut actions = Vec::new();
    let (mut times, began) = (Vec::new(), Instant::now());
    for (now, event) in events {
        if matches!(event, Event::JobSubmitted(_)) {
            times.push(began.elapsed().as_secs_f64());
        }
        actions.clear();
        scheduler.handle(*now, event, &mut actions);
    }
    times.push(began.elapsed().as_secs_f64());
    Ok(times)
}

/// One policy under one seed, over.
pub struct Run {
    /// The figures.
    pub summary: Summary,
    /// The jobs, in the order they finished.
    pub jobs: Vec<JobMetrics>,
    /// What somebody who looked closer saw.
    pub watched: Watched,
    /// How long decisions took up to each job's submission, and at last all of them, if that was asked for.
    pub decided_s: Vec<f64>,
}

impl Run {
    /// Mean completion of all jobs.
    pub fn completion(&self) -> f64 {
        self.summary.key_metrics.mean_completion_s.unwrap_or(f64::NAN)
    }

    /// A size group.
    pub fn group(&self, name: &str) -> &GroupMetrics {
        &self.summary.groups.iter().find(|(group, _)| group == name).expect("a group of the workload").1
    }

    /// Mean completion of a size group.
    pub fn group_completion(&self, name: &str) -> f64 {
        self.group(name).key_metrics.mean_completion_s.unwrap_or(f64::NAN)
    }
}

/// What came of all cases: by case, then by policy, seed by seed.
pub struct Runs(BTreeMap<String, Vec<(String, Vec<Run>)>>);

impl Runs {
    /// Runs everything, in parallel; `bar` moves with every case and seed.
    pub fn of(cases: &[Case], bar: &ProgressBar) -> Result<Runs> {
        let work: Vec<(&Case, u64)> =
            cases.iter().flat_map(|case| (1..=u64::from(case.seeds)).map(move |seed| (case, seed))).collect();
        bar.set_length(work.len() as u64);
        let done = parallel::map(&work, |(case, seed)| {
            let run = case.run(*seed).with_context(|| format!("case {}, seed {seed}", case.name));
            bar.inc(1);
            run
        });
        let mut runs = Runs(BTreeMap::new());
        for ((case, _), done) in work.iter().zip(done) {
            let cell = runs
                .0
                .entry(case.name.clone())
                .or_insert_with(|| case.policies.iter().map(|policy| (policy.name.clone(), Vec::new())).collect());
            for ((_, seeds), run) in cell.iter_mut().zip(done?) {
                seeds.push(run);
            }
        }
        Ok(runs)
    }

    /// The seeds of one policy in one case.
    pub fn get(&self, case: &str, policy: &str) -> &[Run] {
        let cell = self.0.get(case).unwrap_or_else(|| panic!("case {case} was not run"));
        let found = cell.iter().find(|(name, _)| name == policy);
        &found.unwrap_or_else(|| panic!("case {case} was not run under {policy}")).1
    }

    /// A figure of every seed.
    pub fn each(&self, case: &str, policy: &str, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.get(case, policy).iter().map(figure).collect()
    }

    /// By how much a figure changes from one policy to another, as a part of 1, seed by seed.
    pub fn change(&self, case: &str, from: &str, to: &str, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let (from, to) = (self.each(case, from, &figure), self.each(case, to, &figure));
        from.iter().zip(to).map(|(from, to)| to / from - 1.0).collect()
    }
}
