//! The block store: files in blocks, with replicas in the workers' own directories. The roles are those of HDFS: the coordinator is the NameNode,
//! workers are the DataNodes.
//!
//! The coordinator holds the namespace (`namespace.rs`, `pending_file.rs`): one *manifest* per file (`manifest.rs`) lists the file's blocks. The
//! locations of replicas are in memory only (`replica_map.rs`), because the workers have the authoritative state: each has a block store, a directory
//! of block files (`block_store.rs`, `block.rs`), and reports its content whenever it connects. File content never passes through the coordinator:
//! clients write blocks to workers and read them from workers (`transfer.rs`); a worker that has a replica reads its own disk (`reader.rs`).
//!
//! A file exists from the moment its manifest is renamed into place, which is after every block has all its replicas on disk. An interrupted write
//! leaves orphaned blocks, which are deleted later. A replica's checksums are verified whenever it is read; a corrupt one is quarantined, and the
//! coordinator has another made from a valid one, as it does when a worker is lost (`repair.rs`).
//!
//! Not here: choosing where tasks run. The core receives the replica locations and applies its placement policy.

mod block;
mod block_store;
mod client;
mod error;
mod fsck;
mod manifest;
mod message;
mod namespace;
mod path;
mod pending_file;
mod reader;
mod repair;
mod replica_map;
mod session;
mod transfer;

pub use block::BLOCK_BYTES_MAX;
pub use block_store::BlockStore;
pub use client::{PutError, ReadError, StoreClient};
pub use error::StoreError;
pub use message::*;
pub use namespace::Namespace;
pub use path::{DfsPath, SCHEME};
pub(crate) use reader::RunnerStoreAccess;
pub use reader::{CoordinatorStoreAccess, WorkerStoreAccess};
pub use session::StoreSession;

pub(crate) use manifest::read_manifest;
pub(crate) use transfer::{execute, serve_read, serve_verify, serve_write};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// The id of a block: a random number, so that an id is never reused, even after the coordinator has lost its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(pub u64);

impl BlockId {
    fn random() -> io::Result<BlockId> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)
            .map_err(|error| io::Error::other(format!("the system's random source failed: {error}")))?;
        Ok(BlockId(u64::from_le_bytes(bytes)))
    }

    /// Parses the output of [`Display`](fmt::Display): 16 lower-case hexadecimal digits.
    fn parse(text: &str) -> Option<BlockId> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| u64::from_str_radix(text, 16).ok().map(BlockId))?
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Syncs a directory. A rename in it is durable only after this returns.
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
