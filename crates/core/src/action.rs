//! What to do now: requests to a body, in the imperative, each with a reason a person can read.

use crate::event::Hosts;
use crate::ids::{AttemptId, JobId, Kind, NodeId};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A request to the body. Plain data: carrying it out is the body's business, and its outcome comes back as an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Start an attempt on a node.
    Launch {
        /// Its name from now on.
        attempt: AttemptId,
        /// Where.
        node: NodeId,
        /// What part of the job.
        work: Work,
        /// Why this task, here, now.
        reason: Reason,
    },
    /// Pause a reduce and keep its state on its node. Answer with `AttemptPaused` (or what happened instead).
    Pause {
        /// The attempt.
        attempt: AttemptId,
        /// Where it runs.
        node: NodeId,
        /// Why.
        reason: Reason,
    },
    /// End a map at the next record. Answer with `AttemptEndedEarly` (or what happened instead).
    EndEarly {
        /// The attempt.
        attempt: AttemptId,
        /// Where it runs.
        node: NodeId,
        /// Why.
        reason: Reason,
    },
    /// Kill an attempt; its work is lost. Answer with `AttemptKilled` (or what happened instead).
    Kill {
        /// The attempt.
        attempt: AttemptId,
        /// Where it runs.
        node: NodeId,
        /// Why.
        reason: Reason,
    },
    /// Keep the replicas of a new job's input on these nodes, split by split.
    PlaceReplicas {
        /// The job.
        job: JobId,
        /// For each split, its nodes.
        hosts: Vec<Hosts>,
    },
    /// The job is over: publish or discard its output, drop what was kept for it.
    CloseJob {
        /// The job.
        job: JobId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Send `Woke` at this instant.
    WakeAt {
        /// When.
        at: Time,
    },
    /// The event was not possible in the state the core knows; nothing changed.
    Refuse {
        /// What was wrong with it.
        refusal: Refusal,
    },
}

/// What part of a job an attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Map bytes of a split.
    Map {
        /// Which split of the job.
        split: u32,
        /// From which byte of the split; not zero for the rest of a map that ended early.
        start_bytes: u64,
        /// How many bytes.
        bytes: u64,
        /// How far it is from the nearest replica.
        locality: Locality,
    },
    /// Fetch, merge and reduce a partition.
    Reduce {
        /// From the beginning, or from what an earlier attempt left.
        start: Start,
    },
}

/// How far a map is from its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Locality {
    /// A replica is on this node.
    Node,
    /// A replica is in this rack.
    Rack,
    /// All replicas are elsewhere, or there are none.
    Remote,
}

/// Where a reduce begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// With nothing.
    Fresh,
    /// On the node where an earlier attempt paused, with all it had.
    Resumed {
        /// The paused attempt.
        from: AttemptId,
    },
    /// On another node than the one where an earlier attempt paused: its input must be fetched again.
    Migrated {
        /// The paused attempt.
        from: AttemptId,
        /// Where its state is.
        node: NodeId,
    },
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Every task is done.
    Succeeded,
    /// Its user took it back.
    Killed,
    /// One of its tasks failed too often.
    Failed,
}

/// Why the core asked for something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reason {
    /// Next by submission.
    Submitted,
    /// Shortest remaining time (hSRTF, eq. 1).
    Remaining {
        /// The estimate.
        estimate: Span,
    },
    /// Fewest slots for its weight.
    Weight {
        /// Slots it holds.
        held: u32,
    },
    /// Furthest below what it is owed.
    Share {
        /// Slots it holds.
        held: u32,
        /// Slots it is owed, in thousandths.
        owed_milli: u64,
    },
    /// Least work left before and in its reduces (FCS, section 4).
    RemainingWork {
        /// Until its last map is done.
        shuffle: Span,
        /// Bytes still to reduce.
        bytes: u64,
    },
    /// Least service received so far.
    Attained {
        /// Slot time received.
        service: Span,
    },
    /// The slot was freed for this job.
    Claimed,
    /// It does again what was lost with a node.
    Recovers {
        /// The lost node.
        lost: NodeId,
    },
    /// A copy of an attempt that lags behind.
    Lagging {
        /// How far the laggard is.
        done_ppm: u32,
    },
    /// It gives way to a job that ranks before it.
    GivesWay {
        /// The other job.
        to: JobId,
    },
    /// It gives way to work lost with a node, of a job that ranks before it (Chronos, section III-B).
    GivesWayToRecovery {
        /// The other job.
        to: JobId,
    },
    /// Another attempt did its task first.
    Outrun,
    /// Its job is over.
    JobOver,
    /// A person asked for it.
    Requested,
    /// The body had given its job the slot already.
    Granted,
}

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A job with this number is here already.
    JobExists(JobId),
    /// No such job now.
    UnknownJob(JobId),
    /// A job without splits.
    EmptyJob(JobId),
    /// A number out of its range in a job: bias zero, slow-start over one whole, more than a million reduces.
    BadJob(JobId),
    /// No such node, or it is down.
    UnknownNode(NodeId),
    /// The node is up already.
    NodeIsUp(NodeId),
    /// Node numbers must follow each other.
    NodeGap(NodeId),
    /// A node without slots or without speed.
    BadNode(NodeId),
    /// News of an attempt that is over, or that never was.
    StaleAttempt(AttemptId),
    /// The attempt was not asked to do that, or cannot.
    NotAsked(AttemptId),
    /// Time ran backwards.
    TimeWentBack,
    /// The job has no task of this kind that waits for a slot.
    NothingWaits(JobId),
    /// The job's tasks were all known when it came, so they are not to be told again.
    NotOpen(JobId),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Submitted => write!(f, "next by submission"),
            Reason::Remaining { estimate } => write!(f, "shortest remaining time, {estimate}"),
            Reason::Weight { held } => write!(f, "fewest slots for its weight, {held}"),
            Reason::Share { held, owed_milli } => {
                write!(f, "furthest below its share, {held} of {:.1} slots", *owed_milli as f64 / 1e3)
            }
            Reason::RemainingWork { shuffle, bytes } => {
                write!(f, "least work left, {shuffle} of maps and {} MB to reduce", bytes / 1_000_000)
            }
            Reason::Attained { service } => write!(f, "least service so far, {service}"),
            Reason::Claimed => write!(f, "the slot was freed for it"),
            Reason::Recovers { lost } => write!(f, "does again what was lost with {lost}"),
            Reason::Lagging { done_ppm } => write!(f, "copy of a laggard at {} %", done_ppm / 10_000),
            Reason::GivesWay { to } => write!(f, "gives way to {to}"),
            Reason::GivesWayToRecovery { to } => write!(f, "gives way to lost work of {to}"),
            Reason::Outrun => write!(f, "another attempt was first"),
            Reason::JobOver => write!(f, "its job is over"),
            Reason::Requested => write!(f, "a person asked for it"),
            Reason::Granted => write!(f, "the cluster gave its job the slot"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::JobExists(job) => write!(f, "{job} exists already; give each job a new number"),
            Refusal::UnknownJob(job) => write!(f, "{job} is not here (over, or never submitted)"),
            Refusal::EmptyJob(job) => write!(f, "{job} has no input split; a job needs at least one map"),
            Refusal::BadJob(job) => write!(f, "{job} has a number out of range"),
            Refusal::UnknownNode(node) => write!(f, "{node} is down or unknown; it must join first"),
            Refusal::NodeIsUp(node) => write!(f, "{node} is up already; report its loss before it joins again"),
            Refusal::NodeGap(node) => write!(f, "{node} leaves a gap; number nodes from 0 without gaps"),
            Refusal::BadNode(node) => write!(f, "{node} has no slots or no speed"),
            Refusal::StaleAttempt(attempt) => write!(f, "attempt {attempt} is over or unknown"),
            Refusal::NotAsked(attempt) => write!(f, "attempt {attempt} was not asked to do that"),
            Refusal::NothingWaits(job) => {
                write!(f, "{job} has no waiting task for that slot; say first what it asks for")
            }
            Refusal::NotOpen(job) => write!(f, "{job} came with all its tasks; only an open job asks for more"),
            Refusal::TimeWentBack => write!(f, "time went back; events must come in the order of time"),
        }
    }
}

impl Action {
    /// The kind of task this concerns, where it concerns one.
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
