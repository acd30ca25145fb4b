//! `giveway size`: the smallest cluster on which a workload meets a target, for each policy.

use crate::complete;
use crate::text_table::{TextTable, prose};
use crate::{CheckFailed, files, input};
use anyhow::{Context, Result};
use clap::Args;
use giveway_analysis::what_if::JobTimes;
use giveway_analysis::what_if::capacity::{self, Capacity, Target};
use giveway_core::{Kind, Policy};
use giveway_sim::cluster::Cluster;
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::Workload;
use rayon::prelude::*;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// `giveway size`
#[derive(Debug, Args)]
#[command(after_long_help = "\
The size is found by bisection: each step simulates all jobs on copies of the cluster's nodes. Sizes above the result are simulated too; \
if one of them misses the target, the search goes on above it. docs/what-if.md describes the rules.

EXAMPLES
  How many nodes does each policy need, so that 95 % of the jobs start within a minute?
      giveway size FB-2009_samples_24_times_1hr_0.tsv --policy fair,giveway --target 'p95 wait < 60s'
  The same for the jobs of a recorded cluster, by slowdown:
      giveway size cluster.eventlog --policy fair,giveway --target 'p99 slowdown < 3'")]
pub struct Size {
    /// Trace of another system (a file or a directory), event log or journal; also a workload as for `giveway sim`.
    #[arg(value_name = "TRACE|LOG")]
    pub source: String,
    /// Policies to compare: names, TOML files or `all`, separated by commas; may be repeated.
    #[arg(long, value_name = "NAME|FILE[,...]", value_delimiter = ',', required = true, add = complete::policies())]
    pub policy: Vec<String>,
    /// Target: mean, max or a percentile (p95) of wait, completion or slowdown, such as `p95 wait < 60s`.
    #[arg(long, value_name = "TARGET")]
    pub target: Target,
    /// Cluster whose nodes are copied: a built-in name or a file; default: that of the event log, or one made for the trace.
    #[arg(long, value_name = "NAME|FILE", add = complete::clusters())]
    pub cluster: Option<String>,
    /// Duration model for times that a trace of another system lacks: a TOML file (see docs/traces.md).
    #[arg(long, value_name = "FILE")]
    pub trace_model: Option<PathBuf>,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the result and all simulated sizes as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Size) -> Result<()> {
    let policies = input::policies(&args.policy)?;
    let given = args.cluster.as_deref().map(input::cluster).transpose()?;
    let recorded = input::recorded_run(&args.source, given.as_ref(), args.trace_model.as_deref(), args.seed)?;
    let (workload, cluster) = (recorded.run.workload, recorded.run.cluster);
    files::check_writable(args.json.as_deref())?;
    let sizes = policies
        .par_iter()
        .with_max_len(1)
        .map(|policy| smallest(policy, &workload, &cluster, &args.target, args.seed))
        .collect::<Result<Vec<Capacity>>>()?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{}: {} jobs, nodes like those of {}, seed {}",
        workload.name,
        workload.jobs.len(),
        cluster.name,
        args.seed
    )?;
    writeln!(out, "{}", table(&policies, &sizes, &cluster))?;
    for (policy, size) in policies.iter().zip(&sizes) {
        if !size.met_below.is_empty() {
            writeln!(
                out,
                "{}: not monotone: {:?} nodes meet the target too, but a larger size misses it",
                policy.name, size.met_below
            )?;
        }
    }
    writeln!(out, "{}", prose(&answer(&policies, &sizes, &args.target)))?;
    if let Some(file) = &args.json {
        let policies: Vec<_> = policies
            .iter()
            .zip(&sizes)
            .map(|(policy, size)| {
                json!({ "policy": policy.name, "nodes": size.nodes, "simulated": size.tried, "met_below": size.met_below })
            })
            .collect();
        let target = args.target.to_string();
        let document = json!({ "source": workload.name, "target": target, "seed": args.seed, "policies": policies });
        files::write(file, &(serde_json::to_string_pretty(&document)? + "\n"))?;
    }
    if sizes.iter().all(|size| size.nodes.is_none()) {
        return Err(CheckFailed(format!("no size meets the target {}; choose a higher limit", args.target)).into());
    }
    Ok(())
}

fn smallest(policy: &Policy, workload: &Workload, cluster: &Cluster, target: &Target, seed: u64) -> Result<Capacity> {
    capacity::smallest(cluster, target, |cluster| {
        let comparison = Comparison::without_bound(cluster.clone(), workload.clone(), seed);
        let result = comparison
            .run(policy, &mut ())
            .with_context(|| format!("policy `{}` cannot run this workload", policy.name))?;
        Ok(target.value(&JobTimes::simulated(workload.jobs.len(), &result.jobs)))
    })
}

fn table(policies: &[Policy], sizes: &[Capacity], cluster: &Cluster) -> TextTable {
    let value = |value: Option<Option<f64>>| match value {
        Some(Some(value)) => format!("{value:.2}"),
        Some(None) => "unfinished".into(),
        None => "-".into(),
    };
    let header = ["policy", "nodes", "map slots", "value", "value with\none node less", "sizes\nsimulated"];
    let mut table = TextTable::new(header).numbers_from(1);
    let slots_per_node = f64::from(cluster.slots(Kind::Map)) / cluster.nodes.len().max(1) as f64;
    for (policy, size) in policies.iter().zip(sizes) {
        let at = |nodes: Option<usize>| nodes.and_then(|nodes| size.tried.get(&nodes).copied());
        let cells = [
            size.nodes
                .map_or(format!("over {}", size.tried.keys().last().copied().unwrap_or(0)), |nodes| nodes.to_string()),
            size.nodes.map_or("-".into(), |nodes| format!("{:.0}", nodes as f64 * slots_per_node)),
            value(at(size.nodes)),
            value(at(size.nodes.and_then(|nodes| nodes.checked_sub(1)))),
            size.tried.len().to_string(),
        ];
        table.add_row(std::iter::once(policy.name.clone()).chain(cells));
    }
    table
}

/// The answer in one sentence: `fair needs 48 nodes, giveway 37, for p95 wait < 60 s`.
fn answer(policies: &[Policy], sizes: &[Capacity], target: &Target) -> String {
    let part = |(number, (policy, size)): (usize, (&Policy, &Capacity))| match size.nodes {
        Some(nodes) if number == 0 => format!("{} needs {nodes} nodes", policy.name),
        Some(nodes) => format!("{} {nodes}", policy.name),
        None => format!("{} does not meet the target with any number of nodes", policy.name),
    };
    let parts: Vec<String> = policies.iter().zip(sizes).enumerate().map(part).collect();
    format!("{} for {target}", parts.join(", "))
}
