//! Open jobs: the backend's own scheduler grants slots, and the core only ranks jobs by what they requested and were granted, as with YARN.

use giveway_core::policy::catalog;
use giveway_core::*;

/// A cluster of two nodes, each with two map and two reduce slots, whose own scheduler grants the slots.
struct GrantingCluster {
    core: Scheduler,
    now: Time,
}

impl GrantingCluster {
    fn new(policy: &str) -> GrantingCluster {
        let setup =
            Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(catalog::by_name(policy).expect("known")) };
        let mut cluster =
            GrantingCluster { core: Scheduler::new(setup).expect("the policy only ranks jobs"), now: Time::ZERO };
        for node in 0..2 {
            let spec = NodeSpec {
                name: format!("n{node}"),
                rack: RackId(0),
                map_slots: 2,
                reduce_slots: 2,
                speed_ppm: WHOLE_PPM,
                disk_bytes_per_s: 1,
                disk_bytes: 0,
            };
            cluster.submit_event(Event::NodeJoined { node: NodeId(node), spec });
        }
        cluster
    }

    fn at(&mut self, secs: u64) -> &mut GrantingCluster {
        self.now = Time::ZERO + Span::from_secs(secs);
        self
    }

    fn submit_event(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        self.core.state().check().expect("the invariants hold");
        actions
    }

    fn open_job(&mut self, job: u32) {
        let spec = JobSpec {
            external_id: None,
            id: JobId(job),
            name: format!("application {job}"),
            user: "ann".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        assert!(!refused(&self.submit_event(Event::JobOpened(Box::new(spec)))));
    }

    fn request_slots(&mut self, job: u32, maps: u32, reduces: u32) {
        assert!(!refused(&self.submit_event(Event::SlotsRequested { job: JobId(job), maps, reduces })));
    }

    fn grant_slot(&mut self, job: u32, kind: Kind, node: u32) -> AttemptId {
        let actions = self.submit_event(Event::SlotGranted { job: JobId(job), kind, node: NodeId(node) });
        match actions[..] {
            [Action::Launch { attempt, reason: Reason::GrantedByCluster, .. }] => attempt,
            _ => panic!("expected one launch, got {actions:?}"),
        }
    }

    fn ranked_jobs(&self) -> Vec<u32> {
        self.core.rank_jobs().iter().map(|job| job.0).collect()
    }
}

fn refused(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Refuse { .. }))
}

#[test]
fn a_policy_that_does_more_than_rank_is_rejected_for_an_order_only_backend() {
    let check = |name: &str| {
        let policy = catalog::by_name(name).unwrap();
        Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(policy) }.check()
    };
    for name in ["fifo", "fair", "capacity", "hsrtf-pu", "hsrtf-pr", "las"] {
        assert_eq!(check(name), Ok(()), "{name} only ranks jobs");
    }
    let error = |name: &str| check(name).unwrap_err().to_string();
    assert!(error("hsrtf-prp").contains("kill a task so that another job gets its slot"));
    assert!(error("fcs").contains("pause a reduce"));
    assert!(error("coshh").contains("run the tasks of a job on given nodes"));
    assert!(error("chronos(fifo)").contains("pause a reduce"));
}

#[test]
fn the_order_follows_requested_and_granted_slots() {
    let mut cluster = GrantingCluster::new("hsrtf-pr");
    cluster.open_job(1);
    assert_eq!(cluster.ranked_jobs(), [0; 0], "no slots are requested");
    cluster.request_slots(1, 40, 0);
    for node in [0, 0, 1, 1] {
        cluster.grant_slot(1, Kind::Map, node);
    }
    cluster.open_job(2);
    cluster.request_slots(2, 2, 0);
    assert_eq!(cluster.ranked_jobs(), [2, 1], "the short job has no slot");
    cluster.grant_slot(2, Kind::Map, 0);
    cluster.grant_slot(2, Kind::Map, 1);
    assert_eq!(cluster.ranked_jobs(), [1], "the short job has all the slots it requested");
}

#[test]
fn fifo_ranks_by_submission_whatever_kind_of_slot_is_requested() {
    let mut cluster = GrantingCluster::new("fifo");
    (1..=3).for_each(|job| cluster.open_job(job));
    cluster.request_slots(3, 1, 0);
    cluster.request_slots(2, 1, 1);
    cluster.request_slots(1, 0, 1);
    assert_eq!(cluster.ranked_jobs(), [1, 2, 3]);
}

#[test]
fn an_open_job_ends_when_the_backend_reports_it() {
    let mut cluster = GrantingCluster::new("fifo");
    cluster.open_job(1);
    cluster.request_slots(1, 1, 0);
    let attempt = cluster.grant_slot(1, Kind::Map, 0);
    assert_eq!(cluster.at(5).submit_event(Event::AttemptFinished { attempt, output_bytes: 0 }), []);
    assert_eq!(cluster.ranked_jobs(), [0; 0], "all its known tasks are done, but the job has not ended");
    cluster.request_slots(1, 0, 2);
    assert_eq!(cluster.ranked_jobs(), [1]);
    let actions = cluster.submit_event(Event::JobEnded { job: JobId(1), outcome: Outcome::Succeeded });
    assert_eq!(actions, [Action::CloseJob { job: JobId(1), outcome: Outcome::Succeeded }]);
    assert!(refused(&cluster.submit_event(Event::SlotsRequested { job: JobId(1), maps: 1, reduces: 0 })));
}

#[test]
fn a_smaller_request_drops_pending_tasks() {
    let mut cluster = GrantingCluster::new("hsrtf-pu");
    cluster.open_job(1);
    cluster.request_slots(1, 5, 3);
    cluster.grant_slot(1, Kind::Map, 0);
    cluster.request_slots(1, 2, 0);
    let job = cluster.core.state().job(cluster.core.state().find(JobId(1)).unwrap());
    assert_eq!((job.counts(Kind::Map).pending, job.counts(Kind::Reduce).pending), (2, 0));
    cluster.grant_slot(1, Kind::Map, 0);
    cluster.grant_slot(1, Kind::Map, 1);
    let late = cluster.submit_event(Event::SlotGranted { job: JobId(1), kind: Kind::Map, node: NodeId(1) });
    assert_eq!(late, [Action::Refuse { refusal: Refusal::NothingPending(JobId(1)) }]);
    cluster.submit_event(Event::NodeLost { node: NodeId(0) });
    cluster.request_slots(1, 2, 0);
    assert_eq!(cluster.ranked_jobs(), [1]);
}

#[test]
fn a_node_with_more_grants_than_slots_has_none_free_until_enough_attempts_end() {
    let mut cluster = GrantingCluster::new("fifo");
    cluster.open_job(1);
    cluster.request_slots(1, 5, 0);
    let attempts: Vec<AttemptId> = (0..5).map(|_| cluster.grant_slot(1, Kind::Map, 0)).collect();
    let mut free = Vec::new();
    for attempt in attempts {
        cluster.submit_event(Event::AttemptFinished { attempt, output_bytes: 0 });
        cluster.core.state().check().unwrap();
        free.push(cluster.core.free_slots(NodeId(0))[Kind::Map]);
    }
    assert_eq!(free, [0, 0, 0, 1, 2], "it has two slots");
    assert_eq!(cluster.core.state().nodes().slots(), PerKind::new(4, 4));
}

#[test]
fn after_a_resync_running_tasks_are_pending_until_they_are_reported_again() {
    let mut cluster = GrantingCluster::new("las");
    cluster.open_job(1);
    cluster.request_slots(1, 3, 0);
    let before = cluster.grant_slot(1, Kind::Map, 0);
    cluster.at(20).submit_event(Event::Resynced);
    let stale = cluster.submit_event(Event::AttemptFinished { attempt: before, output_bytes: 0 });
    assert_eq!(stale, [Action::Refuse { refusal: Refusal::StaleAttempt(before) }]);
    let job = cluster.core.state().job(cluster.core.state().find(JobId(1)).unwrap());
    assert_eq!((job.counts(Kind::Map).pending, job.ended_service()), (3, Span::from_secs(20)));
    assert_ne!(
        cluster.grant_slot(1, Kind::Map, 1),
        before,
        "a new attempt id, so that late events of the old attempt are recognised"
    );
}

#[test]
fn only_open_jobs_request_slots_and_offers_launch_nothing() {
    let mut cluster = GrantingCluster::new("fair");
    cluster.open_job(1);
    cluster.request_slots(1, 3, 0);
    assert_eq!(cluster.submit_event(Event::SlotsOffered { node: NodeId(0), progress: vec![] }), []);
    let not_open = JobSpec {
        external_id: None,
        id: JobId(2),
        name: String::new(),
        user: String::new(),
        pool: String::new(),
        priority: Priority::Normal,
        splits: [Split::default()].into(),
        reduces: 0,
        slowstart_ppm: 0,
        hint: None,
        estimate_bias_ppm: WHOLE_PPM,
    };
    cluster.submit_event(Event::JobSubmitted(Box::new(not_open)));
    for event in [
        Event::SlotsRequested { job: JobId(2), maps: 3, reduces: 0 },
        Event::SlotGranted { job: JobId(2), kind: Kind::Map, node: NodeId(0) },
        Event::JobEnded { job: JobId(2), outcome: Outcome::Killed },
    ] {
        assert_eq!(cluster.submit_event(event), [Action::Refuse { refusal: Refusal::NotOpen(JobId(2)) }]);
    }
}

#[test]
fn a_lost_output_of_an_open_job_is_refused() {
    let mut cluster = GrantingCluster::new("fifo");
    cluster.open_job(1);
    cluster.request_slots(1, 1, 0);
    let map = cluster.grant_slot(1, Kind::Map, 0);
    cluster.submit_event(Event::AttemptKilled { attempt: map });
    let lost = cluster.submit_event(Event::MapOutputLost { map });
    assert_eq!(lost, [Action::Refuse { refusal: Refusal::StaleAttempt(map) }]);
}
