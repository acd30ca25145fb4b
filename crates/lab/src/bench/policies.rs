//! `giveway bench policies`: the demo's workload on an engine cluster, again and again under several policies, with confidence intervals.

use crate::cluster_folder;
use crate::demo::{CLUSTER, TIME_SCALE, group, workload};
use crate::local_cluster::TimedWorkload;
use crate::table::interval;
use crate::text_table::TextTable;
use anyhow::{Context, Result};
use giveway_core::Policy;
use giveway_engine::client::Client;
use giveway_mapreduce::apps::Apps;
use giveway_sim::metrics::Summary;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A slow worker is stopped for this long and then runs for this long, so that it has half the speed.
const SLOW_INTERVAL: Duration = Duration::from_millis(25);

/// The workload's variants: name, number of slow workers, whether a worker is killed.
const VARIANTS: [(&str, usize, bool); 2] =
    [("one worker killed", 0, true), ("two of four workers at half speed", 2, false)];

/// What is kept of one run.
struct Outcome {
    mean_s: f64,
    small_s: f64,
    /// Lost work as a fraction of the slot time in use.
    lost: f64,
}

/// Runs the command. The policies alternate, so that slow changes of the machine's speed concern all of them.
pub fn run(policies: &[Policy], repeat: u32, apps: &Apps) -> Result<()> {
    let folder = cluster_folder::create("giveway-bench-")?;
    let mut out = std::io::stdout();
    let mut outcomes: Vec<Vec<Vec<Outcome>>> =
        VARIANTS.iter().map(|_| policies.iter().map(|_| Vec::new()).collect()).collect();
    let mut workload = workload::generate(folder.path(), apps)?;
    let kill_at = workload.kill_at;
    for round in 0..repeat {
        for (&(name, slow, has_kill), of_variant) in VARIANTS.iter().zip(&mut outcomes) {
            workload.kill_at = kill_at.filter(|_| has_kill);
            for (policy, of_policy) in policies.iter().zip(of_variant) {
                let run_folder = folder.path().join("run");
                let summary = run_once(&workload, &run_folder, policy, slow, apps)
                    .with_context(|| format!("{name}, policy {}, round {round}", policy.name))?;
                of_policy.push(Outcome::of(&summary));
                std::fs::remove_dir_all(&run_folder).context("cannot remove a run's directory")?;
            }
        }
    }
    for ((name, ..), of_variant) in VARIANTS.iter().zip(&outcomes) {
        writeln!(out, "{name}: {} jobs, {repeat} runs of each policy", workload.jobs.len())?;
        writeln!(out, "{}", table(policies, of_variant))?;
    }
    Ok(())
}

fn run_once(workload: &TimedWorkload, folder: &Path, policy: &Policy, slow: usize, apps: &Apps) -> Result<Summary> {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        if slow > 0 {
            scope.spawn(|| slow_down(folder, slow, &is_done));
        }
        let run = workload.run(&CLUSTER, folder, policy.clone().faster(TIME_SCALE), apps);
        is_done.store(true, Ordering::Relaxed);
        Ok(run?.run.summary)
    })
}

/// Stops and continues the first `count` workers of the cluster in `folder`, as soon as they are up, until the run is done.
fn slow_down(folder: &Path, count: usize, is_done: &AtomicBool) {
    let mut workers: Vec<Pid> = Vec::new();
    while !is_done.load(Ordering::Relaxed) {
        if workers.len() < count {
            let nodes = Client::connect(folder).and_then(|mut client| client.nodes()).unwrap_or_default();
            let pids = nodes.iter().filter_map(|node| Pid::from_raw(i32::try_from(node.pid?).ok()?));
            workers = pids.take(count).collect();
        } else {
            signal(&workers, Signal::STOP);
            thread::sleep(SLOW_INTERVAL);
            signal(&workers, Signal::CONT);
        }
        thread::sleep(SLOW_INTERVAL);
    }
}

/// Fails once a worker has ended, which is the end of the run.
fn signal(workers: &[Pid], signal: Signal) {
    for &worker in workers {
        let _ = kill_process(worker, signal);
    }
}

impl Outcome {
    fn of(summary: &Summary) -> Outcome {
        let metrics = &summary.key_metrics;
        let slots = f64::from(CLUSTER.nodes * u32::from(CLUSTER.map_slots + CLUSTER.reduce_slots));
        let used_s = metrics.utilisation.unwrap_or(f64::NAN) * slots * summary.makespan_s;
        let small = group(summary, workload::GROUPS[0]);
        Outcome {
            mean_s: metrics.mean_completion_s.unwrap_or(f64::NAN),
            small_s: small.and_then(|metrics| metrics.mean_completion_s).unwrap_or(f64::NAN),
            lost: metrics.lost_work_s / used_s,
        }
    }
}

/// One row per policy: means with 95 % confidence intervals.
fn table(policies: &[Policy], outcomes: &[Vec<Outcome>]) -> TextTable {
    let header = ["policy", "all jobs\nmean (s)", "small jobs\nmean (s)", "slot time lost\n(%)"];
    let mut table = TextTable::new(header).numbers_from(1);
    for (policy, outcomes) in policies.iter().zip(outcomes) {
        let cell = |value: fn(&Outcome) -> f64| match outcomes.iter().map(value).collect::<Vec<_>>().as_slice() {
            [one] => format!("{one:.2}"),
            several => {
                let (mean, half) = interval(several);
                format!("{mean:.2} ±{half:.2}")
            }
        };
        let cells = [cell(|run| run.mean_s), cell(|run| run.small_s), cell(|run| 100.0 * run.lost)];
        table.add_row(std::iter::once(policy.name.clone()).chain(cells));
    }
    table
}
