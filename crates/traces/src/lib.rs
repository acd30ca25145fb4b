//! Readers of workload traces that other systems recorded.
//!
//! [`open`] detects the format of a file or folder by its content and returns a [`Trace`]: an iterator of [`TraceJob`]s that reads the input as
//! a stream, plain, gzip or Zstandard. [`to_workload`] turns it into a workload of the simulator. What a trace lacks, such as the time of a task
//! where only bytes are recorded, comes from a [`DurationModel`]. What is odd is counted in [`Diagnostics`] and handled by the rule that its
//! line states; nothing is dropped silently, and no input causes a panic. The formats and the rules are described in `docs/traces.md`.
//!
//! One file of `formats/` reads one format. A reader keeps at most one line or one object in memory, and the jobs that are not complete yet;
//! all of them are bounded by [`Limits`].

mod avro;
mod convert;
mod detect;
mod diagnostics;
mod error;
mod fit;
mod formats;
mod graph;
mod input;
mod job;
mod model;
mod records;
mod stats;
mod tally;
mod topology;
mod trace;
mod workload;

pub use convert::workload_toml;
pub use detect::{AlibabaTable, Format, GoogleTable};
pub use diagnostics::{Count, Diagnostics, Oddity};
pub use error::TraceError;
pub use fit::{sample, synthetic};
pub use input::Limits;
pub use job::{JobOutcome, TaskTime, Tasks, TraceJob};
pub use model::{DurationModel, FailedJobs, Graphs};
pub use stats::{Distribution, QUANTILES, Stats};
pub use topology::read_cluster;
pub use trace::{Options, Trace, from_bytes, open};
pub use workload::{cluster_for, sorted_jobs, to_workload, workload_of};
