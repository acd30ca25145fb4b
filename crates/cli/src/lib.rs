//! The `giveway` command line.
//!
//! `args.rs` defines the arguments; each subcommand has its own file. Errors are converted to messages and exit codes only here: 0 for success,
//! 1 if the command ran but its result is negative (`CheckFailed`: an event log that does not replay, a policy that starves jobs, a job that
//! failed), 2 for every other error, such as invalid input.

mod args;
mod cluster;
mod complete;
#[cfg(feature = "kube")]
mod kube;
mod logging;
mod man;
mod policies;
mod replay;
mod sim;
mod size;
mod table_files;
mod terminal;
mod traces;
mod view;
mod what_if;
mod yarn;

use clap::Parser;
use giveway_cli_common::{files, input, progress, report, signals, table, text_table};
use giveway_engine::{program, worker};
use giveway_lab::{bench, cluster_folder, compare, demo, reproduce, sweep};
use giveway_mapreduce::apps::Apps;
use std::io::Write;
use std::process::ExitCode;

/// A negative result of a command that ran correctly on valid input. Exit code 1.
#[derive(Debug)]
struct CheckFailed(String);

impl std::fmt::Display for CheckFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckFailed {}

/// Runs the `giveway` command line with the given applications. A custom program adds its own applications to `apps` and calls this.
///
/// Must be called first in `main`: worker processes, and those that run the tasks of submitted jobs, are started from the same executable.
pub fn main_with(apps: Apps) -> ExitCode {
    if std::env::var_os(worker::OPTIONS_ENV).is_some() {
        logging::init(tracing::Level::INFO);
    } else if program::is_task_runner() {
        logging::init(tracing::Level::WARN);
    }
    worker::run_if_worker(&apps);
    complete::answer_request();
    let command = args::Args::parse().command;
    logging::init(match command {
        // These kill workers on purpose; a warning for each would only hide the results.
        args::Command::Demo(_) | args::Command::Reproduce(_) | args::Command::Bench(_) => tracing::Level::ERROR,
        // It prints how its job ended itself.
        args::Command::Run(_) => tracing::Level::WARN,
        _ => tracing::Level::INFO,
    });
    let outcome = match command {
        args::Command::Demo(demo) => demo::run(&demo, &apps),
        args::Command::Sim(sim) => sim::run(&sim),
        args::Command::Compare(compare) => compare::run(&compare),
        args::Command::Sweep(sweep) => sweep::run(&sweep),
        args::Command::Up(up) => cluster::up(&up, &apps),
        args::Command::Down(cluster) => cluster::down(&cluster),
        args::Command::Reload(cluster) => cluster::reload(&cluster),
        args::Command::Token(token) => cluster::token(&token),
        args::Command::Worker(worker) => cluster::worker(&worker, &apps),
        args::Command::Run(run) => cluster::run(&run, &apps),
        args::Command::Submit(submit) => cluster::submit(&submit, &apps),
        args::Command::Jobs(jobs) => cluster::jobs(&jobs),
        args::Command::History(history) => cluster::history(&history),
        args::Command::Job(job) => cluster::job(&job),
        args::Command::Nodes(nodes) => cluster::nodes(&nodes),
        args::Command::Logs(logs) => cluster::logs(&logs),
        args::Command::Top(top) => cluster::top(&top),
        args::Command::Explain(job) => cluster::explain(&job),
        args::Command::Yield(job) => cluster::yield_job(&job),
        args::Command::Kill(jobs) => cluster::kill(&jobs),
        args::Command::Apps(list) => cluster::apps(&list, &apps),
        args::Command::Policies(policies) => policies::run(&policies),
        args::Command::Workloads(list) => policies::workloads(list),
        args::Command::Trace(trace) => traces::run(&trace),
        args::Command::WhatIf(what_if) => what_if::run(&what_if),
        args::Command::Size(size) => size::run(&size),
        args::Command::Replay(replay) => replay::run(&replay),
        args::Command::View(view) => view::run(&view),
        args::Command::Reproduce(reproduce) => reproduce::run(&reproduce, &apps),
        args::Command::Yarn(yarn) => yarn::run(&yarn),
        #[cfg(feature = "kube")]
        args::Command::Kube(kube) => crate::kube::run(&kube),
        args::Command::Bench(bench) => bench::run(&bench, &apps),
        args::Command::Completions { shell } => {
            complete::script(shell).and_then(|script| std::io::stdout().write_all(&script)).map_err(Into::into)
        }
        args::Command::Man { dir } => man::write(&dir),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe, as in `giveway policies | head`: not an error.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(_) if cluster_folder::is_interrupted() => ExitCode::from(signals::EXIT_INTERRUPTED),
        Err(error) => {
            eprintln!("giveway: {error:#}");
            ExitCode::from(if error.is::<CheckFailed>() { 1 } else { 2 })
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
