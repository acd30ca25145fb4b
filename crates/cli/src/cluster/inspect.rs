//! `giveway jobs`, `job`, `nodes`, `explain`, `yield` and `kill`: inspect a running cluster and control its jobs.

use super::args::{ClusterDir, JobSelector};
use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use giveway_core::{JobId, Outcome};
use giveway_engine::client::Client;
use giveway_engine::wire::{JobStatus, NodeExclusion, TaskCounts};
use std::io::Write;

/// `giveway jobs`
pub fn jobs(cluster: &ClusterDir) -> Result<()> {
    let jobs = Client::connect(&cluster.dir)?.jobs()?;
    let mut table = table(&["job", "name", "user", "state", "maps", "reduces", "paused", "wait (s)", "total (s)"]);
    for job in &jobs {
        let wait = job.started_us.map(|began| seconds_between(job.submitted_us, began));
        let total = job.ended_us.map(|ended| seconds_between(job.submitted_us, ended));
        table.add_row([
            job.job.0.to_string(),
            job.name.clone(),
            job.user.clone(),
            state(job).into(),
            tasks(job.maps),
            tasks(job.reduces),
            job.reduces.paused.to_string(),
            wait.unwrap_or_default(),
            total.unwrap_or_default(),
        ]);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}

/// `giveway job`
pub fn job(args: &JobSelector) -> Result<()> {
    let job = Client::connect(&args.cluster.dir)?.job(JobId(args.id))?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {} ({}) of user {}: {}", job.job, job.name, job.app, job.user, state(&job))?;
    match (job.started_us, job.ended_us) {
        (Some(began), Some(ended)) => {
            let (wait, total) = (seconds_between(job.submitted_us, began), seconds_between(job.submitted_us, ended));
            writeln!(out, "time        {total} s, including {wait} s until the first task started")?;
        }
        (Some(began), None) => {
            writeln!(out, "time        {} s until the first task started", seconds_between(job.submitted_us, began))?
        }
        _ => {}
    }
    writeln!(out, "maps        {} finished, {} running", tasks(job.maps), job.maps.running)?;
    let reduces = job.reduces;
    writeln!(out, "reduces     {} finished, {} running, {} paused", tasks(reduces), reduces.running, reduces.paused)?;
    writeln!(out, "preemptions {} pauses, {} early ends, {} kills", job.pauses, job.early_ends, job.kills)?;
    writeln!(out, "re-executed {} tasks after lost nodes or map outputs", job.recovered)?;
    if let Some(next) = job.next_round {
        writeln!(out, "next round  {next}")?;
    }
    for (name, value) in &job.counters {
        writeln!(out, "{name:<30} {value:>14}")?;
    }
    for failure in &job.failures {
        writeln!(out, "failure: {failure}")?;
    }
    Ok(())
}

/// `giveway nodes`
pub fn nodes(cluster: &ClusterDir) -> Result<()> {
    let nodes = Client::connect(&cluster.dir)?.nodes()?;
    let mut table = table(&["node", "name", "state", "pid", "map slots", "reduce slots", "paused"]);
    for node in &nodes {
        let state = match (node.up, node.pid, &node.excluded) {
            (true, Some(_), Some(exclusion)) => excluded(exclusion),
            (true, Some(_), None) => "up".into(),
            (true, None, _) => "disconnected".into(),
            (false, ..) => "lost".into(),
        };
        let slots = |(all, used): (u16, u16)| format!("{used} of {all} used");
        table.add_row([
            node.node.0.to_string(),
            node.name.clone(),
            state,
            node.pid.map_or_else(String::new, |pid| pid.to_string()),
            slots(node.map_slots),
            slots(node.reduce_slots),
            node.paused.to_string(),
        ]);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}

fn excluded(exclusion: &NodeExclusion) -> String {
    let NodeExclusion { failures, jobs, failed_probes, probing, probe_in_s } = exclusion;
    let probes = if *failed_probes > 0 { format!(", {failed_probes} failed probes") } else { String::new() };
    let next = if *probing { "a probe runs".into() } else { format!("next probe in {probe_in_s:.0} s") };
    format!("excluded: {failures} failures of {jobs} jobs{probes}; {next}")
}

/// `giveway explain`
pub fn explain(args: &JobSelector) -> Result<()> {
    let mut out = std::io::stdout();
    for line in Client::connect(&args.cluster.dir)?.explain(JobId(args.id))? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// `giveway yield`
pub fn yield_job(args: &JobSelector) -> Result<()> {
    let (mut client, job) = (Client::connect(&args.cluster.dir)?, JobId(args.id));
    client.yield_job(job)?;
    if client.job(job)?.outcome.is_some() {
        eprintln!("{job} has ended; no task was preempted");
    }
    Ok(())
}

/// `giveway kill`
pub fn kill(args: &JobSelector) -> Result<()> {
    Ok(Client::connect(&args.cluster.dir)?.kill(JobId(args.id))?)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

fn state(job: &JobStatus) -> &'static str {
    match job.outcome {
        Some(Outcome::Succeeded) => "succeeded",
        Some(Outcome::Killed) => "killed",
        Some(Outcome::Failed) => "failed",
        None if job.started_us.is_some() => "running",
        None => "pending",
    }
}

/// Finished and total tasks of one kind, as `3/8`.
fn tasks(counts: TaskCounts) -> String {
    format!("{}/{}", counts.done, counts.total)
}

fn seconds_between(start_us: u64, end_us: u64) -> String {
    format!("{:.2}", end_us.saturating_sub(start_us) as f64 / 1e6)
}
