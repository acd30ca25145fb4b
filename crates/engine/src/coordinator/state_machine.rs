//! The coordinator as a state machine: inputs in, journal records and effects out.
//!
//! No clock, file, socket or thread is used here: time is an argument, and what is to be written, sent or done is returned. [`Coordinator::handle`]
//! takes any number of inputs and returns one frame for the journal and the effects that may be carried out once it is on disk. `run.rs` drives it with
//! real connections and files, the simulation with modelled ones.

use super::clients::KillRequest;
use super::finalize::OutputState;
use super::inputs::{ClientLink, Effect, Input, Output, WorkerLink};
use super::job_table::JobTable;
use super::journal::{JournalEncoder, JournalError, Metadata};
use super::progress::ReportedProgress;
use crate::planted::{Bug, planted};
use crate::wire::{FromClient, ToClient, ToWorker};
use giveway_core::{
    Action, AttemptId, Event, JobId, Kind, NodeId, Outcome, PreemptAction, Progress, Refusal, Scheduler, Setup, Span,
    Time,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use tracing::warn;

/// Maximum time between two checks of timers and heartbeats.
const TICK_MAX: Span = Span::from_millis(100);

/// Longest text of a failure.
const FAILURE_BYTES_MAX: usize = 8 << 10;

/// Settings that the state machine needs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Interval between heartbeats of a worker, and between status updates to clients that follow a job.
    pub(crate) heartbeat_interval: Span,
    /// A worker that sends nothing for this long is declared lost.
    pub(crate) heartbeat_timeout: Span,
    /// Share of a job's maps that must be done before its reduces may start, in parts per million.
    pub(crate) slowstart_ppm: u32,
    /// A snapshot is due when the journal has grown by this since the last one.
    pub(crate) snapshot_bytes: u64,
    /// A journal of this size is archived, and a new one begun.
    pub(crate) journal_bytes_max: u64,
}

/// A connection to a worker.
#[derive(Debug)]
pub(crate) struct WorkerConnection {
    pub(crate) link: WorkerLink,
    /// The worker's folder.
    pub(crate) folder: PathBuf,
    /// The host name for locality.
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// [`Join::incarnation`](crate::wire::Join::incarnation) of the process.
    pub(crate) incarnation: u64,
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
    /// True once a worker has joined as this node since the start. A lost node that is not started again is forgotten.
    pub(crate) has_joined: bool,
    /// When the last heartbeat, or any other message, was received.
    pub(crate) last_heartbeat: Time,
    /// [`Coordinator::offer_epoch`] when the node's slots were last offered.
    pub(crate) offered_epoch: u64,
    /// Set by a heartbeat: the slots are offered even if the epoch has not changed.
    pub(crate) needs_offer: bool,
    /// Attempts that the worker has not reported as ended, and the core does not have. Its slots are not offered meanwhile.
    pub(crate) unknown_attempts: HashSet<AttemptId>,
}

/// Something to do at the end of the batch, when all its inputs are handled.
#[derive(Debug)]
pub(super) enum Deferred {
    /// Execute an action of the core.
    Execute(Action),
    Send(NodeId, ToWorker),
    /// Send the location of a map's output to the workers that have subscribed to the job's outputs.
    PublishOutput(AttemptId),
    Reply(ClientLink, ToClient),
}

/// The coordinator's state.
pub(crate) struct Coordinator {
    pub(super) settings: Settings,
    pub(super) core: Scheduler,
    pub(super) journal: JournalEncoder,
    pub(super) table: JobTable,
    /// By node id, as the core's nodes.
    pub(super) nodes: Vec<NodeSession>,
    /// What is left to do in the current batch.
    pub(super) deferred: Vec<Deferred>,
    /// Effects of the current batch.
    pub(super) effects: Vec<Effect>,
    /// Clients that follow a job.
    pub(super) followers: Vec<(JobId, ClientLink)>,
    pub(super) kill_requests: Vec<KillRequest>,
    /// Last reported progress of each running attempt.
    pub(super) progress: HashMap<AttemptId, ReportedProgress>,
    /// Incremented whenever a free slot might match a task it did not match before.
    pub(super) offer_epoch: u64,
    /// The node that is offered first in the next round of offers. Rotates, so that no node is always first.
    first_offered: usize,
    /// Time of the current batch. Never goes back.
    pub(super) now: Time,
    followers_updated: Time,
    last_tick: Time,
    stopping: bool,
    /// Jobs whose output folder is being created, published or removed.
    pub(super) outputs: BTreeMap<JobId, OutputState>,
    /// A new policy and new tenants that take effect as soon as a journal can begin with them, and who waits for that.
    pub(super) reload: Option<(Setup, ClientLink)>,
    /// The first error of appending to the journal. Returned by the current call of `handle`.
    pub(super) journal_error: Option<JournalError>,
}

impl Coordinator {
    pub(super) fn new(
        settings: Settings,
        core: Scheduler,
        journal: JournalEncoder,
        table: JobTable,
        now: Time,
    ) -> Coordinator {
        let nodes = core.nodes().map(|_| NodeSession::disconnected(now)).collect();
        Coordinator {
            settings,
            journal,
            table,
            nodes,
            deferred: Vec::new(),
            effects: Vec::new(),
            followers: Vec::new(),
            kill_requests: Vec::new(),
            progress: HashMap::new(),
            offer_epoch: 1,
            first_offered: 0,
            now,
            followers_updated: now,
            last_tick: now,
            stopping: false,
            outputs: BTreeMap::new(),
            reload: None,
            journal_error: None,
            core,
        }
    }

    /// Name of the policy in use.
    pub(crate) fn policy(&self) -> &str {
        &self.core.setup().policy.name
    }

    /// The core's time. Continues from the journal's last event; time between two runs of the coordinator does not count.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Handles inputs and does what is due at this time. A time before that of the last call counts as that of the last call.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        inputs: impl IntoIterator<Item = Input>,
    ) -> Result<Output, JournalError> {
        self.now = if planted(Bug::TimeGoesBack) { now } else { self.now.max(now) };
        inputs.into_iter().for_each(|input| self.handle_input(input));
        self.on_tick();
        self.offer_slots();
        while !self.deferred.is_empty() {
            std::mem::take(&mut self.deferred).into_iter().for_each(|deferred| self.execute(deferred));
        }
        if self.stopping {
            let workers: Vec<NodeId> = (0..self.nodes.len()).map(|node| NodeId(node as u32)).collect();
            workers.into_iter().for_each(|node| self.send(node, ToWorker::Stop));
            self.effects.push(Effect::Stop);
        }
        if let Some(error) = self.journal_error.take() {
            return Err(error);
        }
        let journal = self.journal_write()?;
        Ok(Output::new(journal, std::mem::take(&mut self.effects)))
    }

    /// When the next call of [`handle`](Coordinator::handle) is due if there are no inputs.
    pub(crate) fn next_tick(&self) -> Time {
        let tick = self.now + self.settings.heartbeat_interval.min(TICK_MAX);
        self.table.timers.next().map_or(tick, |timer| timer.min(tick))
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::WorkerJoined { join, link } => self.on_worker_joined(*join, link),
            Input::WorkerMessage { link, message } => self.on_worker_message(link, message),
            Input::WorkerDisconnected { link } => self.on_worker_disconnected(link),
            Input::ClientRequest { request: FromClient::Stop, client } => {
                self.stopping = true;
                self.deferred.push(Deferred::Reply(client, ToClient::Done));
            }
            Input::ClientRequest { request, client } => self.on_client_request(request, client),
            Input::ClientDisconnected { client } => self.followers.retain(|(_, follower)| follower.id != client),
            Input::JobPlanned { plan, program, client } => self.on_job_planned(*plan, program, client),
            Input::ProgramUnpinned { program } => self.release_program(Some(program)),
            Input::Reload { policy, tenants, client } => self.on_reload(*policy, tenants, client),
            Input::OutputDone { job, result } => self.on_output_done(job, result),
        }
    }

    /// Submits an event to the core and adds its actions to the effects. Returns the refusal if the event contradicts the core's state.
    pub(super) fn submit_event(&mut self, event: Event) -> Option<Refusal> {
        let now = self.now;
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
        self.deferred.extend(actions.into_iter().map(Deferred::Execute));
        refusal
    }

    /// Appends metadata to the journal and applies it to the job table.
    pub(super) fn append_metadata(&mut self, metadata: Metadata) {
        self.table.apply_metadata(&metadata);
        self.journal.append_metadata(metadata);
    }

    /// Records a failure for `giveway job`. What a program has caused may have any length; the status of a job has to fit into a message.
    pub(super) fn record_failure(&mut self, job: JobId, mut text: String) {
        if text.len() > FAILURE_BYTES_MAX {
            let (bytes, kept) = (text.len(), (0..=FAILURE_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)));
            text.truncate(kept.unwrap_or(0));
            text.push_str(&format!("... ({} more bytes)", bytes - text.len()));
        }
        self.append_metadata(Metadata::FailureReported { job, text });
    }

    /// Does what depends on the time: timers, heartbeat timeouts, updates of followers.
    fn on_tick(&mut self) {
        self.fire_timers();
        self.check_heartbeats();
        self.retry_outputs();
        self.answer_overdue_kill_requests();
        if self.now.since(self.followers_updated) >= self.settings.heartbeat_interval {
            self.followers_updated = self.now;
            self.submit_progress(|core, progress| core.is_early_progress(progress));
            self.update_followers();
        }
    }

    fn fire_timers(&mut self) {
        let now = self.now;
        let mut expired = self.table.timers.expire(now);
        if expired.is_some() {
            self.submit_progress(|core, progress| {
                core.needs_progress_of(progress.attempt.task.job, progress.attempt.task.kind)
            });
        }
        while let Some(timer) = expired {
            self.submit_event(Event::TimerFired { timer });
            expired = self.table.timers.expire(now);
        }
    }

    /// Declares nodes lost whose heartbeats have stopped.
    fn check_heartbeats(&mut self) {
        let (now, timeout) = (self.now, self.core.node_expiry(self.settings.heartbeat_timeout));
        // If this process was itself suspended, missing heartbeats are no evidence of a failure: restart the timeouts.
        if now.since(self.last_tick) > Span(timeout.0 / 2) {
            self.nodes.iter_mut().for_each(|node| node.last_heartbeat = now);
        }
        self.last_tick = now;
        let is_overdue =
            |session: &NodeSession| now.since(session.last_heartbeat) > timeout && !planted(Bug::SilentWorkerKept);
        let overdue: Vec<NodeId> =
            (0..).zip(&self.nodes).filter(|(_, session)| is_overdue(session)).map(|(node, _)| NodeId(node)).collect();
        for node in overdue {
            let Some(spec) = self.core.node_up(node) else { continue };
            let for_s = timeout.as_secs_f64();
            if self.nodes[node.0 as usize].has_joined {
                warn!(node = %spec.name, "worker lost: no heartbeat for {for_s} s");
            } else {
                warn!(node = %spec.name, "worker of the previous run has not rejoined within {for_s} s; its tasks run elsewhere");
            }
            self.lose_node(node);
        }
    }

    /// True if there is no live job and no running attempt, and every job is finalized.
    pub(super) fn is_idle(&self) -> bool {
        self.core.live_job_count() == 0
            && self.table.running.is_empty()
            && self.outputs.is_empty()
            && self.table.jobs.values().all(|job| job.finalized)
    }

    /// Submits the progress of running attempts that `filter` selects.
    pub(super) fn submit_progress(&mut self, filter: impl Fn(&Scheduler, &Progress) -> bool) {
        let progress_of = |(&attempt, reported): (&AttemptId, &ReportedProgress)| {
            let running = self.table.running.get(attempt)?;
            let until = self.now.min(reported.at + self.settings.heartbeat_interval);
            let progress = Progress { attempt, progress_ppm: reported.at_time(until, running) };
            filter(&self.core, &progress).then_some(progress)
        };
        let mut progress: Vec<Progress> = self.progress.iter().filter_map(progress_of).collect();
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
            if session.connection.is_none()
                || !session.unknown_attempts.is_empty()
                || !(session.needs_offer || session.offered_epoch < self.offer_epoch)
            {
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

    fn execute(&mut self, deferred: Deferred) {
        match deferred {
            Deferred::Execute(action) => self.execute_action(action),
            Deferred::Send(node, message) => self.send(node, message),
            Deferred::PublishOutput(map) => self.publish_output(map),
            Deferred::Reply(client, answer) => self.effects.push(Effect::Reply(client, answer)),
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
        self.end_output(job, outcome);
    }

    /// Sends a message to a worker, or drops it if the worker is disconnected. What it needs is sent again when it rejoins.
    pub(super) fn send(&mut self, node: NodeId, message: ToWorker) {
        if let Some(NodeSession { connection: Some(connection), .. }) = self.nodes.get_mut(node.0 as usize) {
            connection.join_accepted |= matches!(message, ToWorker::JoinAccepted { .. });
            if connection.join_accepted {
                self.effects.push(Effect::Send(connection.link.clone(), message));
            }
        }
    }
}

impl NodeSession {
    /// The session of a node that is in the journal and has not connected yet.
    pub(super) fn disconnected(now: Time) -> NodeSession {
        NodeSession {
            connection: None,
            has_joined: false,
            last_heartbeat: now,
            offered_epoch: 0,
            needs_offer: false,
            unknown_attempts: HashSet::new(),
        }
    }
}
