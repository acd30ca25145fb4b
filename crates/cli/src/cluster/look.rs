//! `giveway jobs`, `job`, `nodes`, `explain` and `kill`: looking at a running cluster.

use super::args::{OneJob, Which};
use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use giveway_core::{JobId, Outcome};
use giveway_engine::client::Client;
use giveway_engine::wire::{JobStatus, TaskCounts};
use std::io::Write;

/// `giveway jobs`
pub fn jobs(which: &Which) -> Result<()> {
    let jobs = Client::connect(&which.dir)?.jobs()?;
    let mut table = table(&["job", "name", "user", "state", "maps", "reduces", "paused", "wait s", "time s"]);
    for job in &jobs {
        let wait = job.started_us.map(|began| seconds(began - job.submitted_us));
        let time = job.ended_us.map(|ended| seconds(ended - job.submitted_us));
        table.add_row([
            job.job.0.to_string(),
            job.name.clone(),
            job.user.clone(),
            state(job).into(),
            tasks(job.maps),
            tasks(job.reduces),
            job.reduces.paused.to_string(),
            wait.unwrap_or_default(),
            time.unwrap_or_default(),
        ]);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}

/// `giveway job ID`
pub fn job(args: &OneJob) -> Result<()> {
    let job = Client::connect(&args.which.dir)?.job(JobId(args.id))?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {} ({}) of {}: {}", job.job, job.name, job.app, job.user, state(&job))?;
    match (job.started_us, job.ended_us) {
        (Some(began), Some(ended)) => {
            let (waited, took) = (seconds(began - job.submitted_us), seconds(ended - job.submitted_us));
            writeln!(out, "time      {took} s, of which it waited {waited} s for its first task")?;
        }
        (Some(began), None) => {
            writeln!(out, "time      it waited {} s for its first task", seconds(began - job.submitted_us))?
        }
        _ => {}
    }
    writeln!(out, "maps      {} done, {} running", tasks(job.maps), job.maps.running)?;
    let reduces = job.reduces;
    writeln!(out, "reduces   {} done, {} running, {} paused", tasks(reduces), reduces.running, reduces.paused)?;
    writeln!(out, "gave way  {} pauses, {} early ends, {} kills", job.pauses, job.early_ends, job.kills)?;
    writeln!(out, "recovered {} tasks", job.recovered)?;
    if let Some(next) = job.next_round {
        writeln!(out, "its next round is {next}")?;
    }
    for (name, value) in &job.counters {
        writeln!(out, "{name:<30} {value:>14}")?;
    }
    for problem in &job.failures {
        writeln!(out, "problem: {problem}")?;
    }
    Ok(())
}

/// `giveway nodes`
pub fn nodes(which: &Which) -> Result<()> {
    let nodes = Client::connect(&which.dir)?.nodes()?;
    let mut table = table(&["node", "name", "state", "process", "map slots", "reduce slots", "paused here"]);
    for node in &nodes {
        let state = match (node.up, node.pid) {
            (true, Some(_)) => "up",
            (true, None) => "silent",
            (false, _) => "lost",
        };
        let slots = |(all, taken): (u16, u16)| format!("{taken} of {all} taken");
        table.add_row([
            node.node.0.to_string(),
            node.name.clone(),
            state.into(),
            node.pid.map_or_else(String::new, |pid| pid.to_string()),
            slots(node.map_slots),
            slots(node.reduce_slots),
            node.paused.to_string(),
        ]);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}

/// `giveway explain ID`
pub fn explain(args: &OneJob) -> Result<()> {
    let mut out = std::io::stdout();
    for line in Client::connect(&args.which.dir)?.explain(JobId(args.id))? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// `giveway yield ID`
pub fn give_way(args: &OneJob) -> Result<()> {
    let (mut client, job) = (Client::connect(&args.which.dir)?, JobId(args.id));
    client.yield_job(job)?;
    if client.job(job)?.outcome.is_some() {
        eprintln!("{job} is over; nothing of it runs any more");
    }
    Ok(())
}

/// `giveway kill ID`
pub fn kill(args: &OneJob) -> Result<()> {
    Ok(Client::connect(&args.which.dir)?.kill(JobId(args.id))?)
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.to_vec());
    table
}

fn state(job: &JobStatus) -> &'static str {
    match job.outcome {
        Some(Outcome::Succeeded) => "done",
        Some(Outcome::Killed) => "killed",
        Some(Outcome::Failed) => "failed",
        None if job.started_us.is_some() => "running",
        None => "waiting",
    }
}

fn tasks(counts: TaskCounts) -> String {
    format!("{}/{}", counts.done, counts.total)
}

fn seconds(us: u64) -> String {
    format!("{:.2}", us as f64 / 1e6)
}
