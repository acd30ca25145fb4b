//! The runs on the engine: in each round, profiles of each type of job and one run under each policy.

use super::experiments::{EngineExperiment, JobType, Speed};
use super::profile::Profile;
use crate::local_cluster::{InputSpec, LocalCluster, TextInput, TimedJob, TimedWorkload, WorkloadRun};
use anyhow::{Context, Result};
use giveway_mapreduce::apps::Apps;
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many rounds run at the same time. Tasks with a limited rate mostly wait: a cluster of them keeps a twentieth of two cores busy.
const ROUNDS_AT_A_TIME: usize = 5;

/// How long after the start of a cluster its first job is submitted: tasks in the first moments take up to a twentieth longer.
const START_DELAY: Duration = Duration::from_secs(1);

/// An experiment with its input.
pub struct PreparedExperiment {
    pub experiment: &'static EngineExperiment,
    /// Names of the policies.
    pub policies: Vec<&'static str>,
    rounds: usize,
    folder: PathBuf,
    /// The jobs from which each type is profiled.
    alone: Vec<TimedWorkload>,
    workload: TimedWorkload,
    /// Held while jobs are profiled: one round at a time, so that rounds which run at the same time do not all start their tasks at the same moment.
    profiling: Mutex<()>,
}

/// One run under each policy, and profiles.
pub struct Round {
    /// The profile of each type of job, from the start of the round. If cores limit the speed, again after each run.
    pub profiles: Vec<Vec<Profile>>,
    pub runs: Vec<WorkloadRun>,
}

impl PreparedExperiment {
    /// Generates the input of an experiment in `folder`. A quick run takes one round under few policies.
    pub fn new(experiment: &'static EngineExperiment, quick: bool, folder: PathBuf, apps: &Apps) -> Result<Self> {
        std::fs::create_dir(&folder).context("cannot create a directory for an experiment")?;
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut input = |job_type: &JobType| {
            // The reduces of a word count are light only if lines have words in common.
            let lines = InputSpec {
                maps: job_type.maps,
                lines_per_map: experiment.lines_per_map,
                numbered: job_type.app != "wordcount",
            };
            TextInput::generate(&folder, job_type.name, lines, &mut rng)
        };
        let inputs: Vec<TextInput> = experiment.job_types.iter().map(&mut input).collect::<Result<_>>()?;
        let workload = |arrivals: &[(u64, u16)], kill_at: Option<Duration>| -> Result<TimedWorkload> {
            let job = |&(at_ms, group): &(u64, u16)| {
                let (job_type, input) = (&experiment.job_types[usize::from(group)], &inputs[usize::from(group)]);
                let mut request = input.request(job_type.app, job_type.reduces, experiment.records_per_s());
                // Where only cores are to be short, tasks must not wait for the disk.
                request.sync_output = experiment.speed != Speed::Cores;
                TimedJob::new(at_ms + START_DELAY.as_millis() as u64, group, request, apps)
            };
            let jobs = arrivals.iter().map(job).collect::<Result<_>>()?;
            let groups = experiment.job_types.iter().map(|job_type| job_type.name.to_owned()).collect();
            // Only the recovery of lost tasks depends on the placement of data.
            let kill_at = kill_at.map(|at| at + START_DELAY);
            Ok(TimedWorkload { groups, jobs, kill_at })
        };
        let alone =
            |(job_type, group): (&JobType, u16)| workload(&vec![(0, group); experiment.profile_jobs(job_type)], None);
        Ok(PreparedExperiment {
            experiment,
            policies: experiment.policies(quick),
            rounds: if quick { 1 } else { experiment.rounds },
            alone: experiment.job_types.iter().zip(0..).map(alone).collect::<Result<_>>()?,
            workload: workload(&(experiment.arrivals)(), experiment.kill_at)?,
            folder,
            profiling: Mutex::new(()),
        })
    }

    /// Number of runs, including those of the profiles.
    pub fn runs(&self) -> usize {
        let (types, policies) = (self.alone.len(), self.policies.len());
        if self.is_exclusive() {
            types + self.rounds * (types * (policies + 1) + policies)
        } else {
            self.rounds * (types + policies)
        }
    }

    /// Whether its rounds need all cores.
    fn is_exclusive(&self) -> bool {
        self.experiment.speed == Speed::Cores
    }

    fn profiles(&self, round: &str, apps: &Apps, bar: &ProgressBar) -> Result<Vec<Profile>> {
        let profile = |(group, alone): (usize, &TimedWorkload)| {
            let cluster = self.experiment.profile_cluster();
            let run = self.run(alone, &cluster, "fifo", &format!("profile-{group}-{round}"), apps, bar)?;
            Profile::of(self.experiment, &run.event_log)
        };
        let _profiling = self.profiling.lock().unwrap_or_else(PoisonError::into_inner);
        self.alone.iter().enumerate().map(profile).collect()
    }

    fn round(&self, round: usize, apps: &Apps, bar: &ProgressBar) -> Result<Round> {
        if self.is_exclusive() && round == 0 {
            // The first runs of all would be slower: the input is in memory after them, as it is in all runs that are forecast.
            self.profiles("first", apps, bar)?;
        }
        let (mut profiles, mut runs) = (vec![self.profiles(&round.to_string(), apps, bar)?], Vec::new());
        for policy in &self.policies {
            let name = format!("{policy}-{round}");
            runs.push(self.run(&self.workload, &self.experiment.cluster(), policy, &name, apps, bar)?);
            if self.is_exclusive() {
                profiles.push(self.profiles(&format!("after-{name}"), apps, bar)?);
            }
        }
        Ok(Round { profiles, runs })
    }

    /// One run, in a new folder of which nothing is left.
    fn run(
        &self,
        workload: &TimedWorkload,
        cluster: &LocalCluster,
        policy: &str,
        name: &str,
        apps: &Apps,
        bar: &ProgressBar,
    ) -> Result<WorkloadRun> {
        let folder = self.folder.join(name);
        let run = workload.run(cluster, &folder, self.experiment.policy(policy)?, apps)?;
        std::fs::remove_dir_all(&folder).context("cannot remove the directory of a run")?;
        bar.inc(1);
        Ok(run)
    }
}

/// Runs all rounds of the experiments; returns those of each experiment. Experiments with a limited rate share the machine.
pub fn run_all(experiments: &[PreparedExperiment], apps: &Apps, bar: &ProgressBar) -> Result<Vec<Vec<Round>>> {
    let run = |(index, round): (usize, usize)| {
        let experiment = &experiments[index];
        let round = experiment.round(round, apps, bar).with_context(|| experiment.experiment.name)?;
        Ok((index, round))
    };
    let rounds = |exclusive: bool| -> Vec<(usize, usize)> {
        let selected = experiments.iter().enumerate().filter(|(_, experiment)| experiment.is_exclusive() == exclusive);
        selected.flat_map(|(index, experiment)| (0..experiment.rounds).map(move |round| (index, round))).collect()
    };
    let threads =
        rayon::ThreadPoolBuilder::new().num_threads(ROUNDS_AT_A_TIME).build().context("cannot start threads")?;
    let mut all: Vec<(usize, Round)> =
        threads.install(|| rounds(false).into_par_iter().with_max_len(1).map(run).collect::<Result<_>>())?;
    all.extend(rounds(true).into_iter().map(run).collect::<Result<Vec<_>>>()?);
    let mut by_experiment: Vec<Vec<Round>> = experiments.iter().map(|_| Vec::new()).collect();
    for (index, round) in all {
        by_experiment[index].push(round);
    }
    Ok(by_experiment)
}
