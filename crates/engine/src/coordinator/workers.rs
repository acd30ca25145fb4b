//! Workers: joins, messages, disconnections, losses, and the messages to them.

use super::inputs::{Effect, WorkerLink};
use super::job_table;
use super::journal::Metadata;
use super::progress::ReportedProgress;
use super::state_machine::{Coordinator, Deferred, NodeSession, WorkerConnection};
use crate::planted::{Bug, planted};
use crate::wire::{FromWorker, Join, NodeFolder, Report, ToWorker, WorkerIdentity};
use crate::worker::is_disk_full;
use giveway_core::{AttemptId, Event, JobId, Kind, NodeId, NodeSpec, PreemptAction, RackId, WHOLE_PPM, Work};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use tracing::{debug, info, warn};

/// A task whose attempts disappeared with their worker process more often than this may be the cause: from then on such an attempt counts as
/// failed, not as killed.
const WORKER_CRASHES_MAX: u8 = 3;

impl Coordinator {
    /// Handles the join of a new worker, of one that was declared lost, or of one that reconnects in time.
    pub(super) fn on_worker_joined(&mut self, join: Join, link: WorkerLink) {
        let worker = &join.worker;
        let spec = node_spec(worker);
        let next_node = NodeId(self.core.node_count() as u32);
        let node = self.table.node_ids.get(&worker.name).copied().unwrap_or(next_node);
        if let Some(NodeSession { connection: Some(connected), .. }) = self.nodes.get(node.0 as usize)
            && connected.incarnation != worker.incarnation
        {
            let reason = format!(
                "worker {} is connected already, as process {}; stop that process or choose another --name",
                worker.name, connected.pid
            );
            warn!("worker refused: {reason}");
            self.effects.push(Effect::Send(link, ToWorker::JoinRefused { reason }));
            return;
        }
        let current_spec = self.core.node_up(node).cloned();
        let keep_state = current_spec.as_ref() == Some(&spec);
        if current_spec.is_none() && node != next_node {
            info!(node = %worker.name, pid = worker.pid, "the lost worker is back");
        }
        if current_spec.is_some() && !keep_state {
            // The worker came back with another rack or other slots. The core needs a new node for that.
            self.lose_node(node);
        }
        if !keep_state && let Some(refusal) = self.submit_event(Event::NodeJoined { node, spec }) {
            warn!(node = %worker.name, "worker refused: {refusal}");
            let reason = format!("worker {} cannot join: {refusal}; give it at least one slot", worker.name);
            self.effects.push(Effect::Send(link, ToWorker::JoinRefused { reason }));
            return;
        }
        while self.nodes.len() <= node.0 as usize {
            self.nodes.push(NodeSession::disconnected(self.now));
        }
        debug!(node = %worker.name, pid = worker.pid, "worker {}", if keep_state { "rejoined with its state" } else { "joined" });
        let connection = WorkerConnection {
            link,
            folder: worker.folder.clone(),
            host: worker.host.clone(),
            pid: worker.pid,
            incarnation: worker.incarnation,
            join_accepted: false,
            sent_plans: HashSet::new(),
            output_subscriptions: HashSet::new(),
        };
        let session = NodeSession {
            connection: Some(connection),
            has_joined: true,
            last_heartbeat: self.now,
            offered_epoch: 0,
            needs_offer: true,
            unknown_attempts: HashSet::new(),
        };
        if let Some(current) = self.nodes.get_mut(node.0 as usize) {
            *current = session;
        }
        let heartbeat_interval_ms = u32::try_from(self.settings.heartbeat_interval.0 / 1000).unwrap_or(u32::MAX);
        self.deferred.push(Deferred::Send(node, ToWorker::JoinAccepted { node, keep_state, heartbeat_interval_ms }));
        self.exchange_folders(node, &worker.folder);
        if keep_state {
            self.reconcile(node, &join);
        }
    }

    /// Kills the attempts of a reconnected worker that the core does not have. Their reports have not been acknowledged, or the worker was declared
    /// lost and has not received that. They may hold slots: until they are reported, the node's slots are not offered.
    fn stop_unknown_attempts(&mut self, node: NodeId, join: &Join) {
        let is_known = |attempt| self.table.running.get(attempt).is_some_and(|running| running.node == node);
        let unknown: HashSet<AttemptId> = join.running.iter().copied().filter(|&attempt| !is_known(attempt)).collect();
        let unknown = if planted(Bug::UnknownAttemptNotStopped) { HashSet::new() } else { unknown };
        for &attempt in join.running.iter().filter(|attempt| unknown.contains(attempt)) {
            self.deferred.push(Deferred::Send(node, stop_message(attempt, PreemptAction::Kill)));
        }
        if let Some(session) = self.nodes.get_mut(node.0 as usize) {
            session.unknown_attempts = unknown;
        }
    }

    /// Tells a node that joins where the map outputs of all connected nodes are, and the others where its own are.
    fn exchange_folders(&mut self, node: NodeId, folder: &Path) {
        let folder_of = |(index, session): (u32, &NodeSession)| {
            let connection = session.connection.as_ref()?;
            Some(NodeFolder { node: NodeId(index), folder: connection.folder.clone() })
        };
        let folders = (0..).zip(&self.nodes).filter_map(folder_of).collect();
        self.deferred.push(Deferred::Send(node, ToWorker::NodeFolders { folders }));
        let own = NodeFolder { node, folder: folder.to_owned() };
        self.broadcast(node, &ToWorker::NodeFolders { folders: vec![own] });
    }

    /// Sends a message to all nodes but one.
    fn broadcast(&mut self, except: NodeId, message: &ToWorker) {
        for other in (0..self.nodes.len() as u32).map(NodeId).filter(|&other| other != except) {
            self.deferred.push(Deferred::Send(other, message.clone()));
        }
    }

    /// Compares the state of a reconnected worker with the core's. Attempts and outputs that the worker does not have are reported to the core as
    /// lost; stop requests and map outputs that it may have missed are sent again; jobs that have ended meanwhile are closed.
    fn reconcile(&mut self, node: NodeId, join: &Join) {
        let mut jobs_reducing = BTreeSet::new();
        for attempt in self.table.running.on_node(node) {
            if !join.running.contains(&attempt) && !planted(Bug::MissingAttemptIgnored) {
                self.on_attempt_missing(attempt);
                continue;
            }
            if attempt.task.kind == Kind::Reduce {
                jobs_reducing.insert(attempt.task.job);
            }
            if let Some(request) = self.table.running.get(attempt).and_then(|running| running.stop) {
                self.deferred.push(Deferred::Send(node, stop_message(attempt, request.action)));
            }
        }
        self.stop_unknown_attempts(node, join);
        for job in jobs_reducing {
            if planted(Bug::OutputsNotSentAgain) {
                break;
            }
            self.deferred.push(Deferred::Send(node, self.all_outputs(job)));
            if let Some(NodeSession { connection: Some(connection), .. }) = self.nodes.get_mut(node.0 as usize) {
                connection.output_subscriptions.insert(job);
            }
        }
        self.report_missing_outputs(node, join);
        for &job in &join.jobs {
            if !self.core.is_running(job) {
                self.deferred.push(Deferred::Send(node, ToWorker::CloseJob { job }));
            }
        }
    }

    /// Handles an attempt that its worker does not have: the launch never arrived, or the attempt ended with the process. Reported to the
    /// core as lost, as with a node, so that it launches the task again and does not count on data that the attempt had fetched.
    fn on_attempt_missing(&mut self, attempt: AttemptId) {
        let crashes = self.table.worker_crashes.entry(attempt.task).or_default();
        *crashes = crashes.saturating_add(1);
        if *crashes <= WORKER_CRASHES_MAX {
            let stop = self.table.running.get(attempt).and_then(|running| running.stop);
            let is_killed = stop.is_some_and(|stop| stop.action == PreemptAction::Kill);
            self.submit_event(if is_killed {
                Event::AttemptKilled { attempt }
            } else {
                Event::AttemptLost { attempt }
            });
            return;
        }
        let text = format!(
            "{} {}, attempt {}: its worker process crashed repeatedly while it ran",
            attempt.task.kind, attempt.task.index, attempt.number
        );
        self.record_failure(attempt.task.job, text);
        self.submit_event(Event::AttemptFailed { attempt });
    }

    /// Reports map outputs as lost that the core expects on a worker and the worker does not have.
    fn report_missing_outputs(&mut self, node: NodeId, join: &Join) {
        let jobs: Vec<JobId> = self.core.running_jobs().collect();
        for job in jobs {
            // The maps of a map-only job write into the output folder, not to the worker's disk.
            if self.table.jobs.get(&job).is_some_and(|job| job.plan.reduces == 0) {
                continue;
            }
            for output in job_table::map_outputs(job, &self.core) {
                let map = AttemptId::new(job, Kind::Map, output.map, output.number);
                if output.node == node && !join.outputs.contains(&map) {
                    self.on_output_lost(map);
                }
            }
        }
    }

    /// The node of a connection. `None` if the node has reconnected or was declared lost since.
    fn node_of(&self, link: u64) -> Option<NodeId> {
        let is_current = |node: &NodeSession| node.connection.as_ref().is_some_and(|current| current.link.id == link);
        Some(NodeId(self.nodes.iter().position(is_current)? as u32))
    }

    pub(super) fn on_worker_message(&mut self, link: u64, message: FromWorker) {
        let now = self.now;
        let Some(node) = self.node_of(link) else { return };
        let Some(session) = self.nodes.get_mut(node.0 as usize) else { return };
        session.last_heartbeat = now;
        match message {
            // Only the first message of a connection joins.
            FromWorker::Join(_) => {}
            FromWorker::Heartbeat { progress } => {
                session.needs_offer = true;
                for progress in progress {
                    if self.table.running.get(progress.attempt).is_some_and(|running| running.node == node) {
                        let reported = ReportedProgress { ppm: progress.progress_ppm.min(WHOLE_PPM), at: now };
                        self.progress.insert(progress.attempt, reported);
                    }
                }
            }
            FromWorker::Report { seq, report } => {
                self.on_report(node, report);
                self.deferred.push(Deferred::Send(node, ToWorker::Ack { seq }));
            }
        }
    }

    /// Handles the result of an attempt. A repeated report of an attempt that has ended already is ignored; the caller acknowledges it.
    fn on_report(&mut self, node: NodeId, report: Report) {
        if let Report::OutputLost { map } = report {
            if planted(Bug::LostMapNotRunAgain) {
                return;
            }
            return self.on_output_lost(map);
        }
        let Some(attempt) = report.ended_attempt() else { return };
        if self.table.running.get(attempt).is_none_or(|running| running.node != node) {
            if let Some(session) = self.nodes.get_mut(node.0 as usize) {
                session.unknown_attempts.remove(&attempt);
                session.needs_offer = true;
            }
            return;
        }
        self.progress.remove(&attempt);
        match report {
            Report::Finished { output_bytes, counters, .. } => {
                self.append_metadata(Metadata::CountersReported { attempt, counters });
                self.submit_event(Event::AttemptFinished { attempt, output_bytes });
                self.deferred.push(Deferred::PublishOutput(attempt));
            }
            Report::EndedEarly { done_bytes, output_bytes, counters, .. } => {
                self.append_metadata(Metadata::CountersReported { attempt, counters });
                self.submit_event(match planted(Bug::EarlyEndCountsAsFinish) {
                    true => Event::AttemptFinished { attempt, output_bytes },
                    false => Event::AttemptEndedEarly { attempt, done_bytes, output_bytes },
                });
                self.deferred.push(Deferred::PublishOutput(attempt));
            }
            Report::Paused { progress_ppm, .. } => {
                self.submit_event(Event::AttemptPaused { attempt, progress_ppm });
            }
            Report::Failed { reason, .. } => {
                let name = self.core.node_up(node).map_or_else(|| node.to_string(), |spec| spec.name.clone());
                let AttemptId { task, number } = attempt;
                let text = format!("{} {}, attempt {number}, on {name}: {reason}", task.kind, task.index);
                if is_disk_full(&reason) {
                    warn!("disk full: {}, {text}", task.job);
                }
                self.record_failure(task.job, text);
                self.submit_event(Event::AttemptFailed { attempt });
            }
            Report::Killed { .. } => {
                self.submit_event(Event::AttemptKilled { attempt });
            }
            Report::OutputLost { .. } => {}
        }
    }

    /// Handles a map output that cannot be read: the map runs again, and all workers stop fetching this output.
    fn on_output_lost(&mut self, map: AttemptId) {
        if job_table::map_output(map, &self.core).is_some() && self.submit_event(Event::MapOutputLost { map }).is_none()
        {
            self.record_failure(map.task.job, format!("output of {map} is damaged or missing; the map runs again"));
            for node in 0..self.nodes.len() as u32 {
                self.deferred.push(Deferred::Send(NodeId(node), ToWorker::OutputLost { map }));
            }
        }
    }

    /// Handles a closed connection. The worker may reconnect and keep its state until the heartbeat timeout.
    pub(super) fn on_worker_disconnected(&mut self, link: u64) {
        if let Some(node) = self.node_of(link) {
            self.drop_connection(node);
        }
    }

    fn drop_connection(&mut self, node: NodeId) {
        if let Some(session) = self.nodes.get_mut(node.0 as usize) {
            session.connection = None;
        }
    }

    /// Declares a node lost, with its running attempts, map outputs and paused reduces.
    pub(super) fn lose_node(&mut self, node: NodeId) {
        self.drop_connection(node);
        // A reduce that has fetched all its input does not need the lost outputs. The core must have its progress before it decides which maps
        // run again.
        self.submit_progress(|_, progress| progress.attempt.task.kind == Kind::Reduce);
        self.submit_event(Event::NodeLost { node });
        let running = &self.table.running;
        self.progress.retain(|attempt, _| running.get(*attempt).is_some());
        self.broadcast(node, &ToWorker::NodeLost { node });
    }

    /// Sends an attempt to a worker: before it the job's plan, and for a reduce the locations of the map outputs, unless already sent.
    pub(super) fn launch(&mut self, attempt: AttemptId, node: NodeId, work: Work) {
        let job = attempt.task.job;
        let Some(record) = self.table.jobs.get(&job) else { return };
        let plan = record.plan.clone();
        let Some(NodeSession { connection: Some(connection), .. }) = self.nodes.get_mut(node.0 as usize) else {
            return;
        };
        if !connection.join_accepted {
            return;
        }
        if connection.sent_plans.insert(job) {
            let plan = Box::new((*plan).clone());
            let message = ToWorker::Plan { plan, program: record.program };
            self.effects.push(Effect::Send(connection.link.clone(), message));
        }
        let needs_outputs = attempt.task.kind == Kind::Reduce && connection.output_subscriptions.insert(job);
        if needs_outputs {
            let outputs = self.all_outputs(job);
            self.send(node, outputs);
        }
        self.send(node, ToWorker::Launch { attempt, work });
    }

    pub(super) fn send_stop_request(&mut self, attempt: AttemptId, node: NodeId, request: PreemptAction) {
        self.send(node, stop_message(attempt, request));
    }

    fn all_outputs(&self, job: JobId) -> ToWorker {
        ToWorker::MapOutputs { job, replace: true, outputs: job_table::map_outputs(job, &self.core) }
    }

    /// Sends the location of a finished map's output to the workers that run reduces of its job. Does nothing for a reduce.
    pub(super) fn publish_output(&mut self, map: AttemptId) {
        if map.task.kind != Kind::Map {
            return;
        }
        let Some(output) = job_table::map_output(map, &self.core) else { return };
        let job = map.task.job;
        let subscribed =
            |connection: &&WorkerConnection| connection.join_accepted && connection.output_subscriptions.contains(&job);
        for connection in self.nodes.iter().filter_map(|node| node.connection.as_ref()).filter(subscribed) {
            let message = ToWorker::MapOutputs { job, replace: false, outputs: vec![output] };
            self.effects.push(Effect::Send(connection.link.clone(), message));
        }
    }
}

fn stop_message(attempt: AttemptId, request: PreemptAction) -> ToWorker {
    match request {
        PreemptAction::Pause | PreemptAction::EndEarly => ToWorker::Yield { attempt },
        PreemptAction::Kill => ToWorker::Kill { attempt },
    }
}

/// The core's description of a worker. All workers share one machine, so speed and disk have nominal values.
fn node_spec(worker: &WorkerIdentity) -> NodeSpec {
    NodeSpec {
        name: worker.name.clone(),
        rack: RackId(worker.rack),
        map_slots: worker.map_slots,
        reduce_slots: worker.reduce_slots,
        speed_ppm: WHOLE_PPM,
        disk_bytes_per_s: 1_000_000_000,
        disk_bytes: 1 << 40,
    }
}
