//! Hadoop's JobHistory files (`.jhist`): one job per file. The first line is the encoding, the second the Avro schema; then come the events, one per
//! line in JSON, or one after the other in Avro's binary encoding. The events of all versions are read by the names of their fields, and unknown
//! ones are ignored.

use super::{JobReader, Reading, hadoop_priority};
use crate::avro::{Bounds, Schema};
use crate::records::Lines;
use crate::tally::{FinishedTask, TaskTally, bytes, us_from_ms};
use crate::{Count, JobOutcome, Oddity, TraceJob};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// The first line of a file in JSON.
pub(crate) const JSON: &str = "Avro-Json";
/// The first line of a file in Avro's binary encoding.
pub(crate) const BINARY: &str = "Avro-Binary";
/// Values in one event. An event has at most a few hundred counters.
const EVENT_VALUES_MAX: usize = 1_000_000;

/// Reader of a JobHistory file; its lines until they are read.
pub(crate) struct JobHistoryReader(pub(crate) Option<Lines>);

impl JobReader for JobHistoryReader {
    fn next_job(&mut self, reading: &mut Reading) -> Option<TraceJob> {
        let mut lines = self.0.take()?;
        let mut history = History::default();
        if lines.next(&mut reading.diagnostics)?.1.trim() == BINARY {
            history.read_binary(&mut lines, reading);
        } else {
            history.read_json(&mut lines, reading);
        }
        history.job(reading)
    }
}

/// The events of one job so far.
#[derive(Default)]
struct History {
    id: Option<String>,
    name: Option<String>,
    user: Option<String>,
    queue: Option<String>,
    priority: Option<String>,
    submit_us: Option<i64>,
    finish_us: Option<i64>,
    outcome: JobOutcome,
    /// Start of each running attempt.
    running: FxHashMap<String, i64>,
    tally: TaskTally,
}

impl History {
    fn read_json(&mut self, lines: &mut Lines, reading: &mut Reading) {
        while let Some((number, line)) = lines.next(&mut reading.diagnostics) {
            let line = line.trim();
            // The second line is the schema.
            if number <= 2 || line.is_empty() {
                continue;
            }
            match serde_json::from_str::<Value>(line) {
                Ok(event) => self.event(&event, reading),
                Err(_) => reading.odd(Oddity::BadLine, format_args!("line {number}")),
            }
        }
    }

    /// Reads up to the first event that cannot be decoded: where the next one begins is then not known.
    fn read_binary(&mut self, lines: &mut Lines, reading: &mut Reading) {
        let bounds = Bounds { values: EVENT_VALUES_MAX, string_bytes: reading.limits.line_bytes as u64 };
        let Some(schema) = lines.next(&mut reading.diagnostics).and_then(|(_, line)| Schema::parse(line)) else {
            return reading.odd(Oddity::BadLine, "line 2, the Avro schema");
        };
        for number in 1_u64.. {
            match schema.read(lines.rest(), bounds) {
                Ok(Some(event)) => self.event(&event, reading),
                Ok(None) => break,
                Err(error) => return reading.odd(Oddity::TruncatedInput, format_args!("event {number}: {error}")),
            }
        }
    }

    /// Applies an event of the form `{"type": T, "event": {CLASS: {...}}}`, or `{"type": T, "event": {...}}`.
    fn event(&mut self, event: &Value, reading: &mut Reading) {
        reading.add(Count::Events, 1);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let Some(fields) = event.get("event").map(union) else { return reading.odd(Oddity::UnknownEvent, kind) };
        let time = |name: &str| number(fields, name).and_then(us_from_ms);
        match kind {
            "JOB_SUBMITTED" => {
                self.id = text(fields, "jobid");
                self.name = text(fields, "jobName");
                self.user = text(fields, "userName");
                self.queue = text(fields, "jobQueueName").or(self.queue.take());
                self.submit_us = time("submitTime");
            }
            "JOB_QUEUE_CHANGED" => self.queue = text(fields, "jobQueueName").or(self.queue.take()),
            "JOB_PRIORITY_CHANGED" => self.priority = text(fields, "priority"),
            "JOB_FINISHED" => (self.finish_us, self.outcome) = (time("finishTime"), JobOutcome::Succeeded),
            "JOB_FAILED" | "JOB_KILLED" | "JOB_ERROR" => {
                self.finish_us = time("finishTime");
                let killed = kind == "JOB_KILLED" || text(fields, "jobStatus").as_deref() == Some("KILLED");
                self.outcome = if killed { JobOutcome::Killed } else { JobOutcome::Failed };
            }
            "TASK_STARTED" => match text(fields, "taskType").as_deref() {
                Some("MAP") => {
                    reading.add(Count::Maps, 1);
                    if text(fields, "splitLocations").is_some_and(|locations| !locations.is_empty()) {
                        reading.add(Count::MapsWithReplicas, 1);
                    }
                }
                Some("REDUCE") => reading.add(Count::Reduces, 1),
                _ => reading.odd(Oddity::OtherTasks, text(fields, "taskid").unwrap_or_default()),
            },
            "MAP_ATTEMPT_STARTED" | "REDUCE_ATTEMPT_STARTED" => {
                if let (Some(attempt), Some(start)) = (text(fields, "attemptId"), time("startTime")) {
                    if self.running.len() < reading.limits.tasks_per_job {
                        self.running.insert(attempt, start);
                    } else {
                        reading.odd(Oddity::TooManyTasks, attempt);
                    }
                }
            }
            "MAP_ATTEMPT_FINISHED" | "REDUCE_ATTEMPT_FINISHED" => {
                self.finished(kind == "MAP_ATTEMPT_FINISHED", fields, reading);
            }
            "MAP_ATTEMPT_FAILED" | "REDUCE_ATTEMPT_FAILED" | "MAP_ATTEMPT_KILLED" | "REDUCE_ATTEMPT_KILLED" => {
                let attempt = text(fields, "attemptId").unwrap_or_default();
                self.running.remove(&attempt);
                reading.unsuccessful(kind.ends_with("KILLED"), attempt);
            }
            // Nothing that a workload needs.
            "AM_STARTED"
            | "JOB_INITED"
            | "JOB_INFO_CHANGED"
            | "JOB_STATUS_CHANGED"
            | "TASK_FINISHED"
            | "TASK_FAILED"
            | "TASK_UPDATED"
            | "NORMALIZED_RESOURCE" => {}
            _ if kind.starts_with("SETUP_") || kind.starts_with("CLEANUP_") => {}
            _ => reading.odd(Oddity::UnknownEvent, kind),
        }
    }

    fn finished(&mut self, is_map: bool, fields: &Value, reading: &mut Reading) {
        reading.add(Count::SucceededAttempts, 1);
        let attempt = text(fields, "attemptId").unwrap_or_default();
        let start = self.running.remove(&attempt);
        let finish = number(fields, "finishTime").and_then(us_from_ms);
        let (Some(start_us), Some(finish_us)) = (start, finish) else {
            return reading.odd(Oddity::UnfinishedTask, &attempt);
        };
        let counter = |name: &str| counter(fields, name);
        let (input, output) = match is_map {
            true => ("HDFS_BYTES_READ", "MAP_OUTPUT_BYTES"),
            false => ("REDUCE_SHUFFLE_BYTES", "HDFS_BYTES_WRITTEN"),
        };
        let task = FinishedTask { start_us, finish_us, input_bytes: counter(input), output_bytes: counter(output) };
        if is_map {
            self.tally.map(task, reading, &attempt);
        } else {
            self.tally.reduce(task, reading, &attempt);
        }
    }

    /// The job after its last event; None without a submission time.
    fn job(self, reading: &mut Reading) -> Option<TraceJob> {
        let id = self.id.unwrap_or_else(|| "job".into());
        reading.diagnostics.odd_times(Oddity::UnfinishedTask, self.running.len() as u64, &id);
        let submit_us = self.submit_us.or_else(|| {
            reading.odd(Oddity::MissingSubmit, &id);
            self.tally.first_start_us
        })?;
        let priority = hadoop_priority(self.priority.as_deref());
        let read = reading.job(&id, submit_us, self.tally.tasks()).named(self.name).of(self.user, self.queue);
        Some(TraceJob { priority, finish_us: self.finish_us, outcome: self.outcome, ..read })
    }
}

/// The value of an Avro union: `{TYPE: value}` stands for its value.
fn union(value: &Value) -> &Value {
    match value {
        Value::Object(object) if object.len() == 1 => object.values().next().unwrap_or(value),
        _ => value,
    }
}

fn text(fields: &Value, name: &str) -> Option<String> {
    fields.get(name).map(union)?.as_str().map(Into::into)
}

fn number(fields: &Value, name: &str) -> Option<i64> {
    fields.get(name).map(union)?.as_i64()
}

/// A counter of a finished attempt; 0 if absent.
fn counter(fields: &Value, name: &str) -> u64 {
    let items = |value: Option<&Value>| value.map(union).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(counters) = fields.get("counters").map(union) else { return 0 };
    let groups = items(counters.get("groups"));
    let counts = groups.iter().flat_map(|group| items(group.get("counts")));
    let values = counts.filter(|count| count.get("name").and_then(Value::as_str) == Some(name));
    values.filter_map(|count| number(&count, "value")).map(bytes).next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use giveway_core::Span;

    const HISTORY: &str = r#"Avro-Json
{"type":"record","name":"Event"}
{"type":"AM_STARTED","event":{"x.AMStarted":{"startTime":900}}}

{"type":"JOB_SUBMITTED","event":{"x.JobSubmitted":{"jobid":"job_1","jobName":"sleep","userName":"ann","submitTime":1000,"jobQueueName":{"string":"q"}}}}
{"type":"TASK_STARTED","event":{"x.TaskStarted":{"taskid":"task_m_0","taskType":"MAP","startTime":1500,"splitLocations":"/r/n"}}}
{"type":"MAP_ATTEMPT_STARTED","event":{"x.TaskAttemptStarted":{"taskid":"task_m_0","taskType":"MAP","attemptId":"a0","startTime":2000}}}
{"type":"MAP_ATTEMPT_FAILED","event":{"x.Failed":{"attemptId":"a0","finishTime":2100}}}
{"type":"MAP_ATTEMPT_STARTED","event":{"x.TaskAttemptStarted":{"attemptId":"a1","startTime":3000}}}
{"type":"MAP_ATTEMPT_FINISHED","event":{"x.MapAttemptFinished":{"attemptId":"a1","finishTime":7000,"counters":{"name":"C","groups":[{"name":"g","counts":[{"name":"HDFS_BYTES_READ","value":77}]}]}}}}
{"type":"REDUCE_ATTEMPT_STARTED","event":{"x.TaskAttemptStarted":{"attemptId":"r0","startTime":4000}}}
{"type":"REDUCE_ATTEMPT_FINISHED","event":{"x.R":{"attemptId":"r0","finishTime":9000}}}
{"type":"MAP_ATTEMPT_STARTED","event":{"x.TaskAttemptStarted":{"attemptId":"a2","startTime":3000}}}
{"type":"SOMETHING_NEW","event":{"x.New":{}}}
{"type":"JOB_FAILED","event":{"x.JobUnsuccessfulCompletion":{"jobid":"job_1","finishTime":9500,"jobStatus":"KILLED"}}}
{"type":"JOB_FIN"#;

    /// One record for each event, and the events one after the other: number of the enum's symbol, number of the union's branch, fields.
    const BINARY_HISTORY: &str = "Avro-Binary\n\
{\"type\":\"record\",\"name\":\"Event\",\"fields\":[{\"name\":\"type\",\"type\":{\"type\":\"enum\",\"name\":\"T\",\"symbols\":[\"JOB_SUBMITTED\",\"MAP_ATTEMPT_STARTED\",\"MAP_ATTEMPT_FINISHED\",\"JOB_FINISHED\"]}},{\"name\":\"event\",\"type\":[{\"type\":\"record\",\"name\":\"S\",\"fields\":[{\"name\":\"jobid\",\"type\":\"string\"},{\"name\":\"submitTime\",\"type\":\"long\"},{\"name\":\"jobQueueName\",\"type\":[\"null\",\"string\"]}]},{\"type\":\"record\",\"name\":\"A\",\"fields\":[{\"name\":\"attemptId\",\"type\":\"string\"},{\"name\":\"startTime\",\"type\":\"long\"}]},{\"type\":\"record\",\"name\":\"F\",\"fields\":[{\"name\":\"attemptId\",\"type\":\"string\"},{\"name\":\"finishTime\",\"type\":\"long\"},{\"name\":\"counters\",\"type\":{\"type\":\"record\",\"name\":\"C\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"groups\",\"type\":{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"G\",\"fields\":[{\"name\":\"counts\",\"type\":{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"N\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"value\",\"type\":\"long\"}]}}}]}}}]}}]},{\"type\":\"record\",\"name\":\"J\",\"fields\":[{\"name\":\"jobid\",\"type\":\"string\"},{\"name\":\"finishTime\",\"type\":\"long\"}]}]}]}\n\
\x00\x00\x0ajob_1\x02\x02\x02q\
\x02\x02\x04a1\x06\
\x04\x04\x04a1\x0e\x02c\x02\x02\x1eHDFS_BYTES_READ\x0e\x00\x00\
\x06\x06\x0ajob_1\x12";

    #[test]
    fn binary_events_become_a_job() {
        let (jobs, diagnostics) = read_text(BINARY_HISTORY);
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((job.id.as_str(), job.pool.as_str(), job.submit_us), ("job_1", "q", 1_000));
        assert_eq!((job.maps.count, job.maps.input_bytes, job.maps.time.span()), (1, 7, Span::from_millis(4)));
        assert_eq!((job.outcome, job.finish_us), (JobOutcome::Succeeded, Some(9_000)));
        assert_eq!(diagnostics.of(Oddity::TruncatedInput), 0);
        let (jobs, diagnostics) = read_text(&BINARY_HISTORY[..BINARY_HISTORY.len() - 1]);
        assert_eq!((jobs.len(), jobs[0].finish_us), (1, None), "what is before the cut is read");
        assert_eq!(diagnostics.of(Oddity::TruncatedInput), 1);
        let (jobs, diagnostics) = read_text("Avro-Binary\nno schema\n\x00");
        assert_eq!((jobs.len(), diagnostics.of(Oddity::BadLine)), (0, 1));
    }

    #[test]
    fn events_become_a_job() {
        let (jobs, diagnostics) = read_text(HISTORY);
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((job.id.as_str(), job.name.as_str(), job.pool.as_str()), ("job_1", "sleep", "q"));
        assert_eq!((job.maps.count, job.maps.input_bytes, job.maps.time.span()), (1, 77, Span::from_secs(4)));
        assert_eq!((job.reduces.count, job.reduces.time.span()), (1, Span::from_secs(2)));
        assert_eq!((job.outcome, job.finish_us), (JobOutcome::Killed, Some(9_500_000)));
        for oddity in
            [Oddity::FailedAttempt, Oddity::UnfinishedTask, Oddity::UnknownEvent, Oddity::BadLine, Oddity::KilledJob]
        {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }
}
