//! What happens in a run: the cluster, its jobs, and the faults, each at its time. All of it follows from a seed.

use super::random::Random;
use giveway_core::policy::catalog;
use std::fmt;

/// Microseconds of virtual time.
pub(super) type Micros = u64;

pub(super) const SECOND: Micros = 1_000_000;

/// A run of the simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of everything that is random during the run.
    pub seed: u64,
    pub(super) policy: String,
    /// Map and reduce slots of each worker.
    pub(super) workers: Vec<(u16, u16)>,
    pub(super) jobs: Vec<JobScript>,
    pub(super) faults: Vec<(Micros, Fault)>,
    /// The user has the policy replaced by the one of this name.
    pub(super) reloads: Vec<(Micros, String)>,
    /// A snapshot is due when the journal has grown by this.
    pub(super) snapshot_bytes: u64,
    /// A longer journal is replaced.
    pub(super) journal_bytes_max: u64,
    /// Many tasks take so long that another attempt is started.
    pub(super) slow_tasks: bool,
    /// The coordinator is killed at this file operation, from 1.
    pub(super) crash_at: Option<u64>,
    /// The power is cut with the kill of `crash_at`.
    pub(super) crash_cuts_power: bool,
}

/// A job that a client submits.
#[derive(Clone, Debug)]
pub(super) struct JobScript {
    pub(super) at: Micros,
    pub(super) split_bytes: Vec<u64>,
    pub(super) reduces: u32,
    pub(super) rounds: u32,
    /// How long after its submission a client kills it.
    pub(super) kill_after: Option<Micros>,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The coordinator's process is killed and restarted later.
    KillCoordinator { down: Micros },
    /// A worker's process is killed and restarted later.
    KillWorker { worker: usize, down: Micros },
    /// All processes die, and what was not synced may be lost.
    CutPower { down: Micros },
    /// The coordinator is suspended (SIGSTOP, a busy machine).
    StopCoordinator { length: Micros },
    /// A worker is suspended.
    StopWorker { worker: usize, length: Micros },
    /// A worker's connection breaks, with all messages on the way.
    CutLink { worker: usize },
    /// The disk is full for a while.
    FillDisk { length: Micros },
    /// File operations fail at random for a while.
    BreakDisk { length: Micros },
    /// Work on output folders takes very long for a while.
    HangOutputs { length: Micros },
    /// The coordinator's clock jumps.
    MoveClock { forward: bool, by: Micros },
    /// The coordinator is killed, and a bit of its journal changes.
    FlipBit,
    /// A user replaces a job's output folder by one of his own.
    ReplaceOutput { job: usize },
    /// A task fails.
    FailTask { worker: usize },
    /// A task makes no progress any more.
    HangTask { worker: usize },
    /// Some map outputs on a worker's disk are gone.
    LoseOutputs { worker: usize },
    /// A worker is killed and never comes back. There are others.
    LoseWorker,
    /// A second worker with the same name tries to join for a while.
    StartDuplicate { worker: usize, length: Micros },
}

impl Scenario {
    /// The run of a seed.
    pub fn random(seed: u64) -> Scenario {
        let random = &mut Random::new(seed, 1);
        let policies = catalog::all_names();
        let policy = match random.chance(2) {
            true => "giveway".into(),
            false => policies[random.below(policies.len() as u64) as usize].clone(),
        };
        let workers = (0..random.between(1, 4)).map(|_| (random.between(1, 3) as u16, random.between(1, 2) as u16));
        let workers: Vec<(u16, u16)> = workers.collect();
        let length = random.between(10, 60) * SECOND;
        let jobs = (0..random.between(1, 8)).map(|_| JobScript::random(length, random)).collect::<Vec<_>>();
        let count = random.below(12);
        let faults = (0..count).map(|_| (random.below(length), Fault::random(workers.len(), jobs.len(), random)));
        let mut faults: Vec<(Micros, Fault)> = faults.collect();
        faults.sort_by_key(|(at, _)| *at);
        // Random numbers of its own: what came before stays the same for each seed.
        let random = &mut Random::new(seed, 6);
        let reload = |_| (random.below(length), policies[random.below(policies.len() as u64) as usize].clone());
        let reloads: Vec<(Micros, String)> = (0..if seed.is_multiple_of(3) { 3 } else { 0 }).map(reload).collect();
        let random = &mut Random::new(seed, 5);
        let snapshot_bytes = random.between(100, 10_000);
        let journal_bytes_max = random.between(1_000, 100_000);
        let slow_tasks = random.chance(4);
        if slow_tasks {
            // Without most of the faults that may make a job fail: a failure is then a mistake.
            faults.truncate(2);
        }
        let crash_at = random.chance(4).then(|| random.between(1, 300));
        Scenario {
            seed,
            policy,
            workers,
            jobs,
            faults,
            reloads,
            snapshot_bytes,
            journal_bytes_max,
            slow_tasks,
            crash_at,
            crash_cuts_power: random.chance(2),
        }
    }

    /// A run without faults, in which the coordinator is killed at its n-th file operation; with `cuts_power`, everything is.
    pub fn crash_at(jobs: usize, operation: Option<u64>, cuts_power: bool) -> Scenario {
        let random = &mut Random::new(7, 2);
        let jobs = (0..jobs).map(|_| JobScript::random(20 * SECOND, random)).collect();
        let workers = vec![(2, 1), (2, 2)];
        let policy = "giveway".into();
        // The same seed for all operations: the run is the same up to the crash.
        Scenario {
            seed: 7,
            policy,
            workers,
            jobs,
            faults: Vec::new(),
            reloads: vec![(4 * SECOND, "fair".into()), (9 * SECOND, "hsrtf-pr".into())],
            snapshot_bytes: 1_000,
            journal_bytes_max: 20_000,
            slow_tasks: false,
            crash_at: operation,
            crash_cuts_power: cuts_power,
        }
    }

    /// Smaller runs: each lacks one fault or one job of this one.
    pub(super) fn smaller(&self) -> Vec<Scenario> {
        let without_fault = (0..self.faults.len()).map(|at| {
            let mut smaller = self.clone();
            smaller.faults.remove(at);
            smaller
        });
        let without_crash = self.crash_at.map(|_| Scenario { crash_at: None, ..self.clone() });
        let without_reload = (0..self.reloads.len()).map(|at| {
            let mut smaller = self.clone();
            smaller.reloads.remove(at);
            smaller
        });
        let without_job = (0..self.jobs.len()).filter(|_| self.jobs.len() > 1).map(|at| {
            let mut smaller = self.clone();
            smaller.jobs.remove(at);
            smaller.faults.retain(|(_, fault)| !matches!(fault, Fault::ReplaceOutput { job } if *job >= at));
            smaller
        });
        without_crash.into_iter().chain(without_fault).chain(without_reload).chain(without_job).collect()
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, policy {}, workers (map slots, reduce slots) {:?}",
            self.seed, self.policy, self.workers
        )?;
        if let Some(operation) = self.crash_at {
            let how = if self.crash_cuts_power { "power cut" } else { "kill" };
            writeln!(f, "  {how} at file operation {operation} of the coordinator")?;
        }
        for (number, job) in self.jobs.iter().enumerate() {
            writeln!(f, "  job {number} at {:.3} s: {job:?}", job.at as f64 / SECOND as f64)?;
        }
        for (at, policy) in &self.reloads {
            writeln!(f, "  policy at {:.3} s: {policy}", *at as f64 / SECOND as f64)?;
        }
        for (at, fault) in &self.faults {
            writeln!(f, "  fault at {:.3} s: {fault:?}", *at as f64 / SECOND as f64)?;
        }
        Ok(())
    }
}

impl JobScript {
    fn random(length: Micros, random: &mut Random) -> JobScript {
        let splits = random.between(1, 6);
        JobScript {
            at: random.below(length),
            split_bytes: (0..splits).map(|_| random.between(1, 1000)).collect(),
            reduces: random.below(4) as u32,
            rounds: if random.chance(3) { random.between(2, 3) as u32 } else { 1 },
            kill_after: random.chance(5).then(|| random.below(10 * SECOND)),
        }
    }
}

impl Fault {
    fn random(workers: usize, jobs: usize, random: &mut Random) -> Fault {
        let down = random.between(SECOND / 10, 8 * SECOND);
        let length = random.between(SECOND / 10, 12 * SECOND);
        let worker = random.below(workers as u64) as usize;
        match random.below(20) {
            0..=2 => Fault::KillCoordinator { down },
            3 | 4 => Fault::KillWorker { worker, down },
            5 | 6 => Fault::CutPower { down },
            7 => Fault::StopCoordinator { length },
            8 => Fault::StopWorker { worker, length },
            9 => Fault::CutLink { worker },
            10 => Fault::FillDisk { length },
            11 => Fault::BreakDisk { length },
            12 => Fault::HangOutputs { length },
            13 => Fault::MoveClock { forward: random.chance(2), by: length },
            14 => Fault::FlipBit,
            15 => Fault::HangTask { worker },
            16 => Fault::StartDuplicate { worker, length },
            17 => Fault::LoseOutputs { worker },
            18 if workers > 1 => Fault::LoseWorker,
            _ if random.chance(2) => Fault::ReplaceOutput { job: random.below(jobs as u64) as usize },
            _ => Fault::FailTask { worker },
        }
    }
}
