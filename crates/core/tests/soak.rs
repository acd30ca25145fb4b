//! Random clusters, jobs, faults and answers under every policy, watched by a checker that knows nothing of the core's insides.
//!
//! The body here is as unruly as a body may be: answers come late and in any order, tasks fail, nodes vanish and come back, jobs are taken
//! back. A case is a seed and a policy; a failure prints both.

use giveway_core::event_log::{EventLogReader, EventLogWriter};
use giveway_core::policy::catalog;
use giveway_core::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// What the body does next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Submit(u32),
    TakeBack(u32),
    Beat(u32),
    Lose(u32),
    Return(u32),
    End(AttemptId),
    Answer(AttemptId, Answer),
    Timer(Timer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Pause,
    EndEarly,
    Kill,
}

/// An attempt as the body sees it.
struct Running {
    node: u32,
    work: Work,
    begin: u64,
    end: u64,
    /// A reduce that has had all map output of its job at hand at once.
    fetched: bool,
}

/// What the checker knows of a job.
struct Watched {
    splits: Vec<u64>,
    reduces: u32,
    /// Finished byte ranges of each split, and where their output lies: length, node, and which of the node's lives.
    mapped: BTreeMap<(u32, u64), (u64, u32, u32)>,
    reduced: BTreeSet<u32>,
    closed: bool,
}

struct Body {
    core: Scheduler,
    random: Pcg64Mcg,
    now: u64,
    seq: u64,
    queue: BinaryHeap<std::cmp::Reverse<(u64, u64, Next)>>,
    slots: Vec<[u16; 2]>,
    up: Vec<bool>,
    /// How often each node was lost: output written in an earlier life is gone.
    life: Vec<u32>,
    /// Whether a paused reduce had fetched everything.
    kept: BTreeMap<(JobId, u32), bool>,
    used: Vec<[u16; 2]>,
    running: BTreeMap<AttemptId, Running>,
    launched: BTreeSet<AttemptId>,
    /// Attempts that were outrun: what they still finish is not kept.
    outrun: BTreeSet<AttemptId>,
    jobs: BTreeMap<u32, Watched>,
    specs: Vec<JobSpec>,
    losses_left: u32,
    preemptions_since_finish: u32,
    event_log: Vec<(Time, Event, Vec<Action>)>,
}

const MB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000;

impl Body {
    fn new(policy: &str, seed: u64) -> Body {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let nodes = random.random_range(2..10u32);
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
        if random.random_bool(0.3) {
            policy.speculation = Some(policy::Speculation { rate_below: 0.7, min_runtime: Span::from_secs(5) });
        }
        let setup = Setup { tenants, seed, ..Setup::new(policy) };
        let jobs = random.random_range(1..12u32);
        let mut body = Body {
            core: Scheduler::new(setup).unwrap(),
            now: 0,
            seq: 0,
            queue: BinaryHeap::new(),
            slots: (0..nodes).map(|_| [random.random_range(1..4), random.random_range(1..3)]).collect(),
            up: vec![false; nodes as usize],
            life: vec![0; nodes as usize],
            kept: BTreeMap::new(),
            used: vec![[0; 2]; nodes as usize],
            running: BTreeMap::new(),
            launched: BTreeSet::new(),
            outrun: BTreeSet::new(),
            jobs: BTreeMap::new(),
            specs: Vec::new(),
            losses_left: random.random_range(0..4),
            preemptions_since_finish: 0,
            event_log: Vec::new(),
            random,
        };
        for node in 0..nodes {
            body.plan(0, Next::Return(node));
            body.plan(u64::from(node) * 100_000, Next::Beat(node));
        }
        for job in 0..jobs {
            let at = body.random.random_range(0..60 * SECOND);
            let spec = body.spec(job, nodes);
            body.specs.push(spec);
            body.plan(at, Next::Submit(job));
            if body.random.random_bool(0.1) {
                let later = at + body.random.random_range(0..100 * SECOND);
                body.plan(later, Next::TakeBack(job));
            }
        }
        for _ in 0..body.losses_left {
            let (at, node) = (body.random.random_range(0..150 * SECOND), body.random.random_range(0..nodes));
            body.plan(at, Next::Lose(node));
        }
        body
    }

    fn spec(&mut self, id: u32, nodes: u32) -> JobSpec {
        let r = &mut self.random;
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

    fn plan(&mut self, at: u64, next: Next) {
        self.seq += 1;
        self.queue.push(std::cmp::Reverse((at, self.seq, next)));
    }

    /// Tells the core, checks what it asks for, and does it.
    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        let now = Time(self.now);
        self.core.handle(now, &event, &mut actions);
        self.core.state().check().unwrap();
        for action in &actions {
            self.obey(action);
        }
        self.event_log.push((now, event, actions));
    }

    fn obey(&mut self, action: &Action) {
        match action.clone() {
            Action::Launch { attempt, node, work, .. } => self.launch(attempt, node.0, work),
            Action::Pause { attempt, node, reason } => self.order(attempt, node.0, Answer::Pause, reason),
            Action::EndEarly { attempt, node, reason } => self.order(attempt, node.0, Answer::EndEarly, reason),
            Action::Kill { attempt, node, reason } => self.order(attempt, node.0, Answer::Kill, reason),
            Action::SetTimer { timer, at } => self.plan(at.0, Next::Timer(timer)),
            Action::CloseJob { job, outcome } => self.close(job, outcome),
            Action::PlaceReplicas { .. } => {}
            Action::Refuse { refusal } => panic!("the body tells the truth, and is refused: {refusal}"),
        }
    }

    fn launch(&mut self, attempt: AttemptId, node: u32, work: Work) {
        let kind = attempt.task.kind;
        assert!(self.up[node as usize], "{attempt} launched on node {node}, which is down");
        assert!(self.launched.insert(attempt), "{attempt} launched twice");
        let used = &mut self.used[node as usize][kind.index()];
        *used += 1;
        assert!(*used <= self.slots[node as usize][kind.index()], "node {node} has no slot for {attempt}");
        let watched = self.jobs.get_mut(&attempt.task.job.0).unwrap();
        assert!(!watched.closed, "{attempt} launched though its job is over");
        let mut fetched = false;
        match work {
            Work::Map { split, start_bytes, bytes, .. } => {
                let life = &self.life;
                let has_reduces = watched.reduces > 0;
                watched.mapped.retain(|&(of, start), &mut (len, on, lived)| {
                    let again = of == split && start < start_bytes + bytes && start_bytes < start + len;
                    let gone = has_reduces && life[on as usize] != lived;
                    assert!(!again || gone, "{attempt} maps again what is there");
                    !again
                });
            }
            Work::Reduce { start } => {
                assert!(!watched.reduced.contains(&attempt.task.index), "{attempt} reduces again");
                if let Start::Resumed { .. } = start {
                    fetched = self.kept[&(attempt.task.job, attempt.task.index)];
                }
            }
        }
        let lasts = match self.random.random_range(0..10) {
            0 => self.random.random_range(1..60 * SECOND),
            _ => self.random.random_range(1..12 * SECOND),
        };
        let end = self.now + lasts;
        self.running.insert(attempt, Running { node, work, begin: self.now, end, fetched });
        self.plan(end, Next::End(attempt));
    }

    fn order(&mut self, attempt: AttemptId, node: u32, answer: Answer, reason: Reason) {
        assert_eq!(
            self.running.get(&attempt).map(|running| running.node),
            Some(node),
            "{attempt} asked, not running there"
        );
        if reason == Reason::OtherAttemptFinished {
            self.outrun.insert(attempt);
        }
        if matches!(reason, Reason::PreemptedFor { .. } | Reason::PreemptedForRecovery { .. }) {
            self.preemptions_since_finish += 1;
            let most = 50 * self.slots.iter().map(|slots| u32::from(slots[0] + slots[1])).sum::<u32>();
            assert!(self.preemptions_since_finish <= most, "preemption goes in circles");
        }
        let at = self.now + self.random.random_range(0..3 * SECOND);
        self.plan(at, Next::Answer(attempt, answer));
    }

    fn close(&mut self, job: JobId, outcome: Outcome) {
        let watched = self.jobs.get_mut(&job.0).unwrap();
        assert!(!watched.closed, "{job} closed twice");
        watched.closed = true;
        if outcome != Outcome::Succeeded {
            return;
        }
        for (split, &bytes) in watched.splits.iter().enumerate() {
            let mut covered = 0;
            for (&(_, start), &(len, ..)) in watched.mapped.range((split as u32, 0)..(split as u32 + 1, 0)) {
                assert_eq!(start, covered, "{job}: split {split} has a hole or an overlap");
                covered += len;
            }
            assert_eq!(covered, bytes, "{job}: split {split} is not mapped to its end");
        }
        assert_eq!(watched.reduced.len() as u32, watched.reduces, "{job}: reduces missing");
    }

    fn leave(&mut self, attempt: AttemptId) -> Option<Running> {
        let running = self.running.remove(&attempt)?;
        self.used[running.node as usize][attempt.task.kind.index()] -= 1;
        Some(running)
    }

    /// Notes what an attempt finished, and where it lies.
    fn credit(&mut self, attempt: AttemptId, running: &Running, bytes_done: u64) {
        self.preemptions_since_finish = 0;
        if self.outrun.contains(&attempt) {
            return;
        }
        let watched = self.jobs.get_mut(&attempt.task.job.0).unwrap();
        match running.work {
            // A twin that finishes after the first changes nothing.
            Work::Map { split, start_bytes, .. } => {
                let life = self.life[running.node as usize];
                watched.mapped.entry((split, start_bytes)).or_insert((bytes_done, running.node, life));
            }
            Work::Reduce { .. } => {
                watched.reduced.insert(attempt.task.index);
            }
        }
    }

    fn step(&mut self, next: Next) {
        match next {
            Next::Submit(job) => {
                let spec = self.specs[job as usize].clone();
                let splits = spec.splits.iter().map(|split| split.bytes).collect();
                let watched = Watched {
                    splits,
                    reduces: spec.reduces,
                    mapped: BTreeMap::new(),
                    reduced: BTreeSet::new(),
                    closed: false,
                };
                self.jobs.insert(job, watched);
                self.tell(Event::JobSubmitted(Box::new(spec)));
            }
            Next::TakeBack(job) => {
                if !self.jobs[&job].closed {
                    self.tell(Event::JobKilled { job: JobId(job) });
                }
            }
            Next::Beat(node) => {
                if self.up[node as usize] {
                    self.beat(node);
                }
                self.plan(self.now + 3 * SECOND, Next::Beat(node));
            }
            Next::Lose(node) => self.lose(node),
            Next::Return(node) => {
                if !self.up[node as usize] {
                    self.come_up(node);
                }
            }
            Next::End(attempt) => self.end(attempt),
            Next::Answer(attempt, answer) => self.answer(attempt, answer),
            Next::Timer(timer) => self.tell(Event::TimerFired { timer }),
        }
    }

    fn beat(&mut self, node: u32) {
        self.fetch();
        let on_node = self.running.iter().filter(|(_, running)| running.node == node);
        let progress =
            on_node.map(|(&attempt, running)| Progress { attempt, progress_ppm: self.progress_ppm(running) }).collect();
        self.tell(Event::SlotsOffered { node: NodeId(node), progress });
    }

    /// Reduces whose job's maps are all there have now fetched everything.
    fn fetch(&mut self) {
        for (attempt, running) in self.running.iter_mut().filter(|(attempt, _)| attempt.task.kind == Kind::Reduce) {
            let watched = &self.jobs[&attempt.task.job.0];
            let there = |&(_, on, lived): &&(u64, u32, u32)| self.up[*on as usize] && self.life[*on as usize] == *lived;
            let mapped: u64 = watched.mapped.values().filter(there).map(|&(len, ..)| len).sum();
            let tasks = self
                .core
                .state()
                .find(attempt.task.job)
                .map_or(0, |jx| self.core.state().job(jx).counts(Kind::Map).pending);
            running.fetched |= mapped == watched.splits.iter().sum::<u64>() && tasks == 0;
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

    fn lose(&mut self, node: u32) {
        // One node stays up, or nothing could ever finish.
        if !self.up[node as usize] || self.up.iter().filter(|&&up| up).count() < 2 {
            return;
        }
        self.up[node as usize] = false;
        self.used[node as usize] = [0; 2];
        self.running.retain(|_, running| running.node != node);
        self.life[node as usize] += 1;
        let back = self.now + self.random.random_range(0..60 * SECOND);
        self.plan(back, Next::Return(node));
        self.tell(Event::NodeLost { node: NodeId(node) });
    }

    fn come_up(&mut self, node: u32) {
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
        self.tell(Event::NodeJoined { node: NodeId(node), spec });
    }

    fn end(&mut self, attempt: AttemptId) {
        self.fetch();
        let Some(running) = self.running.get(&attempt) else { return };
        if attempt.task.kind == Kind::Reduce && !running.fetched {
            self.plan(self.now + SECOND, Next::End(attempt));
            return;
        }
        let running = self.leave(attempt).unwrap();
        if self.random.random_bool(0.01) {
            self.tell(Event::AttemptFailed { attempt });
            return;
        }
        let bytes = match running.work {
            Work::Map { bytes, .. } => bytes,
            Work::Reduce { .. } => 0,
        };
        self.credit(attempt, &running, bytes);
        self.tell(Event::AttemptFinished { attempt, output_bytes: bytes / 2 });
    }

    fn answer(&mut self, attempt: AttemptId, answer: Answer) {
        let Some(running) = self.leave(attempt) else { return };
        let done = ((self.now - running.begin) as f64 / (running.end - running.begin).max(1) as f64).min(1.0);
        match (answer, running.work) {
            (Answer::Pause, _) => {
                self.kept.insert((attempt.task.job, attempt.task.index), running.fetched);
                self.tell(Event::AttemptPaused { attempt, progress_ppm: self.progress_ppm(&running) });
            }
            (Answer::Kill, _) => self.tell(Event::AttemptKilled { attempt }),
            (Answer::EndEarly, Work::Map { bytes, .. }) => {
                let done_bytes = (bytes as f64 * done) as u64;
                if done_bytes > 0 {
                    self.credit(attempt, &running, done_bytes);
                }
                self.tell(Event::AttemptEndedEarly { attempt, done_bytes, output_bytes: done_bytes / 2 });
            }
            (Answer::EndEarly, work) => panic!("{attempt}: {work:?} cannot end early"),
        }
    }

    fn run(mut self) -> Body {
        let deadline = 20_000 * SECOND;
        while let Some(std::cmp::Reverse((at, _, next))) = self.queue.pop() {
            self.now = at;
            assert!(at < deadline, "a job starves: {:?}", self.unfinished());
            self.step(next);
            let all_here = self.jobs.len() == self.specs.len();
            if all_here && self.jobs.values().all(|watched| watched.closed) && self.running.is_empty() {
                return self;
            }
        }
        unreachable!("beats never end")
    }

    /// What the core knows of the jobs that are not over.
    fn unfinished(&self) -> Vec<String> {
        let state = self.core.state();
        let open = self.jobs.iter().filter(|(_, watched)| !watched.closed);
        let facts = open.filter_map(|(&id, _)| Some((id, state.job(state.find(JobId(id))?))));
        facts
            .map(|(id, job)| {
                format!("job {id}: {:?}, paused {:?}", Kind::BOTH.map(|kind| job.counts(kind)), job.paused())
            })
            .collect()
    }
}

/// The same events give the same actions, also after a journey through the event log.
fn replays(body: &Body) {
    let (mut writer, mut bytes) = EventLogWriter::begin(body.core.setup()).unwrap();
    for (now, event, actions) in &body.event_log {
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
    assert_eq!(count, body.event_log.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("SOAK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400), failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_work_is_done_once_and_nobody_starves(seed in any::<u64>(), which in 0..catalog::all_names().len()) {
        let name = &catalog::all_names()[which];
        let run = std::panic::catch_unwind(|| replays(&Body::new(name, seed).run()));
        prop_assert!(run.is_ok(), "policy {name}, seed {seed}");
    }
}

/// Runs one case again: `SOAK_POLICY=fcs SOAK_SEED=7 cargo test -p giveway-core --test soak one_case`.
#[test]
fn one_case() {
    let policy = std::env::var("SOAK_POLICY").unwrap_or_else(|_| "fcs".into());
    let seed = std::env::var("SOAK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    replays(&Body::new(&policy, seed).run());
}
