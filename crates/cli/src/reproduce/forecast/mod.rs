//! Experiments on the engine, compared with the simulator's forecast.
//!
//! The workload of hSRTF's Table 2 and the failure experiment of Chronos are scaled down to four worker processes on this machine. Tasks read their
//! records at a limited rate, so that the results depend on the schedule and not on the machine.
//!
//! In each of several rounds, each type of job first runs alone on the idle cluster. Its profile is the time of each of its maps, and of its
//! reduces once all maps are done. The engine then runs the whole experiment under each policy. Which job gets a slot may depend on a
//! millisecond, so the simulator forecasts each run many times, each time with other profiles of those of all rounds, and the medians over all
//! rounds are compared.
//! Every output is compared with that of a sequential run.

mod experiments;
mod report;

use crate::local_cluster::{InputSpec, TextInput, TimedJob, TimedWorkload};
use crate::report::Run;
use crate::signals;
use anyhow::{Context, Result};
use experiments::{CHRONOS, CONTENTION, EngineExperiment, HSRTF, JobType, Speed, cores};
use giveway_core::policy::catalog;
use giveway_core::{JobId, NodeId, Policy, Span, Tenants, Time};
use giveway_engine::apps::Apps;
use giveway_sim::cluster::{Cluster, ScriptedFault, SharedHardware};
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::metrics::JobMetrics;
use giveway_sim::workload::{self, JobPlan, Workload};
use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
pub use report::ForecastReport;
use report::{JobComparison, RecoveryFigures, RunComparison, median};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Simulated runs per run of the engine.
const FORECAST_RUNS: usize = 25;

/// Rounds per experiment; a quick run has one.
const ROUNDS: usize = 5;

/// The experiments to run.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// hSRTF's workload.
    pub hsrtf: bool,
    /// Chronos' node failure.
    pub chronos: bool,
    /// More slots than cores.
    pub contention: bool,
}

/// Runs the selected experiments; `None` if there are none. A quick run takes few policies of each.
pub fn run(selection: Selection, quick: bool, apps: &Apps) -> Result<Option<ForecastReport>> {
    let all = [(selection.hsrtf, &HSRTF), (selection.chronos, &CHRONOS), (selection.contention, &CONTENTION)];
    let selected: Vec<&EngineExperiment> =
        all.into_iter().filter(|(selected, _)| *selected).map(|(_, experiment)| experiment).collect();
    if selected.is_empty() {
        return Ok(None);
    }
    let bar = crate::progress::bar(0, "engine", "runs");
    let rounds = if quick { 1 } else { ROUNDS };
    let runs_of = |experiment: &&EngineExperiment| {
        let (types, policies) = (experiment.job_types.len(), experiment.policies(quick).len());
        let first = if experiment.speed == Speed::Cores { types } else { 0 };
        first + rounds * (types + policies)
    };
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
        runs.extend(experiment.run(&folder, quick, rounds, apps, &bar).with_context(|| experiment.name)?);
    }
    bar.finish_and_clear();
    Ok(Some(ForecastReport { runs, rounds }))
}

impl EngineExperiment {
    fn run(
        &self,
        folder: &Path,
        quick: bool,
        rounds: usize,
        apps: &Apps,
        bar: &ProgressBar,
    ) -> Result<Vec<RunComparison>> {
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
                let mut request = input.request(job_type.app, job_type.reduces, self.records_per_s());
                // Where only cores are to be short, tasks must not wait for the disk.
                request.sync_output = self.speed != Speed::Cores;
                TimedJob::new(at_ms, group, request, apps)
            };
            let jobs = arrivals.iter().map(job).collect::<Result<_>>()?;
            let groups = self.job_types.iter().map(|job_type| job_type.name.to_owned()).collect();
            // Only the recovery of lost tasks depends on the placement of data.
            Ok(TimedWorkload { groups, jobs, kill_at, stored: self.kill_at.is_some() })
        };
        // Each type of job, alone on the idle cluster.
        let profile = |name: &str| -> Result<Vec<Profile>> {
            let run = |group: u16| {
                let folder = folder.join(format!("alone-{name}-{group}"));
                let alone = play(&[(0, group)], None)?;
                let played = alone.run(&self.profile_cluster(), &folder, self.policy("fifo")?, apps)?;
                bar.inc(1);
                Profile::of(&played.event_log)
            };
            (0..self.job_types.len() as u16).map(run).collect()
        };
        if self.speed == Speed::Cores {
            // The first runs of all would be slower: the input is in memory after them, as it is in all runs that are forecast.
            profile("first")?;
        }
        let experiment = play(&(self.arrivals)(), self.kill_at)?;
        let policies = self.policies(quick);
        let mut profiles = Vec::new();
        let mut runs: Vec<Vec<Run>> = policies.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            profiles.push(profile(&round.to_string())?);
            for (name, runs) in policies.iter().zip(&mut runs) {
                let folder = folder.join(format!("{name}-{round}"));
                runs.push(experiment.run(&self.cluster(), &folder, self.policy(name)?, apps)?.run);
                bar.inc(1);
            }
        }
        let compare = |(name, real): (&&str, &Vec<Run>)| {
            let policy = self.policy(name)?;
            let mut forecast = Vec::new();
            for (seeds, run) in (1..).step_by(FORECAST_RUNS).map(|first| first..first + FORECAST_RUNS as u64).zip(real)
            {
                forecast.extend(self.forecast(&by_submission(&run.jobs), &profiles, &policy, seeds)?);
            }
            Ok(self.compare(name, real, &forecast))
        };
        policies.iter().zip(&runs).map(compare).collect()
    }

    /// Limit of the lines that a task reads per second.
    fn records_per_s(&self) -> Option<u64> {
        match self.speed {
            Speed::Limited(rate) => Some(rate),
            Speed::Cores => None,
        }
    }

    /// A policy of the catalogue with its time spans scaled.
    fn policy(&self, name: &str) -> Result<Policy> {
        let policy = catalog::by_name(name).with_context(|| format!("no policy `{name}` in the catalogue"))?;
        Ok(policy.faster(self.time_scale))
    }

    /// Simulates the experiment, once per seed, from the profiles of each round. Of the jobs that ran, only their types and submission times are
    /// used.
    fn forecast(
        &self,
        jobs: &[&JobMetrics],
        rounds: &[Vec<Profile>],
        policy: &Policy,
        seeds: Range<u64>,
    ) -> Result<Vec<PolicyResult>> {
        let first_s = jobs.first().map_or(0.0, |job| job.submit_s);
        let job = |number: usize, job: &JobMetrics, profiles: &[Profile]| JobPlan {
            id: JobId(number as u32),
            submit: Time::ZERO + Span::from_secs_f64(job.submit_s - first_s),
            group: job.group,
            slowstart_ppm: self.cluster.slowstart_ppm,
            ..profiles[usize::from(job.group)].job.clone()
        };
        let workload = |seed: u64| {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut any_round = || &rounds[rng.random_range(0..rounds.len())];
            Workload {
                name: self.name.into(),
                tenants: Tenants::default(),
                jobs: jobs.iter().enumerate().map(|(number, played)| job(number, played, any_round())).collect(),
                groups: self.job_types.iter().map(|job_type| job_type.name.to_owned()).collect(),
                hints: false,
                estimate_error: 0.0,
            }
        };
        let mut cluster = rounds.iter().flatten().next().context("the experiment has no jobs")?.cluster.clone();
        if self.speed == Speed::Cores {
            let slots = self.cluster();
            for node in &mut cluster.nodes {
                (node.spec.map_slots, node.spec.reduce_slots) = (slots.map_slots, slots.reduce_slots);
                // The input is in memory after the profile runs, and outputs are small: only cores are short.
                node.shared = Some(SharedHardware { cores: cores(), disks: u16::MAX, page_cache_bytes: None });
            }
        }
        cluster.heartbeat = span(self.cluster.heartbeat);
        cluster.lost_after = span(self.cluster.timeout);
        // Local files of this machine are node-local for every worker.
        cluster.replicas = if self.kill_at.is_some() { 2 } else { self.cluster.nodes };
        cluster.faults.scripted = self.kill_at.map(|at| fault(self.cluster.nodes - 1, at)).into_iter().collect();
        let run = |seed: u64| Ok(Comparison::new(cluster.clone(), workload(seed), seed).run(policy, &mut ())?);
        seeds.map(run).collect()
    }

    fn compare(&self, policy: &str, real: &[Run], simulated: &[PolicyResult]) -> RunComparison {
        let real_jobs: Vec<&[JobMetrics]> = real.iter().map(|run| &*run.jobs).collect();
        let simulated_jobs: Vec<&[JobMetrics]> = simulated.iter().map(|run| &*run.jobs).collect();
        let group_name = |group: u16| self.job_types[usize::from(group)].name;
        let measured = RecoveryFigures::mean(real.iter().map(|run| RecoveryFigures::of(&run.summary)));
        let forecast = RecoveryFigures::mean(simulated.iter().map(|run| RecoveryFigures::of(&run.summary)));
        RunComparison {
            experiment: self.name,
            policy: policy.into(),
            jobs: compare_jobs(&real_jobs, &simulated_jobs, group_name),
            real: measured,
            forecast,
        }
    }
}

/// The median completion time of each job in the runs of the engine and in the simulated ones, in order of submission.
fn compare_jobs<'a>(
    real: &[&[JobMetrics]],
    simulated: &[&[JobMetrics]],
    group_name: impl Fn(u16) -> &'a str,
) -> Vec<JobComparison> {
    let real: Vec<_> = real.iter().map(|jobs| by_submission(jobs)).collect();
    let simulated: Vec<_> = simulated.iter().map(|jobs| by_submission(jobs)).collect();
    let completions = |runs: &[Vec<&JobMetrics>], number: usize| -> Vec<f64> {
        runs.iter().filter_map(|jobs| jobs.get(number)).map(|job| job.completion_s).collect()
    };
    let compared = |(number, job): (usize, &&JobMetrics)| {
        let runs_s = completions(&real, number);
        JobComparison {
            group: group_name(job.group).to_owned(),
            real_s: median(runs_s.clone()),
            runs_s,
            forecast_s: median(completions(&simulated, number)),
        }
    };
    real.first().into_iter().flatten().enumerate().map(compared).collect()
}

/// The jobs in order of submission, in which the engine and the simulator number them, from different first numbers.
fn by_submission(jobs: &[JobMetrics]) -> Vec<&JobMetrics> {
    let mut jobs: Vec<&JobMetrics> = jobs.iter().collect();
    jobs.sort_by_key(|job| job.job);
    jobs
}

/// Profile of a job that ran alone on the idle cluster.
struct Profile {
    job: JobPlan,
    cluster: Cluster,
}

impl Profile {
    fn of(event_log: &[u8]) -> Result<Profile> {
        let workload::RecordedRun { workload, cluster, .. } = workload::from_event_log(event_log, "a job alone")?;
        let job = workload.jobs.into_iter().next().context("the event log of the profile run has no job")?;
        Ok(Profile { job, cluster })
    }
}

fn fault(node: u32, at: Duration) -> ScriptedFault {
    ScriptedFault { node: NodeId(node), at_s: at.as_secs_f64(), back_after_s: None }
}

fn span(duration: Duration) -> Span {
    Span::from_millis(duration.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u32, group: u16, completion_s: f64) -> JobMetrics {
        JobMetrics {
            job: JobId(number),
            group,
            submit_s: 0.0,
            completion_s,
            wait_s: 0.0,
            execution_s: completion_s,
            slowdown: None,
            pauses: 0,
            kills: 0,
            early_ends: 0,
        }
    }

    #[test]
    fn jobs_are_matched_by_submission_and_compared_by_medians() {
        // In the order of completion, which differs from run to run; the engine's numbers begin with 1, the simulator's with 0.
        let real: [&[JobMetrics]; 3] = [
            &[job(2, 0, 3.0), job(1, 1, 10.0)],
            &[job(1, 1, 12.0), job(2, 0, 4.0)],
            &[job(2, 0, 90.0), job(1, 1, 11.0)],
        ];
        let simulated: [&[JobMetrics]; 2] = [&[job(1, 0, 5.0), job(0, 1, 9.0)], &[job(0, 1, 13.0), job(1, 0, 7.0)]];
        let compared = compare_jobs(&real, &simulated, |group| ["small", "large"][usize::from(group)]);
        let compared: Vec<_> = compared.iter().map(|job| (&*job.group, job.real_s, job.forecast_s)).collect();
        assert_eq!(compared, [("large", 11.0, 11.0), ("small", 4.0, 6.0)]);
    }
}
