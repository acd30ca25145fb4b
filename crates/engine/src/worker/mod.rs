//! A worker process: slots, a disk, and tasks at work.
//!
//! The main thread keeps the line to the coordinator (`line.rs`) and does what comes down on it (`tasks.rs`); each task has a thread of its own; others
//! serve this worker's data to other workers (`data.rs`) and send beats. Whatever ends is *reported* until the coordinator says that it is
//! written down, so neither a broken line nor a coordinator that is killed loses a result.
//!
//! A worker never chooses: it runs what it is told, in the slots the core counts.

mod data;
mod line;
mod tasks;

use crate::apps::Apps;
use crate::store::BlockStore;
use crate::task;
use crate::wire::{News, Token, WireError};
use giveway_core::{AttemptId, JobId, Kind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// By this variable a process learns that it is a worker, and which.
pub const ENVIRONMENT: &str = "GIVEWAY_WORKER";

/// What a worker is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// The cluster's folder: where the coordinator's address and the token are.
    pub cluster: PathBuf,
    /// Its own folder.
    pub folder: PathBuf,
    /// Its name in the cluster.
    pub name: String,
    /// The rack it stands in.
    pub rack: u32,
    /// The machine it counts as standing on, as HDFS calls it: near what the DataNodes there have.
    pub host: String,
    /// Maps it runs at once.
    pub map_slots: u16,
    /// Reduces it runs at once.
    pub reduce_slots: u16,
    /// How long it looks for a coordinator that is gone before it stops.
    pub patience: Duration,
}

impl Options {
    /// Where it says what happens to it.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Itself as text, for the environment.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("options are plain data")
    }
}

/// Why a worker stopped.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// Its folder cannot be used.
    #[error("the worker's folder {}: {error}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// It cannot talk with the coordinator.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The coordinator is gone.
    #[error("no coordinator for {} s; stopping. What was kept is in {}", patience.as_secs(), folder.display())]
    Alone {
        /// How long it was looked for.
        patience: Duration,
        /// Its folder.
        folder: PathBuf,
    },
    /// The coordinator turned it away.
    #[error("the coordinator turned this worker away: {0}")]
    Refused(String),
}

/// Runs a worker and ends the process, if that is what the environment asks for. To be called first thing in `main` by every program that
/// starts clusters.
pub fn run_if_asked(apps: &Apps) {
    let Some(text) = std::env::var_os(ENVIRONMENT) else { return };
    let options = text.to_str().and_then(|text| serde_json::from_str::<Options>(text).ok());
    let Some(options) = options else {
        eprintln!("giveway: the variable {ENVIRONMENT} is not meant to be set by hand; unset it");
        std::process::exit(2);
    };
    // Programs that tasks start are not workers.
    match run(&options, apps.clone()) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            crate::say(&error.to_string());
            std::process::exit(1);
        }
    }
}

/// Runs a worker until it is told to stop.
pub fn run(options: &Options, apps: Apps) -> Result<(), WorkerError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| WorkerError::Folder { path, error }
    };
    fs::create_dir_all(options.folder.join("jobs")).map_err(at(&options.folder))?;
    let lock_file = options.folder.join("lock");
    let lock = fs::File::create(&lock_file).map_err(at(&lock_file))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            crate::say(&format!("{} runs already in {}; nothing to do", options.name, options.folder.display()));
            return Ok(());
        }
        Err(fs::TryLockError::Error(error)) => return Err(at(&lock_file)(error)),
    }
    let token_file = options.cluster.join("token");
    let token = Token::read(&token_file).map_err(at(&token_file))?;
    let mut life = [0; 8];
    getrandom::fill(&mut life).map_err(|error| at(&options.folder)(io::Error::other(error.to_string())))?;
    let blocks = options.folder.join("blocks");
    let shelf = Arc::new(BlockStore::open(blocks.clone()).map_err(at(&blocks))?);
    let worker = Arc::new(Worker {
        options: options.clone(),
        apps,
        token,
        life: u64::from_le_bytes(life),
        shelf,
        shared: Mutex::default(),
    });
    worker.survey().map_err(at(&options.folder))?;
    let data_address = data::listen(&worker).map_err(at(&options.folder))?;
    line::keep(&worker, &data_address)
}

/// What all threads of a worker share.
#[derive(Debug)]
struct Worker {
    options: Options,
    apps: Apps,
    token: Token,
    /// A number for this process.
    life: u64,
    /// Blocks of stored files kept here, through everything.
    shelf: Arc<BlockStore>,
    shared: Mutex<Shared>,
}

/// What changes.
#[derive(Debug, Default)]
struct Shared {
    /// Moves when everything is dropped, so that tasks of before have no say any more.
    era: u64,
    jobs: BTreeMap<JobId, tasks::Here>,
    running: BTreeMap<AttemptId, tasks::Running>,
    /// Ended and not acknowledged, by number.
    unacked: BTreeMap<u64, News>,
    next_seq: u64,
    /// Map outputs kept here.
    outputs: BTreeSet<AttemptId>,
    /// Paused reduces kept here.
    paused: BTreeSet<AttemptId>,
    line: line::Out,
    shuffle: Option<Arc<task::Shuffle>>,
}

impl Worker {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Nothing under the lock panics half way through a change.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of a job.
    fn job_folder(&self, job: JobId) -> PathBuf {
        self.options.folder.join("jobs").join(job.0.to_string())
    }

    /// After a start: what an earlier life left.
    fn survey(&self) -> io::Result<()> {
        let mut shared = self.shared();
        for entry in fs::read_dir(self.options.folder.join("jobs"))? {
            let entry = entry?;
            let Some(job) = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(JobId) else {
                let _ = fs::remove_dir_all(entry.path());
                continue;
            };
            let left = task::survey(&entry.path(), job)?;
            shared.outputs.extend(left.outputs);
            shared.paused.extend(left.paused);
        }
        Ok(())
    }

    /// Something ended: it is said until it is acknowledged.
    fn report(&self, era: u64, news: News) {
        let mut shared = self.shared();
        if shared.era != era {
            return;
        }
        match &news {
            News::Finished { attempt, .. } | News::EndedEarly { attempt, .. } if attempt.task.kind == Kind::Map => {
                shared.running.remove(attempt);
                shared.outputs.insert(*attempt);
            }
            News::Paused { attempt, .. } => {
                shared.running.remove(attempt);
                shared.paused.insert(*attempt);
            }
            News::Finished { attempt, .. }
            | News::EndedEarly { attempt, .. }
            | News::Failed { attempt, .. }
            | News::Killed { attempt } => {
                shared.running.remove(attempt);
            }
            News::OutputGone { .. } => {}
        }
        let seq = shared.next_seq;
        shared.next_seq += 1;
        shared.line.report(seq, &news);
        shared.unacked.insert(seq, news);
    }
}
