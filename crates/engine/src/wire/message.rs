//! What processes say to each other.

use crate::job::{Plan, Request};
use crate::store::{BlockId, StoreCommand, StoreReport, StoreRequest, StoreResponse};
use crate::task::SegmentRequest;
use giveway_core::{AttemptId, JobId, NodeId, Outcome, Progress, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a job counted, by counter.
pub type Counters = BTreeMap<String, u64>;

/// A worker to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// Here I am. The first message of a connection.
    Join(Box<Join>),
    /// I am alive, and this is how far my tasks are.
    Beat {
        /// Every running attempt.
        progress: Vec<Progress>,
    },
    /// Something ended. Said again after each reconnection until it is acknowledged.
    Report {
        /// Its number in this worker's life.
        seq: u64,
        /// What.
        news: News,
    },
    /// Something about its blocks.
    Store(StoreReport),
}

/// Who a worker is and what it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    /// Its name; one name is one node, through restarts.
    pub name: String,
    /// A random number for each start of the process.
    pub life: u64,
    /// The rack it stands in.
    pub rack: u32,
    /// The machine it counts as standing on, as HDFS calls it.
    pub host: String,
    /// Maps it runs at once.
    pub map_slots: u16,
    /// Reduces it runs at once.
    pub reduce_slots: u16,
    /// Where other processes reach its data.
    pub data_address: String,
    /// Its process.
    pub pid: u32,
    /// Attempts that run, or have ended and were not acknowledged.
    pub at_work: Vec<AttemptId>,
    /// Map outputs it keeps.
    pub outputs: Vec<AttemptId>,
    /// Paused reduces it keeps.
    pub paused: Vec<AttemptId>,
    /// Jobs it keeps anything of.
    pub jobs: Vec<JobId>,
}

/// How something ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// A task is done.
    Finished {
        /// The attempt.
        attempt: AttemptId,
        /// What it wrote.
        output_bytes: u64,
        /// What it counted.
        counters: Counters,
    },
    /// A task broke down.
    Failed {
        /// The attempt.
        attempt: AttemptId,
        /// Why, for the job's owner.
        why: String,
    },
    /// A task was killed as asked.
    Killed {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A reduce paused as asked.
    Paused {
        /// The attempt.
        attempt: AttemptId,
        /// How far it was.
        progress_ppm: u32,
    },
    /// A map ended early as asked.
    EndedEarly {
        /// The attempt.
        attempt: AttemptId,
        /// Input bytes done.
        done_bytes: u64,
        /// What they gave.
        output_bytes: u64,
        /// What it counted.
        counters: Counters,
    },
    /// The output of a finished map is damaged or gone: who wanted it could not get it.
    OutputGone {
        /// The map's attempt.
        map: AttemptId,
    },
}

/// The coordinator to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// Welcome. The answer to `Join`.
    Welcome {
        /// Its number.
        node: NodeId,
        /// False if it was taken for lost: then it drops whatever it keeps of tasks.
        keep: bool,
        /// How often to beat.
        beat_ms: u32,
    },
    /// It cannot join. The other answer to `Join`.
    Refused {
        /// Why.
        why: String,
    },
    /// A job's plan, before its first task.
    Plan(Box<Plan>),
    /// Run this.
    Launch {
        /// Its name.
        attempt: AttemptId,
        /// What.
        work: Work,
    },
    /// End a map early, or pause a reduce.
    GiveWay {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Kill a task.
    Kill {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Where the output of a job's finished maps is.
    Outputs {
        /// The job.
        job: JobId,
        /// True if this replaces all that was said before.
        afresh: bool,
        /// Outputs.
        outputs: Vec<crate::task::OutputAt>,
    },
    /// An output is gone.
    OutputGone {
        /// The map's attempt.
        map: AttemptId,
    },
    /// Where nodes' data is; a node without an address is lost.
    Nodes {
        /// Each node that changed.
        nodes: Vec<(NodeId, Option<String>)>,
    },
    /// A job is over: drop what you keep of it.
    CloseJob {
        /// The job.
        job: JobId,
    },
    /// A report has been written down.
    Ack {
        /// Its number.
        seq: u64,
    },
    /// Something about its blocks.
    Store(StoreCommand),
    /// Stop.
    Stop,
}

/// A user to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromClient {
    /// Run this job.
    Submit(Box<Request>),
    /// How is this job? Answered now, or whenever something changed until it is over.
    Job {
        /// The job.
        job: JobId,
        /// True to be told again and again.
        follow: bool,
    },
    /// List the jobs.
    Jobs,
    /// List the nodes.
    Nodes,
    /// Kill a job.
    Kill {
        /// The job.
        job: JobId,
    },
    /// Every running task of this job gives way once: maps end early, reduces pause.
    Yield {
        /// The job.
        job: JobId,
    },
    /// Why does this job stand where it stands?
    Explain {
        /// The job.
        job: JobId,
    },
    /// Something about stored files.
    Store(StoreRequest),
    /// Stop the cluster.
    Stop,
}

/// The coordinator to a user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToClient {
    /// The job is written down and will run.
    Submitted {
        /// Its number.
        job: JobId,
    },
    /// How a job is.
    Job(Box<JobStatus>),
    /// The jobs.
    Jobs(Vec<JobStatus>),
    /// The nodes.
    Nodes(Vec<NodeStatus>),
    /// Why a job stands where it stands, line by line.
    Explained(Vec<String>),
    /// What was asked about stored files.
    Store(StoreResponse),
    /// Done.
    Done,
    /// It cannot be done.
    Refused {
        /// Why, and what to do.
        why: String,
    },
}

/// Anybody to a worker's data server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRequest {
    /// A segment of a map's output.
    Segment(SegmentRequest),
    /// A range of a block.
    ReadBlock {
        /// The block.
        block: BlockId,
        /// From which byte.
        from: u64,
        /// At most so many.
        bytes: u32,
    },
    /// Here comes a block.
    WriteBlock {
        /// The block.
        block: BlockId,
        /// So many bytes follow, in pieces.
        bytes: u64,
    },
    /// Read all your blocks and say how each is.
    CheckBlocks,
}

/// How a job is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its number.
    pub job: JobId,
    /// What people call it.
    pub name: String,
    /// The application.
    pub app: String,
    /// Who submitted it.
    pub user: String,
    /// How it ended, if it has.
    pub outcome: Option<Outcome>,
    /// The job of the next round, if it runs in rounds and this round is over.
    pub next: Option<JobId>,
    /// Maps: all, done, running.
    pub maps: Counts,
    /// Reduces: all, done, running, paused.
    pub reduces: Counts,
    /// When it was submitted, in microseconds since the cluster began.
    pub submitted_us: u64,
    /// When its first task began.
    pub began_us: Option<u64>,
    /// When it was over.
    pub ended_us: Option<u64>,
    /// Times a reduce paused.
    pub pauses: u32,
    /// Times a map ended early.
    pub early_ends: u32,
    /// Times a task was killed to give way.
    pub kills: u32,
    /// Tasks done again because a node or an output was lost.
    pub recovered: u32,
    /// What it counted.
    pub counters: Counters,
    /// What went wrong, if something did: the last few.
    pub problems: Vec<String>,
}

/// Tasks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub all: u32,
    /// Done.
    pub done: u32,
    /// Running.
    pub running: u32,
    /// Paused.
    pub paused: u32,
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its process, while it is connected.
    pub pid: Option<u32>,
    /// Whether the core counts on it.
    pub up: bool,
    /// Map slots: all, taken.
    pub map_slots: (u16, u16),
    /// Reduce slots: all, taken.
    pub reduce_slots: (u16, u16),
    /// Reduces paused there.
    pub paused: u32,
}
