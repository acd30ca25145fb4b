//! Changes of a cluster and a workload before a run, the same for every policy.

use anyhow::{Context, Result};
use giveway_core::policy::catalog;
use giveway_core::{Action, Event, JobId, Kind, Span, Time, WHOLE_PPM};
use giveway_sim::Observer;
use giveway_sim::cluster::{Cluster, Faults};
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::{JobPlan, Workload};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

/// What to change. Nothing by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// Compute speed of every core, as a multiple.
    core_speed: Option<f64>,
    /// Rate of every disk, as a multiple.
    disk_rate: Option<f64>,
    /// Number of cores of a node, as a multiple.
    cores: Option<f64>,
    /// Size of the page cache, as a multiple.
    page_cache: Option<f64>,
    /// Speed of the nodes slower than 1, as a multiple, up to 1.
    slow_nodes: Option<f64>,
    /// Removes the nodes slower than 1.
    fast_nodes_only: bool,
    /// The nodes' tasks do not share cores and disks.
    no_contention: bool,
    /// As `no_contention`, with these instead of each node's own: compute speed of a slot, and megabytes per second of disk for it.
    slot_speed: Option<f64>,
    slot_disk_mb_per_s: Option<f64>,
    /// Standard deviation of the logarithm of task times.
    noise: Option<f64>,
    launch_s: Option<f64>,
    heartbeat_s: Option<f64>,
    pause_flush_bytes: Option<u64>,
    /// Compute time of every reduce, as a multiple.
    reduce_compute: Option<f64>,
    /// Charges reduces with disk traffic that the model leaves out: all replicas of their output, as if each node wrote as many replicas of others
    /// as others write of its own; and writing and reading back an input that does not fit into their memory. This is a task's heap in megabytes.
    write_replicas_and_merges_heap_mb: Option<f64>,
    /// Time between job arrivals, as a multiple.
    arrivals: Option<f64>,
    /// Jobs in reverse order, at the same times.
    reversed: bool,
    /// Predicted task times, not known ones.
    predicted: bool,
    estimate_error: Option<f64>,
    failure: Option<Failure>,
    /// The last job is submitted when the node fails.
    last_job_at_failure: bool,
}

/// The part of its heap in which a reduce of Hadoop 1 keeps fetched map output: the default of `mapred.job.shuffle.input.buffer.percent`.
const SHUFFLE_MEMORY: f64 = 0.7;

/// When the node of the cluster's scripted failure fails.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    AtS(f64),
    /// At this fraction of the first job's life, as a run under FIFO without failures has it.
    AtLife(f64),
    /// At a random time of that life, uniformly distributed, another one for each seed.
    Random,
    /// This many seconds before the first reduce of the first job ends in that run.
    BeforeReducesEndS(f64),
}

impl Changes {
    /// Applies all of them.
    pub fn apply(&self, cluster: &mut Cluster, workload: &mut Workload, seed: u64) -> Result<()> {
        self.apply_to_nodes(cluster);
        let seconds = |seconds: f64| Span::from_millis((seconds * 1e3) as u64);
        set(&mut cluster.noise, self.noise);
        set(&mut cluster.costs.launch, self.launch_s.map(seconds));
        set(&mut cluster.heartbeat, self.heartbeat_s.map(seconds));
        set(&mut cluster.costs.pause_flush_bytes, self.pause_flush_bytes);
        for job in &mut workload.jobs {
            job.reduce_compute = job.reduce_compute.scaled(self.reduce_compute.unwrap_or(1.0));
            if let Some(factor) = self.arrivals {
                job.submit = Time::from_secs_f64(job.submit.as_secs_f64() * factor);
            }
        }
        if let Some(heap_mb) = self.write_replicas_and_merges_heap_mb {
            let in_memory_bytes = (heap_mb * f64::from(1 << 20) * SHUFFLE_MEMORY) as u64;
            for job in &mut workload.jobs {
                let merged_bytes = Some(job.partition_bytes()).filter(|bytes| *bytes > in_memory_bytes).unwrap_or(0);
                job.reduce_output_bytes = job.reduce_output_bytes * u64::from(cluster.replicas) + 2 * merged_bytes;
            }
        }
        if self.reversed {
            reverse(workload);
        }
        workload.hints &= !self.predicted;
        set(&mut workload.estimate_error, self.estimate_error);
        if let Some(failure) = self.failure {
            let at_s = failure.at_s(cluster, workload, seed)?;
            cluster.faults.scripted.iter_mut().for_each(|fault| fault.at_s = at_s);
        }
        let failure = cluster.faults.scripted.first().map(|fault| Time::from_secs_f64(fault.at_s));
        if let (true, Some(failure), Some(last)) = (self.last_job_at_failure, failure, workload.jobs.last_mut()) {
            last.submit = failure;
        }
        Ok(())
    }

    fn apply_to_nodes(&self, cluster: &mut Cluster) {
        let scaled_ppm = |ppm: u32, factor: f64| (f64::from(ppm) * factor) as u32;
        if self.fast_nodes_only {
            cluster.nodes.retain(|node| node.spec.speed_ppm >= WHOLE_PPM);
        }
        for node in &mut cluster.nodes {
            if let Some(factor) = self.slow_nodes.filter(|_| node.spec.speed_ppm < WHOLE_PPM) {
                node.spec.speed_ppm = scaled_ppm(node.spec.speed_ppm, factor).min(WHOLE_PPM);
            }
            if let Some(factor) = self.core_speed {
                node.spec.speed_ppm = scaled_ppm(node.spec.speed_ppm, factor);
            }
            if let Some(factor) = self.disk_rate {
                node.spec.disk_bytes_per_s = (node.spec.disk_bytes_per_s as f64 * factor) as u64;
            }
            if let Some(shared) = &mut node.shared {
                shared.cores = (f64::from(shared.cores) * self.cores.unwrap_or(1.0)).max(1.0) as u16;
                let factor = self.page_cache.unwrap_or(1.0);
                shared.page_cache_bytes = shared.page_cache_bytes.map(|bytes| (bytes as f64 * factor) as u64);
            }
            set(&mut node.spec.speed_ppm, self.slot_speed.map(|speed| scaled_ppm(WHOLE_PPM, speed)));
            set(&mut node.spec.disk_bytes_per_s, self.slot_disk_mb_per_s.map(|mb| (mb * f64::from(1 << 20)) as u64));
            if self.no_contention || self.slot_speed.is_some() {
                node.shared = None;
            }
        }
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Gives the last job the submission time of the first, and so on.
fn reverse(workload: &mut Workload) {
    let times: Vec<Time> = workload.jobs.iter().rev().map(|job| job.submit).collect();
    workload.jobs.iter_mut().zip(times).for_each(|(job, submit): (&mut JobPlan, Time)| job.submit = submit);
    workload.jobs.sort_by_key(|job| job.submit);
    (0..).zip(&mut workload.jobs).for_each(|(number, job)| job.id = JobId(number));
}

impl Failure {
    fn at_s(self, cluster: &Cluster, workload: &Workload, seed: u64) -> Result<f64> {
        let life = || FirstJob::observed(cluster, workload, seed);
        Ok(match self {
            Failure::AtS(at_s) => at_s,
            Failure::AtLife(fraction) => life()?.end_s * fraction,
            Failure::Random => life()?.end_s * Pcg64Mcg::seed_from_u64(seed).random_range(0.0..1.0),
            Failure::BeforeReducesEndS(before_s) => (life()?.first_reduce_end_s - before_s).max(0.0),
        })
    }
}

/// The first job's life under FIFO without failures.
#[derive(Default)]
struct FirstJob {
    end_s: f64,
    first_reduce_end_s: f64,
}

impl FirstJob {
    fn observed(cluster: &Cluster, workload: &Workload, seed: u64) -> Result<FirstJob> {
        let reliable = Cluster { faults: Faults::default(), ..cluster.clone() };
        let fifo = catalog::by_name("fifo").context("no policy `fifo` in the catalogue")?;
        let mut first = FirstJob::default();
        let result = Comparison::without_bound(reliable, workload.clone(), seed).run(&fifo, &mut first)?;
        let ended = result.jobs.iter().find(|job| job.job == JobId(0)).context("the first job did not end")?;
        first.end_s = ended.submit_s + ended.completion_s;
        Ok(first)
    }
}

impl Observer for FirstJob {
    fn observe(&mut self, now: Time, event: &Event, _: &[Action]) {
        if let Event::AttemptFinished { attempt, .. } = event
            && (attempt.task.job, attempt.task.kind) == (JobId(0), Kind::Reduce)
            && self.first_reduce_end_s == 0.0
        {
            self.first_reduce_end_s = now.as_secs_f64();
        }
    }
}
