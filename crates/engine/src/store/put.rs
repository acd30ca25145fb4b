//! How a file comes about: a put is begun, its blocks are allotted and written, and it is sealed.
//!
//! Until its manifest is in place, a put is in memory only and nobody sees it. One that is never sealed, because its writer or the
//! coordinator went, leaves blocks that belong to no file.

use super::catalog::{Catalog, disk};
use super::manifest::Manifest;
use super::{BlockId, Held, Holder, Name, StoreError};
use giveway_core::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More replicas than this are a typing error.
const REPLICAS_MOST: u8 = 16;

/// How long a put waits for workers that have called and not yet said what they have.
const CALLERS_PATIENCE: Duration = Duration::from_secs(2);

/// How long a put waits for replicas that went while it was being written.
const SEAL_PATIENCE: Duration = Duration::from_secs(30);

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Put {
    name: Name,
    replicas: u8,
    blocks: BTreeSet<BlockId>,
}

impl Catalog {
    /// Begins to store a file.
    pub(super) fn create(&self, name: Name, replicas: u8) -> Result<u64, StoreError> {
        if !(1..=REPLICAS_MOST).contains(&replicas) {
            return Err(StoreError::Replicas { replicas });
        }
        if self.manifests.path(&name).is_file() {
            // Even one that cannot be read is nothing to write over.
            return Err(StoreError::Exists { name });
        }
        self.wait_for_callers();
        let mut state = self.state();
        state.check_free(&name)?;
        if state.puts.values().any(|put| put.name == name) {
            return Err(StoreError::BeingWritten { name });
        }
        if state.holdings.up() == 0 {
            return Err(StoreError::Nowhere { wanted: 1, found: 0 });
        }
        let put = state.next_put;
        state.next_put += 1;
        state.puts.insert(put, Put { name, replicas, blocks: BTreeSet::new() });
        Ok(put)
    }

    /// A cluster that has just come up is complete in a moment: workers have called, and what they have is on its way.
    fn wait_for_callers(&self) {
        let began = Instant::now();
        while self.state().holdings.has_callers() && began.elapsed() < CALLERS_PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A number and places for a put's next block.
    pub(super) fn allot(
        &self,
        put: u64,
        instead_of: Option<BlockId>,
        avoid: &[NodeId],
    ) -> Result<(BlockId, Vec<Holder>), StoreError> {
        let block = BlockId::random().map_err(|error| StoreError::Disk { path: "/dev/urandom".into(), error })?;
        let state = &mut *self.state();
        let known = state.puts.get_mut(&put).ok_or(StoreError::NoPut)?;
        if let Some(failed) = instead_of.filter(|failed| known.blocks.remove(failed)) {
            state.holdings.drop_block(failed);
        }
        let wanted = usize::from(known.replicas).min(state.holdings.up()).max(1);
        let targets = state.holdings.targets(wanted, |node| avoid.contains(&node), Instant::now());
        if targets.len() < wanted {
            return Err(StoreError::Nowhere { wanted, found: targets.len() });
        }
        known.blocks.insert(block);
        state.holdings.add(block, known.replicas, None);
        Ok((block, targets))
    }

    /// Makes a put a file, once each of its blocks has all the replicas it should have.
    pub(super) fn seal(&self, put: u64, blocks: &[(Held, Vec<NodeId>)]) -> Result<(), StoreError> {
        let (name, manifest) = self.take_blocks(put, blocks)?;
        self.wait_until_whole(&name, &manifest)?;
        let _naming = self.naming();
        // Others may have taken the name, or a folder of it, since the put began.
        self.state().check_free(&name)?;
        if let Err(error) = self.manifests.write(put, &name, &manifest) {
            // It may be there all the same, and its blocks are about to go.
            let _ = self.manifests.remove(&name);
            return Err(disk(self.manifests.path(&name), error));
        }
        let mut state = self.state();
        state.puts.remove(&put);
        state.files.insert(name, Arc::new(manifest));
        Ok(())
    }

    /// Takes the client's word for where its blocks are: it has heard it from the workers, whose own news may come later.
    fn take_blocks(&self, put: u64, blocks: &[(Held, Vec<NodeId>)]) -> Result<(Name, Manifest), StoreError> {
        let state = &mut *self.state();
        let known = state.puts.get(&put).ok_or(StoreError::NoPut)?;
        let named: BTreeSet<BlockId> = blocks.iter().map(|(held, _)| held.block).collect();
        if named != known.blocks || named.len() != blocks.len() {
            return Err(StoreError::NoPut);
        }
        for (held, nodes) in blocks {
            state.holdings.add(held.block, known.replicas, Some(*held));
            for &node in nodes.iter().filter(|&&node| state.holdings.holder(node).is_some()).collect::<Vec<_>>() {
                state.holdings.holds(node, *held, Instant::now());
            }
        }
        let held = blocks.iter().map(|(held, _)| *held).collect();
        Ok((known.name.clone(), Manifest::new(known.replicas, held)))
    }

    fn wait_until_whole(&self, name: &Name, manifest: &Manifest) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            let wanting = {
                let holdings = &self.state().holdings;
                let wanted = usize::from(manifest.replicas).min(holdings.up()).max(1);
                manifest.blocks.iter().filter(|held| holdings.holders(held.block).len() < wanted).count()
            };
            if wanting == 0 {
                return Ok(());
            }
            if began.elapsed() > SEAL_PATIENCE {
                return Err(StoreError::NotWhole { name: name.clone(), blocks: wanting });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A put will never be sealed: its blocks belong to nothing.
    pub(super) fn abandon(&self, put: u64) {
        let state = &mut *self.state();
        if let Some(put) = state.puts.remove(&put) {
            put.blocks.into_iter().for_each(|block| state.holdings.drop_block(block));
        }
    }
}
