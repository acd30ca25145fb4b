//! Rumen: a sequence of JSON objects, one per job, with all tasks and attempts. Times are milliseconds since the epoch; -1 is unknown. The
//! time of a task is that of its last successful attempt.

use super::JobReader;
use crate::records::Objects;
use crate::tally::{FinishedTask, TaskTally, bytes, us_from_ms};
use crate::{Count, Diagnostics, DurationModel, JobOutcome, Limits, Oddity, TraceJob};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RumenJob {
    #[serde(rename = "jobID")]
    job_id: Option<String>,
    job_name: Option<String>,
    user: Option<String>,
    queue: Option<String>,
    priority: Option<String>,
    submit_time: i64,
    finish_time: i64,
    outcome: Option<String>,
    total_maps: i64,
    total_reduces: i64,
    map_tasks: Vec<RumenTask>,
    reduce_tasks: Vec<RumenTask>,
    other_tasks: Vec<IgnoredAny>,
}

impl Default for RumenJob {
    fn default() -> RumenJob {
        RumenJob {
            job_id: None,
            job_name: None,
            user: None,
            queue: None,
            priority: None,
            submit_time: -1,
            finish_time: -1,
            outcome: None,
            total_maps: -1,
            total_reduces: -1,
            map_tasks: Vec::new(),
            reduce_tasks: Vec::new(),
            other_tasks: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RumenTask {
    #[serde(rename = "taskID", default)]
    task_id: Option<String>,
    #[serde(default = "unknown")]
    start_time: i64,
    #[serde(default = "unknown")]
    input_bytes: i64,
    #[serde(default = "unknown")]
    output_bytes: i64,
    #[serde(default)]
    preferred_locations: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    attempts: Option<Vec<RumenAttempt>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RumenAttempt {
    #[serde(default = "unknown")]
    start_time: i64,
    #[serde(default = "unknown")]
    finish_time: i64,
    #[serde(default)]
    result: Option<String>,
    #[serde(default = "unknown")]
    hdfs_bytes_read: i64,
    #[serde(default = "unknown")]
    hdfs_bytes_written: i64,
    #[serde(default = "unknown")]
    map_input_bytes: i64,
    #[serde(default = "unknown")]
    map_output_bytes: i64,
    #[serde(default = "unknown")]
    reduce_shuffle_bytes: i64,
}

fn unknown() -> i64 {
    -1
}

/// Reader of a Rumen job trace.
pub(crate) struct RumenReader {
    objects: Objects,
    model: DurationModel,
    limits: Limits,
}

impl RumenReader {
    pub(crate) fn new(objects: Objects, model: DurationModel, limits: Limits) -> RumenReader {
        RumenReader { objects, model, limits }
    }

    fn job(&self, number: u64, job: RumenJob, diagnostics: &mut Diagnostics) -> Option<TraceJob> {
        let id = job.job_id.unwrap_or_else(|| format!("job-{number}"));
        diagnostics.add(Count::Maps, job.map_tasks.len() as u64);
        diagnostics.add(Count::Reduces, job.reduce_tasks.len() as u64);
        diagnostics.odd_times(Oddity::OtherTasks, job.other_tasks.len() as u64, &id);
        let fewer = |tasks: &[RumenTask], declared: i64| declared > 0 && (tasks.len() as u64) < declared.unsigned_abs();
        if fewer(&job.map_tasks, job.total_maps) || fewer(&job.reduce_tasks, job.total_reduces) {
            diagnostics.odd(Oddity::FewerTasksThanDeclared, &id);
        }
        let mut tally = TaskTally::default();
        for task in &job.map_tasks {
            if task.preferred_locations.as_ref().is_some_and(|locations| !locations.is_empty()) {
                diagnostics.add(Count::MapsWithReplicas, 1);
            }
            if let Some((attempt, finished)) = winner(task, &id, diagnostics) {
                let input = [attempt.map_input_bytes, attempt.hdfs_bytes_read, task.input_bytes];
                let output = [attempt.map_output_bytes, task.output_bytes];
                let finished =
                    FinishedTask { input_bytes: first_known(&input), output_bytes: first_known(&output), ..finished };
                tally.map(finished, self.limits.tasks_per_job, diagnostics, &id);
            }
        }
        for task in &job.reduce_tasks {
            if let Some((attempt, finished)) = winner(task, &id, diagnostics) {
                let input = [attempt.reduce_shuffle_bytes, task.input_bytes];
                let output = [attempt.hdfs_bytes_written, task.output_bytes];
                let finished =
                    FinishedTask { input_bytes: first_known(&input), output_bytes: first_known(&output), ..finished };
                tally.reduce(finished, self.limits.tasks_per_job, diagnostics, &id);
            }
        }
        let submit_us = us_from_ms(job.submit_time).or_else(|| {
            diagnostics.odd(Oddity::MissingSubmit, &id);
            tally.first_start_us
        })?;
        let user = job.user.unwrap_or_else(|| "default".into());
        // Newer files have no outcome: a job with an end succeeded.
        let outcome = match job.outcome.as_deref() {
            Some("SUCCESS" | "SUCCEEDED") => JobOutcome::Succeeded,
            Some("FAILED" | "FAILURE") => JobOutcome::Failed,
            Some("KILLED") => JobOutcome::Killed,
            _ if job.finish_time >= 0 => JobOutcome::Succeeded,
            _ => JobOutcome::Unknown,
        };
        let (maps, reduces) = tally.tasks();
        Some(TraceJob {
            name: job.job_name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.clone()),
            id,
            pool: job.queue.unwrap_or_else(|| user.clone()),
            user,
            priority: super::hadoop_priority(job.priority.as_deref()),
            submit_us,
            finish_us: us_from_ms(job.finish_time),
            outcome,
            maps,
            reduces,
            slowstart_ppm: self.model.slowstart_ppm(),
        })
    }
}

/// The last successful attempt of a task and its times; counts all attempts.
fn winner<'a>(
    task: &'a RumenTask,
    job: &str,
    diagnostics: &mut Diagnostics,
) -> Option<(&'a RumenAttempt, FinishedTask)> {
    let place = task.task_id.as_deref().unwrap_or(job);
    let attempts = task.attempts.as_deref().unwrap_or_default();
    if attempts.is_empty() {
        diagnostics.odd(Oddity::NoAttempts, place);
        return None;
    }
    let mut winner = None;
    for attempt in attempts {
        if attempt.start_time >= 0 && attempt.start_time < task.start_time {
            diagnostics.odd(Oddity::AttemptBeforeTask, place);
        }
        match attempt.result.as_deref() {
            Some("SUCCESS" | "SUCCEEDED") => {
                diagnostics.add(Count::SucceededAttempts, 1);
                winner = Some(attempt);
            }
            Some("KILLED") => {
                diagnostics.add(Count::KilledAttempts, 1);
                diagnostics.odd(Oddity::KilledAttempt, place);
            }
            _ => {
                diagnostics.add(Count::FailedAttempts, 1);
                diagnostics.odd(Oddity::FailedAttempt, place);
            }
        }
    }
    let times = winner.and_then(|attempt| Some((us_from_ms(attempt.start_time)?, us_from_ms(attempt.finish_time)?)));
    match (winner, times) {
        (Some(attempt), Some((start_us, finish_us))) => {
            Some((attempt, FinishedTask { start_us, finish_us, ..FinishedTask::default() }))
        }
        _ => {
            diagnostics.odd(Oddity::NoFinishedAttempt, place);
            None
        }
    }
}

/// The first number that is not -1, as bytes.
fn first_known(numbers: &[i64]) -> u64 {
    numbers.iter().find(|&&number| number >= 0).map_or(0, |&number| bytes(number))
}

impl JobReader for RumenReader {
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob> {
        loop {
            let (number, object) = self.objects.next(diagnostics)?;
            let text = crate::records::text(object, diagnostics, || format!("object {number}"));
            match serde_json::from_str::<RumenJob>(&text) {
                Ok(job) => {
                    if let Some(job) = self.job(number, job, diagnostics) {
                        return Some(job);
                    }
                }
                Err(error) => diagnostics.odd(Oddity::BadObject, format_args!("object {number}: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use giveway_core::{Priority, Span};

    #[test]
    fn the_last_successful_attempt_counts() {
        let text = r#"{"jobID":"j1","user":"ann","queue":"q","priority":"VERY_HIGH","submitTime":1000,"finishTime":9000,
            "outcome":"FAILED","totalMaps":3,"totalReduces":1,"mapTasks":[
             {"taskID":"m0","startTime":2000,"preferredLocations":[{"layers":["r","n"]}],"attempts":[
               {"startTime":1500,"finishTime":1800,"result":"FAILED"},
               {"startTime":2000,"finishTime":5000,"result":"SUCCESS","hdfsBytesRead":70,"mapOutputBytes":30}]},
             {"taskID":"m1","attempts":[]}],
            "reduceTasks":[{"attempts":[{"startTime":3000,"finishTime":8000,"result":"SUCCESS","hdfsBytesWritten":5},
               {"startTime":3000,"finishTime":3500,"result":"KILLED"}]}],
            "otherTasks":[{"taskType":"SETUP"}]}
            {"jobID":"j2","mapTasks":[{"attempts":[{"startTime":-1,"finishTime":5,"result":"SUCCESS"}]}]}"#;
        let (jobs, diagnostics) = read_text(text);
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((job.maps.count, job.maps.input_bytes, job.maps.output_bytes), (1, 70, 30));
        assert_eq!((job.maps.time.span(), job.reduces.time.span()), (Span::from_secs(3), Span::from_secs(3)));
        assert_eq!((job.priority, job.outcome, job.pool.as_str()), (Priority::VeryHigh, JobOutcome::Failed, "q"));
        for (oddity, times) in [
            (Oddity::FailedAttempt, 1),
            (Oddity::KilledAttempt, 1),
            (Oddity::AttemptBeforeTask, 1),
            (Oddity::NoAttempts, 1),
            (Oddity::NoFinishedAttempt, 1),
            (Oddity::OtherTasks, 1),
            (Oddity::FewerTasksThanDeclared, 1),
            (Oddity::MissingSubmit, 1),
            (Oddity::FailedJob, 1),
        ] {
            assert_eq!(diagnostics.of(oddity), times, "{oddity:?}");
        }
        assert_eq!(diagnostics.count(Count::MapsWithReplicas), 1);
    }
}
