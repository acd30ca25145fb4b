//! A model of a worker: it speaks the worker's side of the protocol and runs tasks in virtual time.
//!
//! What survives its process is as with a real worker: map outputs and paused reduces do, running tasks and unacknowledged reports do not. Instead of
//! records a map produces the range of input it has covered, so the output of a job shows whether every byte of its input was counted exactly once.

use super::random::Random;
use crate::coordinator::file_system::FileSystem;
use crate::job::Plan;
use crate::task::{MapOutputLocation, TEMPORARY, reduce_part_path, temporary_path};
use crate::wire::{Counters, Join, Report, ToWorker};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Start, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A range of the input: split, first byte, length.
pub(super) type Range = (u32, u64, u64);

#[derive(Debug)]
pub(super) struct ModelWorker {
    pub(super) name: String,
    pub(super) map_slots: u16,
    pub(super) reduce_slots: u16,
    /// Changes with each process.
    pub(super) incarnation: u64,
    pub(super) node: Option<NodeId>,
    /// True between the coordinator's answer to the join and the end of the connection.
    pub(super) joined: bool,
    jobs: BTreeMap<JobId, LocalJob>,
    pub(super) running: BTreeMap<AttemptId, Task>,
    pub(super) unacked: BTreeMap<u64, Report>,
    next_seq: u64,
    /// Map outputs on its disk.
    pub(super) outputs: BTreeMap<AttemptId, Range>,
    /// Paused reduces on its disk, with what they have fetched.
    paused: BTreeMap<AttemptId, BTreeSet<Range>>,
}

#[derive(Debug)]
struct LocalJob {
    plan: Arc<Plan>,
    outputs: BTreeMap<(u32, u16), MapOutputLocation>,
}

/// A running task.
#[derive(Debug)]
pub(super) struct Task {
    work: Work,
    plan: Arc<Plan>,
    yield_requested: bool,
    stop_requested: bool,
    steps: u64,
    /// What a reduce has fetched.
    fetched: BTreeSet<Range>,
}

/// What a task does next.
#[derive(Debug)]
pub(super) enum Step {
    /// It continues after a while.
    Continue,
    /// It has ended and reports this.
    Ended(Report),
}

/// The state of a node's data server, as another worker sees it.
pub(super) enum Fetched {
    Range(Range),
    /// The node does not have the output.
    Missing,
    /// The node does not answer now.
    Unreachable,
}

impl ModelWorker {
    pub(super) fn new(name: String, map_slots: u16, reduce_slots: u16) -> ModelWorker {
        ModelWorker {
            name,
            map_slots,
            reduce_slots,
            incarnation: 0,
            node: None,
            joined: false,
            jobs: BTreeMap::new(),
            running: BTreeMap::new(),
            unacked: BTreeMap::new(),
            next_seq: 1,
            outputs: BTreeMap::new(),
            paused: BTreeMap::new(),
        }
    }

    /// Starts a new process after the last one was killed. After a power cut some of what was on its disk is gone.
    pub(super) fn restart(&mut self, power_cut: bool, random: &mut Random) {
        self.incarnation = random.next();
        (self.node, self.joined) = (None, false);
        self.jobs.clear();
        self.running.clear();
        self.unacked.clear();
        if power_cut {
            self.outputs.retain(|_, _| random.chance(2));
            self.paused.retain(|_, _| random.chance(2));
        }
    }

    pub(super) fn join(&self) -> Join {
        let ended = self.unacked.values().filter_map(end_of);
        let stored = self.outputs.keys().chain(self.paused.keys()).map(|attempt| attempt.task.job);
        let jobs: BTreeSet<JobId> = self.jobs.keys().copied().chain(stored).collect();
        Join {
            name: self.name.clone(),
            incarnation: self.incarnation,
            rack: 0,
            host: "host".into(),
            map_slots: self.map_slots,
            reduce_slots: self.reduce_slots,
            data_address: self.name.clone(),
            pid: 1,
            running: self.running.keys().copied().chain(ended).collect(),
            outputs: self.outputs.keys().copied().collect(),
            paused: self.paused.keys().copied().collect(),
            jobs: jobs.into_iter().collect(),
        }
    }

    /// Number of tasks that hold a slot of a kind.
    pub(super) fn used(&self, kind: Kind) -> usize {
        self.running.keys().filter(|attempt| attempt.task.kind == kind).count()
    }

    /// Records a report until it is acknowledged. Returns its sequence number.
    pub(super) fn add_report(&mut self, report: Report) -> u64 {
        match &report {
            Report::Finished { attempt, .. }
            | Report::EndedEarly { attempt, .. }
            | Report::Failed { attempt, .. }
            | Report::Killed { attempt }
            | Report::Paused { attempt, .. } => drop(self.running.remove(attempt)),
            Report::OutputLost { .. } => {}
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        self.unacked.insert(seq, report);
        seq
    }

    /// Drops all state of tasks: the coordinator had declared this worker lost.
    pub(super) fn discard_all(&mut self) {
        self.running.clear();
        self.unacked.clear();
        self.jobs.clear();
        self.outputs.clear();
        self.paused.clear();
    }

    /// Handles a message. Returns a launched attempt, or a report to be sent.
    pub(super) fn handle(&mut self, message: ToWorker, random: &mut Random) -> (Option<AttemptId>, Option<Report>) {
        match message {
            ToWorker::Plan(plan) | ToWorker::ShippedPlan { plan, .. } => {
                let (job, plan) = (plan.job, Arc::new(*plan));
                self.jobs.entry(job).or_insert(LocalJob { plan, outputs: BTreeMap::new() });
            }
            ToWorker::Launch { attempt, work } => {
                if self.running.contains_key(&attempt) {
                    return (None, None);
                }
                let Some(local) = self.jobs.get(&attempt.task.job) else {
                    return (None, Some(Report::Failed { attempt, reason: "no plan".into() }));
                };
                let fetched = match work {
                    Work::Reduce { start: Start::Resumed { from } } => self.paused.remove(&from).unwrap_or_default(),
                    _ => BTreeSet::new(),
                };
                let plan = Arc::clone(&local.plan);
                let steps = random.between(1, 4);
                let task = Task { work, plan, yield_requested: false, stop_requested: false, steps, fetched };
                self.running.insert(attempt, task);
                return (Some(attempt), None);
            }
            ToWorker::Yield { attempt } => return (None, self.request(attempt, |task| task.yield_requested = true)),
            ToWorker::Kill { attempt } => return (None, self.request(attempt, |task| task.stop_requested = true)),
            ToWorker::MapOutputs { job, replace, outputs } => {
                if let Some(local) = self.jobs.get_mut(&job) {
                    if replace {
                        local.outputs.clear();
                    }
                    local.outputs.extend(outputs.into_iter().map(|output| ((output.map, output.number), output)));
                }
            }
            ToWorker::OutputLost { map } => {
                self.outputs.remove(&map);
                if let Some(local) = self.jobs.get_mut(&map.task.job) {
                    local.outputs.remove(&(map.task.index, map.number));
                }
            }
            ToWorker::Nodes { nodes } => {
                for (lost, _) in nodes.iter().filter(|(_, address)| address.is_none()) {
                    self.jobs.values_mut().for_each(|local| local.outputs.retain(|_, at| at.node != *lost));
                }
            }
            ToWorker::CloseJob { job } => {
                self.jobs.remove(&job);
                self.outputs.retain(|attempt, _| attempt.task.job != job);
                self.paused.retain(|attempt, _| attempt.task.job != job);
                let of_job = self.running.iter_mut().filter(|(attempt, _)| attempt.task.job == job);
                of_job.for_each(|(_, task)| task.stop_requested = true);
            }
            ToWorker::Ack { seq } => drop(self.unacked.remove(&seq)),
            ToWorker::JoinAccepted { .. } | ToWorker::JoinRefused { .. } | ToWorker::Stop => {}
        }
        (None, None)
    }

    fn request(&mut self, attempt: AttemptId, request: impl FnOnce(&mut Task)) -> Option<Report> {
        if let Some(task) = self.running.get_mut(&attempt) {
            request(task);
            return None;
        }
        let is_reported = self.unacked.values().any(|report| end_of(report) == Some(attempt));
        (!is_reported).then_some(Report::Killed { attempt })
    }

    /// The map outputs that a reduce has to fetch next.
    pub(super) fn wanted(&self, attempt: AttemptId) -> Vec<MapOutputLocation> {
        let (Some(task), Some(local)) = (self.running.get(&attempt), self.jobs.get(&attempt.task.job)) else {
            return Vec::new();
        };
        let is_new = |output: &&MapOutputLocation| {
            let (from, to) = (output.start_bytes, output.start_bytes + output.bytes);
            let overlaps = |&(split, start, bytes): &Range| split == output.split && from < start + bytes && start < to;
            output.bytes > 0 && !task.fetched.iter().any(overlaps)
        };
        local.outputs.values().filter(is_new).copied().collect()
    }

    /// Continues a task. `fetched` is what came of the outputs it wanted.
    pub(super) fn step(
        &mut self,
        attempt: AttemptId,
        fetched: Vec<(MapOutputLocation, Fetched)>,
        disk: &dyn FileSystem,
        random: &mut Random,
    ) -> (Step, Vec<Report>) {
        let mut lost = Vec::new();
        let Some(task) = self.running.get_mut(&attempt) else { return (Step::Continue, lost) };
        if task.stop_requested {
            return (Step::Ended(Report::Killed { attempt }), lost);
        }
        for (output, fetched) in fetched {
            match fetched {
                // Another one of the wanted outputs may cover a part of the same range.
                Fetched::Range(range) => {
                    let overlaps =
                        |have: &Range| have.0 == range.0 && have.1 < range.1 + range.2 && range.1 < have.1 + have.2;
                    if !task.fetched.iter().any(overlaps) {
                        task.fetched.insert(range);
                    }
                }
                Fetched::Missing => {
                    let map = AttemptId::new(attempt.task.job, Kind::Map, output.map, output.number);
                    lost.push(Report::OutputLost { map });
                }
                Fetched::Unreachable => {}
            }
        }
        task.steps = task.steps.saturating_sub(1);
        let step = match task.work {
            Work::Map { split, start_bytes, bytes, .. } => {
                let done = if task.yield_requested { random.below(bytes + 1) } else { bytes };
                if task.steps > 0 && !task.yield_requested {
                    return (Step::Continue, lost);
                }
                let range = (split, start_bytes, done);
                let written = match task.plan.reduces {
                    0 if done > 0 => write_map(&task.plan, attempt, range, disk),
                    _ => Ok(()),
                };
                if written.is_ok() && task.plan.reduces > 0 && done > 0 {
                    self.outputs.insert(attempt, range);
                }
                match written {
                    Err(error) => Report::Failed { attempt, reason: error.to_string() },
                    Ok(()) if done == bytes => {
                        Report::Finished { attempt, output_bytes: done, counters: Counters::new() }
                    }
                    Ok(()) => {
                        let (done_bytes, output_bytes) = (done, done);
                        Report::EndedEarly { attempt, done_bytes, output_bytes, counters: Counters::new() }
                    }
                }
            }
            Work::Reduce { .. } => {
                if task.yield_requested {
                    let fetched = std::mem::take(&mut task.fetched);
                    self.paused.insert(attempt, fetched);
                    Report::Paused { attempt, progress_ppm: 300_000 }
                } else if task.steps > 0 || !covers(&task.plan, &task.fetched) {
                    return (Step::Continue, lost);
                } else {
                    match write_reduce(&task.plan, attempt, &task.fetched, disk) {
                        Ok(()) => Report::Finished { attempt, output_bytes: 1, counters: Counters::new() },
                        Err(error) => Report::Failed { attempt, reason: error.to_string() },
                    }
                }
            }
        };
        (Step::Ended(step), lost)
    }
}

/// The attempt whose end a report is about.
fn end_of(report: &Report) -> Option<AttemptId> {
    match report {
        Report::Finished { attempt, .. }
        | Report::Failed { attempt, .. }
        | Report::Killed { attempt }
        | Report::Paused { attempt, .. }
        | Report::EndedEarly { attempt, .. } => Some(*attempt),
        Report::OutputLost { .. } => None,
    }
}

/// True if these ranges cover all splits.
fn covers(plan: &Plan, fetched: &BTreeSet<Range>) -> bool {
    let covered =
        |split: usize| fetched.iter().filter(|range| range.0 as usize == split).map(|range| range.2).sum::<u64>();
    plan.splits.iter().enumerate().all(|(at, split)| split.bytes == covered(at))
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
