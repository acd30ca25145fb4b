//! How long the core takes for a decision, by policy and number of nodes, with a thousand jobs live.
//!
//! The cluster is kept full: a random attempt finishes, its node beats, the freed slot is given away. The decision is that beat. Jobs that
//! finish are replaced, so a thousand are always live; estimates are renewed as the policy asks, and counted apart.

use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use giveway_core::{
    Action, AttemptId, Event, JobId, JobSpec, Kind, NodeId, NodeSpec, Policy, Priority, RackId, Scheduler, Setup, Span,
    Split, Tenants, Time, Timers, User, WHOLE_PPM,
};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::Write;
use std::time::{Duration, Instant};

const SIZES: [u32; 3] = [100, 1_000, 10_000];
const LIVE_JOBS: u32 = 1_000;
const BLOCK: u64 = 128 << 20;

/// Runs the benchmark.
pub fn run(policies: &[Policy], decisions: u32) -> Result<()> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let sized = |what: &str| SIZES.map(|nodes| format!("{what}\n{nodes}"));
    let mut head = vec!["policy".to_owned()];
    head.extend(["k/s at nodes", "p50 µs", "p99 µs"].into_iter().flat_map(sized));
    head.extend(["renewal ms\n10000".to_owned(), "growth".to_owned()]);
    table.set_header(head);
    for policy in policies {
        let mut measured = Vec::new();
        for nodes in SIZES {
            measured.push(measure(policy, nodes, decisions)?);
        }
        let mut row = vec![Cell::new(&policy.name)];
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        row.extend(measured.iter().map(|m| right(format!("{:.0}", m.per_s() / 1e3))));
        row.extend(measured.iter().map(|m| right(format!("{:.2}", m.latency_ns.value_at_quantile(0.5) as f64 / 1e3))));
        row.extend(measured.iter().map(|m| right(format!("{:.2}", m.latency_ns.value_at_quantile(0.99) as f64 / 1e3))));
        let renewal_ms = measured[2].renewal_s.map_or("none".into(), |renewal_s| format!("{:.1}", renewal_s * 1e3));
        row.push(right(renewal_ms));
        row.push(right(format!("{:.2}x", measured[0].per_s() / measured[2].per_s())));
        table.add_row(row);
    }
    writeln!(
        std::io::stdout(),
        "{LIVE_JOBS} live jobs, a full cluster; a decision is a beat that gives a freed slot away; growth: cost at 10,000 nodes over cost at 100\n{table}"
    )?;
    Ok(())
}

struct Measured {
    latency_ns: Histogram<u64>,
    renewal_s: Option<f64>,
}

impl Measured {
    fn per_s(&self) -> f64 {
        1e9 / self.latency_ns.mean()
    }
}

/// A full cluster that the core keeps full.
struct Full {
    core: Scheduler,
    random: Pcg64Mcg,
    now: Time,
    nodes: u32,
    jobs: u32,
    /// Attempts that run and where.
    running: Vec<(AttemptId, NodeId)>,
    timers: Timers,
    actions: Vec<Action>,
    renewals: Vec<f64>,
    maps_per_job: u32,
}

fn measure(policy: &Policy, nodes: u32, decisions: u32) -> Result<Measured> {
    let mut full = Full::new(policy, nodes)?;
    // Let the cluster settle before anything is measured.
    for _ in 0..decisions / 4 {
        full.turn();
    }
    full.renewals.clear();
    let mut latency_ns = Histogram::<u64>::new(3)?;
    for _ in 0..decisions {
        latency_ns.record(full.turn())?;
    }
    let renewals = full.renewals.len();
    let renewal_s = (renewals > 0).then(|| full.renewals.iter().sum::<f64>() / renewals as f64);
    Ok(Measured { latency_ns, renewal_s })
}

impl Full {
    fn new(policy: &Policy, nodes: u32) -> Result<Full> {
        let users = (0..10).map(|i| User { name: format!("u{i}"), weight: 1.0, min_share: 0 }).collect();
        let setup = Setup { tenants: Tenants { users, pools: Vec::new() }, ..Setup::new(policy.clone()) };
        let mut full = Full {
            core: Scheduler::new(setup)?,
            random: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
            nodes,
            jobs: 0,
            running: Vec::new(),
            timers: Timers::default(),
            actions: Vec::new(),
            renewals: Vec::new(),
            // So many that the cluster stays full at every size.
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
            full.tell(&Event::NodeJoined { node: NodeId(node), spec });
        }
        (0..LIVE_JOBS).for_each(|_| full.submit());
        for _ in 0..8 {
            full.now = full.now + Span::from_secs(3);
            for node in 0..nodes {
                full.tell(&Event::SlotsOffered { node: NodeId(node), progress: Vec::new() });
            }
        }
        Ok(full)
    }

    /// Tells the core and does what it asks; returns what the core took to answer.
    fn tell(&mut self, event: &Event) -> Duration {
        let mut actions = std::mem::take(&mut self.actions);
        let begun = Instant::now();
        self.core.handle(self.now, event, &mut actions);
        let took = begun.elapsed();
        let mut over = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Launch { attempt, node, .. } => self.running.push((attempt, node)),
                Action::SetTimer { timer, at } => self.timers.set(timer, at),
                Action::CloseJob { .. } => over.push(None),
                Action::Pause { attempt, .. } => over.push(Some(Event::AttemptPaused { attempt, progress_ppm: 1 })),
                Action::Kill { attempt, .. } => over.push(Some(Event::AttemptKilled { attempt })),
                Action::EndEarly { attempt, .. } => {
                    over.push(Some(Event::AttemptEndedEarly { attempt, done_bytes: 1 << 20, output_bytes: 1 }));
                }
                Action::PlaceReplicas { .. } | Action::Refuse { .. } => {}
            }
        }
        self.actions = actions;
        for event in over {
            match event {
                None => self.submit(),
                Some(event) => self.obey(event),
            }
        }
        took
    }

    fn obey(&mut self, event: Event) {
        let (Event::AttemptPaused { attempt, .. }
        | Event::AttemptKilled { attempt }
        | Event::AttemptEndedEarly { attempt, .. }) = event
        else {
            return;
        };
        if let Some(at) = self.running.iter().position(|(running, _)| *running == attempt) {
            let (_, node) = self.running.swap_remove(at);
            self.tell(&event);
            self.tell(&Event::SlotsOffered { node, progress: Vec::new() });
        }
    }

    fn submit(&mut self) {
        let id = JobId(self.jobs);
        self.jobs += 1;
        // Jobs of very different sizes, the mean as wanted.
        let maps = (self.maps_per_job / 4 + self.random.random_range(0..self.maps_per_job * 3 / 2)).max(1);
        let random = &mut self.random;
        let splits = (0..maps)
            .map(|_| Split {
                bytes: BLOCK,
                hosts: (0..3).map(|_| NodeId(random.random_range(0..self.nodes))).collect(),
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
        self.tell(&Event::JobSubmitted(Box::new(spec)));
    }

    /// An attempt finishes and its node beats; returns what the beat took.
    fn turn(&mut self) -> u64 {
        self.now = self.now + Span(30_000_000 / u64::from(self.nodes * 10) + 1);
        while let Some(timer) = self.timers.expire(self.now) {
            let took = self.tell(&Event::TimerFired { timer });
            self.renewals.push(took.as_secs_f64());
        }
        let (attempt, node) = loop {
            let at = self.random.random_range(0..self.running.len());
            let (attempt, node) = self.running[at];
            // A reduce cannot finish before its job's maps have.
            let state = self.core.state();
            let maps_done = state.find(attempt.task.job).is_some_and(|jx| state.job(jx).maps_done());
            if attempt.task.kind == Kind::Map || maps_done {
                self.running.swap_remove(at);
                break (attempt, node);
            }
        };
        self.tell(&Event::AttemptFinished { attempt, output_bytes: BLOCK / 2 });
        self.tell(&Event::SlotsOffered { node, progress: Vec::new() }).as_nanos() as u64
    }
}
