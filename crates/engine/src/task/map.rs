//! The map task: lines in, records out; asked to give way, it ends at the next record.
//!
//! An early end (Chronos, section III-C) is nothing special: a piece of input owns the lines that begin in it, so the lines done so far are those
//! of a shorter piece, and the rest is a piece of its own. The output of an attempt for the reduces appears by one rename, when it is whole; that
//! of a map without reduces waits among the temporary files until the job is over.

use super::control::{Ask, Control};
use super::counts::{Counters, Counts};
use super::text::Text;
use super::{counter, guarded, names, share};
use crate::apps::App;
use crate::data::{MapSink, SinkOptions};
use crate::input::{LineReader, StoreAccess};
use crate::job::{Plan, SplitAt};
use crate::record::{Emit, Failure};
use giveway_core::AttemptId;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Records between two looks at how far the map has come.
const MEASURE_EVERY: u64 = 256;

/// A map to be run.
pub struct MapTask {
    /// The job.
    pub plan: Arc<Plan>,
    /// Its program.
    pub app: Arc<dyn App>,
    /// The attempt.
    pub attempt: AttemptId,
    /// Which split of the plan,
    pub split: u32,
    /// from which byte of the split,
    pub start_bytes: u64,
    /// and how many bytes.
    pub bytes: u64,
    /// This job's folder on this worker.
    pub dir: PathBuf,
    /// How to open files of the block store.
    pub stored: Arc<dyn StoreAccess>,
}

impl fmt::Debug for MapTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MapTask { attempt, split, start_bytes, bytes, .. } = self;
        write!(f, "MapTask({attempt}: {bytes} bytes of split {split} from {start_bytes})")
    }
}

/// How a map ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapEnd {
    /// All its lines are mapped.
    Finished {
        /// The length of its output.
        output_bytes: u64,
        /// What it counted.
        counters: Counters,
    },
    /// The lines in its first bytes are mapped.
    EndedEarly {
        /// How many bytes. If none, there is no output.
        done_bytes: u64,
        /// The length of the output.
        output_bytes: u64,
        /// What it counted.
        counters: Counters,
    },
    /// It was given up, as asked.
    Stopped,
}

/// Runs a map. Only a map that finished or ended early leaves anything.
pub fn run_map(task: &MapTask, control: &Control) -> Result<MapEnd, Failure> {
    let ended = guarded(|| match task.plan.reduces {
        0 => run_to_text(task, control),
        reduces => run_to_sink(task, control, reduces),
    });
    let leaves = |end: &MapEnd| match end {
        MapEnd::Finished { .. } => true,
        MapEnd::EndedEarly { done_bytes, .. } => *done_bytes > 0,
        MapEnd::Stopped => false,
    };
    if !ended.as_ref().is_ok_and(leaves) {
        let _ = fs::remove_file(names::temporary(&task.plan, task.attempt));
    }
    match ended {
        // Programs that are stopped break in many ways.
        Err(_) if control.is_stopped() => Ok(MapEnd::Stopped),
        ended => ended,
    }
}

/// Gives the output of a map without reduces its name. This is for the coordinator to do, once it knows which attempts count: two attempts at
/// one piece may have ended at different lines, and one that was taken for lost may still be at work. Done twice, it is done once.
pub fn publish_map(plan: &Plan, map: AttemptId, split: u32, start_bytes: u64) -> io::Result<()> {
    let part = names::map_part(plan, split, start_bytes);
    match fs::rename(names::temporary(plan, map), &part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && part.exists() => Ok(()),
        renamed => renamed,
    }
}

/// How far the lines of a piece were mapped.
enum Mapped {
    All,
    /// The first bytes, at least one line.
    Part(u64),
    Nothing,
    Stopped,
}

impl Mapped {
    /// How the map ends, once its output is kept.
    fn end(self, keep: impl FnOnce() -> Result<(u64, Counters), Failure>) -> Result<MapEnd, Failure> {
        match self {
            Mapped::Stopped => Ok(MapEnd::Stopped),
            Mapped::Nothing => Ok(MapEnd::EndedEarly { done_bytes: 0, output_bytes: 0, counters: Counters::new() }),
            Mapped::Part(done_bytes) => {
                keep().map(|(output_bytes, counters)| MapEnd::EndedEarly { done_bytes, output_bytes, counters })
            }
            Mapped::All => keep().map(|(output_bytes, counters)| MapEnd::Finished { output_bytes, counters }),
        }
    }
}

/// Output for the reduces.
fn run_to_sink(task: &MapTask, control: &Control, reduces: u32) -> Result<MapEnd, Failure> {
    let MapTask { plan, app, .. } = task;
    let options = SinkOptions {
        reduces,
        partition: plan.partition.clone(),
        combine: app.combine(plan),
        memory_bytes: plan.request.memory_bytes,
        compression: plan.request.compression(),
    };
    let mut out = ToSink { sink: MapSink::new(&task.dir, options), control };
    let mut counts = Counts::default();
    map_lines(task, control, &mut out, &mut counts)?.end(|| {
        counts.add(counter::MAP_OUTPUT_RECORDS, out.sink.records());
        if out.sink.spills() > 0 {
            counts.add(counter::SPILLS, out.sink.spills());
        }
        for (counter, count) in out.sink.counters() {
            counts.add(counter, count);
        }
        let output = out.sink.finish(&names::map_output(&task.dir, task.attempt));
        let output = output.map_err(|error| Failure(error.to_string()))?;
        Ok((output.parts.iter().map(|part| part.stored_bytes).sum(), counts.total()))
    })
}

/// Output of the job itself.
fn run_to_text(task: &MapTask, control: &Control) -> Result<MapEnd, Failure> {
    let mut out =
        ToText { text: Text::begin(&task.plan, task.attempt)?, counts: Counts::default(), records: 0, control };
    let mut counts = Counts::default();
    map_lines(task, control, &mut out, &mut counts)?.end(|| {
        out.counts.add(counter::MAP_OUTPUT_RECORDS, out.records);
        let output_bytes = out.text.flush()?;
        let mut counters = counts.total();
        counters.extend(out.counts.total());
        Ok((output_bytes, counters))
    })
}

/// Somewhere to put records that can say what went wrong with them.
trait Target: Emit {
    fn check(&self) -> Result<(), Failure>;
}

/// Maps the lines of the task's piece until they are through or something is asked.
fn map_lines(task: &MapTask, control: &Control, out: &mut impl Target, counts: &mut Counts) -> Result<Mapped, Failure> {
    let MapTask { plan, split, start_bytes, bytes, .. } = task;
    let no_such =
        |what: &str| Failure(format!("the job's plan has no such {what}; the input changed while it was looked at"));
    let split = plan.splits.get(*split as usize).ok_or_else(|| no_such("split"))?;
    let file = plan.files.get(split.file as usize).ok_or_else(|| no_such("file"))?;
    let piece = SplitAt { file: split.file, offset: split.offset + start_bytes, bytes: *bytes };
    let mut lines = LineReader::open(file, piece, task.stored.as_ref())?;
    let mut mapper = task.app.mapper(plan)?;
    let mut records = 0_u64;
    let mapped = loop {
        match control.asked() {
            None => {}
            Some(Ask::Stop) => return Ok(Mapped::Stopped),
            Some(Ask::GiveWay) => match lines.position() {
                // A packed file cannot be entered in its middle: it is mapped to its end.
                None => {}
                Some(_) if records == 0 => return Ok(Mapped::Nothing),
                Some(position) if position < piece.offset + piece.bytes => break Mapped::Part(position - piece.offset),
                Some(_) => {}
            },
        }
        if records.is_multiple_of(MEASURE_EVERY) {
            control.set_done_ppm(share(lines.bytes_done(), piece.bytes, 1_000_000));
        }
        let Some(record) = lines.next()? else { break Mapped::All };
        mapper.map(record, out)?;
        out.check()?;
        records += 1;
        control.tick();
    };
    mapper.finish(out)?;
    out.check()?;
    counts.add(counter::MAP_INPUT_RECORDS, records);
    // A program that is told to stop need not finish.
    Ok(if control.is_stopped() { Mapped::Stopped } else { mapped })
}

struct ToSink<'a> {
    sink: MapSink,
    control: &'a Control,
}

impl Emit for ToSink<'_> {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.sink.emit(key, value);
    }

    #[inline]
    fn count(&mut self, counter: &'static str, by: u64) {
        self.sink.count(counter, by);
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

impl Target for ToSink<'_> {
    #[inline]
    fn check(&self) -> Result<(), Failure> {
        match self.sink.error() {
            None => Ok(()),
            Some(error) => Err(Failure(error.to_string())),
        }
    }
}

struct ToText<'a> {
    text: Text,
    counts: Counts,
    records: u64,
    control: &'a Control,
}

impl Emit for ToText<'_> {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.text.push(key, value);
    }

    #[inline]
    fn count(&mut self, counter: &'static str, by: u64) {
        self.counts.add(counter, by);
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

impl Target for ToText<'_> {
    #[inline]
    fn check(&self) -> Result<(), Failure> {
        self.text.check()
    }
}
