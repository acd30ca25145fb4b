//! A cluster of stock `giveway` processes, and the programs on it.

use crate::apps::own_apps;
use giveway_core::{JobId, Priority};
use giveway_engine::client::Client;
use giveway_engine::wire::JobStatus;
use giveway_mapreduce::apps;
use giveway_mapreduce::job::Request;
use giveway_mapreduce::reference::{self, Parts};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(180);

/// Waits until a condition holds.
pub fn wait_for(description: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timeout waiting for {description}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lines of different lengths.
pub fn lines(count: usize) -> String {
    (0..count).map(|n| format!("{n} {}\n", "word ".repeat(n % 7))).collect()
}

/// The output of a sequential run.
pub fn reference(app: &str, input: &Path, options: &[&str]) -> Parts {
    let app = own_apps().find(app).expect("the application exists");
    let option = |text: &&str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = Request {
        app: app.name().to_owned(),
        options: options.iter().filter_map(option).collect(),
        input: vec![input.into()],
        output: "/nowhere".into(),
        reduces: None,
        split_bytes: 8 << 10,
        memory_bytes: 1 << 20,
        name: "reference".into(),
        user: "me".into(),
        pool: String::new(),
        priority: Priority::default(),
        task_timeout_ms: 60_000,
        records_per_s: None,
        compress: false,
        sync_output: false,
    };
    let plan = apps::plan(app.as_ref(), JobId(1), request).expect("the request is valid");
    reference::run(app.as_ref(), &plan).expect("the reference runs")
}

/// A running `giveway up`, stopped when dropped.
pub struct Cluster {
    folder: TempDir,
    up: Child,
}

impl Cluster {
    /// Starts two workers with a slot of each kind.
    pub fn start() -> Cluster {
        let folder = tempfile::tempdir().expect("cannot create a temporary directory");
        let up = Cluster::up(folder.path());
        let cluster = Cluster { folder, up };
        wait_for("the workers", || cluster.try_worker_pids().len() == 2);
        cluster
    }

    fn up(folder: &Path) -> Child {
        let args = ["up", "--nodes", "2", "--heartbeat", "50ms", "--timeout", "10s", "--no-http", "--dir", "cluster"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
        // A variable that its workers inherit and programs do not.
        command.args(args).env("GIVEWAY_TEST", "1").current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("cannot start giveway up")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("cannot write a test file");
        path
    }

    pub fn client(&self) -> Client {
        self.try_client().expect("cannot connect")
    }

    fn try_client(&self) -> Option<Client> {
        Client::connect(&self.path("cluster")).ok()
    }

    fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
        command.args(args).args(["--dir", "cluster"]).current_dir(self.folder.path());
        command.output().expect("cannot run giveway")
    }

    /// Runs a command that must succeed, and returns what it prints.
    pub fn run(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Submits a job of a built-in application.
    pub fn submit(&self, app: &str, input: &Path, output: &str, more: &[&str]) -> JobId {
        let input = input.to_string_lossy();
        let printed = self.run(&[&["submit", app, "--input", &input, "--output", output], more].concat());
        JobId(printed.trim().parse().expect("the job's number"))
    }

    /// Submits a job with this test binary as its program.
    pub fn submit_shipped(&self, app: &str, input: &Path, output: &str, more: &[&str]) -> JobId {
        let program = std::env::current_exe().expect("this program has a path");
        self.submit(app, input, output, &[more, &["--program", &program.to_string_lossy()]].concat())
    }

    /// The error of a submission that must be refused.
    pub fn refused(&self, app: &str, input: &Path, more: &[&str]) -> String {
        let input = input.to_string_lossy();
        let output = self.command(&[&["submit", app, "--input", &input, "--output", "refused"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Like [`Cluster::refused`], with this test binary as the program.
    pub fn shipped_refused(&self, app: &str, input: &Path, more: &[&str]) -> String {
        let program = std::env::current_exe().expect("this program has a path");
        self.refused(app, input, &[more, &["--program", &program.to_string_lossy()]].concat())
    }

    pub fn status(&self, job: JobId) -> JobStatus {
        self.client().job(job).expect("the job exists")
    }

    pub fn yield_job(&self, job: JobId) {
        self.client().yield_job(job).expect("the job exists");
    }

    /// Waits for the end of a job and its rounds.
    pub fn follow(&self, job: JobId) -> JobStatus {
        self.client().follow(job, |_| {}).expect("cannot follow the job")
    }

    /// The parts of an output, by name.
    pub fn output(&self, name: &str) -> Parts {
        let entries = fs::read_dir(self.path(name)).expect("the output exists").flatten();
        let parts = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("part-"));
        let read = |entry: fs::DirEntry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a part can be read"))
        };
        let mut parts: Parts = parts.map(read).collect();
        parts.sort();
        parts
    }

    /// The stored programs.
    pub fn programs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cluster/programs")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Process ids of the task runners of this cluster.
    pub fn runners(&self) -> Vec<u32> {
        let programs = self.path("cluster/programs").to_string_lossy().into_owned();
        let is_runner = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.starts_with(&programs) && line.contains("__giveway-task-runner")
        };
        let processes = fs::read_dir("/proc").expect("cannot list /proc").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_runner).collect()
    }

    /// The task runners that a worker has started.
    pub fn runners_of(&self, worker: u32) -> Vec<u32> {
        let parent = |pid: &u32| -> Option<u32> {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
        };
        self.runners().into_iter().filter(|pid| parent(pid) == Some(worker)).collect()
    }

    pub fn kill_runners(&self) {
        self.runners().into_iter().for_each(|pid| self.kill(pid));
    }

    pub fn kill(&self, pid: u32) {
        // Fails if it has just ended.
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
    }

    pub fn worker_pids(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        wait_for("connected workers", || {
            pids = self.try_worker_pids();
            pids.len() == 2
        });
        pids
    }

    fn try_worker_pids(&self) -> Vec<u32> {
        let nodes = self.try_client().and_then(|mut client| client.nodes().ok()).unwrap_or_default();
        nodes.iter().filter_map(|node| node.pid).collect()
    }

    pub fn kill_coordinator(&mut self) {
        self.up.kill().expect("cannot kill giveway up");
        self.up.wait().expect("cannot wait for giveway up");
    }

    pub fn restart(&mut self) {
        self.up = Cluster::up(self.folder.path());
        wait_for("the coordinator", || self.try_client().is_some());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command(&["down"]);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) && matches!(self.up.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}
