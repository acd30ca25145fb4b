//! Handles the coordinator's messages: launches, preempts and stops tasks.

use super::Worker;
use super::attempt::Attempt;
use super::shipped::ShippedAttempt;
use crate::apps::App;
use crate::attempt_logs;
use crate::job::Plan;
use crate::program::ProgramId;
use crate::task::{Control, MapOutputTracker, Request, ShuffleClient};
use crate::wire::{Report, ToWorker};
use giveway_core::{AttemptId, JobId, Work};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a hung task may take to stop on request. After that its thread is abandoned and its slot is freed.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// A job with tasks on this worker.
pub(super) struct LocalJob {
    plan: Arc<Plan>,
    code: Code,
    outputs: Arc<MapOutputTracker>,
}

impl LocalJob {
    /// The program that it was shipped with.
    pub(super) fn program(&self) -> Option<ProgramId> {
        match self.code {
            Code::BuiltIn(_) => None,
            Code::Shipped(program) => Some(program),
        }
    }
}

/// Where the code of a job's application is.
enum Code {
    BuiltIn(Arc<dyn App>),
    /// In a program that was shipped with the job.
    Shipped(ProgramId),
}

/// An attempt that is about to run.
enum Runnable {
    Here(Attempt),
    InTaskRunner(ShippedAttempt),
}

impl std::fmt::Debug for LocalJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalJob").field("job", &self.plan.job).finish_non_exhaustive()
    }
}

/// A running task.
#[derive(Debug)]
pub(super) struct RunningTask {
    pub(super) control: Arc<Control>,
    timeout: Duration,
    /// Value of the task's liveness counter when it last changed, and the time of that change.
    last_tick: (u64, Instant),
    /// When the task was requested to stop because it exceeded its timeout.
    hung_since: Option<Instant>,
}

impl Worker {
    pub(super) fn handle_message(self: &Arc<Worker>, message: ToWorker) {
        match message {
            ToWorker::Plan(plan) => self.add_job(*plan),
            ToWorker::ShippedPlan { plan, program } => self.add_local_job(*plan, Code::Shipped(program)),
            ToWorker::Launch { attempt, work } => self.launch(attempt, work),
            ToWorker::Yield { attempt } => self.request(attempt, Request::Preempt),
            ToWorker::Kill { attempt } => self.request(attempt, Request::Stop),
            ToWorker::MapOutputs { job, replace, outputs } => {
                if let Some(local) = self.state().jobs.get(&job) {
                    if replace {
                        local.outputs.replace_all(outputs);
                    } else {
                        local.outputs.add_all(&outputs);
                    }
                }
            }
            ToWorker::OutputLost { map } => {
                let mut state = self.state();
                state.outputs.remove(&map);
                if let Some(local) = state.jobs.get(&map.task.job) {
                    local.outputs.remove(map.task.index, map.number);
                }
            }
            ToWorker::Nodes { nodes } => {
                let state = self.state();
                for (node, address) in nodes {
                    if address.is_none() {
                        state.jobs.values().for_each(|local| local.outputs.remove_node(node));
                    }
                    if let Some(shuffle) = &state.shuffle {
                        shuffle.set_address(node, address);
                    }
                }
            }
            ToWorker::CloseJob { job } => self.close_job(job),
            ToWorker::Ack { seq } => {
                self.state().unacked.remove(&seq);
            }
            // `Welcome` and `Refused` are handled when connecting; `Stop` ends the connection before it gets here.
            ToWorker::JoinAccepted { .. } | ToWorker::JoinRefused { .. } | ToWorker::Stop => {}
        }
    }

    fn add_job(&self, plan: Plan) {
        let job = plan.job;
        match self.apps.find(&plan.request.app) {
            Ok(app) => self.add_local_job(plan, Code::BuiltIn(app)),
            // Every launch of a task of this job will fail and report it.
            Err(error) => tracing::error!(%job, "cannot run tasks of this job: {error}"),
        }
    }

    fn add_local_job(&self, plan: Plan, code: Code) {
        let job = plan.job;
        let local = LocalJob { plan: Arc::new(plan), code, outputs: Arc::new(MapOutputTracker::new()) };
        self.state().jobs.entry(job).or_insert(local);
    }

    fn launch(self: &Arc<Worker>, attempt: AttemptId, work: Work) {
        let mut state = self.state();
        if state.running.contains_key(&attempt) {
            return;
        }
        let epoch = state.epoch;
        let (Some(local), Some(shuffle)) = (state.jobs.get(&attempt.task.job), state.shuffle.clone()) else {
            drop(state);
            let reason =
                "this worker does not have the job's application; start all workers from the same program".into();
            return self.report(epoch, Report::Failed { attempt, reason });
        };
        let task = self.runnable(local, attempt, work, shuffle);
        let timeout = Duration::from_millis(local.plan.request.task_timeout_ms);
        let control = Arc::new(Control::throttled(local.plan.request.records_per_s));
        let running =
            RunningTask { control: Arc::clone(&control), timeout, last_tick: (0, Instant::now()), hung_since: None };
        state.running.insert(attempt, running);
        drop(state);
        let worker = Arc::clone(self);
        let name = format!("{}-{}", attempt.task.kind, attempt.task.index);
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let log = worker.logs.begin(attempt);
            let report = match &task {
                Runnable::Here(task) => task.run(&control),
                Runnable::InTaskRunner(task) => task.run(&worker, epoch, &control),
            };
            let hung = worker.state().running.get(&attempt).is_some_and(|running| running.hung_since.is_some());
            let report = if hung { timed_out(attempt, timeout) } else { report };
            if let Report::Failed { reason, .. } = &report {
                attempt_logs::print(format!("giveway: the attempt failed: {reason}"));
            }
            // Complete before the end is reported: who waits for the job finds all of it.
            drop(log);
            worker.report(epoch, report);
        });
        if let Err(error) = spawned {
            let reason = format!("cannot start a thread for the task: {error}; check the process limits of the worker");
            self.report(epoch, Report::Failed { attempt, reason });
        }
    }

    fn runnable(&self, local: &LocalJob, id: AttemptId, work: Work, shuffle: Arc<ShuffleClient>) -> Runnable {
        let (plan, outputs) = (Arc::clone(&local.plan), Arc::clone(&local.outputs));
        let folder = self.job_folder(id.task.job);
        match &local.code {
            Code::Shipped(program) => {
                Runnable::InTaskRunner(ShippedAttempt { id, work, plan, program: *program, outputs, shuffle, folder })
            }
            Code::BuiltIn(app) => {
                Runnable::Here(Attempt { id, work, plan, app: Arc::clone(app), outputs, shuffle, folder })
            }
        }
    }

    /// Ends the idle task runners of programs that no job here needs.
    pub(super) fn end_unneeded_runners(&self) {
        let needed: Vec<ProgramId> = self.state().jobs.values().filter_map(LocalJob::program).collect();
        self.runners.retain(|program| needed.contains(&program));
    }

    /// Sends a request to a task. If the attempt is unknown and its end is not already being reported, it is reported as killed.
    fn request(&self, attempt: AttemptId, request: Request) {
        let state = self.state();
        if let Some(running) = state.running.get(&attempt) {
            running.control.request(request);
            return;
        }
        let epoch = state.epoch;
        let is_reported = state.unacked.values().any(|report| is_end_of(report, attempt));
        drop(state);
        if !is_reported {
            self.report(epoch, Report::Killed { attempt });
        }
    }

    /// Stops the tasks of a job that has ended and removes its data.
    fn close_job(&self, job: JobId) {
        let mut state = self.state();
        state.jobs.remove(&job);
        state.outputs.retain(|attempt| attempt.task.job != job);
        state.paused.retain(|attempt| attempt.task.job != job);
        let of_job = state.running.iter().filter(|(attempt, _)| attempt.task.job == job);
        of_job.for_each(|(_, running)| running.control.request(Request::Stop));
        drop(state);
        self.end_unneeded_runners();
        remove_in_background(&self.job_folder(job));
    }

    /// Stops all tasks and discards all task state. Called after joining if the coordinator had declared this worker lost.
    pub(super) fn discard_all(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.running.values().for_each(|running| running.control.request(Request::Stop));
        state.running.clear();
        state.unacked.clear();
        state.jobs.clear();
        state.outputs.clear();
        state.paused.clear();
        drop(state);
        self.end_unneeded_runners();
        let folder = self.options.folder.join("jobs");
        remove_in_background(&folder);
        if let Err(error) = fs::create_dir_all(&folder) {
            tracing::error!(folder = %folder.display(), %error, "cannot create the folder for job data");
        }
    }

    /// Requests tasks that have not ticked within their timeout to stop, and frees the slots of those that do not stop in time.
    pub(super) fn stop_hung_tasks(&self) {
        let mut state = self.state();
        let epoch = state.epoch;
        let mut abandoned = Vec::new();
        for (&attempt, running) in &mut state.running {
            let ticks = running.control.ticks();
            match running.hung_since {
                None if ticks != running.last_tick.0 => running.last_tick = (ticks, Instant::now()),
                None if running.last_tick.1.elapsed() > running.timeout => {
                    running.control.request(Request::Stop);
                    running.hung_since = Some(Instant::now());
                }
                Some(since) if since.elapsed() > STOP_GRACE_PERIOD => abandoned.push((attempt, running.timeout)),
                _ => {}
            }
        }
        drop(state);
        for (attempt, timeout) in abandoned {
            tracing::warn!(%attempt, "the task hangs and does not stop; abandoned its thread and freed its slot");
            self.report(epoch, timed_out(attempt, timeout));
        }
    }
}

/// True if this report is about the end of the attempt `ended`.
fn is_end_of(report: &Report, ended: AttemptId) -> bool {
    match report {
        Report::Finished { attempt, .. }
        | Report::Failed { attempt, .. }
        | Report::Killed { attempt }
        | Report::Paused { attempt, .. }
        | Report::EndedEarly { attempt, .. } => *attempt == ended,
        Report::OutputLost { .. } => false,
    }
}

fn timed_out(attempt: AttemptId, timeout: Duration) -> Report {
    let seconds = timeout.as_secs_f64();
    let reason = format!("the task timed out: it made no progress for {seconds} s; raise --task-timeout if it is slow");
    Report::Failed { attempt, reason }
}

/// Removes a folder. It is renamed first, so that a new folder can be created under its name at once.
fn remove_in_background(folder: &Path) {
    let renamed = folder.with_extension(format!("gone-{}", std::process::id()));
    if fs::rename(folder, &renamed).is_ok() {
        let _ = thread::Builder::new().name("remover".into()).spawn(move || fs::remove_dir_all(renamed));
    }
}
