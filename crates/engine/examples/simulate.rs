//! Runs the simulation of the engine with many seeds, or with a crash at every file operation of the coordinator.
//!
//! ```sh
//! cargo run --release -p giveway-engine --features simulation --example simulate -- --seeds 10000 --from 0
//! cargo run --release -p giveway-engine --features simulation --example simulate -- --crash-points 20
//! ```
//!
//! `--planted` plants bugs one after the other (`src/planted.rs`), and fails unless the simulation finds each within the seeds:
//!
//! ```sh
//! cargo run --release -p giveway-engine --features simulation --example simulate -- --planted --seeds 2000
//! ```
//!
//! A failing seed is printed with the smallest scenario found that still fails. `--count` goes on and counts failing seeds instead.

use giveway_engine::planted::{Bug, plant};
use giveway_engine::simulation::{Figures, Scenario, minimize, run};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: simulate [--seeds N] [--from SEED] [--crash-points JOBS] [--count] [--planted]";

struct Args {
    seeds: u64,
    from: u64,
    /// Number of jobs of the run whose file operations are enumerated.
    crash_points: Option<usize>,
    count: bool,
    planted: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Args> {
    let mut parsed = Args { seeds: 1000, from: 0, crash_points: None, count: false, planted: false };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seeds" => parsed.seeds = args.next()?.parse().ok()?,
            "--from" => parsed.from = args.next()?.parse().ok()?,
            "--crash-points" => parsed.crash_points = Some(args.next()?.parse().ok()?),
            "--count" => parsed.count = true,
            "--planted" => parsed.planted = true,
            _ => return None,
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(args) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if args.planted {
        return find_planted_bugs(&args);
    }
    let started = Instant::now();
    let scenarios: Box<dyn Iterator<Item = Scenario>> = match args.crash_points {
        None => Box::new((args.from..args.from.saturating_add(args.seeds)).map(Scenario::random)),
        Some(jobs) => match run(&Scenario::crash_at(jobs, None, false)) {
            Err(violation) => {
                println!("the run without a crash fails: {violation}");
                return ExitCode::FAILURE;
            }
            Ok(figures) => {
                println!("{} file operations of the coordinator", figures.file_operations);
                let points = (1..=figures.file_operations).flat_map(|at| [(at, false), (at, true)]);
                Box::new(points.map(move |(at, cuts_power)| Scenario::crash_at(jobs, Some(at), cuts_power)))
            }
        },
    };
    let (mut total, mut runs, mut failing) = (Figures::default(), 0_u64, 0_u64);
    for scenario in scenarios {
        runs += 1;
        match run(&scenario) {
            Ok(figures) => total.add(&figures),
            Err(_) if args.count => failing += 1,
            Err(violation) => {
                let (smallest, violation) = minimize(&scenario).unwrap_or((scenario.clone(), violation));
                println!("seed {} fails: {violation}\n{smallest}", scenario.seed);
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{runs} runs in {:.1} minutes, {failing} failing", started.elapsed().as_secs_f64() / 60.0);
    println!("{total:#?}");
    ExitCode::SUCCESS
}

/// Plants each bug, and looks for a seed that fails.
fn find_planted_bugs(args: &Args) -> ExitCode {
    let mut missed = 0;
    for &bug in Bug::ALL {
        plant(Some(bug));
        let seeds = args.from..args.from.saturating_add(args.seeds);
        let found = seeds.into_iter().find_map(|seed| Some((seed, run(&Scenario::random(seed)).err()?)));
        match found {
            Some((seed, violation)) => {
                let text: String = violation.to_string().chars().take(120).collect();
                println!("{bug:?}: found by seed {seed}: {text}");
            }
            None => {
                println!("{bug:?}: NOT FOUND in {} seeds", args.seeds);
                missed += 1;
            }
        }
        plant(None);
    }
    println!("{} of {} bugs found", Bug::ALL.len() - missed, Bug::ALL.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
