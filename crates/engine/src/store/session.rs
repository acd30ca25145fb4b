//! A client's session with the store. Writes that the client has not committed are abandoned when its connection ends.

use super::{DfsPath, Namespace, StoreError, StoreRequest, StoreResponse};
use crate::wire::{ToClient, Token};
use std::collections::BTreeSet;
use std::sync::Arc;

/// State of one client connection.
#[derive(Debug)]
pub struct StoreSession {
    namespace: Arc<Namespace>,
    token: Token,
    /// Writes in progress.
    writes: BTreeSet<u64>,
}

impl StoreSession {
    /// Begins a session for a new connection. `token` authenticates the coordinator to workers.
    pub fn new(namespace: Arc<Namespace>, token: Token) -> StoreSession {
        StoreSession { namespace, token, writes: BTreeSet::new() }
    }

    /// Carries out a request. It may block for long (disk, workers), so it must run on the connection's own thread.
    pub fn handle(&mut self, request: StoreRequest) -> ToClient {
        match self.execute(request) {
            Ok(response) => ToClient::Store(response),
            Err(error) => ToClient::Refused { reason: error.to_string() },
        }
    }

    fn execute(&mut self, request: StoreRequest) -> Result<StoreResponse, StoreError> {
        let namespace = &self.namespace;
        Ok(match request {
            StoreRequest::Create { path, replicas } => {
                let write_id = namespace.create(DfsPath::parse(&path)?, replicas)?;
                self.writes.insert(write_id);
                StoreResponse::Created { write_id }
            }
            StoreRequest::AllocateBlock { write_id, replaces, excluded } => {
                self.check_write(write_id)?;
                let (block, to) = namespace.allocate_block(write_id, replaces, &excluded)?;
                StoreResponse::BlockAllocated { block, to }
            }
            StoreRequest::Commit { write_id, blocks } => {
                self.check_write(write_id)?;
                let committed = namespace.commit(write_id, &blocks);
                // A failed commit ends the write.
                namespace.abandon(write_id);
                self.writes.remove(&write_id);
                committed?;
                StoreResponse::Done
            }
            StoreRequest::List { path, after } => {
                let (entries, more) = namespace.list(&DfsPath::parse(&path)?, after.as_deref())?;
                StoreResponse::Listed { entries, more }
            }
            StoreRequest::Stat { path } => {
                let manifest = namespace.file(&DfsPath::parse(&path)?)?;
                StoreResponse::File { bytes: manifest.bytes, blocks: manifest.block_positions() }
            }
            StoreRequest::Locate { block } => StoreResponse::Located(namespace.locations(block)),
            StoreRequest::Remove { path, recursive } => {
                namespace.remove(&DfsPath::parse(&path)?, recursive)?;
                StoreResponse::Done
            }
            StoreRequest::Fsck { repair } => StoreResponse::Fsck(Box::new(namespace.fsck(&self.token, repair))),
        })
    }

    /// Refuses writes of other sessions.
    fn check_write(&self, write_id: u64) -> Result<(), StoreError> {
        if self.writes.contains(&write_id) { Ok(()) } else { Err(StoreError::UnknownWrite) }
    }
}

impl Drop for StoreSession {
    fn drop(&mut self) {
        self.writes.iter().for_each(|&write_id| self.namespace.abandon(write_id));
    }
}
