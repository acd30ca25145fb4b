//! `giveway demo`: shows the effect of work-conserving preemption on an engine cluster of this machine, in about a minute.
//!
//! The cluster has four worker processes. The workload follows the hSRTF paper: one large job, a few medium ones, and many small ones that arrive
//! while the large one runs. It runs under several policies; in each run one worker is killed, and every output is compared byte for byte with that
//! of a sequential reference run. Tasks are throttled, so that two CPU cores can run a cluster of twenty slots, and the policies' time
//! constants are shortened to match.

pub mod workload;

use crate::args::Demo;
use crate::local_cluster::LocalCluster;
use crate::{cluster_folder, files, report};
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use giveway_core::policy::catalog;
use giveway_engine::apps::Apps;
use giveway_sim::metrics::{KeyMetrics, Summary};
use indicatif::ProgressBar;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The policies compared, in the order of the table.
const POLICIES: [&str; 5] = ["giveway", "fifo", "fair", "hsrtf-prp-pause", "fcs"];

/// 4 workers with 12 map slots and 8 reduce slots in total.
pub const CLUSTER: LocalCluster = LocalCluster {
    nodes: 4,
    map_slots: 3,
    reduce_slots: 2,
    heartbeat: Duration::from_millis(75),
    timeout: Duration::from_millis(750),
    slowstart_ppm: 50_000,
};

/// The tasks are this many times shorter than on the clusters the policies are tuned for, so the policies' time constants are divided by it.
pub const TIME_SCALE: f64 = 40.0;

/// Runs the command.
pub fn run(args: &Demo, apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    files::check_writable([args.report.as_path()])?;
    let folder = cluster_folder::create("giveway-demo-")?;
    let workload = workload::generate(folder.path(), apps)?;
    writeln!(
        out,
        "Cluster of {} worker processes, {} jobs: 1 large, {} medium, {} small. One worker is killed in each run.",
        CLUSTER.nodes,
        workload.jobs.len(),
        workload::count(&workload, "medium"),
        workload::count(&workload, "small")
    )?;
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut runs = Vec::new();
    for name in POLICIES {
        bar.set_message(format!("running under {name}"));
        let policy = catalog::by_name(name).context("policy missing in the catalogue")?.faster(TIME_SCALE);
        let finished = workload.run(&CLUSTER, &folder.path().join(name), policy, apps);
        runs.push(finished.with_context(|| format!("demo failed under policy {name}"))?.run);
    }
    bar.finish_and_clear();
    writeln!(out, "{}", table(&runs))?;
    writeln!(out, "Every output of every run is identical to that of a sequential reference run.")?;
    let small = |policy: &str| {
        let run = runs.iter().find(|run| run.summary.policy == policy)?;
        group(&run.summary, "small")?.mean_completion_s
    };
    if let (Some(giveway), Some(fair), Some(fifo)) = (small("giveway"), small("fair"), small("fifo")) {
        writeln!(
            out,
            "Mean completion time of small jobs: {giveway:.2} s under giveway (with preemption), {fair:.2} s under fair, {fifo:.2} s under fifo."
        )?;
    }
    let facts = [
        ("Workload".to_owned(), format!("{} jobs on generated text", workload.jobs.len())),
        (
            "Cluster".to_owned(),
            format!("{} worker processes on one machine, one of them killed during each run", CLUSTER.nodes),
        ),
        ("Command".to_owned(), "giveway demo".to_owned()),
    ];
    let groups: Vec<String> = workload::GROUPS.map(String::from).into();
    let html = report::html("Demo: engine cluster on one machine", &facts, &groups, &runs);
    files::write(&args.report, &html)?;
    writeln!(
        out,
        "Report with plots: {}. Next: `giveway up`, `giveway submit`, `giveway sim --help`.",
        args.report.display()
    )?;
    Ok(())
}

/// The metrics of a size group.
pub fn group<'a>(summary: &'a Summary, name: &str) -> Option<&'a KeyMetrics> {
    summary.groups.iter().find(|(group, _)| group == name).map(|(_, group)| &group.key_metrics)
}

/// Builds a table with one row per policy: makespan, mean wait and execution time by size group, preemptions and lost work.
fn table(runs: &[report::Run]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["policy".to_owned(), "makespan\n(s)".to_owned()];
    header.extend(workload::GROUPS.iter().map(|group| format!("{group} jobs\nwait + run (s)")));
    header.extend(["pauses", "early\nends", "kills", "lost work\n(slot s)"].map(String::from));
    table.set_header(header);
    for run in runs {
        let summary = &run.summary;
        let mut row = vec![summary.policy.clone(), format!("{:.1}", summary.makespan_s)];
        row.extend(workload::GROUPS.iter().map(|name| {
            let figures = group(summary, name);
            let (wait, run) = (figures.and_then(|f| f.mean_wait_s), figures.and_then(|f| f.mean_execution_s));
            wait.zip(run).map_or_else(|| "-".into(), |(wait, run)| format!("{wait:.2} + {run:.2}"))
        }));
        let figures = &summary.key_metrics;
        row.extend([figures.pauses, figures.early_ends, figures.kills].map(|count| count.to_string()));
        row.push(format!("{:.1}", figures.lost_work_s));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
