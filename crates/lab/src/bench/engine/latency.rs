//! Latency of small jobs on a warm, idle cluster, and the rate at which the engine executes empty tasks.

use super::{input_data, median, request, start};
use anyhow::{Result, ensure};
use giveway_core::Outcome;
use giveway_engine::client::Client;
use giveway_mapreduce::apps::Apps;
use giveway_mapreduce::job::Request;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const SMALL_JOBS: usize = 40;
const EMPTY_TASKS: usize = 10_000;

pub fn run(folder: &Path, repeat: u32, apps: &Apps) -> Result<()> {
    let small = input_data::small(folder)?;
    let cluster_dir = folder.join("cluster");
    let _ = fs::remove_dir_all(&cluster_dir);
    let cluster = start(&cluster_dir, (2, 1), apps)?;
    let mut client = cluster.client()?;
    let mut latency_ms = Vec::new();
    for at in 0..SMALL_JOBS {
        let output = folder.join(format!("small-{at}"));
        let _ = fs::remove_dir_all(&output);
        let mut request = request("wordcount", &small, output.clone());
        (request.reduces, request.memory_bytes) = (Some(1), 16 << 20);
        latency_ms.push(job_seconds(&mut client, request)? * 1e3);
        fs::remove_dir_all(&output)?;
    }
    let mut out = std::io::stdout();
    latency_ms.sort_by(f64::total_cmp);
    let (p50, p95) = (latency_ms[latency_ms.len() / 2], latency_ms[latency_ms.len() * 95 / 100]);
    writeln!(
        out,
        "small job (1 map, 1 reduce, 1 MB), submission to committed output: median {p50:.1} ms, p95 {p95:.1} ms"
    )?;

    // One byte per line and one line per split: the smallest possible map tasks.
    let lines = folder.join("lines");
    fs::write(&lines, "\n".repeat(EMPTY_TASKS))?;
    let mut rates = Vec::new();
    for at in 0..repeat {
        let output = folder.join(format!("empty-{at}"));
        let _ = fs::remove_dir_all(&output);
        let mut request = request("wordcount", std::slice::from_ref(&lines), output.clone());
        (request.split_bytes, request.reduces, request.memory_bytes) = (1, Some(1), 16 << 20);
        rates.push(EMPTY_TASKS as f64 / job_seconds(&mut client, request)?);
        fs::remove_dir_all(&output)?;
    }
    writeln!(out, "{EMPTY_TASKS} empty maps and one reduce that fetches their output: {:.0} tasks/s", median(rates))?;
    drop(cluster);
    fs::remove_dir_all(&cluster_dir)?;
    Ok(())
}

/// Seconds from submission until the output is committed.
fn job_seconds(client: &mut Client, request: Request) -> Result<f64> {
    let start = Instant::now();
    let job = client.submit(request)?;
    let status = client.follow(job, |_| {})?;
    ensure!(status.outcome == Some(Outcome::Succeeded), "{job} did not succeed: {:?}", status.failures);
    Ok(start.elapsed().as_secs_f64())
}
