//! Throughput (MB/s) and peak memory of word count and total sort, with ample and with little task memory, compared with baselines.

use super::{Options, baselines, input_data, median, on_new_cluster, request, run_job};
use crate::text_table::TextTable;
use anyhow::Result;
use giveway_mapreduce::apps::Apps;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Buffer memory of a task in the runs with ample memory.
const AMPLE_MEMORY_BYTES: u64 = 512 << 20;

/// Buffer memory of all concurrent tasks together in the run with little memory.
const LITTLE_MEMORY_BYTES: u64 = 256 << 20;

/// Tasks that run at the same time: a map and a reduce on each of the two workers.
const TASKS: u64 = 4;

/// A variant of the engine that is measured.
struct Variant {
    name: &'static str,
    memory_bytes: u64,
    sync_output: bool,
    /// Word count uses the interface for an application's own combiner.
    custom_combiner: bool,
    sorts: bool,
}

const PLAIN: Variant = Variant {
    name: "giveway",
    memory_bytes: AMPLE_MEMORY_BYTES,
    sync_output: false,
    custom_combiner: false,
    sorts: true,
};
const VARIANTS: [Variant; 4] = [
    PLAIN,
    Variant { name: "giveway, output synced to disk", sync_output: true, ..PLAIN },
    Variant { name: "giveway, an application's own combiner", custom_combiner: true, sorts: false, ..PLAIN },
    Variant { name: "giveway, 256 MiB task memory", memory_bytes: LITTLE_MEMORY_BYTES / TASKS, ..PLAIN },
];

pub fn run(folder: &Path, options: &Options, apps: &Apps) -> Result<()> {
    let text = input_data::text(folder, options.size)?;
    let records = input_data::records(folder, options.size)?;
    let bytes =
        |files: &[PathBuf]| files.iter().map(|file| fs::metadata(file).map_or(0, |data| data.len())).sum::<u64>();
    let header = ["", "word count\n(s)", "MB/s", "peak\nMiB", "total sort\n(s)", "MB/s", "peak\nMiB"];
    let mut table = TextTable::new(header).numbers_from(1);
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
    // The variants alternate, so that other load of the machine affects all alike.
    let mut word_counts: Vec<Vec<Run>> = VARIANTS.iter().map(|_| Vec::new()).collect();
    let mut sorts: Vec<Vec<Run>> = VARIANTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.repeat {
        for (number, variant) in VARIANTS.iter().enumerate() {
            word_counts[number].push(engine(folder, "wordcount", &text, variant, apps)?);
            if variant.sorts {
                sorts[number].push(engine(folder, "terasort", &records, variant, apps)?);
            }
        }
    }
    for (number, variant) in VARIANTS.iter().enumerate() {
        row(variant.name, measurement(&word_counts[number]), measurement(&sorts[number]));
    }
    row("hash maps, 2 threads", baselines::count_words(&text, options.repeat)?, None);
    row("GNU sort, 2 threads", None, baselines::gnu_sort(folder, &records, options.repeat)?);
    let [plain, synced, custom, _] = &word_counts[..] else { unreachable!("one entry for each variant") };
    writeln!(
        std::io::stdout(),
        "Input: {} MB of text (word count) and of 100-byte records (total sort); two workers\n{table}\n\
         Syncing the output: {:+.2} s for word count, {:+.2} s for total sort\n\
         An application's own combiner: {:.2} times the time of the built-in sum\n\
         (medians of {} paired runs)",
        options.size / 1_000_000,
        paired(synced, plain, |synced, plain| synced - plain),
        paired(&sorts[1], &sorts[0], |synced, plain| synced - plain),
        paired(custom, plain, |custom, plain| custom / plain),
        options.repeat,
    )?;
    Ok(())
}

/// Seconds, and the peak memory of all processes in MiB where it is known; `None` if the program did not run.
pub type Measurement = Option<(f64, Option<f64>)>;

/// Seconds and peak memory in MiB of one run of the engine.
type Run = (f64, f64);

fn measurement(runs: &[Run]) -> Measurement {
    let (seconds, peaks) = runs.iter().copied().unzip::<f64, f64, Vec<_>, Vec<_>>();
    (!runs.is_empty()).then(|| (median(seconds), Some(median(peaks))))
}

/// Median of a comparison of the seconds of two variants, round by round.
fn paired(one: &[Run], other: &[Run], compare: impl Fn(f64, f64) -> f64) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| compare(one.0, other.0)).collect())
}

/// Runs an application on a new cluster.
fn engine(folder: &Path, app: &str, input: &[PathBuf], variant: &Variant, apps: &Apps) -> Result<Run> {
    let mut request = request(app, input, folder.join("out"));
    (request.memory_bytes, request.reduces) = (variant.memory_bytes, Some(4));
    request.sync_output = variant.sync_output;
    if variant.custom_combiner {
        request.options.insert("combiner".into(), "custom".into());
    }
    on_new_cluster(folder, 1, apps, |client| {
        let (_, seconds) = run_job(client, request, |_, _| Ok(()))?;
        let pids = client.nodes()?.into_iter().filter_map(|node| node.pid).chain([std::process::id()]);
        Ok((seconds, pids.map(peak_mib).sum()))
    })
}

/// Peak resident memory of a process; 0 if it is not known.
fn peak_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
