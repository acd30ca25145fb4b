//! Repair: under-replicated blocks get more replicas, over-replicated ones fewer, and orphans are deleted.
//!
//! A copy is made by a worker that has the block. The number of concurrent copies is limited, so that the loss of a worker does not overload the
//! others. Nothing is deleted unless enough valid replicas have been reported by workers that are up.

use super::replica_map::{Node, NodeState, PendingCopy, ReplicaMap};
use super::{BlockId, StoreCommand};
use giveway_core::NodeId;
use std::time::{Duration, Instant};

/// Limit of concurrent copies in the whole cluster.
const COPIES_MAX: usize = 4;

/// When a copy without a result is considered failed.
const COPY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long orphans are retained.
const ORPHAN_RETENTION: Duration = Duration::from_secs(600);

/// Share of the blocks, in parts per thousand, that must have a reported replica before orphans are deleted (HDFS leaves its safe mode at 999, too).
const REPORTED_PER_MILLE_MIN: u64 = 999;

/// Limit of blocks checked per call of [`ReplicaMap::repair`].
const BLOCKS_PER_CALL_MAX: usize = 1000;

impl ReplicaMap {
    /// Returns the commands to be sent now. `may_delete_orphans` must be false unless all files are known.
    pub(super) fn repair(&mut self, now: Instant, may_delete_orphans: bool) -> Vec<(NodeId, StoreCommand)> {
        self.pending_copies.retain(|&block, copy| {
            let is_pending = copy.deadline > now;
            if !is_pending {
                self.replication_queue.insert(block);
            }
            is_pending
        });
        if now >= self.safe_mode_until && self.awaited_nodes().next().is_none() {
            let queued: Vec<BlockId> = self.replication_queue.iter().copied().take(BLOCKS_PER_CALL_MAX).collect();
            for block in queued {
                if self.repair_block(block, now) {
                    self.replication_queue.remove(&block);
                }
            }
            self.delete_corrupt();
            if may_delete_orphans && self.has_enough_reports() {
                self.delete_orphans(now, ORPHAN_RETENTION);
            }
        }
        std::mem::take(&mut self.commands)
    }

    /// True if almost every block of a file has a replica that was reported. If many are unknown, a worker or a disk is missing, and what looks like
    /// an orphan may be all that is left of something.
    pub(super) fn has_enough_reports(&self) -> bool {
        let written = || self.blocks.values().filter(|block| block.info.is_some());
        let located = written().filter(|block| !block.holders.is_empty()).count() as u64;
        located * 1000 >= written().count() as u64 * REPORTED_PER_MILLE_MIN
    }

    /// Names of the workers that are expected to be up and whose full report has not arrived.
    pub(super) fn awaited_nodes(&self) -> impl Iterator<Item = &str> {
        let is_awaited = |node: &&Node| matches!(node.state, NodeState::AwaitingReport(_));
        self.nodes.iter().filter(is_awaited).map(|node| node.name.as_str())
    }

    /// Brings a block one step nearer to its number of replicas. Returns true if nothing more can be done before the next report about it.
    fn repair_block(&mut self, id: BlockId, now: Instant) -> bool {
        let Some(block) = self.blocks.get(&id) else { return true };
        // It is being written or copied; both end with a report or a timeout.
        if block.info.is_none() || self.pending_copies.contains_key(&id) {
            return true;
        }
        let (live, target) = (block.holders.len(), self.target_replicas(block));
        if live > target {
            let fullest = block.holders.iter().max_by_key(|node| self.nodes[node.0 as usize].bytes).copied();
            self.delete_replica(fullest.expect("at least one holder"), id);
            return live - 1 == target;
        }
        if live == target || live == 0 {
            return true;
        }
        if self.pending_copies.len() >= COPIES_MAX {
            return false;
        }
        let holders = block.holders.clone();
        let copies_from = |node: &NodeId| self.pending_copies.values().filter(|copy| copy.from == *node).count();
        let from = *holders.iter().min_by_key(|node| copies_from(node)).expect("at least one holder");
        let is_excluded = |node: &NodeId| self.nodes[node.0 as usize].excluded_until > now;
        let unsuitable: Vec<NodeId> = (0..self.nodes.len() as u32)
            .map(NodeId)
            .filter(|node| holders.contains(node) || is_excluded(node))
            .collect();
        let Some(to) = self.choose_targets(1, |node| unsuitable.contains(&node), now).pop() else { return false };
        self.pending_copies.insert(id, PendingCopy { from, to: to.node, deadline: now + COPY_TIMEOUT });
        self.commands.push((from, StoreCommand::Replicate { block: id, to: to.node, address: to.address }));
        true
    }

    /// Has quarantined replicas deleted whose blocks have enough valid ones.
    fn delete_corrupt(&mut self) {
        let is_replaced = |&&(block, _): &&(BlockId, NodeId)| {
            self.blocks.get(&block).is_some_and(|block| block.holders.len() >= self.target_replicas(block))
        };
        let replaced: Vec<_> = self.corrupt.iter().filter(is_replaced).copied().collect();
        for (block, node) in replaced {
            self.corrupt.remove(&(block, node));
            self.commands.push((node, StoreCommand::DeleteCorrupt { block }));
        }
    }

    /// Has replicas deleted that have belonged to no file for at least `retention`. Returns their number.
    pub(super) fn delete_orphans(&mut self, now: Instant, retention: Duration) -> u64 {
        let is_due = |since: &Instant| now.saturating_duration_since(*since) >= retention;
        let orphans: Vec<_> = self.orphans.iter().filter(|(_, since)| is_due(since)).map(|(&key, _)| key).collect();
        orphans.iter().for_each(|&(block, node)| self.delete_replica(node, block));
        orphans.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockInfo, StoreReport};
    use super::*;

    const SAFE_MODE: Duration = Duration::from_secs(5);

    /// A replica map and a manual clock.
    struct Fixture {
        replica_map: ReplicaMap,
        now: Instant,
    }

    fn info(block: u64) -> BlockInfo {
        BlockInfo { block: BlockId(block), bytes: 10, checksum: block as u32 }
    }

    impl Fixture {
        /// With this many nodes, all up and empty.
        fn new(nodes: u32) -> Fixture {
            let now = Instant::now();
            let mut fixture = Fixture { replica_map: ReplicaMap::new(now + SAFE_MODE), now: now + SAFE_MODE };
            (0..nodes).for_each(|node| fixture.up(node, &[]));
            fixture
        }

        fn up(&mut self, node: u32, blocks: &[u64]) {
            self.replica_map.on_node_joined(NodeId(node), &format!("n{node}"), &format!("at-{node}"), self.now);
            let blocks = blocks.iter().map(|&block| info(block)).collect();
            self.report(node, StoreReport::Full { blocks, corrupt: Vec::new() });
        }

        fn report(&mut self, node: u32, report: StoreReport) {
            self.replica_map.on_report(NodeId(node), report, self.now);
        }

        /// A block of a file, with replicas on these nodes.
        fn file(&mut self, block: u64, on: &[u32]) {
            self.replica_map.add_block(BlockId(block), 2, Some(info(block)));
            on.iter().for_each(|&node| self.report(node, StoreReport::Received(info(block))));
        }

        /// The commands to be sent now, as text.
        fn commands(&mut self) -> Vec<String> {
            let show = |(node, command): (NodeId, StoreCommand)| match command {
                StoreCommand::Replicate { block, to, address } => {
                    assert_eq!(address, format!("at-{}", to.0));
                    format!("{} replicate {} to {}", node.0, block.0, to.0)
                }
                StoreCommand::Delete { block } => format!("{} delete {}", node.0, block.0),
                StoreCommand::DeleteCorrupt { block } => format!("{} delete-corrupt {}", node.0, block.0),
            };
            self.replica_map.repair(self.now, true).into_iter().map(show).collect()
        }
    }

    #[test]
    fn blocks_of_a_lost_node_are_copied_with_limited_concurrency() {
        let mut fixture = Fixture::new(3);
        (1..=6).for_each(|block| fixture.file(block, &[0, 1]));
        assert_eq!(fixture.commands(), [""; 0]);
        fixture.replica_map.on_node_lost(NodeId(0));
        assert_eq!(
            fixture.commands(),
            ["1 replicate 1 to 2", "1 replicate 2 to 2", "1 replicate 3 to 2", "1 replicate 4 to 2"]
        );
        assert_eq!(fixture.commands(), [""; 0], "four at a time");
        fixture.report(2, StoreReport::Received(info(2)));
        assert_eq!(fixture.commands(), ["1 replicate 5 to 2"]);
        [1, 3, 4, 5].iter().for_each(|&block| fixture.report(2, StoreReport::Received(info(block))));
        assert_eq!(fixture.commands(), ["1 replicate 6 to 2"]);
    }

    #[test]
    fn surplus_replicas_of_a_returning_node_are_deleted() {
        let mut fixture = Fixture::new(3);
        fixture.file(1, &[0, 1]);
        fixture.replica_map.on_node_lost(NodeId(0));
        assert_eq!(fixture.commands(), ["1 replicate 1 to 2"]);
        fixture.report(2, StoreReport::Received(info(1)));
        fixture.up(0, &[1]);
        assert_eq!(fixture.commands().len(), 1, "one of three is deleted");
        assert_eq!(fixture.replica_map.locations(BlockId(1)).len(), 2);
        assert_eq!(fixture.commands(), [""; 0]);
    }

    #[test]
    fn nothing_is_repaired_before_all_full_reports_arrived() {
        let mut fixture = Fixture::new(0);
        fixture.replica_map.expect_nodes([("n0", true), ("n1", true), ("n2", true)].into_iter());
        fixture.replica_map.add_block(BlockId(1), 2, Some(info(1)));
        fixture.up(0, &[1, 9]);
        fixture.up(1, &[]);
        fixture.now += ORPHAN_RETENTION * 2;
        assert_eq!(fixture.commands(), [""; 0], "node 2 may have the other replica");
        fixture.up(2, &[1]);
        assert_eq!(fixture.commands(), ["0 delete 9"]);
        let mut fixture = Fixture::new(0);
        fixture.now -= SAFE_MODE;
        fixture.up(0, &[1]);
        fixture.up(1, &[]);
        fixture.replica_map.add_block(BlockId(1), 2, Some(info(1)));
        assert_eq!(fixture.commands(), [""; 0], "other workers may be reconnecting");
        fixture.now += SAFE_MODE;
        assert_eq!(fixture.commands(), ["0 replicate 1 to 1"]);
    }

    #[test]
    fn a_corrupt_replica_is_replaced_and_then_deleted() {
        let mut fixture = Fixture::new(3);
        fixture.file(1, &[0, 1]);
        fixture.report(0, StoreReport::Corrupt { block: BlockId(1) });
        assert_eq!(fixture.commands(), ["1 replicate 1 to 0"], "the emptiest node is the one that just lost it");
        fixture.report(0, StoreReport::Received(info(1)));
        assert_eq!(fixture.commands(), ["0 delete-corrupt 1"]);
    }

    #[test]
    fn the_last_corrupt_replica_is_retained() {
        let mut fixture = Fixture::new(2);
        fixture.file(1, &[0]);
        fixture.commands();
        fixture.report(0, StoreReport::Corrupt { block: BlockId(1) });
        fixture.now += COPY_TIMEOUT * 2;
        assert_eq!(fixture.commands(), [""; 0]);
        assert!(fixture.replica_map.corrupt.contains(&(BlockId(1), NodeId(0))));
    }

    #[test]
    fn a_worker_that_refused_a_copy_is_excluded_for_a_while() {
        let mut fixture = Fixture::new(3);
        fixture.file(1, &[0]);
        let first = fixture.commands();
        assert_eq!(first.len(), 1);
        let to: u32 = first[0].rsplit(' ').next().unwrap().parse().unwrap();
        fixture.report(0, StoreReport::CopyFailed { block: BlockId(1), to: NodeId(to), reason: "full".into() });
        assert_eq!(fixture.commands(), [""; 0], "not before the retry delay");
        fixture.now += Duration::from_secs(2);
        assert_eq!(fixture.commands(), [format!("0 replicate 1 to {}", 3 - to)]);
    }

    #[test]
    fn orphans_are_deleted_after_their_retention_unless_a_manifest_is_unreadable() {
        let mut fixture = Fixture::new(1);
        fixture.report(0, StoreReport::Received(info(9)));
        assert_eq!(fixture.commands(), [""; 0]);
        fixture.now += ORPHAN_RETENTION;
        assert!(fixture.replica_map.repair(fixture.now, false).is_empty());
        assert_eq!(fixture.commands(), ["0 delete 9"]);
    }

    #[test]
    fn a_replica_that_differs_from_what_was_written_does_not_count() {
        let mut fixture = Fixture::new(2);
        fixture.file(1, &[0]);
        fixture.report(1, StoreReport::Received(BlockInfo { bytes: 9, ..info(1) }));
        assert_eq!(fixture.replica_map.locations(BlockId(1)).len(), 1);
        assert_eq!(fixture.commands(), ["0 replicate 1 to 1"]);
    }

    #[test]
    fn removing_a_block_deletes_its_replicas() {
        let mut fixture = Fixture::new(3);
        fixture.file(1, &[0, 2]);
        fixture.replica_map.remove_block(BlockId(1));
        assert_eq!(fixture.commands(), ["0 delete 1", "2 delete 1"]);
        assert!(fixture.replica_map.nodes.iter().all(|node| node.bytes == 0));
    }
}
