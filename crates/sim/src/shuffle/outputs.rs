//! Map outputs of a job: which are available, how large they are, and on which nodes they are stored.
//!
//! An output is lost with its node. Maps are counted in pieces, because a map that ends early becomes two.

use super::page_cache::{PageCaches, StoredOutput};
use crate::event_queue::NONE;
use giveway_core::state::bit_set::BitSet;
use rustc_hash::FxHashMap;

/// The map outputs of one job.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    total_bytes: u64,
    available_bytes: u64,
    /// Number of maps of the job, including the remainders of those that ended early.
    pieces: u32,
    /// The maps whose output is available, and each of them with its node in the order of arrival.
    done: BitSet,
    stored_on: Vec<(u32, u32)>,
    on_node: FxHashMap<u32, StoredOutput>,
    /// By rack; empty in a cluster of one rack.
    bytes_in_rack: Vec<u64>,
    /// The longest time that a node needs to send all of its output over its link, and that node.
    longest_send_us: f64,
    bottleneck_node: u32,
}

impl Outputs {
    pub(crate) fn new(maps: u32, total_bytes: u64, nodes: usize, racks: usize) -> Outputs {
        Outputs {
            total_bytes,
            pieces: maps,
            done: BitSet::with_capacity(maps),
            stored_on: Vec::with_capacity(maps as usize),
            on_node: FxHashMap::with_capacity_and_hasher(nodes.min(maps as usize), Default::default()),
            bytes_in_rack: if racks > 1 { vec![0; racks] } else { Vec::new() },
            bottleneck_node: NONE,
            ..Outputs::default()
        }
    }

    /// Adds a piece: the remainder of a map that ended early is a map of its own.
    pub(crate) fn add_piece(&mut self) {
        self.pieces += 1;
    }

    /// Adds the output of a map on a node; false if the output is already available (from another attempt).
    pub(crate) fn add(
        &mut self,
        map: u32,
        bytes: u64,
        node: u32,
        rack: u32,
        link: f64,
        caches: &mut PageCaches,
    ) -> bool {
        if self.done.contains(map) {
            return false;
        }
        self.done.insert(map);
        self.stored_on.push((map, node));
        self.available_bytes += bytes;
        let output = self.on_node.entry(node).or_default();
        caches.pass(node, bytes);
        output.add(bytes, caches.position(node));
        let send_us = output.bytes as f64 / caches.send_bytes_per_us(node, link, *output);
        if send_us > self.longest_send_us {
            (self.longest_send_us, self.bottleneck_node) = (send_us, node);
        }
        if let Some(in_rack) = self.bytes_in_rack.get_mut(rack as usize) {
            *in_rack += bytes;
        }
        true
    }

    /// Removes the outputs on a node; false if there were none. [`Outputs::find_bottleneck`] must follow.
    pub(crate) fn lose_node(&mut self, node: u32, rack: u32) -> bool {
        let Some(StoredOutput { bytes, .. }) = self.on_node.remove(&node) else { return false };
        self.available_bytes -= bytes;
        if let Some(in_rack) = self.bytes_in_rack.get_mut(rack as usize) {
            *in_rack -= bytes;
        }
        for &(map, _) in self.stored_on.iter().filter(|(_, on)| *on == node) {
            self.done.remove(map);
        }
        self.stored_on.retain(|(_, on)| *on != node);
        true
    }

    /// Finds the node that needs the longest time to send its output. `send_rate` is the rate of a node for its output.
    pub(crate) fn find_bottleneck(&mut self, send_rate: impl Fn(u32, StoredOutput) -> f64) {
        // The maximum does not depend on the iteration order; of equals the last node counts.
        let sends = self.on_node.iter().map(|(&node, &output)| (output.bytes as f64 / send_rate(node, output), node));
        let longest = sends.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        (self.longest_send_us, self.bottleneck_node) = longest.unwrap_or((0.0, NONE));
    }

    fn available(&self) -> u32 {
        self.stored_on.len() as u32
    }

    /// Whether every map is done and its output is available.
    pub(crate) fn is_complete(&self) -> bool {
        self.available() == self.pieces
    }

    /// The available fraction (0-1) of the output; by number of maps if there are no bytes.
    pub(crate) fn available_fraction(&self) -> f64 {
        if self.total_bytes == 0 {
            return f64::from(self.available()) / f64::from(self.pieces.max(1));
        }
        (self.available_bytes as f64 / self.total_bytes as f64).min(1.0)
    }

    /// Available output bytes on a node.
    pub(crate) fn bytes_on_node(&self, node: u32) -> u64 {
        self.on_node(node).bytes
    }

    /// Available output on a node.
    pub(crate) fn on_node(&self, node: u32) -> StoredOutput {
        self.on_node.get(&node).copied().unwrap_or_default()
    }

    /// The fractions of the available output on a node that has `on_node` bytes of it, and elsewhere in its rack.
    pub(crate) fn locality_fractions(&self, on_node: u64, rack: u32) -> (f64, f64) {
        if self.available_bytes == 0 {
            return (0.0, 0.0);
        }
        let in_rack = self.bytes_in_rack.get(rack as usize).copied().unwrap_or(self.available_bytes);
        let available = self.available_bytes as f64;
        (on_node as f64 / available, (in_rack - on_node) as f64 / available)
    }

    /// The node that needs the longest time to send its output.
    pub(crate) fn bottleneck_node(&self) -> u32 {
        self.bottleneck_node
    }

    /// The rate at which all nodes together can send, if each sends in proportion to its output: the bottleneck node determines it.
    pub(crate) fn send_bytes_per_us(&self) -> f64 {
        if self.longest_send_us > 0.0 { self.available_bytes as f64 / self.longest_send_us } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn an_output_counts_once_and_is_lost_with_its_node() {
        let mut caches = PageCaches::new(&fixture::cluster(9));
        let mut outputs = Outputs::new(3, 300, 9, 2);
        assert!(outputs.add(0, 100, 7, 0, 1.0, &mut caches));
        assert!(!outputs.add(0, 100, 8, 1, 1.0, &mut caches), "a second attempt adds nothing");
        assert!(outputs.add(1, 100, 8, 1, 1.0, &mut caches));
        assert_eq!(outputs.locality_fractions(outputs.bytes_on_node(7), 0), (0.5, 0.0));
        assert_eq!(outputs.locality_fractions(outputs.bytes_on_node(6), 0), (0.0, 0.5));
        assert!(outputs.add(2, 100, 8, 1, 1.0, &mut caches));
        assert!(outputs.is_complete());
        assert_eq!(outputs.send_bytes_per_us(), 1.5);
        assert!(outputs.lose_node(8, 1));
        assert!(!outputs.lose_node(8, 1));
        outputs.find_bottleneck(|_, _| 1.0);
        assert!(!outputs.is_complete());
        assert!((outputs.available_fraction() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(outputs.send_bytes_per_us(), 1.0);
    }

    #[test]
    fn a_map_that_ended_early_is_complete_with_both_pieces() {
        let mut caches = PageCaches::new(&fixture::cluster(9));
        let mut outputs = Outputs::new(1, 100, 9, 1);
        outputs.add_piece();
        outputs.add(0, 40, 0, 0, 1.0, &mut caches);
        assert!(!outputs.is_complete());
        outputs.add(1, 60, 0, 0, 1.0, &mut caches);
        assert!(outputs.is_complete());
        assert_eq!(outputs.available_fraction(), 1.0);
    }

    #[test]
    fn maps_without_output_bytes_are_counted() {
        let mut caches = PageCaches::new(&fixture::cluster(9));
        let mut outputs = Outputs::new(2, 0, 9, 1);
        outputs.add(1, 0, 3, 0, 1.0, &mut caches);
        assert_eq!(outputs.available_fraction(), 0.5);
        assert!(outputs.lose_node(3, 0));
        assert_eq!(outputs.available_fraction(), 0.0);
    }
}
