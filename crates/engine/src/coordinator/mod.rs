//! The coordinator: it owns the core, submits every event to it, and executes the actions that the core returns.
//!
//! The coordinator is a state machine (`state_machine.rs`): it gets inputs and a time, and returns records for the journal and effects. One thread
//! (`run.rs`) receives the inputs of all connections and works in batches: pass the pending inputs to the state machine; append and sync the records; and
//! only then carry out the effects: messages to workers, answers to clients, work on output folders. A coordinator that is killed at any moment
//! has therefore promised nothing that is missing from its journal. The next one recovers its state from the journal, compares it with the state that workers report
//! when they join, and repairs the difference (`workers.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `state_machine.rs` | the state, a batch of inputs |
//! | `inputs.rs` | inputs and effects |
//! | `workers.rs` | joins, heartbeats, reports and losses of workers |
//! | `progress.rs` | the progress of attempts between two heartbeats |
//! | `clients.rs` | requests of clients: status, kill, yield |
//! | `submission.rs` | from a plan to a job in the core |
//! | `finalize.rs` | output folders in the life of a job; its end, or its next round |
//! | `job_table.rs` | state of jobs and attempts beside the core's; follows from the journal |
//! | `run.rs` | the loop around the state machine: clock, journal, threads |
//! | `timings.rs` | how long decisions and writes of the journal take |
//! | `journal.rs` | events and metadata on disk |
//! | `archives.rs` | journals that were replaced |
//! | `hook.rs` | the user's command that runs when a job has ended |
//! | `output_work.rs`, `output_folder.rs` | work on output folders: creation, publication, removal |
//! | `file_system.rs` | the file operations of journal and output folders, which the simulation replaces |
//! | `logs.rs` | what attempts have printed, for clients |
//! | `connections.rs` | threads that convert between bytes and the loop's inputs |
//! | `observe.rs` | what the simulation asks a coordinator |
//! | `recovery.rs` | the journal over time: recovery, snapshots, new journals |
//! | `reload.rs` | another policy and other tenants while jobs run |
//! | `programs.rs` | programs that clients ship with their jobs |
//! | `planning.rs` | from a request to a plan: lists and splits the input |
//!
//! Planning runs on the thread of the client's connection, so that listing a large folder delays no other request.

mod archives;
mod clients;
mod connections;
pub(crate) mod file_system;
mod finalize;
mod hook;
pub(crate) mod inputs;
mod job_table;
pub(crate) mod journal;
mod logs;
#[cfg(any(test, feature = "simulation"))]
mod observe;
pub(crate) mod output_folder;
pub(crate) mod output_work;
mod planning;
mod programs;
mod progress;
pub(crate) mod recovery;
mod reload;
mod run;
pub(crate) mod state_machine;
mod submission;
#[cfg(test)]
mod tests;
mod timings;
mod workers;

pub use journal::{
    Clock, ClockReading, JournalError, JournalLock, JournalTail, is_journal, journal_path, read_event_log, read_journal,
};
pub(crate) use output_work::is_read_error;
pub use reload::{ReloadSource, Reloadable};
pub use timings::{Timing, Timings};

use crate::access::{self, Access};
use crate::address;
use crate::apps::Apps;
use crate::cluster_id::ClusterId;
use crate::program::{Planner, ProgramStore};
use crate::wire::{Listener, SocketFile, run_folder};
use connections::{Services, SharedAccess};
use giveway_core::{Policy, SetupError, Tenants};
use inputs::{ClientLink, Input};
use run::Run;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// A snapshot is written each time the journal has grown by this, or by several times the size of a snapshot.
pub(crate) const SNAPSHOT_BYTES: u64 = 4 << 20;

/// A journal of this size is archived, and a new one begun.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// [`Options::archive_bytes`] of clusters that do not set it.
pub const ARCHIVE_BYTES: u64 = 4 << 30;

/// Who waits until a cluster directory is free locks it for a moment.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster directory: journal, address.
    pub folder: PathBuf,
    pub policy: Policy,
    /// Users and pools with their shares.
    pub tenants: Tenants,
    /// Random seed of the core.
    pub seed: u64,
    /// Interval between heartbeats of a worker, and between status updates to clients that follow a job.
    pub heartbeat_interval: Duration,
    /// A worker that sends nothing for this long is declared lost.
    pub heartbeat_timeout: Duration,
    /// Share of a job's maps that must be done before its reduces may start, in parts per million.
    pub slowstart_ppm: u32,
    /// The applications that jobs may name.
    pub apps: Apps,
    /// Users who have access beside the owner.
    pub access: Access,
    /// Shell command to run when a job has ended. At most once for each job: not if the coordinator is killed at that moment.
    pub on_job_end: Option<String>,
    /// Archived journals are removed, oldest first, when they have more bytes.
    pub archive_bytes: u64,
    /// Where policy, tenants and access are read again on request; `None` if they cannot be changed while the coordinator runs.
    pub reload: Option<ReloadSource>,
}

/// Why a coordinator cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The cluster directory cannot be used.
    #[error("cannot use the cluster directory: {}: {error}; name a directory of your own, or one that does not exist yet", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        error: io::Error,
    },
    /// The directory is a copy of one whose cluster is running.
    #[error(
        "{} is a copy of another cluster directory, whose cluster is running; stop that one first: both would run the same unfinished jobs", folder.display()
    )]
    CopyRuns { folder: PathBuf },
    /// A new cluster would take a directory with other files.
    #[error(
        "{} has other files and no cluster; name a directory that is empty, or does not exist yet: only its owner could enter it afterwards", folder.display()
    )]
    NotEmpty { folder: PathBuf },
    /// The socket cannot be listened on.
    #[error("cannot listen on {}: {error}", socket.display())]
    Listen { socket: PathBuf, error: io::Error },
    /// The policy cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A record of the journal contradicts those before it.
    #[error(
        "cannot apply record {record} of the journal {}: {problem}; finish its jobs with the release that wrote it, or remove the directory's `journal`", path.display()
    )]
    Recovery {
        path: PathBuf,
        /// The record, from 1; 0 is the snapshot that recovery began with.
        record: u64,
        problem: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running coordinator. The owner must call [`stop`](CoordinatorHandle::stop) and [`wait`](CoordinatorHandle::wait): dropping the handle
/// does not stop the coordinator.
#[derive(Debug)]
pub struct CoordinatorHandle {
    socket: PathBuf,
    policy: String,
    timings: Arc<Timings>,
    thread: JoinHandle<Result<(), JournalError>>,
    inputs: mpsc::Sender<Input>,
    /// Removed with this handle.
    _sockets: Sockets,
    lock: Arc<JournalLock>,
}

/// Stops a coordinator, also if its sockets are gone.
#[derive(Clone, Debug)]
pub struct StopHandle(mpsc::Sender<Input>);

impl StopHandle {
    /// Requests a stop and returns at once.
    pub fn stop(&self) {
        let client = ClientLink { id: 0, limited_to: None, sender: mpsc::channel().0 };
        let _ = self.0.send(Input::ClientRequest { request: crate::wire::FromClient::Stop, client });
    }
}

/// Removes the sockets' files when it is dropped.
#[derive(Debug)]
struct Sockets(Arc<Mutex<Vec<SocketFile>>>);

impl Drop for Sockets {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl CoordinatorHandle {
    /// Recovers the journal in the folder, or creates one, and starts to listen.
    pub fn start(options: Options) -> Result<CoordinatorHandle, StartError> {
        let folder = options.folder.clone();
        let in_folder = |error| StartError::Folder { path: folder.clone(), error };
        if has_only_foreign_files(&folder).map_err(in_folder)? {
            return Err(StartError::NotEmpty { folder });
        }
        run_folder::make_private(&folder).map_err(in_folder)?;
        let lock = Arc::new(JournalLock::acquire_within(&folder, LOCK_TIMEOUT)?);
        let (cluster_id, _) = ClusterId::read_or_create(&folder).map_err(in_folder)?;
        let socket = run_folder::create(cluster_id.short()).map_err(in_folder)?.join("coordinator");
        // The journal is locked, so only a copy of the directory can have a coordinator on this socket. Both would run the same jobs.
        if UnixStream::connect(&socket).is_ok() {
            return Err(StartError::CopyRuns { folder });
        }
        let listener = Listener::bind(&socket).map_err(|error| StartError::Listen { socket: socket.clone(), error })?;
        let sockets = Sockets(Arc::new(Mutex::new(vec![SocketFile::new(socket.clone())])));
        let shared = SharedAccess::new(sockets.0.clone());
        let (apps, admitted, reload) = (options.apps.clone(), options.access.clone(), options.reload.clone());
        let (inputs, receiver) = mpsc::channel();
        let unpinned = inputs.clone();
        let programs = ProgramStore::new(&folder, move |program| {
            // Fails while the coordinator stops; the next one removes what no live job needs.
            let _ = unpinned.send(Input::ProgramUnpinned { program });
        });
        let run = Run::open(options, Arc::clone(&lock), inputs.clone(), Arc::clone(&programs))?;
        let policy = run.policy().to_owned();
        let timings = run.timings();
        // Written only after the journal has been recovered: clients that find the address find a coordinator that can serve them.
        address::write(&folder, &socket).map_err(in_folder)?;
        let thread = std::thread::Builder::new()
            .name("coordinator".into())
            .spawn(move || run.run(&receiver))
            .map_err(in_folder)?;
        let ids = Arc::new(AtomicU64::new(1));
        let services = Services {
            apps,
            planner: Planner::new(&folder),
            programs,
            folder: folder.clone(),
            inputs: inputs.clone(),
            ids,
            reload,
            shared,
        };
        connections::listen(listener, services.clone()).map_err(in_folder)?;
        // Somebody may have taken the place of the socket for other users. The owner's jobs go on.
        if let Err(error) = connections::admit(&services, admitted) {
            tracing::error!("other users are not admitted: {error}; then run `giveway reload`");
        }
        Ok(CoordinatorHandle { socket, policy, timings, thread, inputs, _sockets: sockets, lock })
    }

    /// The socket it listens on.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Name of the policy in use. Differs from that of the options if the journal has unfinished jobs: those keep their policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// How long its loop takes.
    pub fn timings(&self) -> Arc<Timings> {
        Arc::clone(&self.timings)
    }

    /// The lock of the cluster directory. No other coordinator starts there as long as this, or a copy, exists.
    pub fn lock(&self) -> Arc<JournalLock> {
        Arc::clone(&self.lock)
    }

    /// True until the coordinator has stopped.
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Requests a stop and returns at once. Unfinished jobs continue at the next start.
    pub fn stop(&self) {
        self.stop_handle().stop();
    }

    /// Stops the coordinator from elsewhere.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.inputs.clone())
    }

    /// Blocks until the coordinator has stopped.
    pub fn wait(self) -> Result<(), JournalError> {
        // The lock is released last.
        let CoordinatorHandle { lock: _lock, thread, _sockets, .. } = self;
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// True for a directory with files of which none is a cluster's.
fn has_only_foreign_files(folder: &Path) -> io::Result<bool> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    let names: Vec<_> = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    // Those of a home directory, and of a file system that is mounted there.
    let is_ignored = |name: &OsString| name.as_bytes().starts_with(b".") || name == "lost+found";
    // A start that was interrupted may have left no more than its lock. Tokens, and directories of workers on disks of their own, may be made before the first start.
    let is_ours = |name: &OsString| {
        let known = ["cluster-id", "lock", "journal", "token", "tokens"];
        known.iter().any(|ours| name == ours) || name.as_bytes().starts_with(b"node-")
    };
    Ok(!names.iter().all(is_ignored) && !names.iter().any(is_ours))
}

/// Listens on the socket for other users. Returns its path too.
fn listen_shared(folder: &Path) -> Result<(Listener, PathBuf), StartError> {
    let in_folder = |error| StartError::Folder { path: folder.to_path_buf(), error };
    let socket = access::shared_socket(folder, rustix::process::geteuid().as_raw()).map_err(in_folder)?;
    let failed = |error| StartError::Listen { socket: socket.clone(), error };
    if let Some(parent) = socket.parent() {
        access::create_shared_folder(parent).map_err(failed)?;
    }
    Ok((Listener::bind_shared(&socket).map_err(failed)?, socket))
}
