//! How long the coordinator's loop takes, for operators.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Times of the coordinator's loop since it was started.
#[derive(Debug, Default)]
pub struct Timings {
    /// Batches of inputs, each with all decisions of the scheduler that follow from it.
    pub decisions: Timing,
    /// Writes of the journal, synced to disk.
    pub journal_writes: Timing,
}

/// How often something was done, and how long it took in total.
#[derive(Debug, Default)]
pub struct Timing {
    count: AtomicU64,
    total_ns: AtomicU64,
}

impl Timing {
    /// Counts something that began at an earlier time and ends now.
    pub(super) fn add(&self, began: Instant) {
        self.count.fetch_add(1, Relaxed);
        self.total_ns.fetch_add(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How often it was done.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// How long it took in total.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total_ns.load(Relaxed))
    }
}
