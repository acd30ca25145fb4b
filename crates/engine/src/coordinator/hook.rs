//! The user's command that runs when a job has ended. It gets the job in environment variables. Nothing waits for it.

use crate::wire::JobStatus;
use giveway_core::Outcome;
use std::process::{Command, Stdio};
use std::thread;
use tracing::warn;

/// Starts the command on a thread that waits for it, and logs if it fails.
pub(super) fn start(command: &str, status: JobStatus) {
    let (command, job) = (command.to_owned(), status.job);
    let spawned = thread::Builder::new().name(format!("hook-{}", job.0)).spawn(move || match run(&command, &status) {
        Ok(ended) if ended.success() => {}
        Ok(ended) => warn!("{job}: the command for ended jobs `{command}` ended with {ended}"),
        Err(error) => warn!("{job}: the command for ended jobs `{command}` cannot be started: {error}"),
    });
    if let Err(error) = spawned {
        warn!("{job}: no thread for the command for ended jobs: {error}");
    }
}

fn run(command: &str, status: &JobStatus) -> std::io::Result<std::process::ExitStatus> {
    let outcome = match status.outcome {
        Some(Outcome::Succeeded) => "succeeded",
        Some(Outcome::Killed) => "killed",
        Some(Outcome::Failed) | None => "failed",
    };
    let seconds = status.ended_us.unwrap_or(status.submitted_us).saturating_sub(status.submitted_us) as f64 / 1e6;
    Command::new("sh")
        .args(["-c", command])
        .env("JOB_ID", status.job.0.to_string())
        .env("JOB_NAME", &status.name)
        .env("JOB_APP", &status.app)
        .env("JOB_USER", &status.user)
        .env("JOB_OUTCOME", outcome)
        .env("JOB_SECONDS", format!("{seconds:.3}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
}
