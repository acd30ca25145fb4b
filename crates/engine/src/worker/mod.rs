//! A worker process: slots, a disk, and running tasks.
//!
//! The main thread keeps the connection to the coordinator (`connection.rs`) and handles its messages (`tasks.rs`). Each task has its own thread;
//! other threads serve this worker's data to other processes (`data_server.rs`) and send heartbeats. Every task end is reported until the
//! coordinator acknowledges that it is in the journal, so neither a broken connection nor a killed coordinator loses a result.
//!
//! A worker makes no scheduling decisions: it runs what the coordinator launches, in the slots that the core accounts for.

mod attempt;
mod connection;
mod data_server;
mod shipped;
mod tasks;

pub(crate) use attempt::Attempt;

use crate::apps::Apps;
use crate::attempt_logs::LogStore;
use crate::cluster_id::{self, ClusterId};
use crate::program::{self, RunnerPool};
use crate::task;
use crate::wire::{Report, Token, WireError, run_folder};
use giveway_core::{AttemptId, JobId, Kind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Environment variable with the [`Options`] of a worker as JSON. A process in which it is set is a worker.
pub const OPTIONS_ENV: &str = "GIVEWAY_WORKER";

/// File in a worker's folder that its process keeps locked.
const LOCK: &str = "lock";

/// True if a process runs this worker, whoever started it.
pub(crate) fn is_running(options: &Options) -> bool {
    // The lock is released when the file is dropped.
    fs::File::open(options.folder.join(LOCK))
        .is_ok_and(|lock| matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)))
}

/// Configuration of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// The cluster directory, with the coordinator's address and the token.
    #[serde(with = "crate::path_bytes")]
    pub cluster: PathBuf,
    /// The worker's own folder.
    #[serde(with = "crate::path_bytes")]
    pub folder: PathBuf,
    /// The worker's name, unique in the cluster and stable across restarts.
    pub name: String,
    /// Number of the rack it belongs to.
    pub rack: u32,
    /// Host name by which HDFS data counts as node-local: that of the DataNodes on the same machine.
    pub host: String,
    /// Number of map slots.
    pub map_slots: u16,
    /// Number of reduce slots.
    pub reduce_slots: u16,
    /// How long the worker tries to reach the coordinator before it stops.
    pub reconnect_timeout: Duration,
    /// Budget of the attempts' logs in bytes: the oldest are removed when it is used up.
    pub log_bytes: u64,
}

impl Options {
    /// The log file, to which the process that starts the worker redirects its standard error.
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The options as JSON, for [`OPTIONS_ENV`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("options are plain data")
    }
}

/// Why a worker stopped.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// A file or folder of the worker cannot be used.
    #[error("cannot use the worker's file or folder {}: {error}; check that it exists and is writable", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        error: io::Error,
    },
    /// There is nothing to join.
    #[error("no cluster was ever started in {}; check --join, or start one there with `giveway up --dir`", folder.display())]
    NoCluster {
        /// Where the cluster should be.
        folder: PathBuf,
    },
    /// The worker's folder has data of another cluster.
    #[error(
        "the worker's folder {} belongs to another cluster, whose data must not be touched; choose another --work-dir, or remove the folder if its cluster is gone",
        folder.display()
    )]
    ForeignFolder { folder: PathBuf },
    /// Communication with the coordinator failed in a way that a retry cannot fix.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The coordinator was unreachable for longer than the timeout.
    #[error(
        "stopping: no coordinator reachable for {} s; start the cluster again to continue, the worker's data remains in {}",
        timeout.as_secs(),
        folder.display()
    )]
    CoordinatorLost {
        /// [`Options::reconnect_timeout`].
        timeout: Duration,
        folder: PathBuf,
    },
    /// The coordinator refused the worker.
    #[error("the coordinator refused this worker: {0}")]
    Refused(String),
}

/// If [`OPTIONS_ENV`] is set, runs this process as a worker and exits; if it was started as a task runner, serves its worker and exits. Every program that
/// starts clusters, or has applications of its own, must call it first in `main`.
pub fn run_if_worker(apps: &Apps) {
    program::run_if_task_runner(apps);
    let Some(text) = std::env::var_os(OPTIONS_ENV) else { return };
    let options = text.to_str().and_then(|text| serde_json::from_str::<Options>(text).ok());
    let Some(options) = options else {
        eprintln!("giveway: invalid value of {OPTIONS_ENV}: it is set by Giveway for its worker processes; unset it");
        std::process::exit(2);
    };
    match run(&options, apps.clone()) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            tracing::error!("{error}");
            std::process::exit(1);
        }
    }
}

/// Runs a worker until the coordinator stops it.
pub fn run(options: &Options, apps: Apps) -> Result<(), WorkerError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| WorkerError::Folder { path, error }
    };
    let id_file = options.cluster.join(cluster_id::FILE);
    let no_cluster = || WorkerError::NoCluster { folder: options.cluster.clone() };
    let cluster_id = ClusterId::read(&id_file).map_err(at(&id_file))?.ok_or_else(no_cluster)?;
    run_folder::make_private(&options.folder).map_err(at(&options.folder))?;
    fs::create_dir_all(options.folder.join("jobs")).map_err(at(&options.folder))?;
    let lock_file = options.folder.join(LOCK);
    let lock = fs::File::create(&lock_file).map_err(at(&lock_file))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let (name, folder) = (&options.name, options.folder.display());
            tracing::info!(%name, %folder, "another process already runs this worker; exiting");
            return Ok(());
        }
        Err(fs::TryLockError::Error(error)) => return Err(at(&lock_file)(error)),
    }
    if !cluster_id.claim(&options.folder).map_err(at(&options.folder))? {
        return Err(WorkerError::ForeignFolder { folder: options.folder.clone() });
    }
    let token_file = options.cluster.join("token");
    let token = Token::read(&token_file).map_err(at(&token_file))?;
    let mut incarnation = [0; 8];
    getrandom::fill(&mut incarnation).map_err(|error| at(&options.folder)(io::Error::other(error.to_string())))?;
    LogStore::announce(&options.cluster, &options.folder, &options.name).map_err(at(&options.cluster))?;
    let worker = Arc::new(Worker {
        logs: LogStore::open(&options.folder, options.log_bytes),
        options: options.clone(),
        apps,
        token,
        incarnation: u64::from_le_bytes(incarnation),
        runners: RunnerPool::new(usize::from(options.map_slots) + usize::from(options.reduce_slots)),
        state: Mutex::default(),
    });
    worker.load_leftovers().map_err(at(&options.folder))?;
    let (data_address, _socket) = data_server::start(&worker, &cluster_id).map_err(at(&options.folder))?;
    connection::run(&worker, &data_address)
}

/// Shared by all threads of a worker.
#[derive(Debug)]
struct Worker {
    options: Options,
    apps: Apps,
    token: Token,
    /// Random number that identifies this process among restarts of the worker.
    incarnation: u64,
    logs: Arc<LogStore>,
    /// Idle processes of programs that were shipped with jobs.
    runners: RunnerPool,
    state: Mutex<State>,
}

/// Mutable state of a worker.
#[derive(Debug, Default)]
struct State {
    /// Incremented when all task state is discarded. Reports of tasks from earlier epochs are ignored.
    epoch: u64,
    jobs: BTreeMap<JobId, tasks::LocalJob>,
    running: BTreeMap<AttemptId, tasks::RunningTask>,
    /// Reports that the coordinator has not acknowledged, by sequence number.
    unacked: BTreeMap<u64, Report>,
    next_seq: u64,
    /// Map attempts whose output is stored here.
    outputs: BTreeSet<AttemptId>,
    /// Paused reduce attempts whose checkpoint is stored here.
    paused: BTreeSet<AttemptId>,
    outbox: connection::Outbox,
    /// `None` until the worker has joined the cluster.
    shuffle: Option<Arc<task::ShuffleClient>>,
}

impl Worker {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock panics in the middle of a change, so poisoning is ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn job_folder(&self, job: JobId) -> PathBuf {
        self.options.folder.join("jobs").join(job.0.to_string())
    }

    /// Loads map outputs and paused reduces that an earlier process of this worker left. Called once, at start.
    fn load_leftovers(&self) -> io::Result<()> {
        let mut state = self.state();
        for entry in fs::read_dir(self.options.folder.join("jobs"))? {
            let entry = entry?;
            let Some(job) = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(JobId) else {
                let _ = fs::remove_dir_all(entry.path());
                continue;
            };
            let leftovers = task::scan_leftovers(&entry.path(), job)?;
            state.outputs.extend(leftovers.outputs);
            state.paused.extend(leftovers.paused);
        }
        Ok(())
    }

    /// Reports an event to the coordinator, repeatedly until it is acknowledged. Ignored if `epoch` is not the current one.
    fn report(&self, epoch: u64, report: Report) {
        let mut state = self.state();
        if state.epoch != epoch {
            return;
        }
        match &report {
            Report::Finished { attempt, .. } | Report::EndedEarly { attempt, .. } if attempt.task.kind == Kind::Map => {
                state.running.remove(attempt);
                state.outputs.insert(*attempt);
            }
            Report::Paused { attempt, .. } => {
                state.running.remove(attempt);
                state.paused.insert(*attempt);
            }
            Report::Finished { attempt, .. }
            | Report::EndedEarly { attempt, .. }
            | Report::Failed { attempt, .. }
            | Report::Killed { attempt } => {
                state.running.remove(attempt);
            }
            Report::OutputLost { .. } => {}
        }
        let seq = state.next_seq;
        state.next_seq += 1;
        state.outbox.send_report(seq, &report);
        state.unacked.insert(seq, report);
    }
}
