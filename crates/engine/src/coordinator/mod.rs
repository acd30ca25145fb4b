//! The coordinator: it owns the core, tells it what happens, and has done what it asks for.
//!
//! One thread, the *desk* (`desk.rs`), takes mail from everybody and is the only one that talks to the core. It works in batches: take what has
//! come, tell the core, offer free slots; then bring the journal (`journal.rs`) to the disk; and only then act on what the core asked for. A
//! coordinator that is killed at any moment has therefore promised nothing that its journal does not know, and the next one reads the
//! journal, asks the workers what they have, and makes good what was lost on the way (`workers.rs`).
//!
//! Connections (`lines.rs`) have threads of their own that turn bytes into mail and mail into bytes. Input is looked at (`planning.rs`)
//! on the thread of whoever submits, so a large folder holds up nobody else.

mod books;
mod clients;
mod desk;
mod journal;
mod lines;
mod planning;
mod settle;
mod workers;

pub use journal::JournalError;

use crate::apps::Apps;
use crate::store::Namespace;
use crate::wire::Token;
use desk::Desk;
use giveway_core::{Policy, SetupError, Tenants};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// What a coordinator is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its folder: journal, token, address.
    pub folder: PathBuf,
    /// Where it listens. A port of 0 takes any that is free.
    pub listen: String,
    /// The policy.
    pub policy: Policy,
    /// Who shares the cluster.
    pub tenants: Tenants,
    /// Where random choices of the core begin.
    pub seed: u64,
    /// How often workers say that they are alive.
    pub beat: Duration,
    /// A worker that is silent for so long is lost.
    pub timeout: Duration,
    /// Reduces start once this part of the maps is done.
    pub slowstart_ppm: u32,
    /// The applications.
    pub apps: Apps,
}

/// Why a coordinator cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The folder cannot be used.
    #[error("the cluster's folder {}: {error}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// Another coordinator is at work there.
    #[error("another coordinator uses {}; stop it first, or choose another folder", path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// What went wrong.
        error: io::Error,
    },
    /// The address can be reached from other machines.
    #[error(
        "{address} can be reached from other machines and connections are not encrypted; listen on 127.0.0.1; for several machines there is `giveway yarn`"
    )]
    Exposed {
        /// The address.
        address: String,
    },
    /// The policy cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal was written by a release that decides otherwise.
    #[error(
        "record {record} of the journal in {} does not replay: this release decides otherwise; finish its jobs with the release that wrote it, or remove the folder's `journal`", path.display()
    )]
    OtherMind {
        /// The folder.
        path: PathBuf,
        /// The first record that differs, from 1.
        record: usize,
    },
}

/// A coordinator at work.
#[derive(Debug)]
pub struct Coordinator {
    address: String,
    policy: String,
    desk: JoinHandle<Result<(), JournalError>>,
    mail: mpsc::Sender<desk::Mail>,
    /// Held as long as the coordinator lives, so that no second one uses the folder.
    _lock: std::fs::File,
}

impl Coordinator {
    /// Reads the journal of an earlier life, if there is one, and begins to listen.
    pub fn start(options: Options) -> Result<Coordinator, StartError> {
        let folder = options.folder.clone();
        let in_folder = |error| StartError::Folder { path: folder.clone(), error };
        std::fs::create_dir_all(&folder).map_err(in_folder)?;
        let lock = std::fs::File::create(folder.join("lock")).map_err(in_folder)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(StartError::Taken { path: folder }),
            Err(std::fs::TryLockError::Error(error)) => return Err(in_folder(error)),
        }
        let token_file = folder.join("token");
        let token = Token::read_or_make(&token_file).map_err(|error| StartError::Folder { path: token_file, error })?;
        let listener = listen(&options.listen)?;
        let address = listener.local_addr().map_err(in_folder)?.to_string();
        let apps = options.apps.clone();
        let store = Arc::new(Namespace::open(&folder, options.timeout).map_err(in_folder)?);
        let desk = Desk::open(options, Arc::clone(&store))?;
        let policy = desk.policy().to_owned();
        // Only now, so that nobody calls a coordinator that cannot serve.
        write_whole(&folder.join("address"), address.as_bytes()).map_err(in_folder)?;
        let (mail, inbox) = mpsc::channel();
        let desk =
            std::thread::Builder::new().name("desk".into()).spawn(move || desk.run(&inbox)).map_err(in_folder)?;
        lines::listen(listener, token, apps, store, mail.clone()).map_err(in_folder)?;
        Ok(Coordinator { address, policy, desk, mail, _lock: lock })
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The policy it decides by: that of unfinished jobs of an earlier life, if there are any.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// True while it is at work.
    pub fn is_at_work(&self) -> bool {
        !self.desk.is_finished()
    }

    /// Asks it to stop: running jobs go on when it is started again.
    pub fn stop(&self) {
        let (reply, _) = mpsc::channel();
        let _ = self.mail.send(desk::Mail::Client { message: crate::wire::FromClient::Stop, reply });
    }

    /// Waits until it has stopped.
    pub fn wait(self) -> Result<(), JournalError> {
        match self.desk.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn listen(address: &str) -> Result<TcpListener, StartError> {
    let failed = |error| StartError::Listen { address: address.into(), error };
    let meant: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    if !meant.iter().all(|one| one.ip().is_loopback()) {
        return Err(StartError::Exposed { address: address.into() });
    }
    TcpListener::bind(&meant[..]).map_err(failed)
}

/// Writes a small file so that readers see the old one or the new one, never half.
pub(crate) fn write_whole(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path)
}
