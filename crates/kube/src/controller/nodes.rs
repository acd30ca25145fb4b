//! Nodes: when they come and go, and how many pods may be squeezed on them.

use super::{Controller, NodeEntry, changes};
use crate::objects::Node;
use crate::request::Change;
use giveway_core::{Event, NodeId, NodeSpec, RackId, WHOLE_PPM};
use std::collections::BTreeSet;

impl Controller {
    pub(super) fn node_changed(&mut self, change: Change<Node>) {
        self.listed[0] |= matches!(change, Change::Listed(_));
        let known = self.nodes.iter().filter(|(_, node)| !node.deleted).map(|(name, _)| name.clone());
        let (objects, deleted) = changes(change, known, |node| node.metadata.name.clone());
        for object in objects {
            let entry = self.node_entry(&object.metadata.name);
            entry.deleted = false;
            entry.object = object;
        }
        for name in deleted {
            self.node_entry(&name).deleted = true;
        }
    }

    /// The node of a name, which may be known by its pods only. It counts as changed.
    pub(super) fn node_entry(&mut self, name: &str) -> &mut NodeEntry {
        self.changed_nodes.insert(name.to_owned());
        self.nodes.entry(name.to_owned()).or_insert_with(|| NodeEntry {
            object: Node::default(),
            deleted: true,
            id: None,
            is_up: false,
            is_drained: false,
            pods: BTreeSet::new(),
        })
    }

    pub(super) fn synchronize_node(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let is_ready = !node.deleted && node.object.is_ready() && node.object.allocatable_cpu() > 0;
        let (is_up, was_drained) = (node.is_up, node.is_drained);
        if is_up && !is_ready {
            self.lose_node(name);
        }
        if is_ready && !is_up {
            // The core wants at least one slot of a node that joins.
            self.join_node(name, self.slots_of(name).max(1));
        }
        self.update_slots(name);
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.is_up) else { return };
        node.is_drained = node.object.spec.unschedulable;
        let (Some(id), drained) = (node.id, node.is_drained) else { return };
        if drained != was_drained {
            self.submit(if drained { Event::NodeDrained { node: id } } else { Event::NodeIncluded { node: id } });
        }
    }

    fn join_node(&mut self, name: &str, slots: u16) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let id = *node.id.get_or_insert(NodeId(self.next_node));
        self.next_node = self.next_node.max(id.0 + 1);
        node.is_up = true;
        self.changed_pods.extend(node.pods.iter().cloned());
        let spec = NodeSpec {
            name: name.to_owned(),
            rack: RackId(0),
            map_slots: 0,
            reduce_slots: slots,
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s: 100 << 20,
            disk_bytes: 0,
        };
        self.submit(Event::NodeJoined { node: id, spec });
    }

    /// The core ends the attempts of a lost node. Their pods may still exist: if the node returns, they are reported anew.
    fn lose_node(&mut self, name: &str) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.is_up = false;
        let Some(id) = node.id else { return };
        for uid in node.pods.clone() {
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            pod.state = super::PodState::Running;
            if let Some(attempt) = pod.attempt.take() {
                self.attempts.remove(&attempt);
                self.changed_pods.insert(uid);
            }
        }
        self.submit(Event::NodeLost { node: id });
    }

    /// Squeezed pods keep their memory: no more may be squeezed than leave room for as many of the pods that wait.
    pub(super) fn limit_pauses(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let Some(id) = node.id.filter(|_| node.is_up) else { return };
        let used: u64 = self.pods_on(node).map(|pod| pod.object.memory()).sum();
        let free = node.object.allocatable_memory().saturating_sub(used);
        let largest = self.pods_on(node).map(|pod| pod.object.memory()).max().unwrap_or(0);
        let fitting = free.checked_div(largest).map_or(u32::MAX, |count| u32::try_from(count).unwrap_or(u32::MAX));
        let paused = self.core.state().node(id).paused().len() as u32;
        let attempts = paused.saturating_add(fitting).min(u32::MAX - 1);
        if self.core.state().node(id).pause_limit() != attempts {
            self.submit(Event::PauseLimitSet { node: id, attempts });
        }
    }
}
