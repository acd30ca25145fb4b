//! Planning: checks a request, lists and splits its input.

use crate::apps::{self, Apps};
use crate::job::{Plan, Request};
use crate::program::{Planner, ProgramId};
use crate::record::AppError;
use crate::wire::MESSAGE_BYTES_MAX;
use giveway_core::JobId;
use std::path::PathBuf;
use thiserror::Error;

/// Maximum number of reduces of a job. More are most likely a typing error.
const REDUCES_MAX: u32 = 10_000;

/// Limit of the names of a job, its user, pool and application: they are in every list of jobs.
const NAME_BYTES_MAX: usize = 512;

/// Limit of the names and values of a job's options: the journal and each worker have them.
const OPTIONS_BYTES_MAX: usize = 1 << 20;

/// Part of a message that is not the plan.
const MESSAGE_OVERHEAD_BYTES: usize = 1024;

/// Why a job was not accepted.
#[derive(Debug, Error)]
pub(super) enum SubmitError {
    /// The application does not exist, or the application or the input refuses the request.
    #[error(transparent)]
    App(#[from] AppError),
    #[error(
        "{error}; an application of your own is submitted by its own program (`./my-program submit {app} ...`), or with --program FILE"
    )]
    NotBuiltIn { error: AppError, app: String },
    #[error("the output {} is not an absolute path", .0.display())]
    RelativeOutput(PathBuf),
    #[error("the output {} is not a directory name; name a directory that does not exist yet", .0.display())]
    UnnamedOutput(PathBuf),
    #[error(
        "the {field} {value:?} of the job has control characters, which would change what terminals show; use another one"
    )]
    ControlCharacters { field: &'static str, value: String },
    #[error("the {field} of the job has {bytes} bytes; use at most {NAME_BYTES_MAX}")]
    LongName { field: &'static str, bytes: usize },
    #[error(
        "the options of the job have {bytes} bytes; use at most {OPTIONS_BYTES_MAX}, and put what is longer into a file whose path is the option"
    )]
    LongOptions { bytes: usize },
    #[error("invalid split size: 0 bytes; write for example 64MiB")]
    EmptySplits,
    #[error("too many reduces: {0}; request at most {REDUCES_MAX}")]
    TooManyReduces(u32),
    #[error("too much input for one job: {files} files in {splits} splits; use fewer, larger files or splits")]
    PlanTooLarge { files: usize, splits: usize },
    #[error("cannot read random bytes from the system: {0}")]
    Random(String),
}

/// Where the application of a request is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Code<'a> {
    /// In the coordinator and its workers.
    BuiltIn(&'a Apps),
    /// In a program that was shipped with the job.
    Shipped(&'a Planner, ProgramId),
}

/// Plans a job. Reads the input's metadata and, for some applications, samples its content. The plan's job id is set when it is accepted.
pub(super) fn plan(request: Request, code: Code<'_>) -> Result<Plan, SubmitError> {
    check(&request)?;
    let mut plan = match code {
        Code::BuiltIn(apps) => {
            let app =
                apps.find(&request.app).map_err(|error| SubmitError::NotBuiltIn { error, app: request.app.clone() })?;
            apps::plan(app.as_ref(), JobId(0), request)?
        }
        Code::Shipped(planner, program) => planner.complete_plan(program, apps::draft(JobId(0), request)?)?,
    };
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).map_err(|error| SubmitError::Random(error.to_string()))?;
    plan.nonce = u64::from_le_bytes(nonce);
    if plan.reduces > REDUCES_MAX {
        return Err(SubmitError::TooManyReduces(plan.reduces));
    }
    // Workers receive the plan in one message.
    let bytes = postcard::to_allocvec(&plan).map_or(usize::MAX, |plan| plan.len());
    if bytes.saturating_add(MESSAGE_OVERHEAD_BYTES) > MESSAGE_BYTES_MAX {
        return Err(SubmitError::PlanTooLarge { files: plan.files.len(), splits: plan.splits.len() });
    }
    Ok(plan)
}

/// Checks what does not depend on the application.
fn check(request: &Request) -> Result<(), SubmitError> {
    let output = &request.output;
    if !output.is_absolute() {
        return Err(SubmitError::RelativeOutput(output.clone()));
    }
    if output.file_name().is_none() {
        return Err(SubmitError::UnnamedOutput(output.clone()));
    }
    for (field, value) in
        [("application", &request.app), ("name", &request.name), ("user", &request.user), ("pool", &request.pool)]
    {
        if value.len() > NAME_BYTES_MAX {
            return Err(SubmitError::LongName { field, bytes: value.len() });
        }
        if value.chars().any(char::is_control) {
            return Err(SubmitError::ControlCharacters { field, value: value.clone() });
        }
    }
    let bytes = request.options.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > OPTIONS_BYTES_MAX {
        return Err(SubmitError::LongOptions { bytes });
    }
    if request.split_bytes == 0 {
        return Err(SubmitError::EmptySplits);
    }
    if let Some(reduces) = request.reduces.filter(|&reduces| reduces > REDUCES_MAX) {
        return Err(SubmitError::TooManyReduces(reduces));
    }
    Ok(())
}
