//! Measures what a start of the coordinator costs after much work.
//!
//! ```sh
//! cargo build --release -p giveway-engine --features simulation --example recovery
//! recovery write FOLDER --jobs 100000 --maps 50 --live 50
//! recovery start FOLDER
//! ```
//!
//! `write` runs jobs on model workers and leaves the journals; `start` recovers from them, in a process of its own, and prints the time and the most
//! memory it took.

use giveway_engine::simulation::{LongJournal, start};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: recovery write FOLDER [--jobs N] [--maps N] [--live N] | recovery start FOLDER";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["write", folder, options @ ..] => write(Path::new(folder), options),
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

fn write(folder: &Path, options: &[&str]) -> Result<(), String> {
    let mut journal = LongJournal { jobs: 10_000, live_jobs: 20, maps: 10 };
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(USAGE.into()) };
        let number: u32 = value.parse().map_err(|_| format!("{name}: `{value}` is not a number"))?;
        match *name {
            "--jobs" => journal.jobs = number,
            "--maps" => journal.maps = number,
            "--live" => journal.live_jobs = number as usize,
            _ => return Err(USAGE.into()),
        }
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let begin = Instant::now();
    let tasks = journal.write(folder).map_err(|error| error.to_string())?;
    println!("{} jobs, {tasks} tasks in {:.1} s", journal.jobs, begin.elapsed().as_secs_f64());
    Ok(())
}

fn measure(folder: &Path) -> Result<(), String> {
    let begin = Instant::now();
    let started = start(folder).map_err(|error| error.to_string())?;
    let elapsed = begin.elapsed();
    println!("started in {:.3} s: {started:?}", elapsed.as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::trim);
    println!("most memory used: {}", peak.unwrap_or("unknown"));
    Ok(())
}
