//! The processes of workers and their connections.

use super::oracle::Violation;
use super::scenario::{Micros, SECOND};
use super::worker::{Fetched, Step};
use super::world::{Event, HEARTBEAT, Link, World};
use crate::coordinator::inputs::{Input, WorkerLink};
use crate::task::MapOutputLocation;
use crate::wire::{FromWorker, Report, ToWorker};
use giveway_core::{AttemptId, JobId, Kind, Progress};
use std::sync::mpsc;

impl World {
    pub(super) fn kill_worker(&mut self, worker: usize, down: Micros, power_cut: bool) {
        let process = &mut self.workers[worker];
        if !process.alive {
            return;
        }
        self.figures.kills += u64::from(!power_cut);
        (process.alive, process.stopped_until) = (false, 0);
        process.model.joined = false;
        process.model.node = None;
        if let Some(link) = process.link {
            self.cut_link(link);
        }
        self.after(down, Event::WorkerStarts { worker, power_cut });
    }

    pub(super) fn start_worker(&mut self, worker: usize, power_cut: bool) {
        let process = &mut self.workers[worker];
        if process.alive {
            return;
        }
        process.alive = true;
        process.model.restart(power_cut, &mut self.random);
        let incarnation = process.model.incarnation;
        self.after(0, Event::WorkerConnects { worker, incarnation });
    }

    pub(super) fn connect(&mut self, worker: usize, incarnation: u64) {
        let process = &mut self.workers[worker];
        if !process.alive || process.link.is_some() || process.model.incarnation != incarnation {
            return;
        }
        let resume = process.stopped_until.saturating_sub(self.now);
        if resume > 0 || self.process.is_none() {
            return self.after(resume.max(SECOND / 5), Event::WorkerConnects { worker, incarnation });
        }
        let (sender, receiver) = mpsc::channel();
        let id = self.next_id();
        self.links.insert(id, Link { worker, receiver, to_worker_at: 0, to_coordinator_at: 0 });
        let process = &mut self.workers[worker];
        process.link = Some(id);
        let join = Box::new(process.model.join());
        self.send(id, Input::WorkerJoined { join, link: WorkerLink { id, sender } });
    }

    /// Sends an input over a worker's connection.
    pub(super) fn send(&mut self, link: u64, input: Input) {
        let delay = self.random.between(100, 20_000);
        let Some(state) = self.links.get_mut(&link) else { return };
        state.to_coordinator_at = (self.now + delay).max(state.to_coordinator_at + 1);
        let (at, epoch) = (state.to_coordinator_at, self.epoch);
        self.at(at, Event::InputArrives { epoch, input });
    }

    /// Ends a connection. Messages on the way are lost; both sides notice.
    pub(super) fn cut_link(&mut self, id: u64) {
        let Some(link) = self.links.remove(&id) else { return };
        let epoch = self.epoch;
        let at = link.to_coordinator_at.max(self.now) + self.random.between(1, 50_000);
        self.at(at, Event::InputArrives { epoch, input: Input::WorkerDisconnected { link: id } });
        let process = &mut self.workers[link.worker];
        if process.link == Some(id) {
            (process.link, process.model.joined) = (None, false);
            let incarnation = process.model.incarnation;
            let delay = self.random.between(100_000, 300_000);
            self.after(delay, Event::WorkerConnects { worker: link.worker, incarnation });
        }
    }

    /// Returns true, and repeats the event later, if the worker is suspended.
    pub(super) fn is_suspended(&mut self, worker: usize, event: impl FnOnce() -> Event) -> bool {
        let until = self.workers[worker].stopped_until;
        let suspended = until > self.now;
        if suspended {
            self.at(until, event());
        }
        suspended
    }

    pub(super) fn message_arrives(&mut self, link: u64, message: ToWorker) -> Result<(), Violation> {
        let Some(worker) = self.links.get(&link).map(|link| link.worker) else { return Ok(()) };
        let repeated = message.clone();
        if self.is_suspended(worker, || Event::MessageArrives { link, message: repeated }) {
            return Ok(());
        }
        check_program(&message)?;
        let process = &mut self.workers[worker];
        match message {
            ToWorker::JoinAccepted { node, keep_state, .. } => {
                if !keep_state {
                    process.model.discard_all();
                }
                (process.model.node, process.model.joined) = (Some(node), true);
                let unacked: Vec<(u64, Report)> =
                    process.model.unacked.iter().map(|(&seq, report)| (seq, report.clone())).collect();
                for (seq, report) in unacked {
                    self.send(link, Input::WorkerMessage { link, message: FromWorker::Report { seq, report } });
                }
                self.after(HEARTBEAT, Event::Heartbeat { link });
            }
            // Its process ends and is restarted.
            ToWorker::JoinRefused { .. } => self.kill_worker(worker, SECOND, false),
            message => {
                let (launched, report) = process.model.handle(message, &mut self.random);
                if let Some(report) = report {
                    self.report(worker, report);
                }
                if let Some(attempt) = launched {
                    self.check_slots(worker, attempt.task.kind)?;
                    self.continue_later(worker, attempt);
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_slots(&self, worker: usize, kind: Kind) -> Result<(), Violation> {
        let model = &self.workers[worker].model;
        let slots = if kind == Kind::Map { model.map_slots } else { model.reduce_slots };
        match model.used(kind) > usize::from(slots) {
            true => Err(Violation(format!("{} runs {} {kind}s in {slots} slots", model.name, model.used(kind)))),
            false => Ok(()),
        }
    }

    pub(super) fn continue_later(&mut self, worker: usize, attempt: AttemptId) {
        let incarnation = self.workers[worker].model.incarnation;
        let delay = self.random.between(20_000, 600_000);
        self.after(delay, Event::TaskContinues { worker, incarnation, attempt });
    }

    pub(super) fn report(&mut self, worker: usize, report: Report) {
        let process = &mut self.workers[worker];
        let seq = process.model.add_report(report.clone());
        if let Some(link) = process.link.filter(|_| process.model.joined) {
            self.send(link, Input::WorkerMessage { link, message: FromWorker::Report { seq, report } });
        }
    }

    pub(super) fn heartbeat(&mut self, link: u64) {
        let Some(worker) = self.links.get(&link).map(|link| link.worker) else { return };
        if self.is_suspended(worker, || Event::Heartbeat { link }) {
            return;
        }
        let running = self.workers[worker].model.running.keys();
        let progress = running.map(|&attempt| Progress { attempt, progress_ppm: 200_000 }).collect();
        self.send(link, Input::WorkerMessage { link, message: FromWorker::Heartbeat { progress } });
        self.after(HEARTBEAT, Event::Heartbeat { link });
    }

    pub(super) fn task_continues(
        &mut self,
        worker: usize,
        incarnation: u64,
        attempt: AttemptId,
    ) -> Result<(), Violation> {
        let process = &self.workers[worker];
        let is_gone =
            !process.alive || process.model.incarnation != incarnation || !process.model.running.contains_key(&attempt);
        if is_gone || self.is_suspended(worker, || Event::TaskContinues { worker, incarnation, attempt }) {
            return Ok(());
        }
        let process = &self.workers[worker];
        let mut fetched = Vec::new();
        for output in process.model.wanted(attempt) {
            fetched.push((output, self.fetch(attempt.task.job, &output)?));
        }
        let process = &mut self.workers[worker];
        let (step, lost) = process.model.step(attempt, fetched, &self.disk, &mut self.random);
        lost.into_iter().for_each(|report| self.report(worker, report));
        match step {
            Step::Continue => self.continue_later(worker, attempt),
            Step::Ended(report) => {
                let fails = std::mem::take(&mut self.workers[worker].fail_next);
                let report = if fails { Report::Failed { attempt, reason: "a fault".into() } } else { report };
                self.report(worker, report);
            }
        }
        Ok(())
    }

    /// What a reduce gets that asks for a map's output.
    pub(super) fn fetch(&self, job: JobId, output: &MapOutputLocation) -> Result<Fetched, Violation> {
        let map = AttemptId::new(job, Kind::Map, output.map, output.number);
        let holder = self.workers.iter().find(|worker| worker.alive && worker.model.node == Some(output.node));
        let Some(holder) = holder.filter(|holder| holder.stopped_until <= self.now) else {
            return Ok(Fetched::Unreachable);
        };
        match holder.model.outputs.get(&map) {
            None => Ok(Fetched::Missing),
            Some(&range) if range == (output.split, output.start_bytes, output.bytes) => Ok(Fetched::Range(range)),
            Some(range) => Err(Violation(format!("the output of {map} covers {range:?}, but is listed as {output:?}"))),
        }
    }
}

/// A job keeps the program that it was shipped with, whatever happens to the coordinator.
fn check_program(message: &ToWorker) -> Result<(), Violation> {
    let (plan, program) = match message {
        ToWorker::Plan(plan) => (plan, None),
        ToWorker::ShippedPlan { plan, program } => (plan, Some(*program)),
        _ => return Ok(()),
    };
    match program == super::clients::program(plan) {
        true => Ok(()),
        false => Err(Violation(format!("{} is sent with another program than it was shipped with", plan.job))),
    }
}
