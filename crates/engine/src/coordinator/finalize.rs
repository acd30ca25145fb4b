//! The end of a job: its output is published or removed, or its next round is submitted.
//!
//! An output that cannot be published now (no free file descriptor, a full disk) is tried again until it can be, or until the job is killed: its
//! tasks have succeeded, and their results are not thrown away.

use super::journal::Metadata;
use super::output_folder::{self, Disk};
use super::planning::SubmitError;
use super::run::Coordinator;
use crate::apps::round_output;
use crate::job::Plan;
use crate::record::AppError;
use giveway_core::{AttemptId, JobId, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Delay before finalizing is tried again. Doubled after each failure.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(200);

const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// A job whose finalization is tried again.
#[derive(Debug)]
pub(super) struct FinalizeRetry {
    job: JobId,
    outcome: Outcome,
    at: Instant,
    delay: Duration,
}

/// Why a job failed after all its tasks had succeeded.
#[derive(Debug, Error)]
enum FinalizeError {
    #[error("cannot publish the output {}: {error}; trying again: check the disk, the folder's permissions and the limit of open files", path.display())]
    Publish { path: PathBuf, error: io::Error },
    #[error("the output {} was removed while the job ran", path.display())]
    OutputGone { path: PathBuf },
    /// The application cannot derive its next round from the output.
    #[error(transparent)]
    App(#[from] AppError),
    #[error("cannot submit the next round: {0}")]
    NextRound(#[from] SubmitError),
}

impl FinalizeError {
    /// True if a later try may succeed.
    fn is_transient(&self) -> bool {
        match self {
            FinalizeError::Publish { .. } | FinalizeError::NextRound(SubmitError::CreateOutput { .. }) => true,
            FinalizeError::OutputGone { .. } | FinalizeError::App(_) | FinalizeError::NextRound(_) => false,
        }
    }
}

impl Coordinator {
    /// Finalizes an ended job: publishes its output, submits its next round, or removes its output.
    pub(super) fn finalize_job(&mut self, job: JobId, outcome: Outcome) {
        self.try_finalize(job, outcome, RETRY_DELAY_MIN);
    }

    /// Tries to finalize the jobs whose delay is over.
    pub(super) fn retry_finalize(&mut self, now: Instant) {
        let (due, later) = std::mem::take(&mut self.finalize_retries).into_iter().partition(|retry| retry.at <= now);
        self.finalize_retries = later;
        for FinalizeRetry { job, outcome, delay, .. } in due {
            self.try_finalize(job, outcome, delay);
        }
    }

    fn try_finalize(&mut self, job: JobId, outcome: Outcome, delay: Duration) {
        let Some(record) = self.table.jobs.get(&job) else { return };
        if record.finalized {
            return;
        }
        let plan = record.plan.clone();
        let outcome = if record.kill_requested { Outcome::Killed } else { outcome };
        let (mut outcome, mut next_round) = (outcome, None);
        if outcome == Outcome::Succeeded {
            let map_pieces = record.map_pieces.clone();
            match self.publish_or_continue(&plan, &map_pieces) {
                Ok(next) => next_round = next,
                Err(error) if error.is_transient() => {
                    // Reported once: the delay is the minimum only at the first try.
                    if delay == RETRY_DELAY_MIN {
                        tracing::warn!("{job}: {error}");
                        self.record_failure(job, error.to_string());
                    }
                    let (at, delay) = (Instant::now() + delay, (delay * 2).min(RETRY_DELAY_MAX));
                    self.finalize_retries.push(FinalizeRetry { job, outcome, at, delay });
                    return;
                }
                Err(error) => {
                    outcome = Outcome::Failed;
                    self.record_failure(job, error.to_string());
                }
            }
        }
        if outcome != Outcome::Succeeded {
            remove_output(&plan.output, plan.nonce);
        }
        if next_round.is_none() {
            (0..plan.round).for_each(|round| remove_output(&round_output(&plan, round), plan.nonce));
        }
        if let Some(record) = self.table.jobs.get_mut(&job) {
            record.map_pieces = BTreeMap::new();
        }
        self.append_metadata(Metadata::JobFinalized { job, outcome, next_round });
        self.finish_followers(job);
    }

    /// Publishes the output of a succeeded job; if it is not the last round, submits the next one and returns its id.
    fn publish_or_continue(
        &mut self,
        plan: &Plan,
        map_pieces: &BTreeMap<(u32, u64), AttemptId>,
    ) -> Result<Option<JobId>, FinalizeError> {
        let unpublished = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => FinalizeError::OutputGone { path: plan.output.clone() },
            _ => FinalizeError::Publish { path: plan.output.clone(), error },
        };
        output_folder::publish_map_pieces(plan, map_pieces).map_err(unpublished)?;
        match self.options.apps.find(&plan.request.app)?.next_round(plan)? {
            None => output_folder::publish(plan, &Disk).map(|()| None).map_err(unpublished),
            Some(next) => Ok(Some(self.accept(next)?)),
        }
    }

    /// After a restart, completes what was interrupted: submissions and finalizations.
    pub(super) fn complete_interrupted_jobs(&mut self) {
        let jobs: Vec<JobId> = self.table.jobs.keys().copied().collect();
        let next_rounds: BTreeSet<JobId> = self.table.jobs.values().filter_map(|job| job.next_round).collect();
        for job in jobs {
            // Finalizing a job may evict another one from the table.
            let Some(record) = self.table.jobs.get(&job) else { continue };
            match (record.submitted, record.outcome) {
                // A next round: the end of the round before it is in the journal, its own submission is not.
                (None, None) if next_rounds.contains(&job) => self.resubmit(job),
                // Planned, but not submitted: the client has not received an id.
                (None, _) if !record.finalized => self.discard_unsubmitted(job),
                (Some(_), Some(outcome)) if !record.finalized => self.finalize_job(job, outcome),
                _ => {}
            }
        }
    }
}

/// Creates the output folder of a job or round.
pub(super) fn create_output(plan: &Plan) -> Result<(), SubmitError> {
    output_folder::create(plan).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => SubmitError::OutputExists(plan.request.output.clone()),
        _ => SubmitError::CreateOutput { path: plan.output.clone(), error },
    })
}

/// Removes an output folder if it carries the nonce. What cannot be removed is left to the user.
pub(super) fn remove_output(folder: &std::path::Path, nonce: u64) {
    if let Err(error) = output_folder::remove(folder, nonce) {
        tracing::warn!("cannot remove the output folder {}: {error}; remove it by hand", folder.display());
    }
}
