//! `giveway bench sim`: events per second of the simulator on one CPU core, and its resident memory as jobs end.

use anyhow::{Result, anyhow};
use giveway_core::Kind;
use giveway_core::Policy;
use giveway_core::state::Job;
use giveway_sim::Simulation;
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::workload::Workload;
use std::io::Write;
use std::time::Instant;

/// Runs the benchmark.
pub fn run(nodes: u32, jobs: u32, policy: &Policy, repeat: u32) -> Result<()> {
    let cluster = racks(nodes)?;
    let workload = workload(&cluster, jobs)?;
    let mut out = std::io::stdout();
    let tasks: u64 = workload.jobs.iter().map(|job| u64::from(job.maps) + u64::from(job.reduces)).sum();
    writeln!(
        out,
        "{nodes} nodes in 25 racks, {jobs} jobs with {tasks} tasks, shuffle and locality modelled, policy {}, one CPU core",
        policy.name
    )?;
    let mut rates = Vec::new();
    for _ in 0..repeat {
        let start = Instant::now();
        let mut simulation = Simulation::new(&cluster, &workload, policy.clone(), 1)?;
        // Resident memory and tasks of live jobs, each time another quarter of the jobs has ended.
        let mut memory = Vec::new();
        while simulation.step(&mut ()) {
            if simulation.stats().jobs_closed * 4 / jobs as usize > memory.len() {
                memory.push(format!("{} MB ({} tasks)", resident_bytes() / 1_000_000, live_tasks(&simulation)));
            }
        }
        let elapsed_s = start.elapsed().as_secs_f64();
        let totals = simulation.stats();
        writeln!(
            out,
            "{:>12.0} events/s   {} events in {elapsed_s:.2} s, {:.1} h simulated; resident memory (tasks of live jobs) with 25, 50, 75, 100 % of the jobs ended: {}",
            totals.events as f64 / elapsed_s,
            totals.events,
            totals.end.as_secs_f64() / 3600.0,
            memory.join(", "),
        )?;
        rates.push([totals.events, totals.events + totals.launches].map(|count| count as f64 / elapsed_s / 1e6));
    }
    rates.sort_by(|a, b| a[0].total_cmp(&b[0]));
    for (name, [events, with_launches]) in [("median", rates[rates.len() / 2]), ("best", rates[rates.len() - 1])] {
        writeln!(
            out,
            "{name:>6}: {events:.2} million events/s handled by the scheduler core; {with_launches:.2} million/s including task launches"
        )?;
    }
    Ok(())
}

/// A cluster of FCS paper nodes in 25 racks, with half the bandwidth between racks.
fn racks(nodes: u32) -> Result<Cluster> {
    let mut cluster = cluster::by_name("fcs")?;
    let model = cluster.nodes.first().cloned().ok_or_else(|| anyhow!("built-in cluster `fcs` has no nodes"))?;
    cluster.nodes = (0..nodes)
        .map(|node| {
            let mut model = model.clone();
            model.spec.name = format!("n{node}");
            model.spec.rack = giveway_core::RackId(node % 25);
            model
        })
        .collect();
    cluster.cross_rack = 0.5;
    cluster.name = "bench".into();
    Ok(cluster)
}

/// Generated jobs with a heavy-tailed size distribution and a load of 80 %.
fn workload(cluster: &Cluster, jobs: u32) -> Result<Workload> {
    let text = format!("[generate]\njobs = {jobs}\nload = 0.8\n");
    Ok(Workload::from_toml(&text, "bench", cluster, 1)?)
}

fn live_tasks(simulation: &Simulation<'_>) -> usize {
    let tasks = |job: &Job| Kind::BOTH.iter().map(|&kind| job.total(kind) as usize).sum::<usize>();
    simulation.scheduler().state().jobs().iter().map(|(_, job)| tasks(job)).sum()
}

/// Resident memory of this process, for 4 KiB pages; 0 where `/proc` is not available.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}
