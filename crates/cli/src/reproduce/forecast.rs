//! Two of the experiments on the engine, compared with the simulator's forecast.
//!
//! The workload of hSRTF's Table 2 and the failure experiment of Chronos are scaled down to four worker processes on this machine. Tasks read their
//! records at a limited rate, so that the results depend on the schedule and not on the machine.
//!
//! Each type of job first runs alone on the idle cluster. Its profile is the simulator's only input besides the cost of stopping a task: mean
//! and variation of the map times, and the reduce time once all maps are done. The simulator then forecasts the whole experiment under each
//! policy, and the engine runs it. Which job gets a slot may depend on a millisecond, so a forecast is the median of several simulated runs.
//! Every output is compared with that of a sequential run.

use super::estimate::{Estimate, Unit};
use super::figures::{SvgFigure, render};
use super::study::{Figure, Measure, Plot};
use crate::local_cluster::{InputSpec, LocalCluster, TextInput, TimedJob, TimedWorkload};
use crate::signals;
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use giveway_core::event_log::{EventLogReader, Record};
use giveway_core::policy::catalog;
use giveway_core::{Change, End, JobId, Kind, Lifecycle, NodeId, Policy, Span, Tenants, Time};
use giveway_engine::apps::Apps;
use giveway_sim::cluster::{Cluster, Costs, ScriptedFault};
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::metrics::{JobMetrics, Summary};
use giveway_sim::workload::{self, JobPlan, Workload};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// A type of job.
struct JobType {
    /// Also the name of its size group.
    name: &'static str,
    app: &'static str,
    maps: usize,
    reduces: u32,
}

/// An experiment of a paper, scaled down.
struct EngineExperiment {
    name: &'static str,
    /// Types of jobs, smallest first.
    job_types: &'static [JobType],
    /// Submission time of each job in milliseconds, and the index of its type.
    arrivals: fn() -> Vec<(u64, u16)>,
    policies: &'static [&'static str],
    /// Input lines per map.
    lines_per_map: usize,
    cluster: LocalCluster,
    /// Time at which the last worker is killed.
    kill_at: Option<Duration>,
}

const CLUSTER: LocalCluster = LocalCluster {
    nodes: 4,
    map_slots: 3,
    reduce_slots: 2,
    heartbeat: Duration::from_millis(75),
    timeout: Duration::from_millis(750),
    slowstart_ppm: 50_000,
};

/// Simulated runs per forecast.
const FORECAST_RUNS: u64 = 25;

/// Rate at which a task reads its input, in lines per second.
const RECORDS_PER_S: u64 = 2_000;

/// Tasks are shorter than the papers' by this factor, and so are the policies' time spans.
const TIME_SCALE: f64 = 40.0;

/// hSRTF's Table 2: large jobs first, then medium, then small ones, one every 10 s of the paper's time. There are 1/40 of the paper's slots, and
/// jobs have 1/10 of its tasks.
const HSRTF: EngineExperiment = EngineExperiment {
    name: "hSRTF mix",
    job_types: &[
        JobType { name: "small", app: "wordcount", maps: 1, reduces: 1 },
        JobType { name: "medium", app: "sort", maps: 6, reduces: 1 },
        JobType { name: "large", app: "sort", maps: 24, reduces: 3 },
    ],
    arrivals: || {
        let job_types = [vec![2; 3], vec![1; 8], vec![0; 20]].concat();
        job_types.into_iter().enumerate().map(|(number, job_type)| (250 * number as u64, job_type)).collect()
    },
    policies: &["fifo", "fair", "hsrtf-pr", "hsrtf-prp-pause"],
    lines_per_map: 800,
    cluster: CLUSTER,
    kill_at: None,
};

/// Chronos, section V-A: word counts over 17 and 56 GB, and a node that fails during the second wave of maps. Slots and tasks are 1/5 of the
/// paper's.
const CHRONOS: EngineExperiment = EngineExperiment {
    name: "Chronos failure",
    job_types: &[
        JobType { name: "first", app: "wordcount", maps: 13, reduces: 4 },
        JobType { name: "second", app: "wordcount", maps: 42, reduces: 4 },
    ],
    arrivals: || vec![(0, 0), (100, 1)],
    policies: &["fifo", "chronos(fifo)", "fair", "chronos(fair)"],
    lines_per_map: 2_600,
    cluster: LocalCluster {
        heartbeat: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        slowstart_ppm: 1_000_000,
        ..CLUSTER
    },
    kill_at: Some(Duration::from_millis(1_500)),
};

/// The experiments to run.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// hSRTF's workload.
    pub hsrtf: bool,
    /// Chronos' node failure.
    pub chronos: bool,
}

/// The engine's runs with their forecasts.
#[derive(Serialize)]
pub struct ForecastReport {
    /// One entry per experiment and policy.
    pub runs: Vec<RunComparison>,
}

/// A run and its forecast.
#[derive(Serialize)]
pub struct RunComparison {
    experiment: &'static str,
    policy: String,
    /// In order of submission.
    jobs: Vec<JobComparison>,
    real: RecoveryFigures,
    forecast: RecoveryFigures,
}

/// Completion time of one job, measured and forecast.
#[derive(Serialize)]
pub struct JobComparison {
    group: String,
    real_s: f64,
    forecast_s: f64,
}

/// Figures of the lost tasks that were launched again; `None` if there were none.
#[derive(Serialize)]
struct RecoveryFigures {
    /// Mean wait from the detection of the loss to the launch.
    wait_s: Option<f64>,
    /// Fraction of the maps that were node-local.
    node_local: Option<f64>,
}

impl RecoveryFigures {
    fn of(summary: &Summary) -> RecoveryFigures {
        RecoveryFigures { wait_s: summary.details.recovery_wait_s, node_local: summary.details.recovery_locality }
    }

    fn mean(all: impl Iterator<Item = RecoveryFigures> + Clone) -> RecoveryFigures {
        let mean = |figure: fn(RecoveryFigures) -> Option<f64>| {
            let values: Vec<f64> = all.clone().filter_map(figure).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        RecoveryFigures { wait_s: mean(|recovery| recovery.wait_s), node_local: mean(|recovery| recovery.node_local) }
    }
}

impl JobComparison {
    /// Relative error of the forecast, without its sign.
    fn error(&self) -> f64 {
        (self.forecast_s / self.real_s - 1.0).abs()
    }
}

/// Runs the selected experiments; `None` if there are none. A quick run takes two policies of each.
pub fn run(selection: Selection, quick: bool, apps: &Apps) -> Result<Option<ForecastReport>> {
    let all = [(selection.hsrtf, &HSRTF), (selection.chronos, &CHRONOS)];
    let selected: Vec<&EngineExperiment> =
        all.into_iter().filter(|(selected, _)| *selected).map(|(_, experiment)| experiment).collect();
    if selected.is_empty() {
        return Ok(None);
    }
    let bar = crate::progress::bar(0, "engine", "runs");
    let runs_of = |experiment: &&EngineExperiment| experiment.job_types.len() + experiment.policies(quick).len();
    bar.set_length(selected.iter().map(|experiment| runs_of(experiment) as u64).sum());
    let folder = tempfile::Builder::new()
        .prefix("giveway-reproduce-")
        .tempdir()
        .context("cannot create a temporary folder for the runs")?;
    signals::remove_on_stop(folder.path().to_owned())?;
    let mut runs = Vec::new();
    for (index, experiment) in selected.into_iter().enumerate() {
        let folder = folder.path().join(index.to_string());
        std::fs::create_dir(&folder).context("cannot create a folder for an experiment")?;
        runs.extend(experiment.run(&folder, quick, apps, &bar).with_context(|| experiment.name)?);
    }
    bar.finish_and_clear();
    Ok(Some(ForecastReport { runs }))
}

impl EngineExperiment {
    fn policies(&self, quick: bool) -> Vec<&'static str> {
        match (quick, self.policies) {
            // The baseline, and the policy that preempts by pause.
            (true, [first, .., last]) if self.kill_at.is_none() => vec![first, last],
            (true, [first, second, ..]) => vec![first, second],
            (_, all) => all.into(),
        }
    }

    fn run(&self, folder: &Path, quick: bool, apps: &Apps, bar: &ProgressBar) -> Result<Vec<RunComparison>> {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut input = |job_type: &JobType| {
            // The reduces of a word count are light only if lines have words in common.
            let lines = InputSpec {
                maps: job_type.maps,
                lines_per_map: self.lines_per_map,
                numbered: job_type.app != "wordcount",
            };
            TextInput::generate(folder, job_type.name, lines, &mut rng)
        };
        let inputs = self.job_types.iter().map(&mut input);
        let inputs: Vec<TextInput> = inputs.collect::<Result<_>>()?;
        let play = |arrivals: &[(u64, u16)], kill_at: Option<Duration>| -> Result<TimedWorkload> {
            let job = |&(at_ms, group): &(u64, u16)| {
                let (job_type, input) = (&self.job_types[usize::from(group)], &inputs[usize::from(group)]);
                TimedJob::new(at_ms, group, input.request(job_type.app, job_type.reduces, RECORDS_PER_S), apps)
            };
            let jobs = arrivals.iter().map(job).collect::<Result<_>>()?;
            let groups = self.job_types.iter().map(|job_type| job_type.name.to_owned()).collect();
            // Only the recovery of lost tasks depends on the placement of data.
            Ok(TimedWorkload { groups, jobs, kill_at, stored: self.kill_at.is_some() })
        };
        let mut profiles: Vec<Profile> = Vec::new();
        for group in 0..self.job_types.len() as u16 {
            let alone = play(&[(0, group)], None)?;
            let folder = folder.join(format!("alone-{group}"));
            let played = alone.run(&self.cluster, &folder, policy("fifo")?, apps)?;
            profiles.push(Profile::of(&played.event_log)?);
            bar.inc(1);
        }
        let arrivals = (self.arrivals)();
        let experiment = play(&arrivals, self.kill_at)?;
        let mut compared = Vec::new();
        for name in self.policies(quick) {
            let forecast = self.forecast(&arrivals, &profiles, policy(name)?)?;
            let real = experiment.run(&self.cluster, &folder.join(name), policy(name)?, apps)?;
            compared.push(self.compare(name, &real.run.summary, &real.run.jobs, &forecast));
            bar.inc(1);
        }
        Ok(compared)
    }

    /// Simulates the experiment from the profiles, once per seed.
    fn forecast(&self, arrivals: &[(u64, u16)], profiles: &[Profile], policy: Policy) -> Result<Vec<PolicyResult>> {
        let job = |(number, &(at_ms, group)): (usize, &(u64, u16))| JobPlan {
            id: JobId(number as u32),
            submit: Time::ZERO + Span::from_millis(at_ms),
            group,
            slowstart_ppm: self.cluster.slowstart_ppm,
            ..profiles[usize::from(group)].job.clone()
        };
        let workload = Workload {
            name: self.name.into(),
            tenants: Tenants::default(),
            jobs: arrivals.iter().enumerate().map(job).collect(),
            groups: self.job_types.iter().map(|job_type| job_type.name.to_owned()).collect(),
            hints: false,
            estimate_error: 0.0,
        };
        let largest = profiles.last().context("the experiment has no jobs")?;
        let mut cluster = largest.cluster.clone();
        cluster.noise = largest.map_noise;
        cluster.heartbeat = span(self.cluster.heartbeat);
        cluster.lost_after = span(self.cluster.timeout);
        // Local files of this machine are node-local for every worker.
        cluster.replicas = if self.kill_at.is_some() { 2 } else { self.cluster.nodes };
        // As measured by `giveway bench engine`, rounded to 10 ms.
        let ten = Span::from_millis(10);
        cluster.costs =
            Costs { launch: Span::ZERO, pause: ten, resume: ten, end_early: ten, kill: ten, ..cluster.costs };
        cluster.faults.scripted = self.kill_at.map(|at| fault(self.cluster.nodes - 1, at)).into_iter().collect();
        let run = |seed: u64| Ok(Comparison::new(cluster.clone(), workload.clone(), seed).run(&policy, &mut ())?);
        (1..=FORECAST_RUNS).map(run).collect()
    }

    fn compare(
        &self,
        policy: &str,
        real: &Summary,
        real_jobs: &[JobMetrics],
        simulated: &[PolicyResult],
    ) -> RunComparison {
        let mut jobs = Vec::new();
        // The engine, as the simulator, numbers jobs in order of submission.
        let mut by_number: Vec<&JobMetrics> = real_jobs.iter().collect();
        by_number.sort_by_key(|job| job.job);
        for (number, job) in by_number.into_iter().enumerate() {
            let same_job = |job: &&JobMetrics| job.job.0 as usize == number;
            let forecasts = simulated.iter().flat_map(|run| run.jobs.iter().filter(same_job));
            let forecast_s = median(forecasts.map(|job| job.completion_s).collect());
            let group = self.job_types[usize::from(job.group)].name.to_owned();
            jobs.push(JobComparison { group, real_s: job.completion_s, forecast_s });
        }
        let forecast = RecoveryFigures::mean(simulated.iter().map(|run| RecoveryFigures::of(&run.summary)));
        RunComparison { experiment: self.name, policy: policy.into(), jobs, real: RecoveryFigures::of(real), forecast }
    }
}

/// Profile of a job that ran alone on the idle cluster.
struct Profile {
    job: JobPlan,
    cluster: Cluster,
    /// Standard deviation of the logarithm of its map times.
    map_noise: f64,
}

impl Profile {
    fn of(event_log: &[u8]) -> Result<Profile> {
        let workload::RecordedRun { workload, cluster, .. } = workload::from_event_log(event_log, "a job alone")?;
        let job = workload.jobs.into_iter().next().context("the event log of the profile run has no job")?;
        Ok(Profile { job, cluster, map_noise: map_noise(event_log)? })
    }
}

fn map_noise(event_log: &[u8]) -> Result<f64> {
    let mut running = Lifecycle::<()>::default();
    let mut logs = Vec::new();
    for record in EventLogReader::open(event_log)? {
        // A journal has no closing record, because the cluster may be started again.
        let Ok(Record { now, event, actions }) = record else { break };
        running.observe(&event, &actions, now, &mut |change| {
            if let Change::Ended { attempt, end: End::Finished { .. } } = change
                && attempt.id.task.kind == Kind::Map
            {
                logs.push(now.since(attempt.launched).as_secs_f64().ln());
            }
        });
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
    Ok(variance.sqrt())
}

/// A policy of the catalogue with its time spans scaled.
fn policy(name: &str) -> Result<Policy> {
    Ok(catalog::by_name(name).with_context(|| format!("no policy `{name}` in the catalogue"))?.faster(TIME_SCALE))
}

fn fault(node: u32, at: Duration) -> ScriptedFault {
    ScriptedFault { node: NodeId(node), at_s: at.as_secs_f64(), back_after_s: None }
}

fn span(duration: Duration) -> Span {
    Span::from_millis(duration.as_millis() as u64)
}

impl RunComparison {
    fn median_error(&self) -> f64 {
        median(self.jobs.iter().map(JobComparison::error).collect())
    }

    fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for job in &self.jobs {
            if !groups.contains(&job.group.as_str()) {
                groups.push(&job.group);
            }
        }
        groups
    }

    /// Mean completion time of a group in seconds, measured and forecast.
    fn means(&self, group: &str) -> (f64, f64) {
        let jobs: Vec<&JobComparison> = self.jobs.iter().filter(|job| job.group == group).collect();
        let mean =
            |time_s: fn(&JobComparison) -> f64| jobs.iter().map(|job| time_s(job)).sum::<f64>() / jobs.len() as f64;
        (mean(|job| job.real_s), mean(|job| job.forecast_s))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => (low + high) / 2.0,
        _ => f64::NAN,
    }
}

impl ForecastReport {
    /// Median error over all jobs of all runs.
    fn median_error(&self) -> f64 {
        median(self.runs.iter().flat_map(|run| run.jobs.iter().map(JobComparison::error)).collect())
    }

    /// Result in one sentence.
    pub fn summary(&self) -> String {
        let jobs: usize = self.runs.iter().map(|run| run.jobs.len()).sum();
        format!(
            "{} runs with {jobs} jobs on an engine cluster of {} worker processes: median error of the forecast completion time of a job {}.",
            self.runs.len(),
            CLUSTER.nodes,
            Unit::Fraction.show(self.median_error())
        )
    }

    /// A table for the terminal.
    pub fn terminal(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header([
            "experiment",
            "policy",
            "mean completion by group:\nreal (forecast), s",
            "median error\nof a job",
        ]);
        for run in &self.runs {
            let cell = |group: &&str| {
                let (real, forecast) = run.means(group);
                format!("{group} {real:.2} ({forecast:.2})")
            };
            let groups: Vec<String> = run.groups().iter().map(cell).collect();
            table.add_row([
                run.experiment.into(),
                run.policy.clone(),
                groups.join(", "),
                Unit::Fraction.show(run.median_error()),
            ]);
        }
        if let Some(last) = table.column_mut(3) {
            last.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n{}", self.summary())
    }

    /// The figures: mean completion time by policy, measured and forecast, one figure per experiment and group.
    pub fn figures(&self) -> Vec<SvgFigure> {
        let mut figures = Vec::new();
        for experiment in [&HSRTF, &CHRONOS] {
            let runs: Vec<&RunComparison> = self.runs.iter().filter(|run| run.experiment == experiment.name).collect();
            for job_type in experiment.job_types.iter().filter(|_| !runs.is_empty()) {
                let series = |side: fn((f64, f64)) -> f64| -> Vec<Estimate> {
                    runs.iter().map(|run| Estimate::single(side(run.means(job_type.name)))).collect()
                };
                figures.push(Figure {
                    id: format!("engine-{}-{}", experiment.name.to_lowercase().replace(' ', "-"), job_type.name),
                    title: format!(
                        "{}: mean completion of the {} jobs, real and forecast",
                        experiment.name, job_type.name
                    ),
                    counterpart: String::new(),
                    paper: Vec::new(),
                    plot: Plot::Bars {
                        y: Measure::seconds("mean completion time"),
                        categories: runs.iter().map(|run| run.policy.clone()).collect(),
                        series: vec![
                            ("real".into(), series(|(real, _)| real)),
                            ("forecast".into(), series(|(_, forecast)| forecast)),
                        ],
                    },
                });
            }
        }
        figures.iter().flat_map(render).collect()
    }

    /// The Markdown page with the times of every job.
    pub fn page(&self, command: &str) -> String {
        let mut text = format!(
            "# Engine runs and their forecasts\n\nGenerated by `{command}`. {}\n\nThe workload of hSRTF's Table 2 and the failure experiment of Chronos (section V-A), scaled to {} worker \
             processes with {} map and {} reduce slots each. Tasks read {RECORDS_PER_S} records per second, so that the results depend on the schedule and not on the number of cores. \
             Each type of job first ran alone on the idle cluster. The simulator's input is how long its maps and reduces took there, the variation of the largest job's maps, and \
             10 ms as the cost of stopping a task; nothing was fitted to the runs that are forecast. Which job gets a slot may depend on a millisecond, so a forecast is the \
             median of {FORECAST_RUNS} simulated runs (the mean for lost tasks), each with another placement of the input. The engine's run is a single sample, and the engine spreads blocks evenly. \
             Every output was equal to that of a sequential run.\n\n",
            self.summary(),
            CLUSTER.nodes,
            CLUSTER.map_slots,
            CLUSTER.reduce_slots
        );
        text += "| experiment | policy | median error of a job | recovery wait: real, forecast | node-local recovery maps: real, forecast |\n|---|---|---|---|---|\n";
        let both = |figure: &dyn Fn(&RecoveryFigures) -> Option<f64>, unit: Unit, run: &RunComparison| match (
            figure(&run.real),
            figure(&run.forecast),
        ) {
            (Some(real), Some(forecast)) => format!("{}, {}", unit.show(real), unit.show(forecast)),
            _ => String::new(),
        };
        for run in &self.runs {
            text += &format!(
                "| {} | {} | {} | {} | {} |\n",
                run.experiment,
                run.policy,
                Unit::Fraction.show(run.median_error()),
                both(&|recovery| recovery.wait_s, Unit::Seconds, run),
                both(&|recovery| recovery.node_local, Unit::Fraction, run)
            );
        }
        text.push('\n');
        for figure in self.figures() {
            text += &format!("![{}](figures/{})\n\n", figure.title, figure.file_name);
        }
        for run in &self.runs {
            text += &format!(
                "## {}, {}\n\n| job | group | real | forecast | error |\n|---|---|---|---|---|\n",
                run.experiment, run.policy
            );
            for (number, job) in run.jobs.iter().enumerate() {
                text += &format!(
                    "| {} | {} | {:.2} s | {:.2} s | {} |\n",
                    number + 1,
                    job.group,
                    job.real_s,
                    job.forecast_s,
                    Unit::Change.show(job.forecast_s / job.real_s - 1.0)
                );
            }
            text.push('\n');
        }
        text.trim_end().to_owned() + "\n"
    }
}
