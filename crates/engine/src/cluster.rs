//! A cluster on this machine: the coordinator runs in this process, each worker in a process of its own. [`Cluster::wait`] restarts workers that
//! ended.

mod restarts;

use crate::client::{Client, ClientError};
use crate::coordinator::{self, CoordinatorHandle, JournalError, JournalLock, StartError, StopHandle, Timings};
use crate::hdfs;
use crate::worker;
use restarts::RestartTimer;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long [`Cluster::start`] waits for the workers to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long workers have to stop by themselves before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval at which the state of workers is polled while waiting for them.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Interval at which a running cluster looks for workers that ended.
pub const RESTART_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why a cluster cannot start.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The coordinator cannot start.
    #[error(transparent)]
    Coordinator(#[from] StartError),
    /// A worker process cannot be started.
    #[error("cannot start the worker {name}: {error}")]
    Worker { name: String, error: io::Error },
    /// Some workers did not join in time.
    #[error("only {up} of {nodes} workers joined in time; see {}", log.display())]
    NotUp {
        /// Number of workers that joined.
        up: usize,
        /// Number of workers that were started.
        nodes: usize,
        /// Log file of the first worker that did not join.
        log: PathBuf,
    },
    /// The coordinator does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Configuration of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Configuration of the coordinator; includes the cluster directory.
    pub coordinator: coordinator::Options,
    pub nodes: u32,
    /// Map slots of each worker.
    pub map_slots: u16,
    /// Reduce slots of each worker.
    pub reduce_slots: u16,
    /// A worker that cannot reach the coordinator for this long stops.
    pub reconnect_timeout: Duration,
    /// Budget of each worker's attempt logs in bytes.
    pub log_bytes: u64,
    /// Whether [`Cluster::wait`] restarts workers that ended.
    pub restart_workers: bool,
}

/// A running cluster. Dropping it stops the coordinator and the workers.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    coordinator: Option<CoordinatorHandle>,
    workers: Vec<WorkerProcess>,
    restart_workers: bool,
    /// Kept until the workers have ended too, so that the next start of the cluster meets none of them.
    lock: Arc<JournalLock>,
}

/// A worker and its process.
#[derive(Debug)]
struct WorkerProcess {
    options: worker::Options,
    /// `None` if it was killed on request, has ended, or belongs to an earlier start of the cluster.
    child: Option<Child>,
    restarts: RestartTimer,
    /// Set by [`Cluster::kill_worker`]: it must not be restarted.
    is_killed: bool,
}

impl Cluster {
    /// Starts the coordinator and the workers, and waits until all workers have joined. A worker that still runs from an earlier start of
    /// the cluster joins again; its new process exits at once.
    pub fn start(options: Options) -> Result<Cluster, ClusterError> {
        let folder = options.coordinator.folder.clone();
        let coordinator = CoordinatorHandle::start(options.coordinator)?;
        let mut cluster = Cluster {
            lock: coordinator.lock(),
            folder: folder.clone(),
            coordinator: Some(coordinator),
            workers: Vec::new(),
            restart_workers: options.restart_workers,
        };
        for index in 0..options.nodes {
            let name = format!("node-{index}");
            let worker = worker::Options {
                cluster: folder.clone(),
                folder: folder.join(&name),
                name,
                rack: 0,
                host: hdfs::LOCALHOST.into(),
                map_slots: options.map_slots,
                reduce_slots: options.reduce_slots,
                reconnect_timeout: options.reconnect_timeout,
                log_bytes: options.log_bytes,
            };
            let child = Some(spawn(&worker)?);
            let restarts = RestartTimer::new(Instant::now());
            cluster.workers.push(WorkerProcess { options: worker, child, restarts, is_killed: false });
        }
        cluster.wait_until_up(JOIN_TIMEOUT)?;
        Ok(cluster)
    }

    fn wait_until_up(&mut self, timeout: Duration) -> Result<(), ClusterError> {
        let (started, nodes) = (Instant::now(), self.workers.len());
        let mut client = self.client()?;
        loop {
            let statuses = client.nodes()?;
            let is_up = |worker: &worker::Options| {
                statuses.iter().any(|status| status.name == worker.name && status.up && status.pid.is_some())
            };
            let up = self.workers.iter().filter(|worker| is_up(&worker.options)).count();
            if up == nodes {
                return Ok(());
            }
            if started.elapsed() > timeout {
                let missing = self.workers.iter().find(|worker| !is_up(&worker.options));
                let log = missing.map(|worker| worker.options.log_path()).unwrap_or_default();
                return Err(ClusterError::NotUp { up, nodes, log });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The cluster directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The coordinator's socket.
    pub fn socket(&self) -> &Path {
        self.coordinator.as_ref().map_or(Path::new(""), CoordinatorHandle::socket)
    }

    /// The lock of the cluster directory. The cluster cannot be started again as long as this, or a copy, exists.
    pub fn lock(&self) -> Arc<JournalLock> {
        Arc::clone(&self.lock)
    }

    /// Stops the cluster from elsewhere: workers stop, and unfinished jobs continue when it is started again.
    pub fn stop_handle(&self) -> Option<StopHandle> {
        self.coordinator.as_ref().map(CoordinatorHandle::stop_handle)
    }

    /// Name of the scheduling policy in use.
    pub fn policy(&self) -> &str {
        self.coordinator.as_ref().map_or("", CoordinatorHandle::policy)
    }

    /// How long the coordinator's loop takes.
    pub fn timings(&self) -> Arc<Timings> {
        self.coordinator.as_ref().map_or_else(Arc::default, CoordinatorHandle::timings)
    }

    /// Opens a new connection to the coordinator.
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&self.folder)
    }

    /// Kills a worker process with SIGKILL, to simulate the failure of a node. It is not restarted. `index` counts from 0 in the order of the
    /// nodes; an index out of range is ignored.
    pub fn kill_worker(&mut self, index: usize) -> io::Result<()> {
        let Some(worker) = self.workers.get_mut(index) else { return Ok(()) };
        worker.is_killed = true;
        if let Some(mut child) = worker.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Blocks until the coordinator stops, on request or because its journal cannot be written. Meanwhile restarts workers that ended.
    pub fn wait(mut self) -> Result<(), JournalError> {
        let Some(coordinator) = self.coordinator.take() else { return Ok(()) };
        while self.restart_workers && coordinator.is_running() {
            self.restart_ended_workers();
            std::thread::sleep(RESTART_POLL_INTERVAL);
        }
        coordinator.wait()
    }

    /// Restarts workers that ended, once their delay is over. To be called every [`RESTART_POLL_INTERVAL`].
    pub fn restart_ended_workers(&mut self) {
        for worker in &mut self.workers {
            worker.restart_if_ended(Instant::now());
        }
    }
}

impl WorkerProcess {
    /// Restarts the worker once its delay is over. It is left alone while another process runs it, which an earlier start of the cluster left.
    fn restart_if_ended(&mut self, now: Instant) {
        let name = &self.options.name;
        if let Some(child) = &mut self.child {
            let Ok(Some(status)) = child.try_wait() else { return };
            self.child = None;
            let delay = self.restarts.on_exit(now);
            if !status.success() {
                let status = status.to_string().replace(": ", " ");
                tracing::warn!("worker {name} ended with {status}; restarting it in {} s", delay.as_secs_f64());
            }
        }
        if self.is_killed || !self.restarts.is_due(now) {
            return;
        }
        self.restarts.on_start(now);
        if worker::is_running(&self.options) {
            return;
        }
        match spawn(&self.options) {
            Ok(child) => {
                tracing::warn!("worker {name} restarted as process {}", child.id());
                self.child = Some(child);
            }
            Err(error) => {
                let delay = self.restarts.on_exit(now);
                tracing::warn!("{error}; trying again in {} s", delay.as_secs_f64());
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            coordinator.stop();
            let _ = coordinator.wait();
        }
        let started = Instant::now();
        for child in self.workers.iter_mut().filter_map(|worker| worker.child.as_mut()) {
            // The coordinator has sent them a stop. A worker that does not exit is killed; its results are in its folder.
            while started.elapsed() < STOP_TIMEOUT && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(POLL_INTERVAL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How long the program's allocator, mimalloc, keeps freed memory before it returns it to the system, in milliseconds. By default it is so short that
/// each task of a worker gets its memory from the system anew, which has to clear every page first.
const PURGE_DELAY_ENV: &str = "MIMALLOC_PURGE_DELAY";
const PURGE_DELAY_MS: &str = "1000";

/// A worker's log that is longer when the worker is started becomes `log.old`.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Starts a worker process: this executable, with the worker's options in an environment variable. Its log goes to a file in its folder. The
/// arguments only tell workers apart in lists of processes. Its process group is its own, so that Ctrl-C reaches the coordinator alone, which then
/// stops the workers.
fn spawn(options: &worker::Options) -> Result<Child, ClusterError> {
    let failed = |error| ClusterError::Worker { name: options.name.clone(), error };
    std::fs::create_dir_all(&options.folder).map_err(failed)?;
    let path = options.log_path();
    if std::fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
        std::fs::rename(&path, path.with_extension("old")).map_err(failed)?;
    }
    let log = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    let purge_delay = std::env::var_os(PURGE_DELAY_ENV).unwrap_or_else(|| PURGE_DELAY_MS.into());
    Command::new(std::env::current_exe().map_err(failed)?)
        .env(PURGE_DELAY_ENV, purge_delay)
        .args(["worker", "--name", &options.name, "--join"])
        .arg(&options.cluster)
        .env(worker::OPTIONS_ENV, options.to_json())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(failed)
}
