//! Spark's event logs: one JSON event per line. Each Spark job (action) becomes a job; its stages become maps and reduces where they form two
//! layers. Stages whose output was cached did not run and are left out.

use super::{JobReader, Reading};
use crate::graph::{Stage, map_reduce};
use crate::records::Lines;
use crate::tally::{bytes, us_from_ms};
use crate::{Count, JobOutcome, Oddity, TraceJob};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Reader of an event log.
pub(crate) struct SparkReader {
    lines: Lines,
    application: String,
    user: String,
    jobs: BTreeMap<i64, SparkJob>,
    /// The job of each stage that has not ended.
    job_of_stage: BTreeMap<i64, i64>,
    ready: VecDeque<TraceJob>,
}

struct SparkJob {
    submit_us: i64,
    pool: Option<String>,
    stages: BTreeMap<i64, Stage>,
}

impl SparkReader {
    pub(crate) fn new(lines: Lines) -> SparkReader {
        SparkReader {
            lines,
            application: "application".into(),
            user: "default".into(),
            jobs: BTreeMap::new(),
            job_of_stage: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    fn event(&mut self, event: &Value, reading: &mut Reading) {
        reading.add(Count::Events, 1);
        let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
        match event.get("Event").and_then(Value::as_str).unwrap_or_default() {
            "SparkListenerApplicationStart" => {
                self.application = text("App ID").or(text("App Name")).unwrap_or("application".into());
                self.user = text("User").unwrap_or("default".into());
            }
            "SparkListenerJobStart" => self.job_started(event, reading),
            "SparkListenerTaskEnd" => self.task_ended(event, reading),
            "SparkListenerJobEnd" => {
                let Some(number) = integer(event, "Job ID") else { return };
                let succeeded = event.pointer("/Job Result/Result").and_then(Value::as_str) == Some("JobSucceeded");
                let outcome = if succeeded { JobOutcome::Succeeded } else { JobOutcome::Failed };
                self.job_ended(number, integer(event, "Completion Time"), outcome, reading);
            }
            // The other events have nothing that a workload needs.
            name if name.starts_with("SparkListener") || name.starts_with("org.apache.spark") => {}
            name => reading.odd(Oddity::UnknownEvent, name),
        }
    }

    fn job_started(&mut self, event: &Value, reading: &mut Reading) {
        let Some(number) = integer(event, "Job ID") else { return };
        let Some(submit_us) = integer(event, "Submission Time").and_then(us_from_ms) else {
            return reading.odd(Oddity::MissingSubmit, format_args!("job {number}"));
        };
        if self.jobs.len() >= reading.limits.open_jobs {
            return reading.odd(Oddity::TooManyOpenJobs, format_args!("job {number}"));
        }
        let mut stages = BTreeMap::new();
        for info in event.get("Stage Infos").and_then(Value::as_array).into_iter().flatten() {
            let Some(id) = integer(info, "Stage ID") else { continue };
            let parents = info.get("Parent IDs").and_then(Value::as_array).into_iter().flatten();
            let parents = parents.filter_map(Value::as_u64).collect();
            stages.insert(id, Stage { number: id.unsigned_abs(), parents, ..Stage::default() });
            // A stage of several jobs runs in the first of them that has not ended.
            self.job_of_stage.entry(id).or_insert(number);
        }
        let pool = event.pointer("/Properties/spark.scheduler.pool").and_then(Value::as_str).map(Into::into);
        self.jobs.insert(number, SparkJob { submit_us, pool, stages });
    }

    fn task_ended(&mut self, event: &Value, reading: &mut Reading) {
        let stage = integer(event, "Stage ID");
        let job = stage.and_then(|stage| self.job_of_stage.get(&stage)).and_then(|job| self.jobs.get_mut(job));
        let Some(stage) = job.zip(stage).and_then(|(job, stage)| job.stages.get_mut(&stage)) else {
            return reading.odd(Oddity::UnfinishedTask, "a task of an unknown stage");
        };
        let place = format!("stage {}", stage.number);
        match event.pointer("/Task End Reason/Reason").and_then(Value::as_str) {
            Some("Success") => reading.add(Count::SucceededAttempts, 1),
            reason => return reading.unsuccessful(reason == Some("TaskKilled"), place),
        }
        let at = |pointer: &str| event.pointer(pointer).and_then(Value::as_i64);
        let (Some(launch), Some(finish)) = (at("/Task Info/Launch Time"), at("/Task Info/Finish Time")) else {
            return reading.odd(Oddity::UnfinishedTask, place);
        };
        let Some(ms) = finish.checked_sub(launch).filter(|&ms| ms >= 0) else {
            return reading.odd(Oddity::TaskEndsBeforeStart, place);
        };
        stage.count += 1;
        stage.time_us += u128::from(ms.unsigned_abs()) * 1_000;
        let metric = |pointer: &str| at(&format!("/Task Metrics/{pointer}")).map_or(0, bytes);
        let add = |sum: &mut u64, number: u64| *sum = sum.saturating_add(number);
        add(&mut stage.input_bytes, metric("Input Metrics/Bytes Read"));
        add(&mut stage.input_bytes, metric("Shuffle Read Metrics/Remote Bytes Read"));
        add(&mut stage.input_bytes, metric("Shuffle Read Metrics/Local Bytes Read"));
        add(&mut stage.output_bytes, metric("Shuffle Write Metrics/Shuffle Bytes Written"));
        add(&mut stage.output_bytes, metric("Output Metrics/Bytes Written"));
    }

    fn job_ended(&mut self, number: i64, end_ms: Option<i64>, outcome: JobOutcome, reading: &mut Reading) {
        let Some(job) = self.jobs.remove(&number) else { return };
        self.job_of_stage.retain(|_, job| *job != number);
        let id = format!("{}/{number}", self.application);
        let ran: Vec<Stage> = job.stages.values().filter(|stage| stage.count > 0).cloned().collect();
        reading.diagnostics.odd_times(Oddity::SkippedStage, (job.stages.len() - ran.len()) as u64, &id);
        // A stage that did not run has its output already; who waits for it waits for nothing.
        let did_run = |parent: &u64| ran.iter().any(|stage| stage.number == *parent);
        let stages: Vec<Stage> = ran
            .iter()
            .map(|stage| {
                let parents = stage.parents.iter().copied().filter(did_run).collect();
                Stage { parents, ..stage.clone() }
            })
            .collect();
        let Some(tasks) = map_reduce(&stages, reading, &id) else { return };
        let read = reading.counted_job(&id, job.submit_us, tasks).of(Some(self.user.clone()), job.pool);
        let finish_us = end_ms.and_then(us_from_ms);
        // A stage starts when those it waits for have ended.
        self.ready.push_back(TraceJob { finish_us, outcome, slowstart_ppm: 1_000_000, ..read });
    }
}

fn integer(value: &Value, name: &str) -> Option<i64> {
    value.get(name).and_then(Value::as_i64)
}

impl JobReader for SparkReader {
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        loop {
            if let Some(job) = self.ready.pop_front() {
                return Some(job);
            }
            let Some((number, line)) = self.lines.next(&mut reading.diagnostics) else {
                // The log ends before its jobs do.
                let (&open, _) = self.jobs.first_key_value()?;
                self.job_ended(open, None, JobOutcome::Unknown, reading);
                continue;
            };
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Value>(line) {
                Ok(event) => self.event(&event, reading),
                Err(_) => reading.odd(Oddity::BadLine, format_args!("line {number}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use giveway_core::Span;

    fn task(stage: u32, launch: u32, finish: u32, reason: &str) -> String {
        format!(
            r#"{{"Event":"SparkListenerTaskEnd","Stage ID":{stage},"Task End Reason":{{"Reason":"{reason}"}},"Task Info":{{"Launch Time":{launch},"Finish Time":{finish}}},"Task Metrics":{{"Input Metrics":{{"Bytes Read":10}},"Shuffle Write Metrics":{{"Shuffle Bytes Written":4}}}}}}"#
        )
    }

    fn job(number: u32, stages: &str) -> String {
        format!(
            r#"{{"Event":"SparkListenerJobStart","Job ID":{number},"Submission Time":1000,"Stage Infos":[{stages}],"Properties":{{"spark.scheduler.pool":"p"}}}}"#
        )
    }

    #[test]
    fn stages_become_maps_and_reduces() {
        let log = [
            r#"{"Event":"SparkListenerLogStart","Spark Version":"3.5.0"}"#.to_owned(),
            r#"{"Event":"SparkListenerApplicationStart","App Name":"x","App ID":"app-1","Timestamp":5,"User":"ann"}"#.to_owned(),
            job(0, r#"{"Stage ID":0,"Parent IDs":[]},{"Stage ID":1,"Parent IDs":[0]},{"Stage ID":2,"Parent IDs":[]}"#),
            task(0, 1_000, 3_000, "Success"),
            task(0, 1_000, 5_000, "Success"),
            task(0, 1_000, 1_100, "ExceptionFailure"),
            task(1, 5_000, 6_000, "Success"),
            task(9, 5_000, 6_000, "Success"),
            r#"{"Event":"SparkListenerJobEnd","Job ID":0,"Completion Time":7000,"Job Result":{"Result":"JobSucceeded"}}"#.to_owned(),
            job(1, r#"{"Stage ID":3,"Parent IDs":[]},{"Stage ID":4,"Parent IDs":[3]},{"Stage ID":5,"Parent IDs":[4]}"#),
            task(3, 1, 2, "Success"),
            task(4, 1, 2, "Success"),
            task(5, 1, 2, "Success"),
            r#"{"Event":"SparkList"#.to_owned(),
        ];
        let (jobs, diagnostics) = read_text(&log.join("\n"));
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((job.id.as_str(), job.user.as_str(), job.pool.as_str()), ("app-1/0", "ann", "p"));
        assert_eq!((job.maps.count, job.maps.time.span(), job.maps.input_bytes), (2, Span::from_secs(3), 20));
        assert_eq!((job.reduces.count, job.slowstart_ppm), (1, 1_000_000));
        for oddity in
            [Oddity::FailedAttempt, Oddity::SkippedStage, Oddity::UnfinishedTask, Oddity::DeepGraph, Oddity::BadLine]
        {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }
}
