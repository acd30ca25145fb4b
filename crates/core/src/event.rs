//! Events: what happened in the cluster, reported by a backend, in the past tense.

use crate::action::Outcome;
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, RackId};
use crate::snapshot::Snapshot;
use crate::timer::Timer;
use crate::units::Span;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;
use strum::{Display, EnumString};

/// The nodes that hold a replica of an input block.
pub type Hosts = SmallVec<[NodeId; 4]>;

/// Something that happened to jobs, nodes or attempts.
///
/// The order of the variants is part of the event log's format: add new ones at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A user submitted a job. All of its tasks are known.
    JobSubmitted(Box<JobSpec>),
    /// A user killed a job.
    JobKilled {
        /// The killed job.
        job: JobId,
    },
    /// A node joined, or came back after a loss with an empty disk.
    NodeJoined {
        /// The next unused node number, or that of a lost node.
        node: NodeId,
        /// Its slots, speed and disk.
        spec: NodeSpec,
    },
    /// A node offers its free slots, on a heartbeat or as soon as one is free. The scheduler may now launch tasks there.
    SlotsOffered {
        /// The node with the free slots.
        node: NodeId,
        /// Progress of its attempts, where it changed.
        progress: Vec<Progress>,
    },
    /// A node missed its heartbeats for longer than the backend's timeout. Its running attempts, paused attempts and map outputs are lost.
    NodeLost {
        /// The lost node.
        node: NodeId,
    },
    /// An attempt completed its task.
    AttemptFinished {
        /// The finished attempt.
        attempt: AttemptId,
        /// Bytes of map output for the reduces, or of the job's output.
        output_bytes: u64,
    },
    /// An attempt failed without being killed.
    AttemptFailed {
        /// The failed attempt.
        attempt: AttemptId,
    },
    /// An attempt was killed at the scheduler's request.
    AttemptKilled {
        /// The killed attempt.
        attempt: AttemptId,
    },
    /// A reduce paused at the scheduler's request; its node keeps its state.
    AttemptPaused {
        /// The paused attempt.
        attempt: AttemptId,
        /// Its progress, in parts per million. All of it is kept.
        progress_ppm: u32,
    },
    /// A map ended early at the scheduler's request: the bytes it has mapped are a finished map, the rest becomes a new one.
    AttemptEndedEarly {
        /// The ended attempt.
        attempt: AttemptId,
        /// Input bytes mapped, up to a record boundary.
        done_bytes: u64,
        /// Map output of those bytes.
        output_bytes: u64,
    },
    /// A timer that the scheduler had set with `SetTimer` expired.
    TimerFired {
        /// Which one.
        timer: Timer,
    },
    /// Attempts made progress. Unlike `SlotsOffered`, no slot is offered.
    ProgressReported {
        /// The changed attempts.
        progress: Vec<Progress>,
    },
    /// A reduce asked for the output of a finished map and could not read it, though the map's node is up.
    MapOutputLost {
        /// The attempt that wrote the output.
        map: AttemptId,
    },
    /// A user asked that this attempt free its slot and keep its work: a map ends early, a reduce pauses.
    YieldRequested {
        /// The attempt to preempt.
        attempt: AttemptId,
    },
    /// An open job was submitted: its tasks become known only as it requests slots, as with an application of a YARN cluster. It ends with
    /// `JobEnded`.
    JobOpened(Box<JobSpec>),
    /// An open job changed the number of slots it requests. The counts replace those of its last request.
    SlotsRequested {
        /// An open job.
        job: JobId,
        /// Map slots requested and not yet granted.
        maps: u32,
        /// Reduce slots requested and not yet granted.
        reduces: u32,
    },
    /// The backend granted a slot to an open job by itself. The scheduler answers with a `Launch` that names the attempt.
    SlotGranted {
        /// An open job.
        job: JobId,
        /// Map or reduce slot.
        kind: Kind,
        /// The node of the slot.
        node: NodeId,
    },
    /// An open job ended.
    JobEnded {
        /// The ended job.
        job: JobId,
        /// Success, kill or failure.
        outcome: Outcome,
    },
    /// The backend lost and regained contact with its cluster. All running attempts end and their tasks are pending again. The backend then
    /// reports those that still run with `SlotGranted`, as new attempts. Paused attempts of open jobs end too.
    Resynced,
    /// The backend could not pause or kill an attempt as requested: it keeps running.
    StopFailed {
        /// The attempt that was requested to stop.
        attempt: AttemptId,
    },
    /// An attempt of an open job must not be preempted, such as the container of an application master.
    AttemptProtected {
        /// A running attempt.
        attempt: AttemptId,
    },
    /// Limits the attempts that may be paused on a node at once, because paused ones keep their memory. Without this event there is no limit.
    PauseLimitSet {
        /// A node that is up.
        node: NodeId,
        /// How many; zero if the node cannot pause.
        attempts: u32,
    },
    /// An open job requests this many of its slots for work that was lost with a node. The count replaces that of the last such event.
    RecoveryRequested {
        /// An open job.
        job: JobId,
        /// How many of the slots it requests; zero once nothing is lost any more.
        slots: u32,
    },
    /// The scheduler was replaced by one that knows what is in this snapshot and nothing else: the backend's process was restarted, or its log
    /// begins here.
    Restored(Box<Snapshot>),
    /// An administrator wants no new tasks on a node, up or lost: attempts that run there go on, paused ones and map outputs stay. It lasts until
    /// [`Event::NodeIncluded`], also if the node is lost and joins again.
    NodeDrained {
        /// A node that has joined before.
        node: NodeId,
    },
    /// An administrator ends the drain of a node, or its exclusion because of failures.
    NodeIncluded {
        /// A node that has joined before.
        node: NodeId,
    },
    /// An attempt ended with its worker process, which was started again before its node counted as lost. What it had done is lost as with a node; what is
    /// stored on the node is not.
    AttemptLost {
        /// The lost attempt.
        attempt: AttemptId,
    },
    /// The number of slots of a node changed, for example because what is free there is asked for in larger or smaller containers. A node has none while
    /// nothing fits.
    NodeSlotsSet {
        /// A node that is up.
        node: NodeId,
        /// Slots in all, taken and free, by kind.
        slots: PerKind<u16>,
    },
    /// What the backend would grant an open job now, where it shares its slots among queues by rules of its own. Without this event that is all that is free, and
    /// all that is freed for the job.
    HeadroomSet {
        /// An open job.
        job: JobId,
        /// Of the free slots, at most so many: its queue is near its maximum.
        slots: u32,
        /// Whether a slot that an attempt of its pool leaves would go to its pool again, and not to one that is served first.
        freed: bool,
    },
}

/// Progress of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// A running attempt.
    pub attempt: AttemptId,
    /// Parts per million of its task. For a reduce as in Hadoop: a third each for shuffle, sort and reduce.
    pub progress_ppm: u32,
}

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Unique among live jobs.
    pub id: JobId,
    /// Display name. Not unique, never parsed.
    pub name: String,
    /// The backend's own id of the job, such as a YARN application id. Not used for scheduling.
    pub external_id: Option<String>,
    /// The user who submitted it.
    pub user: String,
    /// The pool (fair scheduler) or queue (capacity scheduler) it was submitted to.
    pub pool: String,
    /// Priority within its pool.
    pub priority: Priority,
    /// Its input, one map per split. Shared, because large jobs have many splits.
    pub splits: Arc<[Split]>,
    /// Number of reduces; zero for a map-only job.
    pub reduces: u32,
    /// Fraction of the maps, in parts per million, that must be done before reduces may start (Hadoop's slow start).
    pub slowstart_ppm: u32,
    /// Task times known in advance, if any.
    pub hint: Option<Hint>,
    /// Factor on every time estimate of this job, in parts per million. One whole except in studies of estimate error.
    pub estimate_bias_ppm: u32,
}

impl JobSpec {
    /// The most reduces a job may have, and the most slots of a kind an open job may request.
    pub const MAX_REDUCES: u32 = 10_000_000;
}

/// A piece of a job's input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Size in bytes.
    pub bytes: u64,
    /// Nodes that hold a replica; empty if unknown.
    pub hosts: Hosts,
}

/// Mean task times of a job, known in advance, on a node of speed 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// Time of one map without reading its split, which depends on the node's disk.
    pub map: Span,
    /// Time of one reduce.
    pub reduce: Span,
}

/// A job's priority, with Hadoop's names.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Priority {
    VeryHigh,
    High,
    #[default]
    Normal,
    Low,
    VeryLow,
}

impl Priority {
    /// Weight in a fair share, as in Hadoop's fair scheduler: twice the next lower priority's.
    pub fn weight(self) -> f64 {
        match self {
            Priority::VeryHigh => 4.0,
            Priority::High => 2.0,
            Priority::Normal => 1.0,
            Priority::Low => 0.5,
            Priority::VeryLow => 0.25,
        }
    }
}

/// A node's resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Host name for display.
    pub name: String,
    /// Its rack.
    pub rack: RackId,
    /// Maps it runs at once.
    pub map_slots: u16,
    /// Reduces it runs at once.
    pub reduce_slots: u16,
    /// Compute speed of a slot, in parts per million of the reference node's.
    pub speed_ppm: u32,
    /// Rate at which one task reads from the local disk.
    pub disk_bytes_per_s: u64,
    /// Disk size.
    pub disk_bytes: u64,
}

impl NodeSpec {
    /// Number of slots of a kind.
    pub fn slots(&self, kind: Kind) -> u16 {
        match kind {
            Kind::Map => self.map_slots,
            Kind::Reduce => self.reduce_slots,
        }
    }
}
