//! The coordinator's map of replicas: which worker holds which block.
//!
//! It is in memory only and built from the workers' reports. A worker sends a full report when it connects; until that has arrived, or the worker is
//! lost, nothing is concluded from replicas that are missing. Time is an argument and the results are commands: no clock, socket or disk is used.
//! `repair.rs` decides what to do about too few or too many replicas.

use super::{BlockId, BlockInfo, StoreCommand, StoreReport, WorkerEndpoint};
use giveway_core::NodeId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// How long a worker that refused a copy is not chosen as a target of repairs.
const TARGET_EXCLUSION: Duration = Duration::from_secs(10);

/// Delay before a failed copy is tried again.
const COPY_RETRY_DELAY: Duration = Duration::from_secs(1);

/// All known replicas, and the repairs in progress.
#[derive(Debug)]
pub(super) struct ReplicaMap {
    /// Workers, by node id.
    pub(super) nodes: Vec<Node>,
    pub(super) blocks: HashMap<BlockId, Block>,
    /// Blocks to be checked for too few or too many replicas.
    pub(super) replication_queue: BTreeSet<BlockId>,
    /// Copies in progress; at most one per block.
    pub(super) pending_copies: BTreeMap<BlockId, PendingCopy>,
    /// Replicas that belong to no file, with the time at which each was found.
    pub(super) orphans: BTreeMap<(BlockId, NodeId), Instant>,
    /// Quarantined replicas.
    pub(super) corrupt: BTreeSet<(BlockId, NodeId)>,
    /// End of safe mode: no repairs before this time, because workers may still be reconnecting after the coordinator's restart.
    pub(super) safe_mode_until: Instant,
    /// Commands that are not sent yet.
    pub(super) commands: Vec<(NodeId, StoreCommand)>,
    /// Rotates the order of equally full targets.
    rotation: usize,
}

/// A worker and its replicas.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) state: NodeState,
    /// All its valid replicas, orphans included.
    pub(super) replicas: HashMap<BlockId, BlockInfo>,
    /// Total size of the replicas.
    pub(super) bytes: u64,
    /// Until then it is the last choice for new blocks and no target of repairs.
    pub(super) excluded_until: Instant,
}

/// Availability of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Expected to be up, but its full report has not arrived. Has its data address if it is connected.
    AwaitingReport(Option<String>),
    /// Up, with its data address.
    Up(String),
    /// Lost. It may return with all its replicas.
    Lost,
}

/// A block that belongs to a file, or to one that is being written.
#[derive(Debug)]
pub(super) struct Block {
    /// Replicas it should have if there are enough nodes.
    pub(super) replicas: u8,
    /// What a valid replica must be equal to; `None` while the block is being written.
    pub(super) info: Option<BlockInfo>,
    /// Nodes with a valid replica.
    pub(super) holders: BTreeSet<NodeId>,
}

/// A copy in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCopy {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// When it is considered failed.
    pub(super) deadline: Instant,
}

impl ReplicaMap {
    pub(super) fn new(safe_mode_until: Instant) -> ReplicaMap {
        ReplicaMap {
            nodes: Vec::new(),
            blocks: HashMap::new(),
            replication_queue: BTreeSet::new(),
            pending_copies: BTreeMap::new(),
            orphans: BTreeMap::new(),
            corrupt: BTreeSet::new(),
            safe_mode_until,
            commands: Vec::new(),
            rotation: 0,
        }
    }

    /// Sets the nodes in the journal (name, and whether it was up), ordered by id. Reports of those that were up are awaited.
    pub(super) fn expect_nodes<'a>(&mut self, nodes: impl Iterator<Item = (&'a str, bool)>) {
        let node = |(name, is_up): (&str, bool)| {
            let state = if is_up { NodeState::AwaitingReport(None) } else { NodeState::Lost };
            Node { name: name.into(), state, ..Node::unknown(self.safe_mode_until) }
        };
        self.nodes = nodes.map(node).collect();
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        let at = id.0 as usize;
        while self.nodes.len() <= at {
            self.nodes.push(Node::unknown(self.safe_mode_until));
        }
        &mut self.nodes[at]
    }

    /// Handles a worker's connection. Its replicas follow in its first report.
    pub(super) fn on_node_joined(&mut self, id: NodeId, name: &str, address: &str, now: Instant) {
        let node = self.node(id);
        name.clone_into(&mut node.name);
        node.excluded_until = now;
        // A worker that reconnects before it is lost keeps its replicas until it reports otherwise.
        node.state = match node.state {
            NodeState::Up(_) => NodeState::Up(address.into()),
            _ => NodeState::AwaitingReport(Some(address.into())),
        };
    }

    /// Handles the loss of a worker: its replicas no longer count and its copies have failed.
    pub(super) fn on_node_lost(&mut self, id: NodeId) {
        if self.nodes.len() <= id.0 as usize {
            return;
        }
        self.clear_node(id);
        self.node(id).state = NodeState::Lost;
        let failed: Vec<BlockId> = self
            .pending_copies
            .iter()
            .filter(|(_, copy)| copy.from == id || copy.to == id)
            .map(|(&block, _)| block)
            .collect();
        for block in failed {
            self.pending_copies.remove(&block);
            self.replication_queue.insert(block);
        }
    }

    /// Removes all replicas of a node from the map.
    fn clear_node(&mut self, id: NodeId) {
        let replicas = std::mem::take(&mut self.node(id).replicas);
        self.node(id).bytes = 0;
        replicas.into_keys().for_each(|block| self.remove_holder(id, block));
        self.orphans.retain(|(_, node), _| *node != id);
        self.corrupt.retain(|(_, node)| *node != id);
    }

    fn remove_holder(&mut self, node: NodeId, id: BlockId) {
        if let Some(block) = self.blocks.get_mut(&id)
            && block.holders.remove(&node)
        {
            self.replication_queue.insert(id);
        }
    }

    /// Handles a worker's report.
    pub(super) fn on_report(&mut self, id: NodeId, report: StoreReport, now: Instant) {
        match report {
            StoreReport::Full { blocks, corrupt } => {
                self.clear_node(id);
                let node = self.node(id);
                if let NodeState::AwaitingReport(Some(address)) = &node.state {
                    node.state = NodeState::Up(address.clone());
                }
                self.corrupt.extend(corrupt.into_iter().map(|block| (block, id)));
                blocks.into_iter().for_each(|info| self.add_replica(id, info, now));
            }
            StoreReport::Received(info) => {
                self.add_replica(id, info, now);
                if self.pending_copies.get(&info.block).is_some_and(|copy| copy.to == id) {
                    self.pending_copies.remove(&info.block);
                    self.replication_queue.insert(info.block);
                }
            }
            StoreReport::Corrupt { block } => self.mark_corrupt(id, block),
            StoreReport::CopyFailed { block, to, reason } => {
                tracing::warn!("copying block {block} from {id} to {to} failed: {reason}");
                if let Some(copy) = self.pending_copies.get_mut(&block) {
                    copy.deadline = now + COPY_RETRY_DELAY;
                }
                if let Some(target) = self.nodes.get_mut(to.0 as usize) {
                    target.excluded_until = now + TARGET_EXCLUSION;
                }
            }
        }
    }

    /// Adds a node's replica to the map.
    pub(super) fn add_replica(&mut self, id: NodeId, info: BlockInfo, now: Instant) {
        let node = self.node(id);
        let before = node.replicas.insert(info.block, info);
        node.bytes = node.bytes.saturating_add(info.bytes).saturating_sub(before.map_or(0, |before| before.bytes));
        match self.blocks.get_mut(&info.block) {
            Some(block) if block.info.is_none_or(|expected| expected == info) => {
                block.holders.insert(id);
                self.replication_queue.insert(info.block);
            }
            // It belongs to no file, or differs from what was written.
            _ => {
                self.orphans.entry((info.block, id)).or_insert(now);
            }
        }
    }

    /// Handles a node's replica that is corrupt or missing.
    pub(super) fn mark_corrupt(&mut self, id: NodeId, block: BlockId) {
        let node = self.node(id);
        if let Some(info) = node.replicas.remove(&block) {
            node.bytes = node.bytes.saturating_sub(info.bytes);
            self.corrupt.insert((block, id));
        }
        self.orphans.remove(&(block, id));
        self.remove_holder(id, block);
    }

    /// Adds a block of a file, or of one that is being written. Replicas of it may have been reported before.
    pub(super) fn add_block(&mut self, id: BlockId, replicas: u8, info: Option<BlockInfo>) {
        let is_valid = |found: &BlockInfo| info.is_none_or(|expected| expected == *found);
        let has_replica = |(_, node): &(usize, &Node)| node.replicas.get(&id).is_some_and(is_valid);
        let holders: BTreeSet<NodeId> =
            self.nodes.iter().enumerate().filter(has_replica).map(|(at, _)| NodeId(at as u32)).collect();
        self.orphans.retain(|(orphan, node), _| *orphan != id || !holders.contains(node));
        self.blocks.insert(id, Block { replicas, info, holders });
        self.replication_queue.insert(id);
    }

    /// Removes a block that belongs to no file any more, and has its replicas deleted.
    pub(super) fn remove_block(&mut self, block: BlockId) {
        self.replication_queue.remove(&block);
        self.pending_copies.remove(&block);
        self.blocks.remove(&block);
        for at in 0..self.nodes.len() {
            self.delete_replica(NodeId(at as u32), block);
        }
    }

    /// Removes a node's replica of a block from the map, valid or corrupt, and commands the node to delete it. Does nothing if the
    /// node has none.
    pub(super) fn delete_replica(&mut self, id: NodeId, block: BlockId) {
        let node = self.node(id);
        let replica = node.replicas.remove(&block);
        node.bytes = node.bytes.saturating_sub(replica.map_or(0, |info| info.bytes));
        let was_corrupt = self.corrupt.remove(&(block, id));
        self.orphans.remove(&(block, id));
        self.remove_holder(id, block);
        if replica.is_some() || was_corrupt {
            self.commands.push((id, StoreCommand::Delete { block }));
        }
    }

    /// Replicas a block should have now. Limited by the number of all nodes, lost ones included: a lost node is a reason for repair and
    /// not for fewer replicas.
    pub(super) fn target_replicas(&self, block: &Block) -> usize {
        usize::from(block.replicas).min(self.nodes.len())
    }

    /// Workers that are up and have a valid replica of a block.
    pub(super) fn locations(&self, block: BlockId) -> Vec<WorkerEndpoint> {
        let Some(block) = self.blocks.get(&block) else { return Vec::new() };
        block.holders.iter().filter_map(|&node| self.endpoint(node)).collect()
    }

    /// The data address of a worker; `None` if it is not up.
    pub(super) fn endpoint(&self, id: NodeId) -> Option<WorkerEndpoint> {
        match &self.nodes.get(id.0 as usize)?.state {
            NodeState::Up(address) => Some(WorkerEndpoint { node: id, address: address.clone() }),
            _ => None,
        }
    }

    /// Number of workers that are up.
    pub(super) fn up_count(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node.state, NodeState::Up(_))).count()
    }

    /// True if a worker is connected and its full report has not arrived yet.
    pub(super) fn has_pending_report(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.state, NodeState::AwaitingReport(Some(_))))
    }

    /// Chooses up to `count` workers for new replicas: those that are not excluded first, then those with the fewest bytes.
    pub(super) fn choose_targets(
        &mut self,
        count: usize,
        avoid: impl Fn(NodeId) -> bool,
        now: Instant,
    ) -> Vec<WorkerEndpoint> {
        let all = self.nodes.len();
        let mut targets: Vec<WorkerEndpoint> = (0..all)
            .map(|at| NodeId(at as u32))
            .filter(|&node| !avoid(node))
            .filter_map(|node| self.endpoint(node))
            .collect();
        let rotation = self.rotation;
        targets.sort_by_key(|target| {
            let (at, node) = (target.node.0 as usize, &self.nodes[target.node.0 as usize]);
            (node.excluded_until > now, node.bytes, (at + all - rotation % all) % all)
        });
        targets.truncate(count);
        self.rotation += 1;
        targets
    }
}

impl Node {
    fn unknown(now: Instant) -> Node {
        Node { name: String::new(), state: NodeState::Lost, replicas: HashMap::new(), bytes: 0, excluded_until: now }
    }
}
