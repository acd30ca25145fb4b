//! What giving way costs: from the request to the free slot, what is done twice afterwards, and what a kill would have lost instead.
//!
//! A sort runs twice: undisturbed, and with every running task asked to give way again and again. The times are read off the journal.

use super::{data, median, request, start};
use anyhow::{Context, Result, ensure};
use giveway_core::event_log::EventLogReader;
use giveway_core::{Action, AttemptId, Event, Kind, Outcome, Time};
use giveway_engine::apps::Apps;
use giveway_engine::wire::JobStatus;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How much is sorted.
const BYTES: u64 = 256 << 20;

pub fn run(folder: &Path, apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    let (calm, calm_s, _) = sort(folder, apps, None)?;
    let (stirred, stirred_s, event_log) = sort(folder, apps, Some(Duration::from_millis(250)))?;
    let costs = Costs::of(&event_log)?;
    for (kind, what) in [(Kind::Map, "maps that ended early"), (Kind::Reduce, "reduces that paused")] {
        let ms = &costs.freed_ms[kind.ix()];
        if ms.is_empty() {
            continue;
        }
        let most = ms.iter().copied().fold(0.0, f64::max);
        writeln!(
            out,
            "{} {what}: slot free {:.1} ms after the request (median), {most:.1} ms at most",
            ms.len(),
            median(ms.clone())
        )?;
    }
    let again = stirred.counters.get("records read again after a resume").copied().unwrap_or(0);
    let count = |status: &JobStatus, name: &str| status.counters.get(name).copied().unwrap_or(0);
    writeln!(
        out,
        "records read again after a resume: {again}; reduce input records: {} undisturbed, {} with pauses",
        count(&calm, "reduce input records"),
        count(&stirred, "reduce input records")
    )?;
    let lost: f64 = costs.lost_s.iter().sum();
    writeln!(
        out,
        "a kill at the same moments would have thrown away {lost:.1} slot seconds of work; giving way kept all of it"
    )?;
    writeln!(
        out,
        "the sort took {calm_s:.2} s undisturbed, {stirred_s:.2} s with every task giving way again and again"
    )?;
    Ok(())
}

fn sort(folder: &Path, apps: &Apps, every: Option<Duration>) -> Result<(JobStatus, f64, Vec<u8>)> {
    let input = data::records(folder, BYTES)?;
    let (place, output) = (folder.join("cluster"), folder.join("out"));
    let _ = fs::remove_dir_all(&place);
    let _ = fs::remove_dir_all(&output);
    let cluster = start(&place, (1, 1), apps)?;
    let mut client = cluster.client()?;
    let mut wanted = request("terasort", &input, output.clone());
    (wanted.reduces, wanted.memory_bytes) = (Some(2), 64 << 20);
    let began = Instant::now();
    let job = client.submit(wanted)?;
    if let Some(every) = every {
        while client.job(job)?.outcome.is_none() {
            std::thread::sleep(every);
            let _ = client.yield_job(job);
        }
    }
    let status = client.follow(job, |_| {})?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(status.outcome == Some(Outcome::Succeeded), "the sort did not succeed: {:?}", status.failures);
    drop(cluster);
    let event_log = fs::read(place.join("journal").join("event-log")).context("the journal")?;
    fs::remove_dir_all(&output)?;
    fs::remove_dir_all(&place)?;
    Ok((status, seconds, event_log))
}

/// What an event log says of tasks that gave way.
#[derive(Default)]
struct Costs {
    /// From the request to the free slot, for each kind.
    freed_ms: [Vec<f64>; 2],
    /// How long each had been at work.
    lost_s: Vec<f64>,
}

impl Costs {
    fn of(event_log: &[u8]) -> Result<Costs> {
        let mut costs = Costs::default();
        let mut launched: HashMap<AttemptId, Time> = HashMap::new();
        let mut asked: HashMap<AttemptId, Time> = HashMap::new();
        for record in EventLogReader::open(event_log)? {
            let Ok(record) = record else { break };
            if let Event::AttemptPaused { attempt, .. } | Event::AttemptEndedEarly { attempt, .. } = &record.event
                && let (Some(begun), Some(asked)) = (launched.get(attempt), asked.get(attempt))
            {
                costs.freed_ms[attempt.task.kind.ix()].push(record.now.since(*asked).as_secs_f64() * 1e3);
                costs.lost_s.push(asked.since(*begun).as_secs_f64());
            }
            for action in &record.actions {
                match action {
                    Action::Launch { attempt, .. } => launched.insert(*attempt, record.now),
                    Action::Pause { attempt, .. } | Action::EndEarly { attempt, .. } => {
                        asked.insert(*attempt, record.now)
                    }
                    _ => None,
                };
            }
        }
        Ok(costs)
    }
}
