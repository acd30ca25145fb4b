//! The coordinator's process: started, driven, killed.

use super::disk::ModelDisk;
use super::oracle::Violation;
use super::scenario::{Micros, SECOND};
use super::worker_process::encode;
use super::world::{CLUSTER, Event, HEARTBEAT, World};
use crate::apps::round_output;
use crate::coordinator::StartError;
use crate::coordinator::file_system::FileSystem;
use crate::coordinator::inputs::{ClientLink, Effect, Input};
use crate::coordinator::journal::{Journal, JournalError, synced_text};
use crate::coordinator::output_work::{OutputWork, Rounds};
use crate::coordinator::state_machine::{Coordinator, Settings};
use crate::job::Plan;
use crate::program::ProgramId;
use crate::record::AppError;
use crate::wire::{FromClient, ToClient};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Outcome, Setup, Span, Time};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};

/// A running coordinator.
pub(super) struct Process {
    pub(super) epoch: u64,
    pub(super) coordinator: Coordinator,
    pub(super) journal: Journal,
    pub(super) inbox: Vec<Input>,
    /// When the next step is scheduled.
    pub(super) next_step: Micros,
    pub(super) started: Micros,
    pub(super) start_time: Time,
    /// Work on output folders in progress.
    pub(super) work: BTreeMap<u64, (JobId, OutputWork)>,
}

/// An application whose number of rounds is an option. It reads the output of each round.
struct ModelRounds(ModelDisk);

impl Rounds for ModelRounds {
    fn next_round(&self, plan: &Plan, program: Option<ProgramId>) -> Result<Option<Plan>, AppError> {
        if program != super::clients::program(plan) {
            return Err(format!("{} has another program", plan.job).into());
        }
        if plan.output == plan.request.output {
            return Ok(None);
        }
        for entry in self.0.list(&plan.output)? {
            if entry.is_file {
                self.0.read(&plan.output.join(entry.name))?;
            }
        }
        let round = plan.round + 1;
        let is_last = u64::from(round) + 1 >= plan.request.number("rounds", 1)?;
        let output = if is_last { plan.request.output.clone() } else { round_output(plan, round) };
        Ok(Some(Plan { round, output, ..plan.clone() }))
    }
}

impl World {
    /// Kills the coordinator, changes a bit of its journal, and expects that it does not start. The bit is changed back.
    pub(super) fn flip_bit(&mut self) -> Result<(), Violation> {
        self.kill_coordinator(SECOND);
        let journal = Path::new(CLUSTER).join("journal");
        let files = self.disk.files_below(&journal);
        let (Some(log), Some(synced)) = (files.get(&journal.join("log")), files.get(&journal.join("synced"))) else {
            return Ok(());
        };
        // After a power cut, or in the middle of a write, a damaged last frame cannot be told from one that was not written completely.
        if *synced != synced_text(log.len() as u64).as_bytes() {
            return Ok(());
        }
        let bit = self.random.below(log.len() as u64 * 8);
        self.disk.set_fault(None);
        self.disk.limit(None);
        if self.disk.flip_bit(&journal.join("log"), bit) {
            self.figures.bit_flips += 1;
            match self.open() {
                Err(StartError::Journal(JournalError::Damaged { .. })) => {}
                Err(error) => return Err(Violation(format!("changed bit {bit} of the journal: {error}"))),
                Ok(_) => return Err(Violation(format!("changed bit {bit} of the journal was accepted"))),
            }
            self.disk.flip_bit(&journal.join("log"), bit);
        }
        Ok(())
    }

    pub(super) fn open(&self) -> Result<(Coordinator, Journal), StartError> {
        let settings = Settings {
            heartbeat_interval: Span(HEARTBEAT),
            heartbeat_timeout: Span::from_secs(5),
            slowstart_ppm: 50_000,
            snapshot_bytes: self.scenario.snapshot_bytes,
            journal_bytes_max: self.scenario.journal_bytes_max,
        };
        let policy =
            catalog::by_name(&self.scenario.policy).unwrap_or_else(|| unreachable!("names are of the catalogue"));
        let disk: Arc<dyn FileSystem> = Arc::new(self.disk.counted());
        let folder = Path::new(CLUSTER);
        Coordinator::open_folder(settings, Setup::new(policy), disk, folder)
    }

    pub(super) fn start_coordinator(&mut self) -> Result<(), Violation> {
        if self.process.is_some() {
            return Ok(());
        }
        match self.open() {
            Ok((mut coordinator, journal)) => {
                coordinator.on_clock_read(coordinator.now(), self.now);
                self.figures.recoveries += u64::from(self.epoch > 0);
                self.epoch += 1;
                self.clock_offset = 0;
                let process = Process {
                    epoch: self.epoch,
                    start_time: coordinator.now(),
                    coordinator,
                    journal,
                    inbox: Vec::new(),
                    next_step: Micros::MAX,
                    started: self.now,
                    work: BTreeMap::new(),
                };
                self.process = Some(process);
                self.schedule_step(self.now);
                Ok(())
            }
            Err(_) if self.disk.is_limit_reached() => self.crash_point(),
            Err(StartError::Journal(JournalError::Io { .. })) => {
                self.figures.journal_errors += 1;
                self.after(SECOND, Event::CoordinatorStarts);
                Ok(())
            }
            Err(error) => Err(Violation(format!("the coordinator cannot start: {error}"))),
        }
    }

    pub(super) fn schedule_step(&mut self, at: Micros) {
        if let Some(process) = &mut self.process
            && at < process.next_step
        {
            process.next_step = at;
            let epoch = process.epoch;
            self.at(at, Event::CoordinatorSteps { epoch, at });
        }
    }

    /// Gives the coordinator an input. Returns false if it is down.
    pub(super) fn input(&mut self, input: Input) -> bool {
        let Some(process) = &mut self.process else { return false };
        process.inbox.push(input);
        // Inputs that arrive within a short time share a batch.
        let delay = self.random.below(2_000);
        self.schedule_step(self.now + delay);
        true
    }

    pub(super) fn step(&mut self, epoch: u64, at: Micros) -> Result<(), Violation> {
        let Some(process) = self.process.as_mut().filter(|process| process.epoch == epoch && process.next_step == at)
        else {
            return Ok(());
        };
        process.next_step = Micros::MAX;
        if self.coordinator_stopped_until > self.now {
            self.schedule_step(self.coordinator_stopped_until);
            return Ok(());
        }
        let elapsed = (self.now - process.started).saturating_add_signed(self.clock_offset);
        let now = process.start_time + Span(elapsed);
        let inputs = std::mem::take(&mut process.inbox);
        let handled = process.coordinator.handle(now, inputs);
        let output = handled.map_err(|error| Violation(format!("cannot journal: {error}")))?;
        self.figures.journals += u64::from(output.begins_journal());
        let Ok(effects) = output.make_durable(&mut process.journal) else {
            if self.disk.is_limit_reached() {
                return self.crash_point();
            }
            self.figures.journal_errors += 1;
            self.coordinator_died(SECOND);
            return Ok(());
        };
        let due = process.coordinator.next_tick().since(now).0;
        for effect in effects {
            self.carry_out(effect);
        }
        self.schedule_step(self.now + due.max(1));
        self.drain_links()
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(link, message) => drop(link.sender.send(message)),
            Effect::Reply(client, answer) => drop(client.sender.send(answer)),
            Effect::Output(job, work) => {
                let number = self.next_id();
                let hang = self.outputs_hang_until.saturating_sub(self.now);
                let delay = hang + self.random.between(500, 50_000);
                if let Some(process) = &mut self.process {
                    process.work.insert(number, (job, work));
                    let epoch = process.epoch;
                    self.after(delay, Event::OutputWorkEnds { epoch, number });
                }
            }
            Effect::JobEnded(_) | Effect::RemoveProgram(_) | Effect::Stop => {}
        }
    }

    /// Puts the messages that the coordinator has sent on their way.
    pub(super) fn drain_links(&mut self) -> Result<(), Violation> {
        let links: Vec<u64> = self.links.keys().copied().collect();
        for id in links {
            loop {
                let delay = self.random.between(100, 20_000);
                let Some(link) = self.links.get_mut(&id) else { break };
                let message = match link.receiver.try_recv() {
                    Err(TryRecvError::Empty) => break,
                    message => message.ok(),
                };
                link.to_worker_at = (self.now + delay).max(link.to_worker_at + 1);
                let at = link.to_worker_at;
                match message {
                    Some(message) => self.at(at, Event::MessageArrives { link: id, bytes: encode(&message)? }),
                    None => {
                        self.at(at, Event::LinkEnds { link: id });
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn end_output_work(&mut self, epoch: u64, number: u64) -> Result<(), Violation> {
        let stopped = self.coordinator_stopped_until > self.now;
        let Some(process) = self.process.as_mut().filter(|process| process.epoch == epoch) else { return Ok(()) };
        if stopped {
            self.at(self.coordinator_stopped_until, Event::OutputWorkEnds { epoch, number });
            return Ok(());
        }
        let Some((job, work)) = process.work.remove(&number) else { return Ok(()) };
        let disk = self.disk.counted();
        let result = work.run(&disk, &ModelRounds(disk.clone()));
        if self.disk.is_limit_reached() {
            return self.crash_point();
        }
        self.input(Input::OutputDone { job, result });
        Ok(())
    }

    /// The enumerated crash: the coordinator was killed during a file operation.
    pub(super) fn crash_point(&mut self) -> Result<(), Violation> {
        self.disk.limit(None);
        self.coordinator_died(SECOND);
        if self.scenario.crash_cuts_power { self.cut_power(SECOND) } else { Ok(()) }
    }

    /// Kills the coordinator in the middle of what it is doing: a part of its work on files is done.
    pub(super) fn kill_coordinator(&mut self, down: Micros) {
        let Some(mut process) = self.process.take() else { return };
        self.figures.kills += 1;
        for (_, work) in process.work.values() {
            if self.random.chance(2) {
                continue;
            }
            let disk = self.disk.counted();
            self.disk.limit(Some(self.random.between(1, 25)));
            work.run(&disk, &ModelRounds(disk.clone()));
            self.disk.limit(None);
        }
        if self.random.chance(2) && !process.inbox.is_empty() {
            let inputs = std::mem::take(&mut process.inbox);
            let now = process.coordinator.now();
            if let Ok(output) = process.coordinator.handle(now, inputs) {
                self.disk.limit(Some(self.random.between(1, if output.begins_journal() { 12 } else { 3 })));
                let _ = output.make_durable(&mut process.journal);
                self.disk.limit(None);
            }
        }
        self.process = Some(process);
        self.coordinator_died(down);
    }

    pub(super) fn coordinator_died(&mut self, down: Micros) {
        self.process = None;
        self.coordinator_stopped_until = 0;
        let links: Vec<u64> = self.links.keys().copied().collect();
        for id in links {
            let Some(link) = self.links.get(&id) else { continue };
            // What was sent may arrive after the sender's death.
            match self.random.chance(2) {
                true => self.at(link.to_worker_at + 1, Event::LinkEnds { link: id }),
                false => self.cut_link(id),
            }
        }
        self.after(down, Event::CoordinatorStarts);
    }
}

/// What a coordinator tells about each job: its outcome and the round after it.
pub(super) type Told = BTreeMap<JobId, (Option<Outcome>, Option<JobId>)>;

/// Asks a coordinator for all jobs.
pub(super) fn statuses(mut coordinator: Coordinator, mut journal: Journal) -> Result<Told, Violation> {
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let (sender, receiver) = mpsc::channel();
        let client = ClientLink { id: 0, limited_to: None, sender };
        let request = FromClient::Jobs { after };
        let output = coordinator.handle(coordinator.now(), [Input::ClientRequest { request, client }]);
        let effects = output.and_then(|output| output.make_durable(&mut journal));
        for effect in effects.map_err(|error| Violation(error.to_string()))? {
            if let Effect::Reply(client, answer) = effect {
                let _ = client.sender.send(answer);
            }
        }
        let Ok(ToClient::Jobs { jobs, more }) = receiver.try_recv() else {
            return Err(Violation("the list of jobs is missing".into()));
        };
        after = jobs.last().map(|status| status.job);
        found.extend(jobs.iter().map(|status| (status.job, (status.outcome, status.next_round))));
        if !more {
            return Ok(found);
        }
    }
}
