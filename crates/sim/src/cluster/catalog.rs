//! The clusters of the four papers' experiments, by name.
//!
//! Each is a cluster file in `catalog/`. Slots, blocks, replicas, links, cores and the number of disks are those of the papers. What they leave open is
//! chosen there, the same for every policy: the compute speed of a core (relative to the reference core of `workload::apps`), the rate of a disk, the
//! variation of task times. All nodes of a cluster are in one rack, because no paper mentions more than one switch. Heartbeats and the time until a node
//! is lost are the defaults of Hadoop 1. `docs/model.md` has the source of each value.

use super::{Cluster, ScriptedFault};
use giveway_core::NodeId;
use thiserror::Error;

/// Range of N in `coshh-N`. The paper goes up to 102 (section 6.2.2).
const COSHH_NODES: std::ops::RangeInclusive<u32> = 6..=10_000;

/// There is no built-in cluster with this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown cluster `{name}`; use the path of a cluster file, or one of: {}", listed())]
pub struct UnknownCluster {
    /// The unknown name.
    pub name: String,
}

/// Every name with a description.
pub fn names() -> &'static [(&'static str, &'static str)] {
    &[
        ("hsrtf", "58 nodes of 8 map and 2 reduce slots (hSRTF, section 4)"),
        ("fcs", "45 nodes of 8 map and 4 reduce slots (FCS, section 5.1)"),
        ("fcs-figure3", "10 nodes of 4 map slots and 10 of 2 reduce slots (FCS, section 2.2)"),
        ("chronos", "8 nodes of 8 map and 4 reduce slots, lost after 25 s (Chronos, section IV)"),
        ("chronos-map", "chronos, and a node fails while the maps run (section V-A)"),
        ("chronos-reduce", "chronos, and a node fails while the first job reduces (section V-B)"),
        ("coshh", "6 heterogeneous nodes with 31 map and 23 reduce slots (COSHH, Table 3)"),
        ("coshh-N", "N nodes from 6 to 10000, the six types in turn (COSHH, Table 10)"),
        ("coshh-real", "4 heterogeneous quad-core nodes (COSHH, Table 11)"),
    ]
}

fn listed() -> String {
    names().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Time of the failure in `chronos-map`: late in the first wave of maps, in which the first job runs on all 64 slots.
///
/// A word count over 256 MB takes about 107 s here, so the tasks on the failed node are the first job's, as in the paper: "most of the failed
/// tasks belong to the first job". When the failure is detected 25 s later, the second job runs on nearly all slots: FIFO waits for the end
/// of that wave, and Chronos has attempts to preempt.
const MAP_FAULT_S: f64 = 100.0;

/// Time of the failure in `chronos-reduce`, when the reduces of the first job occupy all 32 slots.
///
/// In the paper, reduces of the first job on other nodes finish before the failure is detected, FIFO assigns their slots to the second job, and the
/// lost reduces of the first job wait for those: 325 s. When that is depends on how tasks contend, so `giveway reproduce` replaces this time by one
/// that it derives from a run without a failure.
const REDUCE_FAULT_S: f64 = 120.0;

/// The node that fails; the paper chooses it at random.
const FAULTY_NODE: NodeId = NodeId(3);

/// Returns the cluster with this name.
pub fn by_name(name: &str) -> Result<Cluster, UnknownCluster> {
    let text = match name {
        "hsrtf" => include_str!("catalog/hsrtf.toml"),
        "fcs" => include_str!("catalog/fcs.toml"),
        "fcs-figure3" => include_str!("catalog/fcs-figure3.toml"),
        "chronos" | "chronos-map" | "chronos-reduce" => include_str!("catalog/chronos.toml"),
        "coshh" => include_str!("catalog/coshh.toml"),
        "coshh-real" => include_str!("catalog/coshh-real.toml"),
        _ => {
            let count = name.strip_prefix("coshh-").and_then(|count| count.parse().ok());
            let count = count.filter(|count| COSHH_NODES.contains(count));
            return count.map(coshh_scaled).ok_or_else(|| UnknownCluster { name: name.into() });
        }
    };
    let cluster = Cluster::from_toml(text, name).expect("a test reads every cluster of the catalogue");
    Ok(match name {
        "chronos-map" => failing(cluster, name, MAP_FAULT_S),
        "chronos-reduce" => failing(cluster, name, REDUCE_FAULT_S),
        _ => cluster,
    })
}

/// COSHH, Table 10: two slots on each of six types, added in turn. The table has 500 GHz where Table 3 has 500 MHz for the same types, presumably a
/// misprint.
fn coshh_scaled(count: u32) -> Cluster {
    let small = by_name("coshh").expect("a test reads every cluster of the catalogue");
    let types = small.nodes.iter().cycle().zip(1..=count);
    let nodes = types.map(|(node, number)| {
        let mut node = node.clone();
        (node.spec.map_slots, node.spec.reduce_slots) = (1, 1);
        node.spec.name = format!("R{number}");
        node
    });
    Cluster { name: format!("coshh-{count}"), nodes: nodes.collect(), ..small.clone() }
}

/// A cluster of which one node fails and stays away.
fn failing(mut cluster: Cluster, name: &str, at_s: f64) -> Cluster {
    cluster.name = name.into();
    cluster.faults.scripted.push(ScriptedFault { node: FAULTY_NODE, at_s, back_after_s: None });
    cluster
}

#[cfg(test)]
mod tests {
    use super::super::NodeModel;
    use super::*;
    use giveway_core::Kind;

    #[test]
    fn slots_are_those_of_the_papers() {
        let slots = |name: &str| {
            let cluster = by_name(name).unwrap();
            assert_eq!(cluster.name, name);
            (cluster.nodes.len(), cluster.slots(Kind::Map), cluster.slots(Kind::Reduce))
        };
        assert_eq!(slots("hsrtf"), (58, 464, 116));
        assert_eq!(slots("fcs"), (45, 360, 180));
        assert_eq!(slots("chronos"), (8, 64, 32));
        assert_eq!(slots("coshh"), (6, 31, 23), "COSHH, section 6.2.1");
        assert_eq!(slots("coshh-102"), (102, 102, 102), "17 of each type");
        assert_eq!(slots("coshh-real"), (4, 8, 8));
    }

    #[test]
    fn slots_of_each_node_are_those_of_table_3() {
        let total = |node: &NodeModel| node.spec.map_slots + node.spec.reduce_slots;
        assert_eq!(by_name("coshh").unwrap().nodes.iter().map(total).collect::<Vec<_>>(), [2, 16, 16, 2, 16, 2]);
    }

    #[test]
    fn only_the_two_failure_experiments_have_faults() {
        for (name, _) in names().iter().filter(|(name, _)| *name != "coshh-N") {
            let faults = by_name(name).unwrap().faults.scripted.len();
            assert_eq!(faults, usize::from(*name == "chronos-map" || *name == "chronos-reduce"), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        for name in ["", "fcs2", "coshh-", "coshh-5", "coshh-10001", "coshh-99999999999", "coshh--6"] {
            let error = by_name(name).unwrap_err().to_string();
            assert!(error.contains("hsrtf, fcs, fcs-figure3, chronos"), "{error}");
        }
    }
}
