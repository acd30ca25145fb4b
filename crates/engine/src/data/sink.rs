//! Where a map's records go: sorted or combined in memory, spilled to sorted runs when memory is short, and in the end
//! merged into one file with a segment for each reduce.
//!
//! What is kept in memory depends on what is done with a key's values: every record ([`SortBuffer`]), one sum for each
//! key ([`SumTable`]), or the values of each key until they are folded ([`FoldTable`]). All three say when they are
//! full, and write themselves out in the order of partition, key and value.

mod fold;
mod index;
mod keys;
mod partition;
mod sort;
mod sum;
#[cfg(test)]
mod tests;

use self::fold::FoldTable;
use self::partition::Partitioner;
use self::sort::SortBuffer;
use self::sum::SumTable;
use super::merge::{Merge, MergeError};
use super::output::{MapOutput, OutputError, PartAt, PartsWriter, source};
use super::segment::{Compression, PAIR_BYTES_MAX, SegmentReader, SegmentWriter};
use crate::job::Partitioning;
use crate::record::{Combine, Emit, number};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Runs that are merged at once, at most: beyond this the disk seeks more than it reads.
const FAN_IN_MAX: usize = 64;

const WRITER_BYTES: usize = SegmentWriter::<File>::MEMORY_BYTES;

/// How a map's records are to be kept.
#[derive(Debug)]
pub struct SinkOptions {
    /// How many reduces, at least one.
    pub reduces: u32,
    /// Which key goes to which.
    pub partition: Partitioning,
    /// What is done with a key's values.
    pub combine: Combine,
    /// Memory for records and what is needed to sort them.
    pub memory_bytes: u64,
    /// Whether the output is compressed.
    pub compression: Compression,
}

/// Why a map's records could not be kept.
#[derive(Debug, Error)]
pub enum SinkError {
    /// A file cannot be written.
    #[error("cannot write {path}: {error}; look for space and permissions there", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Runs on disk cannot be merged, or values cannot be combined.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The finished output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A record is larger than records can be.
    #[error("a record of {bytes} bytes is too large; key and value may have {PAIR_BYTES_MAX} bytes together")]
    TooLarge {
        /// The size of its key and value.
        bytes: usize,
    },
}

/// Keeps a map's records and turns them into its output.
#[derive(Debug)]
pub struct MapSink {
    scratch: PathBuf,
    reduces: u32,
    compression: Compression,
    memory_bytes: usize,
    partitioner: Partitioner,
    combine: Combine,
    buffer: Buffer,
    runs: VecDeque<Run>,
    runs_made: u64,
    records: u64,
    counters: Vec<(&'static str, u64)>,
    error: Option<SinkError>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a map has one, and the largest is the one in the greatest hurry")]
enum Buffer {
    Sort(SortBuffer),
    Sum(SumTable),
    Fold(FoldTable),
}

/// A sorted run on disk. Its file has no name any more and goes when the run does.
#[derive(Debug)]
struct Run {
    file: Arc<File>,
    parts: Vec<PartAt>,
}

impl MapSink {
    /// An empty sink that keeps its runs in the folder `scratch`.
    pub fn new(scratch: &Path, options: SinkOptions) -> MapSink {
        let memory_bytes = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
        let reduces = options.reduces.max(1);
        // The writer takes its share when the buffer is written.
        let memory_bytes = memory_bytes - WRITER_BYTES.min(memory_bytes / 8);
        let buffer = Buffer::new(&options.combine, memory_bytes);
        MapSink {
            scratch: scratch.to_owned(),
            reduces,
            compression: options.compression,
            memory_bytes,
            partitioner: Partitioner::new(options.partition, reduces),
            combine: options.combine,
            buffer,
            runs: VecDeque::new(),
            runs_made: 0,
            records: 0,
            counters: Vec::new(),
            error: None,
        }
    }

    /// What went wrong, if something did. Records that come after it are dropped, and [`MapSink::finish`] fails.
    pub fn error(&self) -> Option<&SinkError> {
        self.error.as_ref()
    }

    /// The counters of the map.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.counters.iter().copied().collect()
    }

    /// How many records were emitted.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many sorted runs went to disk.
    pub fn spills(&self) -> u64 {
        self.runs_made
    }

    /// Writes the output under a name for the time being and renames it to `to`.
    pub fn finish(mut self, to: &Path) -> Result<MapOutput, SinkError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(".tmp");
        let unfinished = to.with_file_name(name);
        let written = self.write_output(&unfinished).and_then(|()| {
            fs::rename(&unfinished, to).map_err(|error| SinkError::Write { path: to.to_owned(), error })
        });
        if let Err(error) = written {
            // What is left of it is of no use; if it cannot be removed either, the first error says more.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        Ok(MapOutput::open(to)?)
    }

    fn write_output(&mut self, path: &Path) -> Result<(), SinkError> {
        let write_error = |error| SinkError::Write { path: path.to_owned(), error };
        if !self.runs.is_empty() {
            self.spill()?;
            // The readers of the runs take the place of the buffer.
            self.buffer = Buffer::new(&self.combine, 0);
        }
        let fan_in = (self.memory_bytes / SegmentReader::MEMORY_BYTES).clamp(2, FAN_IN_MAX);
        while self.runs.len() > fan_in {
            self.merge_oldest(fan_in)?;
        }
        let file = File::create(path).map_err(write_error)?;
        let mut out = PartsWriter::new(file, self.reduces, self.compression);
        let written = if self.runs.is_empty() {
            self.buffer.write(&self.partitioner, &mut self.combine, &mut out)
        } else {
            merge(self.runs.make_contiguous(), &mut self.combine, &mut out)
        };
        written.map_err(|error| SinkError::of(error, path))?;
        out.finish_with_index().map_err(write_error)
    }

    /// Puts one run in the place of the oldest ones, behind the others, so that all grow alike.
    fn merge_oldest(&mut self, runs: usize) -> Result<(), SinkError> {
        let oldest: Vec<Run> = self.runs.drain(..runs).collect();
        self.add_run(|sink, out| merge(&oldest, &mut sink.combine, out))
    }

    /// Writes the buffer to a run and begins an empty one.
    fn spill(&mut self) -> Result<(), SinkError> {
        self.add_run(|sink, out| sink.buffer.write(&sink.partitioner, &mut sink.combine, out))
    }

    fn add_run(
        &mut self,
        write: impl FnOnce(&mut MapSink, &mut PartsWriter) -> Result<(), MergeError>,
    ) -> Result<(), SinkError> {
        let path = self.scratch.join(format!("run-{}", self.runs_made));
        let write_error = |error| SinkError::Write { path: path.clone(), error };
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(write_error)?;
        // A file without a name leaves nothing behind, however the task ends.
        fs::remove_file(&path).map_err(write_error)?;
        let mut out = PartsWriter::new(file, self.reduces, self.compression);
        write(self, &mut out).map_err(|error| SinkError::of(error, &path))?;
        let (file, parts) = out.finish().map_err(write_error)?;
        self.runs.push_back(Run { file: Arc::new(file), parts });
        self.runs_made += 1;
        Ok(())
    }

    /// The buffer did not take the record: makes room and tries again.
    #[cold]
    #[inline(never)]
    fn emit_slowly(&mut self, key: &[u8], value: &[u8]) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = self.try_emit_slowly(key, value) {
            self.error = Some(error);
            // Nothing more will be taken, and what is there is of no use.
            self.buffer = Buffer::new(&self.combine, 0);
        }
    }

    fn try_emit_slowly(&mut self, key: &[u8], value: &[u8]) -> Result<(), SinkError> {
        let bytes = key.len() + value.len();
        if bytes > PAIR_BYTES_MAX {
            return Err(SinkError::TooLarge { bytes });
        }
        if matches!(self.buffer, Buffer::Sum(_)) && number::parse(value).is_none() {
            return Err(MergeError::not_a_number(key).into());
        }
        let has_room = match &mut self.buffer {
            Buffer::Fold(table) => table.shrink(&mut self.combine),
            Buffer::Sort(_) | Buffer::Sum(_) => false,
        };
        if !has_room || !self.buffer.insert(key, value, &self.partitioner) {
            self.spill()?;
            let is_taken = self.buffer.insert(key, value, &self.partitioner);
            assert!(is_taken, "an empty buffer takes any record");
        }
        Ok(())
    }
}

impl Emit for MapSink {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        if !self.buffer.insert(key, value, &self.partitioner) {
            self.emit_slowly(key, value);
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

impl Buffer {
    fn new(combine: &Combine, memory_bytes: usize) -> Buffer {
        match combine {
            Combine::Nothing => Buffer::Sort(SortBuffer::new(memory_bytes)),
            Combine::Sum => Buffer::Sum(SumTable::new(memory_bytes)),
            Combine::With(_) => Buffer::Fold(FoldTable::new(memory_bytes)),
        }
    }

    /// Takes a record, unless there is no room for it, or it cannot be taken at all.
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8], partitioner: &Partitioner) -> bool {
        match self {
            Buffer::Sort(buffer) => buffer.insert(key, value, partitioner),
            Buffer::Sum(table) => match *value {
                [byte @ ..0x80] => table.add(key, byte.into()),
                _ => add_parsed(table, key, value),
            },
            Buffer::Fold(table) => table.insert(key, value),
        }
    }

    /// Writes what was taken, in order, and forgets it.
    fn write(
        &mut self,
        partitioner: &Partitioner,
        combine: &mut Combine,
        out: &mut PartsWriter,
    ) -> Result<(), MergeError> {
        match self {
            Buffer::Sort(buffer) => buffer.write(partitioner.reduces(), out).map_err(MergeError::Write),
            Buffer::Sum(table) => table.write(partitioner, out).map_err(MergeError::Write),
            Buffer::Fold(table) => table.write(partitioner, combine, out).map_err(MergeError::Write),
        }
    }
}

/// Keeps the seldom needed half of parsing out of the way of ones.
#[inline(never)]
fn add_parsed(table: &mut SumTable, key: &[u8], value: &[u8]) -> bool {
    number::parse(value).is_some_and(|number| table.add(key, number))
}

/// Merges runs, partition by partition.
fn merge(runs: &[Run], combine: &mut Combine, out: &mut PartsWriter) -> Result<(), MergeError> {
    let partitions = runs.first().map_or(0, |run| run.parts.len());
    for partition in 0..partitions {
        let sources = runs.iter().map(|run| (&run.file, &run.parts[partition])).filter(|(_, part)| part.records > 0);
        let readers: Result<_, _> = sources.map(|(file, part)| SegmentReader::open(source(file, part))).collect();
        let out = out.part(partition as u32).map_err(MergeError::Write)?;
        Merge::new(readers?)?.merge_to(out, combine)?;
    }
    Ok(())
}

impl SinkError {
    /// An error of a merge into this file.
    fn of(error: MergeError, path: &Path) -> SinkError {
        match error {
            MergeError::Write(error) => SinkError::Write { path: path.to_owned(), error },
            other => SinkError::Merge(other),
        }
    }
}
