//! Two of the experiments on a real cluster of this machine, beside what the simulator forecasts for it.
//!
//! The mix of hSRTF's Table 2 and the failure run of Chronos are scaled down to four worker processes whose tasks take their records slowly, so that what is
//! measured is the schedule and not the machine. Each kind of job is first run alone on the idle cluster; that profile (how long a map takes and how much that
//! varies, how long a reduce takes once the maps are done) is what the simulator is told, beside what stopping a task takes. It then forecasts the whole run under each policy, and the run really
//! takes place. Who gets a slot first may hang on a millisecond, so a forecast is the median of several simulated runs. Every output is checked against a
//! sequential run.

use super::draw::{Drawing, draw};
use super::study::{Estimate, Figure, Measure, Plot, Unit};
use crate::signals;
use crate::stage::{Input, Job, Lines, Play, Stage};
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use giveway_core::event_log::{EventLogReader, Record};
use giveway_core::policy::catalog;
use giveway_core::{Action, Event, JobId, Kind, NodeId, Policy, Span, Tenants, Time};
use giveway_engine::apps::Apps;
use giveway_sim::cluster::{Cluster, Costs, ScriptedFault};
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::metrics::{JobMetrics, Summary};
use giveway_sim::workload::{self, JobPlan, Workload};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A kind of job, also the name of its size group.
struct Shape {
    name: &'static str,
    app: &'static str,
    maps: usize,
    reduces: u32,
}

/// A run of one of the papers, scaled down.
struct Experiment {
    name: &'static str,
    /// Smallest first.
    shapes: &'static [Shape],
    /// When which shape comes, in milliseconds.
    arrivals: fn() -> Vec<(u64, u16)>,
    policies: &'static [&'static str],
    /// Lines of input for one map.
    lines_a_map: usize,
    stage: Stage,
    kill_at: Option<Duration>,
}

const STAGE: Stage = Stage {
    nodes: 4,
    map_slots: 3,
    reduce_slots: 2,
    beat: Duration::from_millis(75),
    timeout: Duration::from_millis(750),
    slowstart_ppm: 50_000,
};

/// Simulated runs for one forecast.
const DRAWS: u64 = 25;

/// Lines a task takes in a second.
const RECORDS_PER_S: u64 = 2_000;

/// Tasks are so many times shorter than the papers', and so are the policies' time-outs.
const FASTER: f64 = 40.0;

/// hSRTF's Table 2: large jobs first, then medium, then small ones, one every ten of its seconds. Slots are a fortieth of the paper's, jobs a tenth.
const HSRTF: Experiment = Experiment {
    name: "hSRTF mix",
    shapes: &[
        Shape { name: "small", app: "wordcount", maps: 1, reduces: 1 },
        Shape { name: "medium", app: "sort", maps: 6, reduces: 1 },
        Shape { name: "large", app: "sort", maps: 24, reduces: 3 },
    ],
    arrivals: || {
        let shapes = [vec![2; 3], vec![1; 8], vec![0; 20]].concat();
        shapes.into_iter().enumerate().map(|(number, shape)| (250 * number as u64, shape)).collect()
    },
    policies: &["fifo", "fair", "hsrtf-pr", "hsrtf-prp-pause"],
    lines_a_map: 800,
    stage: STAGE,
    kill_at: None,
};

/// Chronos, section V-A: 17 and 56 GB of word count, and a node that fails in the second wave of maps. The slots are a fifth of the paper's, and so are the jobs.
const CHRONOS: Experiment = Experiment {
    name: "Chronos failure",
    shapes: &[
        Shape { name: "first", app: "wordcount", maps: 13, reduces: 4 },
        Shape { name: "second", app: "wordcount", maps: 42, reduces: 4 },
    ],
    arrivals: || vec![(0, 0), (100, 1)],
    policies: &["fifo", "chronos(fifo)", "fair", "chronos(fair)"],
    lines_a_map: 2_600,
    stage: Stage {
        beat: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        slowstart_ppm: 1_000_000,
        ..STAGE
    },
    kill_at: Some(Duration::from_millis(1_500)),
};

/// Which experiments to run.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    /// The mix.
    pub hsrtf: bool,
    /// The failure.
    pub chronos: bool,
}

/// All runs, and what was forecast for them.
#[derive(Serialize)]
pub struct Forecast {
    /// Run by run.
    pub runs: Vec<Compared>,
}

/// One run and its forecast.
#[derive(Serialize)]
pub struct Compared {
    experiment: &'static str,
    policy: String,
    /// In the order of their submission.
    jobs: Vec<OneJob>,
    real: Recovery,
    forecast: Recovery,
}

/// Completion of one job.
#[derive(Serialize)]
pub struct OneJob {
    group: String,
    real_s: f64,
    forecast_s: f64,
}

/// What became of lost tasks.
#[derive(Serialize)]
struct Recovery {
    wait_s: Option<f64>,
    near_data: Option<f64>,
}

impl Recovery {
    fn of(summary: &Summary) -> Recovery {
        Recovery { wait_s: summary.details.recovery_wait_s, near_data: summary.details.recovery_locality }
    }

    fn mean(all: impl Iterator<Item = Recovery> + Clone) -> Recovery {
        let mean = |of: fn(Recovery) -> Option<f64>| {
            let values: Vec<f64> = all.clone().filter_map(of).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Recovery { wait_s: mean(|recovery| recovery.wait_s), near_data: mean(|recovery| recovery.near_data) }
    }
}

impl OneJob {
    fn error(&self) -> f64 {
        (self.forecast_s / self.real_s - 1.0).abs()
    }
}

/// Runs the experiments that are wanted; the quick way takes two policies of each.
pub fn run(which: Which, quick: bool, apps: &Apps) -> Result<Option<Forecast>> {
    let wanted = [(which.hsrtf, &HSRTF), (which.chronos, &CHRONOS)];
    let wanted: Vec<&Experiment> = wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, of)| of).collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let bar = crate::progress::bar(0, "real runs", "runs");
    bar.set_length(wanted.iter().map(|of| (of.shapes.len() + of.policies(quick).len()) as u64).sum());
    let folder = tempfile::Builder::new().prefix("giveway-reproduce-").tempdir().context("a folder for the runs")?;
    signals::remove_on_stop(folder.path().to_owned())?;
    let mut runs = Vec::new();
    for (at, experiment) in wanted.into_iter().enumerate() {
        let folder = folder.path().join(at.to_string());
        std::fs::create_dir(&folder).context("a folder for an experiment")?;
        runs.extend(experiment.run(&folder, quick, apps, &bar).with_context(|| experiment.name)?);
    }
    bar.finish_and_clear();
    Ok(Some(Forecast { runs }))
}

impl Experiment {
    fn policies(&self, quick: bool) -> Vec<&'static str> {
        match (quick, self.policies) {
            // The one to beat, and the one that gives way.
            (true, [first, .., last]) if self.kill_at.is_none() => vec![first, last],
            (true, [first, second, ..]) => vec![first, second],
            (_, all) => all.into(),
        }
    }

    fn run(&self, folder: &Path, quick: bool, apps: &Apps, bar: &ProgressBar) -> Result<Vec<Compared>> {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut input = |shape: &Shape| {
            // Word counts have light reduces only if lines share their words.
            let lines = Lines { maps: shape.maps, lines_a_map: self.lines_a_map, numbered: shape.app != "wordcount" };
            Input::make(folder, shape.name, lines, &mut random)
        };
        let inputs = self.shapes.iter().map(&mut input);
        let inputs: Vec<Input> = inputs.collect::<Result<_>>()?;
        let play = |arrivals: &[(u64, u16)], kill_at: Option<Duration>| -> Result<Play> {
            let job = |&(at_ms, group): &(u64, u16)| {
                let (shape, input) = (&self.shapes[usize::from(group)], &inputs[usize::from(group)]);
                Job::new(at_ms, group, input.request(shape.app, shape.reduces, RECORDS_PER_S), apps)
            };
            let jobs = arrivals.iter().map(job).collect::<Result<_>>()?;
            let groups = self.shapes.iter().map(|shape| shape.name.to_owned()).collect();
            // Where data lies matters only to work that was lost.
            Ok(Play { groups, jobs, kill_at, stored: self.kill_at.is_some() })
        };
        let mut profiles: Vec<Profile> = Vec::new();
        for group in 0..self.shapes.len() as u16 {
            let alone = play(&[(0, group)], None)?;
            let folder = folder.join(format!("alone-{group}"));
            let played = alone.perform(&self.stage, &folder, policy("fifo")?, apps)?;
            profiles.push(Profile::of(&played.event_log)?);
            bar.inc(1);
        }
        let arrivals = (self.arrivals)();
        let whole = play(&arrivals, self.kill_at)?;
        let mut compared = Vec::new();
        for name in self.policies(quick) {
            let forecast = self.forecast(&arrivals, &profiles, policy(name)?)?;
            let real = whole.perform(&self.stage, &folder.join(name), policy(name)?, apps)?;
            compared.push(self.compare(name, &real.run.summary, &real.run.jobs, &forecast));
            bar.inc(1);
        }
        Ok(compared)
    }

    /// What the simulator makes of jobs of which it knows only how they were alone, draw by draw.
    fn forecast(&self, arrivals: &[(u64, u16)], profiles: &[Profile], policy: Policy) -> Result<Vec<PolicyResult>> {
        let job = |(number, &(at_ms, group)): (usize, &(u64, u16))| JobPlan {
            id: JobId(number as u32),
            submit: Time::ZERO + Span::from_millis(at_ms),
            group,
            slowstart_ppm: self.stage.slowstart_ppm,
            ..profiles[usize::from(group)].job.clone()
        };
        let workload = Workload {
            name: self.name.into(),
            tenants: Tenants::default(),
            jobs: arrivals.iter().enumerate().map(job).collect(),
            groups: self.shapes.iter().map(|shape| shape.name.to_owned()).collect(),
            hints: false,
            estimate_error: 0.0,
        };
        let largest = profiles.last().context("an experiment without jobs")?;
        let mut cluster = largest.cluster.clone();
        cluster.noise = largest.map_noise;
        cluster.heartbeat = span(self.stage.beat);
        cluster.lost_after = span(self.stage.timeout);
        // Files of this machine are as near to every worker as to any other.
        cluster.replicas = if self.kill_at.is_some() { 2 } else { self.stage.nodes };
        // As `giveway bench engine` measures them, to the nearest ten milliseconds.
        let ten = Span::from_millis(10);
        cluster.costs =
            Costs { launch: Span::ZERO, pause: ten, resume: ten, end_early: ten, kill: ten, ..cluster.costs };
        cluster.faults.scripted = self.kill_at.map(|at| fault(self.stage.nodes - 1, at)).into_iter().collect();
        let draw = |seed: u64| Ok(Comparison::new(cluster.clone(), workload.clone(), seed).run(&policy, &mut ())?);
        (1..=DRAWS).map(draw).collect()
    }

    fn compare(&self, policy: &str, real: &Summary, real_jobs: &[JobMetrics], draws: &[PolicyResult]) -> Compared {
        let mut jobs = Vec::new();
        // Jobs of the real cluster are numbered as they were submitted, too.
        let mut by_number: Vec<&JobMetrics> = real_jobs.iter().collect();
        by_number.sort_by_key(|job| job.job);
        for (number, job) in by_number.into_iter().enumerate() {
            let drawn = draws.iter().flat_map(|draw| draw.jobs.iter().filter(|job| job.job.0 as usize == number));
            let forecast_s = median(drawn.map(|job| job.completion_s).collect());
            let group = self.shapes[usize::from(job.group)].name.to_owned();
            jobs.push(OneJob { group, real_s: job.completion_s, forecast_s });
        }
        let forecast = Recovery::mean(draws.iter().map(|draw| Recovery::of(&draw.summary)));
        Compared { experiment: self.name, policy: policy.into(), jobs, real: Recovery::of(real), forecast }
    }
}

/// How a job was alone on the idle cluster.
struct Profile {
    job: JobPlan,
    cluster: Cluster,
    /// How much the times of its maps varied: the standard deviation of their logarithm.
    map_noise: f64,
}

impl Profile {
    fn of(event_log: &[u8]) -> Result<Profile> {
        let (workload, cluster) = workload::from_event_log(event_log, "a job alone")?;
        let job = workload.jobs.into_iter().next().context("a job that ran alone")?;
        Ok(Profile { job, cluster, map_noise: map_noise(event_log)? })
    }
}

fn map_noise(event_log: &[u8]) -> Result<f64> {
    let mut launched = BTreeMap::new();
    let mut logs = Vec::new();
    for record in EventLogReader::open(event_log)? {
        // The journal of a cluster that may be started again is not closed.
        let Ok(Record { now, event, actions }) = record else { break };
        if let Event::AttemptFinished { attempt, .. } = event
            && attempt.task.kind == Kind::Map
            && let Some(since) = launched.remove(&attempt)
        {
            logs.push(now.since(since).as_secs_f64().ln());
        }
        for action in actions {
            if let Action::Launch { attempt, .. } = action {
                launched.insert(attempt, now);
            }
        }
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
    Ok(variance.sqrt())
}

fn policy(name: &str) -> Result<Policy> {
    Ok(catalog::by_name(name).context("a policy of the catalogue")?.faster(FASTER))
}

fn fault(node: u32, at: Duration) -> ScriptedFault {
    ScriptedFault { node: NodeId(node), at_s: at.as_secs_f64(), back_after_s: None }
}

fn span(duration: Duration) -> Span {
    Span::from_millis(duration.as_millis() as u64)
}

impl Compared {
    fn median_error(&self) -> f64 {
        median(self.jobs.iter().map(OneJob::error).collect())
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

    /// Mean completion of a group, real and forecast.
    fn means(&self, group: &str) -> (f64, f64) {
        let jobs: Vec<&OneJob> = self.jobs.iter().filter(|job| job.group == group).collect();
        let mean = |of: fn(&OneJob) -> f64| jobs.iter().map(|job| of(job)).sum::<f64>() / jobs.len() as f64;
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

impl Forecast {
    /// Median error of the completion of all jobs of all runs.
    fn median_error(&self) -> f64 {
        median(self.runs.iter().flat_map(|run| run.jobs.iter().map(OneJob::error)).collect())
    }

    /// In a sentence.
    pub fn summary(&self) -> String {
        let jobs: usize = self.runs.iter().map(|run| run.jobs.len()).sum();
        format!(
            "On a real cluster of {} worker processes, {} runs with {jobs} jobs: median error of the forecast completion time of a job {}.",
            STAGE.nodes,
            self.runs.len(),
            Unit::Part.show(self.median_error())
        )
    }

    /// A table for the terminal.
    pub fn terminal(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header([
            "real run",
            "policy",
            "mean completion by group:\nreal (forecast) s",
            "median error\nof a job",
        ]);
        for run in &self.runs {
            let of = |group: &&str| {
                let (real, forecast) = run.means(group);
                format!("{group} {real:.2} ({forecast:.2})")
            };
            let groups: Vec<String> = run.groups().iter().map(of).collect();
            table.add_row([
                run.experiment.into(),
                run.policy.clone(),
                groups.join(", "),
                Unit::Part.show(run.median_error()),
            ]);
        }
        if let Some(last) = table.column_mut(3) {
            last.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n{}", self.summary())
    }

    /// The drawings: mean completion by policy and group, real beside forecast.
    pub fn drawings(&self) -> Vec<Drawing> {
        let mut figures = Vec::new();
        for experiment in [&HSRTF, &CHRONOS] {
            let runs: Vec<&Compared> = self.runs.iter().filter(|run| run.experiment == experiment.name).collect();
            for shape in experiment.shapes.iter().filter(|_| !runs.is_empty()) {
                let series = |of: fn((f64, f64)) -> f64| -> Vec<Estimate> {
                    runs.iter().map(|run| Estimate { mean: of(run.means(shape.name)), half: None }).collect()
                };
                figures.push(Figure {
                    id: format!("engine-{}-{}", experiment.name.to_lowercase().replace(' ', "-"), shape.name),
                    title: format!(
                        "{}: mean completion of the {} jobs, real and forecast",
                        experiment.name, shape.name
                    ),
                    answers: String::new(),
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
        figures.iter().flat_map(draw).collect()
    }

    /// A page with every job.
    pub fn page(&self, command: &str) -> String {
        let mut text = format!(
            "# Real runs beside their forecasts\n\nMade by `{command}`. {}\n\nThe mix of hSRTF's Table 2 and the failure run of Chronos (section V-A), scaled to {} worker \
             processes of {} map and {} reduce slots. Tasks take {RECORDS_PER_S} records a second, so that what is measured is the schedule and not how many cores \
             there are. Each kind of job was first run alone on the idle cluster, and how long its maps and reduces took there, and how much the maps of the largest varied, is what \
             the simulator was told, beside the 10 ms that stopping a task takes: nothing was fitted to the runs that are forecast. Who gets a slot first may hang on a millisecond, so a forecast is the \
             median of {DRAWS} simulated runs (the mean for lost tasks), each with the input lying elsewhere; the real run is one draw, and the engine spreads blocks evenly. Every output was equal to that of a sequential run.\n\n",
            self.summary(),
            STAGE.nodes,
            STAGE.map_slots,
            STAGE.reduce_slots
        );
        text += "| run | policy | median error of a job | lost tasks ran again after: real, forecast | near their data: real, forecast |\n|---|---|---|---|---|\n";
        let both = |of: &dyn Fn(&Recovery) -> Option<f64>, unit: Unit, run: &Compared| match (
            of(&run.real),
            of(&run.forecast),
        ) {
            (Some(real), Some(forecast)) => format!("{}, {}", unit.show(real), unit.show(forecast)),
            _ => String::new(),
        };
        for run in &self.runs {
            text += &format!(
                "| {} | {} | {} | {} | {} |\n",
                run.experiment,
                run.policy,
                Unit::Part.show(run.median_error()),
                both(&|recovery| recovery.wait_s, Unit::Seconds, run),
                both(&|recovery| recovery.near_data, Unit::Part, run)
            );
        }
        text.push('\n');
        for drawing in self.drawings() {
            text += &format!("![{}](figures/{})\n\n", drawing.title, drawing.file);
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
