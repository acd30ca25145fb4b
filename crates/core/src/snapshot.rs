//! A snapshot: a cluster at one instant, as plain data.
//!
//! It has the facts (nodes, live jobs, the state of each task, running attempts), what the policy has learned and computed ([`PolicyState`]), and the
//! order of what has an order. A scheduler that continues from it decides exactly as the one that it was taken of. It does not have the scheduler's data
//! structures, so those may change from release to release.
//!
//! [`Cluster::snapshot`](crate::Cluster::snapshot) takes one, and [`Event::Restored`](crate::Event::Restored) continues from one. Snapshots are
//! stored in journals and event logs: the order of the fields is part of those formats.

use crate::event::{JobSpec, NodeSpec};
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskId, TaskKey};
use crate::lifecycle::{RunningAttempt, StopRequest};
use crate::policy::matching::Classes;
use crate::policy::{PolicyState, Prior};
use crate::state::{Estimate, Exclusion, TaskHistory, TaskState};
use crate::timer::Timers;
use crate::units::{Span, Time};
use crate::{PreemptAction, Start, Work};
use serde::{Deserialize, Serialize};

/// A cluster at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// All nodes that have joined, by id.
    pub nodes: Vec<NodeSnapshot>,
    /// The live jobs, in the order of their submission.
    pub jobs: Vec<JobSnapshot>,
    /// The keys that no live job has.
    pub keys: JobKeys,
    /// The speed and disk rate of each type of node, in the order of their numbers.
    pub node_types: Vec<(f64, f64)>,
    /// What the policy has learned and computed.
    pub policy: PolicyState,
    /// The timers that are set. None if estimates and all that follows from them are to be computed anew: in a snapshot of an earlier release, and for another
    /// setup.
    pub timers: Option<TimersSnapshot>,
}

/// The timers that are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimersSnapshot {
    /// When each expires.
    pub expiries: Timers,
    /// When the retry timer has to fire, and the tasks that may run again then.
    pub retries: Vec<(Time, Option<TaskId>)>,
}

/// How jobs are numbered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobKeys {
    /// Number of jobs that were submitted.
    pub submitted: u32,
    /// The keys of ended jobs; the last one is used first.
    pub free: Vec<u32>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSnapshot<O = NodeOrder> {
    /// Its slots, speed and disk.
    pub spec: NodeSpec,
    /// False if it is lost.
    pub up: bool,
    /// How many reduces may be paused there at once.
    pub pause_limit: u32,
    /// The latest failures of attempts there and their jobs, oldest first.
    pub failures: Vec<(Time, JobId)>,
    /// Why and since when it gets no tasks, if so.
    pub exclusion: Option<Exclusion>,
    /// The order of what runs, is paused and is reserved there.
    pub order: O,
}

/// The order of what runs, is paused and is reserved on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOrder {
    /// The attempts that hold a slot, as the job, the task and the attempt's number.
    pub running: PerKind<Vec<(JobId, u32, u16)>>,
    /// The paused reduces.
    pub paused: Vec<(JobId, u32)>,
    /// Reserved slots: the key and id of the job, and the task if the slot is for one.
    pub reservations: PerKind<Vec<(u32, JobId, Option<u32>)>>,
}

/// A live job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSnapshot<M = JobMemory> {
    /// The job as it was submitted, with the present locations of its input.
    pub spec: JobSpec,
    /// When it was submitted.
    pub submitted: Time,
    /// True if it has ended, and only its last attempts have not left their slots.
    pub closed: bool,
    /// Its tasks. Maps that are the rest of one that ended early come after those of the splits.
    pub tasks: PerKind<Vec<TaskSnapshot>>,
    /// Pending reduces without those that wait after a failure; the last one is launched first.
    pub pending_reduces: Vec<u32>,
    /// Paused reduces, oldest first.
    pub paused: Vec<u32>,
    /// Finished maps whose output was lost while no reduce needed it, and the node it was on.
    pub unneeded_lost_outputs: Vec<(u32, NodeId)>,
    /// Speculative attempts that hold a slot.
    pub speculative: Vec<SpeculativeSnapshot>,
    /// When its first map was launched.
    pub first_launch: Option<Time>,
    /// Slot time of attempts that have ended.
    pub ended_service: Span,
    /// Nodes on which attempts failed, and how many.
    pub failed_on: Vec<(NodeId, u8)>,
    /// What was observed of finished tasks.
    pub finished: PerKind<FinishedTasks>,
    /// What was observed of it for estimates and lags.
    pub memory: M,
}

/// What was observed of a job and computed for it, and the order of its lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobMemory {
    /// Its key.
    pub key: u32,
    /// Its position in the order of submission.
    pub sequence: u32,
    /// What is known only of a job whose tasks become known as it requests slots.
    pub open: Option<OpenJobSnapshot>,
    /// What is estimated of it.
    pub estimate: Estimate,
    /// Slots it is entitled to under the policy's share.
    pub fair_share: PerKind<f64>,
    /// When its last map was done, while all are.
    pub maps_done_at: Option<Time>,
    /// The part of the work of finished reduces in which they waited for the last map, in seconds.
    pub wait_s: f64,
    /// Reduces whose earlier attempts waited for the last map, and how long.
    pub kept_waits: Vec<(u32, Span)>,
    /// Finished parts of maps that ended early, in whole splits, and their work in seconds.
    pub parts: (f64, f64),
    /// Its classes, where jobs are matched to nodes.
    pub classes: Classes,
    /// Since when it waits for a node with its input, or that ran maps of it.
    pub delayed_since: PerKind<Option<Time>>,
    /// Until when other nodes do not ask it.
    pub delayed_until: PerKind<Option<Time>>,
    /// Work of the jobs that ranked before it when that was last computed, in seconds.
    pub work_ahead_s: PerKind<f64>,
    /// Its tasks that hold a slot, in the order in which they are visited.
    pub running: PerKind<Vec<u32>>,
    /// Pending maps that have run before or are the rest of one that ended early; the first one is launched first.
    pub returned_maps: Vec<u32>,
    /// The offers refused since the pause of each paused reduce.
    pub refused_since_pause: Vec<u64>,
    /// The nodes that ran maps of it.
    pub map_nodes: Vec<u32>,
    /// The types of nodes that hold its input, as bits.
    pub input_types: u64,
    /// Whether work of any of its tasks was ever lost with a node.
    pub has_lost_work: bool,
}

/// What is known of a job whose tasks become known as it requests slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenJobSnapshot {
    /// Slots that it requests.
    pub requested: PerKind<u32>,
    /// Slots that it requests for lost work.
    pub recovering: u32,
}

/// A snapshot as earlier releases wrote it: without orders and estimates; for each job its credits in a virtual fair cluster, and for the policy the mean
/// task times and the time of these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotVersion2 {
    nodes: Vec<NodeSnapshot<()>>,
    jobs: Vec<JobSnapshot<PerKind<f64>>>,
    policy: (Prior, Time),
}

impl From<SnapshotVersion2> for Snapshot {
    fn from(old: SnapshotVersion2) -> Snapshot {
        let node = |old: NodeSnapshot<()>| NodeSnapshot {
            spec: old.spec,
            up: old.up,
            pause_limit: old.pause_limit,
            failures: old.failures,
            exclusion: old.exclusion,
            order: NodeOrder::default(),
        };
        let job = |(key, old): (u32, JobSnapshot<PerKind<f64>>)| JobSnapshot {
            spec: old.spec,
            submitted: old.submitted,
            closed: old.closed,
            tasks: old.tasks,
            pending_reduces: old.pending_reduces,
            paused: old.paused,
            unneeded_lost_outputs: old.unneeded_lost_outputs,
            speculative: old.speculative,
            first_launch: old.first_launch,
            ended_service: old.ended_service,
            failed_on: old.failed_on,
            finished: old.finished,
            memory: JobMemory { key, sequence: key + 1, ..JobMemory::default() },
        };
        let mut policy = PolicyState::default();
        policy.task_times.set_averages(old.policy.0);
        Snapshot {
            nodes: old.nodes.into_iter().map(node).collect(),
            keys: JobKeys { submitted: old.jobs.len() as u32, free: Vec::new() },
            jobs: (0..).zip(old.jobs).map(job).collect(),
            node_types: Vec::new(),
            policy,
            timers: None,
        }
    }
}

/// Totals over the finished whole tasks of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FinishedTasks {
    /// How many.
    pub count: u32,
    /// Their slot time.
    pub time: Span,
    /// Their work in seconds on a slot of speed 1, if the policy needs it.
    pub work_s: f64,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSnapshot {
    /// Index of its split, if it is a map.
    pub split: u32,
    /// How often it was preempted.
    pub preemptions: u8,
    /// Its current or last attempt; none if it never ran.
    pub attempt: Option<AttemptSnapshot>,
    /// What is known of it if it did not run once from beginning to end.
    pub history: Option<TaskHistory>,
}

/// The current or last attempt of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptSnapshot {
    /// The state of its task.
    pub state: TaskState,
    /// Where it runs, is paused, or left its output.
    pub node: NodeId,
    /// When it was launched.
    pub launched: Time,
    /// Its progress, in parts per million.
    pub progress_ppm: u32,
    /// Its number.
    pub number: u16,
    /// Number of attempts of the task, speculative ones included.
    pub attempts: u16,
    /// True if it must not be preempted.
    pub protected: bool,
    /// Bytes of a finished map's output.
    pub output_bytes: u64,
}

/// A second attempt of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculativeSnapshot {
    /// Map or reduce.
    pub kind: Kind,
    /// The index of its task.
    pub index: u32,
    /// Its number.
    pub number: u16,
    /// Where it runs.
    pub node: NodeId,
    /// When it was launched.
    pub launched: Time,
    /// True if it was requested to be killed.
    pub stopping: bool,
}

impl Snapshot {
    /// The facts and what was learned, without what the policy computed and reserved: for a scheduler of another setup, which computes that anew.
    pub fn for_other_setup(mut self) -> Snapshot {
        self.timers = None;
        self.policy.groups = PerKind::default();
        self
    }

    /// The attempts that hold a slot. The locality of maps and the start of reduces are not known any more.
    pub fn running<T: Default>(&self) -> Vec<RunningAttempt<T>> {
        let mut running = Vec::new();
        for job in &self.jobs {
            for kind in Kind::BOTH {
                for (index, task) in (0..).zip(&job.tasks[kind]) {
                    let Some(attempt) = task.attempt.filter(|attempt| attempt.state.holds_slot()) else { continue };
                    let key = TaskKey { kind, index };
                    let stop = match attempt.state {
                        TaskState::Stopping(action) => Some(StopRequest { action, preempted: !job.closed }),
                        _ => None,
                    };
                    running.push(job.running_attempt(key, attempt.number, attempt.node, attempt.launched, stop));
                }
            }
            for other in &job.speculative {
                let key = TaskKey { kind: other.kind, index: other.index };
                let kill = StopRequest { action: PreemptAction::Kill, preempted: false };
                let stop = other.stopping.then_some(kill);
                running.push(job.running_attempt(key, other.number, other.node, other.launched, stop));
            }
        }
        running
    }
}

impl JobSnapshot {
    fn running_attempt<T: Default>(
        &self,
        key: TaskKey,
        number: u16,
        node: NodeId,
        launched: Time,
        stop: Option<StopRequest>,
    ) -> RunningAttempt<T> {
        let task = self.tasks[key.kind].get(key.index as usize);
        let work = match key.kind {
            Kind::Reduce => Work::Reduce { start: Start::Fresh },
            Kind::Map => {
                let split = task.map_or(0, |task| task.split);
                let history = task.and_then(|task| task.history.as_ref());
                let start_bytes = history.map_or(0, TaskHistory::start_bytes);
                let whole = || self.spec.splits.get(split as usize).map_or(0, |split| split.bytes);
                let bytes = history.and_then(TaskHistory::bytes).unwrap_or_else(whole);
                Work::Map { split, start_bytes, bytes, locality: crate::Locality::Remote }
            }
        };
        let id = AttemptId { task: key.of(self.spec.id), number };
        RunningAttempt { id, node, launched, work, stop, data: T::default() }
    }
}
