//! Google's cluster data of 2011: task events, job events, or a table of one row per job. Times are microseconds; 0 is before the trace, 2^63-1
//! after it. A task becomes a map that takes the time from its last SCHEDULE to its FINISH; a job without tasks becomes one map.

use super::{JobReader, JobsById, Reading};
use crate::records::Lines;
use crate::tally::{FinishedTask, TaskTally, us_from_ms};
use crate::{Count, JobOutcome, Oddity, TraceJob};
use giveway_core::Priority;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// What a line of the trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    TaskEvents,
    JobEvents,
    Jobs,
}

/// Header of the table of jobs.
pub(crate) const JOBS_HEADER: &str = "submit_ms,start_ms,end_ms,end_event,user_ix,sched_class,job_id";

const SUBMIT: u8 = 0;
const SCHEDULE: u8 = 1;
const FINISH: u8 = 4;

/// A job whose tasks have all ended is returned once this time has passed in the trace without another event of it: ended tasks may be
/// submitted again.
const IDLE_US: i64 = 3_600_000_000;

/// Reader of task or job events. Only jobs that are not complete are in memory.
pub(crate) struct GoogleReader {
    lines: Lines,
    table: Table,
    jobs: JobsById<u64, GoogleJob>,
    /// Jobs all of whose tasks had ended, with the time of the event after which that was so; in the order of the input.
    idle: VecDeque<(i64, u64)>,
}

#[derive(Default)]
struct GoogleJob {
    id: u64,
    user: String,
    priority: u8,
    /// Earliest SUBMIT; 0 if it was before the trace.
    submit_us: Option<i64>,
    /// Tasks that were submitted at least once.
    submitted: FxHashSet<u32>,
    /// Start of each running task; None if it is submitted and not running.
    open: FxHashMap<u32, Option<i64>>,
    last_end: Option<u8>,
    last_event_us: i64,
    tally: TaskTally,
}

/// One event of a task or job.
struct Row<'a> {
    time_us: i64,
    job: u64,
    task: u32,
    event: u8,
    user: &'a str,
    priority: u8,
}

/// The table that a line belongs to.
pub(crate) fn matches(line: &str) -> Option<Table> {
    if line.trim() == JOBS_HEADER {
        return Some(Table::Jobs);
    }
    [Table::TaskEvents, Table::JobEvents].into_iter().find(|&table| row(table, line).is_some())
}

fn row(table: Table, line: &str) -> Option<Row<'_>> {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    let number = |at: usize| columns.get(at).and_then(|text| text.parse::<u64>().ok());
    let (event, user, priority, task, width) = match table {
        Table::TaskEvents => (5, 6, number(8), number(3)?, 13),
        Table::JobEvents => (3, 4, None, 0, 8),
        Table::Jobs => return None,
    };
    let event = number(event).filter(|&event| event <= 8)? as u8;
    Some(Row {
        time_us: number(0).map(|us| i64::try_from(us).unwrap_or(i64::MAX))?,
        job: number(2)?,
        task: u32::try_from(task).ok()?,
        event,
        user: columns.get(user).copied().filter(|_| columns.len() == width)?,
        priority: priority.unwrap_or(2).min(11) as u8,
    })
}

impl GoogleReader {
    pub(crate) fn new(lines: Lines, table: Table) -> GoogleReader {
        GoogleReader { lines, table, jobs: JobsById::default(), idle: VecDeque::new() }
    }

    /// Reads events up to the next complete job; None at the end of the input.
    fn next_complete(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        while let Some((number, line)) = self.lines.next(&mut reading.diagnostics) {
            if line.trim().is_empty() {
                continue;
            }
            reading.add(Count::Rows, 1);
            let Some(row) = row(self.table, line) else {
                reading.odd(Oddity::BadLine, format_args!("line {number}"));
                continue;
            };
            let job = self.jobs.job(&row.job, reading, |reading| {
                reading.count_user(row.user);
                GoogleJob { id: row.job, user: row.user.into(), priority: row.priority, ..GoogleJob::default() }
            });
            if let Some(job) = job {
                job.event(&row, reading);
                job.last_event_us = row.time_us;
                if job.has_ended() {
                    self.idle.push_back((row.time_us, row.job));
                }
            }
            let now_us = row.time_us;
            while let Some(&(since_us, id)) = self.idle.front()
                && now_us.saturating_sub(since_us) > IDLE_US
            {
                self.idle.pop_front();
                let complete = self.jobs.take(&id, |job| job.has_ended() && job.last_event_us == since_us);
                if let Some(job) = complete.and_then(|job| job.finished(reading)) {
                    return Some(job);
                }
            }
        }
        None
    }
}

/// Reads a row of the table of jobs.
pub(crate) fn read_job(line: &str, reading: &mut Reading) -> Option<Option<TraceJob>> {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    let &[submit, start, end, event, user, _class, id] = columns.as_slice() else { return None };
    let time = |text: &str| text.parse::<i64>().ok().and_then(us_from_ms);
    reading.count_user(user);
    let Some(submit_us) = time(submit).filter(|&us| us > 0) else {
        reading.odd(Oddity::SubmittedBefore, id);
        return Some(None);
    };
    let mut tally = TaskTally::default();
    match (time(start), time(end)) {
        (Some(start_us), Some(finish_us)) => {
            let task = FinishedTask { start_us, finish_us, ..FinishedTask::default() };
            tally.map(task, reading, id);
        }
        _ => reading.odd(Oddity::UnfinishedTask, id),
    }
    let finish_us = tally.last_finish_us;
    let outcome = match event {
        "4" | "FINISH" => JobOutcome::Succeeded,
        "3" | "6" | "FAIL" | "LOST" => JobOutcome::Failed,
        "2" | "5" | "KILL" | "EVICT" => JobOutcome::Killed,
        _ => JobOutcome::Unknown,
    };
    let job = reading.job(id, submit_us, tally.tasks()).of(Some(format!("user-{user}")), None);
    Some(Some(TraceJob { finish_us, outcome, ..job }))
}

/// Google's priorities: 0-1 is free, 9-11 production.
fn priority(number: u8) -> Priority {
    match number {
        0..=1 => Priority::VeryLow,
        2..=8 => Priority::Normal,
        _ => Priority::High,
    }
}

impl GoogleJob {
    /// Whether all of its tasks have ended.
    fn has_ended(&self) -> bool {
        self.open.is_empty() && self.last_end.is_some()
    }

    fn finished(self, reading: &mut Reading) -> Option<TraceJob> {
        let id = self.id.to_string();
        reading.diagnostics.odd_times(Oddity::UnfinishedTask, self.open.len() as u64, &id);
        let Some(submit_us) = self.submit_us.filter(|&us| us > 0) else {
            reading.odd(Oddity::SubmittedBefore, &id);
            return None;
        };
        let outcome = match self.last_end {
            _ if !self.open.is_empty() => JobOutcome::Unknown,
            Some(FINISH) => JobOutcome::Succeeded,
            Some(3 | 6) => JobOutcome::Failed,
            Some(_) => JobOutcome::Killed,
            None => JobOutcome::Unknown,
        };
        let finish_us = self.tally.last_finish_us.filter(|_| outcome != JobOutcome::Unknown);
        let job = reading.job(&id, submit_us, self.tally.tasks()).of(Some(self.user), None);
        Some(TraceJob { priority: priority(self.priority), finish_us, outcome, ..job })
    }

    fn event(&mut self, row: &Row<'_>, reading: &mut Reading) {
        let tasks_max = reading.limits.tasks_per_job;
        match row.event {
            SUBMIT => {
                self.submit_us = Some(self.submit_us.map_or(row.time_us, |first| first.min(row.time_us)));
                if self.submitted.len() < tasks_max || self.submitted.contains(&row.task) {
                    self.open.insert(row.task, None);
                    reading.add(Count::Tasks, u64::from(self.submitted.insert(row.task)));
                } else {
                    reading.odd(Oddity::TooManyTasks, self.id);
                }
            }
            SCHEDULE => {
                if let Some(start) = self.open.get_mut(&row.task) {
                    *start = Some(row.time_us);
                } else if self.open.len() < tasks_max {
                    // Submitted before the part of the trace that is read.
                    self.open.insert(row.task, Some(row.time_us));
                }
            }
            2..=6 => {
                let start = self.open.remove(&row.task).flatten();
                self.last_end = Some(row.event);
                match (row.event, start) {
                    (FINISH, Some(start_us)) => {
                        reading.add(Count::SucceededAttempts, 1);
                        let task = FinishedTask { start_us, finish_us: row.time_us, ..FinishedTask::default() };
                        self.tally.map(task, reading, &self.id.to_string());
                    }
                    (FINISH, None) => reading.odd(Oddity::StartedBefore, self.id),
                    (event, _) => reading.unsuccessful(!matches!(event, 3 | 6), self.id),
                }
            }
            // Changes of resource requests.
            _ => {}
        }
    }
}

impl JobReader for GoogleReader {
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        let complete = self.next_complete(reading);
        complete.or_else(|| self.jobs.next_at_end(|job| job.finished(reading)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::trace::{read_bytes, read_text};
    use giveway_core::Span;

    fn event(time_s: u64, job: u64, task: u32, event: u8) -> String {
        format!("{},,{job},{task},9,{event},hash=,0,9,0.1,0.1,0.1,0", time_s * 1_000_000)
    }

    #[test]
    fn tasks_become_maps() {
        let text = [
            event(700, 1, 0, 0),
            event(700, 1, 1, 0),
            event(701, 1, 0, 1),
            event(702, 1, 1, 1),
            event(703, 1, 1, 2),
            event(703, 1, 1, 0),
            event(705, 1, 1, 1),
            event(711, 1, 0, 4),
            event(725, 1, 1, 4),
            event(726, 2, 0, 4),
            event(727, 3, 0, 0),
            event(728, 3, 0, 1),
            "5,x".into(),
        ];
        let (jobs, diagnostics) = read_text(&text.join("\n"));
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((job.maps.count, job.maps.time.span(), job.submit_us), (2, Span::from_secs(15), 700_000_000));
        assert_eq!((job.outcome, job.priority), (JobOutcome::Succeeded, Priority::High));
        for oddity in [
            Oddity::KilledAttempt,
            Oddity::StartedBefore,
            Oddity::SubmittedBefore,
            Oddity::UnfinishedTask,
            Oddity::NoTasks,
            Oddity::BadLine,
        ] {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }

    #[test]
    fn job_events_and_rows_become_one_map() {
        let (jobs, _) = read_text(
            "700000000,,7,0,u=,1,n=,l=\n701000000,,7,1,u=,1,n=,l=\n721000000,,7,5,u=,1,n=,l=\n8000000,,8,0,u=,1,n=,l=\n9000000,,8,1,u=,1,n=,l=\n19000000,,8,4,u=,1,n=,l=\n",
        );
        assert_eq!(jobs.len(), 1, "a killed job has no finished task");
        assert_eq!((jobs[0].maps.count, jobs[0].maps.time.span()), (1, Span::from_secs(10)));
        let rows = format!(
            "{JOBS_HEADER}\n0,0,,,0,3,5\n700000,701000,711000,4,1,0,6\n700000,,,,1,0,7\n700000,9,8,3,1,0,8\nx\n"
        );
        let (jobs, diagnostics) = read_text(&rows);
        assert_eq!((jobs.len(), jobs[0].user.as_str()), (1, "user-1"));
        for oddity in [Oddity::SubmittedBefore, Oddity::UnfinishedTask, Oddity::TaskEndsBeforeStart, Oddity::BadLine] {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }

    #[test]
    fn complete_jobs_do_not_stay_in_memory() {
        // One job every ten seconds, each of one task of five seconds: at most 361 of them are waiting for the hour to pass.
        let job =
            |job: u64| [(0, 0), (1, 1), (5, 4)].map(|(later_s, kind)| event(700 + 10 * job + later_s, job, 0, kind));
        let text: String = (0..2_000).flat_map(job).map(|line| line + "\n").collect();
        let mut options = Options::default();
        options.limits.open_jobs = 400;
        let (jobs, diagnostics) = read_bytes(text.as_bytes(), &options);
        assert_eq!((jobs.len(), diagnostics.of(Oddity::TooManyOpenJobs)), (2_000, 0));
        assert!(jobs.is_sorted_by_key(|job| job.submit_us));
        options.limits.open_jobs = 300;
        assert!(read_bytes(text.as_bytes(), &options).1.of(Oddity::TooManyOpenJobs) > 0);
    }

    #[test]
    fn a_task_that_is_submitted_again_within_an_hour_is_the_same_job() {
        let text = [
            event(700, 1, 0, 0),
            event(701, 1, 0, 1),
            event(702, 1, 0, 2),
            event(3_000, 2, 0, 0),
            event(4_000, 1, 0, 0),
        ];
        let text = text.into_iter().chain([event(4_001, 1, 0, 1), event(4_010, 1, 0, 4), event(9_000, 2, 0, 4)]);
        let (jobs, diagnostics) = read_text(&text.map(|line| line + "\n").collect::<String>());
        assert_eq!(diagnostics.of(Oddity::RepeatedId), 0);
        assert_eq!((jobs[0].id.as_str(), jobs[0].maps.count, jobs[0].maps.time.span()), ("1", 1, Span::from_secs(9)));
    }
}
