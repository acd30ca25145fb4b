//! Checkpoints of paused reduces on disk: another attempt resumes from them, even after a restart of the worker.
//!
//! The state of a merge is determined by the read position of each input. A checkpoint is therefore an index record (FCS, section 3.1): which input
//! has been fetched, which runs contain it, up to where each run is read, and how much output there is. A second, small record, the output
//! checkpoint, is stored beside the output on the file system that all nodes share. With it a reduce resumes on another node: it reuses the
//! output, but fetches its input again.
//!
//! # Format
//!
//! A record is a magic number (8 bytes), the CRC-32C of the content (`u32`, little-endian), and the content in postcard encoding. It is written to a
//! temporary name and renamed, so it is either complete or absent. It is not synced: a checkpoint survives the process, not the machine.

use super::coverage::Coverage;
use super::error::WriteError;
use super::output_dir::OutputDir;
use super::paths;
use super::runs::SavedRuns;
use crate::job::Plan;
use crate::wire::Counters;
use giveway_core::{AttemptId, JobId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: [u8; 8] = *b"GWPAUSE1";

/// File name of the checkpoint in the reduce's runs folder.
pub(super) const CHECKPOINT: &str = "checkpoint";

/// Complete state of a paused reduce, valid on its own node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub(super) coverage: Coverage,
    pub(super) runs: SavedRuns,
    /// Input of the reduce phase in stored bytes; `None` if that phase has not begun.
    pub(super) reduce_bytes: Option<u64>,
    pub(super) progress_ppm: u32,
    pub(super) output: OutputCheckpoint,
}

/// The part of the state that is valid on every node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OutputCheckpoint {
    /// The attempt that paused. If a record is found under the name of another attempt, that attempt had taken it over and has died since.
    pub(super) attempt: AttemptId,
    /// Length of the output written so far.
    pub(super) output_bytes: u64,
    /// The last key whose results are in the output; `None` if no key was reduced.
    pub(super) last_key: Option<Vec<u8>>,
    pub(super) counters: Counters,
}

/// Why a checkpoint cannot be used.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// There is no checkpoint.
    #[error("its checkpoint is missing")]
    Missing,
    /// The checksum, the encoding or the content is invalid.
    #[error("its checkpoint is corrupt")]
    Corrupt,
    /// The file cannot be read.
    #[error("cannot read its checkpoint: {0}")]
    Io(io::Error),
}

/// Writes a record atomically.
pub(super) fn write(path: &Path, record: &impl Serialize) -> Result<(), WriteError> {
    let write = || {
        let new = temporary_name(path);
        fs::write(&new, encode(record)?)?;
        fs::rename(&new, path)
    };
    write().map_err(|error| WriteError::new(path, error))
}

/// Writes an output checkpoint atomically beside the output of a job.
pub(super) fn write_output(plan: &Plan, checkpoint: &OutputCheckpoint) -> Result<(), WriteError> {
    let path = paths::output_checkpoint_path(plan, checkpoint.attempt);
    let write = || {
        let (dir, new) = (OutputDir::open(plan)?, temporary_name(&path));
        dir.create(&new)?.write_all(&encode(checkpoint)?)?;
        dir.rename(&new, &path)
    };
    write().map_err(|error| WriteError::new(&path, error))
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

fn encode(record: &impl Serialize) -> io::Result<Vec<u8>> {
    let content = postcard::to_allocvec(record).map_err(io::Error::other)?;
    Ok([&MAGIC[..], &crc32c::crc32c(&content).to_le_bytes(), &content].concat())
}

/// Reads a record and verifies its checksum.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, CheckpointError> {
    decode(fs::read(path))
}

/// Reads the output checkpoint of an attempt from beside the output of its job.
pub(super) fn read_output(plan: &Plan, attempt: AttemptId) -> Result<OutputCheckpoint, CheckpointError> {
    let read = || {
        let mut bytes = Vec::new();
        let mut file = OutputDir::open(plan)?.open_to_read(&paths::output_checkpoint_path(plan, attempt))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    decode(read())
}

fn decode<T: DeserializeOwned>(read: io::Result<Vec<u8>>) -> Result<T, CheckpointError> {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(CheckpointError::Missing),
        Err(error) => return Err(CheckpointError::Io(error)),
    };
    let content = bytes.strip_prefix(&MAGIC).and_then(|rest| {
        let (crc, content) = rest.split_first_chunk()?;
        (crc32c::crc32c(content) == u32::from_le_bytes(*crc)).then_some(content)
    });
    content.and_then(|content| postcard::from_bytes(content).ok()).ok_or(CheckpointError::Corrupt)
}

/// What a job's folder contains from before a restart of the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Map attempts with a complete output, sorted.
    pub outputs: Vec<AttemptId>,
    /// Paused reduce attempts with a valid checkpoint, sorted.
    pub paused: Vec<AttemptId>,
}

/// Scans a job's folder and removes the files of attempts that did not survive the restart. Files with unknown names stay.
///
/// Call it after the worker has started and before it runs a task.
pub fn scan_leftovers(dir: &Path, job: JobId) -> io::Result<Leftovers> {
    let mut leftovers = Leftovers::default();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if paths::is_unfinished_map_output(job, name) || paths::is_map_spill(job, name) {
            fs::remove_file(entry.path())?;
        }
        let Some(attempt) = paths::parse_attempt(job, name) else { continue };
        if entry.file_type()?.is_file() {
            leftovers.outputs.push(attempt);
        } else if read::<Checkpoint>(&entry.path().join(CHECKPOINT))
            .is_ok_and(|checkpoint| checkpoint.output.attempt == attempt)
        {
            leftovers.paused.push(attempt);
        } else {
            fs::remove_dir_all(entry.path())?;
        }
    }
    leftovers.outputs.sort_unstable();
    leftovers.paused.sort_unstable();
    Ok(leftovers)
}

/// Removes the runs and the checkpoint of a paused reduce from this node: it resumes on another node or is no longer needed.
pub fn remove_paused(dir: &Path, reduce: AttemptId) -> io::Result<()> {
    match fs::remove_dir_all(paths::reduce_runs_folder(dir, reduce)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
