//! Types of nodes: all nodes of the same speed and disk rate, with the slots of those that are up.
//!
//! Heterogeneous clusters have a few types of machines. What a policy computes per type does not grow with the number of nodes.

use super::node::Node;
use crate::event::NodeSpec;
use crate::ids::{Kind, PerKind};
use crate::units::WHOLE_PPM;
use serde::{Deserialize, Serialize};

/// The most types that are told apart. Further nodes are counted with the type of the nearest speed, so that a cluster in which every node
/// was measured differently does not make decisions slow.
pub(super) const MAX_TYPES: usize = 64;

/// Nodes of the same speed and disk rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeType {
    /// Seconds of work at speed 1 that a slot does per second; over 0.
    pub speed: f64,
    /// Bytes that a map reads per second; over 0.
    pub disk_bytes_per_s: f64,
    /// Slots of the nodes of this type that are up.
    pub slots: PerKind<u32>,
}

/// All types. A type keeps its number, also while none of its nodes is up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct NodeTypes {
    pub(super) all: Vec<NodeType>,
    /// Changes with the types and their slots, so that what was computed from them can tell whether it is current.
    #[serde(skip)]
    version: u64,
}

impl NodeTypes {
    pub(super) fn all(&self) -> &[NodeType] {
        &self.all
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The number of the type of a node that joins.
    pub(super) fn classify(&mut self, spec: &NodeSpec) -> u16 {
        let speed = f64::from(spec.speed_ppm.max(1)) / f64::from(WHOLE_PPM);
        let disk_bytes_per_s = spec.disk_bytes_per_s.max(1) as f64;
        let is_it = |known: &NodeType| (known.speed, known.disk_bytes_per_s) == (speed, disk_bytes_per_s);
        if let Some(known) = self.all.iter().position(is_it) {
            return known as u16;
        }
        if self.all.len() < MAX_TYPES {
            self.all.push(NodeType { speed, disk_bytes_per_s, slots: PerKind::default() });
            return (self.all.len() - 1) as u16;
        }
        let distance = |known: &NodeType| (known.speed / speed).ln().abs();
        let nearest = (0..self.all.len()).min_by(|&a, &b| distance(&self.all[a]).total_cmp(&distance(&self.all[b])));
        nearest.unwrap_or(0) as u16
    }

    /// Counts the slots of a node that came up.
    pub(super) fn add(&mut self, node: &Node) {
        self.version += 1;
        let slots = &mut self.all[usize::from(node.node_type)].slots;
        Kind::BOTH.iter().for_each(|&kind| slots[kind] += u32::from(node.spec.slots(kind)));
    }

    /// Removes the slots of a node that went down.
    pub(super) fn remove(&mut self, node_type: u16, slots: PerKind<u32>) {
        self.version += 1;
        let counted = &mut self.all[usize::from(node_type)].slots;
        Kind::BOTH.iter().for_each(|&kind| counted[kind] -= slots[kind]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{NodeId, RackId};
    use crate::state::State;

    fn spec(speed_ppm: u32) -> NodeSpec {
        NodeSpec {
            name: String::new(),
            rack: RackId(0),
            map_slots: 2,
            reduce_slots: 1,
            speed_ppm,
            disk_bytes_per_s: 100,
            disk_bytes: 1,
        }
    }

    #[test]
    fn nodes_of_the_same_speed_are_one_type_and_lost_ones_are_not_counted() {
        let mut state = State::default();
        let speeds = [WHOLE_PPM, WHOLE_PPM / 2, WHOLE_PPM];
        (0..3).zip(speeds).for_each(|(node, speed)| state.add_node(NodeId(node), &spec(speed)));
        let slots = |state: &State| state.nodes().types().iter().map(|of| of.slots[Kind::Map]).collect::<Vec<_>>();
        assert_eq!(slots(&state), [4, 2]);
        assert_eq!(state.nodes().capacity(Kind::Map), 5.0);
        state.take_node_down(NodeId(1));
        assert_eq!(slots(&state), [4, 0]);
        state.add_node(NodeId(1), &spec(WHOLE_PPM));
        assert_eq!(slots(&state), [6, 0]);
        assert_eq!(state.nodes().capacity(Kind::Reduce), 3.0);
        state.check().unwrap();
    }

    #[test]
    fn further_types_join_the_nearest_speed() {
        let mut types = NodeTypes::default();
        for step in 0..MAX_TYPES as u32 {
            assert_eq!(types.classify(&spec(WHOLE_PPM + step)), step as u16);
        }
        assert_eq!(types.classify(&spec(WHOLE_PPM / 2)), 0);
        assert_eq!(types.classify(&spec(WHOLE_PPM * 2)), MAX_TYPES as u16 - 1);
    }
}
