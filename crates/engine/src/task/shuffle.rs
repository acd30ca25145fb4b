//! The shuffle of a reduce: which output to fetch next, when to try again, when to wait.
//!
//! There is one thread, and it does one thing at a time: it fetches, and when there is too much in memory or there are too many runs, it
//! merges. So at any look there is at most one segment in flight, and "finish it and stop" is what the loop does anyway (FCS, section 3.1.1).

use super::control::{Ask, Control};
use super::coverage::Coverage;
use super::fetch::{Fetched, NotFetched};
use super::hold::Hold;
use super::outputs::{Bookmark, OutputAt};
use super::reduce::ReduceTask;
use super::counter;
use super::counts::Counts;
use crate::record::Failure;
use giveway_core::{AttemptId, Kind};
use std::collections::VecDeque;
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
    later: Vec<Later>,
}

/// An output to be tried again.
#[derive(Debug)]
struct Later {
    at: Instant,
    output: OutputAt,
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
        control.set_done_ppm(if coverage.is_complete() { 333_334 } else { (coverage.ppm() / 3).min(333_333) });
        control.tick();
        if let Some(ask) = control.asked() {
            return Ok(Some(ask));
        }
        if coverage.is_complete() {
            return Ok(None);
        }
        wanted.read_on(task);
        let Some((output, tries)) = wanted.next(coverage) else {
            control.wait_for_news(wanted.patience());
            continue;
        };
        match task.shuffle.fetch(job, &task.dir, &output, reduce, hold, control) {
            Ok(fetched) => {
                coverage.add(&output);
                counts.add(counter::SEGMENTS_FETCHED, 1);
                if let Fetched::Taken = fetched {
                    // If this is interrupted, the next look sees why.
                    hold.tidy(control)?;
                }
            }
            Err(NotFetched::Interrupted) => wanted.now.push_front(output),
            Err(NotFetched::Broken(failure)) => return Err(failure),
            Err(NotFetched::Unreachable) if tries < TRIES_MAX => {
                let wait = RETRY.saturating_mul(1 << tries.min(16)).min(RETRY_MAX);
                wanted.try_later(output, tries + 1, wait);
            }
            // The bytes may have been damaged on their way; that does not happen twice.
            Err(NotFetched::Gone) if tries == 0 => wanted.try_later(output, 1, Duration::ZERO),
            Err(NotFetched::Gone | NotFetched::Unreachable) => {
                counts.add(counter::OUTPUTS_REPORTED, 1);
                task.shuffle.report_bad(AttemptId::new(job, Kind::Map, output.map, output.number));
                wanted.try_later(output, 1, REPORTED);
            }
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

    /// The next output that is lacking and due.
    fn next(&mut self, coverage: &Coverage) -> Option<(OutputAt, u32)> {
        let now = Instant::now();
        self.later.retain(|later| coverage.lacks(&later.output));
        if let Some(due) = self.later.iter().position(|later| later.at <= now) {
            let Later { output, tries, .. } = self.later.swap_remove(due);
            return Some((output, tries));
        }
        loop {
            let output = self.now.pop_front()?;
            if coverage.lacks(&output) {
                return Some((output, 0));
            }
        }
    }

    fn try_later(&mut self, output: OutputAt, tries: u32, wait: Duration) {
        self.later.push(Later { at: Instant::now() + wait, output, tries });
    }

    /// How long there is nothing to do.
    fn patience(&self) -> Duration {
        let now = Instant::now();
        let until_due = self.later.iter().map(|later| later.at.saturating_duration_since(now)).min();
        until_due.unwrap_or(LOOK_AROUND).min(LOOK_AROUND)
    }
}
