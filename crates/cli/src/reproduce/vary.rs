//! What the papers leave out, chosen otherwise: the same comparison with one parameter changed, for every policy alike.

use super::lab::{Case, Runs};
use super::study::{Estimate, Sensitivity, Unit};
use giveway_core::{Span, Time};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;

/// A parameter, and the values it is given.
pub struct Knob {
    /// What it is.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [f64],
    /// How a value is written.
    pub show: fn(f64) -> String,
    /// Sets it.
    pub turn: fn(&mut Cluster, &mut Workload, f64),
}

/// A figure that a headline rests on: what it is called, and what it is in a case, seed by seed.
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    /// Its value for each seed.
    pub of: fn(&Runs, &str) -> Vec<f64>,
}

/// A multiple of what was chosen.
pub fn times(value: f64) -> String {
    if value == 1.0 { "as chosen".into() } else { format!("times {value}") }
}

fn plain(value: f64) -> String {
    format!("{value}")
}

/// How fast slots compute.
pub const SPEED: Knob = Knob {
    name: "speed of a slot",
    values: &[0.5, 1.0, 2.0],
    show: times,
    turn: |cluster, _, times| {
        for node in &mut cluster.nodes {
            node.spec.speed_ppm = (f64::from(node.spec.speed_ppm) * times) as u32;
        }
    },
};

/// How fast a task reads and writes.
pub const DISK: Knob = Knob {
    name: "disk of a task",
    values: &[0.5, 1.0, 3.0],
    show: times,
    turn: |cluster, _, times| {
        for node in &mut cluster.nodes {
            node.spec.disk_bytes_per_s = (node.spec.disk_bytes_per_s as f64 * times) as u64;
        }
    },
};

/// What reduces compute.
pub const REDUCES: Knob = Knob {
    name: "compute of a reduce",
    values: &[0.5, 1.0, 2.0],
    show: times,
    turn: |_, workload, times| {
        workload.jobs.iter_mut().for_each(|job| job.reduce_compute = job.reduce_compute.scaled(times))
    },
};

/// How much task times vary.
pub const NOISE: Knob = Knob {
    name: "noise of task times",
    values: &[0.0, 0.1, 0.3],
    show: plain,
    turn: |cluster, _, noise| cluster.noise = noise,
};

/// What starting a task costs.
pub const LAUNCH: Knob = Knob {
    name: "launch of a task, s",
    values: &[0.3, 1.0, 3.0],
    show: plain,
    turn: |cluster, _, launch_s| cluster.costs.launch = Span::from_millis((launch_s * 1e3) as u64),
};

/// How far apart jobs arrive.
pub const GAPS: Knob = Knob {
    name: "time between arrivals",
    values: &[0.7, 1.0, 1.5],
    show: times,
    turn: |_, workload, times| {
        workload.jobs.iter_mut().for_each(|job| job.submit = Time::from_secs_f64(job.submit.as_secs_f64() * times));
    },
};

impl Knob {
    fn case_name(&self, of: &str, value: f64) -> String {
        format!("{of}, {} {value}", self.name)
    }

    /// The cases: a workload under these policies with each value.
    pub fn cases(&'static self, of: &str, workload: &str, policies: &[&str], seeds: u32) -> Vec<Case> {
        let case = |value: f64| {
            let turn = self.turn;
            Case::new(self.case_name(of, value), workload, policies, seeds)
                .with(move |cluster, workload| turn(cluster, workload, value))
        };
        self.values.iter().map(|value| case(*value)).collect()
    }

    /// What came of them.
    pub fn table(&self, of: &str, runs: &Runs, columns: &[Column]) -> Sensitivity {
        let row = |value: f64| {
            let case = self.case_name(of, value);
            ((self.show)(value), columns.iter().map(|column| Estimate::of(&(column.of)(runs, &case))).collect())
        };
        Sensitivity {
            parameter: format!("{of}: {}", self.name),
            columns: columns.iter().map(|column| column.name.into()).collect(),
            rows: self.values.iter().map(|value| row(*value)).collect(),
            unit: Unit::Change,
        }
    }
}
