//! `giveway dfs`: files in a running cluster's replicated block store.

use crate::CheckFailed;
use crate::cluster::args::{ClusterDir, size};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use giveway_engine::store::{DfsPath, Entry, FsckReport, ReadError, StoreClient};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `giveway dfs`
#[derive(Debug, Args)]
#[command(mut_arg("dir", |dir| dir.global(true)))]
#[command(after_long_help = "\
EXAMPLES
  giveway dfs put books/*.txt dfs:/books
  giveway dfs ls dfs:/books
  giveway submit wordcount --input dfs:/books --output counts --wait
  giveway dfs fsck

Each block is replicated on several workers, and map tasks are scheduled on the workers that hold their input. Replicas that are damaged, or on a \
worker that is lost, are restored from the remaining ones.")]
pub struct Dfs {
    /// The cluster that stores the files.
    #[command(flatten)]
    pub cluster: ClusterDir,
    /// The subcommand; required.
    #[command(subcommand)]
    pub command: DfsCommand,
}

/// The subcommands of `giveway dfs`.
#[derive(Debug, Subcommand)]
pub enum DfsCommand {
    /// Store local files; existing files are never overwritten.
    Put {
        /// Local files, followed by the destination: a file name for one local file, or a directory.
        #[arg(value_name = "LOCAL... dfs:/PATH", required = true, num_args = 2..)]
        paths: Vec<String>,
        /// Maximum block size.
        #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
        block: u64,
        /// Replicas of each block (1-16), at most one per worker.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
        replicas: u8,
    },
    /// List a directory: size in bytes, blocks, replicas and name of each file.
    Ls {
        /// Directory or file to list.
        #[arg(value_name = "dfs:/PATH", default_value = "dfs:/")]
        path: String,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Print files to standard output.
    Cat {
        /// Files to print.
        #[arg(value_name = "dfs:/PATH", required = true)]
        paths: Vec<String>,
    },
    /// Delete files.
    Rm {
        /// Delete directories and their contents.
        #[arg(short, long)]
        recursive: bool,
        /// Files to delete, or directories with --recursive.
        #[arg(value_name = "dfs:/PATH", required = true)]
        paths: Vec<String>,
    },
    /// Verify every replica of every block and report problems; exit code 1 if there are any.
    Fsck {
        /// Replace corrupt replicas, delete those that belong to no file, and give up files whose names were lost.
        #[arg(long)]
        repair: bool,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(args: &Dfs) -> Result<()> {
    // Names are parsed before connecting, so that invalid ones are reported without a cluster.
    match &args.command {
        DfsCommand::Put { paths, block, replicas } => {
            let (to, locals) =
                paths.split_last().context("missing destination; use `giveway dfs put LOCAL... dfs:/PATH`")?;
            let target = Target::parse(to)?;
            put(&mut StoreClient::connect(&args.cluster.dir)?, locals, &target, *block, *replicas)
        }
        DfsCommand::Ls { path, json } => {
            let path = Target::parse(path)?.name;
            list(&mut StoreClient::connect(&args.cluster.dir)?, &path, *json)
        }
        DfsCommand::Cat { paths } => {
            let names = paths.iter().map(|path| DfsPath::parse(path)).collect::<Result<Vec<_>, _>>()?;
            let mut store = StoreClient::connect(&args.cluster.dir)?;
            names.iter().try_for_each(|name| print(&mut store, name))
        }
        DfsCommand::Rm { recursive, paths } => {
            let names = paths.iter().map(|path| Ok(Target::parse(path)?.name)).collect::<Result<Vec<_>>>()?;
            let mut store = StoreClient::connect(&args.cluster.dir)?;
            names.iter().try_for_each(|name| Ok(store.remove(&name.to_string(), *recursive)?))
        }
        DfsCommand::Fsck { repair, json } => check(&StoreClient::connect(&args.cluster.dir)?.fsck(*repair)?, *json),
    }
}

/// The destination of `put`, or the path of `ls` and `rm`. A trailing `/` marks a directory.
struct Target {
    name: DfsPath,
    is_directory: bool,
}

impl Target {
    fn parse(text: &str) -> Result<Target> {
        match text.strip_suffix('/').filter(|name| !name.ends_with([':', '/'])) {
            Some(name) => Ok(Target { name: DfsPath::parse(name)?, is_directory: true }),
            None => DfsPath::parse(text).map(|name| Target { is_directory: name.is_root(), name }).map_err(Into::into),
        }
    }
}

fn put(store: &mut StoreClient, locals: &[String], target: &Target, block: u64, replicas: u8) -> Result<()> {
    // Listing a file returns an entry with the same name; any other successful listing is of a directory.
    let name = target.name.to_string();
    let is_directory =
        |store: &mut StoreClient| store.list(&name).is_ok_and(|found| found.iter().all(|entry| entry.path != name));
    let into_directory = target.is_directory || locals.len() > 1 || is_directory(store);
    let mut files: Vec<(PathBuf, DfsPath)> = Vec::new();
    for local in locals {
        let path = Path::new(local);
        let name = match path.file_name().map(|name| name.to_str()) {
            _ if !into_directory => target.name.clone(),
            Some(Some(name)) => target.name.join(name)?,
            _ => bail!("cannot derive a file name from {local}; name the destination: dfs:/NAME"),
        };
        if let Some((other, _)) = files.iter().find(|(_, taken)| *taken == name) {
            bail!(
                "{} and {local} have the same destination {name}; store them separately under different names",
                other.display()
            );
        }
        files.push((path.into(), name));
    }
    let mut out = std::io::stdout();
    for (local, name) in files {
        let (bytes, blocks) = store.put(&local, &name.to_string(), block, replicas)?;
        writeln!(out, "{name}: {bytes} bytes in {}", count(blocks as u64, "block"))?;
    }
    Ok(())
}

fn list(store: &mut StoreClient, path: &DfsPath, json: bool) -> Result<()> {
    let mut out = std::io::stdout();
    let entries = store.list(&path.to_string())?;
    if json {
        // A directory has no numbers.
        let row = |entry: &Entry| {
            let file = entry.file.as_ref();
            json!({
                "path": entry.path,
                "bytes": file.map(|file| file.bytes),
                "blocks": file.map(|file| file.blocks),
                "replicas": file.map(|file| file.replicas),
            })
        };
        writeln!(out, "{}", serde_json::to_string_pretty(&entries.iter().map(row).collect::<Vec<_>>())?)?;
        return Ok(());
    }
    for entry in entries {
        match entry.file {
            Some(file) => {
                writeln!(out, "{:>14} {:>6} {:>3}  {}", file.bytes, file.blocks, file.replicas, entry.path)?;
            }
            None => writeln!(out, "{:>14} {:>6} {:>3}  {}", "-", "-", "-", entry.path)?,
        }
    }
    Ok(())
}

fn print(store: &mut StoreClient, name: &DfsPath) -> Result<()> {
    match store.read(&name.to_string(), &mut std::io::stdout().lock()) {
        Ok(()) => Ok(()),
        Err(ReadError::Cluster(error)) => Err(error.into()),
        Err(ReadError::Output(error)) => Err(error.into()),
        Err(error @ ReadError::Blocks(_)) => Err(CheckFailed(format!("{name}: {error}")).into()),
    }
}

fn check(health: &FsckReport, json: bool) -> Result<()> {
    let mut out = std::io::stdout();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(health)?)?;
    } else {
        describe(health, &mut out)?;
    }
    if health.problems.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} missing (no intact replica), {} under-replicated, {} damaged; lost replicas are replaced in the background, corrupt ones with `giveway dfs fsck --repair`; run `giveway dfs fsck` again to check",
        count(health.missing, "block"),
        count(health.under_replicated, "block"),
        count(health.corrupt, "replica")
    );
    Err(CheckFailed(text).into())
}

fn describe(health: &FsckReport, out: &mut impl Write) -> Result<()> {
    for problem in &health.problems {
        writeln!(out, "{problem}")?;
    }
    writeln!(
        out,
        "{} of {} bytes, {} with {} on {}",
        count(health.files, "file"),
        health.bytes,
        count(health.blocks, "block"),
        count(health.replicas, "replica"),
        count(health.nodes.into(), "worker")
    )?;
    if health.orphans_deleted > 0 {
        writeln!(out, "{} without a file deleted", count(health.orphans_deleted, "replica"))?;
    } else if health.orphans > 0 {
        writeln!(out, "{} without a file; `giveway dfs fsck --repair` deletes such", count(health.orphans, "replica"))?;
    }
    if health.problems.is_empty() {
        writeln!(out, "no problems found")?;
    }
    Ok(())
}

fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
