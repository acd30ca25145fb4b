//! How many events the simulator gets through on one core, and what it needs to remember of jobs that are over.

use anyhow::{Result, anyhow};
use giveway_core::Policy;
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
        "{nodes} nodes in 25 racks, {jobs} jobs of {tasks} tasks, shuffle and locality on, {}, one core",
        policy.name
    )?;
    let mut rates = Vec::new();
    for _ in 0..repeat {
        let begun = Instant::now();
        let mut simulation = Simulation::new(&cluster, &workload, policy.clone(), 1)?;
        let mut quarters = Vec::new();
        while simulation.step(&mut ()) {
            if simulation.stats().jobs_closed * 4 / jobs as usize > quarters.len() {
                quarters.push(format!("{} MB for {}", resident_bytes() / 1_000_000, live_tasks(&simulation)));
            }
        }
        let took_s = begun.elapsed().as_secs_f64();
        let totals = simulation.stats();
        writeln!(
            out,
            "{:>12.0} events/s   {} in {took_s:.2} s, {:.1} h simulated; resident for tasks of live jobs, with 1/4, 2/4, 3/4, all jobs over: {}",
            totals.events as f64 / took_s,
            totals.events,
            totals.end.as_secs_f64() / 3600.0,
            quarters.join(", "),
        )?;
        rates.push([totals.events, totals.events + totals.launches].map(|count| count as f64 / took_s / 1e6));
    }
    rates.sort_by(|a, b| a[0].total_cmp(&b[0]));
    for (name, [told, with_launches]) in [("median", rates[rates.len() / 2]), ("best", rates[rates.len() - 1])] {
        writeln!(
            out,
            "{name:>6}: {told:.2} million events/s of which the core is told; {with_launches:.2} million/s with the launches, which are its answers"
        )?;
    }
    Ok(())
}

/// Nodes of the FCS paper, in racks, with links that are slower between racks.
fn racks(nodes: u32) -> Result<Cluster> {
    let mut cluster = cluster::by_name("fcs")?;
    let model = cluster.nodes.first().cloned().ok_or_else(|| anyhow!("the fcs cluster has no nodes"))?;
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

/// Heavy-tailed jobs that keep most of the cluster busy.
fn workload(cluster: &Cluster, jobs: u32) -> Result<Workload> {
    let text = format!("[generate]\njobs = {jobs}\nload = 0.8\n");
    Ok(Workload::from_toml(&text, "bench", cluster, 1)?)
}

fn live_tasks(simulation: &Simulation<'_>) -> usize {
    simulation.scheduler().state().live().map(|(_, job)| job.tasks.iter().map(Vec::len).sum::<usize>()).sum()
}

/// Memory in use, where the system tells.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}
