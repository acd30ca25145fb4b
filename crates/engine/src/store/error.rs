//! Errors of operations on stored files.

use super::DfsPath;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the coordinator refused an operation on stored files.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not a valid [`DfsPath`].
    #[error("invalid path `{path}` of a stored file: {reason}; write for example dfs:/books/emma.txt")]
    InvalidPath {
        /// The text that was given, escaped.
        path: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A file of this path exists.
    #[error(
        "{path} exists already and files are never overwritten; remove it with `giveway dfs rm` or choose another path"
    )]
    Exists {
        /// The path of the existing file.
        path: DfsPath,
    },
    /// Another client is writing a file of this path.
    #[error("{path} is being written by another client; wait until it is done, or choose another path")]
    BeingWritten {
        /// The path in question.
        path: DfsPath,
    },
    /// A parent of the path is a file.
    #[error("{path} cannot be created: its parent {file} is a file and not a directory; choose another path")]
    ParentIsFile {
        /// The path to be created.
        path: DfsPath,
        /// The parent, with the scheme.
        file: String,
    },
    /// A directory where a file is required.
    #[error("{path} is a directory; name a file in it (`giveway dfs rm -r` removes directories)")]
    IsDirectory {
        /// The path of the directory.
        path: DfsPath,
    },
    /// Neither a file nor a directory.
    #[error("{path} does not exist; list the existing files with `giveway dfs ls`")]
    NotFound {
        /// The path in question.
        path: DfsPath,
    },
    /// A replication factor out of range.
    #[error("invalid number of replicas {replicas}; choose 1 to 16")]
    InvalidReplication {
        /// The requested number.
        replicas: u8,
    },
    /// Too few workers can store a block.
    #[error(
        "a block needs {needed} workers and {available} can store it; see `giveway nodes`, or choose fewer --replicas"
    )]
    TooFewWorkers {
        /// Replicas to be placed.
        needed: usize,
        /// Workers that are up and not excluded.
        available: usize,
    },
    /// The write id is unknown, or the committed blocks are not those allocated for it.
    #[error("this write has ended or its blocks do not match; store the file again")]
    UnknownWrite,
    /// Replicas were lost during the write and not restored in time.
    #[error(
        "{path} was not stored: {blocks} of its blocks lost replicas during the write; check `giveway nodes`, then store it again"
    )]
    UnderReplicated {
        /// The path of the file.
        path: DfsPath,
        /// Number of under-replicated blocks.
        blocks: usize,
    },
    /// I/O error in the coordinator's directory.
    #[error("the coordinator cannot write {}: {error}; check its disk and permissions", path.display())]
    Disk {
        /// The local file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}
