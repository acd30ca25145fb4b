//! Who has what: the coordinator's knowledge of replicas, as the workers tell it.
//!
//! Nothing here is written down. A worker that calls says all it has; until then, or until it counts as lost, it is *awaited*, and nothing is
//! concluded from what is missing. Time is an argument, and what should be done comes out as orders: no clock, no socket, no disk.
//! What follows from too few or too many replicas is decided in `repair.rs`.

use super::{BlockId, Held, Holder, StoreNews, StoreOrder};
use giveway_core::NodeId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// A worker that would not take a copy is not asked again for so long.
const SHUNNED: Duration = Duration::from_secs(10);

/// A copy that did not come about is not tried again for so long.
const COOL_OFF: Duration = Duration::from_secs(1);

/// What is known of all replicas.
#[derive(Debug)]
pub(super) struct Holdings {
    pub(super) nodes: Vec<Node>,
    pub(super) blocks: HashMap<BlockId, Block>,
    /// Blocks that may have too few or too many replicas.
    pub(super) uneasy: BTreeSet<BlockId>,
    /// Copies under way.
    pub(super) copies: BTreeMap<BlockId, Copying>,
    /// Replicas that belong to no file, and since when that is known.
    pub(super) strays: BTreeMap<(BlockId, NodeId), Instant>,
    /// Damaged replicas that were set aside.
    pub(super) damaged: BTreeSet<(BlockId, NodeId)>,
    /// Before this nothing is repaired: workers of an earlier life may still be on their way.
    pub(super) quiet_until: Instant,
    pub(super) orders: Vec<(NodeId, StoreOrder)>,
    /// Who comes first among equals the next time.
    turn: usize,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) state: NodeState,
    /// What it holds, sound and wanted or not.
    pub(super) held: HashMap<BlockId, Held>,
    pub(super) bytes: u64,
    pub(super) shunned_until: Instant,
}

/// Whether a worker is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// It should be there and has not said yet what it has; its address if it has called.
    Awaited(Option<String>),
    /// It is there, and its data is here.
    Up(String),
    /// It is lost. It may come back, with all its blocks.
    Lost,
}

/// A block that belongs to a file, or to one that is being written.
#[derive(Debug)]
pub(super) struct Block {
    /// Replicas it should have if there are nodes enough.
    pub(super) replicas: u8,
    /// What a sound replica looks like; unknown while it is being written.
    pub(super) sound: Option<Held>,
    pub(super) holders: BTreeSet<NodeId>,
}

/// A copy under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// When it is given up.
    pub(super) until: Instant,
}

impl Holdings {
    pub(super) fn new(quiet_until: Instant) -> Holdings {
        Holdings {
            nodes: Vec::new(),
            blocks: HashMap::new(),
            uneasy: BTreeSet::new(),
            copies: BTreeMap::new(),
            strays: BTreeMap::new(),
            damaged: BTreeSet::new(),
            quiet_until,
            orders: Vec::new(),
            turn: 0,
        }
    }

    /// The nodes of which the journal speaks, by number. They may come, and those that were up are waited for.
    pub(super) fn expect<'a>(&mut self, nodes: impl Iterator<Item = (&'a str, bool)>) {
        let node = |(name, up): (&str, bool)| {
            let state = if up { NodeState::Awaited(None) } else { NodeState::Lost };
            Node { name: name.into(), state, ..Node::unknown(self.quiet_until) }
        };
        self.nodes = nodes.map(node).collect();
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        let at = node.0 as usize;
        while self.nodes.len() <= at {
            self.nodes.push(Node::unknown(self.quiet_until));
        }
        &mut self.nodes[at]
    }

    /// A worker has called; what it has comes with its first news.
    pub(super) fn joined(&mut self, node: NodeId, name: &str, address: &str, now: Instant) {
        let known = self.node(node);
        name.clone_into(&mut known.name);
        known.shunned_until = now;
        // One that was only away for a moment has what it had, until it says otherwise.
        known.state = match known.state {
            NodeState::Up(_) => NodeState::Up(address.into()),
            _ => NodeState::Awaited(Some(address.into())),
        };
    }

    /// A worker counts as lost.
    pub(super) fn lost(&mut self, node: NodeId) {
        if self.nodes.len() <= node.0 as usize {
            return;
        }
        self.clear(node);
        self.node(node).state = NodeState::Lost;
        let ended: Vec<BlockId> = self
            .copies
            .iter()
            .filter(|(_, copy)| copy.from == node || copy.to == node)
            .map(|(&block, _)| block)
            .collect();
        for block in ended {
            self.copies.remove(&block);
            self.uneasy.insert(block);
        }
    }

    /// Forgets what a node holds.
    fn clear(&mut self, node: NodeId) {
        let held = std::mem::take(&mut self.node(node).held);
        self.node(node).bytes = 0;
        held.into_keys().for_each(|block| self.no_longer(node, block));
        self.strays.retain(|(_, at), _| *at != node);
        self.damaged.retain(|(_, at)| *at != node);
    }

    fn no_longer(&mut self, node: NodeId, block: BlockId) {
        if let Some(known) = self.blocks.get_mut(&block)
            && known.holders.remove(&node)
        {
            self.uneasy.insert(block);
        }
    }

    /// A worker says something.
    pub(super) fn heard(&mut self, node: NodeId, news: StoreNews, now: Instant) {
        match news {
            StoreNews::Holds { held, damaged } => {
                self.clear(node);
                let known = self.node(node);
                if let NodeState::Awaited(Some(address)) = &known.state {
                    known.state = NodeState::Up(address.clone());
                }
                self.damaged.extend(damaged.into_iter().map(|block| (block, node)));
                held.into_iter().for_each(|held| self.holds(node, held, now));
            }
            StoreNews::Got(held) => {
                self.holds(node, held, now);
                if self.copies.get(&held.block).is_some_and(|copy| copy.to == node) {
                    self.copies.remove(&held.block);
                    self.uneasy.insert(held.block);
                }
            }
            StoreNews::Bad { block } => self.bad(node, block),
            StoreNews::NotCopied { block, to, why } => {
                tracing::warn!("block {block} was not copied from {node} to {to}: {why}");
                if let Some(copy) = self.copies.get_mut(&block) {
                    copy.until = now + COOL_OFF;
                }
                self.node(to).shunned_until = now + SHUNNED;
            }
        }
    }

    /// A node has a replica.
    pub(super) fn holds(&mut self, node: NodeId, held: Held, now: Instant) {
        let known = self.node(node);
        let before = known.held.insert(held.block, held);
        known.bytes = known.bytes + held.bytes - before.map_or(0, |before| before.bytes);
        match self.blocks.get_mut(&held.block) {
            Some(block) if block.sound.is_none_or(|sound| sound == held) => {
                block.holders.insert(node);
                self.uneasy.insert(held.block);
            }
            // Of no file, or not what was written.
            _ => {
                self.strays.entry((held.block, node)).or_insert(now);
            }
        }
    }

    /// A node's replica is damaged or gone.
    pub(super) fn bad(&mut self, node: NodeId, block: BlockId) {
        let known = self.node(node);
        if let Some(held) = known.held.remove(&block) {
            known.bytes -= held.bytes;
            self.damaged.insert((block, node));
        }
        self.strays.remove(&(block, node));
        self.no_longer(node, block);
    }

    /// A block of a file, or a new one. Workers may have spoken of it before.
    pub(super) fn add(&mut self, block: BlockId, replicas: u8, sound: Option<Held>) {
        let fits = |held: &Held| sound.is_none_or(|sound| sound == *held);
        let has = |(_, node): &(usize, &Node)| node.held.get(&block).is_some_and(fits);
        let holders: BTreeSet<NodeId> =
            self.nodes.iter().enumerate().filter(has).map(|(at, _)| NodeId(at as u32)).collect();
        self.strays.retain(|(stray, node), _| *stray != block || !holders.contains(node));
        self.blocks.insert(block, Block { replicas, sound, holders });
        self.uneasy.insert(block);
    }

    /// A block belongs to no file any more.
    pub(super) fn drop_block(&mut self, block: BlockId) {
        self.uneasy.remove(&block);
        self.copies.remove(&block);
        self.blocks.remove(&block);
        for at in 0..self.nodes.len() {
            self.forget(NodeId(at as u32), block);
        }
    }

    /// Has a node remove a replica, if it has one.
    pub(super) fn forget(&mut self, node: NodeId, block: BlockId) {
        let known = self.node(node);
        let held = known.held.remove(&block);
        known.bytes -= held.map_or(0, |held| held.bytes);
        let damaged = self.damaged.remove(&(block, node));
        self.strays.remove(&(block, node));
        self.no_longer(node, block);
        if held.is_some() || damaged {
            self.orders.push((node, StoreOrder::Forget { block }));
        }
    }

    /// Replicas a block should have now. A node that was ever there counts: that it is lost is what is wrong.
    pub(super) fn wanted(&self, block: &Block) -> usize {
        usize::from(block.replicas).min(self.nodes.len())
    }

    /// Workers a block can be read from.
    pub(super) fn holders(&self, block: BlockId) -> Vec<Holder> {
        let Some(known) = self.blocks.get(&block) else { return Vec::new() };
        known.holders.iter().filter_map(|&node| self.holder(node)).collect()
    }

    /// A worker that is there.
    pub(super) fn holder(&self, node: NodeId) -> Option<Holder> {
        match &self.nodes.get(node.0 as usize)?.state {
            NodeState::Up(address) => Some(Holder { node, address: address.clone() }),
            _ => None,
        }
    }

    /// How many workers are there.
    pub(super) fn up(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node.state, NodeState::Up(_))).count()
    }

    /// True if a worker has called and has not yet said what it has.
    pub(super) fn has_callers(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.state, NodeState::Awaited(Some(_))))
    }

    /// Workers for another replica, the emptiest first.
    pub(super) fn targets(&mut self, count: usize, avoid: impl Fn(NodeId) -> bool, now: Instant) -> Vec<Holder> {
        let all = self.nodes.len();
        let mut targets: Vec<Holder> = (0..all)
            .map(|at| NodeId(at as u32))
            .filter(|&node| !avoid(node))
            .filter_map(|node| self.holder(node))
            .collect();
        let turn = self.turn;
        targets.sort_by_key(|holder| {
            let (at, node) = (holder.node.0 as usize, &self.nodes[holder.node.0 as usize]);
            (node.shunned_until > now, node.bytes, (at + all - turn % all) % all)
        });
        targets.truncate(count);
        self.turn += 1;
        targets
    }
}

impl Node {
    fn unknown(now: Instant) -> Node {
        Node { name: String::new(), state: NodeState::Lost, held: HashMap::new(), bytes: 0, shunned_until: now }
    }
}
