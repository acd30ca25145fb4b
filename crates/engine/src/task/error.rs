//! Why map and reduce attempts fail. The messages are shown to the job's owner.

use super::checkpoint::CheckpointError;
use super::runs::RunError;
use crate::data::SinkError;
use crate::input::InputError;
use crate::record::AppError;
use giveway_core::AttemptId;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a map attempt failed.
#[derive(Debug, Error)]
pub enum MapError {
    /// The plan has no split with the index the attempt was launched with.
    #[error(
        "invalid plan: it has no split {split}, perhaps because the input changed during planning; submit the job again"
    )]
    UnknownSplit {
        /// Index of the split.
        split: u32,
    },
    /// A split of the plan refers to an input file the plan does not list.
    #[error(
        "invalid plan: it has no input file {file}, perhaps because the input changed during planning; submit the job again"
    )]
    UnknownFile {
        /// Index of the file.
        file: u32,
    },
    /// The input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The mapper returned an error.
    #[error(transparent)]
    App(#[from] AppError),
    /// The mapper panicked.
    #[error(transparent)]
    Panicked(#[from] AppPanicked),
    /// The output for the reduces cannot be sorted or written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The output of a job without reduces cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why a reduce attempt failed.
#[derive(Debug, Error)]
pub enum ReduceError {
    /// A paused attempt cannot be continued on this node.
    #[error("cannot resume {from}: {cause}; the task restarts from the beginning")]
    Resume {
        /// The attempt that paused.
        from: AttemptId,
        cause: ResumeError,
    },
    /// The plan has reduces, but the application has no reducer.
    #[error(
        "application `{app}` has no reducer, but the job has {reduces} reduces; submit the job with 0 reduces or add a reducer"
    )]
    NoReducer {
        /// Name of the application.
        app: String,
        /// Number of reduces of the job.
        reduces: u32,
    },
    /// All keys were reduced, but no output file was opened.
    #[error("internal error: the reduce ended without an output file; report this as a bug")]
    NoOutputFile,
    /// The reducer returned an error.
    #[error(transparent)]
    App(#[from] AppError),
    /// The reducer panicked.
    #[error(transparent)]
    Panicked(#[from] AppPanicked),
    /// The runs on this node's disk cannot be written or read back.
    #[error(transparent)]
    Runs(#[from] RunError),
    /// The output or the checkpoint cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What makes a paused reduce impossible to resume.
#[derive(Debug, Error)]
pub enum ResumeError {
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The output written before the pause is missing or shorter than the checkpoint says.
    #[error("its output file is missing or incomplete")]
    OutputLost,
    /// The files of the paused attempt cannot be taken over.
    #[error("cannot take over its files: {0}")]
    Io(io::Error),
}

/// The application's code panicked.
#[derive(Debug, Error)]
#[error("the application panicked: {message}")]
pub struct AppPanicked {
    /// The panic's message, if it had one.
    message: String,
}

/// A file of a task cannot be written.
#[derive(Debug, Error)]
#[error("cannot write {path}: {error}; {remedy}", path = .path.display(), remedy = write_remedy(.error))]
pub struct WriteError {
    path: PathBuf,
    error: io::Error,
}

impl WriteError {
    pub(super) fn new(path: &Path, error: io::Error) -> WriteError {
        WriteError { path: path.to_owned(), error }
    }
}

fn write_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on that disk",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "give workers write permission there",
        _ => "check that disk",
    }
}

/// Runs a task and turns a panic of the application's code into an error with the panic's message.
pub(super) fn catch_panic<R, E: From<AppPanicked>>(task: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    // The task's state is dropped during unwinding, so no half-updated value is observed afterwards.
    catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|panic| {
        let message =
            panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(AppPanicked { message: message.unwrap_or("no message").to_owned() }.into())
    })
}
