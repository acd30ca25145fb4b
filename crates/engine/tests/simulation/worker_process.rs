//! The processes of workers and their connections: the real state machine of a worker around modelled tasks.

use super::oracle::Violation;
use super::scenario::{Micros, SECOND};
use super::task::{Behaviour, Fetched, Step, Task, WorkerFiles};
use super::world::{Event, Link, World};
use crate::coordinator::inputs::{Input, WorkerLink};
use crate::task::MapOutputLocation;
use crate::wire::{self, FromWorker, MESSAGE_BYTES_MAX, NodeFolder, Report, ToWorker, WorkerIdentity};
use crate::worker::state_machine::{self, Effect, Worker};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// A worker, whether its process runs or not.
pub(super) struct WorkerProcess {
    pub(super) name: String,
    pub(super) map_slots: u16,
    pub(super) reduce_slots: u16,
    folder: PathBuf,
    /// What is in the folder.
    pub(super) files: WorkerFiles,
    /// The process, if it runs.
    pub(super) process: Option<Process>,
    pub(super) link: Option<u64>,
    pub(super) stopped_until: Micros,
    /// The next task that ends fails.
    pub(super) fail_next: bool,
    /// The next task that starts hangs.
    pub(super) hang_next: bool,
    /// It is not started again after this.
    pub(super) ends: Option<Micros>,
}

/// A worker's running process.
pub(super) struct Process {
    /// Changes with each process.
    incarnation: u64,
    worker: Worker,
    /// Running tasks by launch.
    tasks: BTreeMap<u64, Task>,
    /// The folders of nodes, for reduces.
    folders: BTreeMap<NodeId, PathBuf>,
    next_tick: Micros,
}

impl WorkerProcess {
    pub(super) fn new(number: usize, name: String, (map_slots, reduce_slots): (u16, u16)) -> WorkerProcess {
        WorkerProcess {
            name,
            map_slots,
            reduce_slots,
            folder: Path::new("/workers").join(number.to_string()),
            files: WorkerFiles::default(),
            process: None,
            link: None,
            stopped_until: 0,
            fail_next: false,
            hang_next: false,
            ends: None,
        }
    }
}

impl World {
    pub(super) fn kill_worker(&mut self, worker: usize, down: Micros, power_cut: bool) {
        let killed = &mut self.workers[worker];
        if killed.process.take().is_none() {
            return;
        }
        self.figures.kills += u64::from(!power_cut);
        killed.stopped_until = 0;
        if let Some(link) = killed.link {
            self.cut_link(link);
        }
        self.after(down, Event::WorkerStarts { worker, power_cut });
    }

    pub(super) fn start_worker(&mut self, worker: usize, power_cut: bool) {
        let incarnation = self.random.next();
        let started = &mut self.workers[worker];
        if started.process.is_some() || started.ends.is_some_and(|end| end <= self.now) {
            return;
        }
        if power_cut {
            started.files.cut_power(&mut self.random);
        }
        let identity = WorkerIdentity {
            name: started.name.clone(),
            incarnation,
            rack: 0,
            host: "host".into(),
            map_slots: started.map_slots,
            reduce_slots: started.reduce_slots,
            folder: started.folder.clone(),
            pid: 1,
        };
        started.process = Some(Process {
            incarnation,
            worker: Worker::new(identity, started.files.leftovers()),
            tasks: BTreeMap::new(),
            folders: BTreeMap::new(),
            next_tick: Micros::MAX,
        });
        self.after(0, Event::WorkerConnects { worker, incarnation });
    }

    /// Whether this process of a worker still runs.
    fn is_running(&self, worker: usize, incarnation: u64) -> bool {
        self.workers[worker].process.as_ref().is_some_and(|process| process.incarnation == incarnation)
    }

    pub(super) fn connect(&mut self, worker: usize, incarnation: u64) -> Result<(), Violation> {
        let connecting = &self.workers[worker];
        if !self.is_running(worker, incarnation) || connecting.link.is_some() {
            return Ok(());
        }
        let resume = connecting.stopped_until.saturating_sub(self.now);
        if resume > 0 || self.process.is_none() {
            self.after(resume.max(SECOND / 5), Event::WorkerConnects { worker, incarnation });
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel();
        let id = self.next_id();
        let link = Link { worker, sender: Some(sender), receiver, to_worker_at: 0, to_coordinator_at: 0 };
        self.links.insert(id, link);
        self.workers[worker].link = Some(id);
        self.worker_handles(worker, Some(state_machine::Input::Connected { link: id }))
    }

    /// Ends a connection. Messages on the way are lost; both sides notice.
    pub(super) fn cut_link(&mut self, id: u64) {
        let Some(link) = self.links.remove(&id) else { return };
        let at = link.to_coordinator_at.max(self.now) + self.random.between(1, 50_000);
        let input = Input::WorkerDisconnected { link: id };
        self.at(at, Event::InputArrives { epoch: self.epoch, input });
        let cut = &mut self.workers[link.worker];
        if cut.link == Some(id) {
            cut.link = None;
            if let Some(process) = &mut cut.process {
                let now = Time(self.now);
                process.worker.handle(now, Some(state_machine::Input::Disconnected { link: id }));
                let (worker, incarnation) = (link.worker, process.incarnation);
                let delay = self.random.between(100_000, 300_000);
                self.after(delay, Event::WorkerConnects { worker, incarnation });
            }
        }
    }

    /// Returns true, and repeats the event later, if the worker is suspended.
    fn is_suspended(&mut self, worker: usize, event: impl FnOnce() -> Event) -> bool {
        let until = self.workers[worker].stopped_until;
        let suspended = until > self.now;
        if suspended {
            self.at(until, event());
        }
        suspended
    }

    /// Bytes from a worker arrive at the coordinator.
    pub(super) fn bytes_arrive(&mut self, epoch: u64, link: u64, bytes: &[u8]) -> Result<(), Violation> {
        if epoch != self.epoch {
            return Ok(());
        }
        let input = match decode(bytes)? {
            FromWorker::Join(join) => {
                let Some(sender) = self.links.get_mut(&link).and_then(|link| link.sender.take()) else { return Ok(()) };
                Input::WorkerJoined { join, link: WorkerLink { id: link, sender } }
            }
            message => Input::WorkerMessage { link, message },
        };
        self.input(input);
        Ok(())
    }

    pub(super) fn message_arrives(&mut self, link: u64, bytes: Vec<u8>) -> Result<(), Violation> {
        let Some(worker) = self.links.get(&link).map(|link| link.worker) else { return Ok(()) };
        if self.is_suspended(worker, || Event::MessageArrives { link, bytes: bytes.clone() }) {
            return Ok(());
        }
        let message: ToWorker = decode(&bytes)?;
        check_program(&message)?;
        self.worker_handles(worker, Some(state_machine::Input::Message { link, message }))
    }

    pub(super) fn worker_ticks(&mut self, worker: usize, incarnation: u64, at: Micros) -> Result<(), Violation> {
        let is_due = self.workers[worker].process.as_ref().is_some_and(|process| process.next_tick == at);
        if !is_due
            || !self.is_running(worker, incarnation)
            || self.is_suspended(worker, || Event::WorkerTicks { worker, incarnation, at })
        {
            return Ok(());
        }
        if let Some(process) = &mut self.workers[worker].process {
            process.next_tick = Micros::MAX;
        }
        self.worker_handles(worker, None)
    }

    /// Gives a worker's state machine an input, and carries out what it returns.
    fn worker_handles(&mut self, worker: usize, input: Option<state_machine::Input>) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = &mut self.workers[worker].process else { return Ok(()) };
        let incarnation = process.incarnation;
        for effect in process.worker.handle(Time(now), input) {
            self.carry_out_for(worker, effect)?;
        }
        if let Some(process) = &mut self.workers[worker].process
            && let Some(Time(at)) = process.worker.next_tick()
            && at < process.next_tick
        {
            process.next_tick = at;
            self.at(at, Event::WorkerTicks { worker, incarnation, at });
        }
        Ok(())
    }

    fn carry_out_for(&mut self, worker: usize, effect: Effect) -> Result<(), Violation> {
        let (random, acting) = (&mut self.random, &mut self.workers[worker]);
        let Some(process) = &mut acting.process else { return Ok(()) };
        match effect {
            Effect::Send { link, message } => {
                let delay = random.between(100, 20_000);
                let Some(state) = self.links.get_mut(&link) else { return Ok(()) };
                state.to_coordinator_at = (self.now + delay).max(state.to_coordinator_at + 1);
                let (at, epoch, bytes) = (state.to_coordinator_at, self.epoch, encode(&message)?);
                self.at(at, Event::BytesArrive { epoch, link, bytes });
            }
            Effect::Start(launch) => {
                let kind = launch.attempt.task.kind;
                let slots = if kind == Kind::Map { acting.map_slots } else { acting.reduce_slots };
                let used = process.worker.running().filter(|attempt| attempt.task.kind == kind).count();
                if used > usize::from(slots) {
                    return Err(Violation(format!("{} runs {used} {kind}s in {slots} slots", acting.name)));
                }
                let behaviour = match std::mem::take(&mut acting.hang_next) {
                    true if random.chance(2) => Behaviour::HangsForEver,
                    true => Behaviour::Hangs,
                    false if random.chance(if self.scenario.slow_tasks { 3 } else { 50 }) => {
                        Behaviour::Steps(random.between(50, 150))
                    }
                    false => Behaviour::Steps(random.between(1, 4)),
                };
                let (number, incarnation) = (launch.number, process.incarnation);
                process.tasks.insert(number, Task::start(launch, &mut acting.files, behaviour));
                self.continue_later(worker, incarnation, number);
            }
            Effect::SetFolders(folders) => {
                process.folders.extend(folders.into_iter().map(|NodeFolder { node, folder }| (node, folder)));
            }
            Effect::RemoveFolder(node) => drop(process.folders.remove(&node)),
            Effect::RemoveJob { job, .. } => acting.files.remove_job(job),
            Effect::RemoveAllJobs => acting.files.remove_all(),
            // Its process ends and is restarted.
            Effect::Stop { .. } => self.kill_worker(worker, SECOND, false),
        }
        Ok(())
    }

    fn continue_later(&mut self, worker: usize, incarnation: u64, launch: u64) {
        let delay = self.random.between(20_000, 600_000);
        self.after(delay, Event::TaskContinues { worker, incarnation, launch });
    }

    pub(super) fn task_continues(&mut self, worker: usize, incarnation: u64, launch: u64) -> Result<(), Violation> {
        if !self.is_running(worker, incarnation)
            || self.is_suspended(worker, || Event::TaskContinues { worker, incarnation, launch })
        {
            return Ok(());
        }
        let running = &mut self.workers[worker];
        let Some(mut task) = running.process.as_mut().and_then(|process| process.tasks.remove(&launch)) else {
            return Ok(());
        };
        let mut fetched = Vec::new();
        for output in task.wanted() {
            fetched.push((output, self.fetch(worker, task.launch.attempt.task.job, &output)?));
        }
        let files = &mut self.workers[worker].files;
        let (step, lost) = task.step(fetched, files, &self.disk, &mut self.random);
        for map in lost {
            self.worker_handles(worker, Some(state_machine::Input::OutputLost { map }))?;
        }
        match step {
            Step::Continue => {
                if let Some(process) = &mut self.workers[worker].process {
                    process.tasks.insert(launch, task);
                }
                self.continue_later(worker, incarnation, launch);
                Ok(())
            }
            Step::Ended(report) => {
                let fails = std::mem::take(&mut self.workers[worker].fail_next);
                let attempt = task.launch.attempt;
                let report = if fails { Report::Failed { attempt, reason: "a fault".into() } } else { report };
                self.worker_handles(worker, Some(state_machine::Input::TaskEnded { launch, report }))
            }
        }
    }

    /// What a reduce of a worker gets that opens a map's output.
    fn fetch(&self, worker: usize, job: JobId, output: &MapOutputLocation) -> Result<Fetched, Violation> {
        let map = AttemptId::new(job, Kind::Map, output.map, output.number);
        let folder = self.workers[worker].process.as_ref().and_then(|process| process.folders.get(&output.node));
        let holder = self.workers.iter().find(|holder| Some(&holder.folder) == folder);
        let Some(holder) = holder else { return Ok(Fetched::Unreachable) };
        match holder.files.outputs.get(&map) {
            None => Ok(Fetched::Missing),
            Some(&range) if range == (output.split, output.start_bytes, output.bytes) => Ok(Fetched::Range(range)),
            Some(range) => Err(Violation(format!("the output of {map} covers {range:?}, but is listed as {output:?}"))),
        }
    }
}

/// As it is sent over a real connection.
pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>, Violation> {
    let mut bytes = Vec::new();
    wire::send(&mut bytes, message).map_err(|error| Violation(error.to_string()))?;
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T, Violation> {
    wire::receive(&mut bytes, MESSAGE_BYTES_MAX).map_err(|error| Violation(error.to_string()))
}

/// A job keeps the program that it was shipped with, whatever happens to the coordinator.
fn check_program(message: &ToWorker) -> Result<(), Violation> {
    let ToWorker::Plan { plan, program } = message else { return Ok(()) };
    match *program == super::clients::program(plan) {
        true => Ok(()),
        false => Err(Violation(format!("{} is sent with another program than it was shipped with", plan.job))),
    }
}
