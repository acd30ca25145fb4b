//! The reduce task: shuffle, merge, reduce. It can pause between any two steps, and another attempt resumes from there.
//!
//! The three phases share one state (coverage, runs, output, last key), which is consistent between any two steps: between segments, between
//! request checks of a merge, between keys. A pause writes this state to disk (FCS, section 3; Chronos, section III-C): runs in memory go to one
//! file, the output so far stays in place, and a checkpoint records up to where each run is read. On the same node nothing is fetched, merged or
//! reduced twice. On another node the output and the last reduced key are reused, and the input is fetched again.
//!
//! The process may be killed at any moment. All files of an attempt carry the attempt's name, are taken over by an atomic rename, and are used only
//! if a checkpoint was written after them; the output becomes visible by a final rename.

use super::checkpoint::{self, CHECKPOINT, Checkpoint, CheckpointError, OutputCheckpoint};
use super::control::{Control, Request};
use super::counters::CounterSet;
use super::coverage::Coverage;
use super::error::{ReduceError, ResumeError, catch_panic};
use super::fetch::Fetcher;
use super::output_tracker::MapOutputTracker;
use super::part_writer::PartWriter;
use super::runs::{MergeStatus, RunError, RunSet};
use super::shuffle::shuffle;
use super::{counter, paths, scaled_fraction};
use crate::apps::App;
use crate::job::Plan;
use crate::record::{AppError, Emit, Reducer, Values};
use crate::wire::Report;
use giveway_core::{AttemptId, Start};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of keys between two progress updates.
const PROGRESS_INTERVAL_KEYS: u32 = 128;

/// A reduce attempt to run.
pub struct ReduceTask {
    /// Plan of the job.
    pub plan: Arc<Plan>,
    /// Application of the job.
    pub app: Arc<dyn App>,
    /// The attempt; its files carry this name.
    pub attempt: AttemptId,
    /// Whether to start from the beginning or from the state of a paused attempt.
    pub start: Start,
    /// The job's folder on this worker.
    pub dir: PathBuf,
    /// Locations of the job's map outputs.
    pub outputs: Arc<MapOutputTracker>,
    pub fetcher: Arc<Fetcher>,
}

impl fmt::Debug for ReduceTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReduceTask").field("attempt", &self.attempt).field("start", &self.start).finish_non_exhaustive()
    }
}

/// Runs a reduce attempt. Unless it pauses, it leaves no files behind but its output.
pub fn run_reduce(task: &ReduceTask, control: &Control) -> Result<Report, ReduceError> {
    let ended = match catch_panic(|| RunningReduce::start(task, control)?.run()) {
        // Errors of an application that is being stopped are consequences of the stop.
        Err(_) if control.is_stopped() => Ok(Report::Killed { attempt: task.attempt }),
        ended => ended,
    };
    if !matches!(ended, Ok(Report::Paused { .. })) {
        // What cannot be removed now is removed with the job's folder.
        let _ = fs::remove_dir_all(paths::reduce_runs_folder(&task.dir, task.attempt));
        let _ = fs::remove_file(paths::temporary_path(&task.plan, task.attempt));
        let _ = fs::remove_file(paths::output_checkpoint_path(&task.plan, task.attempt));
    }
    ended
}

/// State of a reduce attempt.
struct RunningReduce<'a> {
    task: &'a ReduceTask,
    control: &'a Control,
    coverage: Coverage,
    runs: RunSet,
    /// The uncommitted output; `None` until the reduce phase begins.
    part: Option<PartWriter>,
    /// The last key that was reduced. Keys up to it are skipped if they are read again.
    last_key: Option<Vec<u8>>,
    /// Input of the reduce phase in stored bytes; `None` until that phase begins.
    reduce_bytes: Option<u64>,
    counters: CounterSet,
}

impl<'a> RunningReduce<'a> {
    fn start(task: &'a ReduceTask, control: &'a Control) -> Result<RunningReduce<'a>, ReduceError> {
        match task.start {
            Start::Fresh => RunningReduce::fresh(task, control),
            Start::Resumed { from } => RunningReduce::resumed(task, control, from),
            Start::Migrated { from, .. } => RunningReduce::migrated(task, control, from),
        }
    }

    fn fresh(task: &'a ReduceTask, control: &'a Control) -> Result<RunningReduce<'a>, ReduceError> {
        Ok(RunningReduce {
            task,
            control,
            coverage: Coverage::empty(&task.plan.splits),
            runs: RunSet::create(&task.dir, task.attempt, task.plan.request.memory_bytes)?,
            part: None,
            last_key: None,
            reduce_bytes: None,
            counters: CounterSet::default(),
        })
    }

    /// Resumes on the node of the pause. The runs folder is renamed to this attempt, so the paused attempt cannot be resumed a second time.
    fn resumed(task: &'a ReduceTask, control: &'a Control, from: AttemptId) -> Result<RunningReduce<'a>, ReduceError> {
        let cannot_resume = |cause: ResumeError| ReduceError::Resume { from, cause };
        let folder = paths::reduce_runs_folder(&task.dir, task.attempt);
        fs::rename(paths::reduce_runs_folder(&task.dir, from), &folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => cannot_resume(CheckpointError::Missing.into()),
            _ => cannot_resume(ResumeError::Io(error)),
        })?;
        let path = folder.join(CHECKPOINT);
        let saved: Checkpoint = checkpoint::read(&path).map_err(|error| cannot_resume(error.into()))?;
        if saved.output.attempt != from || !saved.coverage.matches(&task.plan.splits) {
            return Err(cannot_resume(CheckpointError::Corrupt.into()));
        }
        // Runs and output change from here on, so the checkpoint becomes invalid.
        fs::remove_file(&path).map_err(|error| cannot_resume(ResumeError::Io(error)))?;
        let _ = fs::remove_file(paths::output_checkpoint_path(&task.plan, from));
        let part = match saved.output.output_bytes {
            0 => {
                let _ = fs::remove_file(paths::temporary_path(&task.plan, from));
                None
            }
            bytes => {
                let part = PartWriter::resume(&task.plan, task.attempt, from, bytes)?;
                Some(part.ok_or_else(|| cannot_resume(ResumeError::OutputLost))?)
            }
        };
        control.set_progress_ppm(saved.progress_ppm);
        Ok(RunningReduce {
            task,
            control,
            coverage: saved.coverage,
            runs: RunSet::restore(folder, task.plan.request.memory_bytes, &saved.runs)?,
            part,
            last_key: saved.output.last_key,
            reduce_bytes: saved.reduce_bytes,
            counters: CounterSet::resumed(saved.output.counters),
        })
    }

    /// Resumes on another node. Only the output can be reused; if it is unusable, the attempt starts from the beginning.
    fn migrated(task: &'a ReduceTask, control: &'a Control, from: AttemptId) -> Result<RunningReduce<'a>, ReduceError> {
        let mut reduce = RunningReduce::fresh(task, control)?;
        if let Ok(saved) = checkpoint::read_output(&task.plan, from)
            && saved.attempt == from
            && let Some(part) = PartWriter::resume(&task.plan, task.attempt, from, saved.output_bytes)?
        {
            reduce.part = Some(part);
            reduce.last_key = saved.last_key;
            reduce.counters = CounterSet::resumed(saved.counters);
        }
        let _ = fs::remove_file(paths::output_checkpoint_path(&task.plan, from));
        Ok(reduce)
    }

    fn run(mut self) -> Result<Report, ReduceError> {
        let RunningReduce { task, control, coverage, runs, counters, .. } = &mut self;
        if let Some(request) = shuffle(task, control, coverage, runs, counters)? {
            return self.pause_or_stop(request);
        }
        if let Some(request) = self.merge_runs()? {
            return self.pause_or_stop(request);
        }
        if let Some(request) = self.reduce()? {
            return self.pause_or_stop(request);
        }
        let Some(part) = self.part else { return Err(ReduceError::NoOutputFile) };
        let output_bytes = part.commit(&paths::reduce_part_path(&self.task.plan, self.task.attempt.task.index))?;
        self.control.set_progress_ppm(1_000_000);
        self.runs.release();
        Ok(Report::Finished { attempt: self.task.attempt, output_bytes, counters: self.counters.total() })
    }

    /// The second third of the progress: merges until the remaining runs can be read in one merge.
    fn merge_runs(&mut self) -> Result<Option<Request>, ReduceError> {
        let control = self.control;
        // The number of merges is not known in advance; each one advances progress by half of what is left of this third.
        let on_merged = || control.set_progress_ppm(control.progress_ppm().midpoint(666_666));
        Ok(match self.runs.merge_to_fan_in(control, on_merged)? {
            MergeStatus::Complete => None,
            MergeStatus::Interrupted => control.requested(),
        })
    }

    /// The last third of the progress: calls the reducer for every key.
    fn reduce(&mut self) -> Result<Option<Request>, ReduceError> {
        let ReduceTask { plan, app, attempt, .. } = self.task;
        let no_reducer = || ReduceError::NoReducer { app: app.name().to_owned(), reduces: plan.reduces };
        let mut reducer = app.reducer(plan)?.ok_or_else(no_reducer)?;
        let mut part = match self.part.take() {
            Some(part) => part,
            None => PartWriter::create(plan, *attempt)?,
        };
        let request = self.reduce_keys(reducer.as_mut(), &mut part);
        self.part = Some(part);
        request
    }

    fn reduce_keys(
        &mut self,
        reducer: &mut dyn Reducer,
        part: &mut PartWriter,
    ) -> Result<Option<Request>, ReduceError> {
        let control = self.control;
        let mut merge = self.runs.open_merge()?;
        let reduce_bytes = *self.reduce_bytes.get_or_insert(self.runs.remaining_bytes());
        let mut out = ReduceEmitter { part, counters: &mut self.counters, control };
        // Keys up to this one were reduced by an earlier attempt; `None` once the first key after it is reached.
        let mut skip_to = self.last_key.take();
        let mut keys = 0_u64;
        let mut records = 0;
        let mut until_progress = 0;
        let mut request = None;
        while !merge.is_done() {
            request = control.requested();
            if request.is_some() {
                break;
            }
            if until_progress == 0 {
                until_progress = PROGRESS_INTERVAL_KEYS;
                let done = reduce_bytes.saturating_sub(merge.remaining_bytes());
                control.set_progress_ppm(666_667 + scaled_fraction(done, reduce_bytes, 333_332));
            }
            until_progress -= 1;
            let group = merge.next_group(|key, values| -> Result<(), AppError> {
                let mut values = CountedValues { values, control, records: 0 };
                if skip_to.as_deref().is_some_and(|last| key <= last) {
                    while values.next().is_some() {}
                    out.counters.add(counter::RECORDS_READ_AGAIN, values.records);
                    return Ok(());
                }
                skip_to = None;
                reducer.reduce(key, &mut values, &mut out)?;
                while values.next().is_some() {}
                records += values.records;
                keys += 1;
                Ok(())
            });
            if let Some(reduced) = group.map_err(RunError::from)? {
                reduced?;
            }
            out.part.check()?;
        }
        if request != Some(Request::Stop) {
            reducer.finish(&mut out)?;
        }
        if control.is_stopped() {
            // The last key may have received only some of its values, and an application that is being stopped may return early.
            return Ok(Some(Request::Stop));
        }
        out.part.check()?;
        out.counters.add(counter::REDUCE_INPUT_RECORDS, records);
        self.last_key = if keys > 0 { Some(merge.last_group_key().to_vec()) } else { skip_to };
        self.runs.set_positions(&merge.positions());
        Ok(request)
    }

    fn pause_or_stop(mut self, request: Request) -> Result<Report, ReduceError> {
        if request == Request::Stop {
            self.runs.release();
            return Ok(Report::Killed { attempt: self.task.attempt });
        }
        let task = self.task;
        let output_bytes = self.part.as_mut().map_or(Ok(0), PartWriter::flush)?;
        let runs = self.runs.save()?;
        let counters = self.counters.total();
        let output = OutputCheckpoint { attempt: task.attempt, output_bytes, last_key: self.last_key, counters };
        if self.part.is_some() {
            checkpoint::write_output(&task.plan, &output)?;
        }
        let progress_ppm = self.control.progress_ppm();
        let saved = Checkpoint { coverage: self.coverage, runs, reduce_bytes: self.reduce_bytes, progress_ppm, output };
        checkpoint::write(&self.runs.folder().join(CHECKPOINT), &saved)?;
        self.runs.release();
        let attempt = task.attempt;
        Ok(match self.control.is_stopped() {
            true => Report::Killed { attempt },
            false => Report::Paused { attempt, progress_ppm },
        })
    }
}

/// Writes a reducer's records to the part file.
struct ReduceEmitter<'a> {
    part: &'a mut PartWriter,
    counters: &'a mut CounterSet,
    control: &'a Control,
}

impl Emit for ReduceEmitter<'_> {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.part.push(key, value);
    }

    fn count(&mut self, counter: &'static str, by: u64) {
        self.counters.add(counter, by);
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

/// The values of a key, counted. They end at once when the task is requested to stop: a key may have very many, and the result is discarded.
struct CountedValues<'a, V> {
    values: &'a mut V,
    control: &'a Control,
    records: u64,
}

impl<V: Values> Values for CountedValues<'_, V> {
    #[inline]
    fn next(&mut self) -> Option<&[u8]> {
        if self.control.is_stopped() {
            return None;
        }
        let value = self.values.next();
        if value.is_some() {
            self.control.tick();
            self.records += 1;
        }
        value
    }
}
