//! Simulations of a workload under policies and seeds, on all cores, while the interpreter goes on.

use crate::invalid;
use crate::order::{FirstError, custom_order};
use crate::source::{Source, workload};
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use giveway_core::policy::orders::CustomOrder;
use giveway_core::{Action, Capabilities, Event, Policy, Setup, Time};
use giveway_sim::Observer;
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::rows::{AttemptRows, JobRows, RunRows, SlotRows};
use pyo3::prelude::*;
use rayon::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// How often signals are looked for, and progress is reported.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Simulates a workload under every policy with every seed. Returns the metrics of the runs as JSON, their jobs, and if wanted their attempts.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keywords of a function in Python")]
pub fn simulate(
    py: Python<'_>,
    source: Source,
    cluster: Option<Source>,
    policies: Vec<Source>,
    orders: Vec<(String, String, Py<PyAny>)>,
    seed: u64,
    runs: u32,
    trace_model: Option<String>,
    estimate_error: Option<f64>,
    with_attempts: bool,
    with_slots: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Table, Option<Table>, Option<Table>)> {
    let error = FirstError::default();
    let orders: Vec<CustomOrder> = orders
        .into_iter()
        .map(|(name, version, function)| custom_order(&name, &version, function, error.clone()))
        .collect();
    let prepare =
        || prepare(&source, cluster.as_ref(), &policies, &orders, seed, runs, trace_model.as_deref(), estimate_error);
    let (policies, comparisons) = py.detach(prepare).map_err(invalid)?;
    let pairs: Vec<(&Policy, &Comparison)> =
        policies.iter().flat_map(|policy| comparisons.iter().map(move |comparison| (policy, comparison))).collect();

    let work = Work::default();
    let total: u64 = pairs.iter().map(|(_, comparison)| comparison.workload.jobs.len() as u64).sum();
    let goes_on = || !work.cancelled.load(Relaxed) && !error.is_set();
    let run_all = || -> Result<Vec<Outcome>> {
        let run = |&(policy, comparison): &(&Policy, &Comparison)| {
            let rows = RunRows::new(&policy.name, comparison.seed, with_attempts, with_slots);
            run(policy, comparison, rows, &work, goes_on)
        };
        let results = pairs.par_iter().with_max_len(1).map(run).collect();
        work.finish();
        results
    };
    let results = std::thread::scope(|scope| -> PyResult<Result<Vec<Outcome>>> {
        let runner = scope.spawn(run_all);
        let mut interrupted = Ok(());
        while !py.detach(|| work.is_finished_after(LOOK_EVERY)) {
            if interrupted.is_ok() {
                interrupted = py.check_signals().and_then(|()| match &progress {
                    Some(report) => report.call1(py, (work.jobs_closed.load(Relaxed), total)).map(drop),
                    None => Ok(()),
                });
            }
            work.cancelled.store(interrupted.is_err(), Relaxed);
        }
        let results = py.detach(|| runner.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        interrupted.map(|()| results)
    })?;
    if let Some(error) = error.take() {
        return Err(error);
    }
    let outcomes = results.map_err(invalid)?;
    let summaries: Vec<_> = outcomes.iter().map(|outcome| &outcome.result.summary).collect();
    let json = serde_json::to_string(&summaries).map_err(|error| invalid(error.into()))?;
    let mut jobs = JobRows::default();
    for ((policy, comparison), outcome) in pairs.iter().zip(&outcomes) {
        jobs.add(&policy.name, comparison.seed, &comparison.workload, &outcome.result.jobs);
    }
    let (mut attempts, mut slots) = (AttemptRows::default(), SlotRows::default());
    for outcome in outcomes {
        let of_run = outcome.rows.into_rows();
        of_run.0.into_iter().for_each(|of_run| attempts.append(of_run));
        of_run.1.into_iter().for_each(|of_run| slots.append(of_run));
    }
    let attempts = with_attempts.then(|| Table::new(attempts.into()));
    Ok((json, Table::new(jobs.into()), attempts, with_slots.then(|| Table::new(slots.into()))))
}

#[expect(clippy::too_many_arguments, reason = "as above")]
fn prepare(
    source: &Source,
    cluster: Option<&Source>,
    policies: &[Source],
    orders: &[CustomOrder],
    seed: u64,
    runs: u32,
    trace_model: Option<&str>,
    estimate_error: Option<f64>,
) -> Result<(Vec<Policy>, Vec<Comparison>)> {
    ensure!(!policies.is_empty(), "no policy; give at least one");
    ensure!((1..=10_000).contains(&runs), "runs is {runs}; use 1 to 10000");
    if let Some(error) = estimate_error {
        ensure!((0.0..1.0).contains(&error), "estimate_error is {error}; use 0 up to, not including, 1");
    }
    let policies = policies.iter().map(|source| source.policy(orders)).collect::<Result<Vec<_>>>()?.concat();
    let mut names = HashSet::new();
    if let Some(twice) = policies.iter().find(|policy| !names.insert(policy.name.as_str())) {
        anyhow::bail!("two policies are called `{}`; give each a name of its own", twice.name);
    }
    let given = cluster.map(Source::cluster).transpose()?;
    let first = workload(source, given.as_ref(), trace_model, seed)?;
    let comparison = |seed_of_run: u64| -> Result<Comparison> {
        let (cluster, mut workload, _) = match first.2 && seed_of_run != seed {
            true => workload(source, given.as_ref(), trace_model, seed_of_run)?,
            false => first.clone(),
        };
        workload.estimate_error = estimate_error.unwrap_or(workload.estimate_error);
        Ok(Comparison::new(cluster, workload, seed_of_run))
    };
    let comparisons = (0..u64::from(runs)).map(|run| comparison(seed.wrapping_add(run))).collect::<Result<Vec<_>>>()?;
    for policy in &policies {
        let (tenants, capabilities) = (comparisons[0].workload.tenants.clone(), Capabilities::ALL);
        Setup { policy: policy.clone(), tenants, capabilities, seed }
            .check()
            .with_context(|| format!("policy `{}` cannot run this workload", policy.name))?;
    }
    Ok((policies, comparisons))
}

struct Outcome {
    result: PolicyResult,
    rows: RunRows,
}

fn run(
    policy: &Policy,
    comparison: &Comparison,
    rows: RunRows,
    work: &Work,
    goes_on: impl Fn() -> bool,
) -> Result<Outcome> {
    let mut observers = (JobsClosed(&work.jobs_closed), rows);
    let result = match observers.1.is_wanted() {
        true => comparison.run_while(policy, &mut observers, goes_on)?,
        false => comparison.run_while(policy, &mut observers.0, goes_on)?,
    };
    let unfinished = result.stats.jobs_unfinished;
    ensure!(
        unfinished == 0 || work.cancelled.load(Relaxed),
        "{} left {unfinished} jobs unfinished with seed {}",
        policy.name,
        comparison.seed
    );
    Ok(Outcome { result, rows: observers.1 })
}

/// What the runs and the thread that waits for them share.
#[derive(Default)]
struct Work {
    cancelled: AtomicBool,
    jobs_closed: AtomicU64,
    finished: Mutex<bool>,
    changed: Condvar,
}

impl Work {
    fn finish(&self) {
        *self.finished.lock().expect("no panic while it is held") = true;
        self.changed.notify_all();
    }

    fn is_finished_after(&self, wait: Duration) -> bool {
        let finished = self.finished.lock().expect("no panic while it is held");
        *self.changed.wait_timeout_while(finished, wait, |finished| !*finished).expect("no panic while it is held").0
    }
}

/// Counts the closed jobs of all runs.
struct JobsClosed<'a>(&'a AtomicU64);

impl Observer for JobsClosed<'_> {
    fn observe(&mut self, _: Time, _: &Event, _: &[Action]) {}

    fn on_job_closed(&mut self, _: Time, _: usize, _: usize) {
        self.0.fetch_add(1, Relaxed);
    }
}
