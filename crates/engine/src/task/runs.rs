//! The sorted runs of a reduce's input: in memory and in files of the attempt's folder, each with the position up to which it has been read.
//!
//! Because every run has its own read position, work can stop anywhere. An interrupted merge stores what it has merged as an additional run and
//! keeps its inputs from their current positions. A pause writes the runs in memory to one file, unmerged; the list of runs is then the whole
//! state of the merge (the index record of FCS, section 3.1).

use super::control::Control;
use super::error::WriteError;
use super::paths;
use crate::data::{Compression, MapOutput, Merge, Position, SegmentError, SegmentReader, SegmentWriter, Source};
use giveway_core::AttemptId;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use thiserror::Error;

/// Maximum size of the runs in memory, whatever the job's budget: a pause must write them, and the slot should be free within 100 ms.
const MEMORY_BYTES_MAX: u64 = 32 << 20;

/// Maximum number of runs merged at once. Up to twice as many may exist, each with an open file or a mapping.
const FAN_IN_MAX: u64 = 64;
const FAN_IN_MIN: u64 = 8;

/// Number of merged records between two checks for a request.
const REQUEST_CHECK_INTERVAL_RECORDS: u32 = 256;

/// The runs of one reduce attempt.
#[derive(Debug)]
pub(super) struct RunSet {
    folder: PathBuf,
    runs: Vec<Run>,
    /// Number of the next file to be created in the folder.
    next_file: u32,
    memory_bytes_max: u64,
    fan_in: usize,
}

/// A sorted run.
#[derive(Debug)]
struct Run {
    /// Where it is on disk; `None` if it is only in memory.
    on_disk: Option<DiskLocation>,
    /// Where it is read from.
    source: Source,
    position: Position,
}

#[derive(Clone, Copy, Debug)]
struct DiskLocation {
    /// Number of the file in the folder.
    file: u32,
    /// Offset of the run in the file, in bytes.
    offset: u64,
}

/// The runs of a paused reduce, as stored in its checkpoint. All of them are in files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedRuns {
    runs: Vec<SavedRun>,
    next_file: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedRun {
    file: u32,
    offset: u64,
    bytes: u64,
    position: Position,
}

/// How a merge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeStatus {
    /// All inputs are merged.
    Complete,
    /// A request to the task arrived; the merge stopped between two records.
    Interrupted,
}

/// Why runs cannot be written or read back.
#[derive(Debug, Error)]
pub enum RunError {
    /// A run cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A run of a paused reduce cannot be opened.
    #[error("cannot resume a paused reduce: cannot open its run {path}: {error}; check that disk", path = .path.display())]
    Open {
        /// File of the run.
        path: PathBuf,
        error: io::Error,
    },
    /// A run is unreadable, although it was valid when it was fetched or written.
    #[error("cannot read back a run that this reduce stored on its local disk: {0}; check that disk")]
    Unreadable(#[from] SegmentError),
}

impl RunSet {
    /// Creates an empty set in a new folder. `dir` is the job's folder on the worker; `memory_bytes` is the task's memory budget.
    pub(super) fn create(dir: &Path, reduce: AttemptId, memory_bytes: u64) -> Result<RunSet, WriteError> {
        let folder = paths::reduce_runs_folder(dir, reduce);
        fs::create_dir_all(&folder).map_err(|error| WriteError::new(&folder, error))?;
        Ok(RunSet::new(folder, memory_bytes))
    }

    /// Reopens the runs that a paused attempt left in this folder.
    pub(super) fn restore(folder: PathBuf, memory_bytes: u64, saved: &SavedRuns) -> Result<RunSet, RunError> {
        let mut runs = RunSet { next_file: saved.next_file, ..RunSet::new(folder, memory_bytes) };
        let mut open: Option<(u32, Arc<File>)> = None;
        for run in &saved.runs {
            // Runs that were in memory share one file and are adjacent in the list.
            let file = match &open {
                Some((number, file)) if *number == run.file => Arc::clone(file),
                _ => {
                    let path = runs.path(run.file);
                    let file = File::open(&path).map_err(|error| RunError::Open { path, error })?;
                    let file = Arc::new(file);
                    open = Some((run.file, Arc::clone(&file)));
                    file
                }
            };
            let source = Source::File { file, offset: run.offset, bytes: run.bytes };
            let on_disk = Some(DiskLocation { file: run.file, offset: run.offset });
            runs.runs.push(Run { on_disk, source, position: run.position });
        }
        Ok(runs)
    }

    fn new(folder: PathBuf, memory_bytes: u64) -> RunSet {
        // Half of the budget is for runs in memory, half for the buffers of segment readers.
        let half = memory_bytes / 2;
        let memory_bytes_max = half.min(MEMORY_BYTES_MAX);
        let fan_in = (half / SegmentReader::MEMORY_BYTES as u64).clamp(FAN_IN_MIN, FAN_IN_MAX) as usize;
        RunSet { folder, runs: Vec::new(), next_file: 0, memory_bytes_max, fan_in }
    }

    /// Drops the set on a thread of its own: unmapping large map outputs takes tens of milliseconds, and the slot should be free before that.
    pub(super) fn release(self) {
        // If there is no thread to be had, it is dropped here.
        let _ = thread::Builder::new().name("unmap".to_owned()).spawn(move || drop(self));
    }

    /// The folder of the runs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Maximum size of a segment that is fetched to memory; several of this size fit at once.
    pub(super) fn memory_segment_bytes_max(&self) -> u64 {
        self.memory_bytes_max / 4
    }

    /// Stored bytes that are still to be read.
    pub(super) fn remaining_bytes(&self) -> u64 {
        self.runs.iter().map(|run| remaining_bytes(run.source.bytes(), run.position)).sum()
    }

    /// Creates the next file in the folder. Returns it with its number.
    fn create_file(&mut self) -> Result<(u32, File), WriteError> {
        let number = self.next_file;
        self.next_file += 1;
        let path = self.path(number);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        file.map(|file| (number, file)).map_err(|error| WriteError::new(&path, error))
    }

    /// Removes a file that contains no run.
    fn remove_file(&self, number: u32) {
        // If this fails, the file is removed with the folder.
        let _ = fs::remove_file(self.path(number));
    }

    /// Adds a segment in memory.
    pub(super) fn add_memory(&mut self, source: Source) {
        self.runs.push(Run { on_disk: None, source, position: Position::default() });
    }

    /// Adds a segment that is the whole content of a file in the folder.
    fn add_file(&mut self, number: u32, file: File, bytes: u64) {
        let source = Source::File { file: Arc::new(file), offset: 0, bytes };
        let on_disk = Some(DiskLocation { file: number, offset: 0 });
        self.runs.push(Run { on_disk, source, position: Position::default() });
    }

    /// Adds a segment of a map output without copying it. A hard link in the folder keeps the file even if the original name is removed.
    pub(super) fn add_in_place(&mut self, output: &MapOutput, reduce: u32) -> io::Result<()> {
        let number = self.next_file;
        fs::hard_link(&output.path, self.path(number))?;
        self.next_file += 1;
        let on_disk = Some(DiskLocation { file: number, offset: output.segments[reduce as usize].offset });
        self.runs.push(Run { on_disk, source: output.mapped_segment(reduce), position: Position::default() });
        Ok(())
    }

    /// Like [`RunSet::add_in_place`], but with a copy of the segment, for an output on another file system.
    pub(super) fn add_copy(&mut self, output: &MapOutput, reduce: u32) -> Result<(), WriteError> {
        let (number, mut copy) = self.create_file()?;
        let segment = output.segments[reduce as usize];
        let copied = File::open(&output.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(segment.offset))?;
            io::copy(&mut file.take(segment.stored_bytes), &mut copy)
        });
        let complete = copied.and_then(|bytes| match bytes == segment.stored_bytes {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        });
        complete.map_err(|error| WriteError::new(&self.path(number), error))?;
        self.add_file(number, copy, segment.stored_bytes);
        Ok(())
    }

    /// Merges runs if they exceed the memory budget or twice the fan-in. Checks for requests, which may interrupt it at any time.
    pub(super) fn compact(&mut self, control: &Control) -> Result<MergeStatus, RunError> {
        if self.memory_bytes() > self.memory_bytes_max {
            let in_memory = |run: &Run| run.on_disk.is_none();
            if self.merge_where(in_memory, control)? == MergeStatus::Interrupted {
                return Ok(MergeStatus::Interrupted);
            }
        }
        if self.runs.len() >= 2 * self.fan_in { self.merge_smallest(control) } else { Ok(MergeStatus::Complete) }
    }

    /// Merges runs until all of them can be read in one merge. Calls `on_merged` after each merge.
    pub(super) fn merge_to_fan_in(
        &mut self,
        control: &Control,
        mut on_merged: impl FnMut(),
    ) -> Result<MergeStatus, RunError> {
        while self.runs.len() > self.fan_in {
            if self.merge_smallest(control)? == MergeStatus::Interrupted {
                return Ok(MergeStatus::Interrupted);
            }
            on_merged();
        }
        Ok(MergeStatus::Complete)
    }

    /// A merge of all runs from their current positions. Call [`RunSet::merge_to_fan_in`] first.
    pub(super) fn open_merge(&self) -> Result<Merge, RunError> {
        self.open_merge_where(|_| true)
    }

    /// Stores the positions that the merge of all runs has reached.
    pub(super) fn set_positions(&mut self, positions: &[Position]) {
        debug_assert_eq!(positions.len(), self.runs.len());
        for (run, position) in self.runs.iter_mut().zip(positions) {
            run.position = *position;
        }
        self.drop_exhausted();
    }

    /// Writes the runs in memory to one file, unmerged. Returns the list of all runs.
    pub(super) fn save(&mut self) -> Result<SavedRuns, WriteError> {
        if self.runs.iter().any(|run| run.on_disk.is_none()) {
            let (number, mut file) = self.create_file()?;
            let path = self.path(number);
            let reader = Arc::new(File::open(&path).map_err(|error| WriteError::new(&path, error))?);
            let mut offset = 0;
            for run in &mut self.runs {
                if run.on_disk.is_none()
                    && let Source::Memory(memory) = &run.source
                {
                    file.write_all(memory).map_err(|error| WriteError::new(&path, error))?;
                    let bytes = memory.len() as u64;
                    run.source = Source::File { file: Arc::clone(&reader), offset, bytes };
                    run.on_disk = Some(DiskLocation { file: number, offset });
                    offset += bytes;
                }
            }
        }
        let saved = self.runs.iter().filter_map(|run| {
            let DiskLocation { file, offset } = run.on_disk?;
            Some(SavedRun { file, offset, bytes: run.source.bytes(), position: run.position })
        });
        Ok(SavedRuns { runs: saved.collect(), next_file: self.next_file })
    }

    fn memory_bytes(&self) -> u64 {
        self.runs.iter().filter(|run| run.on_disk.is_none()).map(|run| run.source.bytes()).sum()
    }

    fn merge_smallest(&mut self, control: &Control) -> Result<MergeStatus, RunError> {
        let mut sizes: Vec<u64> = self.runs.iter().map(|run| run.source.bytes()).collect();
        sizes.sort_unstable();
        // Enough runs that the rest is within the fan-in, but not more than can be merged at once. Of runs with the size `limit`, only `equal` are
        // taken, so that exactly `count` runs are merged.
        let count = (self.runs.len() - self.fan_in + 1).clamp(2, self.fan_in);
        let limit = sizes[count - 1];
        let mut equal = sizes[..count].iter().filter(|size| **size == limit).count();
        let is_small = move |run: &Run| {
            let bytes = run.source.bytes();
            let is_taken = bytes < limit || (bytes == limit && equal > 0);
            equal -= usize::from(bytes == limit && is_taken);
            is_taken
        };
        self.merge_where(is_small, control)
    }

    /// Merges the runs for which `is_input` returns true into one.
    fn merge_where(&mut self, is_input: impl FnMut(&Run) -> bool, control: &Control) -> Result<MergeStatus, RunError> {
        // The inputs move to the end of the list, so that replacing them does not change the index of any other run.
        let picked: Vec<bool> = self.runs.iter().map(is_input).collect();
        let (mut inputs, mut others) = (Vec::new(), Vec::new());
        for (run, is_picked) in self.runs.drain(..).zip(picked) {
            if is_picked { inputs.push(run) } else { others.push(run) }
        }
        let first_input = others.len();
        self.runs = others;
        self.runs.append(&mut inputs);

        let (number, file) = self.create_file()?;
        let write_error = |error| WriteError::new(&self.path(number), error);
        let mut merge = self.open_merge_where(|at| at >= first_input)?;
        let mut out = SegmentWriter::new(file, Compression::Auto);
        let mut until_check = 0;
        while !merge.is_done() {
            if until_check == 0 {
                until_check = REQUEST_CHECK_INTERVAL_RECORDS;
                control.tick();
                if control.requested().is_some() {
                    break;
                }
            }
            until_check -= 1;
            out.push(merge.key(), merge.value()).map_err(write_error)?;
            merge.advance()?;
        }
        let status = if merge.is_done() { MergeStatus::Complete } else { MergeStatus::Interrupted };
        let (file, info) = out.finish().map_err(write_error)?;
        for (run, position) in self.runs[first_input..].iter_mut().zip(merge.positions()) {
            run.position = position;
        }
        self.drop_exhausted();
        if info.records > 0 {
            self.add_file(number, file, info.stored_bytes);
        } else {
            self.remove_file(number);
        }
        Ok(status)
    }

    /// A merge, from their current positions, of the runs for whose index `is_input` returns true.
    fn open_merge_where(&self, is_input: impl Fn(usize) -> bool) -> Result<Merge, RunError> {
        let picked = self.runs.iter().enumerate().filter(|(at, _)| is_input(*at));
        let readers = picked.map(|(_, run)| SegmentReader::open_at(run.source.clone(), run.position));
        Ok(Merge::new(readers.collect::<Result<_, _>>()?)?)
    }

    /// Drops runs that are read to their end, and files without runs.
    fn drop_exhausted(&mut self) {
        let exhausted = self.runs.iter().filter(|run| run.position.is_end());
        let files: Vec<u32> = exhausted.filter_map(Run::file).collect();
        self.runs.retain(|run| !run.position.is_end());
        for number in files {
            if self.runs.iter().all(|run| run.file() != Some(number)) {
                self.remove_file(number);
            }
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("run-{number}"))
    }
}

impl Run {
    /// Number of its file in the folder.
    fn file(&self) -> Option<u32> {
        self.on_disk.map(|location| location.file)
    }
}

/// Bytes of a run that are still to be read, rounded up to whole blocks.
fn remaining_bytes(bytes: u64, position: Position) -> u64 {
    bytes.saturating_sub(position.block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::control::Request;
    use giveway_core::{JobId, Kind};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn segment(numbers: &[u32]) -> Vec<u8> {
        let mut writer = SegmentWriter::new(Vec::new(), Compression::Auto);
        numbers.iter().for_each(|number| writer.push(&number.to_be_bytes(), b"value").unwrap());
        writer.finish().unwrap().0
    }

    fn numbers(mut merge: Merge) -> Vec<u32> {
        let mut numbers = Vec::new();
        while !merge.is_done() {
            numbers.push(u32::from_be_bytes(merge.key().try_into().unwrap()));
            merge.advance().unwrap();
        }
        numbers
    }

    /// However often merges are interrupted, and runs saved and restored in between, every record is there exactly once.
    #[test]
    fn interrupted_merges_lose_and_duplicate_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for round in 0..10 {
            let attempt = AttemptId::new(JobId(1), Kind::Reduce, 0, round);
            let memory_bytes = random.random_range(1..200_000);
            let mut runs = RunSet::create(folder.path(), attempt, memory_bytes).unwrap();
            let mut expected = Vec::new();
            let mut interruptions = 0;
            for _ in 0..60 {
                let mut some: Vec<u32> =
                    (0..random.random_range(1..3000)).map(|_| random.random_range(0..9999)).collect();
                some.sort_unstable();
                expected.extend_from_slice(&some);
                runs.add_memory(segment(&some).into());
                let control = std::sync::Arc::new(Control::new());
                let requester = std::sync::Arc::clone(&control);
                let wait = std::time::Duration::from_micros(random.random_range(0..2000));
                let requester = std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    requester.request(Request::Preempt);
                });
                if runs.compact(&control).unwrap() == MergeStatus::Interrupted {
                    interruptions += 1;
                    let saved = runs.save().unwrap();
                    runs = RunSet::restore(runs.folder, memory_bytes, &saved).unwrap();
                }
                requester.join().unwrap();
            }
            println!("round {round}: {interruptions} interruptions");
            assert_eq!(runs.merge_to_fan_in(&Control::new(), || {}).unwrap(), MergeStatus::Complete);
            assert!(runs.runs.len() <= runs.fan_in);
            expected.sort_unstable();
            assert_eq!(numbers(runs.open_merge().unwrap()), expected);
            let files = fs::read_dir(&runs.folder).unwrap().count();
            assert!(files <= runs.runs.len(), "files without a run remain");
        }
    }

    #[test]
    fn an_output_added_in_place_outlives_its_original_name() {
        let folder = tempfile::tempdir().unwrap();
        let options = crate::data::SinkOptions {
            reduces: 1,
            partitioning: crate::job::Partitioning::Hash,
            combine: crate::record::Combine::Nothing,
            memory_bytes: 1 << 20,
            compression: Compression::None,
        };
        let mut sink = crate::data::MapSink::new(&folder.path().join("map"), options);
        crate::record::Emit::emit(&mut sink, &7_u32.to_be_bytes(), b"value");
        let output = sink.finish(&folder.path().join("map-0.0.out")).unwrap();
        let mut runs = RunSet::create(folder.path(), AttemptId::new(JobId(1), Kind::Reduce, 0, 0), 1 << 20).unwrap();
        runs.add_in_place(&output, 0).unwrap();
        fs::remove_file(&output.path).unwrap();
        let saved = runs.save().unwrap();
        let runs = RunSet::restore(runs.folder, 1 << 20, &saved).unwrap();
        assert_eq!(numbers(runs.open_merge().unwrap()), [7]);
    }
}
