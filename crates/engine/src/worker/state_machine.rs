//! The worker as a state machine: inputs in, effects out.
//!
//! No clock, file, socket or thread is used here: time is an argument, and what is to be sent, started or removed is returned. `run.rs` drives it with a
//! real connection and real tasks, the simulation with modelled ones. A running task shares two things with the worker: its [`Control`], through which
//! it gets requests and shows its progress, and the [`MapOutputTracker`] of its job.
//!
//! Every end of a task is reported until the coordinator acknowledges that it is in the journal, so neither a broken connection nor a killed
//! coordinator loses a result.

use crate::job::Plan;
use crate::planted::{Bug, planted};
use crate::program::ProgramId;
use crate::task::{Control, Leftovers, MapOutputTracker, Request};
use crate::wire::{FromWorker, Join, NodeFolder, Report, ToWorker, WorkerIdentity};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Progress, Span, Time, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a hung task may take to stop on request. After that it is abandoned and its slot is freed.
const STOP_GRACE_PERIOD: Span = Span::from_secs(5);

/// An input of the state machine.
#[derive(Debug)]
pub(crate) enum Input {
    /// There is a connection to the coordinator. It ends the previous one.
    Connected { link: u64 },
    /// The coordinator sent a message.
    Message { link: u64, message: ToWorker },
    /// A connection has ended.
    Disconnected { link: u64 },
    /// A launched task has ended.
    TaskEnded { launch: u64, report: Report },
    /// A running reduce found a map output lost or corrupt.
    OutputLost { map: AttemptId },
}

/// Something to do.
#[derive(Debug)]
pub(crate) enum Effect {
    Send {
        link: u64,
        message: FromWorker,
    },
    /// Run a task; answered by [`Input::TaskEnded`].
    Start(Launch),
    /// Reduces find the map outputs of these nodes there.
    SetFolders(Vec<NodeFolder>),
    /// The map outputs of this node are gone.
    RemoveFolder(NodeId),
    /// A job has ended: remove its files, and end the idle task runners of all programs but these.
    RemoveJob {
        job: JobId,
        programs: BTreeSet<ProgramId>,
    },
    /// The coordinator has given this worker up: remove the files of all jobs and end all idle task runners.
    RemoveAllJobs,
    /// The process is to end. The text is the coordinator's reason, if it has refused the worker.
    Stop {
        refused: Option<String>,
    },
}

/// A task to run.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Unique among the launches of a worker process.
    pub(crate) number: u64,
    pub(crate) attempt: AttemptId,
    /// The part of the task to execute.
    pub(crate) work: Work,
    pub(crate) plan: Arc<Plan>,
    /// The program that the job was shipped with; `None` if its application is one of the worker's.
    pub(crate) program: Option<ProgramId>,
    /// Locations of the job's map outputs.
    pub(crate) outputs: Arc<MapOutputTracker>,
    pub(crate) control: Arc<Control>,
}

/// A job with tasks on this worker.
#[derive(Debug)]
struct LocalJob {
    plan: Arc<Plan>,
    program: Option<ProgramId>,
    outputs: Arc<MapOutputTracker>,
}

#[derive(Debug)]
struct RunningTask {
    launch: u64,
    control: Arc<Control>,
    timeout: Span,
    /// Value of the task's liveness counter when it last changed, and the time of that change.
    last_tick: (u64, Time),
    /// When the task was requested to stop because it exceeded its timeout.
    hung_since: Option<Time>,
}

/// The connection to the coordinator.
#[derive(Debug)]
enum Connection {
    None,
    /// The join was sent.
    Joining {
        link: u64,
    },
    Joined {
        link: u64,
        heartbeat_interval: Span,
        next_heartbeat: Time,
    },
}

/// The state of a worker.
#[derive(Debug)]
pub(crate) struct Worker {
    identity: WorkerIdentity,
    connection: Connection,
    jobs: BTreeMap<JobId, LocalJob>,
    running: BTreeMap<AttemptId, RunningTask>,
    /// Reports that the coordinator has not acknowledged, by sequence number.
    unacked: BTreeMap<u64, Report>,
    next_seq: u64,
    next_launch: u64,
    /// Map attempts whose output is stored here.
    outputs: BTreeSet<AttemptId>,
    /// Paused reduce attempts whose checkpoint is stored here.
    paused: BTreeSet<AttemptId>,
    effects: Vec<Effect>,
}

impl Worker {
    /// A worker that has just started, and found this in its folder.
    pub(crate) fn new(identity: WorkerIdentity, leftovers: Leftovers) -> Worker {
        Worker {
            identity,
            connection: Connection::None,
            jobs: BTreeMap::new(),
            running: BTreeMap::new(),
            unacked: BTreeMap::new(),
            next_seq: 0,
            next_launch: 0,
            outputs: leftovers.outputs.into_iter().collect(),
            paused: leftovers.paused.into_iter().collect(),
            effects: Vec::new(),
        }
    }

    /// Handles an input, and does what is due at this time.
    pub(crate) fn handle(&mut self, now: Time, input: Option<Input>) -> Vec<Effect> {
        match input {
            Some(Input::Connected { link }) => {
                self.connection = Connection::Joining { link };
                let join = Box::new(self.join_message());
                self.effects.push(Effect::Send { link, message: FromWorker::Join(join) });
            }
            Some(Input::Message { link, message }) if self.is_current(link) => self.on_message(now, link, message),
            Some(Input::Disconnected { link }) if self.is_current(link) => self.connection = Connection::None,
            // Of an earlier connection.
            Some(Input::Message { .. } | Input::Disconnected { .. }) => {}
            Some(Input::TaskEnded { launch, report }) => self.on_task_ended(launch, report),
            Some(Input::OutputLost { map }) => self.report(Report::OutputLost { map }),
            None => {}
        }
        self.send_heartbeat(now);
        std::mem::take(&mut self.effects)
    }

    /// When the next call of [`handle`](Worker::handle) is due if there are no inputs; `None` if it need not be called.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        match self.connection {
            Connection::Joined { next_heartbeat, .. } => Some(next_heartbeat),
            Connection::None | Connection::Joining { .. } => None,
        }
    }

    /// The attempts that hold a slot.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn running(&self) -> impl Iterator<Item = AttemptId> {
        self.running.keys().copied()
    }

    fn is_current(&self, of: u64) -> bool {
        match self.connection {
            Connection::None => false,
            Connection::Joining { link } | Connection::Joined { link, .. } => link == of,
        }
    }

    /// The worker's identity and current state.
    fn join_message(&self) -> Join {
        let ended = self.unacked.values().filter_map(Report::ended_attempt);
        let stored = self.outputs.iter().chain(&self.paused).map(|attempt| attempt.task.job);
        let jobs: BTreeSet<JobId> = self.jobs.keys().copied().chain(stored).collect();
        Join {
            worker: self.identity.clone(),
            running: self.running.keys().copied().chain(ended).collect(),
            outputs: self.outputs.iter().copied().collect(),
            jobs: jobs.into_iter().collect(),
        }
    }

    fn on_message(&mut self, now: Time, link: u64, message: ToWorker) {
        match message {
            ToWorker::JoinAccepted { keep_state, heartbeat_interval_ms, .. } => {
                if !keep_state && !planted(Bug::StateOfLostWorkerKept) {
                    self.discard_all();
                }
                let heartbeat_interval = Span::from_millis(heartbeat_interval_ms.into());
                let next_heartbeat = now + heartbeat_interval;
                self.connection = Connection::Joined { link, heartbeat_interval, next_heartbeat };
                for (&seq, report) in self.unacked.iter().filter(|_| !planted(Bug::ReportsNotSentAgain)) {
                    let message = FromWorker::Report { seq, report: report.clone() };
                    self.effects.push(Effect::Send { link, message });
                }
            }
            ToWorker::JoinRefused { reason } => self.effects.push(Effect::Stop { refused: Some(reason) }),
            ToWorker::Plan { plan, program } => self.add_job(*plan, program),
            ToWorker::Launch { attempt, work } => self.launch(now, attempt, work),
            ToWorker::Yield { attempt } => self.request(attempt, Request::Preempt),
            ToWorker::Kill { attempt } => self.request(attempt, Request::Stop),
            ToWorker::MapOutputs { job, replace, outputs } => {
                if let Some(local) = self.jobs.get(&job) {
                    local.outputs.receive(replace, outputs);
                }
            }
            ToWorker::OutputLost { map } => {
                self.outputs.remove(&map);
                if let Some(local) = self.jobs.get(&map.task.job) {
                    local.outputs.remove(map.task.index, map.number);
                }
            }
            ToWorker::NodeFolders { folders } => self.effects.push(Effect::SetFolders(folders)),
            ToWorker::NodeLost { node } => {
                self.jobs.values().for_each(|local| local.outputs.remove_node(node));
                self.effects.push(Effect::RemoveFolder(node));
            }
            ToWorker::CloseJob { job } => self.close_job(job),
            ToWorker::Ack { seq } => drop(self.unacked.remove(&seq)),
            ToWorker::Stop => self.effects.push(Effect::Stop { refused: None }),
        }
    }

    fn add_job(&mut self, plan: Plan, program: Option<ProgramId>) {
        let job = plan.job;
        let local = LocalJob { plan: Arc::new(plan), program, outputs: Arc::new(MapOutputTracker::new()) };
        self.jobs.entry(job).or_insert(local);
    }

    fn launch(&mut self, now: Time, attempt: AttemptId, work: Work) {
        if self.running.contains_key(&attempt) {
            return;
        }
        let Some(local) = self.jobs.get(&attempt.task.job) else {
            let reason = "internal error: the coordinator sent no plan for the attempt; report this as a bug".into();
            return self.report(Report::Failed { attempt, reason });
        };
        let request = &local.plan.request;
        let control = Arc::new(Control::throttled(request.records_per_s));
        let launch = Launch {
            number: self.next_launch,
            attempt,
            work,
            plan: Arc::clone(&local.plan),
            program: local.program,
            outputs: Arc::clone(&local.outputs),
            control: Arc::clone(&control),
        };
        let running = RunningTask {
            launch: launch.number,
            control,
            timeout: Span::from_millis(request.task_timeout_ms),
            last_tick: (0, now),
            hung_since: None,
        };
        self.next_launch += 1;
        self.running.insert(attempt, running);
        self.effects.push(Effect::Start(launch));
    }

    /// Sends a request to a task. If the attempt is unknown and its end is not already being reported, it is reported as killed.
    fn request(&mut self, attempt: AttemptId, request: Request) {
        if let Some(running) = self.running.get(&attempt) {
            return running.control.request(request);
        }
        if !self.unacked.values().any(|report| report.ended_attempt() == Some(attempt)) {
            self.report(Report::Killed { attempt });
        }
    }

    /// Records the end of a task, unless the task was abandoned meanwhile.
    fn on_task_ended(&mut self, launch: u64, report: Report) {
        let Some(attempt) = report.ended_attempt() else { return };
        let Some(running) = self.running.get(&attempt).filter(|running| running.launch == launch) else { return };
        let report = if running.hung_since.is_some() { timed_out(attempt, running.timeout) } else { report };
        self.running.remove(&attempt);
        match &report {
            Report::Finished { .. } | Report::EndedEarly { .. } if attempt.task.kind == Kind::Map => {
                self.outputs.insert(attempt);
            }
            Report::Paused { .. } => drop(self.paused.insert(attempt)),
            _ => {}
        }
        self.report(report);
    }

    /// Reports something to the coordinator: now if there is a connection, and after each new one until it is acknowledged.
    fn report(&mut self, report: Report) {
        let seq = self.next_seq;
        self.next_seq += 1;
        if let Connection::Joined { link, .. } = self.connection {
            self.effects.push(Effect::Send { link, message: FromWorker::Report { seq, report: report.clone() } });
        }
        self.unacked.insert(seq, report);
    }

    /// Stops the tasks of a job that has ended and removes its data.
    fn close_job(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.outputs.retain(|attempt| attempt.task.job != job);
        self.paused.retain(|attempt| attempt.task.job != job);
        let of_job = self.running.iter().filter(|(attempt, _)| attempt.task.job == job);
        of_job.for_each(|(_, running)| running.control.request(Request::Stop));
        let programs = self.jobs.values().filter_map(|local| local.program).collect();
        self.effects.push(Effect::RemoveJob { job, programs });
    }

    /// Stops all tasks and discards all their state: the coordinator had declared this worker lost.
    fn discard_all(&mut self) {
        self.running.values().for_each(|running| running.control.request(Request::Stop));
        self.running.clear();
        self.unacked.clear();
        self.jobs.clear();
        self.outputs.clear();
        self.paused.clear();
        self.effects.push(Effect::RemoveAllJobs);
    }

    fn send_heartbeat(&mut self, now: Time) {
        let Connection::Joined { link, heartbeat_interval, next_heartbeat } = &mut self.connection else { return };
        if now < *next_heartbeat {
            return;
        }
        *next_heartbeat = now + *heartbeat_interval;
        let link = *link;
        if !planted(Bug::HungTaskKept) {
            self.stop_hung_tasks(now);
        }
        let progress_of = |(&attempt, task): (&AttemptId, &RunningTask)| Progress {
            attempt,
            progress_ppm: task.control.progress_ppm(),
        };
        let progress = self.running.iter().map(progress_of).collect();
        self.effects.push(Effect::Send { link, message: FromWorker::Heartbeat { progress } });
    }

    /// Requests tasks that have not ticked within their timeout to stop, and frees the slots of those that do not stop in time.
    fn stop_hung_tasks(&mut self, now: Time) {
        let mut abandoned = Vec::new();
        for (&attempt, running) in &mut self.running {
            let ticks = running.control.ticks();
            match running.hung_since {
                None if ticks != running.last_tick.0 => running.last_tick = (ticks, now),
                None if now.since(running.last_tick.1) > running.timeout => {
                    running.control.time_out();
                    running.hung_since = Some(now);
                }
                Some(since) if now.since(since) > STOP_GRACE_PERIOD => abandoned.push((attempt, running.timeout)),
                _ => {}
            }
        }
        for (attempt, timeout) in abandoned {
            tracing::warn!(%attempt, "the task hangs and does not stop; abandoned it and freed its slot");
            self.running.remove(&attempt);
            self.report(timed_out(attempt, timeout));
        }
    }
}

fn timed_out(attempt: AttemptId, timeout: Span) -> Report {
    let seconds = timeout.as_secs_f64();
    let reason = format!("the task timed out: it made no progress for {seconds} s; raise --task-timeout if it is slow");
    Report::Failed { attempt, reason }
}
