//! A body that grants slots itself: the core learns what is asked for and what was given, and says whose turn it is.

use giveway_core::policy::catalog;
use giveway_core::*;

/// A cluster of two nodes whose scheduler is not ours.
struct Grants {
    core: Scheduler,
    now: Time,
}

impl Grants {
    fn new(policy: &str) -> Grants {
        let setup =
            Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(catalog::by_name(policy).expect("known")) };
        let mut grants = Grants { core: Scheduler::new(setup).expect("an order is enough"), now: Time::ZERO };
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
            grants.tell(Event::NodeJoined { node: NodeId(node), spec });
        }
        grants
    }

    fn at(&mut self, secs: u64) -> &mut Grants {
        self.now = Time::ZERO + Span::from_secs(secs);
        self
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        self.core.state().check().expect("the facts add up");
        actions
    }

    fn open(&mut self, job: u32) {
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
        assert!(!refused(&self.tell(Event::JobOpened(Box::new(spec)))));
    }

    fn ask(&mut self, job: u32, maps: u32, reduces: u32) {
        assert!(!refused(&self.tell(Event::SlotsRequested { job: JobId(job), maps, reduces })));
    }

    fn take(&mut self, job: u32, kind: Kind, node: u32) -> AttemptId {
        let actions = self.tell(Event::SlotGranted { job: JobId(job), kind, node: NodeId(node) });
        match actions[..] {
            [Action::Launch { attempt, reason: Reason::GrantedByCluster, .. }] => attempt,
            _ => panic!("expected one launch, got {actions:?}"),
        }
    }

    fn order(&self) -> Vec<u32> {
        self.core.rank_jobs().iter().map(|job| job.0).collect()
    }
}

fn refused(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Refuse { .. }))
}

#[test]
fn a_body_that_can_only_order_is_refused_what_it_cannot_do() {
    let check = |name: &str| {
        let policy = catalog::by_name(name).unwrap();
        Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(policy) }.check()
    };
    for name in ["fifo", "fair", "capacity", "hsrtf-pu", "hsrtf-pr", "las"] {
        assert_eq!(check(name), Ok(()), "{name} only ranks jobs");
    }
    let refusal = |name: &str| {
        let policy = catalog::by_name(name).unwrap();
        Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(policy) }.check().unwrap_err().to_string()
    };
    assert!(refusal("hsrtf-prp").contains("kill a task so that another job gets its slot"));
    assert!(refusal("fcs").contains("pause a reduce"));
    assert!(refusal("coshh").contains("run a given task on a given node"));
    assert!(refusal("chronos(fifo)").contains("pause a reduce"));
}

#[test]
fn the_order_follows_what_is_asked_and_what_was_given() {
    let mut body = Grants::new("hsrtf-pr");
    body.open(1);
    assert_eq!(body.order(), [0; 0], "nobody asks yet");
    body.ask(1, 40, 0);
    for node in [0, 0, 1, 1] {
        body.take(1, Kind::Map, node);
    }
    body.open(2);
    body.ask(2, 2, 0);
    assert_eq!(body.order(), [2, 1], "the short one holds nothing");
    body.take(2, Kind::Map, 0);
    body.take(2, Kind::Map, 1);
    assert_eq!(body.order(), [1], "the short one has all it asked for");
}

#[test]
fn fifo_goes_by_submission_whatever_kind_is_asked_for() {
    let mut body = Grants::new("fifo");
    (1..=3).for_each(|job| body.open(job));
    body.ask(3, 1, 0);
    body.ask(2, 1, 1);
    body.ask(1, 0, 1);
    assert_eq!(body.order(), [1, 2, 3]);
}

#[test]
fn an_open_job_ends_when_the_body_says_so() {
    let mut body = Grants::new("fifo");
    body.open(1);
    body.ask(1, 1, 0);
    let attempt = body.take(1, Kind::Map, 0);
    assert_eq!(body.at(5).tell(Event::AttemptFinished { attempt, output_bytes: 0 }), []);
    assert_eq!(body.order(), [0; 0], "all that is known of it is done, but it is not over");
    body.ask(1, 0, 2);
    assert_eq!(body.order(), [1]);
    let actions = body.tell(Event::JobEnded { job: JobId(1), outcome: Outcome::Succeeded });
    assert_eq!(actions, [Action::CloseJob { job: JobId(1), outcome: Outcome::Succeeded }]);
    assert!(refused(&body.tell(Event::SlotsRequested { job: JobId(1), maps: 1, reduces: 0 })));
}

#[test]
fn what_is_no_longer_asked_for_is_dropped() {
    let mut body = Grants::new("hsrtf-pu");
    body.open(1);
    body.ask(1, 5, 3);
    body.take(1, Kind::Map, 0);
    body.ask(1, 2, 0);
    let job = body.core.state().job(body.core.state().find(JobId(1)).unwrap());
    assert_eq!((job.counts(Kind::Map).pending, job.counts(Kind::Reduce).pending), (2, 0));
    body.take(1, Kind::Map, 0);
    body.take(1, Kind::Map, 1);
    let late = body.tell(Event::SlotGranted { job: JobId(1), kind: Kind::Map, node: NodeId(1) });
    assert_eq!(late, [Action::Refuse { refusal: Refusal::NothingPending(JobId(1)) }]);
    body.tell(Event::NodeLost { node: NodeId(0) });
    body.ask(1, 2, 0);
    assert_eq!(body.order(), [1]);
}

#[test]
fn a_node_that_runs_more_than_it_has_slots_has_more() {
    let mut body = Grants::new("fifo");
    body.open(1);
    body.ask(1, 5, 0);
    (0..5).for_each(|_| {
        body.take(1, Kind::Map, 0);
    });
    assert_eq!(body.core.state().nodes().slots(), PerKind::new(7, 4));
}

#[test]
fn after_a_resync_all_that_ran_waits_until_it_is_told_anew() {
    let mut body = Grants::new("las");
    body.open(1);
    body.ask(1, 3, 0);
    let before = body.take(1, Kind::Map, 0);
    body.at(20).tell(Event::Resynced);
    let stale = body.tell(Event::AttemptFinished { attempt: before, output_bytes: 0 });
    assert_eq!(stale, [Action::Refuse { refusal: Refusal::StaleAttempt(before) }]);
    let job = body.core.state().job(body.core.state().find(JobId(1)).unwrap());
    assert_eq!((job.counts(Kind::Map).pending, job.ended_service()), (3, Span::from_secs(20)));
    assert_ne!(body.take(1, Kind::Map, 1), before, "a new name, so late news of the old one is recognised");
}

#[test]
fn only_open_jobs_ask_and_beats_launch_nothing() {
    let mut body = Grants::new("fair");
    body.open(1);
    body.ask(1, 3, 0);
    assert_eq!(body.tell(Event::SlotsOffered { node: NodeId(0), progress: vec![] }), []);
    let closed = JobSpec {
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
    body.tell(Event::JobSubmitted(Box::new(closed)));
    for event in [
        Event::SlotsRequested { job: JobId(2), maps: 3, reduces: 0 },
        Event::SlotGranted { job: JobId(2), kind: Kind::Map, node: NodeId(0) },
        Event::JobEnded { job: JobId(2), outcome: Outcome::Killed },
    ] {
        assert_eq!(body.tell(event), [Action::Refuse { refusal: Refusal::NotOpen(JobId(2)) }]);
    }
}
