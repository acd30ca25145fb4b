//! How soon a small job is through a warm, idle cluster, and how many empty tasks go through in a second.

use super::{data, median, request, start};
use anyhow::{Result, ensure};
use giveway_core::Outcome;
use giveway_engine::apps::Apps;
use giveway_engine::client::Client;
use giveway_engine::job::Request;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const SMALL_JOBS: usize = 40;
const EMPTY_TASKS: usize = 10_000;

pub fn run(folder: &Path, repeat: u32, apps: &Apps) -> Result<()> {
    let small = data::small(folder)?;
    let place = folder.join("cluster");
    let _ = fs::remove_dir_all(&place);
    let cluster = start(&place, (2, 1), apps)?;
    let mut client = cluster.client()?;
    let mut ms = Vec::new();
    for at in 0..SMALL_JOBS {
        let output = folder.join(format!("small-{at}"));
        let _ = fs::remove_dir_all(&output);
        let mut wanted = request("wordcount", &small, output.clone());
        (wanted.reduces, wanted.memory_bytes) = (Some(1), 16 << 20);
        ms.push(through(&mut client, wanted)? * 1e3);
        fs::remove_dir_all(&output)?;
    }
    let mut out = std::io::stdout();
    ms.sort_by(f64::total_cmp);
    let (p50, p95) = (ms[ms.len() / 2], ms[ms.len() * 95 / 100]);
    writeln!(
        out,
        "small job (1 map, 1 reduce, 1 MB), submit to committed output: median {p50:.1} ms, p95 {p95:.1} ms"
    )?;

    // One byte a line, one line a split: as empty as a map can be and still be a map.
    let lines = folder.join("lines");
    fs::write(&lines, "\n".repeat(EMPTY_TASKS))?;
    let mut rates = Vec::new();
    for at in 0..repeat {
        let output = folder.join(format!("empty-{at}"));
        let _ = fs::remove_dir_all(&output);
        let mut wanted = request("wordcount", std::slice::from_ref(&lines), output.clone());
        (wanted.split_bytes, wanted.reduces, wanted.memory_bytes) = (1, Some(1), 16 << 20);
        rates.push(EMPTY_TASKS as f64 / through(&mut client, wanted)?);
        fs::remove_dir_all(&output)?;
    }
    writeln!(out, "{EMPTY_TASKS} empty maps and a reduce that fetches them all: {:.0} tasks/s", median(rates))?;
    drop(cluster);
    fs::remove_dir_all(&place)?;
    Ok(())
}

/// Seconds from submission until the output is committed.
fn through(client: &mut Client, wanted: Request) -> Result<f64> {
    let began = Instant::now();
    let job = client.submit(wanted)?;
    let status = client.follow(job, |_| {})?;
    ensure!(status.outcome == Some(Outcome::Succeeded), "{job} did not succeed: {:?}", status.failures);
    Ok(began.elapsed().as_secs_f64())
}
