//! What a reduce holds of its input: sorted runs, in memory and in files of its folder, each with the place up to which it has been read.
//!
//! Because every run knows where it stands, work can stop anywhere. A merge that is interrupted keeps what it has merged as one more run, and
//! its inputs from where they stand; a pause writes what is in memory to one file, as it is, and the list of runs is the whole state of the
//! merge (the index record of FCS, section 3.1).

use super::control::Control;
use super::names;
use super::text::cannot_write;
use crate::data::{Compression, MapOutput, Merge, Position, SegmentError, SegmentReader, SegmentWriter, Source};
use crate::record::Failure;
use giveway_core::AttemptId;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is kept in memory at most, whatever the job's budget: a pause has to write it, and a slot should be free within 100 ms.
const MEMORY_BYTES_MAX: u64 = 32 << 20;

/// Runs that are merged at once, at most. Up to twice as many may be waiting, each with an open file.
const FAN_IN_MAX: u64 = 64;
const FAN_IN_MIN: u64 = 8;

/// A merge looks up after so many records.
const LOOK_EVERY: u32 = 256;

/// The input a reduce holds.
#[derive(Debug)]
pub(super) struct Hold {
    folder: PathBuf,
    runs: Vec<Run>,
    /// Files are numbered; this is the next one's number.
    next_file: u32,
    memory_bytes_max: u64,
    fan_in: usize,
}

/// A sorted run.
#[derive(Debug)]
struct Run {
    /// Its file in the folder; none if it is in memory.
    file: Option<u32>,
    source: Source,
    position: Position,
}

/// The runs of a reduce that has nothing in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldRuns {
    runs: Vec<HeldRun>,
    next_file: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldRun {
    file: u32,
    offset: u64,
    bytes: u64,
    position: Position,
}

/// How a merge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merged {
    /// It is through.
    Whole,
    /// Something was asked of the task meanwhile.
    Interrupted,
}

impl Hold {
    /// Nothing, in a new folder.
    pub(super) fn begin(dir: &Path, reduce: AttemptId, memory_bytes: u64) -> Result<Hold, Failure> {
        let folder = names::reduce_folder(dir, reduce);
        fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
        Ok(Hold::over(folder, memory_bytes))
    }

    /// What an earlier attempt left in this folder.
    pub(super) fn restore(folder: PathBuf, memory_bytes: u64, held: &HeldRuns) -> Result<Hold, Failure> {
        let mut hold = Hold { next_file: held.next_file, ..Hold::over(folder, memory_bytes) };
        let mut open: Option<(u32, Arc<File>)> = None;
        for run in &held.runs {
            // Runs that were in memory stand side by side in one file, and next to each other in the list.
            let file = match &open {
                Some((number, file)) if *number == run.file => Arc::clone(file),
                _ => {
                    let path = hold.path(run.file);
                    let file = File::open(&path).map_err(|error| {
                        Failure(format!("a paused reduce cannot go on: cannot open {}: {error}", path.display()))
                    })?;
                    let file = Arc::new(file);
                    open = Some((run.file, Arc::clone(&file)));
                    file
                }
            };
            let source = Source::File { file, offset: run.offset, bytes: run.bytes };
            hold.runs.push(Run { file: Some(run.file), source, position: run.position });
        }
        Ok(hold)
    }

    fn over(folder: PathBuf, memory_bytes: u64) -> Hold {
        // Half of the budget is for segments, half for the buffers of those who read them.
        let half = memory_bytes / 2;
        let memory_bytes_max = half.min(MEMORY_BYTES_MAX);
        let fan_in = (half / SegmentReader::MEMORY_BYTES as u64).clamp(FAN_IN_MIN, FAN_IN_MAX) as usize;
        Hold { folder, runs: Vec::new(), next_file: 0, memory_bytes_max, fan_in }
    }

    /// Where things are kept.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The largest segment that goes to memory when it is fetched: small enough for several to be there at once.
    pub(super) fn memory_segment_bytes_max(&self) -> u64 {
        self.memory_bytes_max / 4
    }

    /// Bytes that are still to be read, as stored.
    pub(super) fn bytes_left(&self) -> u64 {
        self.runs.iter().map(|run| left(run.source.bytes(), run.position)).sum()
    }

    /// A new file in the folder.
    pub(super) fn create(&mut self) -> Result<(u32, File), Failure> {
        let number = self.next_file;
        self.next_file += 1;
        let path = self.path(number);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        file.map(|file| (number, file)).map_err(|error| cannot_write(&path, &error))
    }

    /// Removes a file that holds nothing after all.
    pub(super) fn remove(&self, number: u32) {
        // If it stays, it goes with the folder.
        let _ = fs::remove_file(self.path(number));
    }

    /// Takes a segment that is in memory.
    pub(super) fn add_memory(&mut self, bytes: Vec<u8>) {
        self.runs.push(Run { file: None, source: bytes.into(), position: Position::default() });
    }

    /// Takes a segment that fills a file of the folder.
    pub(super) fn add_file(&mut self, number: u32, file: File, bytes: u64) {
        let source = Source::File { file: Arc::new(file), offset: 0, bytes };
        self.runs.push(Run { file: Some(number), source, position: Position::default() });
    }

    /// Takes a segment where it lies, in the output of a map. A second name for the file keeps it there, whatever becomes of the first.
    pub(super) fn add_in_place(&mut self, output: &MapOutput, reduce: u32) -> io::Result<()> {
        let number = self.next_file;
        fs::hard_link(&output.path, self.path(number))?;
        self.next_file += 1;
        self.runs.push(Run { file: Some(number), source: output.part(reduce), position: Position::default() });
        Ok(())
    }

    /// The same on a disk that knows no second names: with a copy of the file.
    pub(super) fn add_copy(&mut self, output: &MapOutput, reduce: u32) -> Result<(), Failure> {
        let (number, mut copy) = self.create()?;
        let copied = File::open(&output.path).and_then(|mut file| io::copy(&mut file, &mut copy));
        copied.map_err(|error| cannot_write(&self.path(number), &error))?;
        self.runs.push(Run { file: Some(number), source: output.part(reduce), position: Position::default() });
        Ok(())
    }

    /// Keeps memory within its budget and the number of runs within reach of a merge. Looks up now and then, and may be left at any time.
    pub(super) fn tidy(&mut self, control: &Control) -> Result<Merged, Failure> {
        if self.memory_bytes() > self.memory_bytes_max {
            let in_memory = |run: &Run| run.file.is_none();
            if self.merge_where(in_memory, control)? == Merged::Interrupted {
                return Ok(Merged::Interrupted);
            }
        }
        if self.runs.len() >= 2 * self.fan_in { self.merge_smallest(control) } else { Ok(Merged::Whole) }
    }

    /// Merges runs until the rest can be read as one. `step` is called after each merge.
    pub(super) fn settle(&mut self, control: &Control, mut step: impl FnMut()) -> Result<Merged, Failure> {
        while self.runs.len() > self.fan_in {
            if self.merge_smallest(control)? == Merged::Interrupted {
                return Ok(Merged::Interrupted);
            }
            step();
        }
        Ok(Merged::Whole)
    }

    /// All runs as one, from where they stand. Only after [`Hold::settle`].
    pub(super) fn merge(&self) -> Result<Merge, Failure> {
        self.open(|_| true)
    }

    /// Takes note of how far that merge has come.
    pub(super) fn set_positions(&mut self, positions: &[Position]) {
        debug_assert_eq!(positions.len(), self.runs.len());
        for (run, position) in self.runs.iter_mut().zip(positions) {
            run.position = *position;
        }
        self.drop_ended();
    }

    /// Bytes that are still to be read if the merge of all runs stands here.
    pub(super) fn bytes_left_at(&self, positions: &[Position]) -> u64 {
        self.runs.iter().zip(positions).map(|(run, position)| left(run.source.bytes(), *position)).sum()
    }

    /// Writes what is in memory to a file, as it is, and lists all runs.
    pub(super) fn flush(&mut self) -> Result<HeldRuns, Failure> {
        if self.runs.iter().any(|run| run.file.is_none()) {
            let (number, mut file) = self.create()?;
            let path = self.path(number);
            let reader = Arc::new(File::open(&path).map_err(|error| cannot_write(&path, &error))?);
            let mut offset = 0;
            for run in &mut self.runs {
                if let Source::Memory(memory) = &run.source {
                    file.write_all(memory).map_err(|error| cannot_write(&path, &error))?;
                    let bytes = memory.len() as u64;
                    run.source = Source::File { file: Arc::clone(&reader), offset, bytes };
                    run.file = Some(number);
                    offset += bytes;
                }
            }
        }
        let held = self.runs.iter().filter_map(|run| match &run.source {
            Source::File { offset, bytes, .. } => {
                Some(HeldRun { file: run.file?, offset: *offset, bytes: *bytes, position: run.position })
            }
            Source::Memory(_) => None,
        });
        Ok(HeldRuns { runs: held.collect(), next_file: self.next_file })
    }

    fn memory_bytes(&self) -> u64 {
        self.runs.iter().filter(|run| run.file.is_none()).map(|run| run.source.bytes()).sum()
    }

    fn merge_smallest(&mut self, control: &Control) -> Result<Merged, Failure> {
        let mut sizes: Vec<u64> = self.runs.iter().map(|run| run.source.bytes()).collect();
        sizes.sort_unstable();
        // Enough that the rest is within reach, but not more than can be merged at once. Equal sizes count as larger from the second on.
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

    /// Merges the runs that `which` picks into one.
    fn merge_where(&mut self, which: impl FnMut(&Run) -> bool, control: &Control) -> Result<Merged, Failure> {
        // The inputs move to the end of the list; what becomes of them moves no other run's place.
        let picked: Vec<bool> = self.runs.iter().map(which).collect();
        let (mut inputs, mut others) = (Vec::new(), Vec::new());
        for (run, is_picked) in self.runs.drain(..).zip(picked) {
            if is_picked { inputs.push(run) } else { others.push(run) }
        }
        let first_input = others.len();
        self.runs = others;
        self.runs.append(&mut inputs);

        let (number, file) = self.create()?;
        let cannot_write = |error| cannot_write(&self.path(number), &error);
        let mut merge = self.open(|at| at >= first_input)?;
        let mut out = SegmentWriter::new(file, Compression::Auto);
        let mut until_look = 0;
        while !merge.is_done() {
            if until_look == 0 {
                until_look = LOOK_EVERY;
                control.tick();
                if control.asked().is_some() {
                    break;
                }
            }
            until_look -= 1;
            out.push(merge.key(), merge.value()).map_err(cannot_write)?;
            merge.advance().map_err(damaged)?;
        }
        let ended = if merge.is_done() { Merged::Whole } else { Merged::Interrupted };
        let (file, info) = out.finish().map_err(cannot_write)?;
        for (run, position) in self.runs[first_input..].iter_mut().zip(merge.positions()) {
            run.position = position;
        }
        self.drop_ended();
        if info.records > 0 {
            self.add_file(number, file, info.stored_bytes);
        } else {
            self.remove(number);
        }
        Ok(ended)
    }

    /// The runs whose place in the list `which` picks as one, from where they stand.
    fn open(&self, which: impl Fn(usize) -> bool) -> Result<Merge, Failure> {
        let picked = self.runs.iter().enumerate().filter(|(at, _)| which(*at));
        let readers = picked.map(|(_, run)| SegmentReader::open_at(run.source.clone(), run.position));
        Merge::new(readers.collect::<Result<_, _>>().map_err(damaged)?).map_err(damaged)
    }

    /// Lets go of runs that are read to their end.
    fn drop_ended(&mut self) {
        let ended: Vec<u32> = self.runs.iter().filter(|run| run.position.is_end()).filter_map(|run| run.file).collect();
        self.runs.retain(|run| !run.position.is_end());
        for number in ended {
            if self.runs.iter().all(|run| run.file != Some(number)) {
                self.remove(number);
            }
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("run-{number}"))
    }
}

/// What is left of a run, to the block.
fn left(bytes: u64, position: Position) -> u64 {
    bytes.saturating_sub(position.block)
}

/// It was sound when it was fetched or written here.
pub(super) fn damaged(error: SegmentError) -> Failure {
    Failure(format!("what this reduce keeps on its disk cannot be read back: {error}; check that disk"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::control::Ask;
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

    /// However often merges are interrupted, and whatever is written down and restored in between, every record is there once.
    #[test]
    fn interrupted_merges_lose_and_double_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for round in 0..10 {
            let attempt = AttemptId::new(JobId(1), Kind::Reduce, 0, round);
            let memory_bytes = random.random_range(1..200_000);
            let mut hold = Hold::begin(folder.path(), attempt, memory_bytes).unwrap();
            let mut expected = Vec::new();
            let mut interruptions = 0;
            for _ in 0..60 {
                let mut some: Vec<u32> =
                    (0..random.random_range(1..3000)).map(|_| random.random_range(0..9999)).collect();
                some.sort_unstable();
                expected.extend_from_slice(&some);
                hold.add_memory(segment(&some));
                let control = std::sync::Arc::new(Control::new());
                let asker = std::sync::Arc::clone(&control);
                let wait = std::time::Duration::from_micros(random.random_range(0..2000));
                let asker = std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    asker.ask(Ask::GiveWay);
                });
                if hold.tidy(&control).unwrap() == Merged::Interrupted {
                    interruptions += 1;
                    let held = hold.flush().unwrap();
                    hold = Hold::restore(hold.folder, memory_bytes, &held).unwrap();
                }
                asker.join().unwrap();
            }
            println!("round {round}: {interruptions} interruptions");
            assert_eq!(hold.settle(&Control::new(), || {}).unwrap(), Merged::Whole);
            assert!(hold.runs.len() <= hold.fan_in);
            expected.sort_unstable();
            assert_eq!(numbers(hold.merge().unwrap()), expected);
            let files = fs::read_dir(&hold.folder).unwrap().count();
            assert!(files <= hold.runs.len(), "files without a run are left");
        }
    }

    #[test]
    fn an_output_that_is_taken_in_place_outlives_its_first_name() {
        let folder = tempfile::tempdir().unwrap();
        let options = crate::data::SinkOptions {
            reduces: 1,
            partition: crate::job::Partitioning::Hash,
            combine: crate::record::Combine::Nothing,
            memory_bytes: 1 << 20,
            compression: Compression::None,
        };
        let mut sink = crate::data::MapSink::new(folder.path(), options);
        crate::record::Emit::emit(&mut sink, &7_u32.to_be_bytes(), b"value");
        let output = sink.finish(&folder.path().join("map-0.0.out")).unwrap();
        let mut hold = Hold::begin(folder.path(), AttemptId::new(JobId(1), Kind::Reduce, 0, 0), 1 << 20).unwrap();
        hold.add_in_place(&output, 0).unwrap();
        fs::remove_file(&output.path).unwrap();
        let held = hold.flush().unwrap();
        let hold = Hold::restore(hold.folder, 1 << 20, &held).unwrap();
        assert_eq!(numbers(hold.merge().unwrap()), [7]);
    }
}
