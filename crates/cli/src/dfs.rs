//! `giveway dfs`: files in the blocks of a running cluster.

use crate::NotSo;
use crate::cluster::args::{Which, size};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use giveway_engine::store::{DfsPath, FsckReport, ReadError, StoreClient};
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

Blocks lie in the workers' own folders, each on several of them; jobs that read them run where they lie. A worker
that is lost, or a replica that is damaged, is made good from the others.")]
pub struct Dfs {
    /// The cluster.
    #[command(flatten)]
    pub which: Which,
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What can be done with stored files.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Store local files; a name that exists is refused.
    Put {
        /// Local files, and then where they go: a name for one file, or a folder.
        #[arg(value_name = "LOCAL... dfs:/PATH", required = true, num_args = 2..)]
        paths: Vec<String>,
        /// Largest block.
        #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
        block: u64,
        /// Workers that get each block, if there are so many.
        #[arg(long, value_name = "R", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
        replicas: u8,
    },
    /// List a folder: size, blocks, replicas, name.
    Ls {
        /// The folder or file.
        #[arg(value_name = "dfs:/PATH", default_value = "dfs:/")]
        path: String,
    },
    /// Print a file.
    Cat {
        /// The file.
        #[arg(value_name = "dfs:/PATH", required = true)]
        paths: Vec<String>,
    },
    /// Remove files.
    Rm {
        /// Folders with all that is in them, too.
        #[arg(short, long)]
        recursive: bool,
        /// The files.
        #[arg(value_name = "dfs:/PATH", required = true)]
        paths: Vec<String>,
    },
    /// Read every replica of every block, say what is wrong, and have it repaired. The exit code is 1 if anything is wrong.
    Fsck,
}

/// Does what was asked.
pub fn run(args: &Dfs) -> Result<()> {
    // Wrong names are wrong without a cluster, too.
    match &args.what {
        What::Put { paths, block, replicas } => {
            let (to, locals) = paths.split_last().context("two paths at least")?;
            let target = Target::parse(to)?;
            put(&mut StoreClient::connect(&args.which.dir)?, locals, &target, *block, *replicas)
        }
        What::Ls { path } => {
            let path = Target::parse(path)?.name;
            list(&mut StoreClient::connect(&args.which.dir)?, &path)
        }
        What::Cat { paths } => {
            let names = paths.iter().map(|path| DfsPath::parse(path)).collect::<Result<Vec<_>, _>>()?;
            let mut store = StoreClient::connect(&args.which.dir)?;
            names.iter().try_for_each(|name| print(&mut store, name))
        }
        What::Rm { recursive, paths } => {
            let names = paths.iter().map(|path| Ok(Target::parse(path)?.name)).collect::<Result<Vec<_>>>()?;
            let mut store = StoreClient::connect(&args.which.dir)?;
            names.iter().try_for_each(|name| Ok(store.remove(&name.to_string(), *recursive)?))
        }
        What::Fsck => check(&StoreClient::connect(&args.which.dir)?.fsck()?),
    }
}

/// A name that may end with `/` to say that a folder is meant.
struct Target {
    name: DfsPath,
    folder: bool,
}

impl Target {
    fn parse(text: &str) -> Result<Target> {
        match text.strip_suffix('/').filter(|name| !name.ends_with([':', '/'])) {
            Some(name) => Ok(Target { name: DfsPath::parse(name)?, folder: true }),
            None => DfsPath::parse(text).map(|name| Target { folder: name.is_root(), name }).map_err(Into::into),
        }
    }
}

fn put(store: &mut StoreClient, locals: &[String], target: &Target, block: u64, replicas: u8) -> Result<()> {
    // What is listed under its own name is a file; anything else that can be listed is a folder.
    let name = target.name.to_string();
    let exists =
        |store: &mut StoreClient| store.list(&name).is_ok_and(|found| found.iter().all(|entry| entry.path != name));
    let into_folder = target.folder || locals.len() > 1 || exists(store);
    let mut files: Vec<(PathBuf, DfsPath)> = Vec::new();
    for local in locals {
        let path = Path::new(local);
        let name = match path.file_name().map(|name| name.to_str()) {
            _ if !into_folder => target.name.clone(),
            Some(Some(name)) => target.name.join(name)?,
            _ => bail!("{local} has no name that a stored file could have; give it one: dfs:/NAME"),
        };
        if let Some((other, _)) = files.iter().find(|(_, taken)| *taken == name) {
            bail!("{} and {local} would both become {name}; store them one by one", other.display());
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

fn list(store: &mut StoreClient, path: &DfsPath) -> Result<()> {
    let mut out = std::io::stdout();
    for entry in store.list(&path.to_string())? {
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
        Err(error @ ReadError::Blocks(_)) => Err(NotSo(format!("{name}: {error}")).into()),
    }
}

fn check(health: &FsckReport) -> Result<()> {
    let mut out = std::io::stdout();
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
    if health.orphans > 0 {
        writeln!(out, "{} of no file removed", count(health.orphans, "replica"))?;
    }
    if health.problems.is_empty() {
        writeln!(out, "sound")?;
        return Ok(());
    }
    let text = format!(
        "{} without a sound replica, {} with too few, {} found damaged; what can be repaired is being repaired, look again in a moment",
        count(health.missing, "block"),
        count(health.under_replicated, "block"),
        count(health.corrupt, "replica")
    );
    Err(NotSo(text).into())
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
