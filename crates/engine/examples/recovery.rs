//! Measures what much work costs the coordinator: its journals, a start from them, and submissions while many jobs wait.
//!
//! ```sh
//! cargo build --release -p giveway-engine --features simulation --example recovery
//! recovery write FOLDER --jobs 100000 --maps 50 --live 50
//! recovery start FOLDER
//! recovery queue FOLDER --jobs 100000 --maps 10
//! ```
//!
//! `write` runs jobs on model workers and leaves the journals; it prints how many there are, and how long. `start` recovers from them, in a process of its
//! own, and prints the time and the most memory it took. `queue` submits jobs one by one while all slots are taken, and prints the processor time of a
//! submission at several lengths of the queue. Where FOLDER is in memory (`/dev/shm`), that is without the disk.

use giveway_engine::simulation::{LongJournal, start};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str =
    "usage: recovery write|queue FOLDER [--jobs N] [--maps N] [--live N] [--options BYTES] | recovery start FOLDER";

/// Submissions over which their cost is averaged.
const WINDOW: u32 = 500;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["write", folder, options @ ..] => load(folder, options).and_then(|load| write(&load, Path::new(folder))),
        ["queue", folder, options @ ..] => load(folder, options).and_then(|load| queue(&load, Path::new(folder))),
        ["start", folder] => measure(Path::new(folder)),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn load(folder: &str, options: &[&str]) -> Result<LongJournal, String> {
    let mut journal = LongJournal { jobs: 10_000, live_jobs: 20, maps: 10, options_bytes: 0 };
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(USAGE.into()) };
        let number: u32 = value.parse().map_err(|_| format!("{name}: `{value}` is not a number"))?;
        match *name {
            "--jobs" => journal.jobs = number,
            "--maps" => journal.maps = number,
            "--live" => journal.live_jobs = number as usize,
            "--options" => journal.options_bytes = number as usize,
            _ => return Err(USAGE.into()),
        }
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    Ok(journal)
}

fn write(load: &LongJournal, folder: &Path) -> Result<(), String> {
    let begin = Instant::now();
    let written = load.write(folder).map_err(|error| error.to_string())?;
    let (jobs, elapsed) = (load.jobs, begin.elapsed().as_secs_f64());
    println!("{jobs} jobs, {} tasks, {:.0} s of the cluster's time, in {elapsed:.1} s", written.tasks, written.at_s);
    print_journals(folder)
}

fn print_journals(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut lengths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with("journal") {
            lengths.push(std::fs::metadata(entry.path().join("log")).map_err(failed)?.len());
        }
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (all, longest) = (lengths.iter().sum(), lengths.iter().max().copied().unwrap_or(0));
    println!("journals: {}, {:.1} MiB in all, the longest {:.1} MiB", lengths.len(), mib(all), mib(longest));
    print_memory();
    Ok(())
}

fn queue(load: &LongJournal, folder: &Path) -> Result<(), String> {
    let mut began = (0, Instant::now());
    println!("waiting jobs  processor time of a submission, ms  time, ms");
    let print = |number: u32| {
        // The last submissions before 1,000, 2,000, 5,000, 10,000 and so on.
        let is_step = |number: u32| {
            let power = 10_u32.pow(number.ilog10());
            number >= 1000 && number.is_multiple_of(power) && matches!(number / power, 1 | 2 | 5)
        };
        if is_step(number + WINDOW) {
            began = (processor_ns(), Instant::now());
        } else if is_step(number) {
            let each_ms = |ns: f64| ns / 1e6 / f64::from(WINDOW);
            let (busy, elapsed) = ((processor_ns() - began.0) as f64, began.1.elapsed().as_nanos() as f64);
            println!("{number:>12}  {:>35.3}  {:>8.3}", each_ms(busy), each_ms(elapsed));
        }
    };
    load.queue(folder, print).map_err(|error| error.to_string())?;
    print_journals(folder)
}

/// Processor time of this thread.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn measure(folder: &Path) -> Result<(), String> {
    let begin = Instant::now();
    let started = start(folder).map_err(|error| error.to_string())?;
    let elapsed = begin.elapsed();
    println!("started in {:.3} s: {started:?}", elapsed.as_secs_f64());
    print_memory();
    Ok(())
}

fn print_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::trim);
    println!("most memory used: {}", peak.unwrap_or("unknown"));
}
