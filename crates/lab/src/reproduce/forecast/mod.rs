//! Experiments on the engine, compared with the simulator's forecast.
//!
//! The workload of hSRTF's Table 2 and the failure experiment of Chronos are scaled down to four worker processes on this machine. Tasks read their
//! records at a limited rate, so that the results depend on the schedule and not on the machine. In a third experiment they contend for its cores.
//!
//! In each of several rounds, jobs of each type first run without others. Their profile is the time of each map, and of each reduce once all maps
//! are done. The engine then runs the whole experiment under each policy. Which job gets a slot may depend on a millisecond, so the simulator
//! forecasts each run many times, each time with other profiles of those of all rounds, and the means over all rounds are compared.
//! Every output is compared with that of a sequential run.

mod experiments;
mod profile;
mod report;
mod rounds;

use crate::cluster_folder;
use crate::local_cluster::WorkloadRun;
use anyhow::{Context, Result};
use experiments::{CHRONOS, CONTENTION, EngineExperiment, HSRTF, Speed, cores};
use giveway_core::event_log::EventLogReader;
use giveway_core::{Event, Hosts, JobId, NodeId, Policy, Span, Tenants, Time};
use giveway_mapreduce::apps::Apps;
use giveway_sim::cluster::{ScriptedFault, SharedHardware};
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::metrics::JobMetrics;
use giveway_sim::workload::{JobPlan, RecordedInput, Workload};
use profile::Profile;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64Mcg;
pub use report::ForecastReport;
use report::{JobComparison, RecoveryFigures, RunComparison, mean, median};
use rounds::{PreparedExperiment, Round};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Simulated runs per run of the engine.
const FORECAST_RUNS: usize = 25;

/// Factor by which tasks with a limited rate take longer if the machine has stood still.
const DISTURBED: f64 = 1.02;

/// The experiments to run.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    pub hsrtf: bool,
    pub chronos: bool,
    /// More slots than cores.
    pub contention: bool,
}

/// Runs the selected experiments; `None` if there are none. A quick run takes one round under few policies of each.
pub fn run(selection: Selection, quick: bool, apps: &Apps) -> Result<Option<ForecastReport>> {
    let all = [(selection.hsrtf, &HSRTF), (selection.chronos, &CHRONOS), (selection.contention, &CONTENTION)];
    let selected: Vec<&EngineExperiment> =
        all.into_iter().filter(|(selected, _)| *selected).map(|(_, experiment)| experiment).collect();
    if selected.is_empty() {
        return Ok(None);
    }
    let folder = cluster_folder::create("giveway-reproduce-")?;
    let prepare = |(index, experiment): (usize, &'static EngineExperiment)| {
        PreparedExperiment::new(experiment, quick, folder.path().join(index.to_string()), apps)
            .with_context(|| experiment.name)
    };
    let experiments: Vec<PreparedExperiment> = selected.into_iter().enumerate().map(prepare).collect::<Result<_>>()?;
    let runs = experiments.iter().map(PreparedExperiment::runs).sum::<usize>();
    let bar = crate::progress::bar(runs as u64, "engine", "runs");
    let rounds = rounds::run_all(&experiments, apps, &bar)?;
    bar.finish_and_clear();
    let mut runs = Vec::new();
    for (experiment, rounds) in experiments.iter().zip(&rounds) {
        runs.extend(compare(experiment, rounds).with_context(|| experiment.experiment.name)?);
    }
    Ok(Some(ForecastReport { runs }))
}

/// Simulates all runs of an experiment and compares them, by policy.
fn compare<'a>(prepared: &PreparedExperiment, rounds: &'a [Round]) -> Result<Vec<RunComparison>> {
    let experiment = prepared.experiment;
    // The speed of a machine may change from minute to minute. Where it matters, a run is forecast from the profiles right before and after it.
    let profiles = |round: &'a Round, run: usize| -> Vec<&'a [Profile]> {
        let all = rounds.iter().flat_map(|round| &round.profiles).map(Vec::as_slice);
        match experiment.speed {
            Speed::Limited(_) => all.collect(),
            Speed::Cores => round.profiles.iter().skip(run).take(2).map(Vec::as_slice).collect(),
        }
    };
    let compare = |(number, name): (usize, &&str)| {
        let policy = experiment.policy(name)?;
        let real: Vec<&WorkloadRun> = rounds.iter().filter_map(|round| round.runs.get(number)).collect();
        let seeds = (1..).step_by(FORECAST_RUNS).map(|first| first..first + FORECAST_RUNS as u64);
        let forecast = |(seeds, round): (Range<u64>, &'a Round)| {
            experiment.forecast(&round.runs[number], &profiles(round, number), &policy, seeds)
        };
        let forecasts = seeds.zip(rounds).map(forecast);
        let forecasts: Vec<PolicyResult> = forecasts.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(experiment.compare(name, &real, &forecasts))
    };
    prepared.policies.iter().enumerate().map(compare).collect()
}

impl EngineExperiment {
    /// Simulates a run once per seed; every job draws one of the profiles of its type. Of the run itself only the types of its jobs, their
    /// submission times and the location of their input are used.
    fn forecast(
        &self,
        run: &WorkloadRun,
        profiles: &[&[Profile]],
        policy: &Policy,
        seeds: Range<u64>,
    ) -> Result<Vec<PolicyResult>> {
        let submissions = submissions(&run.event_log)?;
        let first = submissions.first().map_or(Time::ZERO, |submission| submission.at);
        let groups = by_submission(&run.run.jobs).into_iter().map(|job| job.group);
        let jobs: Vec<(&Submission, u16)> = submissions.iter().zip(groups).collect();
        let by_type: Vec<Vec<&JobPlan>> =
            (0..self.job_types.len()).map(|group| self.undisturbed(profiles, group)).collect();
        let workload = |seed: u64| -> Result<Workload> {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut job = |(number, &(submission, group)): (usize, &(&Submission, u16))| {
                let profile = *by_type[usize::from(group)].choose(&mut rng).context("a type of job has no profile")?;
                Ok(JobPlan {
                    id: JobId(number as u32),
                    submit: Time::ZERO + submission.at.since(first),
                    input: Some(RecordedInput { nodes: self.cluster.nodes as usize, hosts: submission.hosts.clone() }),
                    group,
                    slowstart_ppm: self.cluster.slowstart_ppm,
                    ..profile.clone()
                })
            };
            Ok(Workload {
                name: self.name.into(),
                tenants: Tenants::default(),
                jobs: jobs.iter().enumerate().map(&mut job).collect::<Result<_>>()?,
                groups: self.job_types.iter().map(|job_type| job_type.name.to_owned()).collect(),
                hints: false,
                estimate_error: 0.0,
            })
        };
        let profiled = profiles.iter().copied().flatten().next().context("the experiment has no jobs")?;
        let mut cluster = profiled.cluster.clone();
        if self.speed == Speed::Cores {
            for node in &mut cluster.nodes {
                // The input is in memory after the profile runs, and outputs are small: only cores are short.
                node.shared = Some(SharedHardware { cores: cores(), disks: u16::MAX, page_cache_bytes: None });
            }
        }
        cluster.heartbeat = span(self.cluster.heartbeat);
        cluster.lost_after = span(self.cluster.timeout);
        // Local files of this machine are node-local for every worker.
        cluster.replicas = self.cluster.nodes;
        cluster.faults.scripted = self.kill_at.map(|at| fault(self.cluster.nodes - 1, at)).into_iter().collect();
        let run = |seed: u64| Ok(Comparison::new(cluster.clone(), workload(seed)?, seed).run(policy, &mut ())?);
        seeds.map(run).collect()
    }

    /// The profiled jobs of a type. If their speed does not depend on the machine, those that took longer by [`DISTURBED`] than the median are
    /// left out.
    fn undisturbed<'a>(&self, profiles: &[&'a [Profile]], group: usize) -> Vec<&'a JobPlan> {
        let jobs = profiles.iter().filter_map(|types| types.get(group)).flat_map(|profile| &profile.jobs);
        let limit = match self.speed {
            Speed::Limited(_) => DISTURBED * median(jobs.clone().map(profile::task_time_s).collect()),
            Speed::Cores => f64::INFINITY,
        };
        jobs.filter(|job| profile::task_time_s(job) <= limit).collect()
    }

    fn compare(&self, policy: &str, real: &[&WorkloadRun], simulated: &[PolicyResult]) -> RunComparison {
        let real_jobs: Vec<&[JobMetrics]> = real.iter().map(|run| &*run.run.jobs).collect();
        let simulated_jobs: Vec<&[JobMetrics]> = simulated.iter().map(|run| &*run.jobs).collect();
        let group_name = |group: u16| self.job_types[usize::from(group)].name;
        let measured = RecoveryFigures::mean(real.iter().map(|run| RecoveryFigures::of(&run.run.summary)));
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

/// The submission of a job in an event log.
struct Submission {
    at: Time,
    /// The nodes that have each of its splits; empty if the input is not in the cluster's store.
    hosts: Arc<[Hosts]>,
}

/// The submissions of an event log, in their order.
fn submissions(event_log: &[u8]) -> Result<Vec<Submission>> {
    let mut submissions = Vec::new();
    for record in EventLogReader::open(event_log)? {
        // The journal of a cluster that may be restarted has no closing record.
        let Ok(record) = record else { break };
        if let Event::JobSubmitted(spec) = record.event {
            let hosts = spec.splits.iter().map(|split| split.hosts.clone()).filter(|hosts| !hosts.is_empty());
            submissions.push(Submission { at: record.now, hosts: hosts.collect() });
        }
    }
    Ok(submissions)
}

/// The mean completion time of each job in the runs of the engine and in the simulated ones, in order of submission.
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
        let (runs_s, simulated_s) = (completions(&real, number), completions(&simulated, number));
        JobComparison {
            group: group_name(job.group).to_owned(),
            real_s: mean(&runs_s),
            runs_s,
            forecast_s: mean(&simulated_s),
            forecast_median_s: median(simulated_s),
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
    fn jobs_are_matched_by_submission_and_compared_by_means() {
        // In the order of completion, which differs from run to run; the engine's numbers begin with 1, the simulator's with 0.
        let real: [&[JobMetrics]; 3] = [
            &[job(2, 0, 3.0), job(1, 1, 10.0)],
            &[job(1, 1, 12.0), job(2, 0, 4.0)],
            &[job(2, 0, 8.0), job(1, 1, 14.0)],
        ];
        let simulated: [&[JobMetrics]; 2] = [&[job(1, 0, 5.0), job(0, 1, 9.0)], &[job(0, 1, 13.0), job(1, 0, 7.0)]];
        let compared = compare_jobs(&real, &simulated, |group| ["small", "large"][usize::from(group)]);
        let compared: Vec<_> = compared.iter().map(|job| (&*job.group, job.real_s, job.forecast_s)).collect();
        assert_eq!(compared, [("large", 12.0, 11.0), ("small", 5.0, 6.0)]);
    }
}
