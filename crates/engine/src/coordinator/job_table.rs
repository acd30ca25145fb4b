//! State of jobs and attempts beside the core's: what clients ask for, and what must be sent again to a worker that reconnects.
//!
//! All of it follows from the journal. [`JobTable::apply`] is called with each event and the core's actions, both when they happen and when a
//! restarted coordinator replays the event log; [`JobTable::apply_metadata`] likewise with each record of the metadata.

use super::journal::{Clock, Metadata};
use crate::job::{Partitioning, Plan, Request};
use crate::planted::{Bug, planted};
use crate::program::ProgramId;
use crate::task::MapOutputLocation;
use crate::wire::{Counters, JobStatus, TaskCounts};
use giveway_core::cluster::{KindStatus, MapOutput};
use giveway_core::{
    Action, AttemptId, Change, End, Event, JobId, Kind, Lifecycle, NodeId, Outcome, PerKind, PreemptAction, Reason,
    RunningAttempt, Scheduler, Snapshot, TaskId, Time, Timers, Work,
};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of failures retained per job, for `giveway job`.
const RECENT_MAX: usize = 20;

/// The counters of a job, and the length of their names. The program of a job may report any; the status of a job has to fit into a message.
const COUNTERS_MAX: usize = 1_000;
const COUNTER_NAME_BYTES_MAX: usize = 512;

/// Number of ended jobs retained. The oldest are forgotten first.
const ENDED_JOBS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct JobTable {
    pub(crate) jobs: BTreeMap<JobId, JobRecord>,
    /// Attempts that occupy a slot in the core's state.
    pub(crate) running: Lifecycle,
    /// Node ids by worker name.
    pub(crate) node_ids: HashMap<String, NodeId>,
    pub(crate) timers: Timers,
    /// Id of the next job.
    pub(crate) next_job: u32,
    /// How often an attempt of a task disappeared with its worker process. Not in the journal: counted since the coordinator started.
    pub(crate) worker_crashes: HashMap<TaskId, u8>,
    /// Ended jobs in the order of their end.
    ended_jobs: VecDeque<JobId>,
    /// Since the last snapshot, which is followed by what was known then.
    pub(crate) clock: Clock,
    /// What is asked of all unfinished jobs at each submission.
    pub(super) unfinished: Unfinished,
}

/// The jobs that are not finalized, counted.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    jobs: u32,
    /// Rounds of a job have the same output.
    by_output: HashMap<PathBuf, u32>,
    by_user: HashMap<String, u32>,
    /// Those that were shipped with a program.
    by_program: HashMap<ProgramId, u32>,
    /// Of their plans, about.
    bytes: u64,
}

impl Unfinished {
    fn add(&mut self, job: &JobRecord) {
        let Request { output, user, .. } = &job.plan.request;
        self.jobs += 1;
        self.bytes += plan_bytes(&job.plan);
        *self.by_output.entry(output.clone()).or_default() += 1;
        *self.by_user.entry(user.clone()).or_default() += 1;
        job.program.iter().for_each(|&program| *self.by_program.entry(program).or_default() += 1);
    }

    fn remove(&mut self, job: &JobRecord) {
        let Request { output, user, .. } = &job.plan.request;
        self.jobs -= 1;
        self.bytes -= plan_bytes(&job.plan);
        decrease(&mut self.by_output, output);
        decrease(&mut self.by_user, user);
        job.program.iter().for_each(|program| decrease(&mut self.by_program, program));
    }

    pub(super) fn jobs(&self) -> u32 {
        self.jobs
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn has_output(&self, output: &Path) -> bool {
        self.by_output.contains_key(output)
    }

    pub(super) fn needs(&self, program: ProgramId) -> bool {
        self.by_program.contains_key(&program)
    }

    pub(super) fn of_user(&self, user: &str) -> u32 {
        self.by_user.get(user).copied().unwrap_or(0)
    }
}

/// About how much memory a plan takes, and how many bytes of a snapshot.
pub(super) fn plan_bytes(plan: &Plan) -> u64 {
    let request = &plan.request;
    let options: usize = request.options.iter().map(|(name, value)| name.len() + value.len()).sum();
    let input: usize = request.input.iter().map(|path| path.len()).sum();
    // A file has its name and its path, and most names are those of the input.
    let files: usize = plan.files.iter().map(|file| size_of_val(file) + 2 * file.name.len()).sum();
    (options + input + files + size_of_val(plan.splits.as_slice()) + plan.app_data.len()) as u64
}

/// Decreases a count. Without a rest its entry is removed.
fn decrease<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(counts: &mut HashMap<K, u32>, key: &Q) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A job table without what is in a snapshot of the core. Part of the journal's format, with [`JobRecord`]: see `journal/snapshot.rs`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TableSnapshot {
    jobs: Vec<(JobId, JobRecord)>,
    next_job: u32,
    ended_jobs: VecDeque<JobId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// Without input and splits once the job is finalized.
    pub(crate) plan: Arc<Plan>,
    /// The program that it was shipped with, until it is finalized.
    pub(crate) program: Option<ProgramId>,
    /// Number of its splits.
    maps: u32,
    pub(crate) submitted: Option<Time>,
    /// Time of the first launch.
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// The core's outcome; once finalized, the final one. They differ if publishing the output failed.
    pub(crate) outcome: Option<Outcome>,
    /// True once the output has been published or removed.
    pub(crate) finalized: bool,
    /// True if the job was killed after its last task and before its output was published.
    pub(crate) kill_requested: bool,
    pub(crate) next_round: Option<JobId>,
    /// Number of finished attempts of each kind. A task counts again if its output is lost and it finishes a second time.
    finished: PerKind<u32>,
    /// For a map-only job: the attempt that produced the output for the range that begins at this split and byte.
    pub(crate) map_pieces: BTreeMap<(u32, u64), AttemptId>,
    pauses: u32,
    early_ends: u32,
    kills: u32,
    recovered: u32,
    pub(crate) counters: Counters,
    /// Attempts included in `counters`. A report may arrive twice.
    counted_attempts: BTreeSet<AttemptId>,
    /// The last [`RECENT_MAX`] failures, oldest first.
    pub(crate) failures: VecDeque<String>,
}

impl JobRecord {
    fn new(plan: Plan, program: Option<ProgramId>) -> JobRecord {
        JobRecord {
            program,
            maps: plan.splits.len() as u32,
            plan: Arc::new(plan),
            submitted: None,
            started: None,
            ended: None,
            outcome: None,
            finalized: false,
            kill_requested: false,
            next_round: None,
            finished: PerKind::default(),
            map_pieces: BTreeMap::new(),
            pauses: 0,
            early_ends: 0,
            kills: 0,
            recovered: 0,
            counters: Counters::new(),
            counted_attempts: BTreeSet::new(),
            failures: VecDeque::new(),
        }
    }

    /// Task counts of an ended job, which the core has forgotten.
    fn final_counts(&self) -> PerKind<TaskCounts> {
        let totals = PerKind::new(self.maps, self.plan.reduces);
        PerKind::from_fn(|kind| {
            let total = totals[kind];
            let succeeded = self.outcome == Some(Outcome::Succeeded);
            let done = if succeeded { total } else { self.finished[kind].min(total) };
            TaskCounts { total, done, ..TaskCounts::default() }
        })
    }

    /// Drops what an ended job does not need.
    fn shrink(&mut self) {
        let plan = Arc::make_mut(&mut self.plan);
        (plan.files, plan.splits, plan.app_data) = (Vec::new(), Vec::new(), Vec::new());
        plan.partitioning = Partitioning::Hash;
        // They may be large, and nobody asks for those of an ended job.
        (plan.request.options, plan.request.input) = (BTreeMap::new(), Vec::new());
        self.program = None;
        self.counted_attempts.clear();
        self.map_pieces.clear();
    }
}

impl JobTable {
    /// The table of a coordinator that recovers from a snapshot. Timers are set when the core is restored.
    pub(crate) fn restore(table: TableSnapshot, core: &Snapshot) -> JobTable {
        let mut unfinished = Unfinished::default();
        table.jobs.iter().filter(|(_, job)| !job.finalized).for_each(|(_, job)| unfinished.add(job));
        let nodes = core.state.nodes().iter();
        JobTable {
            unfinished,
            jobs: table.jobs.into_iter().collect(),
            running: Lifecycle::restored(core),
            node_ids: nodes.map(|(node, known)| (known.spec().name.clone(), node)).collect(),
            timers: Timers::default(),
            next_job: table.next_job,
            worker_crashes: HashMap::new(),
            ended_jobs: table.ended_jobs,
            clock: Clock::default(),
        }
    }

    /// What a snapshot has of the table.
    pub(crate) fn snapshot(&self) -> TableSnapshot {
        TableSnapshot {
            jobs: self.jobs.iter().map(|(&id, job)| (id, job.clone())).collect(),
            next_job: if planted(Bug::JobIdReused) { 1 } else { self.next_job },
            ended_jobs: self.ended_jobs.clone(),
        }
    }

    /// Applies a record of the metadata, when it is written or replayed.
    pub(crate) fn apply_metadata(&mut self, metadata: &Metadata) {
        match metadata {
            Metadata::JournalCreated { next_job } => self.next_job = *next_job,
            Metadata::JobPlanned { plan, program } => {
                self.next_job = self.next_job.max(plan.job.0.saturating_add(1));
                let job = JobRecord::new((**plan).clone(), *program);
                self.unfinished.add(&job);
                self.jobs.insert(plan.job, job);
            }
            Metadata::CountersReported { attempt, counters } => {
                if let Some(job) = self.jobs.get_mut(&attempt.task.job)
                    && job.counted_attempts.insert(*attempt)
                {
                    for (name, by) in counters {
                        let is_new = !job.counters.contains_key(name);
                        if is_new && (job.counters.len() >= COUNTERS_MAX || name.len() > COUNTER_NAME_BYTES_MAX) {
                            continue;
                        }
                        let counter = job.counters.entry(name.clone()).or_default();
                        *counter = counter.saturating_add(*by);
                    }
                }
            }
            Metadata::FailureReported { job, text } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    if job.failures.len() == RECENT_MAX {
                        job.failures.pop_front();
                    }
                    job.failures.push_back(text.clone());
                }
            }
            Metadata::KillRequested { job } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.kill_requested = true;
                }
            }
            Metadata::JobDiscarded { job } => {
                if let Some(job) = self.jobs.remove(job).filter(|job| !job.finalized) {
                    self.unfinished.remove(&job);
                }
            }
            Metadata::JobFinalized { job: id, outcome, next_round } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    if !job.finalized {
                        self.unfinished.remove(job);
                    }
                    (job.finalized, job.outcome, job.next_round) = (true, Some(*outcome), *next_round);
                    job.shrink();
                    self.ended_jobs.push_back(*id);
                }
                while self.ended_jobs.len() > ENDED_JOBS_MAX
                    && let Some(oldest) = self.ended_jobs.pop_front()
                {
                    self.jobs.remove(&oldest);
                }
            }
            Metadata::ClockRead(reading) => self.clock.add(*reading),
            // Recovery begins with it.
            Metadata::Snapshot(_) => {}
        }
    }

    /// Applies an event and the core's actions, when they happen or are replayed.
    pub(crate) fn apply(&mut self, now: Time, event: &Event, actions: &[Action]) {
        match event {
            Event::TimerFired { timer } => self.timers.clear(*timer),
            // The core sets all its timers again.
            Event::Restored(_) => self.timers = Timers::default(),
            _ => {}
        }
        for action in actions {
            if let Action::SetTimer { timer, at } = action {
                self.timers.set(*timer, *at);
            }
        }
        let mut running = std::mem::take(&mut self.running);
        running.observe(event, actions, now, &mut |change| self.apply_change(now, change));
        self.running = running;
    }

    fn apply_change(&mut self, now: Time, change: Change<'_>) {
        match change {
            Change::JobSubmitted(spec) => {
                if let Some(job) = self.jobs.get_mut(&spec.id) {
                    job.submitted = Some(now);
                }
            }
            Change::NodeJoined { node, spec } => {
                self.node_ids.insert(spec.name.clone(), node);
            }
            Change::NodeLost { .. } | Change::SlotsSet { .. } => {}
            Change::Launched { attempt, reason } => {
                if let Some(job) = self.jobs.get_mut(&attempt.id.task.job) {
                    job.started.get_or_insert(now);
                    job.recovered += u32::from(matches!(reason, Reason::Recovery { .. }));
                }
            }
            Change::StopRequested { attempt, request, .. } => {
                let is_kill = request.action == PreemptAction::Kill && request.preempted;
                if let Some(job) = self.jobs.get_mut(&attempt.id.task.job) {
                    job.kills += u32::from(is_kill);
                }
            }
            Change::Ended { attempt, end } => self.on_attempt_ended(&attempt, end),
            Change::JobClosed { job, outcome } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.ended = Some(now);
                    // During replay the metadata is applied first. Its outcome prevails: publishing the output may have failed.
                    if !job.finalized {
                        job.outcome = Some(outcome);
                    }
                }
            }
        }
    }

    fn on_attempt_ended(&mut self, attempt: &RunningAttempt, end: End) {
        let Some(job) = self.jobs.get_mut(&attempt.id.task.job) else { return };
        match end {
            End::Finished { .. } => job.finished[attempt.id.task.kind] += 1,
            End::Paused => job.pauses += 1,
            End::EndedEarly { .. } => job.early_ends += 1,
            End::Killed { .. } | End::Failed | End::NodeLost | End::Resynced => {}
        }
        // The output of a map-only job's map counts for its input range.
        if let Work::Map { split, start_bytes, .. } = attempt.work
            && end.has_result()
            && job.plan.reduces == 0
            && !job.finalized
        {
            job.map_pieces.insert((split, start_bytes), attempt.id);
        }
    }

    /// The last round of an iterative job so far; the job itself if it has no further rounds.
    pub(crate) fn last_round(&self, job: JobId) -> JobId {
        // Rounds have increasing ids, so a damaged journal cannot make this loop forever.
        let next = |job: &JobId| self.jobs.get(job)?.next_round.filter(|next| next > job);
        std::iter::successors(Some(job), next).last().unwrap_or(job)
    }

    /// A job that was accepted: it, or its first round, was submitted to the core. `None` if the job is unknown or forgotten.
    pub(crate) fn accepted(&self, id: JobId) -> Option<&JobRecord> {
        self.jobs.get(&id).filter(|job| job.submitted.is_some() || job.finalized || job.plan.round > 0)
    }

    /// A job's status. `None` if the job is not accepted, unknown or forgotten.
    pub(crate) fn status(&self, id: JobId, core: &Scheduler) -> Option<JobStatus> {
        let job = self.accepted(id)?;
        let tasks = task_counts(id, core).unwrap_or_else(|| job.final_counts());
        let unix_ms = |at: Option<Time>| at.and_then(|at| self.clock.unix_us(at)).map(|us| us as f64 / 1e3);
        Some(JobStatus {
            job: id,
            name: job.plan.request.name.clone(),
            app: job.plan.request.app.clone(),
            user: job.plan.request.user.clone(),
            pool: job.plan.request.pool.clone(),
            priority: job.plan.request.priority,
            output: job.plan.output.to_string_lossy().into_owned(),
            outcome: job.outcome.filter(|_| job.finalized),
            next_round: job.next_round,
            maps: tasks[Kind::Map],
            reduces: tasks[Kind::Reduce],
            submitted_us: job.submitted.map_or(0, |at| at.0),
            submitted_ms: unix_ms(job.submitted),
            started_us: job.started.map(|at| at.0),
            started_ms: unix_ms(job.started),
            ended_us: job.ended.map(|at| at.0),
            ended_ms: unix_ms(job.ended),
            pauses: job.pauses,
            early_ends: job.early_ends,
            kills: job.kills,
            recovered: job.recovered,
            counters: job.counters.clone(),
            failures: job.failures.iter().cloned().collect(),
        })
    }
}

/// Task counts of a live job, maps and reduces. `None` if the core does not have the job.
fn task_counts(job: JobId, core: &Scheduler) -> Option<PerKind<TaskCounts>> {
    let count = |of: KindStatus| TaskCounts { total: of.total, done: of.done, running: of.running, paused: of.paused };
    Some(core.job_status(job)?.tasks.map(count))
}

/// Locations of the outputs of a job's finished maps, without lost ones.
pub(crate) fn map_outputs(job: JobId, core: &Scheduler) -> Vec<MapOutputLocation> {
    core.map_outputs(job).into_iter().map(location).collect()
}

/// Location of the output of one finished map.
pub(crate) fn map_output(map: AttemptId, core: &Scheduler) -> Option<MapOutputLocation> {
    core.map_output(map).map(location)
}

fn location(output: MapOutput) -> MapOutputLocation {
    let MapOutput { attempt, node, split, start_bytes, bytes } = output;
    MapOutputLocation { map: attempt.task.index, number: attempt.number, node, split, start_bytes, bytes }
}
