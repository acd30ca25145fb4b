//! Schedules the heartbeats on which nodes offer free slots.
//!
//! While the core has pending tasks, nodes with free slots send heartbeats in turn, in the order of the heartbeat schedule. Only the next
//! offer is queued; the one after it is looked up when that one has been made. While nothing is pending, no offers are simulated.

use crate::circular_bit_set::CircularBitSet;
use crate::event_queue::{EventQueue, SimEvent};
use crate::heartbeat_schedule::HeartbeatSchedule;
use crate::nodes::Node;
use giveway_core::{Kind, Time};

/// The next offer, and which nodes have free slots.
pub(crate) struct Offers {
    schedule: HeartbeatSchedule,
    /// By kind, the nodes with a free slot.
    free_nodes: [CircularBitSet; 2],
    /// By kind, whether the core had pending tasks after the last step.
    has_pending: [bool; 2],
    /// Time of the queued offer; `NEVER` if none is queued.
    scheduled_at: Time,
    version: u32,
}

impl Offers {
    pub(crate) fn new(schedule: HeartbeatSchedule, nodes: usize) -> Offers {
        Offers {
            schedule,
            free_nodes: [CircularBitSet::new(nodes), CircularBitSet::new(nodes)],
            has_pending: [false; 2],
            scheduled_at: Time::NEVER,
            version: 0,
        }
    }

    /// The next heartbeat of a node; now, if it is scheduled for now and has not been sent yet.
    pub(crate) fn next_heartbeat(&self, node: u32, now: Time, last_heartbeat: Time) -> Time {
        if last_heartbeat == now { self.schedule.after(node, now) } else { self.schedule.at_or_after(node, now) }
    }

    /// Records whether a node has a free slot of a kind. Call when that has changed.
    pub(crate) fn update_free(&mut self, index: u32, node: &Node, kind: Kind, now: Time) {
        let is_free = node.has_free(kind);
        let joins = self.free_nodes[kind.index()].set(index, is_free) && is_free;
        // The heartbeat of this node may come before the queued offer.
        if joins && self.has_pending[kind.index()] && self.scheduled_at != Time::NEVER {
            let at = self.next_heartbeat(index, now, node.last_heartbeat);
            if at < self.scheduled_at {
                self.cancel();
            }
        }
    }

    fn cancel(&mut self) {
        self.scheduled_at = Time::NEVER;
        self.version += 1;
    }

    /// Whether this is the queued offer and not a stale one. If so, no offer is queued any more.
    pub(crate) fn take_scheduled(&mut self, version: u32) -> bool {
        let current = version == self.version;
        if current {
            self.scheduled_at = Time::NEVER;
        }
        current
    }

    /// Queues the next offer, if tasks are pending and no offer is queued yet.
    pub(crate) fn schedule_next(&mut self, now: Time, has_pending: [bool; 2], nodes: &[Node], queue: &mut EventQueue) {
        let rose = Kind::BOTH.iter().any(|kind| has_pending[kind.index()] && !self.has_pending[kind.index()]);
        self.has_pending = has_pending;
        if has_pending == [false; 2] || (self.scheduled_at != Time::NEVER && !rose) {
            return;
        }
        let next =
            Kind::BOTH.iter().filter(|kind| has_pending[kind.index()]).filter_map(|kind| self.next(*kind, now, nodes));
        let Some((at, node)) = next.min() else { return };
        if at < self.scheduled_at {
            self.version += 1;
            self.scheduled_at = at;
            queue.push(at, SimEvent::Offer { node, version: self.version });
        }
    }

    /// The next node with a free slot of this kind, and the time of its heartbeat.
    fn next(&self, kind: Kind, now: Time, nodes: &[Node]) -> Option<(Time, u32)> {
        let free_nodes = &self.free_nodes[kind.index()];
        let first = free_nodes.next_from(self.schedule.next_node(now))?;
        let mut node = first;
        loop {
            let at = self.schedule.at_or_after(node, now);
            // A node that has already sent its heartbeat at this instant comes last.
            if at > now || nodes[node as usize].last_heartbeat != now {
                return Some((at, node));
            }
            node = free_nodes.next_from(node + 1)?;
            if node == first {
                return Some((self.schedule.after(node, now), node));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn offers_follow_the_schedule_and_stop_when_nothing_is_pending() {
        let cluster = fixture::cluster(3);
        let mut nodes: Vec<Node> = cluster.nodes.iter().map(|node| Node::new(&node.spec)).collect();
        let mut offers = Offers::new(HeartbeatSchedule::new(&cluster), 3);
        let mut queue = EventQueue::new(cluster.heartbeat);
        for node in [0, 2] {
            offers.update_free(node, &nodes[node as usize], Kind::Map, Time::ZERO);
        }
        let mut seen = Vec::new();
        let mut now = Time(1);
        for _ in 0..4 {
            offers.schedule_next(now, [true, false], &nodes, &mut queue);
            let (at, SimEvent::Offer { node, version }) = queue.pop().unwrap() else { panic!("not an offer") };
            assert!(offers.take_scheduled(version));
            (now, nodes[node as usize].last_heartbeat) = (at, at);
            seen.push((at.0 / 1_000_000, node));
        }
        assert_eq!(seen, [(2, 2), (3, 0), (5, 2), (6, 0)]);
        offers.schedule_next(now, [false, false], &nodes, &mut queue);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn a_single_node_offers_once_an_interval() {
        let cluster = fixture::cluster(1);
        let mut nodes = vec![Node::new(&cluster.nodes[0].spec)];
        let mut offers = Offers::new(HeartbeatSchedule::new(&cluster), 1);
        let mut queue = EventQueue::new(cluster.heartbeat);
        offers.update_free(0, &nodes[0], Kind::Reduce, Time::ZERO);
        nodes[0].last_heartbeat = Time(3_000_000);
        offers.schedule_next(Time(3_000_000), [false, true], &nodes, &mut queue);
        assert_eq!(queue.pop().unwrap().0, Time(6_000_000));
    }

    #[test]
    fn a_slot_freed_earlier_replaces_the_queued_offer() {
        let cluster = fixture::cluster(3);
        let nodes: Vec<Node> = cluster.nodes.iter().map(|node| Node::new(&node.spec)).collect();
        let mut offers = Offers::new(HeartbeatSchedule::new(&cluster), 3);
        let mut queue = EventQueue::new(cluster.heartbeat);
        offers.update_free(2, &nodes[2], Kind::Map, Time::ZERO);
        offers.schedule_next(Time(1), [true, false], &nodes, &mut queue);
        offers.update_free(1, &nodes[1], Kind::Map, Time(1));
        offers.schedule_next(Time(1), [true, false], &nodes, &mut queue);
        let (at, SimEvent::Offer { node, version }) = queue.pop().unwrap() else { panic!("not an offer") };
        assert_eq!((at, node), (Time(1_000_000), 1));
        assert!(offers.take_scheduled(version));
        let (_, SimEvent::Offer { version, .. }) = queue.pop().unwrap() else { panic!("not an offer") };
        assert!(!offers.take_scheduled(version), "the replaced offer is stale");
    }
}
