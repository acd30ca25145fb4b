//! Client of the store: writes and reads files from outside the cluster.

use super::reader::{CoordinatorLocator, StoredFileReader};
use super::transfer::{BlockSender, PACKET_BYTES_MAX};
use super::{BLOCK_BYTES_MAX, BlockId, BlockInfo, Entry, FsckReport, StoreRequest, StoreResponse, WorkerEndpoint};
use crate::access;
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

/// How long the write of a block is retried on other workers. A worker that died counts as up until its heartbeats time out.
const BLOCK_WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// Delay between two allocations if too few workers are left.
const RETRY_DELAY: Duration = Duration::from_millis(300);

/// Why a file was not stored.
#[derive(Debug, Error)]
pub enum PutError {
    /// The coordinator refused the request or is unreachable.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// The local file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Local {
        /// The local file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A block size out of range.
    #[error("invalid block size of {bytes} bytes; choose 1 byte to 4 GiB")]
    BlockSize {
        /// The requested size.
        bytes: u64,
    },
    /// No set of workers stored a block.
    #[error("a block was not stored: {last}; {hint}")]
    BlockNotStored {
        /// The coordinator's refusal, or advice.
        hint: String,
        /// The error of the last worker that failed.
        last: String,
    },
}

/// Why a stored file was not read to its end.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The coordinator refused the request or is unreachable.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// No worker has a valid replica of a block.
    #[error("{0}")]
    Blocks(io::Error),
    /// The output cannot be written.
    #[error(transparent)]
    Output(io::Error),
}

/// A connection to a cluster's store.
#[derive(Debug)]
pub struct StoreClient {
    client: Client,
    dir: PathBuf,
    token: Token,
}

impl StoreClient {
    /// Connects to the coordinator of the cluster in a directory.
    pub fn connect(dir: &Path) -> Result<StoreClient, ClientError> {
        let client = Client::connect(dir)?;
        let path = dir.join("token");
        let token = Token::read(&path).map_err(|error| match error.kind() {
            // An admitted user of another one's cluster.
            io::ErrorKind::PermissionDenied => ClientError::Refused(access::STORED_FILES_REFUSED.into()),
            _ => ClientError::Folder { path, error },
        })?;
        Ok(StoreClient { client, dir: dir.into(), token })
    }

    /// Stores a local file under a path. Returns its size and the number of its blocks. After an error there is no file of that path.
    pub fn put(&mut self, local: &Path, path: &str, block_bytes: u64, replicas: u8) -> Result<(u64, usize), PutError> {
        if !(1..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(PutError::BlockSize { bytes: block_bytes });
        }
        let unreadable = |error| PutError::Local { path: local.into(), error };
        let metadata = std::fs::metadata(local).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::other("not a regular file; name the files to store")));
        }
        let file = File::open(local).map_err(unreadable)?;
        let StoreResponse::Created { write_id } =
            self.client.store(StoreRequest::Create { path: path.into(), replicas })?
        else {
            return Err(ClientError::UnexpectedAnswer.into());
        };
        let mut blocks = Vec::new();
        let mut offset = 0;
        while offset < metadata.len() {
            let range = FileRange { local, file: &file, offset, bytes: block_bytes.min(metadata.len() - offset) };
            blocks.push(self.put_block(write_id, &range)?);
            offset += range.bytes;
        }
        let count = blocks.len();
        match self.client.store(StoreRequest::Commit { write_id, blocks })? {
            StoreResponse::Done => Ok((metadata.len(), count)),
            _ => Err(ClientError::UnexpectedAnswer.into()),
        }
    }

    /// Writes a block to all its workers. If one fails, the block is replaced by a new one on other workers.
    fn put_block(&mut self, write_id: u64, range: &FileRange<'_>) -> Result<(BlockInfo, Vec<NodeId>), PutError> {
        let began = Instant::now();
        let (mut excluded, mut failed, mut last): (Vec<NodeId>, Option<BlockId>, String) = Default::default();
        loop {
            let request = StoreRequest::AllocateBlock { write_id, replaces: failed.take(), excluded: excluded.clone() };
            let (block, to) = match self.client.store(request) {
                Ok(StoreResponse::BlockAllocated { block, to }) => (block, to),
                Ok(_) => return Err(ClientError::UnexpectedAnswer.into()),
                // Too few workers are left. Those that failed may soon be up again, or be detected as lost.
                Err(ClientError::Refused(_)) if !excluded.is_empty() && began.elapsed() < BLOCK_WRITE_TIMEOUT => {
                    excluded.clear();
                    thread::sleep(RETRY_DELAY);
                    continue;
                }
                Err(ClientError::Refused(hint)) if !last.is_empty() => {
                    return Err(PutError::BlockNotStored { hint, last });
                }
                Err(error) => return Err(error.into()),
            };
            match range.send(&self.token, block, &to) {
                Ok(info) => return Ok((info, to.into_iter().map(|worker| worker.node).collect())),
                Err(SendError::Local(error)) => return Err(PutError::Local { path: range.local.into(), error }),
                Err(SendError::Worker(node, error)) if began.elapsed() < BLOCK_WRITE_TIMEOUT => {
                    last = format!("{node}: {error}");
                    failed = Some(block);
                    excluded.push(node);
                }
                Err(SendError::Worker(node, error)) => {
                    let hint = "check `giveway nodes` and the workers' logs".into();
                    return Err(PutError::BlockNotStored { hint, last: format!("{node}: {error}") });
                }
            }
        }
    }

    /// Writes the content of a stored file to `out`.
    pub fn read(&mut self, path: &str, out: &mut impl Write) -> Result<(), ReadError> {
        let response = self.client.store(StoreRequest::Stat { path: path.into() })?;
        let StoreResponse::File { bytes, blocks } = response else { return Err(ClientError::UnexpectedAnswer.into()) };
        let locator = CoordinatorLocator::new(self.dir.clone());
        let reader = StoredFileReader::new(&blocks, None, self.token.clone(), locator);
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        let mut offset = 0;
        while offset < bytes {
            let read = reader.read_at(offset, &mut buffer).map_err(ReadError::Blocks)?;
            out.write_all(&buffer[..read]).map_err(ReadError::Output)?;
            offset += read as u64;
        }
        out.flush().map_err(ReadError::Output)
    }

    /// Lists a directory, or a single file.
    pub fn list(&mut self, path: &str) -> Result<Vec<Entry>, ClientError> {
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let after = all.last().map(|entry| entry.path.trim_start_matches(super::SCHEME).to_owned());
            match self.client.store(StoreRequest::List { path: path.into(), after })? {
                StoreResponse::Listed { entries, more } => {
                    all.extend(entries);
                    if !more {
                        return Ok(all);
                    }
                }
                _ => return Err(ClientError::UnexpectedAnswer),
            }
        }
    }

    /// Removes a file, or a directory with its content.
    pub fn remove(&mut self, path: &str, recursive: bool) -> Result<(), ClientError> {
        self.client.store(StoreRequest::Remove { path: path.into(), recursive }).map(drop)
    }

    /// Has every replica verified. With `repair`, replicas that belong to no file are deleted. Takes as long as the workers need to read all their replicas.
    pub fn fsck(&mut self, repair: bool) -> Result<FsckReport, ClientError> {
        match self.client.store(StoreRequest::Fsck { repair })? {
            StoreResponse::Fsck(report) => Ok(*report),
            _ => Err(ClientError::UnexpectedAnswer),
        }
    }
}

/// A range of a local file that becomes a block.
struct FileRange<'a> {
    local: &'a Path,
    file: &'a File,
    offset: u64,
    bytes: u64,
}

/// Why a block was not sent.
enum SendError {
    /// The local file cannot be read.
    Local(io::Error),
    /// A worker failed.
    Worker(NodeId, io::Error),
}

impl FileRange<'_> {
    /// Sends the range to each of the workers and waits until all have it on disk.
    fn send(&self, token: &Token, block: BlockId, to: &[WorkerEndpoint]) -> Result<BlockInfo, SendError> {
        let mut senders = Vec::new();
        for worker in to {
            let sender = BlockSender::begin(&worker.address, token, block, self.bytes);
            senders.push((worker.node, sender.map_err(|error| SendError::Worker(worker.node, error))?));
        }
        let mut buffer = vec![0; PACKET_BYTES_MAX.min(self.bytes as usize)];
        let mut done = 0;
        while done < self.bytes {
            let packet = (self.bytes - done).min(buffer.len() as u64) as usize;
            self.file.read_exact_at(&mut buffer[..packet], self.offset + done).map_err(SendError::Local)?;
            for (node, sender) in &mut senders {
                sender.send(&buffer[..packet]).map_err(|error| SendError::Worker(*node, error))?;
            }
            done += packet as u64;
        }
        let mut first: Option<BlockInfo> = None;
        for (node, sender) in senders {
            let info = sender.finish().map_err(|error| SendError::Worker(node, error))?;
            if *first.get_or_insert(info) != info {
                return Err(SendError::Worker(node, io::Error::other("its replica differs from those of the others")));
            }
        }
        Ok(first.expect("a block is sent to at least one worker"))
    }
}
