//! `giveway sim`: simulates a workload on a cluster under several policies and seeds; prints a table and optionally writes JSON, a table of jobs,
//! event logs and an HTML report.

use crate::args::Sim;
use crate::progress::{self, JobsDone};
use crate::report::{self, Chart};
use crate::table_files::TableFiles;
use crate::text_table::prose;
use crate::{CheckFailed, files, input, table};
use anyhow::{Context, Result, ensure};
use giveway_core::event_log::EventLogWriter;
use giveway_core::{Action, Capabilities, Event, JobSpec, Policy, Setup, Time, plural};
use giveway_sim::Observer;
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::metrics::Summary;
use giveway_sim::rows::{AttemptRows, JobRows, RunRows, SlotRows};
use giveway_sim::workload::RecordedRun;
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Content of the `--json` file: one summary per policy and seed.
#[derive(Serialize)]
struct Json<'a> {
    runs: Vec<&'a Summary>,
}

/// One simulation: a policy and a seed.
struct SimulationRun<'a> {
    trial: &'a Comparison,
    policy: &'a Policy,
    event_log: Option<PathBuf>,
    with_chart: bool,
    rows: RunRows,
}

/// Result of a [`SimulationRun`].
struct RunResult {
    outcome: PolicyResult,
    chart: Option<Chart>,
    rows: Option<RunRows>,
}

/// Runs the command.
pub fn run(args: &Sim) -> Result<()> {
    let policies = input::policies(&args.policy)?;
    let given = args.cluster.as_deref().map(input::cluster).transpose()?;
    let recorded_run = |seed| input::recorded_run(&args.workload, given.as_ref(), args.trace_model.as_deref(), seed);
    let first = recorded_run(args.seed)?;
    let mut trials = Vec::new();
    for seed in (0..u64::from(args.runs)).map(|run| args.seed.wrapping_add(run)) {
        let is_other = first.is_drawn && seed != args.seed;
        let RecordedRun { mut workload, cluster, .. } =
            if is_other { recorded_run(seed)?.run } else { first.run.clone() };
        if let Some(error) = args.estimate_error {
            ensure!(
                (0.0..1.0).contains(&error),
                "invalid --estimate-error {error}; use a fraction from 0 up to, not including, 1, such as 0.4 or 40%"
            );
            workload.estimate_error = error;
        }
        trials.push(Comparison::new(cluster, workload, seed));
    }
    for policy in &policies {
        setup(&trials[0], policy)
            .check()
            .with_context(|| format!("policy `{}` cannot run this workload", policy.name))?;
    }
    files::check_writable([&args.json, &args.report].into_iter().filter_map(|file| file.as_deref()))?;
    args.tables.check_writable()?;
    let several = policies.len() * trials.len() > 1;
    let runs: Vec<SimulationRun> = policies
        .iter()
        .flat_map(|policy| trials.iter().map(move |trial| (policy, trial)))
        .map(|(policy, trial)| SimulationRun {
            trial,
            policy,
            event_log: args
                .event_log
                .as_ref()
                .map(|file| event_log_file(file, several.then_some((&policy.name, trial.seed)))),
            with_chart: args.report.is_some() && trial.seed == args.seed,
            rows: RunRows::new(&policy.name, trial.seed, args.tables.attempts.is_some(), args.tables.slots.is_some()),
        })
        .collect();
    let bar = progress::bar(runs.iter().map(|run| run.trial.workload.jobs.len() as u64).sum(), "simulating", "jobs");
    let mut results =
        runs.par_iter().with_max_len(1).map(|run| simulate(run, &bar)).collect::<Result<Vec<RunResult>>>()?;
    bar.finish_and_clear();
    let by_policy: Vec<Vec<Summary>> = results
        .chunks(trials.len())
        .map(|seeds| seeds.iter().map(|result| result.outcome.summary.clone()).collect())
        .collect();
    writeln!(std::io::stdout(), "{}\n{}", prose(&describe(&trials[0], trials.len())), table::policies(&by_policy))?;
    if let Some(file) = &args.json {
        let json = Json { runs: by_policy.iter().flatten().collect() };
        files::write(file, &(serde_json::to_string_pretty(&json)? + "\n"))?;
    }
    write_tables(&args.tables, &runs, &mut results)?;
    let starvation = check_starvation(&runs, &results);
    if let Some(file) = &args.report {
        write_report(file, args, &trials[0], results)?;
        writeln!(std::io::stdout(), "report: {}", file.display())?;
    }
    starvation
}

fn setup(trial: &Comparison, policy: &Policy) -> Setup {
    Setup {
        policy: policy.clone(),
        tenants: trial.workload.tenants.clone(),
        capabilities: Capabilities::ALL,
        seed: trial.seed,
    }
}

fn describe(trial: &Comparison, seeds: usize) -> String {
    let (workload, cluster) = (&trial.workload, &trial.cluster);
    let seeds = if seeds == 1 { format!("seed {}", trial.seed) } else { format!("{seeds} seeds from {}", trial.seed) };
    format!(
        "Workload {} ({}) on cluster {} ({}), {seeds}. mean, p95: completion time (submission to end); bound: lower bound of the mean.",
        workload.name,
        plural(workload.jobs.len() as u64, "job"),
        cluster.name,
        plural(cluster.nodes.len() as u64, "node"),
    )
}

fn simulate(run: &SimulationRun<'_>, bar: &ProgressBar) -> Result<RunResult> {
    let mut chart = run.with_chart.then(|| {
        let groups = run.trial.groups();
        let group_of = move |spec: &JobSpec| groups.get(spec.id.0 as usize).copied().unwrap_or(0);
        Chart::new(group_of, run.trial.workload.groups.len())
    });
    let mut event_log =
        run.event_log.as_ref().map(|file| EventLogFile::create(file, &setup(run.trial, run.policy))).transpose()?;
    let mut rows = run.rows.is_wanted().then(|| run.rows.clone());
    let mut observers = ((Maybe(chart.as_mut()), Maybe(rows.as_mut())), (Maybe(event_log.as_mut()), JobsDone(bar)));
    let outcome = run.trial.run(run.policy, &mut observers)?;
    if let Some(event_log) = event_log {
        event_log.close()?;
    }
    Ok(RunResult { outcome, chart, rows })
}

fn write_tables(files: &TableFiles, runs: &[SimulationRun<'_>], results: &mut [RunResult]) -> Result<()> {
    if files.jobs.is_some() {
        let mut jobs = JobRows::default();
        for (run, result) in runs.iter().zip(results.iter()) {
            jobs.add(&run.policy.name, run.trial.seed, &run.trial.workload, &result.outcome.jobs);
        }
        files.write_jobs(&jobs.into())?;
    }
    let (mut attempts, mut slots) = (AttemptRows::default(), SlotRows::default());
    for rows in results.iter_mut().filter_map(|result| result.rows.take()) {
        let of_run = rows.into_rows();
        of_run.0.into_iter().for_each(|of_run| attempts.append(of_run));
        of_run.1.into_iter().for_each(|of_run| slots.append(of_run));
    }
    files.write_attempts(&attempts.into())?;
    files.write_slots(&slots.into())
}

/// Fails if a run left jobs unfinished. The caller returns this error last, after all output was written.
fn check_starvation(runs: &[SimulationRun<'_>], results: &[RunResult]) -> Result<()> {
    let starved = |(run, result): (&SimulationRun<'_>, &RunResult)| {
        let unfinished = result.outcome.stats.jobs_unfinished;
        (unfinished > 0)
            .then(|| format!("{} left {unfinished} jobs unfinished with seed {}", run.policy.name, run.trial.seed))
    };
    let starved: Vec<String> = runs.iter().zip(results).filter_map(starved).collect();
    if starved.is_empty() {
        Ok(())
    } else {
        Err(CheckFailed(format!("starvation: {}; the metrics cover only the finished jobs", starved.join("; "))).into())
    }
}

/// The command that makes this report again, in the same directory.
fn command(args: &Sim, report: &Path) -> String {
    let mut words = vec!["giveway".to_owned(), "sim".to_owned()];
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), quoted(&value)]);
    add("--workload", args.workload.clone());
    args.cluster.iter().for_each(|cluster| add("--cluster", cluster.clone()));
    args.trace_model.iter().for_each(|model| add("--trace-model", model.display().to_string()));
    add("--policy", args.policy.join(","));
    add("--seed", args.seed.to_string());
    if args.runs > 1 {
        add("--runs", args.runs.to_string());
    }
    args.estimate_error.iter().for_each(|error| add("--estimate-error", error.to_string()));
    add("--report", report.display().to_string());
    words.join(" ")
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "-_./,=:+@%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn write_report(file: &Path, args: &Sim, trial: &Comparison, results: Vec<RunResult>) -> Result<()> {
    let facts = [
        ("Workload".to_owned(), format!("{}, {} jobs", trial.workload.name, trial.workload.jobs.len())),
        ("Cluster".to_owned(), format!("{}, {} nodes", trial.cluster.name, trial.cluster.nodes.len())),
        ("Seed".to_owned(), trial.seed.to_string()),
        ("Command".to_owned(), command(args, file)),
    ];
    let with_chart = results.into_iter().filter_map(|result| {
        Some(report::Run { summary: result.outcome.summary, jobs: result.outcome.jobs, chart: result.chart? })
    });
    let runs: Vec<report::Run> = with_chart.collect();
    files::write(file, &report::html(&trial.workload.name, &facts, &trial.workload.groups, &runs))
}

/// Returns `file` for a single run; otherwise adds policy and seed before the extension: `run.log` becomes `run-fifo-1.log`.
fn event_log_file(file: &Path, run: Option<(&String, u64)>) -> PathBuf {
    let Some((policy, seed)) = run else { return file.to_owned() };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension = file.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    file.with_file_name(format!("{stem}-{policy}-{seed}{extension}"))
}

/// Writes an event log while the simulation runs.
struct EventLogFile {
    name: PathBuf,
    file: BufWriter<File>,
    writer: EventLogWriter,
    bytes: Vec<u8>,
    /// The first write error; later writes are skipped.
    error: Option<anyhow::Error>,
}

impl EventLogFile {
    fn create(name: &Path, setup: &Setup) -> Result<EventLogFile> {
        let (writer, bytes) = EventLogWriter::begin(setup)?;
        let file = File::create(name)
            .with_context(|| format!("cannot create event log {}; check the directory", name.display()))?;
        let mut event_log =
            EventLogFile { name: name.to_owned(), file: BufWriter::new(file), writer, bytes, error: None };
        event_log.flush();
        Ok(event_log)
    }

    /// A write error does not stop the simulation; `close` reports it.
    fn flush(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.file.write_all(&self.bytes)
        {
            self.error = Some(error.into());
        }
        self.bytes.clear();
    }

    fn close(mut self) -> Result<()> {
        self.writer.close(&mut self.bytes);
        let written = match self.error {
            Some(error) => Err(error),
            None => self.file.write_all(&self.bytes).and_then(|()| self.file.flush()).map_err(Into::into),
        };
        written.with_context(|| {
            format!("cannot write event log {}, which is incomplete; check the free space", self.name.display())
        })
    }
}

impl Observer for EventLogFile {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        if let Err(error) = self.writer.record(now, event, actions, &mut self.bytes) {
            self.error.get_or_insert(error.into());
        }
        self.flush();
    }
}

/// An optional observer.
struct Maybe<O>(Option<O>);

impl<O: Observer> Observer for Maybe<O> {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        if let Some(observer) = &mut self.0 {
            observer.observe(now, event, actions);
        }
    }
}
