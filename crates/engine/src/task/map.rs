//! The map task: lines in, records out. On a preempt request it ends early at the next record boundary.
//!
//! An early end (Chronos, section III-C) needs no special output: an input range owns the lines that begin in it, so the lines processed so far are
//! those of a shorter range, and the rest is a range of its own. The output of an attempt for the reduces appears by one atomic rename when it
//! is complete; that of a map without reduces stays among the temporary files until the job ends.

use super::control::{Control, Request};
use super::counters::CounterSet;
use super::error::{MapError, catch_panic};
use super::part_writer::PartWriter;
use super::{counter, paths, scaled_fraction};
use crate::apps::App;
use crate::data::{MapSink, SinkOptions};
use crate::input::LineReader;
use crate::job::{InputSplit, Plan};
use crate::record::Emit;
use crate::wire::{Counters, Report};
use giveway_core::AttemptId;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of records between two progress updates.
const PROGRESS_INTERVAL_RECORDS: u64 = 32;

/// A map attempt to run.
pub struct MapTask {
    /// Plan of the job.
    pub plan: Arc<Plan>,
    /// Application of the job.
    pub app: Arc<dyn App>,
    /// The attempt; its output files carry this name.
    pub attempt: AttemptId,
    /// Index of the split in the plan.
    pub split: u32,
    /// Offset of the input range in the split, in bytes.
    pub start_bytes: u64,
    /// Length of the input range, in bytes.
    pub bytes: u64,
    /// The job's folder on this worker.
    pub dir: PathBuf,
}

impl fmt::Debug for MapTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MapTask { attempt, split, start_bytes, bytes, .. } = self;
        write!(f, "MapTask({attempt}: {bytes} bytes of split {split} from {start_bytes})")
    }
}

/// Runs a map attempt. Leaves files behind only if it finishes or ends early.
pub fn run_map(task: &MapTask, control: &Control) -> Result<Report, MapError> {
    let ended = catch_panic(|| match task.plan.reduces {
        0 => run_map_only(task, control),
        reduces => run_for_reduces(task, control, reduces),
    });
    let has_output =
        matches!(ended, Ok(Report::Finished { .. })) || matches!(ended, Ok(Report::EndedEarly { done_bytes: 1.., .. }));
    if !has_output {
        let _ = fs::remove_file(paths::temporary_path(&task.plan, task.attempt));
    }
    match ended {
        // Errors of an application that is being stopped are consequences of the stop.
        Err(_) if control.is_stopped() => Ok(Report::Killed { attempt: task.attempt }),
        ended => ended,
    }
}

/// How much of the input range was mapped.
enum Mapped {
    All,
    /// The first bytes, with at least one line.
    Part(u64),
    Nothing,
    Stopped,
}

impl Mapped {
    /// The report of the attempt. `write_output` is called if there is output; it returns the output's length and the counters.
    fn report(
        self,
        attempt: AttemptId,
        write_output: impl FnOnce() -> Result<(u64, Counters), MapError>,
    ) -> Result<Report, MapError> {
        let done_bytes = match self {
            Mapped::Stopped => return Ok(Report::Killed { attempt }),
            Mapped::Nothing => Some(0),
            Mapped::Part(done_bytes) => Some(done_bytes),
            Mapped::All => None,
        };
        let (output_bytes, counters) = if done_bytes == Some(0) { Default::default() } else { write_output()? };
        Ok(match done_bytes {
            None => Report::Finished { attempt, output_bytes, counters },
            Some(done_bytes) => Report::EndedEarly { attempt, done_bytes, output_bytes, counters },
        })
    }
}

/// Writes a sorted output with one segment for each reduce.
fn run_for_reduces(task: &MapTask, control: &Control, reduces: u32) -> Result<Report, MapError> {
    let MapTask { plan, app, .. } = task;
    let options = SinkOptions {
        reduces,
        partitioning: plan.partitioning.clone(),
        combine: app.combine(plan),
        memory_bytes: plan.request.memory_bytes,
        compression: plan.request.compression(),
    };
    let mut out =
        SinkEmitter { sink: MapSink::new(&paths::map_spill_prefix(&task.dir, task.attempt), options), control };
    let mut counters = CounterSet::default();
    map_records(task, control, &mut out, &mut counters)?.report(task.attempt, || {
        counters.add(counter::MAP_OUTPUT_RECORDS, out.sink.records());
        if out.sink.spills() > 0 {
            counters.add(counter::SPILLS, out.sink.spills());
        }
        for (counter, count) in out.sink.counters() {
            counters.add(counter, count);
        }
        let output = out.sink.finish(&paths::map_output_path(&task.dir, task.attempt))?;
        Ok((output.segments.iter().map(|segment| segment.stored_bytes).sum(), counters.total()))
    })
}

/// Writes the job's output directly, for jobs without reduces.
fn run_map_only(task: &MapTask, control: &Control) -> Result<Report, MapError> {
    let part = PartWriter::create(&task.plan, task.attempt)?;
    let mut out = PartEmitter { part, counters: CounterSet::default(), records: 0, control };
    let mut counters = CounterSet::default();
    map_records(task, control, &mut out, &mut counters)?.report(task.attempt, || {
        out.counters.add(counter::MAP_OUTPUT_RECORDS, out.records);
        let mut counters = counters.total();
        counters.extend(out.counters.total());
        let output_bytes = out.part.complete()?;
        Ok((output_bytes, counters))
    })
}

/// An [`Emit`] whose stored errors can be retrieved.
trait CheckedEmit: Emit {
    /// Returns the error of an earlier `emit`, if there was one. The caller must not emit after an error.
    fn check(&mut self) -> Result<(), MapError>;
}

/// Maps the lines of the task's input range until its end or a request.
fn map_records(
    task: &MapTask,
    control: &Control,
    out: &mut impl CheckedEmit,
    counters: &mut CounterSet,
) -> Result<Mapped, MapError> {
    let MapTask { plan, split, start_bytes, bytes, .. } = task;
    let split = plan.splits.get(*split as usize).ok_or(MapError::UnknownSplit { split: *split })?;
    let file = plan.files.get(split.file as usize).ok_or(MapError::UnknownFile { file: split.file })?;
    let range = InputSplit { file: split.file, offset: split.offset + start_bytes, bytes: *bytes };
    let mut lines = LineReader::open(file, range)?;
    let mut mapper = task.app.mapper(plan)?;
    let mut records = 0_u64;
    let mapped = loop {
        match control.requested() {
            None => {}
            Some(Request::Stop) => return Ok(Mapped::Stopped),
            Some(Request::Preempt) => match lines.position() {
                // A compressed file cannot be read from its middle, so it is mapped to its end.
                None => {}
                Some(_) if records == 0 => return Ok(Mapped::Nothing),
                Some(position) if position < range.offset + range.bytes => break Mapped::Part(position - range.offset),
                Some(_) => {}
            },
        }
        if records.is_multiple_of(PROGRESS_INTERVAL_RECORDS) {
            control.set_progress_ppm(scaled_fraction(lines.bytes_done(), range.bytes, 1_000_000));
        }
        let Some(record) = lines.next()? else { break Mapped::All };
        mapper.map(record, out)?;
        out.check()?;
        records += 1;
        control.tick();
    };
    mapper.finish(out)?;
    out.check()?;
    counters.add(counter::MAP_INPUT_RECORDS, records);
    // An application that is being stopped may return before its work is complete.
    Ok(if control.is_stopped() { Mapped::Stopped } else { mapped })
}

struct SinkEmitter<'a> {
    sink: MapSink,
    control: &'a Control,
}

impl Emit for SinkEmitter<'_> {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.sink.emit(key, value);
    }

    fn emit_all(&mut self, text: &[u8], keys: &[Range<usize>], value: &[u8]) {
        self.sink.emit_all(text, keys, value);
    }

    #[inline]
    fn count(&mut self, counter: &'static str, by: u64) {
        self.sink.count(counter, by);
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

impl CheckedEmit for SinkEmitter<'_> {
    #[inline]
    fn check(&mut self) -> Result<(), MapError> {
        match self.sink.error() {
            None => Ok(()),
            Some(_) => self.sink.take_error().map_or(Ok(()), |error| Err(error.into())),
        }
    }
}

struct PartEmitter<'a> {
    part: PartWriter,
    counters: CounterSet,
    records: u64,
    control: &'a Control,
}

impl Emit for PartEmitter<'_> {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.part.push(key, value);
    }

    #[inline]
    fn count(&mut self, counter: &'static str, by: u64) {
        self.counters.add(counter, by);
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

impl CheckedEmit for PartEmitter<'_> {
    #[inline]
    fn check(&mut self) -> Result<(), MapError> {
        Ok(self.part.check()?)
    }
}
