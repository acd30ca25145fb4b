//! Bugs that can be planted to find out whether the simulation finds them. Each is a mistake that a programmer could make at that place.
//!
//! Mistakes that a second check makes harmless are not among them, such as a frame whose checksum is not verified (the length that was synced is known), the
//! result of an abandoned task that is reported (the coordinator does not know the attempt), or parts that are not looked for before an output is marked as
//! complete (each was durable before its task was reported).
//!
//! They exist only with the feature `simulation`. Without it, `planted` is always false, and the compiler removes what depends on it.

use strum::VariantArray;

#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
#[cfg_attr(not(feature = "simulation"), allow(dead_code))]
pub enum Bug {
    /// A frame is appended to the journal and not synced.
    SkippedSync,
    /// Answers are sent although the journal could not be written.
    WriteErrorIgnored,
    /// A new journal takes the place of the old one before its content is synced.
    RenamedBeforeSynced,
    /// The id of the next job is not part of a snapshot.
    JobIdReused,
    /// A request to kill a job is acknowledged before it is known whether its output is published.
    KillAcknowledgedEarly,
    /// The program that a job was shipped with is not recorded.
    ProgramForgotten,
    /// The coordinator's time goes back with the clock.
    TimeGoesBack,
    /// A lost map output is not reported to the core: the map does not run again.
    LostMapNotRunAgain,
    /// A map that has ended early counts as finished.
    EarlyEndCountsAsFinish,
    /// Attempts that a rejoined worker does not have are taken for running.
    MissingAttemptIgnored,
    /// Attempts that a rejoined worker still runs, and the core does not have, are not stopped.
    UnknownAttemptNotStopped,
    /// A rejoined worker is not told which map outputs there are.
    OutputsNotSentAgain,
    /// A silent worker is never declared lost.
    SilentWorkerKept,
    /// A worker does not send unacknowledged reports again after it has reconnected.
    ReportsNotSentAgain,
    /// A worker keeps its state although the coordinator has declared it lost.
    StateOfLostWorkerKept,
    /// A worker does not notice that a task hangs.
    HungTaskKept,
    /// A reduce fetches an output although it has a part of its input already.
    OverlapFetched,
    /// An output folder is removed without checking that it is the job's.
    ForeignFolderRemoved,
    /// An interrupted publication is not completed after a restart.
    PublicationForgotten,
    /// The next round of a job is discarded after a restart.
    RoundForgotten,
    /// A complete output is not synced before its job is told to have succeeded.
    PublishedUnsynced,
    /// Work on an output that failed is not tried again.
    OutputRetryForgotten,
}

impl Bug {
    /// All of them.
    pub const ALL: &[Bug] = <Bug as VariantArray>::VARIANTS;
}

#[cfg(feature = "simulation")]
mod planting {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        /// A simulation runs on one thread.
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread, or removes the planted one.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "simulation")]
pub use planting::plant;
#[cfg(feature = "simulation")]
pub(crate) use planting::planted;

/// Whether this bug is planted.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
