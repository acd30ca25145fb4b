//! The messages between a task runner and the process that started it, framed like those of [`wire`](crate::wire). The runner's first message is
//! [`FromRunner::Hello`]: nothing is sent to a program that does not answer as one of this release.

use crate::job::Plan;
use crate::task::MapOutputLocation;
use crate::wire::{NodeFolder, PROTOCOL, Report};
use giveway_core::{AttemptId, JobId, Work};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The only argument of a task runner. No command has this name.
pub(super) const ARGUMENT: &str = "__giveway-task-runner";

/// The release of this engine.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// What must be the same in a cluster and in the programs that it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(super) protocol: u32,
    pub(super) release: String,
}

impl Version {
    /// That of this process.
    pub(super) fn own() -> Version {
        Version { protocol: PROTOCOL, release: RELEASE.into() }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (protocol {})", self.release, self.protocol)
    }
}

/// To a task runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToRunner {
    /// Have the application check a request and complete its plan. Answered by [`FromRunner::Planned`].
    CompletePlan {
        /// The plan with files, splits and the default number of reduces.
        draft: Box<Plan>,
    },
    /// Derive the next round from the output of one. Answered by [`FromRunner::NextRound`].
    NextRound {
        /// The plan of the round that has ended.
        plan: Box<Plan>,
    },
    /// The plan of a job. Sent before its first attempt.
    Job { plan: Box<Plan> },
    /// Run an attempt. One at a time; answered by [`FromRunner::Ended`].
    Launch {
        attempt: AttemptId,
        /// The part of the task to execute.
        work: Work,
        /// The job's folder on the worker.
        #[serde(with = "crate::path_bytes")]
        folder: PathBuf,
    },
    /// End the running map early, or pause the running reduce.
    Preempt {
        /// The attempt. Ignored if it has ended.
        attempt: AttemptId,
    },
    /// Abort the running attempt.
    Stop {
        /// The attempt. Ignored if it has ended.
        attempt: AttemptId,
    },
    /// Locations of a job's map outputs.
    MapOutputs {
        job: JobId,
        /// True if the list replaces all locations sent before, false if it adds to them.
        replace: bool,
        outputs: Vec<MapOutputLocation>,
    },
    /// Where the map outputs of all nodes are.
    NodeFolders { folders: Vec<NodeFolder> },
    /// No attempt of this job follows.
    CloseJob { job: JobId },
}

/// From a task runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromRunner {
    Hello(Version),
    /// The completed plan, or why the request is refused.
    Planned(Result<Box<Plan>, String>),
    /// The plan of the next round; `None` after the last one.
    NextRound(Result<Option<Box<Plan>>, RoundError>),
    /// The running attempt is alive.
    Progress {
        ticks: u64,
        /// Its progress in parts per million.
        progress_ppm: u32,
    },
    /// The running reduce found a map output lost or corrupt.
    OutputLost {
        map: AttemptId,
    },
    /// The attempt has ended.
    Ended {
        report: Report,
    },
}

/// Why there is no plan of a next round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RoundError {
    pub(crate) text: String,
    /// True if the output could not be read, which may succeed later.
    pub(crate) is_transient: bool,
}
