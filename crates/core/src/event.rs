//! What happened: news from a body, in the past tense.

use crate::action::Outcome;
use crate::ids::{AttemptId, JobId, Kind, NodeId, RackId};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// The nodes that hold a replica of a block.
pub type Hosts = SmallVec<[NodeId; 4]>;

/// Something that happened to jobs, nodes or attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A user submitted a job.
    JobSubmitted(Box<JobSpec>),
    /// A user took a job back.
    JobKilled {
        /// The job.
        job: JobId,
    },
    /// A node joined, or came back after a loss with an empty disk.
    NodeJoined {
        /// The node.
        node: NodeId,
        /// What it has.
        spec: NodeSpec,
    },
    /// A node's heartbeat. Its free slots may now be filled.
    NodeBeat {
        /// The node.
        node: NodeId,
        /// How far its attempts have come, where that is news.
        progress: Vec<Progress>,
    },
    /// A node fell silent for longer than the body's time-out. All that ran there, paused there or was kept there is gone.
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// An attempt finished its task.
    AttemptFinished {
        /// The attempt.
        attempt: AttemptId,
        /// What it wrote: map output for the reduces, or the job's output.
        output_bytes: u64,
    },
    /// An attempt broke down on its own.
    AttemptFailed {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An attempt was killed, as the core asked.
    AttemptKilled {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A reduce paused, as the core asked; its node keeps its state.
    AttemptPaused {
        /// The attempt.
        attempt: AttemptId,
        /// How far it had come: all of that is kept.
        done_ppm: u32,
    },
    /// A map ended early, as the core asked: its first bytes are a finished map, the rest a new one.
    AttemptEndedEarly {
        /// The attempt.
        attempt: AttemptId,
        /// Input bytes read and mapped, at a record boundary.
        done_bytes: u64,
        /// What those bytes gave.
        output_bytes: u64,
    },
    /// The instant came for which the core had asked with `WakeAt`.
    Woke,
    /// Attempts have come further. Unlike with a beat, no slots are offered.
    Progressed {
        /// How far.
        progress: Vec<Progress>,
    },
    /// The output of a finished map can no longer be read, though its node is up, and a reduce asked for it.
    OutputLost {
        /// The attempt that made it.
        map: AttemptId,
    },
    /// A person asked that this attempt give way to whoever is first in line: a map ends early, a reduce pauses.
    YieldRequested {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A job came whose tasks become known only as it asks for slots (an application of a YARN cluster). It may have none yet, and stays open
    /// until the body says that it ended.
    JobOpened(Box<JobSpec>),
    /// An open job asks for so many slots, no more and no fewer: tasks that are not known yet are added, waiting ones it no longer asks for are
    /// dropped.
    TasksAsked {
        /// The job.
        job: JobId,
        /// Slots for maps.
        maps: u32,
        /// Slots for reduces.
        reduces: u32,
    },
    /// The body gave a slot to a job on its own. The core is not asked where, only which attempt that is: it answers with a `Launch`.
    SlotTaken {
        /// The job.
        job: JobId,
        /// The kind of task it was asked for.
        kind: Kind,
        /// Where.
        node: NodeId,
    },
    /// An open job is over.
    JobEnded {
        /// The job.
        job: JobId,
        /// How.
        outcome: Outcome,
    },
    /// The body lost touch with its cluster and has found it again. Attempts may have ended unseen: all of them wait again, and those that still
    /// run are told anew.
    Resynced,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The attempt.
    pub attempt: AttemptId,
    /// Parts per million of its task. A reduce counts as Hadoop counts: a third shuffle, a third sort, a third reduce.
    pub done_ppm: u32,
}

/// A job as its user submitted it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its number.
    pub id: JobId,
    /// What people call it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// The pool or queue it was submitted to.
    pub pool: String,
    /// Urgent or not, within its pool.
    pub priority: Priority,
    /// Its input, one map for each split. Shared with whoever keeps it: large jobs have many.
    pub splits: Arc<[Split]>,
    /// How many reduces; none for a map-only job.
    pub reduces: u32,
    /// Reduces may start once this part of the maps is done.
    pub slowstart_ppm: u32,
    /// What is believed of it beforehand, if anything.
    pub hint: Option<Hint>,
    /// What every estimate of this job is multiplied by: one whole in earnest, anything else to study bad estimates.
    pub estimate_bias_ppm: u32,
}

/// A piece of input and where it lies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Its size.
    pub bytes: u64,
    /// Nodes that hold a replica; may be empty.
    pub hosts: Hosts,
}

/// What is believed of a job beforehand, on a node of speed 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// Mean time of one map beside reading its split, which depends on the node's disk.
    pub map: Span,
    /// Mean time of one reduce.
    pub reduce: Span,
}

/// A job's urgency, as Hadoop names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Before all others.
    VeryHigh,
    /// Before the normal ones.
    High,
    /// As most.
    #[default]
    Normal,
    /// After the normal ones.
    Low,
    /// After all others.
    VeryLow,
}

impl Priority {
    /// How much more a job of this priority weighs in a fair share, as in Hadoop's fair scheduler.
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

/// What a node has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// What people call it.
    pub name: String,
    /// Where it stands.
    pub rack: RackId,
    /// How many maps it runs at once.
    pub map_slots: u16,
    /// How many reduces it runs at once.
    pub reduce_slots: u16,
    /// How fast a slot computes; one whole is the reference node.
    pub speed_ppm: u32,
    /// How fast a task reads from the local disk.
    pub disk_bytes_per_s: u64,
    /// How much the disk holds.
    pub disk_bytes: u64,
}

impl NodeSpec {
    /// Its slots of a kind.
    pub fn slots(&self, kind: Kind) -> u16 {
        match kind {
            Kind::Map => self.map_slots,
            Kind::Reduce => self.reduce_slots,
        }
    }
}
