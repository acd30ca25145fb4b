//! Forecasts: when jobs start and end, by running the simulator forward from the present.
//!
//! Each run continues from a snapshot of the scheduler: what runs goes on where it runs, what is reserved stays so, and what is done is done. A run draws an error
//! for the task times of each job, larger if they are known from other jobs only; for each running attempt the time that it works longer, given
//! how long it has worked (`remaining.rs`); and times of the pending tasks that differ from task to task. Jobs that will be submitted are drawn
//! too, from the recent ones (`arrivals.rs`). The median over the runs is the forecast, the 5th and 95th percentile are its interval. While nothing at all is
//! known of the task times of a live job, its end is not forecast, nor the start of any job.

use crate::arrivals::Arrivals;
use crate::calibration::widened;
use crate::live::{self, Begun, LiveJob, TASK_TIME_MIN, speed_of};
use crate::model::Model;
use crate::remaining::draw_left;
use crate::task_times::{task_noise, task_variance};
use giveway_core::snapshot::Snapshot;
use giveway_core::{Action, AttemptId, Event, JobId, Kind, PerKind, Policy, Span, Time, WHOLE_PPM};
use giveway_sim::cluster::{Cluster, HeartbeatMode};
use giveway_sim::workload::{self, JobPlan, Workload};
use giveway_sim::{AttemptWork, Observer, ResumePoint, Simulation};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs of one forecast: with 19, nine tenths of all futures are between the first and the last.
pub const RUNS: u64 = 19;

/// A forecast takes at least as many, however long they take.
const RUNS_MIN: u64 = 5;

/// When something is expected to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The 5th percentile.
    pub low: Time,
    /// The median; none if it has passed.
    pub median: Option<Time>,
    /// The 95th percentile.
    pub high: Time,
}

impl Interval {
    /// Low, median and high in seconds.
    pub fn seconds(self) -> [Option<f64>; 3] {
        [Some(self.low), self.median, Some(self.high)].map(|time| time.map(Time::as_secs_f64))
    }

    /// The same seen at a later instant, at which it has not happened yet: none of it is in the past.
    fn seen_at(self, now: Time) -> Option<Interval> {
        let low = self.low.max(now);
        (self.high >= now).then_some(Interval { low, median: self.median.filter(|&median| median >= now), ..self })
    }
}

/// The forecast of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobForecast {
    /// When its first task starts; none if it has started.
    pub start: Option<Interval>,
    /// When it ends; none if nothing is known of the times of its tasks, or if it ended in fewer than all runs.
    pub end: Option<Interval>,
    /// The same as it was drawn, before it was calibrated.
    pub(crate) drawn_end: Option<Interval>,
}

impl JobForecast {
    /// The same seen at a later instant, at which it has not come true yet.
    fn seen_at(self, now: Time) -> JobForecast {
        let [start, end] = [self.start, self.end].map(|interval| interval.and_then(|interval| interval.seen_at(now)));
        JobForecast { start, end, ..self }
    }
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

impl Forecasts {
    /// The forecast of a job that has not ended at this instant, which may be later than the forecast. Nothing that shows one shows another.
    pub fn of_job(&self, job: JobId, now: Time) -> Option<JobForecast> {
        self.jobs.get(&job).map(|forecast| forecast.seen_at(now))
    }
}

/// The present state of a cluster. Made while the model is locked, used without.
#[derive(Clone, Debug)]
pub struct Present {
    pub(crate) now: Time,
    snapshot: Snapshot,
    /// In the order of their numbers in the snapshot.
    jobs: Vec<LiveJob>,
    begun: Vec<Begun>,
    arrivals: Arrivals,
    /// Of the times of the tasks of jobs to come: the standard deviation of their logarithms.
    noise: PerKind<f64>,
    cluster: Cluster,
    tenants: giveway_core::Tenants,
    /// By how much intervals are to be wider than they are drawn.
    widening: f64,
    /// The policy in use.
    pub policy: Policy,
}

impl Present {
    /// The present state; none without a node that is up or a live job.
    pub fn of(model: &Model) -> Option<Present> {
        let scheduler = model.scheduler();
        if scheduler.running_jobs().next().is_none() || scheduler.state().nodes().up_count() == 0 {
            return None;
        }
        let speeds: Vec<f64> = scheduler.nodes().filter(|node| node.up).map(|node| speed_of(node.spec)).collect();
        let speed = speeds.iter().sum::<f64>() / speeds.len() as f64;
        let (snapshot, ids) = scheduler.snapshot().with_known_tasks().numbered();
        let variance = PerKind::from_fn(|kind| task_variance(model, kind));
        let (jobs, begun) = live::of(model, &snapshot, &ids, speed, variance);
        let all_nodes = scheduler.nodes().map(|node| {
            let mut spec = node.spec.clone();
            // A backend that grants slots itself may have granted more than the node declared.
            (spec.map_slots, spec.reduce_slots) =
                (spec.map_slots.max(node.used[Kind::Map]), spec.reduce_slots.max(node.used[Kind::Reduce]));
            spec
        });
        let cluster = workload::recorded_cluster("the present nodes", all_nodes.collect(), HeartbeatMode::Immediate);
        let noise = PerKind::from_fn(|kind| task_noise(None, kind, variance[kind]));
        let (tenants, policy) = (scheduler.setup().tenants.clone(), scheduler.setup().policy.clone());
        let arrivals = Arrivals::of(model, speed);
        let widening = model.calibration().factor();
        Some(Present { now: model.now, snapshot, jobs, begun, arrivals, noise, cluster, tenants, widening, policy })
    }

    /// Forecasts under a policy. Stops after `limit` with the runs made so far, but at least a few.
    pub fn forecast(&self, policy: &Policy, limit: Duration) -> Forecasts {
        let started = Instant::now();
        let mut samples: Vec<[Vec<Time>; 2]> = vec![Default::default(); self.jobs.len()];
        let mut runs = 0;
        let same_policy = *policy == self.policy;
        let snapshot = self.snapshot.clone();
        let restored = Event::Restored(Box::new(if same_policy { snapshot } else { snapshot.for_other_setup() }));
        for seed in 0..RUNS {
            let Some(observed) = self.run(policy.clone(), &restored, seed) else { break };
            runs += 1;
            for (sample, observed) in samples.iter_mut().zip(observed) {
                sample[0].extend(observed[0]);
                sample[1].extend(observed[1]);
            }
            if started.elapsed() > limit && runs >= RUNS_MIN {
                break;
            }
        }
        let all_known = self.jobs.iter().all(|job| job.is_known || !job.can_end);
        let jobs = self.jobs.iter().zip(samples).filter(|(job, _)| job.can_end).map(|(job, [starts, ends])| {
            let interval = |times: Vec<Time>| (times.len() as u64 == runs).then(|| interval(times)).flatten();
            let start = if job.started || !all_known { None } else { interval(starts) };
            let drawn_end = if job.is_known { interval(ends) } else { None };
            let end = drawn_end.map(|end| widened(self.now, end, self.widening));
            (job.id, JobForecast { start, end, drawn_end })
        });
        Forecasts { at: self.now, runs, jobs: jobs.collect() }
    }

    /// One run: for each job when it started and when it ended.
    fn run(&self, policy: Policy, restored: &Event, seed: u64) -> Option<Vec<[Option<Time>; 2]>> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let factors: Vec<PerKind<f64>> =
            self.jobs.iter().map(|job| PerKind::from_fn(|kind| job.error[kind].draw(&mut rng))).collect();
        let plans = self.jobs.iter().zip(&factors).map(|(job, factor)| JobPlan {
            map_compute: job.plan.map_compute.scaled(factor[Kind::Map]).max(TASK_TIME_MIN),
            reduce_compute: job.plan.reduce_compute.scaled(factor[Kind::Reduce]).max(TASK_TIME_MIN),
            ..job.plan.clone()
        });
        // The live jobs come first, so that they keep their numbers.
        let mut plans: Vec<JobPlan> = plans.collect();
        let work: Vec<(AttemptId, AttemptWork)> = self
            .begun
            .iter()
            .map(|begun| {
                let task = begun.attempt.task;
                let Some((expected, worked)) = begun.expected_and_worked else {
                    return (begun.attempt, AttemptWork::Fetches { fetched: 0.0 });
                };
                let mean_s = (expected.as_secs_f64() * factors[task.job.0 as usize][task.kind]).max(1e-6);
                let noise = self.jobs[task.job.0 as usize].noise[task.kind];
                let left = Span::from_secs_f64(mean_s * draw_left(worked.as_secs_f64() / mean_s, noise, &mut rng));
                (begun.attempt, AttemptWork::Works { done: worked, left })
            })
            .collect();
        let live_tasks = self.jobs.iter().map(|job| job.tasks_left).sum();
        let later = self.arrivals.draw(live_tasks, &mut rng).into_iter();
        plans.extend(later.map(|plan| JobPlan { submit: self.now + plan.submit.since(Time::ZERO), ..plan }));
        let noises = self.jobs.iter().map(|job| job.noise).chain(std::iter::repeat(self.noise));
        for (plan, noise) in plans.iter_mut().zip(noises) {
            plan.relative_ppm =
                PerKind::from_fn(|kind| (0..plan.tasks(kind)).map(|_| draw_ppm(noise[kind], &mut rng)).collect());
        }
        let workload = Workload::from_jobs("present and later jobs", self.tenants.clone(), plans);
        // Only COSHH reads hints; without them it would predict from an empty history.
        let workload = Workload { hints: true, ..workload };
        let point = ResumePoint { at: self.now, restored, work: &work };
        let mut simulation = Simulation::resume(&self.cluster, &workload, policy, seed, &point).ok()?;
        let mut observed = Observed { jobs: vec![[None; 2]; self.jobs.len()], ended: 0 };
        let can_end = self.jobs.iter().filter(|job| job.can_end).count();
        while observed.ended < can_end && simulation.step(&mut observed) {}
        Some(observed.jobs)
    }
}

/// The time of a task in millionths of the mean.
fn draw_ppm(noise: f64, rng: &mut impl RngExt) -> u64 {
    (f64::from(WHOLE_PPM) * draw_left(0.0, noise, rng)) as u64
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

/// The percentiles of a sample. Of n draws, the k-th is the quantile k / (n + 1) of what may come.
fn interval(mut times: Vec<Time>) -> Option<Interval> {
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    let at = |quantile: f64| {
        let position = (quantile * (times.len() + 1) as f64 - 1.0).clamp(0.0, last as f64);
        let (below, above) = (times[position as usize], times[(position as usize + 1).min(last)]);
        below + above.since(below).scaled(position.fract())
    };
    Some(Interval { low: at(0.05), median: Some(at(0.5)), high: at(0.95) })
}
