//! Clusters from TOML files. Every key is described in `docs/files.md`.

use super::{Cluster, Costs, Faults, NodeModel, RandomFaults, ScriptedFault, SharedHardware, Stragglers, TaskFailures};
use crate::files::{Bounds, FileError, GB, MB, Table};
use giveway_core::{Kind, NodeId, NodeSpec, RackId, Span};
use serde::Deserialize;

/// Largest number of nodes in a cluster, ten times that of the largest known ones.
const MAX_NODES: u32 = 100_000;
const MAX_SLOTS: u32 = 1_000;
const YEAR_S: f64 = 366.0 * 86_400.0;
const CENTURY_S: f64 = 100.0 * YEAR_S;

impl Cluster {
    /// Parses a cluster from the text of a file; `file_name` is used in error messages.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Cluster, FileError> {
        Table::parse(file_name, text)?.read(|file| cluster(file, file_name))
    }
}

fn cluster(file: &Table<'_>, file_name: &str) -> Result<Cluster, FileError> {
    let mut nodes = Vec::new();
    let mut first_entry = 0..0;
    file.tables("nodes", |entry| {
        if nodes.is_empty() {
            first_entry = entry.span_of("");
        }
        add_nodes(entry, &mut nodes)
    })?;
    if nodes.is_empty() {
        return Err(file.error(0..0, "the cluster has no nodes".into(), "add a [[nodes]] table"));
    }
    let heartbeat_s = file.seconds("heartbeat", 3.0, 0.01..=3_600.0)?;
    // At least two heartbeats, otherwise a node between two heartbeats would count as lost.
    let min_lost_after_s = 2.0 * heartbeat_s;
    let lost_after_s = file.seconds("lost_after", f64::max(600.0, min_lost_after_s), min_lost_after_s..=YEAR_S)?;
    let stragglers = file.table("stragglers", |entry| {
        Ok(Stragglers {
            share: entry.number("share", 0.0, Bounds::Closed(0.0, 1.0))?,
            factor: entry.number("factor", 1.0, Bounds::Closed(1.0, 1e4))?,
        })
    })?;
    let cluster = Cluster {
        name: file.get("name")?.unwrap_or_else(|| file_name.into()),
        heartbeat: Span::from_secs_f64(heartbeat_s),
        reporting: file.get("reporting")?.unwrap_or_default(),
        lost_after: Span::from_secs_f64(lost_after_s),
        block_bytes: bytes(file.number("block_mb", 128.0, Bounds::Closed(0.001, 1_048_576.0))?, MB),
        replicas: replicas(file, nodes.len() as u32)?,
        cross_rack: file.number("cross_rack", 1.0, Bounds::OpenLow(0.0, 1.0))?,
        costs: costs(file)?,
        noise: file.number("noise", 0.0, Bounds::Closed(0.0, 3.0))?,
        stragglers: stragglers.unwrap_or_default(),
        faults: file.table("faults", |entry| faults(entry, &nodes))?.unwrap_or_default(),
        nodes,
    };
    if cluster.slots(Kind::Map) == 0 {
        let problem = "no node has a map slot, so no job could run".into();
        return Err(file.error(first_entry, problem, "give at least one node map_slots = 1 or more"));
    }
    Ok(cluster)
}

fn bytes(amount: f64, unit: u64) -> u64 {
    (amount * unit as f64).round() as u64
}

/// Number of nodes of an entry, given the number of nodes before it.
fn node_count(entry: &Table<'_>, nodes_before: u32) -> Result<u32, FileError> {
    let count: i64 = entry.get("count")?.unwrap_or(1);
    let left = i64::from(MAX_NODES.saturating_sub(nodes_before));
    match count {
        1.. if count <= left => Ok(count as u32),
        0 => Err(entry.error_at("count", "count is 0".into(), "write 1 or more, or remove this [[nodes]] table")),
        _ => {
            let problem = format!("count is {count}, but a cluster has at most {MAX_NODES} nodes");
            Err(entry.error_at("count", problem, "write a smaller count"))
        }
    }
}

fn add_nodes(entry: &Table<'_>, nodes: &mut Vec<NodeModel>) -> Result<(), FileError> {
    let count = node_count(entry, nodes.len() as u32)?;
    if entry.has("rack") && entry.has("racks") {
        let remedy = "keep rack for one rack, or racks to spread the nodes over several";
        return Err(entry.error_at("racks", "rack and racks are both given".into(), remedy));
    }
    let map_slots = entry.count("map_slots", 2, 0..=MAX_SLOTS)?;
    let reduce_slots = entry.count("reduce_slots", 2, 0..=MAX_SLOTS)?;
    if map_slots + reduce_slots == 0 {
        let problem = "map_slots and reduce_slots are both 0".into();
        return Err(entry.error_at("map_slots", problem, "give the node at least one slot"));
    }
    let name: Option<String> = entry.get("name")?;
    let rack = entry.count("rack", 0, 0..=MAX_NODES)?;
    let racks = entry.count("racks", 1, 1..=MAX_NODES)?;
    let speed = entry.number("speed", 1.0, Bounds::Closed(0.001, 1_000.0))?;
    let disk_mb_s = entry.number("disk_mb_s", 80.0, Bounds::Closed(0.001, 1e6))?;
    let net_mbit_s = entry.number("net_mbit_s", 1_000.0, Bounds::Closed(8.0, 1e7))?;
    let disk_gb = entry.number("disk_gb", 1_000.0, Bounds::Closed(0.001, 1e9))?;
    let shared = shared_hardware(entry)?;
    for i in 0..count {
        let name = match &name {
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

fn shared_hardware(entry: &Table<'_>) -> Result<Option<SharedHardware>, FileError> {
    let shared = SharedHardware {
        cores: entry.count("cores", 1, 1..=MAX_SLOTS)? as u16,
        disks: entry.count("disks", 1, 1..=MAX_SLOTS)? as u16,
        page_cache_bytes: entry
            .number_if_any("page_cache_gb", Bounds::Closed(0.001, 1e6))?
            .map(|page_cache_gb| bytes(page_cache_gb, GB)),
    };
    match ["disks", "page_cache_gb"].into_iter().find(|key| entry.has(key)) {
        _ if entry.has("cores") => Ok(Some(shared)),
        Some(key) => {
            let problem = format!("{key} is given without cores");
            Err(entry.error_at(key, problem, "add cores: tasks share both or none"))
        }
        None => Ok(None),
    }
}

/// Three replicas as in Hadoop, or one for each node if there are fewer.
fn replicas(file: &Table<'_>, nodes: u32) -> Result<u32, FileError> {
    if let Some(replicas) = file.get::<i64>("replicas")?.filter(|replicas| *replicas > i64::from(nodes)) {
        let problem = format!("replicas is {replicas}, but the cluster has only {nodes} nodes");
        return Err(file.error_at("replicas", problem, "write at most the number of nodes"));
    }
    file.count("replicas", nodes.min(3), 1..=nodes)
}

fn costs(file: &Table<'_>) -> Result<Costs, FileError> {
    let costs: Costs = file.get("costs")?.unwrap_or_default();
    let Costs { launch, pause, resume, end_early, kill, sort_per_gb, .. } = costs;
    let names = ["launch", "pause", "resume", "end_early", "kill", "sort_per_gb"];
    let times = names.into_iter().zip([launch, pause, resume, end_early, kill, sort_per_gb]);
    if let Some((name, time)) = times.into_iter().find(|(_, time)| time.as_secs_f64() > YEAR_S) {
        return Err(file.error_at("costs", format!("costs.{name} is {time}"), "write at most a year"));
    }
    Ok(costs)
}

fn faults(entry: &Table<'_>, nodes: &[NodeModel]) -> Result<Faults, FileError> {
    let scripted = entry.tables("scripted", |fault| {
        Ok(ScriptedFault {
            node: find_node(fault, nodes)?,
            at_s: required(fault, "at", fault.seconds_if_any("at", 0.0..=CENTURY_S)?)?,
            back_after_s: fault.seconds_if_any("back_after", 0.0..=CENTURY_S)?,
        })
    })?;
    let random = entry.table("random", |random| {
        let span = |key: &str| {
            let seconds = random.seconds_if_any(key, 1.0..=CENTURY_S)?;
            required(random, key, seconds).map(Span::from_secs_f64)
        };
        let until_s = random.seconds("until", super::default_fault_horizon().as_secs_f64(), 1.0..=CENTURY_S)?;
        let until = Span::from_secs_f64(until_s);
        Ok(RandomFaults { mean_up: span("mean_up")?, mean_down: span("mean_down")?, until })
    })?;
    let task_failures = entry.tables("task_failures", |failing| {
        Ok(TaskFailures {
            node: find_node(failing, nodes)?,
            from_s: failing.seconds("from", 0.0, 0.0..=CENTURY_S)?,
            until_s: failing.seconds_if_any("until", 0.0..=CENTURY_S)?,
            share: failing.number("share", 1.0, Bounds::Closed(0.0, 1.0))?,
            after: Span::from_secs_f64(failing.seconds("after", 1.0, 0.0..=YEAR_S)?),
        })
    })?;
    Ok(Faults { scripted, random, task_failures })
}

fn required<T>(table: &Table<'_>, key: &str, value: Option<T>) -> Result<T, FileError> {
    value.ok_or_else(|| table.table_error(format!("missing field `{key}`"), "add it"))
}

/// A node, by its number or its name.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number or the name of a node")]
enum NodeRef {
    Number(i64),
    Name(String),
}

fn find_node(entry: &Table<'_>, nodes: &[NodeModel]) -> Result<NodeId, FileError> {
    let (found, name) = match required(entry, "node", entry.get("node")?)? {
        NodeRef::Number(number) => (usize::try_from(number).ok().filter(|i| *i < nodes.len()), number.to_string()),
        NodeRef::Name(name) => {
            let mut named = nodes.iter().enumerate().filter(|(_, node)| node.spec.name == name).map(|(i, _)| i);
            let first = named.next();
            if named.next().is_some() {
                let problem = format!("several nodes are named `{name}`");
                return Err(entry.error_at("node", problem, "write the number of the node, or give each its own name"));
            }
            (first, format!("`{name}`"))
        }
    };
    found.map(|i| NodeId(i as u32)).ok_or_else(|| {
        let remedy = format!("write a number from 0 to {}, or the name of a node", nodes.len() - 1);
        entry.error_at("node", format!("unknown node {name}"), &remedy)
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
            (
                "[[nodes]]\nname='a'\n[[nodes]]\nname='a'\n[[faults.scripted]]\nnode='a'\nat=1",
                6,
                "several nodes are named `a`",
            ),
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
