//! Requests of clients, except submissions.

use super::inputs::ClientLink;
use super::state_machine::{Coordinator, Deferred};
use crate::planted::{Bug, planted};
use crate::wire::{FromClient, NodeExclusion, NodeStatus, RejectionCode, ToClient};
use giveway_core::{AttemptId, Event, JobId, Kind, Outcome, Span, Time};
use std::ops::Bound;

/// Number of nodes that an error names.
const NAMES_MAX: usize = 10;

/// Maximum size of a page of the list of jobs, in bytes. Failures with long texts make a status large.
const JOBS_PAGE_BYTES_MAX: usize = 1 << 20;

/// Longest time in which a request to kill a job is answered.
const KILL_ANSWER_DELAY_MAX: Span = Span::from_secs(5);

/// A request to kill a job whose output is being worked on. It is answered when it is known how the job ends.
#[derive(Debug)]
pub(super) struct KillRequest {
    job: JobId,
    client: ClientLink,
    at: Time,
}

impl Coordinator {
    pub(super) fn on_client_request(&mut self, request: FromClient, client: ClientLink) {
        let answer = match request {
            FromClient::Job { job, follow } => match self.table.status(job, &self.core) {
                None => unknown_job(job),
                Some(status) => {
                    if follow && status.outcome.is_none() {
                        self.followers.push((job, client.clone()));
                    }
                    ToClient::Job(Box::new(status))
                }
            },
            FromClient::Jobs { after } => self.jobs_page(after),
            FromClient::Nodes => ToClient::Nodes(self.node_statuses()),
            FromClient::Kill { job } | FromClient::Yield { job } if self.belongs_to_other(job, &client) => {
                let user = self.table.jobs.get(&job).map_or("", |record| &record.plan.request.user);
                let reason = format!(
                    "{job} belongs to {user}; you may change your own jobs only: ask {user}, an admin or the cluster's owner"
                );
                RejectionCode::Forbidden.because(reason).into()
            }
            FromClient::Kill { job } => match self.kill(job, &client) {
                Some(answer) => answer,
                None => return,
            },
            FromClient::Yield { job } => match self.table.accepted(job) {
                None => unknown_job(job),
                Some(record) if record.outcome.is_some() => ended_already("yield", job),
                Some(_) => {
                    let of_job = |attempt: &AttemptId| attempt.task.job == job;
                    let mut running: Vec<AttemptId> =
                        self.table.running.iter().map(|running| running.id).filter(of_job).collect();
                    // In a fixed order, so that the event log does not depend on the hash map.
                    running.sort_unstable();
                    for attempt in running {
                        self.submit_event(Event::YieldRequested { attempt });
                    }
                    ToClient::Done
                }
            },
            FromClient::SetDrained { node, drained } => self.set_drained(&node, drained),
            // Not planned, because the output exists. Other submissions arrive as `Input::JobPlanned`.
            FromClient::Submit { request, .. } => self.taken_output(&request.output).rejection().into(),
            // The loop handles a stop.
            FromClient::OfferProgram { .. }
            | FromClient::ProgramPiece { .. }
            | FromClient::Stop
            | FromClient::Reload
            | FromClient::EventLog
            | FromClient::Logs { .. }
            | FromClient::ReadLog { .. } => return,
        };
        self.deferred.push(Deferred::Reply(client, answer));
    }

    /// Drains a node or has it used again.
    fn set_drained(&mut self, name: &str, drained: bool) -> ToClient {
        let Some(&node) = self.table.node_ids.get(name) else {
            let mut names: Vec<&str> = self.table.node_ids.keys().map(String::as_str).collect();
            names.sort_unstable();
            names.truncate(NAMES_MAX);
            let reason = format!("no node is named {name}; `giveway nodes` lists them: {}", names.join(", "));
            return RejectionCode::NotFound.because(reason).into();
        };
        self.submit_event(if drained { Event::NodeDrained { node } } else { Event::NodeIncluded { node } });
        // Free slots may match other tasks now.
        self.offer_epoch += 1;
        ToClient::Done
    }

    /// The jobs after one, as many as fit into a message. At least one, if there are any.
    pub(super) fn jobs_page(&self, after: Option<JobId>) -> ToClient {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut jobs, mut bytes, mut more) = (Vec::new(), 0_usize, false);
        for &job in self.table.jobs.range((from, Bound::Unbounded)).map(|(job, _)| job) {
            let Some(status) = self.table.status(job, &self.core) else { continue };
            bytes = bytes.saturating_add(postcard::to_allocvec(&status).map_or(0, |encoded| encoded.len()));
            if bytes > JOBS_PAGE_BYTES_MAX && !jobs.is_empty() {
                more = true;
                break;
            }
            jobs.push(status);
        }
        ToClient::Jobs { jobs, more }
    }

    /// True if a client may not change a job, because it is another user's.
    fn belongs_to_other(&self, job: JobId, client: &ClientLink) -> bool {
        let record = self.table.accepted(job);
        record.is_some_and(|record| client.limited_to.as_ref().is_some_and(|user| *user != record.plan.request.user))
    }

    /// Kills a job. If it was a round of an iterative application, its current round. Returns `None` if the answer is not known yet.
    fn kill(&mut self, job: JobId, client: &ClientLink) -> Option<ToClient> {
        let last = self.table.last_round(job);
        match self.table.accepted(last) {
            None => Some(unknown_job(job)),
            Some(record) if record.finalized && record.outcome == Some(Outcome::Killed) => Some(ToClient::Done),
            Some(record) if record.finalized => Some(ended_already("kill", job)),
            // All its tasks have ended, or none has started: there is nothing to stop. Its output may be published before the kill takes effect.
            Some(record) if record.outcome.is_some() || record.submitted.is_none() => {
                self.kill_requests.push(KillRequest { job: last, client: client.clone(), at: self.now });
                self.kill_output(last);
                planted(Bug::KillAcknowledgedEarly).then_some(ToClient::Done)
            }
            Some(_) => {
                self.submit_event(Event::JobKilled { job: last });
                Some(ToClient::Done)
            }
        }
    }

    /// Answers the clients that have requested to kill a job, which has ended now.
    pub(super) fn answer_kill_requests(&mut self, job: JobId, outcome: Outcome) {
        for request in self.kill_requests.extract_if(.., |request| request.job == job) {
            let answer = if outcome == Outcome::Killed { ToClient::Done } else { ended_already("kill", job) };
            self.deferred.push(Deferred::Reply(request.client, answer));
        }
    }

    /// Answers requests to kill jobs whose output is on a file system that does not respond.
    pub(super) fn answer_overdue_kill_requests(&mut self) {
        let now = self.now;
        for request in self.kill_requests.extract_if(.., |request| now.since(request.at) > KILL_ANSWER_DELAY_MAX) {
            let job = request.job;
            let reason = format!(
                "{job} is to be killed, but the file system of its output does not respond; `giveway job {}` will show how it ended",
                job.0
            );
            self.deferred.push(Deferred::Reply(request.client, RejectionCode::Unavailable.because(reason).into()));
        }
    }

    /// Sends the current status to all clients that follow a job.
    pub(super) fn update_followers(&mut self) {
        let (table, core, deferred) = (&self.table, &self.core, &mut self.deferred);
        self.followers.retain(|(job, client)| match table.status(*job, core) {
            Some(status) => {
                deferred.push(Deferred::Reply(client.clone(), ToClient::Job(Box::new(status))));
                true
            }
            None => false,
        });
    }

    /// Sends the final status of an ended job to the clients that follow it, and drops them.
    pub(super) fn finish_followers(&mut self, job: JobId) {
        let Some(status) = self.table.status(job, &self.core) else { return };
        let (finished, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.followers).into_iter().partition(|(followed, _)| *followed == job);
        self.followers = others;
        for (_, client) in finished {
            self.deferred.push(Deferred::Reply(client, ToClient::Job(Box::new(status.clone()))));
        }
    }

    fn node_statuses(&self) -> Vec<NodeStatus> {
        let now = self.now();
        let status = |node: giveway_core::cluster::NodeStatus<'_>| {
            let session = self.nodes.get(node.id.0 as usize);
            let slots = |kind: Kind| (node.spec.slots(kind), node.used[kind]);
            NodeStatus {
                node: node.id,
                name: node.spec.name.clone(),
                pid: session.and_then(|session| session.connection.as_ref()).map(|connection| connection.pid),
                up: node.up,
                map_slots: slots(Kind::Map),
                reduce_slots: slots(Kind::Reduce),
                paused: node.paused,
                drained: node.excluded.is_some_and(|exclusion| exclusion.is_drain()),
                excluded: node.excluded.filter(|exclusion| !exclusion.is_drain()).map(|exclusion| NodeExclusion {
                    failures: exclusion.failures,
                    jobs: exclusion.jobs,
                    failed_probes: exclusion.failed_probes,
                    probing: exclusion.probe.is_some(),
                    probe_in_s: exclusion.probe_at.since(now).as_secs_f64(),
                }),
            }
        };
        let has_joined = |node: &giveway_core::cluster::NodeStatus<'_>| {
            self.nodes.get(node.id.0 as usize).is_some_and(|session| session.has_joined)
        };
        self.core.nodes().filter(|node| node.up || has_joined(node)).map(status).collect()
    }
}

fn ended_already(request: &str, job: JobId) -> ToClient {
    RejectionCode::Conflict.because(format!("cannot {request} {job}: it has ended already")).into()
}

fn unknown_job(job: JobId) -> ToClient {
    RejectionCode::NotFound.because(format!("{job} does not exist; `giveway jobs` lists all jobs")).into()
}
