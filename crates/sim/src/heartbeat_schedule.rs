//! When each node sends its heartbeats.
//!
//! Every node has a fixed offset in the heartbeat interval; the offsets are spread evenly over it. Most heartbeats would carry nothing and are
//! never simulated: the schedule computes when the next one of a node would be.

use crate::cluster::Cluster;
use giveway_core::{NodeId, Time};

/// Heartbeat times of all nodes.
pub(crate) struct HeartbeatSchedule {
    interval_us: u64,
    /// By node, ascending.
    offsets_us: Vec<u64>,
}

impl HeartbeatSchedule {
    pub(crate) fn new(cluster: &Cluster) -> HeartbeatSchedule {
        let offsets_us: Vec<u64> =
            (0..cluster.nodes.len() as u32).map(|node| cluster.first_heartbeat(NodeId(node)).0).collect();
        assert!(offsets_us.is_sorted(), "heartbeat offsets must ascend with the node number");
        // An interval of zero would keep virtual time from advancing.
        HeartbeatSchedule { interval_us: cluster.heartbeat.0.max(1_000), offsets_us }
    }

    /// The first heartbeat of a node at this instant or later.
    pub(crate) fn at_or_after(&self, node: u32, now: Time) -> Time {
        let offset_us = self.offsets_us[node as usize];
        let intervals = now.0.saturating_sub(offset_us).div_ceil(self.interval_us);
        Time(offset_us + intervals * self.interval_us)
    }

    /// The first heartbeat of a node after this instant.
    pub(crate) fn after(&self, node: u32, now: Time) -> Time {
        self.at_or_after(node, Time(now.0 + 1))
    }

    /// The node whose heartbeat is the first at this instant or later.
    pub(crate) fn next_node(&self, now: Time) -> u32 {
        let (nodes, phase_us) = (self.offsets_us.len(), now.0 % self.interval_us);
        // Offsets are evenly spaced, so the guess is off by one or two at most.
        let guess = phase_us as f64 / self.interval_us as f64 * nodes as f64;
        let mut node = (guess as usize).min(nodes);
        while node > 0 && self.offsets_us[node - 1] >= phase_us {
            node -= 1;
        }
        while node < nodes && self.offsets_us[node] < phase_us {
            node += 1;
        }
        if node == nodes { 0 } else { node as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(nodes: u64, interval_us: u64) -> HeartbeatSchedule {
        HeartbeatSchedule { interval_us, offsets_us: (0..nodes).map(|node| interval_us * node / nodes).collect() }
    }

    #[test]
    fn heartbeats_repeat_at_the_offset_of_their_node() {
        let schedule = schedule(3, 3_000);
        assert_eq!(schedule.at_or_after(1, Time(0)), Time(1_000));
        assert_eq!(schedule.at_or_after(1, Time(1_000)), Time(1_000));
        assert_eq!(schedule.after(1, Time(1_000)), Time(4_000));
        assert_eq!(schedule.at_or_after(2, Time(2_001)), Time(5_000));
    }

    #[test]
    fn the_next_node_wraps_around() {
        let schedule = schedule(3, 3_000);
        assert_eq!(schedule.next_node(Time(0)), 0);
        assert_eq!(schedule.next_node(Time(1)), 1);
        assert_eq!(schedule.next_node(Time(5_001)), 0);
    }

    proptest! {
        #[test]
        fn the_next_node_is_that_of_a_linear_search(
            nodes in 1u64..500,
            interval_us in 1_000u64..5_000_000,
            now in any::<u32>(),
        ) {
            let schedule = schedule(nodes, interval_us);
            let phase_us = u64::from(now) % interval_us;
            let expected = schedule.offsets_us.iter().position(|offset_us| *offset_us >= phase_us).unwrap_or(0);
            prop_assert_eq!(schedule.next_node(Time(u64::from(now))), expected as u32);
        }
    }
}
