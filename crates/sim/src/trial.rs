//! A trial: one workload on one cluster with one seed, under any number of policies.
//!
//! What does not depend on the policy is worked out once: how long each job takes alone, and the lower bound no policy can beat. Every
//! run of a trial meets the same arrivals, sizes, placements, noise and failures.

use crate::bound;
use crate::cluster::{Cluster, Faults};
use crate::metrics::{Grouping, JobFigures, Metrics, Summary};
use crate::workload::{JobPlan, Workload};
use crate::{Observer, Simulation, Totals};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Policy, SetupError, Time};
use rustc_hash::FxHashMap;

/// Workloads with more different jobs than this have their time alone worked out by formula instead of by simulation.
const SHAPES_SIMULATED_MAX: usize = 64;

/// A workload on a cluster.
pub struct Trial {
    /// The cluster.
    pub cluster: Cluster,
    /// The workload.
    pub workload: Workload,
    /// Where chance begins.
    pub seed: u64,
    alone_s: Vec<f64>,
    bound_s: Option<f64>,
}

/// What one policy made of a trial.
pub struct Trialled {
    /// The figures.
    pub summary: Summary,
    /// The jobs that succeeded, in the order they finished.
    pub jobs: Vec<JobFigures>,
    /// What the run came to.
    pub totals: Totals,
}

impl Trial {
    /// Works out what does not depend on the policy.
    pub fn new(cluster: Cluster, workload: Workload, seed: u64) -> Trial {
        let alone_s = alone(&cluster, &workload, seed);
        let bound_s = bound::lower_bound(&cluster, &workload, seed).map(|bound| bound.mean_completion_s);
        Trial { cluster, workload, seed, alone_s, bound_s }
    }

    /// The size group of each job, by job number.
    pub fn groups(&self) -> Vec<u16> {
        self.workload.jobs.iter().map(|job| job.group).collect()
    }

    /// Runs the trial under a policy, with another observer looking on.
    pub fn run(&self, policy: &Policy, also: &mut impl Observer) -> Result<Trialled, SetupError> {
        let mut simulation = Simulation::new(&self.cluster, &self.workload, policy.clone(), self.seed)?;
        let groups = Grouping::listed(self.workload.groups.clone(), self.groups());
        let metrics = Metrics::new(&self.workload.tenants, groups, self.alone_s.clone());
        let mut observers = (metrics, also);
        let totals = simulation.run(&mut observers);
        let (metrics, _) = observers;
        let summary = metrics.summary(&policy.name, self.seed, self.bound_s);
        Ok(Trialled { summary, jobs: metrics.jobs().to_vec(), totals })
    }
}

/// By job number, the seconds from a job's first map to its end if it is alone on the cluster and nothing fails.
fn alone(cluster: &Cluster, workload: &Workload, seed: u64) -> Vec<f64> {
    let calm = Cluster { faults: Faults::default(), ..cluster.clone() };
    let mut shapes: FxHashMap<Shape, f64> = FxHashMap::default();
    let distinct = workload.jobs.iter().map(Shape::of).collect::<rustc_hash::FxHashSet<_>>().len();
    let seconds = |job: &JobPlan| {
        if distinct > SHAPES_SIMULATED_MAX {
            bound::alone_s(job, &calm)
        } else {
            simulate_alone(&calm, workload, job, seed)
        }
    };
    workload.jobs.iter().map(|job| *shapes.entry(Shape::of(job)).or_insert_with(|| seconds(job))).collect()
}

/// What makes two jobs alike.
#[derive(PartialEq, Eq, Hash)]
struct Shape([u64; 8]);

impl Shape {
    fn of(job: &JobPlan) -> Shape {
        Shape([
            u64::from(job.maps),
            job.map_bytes,
            job.map_compute.0,
            job.map_output_bytes,
            u64::from(job.reduces),
            job.reduce_compute.0,
            job.reduce_output_bytes,
            u64::from(job.slowstart_ppm),
        ])
    }
}

fn simulate_alone(cluster: &Cluster, workload: &Workload, job: &JobPlan, seed: u64) -> f64 {
    let only = JobPlan { id: JobId(0), submit: Time::ZERO, group: 0, ..job.clone() };
    let lonely = Workload { jobs: vec![only], groups: vec!["alone".into()], ..workload.clone() };
    let fifo = catalog::by_name("fifo").expect("in the catalogue");
    let mut metrics = Metrics::new(&lonely.tenants, Grouping::listed(lonely.groups.clone(), vec![0]), Vec::new());
    let Ok(mut simulation) = Simulation::new(cluster, &lonely, fifo, seed) else { return bound::alone_s(job, cluster) };
    simulation.run(&mut metrics);
    metrics.jobs().first().map_or_else(|| bound::alone_s(job, cluster), |figures| figures.execution_s)
}
