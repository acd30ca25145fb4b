//! The parent's side of a task runner: its process, its socket and what it prints.
//!
//! One thread reads both the socket and the output, and puts what it gets into a channel in order: what an attempt printed comes before its end. The
//! runner does not outlive this process: it ends when its socket does, and the watchdog kills its process group.

use super::protocol::{ARGUMENT, FromRunner, ToRunner, Version};
use super::{ProgramId, ProgramStore};
use crate::task::{Control, Notifier};
use crate::watchdog::{ProcessGroup, remove_own_variables};
use crate::wire::{self, MESSAGE_BYTES_MAX, WireError};
use giveway_core::{JobId, NodeId};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a program may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a runner may take to read what was sent to it. One thread of it does nothing else.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// A file that was just written cannot be executed while a process that was being started then still has it open: try again for this long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY_DELAY: Duration = Duration::from_millis(10);

/// How long a process may take to end after it has closed its socket.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Pieces of output that are read before the next message: a program that prints all the time must not hide its progress.
const PIECES_MAX: usize = 16;

/// How much of the end of the output is retained for error messages.
const TAIL_BYTES: usize = 2 << 10;

/// Messages and pieces of output that are not processed yet.
const CHANNEL_MAX: usize = 64;

/// Why a task runner cannot be used.
#[derive(Debug, Error)]
pub(crate) enum RunnerError {
    #[error("cannot start the program {program:.12}: {error}{}", start_hint(error))]
    Start { program: ProgramId, error: io::Error },
    #[error(
        "the program {program:.12} does not answer as a Giveway program ({how}): call `giveway::main_with` first in its `main`{}",
        output_text(output)
    )]
    NotAProgram { program: ProgramId, how: String, output: Vec<u8> },
    #[error(
        "the program {program:.12} was built with engine {theirs}, and this cluster runs {ours}; build it with the cluster's release"
    )]
    Version { program: ProgramId, theirs: Version, ours: Version },
    #[error("the program's process {how}{}", output_text(output))]
    Ended { how: String, output: Vec<u8> },
    #[error("cannot send to the program's process: {0}")]
    Send(WireError),
}

impl RunnerError {
    /// True if the program itself cannot be used, now or later.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            RunnerError::Start { error, .. } => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
                    || error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
            }
            RunnerError::NotAProgram { .. } | RunnerError::Version { .. } => true,
            RunnerError::Ended { .. } | RunnerError::Send(_) => false,
        }
    }
}

fn start_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "; it, or the program interpreter it names, is missing: submit the job again, with a program built for this system"
        }
        io::ErrorKind::PermissionDenied => {
            "; check that the cluster directory is not mounted `noexec`, and that `programs` in it has mode 0700"
        }
        _ => "",
    }
}

fn output_text(output: &[u8]) -> String {
    match String::from_utf8_lossy(output).trim_end() {
        "" => String::new(),
        text => format!("; the last it printed:\n{text}"),
    }
}

/// What comes from a runner.
#[derive(Debug)]
pub(crate) enum Received {
    Message(FromRunner),
    /// A piece of its standard output or error.
    Printed(Vec<u8>),
    /// Its process has ended, or broke the protocol. Nothing follows.
    Gone(Option<WireError>),
}

/// A task runner. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Runner {
    program: ProgramId,
    group: ProcessGroup,
    socket: UnixStream,
    received: Receiver<Received>,
    /// Notified of everything that is received.
    listener: Arc<Mutex<Option<Arc<Notifier>>>>,
    /// The end of what it has printed.
    tail: Vec<u8>,
    /// What it was told for its attempts.
    pub(crate) sent: Sent,
}

/// What a runner knows, so that it is not sent again.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// The job whose plan it has.
    pub(crate) job: Option<JobId>,
    /// The folders of the workers.
    pub(crate) folders: BTreeMap<NodeId, PathBuf>,
}

impl Runner {
    /// Starts a program of a cluster as a task runner, and checks that it is one of this release.
    pub(crate) fn start(cluster: &Path, program: ProgramId) -> Result<Runner, RunnerError> {
        let mut runner = Runner::spawn(&ProgramStore::path(cluster, program), program)
            .map_err(|error| RunnerError::Start { program, error })?;
        let deadline = Instant::now() + START_TIMEOUT;
        let how = loop {
            match runner.receive(deadline) {
                Some(Received::Message(FromRunner::Hello(theirs))) => {
                    let ours = Version::own();
                    if theirs == ours {
                        return Ok(runner);
                    }
                    return Err(RunnerError::Version { program, theirs, ours });
                }
                Some(Received::Printed(_)) => {}
                Some(Received::Message(_)) => break "its first message is another one".into(),
                // A later release may have another encoding.
                Some(Received::Gone(Some(error @ (WireError::Decode(_) | WireError::TooLarge { .. })))) => {
                    break error.to_string();
                }
                Some(Received::Gone(_)) => break runner.end(),
                None => break format!("it sent nothing for {} s", START_TIMEOUT.as_secs()),
            }
        };
        Err(RunnerError::NotAProgram { program, how, output: std::mem::take(&mut runner.tail) })
    }

    fn spawn(path: &Path, program: ProgramId) -> io::Result<Runner> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let (output, writer) = io::pipe()?;
        fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
        let mut command = Command::new(path);
        command.arg(ARGUMENT).process_group(0);
        command.stdin(OwnedFd::from(theirs)).stdout(writer.try_clone()?).stderr(Stdio::from(writer));
        remove_own_variables(&mut command);
        let began = Instant::now();
        let child = loop {
            match command.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && began.elapsed() < BUSY_TIMEOUT => {
                    thread::sleep(BUSY_DELAY);
                }
                spawned => break spawned?,
            }
        };
        // The command has its own copies of the runner's ends, which would keep them open.
        drop(command);
        let group = ProcessGroup::new(child)?;
        let listener = Arc::default();
        let (sender, received) = mpsc::sync_channel(CHANNEL_MAX);
        let reader = Reader { socket: socket.try_clone()?, output, sender, listener: Arc::clone(&listener) };
        thread::Builder::new().name("task-runner".into()).spawn(move || reader.run())?;
        Ok(Runner { program, group, socket, received, listener, tail: Vec::new(), sent: Sent::default() })
    }

    pub(crate) fn program(&self) -> ProgramId {
        self.program
    }

    /// Has everything that is received from now on notify a task's control.
    pub(crate) fn notify(&self, control: &Control) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(control.notifier()));
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &ToRunner) -> Result<(), RunnerError> {
        wire::send(&mut self.socket, message).map_err(RunnerError::Send)
    }

    /// What has been received and not returned yet; `None` if there is nothing.
    pub(crate) fn try_receive(&mut self) -> Option<Received> {
        let received = match self.received.try_recv() {
            Ok(received) => Some(received),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Received::Gone(None)),
        };
        self.retain_tail(received)
    }

    /// Waits for what comes next; `None` at the deadline.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Option<Received> {
        let received = match self.received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(received) => Some(received),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Received::Gone(None)),
        };
        self.retain_tail(received)
    }

    fn retain_tail(&mut self, received: Option<Received>) -> Option<Received> {
        if let Some(Received::Printed(bytes)) = &received {
            self.tail.extend_from_slice(bytes);
            self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        }
        received
    }

    /// The error of a runner that is gone.
    pub(crate) fn gone(&mut self, broken: Option<WireError>) -> RunnerError {
        let how = match broken {
            Some(error) if !error.is_disconnect() => format!("broke the protocol: {error}"),
            _ => self.end(),
        };
        RunnerError::Ended { how, output: std::mem::take(&mut self.tail) }
    }

    /// Forgets what was printed before an attempt.
    pub(crate) fn clear_tail(&mut self) {
        self.tail.clear();
    }

    /// How its process ended, in words. Kills it if it still runs.
    fn end(&mut self) -> String {
        // It may have closed its socket a moment before its end.
        let deadline = Instant::now() + END_TIMEOUT;
        let mut has_exited = self.group.has_exited();
        while !has_exited && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
            has_exited = self.group.has_exited();
        }
        match self.group.end() {
            Ok(status) if has_exited => format!("ended with {}", status.to_string().replace(": ", " ")),
            Ok(_) => "closed its connection".into(),
            Err(error) => format!("cannot be waited for: {error}"),
        }
    }
}

/// Reads from a runner until it is gone or nobody is interested any more.
struct Reader {
    socket: UnixStream,
    output: PipeReader,
    sender: SyncSender<Received>,
    listener: Arc<Mutex<Option<Arc<Notifier>>>>,
}

impl Reader {
    fn run(mut self) {
        let mut output_open = true;
        loop {
            let (message_ready, output_ready) = self.wait(output_open);
            // The output is read before the message: it was printed before.
            if output_ready || message_ready {
                match self.read_output() {
                    Ok(open) => output_open &= open,
                    Err(()) => return,
                }
            }
            if !message_ready {
                continue;
            }
            match wire::receive(&mut self.socket, MESSAGE_BYTES_MAX) {
                Ok(message) => {
                    // Printed between the check above and the message.
                    if matches!(message, FromRunner::Ended { .. }) && self.read_output().is_err() {
                        return;
                    }
                    if self.pass(Received::Message(message)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let _ = self.read_output();
                    let _ = self.pass(Received::Gone(Some(error)));
                    return;
                }
            }
        }
    }

    /// Waits until there is something to read: on the socket, in the output.
    fn wait(&self, output_open: bool) -> (bool, bool) {
        let mut sources = vec![PollFd::new(&self.socket, PollFlags::IN)];
        if output_open {
            sources.push(PollFd::new(&self.output, PollFlags::IN));
        }
        // A failed poll only ends the wait early: reading tells.
        if poll(&mut sources, None).is_err() {
            return (false, output_open);
        }
        let is_ready = |index: usize| sources.get(index).is_some_and(|source| !source.revents().is_empty());
        (is_ready(0), is_ready(1))
    }

    /// Passes on what is in the pipe. Returns whether the pipe is still open; an error if nobody is interested any more.
    fn read_output(&mut self) -> Result<bool, ()> {
        let mut chunk = vec![0; 16 << 10];
        for _ in 0..PIECES_MAX {
            match self.output.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(bytes) => self.pass(Received::Printed(chunk.get(..bytes).unwrap_or_default().to_vec()))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn pass(&self, received: Received) -> Result<(), ()> {
        self.sender.send(received).map_err(drop)?;
        if let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            listener.notify();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
