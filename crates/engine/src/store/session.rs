//! One user's dealings with the store. What they began and did not end is over when their line is.

use super::{Catalog, Name, StoreAnswer, StoreError, StoreRequest};
use crate::wire::{ToClient, Token};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A user's line, as the store sees it.
#[derive(Debug)]
pub struct Session {
    catalog: Arc<Catalog>,
    token: Token,
    puts: BTreeSet<u64>,
}

impl Session {
    /// For a line that has just come about.
    pub fn new(catalog: Arc<Catalog>, token: Token) -> Session {
        Session { catalog, token, puts: BTreeSet::new() }
    }

    /// Does what a user asks for. May take its time: nobody else waits for it.
    pub fn answer(&mut self, request: StoreRequest) -> ToClient {
        match self.attempt(request) {
            Ok(answer) => ToClient::Store(answer),
            Err(error) => ToClient::Refused { reason: error.to_string() },
        }
    }

    fn attempt(&mut self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let catalog = &self.catalog;
        Ok(match request {
            StoreRequest::Create { name, replicas } => {
                let put = catalog.create(Name::parse(&name)?, replicas)?;
                self.puts.insert(put);
                StoreAnswer::Created { put }
            }
            StoreRequest::Allot { put, instead_of, avoid } => {
                self.check_put(put)?;
                let (block, to) = catalog.allot(put, instead_of, &avoid)?;
                StoreAnswer::Allotted { block, to }
            }
            StoreRequest::Seal { put, blocks } => {
                self.check_put(put)?;
                let sealed = catalog.seal(put, &blocks);
                // After a failure there is nothing to be done with it any more.
                catalog.abandon(put);
                self.puts.remove(&put);
                sealed?;
                StoreAnswer::Done
            }
            StoreRequest::List { path, after } => {
                let (entries, more) = catalog.list(&Name::parse(&path)?, after.as_deref())?;
                StoreAnswer::Listed { entries, more }
            }
            StoreRequest::Stat { name } => {
                let manifest = catalog.file(&Name::parse(&name)?)?;
                StoreAnswer::File { bytes: manifest.bytes, blocks: manifest.places() }
            }
            StoreRequest::Locate { block } => StoreAnswer::At(catalog.holders(block)),
            StoreRequest::Remove { name, recursive } => {
                catalog.remove(&Name::parse(&name)?, recursive)?;
                StoreAnswer::Done
            }
            StoreRequest::Check => StoreAnswer::Checked(Box::new(catalog.check(&self.token))),
        })
    }

    /// Puts of other lines are none of this one's business.
    fn check_put(&self, put: u64) -> Result<(), StoreError> {
        if self.puts.contains(&put) { Ok(()) } else { Err(StoreError::NoPut) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.puts.iter().for_each(|&put| self.catalog.abandon(put));
    }
}
