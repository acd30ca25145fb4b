//! `giveway sim`: a workload, a cluster, some policies; a table at the end, and files for whoever wants them.

use crate::args::Sim;
use crate::progress::{self, JobsDone};
use crate::report::{self, Chart};
use crate::{NotSo, files, input, parallel, table};
use anyhow::{Context, Result, ensure};
use giveway_core::event_log::EventLogWriter;
use giveway_core::{Action, Capabilities, Event, JobSpec, Policy, Setup, Time};
use giveway_sim::Observer;
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::metrics::Summary;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The JSON that `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    runs: Vec<&'a Summary>,
}

/// One policy under one seed.
struct Job<'a> {
    trial: &'a Comparison,
    policy: &'a Policy,
    event_log: Option<PathBuf>,
    wants_chart: bool,
}

/// What came of it.
struct Done {
    trialled: PolicyResult,
    chart: Option<Chart>,
}

/// Runs the command.
pub fn run(args: &Sim) -> Result<()> {
    let policies = input::policies(&args.policy)?;
    let mut trials = Vec::new();
    for seed in (0..u64::from(args.runs)).map(|run| args.seed.wrapping_add(run)) {
        let (mut workload, cluster) = input::workload_and_cluster(&args.workload, args.cluster.as_deref(), seed)?;
        if let Some(error) = args.estimate_error {
            ensure!(
                (0.0..1.0).contains(&error),
                "--estimate-error {error} makes no sense; write a part of 1, such as 0.4"
            );
            workload.estimate_error = error;
        }
        trials.push(Comparison::new(cluster, workload, seed));
    }
    for policy in &policies {
        setup(&trials[0], policy).check().with_context(|| format!("{} cannot run this workload", policy.name))?;
    }
    files::try_places(args.json.as_deref().into_iter().chain(args.report.as_deref()))?;
    let several = policies.len() * trials.len() > 1;
    let jobs: Vec<Job> = policies
        .iter()
        .flat_map(|policy| trials.iter().map(move |trial| (policy, trial)))
        .map(|(policy, trial)| Job {
            trial,
            policy,
            event_log: args
                .event_log
                .as_ref()
                .map(|file| event_log_file(file, several.then_some((&policy.name, trial.seed)))),
            wants_chart: args.report.is_some() && trial.seed == args.seed,
        })
        .collect();
    let bar = progress::bar(jobs.iter().map(|job| job.trial.workload.jobs.len() as u64).sum(), "simulating", "jobs");
    let done = parallel::map(&jobs, |job| run_one(job, &bar)).into_iter().collect::<Result<Vec<Done>>>()?;
    bar.finish_and_clear();
    let by_policy: Vec<Vec<Summary>> = done
        .chunks(trials.len())
        .map(|seeds| seeds.iter().map(|done| done.trialled.summary.clone()).collect())
        .collect();
    writeln!(std::io::stdout(), "{}\n{}", describe(&trials[0], trials.len()), table::policies(&by_policy))?;
    if let Some(file) = &args.json {
        let json = Json { runs: by_policy.iter().flatten().collect() };
        files::write(file, &(serde_json::to_string_pretty(&json)? + "\n"))?;
    }
    let starved = starving(&jobs, &done);
    if let Some(file) = &args.report {
        write_report(file, &trials[0], done)?;
        writeln!(std::io::stdout(), "report: {}", file.display())?;
    }
    starved
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
        "{} ({} jobs) on {} ({} nodes), {seeds}. mean, p95: submission to finish; x bound: mean over the lower bound.",
        workload.name,
        workload.jobs.len(),
        cluster.name,
        cluster.nodes.len(),
    )
}

fn run_one(job: &Job<'_>, bar: &ProgressBar) -> Result<Done> {
    let mut chart = job.wants_chart.then(|| {
        let groups = job.trial.groups();
        let group_of = move |spec: &JobSpec| groups.get(spec.id.0 as usize).copied().unwrap_or(0);
        Chart::new(group_of, job.trial.workload.groups.len())
    });
    let mut event_log =
        job.event_log.as_ref().map(|file| EventLogFile::create(file, &setup(job.trial, job.policy))).transpose()?;
    let mut watchers = (Maybe(chart.as_mut()), (Maybe(event_log.as_mut()), JobsDone(bar)));
    let trialled = job.trial.run(job.policy, &mut watchers)?;
    if let Some(event_log) = event_log {
        event_log.close()?;
    }
    Ok(Done { trialled, chart })
}

/// A policy that starves jobs is reported, after everything else was written.
fn starving(jobs: &[Job<'_>], done: &[Done]) -> Result<()> {
    let starved = |(job, done): (&Job<'_>, &Done)| {
        let left = done.trialled.stats.jobs_unfinished;
        (left > 0).then(|| format!("{} left {left} jobs unfinished with seed {}", job.policy.name, job.trial.seed))
    };
    let starved: Vec<String> = jobs.iter().zip(done).filter_map(starved).collect();
    if starved.is_empty() {
        Ok(())
    } else {
        Err(NotSo(format!("{}; its figures cover only the rest", starved.join("; "))).into())
    }
}

fn write_report(file: &Path, trial: &Comparison, done: Vec<Done>) -> Result<()> {
    let facts = [
        ("Workload".to_owned(), format!("{}, {} jobs", trial.workload.name, trial.workload.jobs.len())),
        ("Cluster".to_owned(), format!("{}, {} nodes", trial.cluster.name, trial.cluster.nodes.len())),
        ("Seed".to_owned(), trial.seed.to_string()),
        (
            "Again".to_owned(),
            format!(
                "giveway sim --workload {} --cluster {} --seed {} --policy {} --report FILE.html",
                trial.workload.name,
                trial.cluster.name,
                trial.seed,
                done.iter().map(|done| done.trialled.summary.policy.as_str()).collect::<Vec<_>>().join(",")
            ),
        ),
    ];
    let charted = done.into_iter().filter_map(|done| {
        Some(report::Run { summary: done.trialled.summary, jobs: done.trialled.jobs, chart: done.chart? })
    });
    let runs: Vec<report::Run> = charted.collect();
    files::write(file, &report::html(&trial.workload.name, &facts, &trial.workload.groups, &runs))
}

/// `FILE`, or `FILE` with policy and seed before its extension.
fn event_log_file(file: &Path, run: Option<(&String, u64)>) -> PathBuf {
    let Some((policy, seed)) = run else { return file.to_owned() };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension = file.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    file.with_file_name(format!("{stem}-{policy}-{seed}{extension}"))
}

/// Writes an event log as the run goes on.
struct EventLogFile {
    name: PathBuf,
    file: BufWriter<File>,
    writer: EventLogWriter,
    bytes: Vec<u8>,
    failed: Option<anyhow::Error>,
}

impl EventLogFile {
    fn create(name: &Path, setup: &Setup) -> Result<EventLogFile> {
        let (writer, bytes) = EventLogWriter::begin(setup)?;
        let file = File::create(name).with_context(|| format!("cannot create {}; check the folder", name.display()))?;
        let mut event_log =
            EventLogFile { name: name.to_owned(), file: BufWriter::new(file), writer, bytes, failed: None };
        event_log.flush();
        Ok(event_log)
    }

    /// An event log that cannot be written does not stop the run; it is reported at its end.
    fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.file.write_all(&self.bytes)
        {
            self.failed = Some(error.into());
        }
        self.bytes.clear();
    }

    fn close(mut self) -> Result<()> {
        self.writer.close(&mut self.bytes);
        let written = match self.failed {
            Some(error) => Err(error),
            None => self.file.write_all(&self.bytes).and_then(|()| self.file.flush()).map_err(Into::into),
        };
        written.with_context(|| format!("cannot write {}; its event log is not whole", self.name.display()))
    }
}

impl Observer for EventLogFile {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        if let Err(error) = self.writer.record(now, event, actions, &mut self.bytes) {
            self.failed.get_or_insert(error.into());
        }
        self.flush();
    }
}

/// An observer that may not be there.
struct Maybe<O>(Option<O>);

impl<O: Observer> Observer for Maybe<O> {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        if let Some(observer) = &mut self.0 {
            observer.observe(now, event, actions);
        }
    }
}
