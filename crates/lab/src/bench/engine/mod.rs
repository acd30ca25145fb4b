//! `giveway bench engine`: throughput of jobs, latency of small jobs and cost of preemption on this machine.
//!
//! Results are medians of repeated runs. The baselines (GNU sort and a multi-threaded word count) run on the same input. For all of them the input is
//! in the page cache and the output is written but not synced, except where a row says so.

mod baselines;
mod input_data;
mod latency;
mod preemption;
mod throughput;

use crate::cluster_folder;
use crate::input::size;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use giveway_core::policy::catalog;
use giveway_core::{Priority, Tenants};
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::coordinator;
use giveway_mapreduce::apps::Apps;
use giveway_mapreduce::job::Request;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `giveway bench engine`
#[derive(Debug, Args)]
pub struct Options {
    /// Input size of the throughput jobs, each.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub size: u64,
    /// Number of repetitions (1-100); the median is printed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Directory for input and output, with space for several times --size; existing input is reused; default: a temporary directory.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Run only this benchmark.
    #[arg(long, value_name = "BENCHMARK", value_enum)]
    pub only: Option<Benchmark>,
}

/// The benchmarks of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// Throughput and peak memory of word count and total sort.
    Throughput,
    /// Latency of small jobs and rate of empty tasks.
    Latency,
    /// Latency and overhead of preemption.
    Preemption,
}

/// Runs the command.
pub fn run(options: &Options, apps: &Apps) -> Result<()> {
    let temporary;
    let folder: &Path = match &options.dir {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create directory {}", folder.display()))?;
            folder
        }
        None => {
            temporary = cluster_folder::create("giveway-bench-")?;
            temporary.path()
        }
    };
    let folder = std::path::absolute(folder)?;
    let selected = |benchmark| options.only.is_none_or(|only| only == benchmark);
    if selected(Benchmark::Throughput) {
        throughput::run(&folder, options, apps)?;
    }
    if selected(Benchmark::Latency) {
        latency::run(&folder, options.repeat, apps)?;
    }
    if selected(Benchmark::Preemption) {
        preemption::run(&folder, apps)?;
    }
    Ok(())
}

/// Starts a new cluster of two workers with `slots` map and reduce slots each.
fn start(folder: &Path, slots: (u16, u16), apps: &Apps) -> Result<Cluster> {
    let coordinator = coordinator::Options {
        folder: folder.to_owned(),
        policy: catalog::by_name("fifo").context("policy fifo missing in the catalogue")?,
        tenants: Tenants::default(),
        access: giveway_engine::Access::default(),
        reload: None,
        on_job_end: None,
        archive_bytes: coordinator::ARCHIVE_BYTES,
        seed: 1,
        heartbeat_interval: Duration::from_millis(200),
        heartbeat_timeout: Duration::from_secs(30),
        slowstart_ppm: 50_000,
        apps: apps.clone(),
    };
    let (map_slots, reduce_slots) = slots;
    let options = cluster::Options {
        coordinator,
        nodes: 2,
        map_slots,
        reduce_slots,
        reconnect_timeout: Duration::from_secs(10),
        log_bytes: giveway_engine::attempt_logs::BUDGET_BYTES,
        restart_workers: false,
    };
    Ok(Cluster::start(options)?)
}

fn request(app: &str, input: &[PathBuf], output: PathBuf) -> Request {
    Request {
        app: app.into(),
        options: Default::default(),
        input: input.iter().map(|path| path.clone().into()).collect(),
        output,
        reduces: None,
        split_bytes: 64 << 20,
        memory_bytes: 512 << 20,
        name: app.into(),
        user: "bench".into(),
        pool: String::new(),
        priority: Priority::Normal,
        task_timeout_ms: 600_000,
        records_per_s: None,
        compress: false,
        sync_output: true,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
