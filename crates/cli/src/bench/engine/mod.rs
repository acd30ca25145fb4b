//! `giveway bench engine`: how fast real jobs run on this machine, how soon a small one is through, and what giving way costs.
//!
//! Figures are medians of repeated runs, beside tools that are found on the machine and a plain threaded count, on the same input. Input lies in
//! the page cache and output is written but not synced, for everybody.

mod data;
mod latency;
mod peers;
mod speed;
mod yielding;

use crate::cluster::args::size;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use giveway_core::policy::catalog;
use giveway_core::{Priority, Tenants};
use giveway_engine::apps::Apps;
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::coordinator;
use giveway_engine::job::Request;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `giveway bench engine`
#[derive(Debug, Args)]
pub struct Options {
    /// Input for each of wordcount and sort.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub size: u64,
    /// How often to repeat; the median is printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Where to put input and output (several times the size); a temporary folder if left out. Input found there is used again.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Only this part.
    #[arg(long, value_enum)]
    pub only: Option<Part>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Wordcount and total sort.
    Speed,
    /// Small jobs and empty tasks.
    Latency,
    /// What giving way costs.
    Yield,
}

/// Runs the command.
pub fn run(options: &Options, apps: &Apps) -> Result<()> {
    let temporary;
    let folder: &Path = match &options.dir {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            folder
        }
        None => {
            temporary = tempfile::Builder::new().prefix("giveway-bench-").tempdir().context("a temporary folder")?;
            temporary.path()
        }
    };
    let folder = std::path::absolute(folder)?;
    let wants = |part| options.only.is_none_or(|only| only == part);
    if wants(Part::Speed) {
        speed::run(&folder, options, apps)?;
    }
    if wants(Part::Latency) {
        latency::run(&folder, options.repeat, apps)?;
    }
    if wants(Part::Yield) {
        yielding::run(&folder, apps)?;
    }
    Ok(())
}

/// A fresh cluster of two workers.
fn start(folder: &Path, slots: (u16, u16), apps: &Apps) -> Result<Cluster> {
    let coordinator = coordinator::Options {
        folder: folder.to_owned(),
        listen: "127.0.0.1:0".into(),
        policy: catalog::by_name("fifo").context("fifo is in the catalogue")?,
        tenants: Tenants::default(),
        seed: 1,
        heartbeat_interval: Duration::from_millis(200),
        heartbeat_timeout: Duration::from_secs(30),
        slowstart_ppm: 50_000,
        apps: apps.clone(),
    };
    let (map_slots, reduce_slots) = slots;
    let options =
        cluster::Options { coordinator, nodes: 2, map_slots, reduce_slots, reconnect_timeout: Duration::from_secs(10) };
    Ok(Cluster::start(options)?)
}

fn request(app: &str, input: &[PathBuf], output: PathBuf) -> Request {
    Request {
        app: app.into(),
        options: Default::default(),
        input: input.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        output,
        reduces: None,
        split_bytes: 64 << 20,
        memory_bytes: 512 << 20,
        name: app.into(),
        user: "bench".into(),
        pool: "default".into(),
        priority: Priority::Normal,
        task_timeout_ms: 600_000,
        records_per_s: None,
        compress: false,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
