//! Shell completion of values that are known only when they are asked for: jobs of a cluster, applications, policies, workloads.

use crate::args::Args;
use crate::cluster::args::default_dir;
use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::Shells;
use giveway_core::policy::catalog;
use giveway_engine::client::Client;
use giveway_mapreduce::apps::Apps;
use giveway_sim::{cluster, workload};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variable in which the scripts ask for completions.
const VARIABLE: &str = "GIVEWAY_COMPLETE";

/// Answers a request of a completion script, and ends the process then.
pub fn answer_request() {
    CompleteEnv::with_factory(Args::command).var(VARIABLE).complete();
}

/// The script that makes a shell ask this program for completions.
pub fn script(shell: clap_complete::Shell) -> std::io::Result<Vec<u8>> {
    let program = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let name = program.file_name().map_or("giveway".into(), |name| name.to_string_lossy().into_owned());
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&shell.to_string()) {
        // By name, so that the script also serves later versions.
        shell.write_registration(VARIABLE, &name, &name, &name, &mut script)?;
    }
    Ok(script)
}

/// Numbers of jobs of the cluster that the command line selects, the latest first.
pub fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let jobs = Client::connect(&cluster_dir()).and_then(|mut client| client.jobs()).unwrap_or_default();
        let numbers = jobs.iter().rev().map(|job| (job.job.0.to_string(), format!("{}, {}", job.name, job.state())));
        matching(current, numbers)
    })
}

/// Names of the nodes of the cluster that the command line selects.
pub fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let nodes = Client::connect(&cluster_dir()).and_then(|mut client| client.nodes());
        let mut nodes = nodes.unwrap_or_default();
        nodes.sort_by_cached_key(|node| (node.name.len(), node.name.clone()));
        matching(current, nodes.into_iter().map(|node| (node.name, String::new())))
    })
}

/// Names of policies, and files.
pub fn policies() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let policies = catalog::names().into_iter().filter_map(catalog::by_name);
        with_files(current, matching(current, policies.map(|policy| (policy.name, policy.about))))
    })
}

/// Names of policies only.
pub fn policy_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let policies = catalog::names().into_iter().filter_map(catalog::by_name);
        matching(current, policies.map(|policy| (policy.name, policy.about)))
    })
}

/// Names of workloads, and files.
pub fn workloads() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| with_files(current, matching(current, pairs(workload::names()))))
}

/// Names of clusters and workloads, which have a cluster each, and files.
pub fn clusters() -> ArgValueCompleter {
    let names = || pairs(cluster::names()).chain(pairs(workload::names()));
    ArgValueCompleter::new(move |current: &OsStr| with_files(current, matching(current, names())))
}

/// Names of the built-in applications.
pub fn apps() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let apps = Apps::builtin();
        let names: Vec<_> = apps.iter().map(|app| (app.name().to_owned(), app.about().to_owned())).collect();
        matching(current, names)
    })
}

fn pairs(names: &'static [(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    names.iter().map(|(name, about)| (String::from(*name), String::from(*about)))
}

fn matching(current: &OsStr, names: impl IntoIterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let candidate = |(name, about): (String, String)| CompletionCandidate::new(name).help(Some(about.into()));
    names.into_iter().filter(|(name, _)| name.starts_with(&*current)).map(candidate).collect()
}

fn with_files(current: &OsStr, mut found: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    found.extend(PathCompleter::file().complete(current));
    found
}

/// The cluster directory of the command line that is being completed.
fn cluster_dir() -> PathBuf {
    let words: Vec<OsString> = std::env::args_os().collect();
    let given =
        words.iter().zip(words.iter().skip(1)).find(|(option, _)| *option == "--dir").map(|(_, dir)| dir.into());
    let assigned = || words.iter().find_map(|word| word.to_str()?.strip_prefix("--dir=").map(PathBuf::from));
    let variable = || std::env::var_os("GIVEWAY_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    given.or_else(assigned).or_else(variable).unwrap_or_else(default_dir)
}
