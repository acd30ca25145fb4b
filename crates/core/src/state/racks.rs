//! Which rack each node is in: by itself, because it is asked for more often than anything else about a node.

use crate::ids::{NodeId, RackId};

/// The racks of all nodes that ever joined.
#[derive(Debug, Default)]
pub struct Racks {
    of: Vec<RackId>,
    several: bool,
    highest: u32,
}

impl Racks {
    /// A node joins, for the first time or again.
    pub fn join(&mut self, node: NodeId, rack: RackId) {
        self.several |= self.of.first().is_some_and(|&first| first != rack);
        self.highest = self.highest.max(rack.0);
        let at = node.0 as usize;
        if at >= self.of.len() {
            self.of.resize(at + 1, rack);
        }
        self.of[at] = rack;
    }

    /// The rack of a node.
    pub fn of(&self, node: NodeId) -> RackId {
        self.of[node.0 as usize]
    }

    /// Whether there is more than one.
    pub fn several(&self) -> bool {
        self.several
    }

    /// How many nodes are in racks.
    pub fn nodes(&self) -> usize {
        self.of.len()
    }

    /// The number all racks' numbers are below.
    pub fn end(&self) -> usize {
        self.highest as usize + 1
    }
}
