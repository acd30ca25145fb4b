//! SLS, the input of YARN's Scheduler Load Simulator: a sequence of JSON objects, one per job, with all its containers. Times are in
//! milliseconds. A container without the type `reduce` is a map.

use super::Reading;
use crate::tally::{FinishedTask, TaskTally, us_from_ms};
use crate::{Count, JobOutcome, Oddity, TraceJob};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Most repetitions of one job.
const MAX_REPEATS: i64 = 100_000;

#[derive(Deserialize)]
pub(crate) struct SlsJob {
    #[serde(rename = "job.start.ms")]
    start_ms: Option<i64>,
    #[serde(rename = "job.end.ms")]
    end_ms: Option<i64>,
    #[serde(rename = "job.queue.name")]
    queue: Option<String>,
    #[serde(rename = "job.id")]
    id: Option<String>,
    #[serde(rename = "job.user")]
    user: Option<String>,
    #[serde(rename = "job.count")]
    count: Option<i64>,
    #[serde(rename = "job.tasks")]
    tasks: Option<Vec<SlsTask>>,
    /// Only in the leading object, which declares a cluster and no job.
    #[serde(rename = "num.nodes")]
    nodes: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct SlsTask {
    #[serde(rename = "container.start.ms")]
    start_ms: Option<i64>,
    #[serde(rename = "container.end.ms")]
    end_ms: Option<i64>,
    #[serde(rename = "container.duration.ms")]
    duration_ms: Option<i64>,
    #[serde(rename = "container.type")]
    kind: Option<String>,
    count: Option<i64>,
}

/// The job of an object, as often as it is repeated.
pub(crate) fn jobs(number: u64, job: SlsJob, reading: &mut Reading) -> Vec<TraceJob> {
    let Some(tasks) = job.tasks else {
        if job.nodes.is_none() {
            reading.odd(Oddity::BadObject, format_args!("object {number}: no job.tasks"));
        }
        return Vec::new();
    };
    let id = job.id.unwrap_or_else(|| format!("job-{number}"));
    let mut tally = TaskTally::default();
    for task in tasks {
        add(&id, &task, &mut tally, reading);
    }
    let Some(submit_us) = job.start_ms.and_then(us_from_ms).or(tally.first_start_us) else {
        reading.odd(Oddity::MissingSubmit, &id);
        return Vec::new();
    };
    let first = TraceJob {
        finish_us: job.end_ms.and_then(us_from_ms),
        outcome: JobOutcome::Succeeded,
        ..reading.job(&id, submit_us, tally.tasks()).of(job.user, job.queue)
    };
    let repeats = job.count.unwrap_or(1).clamp(1, MAX_REPEATS);
    if repeats > 1 {
        reading.odd(Oddity::RepeatedJobs, &id);
    }
    let repeated = |repeat: i64| {
        let id = if repeat == 1 { id.clone() } else { format!("{id}-{repeat}") };
        TraceJob { name: id.clone(), id, ..first.clone() }
    };
    (1..=repeats).map(repeated).collect()
}

fn add(id: &str, task: &SlsTask, tally: &mut TaskTally, reading: &mut Reading) {
    let start_us = task.start_ms.and_then(us_from_ms);
    let finish_us = match (task.end_ms.and_then(us_from_ms), task.duration_ms.and_then(us_from_ms)) {
        (_, Some(duration)) => Some(start_us.unwrap_or(0).saturating_add(duration)),
        (end, None) => start_us.and(end),
    };
    let Some(finish_us) = finish_us else { return reading.odd(Oddity::UnfinishedTask, id) };
    let start_us = start_us.unwrap_or(0);
    if finish_us < start_us {
        return reading.odd(Oddity::TaskEndsBeforeStart, id);
    }
    let finished = FinishedTask { start_us, finish_us, ..FinishedTask::default() };
    let count = task.count.unwrap_or(1).max(0);
    let is_reduce = task.kind.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("reduce"));
    reading.add(if is_reduce { Count::Reduces } else { Count::Maps }, count.unsigned_abs());
    for _ in 0..count {
        if tally.is_full(reading) {
            return reading.odd(Oddity::TooManyTasks, id);
        }
        if is_reduce {
            // With a duration instead of times it is not known how long the reduce waited for maps.
            tally.reduce(finished, reading, id);
        } else {
            tally.map(finished, reading, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use giveway_core::Span;

    #[test]
    fn a_huge_count_is_cut_and_reported_without_counting_up_to_it() {
        let text = r#"{"job.start.ms": 0, "job.id": "a", "job.tasks": [
            {"container.duration.ms": 1000, "count": 9000000000000000000},
            {"container.start.ms": 9000, "container.end.ms": 8000, "count": 9000000000000000000},
            {"container.duration.ms": 1000, "count": 9000000000000000000}]}"#;
        let (jobs, diagnostics) = read_text(text);
        assert_eq!((jobs[0].maps.count, diagnostics.of(Oddity::TooManyTasks)), (1_000_000, 2));
        assert_eq!(diagnostics.of(Oddity::TaskEndsBeforeStart), 1);
    }

    #[test]
    fn containers_become_maps_and_reduces() {
        let text = r#"{"num.nodes": 4, "num.racks": 2}
            {"job.start.ms": 1000, "job.id": "a", "job.queue.name": "q", "job.user": "ann", "job.count": 2, "job.tasks": [
              {"container.start.ms": 2000, "container.end.ms": 5000, "container.type": "map"},
              {"container.duration.ms": 1000, "count": 2},
              {"container.start.ms": 4000, "container.end.ms": 9000, "container.type": "reduce"},
              {"container.start.ms": 9000, "container.end.ms": 8000, "container.type": "map"}]}
            {"job.start.ms": "soon", "job.tasks": []} {"job.id": "c", "job.tasks": [{}]} {"job.id": 5}"#;
        let (jobs, diagnostics) = read_text(text);
        let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, ["a", "a-2"]);
        assert_eq!((jobs[0].pool.as_str(), jobs[0].user.as_str(), jobs[0].submit_us), ("q", "ann", 1_000_000));
        assert_eq!((jobs[0].maps.count, jobs[0].reduces.count), (3, 1));
        assert_eq!(jobs[0].reduces.time.span(), Span::from_secs(4), "from the end of the last map");
        for (oddity, times) in [
            (Oddity::BadObject, 2),
            (Oddity::UnfinishedTask, 1),
            (Oddity::MissingSubmit, 1),
            (Oddity::TaskEndsBeforeStart, 1),
            (Oddity::RepeatedJobs, 1),
        ] {
            assert_eq!(diagnostics.of(oddity), times, "{oddity:?}");
        }
    }
}
