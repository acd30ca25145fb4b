//! Random events of clusters that grant slots themselves, as YARN does: after a snapshot of jobs whose tasks are not known in advance, the same actions follow.
//!
//! Many of the events contradict the state. They must be refused alike.

use giveway_core::policy::catalog;
use giveway_core::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const NODES: u32 = 4;
const JOBS: u32 = 6;

const GRANTING: Capabilities = Capabilities {
    pause_reduces: true,
    kill_attempts: true,
    refuse_nodes: true,
    one_slot_pool: true,
    ..Capabilities::ORDER_ONLY
};

/// The policies that such a cluster can carry out.
fn policies() -> Vec<Policy> {
    let all = catalog::all_names().into_iter().map(|name| catalog::by_name(&name).unwrap());
    all.filter(|policy| Setup { capabilities: GRANTING, ..Setup::new(policy.clone()) }.check().is_ok()).collect()
}

struct RandomEvents {
    rng: Pcg64Mcg,
    opened: u32,
    launched: Vec<AttemptId>,
    timers: Timers,
}

impl RandomEvents {
    fn job(&mut self) -> JobId {
        JobId(self.rng.random_range(self.opened.saturating_sub(JOBS)..=self.opened))
    }

    fn node(&mut self) -> NodeId {
        NodeId(self.rng.random_range(0..NODES))
    }

    fn attempt(&mut self) -> Option<AttemptId> {
        let latest = self.launched.len().saturating_sub(40)..self.launched.len();
        (!latest.is_empty()).then(|| self.launched[self.rng.random_range(latest)])
    }

    fn progress(&mut self) -> Vec<Progress> {
        let attempts: Vec<AttemptId> = (0..3).filter_map(|_| self.attempt()).collect();
        attempts
            .into_iter()
            .map(|attempt| Progress { attempt, progress_ppm: self.rng.random_range(0..=WHOLE_PPM) })
            .collect()
    }

    fn join(&mut self, node: u32) -> Event {
        let spec = NodeSpec {
            name: format!("n{node}"),
            rack: RackId(node % 2),
            map_slots: 0,
            reduce_slots: 1 + (node % 3) as u16,
            speed_ppm: [WHOLE_PPM, WHOLE_PPM / 4][self.rng.random_range(0..2)],
            disk_bytes_per_s: 1 << 26,
            disk_bytes: 1,
        };
        Event::NodeJoined { node: NodeId(node), spec }
    }

    fn open(&mut self) -> Event {
        self.opened += 1;
        Event::JobOpened(Box::new(JobSpec {
            external_id: None,
            id: JobId(self.opened),
            name: format!("application {}", self.opened),
            user: format!("u{}", self.rng.random_range(0..3)),
            pool: format!("p{}", self.rng.random_range(0..2)),
            priority: Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        }))
    }

    fn next(&mut self, now: Time) -> Option<Event> {
        if let Some(timer) = self.timers.expire(now) {
            return Some(Event::TimerFired { timer });
        }
        Some(match self.rng.random_range(0..100) {
            0..6 => self.open(),
            6..20 => {
                let reduces = if self.rng.random_bool(0.5) { 2 } else { 20 };
                Event::SlotsRequested { job: self.job(), maps: 0, reduces }
            }
            20..45 => Event::SlotGranted { job: self.job(), kind: Kind::Reduce, node: self.node() },
            45..55 => Event::SlotsOffered { node: self.node(), progress: self.progress() },
            55..70 => Event::AttemptFinished { attempt: self.attempt()?, output_bytes: 0 },
            70..78 => Event::AttemptPaused { attempt: self.attempt()?, progress_ppm: 700_000 },
            78..84 => Event::AttemptKilled { attempt: self.attempt()? },
            84..86 => Event::AttemptFailed { attempt: self.attempt()? },
            86..88 => Event::StopFailed { attempt: self.attempt()? },
            88..90 => Event::AttemptProtected { attempt: self.attempt()? },
            90..92 => Event::RecoveryRequested { job: self.job(), slots: self.rng.random_range(0..3) },
            92..94 => Event::JobEnded { job: self.job(), outcome: Outcome::Succeeded },
            94..96 => Event::NodeLost { node: self.node() },
            96..98 => {
                let node = self.node();
                self.join(node.0)
            }
            98 if self.rng.random_bool(0.5) => {
                Event::PauseLimitSet { node: self.node(), attempts: self.rng.random_range(0..3) }
            }
            98 => Event::NodeSlotsSet { node: self.node(), slots: PerKind::new(0, self.rng.random_range(0..4)) },
            _ => Event::ProgressReported { progress: self.progress() },
        })
    }
}

fn run(policy: Policy, seed: u64) {
    let setup = Setup { capabilities: GRANTING, seed, ..Setup::new(policy) };
    let mut core = Scheduler::new(setup.clone()).unwrap();
    let mut restored: Option<Scheduler> = None;
    let rng = Pcg64Mcg::seed_from_u64(seed);
    let mut events = RandomEvents { rng, opened: 0, launched: Vec::new(), timers: Timers::default() };
    let mut now = Time::ZERO;
    for step in 0..500 {
        now = now + Span(events.rng.random_range(0..2_000_000));
        let joined = (step < NODES).then(|| events.join(step));
        let Some(event) = joined.or_else(|| events.next(now)) else { continue };
        let mut actions = Vec::new();
        core.handle(now, &event, &mut actions);
        core.state().check().unwrap();
        if let Some(restored) = &mut restored {
            let mut same = Vec::new();
            restored.handle(now, &event, &mut same);
            assert_eq!(same, actions, "decided otherwise after a snapshot: {event:?}");
            assert_eq!(restored.rank_jobs(), core.rank_jobs());
            assert_eq!(restored.node_refusals(), core.node_refusals());
        }
        for action in &actions {
            match action {
                Action::Launch { attempt, .. } => events.launched.push(*attempt),
                Action::SetTimer { timer, at } => events.timers.set(*timer, *at),
                _ => {}
            }
        }
        if events.rng.random_bool(0.02) {
            let snapshot = core.snapshot();
            let read = postcard::from_bytes(&postcard::to_allocvec(&snapshot).unwrap()).unwrap();
            let mut other = Scheduler::new(setup.clone()).unwrap();
            let mut actions = Vec::new();
            other.handle(now, &Event::Restored(Box::new(read)), &mut actions);
            assert_eq!(refusal(&actions), None);
            other.state().check().unwrap();
            assert!(other.snapshot() == snapshot);
            restored = Some(other);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("SOAK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100), failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn the_same_actions_follow_a_snapshot_of_open_jobs(seed in any::<u64>(), which in 0..policies().len()) {
        let policy = policies().swap_remove(which);
        let name = policy.name.clone();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(policy, seed)));
        prop_assert!(result.is_ok(), "policy {name}, seed {seed}");
    }
}

#[test]
fn many_policies_can_be_carried_out_without_binding_tasks() {
    assert!(policies().len() >= 8, "{:?}", policies().iter().map(|policy| &policy.name).collect::<Vec<_>>());
}
