//! Rumen: a sequence of JSON objects, one per job, with all tasks and attempts. Times are milliseconds since the epoch; -1 is unknown. The
//! time of a task is that of its last successful attempt.

use super::{Reading, hadoop_priority};
use crate::tally::{FinishedTask, TaskTally, bytes, us_from_ms};
use crate::{Count, JobOutcome, Oddity, TraceJob};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RumenJob {
    #[serde(rename = "jobID")]
    job_id: Option<String>,
    job_name: Option<String>,
    user: Option<String>,
    queue: Option<String>,
    priority: Option<String>,
    submit_time: Option<i64>,
    finish_time: Option<i64>,
    outcome: Option<String>,
    total_maps: Option<i64>,
    total_reduces: Option<i64>,
    map_tasks: Vec<RumenTask>,
    reduce_tasks: Vec<RumenTask>,
    other_tasks: Vec<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RumenTask {
    #[serde(rename = "taskID")]
    task_id: Option<String>,
    start_time: Option<i64>,
    input_bytes: Option<i64>,
    output_bytes: Option<i64>,
    preferred_locations: Option<Vec<IgnoredAny>>,
    attempts: Option<Vec<RumenAttempt>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RumenAttempt {
    start_time: Option<i64>,
    finish_time: Option<i64>,
    result: Option<String>,
    hdfs_bytes_read: Option<i64>,
    hdfs_bytes_written: Option<i64>,
    map_input_bytes: Option<i64>,
    map_output_bytes: Option<i64>,
    reduce_shuffle_bytes: Option<i64>,
}

pub(crate) fn job(number: u64, job: RumenJob, reading: &mut Reading) -> Option<TraceJob> {
    let id = job.job_id.unwrap_or_else(|| format!("job-{number}"));
    reading.add(Count::Maps, job.map_tasks.len() as u64);
    reading.add(Count::Reduces, job.reduce_tasks.len() as u64);
    reading.diagnostics.odd_times(Oddity::OtherTasks, job.other_tasks.len() as u64, &id);
    let fewer = |tasks: &[RumenTask], declared: Option<i64>| (tasks.len() as u64) < declared.map_or(0, bytes);
    if fewer(&job.map_tasks, job.total_maps) || fewer(&job.reduce_tasks, job.total_reduces) {
        reading.odd(Oddity::FewerTasksThanDeclared, &id);
    }
    let mut tally = TaskTally::default();
    for task in &job.map_tasks {
        if task.preferred_locations.as_ref().is_some_and(|locations| !locations.is_empty()) {
            reading.add(Count::MapsWithReplicas, 1);
        }
        if let Some((attempt, finished)) = winner(task, &id, reading) {
            let input_bytes = first_known(&[attempt.map_input_bytes, attempt.hdfs_bytes_read, task.input_bytes]);
            let output_bytes = first_known(&[attempt.map_output_bytes, task.output_bytes]);
            tally.map(FinishedTask { input_bytes, output_bytes, ..finished }, reading, &id);
        }
    }
    for task in &job.reduce_tasks {
        if let Some((attempt, finished)) = winner(task, &id, reading) {
            let input_bytes = first_known(&[attempt.reduce_shuffle_bytes, task.input_bytes]);
            let output_bytes = first_known(&[attempt.hdfs_bytes_written, task.output_bytes]);
            tally.reduce(FinishedTask { input_bytes, output_bytes, ..finished }, reading, &id);
        }
    }
    let submit_us = job.submit_time.and_then(us_from_ms).or_else(|| {
        reading.odd(Oddity::MissingSubmit, &id);
        tally.first_start_us
    })?;
    let finish_us = job.finish_time.and_then(us_from_ms);
    let outcome = match JobOutcome::of(job.outcome.as_deref()) {
        // Newer files have no outcome: a job with an end succeeded.
        JobOutcome::Unknown if finish_us.is_some() => JobOutcome::Succeeded,
        outcome => outcome,
    };
    let priority = hadoop_priority(job.priority.as_deref());
    let read = reading.job(&id, submit_us, tally.tasks()).named(job.job_name).of(job.user, job.queue);
    Some(TraceJob { priority, finish_us, outcome, ..read })
}

/// The last successful attempt of a task and its times; counts all attempts.
fn winner<'a>(task: &'a RumenTask, job: &str, reading: &mut Reading) -> Option<(&'a RumenAttempt, FinishedTask)> {
    let place = task.task_id.as_deref().unwrap_or(job);
    let attempts = task.attempts.as_deref().unwrap_or_default();
    if attempts.is_empty() {
        reading.odd(Oddity::NoAttempts, place);
        return None;
    }
    let mut winner = None;
    for attempt in attempts {
        if attempt.start_time.is_some_and(|ms| ms >= 0) && attempt.start_time < task.start_time {
            reading.odd(Oddity::AttemptBeforeTask, place);
        }
        match JobOutcome::of(attempt.result.as_deref()) {
            JobOutcome::Succeeded => {
                reading.add(Count::SucceededAttempts, 1);
                winner = Some(attempt);
            }
            outcome => reading.unsuccessful(outcome == JobOutcome::Killed, place),
        }
    }
    let finished = winner.and_then(|attempt| {
        let (start_us, finish_us) = (us_from_ms(attempt.start_time?)?, us_from_ms(attempt.finish_time?)?);
        Some((attempt, FinishedTask { start_us, finish_us, ..FinishedTask::default() }))
    });
    if finished.is_none() {
        reading.odd(Oddity::NoFinishedAttempt, place);
    }
    finished
}

/// The first number that is known, as bytes.
fn first_known(numbers: &[Option<i64>]) -> u64 {
    numbers.iter().flatten().find(|&&number| number >= 0).map_or(0, |&number| bytes(number))
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
