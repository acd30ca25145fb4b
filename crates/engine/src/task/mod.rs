//! Map and reduce attempts: what a worker runs in a slot.
//!
//! A map reads its range of the input and writes one output for the reduces; on [`Request::Preempt`] it ends early at the next record boundary,
//! and what it has processed counts as a finished map (`map.rs`). A reduce fetches its segment of every map output (`shuffle.rs`, `fetch.rs`),
//! stores the segments as sorted runs (`runs.rs`) and reduces them key by key (`reduce.rs`); on [`Request::Preempt`] it writes a checkpoint and
//! pauses (`checkpoint.rs`). Both are plain functions that run on the caller's thread and return how the attempt ended; requests and progress
//! pass through a [`Control`].
//!
//! Not here: the decision what to run or which attempt to preempt, and communication with the coordinator. The worker records where map outputs
//! are in a [`MapOutputTracker`]; a [`Fetcher`] reports lost and corrupt outputs back to it.

mod checkpoint;
mod control;
mod counters;
mod coverage;
mod error;
mod fetch;
mod map;
mod output_dir;
mod output_tracker;
mod part_writer;
mod paths;
mod reduce;
mod runs;
mod shuffle;
mod writeback;

pub use checkpoint::{CheckpointError, Leftovers, remove_paused, scan_leftovers};
pub(crate) use control::Notifier;
pub use control::{Control, Request};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use coverage::Coverage;
pub use error::{AppPanicked, MapError, ReduceError, ResumeError, WriteError};
pub use fetch::Fetcher;
pub use map::{MapTask, run_map};
pub(crate) use output_dir::{NONCE, nonce_text};
pub(crate) use output_tracker::ReadCursor;
pub use output_tracker::{MapOutputLocation, MapOutputTracker};
pub(crate) use paths::{JOBS, temporary_path};
pub use paths::{TEMPORARY, job_folder, map_output_path, map_part_path, reduce_part_path, reduce_runs_folder};
pub use reduce::{ReduceTask, run_reduce};
pub use runs::RunError;

/// Names of the counters that tasks maintain themselves, beside those of the application.
pub mod counter {
    /// Input records (lines) passed to the mapper.
    pub const MAP_INPUT_RECORDS: &str = "map input records";
    /// Records emitted by the mapper.
    pub const MAP_OUTPUT_RECORDS: &str = "map output records";
    /// Sorted runs that maps wrote to disk because their memory budget was used up.
    pub const SPILLS: &str = "spills";
    /// Segments fetched by a reduce, including empty ones.
    pub const SEGMENTS_FETCHED: &str = "segments fetched";
    /// Times a reduce reported a map output as lost or corrupt.
    pub const OUTPUTS_REPORTED: &str = "map outputs reported";
    /// Records passed to the reducer.
    pub const REDUCE_INPUT_RECORDS: &str = "reduce input records";
    /// Records that a resumed reduce read and skipped because an earlier attempt had reduced them. Zero if it resumed on the same node.
    pub const RECORDS_READ_AGAIN: &str = "records read again after a resume";
}

/// Removes what an attempt has left that was killed with its process: everything but a committed output.
pub(crate) fn remove_attempt_files(plan: &crate::job::Plan, dir: &std::path::Path, attempt: giveway_core::AttemptId) {
    let _ = std::fs::remove_file(paths::temporary_path(plan, attempt));
    match attempt.task.kind {
        giveway_core::Kind::Map => {
            let _ = std::fs::remove_file(paths::unfinished_map_output_path(dir, attempt));
        }
        giveway_core::Kind::Reduce => {
            let _ = std::fs::remove_dir_all(paths::reduce_runs_folder(dir, attempt));
            let _ = std::fs::remove_file(paths::output_checkpoint_path(plan, attempt));
        }
    }
}

/// The fraction `done / total`, scaled to the range 0 to `scale`. `done` is capped at `total`; the result is 0 if `total` is 0.
fn scaled_fraction(done: u64, total: u64, scale: u32) -> u32 {
    (u128::from(done.min(total)) * u128::from(scale) / u128::from(total.max(1))) as u32
}

#[cfg(test)]
mod tests;
