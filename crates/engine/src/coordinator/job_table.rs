//! State of jobs and attempts beside the core's: what clients ask for, and what must be sent again to a worker that reconnects.
//!
//! All of it follows from the journal. [`JobTable::apply`] is called with each event and the core's actions, both when they happen and when a
//! restarted coordinator replays the event log; [`JobTable::apply_metadata`] likewise with each line of the metadata.

use super::journal::Metadata;
use crate::job::Plan;
use crate::task::MapOutputLocation;
use crate::wire::{Counters, JobStatus, TaskCounts};
use giveway_core::state::{Job, TaskState};
use giveway_core::{
    Action, AttemptId, Event, JobId, Kind, NodeId, Outcome, Reason, Refusal, Scheduler, TaskId, Time, Timers, Work,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Number of failures and of decisions retained per job, for `giveway job` and `giveway explain`.
const RECENT_MAX: usize = 20;

/// Number of ended jobs retained. The oldest are forgotten first.
const ENDED_JOBS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct JobTable {
    pub(crate) jobs: BTreeMap<JobId, JobRecord>,
    /// Attempts that occupy a slot in the core's state.
    pub(crate) running: HashMap<AttemptId, RunningAttempt>,
    /// Node ids by worker name.
    pub(crate) node_ids: HashMap<String, NodeId>,
    /// The core's timers.
    pub(crate) timers: Timers,
    /// Id of the next job.
    pub(crate) next_job: u32,
    /// How often an attempt of a task disappeared with its worker process. Not in the journal: counted since the coordinator started.
    pub(crate) worker_crashes: HashMap<TaskId, u8>,
    /// Ended jobs in the order of their end.
    ended_jobs: VecDeque<JobId>,
}

/// An attempt that occupies a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningAttempt {
    pub(crate) node: NodeId,
    pub(crate) work: Work,
    /// The last stop request. Sent again if the worker reconnects.
    pub(crate) stop_request: Option<StopRequest>,
}

/// A request to stop an attempt before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// End a map early, or pause a reduce.
    Yield,
    Kill,
}

#[derive(Debug)]
pub(crate) struct JobRecord {
    pub(crate) plan: Arc<Plan>,
    pub(crate) submitted: Option<Time>,
    /// Time of the first launch.
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// The core's outcome; once finalized, the final one. They differ if publishing the output failed.
    pub(crate) outcome: Option<Outcome>,
    /// True once the output has been published or removed.
    pub(crate) finalized: bool,
    pub(crate) next_round: Option<JobId>,
    /// Number of finished attempts of each kind. A task counts again if its output is lost and it finishes a second time.
    finished: [u32; 2],
    /// For a map-only job: the attempt that produced the output for the range that begins at this split and byte.
    pub(crate) map_pieces: BTreeMap<(u32, u64), AttemptId>,
    pauses: u32,
    early_ends: u32,
    kills: u32,
    recovered: u32,
    pub(crate) counters: Counters,
    /// Attempts included in `counters`. A report may arrive twice.
    counted_attempts: HashSet<AttemptId>,
    /// The last [`RECENT_MAX`] failures, oldest first.
    pub(crate) failures: VecDeque<String>,
    /// The last [`RECENT_MAX`] scheduling decisions with their reasons, oldest first.
    pub(crate) decisions: VecDeque<(Time, String)>,
}

impl JobRecord {
    fn new(plan: Plan) -> JobRecord {
        JobRecord {
            plan: Arc::new(plan),
            submitted: None,
            started: None,
            ended: None,
            outcome: None,
            finalized: false,
            next_round: None,
            finished: [0; 2],
            map_pieces: BTreeMap::new(),
            pauses: 0,
            early_ends: 0,
            kills: 0,
            recovered: 0,
            counters: Counters::new(),
            counted_attempts: HashSet::new(),
            failures: VecDeque::new(),
            decisions: VecDeque::new(),
        }
    }

    /// Task counts of an ended job, which the core has forgotten.
    fn final_counts(&self) -> [TaskCounts; 2] {
        let totals = [self.plan.splits.len() as u32, self.plan.reduces];
        Kind::BOTH.map(|kind| {
            let total = totals[kind.ix()];
            let succeeded = self.outcome == Some(Outcome::Succeeded);
            let done = if succeeded { total } else { self.finished[kind.ix()].min(total) };
            TaskCounts { total, done, ..TaskCounts::default() }
        })
    }

    fn add_decision(&mut self, now: Time, text: String) {
        push_recent(&mut self.decisions, (now, text));
    }
}

fn push_recent<T>(recent: &mut VecDeque<T>, item: T) {
    if recent.len() == RECENT_MAX {
        recent.pop_front();
    }
    recent.push_back(item);
}

impl JobTable {
    /// Applies a line of the metadata, when it is written or replayed.
    pub(crate) fn apply_metadata(&mut self, metadata: &Metadata) {
        match metadata {
            Metadata::JournalCreated { next_job } => self.next_job = *next_job,
            Metadata::JobPlanned(plan) => {
                self.next_job = self.next_job.max(plan.job.0 + 1);
                self.jobs.insert(plan.job, JobRecord::new((**plan).clone()));
            }
            Metadata::CountersReported { attempt, counters } => {
                if let Some(job) = self.jobs.get_mut(&attempt.task.job)
                    && job.counted_attempts.insert(*attempt)
                {
                    for (name, by) in counters {
                        *job.counters.entry(name.clone()).or_default() += by;
                    }
                }
            }
            Metadata::FailureReported { job, text } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    push_recent(&mut job.failures, text.clone());
                }
            }
            Metadata::JobFinalized { job: id, outcome, next_round } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    (job.finalized, job.outcome, job.next_round) = (true, Some(*outcome), *next_round);
                    self.ended_jobs.push_back(*id);
                }
                while self.ended_jobs.len() > ENDED_JOBS_MAX {
                    let oldest = self.ended_jobs.pop_front().expect("its length was checked");
                    self.jobs.remove(&oldest);
                }
            }
        }
    }

    /// Applies an event and the core's actions, when they happen or are replayed.
    pub(crate) fn apply(&mut self, now: Time, event: &Event, actions: &[Action]) {
        let refused = actions.iter().any(|action| matches!(action, Action::Refuse { .. }));
        if !refused {
            self.apply_event(now, event);
        }
        actions.iter().for_each(|action| self.apply_action(now, action));
    }

    fn apply_event(&mut self, now: Time, event: &Event) {
        match event {
            Event::JobSubmitted(spec) => {
                if let Some(job) = self.jobs.get_mut(&spec.id) {
                    job.submitted = Some(now);
                }
            }
            Event::NodeJoined { node, spec } => {
                self.node_ids.insert(spec.name.clone(), *node);
            }
            Event::NodeLost { node } => self.running.retain(|_, running| running.node != *node),
            Event::AttemptFinished { attempt, .. } => {
                self.end_with_output(*attempt);
                self.update_job(*attempt, |job| job.finished[attempt.task.kind.ix()] += 1);
            }
            Event::AttemptFailed { attempt } | Event::AttemptKilled { attempt } => {
                self.running.remove(attempt);
            }
            Event::AttemptPaused { attempt, .. } => {
                self.running.remove(attempt);
                self.update_job(*attempt, |job| job.pauses += 1);
            }
            Event::AttemptEndedEarly { attempt, done_bytes, .. } => {
                if *done_bytes > 0 {
                    self.end_with_output(*attempt);
                } else {
                    self.running.remove(attempt);
                }
                self.update_job(*attempt, |job| job.early_ends += 1);
            }
            Event::TimerFired { timer } => self.timers.clear(*timer),
            Event::JobKilled { .. }
            | Event::SlotsOffered { .. }
            | Event::ProgressReported { .. }
            | Event::MapOutputLost { .. }
            | Event::YieldRequested { .. } => {}
            // Events of backends that grant slots themselves. The engine never submits them.
            Event::JobOpened(_)
            | Event::SlotsRequested { .. }
            | Event::SlotGranted { .. }
            | Event::JobEnded { .. }
            | Event::Resynced => {}
        }
    }

    /// Removes an attempt that ended with output. For a map-only job, records that its output counts for its input range.
    fn end_with_output(&mut self, attempt: AttemptId) {
        if let Some(RunningAttempt { work: Work::Map { split, start_bytes, .. }, .. }) = self.running.remove(&attempt)
            && let Some(job) = self.jobs.get_mut(&attempt.task.job)
            && job.plan.reduces == 0
        {
            job.map_pieces.insert((split, start_bytes), attempt);
        }
    }

    fn apply_action(&mut self, now: Time, action: &Action) {
        match *action {
            Action::Launch { attempt, node, work, reason } => {
                self.running.insert(attempt, RunningAttempt { node, work, stop_request: None });
                self.update_job(attempt, |job| {
                    job.started.get_or_insert(now);
                    job.recovered += u32::from(matches!(reason, Reason::Recovery { .. }));
                    job.add_decision(now, format!("launch {} on {node}: {reason}", describe(attempt)));
                });
            }
            Action::Pause { attempt, node, reason } => {
                self.set_stop_request(attempt, StopRequest::Yield);
                self.update_job(attempt, |job| {
                    job.add_decision(now, format!("pause {} on {node}: {reason}", describe(attempt)));
                });
            }
            Action::EndEarly { attempt, node, reason } => {
                self.set_stop_request(attempt, StopRequest::Yield);
                self.update_job(attempt, |job| {
                    job.add_decision(now, format!("end {} on {node} early: {reason}", describe(attempt)));
                });
            }
            Action::Kill { attempt, node, reason } => {
                self.set_stop_request(attempt, StopRequest::Kill);
                self.update_job(attempt, |job| {
                    job.kills += u32::from(!matches!(reason, Reason::JobEnded | Reason::OtherAttemptFinished));
                    job.add_decision(now, format!("kill {} on {node}: {reason}", describe(attempt)));
                });
            }
            Action::CloseJob { job, outcome } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.ended = Some(now);
                    // During replay the metadata is applied first. Its outcome prevails: publishing the output may have failed.
                    if !job.finalized {
                        job.outcome = Some(outcome);
                    }
                }
            }
            Action::SetTimer { timer, at } => self.timers.set(timer, at),
            Action::PlaceReplicas { .. } | Action::Refuse { .. } => {}
        }
    }

    fn set_stop_request(&mut self, attempt: AttemptId, request: StopRequest) {
        if let Some(running) = self.running.get_mut(&attempt) {
            running.stop_request = Some(request);
        }
    }

    /// Changes the record of an attempt's job, if the job is not forgotten.
    fn update_job(&mut self, attempt: AttemptId, update: impl FnOnce(&mut JobRecord)) {
        if let Some(job) = self.jobs.get_mut(&attempt.task.job) {
            update(job);
        }
    }

    /// A job's status. `None` if the job is unknown or forgotten.
    pub(crate) fn status(&self, id: JobId, core: &Scheduler) -> Option<JobStatus> {
        let job = self.jobs.get(&id)?;
        let [maps, reduces] = task_counts(id, core).unwrap_or_else(|| job.final_counts());
        Some(JobStatus {
            job: id,
            name: job.plan.request.name.clone(),
            app: job.plan.request.app.clone(),
            user: job.plan.request.user.clone(),
            outcome: job.outcome.filter(|_| job.finalized),
            next_round: job.next_round,
            maps,
            reduces,
            submitted_us: job.submitted.map_or(0, |at| at.0),
            started_us: job.started.map(|at| at.0),
            ended_us: job.ended.map(|at| at.0),
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
pub(crate) fn task_counts(job: JobId, core: &Scheduler) -> Option<[TaskCounts; 2]> {
    let state = core.state();
    let job = state.job(state.find(job)?);
    Some(Kind::BOTH.map(|kind| {
        let facts = job.facts(kind);
        TaskCounts { total: job.total(kind), done: facts.done, running: facts.live.len() as u32, paused: facts.paused }
    }))
}

/// Locations of the outputs of a job's finished maps, without lost ones.
pub(crate) fn map_outputs(job: JobId, core: &Scheduler) -> Vec<MapOutputLocation> {
    let state = core.state();
    let Some(job) = state.find(job).map(|jx| state.job(jx)) else { return Vec::new() };
    let available = |&map: &u32| !job.gone.iter().any(|&(gone, _)| gone == map);
    (0..job.total(Kind::Map)).filter(available).filter_map(|map| output_of(job, map)).collect()
}

/// Location of a map attempt's output. `None` if the attempt's output is not the one the core relies on.
pub(crate) fn map_output(map: AttemptId, core: &Scheduler) -> Option<MapOutputLocation> {
    let state = core.state();
    let output = output_of(state.job(state.find(map.task.job)?), map.task.index)?;
    (output.number == map.number).then_some(output)
}

fn output_of(job: &Job, map: u32) -> Option<MapOutputLocation> {
    let task = job.tasks[Kind::Map.ix()].get(map as usize).filter(|task| task.state == TaskState::Done)?;
    Some(MapOutputLocation {
        map,
        number: task.number,
        node: task.node,
        split: task.split,
        start_bytes: job.start_bytes(map),
        bytes: job.bytes(map),
    })
}

/// The core's reason for refusing an event, if it did.
pub(crate) fn refusal(actions: &[Action]) -> Option<Refusal> {
    actions.iter().find_map(|action| match action {
        Action::Refuse { refusal } => Some(*refusal),
        _ => None,
    })
}

fn describe(attempt: AttemptId) -> String {
    format!("{} {}.{}", attempt.task.kind, attempt.task.index, attempt.number)
}
