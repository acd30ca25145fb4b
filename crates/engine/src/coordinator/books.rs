//! What the coordinator keeps of jobs and attempts beside the core's state: what clients ask for, and what must be said to a worker again.
//!
//! All of it follows from the journal: [`Books::saw`] is called with each event and what the core answered, when it happens and again when a
//! new coordinator reads the event log of the old one.

use super::journal::Note;
use crate::job::Plan;
use crate::task::MapOutputLocation;
use crate::wire::{Counters, Counts, JobStatus};
use giveway_core::state::{Job, TaskState};
use giveway_core::{
    Action, AttemptId, Event, JobId, Kind, NodeId, Outcome, Reason, Refusal, Scheduler, TaskId, Time, Timers, Work,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// How many problems and decisions of a job are kept for people to look at.
const KEPT: usize = 20;

/// Jobs that are over are forgotten beyond this number, oldest first.
const ENDED_KEPT: usize = 1_000;

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) jobs: BTreeMap<JobId, JobBook>,
    /// Attempts the core believes to hold a slot, and what each was told.
    pub(crate) at_work: HashMap<AttemptId, AtWork>,
    /// Nodes by name.
    pub(crate) names: HashMap<String, NodeId>,
    /// When the core wants to be woken.
    pub(crate) timers: Timers,
    pub(crate) next_job: u32,
    /// How often a task went down with its worker's process, in this life.
    pub(crate) went_down: HashMap<TaskId, u8>,
    ended: VecDeque<JobId>,
}

/// An attempt that holds a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtWork {
    pub(crate) node: NodeId,
    pub(crate) work: Work,
    pub(crate) asked: Option<Asked>,
}

/// What an attempt was asked to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    GiveWay,
    Kill,
}

/// A job.
#[derive(Debug)]
pub(crate) struct JobBook {
    pub(crate) plan: Arc<Plan>,
    pub(crate) submitted: Option<Time>,
    pub(crate) began: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// What the core said of its end.
    pub(crate) closed: Option<Outcome>,
    /// True once its output has been published or removed.
    pub(crate) settled: bool,
    pub(crate) next: Option<JobId>,
    /// Tasks of each kind that have finished at one time or another.
    finished: [u32; 2],
    /// Of a job without reduces: which attempt's output stands for the piece that begins at this byte of this split.
    pub(crate) pieces: BTreeMap<(u32, u64), AttemptId>,
    pauses: u32,
    early_ends: u32,
    kills: u32,
    recovered: u32,
    pub(crate) counters: Counters,
    /// Attempts whose counts are in: a report may come twice.
    counted: HashSet<AttemptId>,
    pub(crate) problems: VecDeque<String>,
    /// What was decided about it lately, and why.
    pub(crate) decisions: VecDeque<(Time, String)>,
}

impl JobBook {
    fn new(plan: Plan) -> JobBook {
        JobBook {
            plan: Arc::new(plan),
            submitted: None,
            began: None,
            ended: None,
            closed: None,
            settled: false,
            next: None,
            finished: [0; 2],
            pieces: BTreeMap::new(),
            pauses: 0,
            early_ends: 0,
            kills: 0,
            recovered: 0,
            counters: Counters::new(),
            counted: HashSet::new(),
            problems: VecDeque::new(),
            decisions: VecDeque::new(),
        }
    }

    /// The tasks of a job that is over.
    fn last_counts(&self) -> [Counts; 2] {
        let all = [self.plan.splits.len() as u32, self.plan.reduces];
        Kind::BOTH.map(|kind| {
            let all = all[kind.ix()];
            let succeeded = self.closed == Some(Outcome::Succeeded);
            let done = if succeeded { all } else { self.finished[kind.ix()].min(all) };
            Counts { all, done, ..Counts::default() }
        })
    }

    fn decided(&mut self, now: Time, what: String) {
        if self.decisions.len() == KEPT {
            self.decisions.pop_front();
        }
        self.decisions.push_back((now, what));
    }
}

impl Books {
    /// A note was written, now or in an earlier life.
    pub(crate) fn noted(&mut self, note: &Note) {
        match note {
            Note::Begun { next_job } => self.next_job = *next_job,
            Note::Planned(plan) => {
                self.next_job = self.next_job.max(plan.job.0 + 1);
                self.jobs.insert(plan.job, JobBook::new((**plan).clone()));
            }
            Note::Counted { attempt, counters } => {
                if let Some(book) = self.jobs.get_mut(&attempt.task.job)
                    && book.counted.insert(*attempt)
                {
                    for (name, by) in counters {
                        *book.counters.entry(name.clone()).or_default() += by;
                    }
                }
            }
            Note::Problem { job, text } => {
                if let Some(book) = self.jobs.get_mut(job) {
                    if book.problems.len() == KEPT {
                        book.problems.pop_front();
                    }
                    book.problems.push_back(text.clone());
                }
            }
            Note::Ended { job, outcome, next } => {
                if let Some(book) = self.jobs.get_mut(job) {
                    (book.settled, book.closed, book.next) = (true, Some(*outcome), *next);
                    self.ended.push_back(*job);
                }
                while self.ended.len() > ENDED_KEPT {
                    let oldest = self.ended.pop_front().expect("just counted");
                    self.jobs.remove(&oldest);
                }
            }
        }
    }

    /// The core was told something and answered.
    pub(crate) fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
        let refused = actions.iter().any(|action| matches!(action, Action::Refuse { .. }));
        if !refused {
            self.saw_event(now, event);
        }
        actions.iter().for_each(|action| self.saw_action(now, action));
    }

    fn saw_event(&mut self, now: Time, event: &Event) {
        match event {
            Event::JobSubmitted(spec) => {
                if let Some(book) = self.jobs.get_mut(&spec.id) {
                    book.submitted = Some(now);
                }
            }
            Event::NodeJoined { node, spec } => {
                self.names.insert(spec.name.clone(), *node);
            }
            Event::NodeLost { node } => self.at_work.retain(|_, at_work| at_work.node != *node),
            Event::AttemptFinished { attempt, .. } => {
                self.piece_done(*attempt);
                self.of(*attempt, |book| book.finished[attempt.task.kind.ix()] += 1);
            }
            Event::AttemptFailed { attempt } | Event::AttemptKilled { attempt } => {
                self.at_work.remove(attempt);
            }
            Event::AttemptPaused { attempt, .. } => {
                self.at_work.remove(attempt);
                if let Some(book) = self.jobs.get_mut(&attempt.task.job) {
                    book.pauses += 1;
                }
            }
            Event::AttemptEndedEarly { attempt, done_bytes, .. } => {
                if *done_bytes > 0 {
                    self.piece_done(*attempt);
                } else {
                    self.at_work.remove(attempt);
                }
                if let Some(book) = self.jobs.get_mut(&attempt.task.job) {
                    book.early_ends += 1;
                }
            }
            Event::TimerFired { timer } => self.timers.clear(*timer),
            Event::JobKilled { .. }
            | Event::SlotsOffered { .. }
            | Event::ProgressReported { .. }
            | Event::MapOutputLost { .. }
            | Event::YieldRequested { .. } => {}
            // News of a body that gives slots itself; never told here.
            Event::JobOpened(_)
            | Event::SlotsRequested { .. }
            | Event::SlotGranted { .. }
            | Event::JobEnded { .. }
            | Event::Resynced => {}
        }
    }

    /// An attempt left something. Of maps without reduces it is noted which attempt counts for which piece.
    fn piece_done(&mut self, attempt: AttemptId) {
        if let Some(AtWork { work: Work::Map { split, start_bytes, .. }, .. }) = self.at_work.remove(&attempt)
            && let Some(book) = self.jobs.get_mut(&attempt.task.job)
            && book.plan.reduces == 0
        {
            book.pieces.insert((split, start_bytes), attempt);
        }
    }

    fn saw_action(&mut self, now: Time, action: &Action) {
        match *action {
            Action::Launch { attempt, node, work, reason } => {
                self.at_work.insert(attempt, AtWork { node, work, asked: None });
                self.of(attempt, |book| {
                    book.began.get_or_insert(now);
                    book.recovered += u32::from(matches!(reason, Reason::Recovery { .. }));
                    book.decided(now, format!("{} on {node}: {reason}", what(attempt)));
                });
            }
            Action::Pause { attempt, node, reason } => {
                self.asked(attempt, Asked::GiveWay);
                self.of(attempt, |book| {
                    book.decided(now, format!("{} on {node} is to pause: {reason}", what(attempt)))
                });
            }
            Action::EndEarly { attempt, node, reason } => {
                self.asked(attempt, Asked::GiveWay);
                self.of(attempt, |book| {
                    book.decided(now, format!("{} on {node} is to end early: {reason}", what(attempt)));
                });
            }
            Action::Kill { attempt, node, reason } => {
                self.asked(attempt, Asked::Kill);
                self.of(attempt, |book| {
                    book.kills += u32::from(!matches!(reason, Reason::JobEnded | Reason::OtherAttemptFinished));
                    book.decided(now, format!("{} on {node} is killed: {reason}", what(attempt)));
                });
            }
            Action::CloseJob { job, outcome } => {
                if let Some(book) = self.jobs.get_mut(&job) {
                    book.ended = Some(now);
                    // What was written down at its end says more: it may have failed only when it was published.
                    if !book.settled {
                        book.closed = Some(outcome);
                    }
                }
            }
            Action::SetTimer { timer, at } => self.timers.set(timer, at),
            Action::PlaceReplicas { .. } | Action::Refuse { .. } => {}
        }
    }

    fn asked(&mut self, attempt: AttemptId, asked: Asked) {
        if let Some(at_work) = self.at_work.get_mut(&attempt) {
            at_work.asked = Some(asked);
        }
    }

    fn of(&mut self, attempt: AttemptId, change: impl FnOnce(&mut JobBook)) {
        if let Some(book) = self.jobs.get_mut(&attempt.task.job) {
            change(book);
        }
    }

    /// How a job is.
    pub(crate) fn status(&self, job: JobId, core: &Scheduler) -> Option<JobStatus> {
        let book = self.jobs.get(&job)?;
        let [maps, reduces] = counts(job, core).unwrap_or_else(|| book.last_counts());
        Some(JobStatus {
            job,
            name: book.plan.request.name.clone(),
            app: book.plan.request.app.clone(),
            user: book.plan.request.user.clone(),
            outcome: book.closed.filter(|_| book.settled),
            next: book.next,
            maps,
            reduces,
            submitted_us: book.submitted.map_or(0, |at| at.0),
            began_us: book.began.map(|at| at.0),
            ended_us: book.ended.map(|at| at.0),
            pauses: book.pauses,
            early_ends: book.early_ends,
            kills: book.kills,
            recovered: book.recovered,
            counters: book.counters.clone(),
            problems: book.problems.iter().cloned().collect(),
        })
    }
}

/// The tasks of a live job.
pub(crate) fn counts(job: JobId, core: &Scheduler) -> Option<[Counts; 2]> {
    let state = core.state();
    let job = state.job(state.find(job)?);
    Some(Kind::BOTH.map(|kind| {
        let facts = job.facts(kind);
        Counts { all: job.total(kind), done: facts.done, running: facts.live.len() as u32, paused: facts.paused }
    }))
}

/// Where the outputs of a job's finished maps are.
pub(crate) fn outputs(job: JobId, core: &Scheduler) -> Vec<MapOutputLocation> {
    let state = core.state();
    let Some(job) = state.find(job).map(|jx| state.job(jx)) else { return Vec::new() };
    let there = |&map: &u32| !job.gone.iter().any(|&(gone, _)| gone == map);
    (0..job.total(Kind::Map)).filter(there).filter_map(|map| output_of(job, map)).collect()
}

/// The output of one finished map.
pub(crate) fn output(map: AttemptId, core: &Scheduler) -> Option<MapOutputLocation> {
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

/// True if the event told the core nothing it could use.
pub(crate) fn refusal(actions: &[Action]) -> Option<Refusal> {
    actions.iter().find_map(|action| match action {
        Action::Refuse { refusal } => Some(*refusal),
        _ => None,
    })
}

fn what(attempt: AttemptId) -> String {
    format!("{} {}.{}", attempt.task.kind, attempt.task.index, attempt.number)
}
