//! Throughput (MB/s) and peak memory of word count and total sort, with ample and with little task memory, compared with baselines.

use super::{Options, baselines, input_data, median, request, start};
use anyhow::{Result, ensure};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use giveway_core::Outcome;
use giveway_engine::apps::Apps;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Buffer memory of all concurrent tasks together in the run with little memory.
const LITTLE_MEMORY_BYTES: u64 = 256 << 20;

/// Map and reduce slots of each of the two workers.
const SLOTS: (u16, u16) = (1, 1);

pub fn run(folder: &Path, options: &Options, apps: &Apps) -> Result<()> {
    let text = input_data::text(folder, options.size)?;
    let records = input_data::records(folder, options.size)?;
    let bytes =
        |files: &[PathBuf]| files.iter().map(|file| fs::metadata(file).map_or(0, |data| data.len())).sum::<u64>();
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["", "word count\n(s)", "\nMB/s", "peak\nMiB", "total sort\n(s)", "\nMB/s", "peak\nMiB"]);
    let mut row = |name: &str, word_count: Measurement, sort: Measurement| {
        let mut cells = vec![name.to_owned()];
        for (measurement, input) in [(word_count, bytes(&text)), (sort, bytes(&records))] {
            match measurement {
                Some((seconds, peak_mib)) => {
                    let peak = peak_mib.map_or_else(|| "-".into(), |mib| format!("{mib:.0}"));
                    cells.extend([format!("{seconds:.2}"), format!("{:.0}", input as f64 / 1e6 / seconds), peak]);
                }
                None => cells.extend(["-".to_owned(), "-".to_owned(), "-".to_owned()]),
            }
        }
        table.add_row(cells);
    };
    let ample = 512 << 20;
    let little = LITTLE_MEMORY_BYTES / u64::from(2 * (SLOTS.0 + SLOTS.1));
    for (name, memory) in [("giveway", ample), ("giveway, 256 MiB task memory", little)] {
        let word_count = engine(folder, "wordcount", &text, memory, options.repeat, apps)?;
        let sort = engine(folder, "terasort", &records, memory, options.repeat, apps)?;
        row(name, Some(word_count), Some(sort));
    }
    row("hash maps, 2 threads", baselines::count_words(&text, options.repeat)?, None);
    row("GNU sort, 2 threads", None, baselines::gnu_sort(folder, &records, options.repeat)?);
    writeln!(
        std::io::stdout(),
        "Input: {} MB of text (word count) and of 100-byte records (total sort); two workers\n{table}",
        options.size / 1_000_000
    )?;
    Ok(())
}

/// Seconds, and the peak memory of all processes in MiB where it is known; `None` if the program did not run.
pub type Measurement = Option<(f64, Option<f64>)>;

/// Runs an application on a new cluster for each repetition.
fn engine(
    folder: &Path,
    app: &str,
    input: &[PathBuf],
    memory_bytes: u64,
    repeat: u32,
    apps: &Apps,
) -> Result<(f64, Option<f64>)> {
    let (mut seconds, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..repeat {
        let cluster_dir = folder.join("cluster");
        let _ = fs::remove_dir_all(&cluster_dir);
        let output = folder.join("out");
        let _ = fs::remove_dir_all(&output);
        let cluster = start(&cluster_dir, SLOTS, apps)?;
        let mut client = cluster.client()?;
        let mut request = request(app, input, output.clone());
        (request.memory_bytes, request.reduces) = (memory_bytes, Some(4));
        let start_time = Instant::now();
        let job = client.submit(request)?;
        let status = client.follow(job, |_| {})?;
        seconds.push(start_time.elapsed().as_secs_f64());
        ensure!(status.outcome == Some(Outcome::Succeeded), "{app} did not succeed: {:?}", status.failures);
        let pids = client.nodes()?.into_iter().filter_map(|node| node.pid).chain([std::process::id()]);
        peaks.push(pids.map(peak_mib).sum());
        drop(cluster);
        fs::remove_dir_all(&output)?;
        fs::remove_dir_all(&cluster_dir)?;
    }
    Ok((median(seconds), Some(median(peaks))))
}

/// Peak resident memory of a process; 0 if it is not known.
fn peak_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
