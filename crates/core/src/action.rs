//! Actions: what the scheduler asks a backend to do, in the imperative, each with its reason.

use crate::event::Hosts;
use crate::ids::{AttemptId, JobId, Kind, NodeId};
use crate::reason::{Reason, Refusal};
use crate::timer::Timer;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// A request to the backend. Plain data: the backend carries it out and reports the result as an event.
///
/// The order of the variants is part of the event log's format: add new ones at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Start an attempt on a node.
    Launch {
        /// A new attempt.
        attempt: AttemptId,
        /// A node with a free slot.
        node: NodeId,
        /// Input range, or where a reduce starts.
        work: Work,
        /// Why this task was chosen.
        reason: Reason,
    },
    /// Pause a reduce and keep its state on its node. Answered by `AttemptPaused`, or by another end of the attempt.
    Pause {
        /// A running reduce.
        attempt: AttemptId,
        /// Its node.
        node: NodeId,
        /// Why it was chosen.
        reason: Reason,
    },
    /// End a map after its current record. Answered by `AttemptEndedEarly`, or by another end of the attempt.
    EndEarly {
        /// A running map.
        attempt: AttemptId,
        /// Its node.
        node: NodeId,
        /// Why it was chosen.
        reason: Reason,
    },
    /// Kill an attempt; its work is lost. Answered by `AttemptKilled`, or by another end of the attempt.
    Kill {
        /// A running attempt.
        attempt: AttemptId,
        /// Its node.
        node: NodeId,
        /// Why it was chosen.
        reason: Reason,
    },
    /// Keep the replicas of a new job's input on these nodes.
    PlaceReplicas {
        /// The new job.
        job: JobId,
        /// The nodes of each split, in the order of the splits.
        hosts: Vec<Hosts>,
    },
    /// The job ended: commit or discard its output and remove its intermediate data.
    CloseJob {
        /// The ended job.
        job: JobId,
        /// Success, kill or failure.
        outcome: Outcome,
    },
    /// Report `TimerFired` at this instant. Replaces the timer's pending expiry.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When it expires.
        at: Time,
    },
    /// The event contradicts the scheduler's state and was ignored.
    Refuse {
        /// What is wrong with the event.
        refusal: Refusal,
    },
}

/// What an attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Map a range of a split.
    Map {
        /// Index of the split in the job's input.
        split: u32,
        /// First byte of the range; not zero for the rest of a map that ended early.
        start_bytes: u64,
        /// Length of the range.
        bytes: u64,
        /// Distance from the nearest replica.
        locality: Locality,
    },
    /// Fetch, merge and reduce a partition.
    Reduce {
        /// From the beginning, or from the state of a paused attempt.
        start: Start,
    },
}

/// Distance of a map from its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Locality {
    /// Node-local: a replica is on this node.
    Node,
    /// Rack-local: a replica is in this rack.
    Rack,
    /// All replicas are in other racks, or there are none.
    Remote,
}

/// Where a reduce starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// From the beginning.
    Fresh,
    /// From the state of a paused attempt, on the node that keeps it.
    Resumed {
        /// The paused attempt.
        from: AttemptId,
    },
    /// From the output position of a paused attempt, on another node: its input is fetched again.
    Migrated {
        /// The paused attempt.
        from: AttemptId,
        /// The node that keeps its state.
        node: NodeId,
    },
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Every task is done.
    Succeeded,
    /// A user killed it.
    Killed,
    /// One of its tasks failed too often.
    Failed,
}

/// How a running attempt is made to free its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptAction {
    /// A reduce stops and later resumes where it stopped (FCS, section 3; Chronos, section III-C).
    Pause,
    /// A map's finished records become a finished map, the rest a new one (Chronos, section III-C).
    EndEarly,
    /// The attempt is killed and its task starts again from the beginning.
    Kill,
}

impl Action {
    /// The kind of task this action is about, if it is about one.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Action::Launch { attempt, .. }
            | Action::Pause { attempt, .. }
            | Action::EndEarly { attempt, .. }
            | Action::Kill { attempt, .. } => Some(attempt.task.kind),
            _ => None,
        }
    }
}
