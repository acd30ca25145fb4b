//! The workloads and clusters of `giveway compare`: those of the papers, GridMix, and generated ones for each property that a scheduler may be
//! sensitive to.

use anyhow::{Context, Result};
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::{self, Workload};

/// Twenty equal nodes.
const EQUAL: &str = "name = 'equal'\nnoise = 0.1\n[[nodes]]\ncount = 20\nracks = 2\nmap_slots = 4\nreduce_slots = 2\n";

/// Nodes of speed 0.3, 1 and 3.
const MIXED: &str = "name = 'mixed'\nnoise = 0.1\n\
    [[nodes]]\nname = 'slow'\ncount = 10\nracks = 2\nmap_slots = 4\nreduce_slots = 2\nspeed = 0.3\n\
    [[nodes]]\nname = 'middle'\ncount = 6\nracks = 2\nmap_slots = 4\nreduce_slots = 2\n\
    [[nodes]]\nname = 'fast'\ncount = 4\nracks = 2\nmap_slots = 4\nreduce_slots = 2\nspeed = 3\n";

/// A node is down for five minutes every two hours.
const OUTAGES: &str = "[faults.random]\nmean_up = '2h'\nmean_down = '5m'\n";

/// One attempt in twenty takes eight times as long.
const STRAGGLERS: &str = "[stragglers]\nshare = 0.05\nfactor = 8\n";

/// A workload on a cluster.
pub struct Scenario {
    /// Its name in the tables.
    pub name: &'static str,
    source: Source,
}

enum Source {
    /// A built-in workload on its own cluster.
    Builtin(&'static str),
    /// The keys of `[generate]`, and the parts of a cluster file.
    Generated { keys: &'static str, cluster: &'static [&'static str], estimate_error: f64 },
}

const fn builtin(name: &'static str) -> Scenario {
    Scenario { name, source: Source::Builtin(name) }
}

const fn generated(name: &'static str, keys: &'static str, cluster: &'static [&'static str]) -> Scenario {
    Scenario { name, source: Source::Generated { keys, cluster, estimate_error: 0.0 } }
}

const fn with_error(name: &'static str, estimate_error: f64) -> Scenario {
    Scenario { name, source: Source::Generated { keys: "load = 0.9", cluster: &[EQUAL], estimate_error } }
}

/// All scenarios, in the order of the tables.
pub const SCENARIOS: [Scenario; 24] = [
    builtin("hsrtf-table2"),
    builtin("fcs-map-heavy"),
    builtin("fcs-reduce-heavy"),
    builtin("chronos-map"),
    builtin("chronos-reduce"),
    builtin("coshh-facebook"),
    builtin("coshh-yahoo"),
    builtin("gridmix-60"),
    builtin("gridmix-180"),
    builtin("gridmix-300"),
    generated("load 0.5", "load = 0.5", &[EQUAL]),
    generated("load 0.7", "load = 0.7", &[EQUAL]),
    generated("load 0.9", "load = 0.9", &[EQUAL]),
    generated("load 1.1", "load = 1.1", &[EQUAL]),
    generated("node speeds 0.3 to 3 at load 0.7", "load = 0.7", &[MIXED]),
    generated("node speeds 0.3 to 3 at load 0.9", "load = 0.9", &[MIXED]),
    generated("node outages at load 0.7", "load = 0.7", &[EQUAL, OUTAGES]),
    generated("stragglers at load 0.9", "load = 0.9", &[EQUAL, STRAGGLERS]),
    generated("bursts at load 0.7", "load = 0.7\narrivals = 'bursty'", &[EQUAL]),
    generated("light tail at load 0.9", "load = 0.9\nsizes = 'log-normal'\nsigma = 0.5", &[EQUAL]),
    generated("heavy tail at load 0.9", "load = 0.9\nshape = 0.7", &[EQUAL]),
    with_error("estimates off by 25 %", 0.25),
    with_error("estimates off by 50 %", 0.5),
    with_error("estimates off by 99 %", 0.99),
];

impl Scenario {
    /// The scenario with one seed.
    pub fn comparison(&self, seed: u64) -> Result<Comparison> {
        let (cluster, workload) = match &self.source {
            Source::Builtin(name) => {
                let cluster = workload::default_cluster_for(name).with_context(|| format!("no cluster for {name}"))?;
                (cluster::by_name(cluster)?, workload::by_name(name, seed)?)
            }
            Source::Generated { keys, cluster, estimate_error } => {
                let cluster = Cluster::from_toml(&cluster.concat(), self.name)?;
                let mut workload = Workload::from_toml(&format!("[generate]\n{keys}\n"), self.name, &cluster, seed)?;
                workload.estimate_error = *estimate_error;
                (cluster, workload)
            }
        };
        Ok(Comparison::new(cluster, workload, seed))
    }
}
