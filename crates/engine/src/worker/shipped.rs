//! An attempt of a job that was shipped with its program: runs in a task runner, and is controlled and reported like any other.
//!
//! The attempt's thread passes on what changes here (requests, map outputs, folders of nodes) and what comes back (ticks, progress, lost outputs,
//! prints, the end). Whatever the program does, the result is a report.

use crate::job::Plan;
use crate::program::{FromRunner, ProgramId, Received, Runner, RunnerError, RunnerPool, ToRunner};
use crate::task::{self, Control, Fetcher, MapOutputTracker, ReadCursor, Request};
use crate::task_log;
use crate::wire::{NodeFolder, Report};
use giveway_core::{AttemptId, Kind, Work};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait before folders are compared again. Everything else ends the wait.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// How long a program may take to stop on request before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// An attempt with everything that its task runner needs.
pub(super) struct ShippedAttempt {
    pub(super) id: AttemptId,
    pub(super) work: Work,
    pub(super) plan: Arc<Plan>,
    pub(super) program: ProgramId,
    pub(super) outputs: Arc<MapOutputTracker>,
    pub(super) fetcher: Arc<Fetcher>,
    /// The job's folder on this worker.
    pub(super) folder: PathBuf,
    /// The cluster directory, which has the program.
    pub(super) cluster: PathBuf,
    pub(super) runners: Arc<RunnerPool>,
}

impl ShippedAttempt {
    /// Runs it, and waits for its end.
    pub(super) fn run(&self, control: &Control) -> Report {
        match self.run_in_runner(control) {
            Ok(report) => report,
            Err(error) => {
                // The process that would have removed them was killed, or never started.
                task::remove_attempt_files(&self.plan, &self.folder, self.id);
                match control.is_stopped() {
                    true => Report::Killed { attempt: self.id },
                    false => Report::Failed { attempt: self.id, reason: error.to_string() },
                }
            }
        }
    }

    fn run_in_runner(&self, control: &Control) -> Result<Report, RunnerError> {
        let mut runner = self.runners.take(&self.cluster, self.program)?;
        runner.clear_tail();
        // What an idle runner has printed belongs to no attempt.
        while let Some(received) = runner.try_receive() {
            if let Received::Gone(_) = received {
                runner = Runner::start(&self.cluster, self.program)?;
            }
        }
        runner.notify(control);
        self.launch(&mut runner)?;
        let report = Exchange {
            attempt: self,
            runner: &mut runner,
            control,
            cursor: ReadCursor::default(),
            has_sent_outputs: false,
            sent: None,
            stop_at: None,
        }
        .run()?;
        // A program whose attempt failed may be in any state.
        if !matches!(report, Report::Failed { .. }) {
            self.runners.keep(runner);
        }
        Ok(report)
    }

    fn launch(&self, runner: &mut Runner) -> Result<(), RunnerError> {
        let job = self.id.task.job;
        if runner.sent.job != Some(job) {
            if let Some(previous) = runner.sent.job {
                runner.send(&ToRunner::CloseJob { job: previous })?;
            }
            runner.send(&ToRunner::Job { plan: Box::new((*self.plan).clone()) })?;
            runner.sent.job = Some(job);
        }
        let (attempt, work) = (self.id, self.work);
        let folder = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        runner.send(&ToRunner::Launch { attempt, work, folder })
    }
}

/// A running attempt and what was sent to its runner.
struct Exchange<'a> {
    attempt: &'a ShippedAttempt,
    runner: &'a mut Runner,
    control: &'a Control,
    /// Up to where map outputs were sent.
    cursor: ReadCursor,
    /// False until the locations of all outputs were sent. The runner may have those that an earlier attempt got.
    has_sent_outputs: bool,
    /// The last request that was sent.
    sent: Option<Request>,
    /// When the program is killed.
    stop_at: Option<Instant>,
}

impl Exchange<'_> {
    fn run(mut self) -> Result<Report, RunnerError> {
        let is_reduce = self.attempt.id.task.kind == Kind::Reduce;
        if is_reduce {
            self.attempt.outputs.subscribe(self.control);
        }
        loop {
            while let Some(received) = self.runner.try_receive() {
                match received {
                    Received::Printed(bytes) => task_log::write(&bytes),
                    Received::Message(FromRunner::Progress { ticks, progress_ppm }) => {
                        self.control.mirror(ticks, progress_ppm);
                    }
                    Received::Message(FromRunner::OutputLost { map }) if map.task.job == self.attempt.id.task.job => {
                        self.attempt.fetcher.report_bad_output(map);
                    }
                    Received::Message(FromRunner::Ended { report }) => return self.check(report),
                    Received::Message(_) => return Err(self.broken("sent a message that was not asked for")),
                    Received::Gone(error) => return Err(self.runner.gone(error)),
                }
            }
            self.pass_request()?;
            if is_reduce {
                self.pass_outputs()?;
            }
            let now = Instant::now();
            if self.stop_at.is_some_and(|at| at <= now) {
                return Err(self.broken("did not stop on request and was killed"));
            }
            let until_stop = self.stop_at.map_or(WAIT_MAX, |at| at.saturating_duration_since(now));
            self.control.wait_for_notification(until_stop.min(WAIT_MAX));
        }
    }

    fn pass_request(&mut self) -> Result<(), RunnerError> {
        let (requested, attempt) = (self.control.requested(), self.attempt.id);
        if requested <= self.sent {
            return Ok(());
        }
        self.sent = requested;
        match requested {
            None => Ok(()),
            Some(Request::Preempt) => self.runner.send(&ToRunner::Preempt { attempt }),
            Some(Request::Stop) => {
                self.stop_at = Some(Instant::now() + STOP_TIMEOUT);
                self.runner.send(&ToRunner::Stop { attempt })
            }
        }
    }

    /// Sends what has changed of the locations of map outputs and the folders of nodes.
    fn pass_outputs(&mut self) -> Result<(), RunnerError> {
        let folders = self.attempt.fetcher.folders();
        if folders != self.runner.sent.folders {
            let all = folders.iter().map(|(&node, folder)| NodeFolder { node, folder: folder.clone() }).collect();
            self.runner.send(&ToRunner::NodeFolders { folders: all })?;
            self.runner.sent.folders = folders;
        }
        let update = self.attempt.outputs.read(&mut self.cursor);
        let replace = update.is_full || !self.has_sent_outputs;
        if replace || !update.outputs.is_empty() {
            let job = self.attempt.id.task.job;
            self.runner.send(&ToRunner::MapOutputs { job, replace, outputs: update.outputs })?;
            self.has_sent_outputs = true;
        }
        Ok(())
    }

    /// The report, if it is about this attempt and possible for its kind: nothing that a program sends may confuse the coordinator.
    fn check(&mut self, report: Report) -> Result<Report, RunnerError> {
        let AttemptId { task, .. } = self.attempt.id;
        let is_possible = match &report {
            Report::Finished { attempt, .. } | Report::Failed { attempt, .. } | Report::Killed { attempt } => {
                *attempt == self.attempt.id
            }
            Report::Paused { attempt, .. } => *attempt == self.attempt.id && task.kind == Kind::Reduce,
            Report::EndedEarly { attempt, .. } => *attempt == self.attempt.id && task.kind == Kind::Map,
            Report::OutputLost { .. } => false,
        };
        if is_possible { Ok(report) } else { Err(self.broken("reported the end of another attempt")) }
    }

    fn broken(&mut self, how: &str) -> RunnerError {
        RunnerError::Ended { how: how.into(), output: Vec::new() }
    }
}
