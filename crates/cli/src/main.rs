//! `giveway`: the command line.
//!
//! What was typed is parsed in `args.rs`; each command is a file. Errors become messages and exit codes only here: 0 for success, 1 if
//! what was asked for did not come out (a tape that does not replay, jobs that starve), 2 for input that makes no sense.

mod args;
mod bench;
mod demo;
mod input;
mod policies;
mod progress;
mod replay;
mod report;
mod sim;
mod table;
mod yarn;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What was asked for did not come out, though the input made sense.
#[derive(Debug)]
struct NotSo(String);

impl std::fmt::Display for NotSo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotSo {}

fn main() -> ExitCode {
    let outcome = match args::Args::parse().command {
        args::Command::Demo(demo) => demo::run(&demo),
        args::Command::Sim(sim) => sim::run(&sim),
        args::Command::Policies(policies) => policies::run(&policies),
        args::Command::Workloads => policies::workloads(),
        args::Command::Replay(replay) => replay::run(&replay),
        args::Command::Yarn(yarn) => yarn::run(&yarn),
        args::Command::Bench(bench) => bench::run(&bench),
        args::Command::Completions { shell } => {
            clap_complete::generate(shell, &mut args::Args::command(), "giveway", &mut std::io::stdout());
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough, as in `giveway policies | head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("giveway: {error:#}");
            ExitCode::from(if error.is::<NotSo>() { 1 } else { 2 })
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
