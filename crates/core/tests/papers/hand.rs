//! A cluster turned by hand: the test says what happens and when, and reads what the core asks for.

use giveway_core::policy::catalog;
use giveway_core::state::{Job, TaskState};
use giveway_core::*;

pub const MB: u64 = 1 << 20;
pub const BLOCK: u64 = 128 * MB;

/// A scheduler, a clock and a memory of what was launched.
pub struct Hand {
    pub core: Scheduler,
    pub now: Time,
    nodes: u32,
    jobs: u32,
}

/// A job to submit; everything not said is ordinary.
#[derive(Clone)]
pub struct JobOf {
    pub maps: u32,
    pub reduces: u32,
    pub user: &'static str,
    pub pool: &'static str,
    pub hosts: Vec<Vec<u32>>,
    pub slowstart_ppm: u32,
    pub hint: Option<Hint>,
}

pub fn job(maps: u32, reduces: u32) -> JobOf {
    JobOf { maps, reduces, user: "ann", pool: "default", hosts: Vec::new(), slowstart_ppm: 50_000, hint: None }
}

impl Hand {
    /// Nodes of one rack, all alike, under a policy of the catalogue.
    pub fn new(policy: &str, nodes: u32, map_slots: u16, reduce_slots: u16) -> Hand {
        Hand::with(Setup::new(catalog::by_name(policy).unwrap()), nodes, map_slots, reduce_slots)
    }

    pub fn with(setup: Setup, nodes: u32, map_slots: u16, reduce_slots: u16) -> Hand {
        let mut hand = Hand { core: Scheduler::new(setup).unwrap(), now: Time::ZERO, nodes: 0, jobs: 0 };
        (0..nodes).for_each(|_| hand.join(map_slots, reduce_slots, 1.0));
        hand
    }

    pub fn join(&mut self, map_slots: u16, reduce_slots: u16, speed: f64) {
        self.join_in(RackId(0), map_slots, reduce_slots, speed);
    }

    /// A node of two map slots and one reduce slot in another rack.
    pub fn join_rack(&mut self, rack: u32) {
        self.join_in(RackId(rack), 2, 1, 1.0);
    }

    fn join_in(&mut self, rack: RackId, map_slots: u16, reduce_slots: u16, speed: f64) {
        let spec = NodeSpec {
            name: format!("n{}", self.nodes),
            rack,
            map_slots,
            reduce_slots,
            speed_ppm: (speed * 1e6) as u32,
            disk_bytes_per_s: 100 * MB,
            disk_bytes: 1 << 40,
        };
        let node = NodeId(self.nodes);
        self.nodes += 1;
        assert_eq!(self.tell(Event::NodeJoined { node, spec }), vec![]);
    }

    pub fn at(&mut self, secs: f64) -> &mut Hand {
        self.now = Time::from_secs_f64(secs);
        self
    }

    /// Something happens; the facts must add up afterwards.
    pub fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        self.core.state().check().unwrap();
        actions
    }

    pub fn submit(&mut self, of: JobOf) -> (JobId, Vec<Action>) {
        let id = JobId(self.jobs);
        self.jobs += 1;
        let hosts = |i: u32| of.hosts.get(i as usize).cloned().unwrap_or_default().into_iter().map(NodeId).collect();
        let spec = JobSpec {
            external_id: None,
            id,
            name: format!("job {}", id.0),
            user: of.user.into(),
            pool: of.pool.into(),
            priority: Priority::Normal,
            splits: (0..of.maps).map(|i| Split { bytes: BLOCK, hosts: hosts(i) }).collect(),
            reduces: of.reduces,
            slowstart_ppm: of.slowstart_ppm,
            hint: of.hint,
            estimate_bias_ppm: WHOLE_PPM,
        };
        let actions = self.tell(Event::JobSubmitted(Box::new(spec)));
        (id, actions)
    }

    pub fn beat(&mut self, node: u32) -> Vec<Action> {
        self.tell(Event::SlotsOffered { node: NodeId(node), progress: Vec::new() })
    }

    pub fn beat_all(&mut self) -> Vec<Action> {
        (0..self.nodes).flat_map(|node| self.beat(node)).collect()
    }

    /// All running attempts of a job report the same progress.
    pub fn progress(&mut self, id: JobId, kind: Kind, done: f64) {
        for attempt in self.running(id, kind) {
            self.progress_of(attempt, done);
        }
    }

    pub fn progress_of(&mut self, attempt: AttemptId, done: f64) {
        let jx = self.core.state().find(attempt.task.job).unwrap();
        let node =
            self.core.state().job(jx).task(TaskKey { kind: attempt.task.kind, index: attempt.task.index }).node();
        let progress = vec![Progress { attempt, progress_ppm: (done * 1e6) as u32 }];
        self.tell(Event::SlotsOffered { node, progress });
    }

    pub fn finish(&mut self, attempt: AttemptId, output_bytes: u64) -> Vec<Action> {
        self.tell(Event::AttemptFinished { attempt, output_bytes })
    }

    /// Every running map of a job finishes now.
    pub fn finish_maps(&mut self, id: JobId, output_bytes: u64) {
        for attempt in self.running(id, Kind::Map) {
            self.finish(attempt, output_bytes);
        }
    }

    pub fn wake(&mut self) -> Vec<Action> {
        Timer::ALL.into_iter().flat_map(|timer| self.tell(Event::TimerFired { timer })).collect()
    }

    pub fn job(&self, id: JobId) -> &Job {
        self.core.state().job(self.core.state().find(id).unwrap())
    }

    pub fn running(&self, id: JobId, kind: Kind) -> Vec<AttemptId> {
        let job = self.job(id);
        let mut running: Vec<AttemptId> =
            job.counts(kind).running.iter().map(|&index| job.attempt(TaskKey { kind, index })).collect();
        running.sort();
        running
    }

    pub fn state_of(&self, id: JobId, kind: Kind, index: u32) -> TaskState {
        self.job(id).task(TaskKey { kind: kind, index: index }).state()
    }

    /// Does what the core asked of running attempts, with so much of each done.
    pub fn obey(&mut self, actions: &[Action], done: f64) {
        for action in actions {
            match action.clone() {
                Action::Pause { attempt, .. } => {
                    self.tell(Event::AttemptPaused { attempt, progress_ppm: (done * 1e6) as u32 });
                }
                Action::Kill { attempt, .. } => {
                    self.tell(Event::AttemptKilled { attempt });
                }
                Action::EndEarly { attempt, .. } => {
                    let bytes = self.job(attempt.task.job).map_bytes(attempt.task.index);
                    let done_bytes = (bytes as f64 * done) as u64;
                    self.tell(Event::AttemptEndedEarly { attempt, done_bytes, output_bytes: done_bytes });
                }
                _ => {}
            }
        }
    }
}

/// The launches among some actions: which job, what kind, where.
pub fn launches(actions: &[Action]) -> Vec<(JobId, Kind, NodeId)> {
    let launch = |action: &Action| match action {
        Action::Launch { attempt, node, .. } => Some((attempt.task.job, attempt.task.kind, *node)),
        _ => None,
    };
    actions.iter().filter_map(launch).collect()
}

/// The requests to give way among some actions.
pub fn orders(actions: &[Action]) -> Vec<Action> {
    let is_order =
        |action: &&Action| matches!(action, Action::Pause { .. } | Action::EndEarly { .. } | Action::Kill { .. });
    actions.iter().filter(is_order).cloned().collect()
}

/// Which attempts were asked to give way.
pub fn asked(actions: &[Action]) -> Vec<AttemptId> {
    let attempt = |action: &Action| match action {
        Action::Pause { attempt, .. } | Action::EndEarly { attempt, .. } | Action::Kill { attempt, .. } => {
            Some(*attempt)
        }
        _ => None,
    };
    actions.iter().filter_map(attempt).collect()
}
