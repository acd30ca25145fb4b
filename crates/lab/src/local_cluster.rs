//! Runs a timed workload on an engine cluster of this machine: jobs are submitted at given times, and one worker may be killed during the run.
//! Every output is compared byte for byte with that of a sequential reference run, and the metrics are computed from the journal.
//!
//! Tasks are throttled (`records_per_s`), so that two CPU cores can run a cluster of twenty slots.

use crate::report::{self, Chart};
use anyhow::{Context, Error, Result, ensure};
use giveway_core::event_log::EventLogReader;
use giveway_core::{JobId, JobSpec, Outcome, Policy, Priority, Tenants};
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::coordinator;
use giveway_mapreduce::apps::{self, Apps};
use giveway_mapreduce::job::Request;
use giveway_mapreduce::reference::{self, Parts};
use giveway_sim::Observer;
use giveway_sim::metrics::{Grouping, Metrics};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Size and timeouts of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct LocalCluster {
    /// Number of worker processes.
    pub nodes: u32,
    /// Map slots per worker.
    pub map_slots: u16,
    /// Reduce slots per worker.
    pub reduce_slots: u16,
    /// Interval between a worker's heartbeats.
    pub heartbeat: Duration,
    /// Time without a heartbeat after which a worker is lost.
    pub timeout: Duration,
    /// Fraction of a job's maps, in parts per million, that must have finished before its reduces may start.
    pub slowstart_ppm: u32,
}

/// A job with its submission time and expected output.
pub struct TimedJob {
    /// Submission time in milliseconds after the start of the run.
    pub submit_at_ms: u64,
    /// Index of its size group.
    pub group: u16,
    /// The submission; its `output` is replaced in each run.
    pub request: Request,
    /// Output of a sequential reference run.
    pub expected: Parts,
}

impl TimedJob {
    /// Creates a job and computes its expected output with a sequential reference run.
    pub fn new(submit_at_ms: u64, group: u16, request: Request, apps: &Apps) -> Result<TimedJob> {
        let app = apps.find(&request.app).map_err(Error::from_boxed)?;
        let plan = apps::plan(app.as_ref(), JobId(0), request.clone()).map_err(Error::from_boxed)?;
        let expected = reference::run(app.as_ref(), &plan)?;
        Ok(TimedJob { submit_at_ms, group, request, expected })
    }
}

/// A workload for a [`LocalCluster`].
pub struct TimedWorkload {
    /// Names of the size groups, smallest first.
    pub groups: Vec<String>,
    /// The jobs, in the order of their submission.
    pub jobs: Vec<TimedJob>,
    /// When to kill the last worker, after the start of the run; `None` for a run without failures.
    pub kill_at: Option<Duration>,
}

/// Result of a run of a [`TimedWorkload`].
pub struct WorkloadRun {
    /// Metrics and slot chart.
    pub run: report::Run,
    /// The event log from the coordinator's journal.
    pub event_log: Vec<u8>,
}

impl TimedWorkload {
    /// Runs the workload under a policy on a new cluster in `folder`, verifies every output, and computes the metrics from the journal.
    pub fn run(&self, spec: &LocalCluster, folder: &Path, policy: Policy, apps: &Apps) -> Result<WorkloadRun> {
        let name = policy.name.clone();
        let mut cluster = spec.start(folder, policy, apps)?;
        let jobs = self.submit_and_wait(spec, &mut cluster, folder)?;
        drop(cluster);
        let mut by_job = vec![0_u16; jobs.iter().map(|job| job.0 as usize + 1).max().unwrap_or(0)];
        for (id, job) in jobs.iter().zip(&self.jobs) {
            by_job[id.0 as usize] = job.group;
        }
        let event_log = coordinator::read_event_log(&folder.join("journal/log")).context("cannot read the journal")?;
        Ok(WorkloadRun { run: self.metrics(&event_log, &name, by_job)?, event_log })
    }

    /// Submits the jobs at their times, kills a worker at `kill_at`, waits for all jobs and verifies their outputs.
    fn submit_and_wait(&self, spec: &LocalCluster, cluster: &mut Cluster, folder: &Path) -> Result<Vec<JobId>> {
        let start = Instant::now();
        let mut client = cluster.client()?;
        let mut jobs = Vec::new();
        let mut kill_at = self.kill_at;
        let mut kill_if_before = |cluster: &mut Cluster, at: Duration| -> Result<()> {
            if let Some(kill_at) = kill_at.take_if(|kill_at| *kill_at < at) {
                sleep_until(start + kill_at);
                cluster.kill_worker(spec.nodes as usize - 1).context("cannot kill a worker")?;
            }
            Ok(())
        };
        for job in &self.jobs {
            let submit_at = Duration::from_millis(job.submit_at_ms);
            kill_if_before(cluster, submit_at)?;
            sleep_until(start + submit_at);
            let mut request = job.request.clone();
            request.output = folder.join(format!("out-{}", jobs.len()));
            jobs.push(client.submit(request)?);
        }
        kill_if_before(cluster, Duration::MAX)?;
        for (index, (id, job)) in jobs.iter().zip(&self.jobs).enumerate() {
            let status = client.follow(*id, |_| {})?;
            ensure!(status.outcome == Some(Outcome::Succeeded), "{id} did not succeed: {:?}", status.failures);
            verify_output(&folder.join(format!("out-{index}")), &job.expected)
                .with_context(|| format!("wrong output of {id} ({})", job.request.app))?;
        }
        Ok(jobs)
    }

    /// Computes metrics and chart from the event log, with the same code as for a simulated run.
    fn metrics(&self, event_log: &[u8], policy: &str, by_job: Vec<u16>) -> Result<report::Run> {
        let groups = Grouping::listed(self.groups.clone(), by_job.clone());
        let mut metrics = Metrics::new(&Tenants::default(), groups, Vec::new());
        let group_of = move |spec: &JobSpec| by_job.get(spec.id.0 as usize).copied().unwrap_or(0);
        let mut chart = Chart::new(group_of, self.groups.len());
        for record in EventLogReader::open(event_log)? {
            // The journal of a cluster that may be restarted has no closing record.
            let Ok(record) = record else { break };
            metrics.observe(record.now, &record.event, &record.actions);
            chart.observe(record.now, &record.event, &record.actions);
        }
        Ok(report::Run { summary: metrics.summary(policy, 1, None), jobs: metrics.jobs().to_vec(), chart })
    }
}

impl LocalCluster {
    /// Starts a new cluster in `folder`.
    pub fn start(&self, folder: &Path, policy: Policy, apps: &Apps) -> Result<Cluster> {
        let coordinator = coordinator::Options {
            folder: folder.to_owned(),
            policy,
            tenants: Tenants::default(),
            access: giveway_engine::Access::default(),
            reload: None,
            on_job_end: None,
            archive_bytes: coordinator::ARCHIVE_BYTES,
            seed: 1,
            heartbeat_interval: self.heartbeat,
            heartbeat_timeout: self.timeout,
            slowstart_ppm: self.slowstart_ppm,
            apps: apps.clone(),
        };
        let options = cluster::Options {
            coordinator,
            nodes: self.nodes,
            map_slots: self.map_slots,
            reduce_slots: self.reduce_slots,
            reconnect_timeout: Duration::from_secs(10),
            log_bytes: giveway_engine::attempt_logs::BUDGET_BYTES,
            restart_workers: false,
        };
        Ok(Cluster::start(options)?)
    }
}

fn sleep_until(then: Instant) {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
}

/// Compares the files of an output directory with the expected ones: the same names and the same bytes.
fn verify_output(output: &Path, expected: &Parts) -> Result<()> {
    let found = reference::read_output(output).with_context(|| format!("cannot read {}", output.display()))?;
    let names = |parts: &Parts| parts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    ensure!(
        names(&found) == names(expected),
        "{} contains the files {:?} instead of {:?}",
        output.display(),
        names(&found),
        names(expected)
    );
    for ((name, bytes), (_, expected_bytes)) in found.iter().zip(expected) {
        ensure!(bytes == expected_bytes, "{name} in {} differs from the sequential reference", output.display());
    }
    Ok(())
}

/// Size and content of a generated text file.
#[derive(Clone, Copy, Debug)]
pub struct InputSpec {
    /// Number of map tasks that read the file.
    pub maps: usize,
    /// Lines per map task.
    pub lines_per_map: usize,
    /// Whether each line ends with its number, which makes that word unique.
    pub numbered: bool,
}

/// A generated text file with its split size.
pub struct TextInput {
    /// Where the file was written.
    pub path: PathBuf,
    split_bytes: u64,
}

impl TextInput {
    /// Writes a file with lines of one to three words from a vocabulary of 720.
    pub fn generate(folder: &Path, name: &str, spec: InputSpec, rng: &mut Pcg64Mcg) -> Result<TextInput> {
        let InputSpec { maps, lines_per_map, numbered } = spec;
        const WORDS: [&str; 24] = [
            "river", "stone", "light", "paper", "green", "small", "large", "night", "house", "water", "cloud", "field",
            "glass", "sound", "wheel", "table", "north", "south", "bread", "plant", "chair", "smoke", "brick", "grain",
        ];
        let mut text = String::new();
        for line in 0..maps * lines_per_map {
            let count = rng.random_range(1..4);
            for _ in 0..count {
                let word = WORDS[rng.random_range(0..WORDS.len())];
                write!(text, "{word}{} ", rng.random_range(0..30))?;
            }
            if numbered {
                write!(text, "{line}")?;
            }
            text.push('\n');
        }
        let path = folder.join(name);
        let split_bytes = (text.len() as u64).div_ceil(maps.max(1) as u64);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(TextInput { path, split_bytes })
    }

    /// A submission that runs `app` on this file, with each task limited to `records_per_s`, if given. The caller sets `output`.
    pub fn request(&self, app: &str, reduces: u32, records_per_s: Option<u64>) -> Request {
        let options = if app == "grep" { vec![("pattern", "river|stone")] } else { Vec::new() };
        Request {
            app: app.into(),
            options: options.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            input: vec![self.path.clone().into()],
            output: PathBuf::from("/nonexistent"),
            reduces: (app != "grep").then_some(reduces),
            split_bytes: self.split_bytes,
            memory_bytes: 8 << 20,
            name: app.into(),
            user: "demo".into(),
            pool: String::new(),
            priority: Priority::Normal,
            task_timeout_ms: 60_000,
            records_per_s,
            compress: false,
            sync_output: true,
        }
    }
}
