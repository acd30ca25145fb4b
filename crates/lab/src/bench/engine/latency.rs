//! Latency of small jobs on a warm, idle cluster, and the rate at which the engine executes empty tasks.

use super::{input_data, median, on_new_cluster, request, run_job};
use anyhow::Result;
use giveway_mapreduce::apps::Apps;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const SMALL_JOBS: usize = 40;
const EMPTY_TASKS: usize = 10_000;

pub fn run(folder: &Path, repeat: u32, apps: &Apps) -> Result<()> {
    let small = input_data::small(folder)?;
    // One byte per line and one line per split: the smallest possible map tasks.
    let lines = folder.join("lines");
    fs::write(&lines, "\n".repeat(EMPTY_TASKS))?;
    on_new_cluster(folder, 2, apps, |client| {
        let mut seconds = |input: &[PathBuf], split_bytes: Option<u64>| -> Result<f64> {
            let mut request = request("wordcount", input, folder.join("out"));
            (request.reduces, request.memory_bytes) = (Some(1), 16 << 20);
            request.split_bytes = split_bytes.unwrap_or(request.split_bytes);
            Ok(run_job(client, request, |_, _| Ok(()))?.1)
        };
        let mut latency_ms = (0..SMALL_JOBS).map(|_| Ok(seconds(&small, None)? * 1e3)).collect::<Result<Vec<f64>>>()?;
        let mut out = std::io::stdout();
        latency_ms.sort_by(f64::total_cmp);
        let (p50, p95) = (latency_ms[latency_ms.len() / 2], latency_ms[latency_ms.len() * 95 / 100]);
        writeln!(
            out,
            "small job (1 map, 1 reduce, 1 MB), submission to committed output: median {p50:.1} ms, p95 {p95:.1} ms"
        )?;
        let rate = |_| Ok(EMPTY_TASKS as f64 / seconds(std::slice::from_ref(&lines), Some(1))?);
        let rates = (0..repeat).map(rate).collect::<Result<Vec<f64>>>()?;
        writeln!(
            out,
            "{EMPTY_TASKS} empty maps and one reduce that fetches their output: {:.0} tasks/s",
            median(rates)
        )?;
        Ok(())
    })
}
