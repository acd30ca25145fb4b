//! A cluster that a test drives event by event: the test sets the clock, submits events and examines the actions.

use giveway_core::policy::catalog;
use giveway_core::state::{Job, TaskState};
use giveway_core::*;

pub const MB: u64 = 1 << 20;
pub const BLOCK: u64 = 128 * MB;

/// A scheduler with a manual clock. Node and job ids are assigned in order from 0.
pub struct ManualCluster {
    pub core: Scheduler,
    pub now: Time,
    nodes: u32,
    jobs: u32,
}

/// A job to submit. Every split has one block; splits without an entry in `hosts` have no known replica.
#[derive(Clone)]
pub struct TestJob {
    pub maps: u32,
    pub reduces: u32,
    pub user: &'static str,
    pub pool: &'static str,
    pub hosts: Vec<Vec<u32>>,
    pub slowstart_ppm: u32,
    pub hint: Option<Hint>,
}

/// A job with Hadoop's default slow start (5 %), in the default pool.
pub fn job(maps: u32, reduces: u32) -> TestJob {
    TestJob { maps, reduces, user: "ann", pool: "default", hosts: Vec::new(), slowstart_ppm: 50_000, hint: None }
}

impl ManualCluster {
    /// Identical nodes in one rack, under a policy of the catalogue.
    pub fn new(policy: &str, nodes: u32, map_slots: u16, reduce_slots: u16) -> ManualCluster {
        ManualCluster::with_setup(Setup::new(catalog::by_name(policy).unwrap()), nodes, map_slots, reduce_slots)
    }

    pub fn with_setup(setup: Setup, nodes: u32, map_slots: u16, reduce_slots: u16) -> ManualCluster {
        let mut cluster = ManualCluster { core: Scheduler::new(setup).unwrap(), now: Time::ZERO, nodes: 0, jobs: 0 };
        (0..nodes).for_each(|_| cluster.add_node(map_slots, reduce_slots, 1.0));
        cluster
    }

    /// Adds a node to rack 0. A speed of 1 is that of the reference node.
    pub fn add_node(&mut self, map_slots: u16, reduce_slots: u16, speed: f64) {
        self.join(RackId(0), map_slots, reduce_slots, speed);
    }

    /// Adds a node with two map slots and one reduce slot to a rack.
    pub fn add_node_in_rack(&mut self, rack: u32) {
        self.join(RackId(rack), 2, 1, 1.0);
    }

    fn join(&mut self, rack: RackId, map_slots: u16, reduce_slots: u16, speed: f64) {
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
        assert_eq!(self.submit_event(Event::NodeJoined { node, spec }), vec![]);
    }

    /// Sets the clock, in seconds.
    pub fn at(&mut self, secs: f64) -> &mut ManualCluster {
        self.now = Time::from_secs_f64(secs);
        self
    }

    /// Submits an event at the current time, checks the state's invariants and returns the actions.
    pub fn submit_event(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        self.core.state().check().unwrap();
        actions
    }

    pub fn submit_job(&mut self, job: TestJob) -> (JobId, Vec<Action>) {
        let id = JobId(self.jobs);
        self.jobs += 1;
        let hosts = |i: u32| job.hosts.get(i as usize).cloned().unwrap_or_default().into_iter().map(NodeId).collect();
        let spec = JobSpec {
            external_id: None,
            id,
            name: format!("job {}", id.0),
            user: job.user.into(),
            pool: job.pool.into(),
            priority: Priority::Normal,
            splits: (0..job.maps).map(|i| Split { bytes: BLOCK, hosts: hosts(i) }).collect(),
            reduces: job.reduces,
            slowstart_ppm: job.slowstart_ppm,
            hint: job.hint,
            estimate_bias_ppm: WHOLE_PPM,
        };
        let actions = self.submit_event(Event::JobSubmitted(Box::new(spec)));
        (id, actions)
    }

    /// A node offers its free slots.
    pub fn offer(&mut self, node: u32) -> Vec<Action> {
        self.submit_event(Event::SlotsOffered { node: NodeId(node), progress: Vec::new() })
    }

    /// Every node offers its free slots, in the order of their ids.
    pub fn offer_all(&mut self) -> Vec<Action> {
        (0..self.nodes).flat_map(|node| self.offer(node)).collect()
    }

    /// All running attempts of a job report the same progress (0-1).
    pub fn report_progress(&mut self, id: JobId, kind: Kind, progress: f64) {
        for attempt in self.running(id, kind) {
            self.report_attempt(attempt, progress);
        }
    }

    /// An attempt reports its progress (0-1) while its node offers slots.
    pub fn report_attempt(&mut self, attempt: AttemptId, progress: f64) {
        let node = self.job(attempt.task.job).task(attempt.task.key()).node();
        let progress = vec![Progress { attempt, progress_ppm: (progress * 1e6) as u32 }];
        self.submit_event(Event::SlotsOffered { node, progress });
    }

    pub fn finish(&mut self, attempt: AttemptId, output_bytes: u64) -> Vec<Action> {
        self.submit_event(Event::AttemptFinished { attempt, output_bytes })
    }

    /// Every running map of a job finishes now, each with the same output size.
    pub fn finish_maps(&mut self, id: JobId, output_bytes: u64) {
        for attempt in self.running(id, Kind::Map) {
            self.finish(attempt, output_bytes);
        }
    }

    /// Fires every timer. Those that are not due have no effect.
    pub fn fire_timers(&mut self) -> Vec<Action> {
        Timer::ALL.into_iter().flat_map(|timer| self.submit_event(Event::TimerFired { timer })).collect()
    }

    /// A live job.
    pub fn job(&self, id: JobId) -> &Job {
        self.core.state().job(self.core.state().find(id).unwrap())
    }

    /// The running attempts of a job, by id.
    pub fn running(&self, id: JobId, kind: Kind) -> Vec<AttemptId> {
        let job = self.job(id);
        let mut running: Vec<AttemptId> =
            job.counts(kind).running.iter().map(|&index| job.attempt(TaskKey { kind, index })).collect();
        running.sort();
        running
    }

    pub fn state_of(&self, id: JobId, kind: Kind, index: u32) -> TaskState {
        self.job(id).task(TaskKey { kind, index }).state()
    }

    /// Carries out the stop requests among some actions; every stopped attempt has the same progress (0-1).
    pub fn carry_out(&mut self, actions: &[Action], progress: f64) {
        for action in actions {
            match action.clone() {
                Action::Pause { attempt, .. } => {
                    self.submit_event(Event::AttemptPaused { attempt, progress_ppm: (progress * 1e6) as u32 });
                }
                Action::Kill { attempt, .. } => {
                    self.submit_event(Event::AttemptKilled { attempt });
                }
                Action::EndEarly { attempt, .. } => {
                    let bytes = self.job(attempt.task.job).map_bytes(attempt.task.index);
                    let done_bytes = (bytes as f64 * progress) as u64;
                    self.submit_event(Event::AttemptEndedEarly { attempt, done_bytes, output_bytes: done_bytes });
                }
                _ => {}
            }
        }
    }
}

/// The launches among some actions: job, kind and node.
pub fn launches(actions: &[Action]) -> Vec<(JobId, Kind, NodeId)> {
    let launch = |action: &Action| match action {
        Action::Launch { attempt, node, .. } => Some((attempt.task.job, attempt.task.kind, *node)),
        _ => None,
    };
    actions.iter().filter_map(launch).collect()
}

/// The requests to stop an attempt among some actions.
pub fn stop_requests(actions: &[Action]) -> Vec<Action> {
    let is_stop =
        |action: &&Action| matches!(action, Action::Pause { .. } | Action::EndEarly { .. } | Action::Kill { .. });
    actions.iter().filter(is_stop).cloned().collect()
}

/// The attempts that some actions request to stop.
pub fn attempts_to_stop(actions: &[Action]) -> Vec<AttemptId> {
    let attempt = |action: &Action| match action {
        Action::Pause { attempt, .. } | Action::EndEarly { attempt, .. } | Action::Kill { attempt, .. } => {
            Some(*attempt)
        }
        _ => None,
    };
    actions.iter().filter_map(attempt).collect()
}
