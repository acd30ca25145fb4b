//! `giveway policies` and `giveway workloads`: list the built-in policies, workloads and clusters.

use crate::args::{Policies, PoliciesCommand};
use crate::input;
use anyhow::Result;
use giveway_core::policy::catalog;
use giveway_sim::{cluster, workload};
use std::io::Write;

/// Runs `giveway policies`.
pub fn run(args: &Policies) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match &args.command {
        None | Some(PoliciesCommand::List) => {
            for policy in catalog::names().iter().filter_map(|name| catalog::by_name(name)) {
                writeln!(out, "{:<16} {}", policy.name, policy.about)?;
            }
            writeln!(
                out,
                "{:<16} Any policy above with Chronos recovery: lost tasks are re-executed first, on nodes that hold their data.",
                "chronos(NAME)"
            )?;
        }
        Some(PoliciesCommand::Show { name }) => {
            let policy = catalog::by_name(name).ok_or_else(|| input::unknown_policy(name, "chronos(NAME)"))?;
            write!(out, "{}", toml::to_string(&policy)?)?;
        }
    }
    Ok(())
}

/// Runs `giveway workloads`.
pub fn workloads() -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "Workloads:")?;
    for (name, about) in workload::names() {
        writeln!(out, "  {name:<20} {about}")?;
    }
    writeln!(out, "Clusters (each built-in workload has its own default cluster):")?;
    for (name, about) in cluster::names() {
        writeln!(out, "  {name:<20} {about}")?;
    }
    Ok(())
}
