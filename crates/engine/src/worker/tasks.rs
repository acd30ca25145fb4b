//! Handles the coordinator's messages: launches, preempts and stops tasks.

use super::Worker;
use crate::apps::App;
use crate::attempt_logs;
use crate::input::StoreAccess;
use crate::job::Plan;
use crate::store::{self, WorkerStoreAccess};
use crate::task::{
    Control, MapError, MapOutcome, MapOutputTracker, MapTask, ReduceError, ReduceOutcome, ReduceTask, Request,
    ShuffleClient, run_map, run_reduce,
};
use crate::wire::{Report, ToWorker};
use giveway_core::{AttemptId, JobId, Kind, Work};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a hung task may take to stop on request. After that its thread is abandoned and its slot is freed.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// A job with tasks on this worker.
pub(super) struct LocalJob {
    plan: Arc<Plan>,
    app: Arc<dyn App>,
    outputs: Arc<MapOutputTracker>,
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
            ToWorker::Store(order) => store::execute(&self.blocks, &self.token, order),
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
            Ok(app) => {
                let local = LocalJob { plan: Arc::new(plan), app, outputs: Arc::new(MapOutputTracker::new()) };
                self.state().jobs.entry(job).or_insert(local);
            }
            // Every launch of a task of this job will fail and report it.
            Err(error) => tracing::error!(%job, "cannot run tasks of this job: {error}"),
        }
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
        let task = Task {
            attempt,
            work,
            plan: Arc::clone(&local.plan),
            app: Arc::clone(&local.app),
            outputs: Arc::clone(&local.outputs),
            shuffle,
            stored: Arc::new(WorkerStoreAccess {
                blocks: Arc::clone(&self.blocks),
                token: self.token.clone(),
                cluster: self.options.cluster.clone(),
            }),
            folder: self.job_folder(attempt.task.job),
        };
        let control = Arc::new(Control::throttled(local.plan.request.records_per_s));
        let running = RunningTask {
            control: Arc::clone(&control),
            timeout: Duration::from_millis(local.plan.request.task_timeout_ms),
            last_tick: (0, Instant::now()),
            hung_since: None,
        };
        state.running.insert(attempt, running);
        drop(state);
        let worker = Arc::clone(self);
        let name = format!("{}-{}", attempt.task.kind, attempt.task.index);
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let log = worker.logs.begin(attempt);
            let report = task.run(&control);
            let hung = worker.state().running.get(&attempt).is_some_and(|running| running.hung_since.is_some());
            let report = if hung { task.timed_out() } else { report };
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

/// Why an attempt failed.
#[derive(Debug, Error)]
enum TaskError {
    #[error("cannot create the folder {path}: {error}; check that disk", path = .path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error("internal error: a {kind} task was launched with work of the other kind; report this as a bug")]
    WrongKind { kind: Kind },
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Reduce(#[from] ReduceError),
}

/// An attempt with everything it needs to run.
struct Task {
    attempt: AttemptId,
    work: Work,
    plan: Arc<Plan>,
    app: Arc<dyn App>,
    outputs: Arc<MapOutputTracker>,
    shuffle: Arc<ShuffleClient>,
    stored: Arc<dyn StoreAccess>,
    folder: PathBuf,
}

impl Task {
    fn timed_out(&self) -> Report {
        timed_out(self.attempt, Duration::from_millis(self.plan.request.task_timeout_ms))
    }

    fn run(&self, control: &Control) -> Report {
        let ran = fs::create_dir_all(&self.folder)
            .map_err(|error| TaskError::Folder { path: self.folder.clone(), error })
            .and_then(|()| match self.attempt.task.kind {
                Kind::Map => self.map(control),
                Kind::Reduce => self.reduce(control),
            });
        ran.unwrap_or_else(|error| Report::Failed { attempt: self.attempt, reason: error.to_string() })
    }

    fn map(&self, control: &Control) -> Result<Report, TaskError> {
        let attempt = self.attempt;
        let Work::Map { split, start_bytes, bytes, .. } = self.work else {
            return Err(TaskError::WrongKind { kind: Kind::Map });
        };
        let task = MapTask {
            plan: Arc::clone(&self.plan),
            app: Arc::clone(&self.app),
            attempt,
            split,
            start_bytes,
            bytes,
            dir: self.folder.clone(),
            stored: Arc::clone(&self.stored),
        };
        Ok(match run_map(&task, control)? {
            MapOutcome::Finished { output_bytes, counters } => Report::Finished { attempt, output_bytes, counters },
            MapOutcome::EndedEarly { done_bytes, output_bytes, counters } => {
                Report::EndedEarly { attempt, done_bytes, output_bytes, counters }
            }
            MapOutcome::Stopped => Report::Killed { attempt },
        })
    }

    fn reduce(&self, control: &Control) -> Result<Report, TaskError> {
        let attempt = self.attempt;
        let Work::Reduce { start } = self.work else {
            return Err(TaskError::WrongKind { kind: Kind::Reduce });
        };
        let task = ReduceTask {
            plan: Arc::clone(&self.plan),
            app: Arc::clone(&self.app),
            attempt,
            start,
            dir: self.folder.clone(),
            outputs: Arc::clone(&self.outputs),
            shuffle: Arc::clone(&self.shuffle),
        };
        Ok(match run_reduce(&task, control)? {
            ReduceOutcome::Finished { output_bytes, counters } => Report::Finished { attempt, output_bytes, counters },
            ReduceOutcome::Paused { progress_ppm } => Report::Paused { attempt, progress_ppm },
            ReduceOutcome::Stopped => Report::Killed { attempt },
        })
    }
}
