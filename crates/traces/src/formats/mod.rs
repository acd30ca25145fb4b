//! One file per format. A reader turns lines or objects into jobs and counts what is odd; it never fails, since input that ends early is an
//! oddity as well. What holds for all formats (failed jobs, jobs without tasks, repeated ids) is checked once, in `trace.rs`.

pub(crate) mod swim;

use crate::{Diagnostics, TraceJob};

/// A stream of jobs.
pub(crate) trait JobReader: Send {
    /// The next job, or None at the end of the input.
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob>;
}
