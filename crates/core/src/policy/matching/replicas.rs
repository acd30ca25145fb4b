//! Replica placement: replicas go to random nodes among those suggested for the first job that uses the data (COSHH, section 3.2).

use crate::event::Hosts;
use crate::ids::NodeId;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Distinct random nodes for the replicas of a split; all nodes if there are fewer.
pub fn choose_hosts(nodes: &[NodeId], replicas: usize, rng: &mut Pcg64Mcg) -> Hosts {
    let mut hosts = Hosts::new();
    while hosts.len() < replicas.min(nodes.len()) {
        let node = nodes[rng.random_range(0..nodes.len())];
        if !hosts.contains(&node) {
            hosts.push(node);
        }
    }
    hosts
}
