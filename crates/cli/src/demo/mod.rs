//! `giveway demo`: a real cluster on this machine shows in a minute what giving way brings.
//!
//! Four worker processes, input made here, and the hSRTF paper's kind of mix: one large job, a few medium ones, many small ones that arrive
//! while the large one runs. The same mix runs under several policies; each time one worker is killed on the way, and each time every output is
//! compared, byte for byte, with a sequential run. Tasks take their records slowly, so that two cores can play a cluster of twenty slots; the
//! policies' time-outs are shortened to match.

mod mix;

use crate::args::Demo;
use crate::stage::Stage;
use crate::{files, report, signals};
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use giveway_core::policy::catalog;
use giveway_engine::apps::Apps;
use giveway_sim::metrics::{KeyMetrics, Summary};
use indicatif::ProgressBar;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// What is compared.
const POLICIES: [&str; 4] = ["fifo", "fair", "hsrtf-prp-pause", "fcs"];

/// The cluster.
const STAGE: Stage = Stage {
    nodes: 4,
    map_slots: 3,
    reduce_slots: 2,
    beat: Duration::from_millis(75),
    timeout: Duration::from_millis(750),
    slowstart_ppm: 50_000,
};

/// The cluster plays one whose tasks are so many times longer.
const FASTER: f64 = 40.0;

/// Runs the command.
pub fn run(args: &Demo, apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    files::try_places([args.report.as_path()])?;
    let folder = tempfile::Builder::new().prefix("giveway-demo-").tempdir().context("a folder for the demo")?;
    signals::remove_on_stop(folder.path().to_owned())?;
    let mix = mix::make(folder.path(), apps)?;
    writeln!(
        out,
        "A cluster of {} worker processes; {} jobs: one large, {} medium, {} small. A worker is killed in each run.",
        STAGE.nodes,
        mix.jobs.len(),
        mix::count(&mix, "medium"),
        mix::count(&mix, "small")
    )?;
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let mut runs = Vec::new();
    for name in POLICIES {
        bar.set_message(format!("under {name}"));
        let policy = catalog::by_name(name).context("a policy of the catalogue")?.faster(FASTER);
        let played = mix.perform(&STAGE, &folder.path().join(name), policy, apps);
        runs.push(played.with_context(|| format!("under {name}"))?.run);
    }
    bar.finish_and_clear();
    writeln!(out, "{}", table(&runs))?;
    writeln!(out, "Every output of every run is that of a sequential run, byte for byte.")?;
    let small = |policy: &str| {
        let run = runs.iter().find(|run| run.summary.policy == policy)?;
        group(&run.summary, "small")?.mean_completion_s
    };
    if let (Some(fifo), Some(fair), Some(ours)) = (small("fifo"), small("fair"), small("hsrtf-prp-pause")) {
        writeln!(
            out,
            "Small jobs took {ours:.2} s on average where large ones give way (hsrtf-prp-pause), {fair:.2} s under fair, {fifo:.2} s under fifo."
        )?;
    }
    let facts = [
        ("Workload".to_owned(), format!("{} real jobs on generated text", mix.jobs.len())),
        ("Cluster".to_owned(), format!("{} worker processes on this machine, one killed on the way", STAGE.nodes)),
        ("Again".to_owned(), "giveway demo".to_owned()),
    ];
    let groups: Vec<String> = mix::GROUPS.map(String::from).into();
    let html = report::html("The demo: a real cluster on one machine", &facts, &groups, &runs);
    files::write(&args.report, &html)?;
    writeln!(
        out,
        "Open {} for the plots. Next: `giveway up`, `giveway submit`, `giveway sim --help`.",
        args.report.display()
    )?;
    Ok(())
}

fn group<'a>(summary: &'a Summary, name: &str) -> Option<&'a KeyMetrics> {
    summary.groups.iter().find(|(group, _)| group == name).map(|(_, group)| &group.key_metrics)
}

/// One row a policy: how long all took, and the sizes of job apart.
fn table(runs: &[report::Run]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    let mut head = vec!["policy".to_owned(), "all done\nafter s".to_owned()];
    head.extend(mix::GROUPS.iter().map(|group| format!("{group}\nwait + run s")));
    head.extend(["pauses", "early\nends", "kills", "slot s\nlost"].map(String::from));
    table.set_header(head);
    for run in runs {
        let summary = &run.summary;
        let mut row = vec![summary.policy.clone(), format!("{:.1}", summary.makespan_s)];
        row.extend(mix::GROUPS.iter().map(|name| {
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
