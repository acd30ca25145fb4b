//! A program that runs beside a task: lines in, lines out.
//!
//! The task's own thread moves all bytes. Pipes never block it: it writes what the program takes, reads what it prints, and waits only when
//! neither is possible, a moment at a time, so that a task that is given up is given up soon. Whatever the program does (read nothing,
//! print first, close its input), nobody waits for ever for the other.

use crate::input::LONGEST_LINE;
use crate::record::{Emit, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How much input is gathered before it is written, and how much is read at once.
const CHUNK: usize = 64 << 10;

/// How long a wait lasts before it looks whether the task is given up.
const MOMENT: Duration = Duration::from_millis(50);

/// How much of the error output is kept for a failure's report: the last of it.
const LAST_WORDS_BYTES: usize = 8 << 10;
const LAST_WORDS_LINES: usize = 20;

/// A command and where it runs.
#[derive(Clone)]
pub(super) struct Program {
    /// What it is for, for messages.
    pub(super) role: &'static str,
    /// A line for `sh -c`.
    pub(super) command: String,
    /// The folder it runs in; the worker's own if there is none.
    pub(super) folder: Option<PathBuf>,
}

/// What is done with a line that the program printed.
pub(super) type Take<'a> = &'a mut dyn FnMut(&[u8], &mut dyn Emit);

impl Program {
    /// Starts it, in a process group of its own, with one more variable in its environment.
    pub(super) fn start(&self, variable: Option<(&str, &str)>) -> Result<Running, Failure> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.folder.as_deref().unwrap_or(".".as_ref()));
        command.envs(variable);
        let cannot = |error: io::Error| Failure(format!("{} `{}` cannot be started: {error}", self.role, self.command));
        let mut child = command.spawn().map_err(cannot)?;
        let running = Running {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            program: self.clone(),
            child,
            is_reaped: false,
            is_last: false,
            unwritten: Vec::new(),
            written: 0,
            line: Vec::new(),
            last_words: Vec::new(),
            chunk: vec![0; CHUNK],
        };
        running.never_block().map_err(cannot)?;
        Ok(running)
    }
}

/// A program that was started. It does not outlive this value, nor does what it started itself.
pub(super) struct Running {
    program: Program,
    child: Child,
    is_reaped: bool,
    /// `None` once closed, by either side.
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// No more input comes.
    is_last: bool,
    unwritten: Vec<u8>,
    /// How much of that is written after all.
    written: usize,
    /// What it printed of a line that is not at its end.
    line: Vec<u8>,
    last_words: Vec<u8>,
    chunk: Vec<u8>,
}

impl Running {
    /// Gives the program a line, in parts.
    pub(super) fn feed(&mut self, parts: &[&[u8]], take: Take<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        for part in parts {
            self.unwritten.extend_from_slice(part);
        }
        self.unwritten.push(b'\n');
        if self.unwritten.len() < CHUNK {
            return Ok(());
        }
        self.exchange(take, out)?;
        // A program that closed its input has read enough, unless it died; then the rest of the input need not be gone through.
        if self.stdin.is_none() && self.has_exited() { self.judge(out) } else { Ok(()) }
    }

    /// Closes its input, takes what it still prints, and waits for its end.
    pub(super) fn finish(mut self, take: Take<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        self.is_last = true;
        self.exchange(take, out)?;
        if !self.line.is_empty() {
            take(&self.line, out);
        }
        self.judge(out)
    }

    /// Writes and reads until all input is written or the program wants no more; after the last input, until it has closed its output too.
    fn exchange(&mut self, take: Take<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        loop {
            if out.is_stopped() {
                return Err(self.given_up());
            }
            let wrote = self.write()?;
            let read = self.read(take, out)?;
            let heard = self.hear();
            if self.unwritten.is_empty() && (self.stdout.is_none() || !self.is_last) {
                return Ok(());
            }
            if !(wrote || read || heard) {
                self.wait_for_pipes();
            }
        }
    }

    /// Writes what the program takes; true if it took something.
    fn write(&mut self) -> Result<bool, Failure> {
        let before = self.written;
        while let Some(stdin) = &mut self.stdin
            && self.written < self.unwritten.len()
        {
            match stdin.write(&self.unwritten[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.stdin = None,
                Err(error) => return Err(self.failed(&format!("cannot be written to: {error}"))),
            }
        }
        let has_moved = self.written > before;
        if self.written == self.unwritten.len() || self.stdin.is_none() {
            self.unwritten.clear();
            self.written = 0;
            if self.is_last {
                self.stdin = None;
            }
        }
        Ok(has_moved)
    }

    /// Reads some of what the program printed; true if there was something.
    fn read(&mut self, take: Take<'_>, out: &mut dyn Emit) -> Result<bool, Failure> {
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
            Err(error) => return Err(self.failed(&format!("cannot be read from: {error}"))),
        };
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.line.is_empty() {
                take(&rest[..end], out);
            } else {
                self.line.extend_from_slice(&rest[..end]);
                take(&self.line, out);
                self.line.clear();
            }
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LONGEST_LINE {
            self.kill();
            return Err(self.failed(&format!("printed a line of more than {LONGEST_LINE} bytes; print line ends")));
        }
        Ok(true)
    }

    /// Takes in the error output and keeps the last of it; true if there was something.
    fn hear(&mut self) -> bool {
        let Some(stderr) = &mut self.stderr else { return false };
        match stderr.read(&mut self.chunk) {
            Ok(0) => self.stderr = None,
            Ok(bytes) => {
                self.last_words.extend_from_slice(&self.chunk[..bytes]);
                let too_many = self.last_words.len().saturating_sub(LAST_WORDS_BYTES);
                self.last_words.drain(..too_many);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return false;
            }
            Err(_) => self.stderr = None,
        }
        true
    }

    /// Waits until a pipe can be used, or a moment.
    fn wait_for_pipes(&self) {
        let mut pipes = Vec::with_capacity(3);
        pipes.extend(self.stdin.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        pipes.extend(self.stdout.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        pipes.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let moment = Timespec { tv_sec: 0, tv_nsec: i64::from(MOMENT.subsec_nanos()) };
        // A failed wait is a short one: what the pipes have to say, they say when used.
        let _ = poll(&mut pipes, Some(&moment));
    }

    fn never_block(&self) -> io::Result<()> {
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

    /// Waits for the program's end and says whether it was a good one.
    fn judge(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        let mut nap = Duration::from_micros(50);
        while !self.has_exited() {
            if out.is_stopped() {
                return Err(self.given_up());
            }
            if !self.hear() {
                std::thread::sleep(nap);
                nap = (nap * 2).min(MOMENT);
            }
        }
        while self.hear() {}
        // While it is not reaped, its number is still its own, and so is its group's.
        self.kill();
        let status = self.child.wait().map_err(|error| self.failed(&format!("cannot be waited for: {error}")))?;
        self.is_reaped = true;
        let hint = match status.code() {
            Some(0) => return Ok(()),
            Some(126) => " (may it be executed?)",
            Some(127) => " (is it installed, and is its path right from the folder it runs in?)",
            _ => "",
        };
        Err(self.failed(&format!("ended with {status}{hint}")))
    }

    /// True once it has ended, without reaping it.
    fn has_exited(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid()), look), Ok(None))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends the program and everything it started.
    fn kill(&self) {
        // The only refusal is that nobody is left.
        let _ = kill_process_group(self.pid(), Signal::KILL);
    }

    fn given_up(&mut self) -> Failure {
        self.kill();
        self.failed("was stopped, since its task was given up")
    }

    fn failed(&self, what: &str) -> Failure {
        let Program { role, command, .. } = &self.program;
        let words = String::from_utf8_lossy(&self.last_words);
        let lines: Vec<&str> = words.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_WORDS_LINES)..];
        if last.is_empty() {
            return Failure(format!("{role} `{command}` {what}; it wrote nothing to its error output"));
        }
        Failure(format!("{role} `{command}` {what}; the last lines of its error output:\n{}", last.join("\n")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.child.wait();
        }
    }
}
