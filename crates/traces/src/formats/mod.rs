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

use crate::records::{Lines, Objects, text};
use crate::{Count, Diagnostics, JobOutcome, Oddity, Options, Tasks, TraceJob};
use giveway_core::Priority;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::fmt::Display;
use std::hash::Hash;
use std::ops::Deref;

/// What readers need beside the input: the options, and where they count what is odd.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) options: Options,
    pub(crate) diagnostics: Diagnostics,
    /// Users that were counted, for formats that have only their jobs.
    pub(crate) users: FxHashSet<String>,
}

impl Deref for Reading {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

impl Reading {
    pub(crate) fn odd(&mut self, oddity: Oddity, place: impl Display) {
        self.diagnostics.odd(oddity, place);
    }

    pub(crate) fn add(&mut self, count: Count, number: u64) {
        self.diagnostics.add(count, number);
    }

    /// A job with what is the same in most formats.
    fn job(&self, id: &str, submit_us: i64, (maps, reduces): (Tasks, Tasks)) -> TraceJob {
        TraceJob {
            id: id.into(),
            name: id.into(),
            user: "default".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            submit_us,
            finish_us: None,
            outcome: JobOutcome::Unknown,
            maps,
            reduces,
            slowstart_ppm: self.model.slowstart_ppm(),
        }
    }

    /// The same for formats that have no tasks: its tasks are counted.
    fn counted_job(&mut self, id: &str, submit_us: i64, tasks: (Tasks, Tasks)) -> TraceJob {
        self.add(Count::Maps, u64::from(tasks.0.count));
        self.add(Count::Reduces, u64::from(tasks.1.count));
        self.job(id, submit_us, tasks)
    }

    /// Counts a user once.
    fn count_user(&mut self, user: &str) {
        if !self.users.contains(user) {
            self.users.insert(user.to_owned());
            self.add(Count::Users, 1);
        }
    }

    /// Counts an attempt that did not succeed.
    fn unsuccessful(&mut self, is_killed: bool, place: impl Display) {
        let (count, oddity) = match is_killed {
            true => (Count::KilledAttempts, Oddity::KilledAttempt),
            false => (Count::FailedAttempts, Oddity::FailedAttempt),
        };
        self.add(count, 1);
        self.odd(oddity, place);
    }
}

impl TraceJob {
    /// The job with its name, if it has one.
    fn named(self, name: Option<String>) -> TraceJob {
        let name = name.filter(|name| !name.is_empty());
        TraceJob { name: name.unwrap_or(self.name), ..self }
    }

    /// The job of this user, in this queue or else that of the user.
    fn of(self, user: Option<String>, queue: Option<String>) -> TraceJob {
        let user = user.unwrap_or(self.user);
        TraceJob { pool: queue.unwrap_or_else(|| user.clone()), user, ..self }
    }
}

/// A stream of jobs.
pub(crate) trait JobReader: Send {
    /// The next job, or None at the end of the input.
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob>;
}

/// A format with at most one job per line.
pub(crate) struct JobLines {
    pub(crate) lines: Lines,
    /// None if a line is no row of the format, Some(None) if its row has no job.
    pub(crate) read: fn(&str, &mut Reading) -> Option<Option<TraceJob>>,
}

impl JobReader for JobLines {
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        loop {
            let (number, line) = self.lines.next(&mut reading.diagnostics)?;
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(swf::COMMENT) || trimmed == google::JOBS_HEADER {
                continue;
            }
            reading.add(Count::Rows, 1);
            match (self.read)(line, reading) {
                Some(Some(job)) => return Some(job),
                Some(None) => {}
                None => reading.odd(Oddity::BadLine, format_args!("line {number}")),
            }
        }
    }
}

/// A format with JSON objects, each of which has some jobs.
pub(crate) struct JobObjects<T> {
    objects: Objects,
    jobs: fn(u64, T, &mut Reading) -> Vec<TraceJob>,
    ready: std::vec::IntoIter<TraceJob>,
}

impl<T> JobObjects<T> {
    pub(crate) fn new(objects: Objects, jobs: fn(u64, T, &mut Reading) -> Vec<TraceJob>) -> JobObjects<T> {
        JobObjects { objects, jobs, ready: Vec::new().into_iter() }
    }
}

impl<T: DeserializeOwned> JobReader for JobObjects<T> {
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        loop {
            if let Some(job) = self.ready.next() {
                return Some(job);
            }
            let (number, object) = self.objects.next(&mut reading.diagnostics)?;
            let text = text(object, &mut reading.diagnostics, || format!("object {number}"));
            match serde_json::from_str(&text) {
                Ok(object) => self.ready = (self.jobs)(number, object, reading).into_iter(),
                Err(error) => reading.odd(Oddity::BadObject, format_args!("object {number}: {error}")),
            }
        }
    }
}

/// Jobs by identifier, for formats in which the rows of a job are spread over the input.
pub(crate) struct JobsById<K, J> {
    /// Jobs that may get further rows, with a number in the order of their first rows.
    open: FxHashMap<K, (u64, J)>,
    next_number: u64,
    /// At the end of the input, the jobs that are left, the first one last.
    rest: Option<Vec<(u64, J)>>,
}

impl<K, J> Default for JobsById<K, J> {
    fn default() -> JobsById<K, J> {
        JobsById { open: FxHashMap::default(), next_number: 0, rest: None }
    }
}

impl<K: Hash + Eq, J> JobsById<K, J> {
    /// The open job with an identifier. A new one is made by `new`; None if there are too many, which is counted.
    pub(crate) fn job<Q>(
        &mut self,
        id: &Q,
        reading: &mut Reading,
        new: impl FnOnce(&mut Reading) -> J,
    ) -> Option<&mut J>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + Display + ?Sized,
    {
        if !self.open.contains_key(id) {
            if self.open.len() >= reading.limits.open_jobs {
                reading.odd(Oddity::TooManyOpenJobs, id);
                return None;
            }
            self.open.insert(id.to_owned(), (self.next_number, new(reading)));
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
    pub(crate) fn next_at_end(&mut self, convert: impl FnMut(J) -> Option<TraceJob>) -> Option<TraceJob> {
        let rest = self.rest.get_or_insert_with(|| {
            let mut rest: Vec<(u64, J)> = std::mem::take(&mut self.open).into_values().collect();
            rest.sort_unstable_by_key(|(number, _)| Reverse(*number));
            rest
        });
        std::iter::from_fn(|| rest.pop()).map(|(_, job)| job).find_map(convert)
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
