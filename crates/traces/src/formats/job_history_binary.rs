//! JobHistory files in Avro's binary form: the line `Avro-Binary`, a line with the schema, then one datum per event. The events have the fields of
//! the JSON form.

use super::JobReader;
use super::job_history::History;
use crate::input::Input;
use crate::records::{LineEnd, read_line};
use crate::{Diagnostics, DurationModel, Limits, Oddity, TraceJob};
use apache_avro::{Schema, from_avro_datum};
use std::io::BufRead;

/// Largest allocation for one string or array of an event.
const MAX_ALLOCATION_BYTES: usize = 64 << 20;

/// Reader of a binary JobHistory file.
pub(crate) struct BinaryHistoryReader {
    input: Input,
    limits: Limits,
    history: Option<History>,
}

impl BinaryHistoryReader {
    pub(crate) fn new(input: Input, model: DurationModel, limits: Limits) -> BinaryHistoryReader {
        apache_avro::util::max_allocation_bytes(MAX_ALLOCATION_BYTES);
        BinaryHistoryReader { input, limits, history: Some(History::new(model, limits)) }
    }

    /// The schema in the second line.
    fn schema(&mut self) -> Option<Schema> {
        let mut line = Vec::new();
        for _ in 0..2 {
            line.clear();
            match read_line(&mut self.input, &mut line, self.limits.line_bytes) {
                Ok(LineEnd::Line) => {}
                _ => return None,
            }
        }
        Schema::parse_str(&String::from_utf8_lossy(&line)).ok()
    }
}

impl JobReader for BinaryHistoryReader {
    fn next_job(&mut self, diagnostics: &mut Diagnostics) -> Option<TraceJob> {
        let mut history = self.history.take()?;
        let Some(schema) = self.schema() else {
            diagnostics.odd(Oddity::BadLine, format_args!("{}, line 2: no schema", self.input.file.display()));
            return None;
        };
        let mut number = 0u64;
        // A read error is seen again, and counted, by the decoder.
        while !matches!(self.input.fill_buf(), Ok(rest) if rest.is_empty()) {
            number += 1;
            match from_avro_datum(&schema, &mut self.input, None).and_then(serde_json::Value::try_from) {
                Ok(event) => history.event(&event, diagnostics),
                Err(error) => {
                    // The events have no separators: the next one cannot be found.
                    diagnostics.odd(Oddity::TruncatedInput, format_args!("event {number}: {error}"));
                    break;
                }
            }
        }
        history.job(diagnostics)
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::read_bytes;
    use crate::{JobOutcome, Oddity, Options};
    use apache_avro::types::{Record, Value};
    use apache_avro::{Schema, to_avro_datum};
    use giveway_core::Span;

    const SCHEMA: &str = r#"{"type":"record","name":"Event","fields":[{"name":"type","type":{"type":"enum","name":"EventType","symbols":["JOB_SUBMITTED","MAP_ATTEMPT_STARTED","MAP_ATTEMPT_FINISHED","JOB_FINISHED"]}},{"name":"event","type":[{"type":"record","name":"Fields","fields":[{"name":"id","type":"string"},{"name":"jobid","type":"string"},{"name":"attemptId","type":"string"},{"name":"userName","type":["null","string"]},{"name":"submitTime","type":"long"},{"name":"startTime","type":"long"},{"name":"finishTime","type":"long"}]}]}]}"#;

    fn history() -> Vec<u8> {
        let schema = Schema::parse_str(SCHEMA).unwrap();
        let mut bytes = format!("Avro-Binary\n{SCHEMA}\n").into_bytes();
        for (at, kind) in
            ["JOB_SUBMITTED", "MAP_ATTEMPT_STARTED", "MAP_ATTEMPT_FINISHED", "JOB_FINISHED"].into_iter().enumerate()
        {
            let text = |text: &str| Value::String(text.into());
            let fields = vec![
                ("id".into(), text("x")),
                ("jobid".into(), text("job_1")),
                ("attemptId".into(), text("a1")),
                ("userName".into(), Value::Union(1, Box::new(text("ann")))),
                ("submitTime".into(), Value::Long(1_000)),
                ("startTime".into(), Value::Long(2_000)),
                ("finishTime".into(), Value::Long(7_000)),
            ];
            let mut record = Record::new(&schema).unwrap();
            record.put("type", Value::Enum(at as u32, kind.into()));
            record.put("event", Value::Union(0, Box::new(Value::Record(fields))));
            bytes.extend(to_avro_datum(&schema, record).unwrap());
        }
        bytes
    }

    #[test]
    fn events_become_a_job() {
        let bytes = history();
        let (jobs, diagnostics) = read_bytes(&bytes, &Options::default());
        let [job] = jobs.as_slice() else { panic!("{jobs:?} {:?}", diagnostics.lines()) };
        assert_eq!((job.id.as_str(), job.user.as_str(), job.outcome), ("job_1", "ann", JobOutcome::Succeeded));
        assert_eq!((job.maps.count, job.maps.time.span()), (1, Span::from_secs(5)));
    }

    #[test]
    fn cut_files_are_read_up_to_that_place() {
        let bytes = history();
        for end in SCHEMA.len() + 13..bytes.len() {
            let (_, diagnostics) = read_bytes(&bytes[..end], &Options::default());
            assert!(diagnostics.of(Oddity::TruncatedInput) <= 1);
        }
        let (jobs, diagnostics) = read_bytes(&bytes[..bytes.len() - 3], &Options::default());
        assert_eq!((jobs.len(), diagnostics.of(Oddity::TruncatedInput)), (1, 1));
    }
}
