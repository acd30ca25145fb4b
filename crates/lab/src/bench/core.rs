//! `giveway bench core`: latency of a scheduling decision, by policy and number of nodes, with 1,000 live jobs.
//!
//! The cluster is kept saturated: a random attempt finishes, its node offers the freed slot, and the scheduler assigns it. The measured decision is the
//! handling of that offer. Jobs that end are replaced, so that 1,000 are always live. Timers fire as the policy sets them and are measured separately.

use crate::text_table::TextTable;
use anyhow::Result;
use giveway_core::{
    Action, AttemptId, Event, JobId, JobSpec, Kind, NodeId, NodeSpec, Policy, Priority, RackId, Scheduler, Setup, Span,
    Split, Tenants, Time, Timers, User, WHOLE_PPM,
};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

const LIVE_JOBS: u32 = 1_000;
const BLOCK_BYTES: u64 = 128 << 20;

/// Runs the benchmark for these numbers of nodes.
pub fn run(policies: &[Policy], sizes: &[u32], decisions: u32) -> Result<()> {
    let by_size = |metric: &'static str| sizes.iter().map(move |nodes| format!("{metric}\n{nodes} nodes"));
    let mut header = vec!["policy".to_owned()];
    header.extend(["1000/s", "p50 µs", "p99 µs", "timer ms"].map(by_size).into_iter().flatten());
    header.push("cost\nratio".to_owned());
    let mut table = TextTable::new(header).numbers_from(1);
    for policy in policies {
        let mut measured = Vec::new();
        for &nodes in sizes {
            measured.push(measure(policy, nodes, decisions)?);
        }
        let mut row = vec![policy.name.clone()];
        row.extend(measured.iter().map(|m| format!("{:.0}", m.per_s() / 1e3)));
        row.extend(measured.iter().map(|m| format!("{:.2}", m.latency_ns.value_at_quantile(0.5) as f64 / 1e3)));
        row.extend(measured.iter().map(|m| format!("{:.2}", m.latency_ns.value_at_quantile(0.99) as f64 / 1e3)));
        let timer_ms = |m: &Measurement| m.timer_s.map_or("none".into(), |timer_s| format!("{:.1}", timer_s * 1e3));
        row.extend(measured.iter().map(timer_ms));
        let ends = measured.first().zip(measured.last());
        row.extend(ends.map(|(first, last)| format!("{:.2}x", first.per_s() / last.per_s())));
        table.add_row(row);
    }
    writeln!(
        std::io::stdout(),
        "{LIVE_JOBS} live jobs on a saturated cluster. 1000/s: thousand decisions per second; a decision is the assignment of a freed slot. timer: mean time to handle a timer. cost ratio: cost of a decision with the last number of nodes over the first.\n{table}"
    )?;
    Ok(())
}

struct Measurement {
    latency_ns: Histogram<u64>,
    /// Mean time to handle a timer; `None` if the policy sets no timer.
    timer_s: Option<f64>,
}

impl Measurement {
    fn per_s(&self) -> f64 {
        1e9 / self.latency_ns.mean()
    }
}

/// A backend that performs every action at once and keeps the cluster saturated.
struct SaturatedCluster {
    core: Scheduler,
    rng: Pcg64Mcg,
    now: Time,
    nodes: u32,
    jobs: u32,
    /// Running attempts and their nodes.
    running: Vec<(AttemptId, NodeId)>,
    positions: HashMap<AttemptId, usize>,
    timers: Timers,
    actions: Vec<Action>,
    /// Times to handle each timer, in seconds.
    timer_s: Vec<f64>,
    maps_per_job: u32,
}

fn measure(policy: &Policy, nodes: u32, decisions: u32) -> Result<Measurement> {
    let mut cluster = SaturatedCluster::new(policy, nodes)?;
    // Warm-up.
    for _ in 0..decisions / 4 {
        cluster.step();
    }
    cluster.timer_s.clear();
    let mut latency_ns = Histogram::<u64>::new(3)?;
    for _ in 0..decisions {
        latency_ns.record(cluster.step())?;
    }
    let timers = cluster.timer_s.len();
    let timer_s = (timers > 0).then(|| cluster.timer_s.iter().sum::<f64>() / timers as f64);
    Ok(Measurement { latency_ns, timer_s })
}

impl SaturatedCluster {
    fn new(policy: &Policy, nodes: u32) -> Result<SaturatedCluster> {
        let users = (0..10).map(|i| User { name: format!("u{i}"), weight: 1.0, min_share: 0 }).collect();
        let setup = Setup { tenants: Tenants { users, pools: Vec::new() }, ..Setup::new(policy.clone()) };
        let mut cluster = SaturatedCluster {
            core: Scheduler::new(setup)?,
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
            nodes,
            jobs: 0,
            running: Vec::new(),
            positions: HashMap::new(),
            timers: Timers::default(),
            actions: Vec::new(),
            timer_s: Vec::new(),
            // Enough to saturate the cluster at every size.
            maps_per_job: 100 + nodes * 16 / LIVE_JOBS,
        };
        for node in 0..nodes {
            let spec = NodeSpec {
                name: format!("n{node}"),
                rack: RackId(node % 25),
                map_slots: 8,
                reduce_slots: 2,
                speed_ppm: if node % 2 == 0 { WHOLE_PPM } else { WHOLE_PPM / 2 },
                disk_bytes_per_s: 100 << 20,
                disk_bytes: 1 << 40,
            };
            cluster.handle(&Event::NodeJoined { node: NodeId(node), spec });
        }
        (0..LIVE_JOBS).for_each(|_| cluster.submit());
        for _ in 0..8 {
            cluster.now = cluster.now + Span::from_secs(3);
            for node in 0..nodes {
                cluster.handle(&Event::SlotsOffered { node: NodeId(node), progress: Vec::new() });
            }
        }
        Ok(cluster)
    }

    /// Passes an event to the scheduler and performs the returned actions. Returns the time the scheduler took.
    fn handle(&mut self, event: &Event) -> Duration {
        let mut actions = std::mem::take(&mut self.actions);
        let start = Instant::now();
        self.core.handle(self.now, event, &mut actions);
        let elapsed = start.elapsed();
        // Events that follow from the actions; `None` stands for the submission of a replacement job.
        let mut follow_ups = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Launch { attempt, node, .. } => {
                    self.positions.insert(attempt, self.running.len());
                    self.running.push((attempt, node));
                }
                Action::SetTimer { timer, at } => self.timers.set(timer, at),
                Action::CloseJob { .. } => follow_ups.push(None),
                Action::Pause { attempt, .. } => {
                    follow_ups.push(Some(Event::AttemptPaused { attempt, progress_ppm: 1 }));
                }
                Action::Kill { attempt, .. } => follow_ups.push(Some(Event::AttemptKilled { attempt })),
                Action::EndEarly { attempt, .. } => {
                    follow_ups.push(Some(Event::AttemptEndedEarly { attempt, done_bytes: 1 << 20, output_bytes: 1 }));
                }
                Action::PlaceReplicas { .. } | Action::Refuse { .. } => {}
            }
        }
        self.actions = actions;
        for event in follow_ups {
            match event {
                None => self.submit(),
                Some(event) => self.confirm_preemption(event),
            }
        }
        elapsed
    }

    /// Reports that a running attempt was preempted, and offers its slot. Attempts that have ended are ignored.
    fn confirm_preemption(&mut self, event: Event) {
        let (Event::AttemptPaused { attempt, .. }
        | Event::AttemptKilled { attempt }
        | Event::AttemptEndedEarly { attempt, .. }) = event
        else {
            return;
        };
        if let Some(&at) = self.positions.get(&attempt) {
            let node = self.take(at);
            self.handle(&event);
            self.handle(&Event::SlotsOffered { node, progress: Vec::new() });
        }
    }

    /// Removes the attempt at a position; returns its node.
    fn take(&mut self, at: usize) -> NodeId {
        let (attempt, node) = self.running.swap_remove(at);
        self.positions.remove(&attempt);
        if let Some(&(moved, _)) = self.running.get(at) {
            self.positions.insert(moved, at);
        }
        node
    }

    fn submit(&mut self) {
        let id = JobId(self.jobs);
        self.jobs += 1;
        // Uniform between 1/4 and 7/4 of the mean.
        let maps = (self.maps_per_job / 4 + self.rng.random_range(0..self.maps_per_job * 3 / 2)).max(1);
        let rng = &mut self.rng;
        let splits = (0..maps)
            .map(|_| Split {
                bytes: BLOCK_BYTES,
                hosts: (0..3).map(|_| NodeId(rng.random_range(0..self.nodes))).collect(),
            })
            .collect();
        let spec = JobSpec {
            external_id: None,
            id,
            name: String::new(),
            user: format!("u{}", id.0 % 10),
            pool: format!("u{}", id.0 % 10),
            priority: Priority::Normal,
            splits,
            reduces: maps / 8,
            slowstart_ppm: 50_000,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        self.handle(&Event::JobSubmitted(Box::new(spec)));
    }

    /// Finishes a random attempt and offers its slot. Returns the time to handle the offer, in nanoseconds.
    fn step(&mut self) -> u64 {
        self.now = self.now + Span(30_000_000 / u64::from(self.nodes * 10) + 1);
        while let Some(timer) = self.timers.expire(self.now) {
            let elapsed = self.handle(&Event::TimerFired { timer });
            self.timer_s.push(elapsed.as_secs_f64());
        }
        let (attempt, node) = loop {
            let at = self.rng.random_range(0..self.running.len());
            let (attempt, _) = self.running[at];
            // A reduce cannot finish before all maps of its job.
            let state = self.core.state();
            let maps_done = state.find(attempt.task.job).is_some_and(|jx| state.job(jx).maps_done());
            if attempt.task.kind == Kind::Map || maps_done {
                break (attempt, self.take(at));
            }
        };
        self.handle(&Event::AttemptFinished { attempt, output_bytes: BLOCK_BYTES / 2 });
        self.handle(&Event::SlotsOffered { node, progress: Vec::new() }).as_nanos() as u64
    }
}
