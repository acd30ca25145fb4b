//! Work on output folders: the only place where the coordinator touches files of users. A slow or hung file system delays the job it belongs to and
//! no other, because each piece of work runs on a thread of its own (`run.rs`) and its result comes back as an input.

use super::file_system::{FileSystem, is_absence};
use super::output_folder;
use crate::apps::{Apps, round_output};
use crate::input::InputError;
use crate::job::Plan;
use crate::program::{Planner, ProgramId};
use crate::record::AppError;
use crate::wire::{Rejection, RejectionCode};
use giveway_core::{AttemptId, JobId};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// A piece of work on a job's output. Each can be repeated after an interruption.
#[derive(Clone, Debug)]
pub(crate) enum OutputWork {
    /// Create the output folder.
    Create { plan: Arc<Plan> },
    /// All tasks have succeeded: derive the next round from the output, or publish it.
    Finish { plan: Arc<Plan>, program: Option<ProgramId>, map_pieces: BTreeMap<(u32, u64), AttemptId> },
    /// Remove the output, and those of earlier rounds.
    Remove { plan: Arc<Plan> },
}

/// The result of an [`OutputWork`].
#[derive(Debug)]
pub(crate) enum OutputResult {
    Created(Result<(), OutputError>),
    Finished(Result<Finished, OutputError>),
    /// True if there was nothing to remove because the output had been published before.
    Removed(Result<bool, OutputError>),
}

/// What became of the output of a round whose tasks have succeeded.
#[derive(Debug)]
pub(crate) enum Finished {
    Published,
    NextRound(Box<Plan>),
}

/// Why work on an output failed.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    #[error("the output {} exists already; remove it or choose another: results are never overwritten", .0.display())]
    Exists(PathBuf),
    #[error("{job} writes to the output {}; choose another, or wait until that job has ended", path.display())]
    InUse { path: PathBuf, job: JobId },
    #[error("cannot create the output directory {}: {error}", path.display())]
    Create { path: PathBuf, error: io::Error },
    #[error("cannot publish the output {}: {error}; trying again: check the disk, the directory's permissions and the limit of open files", path.display())]
    Publish { path: PathBuf, error: io::Error },
    #[error("the output {} was removed while the job ran: {error}", path.display())]
    Gone { path: PathBuf, error: io::Error },
    #[error("cannot read the output of round {round}: {error}; trying again")]
    ReadRound { round: u32, error: AppError },
    /// The application cannot derive its next round from the output.
    #[error(transparent)]
    App(AppError),
    #[error("cannot remove the output directory {}: {error}; remove it by hand", path.display())]
    Remove { path: PathBuf, error: io::Error },
    #[error("cannot start a thread: {0}; trying again: check the limit of processes")]
    Thread(io::Error),
}

impl OutputError {
    /// What a client that has submitted the job is told.
    pub(crate) fn rejection(&self) -> Rejection {
        let code = if self.is_transient() { RejectionCode::Unavailable } else { RejectionCode::Conflict };
        code.because(self.to_string())
    }

    /// True if a later try may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            OutputError::Create { .. }
            | OutputError::Publish { .. }
            | OutputError::ReadRound { .. }
            | OutputError::Remove { .. }
            | OutputError::Thread(_) => true,
            OutputError::Exists(_) | OutputError::InUse { .. } | OutputError::Gone { .. } | OutputError::App(_) => {
                false
            }
        }
    }
}

/// Derives the next round of an iterative job from the output of the last one.
pub(crate) trait Rounds: Send + Sync {
    /// The plan of the next round; `None` after the last round. The application is in a program if the job was shipped with one.
    fn next_round(&self, plan: &Plan, program: Option<ProgramId>) -> Result<Option<Plan>, AppError>;
}

/// The rounds of built-in applications and of those in programs.
#[derive(Debug)]
pub(crate) struct AppRounds {
    pub(crate) apps: Apps,
    pub(crate) planner: Planner,
}

impl Rounds for AppRounds {
    fn next_round(&self, plan: &Plan, program: Option<ProgramId>) -> Result<Option<Plan>, AppError> {
        match program {
            None => self.apps.find(&plan.request.app)?.next_round(plan),
            // Most applications have one round, whose output is the request's: no need to ask.
            Some(_) if plan.output == plan.request.output => Ok(None),
            Some(program) => self.planner.next_round(program, plan),
        }
    }
}

impl OutputWork {
    /// Does the work.
    pub(crate) fn run(&self, disk: &dyn FileSystem, rounds: &dyn Rounds) -> OutputResult {
        match self {
            OutputWork::Create { plan } => OutputResult::Created(create(plan, disk)),
            OutputWork::Finish { plan, program, map_pieces } => {
                OutputResult::Finished(finish(plan, *program, map_pieces, disk, rounds))
            }
            OutputWork::Remove { plan } => OutputResult::Removed(remove_unpublished(plan, disk)),
        }
    }

    /// The result if the work could not be started.
    pub(crate) fn not_started(&self, error: io::Error) -> OutputResult {
        let error = OutputError::Thread(error);
        match self {
            OutputWork::Create { .. } => OutputResult::Created(Err(error)),
            OutputWork::Finish { .. } => OutputResult::Finished(Err(error)),
            OutputWork::Remove { .. } => OutputResult::Removed(Err(error)),
        }
    }
}

fn create(plan: &Plan, disk: &dyn FileSystem) -> Result<(), OutputError> {
    output_folder::create(plan, disk).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => OutputError::Exists(plan.request.output.clone()),
        _ => OutputError::Create { path: plan.output.clone(), error },
    })
}

fn finish(
    plan: &Plan,
    program: Option<ProgramId>,
    map_pieces: &BTreeMap<(u32, u64), AttemptId>,
    disk: &dyn FileSystem,
    rounds: &dyn Rounds,
) -> Result<Finished, OutputError> {
    // Published before an interruption.
    let unpublished = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => OutputError::Gone { path: plan.output.clone(), error },
        _ => OutputError::Publish { path: plan.output.clone(), error },
    };
    if output_folder::is_published(plan, disk).map_err(unpublished)? {
        output_folder::remove_temporary(plan, disk).map_err(unpublished)?;
        return published(plan, disk);
    }
    output_folder::check_nonce(plan, disk).map_err(unpublished)?;
    output_folder::publish_map_pieces(plan, map_pieces, disk).map_err(unpublished)?;
    let next = rounds.next_round(plan, program).map_err(|error| match is_read_error(error.as_ref()) {
        true => OutputError::ReadRound { round: plan.round, error },
        false => OutputError::App(error),
    })?;
    if let Some(next) = next {
        return Ok(Finished::NextRound(Box::new(next)));
    }
    output_folder::publish(plan, disk).map_err(unpublished)?;
    published(plan, disk)
}

/// After the publication: the outputs of earlier rounds are not needed any more. The only error is [`OutputError::Remove`].
fn published(plan: &Plan, disk: &dyn FileSystem) -> Result<Finished, OutputError> {
    remove(plan, false, disk).map(|()| Finished::Published)
}

/// True if the output could not be read because of the disk, the permissions or the limit of open files, and not because of what is in it.
pub(crate) fn is_read_error(error: &(dyn Error + 'static)) -> bool {
    let is_io = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
    match error.downcast_ref::<InputError>() {
        Some(InputError::Unreadable { source, .. }) => is_io(source),
        Some(_) => false,
        None => error.downcast_ref::<io::Error>().is_some_and(is_io),
    }
}

/// Removes the outputs of all rounds, unless the job's was published.
fn remove_unpublished(plan: &Plan, disk: &dyn FileSystem) -> Result<bool, OutputError> {
    let failed = |error| OutputError::Remove { path: plan.output.clone(), error };
    let published = output_folder::is_published(plan, disk).map_err(failed)?;
    if published {
        output_folder::remove_temporary(plan, disk).map_err(failed)?;
    }
    remove(plan, !published, disk)?;
    Ok(published)
}

/// Removes the outputs of earlier rounds and, if asked to, that of this one. Continues after an error and returns the first.
fn remove(plan: &Plan, with_own: bool, disk: &dyn FileSystem) -> Result<(), OutputError> {
    let mut first = Ok(());
    let earlier = (0..plan.round).map(|round| round_output(plan, round));
    for path in earlier.chain(with_own.then(|| plan.output.clone())) {
        if let Err(error) = output_folder::remove(&path, plan.nonce, disk) {
            first = first.and(Err(OutputError::Remove { path, error }));
        }
    }
    let synced = if with_own || plan.round > 0 { output_folder::sync_parent(plan, disk) } else { Ok(()) };
    // Where nothing can be created or synced, nothing is left.
    let synced = synced.or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Ok(()),
        _ if is_absence(&error) => Ok(()),
        _ => Err(error),
    });
    first.and(synced.map_err(|error| OutputError::Remove { path: plan.output.clone(), error }))
}
