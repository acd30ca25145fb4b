//! The experiments that run on the engine: two of the papers', scaled down, and one whose tasks contend for this machine's cores.

use crate::local_cluster::LocalCluster;
use anyhow::{Context, Result};
use giveway_core::Policy;
use giveway_core::policy::catalog;
use std::time::Duration;

/// A type of job.
pub struct JobType {
    /// Also the name of its size group.
    pub name: &'static str,
    pub app: &'static str,
    pub maps: usize,
    pub reduces: u32,
}

/// What limits the speed of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// It reads its input at this rate, in lines per second, so that tasks do not contend for the cores of this machine.
    Limited(u64),
    /// The cores of this machine, for which the tasks of one worker contend: it has two map slots and one reduce slot per core.
    Cores,
}

/// An experiment.
pub struct EngineExperiment {
    pub name: &'static str,
    /// Types of jobs, smallest first.
    pub job_types: &'static [JobType],
    /// Submission time of each job in milliseconds, and the index of its type.
    pub arrivals: fn() -> Vec<(u64, u16)>,
    pub policies: &'static [&'static str],
    /// Number of rounds, with one run under each policy; a quick run has one.
    pub rounds: usize,
    /// Input lines per map.
    pub lines_per_map: usize,
    /// What limits the speed of a task.
    pub speed: Speed,
    /// The policies' time spans are divided by this.
    pub time_scale: f64,
    /// Size and timeouts of the cluster; the slots are replaced if the cores limit the speed.
    pub cluster: LocalCluster,
    /// Time at which the last worker is killed.
    pub kill_at: Option<Duration>,
}

/// Number of cores of this machine.
pub fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(64) as u16)
}

impl EngineExperiment {
    /// The cluster of the runs.
    pub fn cluster(&self) -> LocalCluster {
        match self.speed {
            Speed::Limited(_) => self.cluster,
            Speed::Cores => LocalCluster { map_slots: 2 * cores(), reduce_slots: cores(), ..self.cluster },
        }
    }

    /// The cluster on which jobs of one type are measured. If cores limit the speed, reduces start after all maps, so that every running task
    /// needs a core.
    pub fn profile_cluster(&self) -> LocalCluster {
        match self.speed {
            Speed::Limited(_) => self.cluster,
            Speed::Cores => LocalCluster { slowstart_ppm: 1_000_000, ..self.cluster() },
        }
    }

    /// Number of jobs of one type that are measured together. If cores limit the speed, they keep all map slots busy: what more tasks than
    /// cores cost each other, by switches between them and lost content of caches, is then part of their times.
    pub fn profile_jobs(&self, job_type: &JobType) -> usize {
        match self.speed {
            Speed::Limited(_) => 1,
            Speed::Cores => usize::from(3 * cores()).div_ceil(job_type.maps).max(3),
        }
    }

    /// Limit of the lines that a task reads per second.
    pub fn records_per_s(&self) -> Option<u64> {
        match self.speed {
            Speed::Limited(rate) => Some(rate),
            Speed::Cores => None,
        }
    }

    /// A policy of the catalogue with its time spans scaled.
    pub fn policy(&self, name: &str) -> Result<Policy> {
        let policy = catalog::by_name(name).with_context(|| format!("no policy `{name}` in the catalogue"))?;
        Ok(policy.faster(self.time_scale))
    }

    /// The policies of a full or of a quick run.
    pub fn policies(&self, quick: bool) -> Vec<&'static str> {
        match (quick, self.policies) {
            // The policy that recovers at once.
            (true, [_, second, ..]) if self.kill_at.is_some() => vec![second],
            // Its rounds do not share the machine with others.
            (true, [.., last]) if self.speed == Speed::Cores => vec![last],
            // The baseline, and the policy that preempts by pause.
            (true, [first, .., last]) => vec![first, last],
            (_, all) => all.into(),
        }
    }
}

/// The cluster of the papers' experiments.
pub const CLUSTER: LocalCluster = LocalCluster {
    nodes: 4,
    map_slots: 3,
    reduce_slots: 2,
    heartbeat: Duration::from_millis(75),
    timeout: Duration::from_millis(750),
    slowstart_ppm: 50_000,
};

/// Speed of a task in the papers' experiments.
pub const PAPER_SPEED: Speed = Speed::Limited(RECORDS_PER_S);

/// Rate at which a task reads its input, in lines per second.
pub const RECORDS_PER_S: u64 = 2_000;

/// Tasks are shorter than the papers' by this factor.
const TIME_SCALE: f64 = 40.0;

/// hSRTF's Table 2: large jobs first, then medium, then small ones, one every 10 s of the paper's time. There are 1/40 of the paper's slots, and
/// jobs have 1/10 of its tasks.
pub const HSRTF: EngineExperiment = EngineExperiment {
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
    // Which of the small jobs runs first differs from run to run.
    rounds: 20,
    lines_per_map: 800,
    speed: PAPER_SPEED,
    time_scale: TIME_SCALE,
    cluster: CLUSTER,
    kill_at: None,
};

/// Chronos, section V-A: word counts over 17 and 56 GB, and a node that fails during the second wave of maps. Slots and tasks are 1/5 of the
/// paper's.
pub const CHRONOS: EngineExperiment = EngineExperiment {
    name: "Chronos failure",
    job_types: &[
        JobType { name: "first", app: "wordcount", maps: 13, reduces: 4 },
        JobType { name: "second", app: "wordcount", maps: 42, reduces: 4 },
    ],
    arrivals: || vec![(0, 0), (100, 1)],
    policies: &["fifo", "chronos(fifo)", "fair", "chronos(fair)"],
    rounds: 5,
    lines_per_map: 2_600,
    speed: PAPER_SPEED,
    time_scale: TIME_SCALE,
    cluster: LocalCluster {
        heartbeat: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        slowstart_ppm: 1_000_000,
        ..CLUSTER
    },
    kill_at: Some(Duration::from_millis(1_500)),
};

/// Two large jobs and six small ones that keep more tasks running than there are cores. No parameter of the simulator was set with either
/// application.
pub const CONTENTION: EngineExperiment = EngineExperiment {
    name: "More slots than cores",
    job_types: &[
        JobType { name: "small", app: "termvector", maps: 2, reduces: 1 },
        JobType { name: "large", app: "sequencecount", maps: 12, reduces: 2 },
    ],
    arrivals: || vec![(0, 1), (400, 0), (800, 0), (1_200, 0), (1_600, 1), (2_000, 0), (2_400, 0), (2_800, 0)],
    policies: &["fifo", "fair", "fcs", "giveway"],
    rounds: 8,
    lines_per_map: 400_000,
    speed: Speed::Cores,
    time_scale: 10.0,
    cluster: LocalCluster { nodes: 1, ..CLUSTER },
    kill_at: None,
};
