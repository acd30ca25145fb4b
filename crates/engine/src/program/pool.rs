//! A worker's idle task runners. Starting a process for each attempt would cost more than a short task does.

use super::{ProgramId, Runner, RunnerError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The idle task runners of a worker, the one that was used last at the end.
#[derive(Debug)]
pub(crate) struct RunnerPool {
    state: Mutex<State>,
    /// No more are kept: a worker cannot use more at the same time than it has slots.
    idle_max: usize,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Runner>,
    /// Programs of jobs that have not ended.
    needed: BTreeSet<ProgramId>,
}

impl RunnerPool {
    /// A pool for a worker with this many slots.
    pub(crate) fn new(slots: usize) -> RunnerPool {
        RunnerPool { state: Mutex::default(), idle_max: slots }
    }

    /// From now on, runners of this program are kept.
    pub(crate) fn need(&self, program: ProgramId) {
        self.state().needed.insert(program);
    }

    /// Takes an idle runner of a program, or starts one.
    pub(crate) fn take(&self, cluster: &Path, program: ProgramId) -> Result<Runner, RunnerError> {
        let idle = {
            let idle = &mut self.state().idle;
            let position = idle.iter().rposition(|runner| runner.program() == program);
            position.map(|position| idle.remove(position))
        };
        idle.map_or_else(|| Runner::start(cluster, program), Ok)
    }

    /// Keeps a runner whose attempt has ended well, unless its program is not needed any more.
    pub(crate) fn keep(&self, runner: Runner) {
        let mut state = self.state();
        if !state.needed.contains(&runner.program()) {
            drop(state);
            return drop(runner);
        }
        state.idle.push(runner);
        let excess = state.idle.len().saturating_sub(self.idle_max);
        let ended: Vec<Runner> = state.idle.drain(..excess).collect();
        drop(state);
        drop(ended);
    }

    /// Ends the runners of all programs but these.
    pub(crate) fn retain(&self, needed: &BTreeSet<ProgramId>) {
        let mut state = self.state();
        state.needed.retain(|program| needed.contains(program));
        let ended: Vec<Runner> = state.idle.extract_if(.., |runner| !needed.contains(&runner.program())).collect();
        drop(state);
        drop(ended);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Neither list is left in an invalid state by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
