//! A worker process: slots, a folder, and running tasks.
//!
//! What it does with the coordinator's messages and the ends of tasks is decided by a state machine (`state_machine.rs`), which `run.rs` drives with a
//! connection, a clock and threads. `tasks.rs` starts tasks; `attempt.rs` runs one here, `shipped.rs` in a program that was shipped with its job.
//!
//! A worker makes no scheduling decisions: it runs what the coordinator launches, in the slots that the core accounts for.

mod attempt;
mod run;
mod shipped;
pub(crate) mod state_machine;
mod tasks;

pub(crate) use attempt::Attempt;

use crate::apps::Apps;
use crate::attempt_logs::LogStore;
use crate::cluster_id::{self, ClusterId};
use crate::program;
use crate::task::{self, Leftovers};
use crate::wire::{WireError, WorkerIdentity, run_folder};
use giveway_core::JobId;
use serde::{Deserialize, Serialize};
use state_machine::Worker;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tasks::Tasks;
pub(crate) use tasks::is_disk_full;
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
    pub map_slots: u16,
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
    #[error("cannot use the worker's file or directory {}: {error}; check that it exists and is writable", path.display())]
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
        "the worker's directory {} belongs to another cluster, whose data must not be touched; choose another --work-dir, or remove the directory if its cluster is gone",
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
    fs::create_dir_all(options.folder.join(task::JOBS)).map_err(at(&options.folder))?;
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
    let mut incarnation = [0; 8];
    getrandom::fill(&mut incarnation).map_err(|error| at(&options.folder)(io::Error::other(error.to_string())))?;
    LogStore::announce(&options.cluster, &options.folder, &options.name).map_err(at(&options.cluster))?;
    let identity = WorkerIdentity {
        name: options.name.clone(),
        incarnation: u64::from_le_bytes(incarnation),
        rack: options.rack,
        host: options.host.clone(),
        map_slots: options.map_slots,
        reduce_slots: options.reduce_slots,
        folder: std::path::absolute(&options.folder).map_err(at(&options.folder))?,
        pid: std::process::id(),
    };
    let worker = Worker::new(identity, load_leftovers(&options.folder).map_err(at(&options.folder))?);
    let (sender, inputs) = mpsc::channel();
    let tasks = Tasks::new(options, apps, sender.clone());
    let Options { cluster, folder, reconnect_timeout, .. } = options.clone();
    let connection = move || run::keep_connected(&cluster, folder, reconnect_timeout, &sender);
    thread::Builder::new().name("connection".into()).spawn(connection).map_err(at(&options.folder))?;
    run::run(worker, tasks, &inputs)
}

/// Finds map outputs and paused reduces that an earlier process of this worker left. Called once, at start.
fn load_leftovers(folder: &Path) -> io::Result<Leftovers> {
    let mut all = Leftovers::default();
    for entry in fs::read_dir(folder.join(task::JOBS))? {
        let entry = entry?;
        let Some(job) = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(JobId) else {
            let _ = fs::remove_dir_all(entry.path());
            continue;
        };
        let of_job = task::scan_leftovers(&entry.path(), job)?;
        all.outputs.extend(of_job.outputs);
        all.paused.extend(of_job.paused);
    }
    Ok(all)
}
