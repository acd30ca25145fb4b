//! Actions: what the scheduler asks a backend to do, in the imperative, each with its reason.

use crate::event::{Hosts, JobSpec};
use crate::ids::{AttemptId, JobId, Kind, NodeId};
use crate::timer::Timer;
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// Why the scheduler requested an action.
///
/// The order of the variants is part of the event log's format: add new ones at the end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reason {
    /// First by priority and submission time.
    SubmissionOrder,
    /// Shortest remaining time (hSRTF, eq. 1).
    RemainingTime {
        /// Estimated remaining time.
        estimate: Span,
    },
    /// Fewest slots for its weight.
    SlotsOverWeight {
        /// Slots allocated to the job.
        allocated: u32,
    },
    /// Fewest slots for its share.
    SlotsOverShare {
        /// Slots allocated to the job.
        allocated: u32,
        /// Its share, in thousandths of a slot.
        share_milli: u64,
    },
    /// Least work left before and in its reduces (FCS, section 4).
    RemainingWork {
        /// Estimated time until its last map is done.
        shuffle: Span,
        /// Bytes still to reduce.
        bytes: u64,
    },
    /// Least service received so far.
    AttainedService {
        /// Slot time received so far.
        service: Span,
    },
    /// The slot was reserved for this job when another attempt was preempted.
    Reserved,
    /// The task's earlier work was lost with a node.
    Recovery {
        /// The lost node.
        lost: NodeId,
    },
    /// A speculative attempt of a straggling task.
    Speculative {
        /// Progress of the straggler.
        progress_ppm: u32,
    },
    /// Preempted for a job that ranks before it.
    PreemptedFor {
        /// The beneficiary.
        job: JobId,
    },
    /// Preempted for a lost task of a job that ranks before it (Chronos, section III-B).
    PreemptedForRecovery {
        /// The beneficiary.
        job: JobId,
    },
    /// Another attempt of the same task finished first.
    OtherAttemptFinished,
    /// Its job ended.
    JobEnded,
    /// A user requested it.
    RequestedByUser,
    /// The cluster's own scheduler granted the slot.
    GrantedByCluster,
}

/// Why an event was refused.
///
/// The order of the variants is part of the event log's format: add new ones at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A live job has this id.
    JobExists(JobId),
    /// No live job has this id.
    UnknownJob(JobId),
    /// A job without splits.
    EmptyJob(JobId),
    /// A job whose bias is zero, whose slow start exceeds one whole, or which has more than [`JobSpec::MAX_REDUCES`] reduces.
    InvalidJob(JobId),
    /// The node never joined, or is down.
    UnknownNode(NodeId),
    /// A node that is up joined again.
    NodeAlreadyUp(NodeId),
    /// A node joined whose number leaves a gap.
    NodeIdGap(NodeId),
    /// A node without slots, speed or disk rate.
    InvalidNode(NodeId),
    /// The attempt is over, or never existed.
    StaleAttempt(AttemptId),
    /// The attempt was not requested to do this, or cannot.
    NotRequested(AttemptId),
    /// The event is older than the one before it.
    ClockWentBack,
    /// The job has no pending task of this kind.
    NothingPending(JobId),
    /// The job's tasks were all known at submission, so it cannot request slots.
    NotOpen(JobId),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::SubmissionOrder => write!(f, "first by submission"),
            Reason::RemainingTime { estimate } => write!(f, "shortest remaining time, {estimate}"),
            Reason::SlotsOverWeight { allocated } => write!(f, "fewest slots for its weight, {allocated}"),
            Reason::SlotsOverShare { allocated, share_milli } => {
                write!(f, "furthest below its share, {allocated} of {:.1} slots", *share_milli as f64 / 1e3)
            }
            Reason::RemainingWork { shuffle, bytes } => {
                write!(f, "least work left, {shuffle} of maps and {} MB to reduce", bytes / 1_000_000)
            }
            Reason::AttainedService { service } => write!(f, "least service so far, {service}"),
            Reason::Reserved => write!(f, "the slot was reserved for it"),
            Reason::Recovery { lost } => write!(f, "runs again what was lost with {lost}"),
            Reason::Speculative { progress_ppm } => {
                write!(f, "speculative attempt of a straggler at {} %", progress_ppm / 10_000)
            }
            Reason::PreemptedFor { job } => write!(f, "preempted for {job}"),
            Reason::PreemptedForRecovery { job } => write!(f, "preempted for a lost task of {job}"),
            Reason::OtherAttemptFinished => write!(f, "another attempt finished first"),
            Reason::JobEnded => write!(f, "its job ended"),
            Reason::RequestedByUser => write!(f, "requested by a user"),
            Reason::GrantedByCluster => write!(f, "granted by the cluster's own scheduler"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::JobExists(job) => write!(f, "{job} already exists; give each job a new id"),
            Refusal::UnknownJob(job) => write!(f, "{job} does not exist or has ended"),
            Refusal::EmptyJob(job) => write!(f, "{job} has no input split; a job needs at least one map"),
            Refusal::InvalidJob(job) => write!(
                f,
                "{job} has a number out of range: its estimate bias must be over 0, its slow start at most 100 % and its \
                 reduces at most {}",
                JobSpec::MAX_REDUCES
            ),
            Refusal::UnknownNode(node) => write!(f, "{node} is down or unknown; it must join first"),
            Refusal::NodeAlreadyUp(node) => write!(f, "{node} is already up; report its loss before it joins again"),
            Refusal::NodeIdGap(node) => write!(f, "{node} leaves a gap; number nodes from 0 without gaps"),
            Refusal::InvalidNode(node) => write!(f, "{node} has no slots, no speed or no disk rate"),
            Refusal::StaleAttempt(attempt) => write!(f, "attempt {attempt} has ended or is unknown"),
            Refusal::NotRequested(attempt) => write!(f, "attempt {attempt} was not requested to do that"),
            Refusal::NothingPending(job) => {
                write!(f, "{job} has no pending task for that slot; report its slot requests first")
            }
            Refusal::NotOpen(job) => {
                write!(f, "{job} was submitted with all its tasks; only an open job requests slots")
            }
            Refusal::ClockWentBack => write!(f, "the clock went back; events must be ordered by time"),
        }
    }
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
