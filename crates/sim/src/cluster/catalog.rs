//! The clusters of the four papers' experiments, by name.
//!
//! Slots, blocks, replicas, links, cores and the number of disks are those of the papers. What they leave open is chosen here, the same for every
//! policy: the compute speed of a core (relative to the reference core of `workload::apps`), the rate of a disk, the variation of task times. All
//! nodes of a cluster are in one rack, because no paper mentions more than one switch. `docs/model.md` has the source of each value.

use super::{Cluster, Costs, Faults, HeartbeatMode, NodeModel, ScriptedFault, SharedHardware, Stragglers};
use crate::files::{GB, MB};
use giveway_core::{NodeId, NodeSpec, RackId, Span};
use thiserror::Error;

/// Bytes per second of a link of one gigabit.
const GIGABIT: u64 = 125_000_000;
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

/// Returns the cluster with this name.
pub fn by_name(name: &str) -> Result<Cluster, UnknownCluster> {
    let unknown = || UnknownCluster { name: name.into() };
    Ok(match name {
        "hsrtf" => hsrtf(),
        "fcs" => fcs(),
        "fcs-figure3" => fcs_figure_3(),
        "chronos" => chronos(name, None),
        "chronos-map" => chronos(name, Some(MAP_FAULT_S)),
        "chronos-reduce" => chronos(name, Some(REDUCE_FAULT_S)),
        "coshh" => coshh(),
        "coshh-real" => coshh_real(),
        _ => {
            let count = name.strip_prefix("coshh-").and_then(|count| count.parse().ok());
            coshh_scaled(count.filter(|count| COSHH_NODES.contains(count)).ok_or_else(unknown)?)
        }
    })
}

/// A cluster with the defaults of Hadoop 1: a heartbeat every three seconds, a node lost after ten minutes.
fn hadoop(name: &str, nodes: Vec<NodeModel>) -> Cluster {
    Cluster {
        name: name.into(),
        nodes,
        heartbeat: Span::from_secs(3),
        reporting: HeartbeatMode::Heartbeat,
        lost_after: Span::from_secs(600),
        block_bytes: 128 * MB,
        replicas: 3,
        cross_rack: 1.0,
        costs: Costs::default(),
        noise: 0.1,
        stragglers: Stragglers::default(),
        faults: Faults::default(),
    }
}

/// Properties of a node without its name.
struct Machine {
    map_slots: u16,
    reduce_slots: u16,
    speed_ppm: u32,
    disk_bytes_per_s: u64,
    disk_bytes: u64,
    net_bytes_per_s: u64,
    shared: Option<SharedHardware>,
}

impl Machine {
    fn node(&self, name: String) -> NodeModel {
        let spec = NodeSpec {
            name,
            rack: RackId(0),
            map_slots: self.map_slots,
            reduce_slots: self.reduce_slots,
            speed_ppm: self.speed_ppm,
            disk_bytes_per_s: self.disk_bytes_per_s,
            disk_bytes: self.disk_bytes,
        };
        NodeModel { spec, net_bytes_per_s: self.net_bytes_per_s, shared: self.shared }
    }

    fn nodes(&self, count: u32) -> Vec<NodeModel> {
        (0..count).map(|i| self.node(format!("node-{i}"))).collect()
    }
}

/// Four reference Opteron cores, one disk and 8 GB of memory for ten slots, which contend for them. A SATA disk of 250 GB of those years reads
/// about 85 MB/s on its outer tracks and half of that on its inner ones.
fn hsrtf() -> Cluster {
    let machine = Machine {
        map_slots: 8,
        reduce_slots: 2,
        speed_ppm: 1_000_000,
        disk_bytes_per_s: 65 * MB,
        disk_bytes: 250 * GB,
        net_bytes_per_s: GIGABIT,
        shared: Some(SharedHardware { cores: 4, disks: 1, page_cache_bytes: Some(4 * GB) }),
    };
    hadoop("hsrtf", machine.nodes(58))
}

/// Twenty-four cores of a Xeon X5650 and two disks of 500 GB for twelve slots: tasks contend for the disks alone.
///
/// The speed follows from the paper's averages. 137,800 maps arrive within 171 x 30 s for 360 slots: if jobs finish in 247 to 359 s on average
/// (Table 2), the cluster hardly falls behind, and a map may occupy its slot for about 14 s at most. With the reference seconds of
/// `workload::apps`, one second to launch, the heartbeat delay and the read, that is a speed of 3.
fn fcs() -> Cluster {
    hadoop("fcs", fcs_machine(8, 4).nodes(45))
}

fn fcs_machine(map_slots: u16, reduce_slots: u16) -> Machine {
    Machine {
        map_slots,
        reduce_slots,
        speed_ppm: 3_000_000,
        disk_bytes_per_s: 100 * MB,
        disk_bytes: 1_000 * GB,
        net_bytes_per_s: GIGABIT,
        shared: Some(SharedHardware { cores: 24, disks: 2, page_cache_bytes: Some(10 * GB) }),
    }
}

/// Section 2.2: 20 nodes, of which ten have 40 map slots between them and ten have 20 reduce slots.
fn fcs_figure_3() -> Cluster {
    let node = |number: usize| match number {
        0..10 => fcs_machine(4, 0),
        _ => fcs_machine(0, 2),
    };
    hadoop("fcs-figure3", (0..20).map(|number| node(number).node(format!("n{number}"))).collect())
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

/// Twelve Opteron cores at 1.7 GHz, 0.65 of the reference clock, and one disk for twelve slots: tasks contend for the disk alone. Equal nodes process equal blocks, so
/// task times vary little. In Hadoop 1.2.1 a small cluster's nodes send a heartbeat every 0.3 s
/// (`mapreduce.jobtracker.heartbeat.interval.min`); before 1.1 it was 3 s.
fn chronos(name: &str, fault_at_s: Option<f64>) -> Cluster {
    let machine = Machine {
        map_slots: 8,
        reduce_slots: 4,
        speed_ppm: 650_000,
        disk_bytes_per_s: 80 * MB,
        disk_bytes: 250 * GB,
        net_bytes_per_s: GIGABIT,
        shared: Some(SharedHardware { cores: 12, disks: 1, page_cache_bytes: Some(43 * GB) }),
    };
    let scripted = fault_at_s.map(|at_s| ScriptedFault { node: FAULTY_NODE, at_s, back_after_s: None });
    Cluster {
        heartbeat: Span::from_millis(300),
        lost_after: Span::from_secs(25),
        block_bytes: 256 * MB,
        replicas: 2,
        noise: 0.05,
        faults: Faults { scripted: scripted.into_iter().collect(), ..Faults::default() },
        ..hadoop(name, machine.nodes(8))
    }
}

// COSHH's resources. 500 MHz is speed 1, so 5 MHz is 0.01.
//
// Half of the nodes store 400 KB at 40 Kbps, which cannot be meant as written: such a node could not store one block of 128 MB, and if it did, a
// map would read for seven hours. The paper's results contradict it (93 to 98 % of the tasks are data-local, Tables 6 to 9, and half of the slots
// belong to these nodes; as written it would be 51 % under the baselines). So every node stores as much as the best ones, and the slow store
// delivers as much as the 100 Mbps link: on these nodes, reading a local replica takes as long as reading a remote one.

/// 9 Gbps, and the substitute for 40 Kbps.
const STORE_FAST: u64 = 1_125_000_000;
const STORE_SLOW: u64 = 12_500_000;
/// 4 TB (Table 3).
const STORE_BYTES: u64 = 4_000_000_000_000;
/// 100 Mbps between the resources (section 5.2).
const COSHH_NET: u64 = 12_500_000;
const FAST_PPM: u32 = 1_000_000;
const SLOW_PPM: u32 = 10_000;

/// Table 3. It does not distinguish map and reduce slots; section 6.2.1 gives 31 for maps and 23 for reduces. One of each on the small nodes
/// leaves 28 and 20 for three equal nodes, 9 1/3 map slots each: the tenth map slot goes to the node with the fast store.
fn coshh() -> Cluster {
    let table = [
        (1, 1, SLOW_PPM, STORE_FAST),
        (9, 7, FAST_PPM, STORE_SLOW),
        (10, 6, FAST_PPM, STORE_FAST),
        (1, 1, SLOW_PPM, STORE_FAST),
        (9, 7, FAST_PPM, STORE_SLOW),
        (1, 1, SLOW_PPM, STORE_SLOW),
    ];
    coshh_of("coshh", &table, table.len() as u32)
}

/// Table 10: two slots on each of six types, added in turn. The table has 500 GHz where Table 3 has 500 MHz for the same types, presumably a
/// misprint.
fn coshh_scaled(count: u32) -> Cluster {
    let types = [
        (1, 1, SLOW_PPM, STORE_FAST),
        (1, 1, FAST_PPM, STORE_SLOW),
        (1, 1, FAST_PPM, STORE_FAST),
        (1, 1, SLOW_PPM, STORE_FAST),
        (1, 1, FAST_PPM, STORE_SLOW),
        (1, 1, SLOW_PPM, STORE_SLOW),
    ];
    coshh_of(&format!("coshh-{count}"), &types, count)
}

/// `count` nodes of these types in turn. Task times do not vary: the paper simulates with exactly known execution times.
fn coshh_of(name: &str, types: &[(u16, u16, u32, u64)], count: u32) -> Cluster {
    let node = |i: u32| {
        let (map_slots, reduce_slots, speed_ppm, disk_bytes_per_s) = types[i as usize % types.len()];
        let disk_bytes = STORE_BYTES;
        let net_bytes_per_s = COSHH_NET;
        // The paper's simulator has an execution rate for each resource, and no contention within one.
        let shared = None;
        Machine { map_slots, reduce_slots, speed_ppm, disk_bytes_per_s, disk_bytes, net_bytes_per_s, shared }
            .node(format!("R{}", i + 1))
    };
    Cluster { noise: 0.0, ..hadoop(name, (0..count).map(node).collect()) }
}

/// Table 11: four quad-core nodes, two slots of each kind (the default of Hadoop 0.20), 2 Gbps links. The table's capacity (500 MB to 32 GB) must
/// be memory rather than disk, otherwise three replicas would not fit; every node gets a disk of 1 TB.
fn coshh_real() -> Cluster {
    let node = |(i, speed_ppm): (usize, u32)| {
        Machine {
            map_slots: 2,
            reduce_slots: 2,
            speed_ppm,
            disk_bytes_per_s: 3_200_000_000,
            disk_bytes: 1_000 * GB,
            net_bytes_per_s: 2 * GIGABIT,
            // Four slots on four cores.
            shared: None,
        }
        .node(format!("R{}", i + 1))
    };
    // 100, 800, 400 and 3200 MHz.
    let speeds = [200_000, 1_600_000, 800_000, 6_400_000];
    hadoop("coshh-real", speeds.into_iter().enumerate().map(node).collect())
}

#[cfg(test)]
mod tests {
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
        assert_eq!(coshh().nodes.iter().map(total).collect::<Vec<_>>(), [2, 16, 16, 2, 16, 2]);
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
