//! A comparison: one workload on one cluster with one seed, under any number of policies.
//!
//! What does not depend on the policy is computed once: the execution time of each job in isolation, and the lower bound. All runs of an
//! comparison have the same arrivals, sizes, replica placement, noise and failures.

use crate::cluster::{Cluster, Faults, NodeModel};
use crate::lower_bound::{self, estimate_isolated_s};
use crate::metrics::{Grouping, JobMetrics, Metrics, Summary};
use crate::workload::{JobPlan, Workload};
use crate::{Observer, RunStats, Simulation};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Kind, Policy, SetupError, Time};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Workloads with more distinct jobs than this have their isolated execution times estimated instead of simulated.
const MAX_SIMULATED_SHAPES: usize = 64;

/// A workload on a cluster, to be run under policies.
pub struct Comparison {
    /// Cluster of every run.
    pub cluster: Cluster,
    /// Workload of every run.
    pub workload: Workload,
    /// Random seed of every run.
    pub seed: u64,
    /// By job number, the execution time in isolation.
    isolated_s: Vec<f64>,
    lower_bound_s: Option<f64>,
}

/// The result of one run of a comparison.
pub struct PolicyResult {
    /// Metrics of the run.
    pub summary: Summary,
    /// Metrics of the jobs that succeeded, in the order of their completion.
    pub jobs: Vec<JobMetrics>,
    /// Statistics of the simulation.
    pub stats: RunStats,
}

impl Comparison {
    /// Computes what does not depend on the policy. May simulate each distinct job in isolation.
    pub fn new(cluster: Cluster, workload: Workload, seed: u64) -> Comparison {
        let isolated_s = isolated_execution_s(&cluster, &workload, seed);
        let lower_bound_s = lower_bound::lower_bound(&cluster, &workload, seed).map(|bound| bound.mean_completion_s);
        Comparison { cluster, workload, seed, isolated_s, lower_bound_s }
    }

    /// As [`Comparison::new`], without the lower bound, and with estimated execution times in isolation: for many comparisons of one workload.
    pub fn without_bound(cluster: Cluster, workload: Workload, seed: u64) -> Comparison {
        let isolated_s = lower_bound::estimate_all_isolated_s(&cluster, &workload);
        Comparison { cluster, workload, seed, isolated_s, lower_bound_s: None }
    }

    /// The size group of each job, by job number.
    pub fn groups(&self) -> Vec<u16> {
        self.workload.jobs.iter().map(|job| job.group).collect()
    }

    /// Runs the comparison under a policy, with an additional observer.
    pub fn run(&self, policy: &Policy, observer: &mut impl Observer) -> Result<PolicyResult, SetupError> {
        self.run_while(policy, observer, || true)
    }

    /// The same, but ends between two events when `goes_on` is false. Then the jobs that have not ended count as unfinished.
    pub fn run_while(
        &self,
        policy: &Policy,
        observer: &mut impl Observer,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<PolicyResult, SetupError> {
        let mut simulation = Simulation::new(&self.cluster, &self.workload, policy.clone(), self.seed)?;
        let groups = Grouping::listed(self.workload.groups.clone(), self.groups());
        let metrics = Metrics::new(&self.workload.tenants, groups, self.isolated_s.clone());
        let mut observers = (metrics, observer);
        while goes_on() && simulation.step(&mut observers) {}
        let stats = simulation.stats();
        let (metrics, _) = observers;
        let summary = metrics.summary(&policy.name, self.seed, self.lower_bound_of(metrics.jobs()));
        Ok(PolicyResult { summary, jobs: metrics.jobs().to_vec(), stats })
    }
}

impl Comparison {
    /// The lower bound of the jobs that succeeded, because their mean is what it is compared with. Without the others no job ends later.
    fn lower_bound_of(&self, succeeded: &[JobMetrics]) -> Option<f64> {
        let bound_s = self.lower_bound_s?;
        if succeeded.len() == self.workload.jobs.len() {
            return Some(bound_s);
        }
        let numbers: FxHashSet<JobId> = succeeded.iter().map(|job| job.job).collect();
        let mut workload = self.workload.clone();
        workload.jobs.retain(|plan| numbers.contains(&plan.id));
        Some(lower_bound::lower_bound(&self.cluster, &workload, self.seed)?.mean_completion_s)
    }
}

/// By job number, the time from a job's first map to its end if it is alone on the cluster and nothing fails.
///
/// Where nodes differ in speed or tasks straggle it is estimated: under `fifo` a job that is alone would wait for its last tasks on slow nodes, and be slower than
/// under any other policy with all the other jobs.
fn isolated_execution_s(cluster: &Cluster, workload: &Workload, seed: u64) -> Vec<f64> {
    let reliable = Cluster { faults: Faults::default(), ..cluster.clone() };
    let distinct = workload.jobs.iter().map(Shape::of).collect::<FxHashSet<_>>().len();
    let speed = |node: &NodeModel| node.spec.speed_ppm;
    let differs = cluster.nodes.windows(2).any(|pair| speed(&pair[0]) != speed(&pair[1]));
    if distinct > MAX_SIMULATED_SHAPES || differs || cluster.stragglers.share > 0.0 {
        return lower_bound::estimate_all_isolated_s(cluster, workload);
    }
    let mut shapes: FxHashMap<Shape, f64> = FxHashMap::default();
    let seconds = |job: &JobPlan| simulate_isolated_s(&reliable, workload, job, seed);
    workload.jobs.iter().map(|job| *shapes.entry(Shape::of(job)).or_insert_with(|| seconds(job))).collect()
}

/// The properties of a job that determine its execution time in isolation.
#[derive(PartialEq, Eq, Hash)]
struct Shape([u64; 8], [Arc<[u64]>; 2]);

impl Shape {
    fn of(job: &JobPlan) -> Shape {
        let numbers = [
            u64::from(job.maps),
            job.map_bytes,
            job.map_compute.0,
            job.map_output_bytes,
            u64::from(job.reduces),
            job.reduce_compute.0,
            job.reduce_output_bytes,
            u64::from(job.slowstart_ppm),
        ];
        Shape(numbers, Kind::BOTH.map(|kind| job.relative_ppm[kind].clone()))
    }
}

fn simulate_isolated_s(cluster: &Cluster, workload: &Workload, job: &JobPlan, seed: u64) -> f64 {
    let plan = JobPlan { id: JobId(0), submit: Time::ZERO, group: 0, ..job.clone() };
    let isolated = Workload { jobs: vec![plan], groups: vec!["isolated".into()], ..workload.clone() };
    let fifo = catalog::by_name("fifo").expect("`fifo` is in the catalogue");
    let groups = Grouping::listed(isolated.groups.clone(), vec![0]);
    let mut metrics = Metrics::new(&isolated.tenants, groups, Vec::new());
    let Ok(mut simulation) = Simulation::new(cluster, &isolated, fifo, seed) else {
        return estimate_isolated_s(job, cluster);
    };
    simulation.run(&mut metrics);
    metrics.jobs().first().map_or_else(|| estimate_isolated_s(job, cluster), |metrics| metrics.execution_s)
}
