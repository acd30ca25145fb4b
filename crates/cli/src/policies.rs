//! `giveway policies` and `giveway workloads`: list the built-in policies, workloads and clusters.

use crate::args::{List, Policies, PoliciesCommand};
use crate::input;
use crate::text_table::{TextTable, prose};
use anyhow::Result;
use giveway_core::Policy;
use giveway_core::policy::catalog;
use giveway_sim::{cluster, workload};
use serde_json::json;
use std::io::Write;

/// Runs `giveway policies`.
pub fn run(args: &Policies) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match &args.command {
        None | Some(PoliciesCommand::List(_)) if is_json(args) => {
            let row = |policy: Policy| json!({ "name": policy.name, "about": policy.about });
            let rows: Vec<_> = catalog::names().iter().filter_map(|name| catalog::by_name(name)).map(row).collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        }
        None | Some(PoliciesCommand::List(_)) => {
            let mut table = TextTable::new(["policy", "description"]);
            for policy in catalog::names().iter().filter_map(|name| catalog::by_name(name)) {
                table.add_row([policy.name, policy.about]);
            }
            table.add_row([
                "chronos(NAME)",
                "Any policy above but giveway, with Chronos recovery: lost tasks are re-executed first, on nodes that hold their data.",
            ]);
            writeln!(out, "{table}")?;
        }
        Some(PoliciesCommand::Show { name }) => {
            let policy = catalog::by_name(name).ok_or_else(|| input::unknown_policy(name, "chronos(NAME)"))?;
            write!(out, "{}", toml::to_string(&policy)?)?;
        }
    }
    Ok(())
}

fn is_json(args: &Policies) -> bool {
    args.list.json || matches!(args.command, Some(PoliciesCommand::List(List { json: true })))
}

/// Runs `giveway workloads`.
pub fn workloads(args: List) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let rows = |names: &[(&str, &str)]| {
            names.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect::<Vec<_>>()
        };
        let all = json!({ "workloads": rows(workload::names()), "clusters": rows(cluster::names()) });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    for (kind, names) in [("workload", workload::names()), ("cluster", cluster::names())] {
        let mut table = TextTable::new([kind, "description"]);
        names.iter().for_each(|&(name, about)| table.add_row([name, about]));
        writeln!(out, "{table}\n")?;
    }
    writeln!(out, "{}", prose("Each workload has a default cluster, which --cluster replaces."))?;
    Ok(())
}
