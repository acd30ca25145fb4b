//! Output folders in the life of a job: created before it is submitted to the core, published or removed after it has ended.
//!
//! The work itself is an effect (`output_work.rs`), and its result an input. What is in the journal decides what has to be done: a planned job that is
//! not submitted needs its folder, or is discarded; one that has ended and is not finalized is published, continued or removed. So a restarted
//! coordinator starts the same work again.
//!
//! An output that cannot be published now (no free file descriptor, a full disk) is tried again until it can be, or until the job is killed: its
//! tasks have succeeded, and their results are not thrown away.

use super::inputs::{ClientLink, Effect};
use super::journal::Metadata;
use super::output_work::{Finished, OutputError, OutputResult, OutputWork};
use super::state_machine::{Coordinator, Deferred};
use crate::job::Plan;
use crate::planted::{Bug, planted};
use crate::program::ProgramId;
use crate::wire::{RejectionCode, ToClient};
use giveway_core::{Event, JobId, Outcome, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use tracing::info;

/// Delay before work is tried again. Doubled after each failure.
const RETRY_DELAY_MIN: Span = Span::from_millis(200);

const RETRY_DELAY_MAX: Span = Span::from_secs(30);

/// A folder that cannot be removed is left to the user when the delay has grown to this: the job ends, with the reason among its failures.
const REMOVE_DELAY_MAX: Span = Span::from_secs(5);

/// The work on a job's output that is in progress or waits to be tried again.
#[derive(Debug)]
pub(super) struct OutputState {
    goal: Goal,
    /// When it is tried again; `None` while it is in progress.
    retry_at: Option<Time>,
    /// The delay after the next failure.
    delay: Span,
}

/// What the work on a job's output is for.
#[derive(Debug)]
enum Goal {
    /// The job can be submitted. The client waits for the answer; without one it is a later round, whose creation is tried again.
    Submit(Option<ClientLink>),
    /// The output is published, or the next round submitted.
    Finish,
    /// The job ends with this outcome.
    End(Outcome),
    /// The job was never accepted, and is forgotten.
    Discard,
}

impl Coordinator {
    /// Creates the output folder of a planned job, and submits the job to the core after that. The answer goes to the client.
    pub(super) fn create_output(&mut self, job: JobId, client: Option<ClientLink>) {
        self.start_output(job, Goal::Submit(client));
    }

    /// Handles the end of a job: publishes its output, submits its next round, or removes its output.
    pub(super) fn end_output(&mut self, job: JobId, outcome: Outcome) {
        let Some(record) = self.table.jobs.get(&job) else { return };
        if record.finalized {
            return;
        }
        let goal = match outcome {
            Outcome::Succeeded if record.kill_requested => Goal::End(Outcome::Killed),
            Outcome::Succeeded => Goal::Finish,
            outcome => Goal::End(outcome),
        };
        self.start_output(job, goal);
    }

    /// Kills a job that has no tasks to kill. Work that is in progress is completed first.
    pub(super) fn kill_output(&mut self, job: JobId) {
        self.append_metadata(Metadata::KillRequested { job });
        let is_waiting =
            |state: &OutputState| state.retry_at.is_some() && matches!(state.goal, Goal::Submit(_) | Goal::Finish);
        if self.outputs.get(&job).is_none_or(is_waiting) {
            self.start_output(job, Goal::End(Outcome::Killed));
        }
    }

    /// Starts work for a goal. It replaces work that waits to be tried again.
    fn start_output(&mut self, job: JobId, goal: Goal) {
        self.outputs.insert(job, OutputState { goal, retry_at: None, delay: RETRY_DELAY_MIN });
        self.push_output_work(job);
    }

    fn push_output_work(&mut self, job: JobId) {
        let (Some(state), Some(record)) = (self.outputs.get_mut(&job), self.table.jobs.get(&job)) else { return };
        state.retry_at = None;
        let plan = Arc::clone(&record.plan);
        let work = match state.goal {
            Goal::Submit(_) => OutputWork::Create { plan },
            Goal::Finish => OutputWork::Finish { plan, program: record.program, map_pieces: record.map_pieces.clone() },
            Goal::End(_) | Goal::Discard => OutputWork::Remove { plan },
        };
        self.effects.push(Effect::Output(job, work));
    }

    /// Tries again what failed and whose delay is over.
    pub(super) fn retry_outputs(&mut self) {
        let is_due = |(_, state): &(&JobId, &OutputState)| {
            state.retry_at.is_some_and(|at| at <= self.now) && !planted(Bug::OutputRetryForgotten)
        };
        let due: Vec<JobId> = self.outputs.iter().filter(is_due).map(|(&job, _)| job).collect();
        due.into_iter().for_each(|job| self.push_output_work(job));
    }

    pub(super) fn on_output_done(&mut self, job: JobId, result: OutputResult) {
        let Some(state) = self.outputs.remove(&job) else { return };
        let kill_requested = self.table.jobs.get(&job).is_some_and(|record| record.kill_requested);
        match (state.goal, result) {
            (Goal::Submit(client), OutputResult::Created(Ok(()))) => self.submit(job, client, kill_requested),
            (Goal::Submit(Some(client)), OutputResult::Created(Err(error))) => {
                self.deferred.push(Deferred::Reply(client, error.rejection().into()));
                self.start_output(job, Goal::Discard);
            }
            (Goal::Finish, OutputResult::Finished(Ok(Finished::Published))) => {
                self.finalize(job, Outcome::Succeeded, None);
            }
            (Goal::Finish, OutputResult::Finished(Ok(Finished::NextRound(_)))) if kill_requested => {
                self.start_output(job, Goal::End(Outcome::Killed));
            }
            (Goal::Finish, OutputResult::Finished(Ok(Finished::NextRound(plan)))) => {
                let program = self.program_of(job);
                let next = self.add_planned(*plan, program);
                self.finalize(job, Outcome::Succeeded, Some(next));
                self.create_output(next, None);
            }
            (goal @ (Goal::End(_) | Goal::Discard), OutputResult::Removed(removed)) => match removed {
                Ok(published) => self.on_removed(job, &goal, published),
                Err(error) => {
                    self.report_failed_try(job, state.delay, &error);
                    // Nobody waits for a discarded job, and nobody could see that its folder is left.
                    match state.delay < REMOVE_DELAY_MAX || matches!(goal, Goal::Discard) {
                        true => self.retry_later(job, OutputState { goal, ..state }),
                        false => self.on_removed(job, &goal, false),
                    }
                }
            },
            // Published, but outputs of earlier rounds are left.
            (Goal::Finish, OutputResult::Finished(Err(error @ OutputError::Remove { .. }))) => {
                self.report_failed_try(job, state.delay, &error);
                match state.delay < REMOVE_DELAY_MAX {
                    true => self.retry_later(job, OutputState { goal: Goal::Finish, ..state }),
                    false => self.finalize(job, Outcome::Succeeded, None),
                }
            }
            (
                goal @ (Goal::Submit(_) | Goal::Finish),
                OutputResult::Created(Err(error)) | OutputResult::Finished(Err(error)),
            ) => {
                if kill_requested {
                    return self.start_output(job, Goal::End(Outcome::Killed));
                }
                self.report_failed_try(job, state.delay, &error);
                match error.is_transient() {
                    true => self.retry_later(job, OutputState { goal, ..state }),
                    false => self.start_output(job, Goal::End(Outcome::Failed)),
                }
            }
            // The driver answers work with its own kind of result.
            _ => {}
        }
    }

    fn on_removed(&mut self, job: JobId, goal: &Goal, published: bool) {
        match goal {
            // Killed while its output was being published, which was completed.
            Goal::End(Outcome::Killed) if published => self.finalize(job, Outcome::Succeeded, None),
            Goal::End(outcome) => self.finalize(job, *outcome, None),
            _ => {
                let program = self.program_of(job);
                self.append_metadata(Metadata::JobDiscarded { job });
                self.release_program(program);
            }
        }
    }

    /// Records why work failed, at its first try or if it is not tried again.
    fn report_failed_try(&mut self, job: JobId, delay: Span, error: &OutputError) {
        if delay == RETRY_DELAY_MIN || !error.is_transient() {
            tracing::warn!("{job}: {error}");
            self.record_failure(job, error.to_string());
        }
    }

    fn retry_later(&mut self, job: JobId, state: OutputState) {
        let retry_at = Some(self.now + state.delay);
        let delay = state.delay.times(2).min(RETRY_DELAY_MAX);
        self.outputs.insert(job, OutputState { goal: state.goal, retry_at, delay });
    }

    /// Submits a job to the core whose plan is in the journal and whose output folder exists.
    fn submit(&mut self, job: JobId, client: Option<ClientLink>, kill_requested: bool) {
        if kill_requested {
            return self.start_output(job, Goal::End(Outcome::Killed));
        }
        let Some(spec) = self.table.jobs.get(&job).map(|record| self.job_spec(&record.plan)) else { return };
        let refusal = self.submit_event(Event::JobSubmitted(Box::new(spec)));
        let answer = match refusal {
            None => ToClient::Submitted { job },
            Some(refusal) => {
                RejectionCode::Invalid.because(format!("the scheduler rejected the job: {refusal}")).into()
            }
        };
        match client {
            Some(client) => {
                self.deferred.push(Deferred::Reply(client, answer));
                if refusal.is_some() {
                    self.start_output(job, Goal::Discard);
                }
            }
            None => {
                if let Some(refusal) = refusal {
                    self.record_failure(job, format!("the scheduler refused the round: {refusal}"));
                    self.start_output(job, Goal::End(Outcome::Failed));
                }
            }
        }
    }

    fn finalize(&mut self, job: JobId, outcome: Outcome, next_round: Option<JobId>) {
        let program = self.program_of(job);
        self.append_metadata(Metadata::JobFinalized { job, outcome, next_round });
        self.release_program(program);
        self.answer_kill_requests(job, outcome);
        self.finish_followers(job);
        if next_round.is_none()
            && let Some(status) = self.table.status(job, &self.core)
        {
            if outcome == Outcome::Failed {
                let reason = status.failures.last().and_then(|failure| failure.lines().next());
                info!(
                    "{job} `{}` of {} failed: {}; `giveway job {}` has more",
                    status.name,
                    status.user,
                    reason.unwrap_or("no reason is known"),
                    job.0
                );
            }
            self.effects.push(Effect::JobEnded(Box::new(status)));
        }
    }

    fn program_of(&self, job: JobId) -> Option<ProgramId> {
        self.table.jobs.get(&job).and_then(|record| record.program)
    }

    /// Writes a plan to the journal under a new job id.
    pub(super) fn add_planned(&mut self, plan: Plan, program: Option<ProgramId>) -> JobId {
        let job = JobId(self.table.next_job);
        let program = program.filter(|_| !planted(Bug::ProgramForgotten));
        self.append_metadata(Metadata::JobPlanned { plan: Box::new(Plan { job, ..plan }), program });
        job
    }

    /// After a restart, completes what was interrupted: submissions and finalizations.
    pub(super) fn complete_interrupted_jobs(&mut self) {
        let next_rounds: BTreeSet<JobId> = self.table.jobs.values().filter_map(|job| job.next_round).collect();
        let interrupted = |(&job, record): (&JobId, &super::job_table::JobRecord)| {
            let goal = match (record.submitted, record.outcome) {
                _ if record.finalized => return None,
                (None, _) if record.kill_requested => Goal::End(Outcome::Killed),
                // A next round: the end of the round before it is in the journal, its own submission is not.
                (None, _) if next_rounds.contains(&job) && !planted(Bug::RoundForgotten) => Goal::Submit(None),
                // Planned, but not submitted: the client has not received an id.
                (None, _) => Goal::Discard,
                (Some(_), Some(Outcome::Succeeded)) if planted(Bug::PublicationForgotten) => return None,
                (Some(_), Some(Outcome::Succeeded)) if !record.kill_requested => Goal::Finish,
                (Some(_), Some(Outcome::Succeeded)) => Goal::End(Outcome::Killed),
                (Some(_), Some(outcome)) => Goal::End(outcome),
                (Some(_), None) => return None,
            };
            Some((job, goal))
        };
        let goals: Vec<(JobId, Goal)> = self.table.jobs.iter().filter_map(interrupted).collect();
        goals.into_iter().for_each(|(job, goal)| self.start_output(job, goal));
    }
}
