//! Cost of work-conserving preemption: time from the request to the free slot, work repeated after a resume, and the work that kills would have lost.
//!
//! A sort runs twice: without preemption, and with every running task preempted every 250 ms. The times are taken from the journal.

use super::{input_data, median, on_new_cluster, request, run_job};
use anyhow::{Context, Result};
use giveway_core::event_log::{EventLogReader, Record};
use giveway_core::{AttemptId, Change, End, Kind, Lifecycle, PerKind, Time};
use giveway_engine::client::Client;
use giveway_engine::coordinator;
use giveway_engine::wire::JobStatus;
use giveway_mapreduce::apps::Apps;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const INPUT_BYTES: u64 = 256 << 20;

pub fn run(folder: &Path, apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    let (baseline, baseline_s, _) = sort(folder, apps, None)?;
    let (preempted, preempted_s, event_log) = sort(folder, apps, Some(Duration::from_millis(250)))?;
    let costs = PreemptionCosts::from_event_log(&event_log)?;
    for (kind, preemption) in [(Kind::Map, "early ends of maps"), (Kind::Reduce, "pauses of reduces")] {
        let latency_ms = &costs.latency_ms[kind];
        if latency_ms.is_empty() {
            continue;
        }
        let max = latency_ms.iter().copied().fold(0.0, f64::max);
        writeln!(
            out,
            "{} {preemption}: time from the request to the free slot: median {:.1} ms, max {max:.1} ms",
            latency_ms.len(),
            median(latency_ms.clone())
        )?;
    }
    let reread = preempted.counters.get("records read again after a resume").copied().unwrap_or(0);
    let count = |status: &JobStatus, name: &str| status.counters.get(name).copied().unwrap_or(0);
    writeln!(
        out,
        "records read again after a resume: {reread}; reduce input records: {} without preemption, {} with preemption",
        count(&baseline, "reduce input records"),
        count(&preempted, "reduce input records")
    )?;
    let lost_s: f64 = costs.kill_loss_s.iter().sum();
    writeln!(out, "work that kills at the same times would have lost: {lost_s:.1} slot seconds")?;
    writeln!(
        out,
        "sort time: {baseline_s:.2} s without preemption, {preempted_s:.2} s with every running task preempted every 250 ms"
    )?;
    Ok(())
}

/// Sorts the input on a new cluster and preempts its tasks at the given interval. Returns status, seconds and event log.
fn sort(folder: &Path, apps: &Apps, interval: Option<Duration>) -> Result<(JobStatus, f64, Vec<u8>)> {
    let mut request = request("terasort", &input_data::records(folder, INPUT_BYTES)?, folder.join("out"));
    (request.reduces, request.memory_bytes) = (Some(2), 64 << 20);
    let preempt = |client: &mut Client, job| {
        while let Some(interval) = interval
            && client.job(job)?.outcome.is_none()
        {
            std::thread::sleep(interval);
            let _ = client.yield_job(job);
        }
        Ok(())
    };
    let (status, seconds) = on_new_cluster(folder, 1, apps, |client| run_job(client, request, preempt))?;
    let event_log =
        coordinator::read_event_log(&folder.join("cluster/journal/log")).context("cannot read the journal")?;
    Ok((status, seconds, event_log))
}

/// Costs of the preemptions in an event log.
#[derive(Default)]
struct PreemptionCosts {
    /// Time from the request to the free slot, by kind of slot.
    latency_ms: PerKind<Vec<f64>>,
    /// Run time of each attempt up to the request: what a kill would have lost.
    kill_loss_s: Vec<f64>,
}

impl PreemptionCosts {
    fn from_event_log(event_log: &[u8]) -> Result<PreemptionCosts> {
        let mut costs = PreemptionCosts::default();
        let mut lifecycle = Lifecycle::<()>::default();
        let mut requested: HashMap<AttemptId, Time> = HashMap::new();
        for record in EventLogReader::open(event_log)? {
            // The journal of a cluster that may be restarted has no closing record.
            let Ok(Record { now, event, actions, .. }) = record else { break };
            lifecycle.observe(&event, &actions, now, &mut |change| match change {
                Change::StopRequested { attempt, .. } => {
                    requested.insert(attempt.id, now);
                }
                Change::Ended { attempt, end: End::Paused | End::EndedEarly { .. } } => {
                    let Some(requested) = requested.remove(&attempt.id) else { return };
                    costs.latency_ms[attempt.id.task.kind].push(now.since(requested).as_secs_f64() * 1e3);
                    costs.kill_loss_s.push(requested.since(attempt.launched).as_secs_f64());
                }
                _ => {}
            });
        }
        Ok(costs)
    }
}
