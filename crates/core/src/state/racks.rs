//! The rack of each node. Kept apart from the nodes, because placement reads it for every replica it examines.

use crate::ids::{NodeId, RackId};

/// The racks of all nodes that have ever joined.
#[derive(Clone, Debug, Default)]
pub struct Racks {
    of: Vec<RackId>,
    several: bool,
    highest: u32,
}

impl Racks {
    pub(super) fn join(&mut self, node: NodeId, rack: RackId) {
        self.several |= self.of.first().is_some_and(|&first| first != rack);
        self.highest = self.highest.max(rack.0);
        let at = node.0 as usize;
        if at >= self.of.len() {
            self.of.resize(at + 1, rack);
        }
        self.of[at] = rack;
    }

    /// The rack of a node that has joined.
    pub fn of(&self, node: NodeId) -> RackId {
        self.of[node.0 as usize]
    }

    /// True if the nodes are in more than one rack.
    pub fn several(&self) -> bool {
        self.several
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.of.len()
    }

    /// One more than the highest rack id.
    pub fn id_end(&self) -> usize {
        self.highest as usize + 1
    }
}
