//! The controller: a state machine around the scheduler core.
//!
//! [`Controller::handle`] takes what happened and returns requests to the API server. It is level-triggered: what a pod needs next follows from the pod's
//! object and from whether the core wants it paused, never from what was requested before. So a lost answer, a conflict and a restart need no special care.
//!
//! `jobs` opens and ends jobs of the core, `pods` reports attempts, `nodes` reports nodes, `slots` counts what fits there; `squeeze` turns pauses into requests; `release` ends the suspension
//! of Jobs.

mod adaptation;
mod jobs;
mod nodes;
mod pods;
mod release;
mod slots;
mod squeeze;

pub use adaptation::{adapt, degradations};

use crate::objects::{Job, Node, Pod};
use crate::request::{Answer, Change, Input, Operation, Request};
use giveway_core::event_log::{EventLogWriteError, EventLogWriter};
use giveway_core::{
    Action, AttemptId, Capabilities, Event, JobId, NodeId, Policy, Scheduler, Setup, SetupError, Span, Start, Tenants,
    Time, Timers, Work,
};
use slots::NextPod;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What the API can do for a policy.
const CAPABILITIES: Capabilities =
    Capabilities { pause_reduces: true, one_slot_pool: true, ..Capabilities::ORDER_ONLY };
/// How often free slots are offered to squeezed pods, and held Jobs are looked at.
const POLL_INTERVAL: Span = Span::from_secs(1);

/// Options of a controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// Adapted to Kubernetes by [`adapt`].
    pub policy: Policy,
    pub mode: Mode,
    /// Written into the annotations of squeezed pods. A controller touches only pods that it or one of the same name has squeezed.
    pub name: String,
}

/// What a controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Schedule the Jobs that are in a queue of Giveway's.
    Schedule,
    /// Request nothing, and record all Jobs.
    RecordOnly,
    /// Give squeezed pods their CPU back, and nothing else.
    Restore,
}

/// Why a controller cannot be made or cannot go on.
#[derive(Debug, Error)]
pub enum ControllerError {
    /// The policy is invalid, or needs what Kubernetes does not offer.
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("cannot write the event log: {0}")]
    EventLog(#[from] EventLogWriteError),
}

/// The scheduler core, and the mapping between the cluster's objects and the core's.
#[derive(Debug)]
pub struct Controller {
    core: Scheduler,
    options: Options,
    now: Time,
    timers: Timers,
    poll_at: Time,
    nodes: BTreeMap<String, NodeEntry>,
    /// By uid of the Job, or by name of the group.
    jobs: BTreeMap<String, JobEntry>,
    /// By uid.
    pods: BTreeMap<String, PodEntry>,
    attempts: BTreeMap<AttemptId, String>,
    job_ids: BTreeMap<JobId, String>,
    next_node: u32,
    next_job: u32,
    next_pod: NextPod,
    /// Which kinds of objects have been listed: nodes, Jobs, pods. Before all are, nothing is decided.
    listed: [bool; 3],
    changed_nodes: BTreeSet<String>,
    changed_jobs: BTreeSet<String>,
    changed_pods: BTreeSet<String>,
    /// Pods that are squeezed, are to be squeezed, or have annotations of this controller.
    unsettled: BTreeSet<String>,
    /// The objects of the requests without an answer.
    in_flight: BTreeMap<u64, Subject>,
    next_request: u64,
    requests: Vec<Request>,
    event_log: EventLogWriter,
    log_bytes: Vec<u8>,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct NodeEntry {
    object: Node,
    deleted: bool,
    /// The core's number; the same when it returns.
    id: Option<NodeId>,
    is_up: bool,
    is_drained: bool,
    pods: BTreeSet<String>,
}

#[derive(Debug)]
struct JobEntry {
    /// None for a group of pods, and for a Job of which only pods are known yet.
    object: Option<Job>,
    deleted: bool,
    /// None while it is not open in the core.
    id: Option<JobId>,
    pods: BTreeSet<String>,
    retry: Retry,
    released_at: Option<Time>,
    /// The last event about its place in the queue.
    told: Option<(Time, String)>,
}

#[derive(Debug)]
struct PodEntry {
    object: Pod,
    deleted: bool,
    attempt: Option<AttemptId>,
    state: PodState,
    retry: Retry,
}

/// What the core wants of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PodState {
    #[default]
    Running,
    /// The core has paused it; its CPU is not free yet.
    Pausing { since: Time },
    /// Its CPU is free; the core's attempt is paused.
    Paused,
}

/// Whether a request about an object may be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Retry {
    in_flight: bool,
    not_before: Time,
}

impl Retry {
    fn may_request(self, now: Time) -> bool {
        !self.in_flight && self.not_before <= now
    }
}

/// What a request is about.
#[derive(Clone, Debug)]
enum Subject {
    Pod(String),
    Job(String),
    Event,
}

impl Controller {
    pub fn new(options: Options) -> Result<Controller, ControllerError> {
        let setup =
            Setup { policy: options.policy.clone(), tenants: Tenants::default(), capabilities: CAPABILITIES, seed: 0 };
        let core = Scheduler::new(setup)?;
        let (event_log, log_bytes) = EventLogWriter::begin(core.setup())?;
        Ok(Controller {
            core,
            options,
            now: Time::ZERO,
            timers: Timers::default(),
            poll_at: Time::ZERO,
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            attempts: BTreeMap::new(),
            job_ids: BTreeMap::new(),
            next_node: 0,
            next_job: 0,
            next_pod: NextPod::default(),
            listed: [false; 3],
            changed_nodes: BTreeSet::new(),
            changed_jobs: BTreeSet::new(),
            changed_pods: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            next_request: 0,
            requests: Vec::new(),
            event_log,
            log_bytes,
            warnings: Vec::new(),
        })
    }

    /// Handles something that happened at `now`, and returns the requests that follow from it. Times must not decrease.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Request> {
        self.now = now;
        match input {
            Input::Node(change) => self.node_changed(change),
            Input::Job(change) => self.job_changed(change),
            Input::Pod(change) => self.pod_changed(change),
            Input::Answered { request, answer } => self.answered(request, answer),
            Input::TimerFired => {}
        }
        if self.is_synchronized() {
            self.synchronize();
        }
        std::mem::take(&mut self.requests)
    }

    /// When [`Input::TimerFired`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let is_held = |job: &JobEntry| job.id.is_some() && job.is_held();
        let polls = !self.unsettled.is_empty() || self.has_waiting_pods() || self.jobs.values().any(is_held);
        self.timers.next().into_iter().chain(polls.then_some(self.poll_at)).min()
    }

    /// Takes the bytes to append to the event log since the last call.
    pub fn take_log(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.log_bytes)
    }

    /// Takes the operator's log lines since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Ends the event log. Nothing may be handled after that.
    pub fn close(mut self) -> Vec<u8> {
        self.event_log.close(&mut self.log_bytes);
        self.log_bytes
    }

    /// True once all objects have been listed. Before, nothing is decided.
    pub fn is_synchronized(&self) -> bool {
        self.listed == [true; 3]
    }

    /// Pods that are squeezed, or on the way to or from there.
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Numbers of nodes that are up, open jobs, and pods that the core knows.
    pub fn counts(&self) -> [usize; 3] {
        [self.nodes.values().filter(|node| node.is_up).count(), self.job_ids.len(), self.attempts.len()]
    }

    /// Brings the core up to date with the changed objects, and requests what follows.
    fn synchronize(&mut self) {
        // A node's slots are what the pods of no job leave.
        self.open_changed_jobs();
        if self.poll_at <= self.now || !self.has_waiting_pods() {
            self.look_up_next_pod();
        }
        let expects_smaller = self.expect_smaller_pods();
        let nodes = std::mem::take(&mut self.changed_nodes);
        nodes.iter().for_each(|node| self.synchronize_node(node));
        self.synchronize_pods();
        let jobs = std::mem::take(&mut self.changed_jobs);
        jobs.iter().for_each(|job| self.synchronize_job(job));
        if expects_smaller {
            self.look_up_next_pod();
            std::mem::take(&mut self.changed_nodes).iter().for_each(|node| self.update_slots(node));
        }
        while let Some(timer) = self.timers.expire(self.now) {
            self.submit(Event::TimerFired { timer });
        }
        nodes.iter().for_each(|node| self.limit_pauses(node));
        if self.poll_at <= self.now {
            self.poll_at = self.now + POLL_INTERVAL;
            self.offer_to_squeezed();
            self.release_jobs();
        }
        self.settle_pods();
    }

    /// Gives an event to the core, records it, and carries out the core's actions. Returns the attempt that was launched, if any.
    fn submit(&mut self, event: Event) -> Option<AttemptId> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        if let Err(error) = self.event_log.record(self.now, &event, &actions, &mut self.log_bytes) {
            self.warnings.push(format!("an event is missing in the event log: {error}"));
        }
        if let Some(refusal) = giveway_core::refusal(&actions) {
            self.warnings.push(format!("the scheduler core rejected an event: {refusal}; it was ignored"));
            return None;
        }
        let mut launched = None;
        for action in actions {
            match action {
                Action::SetTimer { timer, at } => self.timers.set(timer, at),
                Action::Pause { attempt, .. } => self.begin_pause(attempt),
                Action::Launch { attempt, work: Work::Reduce { start: Start::Resumed { from } }, .. } => {
                    self.resume(from, attempt);
                }
                Action::Launch { attempt, .. } => launched = Some(attempt),
                _ => {}
            }
        }
        launched
    }

    fn records_only(&self) -> bool {
        self.options.mode == Mode::RecordOnly
    }

    fn request(&mut self, namespace: &str, name: &str, operation: Operation, subject: Subject) {
        let number = self.next_request;
        self.next_request += 1;
        self.in_flight.insert(number, subject);
        self.requests.push(Request { number, namespace: namespace.into(), name: name.into(), operation });
    }

    fn answered(&mut self, request: u64, answer: Answer) {
        let Some(subject) = self.in_flight.remove(&request) else { return };
        match subject {
            Subject::Event => {}
            Subject::Pod(uid) => self.pod_answered(&uid, answer),
            Subject::Job(uid) => self.job_answered(&uid, answer),
        }
    }
}

/// True if an object is older than the one that is known. Resource versions that are not numbers cannot be compared: the later arrival counts.
fn is_older(new: &str, known: &str) -> bool {
    matches!((new.parse::<u64>(), known.parse::<u64>()), (Ok(new), Ok(known)) if new < known)
}

/// What happened to single objects, given what is known and a change.
fn changes<T>(
    change: Change<T>,
    known: impl Iterator<Item = String>,
    key: impl Fn(&T) -> String,
) -> (Vec<T>, Vec<String>) {
    match change {
        Change::Applied(object) => (vec![object], Vec::new()),
        Change::Deleted(object) => {
            let deleted = vec![key(&object)];
            (vec![object], deleted)
        }
        Change::Listed(objects) => {
            let listed: BTreeSet<String> = objects.iter().map(key).collect();
            let deleted = known.filter(|known| !listed.contains(known)).collect();
            (objects, deleted)
        }
    }
}
