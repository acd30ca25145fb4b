//! Drives the state machine with real time, a real connection and real tasks.
//!
//! One thread handles all inputs and writes all messages. Another one keeps a connection to the coordinator and reads from it. Each task has a
//! thread of its own (`tasks.rs`).

use super::WorkerError;
use super::state_machine::{Effect, Input, Worker};
use super::tasks::Tasks;
use crate::address;
use crate::wire::{self, MESSAGE_BYTES_MAX, Role, WireError};
use giveway_core::Time;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Delay between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Longest wait for an input.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// An input of the loop.
#[derive(Debug)]
pub(super) enum LoopInput {
    Input(Input),
    /// There is a new connection.
    Connected(u64, UnixStream),
    /// There can be no connection any more.
    Unreachable(WorkerError),
}

/// Runs the state machine until the coordinator requests a stop, refuses the worker, or is unreachable for longer than the timeout.
pub(super) fn run(mut worker: Worker, mut tasks: Tasks, inputs: &Receiver<LoopInput>) -> Result<(), WorkerError> {
    let started = Instant::now();
    let now = || Time(started.elapsed().as_micros() as u64);
    let mut writer: Option<(u64, BufWriter<UnixStream>)> = None;
    loop {
        let wait = worker.next_tick().map_or(WAIT_MAX, |at| Duration::from_micros(at.since(now()).0));
        let mut next = match inputs.recv_timeout(wait) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        loop {
            let input = match next {
                Some(LoopInput::Input(input)) => Some(input),
                Some(LoopInput::Connected(link, stream)) => {
                    writer = Some((link, BufWriter::new(stream)));
                    Some(Input::Connected { link })
                }
                Some(LoopInput::Unreachable(error)) => return Err(error),
                None => None,
            };
            for effect in worker.handle(now(), input) {
                match effect {
                    Effect::Send { link, message } => {
                        let current = writer.as_mut().filter(|(current, _)| *current == link);
                        if let Some((_, out)) = current
                            && wire::send(out, &message).is_err()
                        {
                            close(&mut writer);
                        }
                    }
                    Effect::Stop { refused: None } => return Ok(()),
                    Effect::Stop { refused: Some(reason) } => return Err(WorkerError::Refused(reason)),
                    Effect::Start(launch) => tasks.start(launch),
                    Effect::SetFolders(folders) => tasks.set_folders(folders),
                    Effect::RemoveFolder(node) => tasks.remove_folder(node),
                    Effect::RemoveJob { job, programs } => tasks.remove_job(job, &programs),
                    Effect::RemoveAllJobs => tasks.remove_all_jobs(),
                }
            }
            // All pending inputs share one flush.
            next = inputs.try_recv().ok();
            if next.is_none() {
                break;
            }
        }
        if writer.as_mut().is_some_and(|(_, out)| out.flush().is_err()) {
            close(&mut writer);
        }
    }
}

/// Closes a connection that cannot be written to. Its reader notices.
fn close(writer: &mut Option<(u64, BufWriter<UnixStream>)>) {
    if let Some((_, out)) = writer.take() {
        wire::shut_down(out.get_ref());
    }
}

/// Keeps a connection to the coordinator of the cluster in a folder, and passes on what it sends. Runs until the coordinator is unreachable for longer
/// than the timeout, or the process ends.
pub(super) fn keep_connected(cluster: &Path, folder: PathBuf, timeout: Duration, inputs: &Sender<LoopInput>) {
    let mut last_connected = Instant::now();
    for link in 0.. {
        match connect(cluster) {
            Ok(stream) => {
                if pass_messages(link, stream, inputs).is_none() {
                    return;
                }
                last_connected = Instant::now();
            }
            Err(WireError::Io { .. }) => {}
            Err(error) => return drop(inputs.send(LoopInput::Unreachable(error.into()))),
        }
        if last_connected.elapsed() > timeout {
            return drop(inputs.send(LoopInput::Unreachable(WorkerError::CoordinatorLost { timeout, folder })));
        }
        thread::sleep(RECONNECT_DELAY);
    }
}

fn connect(cluster: &Path) -> Result<UnixStream, WireError> {
    let failed = |error| WireError::Io { what: address::path(cluster).display().to_string(), error };
    let socket =
        address::read(cluster).and_then(|socket| socket.ok_or(io::ErrorKind::NotFound.into())).map_err(failed)?;
    wire::connect_to_own(&socket, Role::Worker)
}

/// Passes the messages of a connection on until it ends. Returns `None` if nobody receives them any more.
fn pass_messages(link: u64, stream: UnixStream, inputs: &Sender<LoopInput>) -> Option<()> {
    let Ok(writing) = stream.try_clone() else { return Some(()) };
    inputs.send(LoopInput::Connected(link, writing)).ok()?;
    let mut incoming = BufReader::new(stream);
    loop {
        match wire::receive(&mut incoming, MESSAGE_BYTES_MAX) {
            Ok(message) => inputs.send(LoopInput::Input(Input::Message { link, message })).ok()?,
            Err(error) => {
                tracing::warn!(%error, "lost the connection to the coordinator; reconnecting");
                return inputs.send(LoopInput::Input(Input::Disconnected { link })).ok();
            }
        }
    }
}
