//! One file per format. A reader turns lines or objects into jobs and counts what is odd; it never fails, since input that ends early is an
//! oddity as well. What holds for all formats (failed jobs, jobs without tasks, repeated ids) is checked once, in `trace.rs`.

pub(crate) mod alibaba;
pub(crate) mod google;
pub(crate) mod job_history;
pub(crate) mod rumen;
pub(crate) mod sls;
pub(crate) mod spark;
pub(crate) mod swf;
pub(crate) mod swim;
pub(crate) mod yarn_apps;

use crate::{Diagnostics, TraceJob};
use giveway_core::Priority;

/// A stream of jobs.
pub(crate) trait JobReader: Send {
    /// The next job, or None at the end of the input.
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob>;
}

/// A priority as Hadoop writes it, such as `VERY_HIGH`; unknown ones are normal.
fn hadoop_priority(name: Option<&str>) -> Priority {
    match name {
        Some("VERY_HIGH") => Priority::VeryHigh,
        Some("HIGH") => Priority::High,
        Some("LOW") => Priority::Low,
        Some("VERY_LOW") => Priority::VeryLow,
        _ => Priority::Normal,
    }
}
