//! Clusters to TOML files. [`Cluster::from_toml`] reads the same cluster back; consecutive equal nodes share one table.

use super::{Cluster, HeartbeatMode, NodeModel};
use crate::files::{GB, MB};
use giveway_core::{NodeSpec, Span};
use std::fmt::Write;

impl Cluster {
    /// The cluster as the text of a cluster file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_toml(&mut text);
        text
    }

    fn write_toml(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "name = {}", quoted(&self.name))?;
        writeln!(out, "heartbeat = {}", time(self.heartbeat))?;
        let reporting = match self.reporting {
            HeartbeatMode::Heartbeat => "heartbeat",
            HeartbeatMode::OutOfBand => "out-of-band",
            HeartbeatMode::Immediate => "immediate",
        };
        writeln!(out, "reporting = \"{reporting}\"")?;
        writeln!(out, "lost_after = {}", time(self.lost_after))?;
        writeln!(out, "block_mb = {}", in_units(self.block_bytes, MB))?;
        writeln!(out, "replicas = {}", self.replicas)?;
        writeln!(out, "cross_rack = {}", self.cross_rack)?;
        writeln!(out, "noise = {}", self.noise)?;
        let mut at = 0;
        while at < self.nodes.len() {
            let equal = self.nodes[at..].iter().take_while(|node| same_hardware(node, &self.nodes[at])).count();
            let count = names_of_one_table(&self.nodes[at..at + equal], at);
            write_nodes(out, &self.nodes[at..at + count], at)?;
            at += count;
        }
        let costs = self.costs;
        writeln!(out, "\n[costs]")?;
        for (name, cost) in [
            ("launch", costs.launch),
            ("pause", costs.pause),
            ("resume", costs.resume),
            ("end_early", costs.end_early),
            ("kill", costs.kill),
            ("sort_per_gb", costs.sort_per_gb),
        ] {
            writeln!(out, "{name} = {}", time(cost))?;
        }
        writeln!(out, "pause_flush_bytes = {}", costs.pause_flush_bytes)?;
        writeln!(out, "\n[stragglers]\nshare = {}\nfactor = {}", self.stragglers.share, self.stragglers.factor)?;
        self.write_faults(out)
    }

    fn write_faults(&self, out: &mut String) -> std::fmt::Result {
        for fault in &self.faults.scripted {
            writeln!(out, "\n[[faults.scripted]]\nnode = {}\nat = {}", fault.node.0, fault.at_s)?;
            if let Some(back_after_s) = fault.back_after_s {
                writeln!(out, "back_after = {back_after_s}")?;
            }
        }
        if let Some(random) = &self.faults.random {
            writeln!(out, "\n[faults.random]\nmean_up = {}", time(random.mean_up))?;
            writeln!(out, "mean_down = {}\nuntil = {}", time(random.mean_down), time(random.until))?;
        }
        for failing in &self.faults.task_failures {
            writeln!(out, "\n[[faults.task_failures]]\nnode = {}\nfrom = {}", failing.node.0, failing.from_s)?;
            if let Some(until_s) = failing.until_s {
                writeln!(out, "until = {until_s}")?;
            }
            writeln!(out, "share = {}\nafter = {}", failing.share, time(failing.after))?;
        }
        Ok(())
    }
}

/// Whether two nodes are equal except for their names.
fn same_hardware(a: &NodeModel, b: &NodeModel) -> bool {
    let nameless = |node: &NodeModel| NodeSpec { name: String::new(), ..node.spec.clone() };
    nameless(a) == nameless(b) && a.net_bytes_per_s == b.net_bytes_per_s && a.shared == b.shared
}

/// The number of these consecutive nodes, starting with node number `at`, that have the names a single table would give them.
fn names_of_one_table(nodes: &[NodeModel], at: usize) -> usize {
    let default = nodes.iter().enumerate().take_while(|(i, node)| node.spec.name == format!("node-{}", at + i)).count();
    let prefixed = match nodes[0].spec.name.strip_suffix("-0") {
        Some(prefix) => {
            nodes.iter().enumerate().take_while(|(i, node)| node.spec.name == format!("{prefix}-{i}")).count()
        }
        None => 0,
    };
    // A table with a single node gives it a name without a number.
    default.max(if prefixed > 1 { prefixed } else { 1 })
}

fn write_nodes(out: &mut String, nodes: &[NodeModel], at: usize) -> std::fmt::Result {
    let NodeModel { spec, net_bytes_per_s, shared } = &nodes[0];
    writeln!(out, "\n[[nodes]]")?;
    if nodes.len() > 1 {
        writeln!(out, "count = {}", nodes.len())?;
    }
    if spec.name != format!("node-{at}") {
        let name = if nodes.len() > 1 { spec.name.strip_suffix("-0").unwrap_or(&spec.name) } else { &spec.name };
        writeln!(out, "name = {}", quoted(name))?;
    }
    if spec.rack.0 > 0 {
        writeln!(out, "rack = {}", spec.rack.0)?;
    }
    writeln!(out, "map_slots = {}\nreduce_slots = {}", spec.map_slots, spec.reduce_slots)?;
    writeln!(out, "speed = {}", f64::from(spec.speed_ppm) / 1e6)?;
    writeln!(out, "disk_mb_s = {}", in_units(spec.disk_bytes_per_s, MB))?;
    writeln!(out, "disk_gb = {}", in_units(spec.disk_bytes, GB))?;
    writeln!(out, "net_mbit_s = {}", in_units(*net_bytes_per_s, 125_000))?;
    if let Some(shared) = shared {
        writeln!(out, "cores = {}\ndisks = {}", shared.cores, shared.disks)?;
        if let Some(bytes) = shared.page_cache_bytes {
            writeln!(out, "page_cache_gb = {}", in_units(bytes, GB))?;
        }
    }
    Ok(())
}

fn in_units(amount: u64, unit: u64) -> f64 {
    amount as f64 / unit as f64
}

fn time(span: Span) -> String {
    quoted(&format!("{}us", span.0)).replace("000000us", "s")
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster;

    #[test]
    fn every_cluster_of_the_catalogue_is_read_back() {
        for name in ["hsrtf", "fcs", "chronos", "chronos-map", "chronos-reduce", "coshh", "coshh-57", "coshh-real"] {
            let cluster = cluster::by_name(name).unwrap();
            let text = cluster.to_toml();
            assert_eq!(Cluster::from_toml(&text, "c.toml"), Ok(cluster), "{text}");
        }
    }

    #[test]
    fn an_unusual_cluster_is_read_back() {
        let text = "name = 'a \"b\"'\n[[nodes]]\nname='x'\ncount=3\n[[nodes]]\nname='x-0'\n[[nodes]]\ncount=4\nracks=2\nspeed=0.3\n\
                    [[nodes]]\nname='node-0'\ncount=2\n[[faults.scripted]]\nnode=1\nat=1.5\nback_after='1ms'\n\
                    [faults.random]\nmean_up='1h'\nmean_down='1500ms'\n[[faults.task_failures]]\nnode=1\nuntil='5m'\n\
                    share=0.25\n[[faults.task_failures]]\nnode=0\nfrom=1.5\nafter='3ms'\n[costs]\nlaunch='7us'";
        let cluster = Cluster::from_toml(text, "c.toml").unwrap();
        let written = cluster.to_toml();
        assert_eq!(Cluster::from_toml(&written, "d.toml"), Ok(cluster), "{written}");
    }

    #[test]
    fn equal_nodes_share_a_table() {
        let text = cluster::by_name("fcs").unwrap().to_toml();
        assert_eq!(text.matches("[[nodes]]").count(), 1, "{text}");
        assert!(text.contains("heartbeat = \"3s\"") && text.contains("count = 45"), "{text}");
    }
}
