//! Output folders: created when a job is accepted, published or removed when it has ended.
//!
//! Every operation here is idempotent: a coordinator that is killed during one repeats it after its restart.

use super::journal::Metadata;
use super::planning::SubmitError;
use super::run::Coordinator;
use crate::apps::round_output;
use crate::job::Plan;
use crate::record::Failure;
use crate::task::{TEMPORARY, publish_map};
use giveway_core::{AttemptId, JobId, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a job failed after all its tasks had succeeded.
#[derive(Debug, Error)]
enum FinalizeError {
    #[error("cannot publish the output {}: {error}; check the disk and the folder's permissions, then submit again", path.display())]
    Publish { path: PathBuf, error: io::Error },
    /// The application cannot derive its next round from the output.
    #[error(transparent)]
    App(#[from] Failure),
    #[error("cannot submit the next round: {0}")]
    NextRound(#[from] SubmitError),
}

impl Coordinator {
    /// Finalizes an ended job: publishes its output, submits its next round, or removes its output. If publishing or the next round fails, so
    /// does the job.
    pub(super) fn finalize_job(&mut self, job: JobId, outcome: Outcome) {
        let Some(record) = self.table.jobs.get_mut(&job) else { return };
        if record.finalized {
            return;
        }
        let plan = record.plan.clone();
        let map_pieces = std::mem::take(&mut record.map_pieces);
        let outcome = if record.kill_requested { Outcome::Killed } else { outcome };
        let (mut outcome, mut next_round) = (outcome, None);
        if outcome == Outcome::Succeeded {
            match self.publish_or_continue(&plan, &map_pieces) {
                Ok(next) => next_round = next,
                Err(error) => {
                    outcome = Outcome::Failed;
                    self.record_failure(job, error.to_string());
                }
            }
        }
        if outcome != Outcome::Succeeded {
            remove_folder(&plan.output);
        }
        if next_round.is_none() {
            (0..plan.round).for_each(|round| remove_folder(&round_output(&plan, round)));
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
        let unpublished = |error| FinalizeError::Publish { path: plan.output.clone(), error };
        publish_map_pieces(plan, map_pieces).map_err(unpublished)?;
        match self.options.apps.find(&plan.request.app)?.next_round(plan)? {
            None => publish(plan).map(|()| None).map_err(unpublished),
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

/// Creates the output folder of a job or round, with a folder for temporary files in it.
pub(super) fn create_output_folder(plan: &Plan) -> Result<(), SubmitError> {
    let failed = |error: io::Error| SubmitError::CreateOutput { path: plan.output.clone(), error };
    if let Some(parent) = plan.output.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    if plan.output != plan.request.output {
        // The intermediate folder of a round before the last has a name of our own. An interrupted coordinator may have left one.
        remove_folder(&plan.output);
    }
    match fs::create_dir(&plan.output) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(SubmitError::OutputExists(plan.request.output.clone()));
        }
        Err(error) => return Err(failed(error)),
    }
    fs::create_dir(plan.output.join(TEMPORARY)).map_err(failed)
}

/// Renames the outputs of a map-only job to their final names. Only those of the attempts that count are renamed.
fn publish_map_pieces(plan: &Plan, pieces: &BTreeMap<(u32, u64), AttemptId>) -> io::Result<()> {
    pieces.iter().try_for_each(|(&(split, start_bytes), &map)| publish_map(plan, map, split, start_bytes))
}

/// Marks an output as complete: removes the temporary files and creates `_SUCCESS`.
fn publish(plan: &Plan) -> io::Result<()> {
    match fs::remove_dir_all(plan.output.join(TEMPORARY)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(plan.output.join("_SUCCESS"), b"")
}

/// Removes an output folder, if it exists. It is renamed first: an attempt that is still running cannot write into it any more.
pub(super) fn remove_folder(folder: &Path) {
    let Some(name) = folder.file_name() else { return };
    let mut renamed = std::ffi::OsString::from(".");
    renamed.push(name);
    renamed.push(".removed");
    let renamed = folder.with_file_name(renamed);
    let moved = fs::rename(folder, &renamed);
    if moved.is_ok() || renamed.exists() {
        let _ = fs::remove_dir_all(&renamed);
    }
}
