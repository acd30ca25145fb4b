//! Reads the segments of map outputs for a reduce. Workers share a disk, so the outputs of all workers are files that a reduce opens itself.
//!
//! A fetch yields a complete, verified segment or nothing. Errors are classified by remedy: a lost or corrupt output must be recomputed, so it is
//! reported; what cannot be opened now may be there later.

use super::control::Control;
use super::error::WriteError;
use super::output_tracker::MapOutputLocation;
use super::paths;
use super::runs::RunSet;
use crate::data::{MapOutput, OutputError};
use giveway_core::{AttemptId, JobId, Kind, NodeId};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use thiserror::Error;

/// Segments of at least this size are read in place; smaller ones are not worth a mapping each.
const IN_PLACE_BYTES_MIN: u64 = 1 << 20;

/// Fetches map outputs for all reduces of a worker.
pub struct Fetcher {
    /// The folders of the workers, by node.
    folders: RwLock<BTreeMap<NodeId, PathBuf>>,
    report_bad_output: Box<dyn Fn(AttemptId) + Send + Sync>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("folders", &self.folders).finish_non_exhaustive()
    }
}

/// Result of a successful fetch.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The segment was added to the reduce's runs.
    Added,
    /// The segment has no records.
    Empty,
}

/// Why a fetch failed.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    /// The map must run again.
    #[error("the map output is lost or corrupt")]
    BadOutput,
    /// A retry may succeed.
    #[error("the map output cannot be opened now")]
    Unreachable,
    #[error("a request to the task interrupted the fetch")]
    Interrupted,
    /// The reduce's own folder cannot be written.
    #[error(transparent)]
    Local(#[from] WriteError),
}

impl Fetcher {
    /// `report_bad_output` is called with the map attempt whose output is lost or corrupt, possibly more than once for the same attempt.
    pub fn new(report_bad_output: impl Fn(AttemptId) + Send + Sync + 'static) -> Fetcher {
        Fetcher { folders: RwLock::default(), report_bad_output: Box::new(report_bad_output) }
    }

    /// Replaces the folders of all nodes.
    pub(crate) fn set_folders(&self, folders: BTreeMap<NodeId, PathBuf>) {
        *self.folders.write().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Sets the folder of a node's worker; `None` if the node is lost.
    pub fn set_folder(&self, node: NodeId, folder: Option<PathBuf>) {
        let mut folders = self.folders.write().unwrap_or_else(PoisonError::into_inner);
        match folder {
            Some(folder) => folders.insert(node, folder),
            None => folders.remove(&node),
        };
    }

    /// The folders of all nodes.
    pub(crate) fn folders(&self) -> BTreeMap<NodeId, PathBuf> {
        self.folders.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports a map output as lost or corrupt.
    pub(crate) fn report_bad_output(&self, map: AttemptId) {
        (self.report_bad_output)(map);
    }

    /// Fetches a reduce's segment of an output, verifies it and adds it to `runs`.
    pub(super) fn fetch(
        &self,
        job: JobId,
        output: &MapOutputLocation,
        reduce: u32,
        runs: &mut RunSet,
        control: &Control,
    ) -> Result<Fetched, FetchError> {
        let map = AttemptId::new(job, Kind::Map, output.map, output.number);
        let folders = self.folders.read().unwrap_or_else(PoisonError::into_inner);
        let folder = paths::job_folder(folders.get(&output.node).ok_or(FetchError::Unreachable)?, job);
        drop(folders);
        let output = match MapOutput::open(&paths::map_output_path(&folder, map)) {
            Ok(output) => output,
            // Such as too many open files, which does not justify that the map runs again.
            Err(OutputError::Io { error, .. })
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) =>
            {
                return Err(FetchError::Unreachable);
            }
            Err(_) => return Err(FetchError::BadOutput),
        };
        let segment = output.segments.get(reduce as usize).ok_or(FetchError::BadOutput)?;
        if segment.stored_bytes == 0 {
            return Ok(Fetched::Empty);
        }
        if segment.stored_bytes >= IN_PLACE_BYTES_MIN.min(runs.memory_segment_bytes_max()) {
            add_in_place(&output, reduce, runs, control)?;
        } else {
            let segment = output.segment(reduce).into_memory().map_err(|_| FetchError::BadOutput)?;
            if !segment.is_valid(|| true).map_err(|_| FetchError::BadOutput)? {
                return Err(FetchError::BadOutput);
            }
            runs.add_memory(segment);
        }
        Ok(Fetched::Added)
    }
}

/// Verifies a segment and adds it in place, or a copy if its file cannot be linked because it is on another file system.
fn add_in_place(output: &MapOutput, reduce: u32, runs: &mut RunSet, control: &Control) -> Result<(), FetchError> {
    let should_continue = || {
        control.tick();
        control.requested().is_none()
    };
    match output.segment(reduce).is_valid(should_continue).map_err(|_| FetchError::BadOutput)? {
        true if runs.add_in_place(output, reduce).is_ok() => Ok(()),
        true => Ok(runs.add_copy(output, reduce)?),
        false if control.requested().is_some() => Err(FetchError::Interrupted),
        false => Err(FetchError::BadOutput),
    }
}
