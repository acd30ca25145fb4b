//! A job's map outputs: which are done, how large, and on which disks they lie.
//!
//! An output dies with its node. The maps of a job are counted in pieces, because a map that ends early becomes two.

use crate::queue::NONE;
use giveway_core::state::bits::Bits;
use rustc_hash::FxHashMap;

/// The map outputs of one job.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    total_bytes: u64,
    present_bytes: u64,
    /// Maps of the job, the rests of those that ended early among them.
    pieces: u32,
    /// The maps whose output is there, and each with its node, as they came.
    done: Bits,
    lies_on: Vec<(u32, u32)>,
    bytes_on: FxHashMap<u32, u64>,
    /// By rack; empty in a cluster of one rack.
    bytes_in: Vec<u64>,
    /// How long the slowest holder takes to send all it has, alone; and which one that is.
    longest_send_us: f64,
    fullest_holder: u32,
}

impl Outputs {
    pub(crate) fn new(maps: u32, total_bytes: u64, nodes: usize, racks: usize) -> Outputs {
        Outputs {
            total_bytes,
            pieces: maps,
            done: Bits::with_room_below(maps),
            lies_on: Vec::with_capacity(maps as usize),
            bytes_on: FxHashMap::with_capacity_and_hasher(nodes.min(maps as usize), Default::default()),
            bytes_in: if racks > 1 { vec![0; racks] } else { Vec::new() },
            fullest_holder: NONE,
            ..Outputs::default()
        }
    }

    /// A map ended early: its rest is a map of its own.
    pub(crate) fn divide(&mut self) {
        self.pieces += 1;
    }

    /// The output of a map lies on a node; false if it has one already (a copy of the attempt was faster).
    pub(crate) fn add(&mut self, map: u32, bytes: u64, node: u32, rack: u32, link: f64) -> bool {
        if self.done.has(map) {
            return false;
        }
        self.done.add(map);
        self.lies_on.push((map, node));
        self.present_bytes += bytes;
        let on_node = self.bytes_on.entry(node).or_default();
        *on_node += bytes;
        let send_us = *on_node as f64 / link;
        if send_us > self.longest_send_us {
            (self.longest_send_us, self.fullest_holder) = (send_us, node);
        }
        if let Some(in_rack) = self.bytes_in.get_mut(rack as usize) {
            *in_rack += bytes;
        }
        true
    }

    /// A node is gone with all that lay there; false if nothing did. `link` gives the speed of a node's link.
    pub(crate) fn lose(&mut self, node: u32, rack: u32, link: impl Fn(u32) -> f64) -> bool {
        let Some(bytes) = self.bytes_on.remove(&node) else { return false };
        self.present_bytes -= bytes;
        if let Some(in_rack) = self.bytes_in.get_mut(rack as usize) {
            *in_rack -= bytes;
        }
        for &(map, _) in self.lies_on.iter().filter(|(_, on)| *on == node) {
            self.done.remove(map);
        }
        self.lies_on.retain(|(_, on)| *on != node);
        // A largest value does not depend on the order of the walk; of equals the last node counts.
        let sends = self.bytes_on.iter().map(|(node, bytes)| (*bytes as f64 / link(*node), *node));
        let longest = sends.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        (self.longest_send_us, self.fullest_holder) = longest.unwrap_or((0.0, NONE));
        true
    }

    fn present(&self) -> u32 {
        self.lies_on.len() as u32
    }

    /// Every map is done and its output is there.
    pub(crate) fn complete(&self) -> bool {
        self.present() == self.pieces
    }

    /// What part of all output is there, of 1.
    pub(crate) fn share(&self) -> f64 {
        if self.total_bytes == 0 {
            return f64::from(self.present()) / f64::from(self.pieces.max(1));
        }
        (self.present_bytes as f64 / self.total_bytes as f64).min(1.0)
    }

    /// What lies on a node.
    pub(crate) fn bytes_on(&self, node: u32) -> u64 {
        self.bytes_on.get(&node).copied().unwrap_or(0)
    }

    /// What part of the output that is there lies on a node of this rack which has so much of it, and what part lies elsewhere in the rack.
    pub(crate) fn near(&self, on_node: u64, rack: u32) -> (f64, f64) {
        if self.present_bytes == 0 {
            return (0.0, 0.0);
        }
        let in_rack = self.bytes_in.get(rack as usize).copied().unwrap_or(self.present_bytes);
        let present = self.present_bytes as f64;
        (on_node as f64 / present, (in_rack - on_node) as f64 / present)
    }

    /// The node that takes longest to send what it holds.
    pub(crate) fn fullest_holder(&self) -> u32 {
        self.fullest_holder
    }

    /// How fast all holders together can send, if each sends in proportion to what it has: the fullest one decides.
    pub(crate) fn send_bytes_per_us(&self) -> f64 {
        if self.longest_send_us > 0.0 { self.present_bytes as f64 / self.longest_send_us } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_counts_once_and_dies_with_its_node() {
        let mut outputs = Outputs::new(3, 300, 9, 2);
        assert!(outputs.add(0, 100, 7, 0, 1.0));
        assert!(!outputs.add(0, 100, 8, 1, 1.0), "a copy adds nothing");
        assert!(outputs.add(1, 100, 8, 1, 1.0));
        assert_eq!(outputs.near(outputs.bytes_on(7), 0), (0.5, 0.0));
        assert_eq!(outputs.near(outputs.bytes_on(6), 0), (0.0, 0.5));
        assert!(outputs.add(2, 100, 8, 1, 1.0));
        assert!(outputs.complete());
        assert_eq!(outputs.send_bytes_per_us(), 1.5);
        assert!(outputs.lose(8, 1, |_| 1.0));
        assert!(!outputs.lose(8, 1, |_| 1.0));
        assert!(!outputs.complete());
        assert!((outputs.share() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(outputs.send_bytes_per_us(), 1.0);
    }

    #[test]
    fn a_divided_map_is_complete_with_both_pieces() {
        let mut outputs = Outputs::new(1, 100, 9, 1);
        outputs.divide();
        outputs.add(0, 40, 0, 0, 1.0);
        assert!(!outputs.complete());
        outputs.add(1, 60, 0, 0, 1.0);
        assert!(outputs.complete());
        assert_eq!(outputs.share(), 1.0);
    }

    #[test]
    fn maps_without_output_are_counted_one_by_one() {
        let mut outputs = Outputs::new(2, 0, 9, 1);
        outputs.add(1, 0, 3, 0, 1.0);
        assert_eq!(outputs.share(), 0.5);
        assert!(outputs.lose(3, 0, |_| 1.0));
        assert_eq!(outputs.share(), 0.0);
    }
}
