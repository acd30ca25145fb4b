//! Runs the tasks that the state machine starts, each on a thread of its own, and removes the files of jobs that have ended.

use super::Options;
use super::attempt::Attempt;
use super::run::LoopInput;
use super::shipped::ShippedAttempt;
use super::state_machine::{Input, Launch};
use crate::apps::Apps;
use crate::attempt_logs::LogStore;
use crate::program::{ProgramId, RunnerPool};
use crate::task::{self, Control, Fetcher};
use crate::task_log;
use crate::wire::{NodeFolder, Report};
use giveway_core::{AttemptId, JobId, NodeId};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

/// What the tasks of a worker need.
pub(super) struct Tasks {
    cluster: PathBuf,
    /// The worker's folder.
    folder: PathBuf,
    apps: Apps,
    logs: Arc<LogStore>,
    /// Idle processes of programs that were shipped with jobs.
    runners: Arc<RunnerPool>,
    fetcher: Arc<Fetcher>,
    inputs: Sender<LoopInput>,
}

/// Runs an attempt, here or in a task runner.
type Runnable = Box<dyn FnOnce(&Control) -> Report + Send>;
impl Tasks {
    /// `inputs` gets the ends of tasks.
    pub(super) fn new(options: &Options, apps: Apps, inputs: Sender<LoopInput>) -> Tasks {
        let slots = usize::from(options.map_slots) + usize::from(options.reduce_slots);
        let reports = inputs.clone();
        Tasks {
            cluster: options.cluster.clone(),
            folder: options.folder.clone(),
            apps,
            logs: LogStore::open(&options.folder, options.log_bytes),
            runners: Arc::new(RunnerPool::new(slots)),
            fetcher: Arc::new(Fetcher::new(move |map| {
                let _ = reports.send(LoopInput::Input(Input::OutputLost { map }));
            })),
            inputs,
        }
    }

    /// Starts a task. Its end is sent, also if it cannot be started.
    pub(super) fn start(&mut self, launch: Launch) {
        let Launch { number, attempt, .. } = launch;
        let started = self.runnable(&launch).and_then(|task| self.spawn(launch, task));
        if let Err(reason) = started {
            let report = Report::Failed { attempt, reason };
            let _ = self.inputs.send(LoopInput::Input(Input::TaskEnded { launch: number, report }));
        }
    }

    fn runnable(&self, launch: &Launch) -> Result<Runnable, String> {
        let (id, work, plan) = (launch.attempt, launch.work, Arc::clone(&launch.plan));
        let (outputs, fetcher) = (Arc::clone(&launch.outputs), Arc::clone(&self.fetcher));
        let folder = task::job_folder(&self.folder, id.task.job);
        if let Some(program) = launch.program {
            self.runners.need(program);
            let (cluster, runners) = (self.cluster.clone(), Arc::clone(&self.runners));
            let task = ShippedAttempt { id, work, plan, program, outputs, fetcher, folder, cluster, runners };
            return Ok(Box::new(move |control| task.run(control)));
        }
        let app = self.apps.find(&plan.request.app).map_err(|error| {
            format!("this worker does not have the job's application: {error}; start all workers from the same program")
        })?;
        let task = Attempt { id, work, plan, app, outputs, fetcher, folder };
        Ok(Box::new(move |control| task.run(control)))
    }

    fn spawn(&self, launch: Launch, task: Runnable) -> Result<(), String> {
        let AttemptId { task: id, .. } = launch.attempt;
        let (logs, inputs) = (Arc::clone(&self.logs), self.inputs.clone());
        let run = move || {
            let mut end = TaskEnd { launch: launch.number, attempt: launch.attempt, report: None, inputs };
            let log = logs.begin(launch.attempt);
            let report = task(&launch.control);
            match &report {
                _ if launch.control.is_timed_out() => {
                    task_log::print("giveway: the attempt was stopped because it made no progress");
                }
                // Only its first line: the rest is what the program has printed, which is in this log.
                Report::Failed { reason, .. } => {
                    let reason = reason.lines().next().unwrap_or_default();
                    task_log::print(format!("giveway: the attempt failed: {reason}"));
                }
                _ => {}
            }
            pause_if_disk_is_full(&report, &launch.control);
            // Complete before the end is reported: who waits for the job finds all of it.
            drop(log);
            end.report = Some(report);
        };
        let spawned = thread::Builder::new().name(format!("{}-{}", id.kind, id.index)).spawn(run);
        spawned.map(drop).map_err(|error| {
            format!("cannot start a thread for the task: {error}; check the process limits of the worker")
        })
    }

    pub(super) fn set_folders(&self, folders: Vec<NodeFolder>) {
        for NodeFolder { node, folder } in folders {
            self.fetcher.set_folder(node, Some(folder));
        }
    }

    pub(super) fn remove_folder(&self, node: NodeId) {
        self.fetcher.set_folder(node, None);
    }

    /// Removes the files of a job, and ends the idle task runners of all programs but these.
    pub(super) fn remove_job(&self, job: JobId, programs: &BTreeSet<ProgramId>) {
        self.runners.retain(programs);
        remove_in_background(&task::job_folder(&self.folder, job));
    }

    /// Removes the files of all jobs.
    pub(super) fn remove_all_jobs(&self) {
        self.runners.retain(&BTreeSet::new());
        let folder = self.folder.join(task::JOBS);
        remove_in_background(&folder);
        if let Err(error) = fs::create_dir_all(&folder) {
            tracing::error!(folder = %folder.display(), %error, "cannot create the directory for job data");
        }
    }
}

/// How long an attempt that found a full disk keeps its slot before it counts as failed. Without the pause, a job would use up its attempts within seconds.
const DISK_FULL_PAUSE: Duration = Duration::from_secs(30);

/// Gives somebody the time to free space. Ends when the slot is wanted.
fn pause_if_disk_is_full(report: &Report, control: &Control) {
    if let Report::Failed { attempt, reason } = report
        && is_disk_full(reason)
    {
        let seconds = DISK_FULL_PAUSE.as_secs();
        tracing::warn!("disk full: {attempt} will be tried again in {seconds} s: {reason}");
        task_log::print(format!("giveway: the disk is full; the task will be tried again in {seconds} s"));
        control.wait_for_request(DISK_FULL_PAUSE);
    }
}

/// Whether a failure's text has the system's error of a full disk or an exceeded quota. It may come from a task runner or a user's program.
pub(crate) fn is_disk_full(reason: &str) -> bool {
    let codes = [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT].map(rustix::io::Errno::raw_os_error);
    codes.iter().any(|code| reason.contains(&format!("(os error {code})")))
}

/// Sends the end of a task when it is dropped, also if its thread panics.
struct TaskEnd {
    launch: u64,
    attempt: AttemptId,
    report: Option<Report>,
    inputs: Sender<LoopInput>,
}

impl Drop for TaskEnd {
    fn drop(&mut self) {
        let panicked = || Report::Failed {
            attempt: self.attempt,
            reason: "internal error: the thread of the task panicked; report this as a bug".into(),
        };
        let report = self.report.take().unwrap_or_else(panicked);
        let _ = self.inputs.send(LoopInput::Input(Input::TaskEnded { launch: self.launch, report }));
    }
}

/// Removes a folder. It is renamed first, so that a new folder can be created under its name at once.
fn remove_in_background(folder: &Path) {
    let renamed = folder.with_extension(format!("gone-{}", std::process::id()));
    if fs::rename(folder, &renamed).is_ok() {
        let _ = thread::Builder::new().name("remover".into()).spawn(move || fs::remove_dir_all(renamed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Request;
    use giveway_core::Kind;

    #[test]
    fn a_full_disk_is_recognized_and_the_pause_ends_with_a_request() {
        let full = std::io::Error::from(rustix::io::Errno::NOSPC);
        let reason = format!("cannot write /out/part-r-00000: {full}; free space on that disk");
        assert!(is_disk_full(&reason) && !is_disk_full("cannot write /out: Input/output error (os error 5)"));
        let attempt = AttemptId::new(JobId(1), Kind::Map, 0, 0);
        let control = Control::new();
        control.request(Request::Preempt);
        pause_if_disk_is_full(&Report::Failed { attempt, reason }, &control);
    }
}
