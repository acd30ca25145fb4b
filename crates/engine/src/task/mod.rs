//! Tasks: what a worker runs in a slot.
//!
//! A map reads its piece of the input and leaves one output for the reduces; asked to give way, it ends at the next record, and what it has
//! done is a finished map (`map.rs`). A reduce fetches its part of every output (`shuffle.rs`, `fetch.rs`), holds it in sorted runs (`hold.rs`) and
//! reduces it key by key (`reduce.rs`); asked to give way, it writes down where it stands (`checkpoint.rs`). Either is a plain function
//! that runs on the caller's thread and returns how the task ended; wishes and progress pass through a [`Control`].
//!
//! What never lives here: the decision what to run or who gives way, and talk with the coordinator. A worker tells its tasks where outputs are
//! ([`Outputs`]) and hears from them what is damaged ([`Shuffle`]).

mod checkpoint;
mod control;
mod counts;
mod coverage;
mod fetch;
mod hold;
mod map;
mod names;
mod outputs;
mod reduce;
mod serve;
mod shuffle;
mod text;
mod verify;

pub use checkpoint::{Leavings, forget_paused, survey};
pub use control::{Ask, Control};
pub use counts::Counters;
pub use fetch::Shuffle;
pub use map::{MapEnd, MapTask, publish_map, run_map};
pub use names::{TEMPORARY, map_output, map_part, reduce_folder, reduce_part};
pub use outputs::{OutputAt, Outputs};
pub use reduce::{ReduceEnd, ReduceTask, run_reduce};
pub use serve::{SEGMENT_MESSAGE_BYTES_MAX, SegmentAnswer, SegmentRequest, serve_segment};

use crate::record::Failure;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What tasks count on their own, beside what programs count.
pub mod counter {
    /// Lines a mapper was given.
    pub const MAP_INPUT_RECORDS: &str = "map input records";
    /// Records a mapper emitted.
    pub const MAP_OUTPUT_RECORDS: &str = "map output records";
    /// Sorted runs a map wrote because its memory was full.
    pub const SPILLS: &str = "spills";
    /// Segments a reduce fetched, empty ones too.
    pub const SEGMENTS_FETCHED: &str = "segments fetched";
    /// Times a reduce found a map's output gone or damaged.
    pub const OUTPUTS_REPORTED: &str = "map outputs reported";
    /// Records that were reduced.
    pub const REDUCE_INPUT_RECORDS: &str = "reduce input records";
    /// Records that came again although an earlier attempt had reduced them; they are passed over. None on the node of the pause.
    pub const RECORDS_READ_AGAIN: &str = "records read again after a resume";
}

/// The share of something that is done, of so many parts in all.
fn share(done: u64, all: u64, parts: u32) -> u32 {
    (u128::from(done.min(all)) * u128::from(parts) / u128::from(all.max(1))) as u32
}

/// Runs a task; a panic in a program becomes a failure with the panic's words.
fn guarded<R>(task: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    // What the task had in its hands is dropped with it, half changed or not.
    catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|panic| {
        let words =
            panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Failure(format!("the program panicked: {}", words.unwrap_or("it did not say why"))))
    })
}

#[cfg(test)]
mod tests;
