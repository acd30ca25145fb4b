//! Storing and reading files from outside the cluster.

use super::data::{PIECE_BYTES_MAX, Sending};
use super::reader::{Asking, BlocksReader};
use super::{BLOCK_BYTES_MAX, BlockId, Entry, Health, Held, Holder, StoreAnswer, StoreRequest};
use crate::client::{Client, ClientError};
use crate::input::ReadAt;
use crate::wire::Token;
use giveway_core::NodeId;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long workers are looked for that take a block. One that died counts as there until it is found lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// Why a file was not stored or read.
#[derive(Debug, Error)]
pub enum PutError {
    /// The cluster says no.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// The local file cannot be read.
    #[error("{}: {error}", path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// A size that no block can have.
    #[error("blocks of {bytes} bytes make no sense; ask for 1 byte to 4 GiB")]
    BlockSize {
        /// What was asked for.
        bytes: u64,
    },
    /// Workers would not take a block.
    #[error("a block was not stored: {last}; {refused}")]
    NotTaken {
        /// What the coordinator says.
        refused: String,
        /// What the last worker said.
        last: String,
    },
}

/// A line to a cluster's store.
#[derive(Debug)]
pub struct StoreClient {
    client: Client,
    folder: PathBuf,
    token: Token,
}

impl StoreClient {
    /// Calls the coordinator of the cluster that lives in a folder.
    pub fn connect(folder: &Path) -> Result<StoreClient, ClientError> {
        let client = Client::connect(folder)?;
        let path = folder.join("token");
        let token = Token::read(&path).map_err(|error| ClientError::Folder { path, error })?;
        Ok(StoreClient { client, folder: folder.into(), token })
    }

    /// Stores a local file under a name. Returns its size and the number of its blocks; on any error there is no file of that name.
    pub fn put(&mut self, local: &Path, name: &str, block_bytes: u64, replicas: u8) -> Result<(u64, usize), PutError> {
        if !(1..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(PutError::BlockSize { bytes: block_bytes });
        }
        let failed = |error| PutError::Local { path: local.into(), error };
        let meta = std::fs::metadata(local).map_err(failed)?;
        if !meta.is_file() {
            return Err(failed(io::Error::other("not a regular file; name the files to store")));
        }
        let file = File::open(local).map_err(failed)?;
        let StoreAnswer::Created { put } = self.client.store(StoreRequest::Create { name: name.into(), replicas })?
        else {
            return Err(ClientError::UnexpectedAnswer.into());
        };
        let mut blocks = Vec::new();
        let mut offset = 0;
        while offset < meta.len() {
            let part = Part { local, file: &file, offset, bytes: block_bytes.min(meta.len() - offset) };
            blocks.push(self.put_block(put, &part)?);
            offset += part.bytes;
        }
        let count = blocks.len();
        match self.client.store(StoreRequest::Seal { put, blocks })? {
            StoreAnswer::Done => Ok((meta.len(), count)),
            _ => Err(ClientError::UnexpectedAnswer.into()),
        }
    }

    /// Writes a block to all the workers that should have it; if one fails, to others, under another number.
    fn put_block(&mut self, put: u64, part: &Part<'_>) -> Result<(Held, Vec<NodeId>), PutError> {
        let began = Instant::now();
        let (mut avoid, mut failed, mut last): (Vec<NodeId>, Option<BlockId>, String) = Default::default();
        loop {
            let request = StoreRequest::Allot { put, instead_of: failed.take(), avoid: avoid.clone() };
            let (block, to) = match self.client.store(request) {
                Ok(StoreAnswer::Allotted { block, to }) => (block, to),
                Ok(_) => return Err(ClientError::UnexpectedAnswer.into()),
                // Those that are left are too few: those that failed may be back, or be found lost, in a moment.
                Err(ClientError::Refused(_)) if !avoid.is_empty() && began.elapsed() < PATIENCE => {
                    avoid.clear();
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(ClientError::Refused(refused)) if !last.is_empty() => {
                    return Err(PutError::NotTaken { refused, last });
                }
                Err(error) => return Err(error.into()),
            };
            match part.send(&self.token, block, &to) {
                Ok(held) => return Ok((held, to.into_iter().map(|holder| holder.node).collect())),
                Err(NotSent::Local(error)) => return Err(PutError::Local { path: part.local.into(), error }),
                Err(NotSent::Worker(node, why)) if began.elapsed() < PATIENCE => {
                    last = format!("{node}: {why}");
                    failed = Some(block);
                    avoid.push(node);
                }
                Err(NotSent::Worker(node, why)) => {
                    let refused = "the workers do not take it; see `giveway nodes` and their logs".into();
                    return Err(PutError::NotTaken { refused, last: format!("{node}: {why}") });
                }
            }
        }
    }

    /// Writes a stored file's bytes.
    pub fn read(&mut self, name: &str, out: &mut impl Write) -> Result<(), ReadFailure> {
        let asked = self.client.store(StoreRequest::Stat { name: name.into() })?;
        let StoreAnswer::File { bytes, blocks } = asked else { return Err(ClientError::UnexpectedAnswer.into()) };
        let reader = BlocksReader::new(&blocks, None, self.token.clone(), Asking::new(self.folder.clone()));
        let mut buffer = vec![0; PIECE_BYTES_MAX];
        let mut at = 0;
        while at < bytes {
            let read = reader.read_at(at, &mut buffer).map_err(ReadFailure::Blocks)?;
            out.write_all(&buffer[..read]).map_err(ReadFailure::Out)?;
            at += read as u64;
        }
        out.flush().map_err(ReadFailure::Out)
    }

    /// What is in a folder.
    pub fn list(&mut self, path: &str) -> Result<Vec<Entry>, ClientError> {
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let after = all.last().map(|entry| entry.name.trim_start_matches(super::SCHEME).to_owned());
            match self.client.store(StoreRequest::List { path: path.into(), after })? {
                StoreAnswer::Listed { entries, more } => {
                    all.extend(entries);
                    if !more {
                        return Ok(all);
                    }
                }
                _ => return Err(ClientError::UnexpectedAnswer),
            }
        }
    }

    /// Removes a file, or a folder with all that is in it.
    pub fn remove(&mut self, name: &str, recursive: bool) -> Result<(), ClientError> {
        self.client.store(StoreRequest::Remove { name: name.into(), recursive }).map(drop)
    }

    /// Has every replica read, and says what is wrong.
    pub fn check(&mut self) -> Result<Health, ClientError> {
        match self.client.store(StoreRequest::Check)? {
            StoreAnswer::Checked(health) => Ok(*health),
            _ => Err(ClientError::UnexpectedAnswer),
        }
    }
}

/// Why a stored file was not read to its end.
#[derive(Debug, Error)]
pub enum ReadFailure {
    /// The cluster says no.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// No worker gives a block.
    #[error("{0}")]
    Blocks(io::Error),
    /// It cannot be written where it should go.
    #[error(transparent)]
    Out(io::Error),
}

/// A piece of a local file that becomes a block.
struct Part<'a> {
    local: &'a Path,
    file: &'a File,
    offset: u64,
    bytes: u64,
}

/// Why a block did not get to where it should.
enum NotSent {
    Local(io::Error),
    Worker(NodeId, io::Error),
}

impl Part<'_> {
    /// Sends it to each of the workers, and waits until all have it on disk.
    fn send(&self, token: &Token, block: BlockId, to: &[Holder]) -> Result<Held, NotSent> {
        let mut sendings = Vec::new();
        for holder in to {
            let begun = Sending::begin(&holder.address, token, block, self.bytes);
            sendings.push((holder.node, begun.map_err(|error| NotSent::Worker(holder.node, error))?));
        }
        let mut buffer = vec![0; PIECE_BYTES_MAX.min(self.bytes as usize)];
        let mut done = 0;
        while done < self.bytes {
            let piece = (self.bytes - done).min(buffer.len() as u64) as usize;
            self.file.read_exact_at(&mut buffer[..piece], self.offset + done).map_err(NotSent::Local)?;
            for (node, sending) in &mut sendings {
                sending.send(&buffer[..piece]).map_err(|error| NotSent::Worker(*node, error))?;
            }
            done += piece as u64;
        }
        let mut all: Option<Held> = None;
        for (node, sending) in sendings {
            let held = sending.finish().map_err(|error| NotSent::Worker(node, error))?;
            if *all.get_or_insert(held) != held {
                return Err(NotSent::Worker(node, io::Error::other("it stored something else than the others")));
            }
        }
        Ok(all.expect("a block goes to at least one worker"))
    }
}
