//! Clusters from TOML files. Every key is described in `docs/files.md`.

use super::{
    Cluster, Costs, Faults, HeartbeatMode, NodeModel, RandomFaults, ScriptedFault, SharedHardware, Stragglers,
    TaskFailures,
};
use crate::files::{Bounds, FileError, GB, Key, MB, Seconds, SourceFile};
use giveway_core::{Kind, NodeId, NodeSpec, RackId, Span};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use std::fmt;
use toml::Spanned;

/// Largest number of nodes in a cluster, ten times that of the largest known ones.
const MAX_NODES: u32 = 100_000;
const MAX_SLOTS: u32 = 1_000;
const YEAR_S: f64 = 366.0 * 86_400.0;

/// The TOML structure of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    name: Option<String>,
    #[serde(default)]
    nodes: Vec<Spanned<NodesEntry>>,
    heartbeat: Key<Seconds>,
    lost_after: Key<Seconds>,
    block_mb: Key<f64>,
    replicas: Key<i64>,
    cross_rack: Key<f64>,
    noise: Key<f64>,
    #[serde(default)]
    reporting: HeartbeatMode,
    costs: Key<Costs>,
    stragglers: Option<StragglersEntry>,
    #[serde(default)]
    faults: FaultsEntry,
}

/// One or several equal nodes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesEntry {
    name: Option<String>,
    count: Key<i64>,
    rack: Key<i64>,
    racks: Key<i64>,
    map_slots: Key<i64>,
    reduce_slots: Key<i64>,
    speed: Key<f64>,
    disk_mb_s: Key<f64>,
    net_mbit_s: Key<f64>,
    cores: Key<i64>,
    disks: Key<i64>,
    page_cache_gb: Key<f64>,
    disk_gb: Key<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StragglersEntry {
    share: Key<f64>,
    factor: Key<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultsEntry {
    #[serde(default)]
    scripted: Vec<ScriptedEntry>,
    random: Option<RandomEntry>,
    #[serde(default)]
    task_failures: Vec<TaskFailuresEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskFailuresEntry {
    node: Spanned<NodeRef>,
    from: Key<Seconds>,
    until: Key<Seconds>,
    share: Key<f64>,
    after: Key<Seconds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedEntry {
    node: Spanned<NodeRef>,
    at: Spanned<Seconds>,
    back_after: Key<Seconds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RandomEntry {
    mean_up: Spanned<Seconds>,
    mean_down: Spanned<Seconds>,
    until: Key<Seconds>,
}

/// A node, by its number or its name.
enum NodeRef {
    Number(i64),
    Name(String),
}

impl<'de> Deserialize<'de> for NodeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeRef, D::Error> {
        struct NodeVisitor;

        impl Visitor<'_> for NodeVisitor {
            type Value = NodeRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number or the name of a node")
            }

            fn visit_i64<E>(self, number: i64) -> Result<NodeRef, E> {
                Ok(NodeRef::Number(number))
            }

            fn visit_str<E>(self, name: &str) -> Result<NodeRef, E> {
                Ok(NodeRef::Name(name.into()))
            }
        }

        deserializer.deserialize_any(NodeVisitor)
    }
}

impl Cluster {
    /// Parses a cluster from the text of a file; `file_name` is used in error messages.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Cluster, FileError> {
        let source = SourceFile::new(file_name, text);
        let file: ClusterFile = source.read()?;
        let nodes = nodes(&source, &file.nodes)?;
        let heartbeat_s = source.seconds("heartbeat", &file.heartbeat, 3.0, 0.01, 3_600.0)?;
        // At least two heartbeats, otherwise a node between two heartbeats would count as lost.
        let min_lost_after_s = 2.0 * heartbeat_s;
        let lost_after_s = source.seconds(
            "lost_after",
            &file.lost_after,
            f64::max(600.0, min_lost_after_s),
            min_lost_after_s,
            YEAR_S,
        )?;
        let cluster = Cluster {
            name: file.name.unwrap_or_else(|| file_name.into()),
            heartbeat: Span::from_secs_f64(heartbeat_s),
            reporting: file.reporting,
            lost_after: Span::from_secs_f64(lost_after_s),
            block_bytes: bytes(
                source.number("block_mb", &file.block_mb, 128.0, Bounds::Closed(0.001, 1_048_576.0))?,
                MB,
            ),
            replicas: replicas(&source, &file.replicas, nodes.len() as u32)?,
            cross_rack: source.number("cross_rack", &file.cross_rack, 1.0, Bounds::OpenLow(0.0, 1.0))?,
            costs: costs(&source, &file.costs)?,
            noise: source.number("noise", &file.noise, 0.0, Bounds::Closed(0.0, 3.0))?,
            stragglers: stragglers(&source, &file.stragglers)?,
            faults: faults(&source, &file.faults, &nodes)?,
            nodes,
        };
        if cluster.slots(Kind::Map) == 0 {
            let problem = "no node has a map slot, so no job could run".into();
            return Err(source.value_error(
                file.nodes[0].span(),
                problem,
                "give at least one node map_slots = 1 or more",
            ));
        }
        Ok(cluster)
    }
}

fn bytes(amount: f64, unit: u64) -> u64 {
    (amount * unit as f64).round() as u64
}

fn nodes(source: &SourceFile<'_>, entries: &[Spanned<NodesEntry>]) -> Result<Vec<NodeModel>, FileError> {
    let mut nodes = Vec::new();
    for entry in entries {
        let count = node_count(source, entry.get_ref(), nodes.len() as u32)?;
        add_nodes(source, entry, count, &mut nodes)?;
    }
    if nodes.is_empty() {
        return Err(source.value_error(0..0, "the cluster has no nodes".into(), "add a [[nodes]] table"));
    }
    Ok(nodes)
}

/// Number of nodes of an entry, given the number of nodes before it.
fn node_count(source: &SourceFile<'_>, entry: &NodesEntry, nodes_before: u32) -> Result<u32, FileError> {
    let Some(key) = &entry.count else { return Ok(1) };
    match u32::try_from(*key.get_ref()) {
        Ok(count) if count >= 1 && count <= MAX_NODES - nodes_before.min(MAX_NODES) => Ok(count),
        Ok(0) => {
            Err(source.value_error(key.span(), "count is 0".into(), "write 1 or more, or remove this [[nodes]] table"))
        }
        _ => {
            let problem = format!("count is {}, but a cluster has at most {MAX_NODES} nodes", key.get_ref());
            Err(source.value_error(key.span(), problem, "write a smaller count"))
        }
    }
}

fn add_nodes(
    source: &SourceFile<'_>,
    spanned: &Spanned<NodesEntry>,
    count: u32,
    nodes: &mut Vec<NodeModel>,
) -> Result<(), FileError> {
    let entry = spanned.get_ref();
    if nodes.len() as u32 + count > MAX_NODES {
        let problem = format!("this table makes more than {MAX_NODES} nodes in total");
        return Err(source.value_error(spanned.span(), problem, "write a smaller count"));
    }
    if let (Some(_), Some(racks)) = (&entry.rack, &entry.racks) {
        let problem = "rack and racks are both given".into();
        return Err(source.value_error(
            racks.span(),
            problem,
            "keep rack for one rack, or racks to spread the nodes over several",
        ));
    }
    let map_slots = source.count("map_slots", &entry.map_slots, 2, 0, MAX_SLOTS)?;
    let reduce_slots = source.count("reduce_slots", &entry.reduce_slots, 2, 0, MAX_SLOTS)?;
    if map_slots + reduce_slots == 0 {
        let span = entry.map_slots.as_ref().map_or(spanned.span(), Spanned::span);
        let problem = "map_slots and reduce_slots are both 0".into();
        return Err(source.value_error(span, problem, "give the node at least one slot"));
    }
    let rack = source.count("rack", &entry.rack, 0, 0, MAX_NODES)?;
    let racks = source.count("racks", &entry.racks, 1, 1, MAX_NODES)?;
    let speed = source.number("speed", &entry.speed, 1.0, Bounds::Closed(0.001, 1_000.0))?;
    let disk_mb_s = source.number("disk_mb_s", &entry.disk_mb_s, 80.0, Bounds::Closed(0.001, 1e6))?;
    let net_mbit_s = source.number("net_mbit_s", &entry.net_mbit_s, 1_000.0, Bounds::Closed(8.0, 1e7))?;
    let disk_gb = source.number("disk_gb", &entry.disk_gb, 1_000.0, Bounds::Closed(0.001, 1e9))?;
    let shared = shared_hardware(source, entry)?;
    for i in 0..count {
        let name = match &entry.name {
            Some(name) if count == 1 => name.clone(),
            Some(name) => format!("{name}-{i}"),
            None => format!("node-{}", nodes.len()),
        };
        let spec = NodeSpec {
            name,
            rack: RackId(if racks > 1 { i % racks } else { rack }),
            map_slots: map_slots as u16,
            reduce_slots: reduce_slots as u16,
            speed_ppm: (speed * 1e6).round() as u32,
            disk_bytes_per_s: bytes(disk_mb_s, MB),
            disk_bytes: bytes(disk_gb, GB),
        };
        nodes.push(NodeModel { spec, net_bytes_per_s: bytes(net_mbit_s, 125_000), shared });
    }
    Ok(())
}

fn shared_hardware(source: &SourceFile<'_>, entry: &NodesEntry) -> Result<Option<SharedHardware>, FileError> {
    if entry.cores.is_none() {
        let alone = [("disks", entry.disks.as_ref().map(Spanned::span))];
        let alone = alone.into_iter().chain([("page_cache_gb", entry.page_cache_gb.as_ref().map(Spanned::span))]);
        return match alone.into_iter().find_map(|(key, span)| Some((key, span?))) {
            Some((key, span)) => Err(source.value_error(
                span,
                format!("{key} is given without cores"),
                "add cores: tasks share both or none",
            )),
            None => Ok(None),
        };
    }
    let page_cache_gb = source.number("page_cache_gb", &entry.page_cache_gb, 1.0, Bounds::Closed(0.001, 1e6))?;
    Ok(Some(SharedHardware {
        cores: source.count("cores", &entry.cores, 1, 1, MAX_SLOTS)? as u16,
        disks: source.count("disks", &entry.disks, 1, 1, MAX_SLOTS)? as u16,
        page_cache_bytes: entry.page_cache_gb.as_ref().map(|_| bytes(page_cache_gb, GB)),
    }))
}

/// Three replicas as in Hadoop, or one for each node if there are fewer.
fn replicas(source: &SourceFile<'_>, key: &Key<i64>, nodes: u32) -> Result<u32, FileError> {
    if let Some(key) = key
        && *key.get_ref() > i64::from(nodes)
    {
        let problem = format!("replicas is {}, but the cluster has only {nodes} nodes", key.get_ref());
        return Err(source.value_error(key.span(), problem, "write at most the number of nodes"));
    }
    source.count("replicas", key, nodes.min(3), 1, nodes)
}

fn costs(source: &SourceFile<'_>, key: &Key<Costs>) -> Result<Costs, FileError> {
    let Some(key) = key else { return Ok(Costs::default()) };
    let costs = *key.get_ref();
    let times = [
        ("launch", costs.launch),
        ("pause", costs.pause),
        ("resume", costs.resume),
        ("end_early", costs.end_early),
        ("kill", costs.kill),
        ("sort_per_gb", costs.sort_per_gb),
    ];
    if let Some((name, time)) = times.into_iter().find(|(_, time)| time.as_secs_f64() > YEAR_S) {
        return Err(source.value_error(key.span(), format!("costs.{name} is {time}"), "write at most a year"));
    }
    Ok(costs)
}

fn stragglers(source: &SourceFile<'_>, entry: &Option<StragglersEntry>) -> Result<Stragglers, FileError> {
    let Some(entry) = entry else { return Ok(Stragglers::default()) };
    Ok(Stragglers {
        share: source.number("stragglers.share", &entry.share, 0.0, Bounds::Closed(0.0, 1.0))?,
        factor: source.number("stragglers.factor", &entry.factor, 1.0, Bounds::Closed(1.0, 1e4))?,
    })
}

fn faults(source: &SourceFile<'_>, entry: &FaultsEntry, nodes: &[NodeModel]) -> Result<Faults, FileError> {
    let mut scripted = Vec::new();
    for fault in &entry.scripted {
        let back_after_s = match &fault.back_after {
            Some(_) => Some(source.seconds("back_after", &fault.back_after, 0.0, 0.0, 100.0 * YEAR_S)?),
            None => None,
        };
        let at = Some(fault.at.clone());
        let at_s = source.seconds("at", &at, 0.0, 0.0, 100.0 * YEAR_S)?;
        scripted.push(ScriptedFault { node: find_node(source, &fault.node, nodes)?, at_s, back_after_s });
    }
    let random = match &entry.random {
        None => None,
        Some(random) => {
            let span = |name: &str, key: &Key<Seconds>, default_s: f64| {
                source.seconds(name, key, default_s, 1.0, 100.0 * YEAR_S).map(Span::from_secs_f64)
            };
            Some(RandomFaults {
                mean_up: span("mean_up", &Some(random.mean_up.clone()), 0.0)?,
                mean_down: span("mean_down", &Some(random.mean_down.clone()), 0.0)?,
                until: span("until", &random.until, super::default_fault_horizon().as_secs_f64())?,
            })
        }
    };
    let mut task_failures = Vec::new();
    for entry in &entry.task_failures {
        let until_s = match &entry.until {
            Some(_) => Some(source.seconds("until", &entry.until, 0.0, 0.0, 100.0 * YEAR_S)?),
            None => None,
        };
        task_failures.push(TaskFailures {
            node: find_node(source, &entry.node, nodes)?,
            from_s: source.seconds("from", &entry.from, 0.0, 0.0, 100.0 * YEAR_S)?,
            until_s,
            share: source.number("share", &entry.share, 1.0, Bounds::Closed(0.0, 1.0))?,
            after: Span::from_secs_f64(source.seconds("after", &entry.after, 1.0, 0.0, YEAR_S)?),
        });
    }
    Ok(Faults { scripted, random, task_failures })
}

fn find_node(source: &SourceFile<'_>, node: &Spanned<NodeRef>, nodes: &[NodeModel]) -> Result<NodeId, FileError> {
    let (found, name) = match node.get_ref() {
        NodeRef::Number(number) => (usize::try_from(*number).ok().filter(|i| *i < nodes.len()), number.to_string()),
        NodeRef::Name(name) => (nodes.iter().position(|node| node.spec.name == *name), format!("`{name}`")),
    };
    found.map(|i| NodeId(i as u32)).ok_or_else(|| {
        let remedy = format!("write a number from 0 to {}, or the name of a node", nodes.len() - 1);
        source.value_error(node.span(), format!("unknown node {name}"), &remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Cluster::from_toml(text, "c.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_node_count_suffices() {
        let cluster = Cluster::from_toml("[[nodes]]\ncount = 4\n", "c.toml").unwrap();
        assert_eq!((cluster.name.as_str(), cluster.nodes.len(), cluster.replicas), ("c.toml", 4, 3));
        assert_eq!((cluster.slots(Kind::Map), cluster.slots(Kind::Reduce)), (8, 8));
        assert_eq!((cluster.heartbeat, cluster.lost_after), (Span::from_secs(3), Span::from_secs(600)));
        assert_eq!(cluster.nodes[3].spec.name, "node-3");
    }

    #[test]
    fn all_keys_are_read() {
        let text = r#"
            name = "lab"
            heartbeat = "1s"
            lost_after = 30
            block_mb = 64
            replicas = 2
            cross_rack = 0.25
            noise = 0.2
            reporting = "out-of-band"
            costs = { launch = "2s", pause_flush_bytes = 1000 }
            stragglers = { share = 0.05, factor = 4 }
            [[nodes]]
            name = "old"
            count = 4
            racks = 2
            map_slots = 8
            reduce_slots = 2
            speed = 0.5
            disk_mb_s = 50
            net_mbit_s = 100
            disk_gb = 250
            [[nodes]]
            name = "new"
            rack = 7
            [[faults.scripted]]
            node = "old-1"
            at = "1m"
            back_after = 90
            [[faults.scripted]]
            node = 4
            at = 5
            [faults.random]
            mean_up = "1d"
            mean_down = "10m"
        "#;
        let cluster = Cluster::from_toml(text, "c.toml").unwrap();
        let racks: Vec<u32> = cluster.nodes.iter().map(|node| node.spec.rack.0).collect();
        assert_eq!(racks, [0, 1, 0, 1, 7]);
        let old = &cluster.nodes[0];
        assert_eq!(
            (old.spec.speed_ppm, old.spec.disk_bytes_per_s, old.net_bytes_per_s),
            (500_000, 50 * MB, 12_500_000)
        );
        let scripted = &cluster.faults.scripted;
        assert_eq!((scripted[0].node, scripted[0].at_s, scripted[0].back_after_s), (NodeId(1), 60.0, Some(90.0)));
        assert_eq!((scripted[1].node, scripted[1].back_after_s), (NodeId(4), None));
        assert_eq!(cluster.faults.random.unwrap().until, Span::from_secs(7 * 86_400));
        assert_eq!((cluster.costs.launch, cluster.costs.kill), (Span::from_secs(2), Costs::default().kill));
    }

    #[test]
    fn errors_name_line_and_remedy() {
        for (text, line, part) in [
            ("", 1, "no nodes; add a [[nodes]]"),
            ("[[nodes]]\ncount = 1000000", 2, "at most 100000 nodes; write a smaller count"),
            ("[[nodes]]\ncount = 60000\n\n[[nodes]]\ncount = 60000", 5, "at most 100000"),
            ("[[nodes]]\ncount = 0", 2, "count is 0"),
            ("[[nodes]]\ncount = -4", 2, "count is -4"),
            ("[[nodes]]\nspeed = nan", 2, "speed is NaN; write a number from 0.001"),
            ("[[nodes]]\nspeed = 0", 2, "speed is 0"),
            ("[[nodes]]\n\nmap_slots = 0\nreduce_slots = 0", 3, "at least one slot"),
            ("[[nodes]]\nmap_slots = 0", 1, "no node has a map slot"),
            ("[[nodes]]\nmap_slots = 70000", 2, "from 0 to 1000"),
            ("[[nodes]]\nrack = 1\nracks = 2", 3, "both given"),
            ("[[nodes]]\ndisk_gb = -1", 2, "disk_gb is -1"),
            ("[[nodes]]\ndisk_gb = 5e-324", 2, "write a number from 0.001"),
            ("[[nodes]]\nspede = 2", 2, "unknown field `spede`"),
            ("[[nodes]]\nspeed = 'fast'", 2, "invalid type"),
            ("replicas = 3\n[[nodes]]\ncount = 2", 1, "only 2 nodes; write at most"),
            ("replicas = 0\n[[nodes]]", 1, "replicas is 0"),
            ("noise = inf\n[[nodes]]", 1, "noise is inf"),
            ("cross_rack = 0\n[[nodes]]", 1, "greater than 0"),
            ("heartbeat = 0\n[[nodes]]", 1, "heartbeat is 0 s"),
            ("lost_after = '1s'\n[[nodes]]", 1, "lost_after is 1 s; write a time from 6 s"),
            ("[[nodes]]\n[[faults.scripted]]\nnode = 1\nat = 5", 3, "unknown node 1; write a number from 0 to 0"),
            ("[[nodes]]\n[[faults.scripted]]\nnode = 'x'\nat = 5", 3, "unknown node `x`"),
            ("[[nodes]]\n[[faults.scripted]]\nnode = 0\nat = -5", 4, "at is -5 s"),
            ("[[nodes]]\n[faults.random]\nmean_up = 0\nmean_down = 5", 3, "mean_up is 0 s"),
            ("[[nodes]]\n[[faults.task_failures]]\nnode = 3", 3, "unknown node 3"),
            ("[[nodes]]\n[[faults.task_failures]]\nnode = 0\nshare = 2", 4, "share is 2"),
            ("[[nodes]]\n[stragglers]\nshare = 2", 3, "stragglers.share is 2"),
            ("[[nodes]]\n[costs]\nlaunch = 'soon'", 3, "invalid span of time"),
            ("[[nodes", 1, "c.toml:1:"),
        ] {
            let error = error(text);
            assert!(error.starts_with(&format!("c.toml:{line}: ")), "{text:?} gave {error}");
            assert!(error.contains(part), "{text:?} gave {error}");
        }
    }
}
