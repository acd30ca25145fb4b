//! `giveway bench forecast`: the forecasts of `giveway explain` compared with what then happened.
//!
//! Each job is forecast twice: when it is submitted, and when half of its tasks are done; of runs with many jobs, an evenly spread sample. The workloads are simulated, or read from event logs and
//! journals of real clusters.

use crate::input;
use crate::text_table::TextTable;
use anyhow::{Context, Result};
use giveway_analysis::forecast::{Interval, JobForecast, Present};
use giveway_analysis::model::{JobRow, Model};
use giveway_core::event_log::{EventLogReader, Record};
use giveway_core::{Action, Capabilities, Event, JobId, Policy, Setup, Span, Time};
use giveway_sim::Observer;
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::RecordedRun;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// A forecast makes all of its runs, however long they take, so that the results do not depend on this machine.
const NO_LIMIT: Duration = Duration::MAX;

/// About as many jobs of a run are forecast: a forecast simulates all that are live, sixteen times.
const SAMPLE: usize = 30;

/// Nodes offer slots with heartbeats, which a forecast does not know.
const SECOND: Span = Span::from_secs(1);

/// Forecasts of simulated workloads under each policy.
pub fn simulated(workloads: &[String], policies: &[Policy], seed: u64) -> Result<()> {
    let mut table = Accuracy::table();
    for name in workloads {
        for policy in policies {
            let RecordedRun { workload, cluster, .. } = input::recorded_run(name, None, None, seed)?.run;
            let setup = Setup {
                policy: policy.clone(),
                tenants: workload.tenants.clone(),
                capabilities: Capabilities::ALL,
                seed,
            };
            let mut forecasts = JobForecasts::new(setup, workload.jobs.len())?;
            Comparison::new(cluster, workload, seed).run(policy, &mut forecasts)?;
            forecasts.accuracy().add_to(&mut table, name, &policy.name);
        }
    }
    print(&table)
}

/// Forecasts of recorded runs, under the policy of each.
pub fn recorded(event_logs: &[String]) -> Result<()> {
    let mut table = Accuracy::table();
    for name in event_logs {
        let bytes = input::event_log_bytes(name)?;
        let reader = EventLogReader::open(&bytes).with_context(|| format!("cannot read {name} as an event log"))?;
        let setup = reader.setup().clone();
        let policy = setup.policy.name.clone();
        let submitted = |record: &Record| matches!(record.event, Event::JobSubmitted(_));
        let jobs = EventLogReader::open(&bytes)?.map_while(Result::ok).filter(submitted).count();
        let mut forecasts = JobForecasts::new(setup, jobs)?;
        for record in reader {
            // The journal of a cluster that may be started again has no closing record.
            let Ok(record) = record else { break };
            forecasts.apply(&record);
        }
        if let Some(record) = forecasts.model.mismatch() {
            writeln!(
                std::io::stderr(),
                "{name}: recorded by a scheduler that decides otherwise, from record {record} on; the forecasts may be wrong"
            )?;
        }
        forecasts.accuracy().add_to(&mut table, name, &policy);
    }
    print(&table)
}

fn print(table: &TextTable) -> Result<()> {
    writeln!(
        std::io::stdout(),
        "Forecasts of `giveway explain` and what then happened. Error of the start: in seconds. Error of the end: of the time from the forecast to the end. Held: how often start or end was within the interval from the 5th to the 95th percentile, give or take a second. Jobs: with a median, with an interval only, without both.\n{table}"
    )?;
    Ok(())
}

/// A forecast and when it was made; none if there was none for the job.
#[derive(Clone, Copy)]
struct Made {
    at: Time,
    forecast: Option<JobForecast>,
}

/// Follows a run and forecasts each of its jobs.
struct JobForecasts {
    model: Model,
    /// Every job of this many is forecast.
    every: usize,
    submitted: usize,
    at_submission: BTreeMap<JobId, Made>,
    half_done: BTreeMap<JobId, Made>,
}

impl JobForecasts {
    fn new(setup: Setup, jobs: usize) -> Result<JobForecasts> {
        Ok(JobForecasts {
            model: Model::new(setup, 0)?,
            every: jobs.div_ceil(SAMPLE).max(1),
            submitted: 0,
            at_submission: BTreeMap::new(),
            half_done: BTreeMap::new(),
        })
    }

    fn apply(&mut self, record: &Record) {
        self.model.apply(record);
        match &record.event {
            Event::JobSubmitted(spec) => {
                if self.submitted.is_multiple_of(self.every) {
                    let made = self.forecast(spec.id);
                    self.at_submission.insert(spec.id, made);
                }
                self.submitted += 1;
            }
            Event::AttemptFinished { attempt, .. } => {
                let job = attempt.task.job;
                let is_half_done = self.model.job(job).is_some_and(JobRow::is_half_done);
                if is_half_done && self.at_submission.contains_key(&job) && !self.half_done.contains_key(&job) {
                    let made = self.forecast(job);
                    self.half_done.insert(job, made);
                }
            }
            _ => {}
        }
    }

    fn forecast(&mut self, job: JobId) -> Made {
        let forecasts = Present::of(&self.model).map(|present| present.forecast(&present.policy, NO_LIMIT));
        let forecasts = forecasts.unwrap_or_default();
        self.model.remember(&forecasts);
        Made { at: self.model.now, forecast: forecasts.of_job(job, self.model.now) }
    }

    fn accuracy(&self) -> Accuracy {
        let mut accuracy = Accuracy::default();
        for (job, made) in &self.at_submission {
            let Some(row) = self.model.job(*job) else { continue };
            if let (Some(forecast), Some(started)) = (made.forecast.and_then(|forecast| forecast.start), row.started) {
                accuracy.start.add_seconds(forecast, started);
            }
            accuracy.end.add_end(made, row.ended);
        }
        for (job, made) in &self.half_done {
            accuracy.half_done.add_end(made, self.model.job(*job).and_then(|row| row.ended));
        }
        accuracy
    }
}

impl Observer for JobForecasts {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.apply(&Record { now, event: event.clone(), actions: actions.to_vec() });
    }
}

/// Errors of forecasts of one sort.
#[derive(Default)]
struct Errors {
    /// Of the medians.
    errors: Vec<f64>,
    /// Forecasts with an interval, and those of them that held.
    intervals: usize,
    held: usize,
    /// Jobs that ended, but for which there was no interval.
    without: usize,
}

impl Errors {
    fn add_seconds(&mut self, forecast: Interval, real: Time) {
        self.add(forecast, real, |median| seconds_between(median, real));
    }

    /// Adds the error of the end, as a part of the time that the job had left.
    fn add_end(&mut self, made: &Made, ended: Option<Time>) {
        let Some(real) = ended else { return };
        let left_s = real.since(made.at).as_secs_f64().max(1e-3);
        match made.forecast.and_then(|forecast| forecast.end) {
            Some(end) => self.add(end, real, |median| seconds_between(median, real) / left_s),
            None => self.without += 1,
        }
    }

    fn add(&mut self, forecast: Interval, real: Time, error: impl Fn(Time) -> f64) {
        self.errors.extend(forecast.median.map(error));
        self.intervals += 1;
        self.held += usize::from(forecast.low <= real + SECOND && real <= forecast.high + SECOND);
    }

    /// Jobs with a median, with an interval only, and with neither.
    fn counts(&self) -> String {
        let medians = self.errors.len();
        format!("{medians}+{}+{}", self.intervals - medians, self.without)
    }

    fn median(&self) -> Option<f64> {
        let mut errors = self.errors.clone();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    }

    fn held_percent(&self) -> String {
        match self.intervals {
            0 => "-".into(),
            all => format!("{:.0} %", 100.0 * self.held as f64 / all as f64),
        }
    }
}

fn seconds_between(a: Time, b: Time) -> f64 {
    (a.as_secs_f64() - b.as_secs_f64()).abs()
}

/// Errors of the forecasts of a run.
#[derive(Default)]
struct Accuracy {
    start: Errors,
    end: Errors,
    half_done: Errors,
}

impl Accuracy {
    fn table() -> TextTable {
        let header = [
            "workload",
            "policy",
            "jobs",
            "start:\nmedian error",
            "held",
            "end:\nmedian error",
            "held",
            "end, half done:\nmedian error",
            "held",
            "jobs",
        ];
        TextTable::new(header).numbers_from(2)
    }

    fn add_to(&self, table: &mut TextTable, workload: &str, policy: &str) {
        let percent = |errors: &Errors| errors.median().map_or("-".into(), |median| format!("{:.1} %", 100.0 * median));
        let seconds = self.start.median().map_or("-".into(), |median| format!("{median:.2} s"));
        let cells = [
            workload.into(),
            policy.into(),
            self.end.counts(),
            seconds,
            self.start.held_percent(),
            percent(&self.end),
            self.end.held_percent(),
            percent(&self.half_done),
            self.half_done.held_percent(),
            self.half_done.counts(),
        ];
        table.add_row::<String>(cells);
    }
}
