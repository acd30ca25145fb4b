//! A stage for real jobs: a cluster of this machine, jobs that come at their times, a worker that may be killed on the way. Every output is compared with
//! that of a sequential run, byte for byte, and the figures are read off the journal.
//!
//! Tasks take their records slowly, so that two cores can play a cluster of twenty slots.

use crate::report::{self, Chart};
use anyhow::{Context, Result, ensure};
use giveway_core::event_log::EventLogReader;
use giveway_core::{JobId, JobSpec, Outcome, Policy, Priority, Tenants};
use giveway_engine::apps::{self, Apps};
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::coordinator;
use giveway_engine::input::LocalOnly;
use giveway_engine::job::Request;
use giveway_engine::reference::{self, Parts};
use giveway_engine::store::StoreClient;
use giveway_sim::Observer;
use giveway_sim::metrics::{Grouping, Metrics};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Replicas of input that is stored in the cluster.
const REPLICAS: u8 = 2;

/// The cluster.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Worker processes.
    pub nodes: u32,
    /// Map slots of each.
    pub map_slots: u16,
    /// Reduce slots of each.
    pub reduce_slots: u16,
    /// How often a worker beats.
    pub beat: Duration,
    /// How long it may be silent before it counts as lost.
    pub timeout: Duration,
    /// Which part of a job's maps must be done before its reduces may start.
    pub slowstart_ppm: u32,
}

/// One job.
pub struct Job {
    /// When it is submitted, in milliseconds.
    pub at_ms: u64,
    /// Its size group.
    pub group: u16,
    /// What is asked for, but for the output.
    pub request: Request,
    /// What must come out.
    pub expected: Parts,
}

impl Job {
    /// A job that runs an application on a file, with what a sequential run makes of it.
    pub fn new(at_ms: u64, group: u16, request: Request, known: &Apps) -> Result<Job> {
        let app = known.find(&request.app)?;
        let plan = apps::plan(app.as_ref(), JobId(0), request.clone(), &LocalOnly)?;
        let expected = reference::run(app.as_ref(), &plan, &LocalOnly)?;
        Ok(Job { at_ms, group, request, expected })
    }
}

/// What is played.
pub struct Play {
    /// Names of the size groups, smallest first.
    pub groups: Vec<String>,
    /// The jobs, in the order of their submission.
    pub jobs: Vec<Job>,
    /// When the last worker is killed, if it is.
    pub kill_at: Option<Duration>,
    /// Whether the input is stored in the cluster's blocks first.
    pub stored: bool,
}

/// What came of it.
pub struct Played {
    /// Figures and pictures.
    pub run: report::Run,
    /// The journal's event log.
    pub event_log: Vec<u8>,
}

impl Play {
    /// Plays it under a policy, checks every output, and reads the figures off the journal.
    pub fn perform(&self, stage: &Stage, folder: &Path, policy: Policy, apps: &Apps) -> Result<Played> {
        let name = policy.name.clone();
        let mut cluster = Cluster::start(stage.options(folder, policy, apps))?;
        let jobs = self.run(stage, &mut cluster, folder)?;
        drop(cluster);
        let mut by_job = vec![0_u16; jobs.iter().map(|job| job.0 as usize + 1).max().unwrap_or(0)];
        for (job, of) in jobs.iter().zip(&self.jobs) {
            by_job[job.0 as usize] = of.group;
        }
        let event_log = fs::read(folder.join("journal").join("event log")).context("the journal")?;
        Ok(Played { run: self.figures(&event_log, &name, by_job)?, event_log })
    }

    /// Submits the jobs at their times, kills a worker on the way, and waits.
    fn run(&self, stage: &Stage, cluster: &mut Cluster, folder: &Path) -> Result<Vec<JobId>> {
        if self.stored {
            self.store(folder)?;
        }
        let began = Instant::now();
        let mut client = cluster.client()?;
        let mut jobs = Vec::new();
        let mut kill_at = self.kill_at;
        let mut kill_before = |cluster: &mut Cluster, at: Duration| -> Result<()> {
            if let Some(when) = kill_at.take_if(|when| *when < at) {
                sleep_until(began + when);
                cluster.kill_worker(stage.nodes as usize - 1).context("killing a worker")?;
            }
            Ok(())
        };
        for job in &self.jobs {
            let at = Duration::from_millis(job.at_ms);
            kill_before(cluster, at)?;
            sleep_until(began + at);
            let mut request = job.request.clone();
            request.output = folder.join(format!("out-{}", jobs.len()));
            if self.stored {
                request.input = request.input.iter().map(|file| stored_name(Path::new(file))).collect();
            }
            jobs.push(client.submit(request)?);
        }
        kill_before(cluster, Duration::MAX)?;
        for (at, (job, of)) in jobs.iter().zip(&self.jobs).enumerate() {
            let status = client.follow(*job, |_| {})?;
            ensure!(status.outcome == Some(Outcome::Succeeded), "{job} did not succeed: {:?}", status.problems);
            check(&folder.join(format!("out-{at}")), &of.expected)
                .with_context(|| format!("{job}, {}", of.request.app))?;
        }
        Ok(jobs)
    }

    /// Puts every input file into the cluster's blocks, a block for a split.
    fn store(&self, folder: &Path) -> Result<()> {
        let mut store = StoreClient::connect(folder)?;
        let mut files: Vec<(&String, u64)> = Vec::new();
        for job in &self.jobs {
            files.extend(job.request.input.iter().map(|file| (file, job.request.split_bytes)));
        }
        files.sort_unstable();
        files.dedup();
        for (file, block_bytes) in files {
            store.put(Path::new(file), &stored_name(Path::new(file)), block_bytes, REPLICAS)?;
        }
        Ok(())
    }

    /// What the event log says. Figures and pictures are those of a simulated run: an event log does not say who wrote it.
    fn figures(&self, event_log: &[u8], policy: &str, by_job: Vec<u16>) -> Result<report::Run> {
        let groups = Grouping::listed(self.groups.clone(), by_job.clone());
        let mut metrics = Metrics::new(&Tenants::default(), groups, Vec::new());
        let group_of = move |spec: &JobSpec| by_job.get(spec.id.0 as usize).copied().unwrap_or(0);
        let mut chart = Chart::new(group_of, self.groups.len());
        for record in EventLogReader::open(event_log)? {
            // The journal of a cluster that may be started again is not closed.
            let Ok(record) = record else { break };
            metrics.observe(record.now, &record.event, &record.actions);
            chart.observe(record.now, &record.event, &record.actions);
        }
        Ok(report::Run { summary: metrics.summary(policy, 1, None), jobs: metrics.jobs().to_vec(), chart })
    }
}

impl Stage {
    fn options(&self, folder: &Path, policy: Policy, apps: &Apps) -> cluster::Options {
        let coordinator = coordinator::Options {
            folder: folder.to_owned(),
            listen: "127.0.0.1:0".into(),
            policy,
            tenants: Tenants::default(),
            seed: 1,
            beat: self.beat,
            timeout: self.timeout,
            slowstart_ppm: self.slowstart_ppm,
            apps: apps.clone(),
        };
        cluster::Options {
            coordinator,
            nodes: self.nodes,
            map_slots: self.map_slots,
            reduce_slots: self.reduce_slots,
            patience: Duration::from_secs(10),
        }
    }
}

fn stored_name(file: &Path) -> String {
    format!("dfs:/{}", file.file_name().unwrap_or_default().to_string_lossy())
}

fn sleep_until(then: Instant) {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
}

/// Compares an output with what must be there.
fn check(output: &Path, expected: &Parts) -> Result<()> {
    let found = reference::found(output).with_context(|| output.display().to_string())?;
    let names = |parts: &Parts| parts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    ensure!(
        names(&found) == names(expected),
        "{} has {:?}, not {:?}",
        output.display(),
        names(&found),
        names(expected)
    );
    for ((name, bytes), (_, wanted)) in found.iter().zip(expected) {
        ensure!(bytes == wanted, "{name} in {} is not what a sequential run gives", output.display());
    }
    Ok(())
}

/// How many lines of input there are, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Maps that read them.
    pub maps: usize,
    /// Lines of each.
    pub lines_a_map: usize,
    /// Whether each line has its number at its end, and so a word of its own.
    pub numbered: bool,
}

/// A file of words, and how it is cut into maps.
pub struct Input {
    /// The file.
    pub path: PathBuf,
    split_bytes: u64,
}

impl Input {
    /// Writes a file of so many maps' lines of 720 words, with the number of the line at its end if they are to differ.
    pub fn make(folder: &Path, name: &str, lines: Lines, random: &mut Pcg64Mcg) -> Result<Input> {
        let Lines { maps, lines_a_map, numbered } = lines;
        const WORDS: [&str; 24] = [
            "river", "stone", "light", "paper", "green", "small", "large", "night", "house", "water", "cloud", "field",
            "glass", "sound", "wheel", "table", "north", "south", "bread", "plant", "chair", "smoke", "brick", "grain",
        ];
        let mut text = String::new();
        for line in 0..maps * lines_a_map {
            let count = random.random_range(1..4);
            for _ in 0..count {
                let word = WORDS[random.random_range(0..WORDS.len())];
                write!(text, "{word}{} ", random.random_range(0..30))?;
            }
            if numbered {
                write!(text, "{line}")?;
            }
            text.push('\n');
        }
        let path = folder.join(name);
        let split_bytes = (text.len() as u64).div_ceil(maps.max(1) as u64);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Input { path, split_bytes })
    }

    /// A job that runs an application on it, each task so many records a second.
    pub fn request(&self, app: &str, reduces: u32, records_per_s: u64) -> Request {
        let options = if app == "grep" { vec![("pattern", "river|stone")] } else { Vec::new() };
        Request {
            app: app.into(),
            options: options.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            input: vec![self.path.to_string_lossy().into_owned()],
            output: PathBuf::from("/nowhere"),
            reduces: (app != "grep").then_some(reduces),
            split_bytes: self.split_bytes,
            memory_bytes: 8 << 20,
            name: app.into(),
            user: "demo".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            task_timeout_ms: 60_000,
            records_per_s: Some(records_per_s),
            compress: false,
        }
    }
}
