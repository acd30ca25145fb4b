//! What a paused reduce leaves on disk, so that another attempt goes on where it stood, even after a restart of the worker.
//!
//! The heap of a merge is no secret of memory: it follows from where each input stands. So a checkpoint is an index record (FCS, section 3.1)
//! of which input has been fetched, which runs hold it, how far each of them is read, and how much output there is. A second, small record
//! stands beside the output, on the file system all nodes share: with it a reduce can go on elsewhere, without its runs but with its output.
//!
//! # Bytes
//!
//! A record is a mark (8 bytes), the CRC-32C of what follows (`u32`, little-endian), and the content in postcard's format. It is written to
//! the side and renamed, so it is there in whole or not at all. Nothing is synced: a checkpoint outlives its process, not its machine.

use super::counts::Counters;
use super::coverage::Coverage;
use super::hold::HeldRuns;
use super::names;
use super::text::cannot_write;
use crate::record::Failure;
use giveway_core::{AttemptId, JobId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;
use thiserror::Error;

const MARK: [u8; 8] = *b"GWPAUSE1";

/// The checkpoint's name in the folder of its reduce.
pub(super) const CHECKPOINT: &str = "checkpoint";

/// All that a paused reduce knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub(super) coverage: Coverage,
    pub(super) runs: HeldRuns,
    /// How many bytes there were to reduce, once reducing has begun.
    pub(super) reduce_bytes: Option<u64>,
    pub(super) progress_ppm: u32,
    pub(super) kept: Kept,
}

/// What matters of a paused reduce wherever it goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The attempt that paused. A record under another attempt's name is that of an attempt which had taken it over and is no more.
    pub(super) attempt: AttemptId,
    /// The length of its output.
    pub(super) output_bytes: u64,
    /// The last key whose output that contains; none if no key was reduced.
    pub(super) last_key: Option<Vec<u8>>,
    pub(super) counters: Counters,
}

/// Why a record cannot be used.
#[derive(Debug, Error)]
pub(super) enum RecordError {
    #[error("there is none")]
    Missing,
    #[error("it is damaged")]
    Damaged,
    #[error("it cannot be read: {0}")]
    Io(io::Error),
}

/// Writes a record to the side and renames it.
pub(super) fn write(path: &Path, record: &impl Serialize) -> Result<(), Failure> {
    let write = || {
        let content = postcard::to_allocvec(record).map_err(io::Error::other)?;
        let bytes = [&MARK[..], &crc32c::crc32c(&content).to_le_bytes(), &content].concat();
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        fs::write(&beside, bytes)?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| cannot_write(path, &error))
}

/// Reads a record back.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RecordError::Missing),
        Err(error) => return Err(RecordError::Io(error)),
    };
    let content = bytes.strip_prefix(&MARK).and_then(|rest| {
        let (check, content) = rest.split_first_chunk()?;
        (crc32c::crc32c(content) == u32::from_le_bytes(*check)).then_some(content)
    });
    content.and_then(|content| postcard::from_bytes(content).ok()).ok_or(RecordError::Damaged)
}

/// What a job's folder holds from before the worker was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leavings {
    /// Finished map outputs.
    pub outputs: Vec<AttemptId>,
    /// Paused reduces that can be resumed.
    pub paused: Vec<AttemptId>,
}

/// Looks through a job's folder after a start of the worker, before it runs a task, and clears away what attempts left that are no more.
/// Files it does not know are left alone.
pub fn survey(dir: &Path, job: JobId) -> io::Result<Leavings> {
    let mut leavings = Leavings::default();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if names::is_unfinished(job, name) {
            fs::remove_file(entry.path())?;
        }
        let Some(attempt) = names::parse(job, name) else { continue };
        if entry.file_type()?.is_file() {
            leavings.outputs.push(attempt);
        } else if read::<Checkpoint>(&entry.path().join(CHECKPOINT)).is_ok_and(|left| left.kept.attempt == attempt) {
            leavings.paused.push(attempt);
        } else {
            fs::remove_dir_all(entry.path())?;
        }
    }
    leavings.outputs.sort_unstable();
    leavings.paused.sort_unstable();
    Ok(leavings)
}

/// Drops what a paused reduce keeps on this node: it goes on elsewhere, or is not wanted any more.
pub fn forget_paused(dir: &Path, reduce: AttemptId) -> io::Result<()> {
    match fs::remove_dir_all(names::reduce_folder(dir, reduce)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
