//! The messages between processes. They are encoded with postcard, so a change here is a change of [`PROTOCOL`](super::PROTOCOL).

use crate::attempt_logs::LogChunk;
use crate::coordinator::Clock;
use crate::job::{Plan, Request};
use crate::program::ProgramId;
use giveway_core::{AttemptId, JobId, NodeId, Outcome, Priority, Progress, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Counter values by counter name.
pub type Counters = BTreeMap<String, u64>;

/// From a worker to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// Joins the cluster. Must be the first message of a connection.
    Join(Box<Join>),
    /// The worker is alive. Sent every heartbeat interval.
    Heartbeat {
        /// Progress of every running attempt.
        progress: Vec<Progress>,
    },
    /// The result of an attempt. Sent again after each reconnection until [`ToWorker::Ack`] confirms it.
    Report {
        /// Sequence number within this worker process.
        seq: u64,
        report: Report,
    },
}

/// What a worker is and which state it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    pub worker: WorkerIdentity,
    /// Attempts that are running, or have ended and are not acknowledged yet.
    pub running: Vec<AttemptId>,
    /// Map outputs on this worker's disk.
    pub outputs: Vec<AttemptId>,
    /// Jobs of which the worker has any state.
    pub jobs: Vec<JobId>,
}

/// What distinguishes a worker from others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerIdentity {
    /// Identifies the node, also across restarts of its process.
    pub name: String,
    /// Random number chosen at each start of the process.
    pub incarnation: u64,
    pub rack: u32,
    /// The host name for locality, as HDFS reports it.
    pub host: String,
    /// Maximum number of concurrent maps.
    pub map_slots: u16,
    /// Maximum number of concurrent reduces.
    pub reduce_slots: u16,
    /// The worker's folder. The reduces of all workers read its map outputs there.
    #[serde(with = "crate::path_bytes")]
    pub folder: PathBuf,
    pub pid: u32,
}

/// The folder of a node's worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFolder {
    pub node: NodeId,
    #[serde(with = "crate::path_bytes")]
    pub folder: PathBuf,
}

/// The result of an attempt, or the loss of an earlier result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    Finished {
        attempt: AttemptId,
        /// Size of its output.
        output_bytes: u64,
        counters: Counters,
    },
    Failed {
        attempt: AttemptId,
        /// The reason, shown to the job's user.
        reason: String,
    },
    /// The attempt was killed on request.
    Killed { attempt: AttemptId },
    /// A reduce paused on request.
    Paused {
        attempt: AttemptId,
        /// Its progress in parts per million.
        progress_ppm: u32,
    },
    /// A map ended early on request: the processed part of its input counts.
    EndedEarly {
        attempt: AttemptId,
        done_bytes: u64,
        /// Size of the output for them.
        output_bytes: u64,
        counters: Counters,
    },
    /// The output of a finished map is damaged or missing. Sent by the worker that failed to fetch it.
    OutputLost { map: AttemptId },
}

impl Report {
    /// The attempt whose end this is; `None` for the loss of an earlier result.
    pub fn ended_attempt(&self) -> Option<AttemptId> {
        match self {
            Report::Finished { attempt, .. }
            | Report::Failed { attempt, .. }
            | Report::Killed { attempt }
            | Report::Paused { attempt, .. }
            | Report::EndedEarly { attempt, .. } => Some(*attempt),
            Report::OutputLost { .. } => None,
        }
    }
}

/// From the coordinator to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// Positive answer to [`FromWorker::Join`].
    JoinAccepted {
        node: NodeId,
        /// False if the node had been declared lost: the worker must then drop all state of tasks.
        keep_state: bool,
        heartbeat_interval_ms: u32,
    },
    /// Negative answer to [`FromWorker::Join`].
    JoinRefused {
        /// The reason and what to do.
        reason: String,
    },
    /// The plan of a job. Sent before the job's first launch on a connection.
    Plan {
        plan: Box<Plan>,
        /// The program in the cluster directory that the job was shipped with, if its application is not built in.
        program: Option<ProgramId>,
    },
    Launch {
        attempt: AttemptId,
        /// The part of the task to execute.
        work: Work,
    },
    /// Ends a map early or pauses a reduce.
    Yield {
        attempt: AttemptId,
    },
    Kill {
        attempt: AttemptId,
    },
    /// Locations of a job's map outputs.
    MapOutputs {
        job: JobId,
        /// True if the list replaces all locations sent before, false if it adds to them.
        replace: bool,
        outputs: Vec<crate::task::MapOutputLocation>,
    },
    /// A map output is lost; a new attempt of the map will produce another.
    OutputLost {
        map: AttemptId,
    },
    /// Where the map outputs of nodes are: nodes that have joined, or all of them after a join.
    NodeFolders {
        folders: Vec<NodeFolder>,
    },
    /// A node is lost, and its map outputs with it.
    NodeLost {
        node: NodeId,
    },
    /// A job has ended: the worker must delete its state of the job.
    CloseJob {
        job: JobId,
    },
    /// A report is in the journal and need not be sent again.
    Ack {
        /// The report's sequence number.
        seq: u64,
    },
    /// Ends the worker process.
    Stop,
}

/// From a client to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromClient {
    Submit {
        request: Box<Request>,
        /// True if the application is in the program that this connection has offered last.
        shipped: bool,
    },
    /// Asks for a job's status.
    Job {
        job: JobId,
        /// True to receive the status again every heartbeat interval until the job has ended.
        follow: bool,
    },
    /// Lists the jobs, a page at a time.
    Jobs {
        /// The last job of the previous page; `None` for the first page.
        after: Option<JobId>,
    },
    Nodes,
    Kill {
        job: JobId,
    },
    /// Makes every running attempt of a job yield once: maps end early, reduces pause.
    Yield {
        job: JobId,
    },
    /// Asks for the event log in the journal, for users who cannot read that. Answered by several [`ToClient::EventLog`].
    EventLog,
    Stop,
    /// Lists the logs of a job's attempts.
    Logs {
        job: JobId,
    },
    /// Reads the files of the policy and the tenants again.
    Reload,
    /// Reads a part of an attempt's log.
    ReadLog {
        attempt: AttemptId,
        /// Offset of the first byte.
        from: u64,
    },
    /// Offers a program. Answered by [`ToClient::ProgramOffered`].
    OfferProgram {
        /// Its SHA-256.
        program: ProgramId,
        bytes: u64,
    },
    /// The next piece of the program that is wanted. Answered by [`ToClient::Done`], or refused.
    ProgramPiece {
        /// The piece; at least one byte.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Drains a node: it gets no new tasks. Or has it used again.
    SetDrained {
        /// Its name.
        node: String,
        drained: bool,
    },
}

/// From the coordinator to a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToClient {
    /// The job is in the journal and will run.
    Submitted {
        job: JobId,
    },
    Job(Box<JobStatus>),
    /// Jobs that are not forgotten yet, by id.
    Jobs {
        jobs: Vec<JobStatus>,
        /// True if there are more after the last one.
        more: bool,
    },
    /// All nodes, by id, including lost ones.
    Nodes(Vec<NodeStatus>),
    /// A piece of the event log.
    EventLog {
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        /// With the last piece: the wall clock.
        clock: Option<Clock>,
    },
    /// The request was executed; there is nothing to return.
    Done,
    Rejected(Rejection),
    /// Policy and tenants are in force.
    Reloaded(Reload),
    /// The logs of a job's attempts, ordered by task and attempt.
    Logs(Vec<LogStatus>),
    /// A part of an attempt's log.
    LogChunk(LogChunk),
    /// What to do with an offered program.
    ProgramOffered(ProgramOffer),
}

/// What a reload of policy and tenants did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    /// The policy in force.
    pub policy: String,
    /// False if everything is the same as before.
    pub changed: bool,
    /// The settings that differ, a line each.
    pub changes: Vec<String>,
}

/// Why a request is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    /// For programs.
    pub code: RejectionCode,
    /// For people: the reason, and what to do.
    pub reason: String,
}

/// What programs tell rejections apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RejectionCode {
    /// The request is wrong, whoever makes it and whenever.
    Invalid,
    /// The caller may not do that.
    Forbidden,
    /// There is no such job or node.
    NotFound,
    /// What is there contradicts it: the output exists, or the job has ended.
    Conflict,
    /// It may be accepted later.
    Unavailable,
}

impl RejectionCode {
    /// A rejection with this code.
    pub(crate) fn because(self, reason: impl Into<String>) -> Rejection {
        Rejection { code: self, reason: reason.into() }
    }
}

impl From<Rejection> for ToClient {
    fn from(rejection: Rejection) -> ToClient {
        ToClient::Rejected(rejection)
    }
}

/// What a client that has offered a program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramOffer {
    /// Submit the job as one of a built-in application: the cluster was started by this program.
    BuiltIn,
    /// Submit the job: the program is there.
    Stored,
    /// Send the program first.
    Wanted,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    pub job: JobId,
    /// The job's name, chosen by its user.
    pub name: String,
    /// Name of the application.
    pub app: String,
    /// The user who submitted it.
    pub user: String,
    /// Its pool or queue.
    pub pool: String,
    pub priority: Priority,
    /// Its output folder, as text: what is not UTF-8 in it is replaced.
    pub output: String,
    /// The final outcome; `None` until the output has been published or removed.
    pub outcome: Option<Outcome>,
    /// The job of the next round, once this one has ended; only for applications that run in rounds.
    pub next_round: Option<JobId>,
    pub maps: TaskCounts,
    pub reduces: TaskCounts,
    /// Submission time in microseconds since the cluster's journal began, as all times here.
    pub submitted_us: u64,
    /// Submission time in milliseconds of the Unix epoch, if known.
    pub submitted_ms: Option<f64>,
    /// Time of the first launch.
    pub started_us: Option<u64>,
    /// As `started_us`, in milliseconds of the Unix epoch, if known.
    pub started_ms: Option<f64>,
    /// Time at which the job ended.
    pub ended_us: Option<u64>,
    /// As `ended_us`, in milliseconds of the Unix epoch, if known.
    pub ended_ms: Option<f64>,
    /// Number of reduce pauses.
    pub pauses: u32,
    /// Number of maps that ended early.
    pub early_ends: u32,
    /// Number of attempts killed to free their slot; not those of an ended job or of a task that another attempt finished.
    pub kills: u32,
    /// Number of launches that replaced work lost with a node or a map output.
    pub recovered: u32,
    /// The job's counters so far.
    pub counters: Counters,
    /// The most recent failures, oldest first.
    pub failures: Vec<String>,
}

impl JobStatus {
    /// The states of a job, in words.
    pub const STATES: [&'static str; 5] = ["waiting", "running", "succeeded", "killed", "failed"];

    /// Its state, in a word: one of [`JobStatus::STATES`]. A job waits while it holds no slot.
    pub fn state(&self) -> &'static str {
        match self.outcome {
            None if self.maps.running + self.reduces.running == 0 => "waiting",
            None => "running",
            Some(Outcome::Succeeded) => "succeeded",
            Some(Outcome::Killed) => "killed",
            Some(Outcome::Failed) => "failed",
        }
    }

    /// Seconds from its submission to its first launch, including time in which no coordinator ran; none if no task has been launched.
    pub fn wait_s(&self) -> Option<f64> {
        self.seconds_until(self.started_us?, self.started_ms)
    }

    /// Seconds from its submission to its end, including time in which no coordinator ran; none if it has not ended.
    pub fn total_s(&self) -> Option<f64> {
        self.seconds_until(self.ended_us?, self.ended_ms)
    }

    /// By the wall clock, unless it was set back.
    fn seconds_until(&self, at_us: u64, at_ms: Option<f64>) -> Option<f64> {
        let running_s = at_us.saturating_sub(self.submitted_us) as f64 / 1e6;
        let wall_s = at_ms.zip(self.submitted_ms).map_or(0.0, |(at_ms, from_ms)| (at_ms - from_ms) / 1e3);
        Some(running_s.max(wall_s))
    }

    /// Its failures, each different one once: how often it happened, and the latest text. The latest comes first.
    pub fn distinct_failures(&self) -> Vec<(usize, &str)> {
        let mut found: Vec<(usize, &str)> = Vec::new();
        for failure in self.failures.iter().rev() {
            match found.iter_mut().find(|(_, known)| cause(known) == cause(failure)) {
                Some((times, _)) => *times += 1,
                None => found.push((1, failure)),
            }
        }
        found
    }
}

/// A failure without the attempt and the node that it begins with.
fn cause(failure: &str) -> &str {
    failure.split_once(": ").map_or(failure, |(_, cause)| cause)
}

/// What an attempt has printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    pub attempt: AttemptId,
    /// Name of the worker it ran on.
    pub node: String,
    /// Number of bytes it has printed.
    pub bytes: u64,
    /// Number of bytes that are stored.
    pub stored_bytes: u64,
}

/// Number of tasks of one kind, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCounts {
    /// All tasks, in any state.
    pub total: u32,
    pub done: u32,
    /// Tasks with a running attempt.
    pub running: u32,
    /// Paused tasks; reduces only.
    pub paused: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub node: NodeId,
    pub name: String,
    /// Process id of the worker; `None` while it is disconnected.
    pub pid: Option<u32>,
    /// False once the node has been declared lost.
    pub up: bool,
    /// Map slots: total, occupied.
    pub map_slots: (u16, u16),
    /// Reduce slots: total, occupied.
    pub reduce_slots: (u16, u16),
    /// Number of reduces paused on the node.
    pub paused: u32,
    /// True if it gets no tasks because an administrator drains it.
    pub drained: bool,
    /// Why it gets no tasks although it is up and not drained.
    pub excluded: Option<NodeExclusion>,
}

/// Why a node that is up gets no tasks: it failed those of several jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeExclusion {
    /// The failures it was excluded for.
    pub failures: u32,
    /// The number of jobs whose attempts failed.
    pub jobs: u32,
    /// Probes that have failed.
    pub failed_probes: u32,
    /// True while a probe runs.
    pub probing: bool,
    /// Seconds until the next probe may start; zero if it may start now.
    pub probe_in_s: f64,
}
