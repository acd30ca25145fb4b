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
use crate::local_cluster::LocalCluster;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Outcome, Priority};
use giveway_engine::client::Client;
use giveway_engine::wire::JobStatus;
use giveway_mapreduce::apps::Apps;
use giveway_mapreduce::job::Request;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
            fs::create_dir_all(folder).with_context(|| format!("cannot create directory {}", folder.display()))?;
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
    Ok(fs::remove_dir_all(folder.join("cluster"))?)
}

/// Calls `run` with a client of a new cluster of two workers under `fifo`, with so many map slots and one reduce slot each.
fn on_new_cluster<T>(
    folder: &Path,
    map_slots: u16,
    apps: &Apps,
    run: impl FnOnce(&mut Client) -> Result<T>,
) -> Result<T> {
    let folder = folder.join("cluster");
    let _ = fs::remove_dir_all(&folder);
    let policy = catalog::by_name("fifo").context("policy fifo missing in the catalogue")?;
    let spec = LocalCluster {
        nodes: 2,
        map_slots,
        reduce_slots: 1,
        heartbeat: Duration::from_millis(200),
        timeout: Duration::from_secs(30),
        slowstart_ppm: 50_000,
    };
    let cluster = spec.start(&folder, policy, apps)?;
    let result = run(&mut cluster.client()?)?;
    drop(cluster);
    Ok(result)
}

/// Runs a job, with `meanwhile` called as soon as it is submitted. Returns its status and the seconds from submission until the output is committed, which is removed.
fn run_job(
    client: &mut Client,
    request: Request,
    meanwhile: impl FnOnce(&mut Client, JobId) -> Result<()>,
) -> Result<(JobStatus, f64)> {
    let (app, output) = (request.app.clone(), request.output.clone());
    let _ = fs::remove_dir_all(&output);
    let start = Instant::now();
    let job = client.submit(request)?;
    meanwhile(client, job)?;
    let status = client.follow(job, |_| {})?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.outcome == Some(Outcome::Succeeded), "{app} did not succeed: {:?}", status.failures);
    fs::remove_dir_all(&output)?;
    Ok((status, seconds))
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
