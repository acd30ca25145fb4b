//! A whole cluster on this machine: a coordinator in this process and workers in processes of their own.

use crate::client::{Client, ClientError};
use crate::coordinator::{self, Coordinator, JournalError, StartError};
use crate::hdfs;
use crate::worker;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a cluster cannot start.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// Its coordinator cannot.
    #[error(transparent)]
    Coordinator(#[from] StartError),
    /// A worker process cannot be started.
    #[error("cannot start the worker {name}: {error}")]
    Worker {
        /// Its name.
        name: String,
        /// What went wrong.
        error: io::Error,
    },
    /// Workers did not come up in time.
    #[error("only {up} of {nodes} workers came up; see {}", log.display())]
    NotUp {
        /// How many did.
        up: usize,
        /// How many there should be.
        nodes: usize,
        /// Where one that did not says why.
        log: PathBuf,
    },
    /// It cannot be talked to.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What the workers are made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The coordinator, with the cluster's folder.
    pub coordinator: coordinator::Options,
    /// How many workers.
    pub nodes: u32,
    /// Map slots of each.
    pub map_slots: u16,
    /// Reduce slots of each.
    pub reduce_slots: u16,
    /// How long a worker looks for a coordinator that is gone before it stops.
    pub patience: Duration,
}

/// A running cluster. Dropping it stops the workers.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    coordinator: Option<Coordinator>,
    workers: Vec<(worker::Options, Option<Child>)>,
}

impl Cluster {
    /// Starts everything and waits until the workers have joined. Workers of an earlier life that are still there are kept.
    pub fn start(options: Options) -> Result<Cluster, ClusterError> {
        let folder = options.coordinator.folder.clone();
        let coordinator = Coordinator::start(options.coordinator)?;
        let mut cluster = Cluster { folder: folder.clone(), coordinator: Some(coordinator), workers: Vec::new() };
        for at in 0..options.nodes {
            let name = format!("node-{at}");
            let worker = worker::Options {
                cluster: folder.clone(),
                folder: folder.join(&name),
                name,
                rack: 0,
                host: hdfs::LOCALHOST.into(),
                map_slots: options.map_slots,
                reduce_slots: options.reduce_slots,
                patience: options.patience,
            };
            let child = spawn(&worker)?;
            cluster.workers.push((worker, Some(child)));
        }
        cluster.wait_until_up(Duration::from_secs(20))?;
        Ok(cluster)
    }

    fn wait_until_up(&mut self, patience: Duration) -> Result<(), ClusterError> {
        let (began, nodes) = (Instant::now(), self.workers.len());
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
            if began.elapsed() > patience {
                let missing = self.workers.iter().find(|(worker, _)| !is_up(worker)).map(|(worker, _)| worker.log());
                return Err(ClusterError::NotUp { up, nodes, log: missing.unwrap_or_default() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its coordinator listens.
    pub fn address(&self) -> &str {
        self.coordinator.as_ref().expect("stopped only when dropped").address()
    }

    /// The policy it decides by.
    pub fn policy(&self) -> &str {
        self.coordinator.as_ref().expect("stopped only when dropped").policy()
    }

    /// A new line to its coordinator.
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&self.folder)
    }

    /// Kills a worker's process without warning, as a machine fails.
    pub fn kill_worker(&mut self, at: usize) -> io::Result<()> {
        if let Some(child) = &mut self.workers[at].1 {
            child.kill()?;
            child.wait()?;
            self.workers[at].1 = None;
        }
        Ok(())
    }

    /// Starts a worker again that was killed.
    pub fn restart_worker(&mut self, at: usize) -> Result<(), ClusterError> {
        let (worker, child) = &mut self.workers[at];
        *child = Some(spawn(worker)?);
        Ok(())
    }

    /// Waits until the coordinator stops, because it was told to or because its journal cannot be written.
    pub fn wait(mut self) -> Result<(), JournalError> {
        let coordinator = self.coordinator.take().expect("waited for once");
        coordinator.wait()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            coordinator.stop();
            let _ = coordinator.wait();
        }
        let began = Instant::now();
        for (_, child) in &mut self.workers {
            let Some(child) = child else { continue };
            // They were told to stop; one that does not is killed, its work is in its folder.
            while began.elapsed() < Duration::from_secs(3) && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a worker process: this very program, told by its environment that it is a worker.
fn spawn(options: &worker::Options) -> Result<Child, ClusterError> {
    let failed = |error| ClusterError::Worker { name: options.name.clone(), error };
    std::fs::create_dir_all(&options.folder).map_err(failed)?;
    let log = OpenOptions::new().append(true).create(true).open(options.log()).map_err(failed)?;
    Command::new(std::env::current_exe().map_err(failed)?)
        .env(worker::ENVIRONMENT, options.to_text())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(failed)
}
