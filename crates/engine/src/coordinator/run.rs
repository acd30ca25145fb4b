//! The coordinator's loop: handle inputs, call the core, sync the journal, then execute the effects.

use super::finalize::FinalizeRetry;
use super::job_table::JobTable;
use super::journal::{Journal, JournalError, JournalLock, Metadata, OpenedJournal, RecoveredJournal};
use super::{Options, StartError};
use crate::job::Plan;
use crate::store::Namespace;
use crate::wire::{FromClient, FromWorker, Join, ToClient, ToWorker};
use giveway_core::{
    Action, AttemptId, Capabilities, Event, JobId, Kind, NodeId, Outcome, PreemptAction, Progress, Refusal, Scheduler,
    Setup, Time, Timers,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tracing::warn;

/// A journal of this size is archived as soon as the cluster is idle.
const JOURNAL_ROTATE_BYTES: u64 = 64 << 20;

/// Maximum number of inputs handled between two syncs of the journal.
const BATCH_INPUTS_MAX: usize = 4096;

/// Maximum time between two checks of timers and heartbeats.
const TICK_MAX: Duration = Duration::from_millis(100);

/// An input of the loop.
pub(crate) enum Input {
    /// A worker connected and sent its first message.
    WorkerJoined { join: Box<Join>, connection: WorkerConnection },
    /// A worker sent a later message.
    WorkerMessage { connection: u64, message: FromWorker },
    /// A worker's connection was closed.
    WorkerDisconnected { connection: u64 },
    /// A client sent a request other than a submission.
    ClientRequest { request: FromClient, reply: Sender<ToClient> },
    /// A client submitted a job, and its plan is ready.
    JobPlanned { plan: Box<Plan>, reply: Sender<ToClient> },
}

/// A connection to a worker.
#[derive(Debug)]
pub(crate) struct WorkerConnection {
    /// Unique among all connections since the coordinator started.
    pub(crate) id: u64,
    /// Messages for the connection's writer thread. Dropping it closes the connection.
    pub(crate) sender: Sender<ToWorker>,
    /// True once `JoinAccepted` was sent. Nothing is sent before: effects that were pending for the previous connection are dropped, and
    /// what the worker still needs is sent again by the reconciliation after its join.
    pub(crate) join_accepted: bool,
    /// Jobs whose plan was sent.
    pub(crate) sent_plans: HashSet<JobId>,
    /// Jobs whose map outputs are sent as they become available.
    pub(crate) output_subscriptions: HashSet<JobId>,
}

/// State of a node beside the core's.
#[derive(Debug)]
pub(crate) struct NodeSession {
    pub(crate) connection: Option<WorkerConnection>,
    /// When the last heartbeat, or any other message, was received.
    pub(crate) last_heartbeat: Instant,
    pub(crate) data_address: String,
    /// The host name for locality.
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// [`Join::incarnation`] of the process.
    pub(crate) incarnation: u64,
    /// [`Coordinator::offer_epoch`] when the node's slots were last offered.
    pub(crate) offered_epoch: u64,
    /// Set by a heartbeat: the slots are offered even if the epoch has not changed.
    pub(crate) needs_offer: bool,
}

/// Something to do once the journal is on disk.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Execute an action of the core.
    Execute(Action),
    Send(NodeId, ToWorker),
    /// Send the location of a map's output to the workers that have subscribed to the job's outputs.
    PublishOutput(AttemptId),
    Reply(Sender<ToClient>, ToClient),
}

/// The coordinator's state, owned by its thread.
pub(crate) struct Coordinator {
    pub(super) options: Options,
    pub(super) core: Scheduler,
    pub(super) journal: Journal,
    pub(super) table: JobTable,
    /// By node id, as the core's nodes.
    pub(super) nodes: Vec<NodeSession>,
    /// Stored files and the locations of their blocks.
    pub(super) store: Arc<Namespace>,
    /// Effects of the current batch.
    pub(super) effects: Vec<Effect>,
    /// Clients that follow a job.
    pub(super) followers: Vec<(JobId, Sender<ToClient>)>,
    /// Last reported progress of each running attempt, in parts per million.
    pub(super) progress: HashMap<AttemptId, u32>,
    /// Incremented whenever a free slot might match a task it did not match before.
    pub(super) offer_epoch: u64,
    /// The node that is offered first in the next round of offers. Rotates, so that no node is always first.
    first_offered: usize,
    started: Instant,
    /// The core's time at `started`: that of the journal's last event, or zero.
    start_time: Time,
    followers_updated: Instant,
    last_tick: Instant,
    stopping: bool,
    /// Jobs whose output could not be published yet.
    pub(super) finalize_retries: Vec<FinalizeRetry>,
    /// The first error of appending to the journal. Ends the loop at the next commit.
    journal_error: Option<JournalError>,
}

impl Coordinator {
    /// Recovers the journal, or creates one. Unfinished jobs continue under the policy they were submitted to; without any, a changed setup
    /// starts a new journal.
    pub(super) fn open(options: Options, store: Arc<Namespace>, lock: JournalLock) -> Result<Coordinator, StartError> {
        let setup = Setup {
            policy: options.policy.clone(),
            tenants: options.tenants.clone(),
            capabilities: Capabilities::ALL,
            seed: options.seed,
        };
        let core = Scheduler::new(setup.clone())?;
        let (journal, next_job) = match Journal::recover(&options.folder, lock)? {
            OpenedJournal::Empty(lock) => (Journal::create(&options.folder, &setup, 1, lock)?, 1),
            OpenedJournal::Recovered(recovered) => {
                let same_setup = recovered.setup == setup;
                let mut coordinator = Coordinator::replay(options.clone(), *recovered, Arc::clone(&store))?;
                coordinator.complete_interrupted_jobs();
                // Completing them may have revived a job, as the next round of one that had ended.
                if same_setup || !coordinator.is_idle() {
                    return Ok(coordinator);
                }
                coordinator.commit()?;
                let next_job = coordinator.table.next_job;
                (coordinator.journal.replace(&options.folder, &setup, next_job)?, next_job)
            }
        };
        let mut table = JobTable::default();
        table.next_job = next_job;
        Ok(Coordinator::new(options, core, journal, table, Time::ZERO, store))
    }

    fn new(
        options: Options,
        core: Scheduler,
        journal: Journal,
        table: JobTable,
        start_time: Time,
        store: Arc<Namespace>,
    ) -> Coordinator {
        let now = Instant::now();
        store.expect_nodes(core.nodes().map(|node| (node.spec.name.as_str(), node.up)));
        let nodes = core.nodes().map(|_| NodeSession::disconnected(now)).collect();
        Coordinator {
            options,
            core,
            journal,
            table,
            nodes,
            store,
            effects: Vec::new(),
            followers: Vec::new(),
            progress: HashMap::new(),
            offer_epoch: 1,
            first_offered: 0,
            started: now,
            start_time,
            followers_updated: now,
            last_tick: now,
            stopping: false,
            finalize_retries: Vec::new(),
            journal_error: None,
        }
    }

    /// Rebuilds the state from a journal and checks that the core returns the recorded actions.
    fn replay(options: Options, recovered: RecoveredJournal, store: Arc<Namespace>) -> Result<Coordinator, StartError> {
        let RecoveredJournal { setup, records, metadata, journal } = recovered;
        let mut core = Scheduler::new(setup)?;
        let mut table = JobTable::default();
        metadata.iter().for_each(|metadata| table.apply_metadata(metadata));
        let (mut actions, mut last_time) = (Vec::new(), Time::ZERO);
        for (record, number) in records.iter().zip(1..) {
            actions.clear();
            core.handle(record.now, &record.event, &mut actions);
            if actions != record.actions {
                return Err(StartError::ReplayMismatch { path: options.folder, record: number });
            }
            table.apply(record.now, &record.event, &actions);
            last_time = record.now;
        }
        Ok(Coordinator::new(options, core, journal, table, last_time, store))
    }

    /// Name of the policy in use.
    pub(super) fn policy(&self) -> &str {
        &self.core.setup().policy.name
    }

    /// The core's time. Continues from the journal's last event; time between two runs of the coordinator does not count.
    pub(super) fn now(&self) -> Time {
        let elapsed_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Time(self.start_time.0.saturating_add(elapsed_us))
    }

    /// Runs until a client requests a stop or the journal cannot be written.
    pub(super) fn run(mut self, inputs: &Receiver<Input>) -> Result<(), JournalError> {
        while !self.stopping {
            match inputs.recv_timeout(self.time_to_next_tick()) {
                Ok(input) => self.handle_input(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // All other pending inputs share the next sync.
            for _ in 0..BATCH_INPUTS_MAX {
                match inputs.try_recv() {
                    Ok(input) => self.handle_input(input),
                    Err(_) => break,
                }
            }
            self.on_tick();
            self.offer_slots();
            self.commit()?;
            self.rotate_journal_if_idle();
        }
        for node in &self.nodes {
            if let Some(connection) = &node.connection {
                let _ = connection.sender.send(ToWorker::Stop);
            }
        }
        Ok(())
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::WorkerJoined { join, connection } => self.on_worker_joined(*join, connection),
            Input::WorkerMessage { connection, message } => self.on_worker_message(connection, message),
            Input::WorkerDisconnected { connection } => self.on_worker_disconnected(connection),
            Input::ClientRequest { request: FromClient::Stop, reply } => {
                self.stopping = true;
                let _ = reply.send(ToClient::Done);
            }
            Input::ClientRequest { request, reply } => self.on_client_request(request, reply),
            Input::JobPlanned { plan, reply } => self.on_job_planned(*plan, reply),
        }
    }

    /// Submits an event to the core and adds its actions to the effects. Returns the refusal if the event contradicts the core's state.
    pub(super) fn submit_event(&mut self, event: Event) -> Option<Refusal> {
        let now = self.now();
        let mut actions = Vec::new();
        self.core.handle(now, &event, &mut actions);
        if let Err(error) = self.journal.append_event(now, &event, &actions) {
            self.journal_error.get_or_insert(error);
        }
        self.table.apply(now, &event, &actions);
        if !matches!(event, Event::SlotsOffered { .. } | Event::ProgressReported { .. }) {
            self.offer_epoch += 1;
        }
        let refusal = giveway_core::refusal(&actions);
        self.effects.extend(actions.into_iter().map(Effect::Execute));
        refusal
    }

    /// Appends metadata to the journal and applies it to the job table.
    pub(super) fn append_metadata(&mut self, metadata: Metadata) {
        self.table.apply_metadata(&metadata);
        self.journal.append_metadata(metadata);
    }

    /// Records a failure for `giveway job`.
    pub(super) fn record_failure(&mut self, job: JobId, text: String) {
        self.append_metadata(Metadata::FailureReported { job, text });
    }

    /// How long the loop may wait for an input.
    fn time_to_next_tick(&self) -> Duration {
        let tick = self.options.heartbeat_interval.min(TICK_MAX);
        let timer = self.table.timers.next().map(|at| Duration::from_micros(at.0.saturating_sub(self.now().0)));
        timer.map_or(tick, |timer| timer.min(tick))
    }

    /// Does what depends on the time: timers, heartbeat timeouts, requests of the block store, updates of followers.
    fn on_tick(&mut self) {
        self.fire_timers();
        self.check_heartbeats();
        self.retry_finalize(Instant::now());
        let requests = self.store.take_commands().into_iter();
        self.effects.extend(requests.map(|(node, request)| Effect::Send(node, ToWorker::Store(request))));
        if self.followers_updated.elapsed() >= self.options.heartbeat_interval {
            self.followers_updated = Instant::now();
            self.update_followers();
        }
    }

    fn fire_timers(&mut self) {
        let now = self.now();
        let mut expired = self.table.timers.expire(now);
        if expired.is_some() {
            self.submit_progress(|core, attempt| core.needs_progress_of(attempt.task.job, attempt.task.kind));
        }
        while let Some(timer) = expired {
            self.submit_event(Event::TimerFired { timer });
            expired = self.table.timers.expire(now);
        }
    }

    /// Declares nodes lost whose heartbeats have stopped.
    fn check_heartbeats(&mut self) {
        let timeout = self.options.heartbeat_timeout;
        // If this process was itself suspended, missing heartbeats are no evidence of a failure: restart the timeouts.
        if self.last_tick.elapsed() > timeout / 2 {
            let now = Instant::now();
            self.nodes.iter_mut().for_each(|node| node.last_heartbeat = now);
        }
        self.last_tick = Instant::now();
        let is_overdue = |session: &NodeSession| session.last_heartbeat.elapsed() > timeout;
        let overdue: Vec<NodeId> =
            (0..).zip(&self.nodes).filter(|(_, session)| is_overdue(session)).map(|(node, _)| NodeId(node)).collect();
        for node in overdue {
            let Some(spec) = self.core.node_up(node) else { continue };
            warn!(node = %spec.name, "worker lost: no heartbeat for {timeout:?}");
            self.lose_node(node);
        }
    }

    /// True if there is no live job and no running attempt, and every job is finalized.
    fn is_idle(&self) -> bool {
        self.core.live_job_count() == 0
            && self.table.running.is_empty()
            && self.table.jobs.values().all(|job| job.finalized)
    }

    /// Archives a long journal while the cluster is idle: no live job, no running attempt, no pending effect, every job finalized.
    fn rotate_journal_if_idle(&mut self) {
        if self.effects.is_empty() && self.is_idle() && self.journal.bytes() > JOURNAL_ROTATE_BYTES {
            self.rotate_journal();
        }
    }

    /// Starts a new journal with a new core that has the same nodes. Only valid while the cluster is idle: then nothing else of the core's
    /// state matters.
    fn rotate_journal(&mut self) {
        let setup = self.core.setup().clone();
        let nodes: Vec<_> = self.core.nodes().map(|node| (node.up, node.spec.clone())).collect();
        let created = Scheduler::new(setup.clone())
            .map_err(JournalError::from)
            .and_then(|core| Ok((core, self.journal.replace(&self.options.folder, &setup, self.table.next_job)?)));
        match created {
            Ok((core, journal)) => {
                (self.core, self.journal) = (core, journal);
                self.table.timers = Timers::default();
                for (node, (up, spec)) in nodes.into_iter().enumerate() {
                    let node = NodeId(node as u32);
                    self.submit_event(Event::NodeJoined { node, spec });
                    if !up {
                        self.submit_event(Event::NodeLost { node });
                    }
                }
            }
            Err(error) => self.journal_error = Some(error),
        }
    }

    /// Submits the last reported progress of the running attempts that `filter` selects.
    pub(super) fn submit_progress(&mut self, filter: impl Fn(&Scheduler, AttemptId) -> bool) {
        let mut progress: Vec<Progress> = self
            .progress
            .iter()
            .filter(|(attempt, _)| self.table.running.get(**attempt).is_some() && filter(&self.core, **attempt))
            .map(|(&attempt, &progress_ppm)| Progress { attempt, progress_ppm })
            .collect();
        if !progress.is_empty() {
            // In a fixed order, so that the event log does not depend on the hash map.
            progress.sort_by_key(|progress| progress.attempt);
            self.submit_event(Event::ProgressReported { progress });
        }
    }

    /// Offers the free slots of every connected node that had a heartbeat or for which the offer may give a new result.
    fn offer_slots(&mut self) {
        let count = self.nodes.len();
        for offset in 0..count {
            let index = (self.first_offered + offset) % count;
            let node = NodeId(index as u32);
            let Some(session) = self.nodes.get(index) else { continue };
            if session.connection.is_none() || !(session.needs_offer || session.offered_epoch < self.offer_epoch) {
                continue;
            }
            let free = self.core.free_slots(node);
            let useful = |&kind: &Kind| free[kind] > 0 && self.core.has_pending(kind);
            if Kind::BOTH.iter().any(useful) {
                self.submit_event(Event::SlotsOffered { node, progress: Vec::new() });
            }
            if let Some(session) = self.nodes.get_mut(index) {
                (session.offered_epoch, session.needs_offer) = (self.offer_epoch, false);
            }
        }
        self.first_offered = if count == 0 { 0 } else { (self.first_offered + 1) % count };
    }

    /// Syncs the journal, then executes the effects. Repeats while effects add new ones.
    pub(super) fn commit(&mut self) -> Result<(), JournalError> {
        loop {
            if let Some(error) = self.journal_error.take() {
                return Err(error);
            }
            self.journal.sync()?;
            let effects = std::mem::take(&mut self.effects);
            if effects.is_empty() {
                return Ok(());
            }
            effects.into_iter().for_each(|effect| self.execute_effect(effect));
        }
    }

    fn execute_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Execute(action) => self.execute_action(action),
            Effect::Send(node, message) => self.send(node, message),
            Effect::PublishOutput(map) => self.publish_output(map),
            Effect::Reply(to, answer) => {
                // Fails if the client has disconnected. Then nothing needs the answer.
                let _ = to.send(answer);
            }
        }
    }

    fn execute_action(&mut self, action: Action) {
        match action {
            Action::Launch { attempt, node, work, .. } => self.launch(attempt, node, work),
            Action::Pause { attempt, node, .. } | Action::EndEarly { attempt, node, .. } => {
                self.send_stop_request(attempt, node, PreemptAction::Pause);
            }
            Action::Kill { attempt, node, .. } => self.send_stop_request(attempt, node, PreemptAction::Kill),
            Action::CloseJob { job, outcome } => self.close_job(job, outcome),
            // The engine does not move input. Its locations are part of the submitted job.
            Action::PlaceReplicas { .. } => {}
            // Timers are in the job table; a refusal was returned by `submit_event`.
            Action::SetTimer { .. } | Action::Refuse { .. } => {}
        }
    }

    fn close_job(&mut self, job: JobId, outcome: Outcome) {
        for node in 0..self.nodes.len() {
            self.send(NodeId(node as u32), ToWorker::CloseJob { job });
        }
        self.progress.retain(|attempt, _| attempt.task.job != job);
        self.finalize_job(job, outcome);
    }

    /// Sends a message to a worker, or drops it if the worker is disconnected. What it needs is sent again when it rejoins.
    pub(super) fn send(&mut self, node: NodeId, message: ToWorker) {
        if let Some(NodeSession { connection: Some(connection), .. }) = self.nodes.get_mut(node.0 as usize) {
            connection.join_accepted |= matches!(message, ToWorker::JoinAccepted { .. });
            if connection.join_accepted {
                let _ = connection.sender.send(message);
            }
        }
    }
}

impl NodeSession {
    /// The session of a node that is in the journal and has not connected yet.
    pub(super) fn disconnected(now: Instant) -> NodeSession {
        NodeSession {
            connection: None,
            last_heartbeat: now,
            data_address: String::new(),
            host: String::new(),
            pid: 0,
            incarnation: 0,
            offered_epoch: 0,
            needs_offer: false,
        }
    }
}
