//! The user's command that runs when a job has ended. It gets the job in environment variables. Jobs do not wait for it.

use crate::wire::JobStatus;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::warn;

/// Commands that run at the same time; those of further jobs wait, in the order in which the jobs ended.
const PARALLEL: usize = 8;

/// A command that takes longer is ended, so that it does not keep the others waiting.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// How long a coordinator that stops waits for commands.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How often a command is asked whether it has ended.
const POLL: Duration = Duration::from_millis(50);

/// Runs a command for each job that has ended.
#[derive(Debug)]
pub(super) struct Hook {
    ended: Sender<JobStatus>,
    threads: Vec<JoinHandle<()>>,
}

impl Hook {
    /// Starts the threads that run the command.
    pub(super) fn start(command: &str) -> io::Result<Hook> {
        let (ended, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let thread = |number: usize| {
            let (command, queue) = (command.to_owned(), Arc::clone(&queue));
            thread::Builder::new().name(format!("hook-{number}")).spawn(move || run_all(&command, &queue))
        };
        Ok(Hook { ended, threads: (0..PARALLEL).map(thread).collect::<io::Result<_>>()? })
    }

    /// Runs the command for a job as soon as fewer than [`PARALLEL`] run.
    pub(super) fn job_ended(&self, status: JobStatus) {
        // The threads end after the sender only.
        let _ = self.ended.send(status);
    }

    /// Waits until the command has run for all jobs, but not for long. Commands that run longer go on by themselves.
    pub(super) fn finish(self) {
        drop(self.ended);
        let deadline = Instant::now() + STOP_LIMIT;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() > deadline {
                warn!("commands for ended jobs still run; those of further jobs are not started");
                return;
            }
            thread::sleep(POLL);
        }
    }
}

/// Runs the command for one job after the other, and logs if it fails.
fn run_all(command: &str, queue: &Mutex<Receiver<JobStatus>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(status) = next else { return };
        let job = status.job;
        match start(command, &status).and_then(|child| wait(child, TIME_LIMIT)) {
            Ok(Some(ended)) if ended.success() => {}
            Ok(Some(ended)) => warn!("{job}: the command for ended jobs `{command}` ended with {ended}"),
            Ok(None) => warn!("{job}: the command for ended jobs `{command}` was ended after {TIME_LIMIT:?}"),
            Err(error) => warn!("{job}: the command for ended jobs `{command}` cannot be run: {error}"),
        }
    }
}

fn start(command: &str, status: &JobStatus) -> io::Result<Child> {
    let seconds = status.total_s().unwrap_or(0.0);
    Command::new("sh")
        .args(["-c", command])
        .env("JOB_ID", status.job.0.to_string())
        .env("JOB_NAME", &status.name)
        .env("JOB_APP", &status.app)
        .env("JOB_USER", &status.user)
        .env("JOB_OUTCOME", status.state())
        .env("JOB_SECONDS", format!("{seconds:.3}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

/// Waits until a command ends; kills it and returns none if it takes longer than the limit.
fn wait(mut child: Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(ended) = child.try_wait()? {
            return Ok(Some(ended));
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended() {
        let child = |command: &str| Command::new("sh").args(["-c", command]).spawn().unwrap();
        assert!(wait(child("exec sleep 600"), Duration::from_millis(100)).unwrap().is_none());
        assert_eq!(wait(child("exit 3"), Duration::from_secs(60)).unwrap().unwrap().code(), Some(3));
    }
}
