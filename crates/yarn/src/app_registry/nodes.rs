//! Nodes: when they come and go, how fast they are, and to which applications they are refused.

use super::AppRegistry;
use giveway_core::{Event, NodeId, NodeSpec, PerKind, RackId, Span, Time, WHOLE_PPM};
use std::collections::BTreeMap;

fn slots_of(containers: u32) -> u16 {
    u16::try_from(containers).unwrap_or(u16::MAX)
}

/// What the plug-in reports of a node.
#[derive(Debug)]
pub(super) struct NodeReport {
    pub name: String,
    pub rack: String,
    /// Containers that it holds, and those that still fit.
    pub slots: u32,
    /// Containers that may be paused there at once.
    pub pausable: u32,
    /// Whether one that is paused there would fit now.
    pub can_resume: bool,
    /// Parts per million of the speed of an ordinary node; zero counts as that.
    pub speed_ppm: u32,
}

impl AppRegistry {
    /// A node is up, for the first time or with other attributes.
    pub(super) fn node_reported(&mut self, now: Time, report: NodeReport) {
        let speed_ppm = if report.speed_ppm == 0 { WHOLE_PPM } else { report.speed_ppm };
        if let Some(&node) = self.nodes.get(&report.name) {
            self.change_speed(now, node, speed_ppm);
        } else {
            self.node_added(now, &report, speed_ppm);
        }
        // Policies that only rank applications do not ask what is free.
        if let Some(&node) = self.nodes.get(&report.name).filter(|_| self.one_pool) {
            self.counts.insert(node, report);
        }
    }

    /// The core has ended the attempts of a lost node. Their containers are reported as released later, or never if they were demoted.
    pub(super) fn forget_containers_on(&mut self, node: NodeId) {
        for app in self.apps.values_mut() {
            let lost: Vec<_> = app.containers.extract_if(|_, container| container.node == node).collect();
            lost.iter().for_each(|(_, container)| drop(self.index.remove(&container.attempt)));
        }
    }

    fn node_added(&mut self, now: Time, report: &NodeReport, speed_ppm: u32) {
        // YARN's containers have no kind: all of a node's may run maps, or all of them reduces.
        let slots = slots_of(report.slots.max(1));
        let next_rack = RackId(self.racks.len() as u32);
        let rack = *self.racks.entry(report.rack.clone()).or_insert(next_rack);
        let spec = NodeSpec {
            name: report.name.clone(),
            rack,
            map_slots: if self.one_pool { 0 } else { slots },
            reduce_slots: slots,
            speed_ppm,
            disk_bytes_per_s: 100 << 20,
            disk_bytes: 0,
        };
        // A node that returns keeps its id; otherwise the core's node table would grow with every restart of a NodeManager.
        let previous = self.core.nodes().find(|known| known.spec.name == spec.name).map(|known| known.id);
        let node = previous.unwrap_or(NodeId(self.next_node_number));
        self.submit_event(now, Event::NodeJoined { node, spec });
    }

    /// NodeManagers report their attributes some time after they have registered. A node that runs containers keeps its speed until it registers
    /// again, because for the core a node of another speed is another node.
    fn change_speed(&mut self, now: Time, node: NodeId, speed_ppm: u32) {
        let Some(known) = self.core.node_up(node) else { return };
        if known.speed_ppm == speed_ppm {
            return;
        }
        // A node that joins has at least one slot.
        let spec = NodeSpec { speed_ppm, reduce_slots: known.reduce_slots.max(1), ..known.clone() };
        if self.containers().any(|container| container.node == node) {
            self.warning = Some(format!("{} runs containers: its new speed counts once it registers again", spec.name));
            return;
        }
        self.submit_event(now, Event::NodeLost { node });
        self.submit_event(now, Event::NodeJoined { node, spec });
    }

    /// Tells the core what the plug-in has counted. Counts arrive before the messages about the containers that they include, so they wait for those; increases come first,
    /// so that nothing is preempted for what then fits.
    pub(super) fn apply_counts(&mut self, now: Time) {
        let mut counts: Vec<(NodeId, NodeReport)> = std::mem::take(&mut self.counts).into_iter().collect();
        let increases = |(node, report): &(NodeId, NodeReport)| {
            self.core.node_up(*node).is_some_and(|known| known.reduce_slots < slots_of(report.slots))
        };
        counts.sort_by_cached_key(|count| !increases(count));
        for (node, report) in counts {
            if self.core.node_up(node).is_some() {
                self.set_slots(now, node, report.slots);
                self.set_pause_limit(now, node, report.pausable);
                if report.can_resume {
                    self.can_resume.insert(node)
                } else {
                    self.can_resume.remove(&node)
                };
            }
        }
    }

    fn set_slots(&mut self, now: Time, node: NodeId, slots: u32) {
        let slots = slots_of(slots);
        if self.core.node_up(node).is_some_and(|known| known.reduce_slots != slots) {
            self.submit_event(now, Event::NodeSlotsSet { node, slots: PerKind::new(0, slots) });
        }
    }

    /// Limits the containers that may be paused on a node.
    fn set_pause_limit(&mut self, now: Time, node: NodeId, attempts: u32) {
        if self.core.state().node(node).pause_limit() != attempts {
            self.submit_event(now, Event::PauseLimitSet { node, attempts });
        }
    }

    /// True if the policy makes a difference between nodes, so that the plug-in has to refuse some of them to some applications.
    pub fn compares_nodes(&self) -> bool {
        self.core.setup().policy.compares_nodes()
    }

    /// How long a node is refused to an application that gets no container on others; none for ever.
    pub fn refusal_max_wait(&self) -> Option<Span> {
        self.core.refusal_max_wait()
    }

    /// The class of each node that is up, by name.
    pub fn node_classes(&self) -> Vec<(String, u16)> {
        let mut classes: Vec<(String, u16)> =
            self.nodes.iter().map(|(name, &node)| (name.clone(), self.core.node_class(node))).collect();
        classes.sort_unstable();
        classes
    }

    /// Incremented when a node joins or is lost: then [`node_classes`](AppRegistry::node_classes) may have changed.
    pub fn nodes_version(&self) -> u64 {
        self.nodes_version
    }

    /// The classes of nodes that each application must not use now, of those that are refused any, by application id.
    pub fn refusals(&self) -> Vec<(String, Vec<u16>)> {
        let mut refused: BTreeMap<&String, Vec<u16>> = BTreeMap::new();
        for class in self.core.node_refusals() {
            for app_id in class.refused.iter().filter_map(|job| self.app_ids.get(job)) {
                refused.entry(app_id).or_default().push(class.class);
            }
        }
        refused.into_iter().map(|(app_id, classes)| (app_id.clone(), classes)).collect()
    }

    /// One line for each application whose suggested classes of nodes have changed since the last call. None while there is one class of nodes.
    pub fn take_suggestions(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.compares_nodes() {
            return lines;
        }
        for (app_id, app) in &mut self.apps {
            let suggested = self.core.suggested_node_classes(app.job);
            if suggested.is_some() && suggested != app.suggested {
                let classes: Vec<String> = suggested.iter().flatten().map(u16::to_string).collect();
                lines.push(format!("{app_id} is suggested for nodes of class {}", classes.join(" and ")));
                app.suggested = suggested;
            }
        }
        lines.sort_unstable();
        lines
    }
}
