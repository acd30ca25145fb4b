//! Wordcount and total sort: megabytes a second and peak memory, with plenty of memory and with little, beside others.

use super::{Options, data, median, peers, request, start};
use anyhow::{Result, ensure};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use giveway_core::Outcome;
use giveway_engine::apps::Apps;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What all tasks at work may use together when memory is short.
const LITTLE_BYTES: u64 = 256 << 20;

/// Maps and reduces each of the two workers runs at once.
const SLOTS: (u16, u16) = (1, 1);

pub fn run(folder: &Path, options: &Options, apps: &Apps) -> Result<()> {
    let text = data::text(folder, options.size)?;
    let records = data::records(folder, options.size)?;
    let bytes =
        |files: &[PathBuf]| files.iter().map(|file| fs::metadata(file).map_or(0, |data| data.len())).sum::<u64>();
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["", "wordcount\ns", "\nMB/s", "peak\nMiB", "total sort\ns", "\nMB/s", "peak\nMiB"]);
    let mut row = |name: &str, word: Measured, sort: Measured| {
        let mut cells = vec![name.to_owned()];
        for (measured, input) in [(word, bytes(&text)), (sort, bytes(&records))] {
            match measured {
                Some((seconds, peak_mib)) => {
                    let peak = peak_mib.map_or_else(|| "-".into(), |mib| format!("{mib:.0}"));
                    cells.extend([format!("{seconds:.2}"), format!("{:.0}", input as f64 / 1e6 / seconds), peak]);
                }
                None => cells.extend(["-".to_owned(), "-".to_owned(), "-".to_owned()]),
            }
        }
        table.add_row(cells);
    };
    let plenty = 512 << 20;
    let little = LITTLE_BYTES / u64::from(2 * (SLOTS.0 + SLOTS.1));
    for (name, memory) in [("giveway", plenty), ("giveway, 256 MiB", little)] {
        let word = engine(folder, "wordcount", &text, memory, options.repeat, apps)?;
        let sort = engine(folder, "terasort", &records, memory, options.repeat, apps)?;
        row(name, Some(word), Some(sort));
    }
    row("threads, a hash map each", peers::count(&text, options.repeat)?, None);
    row("sort(1), two threads", None, peers::sort(folder, &records, options.repeat)?);
    writeln!(
        std::io::stdout(),
        "{} MB of text and of 100-byte records, two workers\n{table}",
        options.size / 1_000_000
    )?;
    Ok(())
}

/// Seconds, and the peak memory of all processes in MiB where it is known.
pub type Measured = Option<(f64, Option<f64>)>;

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
        let place = folder.join("cluster");
        let _ = fs::remove_dir_all(&place);
        let output = folder.join("out");
        let _ = fs::remove_dir_all(&output);
        let cluster = start(&place, SLOTS, apps)?;
        let mut client = cluster.client()?;
        let mut wanted = request(app, input, output.clone());
        (wanted.memory_bytes, wanted.reduces) = (memory_bytes, Some(4));
        let began = Instant::now();
        let job = client.submit(wanted)?;
        let status = client.follow(job, |_| {})?;
        seconds.push(began.elapsed().as_secs_f64());
        ensure!(status.outcome == Some(Outcome::Succeeded), "{app} did not succeed: {:?}", status.failures);
        let pids = client.nodes()?.into_iter().filter_map(|node| node.pid).chain([std::process::id()]);
        peaks.push(pids.map(peak_mib).sum());
        drop(cluster);
        fs::remove_dir_all(&output)?;
        fs::remove_dir_all(&place)?;
    }
    Ok((median(seconds), Some(median(peaks))))
}

/// The most memory a process has had.
fn peak_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
