//! `giveway`: the command line.
//!
//! What was typed is parsed in `args.rs`; each command is a file. Errors become messages and exit codes only here: 0 for success, 1 if
//! what was asked for did not come out (an event log that does not replay, jobs that starve), 2 for input that makes no sense.

mod args;
mod bench;
mod cluster;
mod demo;
mod dfs;
mod files;
mod input;
mod parallel;
mod policies;
mod progress;
mod replay;
mod report;
mod reproduce;
mod signals;
mod sim;
mod stage;
mod table;
mod yarn;

use clap::{CommandFactory, Parser};
use giveway_engine::apps::Apps;
use giveway_engine::worker;
use std::process::ExitCode;

/// What was asked for did not come out, though the input made sense.
#[derive(Debug)]
struct NotSo(String);

impl std::fmt::Display for NotSo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotSo {}

/// The whole program with these applications. A program of your own that calls this with an application more is a `giveway` that knows
/// yours too; it must be the first thing in `main`, because worker processes are started from the same program.
pub fn main_with(apps: Apps) -> ExitCode {
    worker::run_if_worker(&apps);
    let outcome = match args::Args::parse().command {
        args::Command::Demo(demo) => demo::run(&demo, &apps),
        args::Command::Sim(sim) => sim::run(&sim),
        args::Command::Up(up) => cluster::up(&up, &apps),
        args::Command::Down(which) => cluster::down(&which),
        args::Command::Worker(worker) => cluster::worker(&worker, &apps),
        args::Command::Run(run) => cluster::run(&run, &apps),
        args::Command::Submit(submit) => cluster::submit(&submit),
        args::Command::Jobs(which) => cluster::jobs(&which),
        args::Command::Job(job) => cluster::job(&job),
        args::Command::Nodes(which) => cluster::nodes(&which),
        args::Command::Explain(job) => cluster::explain(&job),
        args::Command::Yield(job) => cluster::give_way(&job),
        args::Command::Kill(job) => cluster::kill(&job),
        args::Command::Dfs(dfs) => dfs::run(&dfs),
        args::Command::Apps => cluster::apps(&apps),
        args::Command::Policies(policies) => policies::run(&policies),
        args::Command::Workloads => policies::workloads(),
        args::Command::Replay(replay) => replay::run(&replay),
        args::Command::Reproduce(reproduce) => reproduce::run(&reproduce, &apps),
        args::Command::Yarn(yarn) => yarn::run(&yarn),
        args::Command::Bench(bench) => bench::run(&bench, &apps),
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
