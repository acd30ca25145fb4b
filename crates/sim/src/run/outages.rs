//! What goes wrong: a node falls silent, is given up, comes back.
//!
//! When a node fails, all that ran there, was kept there or lay there as map output is gone at once, but nobody is
//! told: the core learns of it when the node has been silent for too long. Input blocks are spared: the core keeps
//! their replicas on its list, and a block whose replicas are all down is read as if from afar.

use super::Simulation;
use crate::observe::Observer;
use crate::queue::Tick;
use giveway_core::{Event, Kind, NodeId};

impl Simulation<'_> {
    /// A node falls silent, unless it is silent already.
    pub(super) fn fail(&mut self, node: u32, fault: u32) {
        let repaired = self.failures.repaired_at(node, fault, self.now, &mut self.queue);
        if !self.nodes[node as usize].up {
            return;
        }
        for kept in &self.nodes[node as usize].kept {
            self.jobs[kept.from.task.job.0 as usize].kept -= 1;
        }
        for attempt in self.nodes[node as usize].fail() {
            self.stop_fetching(attempt.place);
            self.attempts.remove(attempt.place);
        }
        self.orders.remove(&node);
        self.silent += 1;
        let outage = self.nodes[node as usize].outage;
        self.note_free(node);
        self.shuffle.lose_node(self.now, node);
        self.plan_fetches();
        self.queue.push(self.now + self.cluster.lost_after, Tick::Loss { node, outage });
        self.queue.push(repaired, Tick::Return { node, outage });
    }

    /// A node has been silent for too long.
    pub(super) fn lose(&mut self, node: u32, outage: u32, observer: &mut impl Observer) {
        let state = &mut self.nodes[node as usize];
        if state.outage != outage || state.up || !state.known_up {
            return;
        }
        state.known_up = false;
        self.silent -= 1;
        // What must be done again depends on how far the reduces are; a real heartbeat always says so.
        self.report_progress(|whose| whose.kind() == Kind::Reduce, observer);
        self.tell(&Event::NodeLost { node: NodeId(node) }, None, observer);
    }

    /// A node is repaired and joins with an empty disk. If its silence was too short to be noticed, its loss is noticed
    /// now.
    pub(super) fn come_back(&mut self, node: u32, outage: u32, observer: &mut impl Observer) {
        if self.nodes[node as usize].outage != outage {
            return;
        }
        self.lose(node, outage, observer);
        let state = &mut self.nodes[node as usize];
        (state.up, state.known_up) = (true, true);
        self.join(node, observer);
    }
}
