//! Why something cannot be done with a stored file: what happened, the detail, and what to do.

use super::Name;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the store says no.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A name that is none.
    #[error("`{name}` is no name for a stored file: {why}; write for example dfs:/books/emma.txt")]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The name is taken.
    #[error("{name} exists already; remove it with `giveway dfs rm` or choose another name, files are never overwritten")]
    Exists {
        /// The name.
        name: Name,
    },
    /// Somebody else writes a file of this name.
    #[error("{name} is being written by somebody else; wait, or choose another name")]
    BeingWritten {
        /// The name.
        name: Name,
    },
    /// Part of the name is a file.
    #[error("{name} cannot be stored: {file} is a file, and files hold no others; choose another name")]
    BelowFile {
        /// The name.
        name: Name,
        /// The file in its way.
        file: String,
    },
    /// A folder where a file is meant.
    #[error("{name} is a folder; name a file in it (`giveway dfs rm -r` removes folders)")]
    IsFolder {
        /// The name.
        name: Name,
    },
    /// Neither file nor folder.
    #[error("{name} does not exist; `giveway dfs ls` shows what does")]
    Missing {
        /// The name.
        name: Name,
    },
    /// More or fewer replicas than make sense.
    #[error("{replicas} replicas make no sense; ask for 1 to 16")]
    Replicas {
        /// What was asked for.
        replicas: u8,
    },
    /// Too few workers to take a block.
    #[error("a block needs {wanted} workers to store it and {found} can take it; see `giveway nodes`, or ask for fewer --replicas")]
    Nowhere {
        /// How many are needed.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A put that is over or never was.
    #[error("this put is over; begin it again")]
    NoPut,
    /// Replicas went while the file was written and could not be made again.
    #[error("{name} was not stored: {blocks} of its blocks have lost replicas meanwhile; see `giveway nodes` and put it again")]
    NotWhole {
        /// The name.
        name: Name,
        /// How many blocks.
        blocks: usize,
    },
    /// The coordinator's disk says no.
    #[error("the coordinator cannot write {}: {error}", path.display())]
    Disk {
        /// Which file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}
