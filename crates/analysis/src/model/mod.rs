//! What happened in a cluster, as tables: a fold over the records of its event log.
//!
//! Rows are never removed and their numbers never change, so that a browser can be sent what is new since its last update ([`Cursor`]). Attempts and
//! decisions are stored in columns (`columns.rs`), because there may be hundreds of thousands.

mod columns;
mod rows;
mod wire;

pub use columns::{AttemptRow, Attempts, Began, Ended, Mark, MarkKind, NONE, Subject, codes_script};
pub use rows::{Exclusion, JobRow, JobState, NodeRow};
pub use wire::{Cursor, View};

use crate::calibration::Calibration;
use crate::forecast::Forecasts;
use giveway_core::event_log::Record;
use giveway_core::{
    Action, AttemptId, Change, End, Event, JobId, Kind, Lifecycle, NodeId, Outcome, PreemptAction, Progress, Reason,
    RunningAttempt, Scheduler, Setup, SetupError, Span, Start, Time, Work,
};
use giveway_engine::coordinator::Clock;
use rustc_hash::FxHashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The tables, and a replica of the scheduler that wrote the log.
#[derive(Debug)]
pub struct Model {
    /// Identifies the log: a cursor of another log is not valid here.
    pub epoch: u64,
    /// Jobs in the order of submission.
    pub jobs: Vec<JobRow>,
    pub nodes: Vec<NodeRow>,
    /// Attempts in the order of launch.
    pub attempts: Attempts,
    /// Decisions and incidents in the order of time.
    pub marks: Vec<Mark>,
    /// Time of the last record.
    pub now: Time,
    pub records: u64,
    /// The wall clock; empty if it is not known.
    pub clock: Clock,
    replica: Scheduler,
    /// The number of each record in which the replica decided otherwise than the log; the first only.
    mismatch: Option<u64>,
    running: Lifecycle<u32>,
    /// Of running maps of jobs none of whose maps has finished: their progress, and when it was reported.
    early_progress: FxHashMap<AttemptId, (u32, Time)>,
    by_id: FxHashMap<JobId, u32>,
    /// Rows of ended attempts in the order of their end.
    ended: Vec<u32>,
    /// Number of nodes that are excluded.
    excluded: u32,
    /// Incremented with each change of a job or node.
    version: u64,
    actions: Vec<Action>,
    calibration: Calibration,
}

impl Model {
    /// Empty tables for a log with this setup.
    pub fn new(setup: Setup, epoch: u64) -> Result<Model, SetupError> {
        Ok(Model {
            epoch,
            jobs: Vec::new(),
            nodes: Vec::new(),
            attempts: Attempts::default(),
            marks: Vec::new(),
            now: Time::ZERO,
            records: 0,
            clock: Clock::default(),
            replica: Scheduler::new(setup)?,
            mismatch: None,
            running: Lifecycle::default(),
            early_progress: FxHashMap::default(),
            by_id: FxHashMap::default(),
            ended: Vec::new(),
            excluded: 0,
            version: 0,
            actions: Vec::new(),
            calibration: Calibration::default(),
        })
    }

    /// The wall clock at a time of the log, milliseconds of the Unix epoch, if known.
    pub fn unix_ms(&self, time: Time) -> Option<f64> {
        self.clock.unix_us(time).map(|us| us as f64 / 1e3)
    }

    /// Time between two times of the log by the wall clock, which goes on while no coordinator runs; by the log's own time if that is more, because the clock was
    /// set back, or if the wall clock is not known.
    pub fn elapsed(&self, from: Time, to: Time) -> Span {
        let wall = self.clock.unix_us(from).zip(self.clock.unix_us(to)).map(|(from, to)| Span(to.saturating_sub(from)));
        to.since(from).max(wall.unwrap_or(Span::ZERO))
    }

    /// The present in the log's time. A cluster in which nothing happens writes no records, so it is later than the last one. Only for a cluster that runs.
    pub fn present(&self) -> Time {
        let last_us = self.clock.unix_us(self.now);
        let unix_us =
            SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| u64::try_from(now.as_micros()).ok());
        let idle_us = unix_us.zip(last_us).map_or(0, |(unix_us, last_us)| unix_us.saturating_sub(last_us));
        self.now + Span(idle_us)
    }

    /// Milliseconds of the Unix epoch at the log's time zero, as it follows from the present: for times from now on.
    pub fn wall_ms(&self) -> Option<f64> {
        self.unix_ms(self.now).map(|ms| ms - self.now.as_secs_f64() * 1e3)
    }

    /// The replica of the scheduler, in the state after the last record.
    pub fn scheduler(&self) -> &Scheduler {
        &self.replica
    }

    /// The first record whose actions this release's scheduler would not have taken; then [`Model::scheduler`] may be wrong.
    pub fn mismatch(&self) -> Option<u64> {
        self.mismatch
    }

    /// Remembers forecasts that were made, to compare them with what will come true.
    pub fn remember(&mut self, forecasts: &Forecasts) {
        let mut calibration = std::mem::take(&mut self.calibration);
        calibration.remember(forecasts, |job| self.job(job).is_some_and(JobRow::is_half_done));
        self.calibration = calibration;
    }

    /// How forecasts that were remembered have come true.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The row of the last job with this id.
    pub fn job_row(&self, job: JobId) -> Option<u32> {
        self.by_id.get(&job).copied()
    }

    /// The last job with this id.
    pub fn job(&self, job: JobId) -> Option<&JobRow> {
        self.jobs.get(self.job_row(job)? as usize)
    }

    /// The attempts that hold a slot, with their rows.
    pub fn running(&self) -> impl Iterator<Item = &RunningAttempt<u32>> {
        self.running.iter()
    }

    /// Follows one record.
    pub fn apply(&mut self, record: &Record) {
        self.now = self.now.max(record.now);
        self.records += 1;
        let mut actions = std::mem::take(&mut self.actions);
        actions.clear();
        self.replica.handle(record.now, &record.event, &mut actions);
        if actions != record.actions {
            self.mismatch.get_or_insert(self.records);
        }
        self.actions = actions;
        let is_request = matches!(record.event, Event::NodeDrained { .. } | Event::NodeIncluded { .. });
        self.follow_exclusions(record.now, is_request);
        match &record.event {
            Event::AttemptPaused { attempt, progress_ppm } => {
                // The end of the attempt below records the pause; the progress is what is kept.
                if let Some(row) = self.running.get(*attempt).map(|running| running.data) {
                    self.attempts.progress_ppm.insert(row, *progress_ppm);
                }
            }
            Event::SlotsOffered { progress, .. } | Event::ProgressReported { progress } => {
                self.follow_progress(record.now, progress);
            }
            Event::Restored(_) => self.follow_restored(record.now),
            _ => {}
        }
        let mut running = std::mem::take(&mut self.running);
        running.observe(&record.event, &record.actions, record.now, &mut |change| self.on_change(record.now, change));
        self.running = running;
        self.follow_paused(&record.event);
    }

    /// Paused reduces are lost with their node, and those of open jobs may end while they are paused: how many are left is known to the replica only.
    fn follow_paused(&mut self, event: &Event) {
        let state = self.replica.state();
        let jobs: Vec<giveway_core::state::JobKey> = match event {
            Event::NodeLost { .. } | Event::Resynced => state.jobs().iter().map(|(key, _)| key).collect(),
            Event::AttemptFinished { attempt, .. } | Event::AttemptKilled { attempt } => {
                state.find(attempt.task.job).into_iter().collect()
            }
            _ => return,
        };
        for job in jobs.into_iter().map(|key| state.job(key)).filter(|job| !job.is_closed()) {
            let row = self.by_id.get(&job.id()).and_then(|&row| self.jobs.get_mut(row as usize));
            let paused = job.paused().len() as u32;
            if let Some(row) = row.filter(|row| row.paused != paused) {
                (row.paused, row.version) = (paused, self.version);
            }
        }
    }

    fn follow_progress(&mut self, now: Time, progress: &[Progress]) {
        for &Progress { attempt, progress_ppm } in progress.iter().filter(|of| of.attempt.task.kind == Kind::Map) {
            let is_early = self.job(attempt.task.job).is_some_and(|job| job.done[Kind::Map.index()] == 0);
            if is_early && self.running.get(attempt).is_some() {
                self.early_progress.insert(attempt, (progress_ppm, now));
            }
        }
    }

    /// The progress of a running map of a job none of whose maps has finished, and when it was reported.
    pub(crate) fn early_progress(&self, attempt: AttemptId) -> Option<(u32, Time)> {
        self.early_progress.get(&attempt).copied()
    }

    /// A journal that replaced another begins with what its jobs had done before.
    fn follow_restored(&mut self, now: Time) {
        self.version += 1;
        let version = self.version;
        for (_, job) in self.replica.state().jobs().iter() {
            let Some(row) = self.by_id.get(&job.id()).and_then(|&row| self.jobs.get_mut(row as usize)) else {
                continue;
            };
            row.go_on_from(job, now, version);
        }
    }

    fn on_change(&mut self, now: Time, change: Change<'_, u32>) {
        self.version += 1;
        match change {
            Change::JobSubmitted(spec) => {
                let row = self.jobs.len() as u32;
                self.by_id.insert(spec.id, row);
                self.jobs.push(JobRow::new(spec, now, self.version));
                self.mark(now, MarkKind::JobSubmitted, Subject::Job(row));
            }
            Change::JobClosed { job, outcome } => {
                let Some(row) = self.job_row(job) else { return };
                if let Some(job) = self.changed_job(row) {
                    (job.ended, job.outcome, job.paused) = (Some(now), Some(outcome), 0);
                }
                self.calibration.ended(job, now, outcome == Outcome::Succeeded);
                self.mark(now, MarkKind::JobEnded, Subject::Job(row));
            }
            Change::NodeJoined { node, spec } => {
                let at = node.0 as usize;
                // Nodes are numbered without gaps; the scheduler refuses others.
                if let Some(known) = self.nodes.get_mut(at) {
                    known.rejoin(spec, now, self.version);
                } else if at == self.nodes.len() {
                    self.nodes.push(NodeRow::new(spec, now, self.version));
                }
                self.mark(now, MarkKind::NodeJoined, Subject::Node(node));
            }
            Change::SlotsSet { node, slots } => {
                if let Some(changed) = self.nodes.get_mut(node.0 as usize) {
                    (changed.slots, changed.version) = ([slots[Kind::Map], slots[Kind::Reduce]], self.version);
                }
            }
            Change::NodeLost { node } => {
                if let Some(lost) = self.nodes.get_mut(node.0 as usize) {
                    lost.lose(now, self.version);
                }
                self.mark(now, MarkKind::NodeLost, Subject::Node(node));
            }
            Change::Launched { attempt, reason } => self.on_launch(now, attempt, reason),
            Change::StopRequested { attempt, request, reason } => {
                let other = reason.beneficiary().and_then(|job| self.job_row(job));
                self.attempts.stops.insert(attempt.data, (request.action, reason.clone(), other));
            }
            Change::Ended { attempt, end } => self.on_end(now, &attempt, end),
        }
    }

    /// Which nodes are excluded is known to the replica only.
    fn follow_exclusions(&mut self, now: Time, is_request: bool) {
        // Nodes that are down are not counted, and may be drained.
        let excluded = self.replica.state().nodes().excluded_count();
        if excluded == 0 && std::mem::replace(&mut self.excluded, excluded) == 0 && !is_request {
            return;
        }
        self.excluded = excluded;
        self.version += 1;
        let exclusions = self.replica.nodes().map(|node| node.excluded.map(|of| (of.failures, of.jobs)));
        for ((number, node), excluded) in (0..).map(NodeId).zip(&mut self.nodes).zip(exclusions) {
            if node.set_excluded(now, excluded, self.version) {
                let kind = match excluded {
                    Some((0, _)) => MarkKind::NodeDrained,
                    Some(_) => MarkKind::NodeExcluded,
                    None => MarkKind::NodeIncluded,
                };
                self.marks.push(Mark { at: now, kind, subject: Subject::Node(number) });
            }
        }
    }

    fn on_launch(&mut self, now: Time, attempt: &mut RunningAttempt<u32>, reason: &Reason) {
        let task = attempt.id.task;
        let job = self.job_row(task.job).unwrap_or(NONE);
        let began = Began::of(attempt.work, reason);
        let lane = self.nodes.get_mut(attempt.node.0 as usize).map_or(0, |node| node.take_lane(task.kind));
        attempt.data = self.attempts.launch(now, attempt.id, attempt.node, job, lane, began, reason.clone());
        if let Some(job) = self.changed_job(job) {
            job.started.get_or_insert(now);
            job.running[task.kind.index()] += 1;
            if let Work::Reduce { start: Start::Resumed { .. } | Start::Migrated { .. } } = attempt.work {
                job.paused = job.paused.saturating_sub(1);
                job.resumes += 1;
            }
            job.recovered += u32::from(began == Began::Recovery);
        }
        let kind = match began {
            Began::Resumed => MarkKind::Resumed,
            Began::Migrated => MarkKind::Migrated,
            _ => return,
        };
        self.mark(now, kind, Subject::Attempt { job, row: attempt.data, beneficiary: None });
    }

    fn on_end(&mut self, now: Time, attempt: &RunningAttempt<u32>, end: End) {
        let (row, kind) = (attempt.data, attempt.id.task.kind);
        self.early_progress.remove(&attempt.id);
        let job_row = self.job_row(attempt.id.task.job).unwrap_or(NONE);
        let ended = Ended::of(end);
        // An attempt that was launched before the journal was replaced has no row.
        if self.attempts.is_at(row, job_row, attempt.id) {
            self.attempts.end(row, now, ended);
            self.ended.push(row);
            if let Some(node) = self.nodes.get_mut(attempt.node.0 as usize) {
                node.free_lane(kind, self.attempts.lane(row));
            }
        }
        let beneficiary = self.attempts.stops.get(&row).and_then(|(_, _, other)| *other);
        let user_asked = matches!(self.attempts.stops.get(&row), Some((PreemptAction::Kill, Reason::JobEnded, _)));
        if let Some(job) = self.changed_job(job_row) {
            let at = kind.index();
            job.running[at] = job.running[at].saturating_sub(1);
            job.on_end(kind, ended, attempt.launched, now);
            if let (Kind::Map, End::Finished { output_bytes } | End::EndedEarly { output_bytes, .. }) = (kind, end) {
                job.map_output_bytes = job.map_output_bytes.saturating_add(output_bytes);
            }
        }
        let mark = match ended {
            Ended::Paused => MarkKind::Paused,
            Ended::EndedEarly => MarkKind::EndedEarly,
            Ended::KilledForOther => MarkKind::Killed,
            Ended::Failed if !user_asked => MarkKind::Failed,
            _ => return,
        };
        self.mark(now, mark, Subject::Attempt { job: job_row, row, beneficiary });
    }

    fn changed_job(&mut self, row: u32) -> Option<&mut JobRow> {
        let job = self.jobs.get_mut(row as usize)?;
        job.version = self.version;
        Some(job)
    }

    fn mark(&mut self, at: Time, kind: MarkKind, subject: Subject) {
        self.marks.push(Mark { at, kind, subject });
    }

    /// Slots held by each job now, by kind: row of the job and slots, most first.
    pub fn holders(&self, kind: Kind) -> Vec<(u32, u32)> {
        let mut held: Vec<(u32, u32)> =
            (0..).zip(&self.jobs).map(|(row, job)| (row, job.running[kind.index()])).collect();
        held.retain(|&(_, slots)| slots > 0);
        held.sort_by_key(|&(row, slots)| (std::cmp::Reverse(slots), row));
        held
    }

    /// Map or reduce slots of the nodes that are up and neither excluded nor drained.
    pub fn slots(&self, kind: Kind) -> u32 {
        let up = self.nodes.iter().filter(|node| node.is_up() && !node.is_excluded());
        up.map(|node| u32::from(node.slots[kind.index()])).sum()
    }

    /// A reason as text, with the names of nodes.
    pub fn reason_text(&self, reason: &Reason) -> String {
        reason.text(|node| self.node_name(node))
    }

    /// A node's name.
    pub fn node_name(&self, node: NodeId) -> String {
        self.nodes.get(node.0 as usize).map_or_else(|| node.to_string(), |node| node.name.clone())
    }
}

#[cfg(test)]
mod tests;
