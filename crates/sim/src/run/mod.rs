//! The simulation loop: virtual clock, event queue and the exchange of events and actions with the core.
//!
//! [`Simulation::step`] takes the next event from the queue and dispatches it; actions of the core are performed immediately or queued.
//! `heartbeats` reports from nodes to the core (ends of attempts, slot offers, progress), `effects` performs the core's actions (launches,
//! stop requests, closing a job), `outages` handles node failures, `resume` begins in the middle of a run. Nothing in this module takes a scheduling decision.
//!
//! A run ends when every job is closed, no attempt is running and every failure has been detected. It also ends, with jobs unfinished, when
//! no queued event can make progress any more: a policy may starve a job, but it cannot keep the simulator running forever.

mod effects;
mod heartbeats;
mod outages;
mod resume;

pub use resume::{AttemptWork, ResumeError, ResumePoint};

use crate::attempts::{AttemptSlab, JobAndKind, StopRequest};
use crate::cluster::{Cluster, HeartbeatMode};
use crate::contention::SharedNode;
use crate::event_queue::{EventQueue, NONE, SimEvent};
use crate::faults::Failures;
use crate::heartbeat_schedule::HeartbeatSchedule;
use crate::layout::Layout;
use crate::nodes::Node;
use crate::observe::{Observer, RunStats};
use crate::offers::Offers;
use crate::random_streams::RandomStreams;
use crate::shuffle::Shuffle;
use crate::tasks::NodeRates;
use crate::workload::Workload;
use giveway_core::{
    Action, Capabilities, Event, JobId, Kind, NodeId, Policy, Progress, Scheduler, Setup, SetupError, Span, Time,
    Timers,
};
use rustc_hash::FxHashMap;

/// A run counts as stuck after this long with nothing but offers and timers. Longer than any delay that a policy is likely to use, short
/// enough to simulate in a moment.
const STUCK_AFTER: Span = Span::from_secs(2 * 3_600);
/// Rounds of fruitless offers that are required besides, because some delays are counted in refused offers; not required after
/// `STUCK_ANYWAY_AFTER`.
const STUCK_ROUNDS: u64 = 8;
const STUCK_ANYWAY_AFTER: Span = Span::from_secs(24 * 3_600);

/// One run of a workload on a cluster under a policy.
pub struct Simulation<'a> {
    cluster: &'a Cluster,
    workload: &'a Workload,
    scheduler: Scheduler,
    now: Time,
    queue: EventQueue,
    streams: RandomStreams,
    layout: Layout,
    failures: Failures,
    node_rates: Vec<NodeRates>,
    /// By node, the tasks that contend for its cores and disk.
    shared_nodes: Vec<SharedNode>,
    nodes: Vec<Node>,
    attempts: AttemptSlab,
    shuffle: Shuffle,
    offers: Offers,
    /// By node, stop requests that the node has not received yet.
    stop_requests: FxHashMap<u32, Vec<StopRequest>>,
    /// By job.
    jobs: Vec<JobState>,
    /// The core's timers.
    timers: Timers,
    /// Time of the last queued [`SimEvent::TimersDue`].
    timers_due: Time,
    /// Nodes that are down while the core still believes them up.
    undetected_failures: usize,
    /// Time of the last event that could make progress, and the number of offers since then.
    last_progress: Time,
    offers_since_progress: u64,
    /// Buffer of [`Simulation::send_event`], reused.
    actions: Vec<Action>,
    /// Buffer of [`Simulation::report_progress`], reused.
    progress: Vec<Progress>,
    /// By job, whether progress of its maps and of its reduces is to be reported; reused.
    progress_wanted: Vec<[bool; 2]>,
    started: bool,
    /// Whether the core received any event during this step.
    event_sent: bool,
    /// Whether the core received any event other than offers and progress since all nodes last offered their slots.
    state_changed: bool,
    /// By kind, whether the core had pending tasks after the last step.
    has_pending: [bool; 2],
    /// The node that offers first where all nodes offer; advances by one each round.
    first_offering_node: u32,
    stats: RunStats,
}

/// State of a job, by job number.
#[derive(Clone, Copy)]
struct JobState {
    /// Key of its shuffle; [`NONE`] while the job is not live.
    shuffle_id: u32,
    /// Number of its reduces that are paused on a node.
    paused_reduces: u32,
}

impl<'a> Simulation<'a> {
    /// Sets up a run at time zero. Fails if the policy is invalid for these tenants.
    pub fn new(
        cluster: &'a Cluster,
        workload: &'a Workload,
        policy: Policy,
        seed: u64,
    ) -> Result<Simulation<'a>, SetupError> {
        let tenants = workload.tenants.clone();
        let scheduler = Scheduler::new(Setup { policy, tenants, capabilities: Capabilities::ALL, seed })?;
        let streams = RandomStreams::new(cluster, seed);
        let mut queue = EventQueue::new(cluster.heartbeat);
        if let Some(first) = workload.jobs.first() {
            queue.push(first.submit, SimEvent::JobArrival);
        }
        Ok(Simulation {
            scheduler,
            now: Time::ZERO,
            streams,
            layout: Layout::new(cluster),
            failures: Failures::new(cluster, &streams, &mut queue),
            queue,
            node_rates: NodeRates::of_nodes(cluster),
            shared_nodes: SharedNode::of_nodes(cluster),
            nodes: cluster.nodes.iter().map(|node| Node::new(&node.spec)).collect(),
            attempts: AttemptSlab::default(),
            shuffle: Shuffle::new(cluster),
            offers: Offers::new(HeartbeatSchedule::new(cluster), cluster.nodes.len()),
            stop_requests: FxHashMap::default(),
            jobs: vec![JobState { shuffle_id: NONE, paused_reduces: 0 }; workload.jobs.len()],
            timers: Timers::default(),
            timers_due: Time::NEVER,
            undetected_failures: 0,
            last_progress: Time::ZERO,
            offers_since_progress: 0,
            actions: Vec::new(),
            progress: Vec::new(),
            progress_wanted: Vec::new(),
            started: false,
            event_sent: false,
            state_changed: false,
            has_pending: [false; 2],
            first_offering_node: 0,
            stats: RunStats::default(),
            cluster,
            workload,
        })
    }

    /// Runs to the end and returns the statistics.
    pub fn run(&mut self, observer: &mut impl Observer) -> RunStats {
        while self.step(observer) {}
        self.stats()
    }

    /// Processes the next queued event; false if the run has ended.
    pub fn step(&mut self, observer: &mut impl Observer) -> bool {
        if !self.started {
            self.started = true;
            self.join_all(observer);
        }
        if self.has_ended() {
            return false;
        }
        let Some((at, event)) = self.queue.pop() else { return false };
        self.now = at.max(self.now);
        self.stats.sim_events += 1;
        if event.can_make_progress() {
            (self.last_progress, self.offers_since_progress) = (self.now, 0);
        }
        self.dispatch(event, observer);
        let is_immediate = self.cluster.reporting == HeartbeatMode::Immediate;
        // Jobs that arrive together compete for the slots: none gets any before the last has arrived.
        if is_immediate && self.state_changed && !self.queue.has_event_at(self.now) {
            self.state_changed = false;
            self.offer_from_all_nodes(observer);
        }
        if std::mem::take(&mut self.event_sent) {
            self.has_pending = [self.scheduler.has_pending(Kind::Map), self.scheduler.has_pending(Kind::Reduce)];
        }
        self.offers.schedule_next(self.now, self.has_pending, &self.nodes, &mut self.queue);
        true
    }

    /// Statistics of the run so far.
    pub fn stats(&self) -> RunStats {
        RunStats { jobs_unfinished: self.workload.jobs.len() - self.stats.jobs_closed, ..self.stats }
    }

    /// The scheduler core, for inspection.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    fn has_ended(&self) -> bool {
        if self.stats.jobs_closed == self.workload.jobs.len() {
            return self.undetected_failures == 0 && self.nodes.iter().all(|node| node.is_idle());
        }
        let quiet = self.now.since(self.last_progress);
        let fruitless =
            self.offers_since_progress > STUCK_ROUNDS * self.nodes.len() as u64 || quiet > STUCK_ANYWAY_AFTER;
        !self.queue.can_make_progress() && quiet > STUCK_AFTER && fruitless
    }

    fn dispatch(&mut self, event: SimEvent, observer: &mut impl Observer) {
        match event {
            SimEvent::Heartbeat { node } => self.heartbeat_if_due(node, observer),
            SimEvent::Offer { node, version } => self.on_offer_due(node, version, observer),
            SimEvent::FetchDue { fetch, version } => self.on_fetch_due(fetch, version),
            SimEvent::ReduceLaunched { attempt, version } => self.on_reduce_launched(attempt, version),
            SimEvent::AttemptStopped { attempt, version } => self.on_attempt_stopped(attempt, version, observer),
            SimEvent::JobArrival => self.submit_next_job(observer),
            SimEvent::TimersDue => self.on_timers_due(observer),
            SimEvent::NodeFailure { node, fault } => self.on_node_failure(node, fault),
            SimEvent::LossTimeout { node, outage } => self.on_loss_timeout(node, outage, observer),
            SimEvent::NodeRepair { node, outage } => self.on_node_repair(node, outage, observer),
        }
    }

    /// Sends an event to the core and performs the actions it returns. `heartbeating` is the node whose heartbeat this event belongs to:
    /// the response to that heartbeat carries the stop requests for the node.
    fn send_event(&mut self, event: &Event, heartbeating: Option<u32>, observer: &mut impl Observer) {
        let mut actions = std::mem::take(&mut self.actions);
        self.scheduler.handle(self.now, event, &mut actions);
        self.stats.events += 1;
        self.event_sent = true;
        self.state_changed |= !matches!(event, Event::SlotsOffered { .. } | Event::ProgressReported { .. });
        self.stats.end = self.now;
        observer.observe(self.now, event, &actions);
        for action in &actions {
            self.perform(action, heartbeating, observer);
        }
        actions.clear();
        self.actions = actions;
    }

    fn join_all(&mut self, observer: &mut impl Observer) {
        for node in 0..self.nodes.len() as u32 {
            self.join(node, observer);
        }
    }

    fn join(&mut self, node: u32, observer: &mut impl Observer) {
        let spec = self.cluster.nodes[node as usize].spec.clone();
        self.send_event(&Event::NodeJoined { node: NodeId(node), spec }, None, observer);
        self.update_free_slots(node);
    }

    fn update_free_slots(&mut self, node: u32) {
        for kind in Kind::BOTH {
            self.offers.update_free(node, &self.nodes[node as usize], kind, self.now);
        }
    }

    /// Submits the next job and queues the arrival of the one after it.
    fn submit_next_job(&mut self, observer: &mut impl Observer) {
        let plan = &self.workload.jobs[self.stats.jobs_submitted];
        assert!(plan.id == JobId(self.stats.jobs_submitted as u32), "jobs must be numbered by arrival");
        self.stats.jobs_submitted += 1;
        if let Some(next) = self.workload.jobs.get(self.stats.jobs_submitted) {
            self.queue.push(next.submit.max(self.now), SimEvent::JobArrival);
        }
        let spec = self.layout.spec(self.cluster, self.workload, plan, &self.streams);
        let output_bytes = plan.map_output_bytes.saturating_mul(u64::from(plan.maps));
        let maps = if plan.reduces > 0 { plan.maps } else { 0 };
        self.jobs[plan.id.0 as usize].shuffle_id = self.shuffle.open(maps, output_bytes, plan.reduces);
        let live = self.stats.jobs_submitted - self.stats.jobs_closed;
        self.stats.max_live_jobs = self.stats.max_live_jobs.max(live);
        self.send_event(&Event::JobSubmitted(Box::new(spec)), None, observer);
    }

    fn on_timers_due(&mut self, observer: &mut impl Observer) {
        let mut expired = self.timers.expire(self.now);
        if expired.is_some() && self.scheduler.needs_progress() {
            // Most jobs have finished enough tasks to be estimated from those; reporting their progress would only cost time.
            let mut progress_wanted = std::mem::take(&mut self.progress_wanted);
            progress_wanted.clear();
            progress_wanted.resize(self.stats.jobs_submitted, [false; 2]);
            for job in self.scheduler.running_jobs() {
                progress_wanted[job.0 as usize] = Kind::BOTH.map(|kind| self.scheduler.needs_progress_of(job, kind));
            }
            let wanted = |task: JobAndKind| progress_wanted[task.job().0 as usize][task.kind().index()];
            self.report_progress(wanted, observer);
            self.progress_wanted = progress_wanted;
        }
        while let Some(timer) = expired {
            self.send_event(&Event::TimerFired { timer }, None, observer);
            expired = self.timers.expire(self.now);
        }
    }
}
