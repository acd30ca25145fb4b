//! Runs one attempt: the same code in a worker and in a task runner.

use crate::apps::App;
use crate::job::Plan;
use crate::task::{
    Control, Fetcher, MapError, MapOutputTracker, MapTask, ReduceError, ReduceTask, run_map, run_reduce,
};
use crate::wire::Report;
use giveway_core::{AttemptId, Kind, Work};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why an attempt failed.
#[derive(Debug, Error)]
enum TaskError {
    #[error("cannot create the directory {path}: {error}; check that disk", path = .path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error("internal error: a {kind} task was launched with work of the other kind; report this as a bug")]
    WrongKind { kind: Kind },
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Reduce(#[from] ReduceError),
}

/// An attempt with everything it needs to run, in a worker or in a task runner.
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    /// The part of the task to execute.
    pub(crate) work: Work,
    pub(crate) plan: Arc<Plan>,
    pub(crate) app: Arc<dyn App>,
    /// Locations of the job's map outputs.
    pub(crate) outputs: Arc<MapOutputTracker>,
    pub(crate) fetcher: Arc<Fetcher>,
    /// The job's folder on the worker.
    pub(crate) folder: PathBuf,
}

impl Attempt {
    /// Runs it on this thread.
    pub(crate) fn run(&self, control: &Control) -> Report {
        let ran = fs::create_dir_all(&self.folder)
            .map_err(|error| TaskError::Folder { path: self.folder.clone(), error })
            .and_then(|()| match self.id.task.kind {
                Kind::Map => self.map(control),
                Kind::Reduce => self.reduce(control),
            });
        ran.unwrap_or_else(|error| Report::Failed { attempt: self.id, reason: error.to_string() })
    }

    fn map(&self, control: &Control) -> Result<Report, TaskError> {
        let attempt = self.id;
        let Work::Map { split, start_bytes, bytes, .. } = self.work else {
            return Err(TaskError::WrongKind { kind: Kind::Map });
        };
        let task = MapTask {
            plan: Arc::clone(&self.plan),
            app: Arc::clone(&self.app),
            attempt,
            split,
            start_bytes,
            bytes,
            dir: self.folder.clone(),
        };
        Ok(run_map(&task, control)?)
    }

    fn reduce(&self, control: &Control) -> Result<Report, TaskError> {
        let attempt = self.id;
        let Work::Reduce { start } = self.work else {
            return Err(TaskError::WrongKind { kind: Kind::Reduce });
        };
        let task = ReduceTask {
            plan: Arc::clone(&self.plan),
            app: Arc::clone(&self.app),
            attempt,
            start,
            dir: self.folder.clone(),
            outputs: Arc::clone(&self.outputs),
            fetcher: Arc::clone(&self.fetcher),
        };
        Ok(run_reduce(&task, control)?)
    }
}
