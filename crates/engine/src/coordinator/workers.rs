//! Workers come, report, fall silent and come back.

use super::books::{self, Asked};
use super::desk::{Deed, Desk, Desked, Link};
use super::journal::Note;
use crate::wire::{FromWorker, Join, News, ToWorker};
use giveway_core::{AttemptId, Event, JobId, Kind, NodeId, NodeSpec, RackId, WHOLE_PPM, Work};
use std::collections::BTreeSet;
use std::time::Instant;

/// A task that went down with its worker so often is suspected of being the cause: from then on it counts as failed.
const WENT_DOWN_MOST: u8 = 3;

impl Desk {
    /// A worker has called: a new one, one that was lost, or one that was only away for a moment.
    pub(super) fn joined(&mut self, join: Join, link: Link) {
        let spec = spec(&join);
        let node = self.books.names.get(&join.name).copied().unwrap_or(NodeId(self.core.state().nodes.len() as u32));
        let known = self.core.state().up(node).map(|known| known.spec.clone());
        let keep = known.as_ref() == Some(&spec);
        if known.is_some() && !keep {
            // It came back with other slots: to the core that is another machine.
            self.lose(node);
        }
        if !keep && !self.tell(Event::NodeJoined { node, spec }) {
            let why = format!("the coordinator cannot take in {}: it needs at least one slot", join.name);
            let _ = link.to.send(ToWorker::Refused { why });
            return;
        }
        while self.nodes.len() <= node.0 as usize {
            self.nodes.push(Desked::unknown(Instant::now()));
        }
        let desked = &mut self.nodes[node.0 as usize];
        (desked.link, desked.heard) = (Some(link), Instant::now());
        (desked.data_address, desked.pid) = (join.data_address.clone(), join.pid);
        desked.host = join.host.clone();
        (desked.offered, desked.due) = (0, true);
        self.store.on_node_joined(node, &join.name, &join.data_address);
        let beat_ms = self.options.beat.as_millis() as u32;
        self.outbox.push(Deed::Say(node, ToWorker::Welcome { node, keep, beat_ms }));
        self.introduce(node);
        if keep {
            self.reconcile(node, &join);
        }
    }

    /// Tells a worker where all the others are, and all the others where it is.
    fn introduce(&mut self, node: NodeId) {
        let address = |(at, desked): (usize, &Desked)| {
            desked.link.as_ref().map(|_| (NodeId(at as u32), Some(desked.data_address.clone())))
        };
        let everybody = self.nodes.iter().enumerate().filter_map(address).collect();
        self.outbox.push(Deed::Say(node, ToWorker::Nodes { nodes: everybody }));
        self.announce(node, Some(self.nodes[node.0 as usize].data_address.clone()));
    }

    fn announce(&mut self, node: NodeId, address: Option<String>) {
        for other in (0..self.nodes.len() as u32).map(NodeId).filter(|&other| other != node) {
            self.outbox.push(Deed::Say(other, ToWorker::Nodes { nodes: vec![(node, address.clone())] }));
        }
    }

    /// A worker that was away: what it was told and does not have is launched anew, what it has and should not is dropped.
    fn reconcile(&mut self, node: NodeId, join: &Join) {
        let here: Vec<(AttemptId, books::AtWork)> = {
            let on_node = self.books.at_work.iter().filter(|(_, at_work)| at_work.node == node);
            on_node.map(|(&attempt, &at_work)| (attempt, at_work)).collect()
        };
        let mut reducing = BTreeSet::new();
        for (attempt, at_work) in here {
            if join.at_work.contains(&attempt) {
                if attempt.task.kind == Kind::Reduce {
                    reducing.insert(attempt.task.job);
                }
            } else {
                self.went_down(attempt);
                continue;
            }
            if let Some(asked) = at_work.asked {
                self.outbox.push(Deed::Say(node, order(attempt, asked)));
            }
        }
        for job in reducing {
            self.outbox.push(Deed::Say(node, self.all_outputs(job)));
            self.nodes[node.0 as usize].link.as_mut().expect("it has just joined").told_outputs.insert(job);
        }
        self.miss_outputs(node, join);
        for &job in &join.jobs {
            if self.core.state().find(job).is_none_or(|jx| self.core.state().job(jx).closed) {
                self.outbox.push(Deed::Say(node, ToWorker::CloseJob { job }));
            }
        }
    }

    /// An attempt that its worker does not have: it never came there, or went down with the process. The core is told, so that it launches the task
    /// anew and knows that whatever it had fetched is gone.
    fn went_down(&mut self, attempt: AttemptId) {
        let times = self.books.went_down.entry(attempt.task).or_default();
        *times += 1;
        if *times <= WENT_DOWN_MOST {
            self.tell(Event::AttemptKilled { attempt });
            return;
        }
        let text = format!("attempt {attempt}: its worker process died again and again while it ran");
        self.note(Note::Problem { job: attempt.task.job, text });
        self.tell(Event::AttemptFailed { attempt });
    }

    /// Map outputs the core counts on and the worker no longer has.
    fn miss_outputs(&mut self, node: NodeId, join: &Join) {
        let jobs: Vec<JobId> = self.core.state().live().filter(|(_, job)| !job.closed).map(|(_, job)| job.id).collect();
        for job in jobs {
            if self.books.jobs.get(&job).is_some_and(|book| book.plan.reduces == 0) {
                continue;
            }
            for output in books::outputs(job, &self.core) {
                let map = AttemptId::new(job, Kind::Map, output.map, output.number);
                if output.node == node && !join.outputs.contains(&map) {
                    self.lose_output(map);
                }
            }
        }
    }

    /// The line of a message that came: which node it is from, if that line is still the node's.
    fn node_of(&self, line: u64) -> Option<NodeId> {
        let at = self.nodes.iter().position(|node| node.link.as_ref().is_some_and(|link| link.line == line))?;
        Some(NodeId(at as u32))
    }

    /// A worker says something.
    pub(super) fn heard(&mut self, line: u64, message: FromWorker) {
        let Some(node) = self.node_of(line) else { return };
        self.nodes[node.0 as usize].heard = Instant::now();
        match message {
            // Twice on one line: nothing has changed.
            FromWorker::Join(_) => {}
            FromWorker::Beat { progress } => {
                self.nodes[node.0 as usize].due = true;
                for progress in progress {
                    if self.books.at_work.get(&progress.attempt).is_some_and(|at_work| at_work.node == node) {
                        self.progress.insert(progress.attempt, progress.progress_ppm.min(WHOLE_PPM));
                    }
                }
            }
            FromWorker::Store(news) => self.store.on_report(node, news),
            FromWorker::Report { seq, news } => {
                self.report(node, news);
                self.outbox.push(Deed::Say(node, ToWorker::Ack { seq }));
            }
        }
    }

    /// Something ended at a worker. What the core no longer waits for, because it was said before, is only acknowledged.
    fn report(&mut self, node: NodeId, news: News) {
        let attempt = match &news {
            News::Finished { attempt, .. }
            | News::Failed { attempt, .. }
            | News::Killed { attempt }
            | News::Paused { attempt, .. }
            | News::EndedEarly { attempt, .. } => *attempt,
            News::OutputGone { map } => return self.lose_output(*map),
        };
        if self.books.at_work.get(&attempt).is_none_or(|at_work| at_work.node != node) {
            return;
        }
        self.progress.remove(&attempt);
        match news {
            News::Finished { output_bytes, counters, .. } => {
                self.note(Note::Counted { attempt, counters });
                self.tell(Event::AttemptFinished { attempt, output_bytes });
                self.outbox.push(Deed::TellOutput(attempt));
            }
            News::EndedEarly { done_bytes, output_bytes, counters, .. } => {
                self.note(Note::Counted { attempt, counters });
                self.tell(Event::AttemptEndedEarly { attempt, done_bytes, output_bytes });
                self.outbox.push(Deed::TellOutput(attempt));
            }
            News::Paused { progress_ppm, .. } => {
                self.tell(Event::AttemptPaused { attempt, progress_ppm });
            }
            News::Failed { why, .. } => {
                let text = format!("attempt {attempt} on {node}: {why}");
                self.note(Note::Problem { job: attempt.task.job, text });
                self.tell(Event::AttemptFailed { attempt });
            }
            News::Killed { .. } => {
                self.tell(Event::AttemptKilled { attempt });
            }
            News::OutputGone { .. } => {}
        }
    }

    /// A map's output cannot be read: the map runs again, and nobody looks for this output any more.
    fn lose_output(&mut self, map: AttemptId) {
        if books::output(map, &self.core).is_some() && self.tell(Event::MapOutputLost { map }) {
            let text = format!("the output of {map} is damaged or gone; the map runs again");
            self.note(Note::Problem { job: map.task.job, text });
            for node in 0..self.nodes.len() as u32 {
                self.outbox.push(Deed::Say(NodeId(node), ToWorker::OutputGone { map }));
            }
        }
    }

    /// A line is dead. Its worker may call again before its time is out.
    pub(super) fn left(&mut self, line: u64) {
        if let Some(node) = self.node_of(line) {
            self.nodes[node.0 as usize].link = None;
        }
    }

    /// A worker has been silent for too long: it counts as lost, with all it had.
    pub(super) fn lose(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].link = None;
        self.store.on_node_lost(node);
        // Who has fetched everything does not need the lost outputs: the core should know before it decides what runs again.
        self.tell_progress(|_, attempt| attempt.task.kind == Kind::Reduce);
        self.tell(Event::NodeLost { node });
        let work = &self.books.at_work;
        self.progress.retain(|attempt, _| work.contains_key(attempt));
        self.announce(node, None);
    }

    /// Has a worker run something.
    pub(super) fn launch(&mut self, attempt: AttemptId, node: NodeId, work: Work) {
        let job = attempt.task.job;
        let Some(book) = self.books.jobs.get(&job) else { return };
        let plan = book.plan.clone();
        let Some(Desked { link: Some(link), .. }) = self.nodes.get_mut(node.0 as usize) else { return };
        if !link.welcomed {
            return;
        }
        if link.plans.insert(job) {
            let _ = link.to.send(ToWorker::Plan(Box::new((*plan).clone())));
        }
        let needs_outputs = attempt.task.kind == Kind::Reduce && link.told_outputs.insert(job);
        if needs_outputs {
            let outputs = self.all_outputs(job);
            self.say(node, outputs);
        }
        self.say(node, ToWorker::Launch { attempt, work });
    }

    /// Has a worker stop something.
    pub(super) fn order(&mut self, attempt: AttemptId, node: NodeId, asked: Asked) {
        self.say(node, order(attempt, asked));
    }

    fn all_outputs(&self, job: JobId) -> ToWorker {
        ToWorker::Outputs { job, afresh: true, outputs: books::outputs(job, &self.core) }
    }

    /// A map is done: workers that reduce for its job hear where its output is.
    pub(super) fn tell_output(&mut self, map: AttemptId) {
        if map.task.kind != Kind::Map {
            return;
        }
        let Some(output) = books::output(map, &self.core) else { return };
        let job = map.task.job;
        for node in &self.nodes {
            if let Some(link) = node.link.as_ref().filter(|link| link.welcomed && link.told_outputs.contains(&job)) {
                let _ = link.to.send(ToWorker::Outputs { job, afresh: false, outputs: vec![output] });
            }
        }
    }
}

fn order(attempt: AttemptId, asked: Asked) -> ToWorker {
    match asked {
        Asked::GiveWay => ToWorker::GiveWay { attempt },
        Asked::Kill => ToWorker::Kill { attempt },
    }
}

fn spec(join: &Join) -> NodeSpec {
    NodeSpec {
        name: join.name.clone(),
        rack: RackId(join.rack),
        map_slots: join.map_slots,
        reduce_slots: join.reduce_slots,
        speed_ppm: WHOLE_PPM,
        disk_bytes_per_s: 1_000_000_000,
        disk_bytes: 1 << 40,
    }
}
