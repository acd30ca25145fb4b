//! A worker's idle task runners. Starting a process for each attempt would cost more than a short task does.

use super::{ProgramId, Runner, RunnerError};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The idle task runners of a worker, the one that was used last at the end.
#[derive(Debug)]
pub(crate) struct RunnerPool {
    idle: Mutex<Vec<Runner>>,
    /// No more are kept: a worker cannot use more at the same time than it has slots.
    idle_max: usize,
}

impl RunnerPool {
    /// A pool for a worker with this many slots.
    pub(crate) fn new(slots: usize) -> RunnerPool {
        RunnerPool { idle: Mutex::default(), idle_max: slots }
    }

    /// Takes an idle runner of a program, or starts one.
    pub(crate) fn take(&self, cluster: &Path, program: ProgramId) -> Result<Runner, RunnerError> {
        let idle = {
            let mut idle = self.idle();
            let position = idle.iter().rposition(|runner| runner.program() == program);
            position.map(|position| idle.remove(position))
        };
        idle.map_or_else(|| Runner::start(cluster, program), Ok)
    }

    /// Keeps a runner whose attempt has ended well.
    pub(crate) fn keep(&self, runner: Runner) {
        let mut idle = self.idle();
        idle.push(runner);
        let excess = idle.len().saturating_sub(self.idle_max);
        let ended: Vec<Runner> = idle.drain(..excess).collect();
        drop(idle);
        drop(ended);
    }

    /// Ends the runners of all programs but these.
    pub(crate) fn retain(&self, is_needed: impl Fn(ProgramId) -> bool) {
        let ended: Vec<Runner> = self.idle().extract_if(.., |runner| !is_needed(runner.program())).collect();
        drop(ended);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Runner>> {
        // A list is not left in an invalid state by a panic.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
