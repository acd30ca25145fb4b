//! A cluster of real processes that a test starts, kills and starts again.

use giveway_core::event_log::EventLogDecoder;
use giveway_core::{Event, JobId, Kind, Scheduler};
use giveway_engine::client::Client;
use giveway_engine::wire::{JobStatus, NodeStatus};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Workers.
pub const NODES: usize = 3;

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Cluster {
    folder: PathBuf,
    coordinator: Option<Child>,
    /// Workers that the test started itself.
    workers: Vec<Child>,
}

impl Cluster {
    pub fn start(beside: &Path) -> Cluster {
        let mut cluster = Cluster { folder: beside.join("cluster"), coordinator: None, workers: Vec::new() };
        cluster.start_coordinator();
        cluster
    }

    /// Starts the coordinator, which starts those workers that are not there.
    pub fn start_coordinator(&mut self) {
        let _ = fs::remove_file(self.folder.join("address"));
        let child = giveway()
            .args(["up", "--nodes", &NODES.to_string(), "--map-slots", "2", "--reduce-slots", "2"])
            .args(["--policy", "fair", "--heartbeat", "50ms", "--timeout", "1500ms", "--dir"])
            .arg(&self.folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("giveway up");
        self.coordinator = Some(child);
        self.client();
    }

    /// A line to the coordinator, as soon as there is one.
    pub fn client(&self) -> Client {
        let began = Instant::now();
        loop {
            match Client::connect(&self.folder) {
                Ok(client) => return client,
                Err(error) if began.elapsed() > PATIENCE => panic!("no coordinator: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    pub fn kill_coordinator(&mut self) {
        let mut child = self.coordinator.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it is dead");
    }

    pub fn jobs(&self) -> Vec<JobStatus> {
        self.ask(Client::jobs)
    }

    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.ask(Client::nodes)
    }

    fn ask<T>(&self, question: impl Fn(&mut Client) -> Result<T, giveway_engine::client::ClientError>) -> T {
        let began = Instant::now();
        loop {
            match question(&mut self.client()) {
                Ok(answer) => return answer,
                Err(error) if began.elapsed() > PATIENCE => panic!("no answer: {error}"),
                Err(_) => {}
            }
        }
    }

    fn node(&self, at: usize) -> Option<NodeStatus> {
        self.nodes().into_iter().find(|node| node.name == format!("node-{at}"))
    }

    /// Kills a worker as a power cut would.
    pub fn kill_worker(&mut self, at: usize) {
        if let Some(pid) = self.node(at).and_then(|node| node.pid) {
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
            .expect("giveway worker");
        self.workers.push(child);
    }

    pub fn is_lost(&self, at: usize) -> bool {
        self.node(at).is_none_or(|node| !node.up)
    }

    /// Everything on the event log so far.
    fn event_log(&self) -> EventLogDecoder {
        let mut decoder = EventLogDecoder::new();
        decoder.feed(&fs::read(self.folder.join("journal").join("event-log")).expect("the journal"));
        decoder
    }

    /// Tasks as they were submitted that the event log does not show giving way.
    pub fn tasks_that_never_gave_way(&self) -> Vec<(JobId, Kind, u32)> {
        let (mut tasks, mut gave_way) = (BTreeSet::new(), BTreeSet::new());
        let mut event_log = self.event_log();
        while let Some(record) = event_log.pull().expect("a sound event log") {
            if let Event::JobSubmitted(spec) = &record.event {
                // The end of a file may be a split of a line or two, which is done before anybody can ask.
                let largest = spec.splits.iter().map(|split| split.bytes).max().unwrap_or(0);
                let whole = spec.splits.iter().zip(0..).filter(|(split, _)| split.bytes * 2 > largest);
                let maps = whole.map(|(_, index)| (spec.id, Kind::Map, index));
                tasks.extend(maps.chain((0..spec.reduces).map(|index| (spec.id, Kind::Reduce, index))));
            }
            gave_way.extend(super::gave_way(&record.event));
        }
        tasks.difference(&gave_way).copied().collect()
    }

    /// The journal is an event log like any other: replayed, it gives the same actions.
    pub fn check_event_log(&self) {
        let mut event_log = self.event_log();
        let mut core: Option<Scheduler> = None;
        while let Some(record) = event_log.pull().expect("a sound event log") {
            let core = core
                .get_or_insert_with(|| Scheduler::new(event_log.setup().expect("a head").clone()).expect("a setup"));
            let mut actions = Vec::new();
            core.handle(record.now, &record.event, &mut actions);
            assert_eq!(actions, record.actions, "record {}", event_log.records());
        }
        let core = core.expect("something happened");
        core.state().check().expect("sound state");
        assert_eq!(core.state().live_count(), 0, "every job is over");
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
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
}
