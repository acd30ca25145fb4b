//! A cluster of `giveway` processes that a test starts, kills and restarts.

use giveway_core::event_log::EventLogDecoder;
use giveway_core::{Event, JobId, Kind, Scheduler};
use giveway_engine::client::Client;
use giveway_engine::wire::{JobStatus, NodeStatus};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Number of workers, named `node-0` and so on.
pub const NODES: usize = 3;

/// Time limit for a response of the cluster.
const TIMEOUT: Duration = Duration::from_secs(180);

pub struct Cluster {
    folder: PathBuf,
    coordinator: Option<Child>,
    /// Workers started by the test; the others are started by `giveway up`.
    workers: Vec<Child>,
}

impl Cluster {
    pub fn start(parent: &Path) -> Cluster {
        let mut cluster = Cluster { folder: parent.join("cluster"), coordinator: None, workers: Vec::new() };
        cluster.start_coordinator();
        cluster
    }

    /// Starts the coordinator, which starts the workers that are not running, and waits until it accepts connections.
    pub fn start_coordinator(&mut self) {
        let _ = fs::remove_file(self.folder.join("address"));
        let child = giveway()
            .args(["up", "--nodes", &NODES.to_string(), "--map-slots", "2", "--reduce-slots", "2"])
            // The tests decide when a killed worker comes back.
            .args(["--no-restart", "--policy", "fair", "--heartbeat", "50ms", "--timeout", "1500ms", "--dir"])
            .arg(&self.folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("cannot start giveway up");
        self.coordinator = Some(child);
        self.client();
    }

    /// Connects to the coordinator; retries until it accepts connections.
    pub fn client(&self) -> Client {
        let start = Instant::now();
        loop {
            match Client::connect(&self.folder) {
                Ok(client) => return client,
                Err(error) if start.elapsed() > TIMEOUT => panic!("cannot connect to the coordinator: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    pub fn kill_coordinator(&mut self) {
        let mut child = self.coordinator.take().expect("the coordinator is not running");
        child.kill().expect("cannot kill the coordinator");
        child.wait().expect("cannot wait for the coordinator");
    }

    /// Kills the coordinator and all workers with SIGKILL.
    pub fn kill_all(&mut self) {
        let workers: Vec<u32> = self.nodes().into_iter().filter_map(|node| node.pid).collect();
        self.kill_coordinator();
        workers.into_iter().for_each(kill);
    }

    /// Waits until the coordinator has ended by itself.
    pub fn wait_for_coordinator(&mut self) -> ExitStatus {
        let mut child = self.coordinator.take().expect("the coordinator is not running");
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("cannot wait for the coordinator") {
                return status;
            }
            if start.elapsed() > TIMEOUT {
                let _ = child.kill();
                panic!("the coordinator has not ended");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn signal_coordinator(&self, name: &str) {
        signal(name, self.coordinator.as_ref().expect("the coordinator is not running").id());
    }

    pub fn jobs(&self) -> Vec<JobStatus> {
        self.query(Client::jobs)
    }

    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.query(Client::nodes)
    }

    /// Sends a request until it succeeds.
    fn query<T>(&self, request: impl Fn(&mut Client) -> Result<T, giveway_engine::client::ClientError>) -> T {
        let start = Instant::now();
        loop {
            match request(&mut self.client()) {
                Ok(response) => return response,
                Err(error) if start.elapsed() > TIMEOUT => panic!("no response: {error}"),
                Err(_) => {}
            }
        }
    }

    fn node(&self, at: usize) -> Option<NodeStatus> {
        self.nodes().into_iter().find(|node| node.name == format!("node-{at}"))
    }

    /// Process id of a worker that is connected.
    pub fn pid(&self, at: usize) -> Option<u32> {
        self.node(at).and_then(|node| node.pid)
    }

    /// Kills a worker with SIGKILL.
    pub fn kill_worker(&mut self, at: usize) {
        if let Some(pid) = self.pid(at) {
            kill(pid);
        }
        self.workers.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    pub fn start_worker(&mut self, at: usize) {
        let child = giveway()
            .args(["worker", "--map-slots", "2", "--reduce-slots", "2", "--name", &format!("node-{at}"), "--join"])
            .arg(&self.folder)
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start giveway worker");
        self.workers.push(child);
    }

    pub fn is_lost(&self, at: usize) -> bool {
        self.node(at).is_none_or(|node| !node.up)
    }

    /// The event log of the coordinator's journal, as far as it is written.
    fn event_log(&self) -> EventLogDecoder {
        let mut decoder = EventLogDecoder::new();
        let journal = self.folder.join("journal/log");
        decoder.feed(&giveway_engine::coordinator::read_event_log(&journal).expect("cannot read the journal"));
        decoder
    }

    /// Submitted tasks without a work-conserving preemption in the event log. Maps with splits of at most half the largest one are left out.
    pub fn tasks_never_preempted(&self) -> Vec<(JobId, Kind, u32)> {
        let (mut tasks, mut preempted) = (BTreeSet::new(), BTreeSet::new());
        let mut event_log = self.event_log();
        while let Some(record) = event_log.pull().expect("damaged event log") {
            if let Event::JobSubmitted(spec) = &record.event {
                // The last split of a file may be a few lines only, which finish before a preemption can be requested.
                let largest = spec.splits.iter().map(|split| split.bytes).max().unwrap_or(0);
                let large = spec.splits.iter().zip(0..).filter(|(split, _)| split.bytes * 2 > largest);
                let maps = large.map(|(_, index)| (spec.id, Kind::Map, index));
                tasks.extend(maps.chain((0..spec.reduces).map(|index| (spec.id, Kind::Reduce, index))));
            }
            preempted.extend(super::preempted_task(&record.event));
        }
        tasks.difference(&preempted).copied().collect()
    }

    /// Replays the event log of the journal and compares every action; then checks that no job is live.
    pub fn check_event_log(&self) {
        let mut event_log = self.event_log();
        let mut core: Option<Scheduler> = None;
        while let Some(record) = event_log.pull().expect("damaged event log") {
            let core = core.get_or_insert_with(|| {
                Scheduler::new(event_log.setup().expect("no setup").clone()).expect("invalid setup")
            });
            let mut actions = Vec::new();
            core.handle(record.now, &record.event, &mut actions);
            assert_eq!(actions, record.actions, "record {}", event_log.records());
        }
        let core = core.expect("empty event log");
        core.state().check().expect("invalid state");
        assert_eq!(core.live_job_count(), 0, "live jobs remain");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pids: Vec<u32> = match Client::connect(&self.folder).and_then(|mut client| client.nodes()) {
            Ok(nodes) => nodes.into_iter().filter_map(|node| node.pid).collect(),
            Err(_) => Vec::new(),
        };
        pids.into_iter().for_each(kill);
        if let Some(mut child) = self.coordinator.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for child in &mut self.workers {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn giveway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_giveway"))
}

fn kill(pid: u32) {
    signal("-KILL", pid);
}

pub fn signal(name: &str, pid: u32) {
    let _ = Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status();
}
