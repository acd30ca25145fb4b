//! `giveway policies` and `giveway workloads`: what there is.

use crate::args::{Policies, PoliciesWhat};
use anyhow::{Result, anyhow};
use giveway_core::policy::catalog;
use giveway_sim::{cluster, workload};
use std::io::Write;

/// Runs `giveway policies`.
pub fn run(args: &Policies) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match &args.what {
        None | Some(PoliciesWhat::List) => {
            for policy in catalog::NAMES.iter().filter_map(|name| catalog::by_name(name)) {
                writeln!(out, "{:<16} {}", policy.name, policy.about)?;
            }
            writeln!(
                out,
                "{:<16} Any of the above; lost work runs again at once, near its data (Chronos).",
                "chronos(NAME)"
            )?;
        }
        Some(PoliciesWhat::Show { name }) => {
            let known = catalog::NAMES.join(", ");
            let policy = catalog::by_name(name)
                .ok_or_else(|| anyhow!("no policy is called `{name}`; there are {known}, and chronos(NAME)"))?;
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
    writeln!(out, "Clusters (a named workload brings its own):")?;
    for (name, about) in cluster::names() {
        writeln!(out, "  {name:<20} {about}")?;
    }
    Ok(())
}
