//! A model of a task and of the files it leaves on its worker: all that is not real of a worker.
//!
//! Instead of records a map produces the range of input it has covered, so the output of a job shows whether every byte of its input was counted exactly
//! once. What survives a process is as with real tasks: outputs of maps and checkpoints of paused reduces do.

use super::random::Random;
use crate::coordinator::file_system::FileSystem;
use crate::job::Plan;
use crate::task::{
    Coverage, Leftovers, MapOutputLocation, ReadCursor, Request, TEMPORARY, reduce_part_path, temporary_path,
};
use crate::wire::{Counters, Report};
use crate::worker::state_machine::Launch;
use giveway_core::{AttemptId, JobId, Kind, Start, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A range of the input: split, first byte, length.
pub(super) type Range = (u32, u64, u64);

/// What is in a worker's folder.
#[derive(Debug, Default)]
pub(super) struct WorkerFiles {
    pub(super) outputs: BTreeMap<AttemptId, Range>,
    /// Checkpoints of paused reduces: what they have fetched.
    paused: BTreeMap<AttemptId, Fetches>,
}

impl WorkerFiles {
    /// What a process that starts finds.
    pub(super) fn leftovers(&self) -> Leftovers {
        Leftovers { outputs: self.outputs.keys().copied().collect(), paused: self.paused.keys().copied().collect() }
    }

    /// Some of it is lost.
    pub(super) fn cut_power(&mut self, random: &mut Random) {
        self.outputs.retain(|_, _| random.chance(2));
        self.paused.retain(|_, _| random.chance(2));
    }

    /// Some of the map outputs are gone.
    pub(super) fn lose_outputs(&mut self, random: &mut Random) {
        self.outputs.retain(|_, _| random.chance(2));
    }

    pub(super) fn remove_job(&mut self, job: JobId) {
        self.outputs.retain(|attempt, _| attempt.task.job != job);
        self.paused.retain(|attempt, _| attempt.task.job != job);
    }

    pub(super) fn remove_all(&mut self) {
        *self = WorkerFiles::default();
    }
}

/// What a reduce has fetched.
#[derive(Clone, Debug)]
struct Fetches {
    coverage: Coverage,
    ranges: BTreeSet<Range>,
}

/// How a task behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// It ends after this many steps.
    Steps(u64),
    /// It makes no progress until it is stopped.
    Hangs,
    /// It makes no progress, and does not react to requests.
    HangsForEver,
}

/// A running task.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) launch: Launch,
    behaviour: Behaviour,
    steps: u64,
    fetches: Fetches,
    cursor: ReadCursor,
    /// Map outputs that it has not fetched.
    wanted: Vec<MapOutputLocation>,
    /// It could not be resumed.
    broken: bool,
}

/// What a task does next.
#[derive(Debug)]
pub(super) enum Step {
    /// It continues after a while.
    Continue,
    /// It has ended and reports this.
    Ended(Report),
}

/// What came of a fetch.
pub(super) enum Fetched {
    Range(Range),
    /// There is no such file.
    Missing,
    /// The folder of the node is not known now.
    Unreachable,
}

impl Task {
    /// Starts a task. A resumed reduce takes over the files of the paused one.
    pub(super) fn start(launch: Launch, files: &mut WorkerFiles, behaviour: Behaviour) -> Task {
        let fresh = || Fetches { coverage: Coverage::empty(&launch.plan.splits), ranges: BTreeSet::new() };
        let (fetches, broken) = match launch.work {
            Work::Reduce { start: Start::Resumed { from } } => match files.paused.remove(&from) {
                Some(fetches) => (fetches, false),
                None => (fresh(), true),
            },
            _ => (fresh(), false),
        };
        let (steps, cursor, wanted) = (0, ReadCursor::default(), Vec::new());
        Task { launch, behaviour, steps, fetches, cursor, wanted, broken }
    }

    /// The map outputs that a reduce has to fetch next.
    pub(super) fn wanted(&mut self) -> Vec<MapOutputLocation> {
        let update = self.launch.outputs.read(&mut self.cursor);
        if update.is_full {
            self.wanted.clear();
        }
        self.wanted.extend(update.outputs);
        let coverage = &self.fetches.coverage;
        self.wanted.retain(|output| coverage.is_missing(output));
        if self.launch.attempt.task.kind == Kind::Map { Vec::new() } else { self.wanted.clone() }
    }

    /// Continues a task. `fetched` is what came of the outputs it wanted. Returns map outputs that it found lost too.
    pub(super) fn step(
        &mut self,
        fetched: Vec<(MapOutputLocation, Fetched)>,
        files: &mut WorkerFiles,
        disk: &dyn FileSystem,
        random: &mut Random,
    ) -> (Step, Vec<AttemptId>) {
        let mut lost = Vec::new();
        let attempt = self.launch.attempt;
        let requested = self.launch.control.requested();
        match self.behaviour {
            Behaviour::HangsForEver => return (Step::Continue, lost),
            _ if requested == Some(Request::Stop) => return (Step::Ended(Report::Killed { attempt }), lost),
            Behaviour::Hangs => return (Step::Continue, lost),
            Behaviour::Steps(_) => {}
        }
        self.launch.control.tick();
        self.steps += 1;
        for (output, fetched) in fetched {
            match fetched {
                // Another one of the wanted outputs may cover a part of the same range.
                Fetched::Range(range) if self.fetches.coverage.is_missing(&output) => {
                    self.fetches.coverage.add(&output);
                    self.fetches.ranges.insert(range);
                }
                Fetched::Missing => lost.push(AttemptId::new(attempt.task.job, Kind::Map, output.map, output.number)),
                Fetched::Range(_) | Fetched::Unreachable => {}
            }
        }
        let is_preempted = requested == Some(Request::Preempt);
        let is_due = matches!(self.behaviour, Behaviour::Steps(steps) if self.steps >= steps);
        let step = match self.launch.work {
            _ if self.broken => Step::Ended(Report::Failed { attempt, reason: "its checkpoint is missing".into() }),
            Work::Map { .. } if !is_due && !is_preempted => Step::Continue,
            Work::Map { split, start_bytes, bytes, .. } => {
                let done = if is_preempted { random.below(bytes + 1) } else { bytes };
                Step::Ended(self.end_map((split, start_bytes, done), bytes, files, disk))
            }
            Work::Reduce { .. } if is_preempted => {
                files.paused.insert(attempt, self.fetches.clone());
                Step::Ended(Report::Paused { attempt, progress_ppm: self.progress_ppm() })
            }
            Work::Reduce { .. } if !is_due || !self.fetches.coverage.is_complete() => Step::Continue,
            Work::Reduce { .. } => {
                Step::Ended(match write_reduce(&self.launch.plan, attempt, &self.fetches.ranges, disk) {
                    Ok(()) => Report::Finished { attempt, output_bytes: 1, counters: Counters::new() },
                    Err(error) => Report::Failed { attempt, reason: error.to_string() },
                })
            }
        };
        self.launch.control.set_progress_ppm(self.progress_ppm());
        (step, lost)
    }

    /// Exceeds a third exactly when a reduce has fetched everything, as that of a real one does.
    fn progress_ppm(&self) -> u32 {
        match self.launch.attempt.task.kind {
            Kind::Map => match self.behaviour {
                Behaviour::Steps(steps) => (self.steps.min(steps) * 999_999 / steps.max(1)) as u32,
                Behaviour::Hangs | Behaviour::HangsForEver => 0,
            },
            Kind::Reduce if self.fetches.coverage.is_complete() => 400_000,
            Kind::Reduce => 200_000,
        }
    }

    fn end_map(&self, range: Range, bytes: u64, files: &mut WorkerFiles, disk: &dyn FileSystem) -> Report {
        let (attempt, done, plan) = (self.launch.attempt, range.2, &self.launch.plan);
        if plan.reduces > 0 {
            files.outputs.insert(attempt, range);
        } else if done > 0
            && let Err(error) = write_map(plan, attempt, range, disk)
        {
            return Report::Failed { attempt, reason: error.to_string() };
        }
        match done == bytes {
            true => Report::Finished { attempt, output_bytes: done, counters: Counters::new() },
            false => Report::EndedEarly { attempt, done_bytes: done, output_bytes: done, counters: Counters::new() },
        }
    }
}

/// One line of a modelled part file.
pub(super) fn line(job: JobId, (split, start, bytes): Range) -> String {
    format!("{} {split} {start} {bytes}\n", job.0)
}

/// As a real map without reduces: the file and its name are durable before the map reports.
fn write_map(plan: &Plan, attempt: AttemptId, range: Range, disk: &dyn FileSystem) -> io::Result<()> {
    let path = temporary_path(plan, attempt);
    check_folder(plan, disk)?;
    disk.write(&path, line(plan.job, range).as_bytes())?;
    if plan.request.sync_output {
        disk.sync(&path)?;
        disk.sync(&plan.output.join(TEMPORARY))?;
    }
    Ok(())
}

/// As a real reduce: written under a temporary name, synced, renamed, and the name synced.
fn write_reduce(plan: &Plan, attempt: AttemptId, ranges: &BTreeSet<Range>, disk: &dyn FileSystem) -> io::Result<()> {
    let (path, part) = (temporary_path(plan, attempt), reduce_part_path(plan, attempt.task.index));
    let text: String = ranges.iter().map(|&range| line(plan.job, range)).collect();
    check_folder(plan, disk)?;
    disk.write(&path, text.as_bytes())?;
    if plan.request.sync_output {
        disk.sync(&path)?;
    }
    disk.rename(&path, &part)?;
    if plan.request.sync_output {
        disk.sync(&plan.output)?;
    }
    Ok(())
}

/// Without the folder for temporary files the job has ended, and nothing is written.
fn check_folder(plan: &Plan, disk: &dyn FileSystem) -> io::Result<()> {
    match disk.exists(&plan.output.join(TEMPORARY))? {
        true => Ok(()),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}
