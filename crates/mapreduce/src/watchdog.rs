//! Kills the programs of this process when it ends, however it ends.
//!
//! A process that is killed with SIGKILL cannot clean up, and a parent-death signal would reach a program but not its children. So the first
//! program starts a *watchdog*: a shell that reads from a pipe which process groups exist, and kills them at the end of the pipe. The pipe has no
//! other writer, so it ends with this process. The watchdog has a process group of its own: Ctrl-C in a terminal does not reach it.
//!
//! A program waits until it is registered: it starts with a shell that executes it once a line has arrived on its standard input (`apps/child.rs`). If
//! this process is killed before that line, the shell reads the end of the input and exits.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Adds (`+`) and removes (`-`) process groups, and kills those that are left at the end of the input.
const SCRIPT: &str = r#"groups=' '
while read -r change group; do
    case $change in
        +) groups="$groups$group " ;;
        -) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done"#;

/// Environment variables with this prefix are Giveway's own. A program that inherited them could be taken for a worker.
const OWN_VARIABLES: &str = "GIVEWAY_";

/// Has a command not inherit Giveway's own variables.
pub fn remove_own_variables(command: &mut Command) {
    let is_own = |name: &OsString| name.as_encoded_bytes().starts_with(OWN_VARIABLES.as_bytes());
    std::env::vars_os().map(|(name, _)| name).filter(is_own).for_each(|name| {
        command.env_remove(name);
    });
}

static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog { input: None, groups: BTreeSet::new() });

struct Watchdog {
    /// `None` until the first registration, and after a failure.
    input: Option<ChildStdin>,
    groups: BTreeSet<i32>,
}

/// A child with a process group of its own, whose processes do not outlive this one. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    is_reaped: bool,
    _registration: Registration,
}

impl ProcessGroup {
    /// Registers a child that was started as the first process of a group. It is killed if that fails.
    pub fn new(mut child: Child) -> io::Result<ProcessGroup> {
        match register(Pid::from_child(&child)) {
            Ok(registration) => Ok(ProcessGroup { child, is_reaped: false, _registration: registration }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// True once the child has ended. Does not reap it: until then its process id and group id cannot be reused.
    pub fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    /// Kills all processes of the group.
    pub fn kill(&self) {
        if !self.is_reaped {
            // Fails only if no process is left in the group.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }

    /// Kills what is left of the group, and reaps the child.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        self.is_reaped = true;
        self.child.wait()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A registered process group. Unregisters it when dropped: the owner must have killed it before.
#[derive(Debug)]
struct Registration(i32);

/// How much likelier the system kills a program than this process if memory runs out, in thousandths of all memory. Its children inherit that.
const OOM_SCORE: &str = "300";

/// Registers a process group. Once this returns, its processes do not outlive this process, and are killed before it if memory runs out.
fn register(group: Pid) -> io::Result<Registration> {
    let group = group.as_raw_pid();
    // Not every system has it.
    let _ = std::fs::write(format!("/proc/{group}/oom_score_adj"), OOM_SCORE);
    let mut watchdog = watchdog();
    watchdog.groups.insert(group);
    if watchdog.send('+', group).is_err() {
        // There is none yet, or it was killed: start one, and register all groups with it.
        watchdog.start().inspect_err(|_| {
            watchdog.groups.remove(&group);
        })?;
    }
    Ok(Registration(group))
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut watchdog = watchdog();
        watchdog.groups.remove(&self.0);
        // If the watchdog was killed, the next registration starts another one without this group.
        let _ = watchdog.send('-', self.0);
    }
}

fn watchdog() -> MutexGuard<'static, Watchdog> {
    WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchdog {
    fn send(&mut self, change: char, group: i32) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let sent = input.write_all(format!("{change} {group}\n").as_bytes());
        if sent.is_err() {
            self.input = None;
        }
        sent
    }

    fn start(&mut self) -> io::Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "giveway-watchdog"]).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.input = command.spawn()?.stdin;
        for group in self.groups.clone() {
            self.send('+', group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_killed_first_if_memory_runs_out() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let path = format!("/proc/{}/oom_score_adj", child.id());
        let registered = register(Pid::from_child(&child)).unwrap();
        let score = std::fs::read_to_string(path).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        drop(registered);
        assert_eq!(score.trim(), OOM_SCORE);
    }
}
