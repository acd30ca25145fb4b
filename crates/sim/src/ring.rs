//! The grid of beat times, and rings of nodes around it.
//!
//! Every node beats at its own offset in each interval, so the nodes stand around the interval as around a clock face.
//! A beat without news is not an event: a [`Ring`] remembers which nodes would have something to say, and finds the
//! next one.

use crate::cluster::Cluster;
use giveway_core::{NodeId, Time};

/// When each node beats.
pub(crate) struct Grid {
    interval_us: u64,
    /// By node, never falling.
    offsets_us: Vec<u64>,
}

impl Grid {
    pub(crate) fn new(cluster: &Cluster) -> Grid {
        let offsets_us: Vec<u64> =
            (0..cluster.nodes.len() as u32).map(|node| cluster.first_beat(NodeId(node)).0).collect();
        assert!(offsets_us.is_sorted(), "beats go round by node number");
        // A cluster that beats all the time would never let time pass.
        Grid { interval_us: cluster.heartbeat.0.max(1_000), offsets_us }
    }

    /// The first beat of a node at this instant or later.
    pub(crate) fn beat_from(&self, node: u32, now: Time) -> Time {
        let offset_us = self.offsets_us[node as usize];
        let intervals = now.0.saturating_sub(offset_us).div_ceil(self.interval_us);
        Time(offset_us + intervals * self.interval_us)
    }

    /// The first beat of a node after this instant.
    pub(crate) fn beat_after(&self, node: u32, now: Time) -> Time {
        self.beat_from(node, Time(now.0 + 1))
    }

    /// The node that beats first at this instant or later.
    pub(crate) fn node_from(&self, now: Time) -> u32 {
        let (nodes, phase_us) = (self.offsets_us.len(), now.0 % self.interval_us);
        // Offsets are spread evenly, so the place can be reckoned to within one or two.
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

/// A set of nodes that finds the next one around the clock in a few steps: bits, and bits over the words of bits.
pub(crate) struct Ring {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Ring {
    pub(crate) fn new(nodes: usize) -> Ring {
        let words = nodes.div_ceil(64);
        Ring { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    /// Adds or removes a node; true if that changed anything.
    pub(crate) fn set(&mut self, node: u32, member: bool) -> bool {
        let (word, bit) = (node as usize / 64, 1u64 << (node % 64));
        let before = self.words[word] & bit != 0;
        if before == member {
            return false;
        }
        self.words[word] ^= bit;
        let (over, mark) = (word / 64, 1u64 << (word % 64));
        if self.words[word] == 0 {
            self.summary[over] &= !mark;
        } else {
            self.summary[over] |= mark;
        }
        true
    }

    /// The first member from this node on, round the clock.
    pub(crate) fn next_from(&self, node: u32) -> Option<u32> {
        self.next_up(node).or_else(|| self.next_up(0))
    }

    fn next_up(&self, node: u32) -> Option<u32> {
        let word = node as usize / 64;
        let here = self.words.get(word)? & (!0 << (node % 64));
        if here != 0 {
            return Some(word as u32 * 64 + here.trailing_zeros());
        }
        let mut mask = if word % 64 == 63 { 0 } else { !0 << (word % 64 + 1) };
        for over in word / 64..self.summary.len() {
            let full = self.summary[over] & mask;
            if full != 0 {
                let word = over * 64 + full.trailing_zeros() as usize;
                return Some(word as u32 * 64 + self.words[word].trailing_zeros());
            }
            mask = !0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid(nodes: u64, interval_us: u64) -> Grid {
        Grid { interval_us, offsets_us: (0..nodes).map(|node| interval_us * node / nodes).collect() }
    }

    #[test]
    fn beats_lie_on_the_grid() {
        let grid = grid(3, 3_000);
        assert_eq!(grid.beat_from(1, Time(0)), Time(1_000));
        assert_eq!(grid.beat_from(1, Time(1_000)), Time(1_000));
        assert_eq!(grid.beat_after(1, Time(1_000)), Time(4_000));
        assert_eq!(grid.beat_from(2, Time(2_001)), Time(5_000));
    }

    #[test]
    fn the_clock_face_goes_round() {
        let grid = grid(3, 3_000);
        assert_eq!(grid.node_from(Time(0)), 0);
        assert_eq!(grid.node_from(Time(1)), 1);
        assert_eq!(grid.node_from(Time(5_001)), 0);
    }

    proptest! {
        #[test]
        fn the_first_node_is_the_one_a_walk_finds(
            nodes in 1u64..500,
            interval_us in 1_000u64..5_000_000,
            now in any::<u32>(),
        ) {
            let grid = grid(nodes, interval_us);
            let phase_us = u64::from(now) % interval_us;
            let walked = grid.offsets_us.iter().position(|offset_us| *offset_us >= phase_us).unwrap_or(0);
            prop_assert_eq!(grid.node_from(Time(u64::from(now))), walked as u32);
        }

        /// The obvious twin: try every node in turn.
        #[test]
        fn a_ring_finds_what_a_walk_finds(
            nodes in 1u32..10_000,
            members in prop::collection::vec(0u32..10_000, 0..12),
            removed in prop::collection::vec(0usize..12, 0..6),
            from in 0u32..10_000,
        ) {
            let mut ring = Ring::new(nodes as usize);
            let mut plain = vec![false; nodes as usize];
            for member in &members {
                ring.set(member % nodes, true);
                plain[(member % nodes) as usize] = true;
            }
            for index in removed.into_iter().filter(|index| *index < members.len()) {
                ring.set(members[index] % nodes, false);
                plain[(members[index] % nodes) as usize] = false;
            }
            let from = from % nodes;
            let walked = (0..nodes).map(|step| (from + step) % nodes).find(|node| plain[*node as usize]);
            prop_assert_eq!(ring.next_from(from), walked);
        }
    }
}
