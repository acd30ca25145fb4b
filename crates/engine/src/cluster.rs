//! A cluster on this machine: the coordinator runs in this process, each worker in a process of its own.

use crate::client::{Client, ClientError};
use crate::coordinator::{self, CoordinatorHandle, JournalError, StartError};
use crate::hdfs;
use crate::worker;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long [`Cluster::start`] waits for the workers to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long workers have to stop by themselves before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval at which the state of workers is polled while waiting for them.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Why a cluster cannot start.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The coordinator cannot start.
    #[error(transparent)]
    Coordinator(#[from] StartError),
    /// A worker process cannot be started.
    #[error("cannot start the worker {name}: {error}")]
    Worker {
        /// The worker's name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
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
    /// Configuration of the coordinator; includes the cluster's folder.
    pub coordinator: coordinator::Options,
    /// Number of workers.
    pub nodes: u32,
    /// Map slots of each worker.
    pub map_slots: u16,
    /// Reduce slots of each worker.
    pub reduce_slots: u16,
    /// A worker that cannot reach the coordinator for this long stops.
    pub reconnect_timeout: Duration,
}

/// A running cluster. Dropping it stops the coordinator and the workers.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    coordinator: Option<CoordinatorHandle>,
    workers: Vec<(worker::Options, Option<Child>)>,
}

impl Cluster {
    /// Starts the coordinator and the workers, and waits until all workers have joined. A worker that still runs from an earlier start of
    /// the cluster joins again; its new process exits at once.
    pub fn start(options: Options) -> Result<Cluster, ClusterError> {
        let folder = options.coordinator.folder.clone();
        let coordinator = CoordinatorHandle::start(options.coordinator)?;
        let mut cluster = Cluster { folder: folder.clone(), coordinator: Some(coordinator), workers: Vec::new() };
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
            };
            let child = spawn(&worker)?;
            cluster.workers.push((worker, Some(child)));
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
            let up = self.workers.iter().filter(|(worker, _)| is_up(worker)).count();
            if up == nodes {
                return Ok(());
            }
            if started.elapsed() > timeout {
                let missing =
                    self.workers.iter().find(|(worker, _)| !is_up(worker)).map(|(worker, _)| worker.log_path());
                return Err(ClusterError::NotUp { up, nodes, log: missing.unwrap_or_default() });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Address of the coordinator, `host:port`.
    pub fn address(&self) -> &str {
        self.coordinator.as_ref().expect("present until dropped").address()
    }

    /// Name of the scheduling policy in use.
    pub fn policy(&self) -> &str {
        self.coordinator.as_ref().expect("present until dropped").policy()
    }

    /// Opens a new connection to the coordinator.
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&self.folder)
    }

    /// Kills a worker process with SIGKILL, to simulate the failure of a node. `index` counts from 0 in the order of the nodes.
    pub fn kill_worker(&mut self, index: usize) -> io::Result<()> {
        if let Some(child) = &mut self.workers[index].1 {
            child.kill()?;
            child.wait()?;
            self.workers[index].1 = None;
        }
        Ok(())
    }

    /// Starts a killed worker again.
    pub fn restart_worker(&mut self, index: usize) -> Result<(), ClusterError> {
        let (worker, child) = &mut self.workers[index];
        *child = Some(spawn(worker)?);
        Ok(())
    }

    /// Blocks until the coordinator stops, on request or because its journal cannot be written.
    pub fn wait(mut self) -> Result<(), JournalError> {
        let coordinator = self.coordinator.take().expect("present until dropped");
        coordinator.wait()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            coordinator.stop();
            let _ = coordinator.wait();
        }
        let started = Instant::now();
        for (_, child) in &mut self.workers {
            let Some(child) = child else { continue };
            // The coordinator has sent them a stop. A worker that does not exit is killed; its results are in its folder.
            while started.elapsed() < STOP_TIMEOUT && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(POLL_INTERVAL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a worker process: this executable, with the worker's options in an environment variable. Its log goes to a file in its folder.
fn spawn(options: &worker::Options) -> Result<Child, ClusterError> {
    let failed = |error| ClusterError::Worker { name: options.name.clone(), error };
    std::fs::create_dir_all(&options.folder).map_err(failed)?;
    let log = OpenOptions::new().append(true).create(true).open(options.log_path()).map_err(failed)?;
    Command::new(std::env::current_exe().map_err(failed)?)
        .env(worker::OPTIONS_ENV, options.to_json())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(failed)
}
