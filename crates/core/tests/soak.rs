//! Random clusters, jobs and faults under every policy, with a checker that is independent of the core's implementation.
//!
//! The backend uses all the freedom that the contract gives it: it carries out stop requests late and in any order, attempts fail, nodes are
//! lost and join again, jobs are killed. A case is a seed and a policy; a failure prints both.

use giveway_core::event_log::{EventLogReader, EventLogWriter};
use giveway_core::policy::catalog;
use giveway_core::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A planned step of the backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    SubmitJob(u32),
    KillJob(u32),
    OfferSlots(u32),
    LoseNode(u32),
    JoinNode(u32),
    DrainNode(u32),
    IncludeNode(u32),
    FinishAttempt(AttemptId),
    StopAttempt(AttemptId, StopMode),
    FireTimer(Timer),
    Restart,
    Snapshot,
}

/// How an attempt was requested to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StopMode {
    Pause,
    EndEarly,
    Kill,
}

/// A running attempt, as the backend knows it. Times are in microseconds.
struct Running {
    node: u32,
    work: Work,
    begin: u64,
    end: u64,
    /// True once a reduce has been able to fetch all map output of its job.
    fetched: bool,
}

/// The results of a job, as the checker knows them.
struct JobResults {
    splits: Vec<u64>,
    reduces: u32,
    /// Mapped byte ranges: (split, first byte) to (length, node of the output, incarnation of that node).
    mapped_ranges: BTreeMap<(u32, u64), (u64, u32, u32)>,
    finished_reduces: BTreeSet<u32>,
    closed: bool,
}

/// A backend driven by random numbers, with the checker's records. Times are in microseconds.
struct RandomBackend {
    core: Scheduler,
    /// Gets the recorded actions instead of deciding.
    recovered: Cluster,
    /// The same with another policy, as a release that decides otherwise.
    recovered_otherwise: Cluster,
    /// Continues from the last snapshot, and must decide the same.
    restored: Option<Scheduler>,
    rng: Pcg64Mcg,
    now: u64,
    seq: u64,
    queue: BinaryHeap<std::cmp::Reverse<(u64, u64, Step)>>,
    slots: Vec<[u16; 2]>,
    up: Vec<bool>,
    /// How often each node was lost. Output of an earlier incarnation is lost too.
    incarnation: Vec<u32>,
    /// By paused reduce: whether it had fetched all map output.
    paused_fetched: BTreeMap<(JobId, u32), bool>,
    used: Vec<[u16; 2]>,
    running: BTreeMap<AttemptId, Running>,
    launched: BTreeSet<AttemptId>,
    /// Attempts whose task another attempt finished. Their results do not count.
    superseded: BTreeSet<AttemptId>,
    jobs: BTreeMap<u32, JobResults>,
    specs: Vec<JobSpec>,
    losses_left: u32,
    preemptions_since_finish: u32,
    event_log: Vec<(Time, Event, Vec<Action>)>,
}

/// What has happened, without what a policy reserved, computed and observed.
fn facts(core: &Cluster) -> String {
    let state = core.state();
    state.check().unwrap();
    let mut text = String::new();
    for (id, node) in state.nodes().iter() {
        let exclusion = node.exclusion();
        let mut running = Kind::BOTH.map(|kind| {
            let attempts = node.running(kind).iter().map(|of| (state.job(of.job).id(), of.task, of.number));
            attempts.collect::<Vec<_>>()
        });
        running.iter_mut().for_each(|attempts| attempts.sort_unstable());
        let paused: BTreeSet<_> = node.paused().iter().map(|&(job, reduce)| (state.job(job).id(), reduce)).collect();
        let (is_up, failures) = (node.is_up(), node.failures());
        text += &format!("{id}: {is_up} {running:?} {paused:?} {failures:?} {exclusion:?}\n");
    }
    for key in state.jobs().by_submission() {
        let job = state.job(key);
        text += &format!("{:?}: closed {}, {:?}\n", job.spec(), job.is_closed(), job.failed_on());
        text += &format!("{:?} {:?} {:?}\n", job.first_launch(), job.ended_service(), job.mapped_bytes());
        for kind in Kind::BOTH {
            let counts = job.counts(kind);
            let (pending, backing_off) = (counts.pending, counts.backing_off);
            text += &format!("{kind}: {pending} {backing_off} {} {:?}\n", counts.finished, counts.finished_time);
            for task in (0..job.task_end(kind)).map(|index| TaskKey { kind, index }) {
                let of = job.task(task);
                let at = (of.state() != state::TaskState::Pending).then_some((of.node(), of.launched()));
                let (progress, number, split) = (of.progress_ppm(), of.number(), of.split());
                let histories = (job.lost_with(task), job.last_failure(task), job.retry_at(task));
                let range = (kind == Kind::Map).then(|| (job.map_start_bytes(task.index), job.map_bytes(task.index)));
                text += &format!("  {:?} {at:?} {progress} {number} {split} {histories:?} {range:?}\n", of.state());
            }
        }
        let paused: Vec<u32> = job.paused().iter().map(|&(reduce, _)| reduce).collect();
        text += &format!("{paused:?} {:?} {:?}\n", job.lost_pending(), job.has_lost_work());
    }
    text
}

/// Slots of each node for maps and reduces. Sometimes some nodes have slots of one kind only, but never the first.
fn random_slots(rng: &mut Pcg64Mcg, seed: u64, nodes: u32) -> Vec<[u16; 2]> {
    let mut slots: Vec<[u16; 2]> = (0..nodes).map(|_| [rng.random_range(1..4), rng.random_range(1..3)]).collect();
    let mut kinds = Pcg64Mcg::seed_from_u64(seed ^ 1);
    if kinds.random_bool(0.2) {
        for node in &mut slots[1..] {
            let lacking = kinds.random_range(0..3);
            node.iter_mut().skip(lacking).take(1).for_each(|slots| *slots = 0);
        }
    }
    slots
}

const MB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000;

impl RandomBackend {
    fn new(policy: &str, seed: u64) -> RandomBackend {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let nodes = rng.random_range(2..10u32);
        let users =
            (0..3).map(|i| User { name: format!("u{i}"), weight: 1.0 + f64::from(i), min_share: i * 2 }).collect();
        let pool = |name: &str, capacity| Pool {
            name: name.into(),
            parent: None,
            weight: 1.0,
            min_maps: 1,
            min_reduces: 1,
            capacity: Some(capacity),
            max_capacity: 100.0,
            user_limit: 50.0,
        };
        let tenants = Tenants { users, pools: vec![pool("p0", 60.0), pool("p1", 40.0)] };
        let mut policy = catalog::by_name(policy).unwrap();
        if rng.random_bool(0.3) {
            let end_early = rng.random_bool(0.5);
            policy.speculation =
                Some(policy::Speculation { rate_below: 0.7, min_runtime: Span::from_secs(5), end_early });
        }
        // The rules for failures are facts of the cluster.
        let otherwise = Policy { failures: policy.failures, ..catalog::by_name("fifo").unwrap() };
        let setup = Setup { tenants, seed, ..Setup::new(policy) };
        let jobs = rng.random_range(1..12u32);
        let mut backend = RandomBackend {
            core: Scheduler::new(setup.clone()).unwrap(),
            recovered: Cluster::new(setup.clone()).unwrap(),
            recovered_otherwise: Cluster::new(Setup { policy: otherwise, ..setup }).unwrap(),
            restored: None,
            now: 0,
            seq: 0,
            queue: BinaryHeap::new(),
            slots: random_slots(&mut rng, seed, nodes),
            up: vec![false; nodes as usize],
            incarnation: vec![0; nodes as usize],
            paused_fetched: BTreeMap::new(),
            used: vec![[0; 2]; nodes as usize],
            running: BTreeMap::new(),
            launched: BTreeSet::new(),
            superseded: BTreeSet::new(),
            jobs: BTreeMap::new(),
            specs: Vec::new(),
            losses_left: rng.random_range(0..4),
            preemptions_since_finish: 0,
            event_log: Vec::new(),
            rng,
        };
        for node in 0..nodes {
            backend.plan(0, Step::JoinNode(node));
            backend.plan(u64::from(node) * 100_000, Step::OfferSlots(node));
        }
        for job in 0..jobs {
            let at = backend.rng.random_range(0..60 * SECOND);
            let spec = backend.spec(job, nodes);
            backend.specs.push(spec);
            backend.plan(at, Step::SubmitJob(job));
            if backend.rng.random_bool(0.1) {
                let kill_at = at + backend.rng.random_range(0..100 * SECOND);
                backend.plan(kill_at, Step::KillJob(job));
            }
        }
        for _ in 0..backend.rng.random_range(0..4) {
            let at = backend.rng.random_range(0..150 * SECOND);
            backend.plan(at, Step::Restart);
        }
        let mut snapshots = Pcg64Mcg::seed_from_u64(seed ^ 2);
        for _ in 0..snapshots.random_range(1..5) {
            backend.plan(snapshots.random_range(0..150 * SECOND), Step::Snapshot);
        }
        for _ in 0..snapshots.random_range(0..3) {
            let (at, node) = (snapshots.random_range(0..100 * SECOND), snapshots.random_range(0..nodes));
            backend.plan(at, Step::DrainNode(node));
            backend.plan(at + snapshots.random_range(0..60 * SECOND), Step::IncludeNode(node));
        }
        for _ in 0..backend.losses_left {
            let (at, node) = (backend.rng.random_range(0..150 * SECOND), backend.rng.random_range(0..nodes));
            backend.plan(at, Step::LoseNode(node));
        }
        backend
    }

    fn spec(&mut self, id: u32, nodes: u32) -> JobSpec {
        let r = &mut self.rng;
        let maps = if r.random_bool(0.5) { r.random_range(1..4) } else { r.random_range(4..40) };
        let host = |r: &mut Pcg64Mcg| NodeId(r.random_range(0..nodes));
        JobSpec {
            external_id: None,
            id: JobId(id),
            name: format!("j{id}"),
            user: format!("u{}", r.random_range(0..4)),
            pool: format!("p{}", r.random_range(0..3)),
            priority: Priority::Normal,
            splits: (0..maps)
                .map(|_| Split {
                    bytes: r.random_range(0..128 * MB),
                    hosts: (0..r.random_range(0..3)).map(|_| host(r)).collect(),
                })
                .collect(),
            reduces: r.random_range(0..6),
            slowstart_ppm: [0, 50_000, WHOLE_PPM][r.random_range(0..3)],
            hint: None,
            estimate_bias_ppm: r.random_range(600_000..1_400_000),
        }
    }

    fn plan(&mut self, at: u64, step: Step) {
        self.seq += 1;
        self.queue.push(std::cmp::Reverse((at, self.seq, step)));
    }

    /// Submits an event, checks the state and the actions, and carries the actions out.
    fn submit_event(&mut self, event: Event) {
        let mut actions = Vec::new();
        let now = Time(self.now);
        self.core.handle(now, &event, &mut actions);
        self.core.state().check().unwrap();
        if let Some(restored) = &mut self.restored {
            let mut same = Vec::new();
            restored.handle(now, &event, &mut same);
            assert_eq!(same, actions, "decided otherwise after a snapshot, at {now:?}: {event:?}");
        }
        self.recovered.apply_recorded(now, &event, &actions).unwrap();
        self.recovered_otherwise.apply_recorded(now, &event, &actions).unwrap();
        for action in &actions {
            self.carry_out(action);
        }
        self.event_log.push((now, event, actions));
    }

    fn carry_out(&mut self, action: &Action) {
        match action.clone() {
            Action::Launch { attempt, node, work, .. } => self.launch(attempt, node.0, work),
            Action::Pause { attempt, node, reason } => self.request_stop(attempt, node.0, StopMode::Pause, reason),
            Action::EndEarly { attempt, node, reason } => {
                self.request_stop(attempt, node.0, StopMode::EndEarly, reason)
            }
            Action::Kill { attempt, node, reason } => self.request_stop(attempt, node.0, StopMode::Kill, reason),
            Action::SetTimer { timer, at } => self.plan(at.0, Step::FireTimer(timer)),
            Action::CloseJob { job, outcome } => self.close(job, outcome),
            Action::PlaceReplicas { .. } => {}
            Action::Refuse { refusal } => panic!("the core refused a correct event: {refusal}"),
        }
    }

    fn launch(&mut self, attempt: AttemptId, node: u32, work: Work) {
        let kind = attempt.task.kind;
        assert!(self.up[node as usize], "{attempt} launched on node {node}, which is down");
        assert!(self.launched.insert(attempt), "{attempt} launched twice");
        let used = &mut self.used[node as usize][kind.index()];
        *used += 1;
        assert!(*used <= self.slots[node as usize][kind.index()], "node {node} has no slot for {attempt}");
        let results = self.jobs.get_mut(&attempt.task.job.0).unwrap();
        assert!(!results.closed, "{attempt} launched after its job ended");
        let mut fetched = false;
        match work {
            Work::Map { split, start_bytes, bytes, .. } => {
                let current = &self.incarnation;
                let has_reduces = results.reduces > 0;
                results.mapped_ranges.retain(|&(of, start), &mut (len, on, incarnation)| {
                    let overlaps = of == split && start < start_bytes + bytes && start_bytes < start + len;
                    let lost = has_reduces && current[on as usize] != incarnation;
                    assert!(!overlaps || lost, "{attempt} maps a range whose output exists");
                    !overlaps
                });
            }
            Work::Reduce { start } => {
                assert!(
                    !results.finished_reduces.contains(&attempt.task.index),
                    "{attempt} runs a finished reduce again"
                );
                if let Start::Resumed { .. } = start {
                    fetched = self.paused_fetched[&(attempt.task.job, attempt.task.index)];
                }
            }
        }
        let duration = match self.rng.random_range(0..10) {
            0 => self.rng.random_range(1..60 * SECOND),
            _ => self.rng.random_range(1..12 * SECOND),
        };
        let end = self.now + duration;
        self.running.insert(attempt, Running { node, work, begin: self.now, end, fetched });
        self.plan(end, Step::FinishAttempt(attempt));
    }

    fn request_stop(&mut self, attempt: AttemptId, node: u32, mode: StopMode, reason: Reason) {
        assert_eq!(
            self.running.get(&attempt).map(|running| running.node),
            Some(node),
            "{attempt} was requested to stop but does not run on the node"
        );
        if reason == Reason::OtherAttemptFinished {
            self.superseded.insert(attempt);
        }
        if reason.is_preemption() {
            self.preemptions_since_finish += 1;
            let limit = 50 * self.slots.iter().map(|slots| u32::from(slots[0] + slots[1])).sum::<u32>();
            assert!(self.preemptions_since_finish <= limit, "preemption cycles");
        }
        let at = self.now + self.rng.random_range(0..3 * SECOND);
        self.plan(at, Step::StopAttempt(attempt, mode));
    }

    fn close(&mut self, job: JobId, outcome: Outcome) {
        let results = self.jobs.get_mut(&job.0).unwrap();
        assert!(!results.closed, "{job} closed twice");
        results.closed = true;
        if outcome != Outcome::Succeeded {
            return;
        }
        for (split, &bytes) in results.splits.iter().enumerate() {
            let mut covered = 0;
            for (&(_, start), &(len, ..)) in results.mapped_ranges.range((split as u32, 0)..(split as u32 + 1, 0)) {
                assert_eq!(start, covered, "{job}: split {split} has a gap or an overlap");
                covered += len;
            }
            assert_eq!(covered, bytes, "{job}: split {split} is not mapped to its end");
        }
        assert_eq!(results.finished_reduces.len() as u32, results.reduces, "{job}: reduces missing");
    }

    fn remove_running(&mut self, attempt: AttemptId) -> Option<Running> {
        let running = self.running.remove(&attempt)?;
        self.used[running.node as usize][attempt.task.kind.index()] -= 1;
        Some(running)
    }

    /// Records what an attempt finished, and where its output is.
    fn record_result(&mut self, attempt: AttemptId, running: &Running, bytes_done: u64) {
        self.preemptions_since_finish = 0;
        if self.superseded.contains(&attempt) {
            return;
        }
        let results = self.jobs.get_mut(&attempt.task.job.0).unwrap();
        match running.work {
            // If two attempts finish the same range, the first result counts.
            Work::Map { split, start_bytes, .. } => {
                let incarnation = self.incarnation[running.node as usize];
                results.mapped_ranges.entry((split, start_bytes)).or_insert((bytes_done, running.node, incarnation));
            }
            Work::Reduce { .. } => {
                results.finished_reduces.insert(attempt.task.index);
            }
        }
    }

    fn execute(&mut self, step: Step) {
        match step {
            Step::SubmitJob(job) => {
                let spec = self.specs[job as usize].clone();
                let splits = spec.splits.iter().map(|split| split.bytes).collect();
                let results = JobResults {
                    splits,
                    reduces: spec.reduces,
                    mapped_ranges: BTreeMap::new(),
                    finished_reduces: BTreeSet::new(),
                    closed: false,
                };
                self.jobs.insert(job, results);
                self.submit_event(Event::JobSubmitted(Box::new(spec)));
            }
            Step::KillJob(job) => {
                if !self.jobs[&job].closed {
                    self.submit_event(Event::JobKilled { job: JobId(job) });
                }
            }
            Step::OfferSlots(node) => {
                if self.up[node as usize] {
                    self.offer_slots(node);
                }
                self.plan(self.now + 3 * SECOND, Step::OfferSlots(node));
            }
            Step::LoseNode(node) => self.lose_node(node),
            Step::JoinNode(node) => {
                if !self.up[node as usize] {
                    self.join(node);
                }
            }
            Step::DrainNode(node) => self.set_drained(node, true),
            Step::IncludeNode(node) => self.set_drained(node, false),
            Step::FinishAttempt(attempt) => self.finish(attempt),
            Step::StopAttempt(attempt, mode) => self.stop(attempt, mode),
            Step::FireTimer(timer) => self.submit_event(Event::TimerFired { timer }),
            Step::Restart => self.restart(),
            Step::Snapshot => self.take_snapshot(),
        }
    }

    fn set_drained(&mut self, node: u32, drained: bool) {
        let node = NodeId(node);
        // It may not have joined yet.
        if self.core.nodes().any(|known| known.id == node) {
            self.submit_event(if drained { Event::NodeDrained { node } } else { Event::NodeIncluded { node } });
        }
    }

    /// Another scheduler continues from what the first one knows now. A snapshot of it is the same.
    fn take_snapshot(&mut self) {
        let snapshot = self.core.snapshot();
        let bytes = postcard::to_allocvec(&snapshot).unwrap();
        let read = postcard::from_bytes(&bytes).unwrap();
        let mut restored = Scheduler::new(self.core.setup().clone()).unwrap();
        let mut actions = Vec::new();
        restored.handle(Time(self.now), &Event::Restored(Box::new(read)), &mut actions);
        let is_timer = |action: &Action| matches!(action, Action::SetTimer { .. });
        assert!(actions.iter().all(is_timer), "{actions:?}");
        restored.state().check().unwrap();
        let again = restored.snapshot();
        assert_eq!(again.timers, snapshot.timers);
        assert_eq!(again.policy, snapshot.policy);
        assert_eq!(again.work_ahead_s, snapshot.work_ahead_s);
        assert!(again == snapshot, "{again:?}\n{snapshot:?}");
        again.numbered().0.state.check().unwrap();
        self.restored = Some(restored);
    }

    /// Continues as a restarted backend does: from the recorded actions. They must have given the same facts as the decisions.
    fn restart(&mut self) {
        assert_eq!(facts(&self.recovered), facts(&self.core));
        assert_eq!(facts(&self.recovered_otherwise), facts(&self.core));
        let snapshot = self.recovered.snapshot();
        self.restore_damaged(&snapshot);
        self.submit_event(Event::Restored(Box::new(snapshot)));
        assert_eq!(facts(&self.recovered), facts(&self.core));
    }

    /// A snapshot with a wrong byte is refused, or still describes a cluster.
    fn restore_damaged(&mut self, snapshot: &Snapshot) {
        let mut bytes = postcard::to_allocvec(snapshot).unwrap();
        let at = self.rng.random_range(0..bytes.len());
        bytes[at] = self.rng.random();
        let Ok(damaged) = postcard::from_bytes::<Snapshot>(&bytes) else { return };
        let mut core = Scheduler::new(self.core.setup().clone()).unwrap();
        core.handle(Time(self.now), &Event::Restored(Box::new(damaged)), &mut Vec::new());
        core.state().check().unwrap();
    }

    fn offer_slots(&mut self, node: u32) {
        self.update_fetched();
        let on_node = self.running.iter().filter(|(_, running)| running.node == node);
        let progress =
            on_node.map(|(&attempt, running)| Progress { attempt, progress_ppm: self.progress_ppm(running) }).collect();
        self.submit_event(Event::SlotsOffered { node: NodeId(node), progress });
    }

    /// Marks the reduces that can have fetched everything: all map output of their job exists on nodes that are up.
    fn update_fetched(&mut self) {
        for (attempt, running) in self.running.iter_mut().filter(|(attempt, _)| attempt.task.kind == Kind::Reduce) {
            let results = &self.jobs[&attempt.task.job.0];
            let exists = |&(_, on, incarnation): &&(u64, u32, u32)| {
                self.up[*on as usize] && self.incarnation[*on as usize] == *incarnation
            };
            let mapped: u64 = results.mapped_ranges.values().filter(exists).map(|&(len, ..)| len).sum();
            let pending_maps = self
                .core
                .state()
                .find(attempt.task.job)
                .map_or(0, |jx| self.core.state().job(jx).counts(Kind::Map).pending);
            running.fetched |= mapped == results.splits.iter().sum::<u64>() && pending_maps == 0;
        }
    }

    fn progress_ppm(&self, running: &Running) -> u32 {
        let done = ((self.now - running.begin) as f64 / (running.end - running.begin).max(1) as f64).min(1.0);
        let ppm = match running.work {
            Work::Map { .. } => done * 1e6,
            Work::Reduce { .. } if running.fetched => 340_000.0 + done * 660_000.0,
            Work::Reduce { .. } => done * 330_000.0,
        };
        ppm as u32
    }

    fn lose_node(&mut self, node: u32) {
        // One node stays up, so that every job can finish.
        if !self.up[node as usize] || self.up.iter().filter(|&&up| up).count() < 2 {
            return;
        }
        self.up[node as usize] = false;
        self.used[node as usize] = [0; 2];
        self.running.retain(|_, running| running.node != node);
        self.incarnation[node as usize] += 1;
        let return_at = self.now + self.rng.random_range(0..60 * SECOND);
        self.plan(return_at, Step::JoinNode(node));
        self.submit_event(Event::NodeLost { node: NodeId(node) });
    }

    fn join(&mut self, node: u32) {
        self.up[node as usize] = true;
        let [map_slots, reduce_slots] = self.slots[node as usize];
        let spec = NodeSpec {
            name: format!("n{node}"),
            rack: RackId(node % 2),
            map_slots,
            reduce_slots,
            speed_ppm: if node.is_multiple_of(3) { 250_000 } else { WHOLE_PPM },
            disk_bytes_per_s: 100 * MB,
            disk_bytes: 1 << 40,
        };
        self.submit_event(Event::NodeJoined { node: NodeId(node), spec });
    }

    fn finish(&mut self, attempt: AttemptId) {
        self.update_fetched();
        let Some(running) = self.running.get(&attempt) else { return };
        if attempt.task.kind == Kind::Reduce && !running.fetched {
            self.plan(self.now + SECOND, Step::FinishAttempt(attempt));
            return;
        }
        let running = self.remove_running(attempt).unwrap();
        if self.rng.random_bool(0.01) {
            self.submit_event(Event::AttemptFailed { attempt });
            return;
        }
        let bytes = match running.work {
            Work::Map { bytes, .. } => bytes,
            Work::Reduce { .. } => 0,
        };
        self.record_result(attempt, &running, bytes);
        self.submit_event(Event::AttemptFinished { attempt, output_bytes: bytes / 2 });
    }

    fn stop(&mut self, attempt: AttemptId, mode: StopMode) {
        let Some(running) = self.remove_running(attempt) else { return };
        let done = ((self.now - running.begin) as f64 / (running.end - running.begin).max(1) as f64).min(1.0);
        match (mode, running.work) {
            (StopMode::Pause, _) => {
                self.paused_fetched.insert((attempt.task.job, attempt.task.index), running.fetched);
                self.submit_event(Event::AttemptPaused { attempt, progress_ppm: self.progress_ppm(&running) });
            }
            (StopMode::Kill, _) => self.submit_event(Event::AttemptKilled { attempt }),
            (StopMode::EndEarly, Work::Map { bytes, .. }) => {
                let done_bytes = (bytes as f64 * done) as u64;
                if done_bytes > 0 {
                    self.record_result(attempt, &running, done_bytes);
                }
                self.submit_event(Event::AttemptEndedEarly { attempt, done_bytes, output_bytes: done_bytes / 2 });
            }
            (StopMode::EndEarly, work) => panic!("{attempt}: {work:?} cannot end early"),
        }
    }

    fn run(mut self) -> RandomBackend {
        let deadline = 20_000 * SECOND;
        while let Some(std::cmp::Reverse((at, _, step))) = self.queue.pop() {
            self.now = at;
            assert!(at < deadline, "jobs did not finish in time: {:?}", self.unfinished());
            self.execute(step);
            let all_submitted = self.jobs.len() == self.specs.len();
            if all_submitted && self.jobs.values().all(|results| results.closed) && self.running.is_empty() {
                return self;
            }
        }
        unreachable!("offers are planned without end")
    }

    /// The task counts of the jobs that have not ended.
    fn unfinished(&self) -> Vec<String> {
        let state = self.core.state();
        let unclosed = self.jobs.iter().filter(|(_, results)| !results.closed);
        let live = unclosed.filter_map(|(&id, _)| Some((id, state.job(state.find(JobId(id))?))));
        live.map(|(id, job)| {
            format!("job {id}: {:?}, paused {:?}", Kind::BOTH.map(|kind| job.counts(kind)), job.paused())
        })
        .collect()
    }
}

/// Writes the run to an event log, reads it back and replays it: the same events must give the same actions.
fn check_replay(backend: &RandomBackend) {
    let (mut writer, mut bytes) = EventLogWriter::begin(backend.core.setup()).unwrap();
    for (now, event, actions) in &backend.event_log {
        writer.record(*now, event, actions, &mut bytes).unwrap();
    }
    writer.close(&mut bytes);
    let reader = EventLogReader::open(&bytes).unwrap();
    let mut core = Scheduler::new(reader.setup().clone()).unwrap();
    let mut count = 0;
    for record in reader {
        let record = record.unwrap();
        let mut actions = Vec::new();
        core.handle(record.now, &record.event, &mut actions);
        assert_eq!(actions, record.actions, "record {count}");
        count += 1;
    }
    assert_eq!(count, backend.event_log.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("SOAK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400), failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn all_work_is_done_once_and_no_job_starves(seed in any::<u64>(), which in 0..catalog::all_names().len()) {
        let name = &catalog::all_names()[which];
        let run = std::panic::catch_unwind(|| check_replay(&RandomBackend::new(name, seed).run()));
        prop_assert!(run.is_ok(), "policy {name}, seed {seed}");
    }
}

/// Three tasks of a job fail on the only node on which strict matching lets it run.
#[test]
fn a_job_does_not_avoid_its_only_suggested_node() {
    check_replay(&RandomBackend::new("coshh-strict", 4_782_591_560_112_575_666).run());
}

/// A job for which a slot is being freed is killed, and another node has a slot that no other job uses.
#[test]
fn a_killed_job_takes_no_slot() {
    check_replay(&RandomBackend::new("chronos(fcs-kill)", 7_287_966_691_106_533_735).run());
}

/// A snapshot is taken while no node is up.
#[test]
fn a_snapshot_without_nodes_holds_the_work_ahead_of_each_job() {
    check_replay(&RandomBackend::new("giveway", 2_085_257_758_626_757_133).run());
}

/// A job that waits for a local node gets a slot that nobody else uses: its wait has ended, also for the nodes that skip jobs that wait.
#[test]
fn a_job_with_a_slot_that_was_reserved_elsewhere_waits_no_longer() {
    check_replay(&RandomBackend::new("giveway", 4_871_609_343_905_292_947).run());
}

/// The rank of a job for reduce slots depends on how many of its maps run.
#[test]
fn a_launched_map_changes_the_rank_for_reduce_slots() {
    check_replay(&RandomBackend::new("giveway", 12_385_997_843_027_816_734).run());
}

/// Runs one case again: `SOAK_POLICY=fcs SOAK_SEED=7 cargo test -p giveway-core --test soak one_case`.
#[test]
fn one_case() {
    let policy = std::env::var("SOAK_POLICY").unwrap_or_else(|_| "fcs".into());
    let seed = std::env::var("SOAK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    check_replay(&RandomBackend::new(&policy, seed).run());
}

/// Under `fifo` nothing is estimated. A scheduler with another policy must not rank by that.
#[test]
fn another_policy_computes_its_estimates_at_once() {
    let mut backend = RandomBackend::new("fifo", 7);
    backend.specs.truncate(2);
    for step in [Step::JoinNode(0), Step::SubmitJob(0), Step::SubmitJob(1)] {
        backend.execute(step);
    }
    let mut other = Scheduler::new(Setup::new(catalog::by_name("giveway").unwrap())).unwrap();
    let snapshot = backend.core.snapshot().for_other_setup();
    let mut actions = Vec::new();
    other.handle(Time(SECOND), &Event::Restored(Box::new(snapshot)), &mut actions);
    assert_eq!(refusal(&actions), None);
    other.state().check().unwrap();
    assert_eq!(other.state().jobs().len(), 2);
    assert!(other.state().jobs().iter().all(|(_, job)| job.estimate().task_work_s.iter().sum::<f64>() > 0.0));
    let is_set = |timer: Timer| {
        actions.iter().any(|action| matches!(action, Action::SetTimer { timer: set, .. } if *set == timer))
    };
    assert!(is_set(Timer::Estimates) && is_set(Timer::Preemption), "{actions:?}");
}

/// The work of a map is lost with a node and done again elsewhere, a snapshot is taken, and another map of the job fails: it runs first, as before the snapshot.
#[test]
fn a_snapshot_holds_that_work_was_lost() {
    check_replay(&RandomBackend::new("las", 1_873_440_111_054_075_546).run());
}

/// A job that is queued for no slots yet, with the key of one that was: there is no work ahead of it that a snapshot could not know.
#[test]
fn a_new_job_has_no_work_ahead_of_an_ended_one() {
    let mut core = Scheduler::new(Setup::new(catalog::by_name("giveway").unwrap())).unwrap();
    let mut handle = |event: Event| {
        core.handle(Time::ZERO, &event, &mut Vec::new());
        core.snapshot().work_ahead_s[Kind::Reduce].last().copied()
    };
    for (node, speed_ppm) in [(0, WHOLE_PPM), (1, WHOLE_PPM / 4)] {
        let (name, rack) = (String::new(), RackId(0));
        let (disk_bytes_per_s, disk_bytes) = (100 * MB, 1 << 40);
        let spec = NodeSpec { name, rack, map_slots: 1, reduce_slots: 1, speed_ppm, disk_bytes_per_s, disk_bytes };
        handle(Event::NodeJoined { node: NodeId(node), spec });
    }
    let job = |id, slowstart_ppm| {
        let splits = std::iter::repeat_n(Split { bytes: MB, hosts: Hosts::new() }, 10).collect();
        let (name, user, pool) = (String::new(), "ann".to_owned(), "ann".to_owned());
        let (external_id, hint, priority) = (None, None, Priority::Normal);
        let (reduces, estimate_bias_ppm) = (10, WHOLE_PPM);
        let id = JobId(id);
        let spec = JobSpec {
            id,
            name,
            external_id,
            user,
            pool,
            priority,
            splits,
            reduces,
            slowstart_ppm,
            hint,
            estimate_bias_ppm,
        };
        Event::JobSubmitted(Box::new(spec))
    };
    handle(job(0, 0));
    let (key, ahead_s) = handle(job(1, 0)).unwrap();
    assert!(ahead_s > 0.0, "the reduces of the first job are ahead");
    handle(Event::JobKilled { job: JobId(1) });
    assert_eq!(handle(job(2, WHOLE_PPM)), Some((key, 0.0)));
}
