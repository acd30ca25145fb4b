//! What attempts print: the error output of streaming programs, what applications print
//! ([`giveway_mapreduce::task_log`]), and the reason of a failure.
//!
//! A worker stores it in its folder as `logs/JOB/map-7.0@0`: job, task, attempt, and the offset at which the file begins. A file has at most
//! [`FILE_BYTES_MAX`]; of a long log the first file and the last ones are kept. All logs of a worker stay within a budget: the files that were not written for the longest
//! time are removed first. Logs outlive their jobs. They never fail a task: what cannot be written is dropped.

mod read;
mod write;

pub use read::{AttemptLog, LogChunk, TaskSelector, find};
pub(crate) use write::LogStore;

use giveway_core::{AttemptId, JobId, Kind};
use std::path::Path;

/// Size of a log file after which another one is begun.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Files that are kept of an attempt's log: the first one and the last ones.
pub const FILES_MAX: usize = 4;

/// Budget of a worker's logs, unless it is set.
pub const BUDGET_BYTES: u64 = 256 << 20;

/// Folder of the logs in a worker's folder.
const FOLDER: &str = "logs";

/// Folder in the cluster directory with the locations of workers whose folder is elsewhere.
const ELSEWHERE: &str = "work-dirs";

/// Short name of an attempt within its job, such as `map-7.0`.
pub fn attempt_name(attempt: AttemptId) -> String {
    format!("{}-{}.{}", attempt.task.kind, attempt.task.index, attempt.number)
}

/// The inverse of [`attempt_name`].
pub fn parse_attempt(job: JobId, name: &str) -> Option<AttemptId> {
    let (kind, rest) = match name.strip_prefix("map-") {
        Some(rest) => (Kind::Map, rest),
        None => (Kind::Reduce, name.strip_prefix("reduce-")?),
    };
    let (index, number) = rest.split_once('.')?;
    Some(AttemptId::new(job, kind, index.parse().ok()?, number.parse().ok()?))
}

/// The attempt and the offset that belong to the name of a log file.
fn parse_file(job: JobId, path: &Path) -> Option<(AttemptId, u64)> {
    let (attempt, start) = path.file_name()?.to_str()?.split_once('@')?;
    Some((parse_attempt(job, attempt)?, start.parse().ok()?))
}

#[cfg(test)]
mod tests;
