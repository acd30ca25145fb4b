//! Classes of nodes: a policy makes no difference between the nodes of one class.

use super::Policy;
use super::matching::{DEFAULT_MAX_WAIT, Matcher};
use crate::ids::{Kind, NodeId};
use crate::state::State;
use crate::units::Span;

impl Policy {
    /// True if jobs leave slow nodes to others.
    fn refuses_slow_nodes(&self) -> bool {
        Kind::BOTH.iter().any(|&kind| self.slots(kind).placement.refuse_slow.is_some())
    }

    /// True if it makes a difference between nodes.
    pub fn compares_nodes(&self) -> bool {
        self.matching.is_some() || self.refuses_slow_nodes()
    }

    /// The number of a node's class. Zero for a node that has not joined.
    pub fn node_class(&self, matcher: &Matcher, state: &State, node: NodeId) -> u16 {
        if matcher.is_used() {
            matcher.type_of(node)
        } else if state.nodes().up(node).is_some() {
            state.nodes().type_of(node) as u16
        } else {
            0
        }
    }

    /// One node of each class, of those that are up.
    pub fn distinct_nodes(&self, matcher: &Matcher, state: &State) -> Vec<NodeId> {
        let nodes = state.nodes();
        if matcher.is_used() {
            let up = |node: &NodeId| nodes.up(*node).is_some();
            matcher.node_types().iter().filter_map(|of| of.nodes.iter().copied().find(up)).collect()
        } else if self.refuses_slow_nodes() {
            let of_type = |at: usize| nodes.ids_up().find(|&node| nodes.type_of(node) == at);
            (0..nodes.types().len()).filter_map(of_type).collect()
        } else {
            nodes.ids_up().take(1).collect()
        }
    }

    /// How long a job is to be refused nodes while it gets no slot on others; none for ever.
    pub fn refusal_max_wait(&self) -> Option<Span> {
        match &self.matching {
            Some(matching) => (!matching.is_strict()).then_some(matching.max_wait),
            None => Some(DEFAULT_MAX_WAIT),
        }
    }
}
