//! The scheduler of the simulation: processes, connections and time.

use super::clients::Client;
use super::coordinator_process::{Process, statuses};
use super::disk::{DiskFault, ModelDisk};
use super::event_logs;
use super::figures::Figures;
use super::oracle::{FOREIGN_CONTENT, OUTPUTS, Oracle, Violation, output_path};
use super::random::Random;
use super::scenario::{Fault, Micros, SECOND, Scenario};
use super::worker_process::WorkerProcess;
use crate::coordinator::file_system::FileSystem;
use crate::coordinator::inputs::Input;
use crate::wire::ToWorker;
use giveway_core::Outcome;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};

/// The cluster directory.
pub(super) const CLUSTER: &str = "/cluster";

/// Virtual time after the last fault in which all jobs must end.
const PATIENCE: Micros = 1800 * SECOND;

/// Interval between heartbeats.
pub(super) const HEARTBEAT: Micros = SECOND / 2;

/// Something that happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    ClientActs {
        client: usize,
    },
    ClientKills {
        client: usize,
    },
    PolicyChanges {
        policy: String,
    },
    Fault(Fault),
    DiskRecovers,
    CoordinatorStarts,
    /// The coordinator handles what has arrived, or its timers.
    CoordinatorSteps {
        epoch: u64,
        at: Micros,
    },
    InputArrives {
        epoch: u64,
        input: Input,
    },
    OutputWorkEnds {
        epoch: u64,
        number: u64,
    },
    WorkerStarts {
        worker: usize,
        power_cut: bool,
    },
    WorkerConnects {
        worker: usize,
        incarnation: u64,
    },
    DuplicateEnds {
        worker: usize,
    },
    /// A message of the coordinator arrives at a worker.
    MessageArrives {
        link: u64,
        bytes: Vec<u8>,
    },
    /// A message of a worker arrives at the coordinator.
    BytesArrive {
        epoch: u64,
        link: u64,
        bytes: Vec<u8>,
    },
    LinkEnds {
        link: u64,
    },
    /// A worker does what is due, such as a heartbeat.
    WorkerTicks {
        worker: usize,
        incarnation: u64,
        at: Micros,
    },
    TaskContinues {
        worker: usize,
        incarnation: u64,
        launch: u64,
    },
}

struct Scheduled {
    at: Micros,
    number: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A connection between a worker and the coordinator. Messages in each direction arrive in order.
pub(super) struct Link {
    pub(super) worker: usize,
    /// Given to the coordinator when the join arrives.
    pub(super) sender: Option<Sender<ToWorker>>,
    pub(super) receiver: Receiver<ToWorker>,
    pub(super) to_worker_at: Micros,
    pub(super) to_coordinator_at: Micros,
}

pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) random: Random,
    pub(super) clients: Vec<Client>,
    pub(super) oracle: Oracle,
    pub(super) now: Micros,
    queue: BinaryHeap<Reverse<Scheduled>>,
    pub(super) scheduled: u64,
    pub(super) next_id: u64,
    pub(super) disk: ModelDisk,
    pub(super) process: Option<Process>,
    pub(super) epoch: u64,
    pub(super) coordinator_stopped_until: Micros,
    pub(super) outputs_hang_until: Micros,
    pub(super) clock_offset: i64,
    pub(super) workers: Vec<WorkerProcess>,
    pub(super) links: BTreeMap<u64, Link>,
    pub(super) figures: Figures,
}

impl World {
    pub(super) fn new(scenario: Scenario) -> World {
        let mut random = Random::new(scenario.seed, 3);
        // Only what a crash leaves of unsynced files is random here, and that may differ from operation to operation.
        let disk = ModelDisk::new(Random::new(scenario.seed ^ scenario.crash_at.unwrap_or(0) << 32, 4));
        for folder in [CLUSTER, OUTPUTS] {
            let folder = Path::new(folder);
            let _ = disk.create_folders(folder).and_then(|()| disk.sync(Path::new("/")));
        }
        disk.limit(scenario.crash_at);
        let worker =
            |(number, &slots): (usize, &(u16, u16))| WorkerProcess::new(number, format!("worker-{number}"), slots);
        let workers = scenario.workers.iter().enumerate().map(worker).collect();
        let clients = scenario.jobs.iter().map(|_| Client::new()).collect();
        random.next();
        World {
            scenario,
            random,
            clients,
            oracle: Oracle::default(),
            now: 0,
            queue: BinaryHeap::new(),
            scheduled: 0,
            next_id: 1,
            disk,
            process: None,
            epoch: 0,
            coordinator_stopped_until: 0,
            outputs_hang_until: 0,
            clock_offset: 0,
            workers,
            links: BTreeMap::new(),
            figures: Figures::default(),
        }
    }

    /// Runs until all clients are done.
    pub(super) fn run(mut self) -> Result<Figures, Violation> {
        let mut end = PATIENCE;
        for (client, job) in self.scenario.jobs.clone().into_iter().enumerate() {
            self.at(job.at, Event::ClientActs { client });
            if let Some(after) = job.kill_after {
                self.at(job.at + after, Event::ClientKills { client });
            }
            end = end.max(job.at + PATIENCE);
        }
        for (at, policy) in self.scenario.reloads.clone() {
            self.at(at, Event::PolicyChanges { policy });
        }
        for (at, fault) in self.scenario.faults.clone() {
            self.at(at, Event::Fault(fault));
            end = end.max(at + PATIENCE);
        }
        self.at(0, Event::CoordinatorStarts);
        for worker in 0..self.workers.len() {
            self.at(self.random.clone().below(SECOND), Event::WorkerStarts { worker, power_cut: false });
        }
        while let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop() {
            self.now = at;
            self.figures.events += 1;
            self.happens(event)?;
            if self.clients.iter().all(Client::is_done) && self.process.is_some() {
                return self.finish();
            }
            if at > end {
                let waiting: Vec<usize> = (0..self.clients.len()).filter(|&at| !self.clients[at].is_done()).collect();
                let reasons = self.process.as_ref().map(|process| process.coordinator.explain_unfinished());
                return Err(Violation(format!(
                    "the jobs {waiting:?} have not ended after {} s: {}",
                    PATIENCE / SECOND,
                    reasons.unwrap_or_default().join("; ")
                )));
            }
        }
        Err(Violation("nothing happens any more".into()))
    }

    /// Waits for work that is still in progress, checks what is left, and that a restarted coordinator tells the same.
    fn finish(mut self) -> Result<Figures, Violation> {
        self.disk.set_fault(None);
        self.outputs_hang_until = 0;
        let end = self.now + 300 * SECOND;
        while let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop()
            && at < end
        {
            self.now = at;
            if !matches!(event, Event::Fault(_)) {
                self.happens(event)?;
            }
        }
        self.oracle.check_end(&self.scenario, &self.disk)?;
        self.figures.file_operations = self.disk.operations();
        self.disk.limit(None);
        (self.figures.replayed_records, self.figures.snapshots) = event_logs::replay_all(&self.disk)?;
        let (coordinator, journal) =
            self.open().map_err(|error| Violation(format!("the journal cannot be opened again: {error}")))?;
        let told = self.oracle.told().clone();
        let found = statuses(coordinator, journal)?;
        for (job, (outcome, next_round)) in told {
            if found.get(&job) != Some(&(Some(outcome), next_round)) {
                return Err(Violation(format!(
                    "{job} had ended with {outcome:?}, after a restart {:?}",
                    found.get(&job)
                )));
            }
        }
        self.figures.torn_writes = self.disk.torn_writes();
        self.figures.succeeded = self.oracle.count(Outcome::Succeeded);
        self.figures.killed = self.oracle.count(Outcome::Killed);
        self.figures.failed = self.oracle.count(Outcome::Failed);
        self.figures.virtual_s = self.now / SECOND;
        Ok(self.figures)
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn at(&mut self, at: Micros, event: Event) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled { at: at.max(self.now), number: self.scheduled, event }));
    }

    pub(super) fn after(&mut self, delay: Micros, event: Event) {
        self.at(self.now + delay, event);
    }

    fn happens(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::ClientActs { client } => self.client_acts(client),
            Event::ClientKills { client } => self.client_kills(client),
            Event::PolicyChanges { policy } => self.change_policy(policy),
            Event::Fault(fault) => self.fault(fault)?,
            Event::DiskRecovers => self.disk.set_fault(None),
            Event::CoordinatorStarts => self.start_coordinator()?,
            Event::CoordinatorSteps { epoch, at } => self.step(epoch, at)?,
            Event::InputArrives { epoch, input } => {
                if self.epoch == epoch {
                    self.input(input);
                }
            }
            Event::OutputWorkEnds { epoch, number } => self.end_output_work(epoch, number)?,
            Event::WorkerStarts { worker, power_cut } => self.start_worker(worker, power_cut),
            Event::WorkerConnects { worker, incarnation } => self.connect(worker, incarnation)?,
            Event::MessageArrives { link, bytes } => self.message_arrives(link, bytes)?,
            Event::BytesArrive { epoch, link, bytes } => self.bytes_arrive(epoch, link, &bytes)?,
            Event::DuplicateEnds { worker } => self.kill_worker(worker, 0, false),
            Event::LinkEnds { link } => self.cut_link(link),
            Event::WorkerTicks { worker, incarnation, at } => self.worker_ticks(worker, incarnation, at)?,
            Event::TaskContinues { worker, incarnation, launch } => {
                self.task_continues(worker, incarnation, launch)?;
            }
        }
        self.clients_receive()
    }

    fn fault(&mut self, fault: Fault) -> Result<(), Violation> {
        match fault {
            Fault::KillCoordinator { down } => self.kill_coordinator(down),
            Fault::KillWorker { worker, down } => self.kill_worker(worker, down, false),
            Fault::CutPower { down } => self.cut_power(down)?,
            Fault::StopCoordinator { length } => self.coordinator_stopped_until = self.now + length,
            Fault::StopWorker { worker, length } => self.workers[worker].stopped_until = self.now + length,
            Fault::CutLink { worker } => {
                if let Some(link) = self.workers[worker].link {
                    self.figures.links_cut += 1;
                    self.cut_link(link);
                }
            }
            Fault::FillDisk { length } => self.break_disk(DiskFault::Full, length),
            Fault::BreakDisk { length } => self.break_disk(DiskFault::Errors, length),
            Fault::HangOutputs { length } => self.outputs_hang_until = self.now + length,
            Fault::MoveClock { forward, by } => self.clock_offset += if forward { by as i64 } else { -(by as i64) },
            Fault::FlipBit => self.flip_bit()?,
            Fault::ReplaceOutput { job } => self.replace_output(job)?,
            Fault::FailTask { worker } => self.workers[worker].fail_next = true,
            Fault::LoseOutputs { worker } => self.workers[worker].files.lose_outputs(&mut self.random),
            Fault::LoseWorker => self.kill_worker(0, 2 * PATIENCE, false),
            Fault::HangTask { worker } => self.workers[worker].hang_next = true,
            Fault::StartDuplicate { worker, length } => self.start_duplicate(worker, length),
        }
        Ok(())
    }

    /// Starts a second worker of the same name, in a folder of its own, for a while.
    fn start_duplicate(&mut self, worker: usize, length: Micros) {
        let WorkerProcess { name, map_slots, reduce_slots, .. } = &self.workers[worker];
        let number = self.workers.len();
        let mut duplicate = WorkerProcess::new(number, name.clone(), (*map_slots, *reduce_slots));
        duplicate.ends = Some(self.now + length);
        // Half of them can join, because the first one is suspended and disconnected.
        if self.random.chance(2) {
            self.workers[worker].stopped_until = self.now + length / 2;
            if let Some(link) = self.workers[worker].link {
                self.cut_link(link);
            }
        }
        self.workers.push(duplicate);
        self.after(0, Event::WorkerStarts { worker: number, power_cut: false });
        self.after(length, Event::DuplicateEnds { worker: number });
    }

    fn break_disk(&mut self, fault: DiskFault, length: Micros) {
        self.disk.set_fault(Some(fault));
        self.after(length, Event::DiskRecovers);
    }

    /// A user removes what is in the place of an output and puts his own folder there.
    fn replace_output(&mut self, job: usize) -> Result<(), Violation> {
        let folder = output_path(job);
        self.disk.set_fault(None);
        let replace = || {
            self.disk.remove_folder(&folder)?;
            self.disk.create_folder(&folder)?;
            self.disk.write(&folder.join("letter"), FOREIGN_CONTENT)?;
            self.disk.sync(&folder.join("letter"))?;
            self.disk.sync(&folder)?;
            self.disk.sync(Path::new(OUTPUTS))
        };
        replace().map_err(|error: std::io::Error| Violation(format!("the model of the disk is wrong: {error}")))?;
        self.oracle.replaced(folder);
        Ok(())
    }

    pub(super) fn cut_power(&mut self, down: Micros) -> Result<(), Violation> {
        self.figures.power_cuts += 1;
        if self.process.is_some() {
            self.kill_coordinator(down);
            self.figures.kills -= 1;
        }
        for worker in 0..self.workers.len() {
            self.kill_worker(worker, down, true);
        }
        self.links.clear();
        self.disk.cut_power();
        self.oracle.check_disk(&self.scenario, &self.disk)
    }
}
