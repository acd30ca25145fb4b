//! The simulator as an environment for learning: a run that stops whenever jobs are ranked, until it is told their values.
//!
//! The run has a thread of its own. Its order of jobs asks for values when a job is new to it, and for all jobs whenever the policy's estimates are computed.

use crate::invalid;
use crate::source::{Source, workload};
use anyhow::{Context, Result, ensure};
use giveway_core::policy::View;
use giveway_core::policy::orders::{CustomOrder, JobOrder, JobValue};
use giveway_core::state::Job;
use giveway_core::{Action, Capabilities, Event, JobId, Kind, Policy, Setup, Span, Time};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;
use giveway_sim::{Observer, Simulation};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the order in the policy.
const ORDER: &str = "agent";
/// The value of a job that the agent was not shown: after all that it was.
const NOT_SHOWN: f64 = f64::MAX;

/// What an agent sees when it has to give values.
#[pyclass(frozen, get_all, module = "giveway._giveway")]
pub struct Observation {
    /// The facts of each job, `JOB_FACTS` numbers for each.
    jobs: Vec<f32>,
    /// The numbers of these jobs.
    numbers: Vec<u32>,
    /// The facts of the cluster.
    cluster: Vec<f32>,
    now_s: f64,
    /// The sum over all jobs of the time since they were submitted, up to their end.
    job_s: f64,
    jobs_done: u32,
    /// True if the run has ended, so that no values are needed.
    ended: bool,
}

/// The facts of a job, from left to right.
pub const JOB_FACTS: [&str; 10] = [
    "maps_pending",
    "maps_running",
    "reduces_pending",
    "reduces_running",
    "reduces_paused",
    "remaining_area_s",
    "remaining_s",
    "slot_time_s",
    "age_s",
    "input_gb",
];
/// The facts of the cluster, from left to right.
pub const CLUSTER_FACTS: [&str; 5] = ["time_s", "jobs", "free_map_slots", "free_reduce_slots", "nodes"];

fn facts_of_job(view: View<'_>, job: &Job) -> [f32; JOB_FACTS.len()] {
    let estimate = job.estimate();
    let (maps, reduces) = (job.counts(Kind::Map), job.counts(Kind::Reduce));
    let facts = [
        f64::from(maps.pending),
        maps.running.len() as f64,
        f64::from(reduces.pending),
        reduces.running.len() as f64,
        f64::from(reduces.paused),
        estimate.remaining_area.as_secs_f64(),
        estimate.remaining_time.as_secs_f64(),
        estimate.attained_service.as_secs_f64(),
        view.now.since(job.submitted()).as_secs_f64(),
        job.input_bytes() as f64 / 1e9,
    ];
    facts.map(|fact| fact as f32)
}

/// The jobs in the system over time.
#[derive(Default)]
struct Backlog {
    jobs: u32,
    done: u32,
    since: Time,
    job_s: f64,
}

impl Backlog {
    fn advance(&mut self, now: Time) {
        self.job_s += f64::from(self.jobs) * now.since(self.since).as_secs_f64();
        self.since = now;
    }
}

/// Counts the jobs in the system.
struct Count(Arc<Mutex<Backlog>>);

impl Observer for Count {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        let refused = actions.iter().any(|action| matches!(action, Action::Refuse { .. }));
        let submitted = u32::from(matches!(event, Event::JobSubmitted(_)) && !refused);
        let closed = actions.iter().filter(|action| matches!(action, Action::CloseJob { .. })).count() as u32;
        if submitted + closed > 0 {
            let mut backlog = lock(&self.0);
            backlog.advance(now);
            backlog.jobs += submitted;
            backlog.jobs -= closed;
            backlog.done += closed;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order of the agent.
struct AgentOrder {
    max_jobs: usize,
    /// Of the policy's estimates, after which all jobs are ranked again.
    interval: Span,
    backlog: Arc<Mutex<Backlog>>,
    exchange: Mutex<Exchange>,
    /// True if the agent does not go on: the run ends.
    is_abandoned: Arc<AtomicBool>,
}

struct Exchange {
    observations: SyncSender<Observation>,
    values: Receiver<Vec<f64>>,
    /// When values were last asked for because the interval had passed.
    asked: Option<Time>,
    /// By job, those that were given.
    given: HashMap<JobId, f64>,
}

impl AgentOrder {
    fn observation(&self, view: View<'_>) -> Observation {
        let mut jobs: Vec<&Job> = view.state.jobs().iter().map(|(_, job)| job).filter(|job| !job.is_closed()).collect();
        let nodes = view.state.nodes();
        let free = nodes.free();
        let cluster =
            [view.now.as_secs_f64(), jobs.len() as f64, f64::from(free[Kind::Map]), f64::from(free[Kind::Reduce])];
        jobs.sort_by_key(|job| (job.estimate().remaining_area, job.sequence()));
        jobs.truncate(self.max_jobs);
        jobs.sort_by_key(|job| job.sequence());
        let mut backlog = lock(&self.backlog);
        backlog.advance(view.now);
        Observation {
            jobs: jobs.iter().flat_map(|job| facts_of_job(view, job)).collect(),
            numbers: jobs.iter().map(|job| job.id().0).collect(),
            cluster: cluster.into_iter().chain([nodes.iter().count() as f64]).map(|fact| fact as f32).collect(),
            now_s: view.now.as_secs_f64(),
            job_s: backlog.job_s,
            jobs_done: backlog.done,
            ended: false,
        }
    }

    fn ask(&self, view: View<'_>, exchange: &mut Exchange) {
        let observation = self.observation(view);
        let shown = observation.numbers.clone();
        let values = exchange.observations.send(observation).ok().and_then(|()| exchange.values.recv().ok());
        let Some(values) = values else { return self.is_abandoned.store(true, Relaxed) };
        exchange.given.clear();
        exchange.given.extend(view.state.jobs().iter().map(|(_, job)| (job.id(), NOT_SHOWN)));
        exchange.given.extend(shown.into_iter().map(JobId).zip(values));
    }
}

impl JobValue for AgentOrder {
    fn value(&self, view: View<'_>, job: &Job, _: Kind, _: i32) -> f64 {
        let mut exchange = lock(&self.exchange);
        let is_due = exchange.asked.is_none_or(|asked| view.now.since(asked) >= self.interval);
        let is_new = !exchange.given.contains_key(&job.id());
        if (is_due || is_new) && !self.is_abandoned.load(Relaxed) && !job.is_closed() {
            if is_due {
                exchange.asked = Some(view.now);
            }
            self.ask(view, &mut exchange);
        }
        exchange.given.get(&job.id()).copied().unwrap_or(NOT_SHOWN)
    }
}

/// One run, from the first job to the end of the last.
#[pyclass(frozen, module = "giveway._giveway")]
pub struct Episode {
    channels: Mutex<Channels>,
}

struct Channels {
    values: SyncSender<Vec<f64>>,
    observations: Receiver<Observation>,
    run: Option<std::thread::JoinHandle<Result<()>>>,
}

#[pymethods]
impl Episode {
    /// Starts a run of a workload under a policy whose jobs the agent orders.
    #[new]
    fn new(
        py: Python<'_>,
        source: Source,
        cluster: Option<Source>,
        policy: Source,
        seed: u64,
        trace_model: Option<String>,
        max_jobs: usize,
    ) -> PyResult<Episode> {
        let start = || start(&source, cluster.as_ref(), &policy, seed, trace_model.as_deref(), max_jobs);
        py.detach(start).map_err(invalid)
    }

    /// Gives the jobs that were last shown these values, and returns what is to be seen when values are needed next. Before the first observation there are none.
    fn advance(&self, py: Python<'_>, values: Option<Vec<f64>>) -> PyResult<Observation> {
        py.detach(|| self.exchange(values)).map_err(invalid)
    }
}

impl Episode {
    fn exchange(&self, given: Option<Vec<f64>>) -> Result<Observation> {
        let mut channels = lock(&self.channels);
        if let Some(given) = given {
            // A run that has ended takes none, and gives no observation.
            let _ = channels.values.send(given);
        }
        if let Ok(observation) = channels.observations.recv() {
            return Ok(observation);
        }
        match channels.run.take().map(|run| run.join()) {
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => anyhow::bail!("this run has ended; start another"),
        }
    }
}

fn start(
    source: &Source,
    cluster: Option<&Source>,
    policy: &Source,
    seed: u64,
    trace_model: Option<&str>,
    max_jobs: usize,
) -> Result<Episode> {
    ensure!(max_jobs > 0, "max_jobs is 0; use at least 1");
    let given = cluster.map(Source::cluster).transpose()?;
    let (cluster, workload, _) = workload(source, given.as_ref(), trace_model, seed)?;
    let policies = policy.policy(&[])?;
    let [mut policy]: [Policy; 1] = policies.try_into().ok().context("give one policy")?;
    let (observations, to_agent) = sync_channel(0);
    let (values, from_agent) = sync_channel(0);
    let (backlog, is_abandoned) = (Arc::default(), Arc::default());
    let exchange =
        Exchange { observations: observations.clone(), values: from_agent, asked: None, given: HashMap::new() };
    let order = JobOrder::Custom(CustomOrder::new(
        ORDER,
        "1",
        AgentOrder {
            max_jobs,
            interval: policy.update_interval,
            backlog: Arc::clone(&backlog),
            exchange: Mutex::new(exchange),
            is_abandoned: Arc::clone(&is_abandoned),
        },
    ));
    (policy.map.order, policy.reduce.order) = (order.clone(), order);
    let (tenants, capabilities) = (workload.tenants.clone(), Capabilities::ALL);
    let setup = Setup { policy: policy.clone(), tenants, capabilities, seed };
    setup.check().with_context(|| format!("policy `{}` cannot run this workload", policy.name))?;
    let run = move || simulate(&cluster, &workload, policy, seed, &backlog, &observations, &is_abandoned);
    let channels = Channels { values, observations: to_agent, run: Some(std::thread::spawn(run)) };
    Ok(Episode { channels: Mutex::new(channels) })
}

fn simulate(
    cluster: &Cluster,
    workload: &Workload,
    policy: Policy,
    seed: u64,
    backlog: &Arc<Mutex<Backlog>>,
    observations: &SyncSender<Observation>,
    is_abandoned: &AtomicBool,
) -> Result<()> {
    let mut simulation = Simulation::new(cluster, workload, policy, seed)?;
    let mut count = Count(Arc::clone(backlog));
    while simulation.step(&mut count) {
        if is_abandoned.load(Relaxed) {
            return Ok(());
        }
    }
    let unfinished = simulation.stats().jobs_unfinished;
    ensure!(unfinished == 0, "the agent's order left {unfinished} jobs unfinished");
    let backlog = lock(backlog);
    let now_s = simulation.now().as_secs_f64();
    let cluster = vec![0.0; CLUSTER_FACTS.len()];
    let (jobs, numbers) = Default::default();
    let last =
        Observation { jobs, numbers, cluster, now_s, job_s: backlog.job_s, jobs_done: backlog.done, ended: true };
    // Nobody waits for it if the run was abandoned.
    let _ = observations.send(last);
    Ok(())
}
