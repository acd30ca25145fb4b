//! Requests of clients, except submissions and stored files.

use super::job_table::task_counts;
use super::run::{Coordinator, Effect};
use crate::wire::{FromClient, NodeStatus, ToClient};
use giveway_core::state::TaskState;
use giveway_core::{AttemptId, Event, JobId, Kind, NodeId, Outcome};
use std::sync::mpsc::Sender;

/// Number of preceding jobs that `explain` names.
const PRECEDING_JOBS_MAX: usize = 5;

impl Coordinator {
    pub(super) fn on_client_request(&mut self, request: FromClient, reply: Sender<ToClient>) {
        let answer = match request {
            FromClient::Job { job, follow } => match self.table.status(job, &self.core) {
                None => unknown_job(job),
                Some(status) => {
                    if follow && status.outcome.is_none() {
                        self.followers.push((job, reply.clone()));
                    }
                    ToClient::Job(Box::new(status))
                }
            },
            FromClient::Jobs => {
                ToClient::Jobs(self.table.jobs.keys().filter_map(|&job| self.table.status(job, &self.core)).collect())
            }
            FromClient::Nodes => ToClient::Nodes(self.node_statuses()),
            FromClient::Kill { job } => match self.table.jobs.get(&job).map(|record| record.outcome) {
                None => unknown_job(job),
                Some(Some(_)) => ToClient::Refused { reason: format!("cannot kill {job}: it has ended already") },
                Some(None) => {
                    self.submit_event(Event::JobKilled { job });
                    ToClient::Done
                }
            },
            FromClient::Yield { job } => match self.table.jobs.contains_key(&job) {
                false => unknown_job(job),
                true => {
                    let of_job = |attempt: &&AttemptId| attempt.task.job == job;
                    let mut running: Vec<AttemptId> = self.table.running.keys().filter(of_job).copied().collect();
                    // In a fixed order, so that the event log does not depend on the hash map.
                    running.sort_unstable();
                    for attempt in running {
                        self.submit_event(Event::YieldRequested { attempt });
                    }
                    ToClient::Done
                }
            },
            FromClient::Explain { job } => match self.explain(job) {
                Some(lines) => ToClient::Explained(lines),
                None => unknown_job(job),
            },
            // Submissions arrive as `Input::JobPlanned`, the connection answers requests for stored files, and the loop handles a stop.
            FromClient::Submit(_) | FromClient::Store(_) | FromClient::Stop => return,
        };
        self.effects.push(Effect::Reply(reply, answer));
    }

    /// Sends the current status to all clients that follow a job.
    pub(super) fn update_followers(&mut self) {
        let (table, core) = (&self.table, &self.core);
        self.followers.retain(|(job, to)| match table.status(*job, core) {
            Some(status) => to.send(ToClient::Job(Box::new(status))).is_ok(),
            None => false,
        });
    }

    /// Sends the final status of an ended job to the clients that follow it, and drops them.
    pub(super) fn finish_followers(&mut self, job: JobId) {
        let Some(status) = self.table.status(job, &self.core) else { return };
        let (finished, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.followers).into_iter().partition(|(followed, _)| *followed == job);
        self.followers = others;
        for (_, to) in finished {
            self.effects.push(Effect::Reply(to, ToClient::Job(Box::new(status.clone()))));
        }
    }

    fn node_statuses(&self) -> Vec<NodeStatus> {
        let state = self.core.state();
        let status = |(index, node): (usize, &giveway_core::state::Node)| {
            let session = &self.nodes[index];
            let slots = |kind: Kind| (node.spec.slots(kind), node.running[kind.ix()].len() as u16);
            NodeStatus {
                node: NodeId(index as u32),
                name: node.spec.name.clone(),
                pid: session.connection.as_ref().map(|_| session.pid),
                up: node.up,
                map_slots: slots(Kind::Map),
                reduce_slots: slots(Kind::Reduce),
                paused: node.paused.len() as u32,
            }
        };
        state.nodes.iter().enumerate().map(status).collect()
    }

    /// Explains a job's scheduling as lines of text: its rank for each kind of slot, what its tasks wait for, and recent decisions. `None` if the
    /// job is unknown.
    fn explain(&self, job: JobId) -> Option<Vec<String>> {
        let record = self.table.jobs.get(&job)?;
        let mut lines = Vec::new();
        lines.push(format!("{job} `{}`, policy {}", record.plan.request.name, self.core.setup().policy.name));
        match (task_counts(job, &self.core), record.outcome) {
            (_, Some(Outcome::Succeeded)) => lines.push("ended: succeeded".into()),
            (_, Some(Outcome::Killed)) => lines.push("ended: killed".into()),
            (_, Some(Outcome::Failed)) => lines.push("ended: failed".into()),
            (Some(_), None) => Kind::BOTH.into_iter().for_each(|kind| self.explain_kind(job, kind, &mut lines)),
            (None, None) => lines.push("not yet accepted".into()),
        }
        if !record.decisions.is_empty() {
            lines.push("recent decisions:".into());
            let decisions = record.decisions.iter().map(|(at, text)| format!("  {:>9.3} s  {text}", at.as_secs_f64()));
            lines.extend(decisions);
        }
        Some(lines)
    }

    fn explain_kind(&self, id: JobId, kind: Kind, lines: &mut Vec<String>) {
        let state = self.core.state();
        let Some(jx) = state.find(id) else { return };
        let job = state.job(jx);
        let facts = job.facts(kind);
        if job.total(kind) == 0 {
            return;
        }
        lines.push(format!(
            "{kind}s: {} total, {} done, {} running, {} paused, {} pending",
            job.total(kind),
            facts.done,
            facts.live.len(),
            facts.paused,
            facts.waiting
        ));
        for &index in &facts.live {
            if let TaskState::Yielding(_) = job.task(kind, index).state {
                lines.push(format!("  {kind} {index} has been requested to yield"));
            }
        }
        if facts.waiting + facts.paused == 0 {
            return;
        }
        if !job.may_start(kind) {
            lines.push(format!("  waiting until {} maps are done (slow-start)", job.slowstart_maps));
            return;
        }
        if state.slots[kind.ix()] == 0 {
            lines.push(format!("  waiting for a node with {kind} slots: none is up"));
            return;
        }
        let ranking = self.core.rank(kind, NodeId(0));
        match ranking.iter().position(|&ranked| ranked == id) {
            Some(0) => lines.push(format!("  rank 1: gets the next free {kind} slot")),
            Some(rank) => {
                let shown = &ranking[..rank.min(PRECEDING_JOBS_MAX)];
                let preceding: Vec<String> = shown.iter().map(|job| job.to_string()).collect();
                let more = if rank > PRECEDING_JOBS_MAX { ", ..." } else { "" };
                lines.push(format!("  rank {}, after {}{more}", rank + 1, preceding.join(", ")));
            }
            None => lines.push("  not ranked: the policy allows it no more slots now".into()),
        }
        lines.push(format!("  {} of {} {kind} slots are free", state.free[kind.ix()], state.slots[kind.ix()]));
    }
}

fn unknown_job(job: JobId) -> ToClient {
    ToClient::Refused { reason: format!("{job} does not exist; `giveway jobs` lists all jobs") }
}
