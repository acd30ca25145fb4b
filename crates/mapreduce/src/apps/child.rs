//! An external program that runs beside a task: lines in, lines out.
//!
//! The task's own thread moves all bytes. The pipes are non-blocking: the thread writes what the program accepts, reads what it prints, and polls
//! for a short interval when neither is possible, so that a stopped task ends soon. No behaviour of the program (reading nothing, printing first,
//! closing its input) causes a deadlock.
//!
//! A program and its children do not outlive the worker (`watchdog.rs`), and do not inherit Giveway's own environment variables.

use crate::input::LINE_BYTES_MAX;
use crate::record::Emit;
use crate::task_log;
use crate::watchdog::{ProcessGroup, remove_own_variables};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Input gathered before a write, and bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

/// Longest wait before the task's stop flag is checked again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How much of the end of the error output is retained for error messages.
const STDERR_TAIL_BYTES: usize = 8 << 10;
const STDERR_TAIL_LINES: usize = 20;

/// Waits for a line, which arrives once the process group is registered, and then becomes the command, its first argument.
const STARTER: &str = r#"read -r _ && exec sh -c "$1""#;

/// A command and where it runs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Its role in the job, for error messages.
    pub(super) role: &'static str,
    /// A command line for `sh -c`.
    pub(super) command: String,
    /// The directory it runs in; the worker's own if `None`.
    pub(super) dir: Option<PathBuf>,
}

/// A program's failure, with the end of its error output.
#[derive(Debug)]
pub(super) struct ProgramError {
    program: Program,
    kind: ProgramErrorKind,
    stderr_tail: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
enum ProgramErrorKind {
    #[error("cannot be started: {0}")]
    Start(io::Error),
    #[error("cannot be written to: {0}")]
    Write(io::Error),
    #[error("cannot be read from: {0}")]
    Read(io::Error),
    #[error("cannot be waited for: {0}")]
    Wait(io::Error),
    #[error("printed a line of more than {LINE_BYTES_MAX} bytes; end lines with a newline")]
    LineTooLong,
    // `exit status: 3` and `signal: 9 (SIGKILL)` without the colon.
    #[error("ended with {}{}", .0.to_string().replace(": ", " "), exit_hint(.0))]
    Exited(ExitStatus),
    #[error("was killed because its task was stopped")]
    Stopped,
}

/// The meaning of exit codes of the shell.
fn exit_hint(status: &ExitStatus) -> &'static str {
    match status.code() {
        Some(126) => " (check that it is executable)",
        Some(127) => " (check that it is installed, and that its path is right in the directory it runs in)",
        _ => "",
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` {}", self.program.role, self.program.command, self.kind)?;
        if matches!(self.kind, ProgramErrorKind::Start(_)) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.stderr_tail);
        let lines: Vec<&str> = text.lines().collect();
        match &lines[lines.len().saturating_sub(STDERR_TAIL_LINES)..] {
            [] => f.write_str(" and printed no error"),
            // The first line is the reason in short; tables and logs have no more.
            last => write!(f, "\n{}", last.join("\n")),
        }
    }
}

impl std::error::Error for ProgramError {}

/// Called with each line that the program prints.
pub(super) type LineHandler<'a> = &'a mut dyn FnMut(&[u8], &mut dyn Emit);

impl Program {
    /// Starts the program in a process group of its own, with one more environment variable.
    pub(super) fn start(&self, variable: Option<(&str, &OsStr)>) -> Result<RunningProgram, ProgramError> {
        let mut command = Command::new("sh");
        command.args(["-c", STARTER, "sh"]).arg(&self.command).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.dir.as_deref().unwrap_or(".".as_ref()));
        remove_own_variables(&mut command);
        command.envs(variable);
        let failed = |error| ProgramError {
            program: self.clone(),
            kind: ProgramErrorKind::Start(error),
            stderr_tail: Vec::new(),
        };
        let mut child = command.spawn().map_err(failed)?;
        let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = ProcessGroup::new(child).map_err(failed)?;
        if let Some(stdin) = &mut stdin {
            // Fails if the program was killed meanwhile; the end of its input and output shows that later.
            let _ = stdin.write_all(b"\n");
        }
        let running = RunningProgram {
            group,
            stdin,
            stdout,
            stderr,
            program: self.clone(),
            is_input_complete: false,
            unwritten: Vec::new(),
            written: 0,
            partial_line: Vec::new(),
            stderr_tail: Vec::new(),
            chunk: vec![0; CHUNK_BYTES],
        };
        running.set_nonblocking().map_err(failed)?;
        Ok(running)
    }
}

/// A program that was started. Dropping it kills the program's process group.
pub(super) struct RunningProgram {
    program: Program,
    group: ProcessGroup,
    /// The pipes; `None` once closed by either side.
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// No more input will be added.
    is_input_complete: bool,
    unwritten: Vec<u8>,
    /// How much of `unwritten` is written already.
    written: usize,
    /// The beginning of a line whose end was not printed yet.
    partial_line: Vec<u8>,
    stderr_tail: Vec<u8>,
    chunk: Vec<u8>,
}

impl RunningProgram {
    /// Writes a line to the program. The line is the concatenation of `parts`.
    pub(super) fn feed(
        &mut self,
        parts: &[&[u8]],
        take: LineHandler<'_>,
        out: &mut dyn Emit,
    ) -> Result<(), ProgramError> {
        for part in parts {
            self.unwritten.extend_from_slice(part);
        }
        self.unwritten.push(b'\n');
        if self.unwritten.len() < CHUNK_BYTES {
            return Ok(());
        }
        self.exchange(take, out)?;
        // A program may close its input when it has read enough. If it has ended, too, its status is checked now instead of after all input.
        if self.stdin.is_none() && self.group.has_exited() { self.wait(out) } else { Ok(()) }
    }

    /// Closes the program's input, processes the rest of its output, and waits for its end. Fails unless it exits with status 0.
    pub(super) fn finish(mut self, take: LineHandler<'_>, out: &mut dyn Emit) -> Result<(), ProgramError> {
        self.is_input_complete = true;
        self.exchange(take, out)?;
        if !self.partial_line.is_empty() {
            take(&self.partial_line, out);
        }
        self.wait(out)
    }

    /// Writes and reads until all input is written or the program has closed its input; once the input is complete, also until the
    /// program has closed its output.
    fn exchange(&mut self, take: LineHandler<'_>, out: &mut dyn Emit) -> Result<(), ProgramError> {
        loop {
            if out.is_stopped() {
                return Err(self.stop());
            }
            let has_written = self.write()?;
            let has_read = self.read(take, out)?;
            let has_read_stderr = self.read_stderr();
            if self.unwritten.is_empty() && (self.stdout.is_none() || !self.is_input_complete) {
                return Ok(());
            }
            if !(has_written || has_read || has_read_stderr) {
                self.poll_pipes();
            }
        }
    }

    /// Writes as much input as the pipe accepts. Returns true if that was something.
    fn write(&mut self) -> Result<bool, ProgramError> {
        let before = self.written;
        while let Some(stdin) = &mut self.stdin
            && self.written < self.unwritten.len()
        {
            match stdin.write(&self.unwritten[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.stdin = None,
                Err(error) => return Err(self.error(ProgramErrorKind::Write(error))),
            }
        }
        let has_written = self.written > before;
        if self.written == self.unwritten.len() || self.stdin.is_none() {
            self.unwritten.clear();
            self.written = 0;
            if self.is_input_complete {
                self.stdin = None;
            }
        }
        Ok(has_written)
    }

    /// Reads one chunk of the program's output. Returns true if there was something, or the end.
    fn read(&mut self, take: LineHandler<'_>, out: &mut dyn Emit) -> Result<bool, ProgramError> {
        let Some(stdout) = &mut self.stdout else { return Ok(false) };
        let mut rest = match stdout.read(&mut self.chunk) {
            Ok(0) => {
                self.stdout = None;
                return Ok(true);
            }
            Ok(bytes) => &self.chunk[..bytes],
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(self.error(ProgramErrorKind::Read(error))),
        };
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.partial_line.is_empty() {
                take(&rest[..end], out);
            } else {
                self.partial_line.extend_from_slice(&rest[..end]);
                take(&self.partial_line, out);
                self.partial_line.clear();
            }
            rest = &rest[end + 1..];
        }
        self.partial_line.extend_from_slice(rest);
        if self.partial_line.len() > LINE_BYTES_MAX {
            self.group.kill();
            return Err(self.error(ProgramErrorKind::LineTooLong));
        }
        Ok(true)
    }

    /// Reads one chunk of the program's error output into the attempt's log, and retains the end of it. Returns true if there was something, or the end.
    fn read_stderr(&mut self) -> bool {
        let Some(stderr) = &mut self.stderr else { return false };
        match stderr.read(&mut self.chunk) {
            Ok(0) => self.stderr = None,
            Ok(bytes) => {
                task_log::write(&self.chunk[..bytes]);
                self.stderr_tail.extend_from_slice(&self.chunk[..bytes]);
                let excess = self.stderr_tail.len().saturating_sub(STDERR_TAIL_BYTES);
                self.stderr_tail.drain(..excess);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return false;
            }
            Err(_) => self.stderr = None,
        }
        true
    }

    /// Waits until a pipe is ready, at most [`POLL_INTERVAL`].
    fn poll_pipes(&self) {
        let mut pipes = Vec::with_capacity(3);
        pipes.extend(self.stdin.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        pipes.extend(self.stdout.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        pipes.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let interval = Timespec { tv_sec: 0, tv_nsec: i64::from(POLL_INTERVAL.subsec_nanos()) };
        // A failed poll only ends the wait early: errors of a pipe show up when it is used.
        let _ = poll(&mut pipes, Some(&interval));
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        let pipes = [
            self.stdin.as_ref().map(AsFd::as_fd),
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        for pipe in pipes.into_iter().flatten() {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }

    /// Waits for the program's end. Fails unless it exits with status 0.
    fn wait(&mut self, out: &mut dyn Emit) -> Result<(), ProgramError> {
        let mut delay = Duration::from_micros(50);
        while !self.group.has_exited() {
            if out.is_stopped() {
                return Err(self.stop());
            }
            if !self.read_stderr() {
                std::thread::sleep(delay);
                delay = (delay * 2).min(POLL_INTERVAL);
            }
        }
        while self.read_stderr() {}
        // Children of the program may still run.
        let status = self.group.end().map_err(|error| self.error(ProgramErrorKind::Wait(error)))?;
        if status.success() { Ok(()) } else { Err(self.error(ProgramErrorKind::Exited(status))) }
    }

    /// Kills the program because its task was stopped.
    fn stop(&mut self) -> ProgramError {
        self.group.kill();
        while self.read_stderr() {}
        self.error(ProgramErrorKind::Stopped)
    }

    fn error(&self, kind: ProgramErrorKind) -> ProgramError {
        ProgramError { program: self.program.clone(), kind, stderr_tail: self.stderr_tail.clone() }
    }
}
