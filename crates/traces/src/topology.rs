//! Clusters from SLS node files and Rumen topologies.
//!
//! SLS: a sequence of JSON objects, one per rack, with `rack` and `nodes`; a node has a name and optionally `vcores` and `memory-mb`. Rumen: one
//! object, nested `{name, children}`: the root, its racks, their nodes.

use crate::input::{Input, Limits};
use crate::records::Objects;
use crate::workload::nodes_of;
use crate::{Diagnostics, Oddity, TraceError};
use giveway_sim::cluster::Cluster;
use serde::Deserialize;
use std::path::Path;

/// Most nodes of a cluster.
const MAX_NODES: usize = 100_000;

#[derive(Deserialize)]
struct Rack {
    rack: Option<String>,
    nodes: Option<Vec<Node>>,
    children: Option<Vec<Child>>,
}

#[derive(Deserialize)]
struct Node {
    node: Option<String>,
    vcores: Option<u16>,
}

/// A rack or a node of a Rumen topology.
#[derive(Deserialize)]
struct Child {
    name: Option<String>,
    #[serde(default)]
    children: Option<Vec<Child>>,
}

/// A node of a topology.
pub(crate) struct TopologyNode {
    pub(crate) name: String,
    pub(crate) rack: u32,
    /// Slots, where the file has the number of cores.
    pub(crate) vcores: Option<u16>,
}

/// Reads a node file of SLS or a topology of Rumen as a cluster. A node has as many map slots as cores, and half as many reduce slots; without
/// cores it has four and two. What is odd is counted.
pub fn read_cluster(file: &Path, diagnostics: &mut Diagnostics) -> Result<Cluster, TraceError> {
    let mut objects = Objects::new(Input::open(file)?, Limits::default().object_bytes);
    let mut nodes = Vec::new();
    let mut racks = 0;
    while let Some((number, object)) = objects.next(diagnostics) {
        match serde_json::from_slice::<Rack>(object) {
            Ok(rack) => add(rack, &mut racks, &mut nodes, diagnostics),
            Err(error) => diagnostics.odd(Oddity::BadObject, format_args!("object {number}: {error}")),
        }
    }
    nodes.truncate(MAX_NODES);
    if nodes.is_empty() {
        let problem = "no nodes; name a cluster file, a node file of SLS or a topology of Rumen".into();
        return Err(TraceError::Unsupported { file: file.to_owned(), problem });
    }
    let name = file.file_name().map_or_else(|| "cluster".into(), |name| name.to_string_lossy().into_owned());
    Ok(nodes_of(&name, nodes))
}

fn add(rack: Rack, racks: &mut u32, nodes: &mut Vec<TopologyNode>, diagnostics: &mut Diagnostics) {
    let mut push = |name: Option<String>, rack: u32, vcores: Option<u16>| match name.filter(|name| !name.is_empty()) {
        Some(name) => nodes.push(TopologyNode { name: unescaped(&name), rack, vcores }),
        None => diagnostics.odd(Oddity::NodeWithoutName, format_args!("rack {rack}")),
    };
    if rack.rack.is_some() {
        for node in rack.nodes.into_iter().flatten() {
            push(node.node, *racks, node.vcores);
        }
        *racks += 1;
    }
    for rack in rack.children.into_iter().flatten() {
        for node in rack.children.into_iter().flatten() {
            push(node.name, *racks, None);
        }
        *racks += 1;
    }
}

/// A name without the backslashes of Hadoop's history files.
fn unescaped(name: &str) -> String {
    name.replace('\\', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::Kind;
    use std::fs;

    fn read(text: &str) -> (Result<Cluster, TraceError>, Diagnostics) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nodes.json");
        fs::write(&file, text).unwrap();
        let mut diagnostics = Diagnostics::default();
        (read_cluster(&file, &mut diagnostics), diagnostics)
    }

    #[test]
    fn sls_nodes_become_a_cluster() {
        let text = r#"{"rack":"r1","nodes":[{"node":"n1","vcores":6},{"node":"n2"}]} {"rack":"r2","nodes":[{"node":"n3"},{}]}"#;
        let (cluster, diagnostics) = read(text);
        let cluster = cluster.unwrap();
        let names: Vec<(&str, u32)> =
            cluster.nodes.iter().map(|node| (node.spec.name.as_str(), node.spec.rack.0)).collect();
        assert_eq!(names, [("n1", 0), ("n2", 0), ("n3", 1)]);
        assert_eq!((cluster.slots(Kind::Map), cluster.slots(Kind::Reduce)), (14, 7));
        assert_eq!(diagnostics.of(Oddity::NodeWithoutName), 1);
    }

    #[test]
    fn a_rumen_topology_becomes_a_cluster() {
        let text = r#"{"name":"<root>","children":[{"name":"r1","children":[{"name":"n1\\.x","children":null}]},{"name":"r2","children":[{"name":"n2"}]}]}"#;
        let cluster = read(text).0.unwrap();
        assert_eq!((cluster.nodes[0].spec.name.as_str(), cluster.nodes[1].spec.rack.0), ("n1.x", 1));
        assert!(read("{}").0.unwrap_err().to_string().contains("no nodes"));
    }
}
