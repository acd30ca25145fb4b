//! `giveway demo`: shows the effect of work-conserving preemption on engine clusters of this machine, in less than half a minute.
//!
//! Each policy has a cluster of four worker processes of its own. They run at the same time, so that whatever else this machine does slows all of them. The
//! workload follows the hSRTF paper: one large job, a few medium ones, and many small ones that arrive while the large one runs. In each run one worker is
//! killed, and every output is compared byte for byte with that of a sequential reference run. Tasks are throttled, so that two CPU cores can run a hundred
//! slots, and the policies' time constants are shortened to match.

pub mod workload;

use crate::args::Demo;
use crate::local_cluster::{LocalCluster, TimedWorkload, WorkloadRun};
use crate::text_table::TextTable;
use crate::{cluster_folder, files, report};
use anyhow::{Context, Result, anyhow};
use giveway_core::event_log::EventLogReader;
use giveway_core::policy::catalog;
use giveway_core::{Change, End, Kind, Lifecycle, Policy, Work};
use giveway_mapreduce::apps::Apps;
use giveway_sim::metrics::{KeyMetrics, Summary};
use indicatif::ProgressBar;
use std::io::{IsTerminal, Write};
use std::path::Path;
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

/// If tasks take this many times as long as their rate limit lets them, the machine decides and not the policies.
const TOO_BUSY: f64 = 2.0;

/// Runs the command.
pub fn run(args: &Demo, apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    files::check_writable([args.report.as_path()])?;
    let folder = cluster_folder::create("giveway-demo-")?;
    let workload = workload::generate(folder.path(), apps)?;
    writeln!(
        out,
        "{} clusters of {} worker processes, one for each policy, run the same {} jobs at the same time: 1 large, {} medium, {} small. One worker of each is killed.",
        POLICIES.len(),
        CLUSTER.nodes,
        workload.jobs.len(),
        workload::count(&workload, "medium"),
        workload::count(&workload, "small")
    )?;
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.set_message(format!("running under {} at the same time", POLICIES.join(", ")));
    let finished = run_all(&workload, folder.path(), apps)?;
    bar.finish_and_clear();
    let busy = slowness(finished.iter().map(|finished| finished.event_log.as_slice()));
    let runs: Vec<report::Run> = finished.into_iter().map(|finished| finished.run).collect();
    writeln!(out, "{}", table(&runs))?;
    writeln!(out, "Every output of every run is identical to that of a sequential reference run.")?;
    writeln!(out, "{}", verdict(&runs, busy))?;
    let facts = [
        ("Workload".to_owned(), format!("{} jobs on generated text", workload.jobs.len())),
        (
            "Cluster".to_owned(),
            format!(
                "{} worker processes for each policy, all on one machine and at the same time; one of each is killed",
                CLUSTER.nodes
            ),
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

/// Runs the workload under all policies at the same time.
fn run_all(workload: &TimedWorkload, folder: &Path, apps: &Apps) -> Result<Vec<WorkloadRun>> {
    std::thread::scope(|scope| {
        let run = |name: &'static str| {
            scope.spawn(move || {
                let policy = catalog::by_name(name).context("policy missing in the catalogue")?.faster(TIME_SCALE);
                let finished = workload.run(&CLUSTER, &folder.join(name), policy, apps);
                finished.with_context(|| format!("demo failed under policy {name}"))
            })
        };
        let threads = POLICIES.map(run);
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a run panicked"))?).collect()
    })
}

/// How many times as long as their rate limit lets them the maps took, in the middle: about 1 on a machine with time to spare.
fn slowness<'a>(event_logs: impl Iterator<Item = &'a [u8]>) -> f64 {
    let mut times_s = Vec::new();
    for event_log in event_logs {
        let mut running: Lifecycle = Lifecycle::default();
        let Ok(reader) = EventLogReader::open(event_log) else { continue };
        for record in reader.map_while(Result::ok) {
            running.observe(&record.event, &record.actions, record.now, &mut |change| {
                if let Change::Ended { attempt, end: End::Finished { .. } } = change
                    && let (Kind::Map, Work::Map { start_bytes: 0, .. }) = (attempt.id.task.kind, attempt.work)
                {
                    times_s.push(record.now.since(attempt.launched).as_secs_f64());
                }
            });
        }
    }
    times_s.sort_by(f64::total_cmp);
    times_s.get(times_s.len() / 2).map_or(1.0, |middle_s| middle_s / workload::MAP_S)
}

/// What the runs show of small jobs: their measured times, with preemption and without, the shortest first.
fn verdict(runs: &[report::Run], busy: f64) -> String {
    if busy > TOO_BUSY {
        return format!(
            "This machine was too busy to tell: tasks took {busy:.1} times as long as they should. Run it again when the machine is idle."
        );
    }
    let times = |preempts: bool| {
        let small =
            |run: &report::Run| Some((group(&run.summary, "small")?.mean_completion_s?, run.summary.policy.clone()));
        let has_rules = |policy: Policy| Kind::BOTH.iter().any(|&kind| !policy.slots(kind).preempt.is_empty());
        let is_of = |run: &&report::Run| catalog::by_name(&run.summary.policy).is_some_and(has_rules) == preempts;
        let mut times: Vec<_> = runs.iter().filter(is_of).filter_map(small).collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let words: Vec<String> = times.iter().map(|(time_s, policy)| format!("{time_s:.1} s ({policy})")).collect();
        (
            times.first().map_or(f64::NAN, |first| first.0),
            times.last().map_or(f64::NAN, |last| last.0),
            and_list(&words),
        )
    };
    let ((_, longest_s, with), (shortest_s, _, without)) = (times(true), times(false));
    let verdict = if longest_s < shortest_s { "Preemption helps small jobs" } else { "No clear difference" };
    format!("{verdict}: on average they finished after {with} with it, after {without} without it.")
}

fn and_list(words: &[String]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}

/// The metrics of a size group.
pub fn group<'a>(summary: &'a Summary, name: &str) -> Option<&'a KeyMetrics> {
    summary.groups.iter().find(|(group, _)| group == name).map(|(_, group)| &group.key_metrics)
}

/// Builds a table with one row per policy: makespan, mean wait and execution time by size group, preemptions and lost work.
fn table(runs: &[report::Run]) -> TextTable {
    let mut header = vec!["policy".to_owned(), "makespan\n(s)".to_owned()];
    header.extend(workload::GROUPS.iter().map(|group| format!("{group} jobs\nwait + run (s)")));
    header.extend(
        ["pauses", "early\nends", "kills", "lost to\npreemption\n(slot s)", "lost with\nthe worker\n(slot s)"]
            .map(String::from),
    );
    let mut table = TextTable::new(header).numbers_from(1).leave_out("makespan (s)|kills|large jobs wait + run (s)");
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
        let by_preemption_s = summary.details.lost_to_preemption_s;
        row.push(format!("{by_preemption_s:.1}"));
        row.push(format!("{:.1}", figures.lost_work_s - by_preemption_s));
        table.add_row(row);
    }
    table
}
