//! Repair: blocks with too few replicas get more, those with too many give some up, and what belongs to nothing goes.
//!
//! A copy is made by a worker that has the block, a few at a time, so that a lost worker does not drown the others. Nothing is removed
//! unless enough sound replicas have been reported by workers that are there now.

use super::holdings::{Copying, Holdings, NodeState};
use super::{BlockId, StoreOrder};
use giveway_core::NodeId;
use std::time::{Duration, Instant};

/// Copies under way at once, in the whole cluster.
const COPIES_MOST: usize = 4;

/// A copy that nobody has heard of for so long is given up.
const COPY_PATIENCE: Duration = Duration::from_secs(120);

/// Replicas that belong to no file are kept for so long.
const STRAY_KEPT: Duration = Duration::from_secs(600);

/// Blocks looked at in one go.
const LOOKED_AT_MOST: usize = 1000;

impl Holdings {
    /// What should be done now. Replicas of no file may only be collected if all files are known.
    pub(super) fn turn(&mut self, now: Instant, may_collect: bool) -> Vec<(NodeId, StoreOrder)> {
        self.copies.retain(|&block, copy| {
            let goes_on = copy.until > now;
            if !goes_on {
                self.uneasy.insert(block);
            }
            goes_on
        });
        if now >= self.quiet_until && self.awaited().next().is_none() {
            let uneasy: Vec<BlockId> = self.uneasy.iter().copied().take(LOOKED_AT_MOST).collect();
            for block in uneasy {
                if self.settle(block, now) {
                    self.uneasy.remove(&block);
                }
            }
            self.discard_damaged();
            if may_collect {
                self.collect(now, STRAY_KEPT);
            }
        }
        std::mem::take(&mut self.orders)
    }

    /// Workers that should be there and have not said yet what they have.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|node| matches!(node.state, NodeState::Awaited(_))).map(|node| node.name.as_str())
    }

    /// Brings a block nearer to the replicas it should have. True if nothing more can be done for it until somebody says something new.
    fn settle(&mut self, id: BlockId, now: Instant) -> bool {
        let Some(block) = self.blocks.get(&id) else { return true };
        // Somebody is writing it, or it is being copied: that ends with news.
        if block.sound.is_none() || self.copies.contains_key(&id) {
            return true;
        }
        let (live, wanted) = (block.holders.len(), self.wanted(block));
        if live > wanted {
            let fullest = block.holders.iter().max_by_key(|node| self.nodes[node.0 as usize].bytes).copied();
            self.forget(fullest.expect("more than none"), id);
            return live - 1 == wanted;
        }
        if live == wanted || live == 0 {
            return true;
        }
        if self.copies.len() >= COPIES_MOST {
            return false;
        }
        let holders = block.holders.clone();
        let busy = |node: &NodeId| self.copies.values().filter(|copy| copy.from == *node).count();
        let from = *holders.iter().min_by_key(|node| busy(node)).expect("more than none");
        let shunned = |node: &NodeId| self.nodes[node.0 as usize].shunned_until > now;
        let unfit: Vec<NodeId> = (0..self.nodes.len() as u32)
            .map(NodeId)
            .filter(|node| holders.contains(node) || shunned(node))
            .collect();
        let Some(to) = self.targets(1, |node| unfit.contains(&node), now).pop() else { return false };
        self.copies.insert(id, Copying { from, to: to.node, until: now + COPY_PATIENCE });
        self.orders.push((from, StoreOrder::Copy { block: id, to: to.node, address: to.address }));
        true
    }

    /// Damaged replicas of blocks that are whole without them are of no use to anybody.
    fn discard_damaged(&mut self) {
        let is_useless = |&&(block, _): &&(BlockId, NodeId)| {
            self.blocks.get(&block).is_some_and(|block| block.holders.len() >= self.wanted(block))
        };
        let useless: Vec<_> = self.damaged.iter().filter(is_useless).copied().collect();
        for (block, node) in useless {
            self.damaged.remove(&(block, node));
            self.orders.push((node, StoreOrder::Discard { block }));
        }
    }

    /// Removes replicas that have belonged to no file for so long; says how many.
    pub(super) fn collect(&mut self, now: Instant, kept: Duration) -> u64 {
        let over = |since: &Instant| now.saturating_duration_since(*since) >= kept;
        let strays: Vec<_> = self.strays.iter().filter(|(_, since)| over(since)).map(|(&stray, _)| stray).collect();
        strays.iter().for_each(|&(block, node)| self.forget(node, block));
        strays.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Held, StoreNews};
    use super::*;

    const QUIET: Duration = Duration::from_secs(5);

    /// Holdings, and a clock that is turned by hand.
    struct Bench {
        holdings: Holdings,
        now: Instant,
    }

    fn held(block: u64) -> Held {
        Held { block: BlockId(block), bytes: 10, seal: block as u32 }
    }

    impl Bench {
        /// So many nodes, all up and empty.
        fn new(nodes: u32) -> Bench {
            let now = Instant::now();
            let mut bench = Bench { holdings: Holdings::new(now + QUIET), now: now + QUIET };
            (0..nodes).for_each(|node| bench.up(node, &[]));
            bench
        }

        fn up(&mut self, node: u32, blocks: &[u64]) {
            self.holdings.joined(NodeId(node), &format!("n{node}"), &format!("at-{node}"), self.now);
            let held = blocks.iter().map(|&block| held(block)).collect();
            self.hear(node, StoreNews::Holds { held, damaged: Vec::new() });
        }

        fn hear(&mut self, node: u32, news: StoreNews) {
            self.holdings.heard(NodeId(node), news, self.now);
        }

        /// A block of a file, with replicas on these nodes.
        fn file(&mut self, block: u64, on: &[u32]) {
            self.holdings.add(BlockId(block), 2, Some(held(block)));
            on.iter().for_each(|&node| self.hear(node, StoreNews::Got(held(block))));
        }

        /// The orders, in words.
        fn turn(&mut self) -> Vec<String> {
            let words = |(node, order): (NodeId, StoreOrder)| match order {
                StoreOrder::Copy { block, to, address } => {
                    assert_eq!(address, format!("at-{}", to.0));
                    format!("{} copies {} to {}", node.0, block.0, to.0)
                }
                StoreOrder::Forget { block } => format!("{} forgets {}", node.0, block.0),
                StoreOrder::Discard { block } => format!("{} discards {}", node.0, block.0),
            };
            self.holdings.turn(self.now, true).into_iter().map(words).collect()
        }
    }

    #[test]
    fn a_lost_node_has_its_blocks_copied_a_few_at_a_time() {
        let mut bench = Bench::new(3);
        (1..=6).for_each(|block| bench.file(block, &[0, 1]));
        assert_eq!(bench.turn(), [""; 0]);
        bench.holdings.lost(NodeId(0));
        assert_eq!(bench.turn(), ["1 copies 1 to 2", "1 copies 2 to 2", "1 copies 3 to 2", "1 copies 4 to 2"]);
        assert_eq!(bench.turn(), [""; 0], "four at a time");
        bench.hear(2, StoreNews::Got(held(2)));
        assert_eq!(bench.turn(), ["1 copies 5 to 2"]);
        [1, 3, 4, 5].map(|block| bench.hear(2, StoreNews::Got(held(block))));
        assert_eq!(bench.turn(), ["1 copies 6 to 2"]);
    }

    #[test]
    fn a_node_that_comes_back_has_its_blocks_and_the_surplus_goes() {
        let mut bench = Bench::new(3);
        bench.file(1, &[0, 1]);
        bench.holdings.lost(NodeId(0));
        assert_eq!(bench.turn(), ["1 copies 1 to 2"]);
        bench.hear(2, StoreNews::Got(held(1)));
        bench.up(0, &[1]);
        assert_eq!(bench.turn().len(), 1, "one of three goes");
        assert_eq!(bench.holdings.holders(BlockId(1)).len(), 2);
        assert_eq!(bench.turn(), [""; 0]);
    }

    #[test]
    fn nothing_is_concluded_before_everybody_has_spoken() {
        let mut bench = Bench::new(0);
        bench.holdings.expect(NodeId(0), "n0", true);
        bench.holdings.expect(NodeId(1), "n1", true);
        bench.holdings.expect(NodeId(2), "n2", true);
        bench.holdings.add(BlockId(1), 2, Some(held(1)));
        bench.up(0, &[1, 9]);
        bench.up(1, &[]);
        bench.now += STRAY_KEPT * 2;
        assert_eq!(bench.turn(), [""; 0], "node 2 may have the other replica");
        bench.up(2, &[1]);
        assert_eq!(bench.turn(), ["0 forgets 9"]);
        let mut bench = Bench::new(0);
        bench.now -= QUIET;
        bench.up(0, &[1]);
        bench.up(1, &[]);
        bench.holdings.add(BlockId(1), 2, Some(held(1)));
        assert_eq!(bench.turn(), [""; 0], "others may be on their way");
        bench.now += QUIET;
        assert_eq!(bench.turn(), ["0 copies 1 to 1"]);
    }

    #[test]
    fn a_bad_replica_is_replaced_and_then_discarded() {
        let mut bench = Bench::new(3);
        bench.file(1, &[0, 1]);
        bench.hear(0, StoreNews::Bad { block: BlockId(1) });
        assert_eq!(bench.turn(), ["1 copies 1 to 0"], "the emptiest node is the one that just lost it");
        bench.hear(0, StoreNews::Got(held(1)));
        assert_eq!(bench.turn(), ["0 discards 1"]);
    }

    #[test]
    fn the_last_damaged_replica_is_kept() {
        let mut bench = Bench::new(2);
        bench.file(1, &[0]);
        bench.turn();
        bench.hear(0, StoreNews::Bad { block: BlockId(1) });
        bench.now += COPY_PATIENCE * 2;
        assert_eq!(bench.turn(), [""; 0]);
        assert!(bench.holdings.damaged.contains(&(BlockId(1), NodeId(0))));
    }

    #[test]
    fn who_does_not_take_a_copy_is_left_alone_for_a_while() {
        let mut bench = Bench::new(3);
        bench.file(1, &[0]);
        let first = bench.turn();
        assert_eq!(first.len(), 1);
        let to: u32 = first[0].rsplit(' ').next().unwrap().parse().unwrap();
        bench.hear(0, StoreNews::NotCopied { block: BlockId(1), to: NodeId(to), why: "full".into() });
        assert_eq!(bench.turn(), [""; 0], "not at once");
        bench.now += Duration::from_secs(2);
        assert_eq!(bench.turn(), [format!("0 copies 1 to {}", 3 - to)]);
    }

    #[test]
    fn replicas_of_no_file_go_after_a_while_and_not_if_a_manifest_cannot_be_read() {
        let mut bench = Bench::new(1);
        bench.hear(0, StoreNews::Got(held(9)));
        assert_eq!(bench.turn(), [""; 0]);
        bench.now += STRAY_KEPT;
        assert!(bench.holdings.turn(bench.now, false).is_empty());
        assert_eq!(bench.turn(), ["0 forgets 9"]);
    }

    #[test]
    fn a_replica_that_is_not_what_was_written_does_not_count() {
        let mut bench = Bench::new(2);
        bench.file(1, &[0]);
        bench.hear(1, StoreNews::Got(Held { bytes: 9, ..held(1) }));
        assert_eq!(bench.holdings.holders(BlockId(1)).len(), 1);
        assert_eq!(bench.turn(), ["0 copies 1 to 1"]);
    }

    #[test]
    fn removing_a_file_has_its_replicas_removed() {
        let mut bench = Bench::new(3);
        bench.file(1, &[0, 2]);
        bench.holdings.drop_block(BlockId(1));
        assert_eq!(bench.turn(), ["0 forgets 1", "2 forgets 1"]);
        assert!(bench.holdings.nodes.iter().all(|node| node.bytes == 0));
    }
}
