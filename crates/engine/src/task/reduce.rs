//! The reduce task: fetch, merge, reduce, and at any moment in between pause, so that another attempt goes on where this one stood.
//!
//! The three phases share one state (coverage, hold, output, last key), which is whole between any two steps: between segments, between
//! looks of a merge, between keys. To pause is to write that state down and go (FCS, section 3; Chronos, section III-C): what is in memory goes to one
//! file, the output so far stays where it is, and a checkpoint says how far each run is read. On the same node nothing is fetched, merged
//! or reduced twice. On another node the output and the last reduced key come along, and the input is fetched again.
//!
//! Killing the process at any moment is safe. Everything an attempt writes carries the attempt's name, is taken over by a rename, and is
//! believed only with a record written behind it; the output appears by a last rename.

use super::checkpoint::{self, CHECKPOINT, Checkpoint, Kept, RecordError};
use super::control::{Ask, Control};
use super::counts::{Counters, Counts};
use super::coverage::Coverage;
use super::fetch::Shuffle;
use super::hold::{Hold, Merged, damaged};
use super::outputs::Outputs;
use super::shuffle::shuffle;
use super::text::Text;
use super::{counter, guarded, names, share};
use crate::apps::App;
use crate::job::Plan;
use crate::record::{Emit, Failure, Reducer, Values};
use giveway_core::{AttemptId, Start};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Keys between two looks at how far the reduce has come.
const MEASURE_EVERY: u32 = 1024;

/// A reduce to be run.
pub struct ReduceTask {
    /// The job.
    pub plan: Arc<Plan>,
    /// Its program.
    pub app: Arc<dyn App>,
    /// The attempt.
    pub attempt: AttemptId,
    /// From the beginning, or from what an earlier attempt left.
    pub start: Start,
    /// This job's folder on this worker.
    pub dir: PathBuf,
    /// Where the outputs of the job's maps are.
    pub outputs: Arc<Outputs>,
    /// How to reach them.
    pub shuffle: Arc<Shuffle>,
}

impl fmt::Debug for ReduceTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReduceTask").field("attempt", &self.attempt).field("start", &self.start).finish_non_exhaustive()
    }
}

/// How a reduce ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReduceEnd {
    /// Its output stands under its name.
    Finished {
        /// The output's length.
        output_bytes: u64,
        /// What this attempt and those it went on from counted.
        counters: Counters,
    },
    /// It can be resumed.
    Paused {
        /// How far it is.
        progress_ppm: u32,
    },
    /// It was given up, as asked.
    Stopped,
}

/// Runs a reduce. Unless it pauses, nothing of it is left but its output.
pub fn run_reduce(task: &ReduceTask, control: &Control) -> Result<ReduceEnd, Failure> {
    let ended = match guarded(|| Reduce::begin(task, control)?.run()) {
        // Programs that are stopped break in many ways.
        Err(_) if control.is_stopped() => Ok(ReduceEnd::Stopped),
        ended => ended,
    };
    if !matches!(ended, Ok(ReduceEnd::Paused { .. })) {
        // What cannot be removed now goes with the job's folder.
        let _ = fs::remove_dir_all(names::reduce_folder(&task.dir, task.attempt));
        let _ = fs::remove_file(names::temporary(&task.plan, task.attempt));
        let _ = fs::remove_file(names::kept(&task.plan, task.attempt));
    }
    ended
}

/// A reduce under way.
struct Reduce<'a> {
    task: &'a ReduceTask,
    control: &'a Control,
    coverage: Coverage,
    hold: Hold,
    /// The output, once there is some.
    text: Option<Text>,
    /// The last key that was reduced. Keys up to it are passed over if they come again.
    last_key: Option<Vec<u8>>,
    /// How much there was to reduce, once reducing has begun.
    reduce_bytes: Option<u64>,
    counts: Counts,
}

impl<'a> Reduce<'a> {
    fn begin(task: &'a ReduceTask, control: &'a Control) -> Result<Reduce<'a>, Failure> {
        match task.start {
            Start::Fresh => Reduce::fresh(task, control),
            Start::Resumed { from } => Reduce::resumed(task, control, from),
            Start::Migrated { from, .. } => Reduce::migrated(task, control, from),
        }
    }

    fn fresh(task: &'a ReduceTask, control: &'a Control) -> Result<Reduce<'a>, Failure> {
        Ok(Reduce {
            task,
            control,
            coverage: Coverage::none(&task.plan.splits),
            hold: Hold::begin(&task.dir, task.attempt, task.plan.request.memory_bytes)?,
            text: None,
            last_key: None,
            reduce_bytes: None,
            counts: Counts::default(),
        })
    }

    /// On the same node: the folder changes its name, and with it its owner. From then on the old attempt cannot be resumed again.
    fn resumed(task: &'a ReduceTask, control: &'a Control, from: AttemptId) -> Result<Reduce<'a>, Failure> {
        let cannot =
            |why: &dyn fmt::Display| Failure(format!("cannot resume {from}: its checkpoint: {why}; it starts anew"));
        let folder = names::reduce_folder(&task.dir, task.attempt);
        fs::rename(names::reduce_folder(&task.dir, from), &folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => cannot(&RecordError::Missing),
            _ => cannot(&error),
        })?;
        let path = folder.join(CHECKPOINT);
        let left: Checkpoint = checkpoint::read(&path).map_err(|error| cannot(&error))?;
        if left.kept.attempt != from || !left.coverage.fits(&task.plan.splits) {
            return Err(cannot(&RecordError::Damaged));
        }
        // Runs and output now change; no one may believe this record any more.
        fs::remove_file(&path).map_err(|error| cannot(&error))?;
        let _ = fs::remove_file(names::kept(&task.plan, from));
        let text = match left.kept.output_bytes {
            0 => {
                let _ = fs::remove_file(names::temporary(&task.plan, from));
                None
            }
            bytes => {
                let text = Text::take_over(&task.plan, task.attempt, from, bytes)?;
                Some(text.ok_or_else(|| cannot(&"its output is gone"))?)
            }
        };
        control.set_done_ppm(left.progress_ppm);
        Ok(Reduce {
            task,
            control,
            coverage: left.coverage,
            hold: Hold::restore(folder, task.plan.request.memory_bytes, &left.runs)?,
            text,
            last_key: left.kept.last_key,
            reduce_bytes: left.reduce_bytes,
            counts: Counts::after(left.kept.counters),
        })
    }

    /// On another node: only the output can be taken over, if it is there. If not, all begins afresh.
    fn migrated(task: &'a ReduceTask, control: &'a Control, from: AttemptId) -> Result<Reduce<'a>, Failure> {
        let mut reduce = Reduce::fresh(task, control)?;
        let path = names::kept(&task.plan, from);
        if let Ok(kept) = checkpoint::read::<Kept>(&path)
            && kept.attempt == from
            && let Some(text) = Text::take_over(&task.plan, task.attempt, from, kept.output_bytes)?
        {
            reduce.text = Some(text);
            reduce.last_key = kept.last_key;
            reduce.counts = Counts::after(kept.counters);
        }
        let _ = fs::remove_file(&path);
        Ok(reduce)
    }

    fn run(mut self) -> Result<ReduceEnd, Failure> {
        let Reduce { task, control, coverage, hold, counts, .. } = &mut self;
        if let Some(ask) = shuffle(task, control, coverage, hold, counts)? {
            return self.give_way(ask);
        }
        if let Some(ask) = self.settle()? {
            return self.give_way(ask);
        }
        if let Some(ask) = self.reduce()? {
            return self.give_way(ask);
        }
        let Some(text) = self.text else { return Err(Failure("a reduce without an output".into())) };
        let output_bytes = text.commit(&names::reduce_part(&self.task.plan, self.task.attempt.task.index))?;
        self.control.set_done_ppm(1_000_000);
        Ok(ReduceEnd::Finished { output_bytes, counters: self.counts.total() })
    }

    /// The second third: merges until the rest can be read as one.
    fn settle(&mut self) -> Result<Option<Ask>, Failure> {
        let control = self.control;
        // Nobody knows how many merges it takes; each goes half of what is left of this third.
        let step = || control.set_done_ppm(control.progress_ppm().midpoint(666_666));
        Ok(match self.hold.settle(control, step)? {
            Merged::Whole => None,
            Merged::Interrupted => control.asked(),
        })
    }

    /// The last third.
    fn reduce(&mut self) -> Result<Option<Ask>, Failure> {
        let ReduceTask { plan, app, attempt, .. } = self.task;
        let mut reducer = app.reducer(plan)?.ok_or_else(|| {
            Failure(format!("application `{}` has no reducer, but the job has {} reduces", app.name(), plan.reduces))
        })?;
        let mut text = match self.text.take() {
            Some(text) => text,
            None => Text::begin(plan, *attempt)?,
        };
        let asked = self.reduce_keys(reducer.as_mut(), &mut text);
        self.text = Some(text);
        asked
    }

    fn reduce_keys(&mut self, reducer: &mut dyn Reducer, text: &mut Text) -> Result<Option<Ask>, Failure> {
        let control = self.control;
        let mut merge = self.hold.merge()?;
        let reduce_bytes = *self.reduce_bytes.get_or_insert(self.hold.bytes_left());
        let mut out = Out { text, counts: &mut self.counts, control };
        // Keys up to here were reduced before; none once the first key behind them is reached.
        let mut skip_to = self.last_key.take();
        let mut keys = 0_u64;
        let mut records = 0;
        let mut until_measured = 0;
        let mut asked = None;
        while !merge.is_done() {
            asked = control.asked();
            if asked.is_some() {
                break;
            }
            if until_measured == 0 {
                until_measured = MEASURE_EVERY;
                let done = reduce_bytes.saturating_sub(self.hold.bytes_left_at(&merge.positions()));
                control.set_done_ppm(666_667 + share(done, reduce_bytes, 333_332));
            }
            until_measured -= 1;
            let group = merge.next_group(|key, values| -> Result<(), Failure> {
                let mut values = Watched { values, control, records: 0 };
                if skip_to.as_deref().is_some_and(|last| key <= last) {
                    while values.next().is_some() {}
                    out.counts.add(counter::RECORDS_READ_AGAIN, values.records);
                    return Ok(());
                }
                skip_to = None;
                reducer.reduce(key, &mut values, &mut out)?;
                while values.next().is_some() {}
                records += values.records;
                keys += 1;
                Ok(())
            });
            if let Some(reduced) = group.map_err(damaged)? {
                reduced?;
            }
            out.text.check()?;
        }
        if asked != Some(Ask::Stop) {
            reducer.finish(&mut out)?;
        }
        if control.is_stopped() {
            // The last values may have been held back, and a program that is told to stop need not finish.
            return Ok(Some(Ask::Stop));
        }
        out.text.check()?;
        out.counts.add(counter::REDUCE_INPUT_RECORDS, records);
        self.last_key = if keys > 0 { Some(merge.last_group().to_vec()) } else { skip_to };
        self.hold.set_positions(&merge.positions());
        Ok(asked)
    }

    /// Pauses, or stops.
    fn give_way(mut self, ask: Ask) -> Result<ReduceEnd, Failure> {
        if ask == Ask::Stop {
            return Ok(ReduceEnd::Stopped);
        }
        let task = self.task;
        let output_bytes = self.text.as_mut().map_or(Ok(0), Text::flush)?;
        let runs = self.hold.flush()?;
        let kept = Kept { attempt: task.attempt, output_bytes, last_key: self.last_key, counters: self.counts.total() };
        if self.text.is_some() {
            checkpoint::write(&names::kept(&task.plan, task.attempt), &kept)?;
        }
        let progress_ppm = self.control.progress_ppm();
        let left = Checkpoint { coverage: self.coverage, runs, reduce_bytes: self.reduce_bytes, progress_ppm, kept };
        checkpoint::write(&self.hold.folder().join(CHECKPOINT), &left)?;
        Ok(if self.control.is_stopped() { ReduceEnd::Stopped } else { ReduceEnd::Paused { progress_ppm } })
    }
}

/// Where a reducer's records go.
struct Out<'a> {
    text: &'a mut Text,
    counts: &'a mut Counts,
    control: &'a Control,
}

impl Emit for Out<'_> {
    #[inline]
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.text.push(key, value);
    }

    fn count(&mut self, counter: &'static str, by: u64) {
        self.counts.add(counter, by);
    }

    fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }
}

/// The values of a key, counted. They end at once when the task is to stop: a key may have very many, and no one wants the result.
struct Watched<'a> {
    values: &'a mut dyn Values,
    control: &'a Control,
    records: u64,
}

impl Values for Watched<'_> {
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
