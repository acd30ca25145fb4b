//! Collects a map's records: sorts or combines them in memory, spills sorted runs when the memory budget is used up, and
//! finally merges everything into one file with a segment for each reduce.
//!
//! The buffer in memory depends on the [`Combine`] mode: every record ([`SortBuffer`]), one sum per key ([`SumTable`]), or the
//! values of each key until they are combined ([`FoldTable`]). All three reject a record when they are full, and write their
//! content in the order of partition, key and value.

mod blocks;
mod cell_table;
mod fold_cell;
mod fold_table;
mod key_table;
mod partitioner;
mod short_key;
mod slot_table;
mod sort_buffer;
mod sort_index;
mod sum_table;
#[cfg(test)]
mod tests;

use self::fold_table::FoldTable;
use self::partitioner::Partitioner;
use self::short_key::ShortKey;
use self::slot_table::Queue;
use self::sort_buffer::SortBuffer;
use self::sum_table::SumTable;
use super::map_output::{MapOutput, OutputError, PartitionedWriter, SegmentEntry, segment_source};
use super::merge::{Merge, MergeError};
use super::segment::{Compression, PAIR_BYTES_MAX, SegmentReader, SegmentWriter};
use crate::job::Partitioning;
use crate::record::{Combine, Combiner, Emit, varint};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use thiserror::Error;

/// Maximum number of runs merged at once: with more, the disk would spend more time seeking than reading.
const FAN_IN_MAX: usize = 64;

const WRITER_MEMORY_BYTES: usize = SegmentWriter::<File>::MEMORY_BYTES;

/// Configuration of a [`MapSink`].
#[derive(Debug)]
pub struct SinkOptions {
    /// Number of reduces, at least one.
    pub reduces: u32,
    /// Assignment of keys to reduces.
    pub partitioning: Partitioning,
    /// How the values of a key are combined.
    pub combine: Combine,
    /// Memory budget for records and for sorting them.
    pub memory_bytes: u64,
    /// Compression of the output and of spilled runs.
    pub compression: Compression,
}

/// Why a map's output could not be written.
#[derive(Debug, Error)]
pub enum SinkError {
    /// A file cannot be written.
    #[error("cannot write {path}: {error}; check free space and permissions there", path = .path.display())]
    Write { path: PathBuf, error: io::Error },
    /// Runs on disk cannot be merged, or values cannot be combined.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The finished output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A record exceeds the maximum size.
    #[error("a record of {bytes} bytes is too large; the limit for key and value together is {PAIR_BYTES_MAX} bytes")]
    TooLarge {
        /// Size of key and value together.
        bytes: usize,
    },
}

/// Collects a map's records and writes them as its output.
#[derive(Debug)]
pub struct MapSink {
    /// Path of the spilled runs without their number.
    spill_prefix: PathBuf,
    reduces: u32,
    compression: Compression,
    memory_bytes: usize,
    partitioner: Partitioner,
    combine: Combine,
    buffer: Buffer,
    runs: VecDeque<Run>,
    runs_written: u64,
    records: u64,
    counters: Vec<(&'static str, u64)>,
    error: Option<SinkError>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a map has one, and the largest variant is the most performance-critical"
)]
enum Buffer {
    Sort(SortBuffer),
    Sum(SumTable),
    Fold(FoldTable),
}

/// A sorted run on disk. Its file is unlinked, so it disappears when the run is dropped.
#[derive(Debug)]
struct Run {
    file: Arc<File>,
    segments: Vec<SegmentEntry>,
}

impl MapSink {
    /// An empty sink that spills to the files `<spill_prefix>.run-<number>`. No other sink may use the prefix at the same time.
    pub fn new(spill_prefix: &Path, options: SinkOptions) -> MapSink {
        let memory_bytes = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
        let reduces = options.reduces.max(1);
        // Reserve memory for the segment writer, which is needed while the buffer is written.
        let memory_bytes = memory_bytes - WRITER_MEMORY_BYTES.min(memory_bytes / 8);
        let buffer = Buffer::new(&options.combine, memory_bytes);
        MapSink {
            spill_prefix: spill_prefix.to_owned(),
            reduces,
            compression: options.compression,
            memory_bytes,
            partitioner: Partitioner::new(options.partitioning, reduces),
            combine: options.combine,
            buffer,
            runs: VecDeque::new(),
            runs_written: 0,
            records: 0,
            counters: Vec::new(),
            error: None,
        }
    }

    /// The first error of [`Emit::emit`], if there was one. Records emitted after it are dropped, and [`MapSink::finish`] fails.
    pub fn error(&self) -> Option<&SinkError> {
        self.error.as_ref()
    }

    /// Removes and returns the first error of [`Emit::emit`]. The sink must not be used after that.
    pub fn take_error(&mut self) -> Option<SinkError> {
        self.error.take()
    }

    /// The counters of the map.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.counters.iter().copied().collect()
    }

    /// Number of emitted records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Number of sorted runs written to disk.
    pub fn spills(&self) -> u64 {
        self.runs_written
    }

    /// Writes the output to a temporary file and renames it to `to`.
    pub fn finish(mut self, to: &Path) -> Result<MapOutput, SinkError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(".tmp");
        let temporary = to.with_file_name(name);
        let written = self
            .write_output(&temporary)
            .and_then(|()| fs::rename(&temporary, to).map_err(|error| SinkError::Write { path: to.to_owned(), error }));
        if let Err(error) = written {
            // If the incomplete file cannot be removed either, the first error is the more useful one.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        Ok(MapOutput::open(to)?)
    }

    fn write_output(&mut self, path: &Path) -> Result<(), SinkError> {
        let write_error = |error| SinkError::Write { path: path.to_owned(), error };
        if !self.runs.is_empty() {
            self.spill()?;
            // Free the buffer's memory for the readers of the runs.
            self.buffer = Buffer::new(&self.combine, 0);
        }
        let fan_in = (self.memory_bytes / SegmentReader::MEMORY_BYTES).clamp(2, FAN_IN_MAX);
        while self.runs.len() > fan_in {
            self.merge_oldest(fan_in)?;
        }
        let file = File::create(path).map_err(write_error)?;
        let mut out = PartitionedWriter::new(file, self.reduces, self.compression);
        let written = if self.runs.is_empty() {
            self.buffer.write(&self.partitioner, &mut self.combine, &mut out)
        } else {
            merge(self.runs.make_contiguous(), &mut self.combine, &mut out)
        };
        written.map_err(|error| SinkError::from_merge(error, path))?;
        out.finish_with_index().map_err(write_error)
    }

    /// Merges the oldest runs into one, which goes to the end of the queue, so that all runs grow at the same rate.
    fn merge_oldest(&mut self, runs: usize) -> Result<(), SinkError> {
        let oldest: Vec<Run> = self.runs.drain(..runs).collect();
        self.add_run(|sink, out| merge(&oldest, &mut sink.combine, out))
    }

    /// Writes the buffer to a run and empties it.
    fn spill(&mut self) -> Result<(), SinkError> {
        self.add_run(|sink, out| sink.buffer.write(&sink.partitioner, &mut sink.combine, out))
    }

    fn add_run(
        &mut self,
        write: impl FnOnce(&mut MapSink, &mut PartitionedWriter) -> Result<(), MergeError>,
    ) -> Result<(), SinkError> {
        let mut path = self.spill_prefix.clone().into_os_string();
        path.push(format!(".run-{}", self.runs_written));
        let path = PathBuf::from(path);
        let write_error = |error| SinkError::Write { path: path.clone(), error };
        // A process that was killed before it unlinked the file may have left one of this name: it is overwritten.
        let options = File::options().read(true).write(true).create(true).truncate(true).clone();
        let file = options.open(&path).map_err(write_error)?;
        // An unlinked file leaves nothing behind, however the task ends.
        fs::remove_file(&path).map_err(write_error)?;
        let mut out = PartitionedWriter::new(file, self.reduces, self.compression);
        write(self, &mut out).map_err(|error| SinkError::from_merge(error, &path))?;
        let (file, segments) = out.finish().map_err(write_error)?;
        self.runs.push_back(Run { file: Arc::new(file), segments });
        self.runs_written += 1;
        Ok(())
    }

    /// Empties the full queue of a table. Called once for [`slot_table::QUEUE_LEN`] records.
    #[inline(never)]
    fn make_space(&mut self) {
        let has_space = match &mut self.buffer {
            // Records after an error are dropped.
            _ if self.error.is_some() => {
                self.buffer = Buffer::new(&self.combine, 0);
                true
            }
            Buffer::Sort(_) => true,
            Buffer::Sum(table) => table.make_space(),
            Buffer::Fold(table) => {
                let combiner = combiner(&mut self.combine);
                table.make_space(combiner) || table.combine_all(combiner)
            }
        };
        if !has_space && let Err(error) = self.spill() {
            self.fail(error);
        }
    }

    /// Emits a record that cannot be queued.
    #[inline(never)]
    fn emit_directly(&mut self, key: &[u8], value: &[u8]) {
        if let Buffer::Sum(table) = &mut self.buffer
            && let Some(key) = ShortKey::new(key)
            && let Some(number) = varint::decode(value)
        {
            if table.enqueue(key, number) == Queue::Full {
                self.make_space();
            }
        } else if !self.buffer.insert(key, value, &self.partitioner, &mut self.combine) {
            self.emit_or_spill(key, value);
        }
    }

    /// Handles a record that the buffer rejected: combines or spills, then inserts it.
    #[cold]
    #[inline(never)]
    fn emit_or_spill(&mut self, key: &[u8], value: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.try_emit_or_spill(key, value)
        {
            self.fail(error);
        }
    }

    /// Stores an error. All later records are dropped, so the buffer's memory is freed.
    #[cold]
    fn fail(&mut self, error: SinkError) {
        self.error = Some(error);
        self.buffer = Buffer::new(&self.combine, 0);
    }

    fn try_emit_or_spill(&mut self, key: &[u8], value: &[u8]) -> Result<(), SinkError> {
        let bytes = key.len() + value.len();
        if bytes > PAIR_BYTES_MAX {
            return Err(SinkError::TooLarge { bytes });
        }
        if matches!(self.buffer, Buffer::Sum(_)) && varint::decode(value).is_none() {
            return Err(MergeError::not_a_number(key).into());
        }
        let has_space = match &mut self.buffer {
            Buffer::Fold(table) => table.combine_all(combiner(&mut self.combine)),
            Buffer::Sort(_) | Buffer::Sum(_) => false,
        };
        if !has_space || !self.buffer.insert(key, value, &self.partitioner, &mut self.combine) {
            self.spill()?;
            let is_taken = self.buffer.insert(key, value, &self.partitioner, &mut self.combine);
            assert!(is_taken, "an empty buffer accepts any record within the size limit");
        }
        Ok(())
    }
}

impl Emit for MapSink {
    // All calls are in tail position, so that the common case, a short key in a queue, saves no registers.
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.records = self.records.wrapping_add(1);
        if let Buffer::Sort(buffer) = &mut self.buffer {
            if !buffer.insert(key, value, &self.partitioner) {
                self.emit_or_spill(key, value);
            }
            return;
        }
        let Some(short) = ShortKey::new(key) else { return self.emit_directly(key, value) };
        let queue = match (&mut self.buffer, value) {
            (Buffer::Sum(table), &[byte @ ..0x80]) => table.enqueue(short, byte.into()),
            (Buffer::Fold(table), value) if value.len() <= fold_table::QUEUED_BYTES_MAX => table.enqueue(short, value),
            _ => return self.emit_directly(key, value),
        };
        if queue == Queue::Full {
            self.make_space();
        }
    }

    fn emit_all(&mut self, text: &[u8], keys: &[Range<usize>], value: &[u8]) {
        let mut rest = keys.iter();
        while !rest.as_slice().is_empty() {
            let before = rest.len();
            let stopped_at = match (&mut self.buffer, value) {
                (Buffer::Sum(table), &[byte @ ..0x80]) => {
                    enqueue_while_short(text, &mut rest, |key| table.enqueue(key, byte.into()))
                }
                (Buffer::Fold(table), value) if value.len() <= fold_table::QUEUED_BYTES_MAX => {
                    enqueue_while_short(text, &mut rest, |key| table.enqueue(key, value))
                }
                _ => return rest.for_each(|key| self.emit(&text[key.clone()], value)),
            };
            self.records = self.records.wrapping_add((before - rest.len()) as u64);
            match stopped_at {
                StoppedAt::End => {}
                StoppedAt::FullQueue => self.make_space(),
                StoppedAt::LongKey(key) => self.emit_directly(&text[key.clone()], value),
            }
        }
    }

    fn count(&mut self, counter: &'static str, by: u64) {
        match self.counters.iter_mut().find(|(name, _)| *name == counter) {
            Some((_, count)) => *count += by,
            None => self.counters.push((counter, by)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.error.is_some()
    }
}

/// Why keys were not queued any further.
enum StoppedAt<'a> {
    End,
    FullQueue,
    /// The key was taken, but not queued.
    LongKey(&'a Range<usize>),
}

/// Takes keys and queues those that are short until the queue is full.
#[inline(always)]
fn enqueue_while_short<'a>(
    text: &[u8],
    keys: &mut slice::Iter<'a, Range<usize>>,
    mut enqueue: impl FnMut(ShortKey) -> Queue,
) -> StoppedAt<'a> {
    for key in keys {
        let Some(short) = ShortKey::within(text, key) else { return StoppedAt::LongKey(key) };
        if enqueue(short) == Queue::Full {
            return StoppedAt::FullQueue;
        }
    }
    StoppedAt::End
}

impl Buffer {
    fn new(combine: &Combine, memory_bytes: usize) -> Buffer {
        match combine {
            Combine::Nothing => Buffer::Sort(SortBuffer::new(memory_bytes)),
            Combine::Sum => Buffer::Sum(SumTable::new(memory_bytes)),
            Combine::With(_) => Buffer::Fold(FoldTable::new(memory_bytes)),
        }
    }

    /// Inserts a record that cannot be queued. Returns false if the buffer is full or the record is invalid.
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8], partitioner: &Partitioner, combine: &mut Combine) -> bool {
        match self {
            Buffer::Sort(buffer) => buffer.insert(key, value, partitioner),
            Buffer::Sum(table) => varint::decode(value).is_some_and(|number| table.add_long(key, number)),
            Buffer::Fold(table) => table.insert(key, value, combiner(combine)),
        }
    }

    /// Writes the content in order and empties the buffer.
    fn write(
        &mut self,
        partitioner: &Partitioner,
        combine: &mut Combine,
        out: &mut PartitionedWriter,
    ) -> Result<(), MergeError> {
        match self {
            Buffer::Sort(buffer) => buffer.write(partitioner, out).map_err(MergeError::Write),
            Buffer::Sum(table) => table.write(partitioner, out).map_err(MergeError::Write),
            Buffer::Fold(table) => table.write(partitioner, combiner(combine), out).map_err(MergeError::Write),
        }
    }
}

/// The combiner of a fold table.
fn combiner(combine: &mut Combine) -> &mut dyn Combiner {
    match combine {
        Combine::With(combiner) => combiner.as_mut(),
        Combine::Nothing | Combine::Sum => unreachable!("a fold table is created only for a combiner"),
    }
}

/// Merges runs, partition by partition.
fn merge(runs: &[Run], combine: &mut Combine, out: &mut PartitionedWriter) -> Result<(), MergeError> {
    let partitions = runs.first().map_or(0, |run| run.segments.len());
    for partition in 0..partitions {
        let sources =
            runs.iter().map(|run| (&run.file, &run.segments[partition])).filter(|(_, entry)| entry.records > 0);
        let readers: Result<_, _> =
            sources.map(|(file, entry)| SegmentReader::open(segment_source(file, entry))).collect();
        let out = out.segment(partition as u32).map_err(MergeError::Write)?;
        Merge::new(readers?)?.merge_to(out, combine)?;
    }
    Ok(())
}

impl SinkError {
    /// Adds the path of the file that was being written.
    fn from_merge(error: MergeError, path: &Path) -> SinkError {
        match error {
            MergeError::Write(error) => SinkError::Write { path: path.to_owned(), error },
            other => SinkError::Merge(other),
        }
    }
}
