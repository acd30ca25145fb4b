//! Writing a file: it is created, its blocks are allocated and written, and it is committed.
//!
//! Until its manifest is in place, a pending file is in memory only and not visible. A write that is never committed, because its client or the
//! coordinator ended, leaves orphaned blocks.

use super::manifest::Manifest;
use super::namespace::{Namespace, disk_error};
use super::{BlockId, BlockInfo, DfsPath, StoreError, WorkerEndpoint};
use giveway_core::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit of the replication factor; a larger one is taken for a typing error.
const REPLICAS_MAX: u8 = 16;

/// How long a new write waits for the full reports of workers that are connected.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a commit waits for replicas that were lost during the write to be restored.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A file that is being written.
#[derive(Debug)]
pub(super) struct PendingFile {
    path: DfsPath,
    replicas: u8,
    /// Blocks allocated so far.
    blocks: BTreeSet<BlockId>,
}

impl Namespace {
    /// Begins to write a file. Returns the id of the write.
    pub(super) fn create(&self, path: DfsPath, replicas: u8) -> Result<u64, StoreError> {
        if !(1..=REPLICAS_MAX).contains(&replicas) {
            return Err(StoreError::InvalidReplication { replicas });
        }
        if self.manifests.local_path(&path).is_file() {
            // An unreadable manifest must not be overwritten either.
            return Err(StoreError::Exists { path });
        }
        self.wait_for_reports();
        let mut state = self.state();
        state.check_free(&path)?;
        if state.pending_files.values().any(|pending| pending.path == path) {
            return Err(StoreError::BeingWritten { path });
        }
        if state.replica_map.up_count() == 0 {
            return Err(StoreError::TooFewWorkers { needed: 1, available: 0 });
        }
        let write_id = state.next_write_id;
        state.next_write_id += 1;
        state.pending_files.insert(write_id, PendingFile { path, replicas, blocks: BTreeSet::new() });
        Ok(write_id)
    }

    /// Waits for the full reports of connected workers. Right after a cluster's start they arrive within moments, and without them a file
    /// would be placed on too few workers.
    fn wait_for_reports(&self) {
        let began = Instant::now();
        while self.state().replica_map.has_pending_report() && began.elapsed() < REPORT_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Allocates the next block of a write: its id and the workers that store it. `replaces` is a block whose write failed.
    pub(super) fn allocate_block(
        &self,
        write_id: u64,
        replaces: Option<BlockId>,
        excluded: &[NodeId],
    ) -> Result<(BlockId, Vec<WorkerEndpoint>), StoreError> {
        let block = BlockId::random().map_err(|error| StoreError::Disk { path: "/dev/urandom".into(), error })?;
        let state = &mut *self.state();
        let pending = state.pending_files.get_mut(&write_id).ok_or(StoreError::UnknownWrite)?;
        if let Some(failed) = replaces.filter(|failed| pending.blocks.remove(failed)) {
            state.replica_map.remove_block(failed);
        }
        let needed = usize::from(pending.replicas).min(state.replica_map.up_count()).max(1);
        let targets = state.replica_map.choose_targets(needed, |node| excluded.contains(&node), Instant::now());
        if targets.len() < needed {
            return Err(StoreError::TooFewWorkers { needed, available: targets.len() });
        }
        pending.blocks.insert(block);
        state.replica_map.add_block(block, pending.replicas, None);
        Ok((block, targets))
    }

    /// Makes a pending file visible once each of its blocks has all its replicas. On an error the write must be abandoned.
    pub(super) fn commit(&self, write_id: u64, blocks: &[(BlockInfo, Vec<NodeId>)]) -> Result<(), StoreError> {
        let (path, manifest) = self.record_blocks(write_id, blocks)?;
        self.wait_for_replication(&path, &manifest)?;
        let _guard = self.lock_paths();
        // Another file may have taken the path, or one of its parents, since the write began.
        self.state().check_free(&path)?;
        if let Err(error) = self.manifests.write(write_id, &path, &manifest) {
            // The manifest may be in place all the same, and its blocks are about to be deleted.
            let _ = self.manifests.remove(&path);
            return Err(disk_error(self.manifests.local_path(&path), error));
        }
        let mut state = self.state();
        state.pending_files.remove(&write_id);
        state.files.insert(path, Arc::new(manifest));
        Ok(())
    }

    /// Records the replicas as the client reports them: it has the workers' confirmations, while their own reports may arrive later.
    fn record_blocks(
        &self,
        write_id: u64,
        blocks: &[(BlockInfo, Vec<NodeId>)],
    ) -> Result<(DfsPath, Manifest), StoreError> {
        let state = &mut *self.state();
        let pending = state.pending_files.get(&write_id).ok_or(StoreError::UnknownWrite)?;
        let ids: BTreeSet<BlockId> = blocks.iter().map(|(info, _)| info.block).collect();
        if ids != pending.blocks || ids.len() != blocks.len() {
            return Err(StoreError::UnknownWrite);
        }
        for (info, nodes) in blocks {
            state.replica_map.add_block(info.block, pending.replicas, Some(*info));
            for &node in nodes.iter().filter(|&&node| state.replica_map.endpoint(node).is_some()).collect::<Vec<_>>() {
                state.replica_map.add_replica(node, *info, Instant::now());
            }
        }
        let infos = blocks.iter().map(|(info, _)| *info).collect();
        Ok((pending.path.clone(), Manifest::new(pending.replicas, infos)))
    }

    fn wait_for_replication(&self, path: &DfsPath, manifest: &Manifest) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            let under_replicated = {
                let replica_map = &self.state().replica_map;
                let needed = usize::from(manifest.replicas).min(replica_map.up_count()).max(1);
                manifest.blocks.iter().filter(|info| replica_map.locations(info.block).len() < needed).count()
            };
            if under_replicated == 0 {
                return Ok(());
            }
            if began.elapsed() > COMMIT_TIMEOUT {
                return Err(StoreError::UnderReplicated { path: path.clone(), blocks: under_replicated });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Abandons a write: its blocks are deleted. Does nothing after a commit.
    pub(super) fn abandon(&self, write_id: u64) {
        let state = &mut *self.state();
        if let Some(pending) = state.pending_files.remove(&write_id) {
            pending.blocks.into_iter().for_each(|block| state.replica_map.remove_block(block));
        }
    }
}
