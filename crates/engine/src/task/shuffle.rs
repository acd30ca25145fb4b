//! The shuffle of a reduce: which output to fetch next, when to try again, when to wait.
//!
//! There is one thread, and it does one thing at a time: it fetches, and when there is too much in memory or there are too many runs, it
//! merges. So at any look there is at most one segment in flight, and "finish it and stop" is what the loop does anyway (FCS, section 3.1.1).

use super::control::{Ask, Control};
use super::counter;
use super::counts::Counts;
use super::coverage::Coverage;
use super::fetch::{Fetched, NotFetched};
use super::hold::Hold;
use super::outputs::{Bookmark, OutputAt};
use super::reduce::ReduceTask;
use crate::record::Failure;
use giveway_core::{AttemptId, Kind, NodeId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How long to wait for news before a look around.
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// The first wait before a node that does not answer is tried again; doubled each time up to the longest.
const RETRY: Duration = Duration::from_millis(25);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// An output whose node has not answered so often (for about ten seconds) is reported, as one that is gone.
const TRIES_MAX: u32 = 12;

/// How long to wait for a new copy of an output that was reported before trying the old one again.
const REPORTED: Duration = Duration::from_secs(5);

/// The state of a shuffle while it runs.
#[derive(Debug, Default)]
struct Wanted {
    bookmark: Bookmark,
    now: VecDeque<OutputAt>,
    /// Outputs that were reported, each with when to try the old copy again.
    later: Vec<(Instant, OutputAt)>,
    /// Outputs that came damaged, or were not there, once.
    doubted: HashSet<(u32, u16)>,
    /// Nodes that did not answer. One that is stuck must not keep the reduce from the others.
    silent: HashMap<NodeId, Silent>,
}

/// A node that did not answer.
#[derive(Clone, Copy, Debug)]
struct Silent {
    until: Instant,
    tries: u32,
}

/// Fetches all that is missing. Returns early with what was asked of the task.
pub(super) fn shuffle(
    task: &ReduceTask,
    control: &Control,
    coverage: &mut Coverage,
    hold: &mut Hold,
    counts: &mut Counts,
) -> Result<Option<Ask>, Failure> {
    task.outputs.watch(control);
    let (job, reduce) = (task.plan.job, task.attempt.task.index);
    let mut wanted = Wanted::default();
    loop {
        // Fetched in whole is more than a third, and nothing else is.
        let progress_ppm = if coverage.is_complete() { 333_334 } else { coverage.share(333_333) };
        control.set_done_ppm(progress_ppm.max(control.progress_ppm()));
        control.tick();
        if let Some(ask) = control.asked() {
            return Ok(Some(ask));
        }
        if coverage.is_complete() {
            return Ok(None);
        }
        wanted.read_on(task);
        let Some(output) = wanted.next(coverage) else {
            control.wait_for_news(wanted.patience());
            continue;
        };
        let is_bad = match task.shuffle.fetch(job, &task.dir, &output, reduce, hold, control) {
            Ok(fetched) => {
                wanted.silent.remove(&output.node);
                coverage.add(&output);
                counts.add(counter::SEGMENTS_FETCHED, 1);
                if let Fetched::Taken = fetched {
                    // If this is interrupted, the next look sees why.
                    hold.tidy(control)?;
                }
                false
            }
            Err(NotFetched::Interrupted) => {
                wanted.now.push_front(output);
                false
            }
            Err(NotFetched::Broken(failure)) => return Err(failure),
            Err(NotFetched::Unreachable) => wanted.put_off(output),
            Err(NotFetched::Gone) => wanted.doubt(output),
        };
        if is_bad {
            counts.add(counter::OUTPUTS_REPORTED, 1);
            task.shuffle.report_bad(AttemptId::new(job, Kind::Map, output.map, output.number));
            wanted.later.push((Instant::now() + REPORTED, output));
        }
    }
}

impl Wanted {
    fn read_on(&mut self, task: &ReduceTask) {
        let fresh = task.outputs.read_on(&mut self.bookmark);
        if fresh.afresh {
            // What was waiting for another try is in the new list too, or is gone.
            self.now.clear();
            self.later.clear();
        }
        self.now.extend(fresh.outputs);
    }

    /// The next output that is lacking and can be had now.
    fn next(&mut self, coverage: &Coverage) -> Option<OutputAt> {
        let now = Instant::now();
        self.now.extend(self.later.extract_if(.., |later| later.0 <= now).map(|later| later.1));
        for _ in 0..self.now.len() {
            let output = self.now.pop_front()?;
            let is_silent = self.silent.get(&output.node).is_some_and(|silent| silent.until > now);
            if !coverage.lacks(&output) {
                continue;
            }
            if !is_silent {
                return Some(output);
            }
            self.now.push_back(output);
        }
        None
    }

    /// The node of an output did not answer: all of its outputs have to wait, longer each time. True if it was tried often enough.
    fn put_off(&mut self, output: OutputAt) -> bool {
        let now = Instant::now();
        let silent = self.silent.entry(output.node).or_insert(Silent { until: now, tries: 0 });
        silent.until = now + RETRY.saturating_mul(1 << silent.tries.min(16)).min(RETRY_MAX);
        silent.tries += 1;
        let is_given_up = silent.tries > TRIES_MAX;
        if !is_given_up {
            self.now.push_back(output);
        }
        is_given_up
    }

    /// An output was damaged or not there. Its bytes may have suffered on their way, but not twice: then it is true.
    fn doubt(&mut self, output: OutputAt) -> bool {
        let is_first = self.doubted.insert((output.map, output.number));
        if is_first {
            self.now.push_front(output);
        }
        !is_first
    }

    /// How long there is nothing to do.
    fn patience(&self) -> Duration {
        let now = Instant::now();
        let silent = self.silent.values().map(|silent| silent.until).filter(|until| *until > now);
        let due = self.later.iter().map(|later| later.0).chain(silent).min();
        due.map_or(LOOK_AROUND, |due| due.saturating_duration_since(now).min(LOOK_AROUND))
    }
}
