//! Forecasts: when jobs start and end, by running the simulator forward from the present.
//!
//! The present state becomes a workload: the tasks that each live job has left, with their estimated times, on the nodes that are up. What running attempts
//! have done is taken off, and all slots are assigned anew at the present instant, as the policy would. Each of several runs draws an error for the
//! task times of each job, larger if they are known from other jobs only, and times that differ from task to task. The median over the runs is the forecast, the
//! 5th and 95th percentile are its interval. Jobs that will be submitted are drawn too, from the recent ones (`arrivals.rs`).

use crate::arrivals::Arrivals;
use crate::model::{JobRow, Model};
use crate::task_times::task_time;
use giveway_core::{Action, Event, JobId, Kind, PerKind, Policy, Scheduler, Span, Time, WHOLE_PPM};
use giveway_sim::cluster::{Cluster, HeartbeatMode};
use giveway_sim::workload::{self, JobPlan, Workload};
use giveway_sim::{Observer, Simulation};
use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs of one forecast.
pub const RUNS: u64 = 16;

/// Relative spread of the times of a job's tasks.
const TASK_NOISE: f64 = 0.2;

/// A task is not taken to be shorter than this.
const TASK_TIME_MIN: Span = Span::from_millis(1);

/// Reduces start when this part of the maps is done.
const SLOWSTART_PPM: u32 = 50_000;

/// 5th, 50th and 95th percentile.
pub type Interval = [Time; 3];

/// The forecast of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobForecast {
    /// When its first task starts; none if it has started.
    pub start: Option<Interval>,
    /// When it ends; none if it ended in fewer than all runs.
    pub end: Option<Interval>,
}

/// The forecasts of all live jobs.
#[derive(Clone, Debug, Default)]
pub struct Forecasts {
    /// When they were made.
    pub at: Time,
    /// Runs that they are based on.
    pub runs: u64,
    pub jobs: BTreeMap<JobId, JobForecast>,
}

/// A live job, as a forecast needs it.
#[derive(Clone, Debug)]
struct LiveJob {
    id: JobId,
    started: bool,
    plan: JobPlan,
    /// By kind, the standard deviation of the logarithm of the error of its task time.
    error: [f64; 2],
}

/// The present state of a cluster. Made while the model is locked, used without.
#[derive(Clone, Debug)]
pub struct Present {
    now: Time,
    jobs: Vec<LiveJob>,
    arrivals: Arrivals,
    cluster: Cluster,
    tenants: giveway_core::Tenants,
    /// The policy in use.
    pub policy: Policy,
}

impl Present {
    /// The present state; none without a node that is up or a live job.
    pub fn of(model: &Model) -> Option<Present> {
        let scheduler = model.scheduler();
        let nodes: Vec<_> = scheduler.nodes().filter(|node| node.up).map(|node| node.spec.clone()).collect();
        let speeds = nodes.iter().map(|node| f64::from(node.speed_ppm) / f64::from(WHOLE_PPM));
        let speed = speeds.sum::<f64>() / nodes.len().max(1) as f64;
        let mut jobs: Vec<LiveJob> =
            scheduler.running_jobs().filter_map(|job| LiveJob::of(model, scheduler, job, speed)).collect();
        jobs.sort_by_key(|job| (job.plan.submit, job.id));
        // The order of arrival stays, the distance does not: all are there now.
        jobs.iter_mut().for_each(|job| job.plan.submit = Time::ZERO);
        if jobs.is_empty() || nodes.is_empty() {
            return None;
        }
        let mut cluster = workload::recorded_cluster("the present nodes", nodes, HeartbeatMode::Immediate);
        cluster.noise = TASK_NOISE;
        let setup = scheduler.setup();
        let (tenants, policy) = (setup.tenants.clone(), setup.policy.clone());
        Some(Present { now: model.now, jobs, arrivals: Arrivals::of(model, speed), cluster, tenants, policy })
    }

    /// Forecasts under a policy. Stops after `limit` with the runs made so far, at least one.
    pub fn forecast(&self, policy: &Policy, limit: Duration) -> Forecasts {
        let started = Instant::now();
        let mut samples: Vec<[Vec<Time>; 2]> = vec![Default::default(); self.jobs.len()];
        let mut runs = 0;
        for seed in 0..RUNS {
            let Some(observed) = self.run(policy.clone(), seed) else { break };
            runs += 1;
            for (sample, observed) in samples.iter_mut().zip(observed) {
                sample[0].extend(observed[0]);
                sample[1].extend(observed[1]);
            }
            if started.elapsed() > limit {
                break;
            }
        }
        let jobs = self.jobs.iter().zip(samples).map(|(job, [starts, ends])| {
            let interval = |times: Vec<Time>| (times.len() as u64 == runs).then(|| interval(times, self.now)).flatten();
            let start = if job.started { None } else { interval(starts) };
            (job.id, JobForecast { start, end: interval(ends) })
        });
        Forecasts { at: self.now, runs, jobs: jobs.collect() }
    }

    /// One run: for each job when it started and when it ended, from now.
    fn run(&self, policy: Policy, seed: u64) -> Option<Vec<[Option<Time>; 2]>> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let plans = self.jobs.iter().map(|job| {
            let mut plan = job.plan.clone();
            let [map, reduce] =
                job.error.map(|error| LogNormal::new(0.0, error).map_or(1.0, |error| error.sample(&mut rng)));
            plan.map_compute = plan.map_compute.scaled(map).max(TASK_TIME_MIN);
            plan.reduce_compute = plan.reduce_compute.scaled(reduce).max(TASK_TIME_MIN);
            plan
        });
        // The live jobs come first, so that they keep their numbers.
        let mut plans: Vec<JobPlan> = plans.collect();
        let live_tasks = plans.iter().map(|plan| u64::from(plan.maps) + u64::from(plan.reduces)).sum();
        plans.extend(self.arrivals.draw(live_tasks, &mut rng));
        let workload = Workload::from_jobs("present and later jobs", self.tenants.clone(), plans);
        // Only COSHH reads hints; without them it would predict from an empty history.
        let workload = Workload { hints: true, ..workload };
        let mut simulation = Simulation::new(&self.cluster, &workload, policy, seed).ok()?;
        let mut observed = Observed { jobs: vec![[None; 2]; self.jobs.len()], ended: 0 };
        while observed.ended < self.jobs.len() && simulation.step(&mut observed) {}
        Some(observed.jobs)
    }
}

impl LiveJob {
    /// What is left of a job. Observed times are those on nodes of this mean speed; the simulator needs those at speed 1.
    fn of(model: &Model, scheduler: &Scheduler, id: JobId, speed: f64) -> Option<LiveJob> {
        let (row, state) = (model.job(id)?, scheduler.state());
        let job = state.job(state.find(id)?);
        let time = Kind::BOTH.map(|kind| task_time(model, row, job, kind));
        let mean = |kind: Kind| time[kind.index()].mean;
        let left = Kind::BOTH.map(|kind| job.left(kind));
        // What running tasks have done is taken off the times of all that are left.
        let compute = Kind::BOTH.map(|kind| {
            let mean_s = mean(kind).as_secs_f64().max(1e-6);
            let running = model.running().filter(|one| one.id.task.job == id && one.id.task.kind == kind);
            let worked = running.map(|one| row.worked(kind, one.launched, model.now).as_secs_f64());
            let done: f64 = worked.map(|worked_s| (worked_s / mean_s).min(0.9)).sum();
            mean(kind).scaled(speed * (1.0 - done / f64::from(left[kind.index()].max(1))).max(0.1))
        });
        let plan = plan(row, left, compute, job.may_start(Kind::Reduce));
        Some(LiveJob { id, started: row.started.is_some(), plan, error: time.map(|time| time.error) })
    }
}

/// A job with this many tasks of these times at speed 1.
pub(crate) fn plan(row: &JobRow, tasks: [u32; 2], compute: [Span; 2], reduces_may_start: bool) -> JobPlan {
    JobPlan {
        id: row.id,
        name: row.name.clone(),
        user: row.user.clone(),
        pool: row.pool.clone(),
        priority: row.priority,
        submit: row.submitted,
        group: 0,
        // The simulator needs at least one map; a job without any left gets one that takes no time.
        maps: tasks[0].max(1),
        map_bytes: 1,
        map_compute: if tasks[0] == 0 { TASK_TIME_MIN } else { compute[0].max(TASK_TIME_MIN) },
        map_output_bytes: 1,
        reduces: tasks[1],
        reduce_compute: compute[1].max(TASK_TIME_MIN),
        reduce_output_bytes: 1,
        slowstart_ppm: if reduces_may_start { 0 } else { SLOWSTART_PPM },
        relative_ppm: PerKind::default(),
        input: None,
    }
}

/// What happened to the live jobs.
struct Observed {
    /// By job, its start and its end.
    jobs: Vec<[Option<Time>; 2]>,
    ended: usize,
}

impl Observer for Observed {
    fn observe(&mut self, now: Time, _event: &Event, actions: &[Action]) {
        for action in actions {
            let (job, which) = match action {
                Action::Launch { attempt, .. } => (attempt.task.job, 0),
                Action::CloseJob { job, .. } => (*job, 1),
                _ => continue,
            };
            if let Some(times) = self.jobs.get_mut(job.0 as usize) {
                self.ended += usize::from(which == 1 && times[1].is_none());
                times[which].get_or_insert(now);
            }
        }
    }
}

fn interval(mut times: Vec<Time>, now: Time) -> Option<Interval> {
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    let at = |quantile: f64| times.get((quantile * last as f64).round() as usize).copied().unwrap_or(Time::ZERO);
    Some([0.05, 0.5, 0.95].map(|quantile| now + at(quantile).since(Time::ZERO)))
}
