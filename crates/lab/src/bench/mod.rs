//! `giveway bench`: benchmarks on this machine. Results are printed, never asserted.

mod core;
pub mod engine;
mod fairness;
mod forecast;
mod policies;
mod sim;

use crate::args::{Bench, BenchCommand};
use crate::input;
use anyhow::Result;
use giveway_core::policy::catalog;
use giveway_mapreduce::apps::Apps;

/// Runs the command.
pub fn run(args: &Bench, apps: &Apps) -> Result<()> {
    match &args.command {
        BenchCommand::Engine(options) => engine::run(options, apps),
        BenchCommand::Sim { nodes, jobs, policy, repeat } => {
            let policy = input::policies(std::slice::from_ref(policy))?.remove(0);
            sim::run(*nodes, *jobs, &policy, *repeat)
        }
        BenchCommand::Forecast { event_logs, workload, policy, seed } => match event_logs.as_slice() {
            [] => forecast::simulated(workload, &input::policies(policy)?, *seed),
            event_logs => forecast::recorded(event_logs),
        },
        BenchCommand::Policies { policy, repeat } => policies::run(&input::policies(policy)?, *repeat, apps),
        BenchCommand::Fairness { policy, seed, seeds, first, random } => {
            let numbers = |first: u64, count: u32| first..first + u64::from(count);
            fairness::run(&input::policies(policy)?, numbers(*seed, *seeds), numbers(*first, *random))
        }
        BenchCommand::Core { policy, nodes, decisions } => {
            let all = || catalog::names().iter().map(|name| name.to_string()).collect::<Vec<_>>();
            let named = if policy.is_empty() { all() } else { policy.clone() };
            core::run(&input::policies(&named)?, nodes, *decisions)
        }
    }
}
