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

use crate::{Diagnostics, Oddity, TraceJob};
use giveway_core::Priority;
use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::fmt::Display;
use std::hash::Hash;

/// A stream of jobs.
pub(crate) trait JobReader: Send {
    /// The next job, or None at the end of the input.
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob>;
}

/// Jobs by identifier, for formats in which the rows of a job are spread over the input.
pub(crate) struct JobsById<K, J> {
    /// Jobs that may get further rows, with a number in the order of their first rows.
    open: FxHashMap<K, (u64, J)>,
    next_number: u64,
    limit: usize,
    /// At the end of the input, the jobs that are left, the first one last.
    rest: Option<Vec<(u64, J)>>,
}

impl<K: Hash + Eq, J> JobsById<K, J> {
    /// No jobs yet, and at most `limit` open ones.
    pub(crate) fn new(limit: usize) -> JobsById<K, J> {
        JobsById { open: FxHashMap::default(), next_number: 0, limit, rest: None }
    }

    /// The open job with an identifier. A new one is made by `new`; None if there are too many, which is counted.
    pub(crate) fn job<Q>(
        &mut self,
        id: &Q,
        diagnostics: &mut Diagnostics,
        new: impl FnOnce(&mut Diagnostics) -> J,
    ) -> Option<&mut J>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + Display + ?Sized,
    {
        if !self.open.contains_key(id) {
            if self.open.len() >= self.limit {
                diagnostics.odd(Oddity::TooManyOpenJobs, id);
                return None;
            }
            self.open.insert(id.to_owned(), (self.next_number, new(diagnostics)));
            self.next_number += 1;
        }
        self.open.get_mut(id).map(|(_, job)| job)
    }

    /// Takes an open job out if it `is_complete`.
    pub(crate) fn take(&mut self, id: &K, is_complete: impl FnOnce(&J) -> bool) -> Option<J> {
        self.open.get(id).filter(|(_, job)| is_complete(job))?;
        self.open.remove(id).map(|(_, job)| job)
    }

    /// After the last row, the next job for which `convert` returns one, in the order of their first rows.
    pub(crate) fn next_at_end(&mut self, mut convert: impl FnMut(J) -> Option<TraceJob>) -> Option<TraceJob> {
        let rest = self.rest.get_or_insert_with(|| {
            let mut rest: Vec<(u64, J)> = std::mem::take(&mut self.open).into_values().collect();
            rest.sort_unstable_by_key(|(number, _)| Reverse(*number));
            rest
        });
        while let Some((_, job)) = rest.pop() {
            if let Some(job) = convert(job) {
                return Some(job);
            }
        }
        None
    }
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
