//! The shuffle phase of a reduce: which output to fetch next, when to retry, when to wait.
//!
//! One thread does one thing at a time: it fetches, and when too much is in memory or there are too many runs, it merges. So at most one segment
//! is in flight whenever a request is checked, and "finish the current fetch, then stop" (FCS, section 3.1.1) is what the loop does anyway.

use super::control::{Control, Request};
use super::counter;
use super::counters::CounterSet;
use super::coverage::Coverage;
use super::error::ReduceError;
use super::fetch::{FetchError, Fetched};
use super::output_tracker::{MapOutputLocation, ReadCursor};
use super::reduce::ReduceTask;
use super::runs::RunSet;
use giveway_core::{AttemptId, Kind, NodeId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Maximum time to wait for a notification when there is nothing to fetch.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Delay before the first retry of an unreachable node. It doubles with each failure up to [`RETRY_DELAY_MAX`].
const RETRY_DELAY_MIN: Duration = Duration::from_millis(25);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// After more than this many failures in a row (about ten seconds) the output is reported, like one that is lost.
const FETCH_FAILURES_MAX: u32 = 12;

/// How long to wait for a replacement of a reported output before the old copy is tried again.
const REPORTED_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The outputs that are still to be fetched.
#[derive(Debug, Default)]
struct FetchQueue {
    cursor: ReadCursor,
    ready: VecDeque<MapOutputLocation>,
    /// Reported outputs, each with the time at which the old copy is tried again.
    reported: Vec<(Instant, MapOutputLocation)>,
    /// Outputs (map, attempt number) that were corrupt or missing once.
    suspects: HashSet<(u32, u16)>,
    /// Nodes that did not respond. They are skipped for a while, so that they do not delay fetches from other nodes.
    unreachable: HashMap<NodeId, Backoff>,
}

/// Retry state of a node.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    until: Instant,
    failures: u32,
}

/// Fetches all missing segments. Returns early if a request arrives.
pub(super) fn shuffle(
    task: &ReduceTask,
    control: &Control,
    coverage: &mut Coverage,
    runs: &mut RunSet,
    counters: &mut CounterSet,
) -> Result<Option<Request>, ReduceError> {
    task.outputs.subscribe(control);
    let (job, reduce) = (task.plan.job, task.attempt.task.index);
    let mut queue = FetchQueue::default();
    loop {
        // Progress exceeds one third exactly when everything is fetched.
        let progress_ppm = if coverage.is_complete() { 333_334 } else { coverage.scaled_fraction(333_333) };
        control.set_progress_ppm(progress_ppm.max(control.progress_ppm()));
        control.tick();
        if let Some(request) = control.requested() {
            return Ok(Some(request));
        }
        if coverage.is_complete() {
            return Ok(None);
        }
        queue.refresh(task);
        let Some(output) = queue.next(coverage) else {
            control.wait_for_notification(queue.wait_time());
            continue;
        };
        let must_report = match task.fetcher.fetch(job, &output, reduce, runs, control) {
            Ok(fetched) => {
                queue.unreachable.remove(&output.node);
                coverage.add(&output);
                counters.add(counter::SEGMENTS_FETCHED, 1);
                if let Fetched::Added = fetched {
                    // If a request interrupts this, the next iteration handles the request.
                    runs.compact(control)?;
                }
                false
            }
            Err(FetchError::Interrupted) => {
                queue.ready.push_front(output);
                false
            }
            Err(FetchError::Local(error)) => return Err(error.into()),
            Err(FetchError::Unreachable) => queue.on_unreachable(output),
            Err(FetchError::BadOutput) => queue.on_bad_output(output),
        };
        if must_report {
            counters.add(counter::OUTPUTS_REPORTED, 1);
            task.fetcher.report_bad_output(AttemptId::new(job, Kind::Map, output.map, output.number));
            queue.reported.push((Instant::now() + REPORTED_RETRY_DELAY, output));
        }
    }
}

impl FetchQueue {
    /// Reads changes from the output tracker.
    fn refresh(&mut self, task: &ReduceTask) {
        let update = task.outputs.read(&mut self.cursor);
        if update.is_full {
            // Outputs waiting for a retry are in the full list too, or are gone.
            self.ready.clear();
            self.reported.clear();
        }
        self.ready.extend(update.outputs);
    }

    /// Removes and returns the next output that is missing and whose node may be tried now.
    fn next(&mut self, coverage: &Coverage) -> Option<MapOutputLocation> {
        let now = Instant::now();
        self.ready.extend(self.reported.extract_if(.., |reported| reported.0 <= now).map(|reported| reported.1));
        for _ in 0..self.ready.len() {
            let output = self.ready.pop_front()?;
            let must_wait = self.unreachable.get(&output.node).is_some_and(|backoff| backoff.until > now);
            if !coverage.is_missing(&output) {
                continue;
            }
            if !must_wait {
                return Some(output);
            }
            self.ready.push_back(output);
        }
        None
    }

    /// Delays all outputs of a node that did not respond, longer each time. Returns true if the output must be reported.
    fn on_unreachable(&mut self, output: MapOutputLocation) -> bool {
        let now = Instant::now();
        let backoff = self.unreachable.entry(output.node).or_insert(Backoff { until: now, failures: 0 });
        backoff.until = now + RETRY_DELAY_MIN.saturating_mul(1 << backoff.failures.min(16)).min(RETRY_DELAY_MAX);
        backoff.failures += 1;
        let must_report = backoff.failures > FETCH_FAILURES_MAX;
        if !must_report {
            self.ready.push_back(output);
        }
        must_report
    }

    /// Handles a corrupt or missing output: it is fetched once more, in case the bytes were corrupted in transit. Returns true on the second
    /// time, when the output must be reported.
    fn on_bad_output(&mut self, output: MapOutputLocation) -> bool {
        let is_first = self.suspects.insert((output.map, output.number));
        if is_first {
            self.ready.push_front(output);
        }
        !is_first
    }

    /// Time until the next retry is due, at most [`POLL_INTERVAL`].
    fn wait_time(&self) -> Duration {
        let now = Instant::now();
        let backoffs = self.unreachable.values().map(|backoff| backoff.until).filter(|until| *until > now);
        let due = self.reported.iter().map(|reported| reported.0).chain(backoffs).min();
        due.map_or(POLL_INTERVAL, |due| due.saturating_duration_since(now).min(POLL_INTERVAL))
    }
}
