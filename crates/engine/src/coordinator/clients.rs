//! What users ask.

use super::books::counts;
use super::desk::{Deed, Desk};
use crate::wire::{FromClient, NodeStatus, ToClient};
use giveway_core::state::TaskState;
use giveway_core::{AttemptId, Event, JobId, Kind, NodeId};
use std::sync::mpsc::Sender;

impl Desk {
    /// A user asks for something.
    pub(super) fn asked(&mut self, message: FromClient, reply: Sender<ToClient>) {
        let answer = match message {
            FromClient::Job { job, follow } => match self.books.status(job, &self.core) {
                None => unknown(job),
                Some(status) => {
                    if follow && status.outcome.is_none() {
                        self.followers.push((job, reply.clone()));
                    }
                    ToClient::Job(Box::new(status))
                }
            },
            FromClient::Jobs => {
                ToClient::Jobs(self.books.jobs.keys().filter_map(|&job| self.books.status(job, &self.core)).collect())
            }
            FromClient::Nodes => ToClient::Nodes(self.node_statuses()),
            FromClient::Kill { job } => match self.books.jobs.get(&job).map(|book| book.closed) {
                None => unknown(job),
                Some(Some(_)) => ToClient::Refused { why: format!("{job} is over already") },
                Some(None) => {
                    self.tell(Event::JobKilled { job });
                    ToClient::Done
                }
            },
            FromClient::Yield { job } => match self.books.jobs.contains_key(&job) {
                false => unknown(job),
                true => {
                    let of_job = |attempt: &&AttemptId| attempt.task.job == job;
                    let mut running: Vec<AttemptId> = self.books.at_work.keys().filter(of_job).copied().collect();
                    running.sort_unstable();
                    for attempt in running {
                        self.tell(Event::YieldRequested { attempt });
                    }
                    ToClient::Done
                }
            },
            FromClient::Explain { job } => match self.explain(job) {
                Some(lines) => ToClient::Explained(lines),
                None => unknown(job),
            },
            // Jobs come planned, stored files are no matter of the desk, and the stop is taken before this.
            FromClient::Submit(_) | FromClient::Store(_) | FromClient::Stop => return,
        };
        self.outbox.push(Deed::Reply(reply, answer));
    }

    /// Tells those who follow live jobs how they are.
    pub(super) fn tell_followers(&mut self) {
        let (books, core) = (&self.books, &self.core);
        self.followers.retain(|(job, to)| match books.status(*job, core) {
            Some(status) => to.send(ToClient::Job(Box::new(status))).is_ok(),
            None => false,
        });
    }

    /// A job has ended: those who follow it hear it for the last time.
    pub(super) fn tell_ended(&mut self, job: JobId) {
        let Some(status) = self.books.status(job, &self.core) else { return };
        let (told, others) =
            std::mem::take(&mut self.followers).into_iter().partition(|(followed, _)| *followed == job);
        self.followers = others;
        let told: Vec<(JobId, Sender<ToClient>)> = told;
        for (_, to) in told {
            self.outbox.push(Deed::Reply(to, ToClient::Job(Box::new(status.clone()))));
        }
    }

    fn node_statuses(&self) -> Vec<NodeStatus> {
        let state = self.core.state();
        let status = |(at, node): (usize, &giveway_core::state::Node)| {
            let desked = &self.nodes[at];
            let taken = |kind: Kind| (node.spec.slots(kind), node.running[kind.ix()].len() as u16);
            NodeStatus {
                node: NodeId(at as u32),
                name: node.spec.name.clone(),
                pid: desked.link.as_ref().map(|_| desked.pid),
                up: node.up,
                map_slots: taken(Kind::Map),
                reduce_slots: taken(Kind::Reduce),
                paused: node.paused.len() as u32,
            }
        };
        state.nodes.iter().enumerate().map(status).collect()
    }

    /// Why a job stands where it stands: its place in the lines, what each kind of its tasks waits for, and what was decided lately.
    fn explain(&self, job: JobId) -> Option<Vec<String>> {
        let book = self.books.jobs.get(&job)?;
        let mut lines = Vec::new();
        lines.push(format!("{job} `{}`, policy {}", book.plan.request.name, self.core.setup().policy.name));
        match (counts(job, &self.core), book.closed) {
            (_, Some(outcome)) => lines.push(format!("it is over: {outcome:?}").to_lowercase()),
            (Some(_), None) => Kind::BOTH.into_iter().for_each(|kind| self.explain_kind(job, kind, &mut lines)),
            (None, None) => lines.push("it is being taken in".into()),
        }
        if !book.decisions.is_empty() {
            lines.push("lately:".into());
            let decided = book.decisions.iter().map(|(at, what)| format!("  {:>9.3} s  {what}", at.as_secs_f64()));
            lines.extend(decided);
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
            "{kind}s: {} in all, {} done, {} running, {} paused, {} waiting",
            job.total(kind),
            facts.done,
            facts.live.len(),
            facts.paused,
            facts.waiting
        ));
        for &index in &facts.live {
            if let TaskState::Yielding(_) = job.task(kind, index).state {
                lines.push(format!("  {kind} {index} has been asked to give way"));
            }
        }
        if facts.waiting + facts.paused == 0 {
            return;
        }
        if !job.may_start(kind) {
            lines.push(format!("  they wait for {} maps to be done (slow-start)", job.slowstart_maps));
            return;
        }
        if state.slots[kind.ix()] == 0 {
            lines.push(format!("  they wait for a node with {kind} slots: none is up"));
            return;
        }
        let line = self.core.rank(kind, NodeId(0));
        match line.iter().position(|&waiting| waiting == id) {
            Some(0) => lines.push("  first in line for the next free slot".into()),
            Some(place) => {
                let ahead: Vec<String> = line[..place.min(5)].iter().map(|job| job.to_string()).collect();
                let more = if place > 5 { ", ..." } else { "" };
                lines.push(format!("  number {} in line, behind {}{more}", place + 1, ahead.join(", ")));
            }
            None => lines.push("  it has what it may have for now and does not stand in line".into()),
        }
        lines.push(format!("  {} of {} {kind} slots are free", state.free[kind.ix()], state.slots[kind.ix()]));
    }
}

fn unknown(job: JobId) -> ToClient {
    ToClient::Refused { why: format!("there is no {job} here; `giveway jobs` lists those that are") }
}
