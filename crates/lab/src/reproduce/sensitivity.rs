//! Sensitivity to parameters that a paper does not give: a comparison repeated with one parameter changed, the same for every policy.

use super::estimate::{Estimate, Unit};
use super::experiment::{Case, Runs};
use super::study::SensitivityTable;
use giveway_core::{Span, Time};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;

/// A parameter of cluster or workload and the values it takes.
pub struct Parameter {
    /// Name in tables and case names.
    pub name: &'static str,
    /// Values, one table row each.
    pub values: &'static [f64],
    /// Text of a value in tables.
    pub label: fn(f64) -> String,
    /// Sets the parameter to a value.
    pub apply: fn(&mut Cluster, &mut Workload, f64),
}

/// A column of a sensitivity table: a figure behind a headline.
pub struct Column {
    pub name: &'static str,
    /// The figure in a case, for each seed.
    pub values: fn(&Runs, &str) -> Vec<f64>,
}

/// Label of a multiple of the chosen value.
pub fn multiple(value: f64) -> String {
    if value == 1.0 { "as chosen".into() } else { format!("times {value}") }
}

fn plain(value: f64) -> String {
    format!("{value}")
}

/// Compute speed of every core, as a multiple.
pub const CORE_SPEED: Parameter = Parameter {
    name: "speed of a core",
    values: &[0.5, 1.0, 2.0],
    label: multiple,
    apply: |cluster, _, factor| {
        for node in &mut cluster.nodes {
            node.spec.speed_ppm = (f64::from(node.spec.speed_ppm) * factor) as u32;
        }
    },
};

/// Rate of a disk, as a multiple.
pub const DISK_RATE: Parameter = Parameter {
    name: "rate of a disk",
    values: &[0.5, 1.0, 2.0],
    label: multiple,
    apply: |cluster, _, factor| {
        for node in &mut cluster.nodes {
            node.spec.disk_bytes_per_s = (node.spec.disk_bytes_per_s as f64 * factor) as u64;
        }
    },
};

/// Number of cores of a node, as a multiple.
pub const CORES: Parameter = Parameter {
    name: "cores of a node",
    values: &[0.5, 1.0, 2.0],
    label: multiple,
    apply: |cluster, _, factor| {
        for shared in cluster.nodes.iter_mut().filter_map(|node| node.shared.as_mut()) {
            shared.cores = (f64::from(shared.cores) * factor).max(1.0) as u16;
        }
    },
};

/// Size of the page cache, as a multiple.
pub const PAGE_CACHE: Parameter = Parameter {
    name: "page cache of a node",
    values: &[0.1, 1.0, 10.0],
    label: multiple,
    apply: |cluster, _, factor| {
        for shared in cluster.nodes.iter_mut().filter_map(|node| node.shared.as_mut()) {
            shared.page_cache_bytes = shared.page_cache_bytes.map(|bytes| (bytes as f64 * factor) as u64);
        }
    },
};

/// Compute time of every reduce, as a multiple.
pub const REDUCE_COMPUTE: Parameter = Parameter {
    name: "compute time of a reduce",
    values: &[0.5, 1.0, 2.0],
    label: multiple,
    apply: |_, workload, factor| {
        workload.jobs.iter_mut().for_each(|job| job.reduce_compute = job.reduce_compute.scaled(factor))
    },
};

/// Standard deviation of the logarithm of task times.
pub const NOISE: Parameter = Parameter {
    name: "noise of task times",
    values: &[0.0, 0.1, 0.3],
    label: plain,
    apply: |cluster, _, noise| cluster.noise = noise,
};

/// Launch time of a task, in seconds.
pub const LAUNCH: Parameter = Parameter {
    name: "launch time of a task, s",
    values: &[0.3, 1.0, 3.0],
    label: plain,
    apply: |cluster, _, launch_s| cluster.costs.launch = Span::from_millis((launch_s * 1e3) as u64),
};

/// Time between job arrivals, as a multiple.
pub const ARRIVAL_INTERVAL: Parameter = Parameter {
    name: "time between arrivals",
    values: &[0.7, 1.0, 1.5],
    label: multiple,
    apply: |_, workload, factor| {
        workload.jobs.iter_mut().for_each(|job| job.submit = Time::from_secs_f64(job.submit.as_secs_f64() * factor));
    },
};

impl Parameter {
    /// Name of the case with this value.
    pub fn case_name(&self, base: &str, value: f64) -> String {
        format!("{base}, {} {value}", self.name)
    }

    /// One case per value: the workload under these policies. `base` names the unchanged case.
    pub fn cases(&'static self, base: &str, workload: &str, policies: &[&str], seeds: u32) -> Vec<Case> {
        let case = |value: f64| {
            let apply = self.apply;
            Case::new(self.case_name(base, value), workload, policies, seeds)
                .modified(move |cluster, workload| apply(cluster, workload, value))
        };
        self.values.iter().map(|value| case(*value)).collect()
    }

    /// The table of the runs of [`Parameter::cases`].
    pub fn table(&self, base: &str, runs: &Runs, columns: &[Column]) -> SensitivityTable {
        let row = |value: f64| {
            let case = self.case_name(base, value);
            (
                (self.label)(value),
                columns.iter().map(|column| Estimate::of_changes(&(column.values)(runs, &case))).collect(),
            )
        };
        SensitivityTable {
            parameter: format!("{base}: {}", self.name),
            columns: columns.iter().map(|column| column.name.into()).collect(),
            rows: self.values.iter().map(|value| row(*value)).collect(),
            unit: Unit::Change,
        }
    }
}
