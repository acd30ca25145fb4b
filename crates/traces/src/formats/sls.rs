//! SLS, the input of YARN's Scheduler Load Simulator: a sequence of JSON objects, one per job, with all its containers. Times are in
//! milliseconds. A container without the type `reduce` is a map.

use super::JobReader;
use crate::records::Objects;
use crate::tally::{FinishedTask, TaskTally, us_from_ms};
use crate::{Count, Diagnostics, DurationModel, JobOutcome, Limits, Oddity, TraceJob};
use giveway_core::Priority;
use serde::Deserialize;
use std::collections::VecDeque;

/// Most repetitions of one job.
const MAX_REPEATS: i64 = 100_000;

#[derive(Deserialize)]
struct SlsJob {
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

/// Reader of an SLS job file.
pub(crate) struct SlsReader {
    objects: Objects,
    model: DurationModel,
    limits: Limits,
    /// Repetitions of the last job.
    pending: VecDeque<TraceJob>,
}

impl SlsReader {
    pub(crate) fn new(objects: Objects, model: DurationModel, limits: Limits) -> SlsReader {
        SlsReader { objects, model, limits, pending: VecDeque::new() }
    }

    fn job(&mut self, number: u64, job: SlsJob, tasks: Vec<SlsTask>, diagnostics: &mut Diagnostics) {
        let id = job.id.unwrap_or_else(|| format!("job-{number}"));
        let mut tally = TaskTally::default();
        for task in tasks {
            self.add(&id, &task, &mut tally, diagnostics);
        }
        let Some(submit_us) = job.start_ms.and_then(us_from_ms).or(tally.first_start_us) else {
            diagnostics.odd(Oddity::MissingSubmit, &id);
            return;
        };
        let user = job.user.unwrap_or_else(|| "default".into());
        let finish_us = job.end_ms.and_then(us_from_ms);
        let (maps, reduces) = tally.tasks();
        let job_of = |id: String| TraceJob {
            name: id.clone(),
            id,
            pool: job.queue.clone().unwrap_or_else(|| user.clone()),
            user: user.clone(),
            priority: Priority::Normal,
            submit_us,
            finish_us,
            outcome: JobOutcome::Succeeded,
            maps,
            reduces,
            slowstart_ppm: self.model.slowstart_ppm(),
        };
        let repeats = job.count.unwrap_or(1).clamp(1, MAX_REPEATS);
        if repeats > 1 {
            diagnostics.odd(Oddity::RepeatedJobs, &id);
        }
        self.pending.push_back(job_of(id.clone()));
        self.pending.extend((2..=repeats).map(|repeat| job_of(format!("{id}-{repeat}"))));
    }

    fn add(&self, id: &str, task: &SlsTask, tally: &mut TaskTally, diagnostics: &mut Diagnostics) {
        let start_us = task.start_ms.and_then(us_from_ms);
        let finish_us = match (task.end_ms.and_then(us_from_ms), task.duration_ms.and_then(us_from_ms)) {
            (_, Some(duration)) => Some(start_us.unwrap_or(0).saturating_add(duration)),
            (end, None) => start_us.and(end),
        };
        let Some(finish_us) = finish_us else {
            diagnostics.odd(Oddity::UnfinishedTask, id);
            return;
        };
        if finish_us < start_us.unwrap_or(0) {
            diagnostics.odd(Oddity::TaskEndsBeforeStart, id);
            return;
        }
        let finished = FinishedTask { start_us: start_us.unwrap_or(0), finish_us, ..FinishedTask::default() };
        let (count, limit) = (task.count.unwrap_or(1).max(0), self.limits.tasks_per_job);
        let is_reduce = task.kind.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("reduce"));
        diagnostics.add(if is_reduce { Count::Reduces } else { Count::Maps }, count.unsigned_abs());
        for _ in 0..count {
            if tally.is_full(limit) {
                diagnostics.odd(Oddity::TooManyTasks, id);
                break;
            }
            if is_reduce {
                // With a duration instead of times it is not known how long the reduce waited for maps.
                tally.reduce(finished, limit, diagnostics, id);
            } else {
                tally.map(finished, limit, diagnostics, id);
            }
        }
    }
}

impl JobReader for SlsReader {
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob> {
        loop {
            if let Some(job) = self.pending.pop_front() {
                return Some(job);
            }
            let (number, object) = self.objects.next(diagnostics)?;
            let text = crate::records::text(object, diagnostics, || format!("object {number}"));
            match serde_json::from_str::<SlsJob>(&text) {
                Ok(mut job) => match job.tasks.take() {
                    Some(tasks) => self.job(number, job, tasks, diagnostics),
                    // The leading object with `num.nodes` and `num.racks` declares a cluster, not a job.
                    None if text.contains("\"num.nodes\"") => {}
                    None => diagnostics.odd(Oddity::BadObject, format_args!("object {number}: no job.tasks")),
                },
                Err(error) => diagnostics.odd(Oddity::BadObject, format_args!("object {number}: {error}")),
            }
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
