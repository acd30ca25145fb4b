//! Node failures: failure, detection of the loss, repair.
//!
//! A failed node loses its running attempts, the state of paused reduces and its map output immediately. The core is informed only when the
//! node has missed heartbeats for `lost_after`, or for the policy's `node_expiry` if that is shorter. Input blocks are not affected: the core keeps their replicas in its list, and a block whose
//! replicas are all down is read at remote speed.

use super::Simulation;
use crate::event_queue::SimEvent;
use crate::observe::Observer;
use giveway_core::{Event, Kind, NodeId};

impl Simulation<'_> {
    /// Takes a node down, unless it is down already.
    pub(super) fn on_node_failure(&mut self, node: u32, fault: u32) {
        let repaired = self.failures.repaired_at(node, fault, self.now, &mut self.queue);
        if !self.nodes[node as usize].up {
            return;
        }
        for paused in &self.nodes[node as usize].paused {
            self.jobs[paused.attempt.task.job.0 as usize].paused_reduces -= 1;
        }
        for attempt in self.nodes[node as usize].fail() {
            self.stop_fetch(attempt.key);
            self.attempts.remove(attempt.key);
        }
        self.shared_nodes[node as usize].clear();
        self.stop_requests.remove(&node);
        self.undetected_failures += 1;
        let outage = self.nodes[node as usize].outage;
        self.update_free_slots(node);
        self.shuffle.lose_node(self.now, node);
        self.queue_fetch_deadlines();
        let lost_after = self.scheduler.node_expiry(self.cluster.lost_after);
        self.queue.push(self.now + lost_after, SimEvent::LossTimeout { node, outage });
        self.queue.push(repaired, SimEvent::NodeRepair { node, outage });
    }

    /// Reports a node as lost, unless it has been reported or repaired.
    pub(super) fn on_loss_timeout(&mut self, node: u32, outage: u32, observer: &mut impl Observer) {
        let state = &mut self.nodes[node as usize];
        if state.outage != outage || state.up || !state.core_sees_up {
            return;
        }
        state.core_sees_up = false;
        self.undetected_failures -= 1;
        // What has to run again depends on the progress of the reduces; a real heartbeat always carries it.
        self.report_progress(|task| task.kind() == Kind::Reduce, observer);
        self.send_event(&Event::NodeLost { node: NodeId(node) }, None, observer);
    }

    /// Brings a repaired node back with an empty disk. An outage shorter than `lost_after` is reported as a loss now.
    pub(super) fn on_node_repair(&mut self, node: u32, outage: u32, observer: &mut impl Observer) {
        if self.nodes[node as usize].outage != outage {
            return;
        }
        self.on_loss_timeout(node, outage, observer);
        let state = &mut self.nodes[node as usize];
        (state.up, state.core_sees_up) = (true, true);
        self.join(node, observer);
    }
}
