//! `giveway top`: policy, nodes and jobs of a cluster in the terminal, drawn again and again.

use super::args::Top;
use super::inspect::{jobs_table, nodes_by_name, nodes_table, rows};
use crate::terminal::watch;
use anyhow::{Result, ensure};
use giveway_core::plural;
use giveway_engine::wire::NodeStatus;
use std::io::IsTerminal;
use std::path::Path;
use terminal_size::{Height, terminal_size};

/// `giveway top`
pub fn top(args: &Top) -> Result<()> {
    ensure!(
        args.once || std::io::stdout().is_terminal(),
        "giveway top needs a terminal; use --once, or `giveway jobs --watch` or `--json`"
    );
    if args.once {
        return watch(None, || render(&args.cluster.dir, usize::MAX));
    }
    let height = || terminal_size().map_or(24, |(_, Height(lines))| usize::from(lines));
    watch(Some(args.interval), || render(&args.cluster.dir, height()))
}

/// What fits on a terminal of this many lines: a third of it is for nodes. Running jobs come first, then those that wait, then ended ones, latest first.
fn render(folder: &Path, height: usize) -> Result<String> {
    let (mut jobs, policy) = rows(folder)?;
    jobs.sort_by_key(|job| match job.state {
        "running" => (0, job.job),
        "waiting" => (1, job.job),
        _ => (2, u32::MAX - job.job),
    });
    let nodes = nodes_by_name(folder)?;
    let count = |state: &str| jobs.iter().filter(|job| job.state == state).count();
    let head = format!(
        "policy {}   map slots {}, reduce slots {}   {} running, {} waiting\n\n",
        policy.unwrap_or_default(),
        used(&nodes, |node| node.map_slots),
        used(&nodes, |node| node.reduce_slots),
        plural(count("running") as u64, "job"),
        count("waiting"),
    );
    let nodes = first_lines(&nodes_table(&nodes).to_string(), (height / 3).max(4), "node");
    let left = height.saturating_sub(4 + nodes.lines().count()).max(4);
    Ok(format!("{head}{nodes}\n{}", first_lines(&jobs_table(&jobs).to_string(), left, "job")))
}

/// Slots in use and slots of the nodes that are up, as `3/8`.
fn used(nodes: &[NodeStatus], slots: fn(&NodeStatus) -> (u16, u16)) -> String {
    let up = nodes.iter().filter(|node| node.up).map(slots);
    let (all, used) =
        up.fold((0_u32, 0_u32), |(all, used), (more, busy)| (all + u32::from(more), used + u32::from(busy)));
    format!("{used}/{all}")
}

/// The first lines of a table, and how many of its rows are not among them.
fn first_lines(table: &str, lines: usize, row: &str) -> String {
    let all = table.lines().count();
    if all <= lines {
        return format!("{table}\n");
    }
    let shown: String = table.lines().take(lines - 1).map(|line| format!("{line}\n")).collect();
    format!("{shown}and {}\n", plural((all + 1 - lines) as u64, &format!("more {row}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let table = "node  state\n----  -----\na     up\nb     up\nc     up";
        assert_eq!(first_lines(table, 5, "node"), format!("{table}\n"));
        assert_eq!(first_lines(table, 4, "node"), "node  state\n----  -----\na     up\nand 2 more nodes\n");
    }
}
