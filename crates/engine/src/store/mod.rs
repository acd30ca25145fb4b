//! The block store: files in blocks, with replicas in the workers' own folders.
//!
//! The coordinator keeps the names (`catalog.rs`): one *manifest* a file (`manifest.rs`) says of which blocks it is. Where the replicas are it keeps
//! in memory only (`holdings.rs`), because the workers know it better: each keeps a *shelf* of block files (`shelf.rs`, `block.rs`)
//! and says what is on it whenever it calls. Bytes never pass through the coordinator: who stores a file writes its blocks to workers,
//! who reads one reads them from workers (`data.rs`), and a worker that has a replica itself reads its own disk (`reader.rs`).
//!
//! A file exists from the moment its manifest is renamed into place, which is after every block has all its replicas on disk. Whatever
//! is cut short before leaves blocks that belong to no file, and those are collected. A replica is checked whenever it is read; a
//! bad one is set aside, and the coordinator has another made from a sound one, as it does when a worker is lost (`repair.rs`).
//!
//! What never lives here: choosing where tasks run. The core is told where replicas are and makes of it what its policy says.

mod block;
mod catalog;
mod check;
mod client;
mod data;
mod error;
mod holdings;
mod manifest;
mod message;
mod name;
mod reader;
mod repair;
mod session;
mod shelf;

pub use block::BLOCK_BYTES_MAX;
pub use catalog::Catalog;
pub use client::{PutError, ReadFailure, StoreClient};
pub use error::StoreError;
pub use message::*;
pub use name::{Name, SCHEME};
pub use reader::{OnCoordinator, OnWorker};
pub use session::Session;
pub use shelf::Shelf;

pub(crate) use data::{obey, serve_check, serve_read, serve_write};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// The number of a block: random, so that no number is ever used twice, whatever is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(pub u64);

impl BlockId {
    fn random() -> io::Result<BlockId> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
        Ok(BlockId(u64::from_le_bytes(bytes)))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    fn parse(text: &str) -> Option<BlockId> {
        let plain = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        plain.then(|| u64::from_str_radix(text, 16).ok().map(BlockId))?
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Brings the names in a folder to the disk: a rename is only then there to stay.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
