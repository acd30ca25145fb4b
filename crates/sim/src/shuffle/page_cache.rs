//! Page caches: map output that was written recently is sent from memory (hSRTF, section 3.4); older output is read from disk.
//!
//! A cache holds the last bytes that the tasks of its node read and wrote. It is a position that grows with these bytes: output that was written at
//! a position is in memory until the cache's size of further bytes has passed.

use crate::cluster::Cluster;
use crate::tasks::NodeRates;

/// The page caches of all nodes.
#[derive(Debug)]
pub(crate) struct PageCaches {
    nodes: Vec<PageCache>,
    /// Whether any cache has a limit. Without one, all output is in memory.
    limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct PageCache {
    /// `u64::MAX` without a limit.
    size_bytes: u64,
    /// Bytes that the tasks of the node have read and written so far.
    passed_bytes: u64,
    /// Rate of all disks of the node together.
    disk_bytes_per_us: f64,
}

/// Output of one job on one node, written evenly between two positions of the node's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredOutput {
    pub(crate) bytes: u64,
    from: u64,
    to: u64,
}

impl StoredOutput {
    /// Adds bytes that were written up to this position.
    pub(crate) fn add(&mut self, bytes: u64, position: u64) {
        if self.bytes == 0 {
            self.from = position.saturating_sub(bytes);
        }
        (self.bytes, self.to) = (self.bytes + bytes, position);
    }
}

impl PageCaches {
    pub(crate) fn new(cluster: &Cluster) -> PageCaches {
        let cache = |(node, rates): (&crate::cluster::NodeModel, NodeRates)| PageCache {
            size_bytes: node.shared.and_then(|shared| shared.page_cache_bytes).unwrap_or(u64::MAX),
            passed_bytes: 0,
            disk_bytes_per_us: rates.disk_bytes_per_us * node.shared.map_or(1.0, |shared| f64::from(shared.disks)),
        };
        let nodes: Vec<PageCache> = cluster.nodes.iter().zip(NodeRates::of_nodes(cluster)).map(cache).collect();
        PageCaches { limited: nodes.iter().any(|cache| cache.size_bytes < u64::MAX), nodes }
    }

    /// Whether output may have to be read from disk.
    pub(crate) fn limited(&self) -> bool {
        self.limited
    }

    /// Tasks of a node have read or written these bytes.
    pub(crate) fn pass(&mut self, node: u32, bytes: u64) {
        let cache = &mut self.nodes[node as usize];
        cache.passed_bytes = cache.passed_bytes.saturating_add(bytes);
    }

    /// The position of a node's cache.
    pub(crate) fn position(&self, node: u32) -> u64 {
        self.nodes[node as usize].passed_bytes
    }

    /// Time to read a byte of this output, in microseconds; zero if all of it is in memory.
    pub(crate) fn read_us_per_byte(&self, node: u32, output: StoredOutput) -> f64 {
        let cache = &self.nodes[node as usize];
        let evicted = cache.passed_bytes.saturating_sub(cache.size_bytes);
        if evicted <= output.from {
            return 0.0;
        }
        let written = output.to.saturating_sub(output.from).max(1);
        let on_disk = ((evicted - output.from) as f64 / written as f64).min(1.0);
        on_disk / cache.disk_bytes_per_us
    }

    /// The rate at which a node can send this output over its link.
    pub(crate) fn send_bytes_per_us(&self, node: u32, link: f64, output: StoredOutput) -> f64 {
        let read_us = self.read_us_per_byte(node, output);
        if read_us > 0.0 { link.min(1.0 / read_us) } else { link }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::SharedHardware;
    use crate::fixture;

    #[test]
    fn output_is_in_memory_until_the_size_of_the_cache_has_passed() {
        let mut cluster = fixture::cluster(1);
        cluster.nodes[0].spec.disk_bytes_per_s = 10_000_000;
        cluster.nodes[0].shared = Some(SharedHardware { cores: 4, disks: 1, page_cache_bytes: Some(1_000) });
        let mut caches = PageCaches::new(&cluster);
        let mut output = StoredOutput::default();
        caches.pass(0, 400);
        output.add(400, caches.position(0));
        assert_eq!(caches.send_bytes_per_us(0, 125.0, output), 125.0);
        caches.pass(0, 600);
        assert_eq!(caches.read_us_per_byte(0, output), 0.0, "1,000 bytes fit");
        caches.pass(0, 200);
        assert_eq!(caches.read_us_per_byte(0, output), 0.05, "half of it is on disk");
        assert_eq!(caches.send_bytes_per_us(0, 125.0, output), 20.0);
        caches.pass(0, 10_000);
        assert_eq!(caches.send_bytes_per_us(0, 125.0, output), 10.0, "the disk's rate");
        assert_eq!(caches.send_bytes_per_us(0, 5.0, output), 5.0, "a link slower than the disk");
    }

    #[test]
    fn without_a_size_everything_is_in_memory() {
        let mut caches = PageCaches::new(&fixture::cluster(1));
        let mut output = StoredOutput::default();
        caches.pass(0, 5);
        output.add(5, 5);
        caches.pass(0, u64::MAX - 5);
        assert!(!caches.limited());
        assert_eq!(caches.send_bytes_per_us(0, 125.0, output), 125.0);
    }
}
