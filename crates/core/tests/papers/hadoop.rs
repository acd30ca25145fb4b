//! What the papers share: Hadoop 1's own schedulers, slow-start, delay scheduling.

use crate::hand::*;
use giveway_core::state::TaskState;
use giveway_core::*;

fn tenants(text: &str) -> Tenants {
    toml::from_str(text).unwrap()
}

fn setup(policy: &str, text: &str) -> Setup {
    Setup { tenants: tenants(text), ..Setup::new(policy::catalog::by_name(policy).unwrap()) }
}

fn count(actions: &[Action], id: JobId, kind: Kind) -> usize {
    launches(actions).iter().filter(|launch| (launch.0, launch.1) == (id, kind)).count()
}

#[test]
fn fifo_serves_by_submission() {
    let mut hand = Hand::new("fifo", 1, 4, 1);
    let (first, _) = hand.submit(job(3, 0));
    let (second, _) = hand.submit(job(3, 0));
    // No data anywhere: one map without local data a beat.
    for expected in [first, first, first, second] {
        assert_eq!(launches(&hand.beat(0)), vec![(expected, Kind::Map, NodeId(0))]);
    }
}

#[test]
fn fifo_hands_out_one_reduce_a_beat() {
    let mut hand = Hand::new("fifo", 1, 4, 4);
    let (id, _) = hand.submit(JobOf { slowstart_ppm: 0, ..job(1, 4) });
    assert_eq!(count(&hand.beat(0), id, Kind::Reduce), 1);
    assert_eq!(count(&hand.beat(0), id, Kind::Reduce), 1);
}

#[test]
fn reduces_wait_for_the_slow_start() {
    let mut hand = Hand::new("fair", 1, 4, 4);
    let (id, _) = hand.submit(JobOf { slowstart_ppm: 500_000, ..job(4, 1) });
    hand.beat(0);
    hand.at(10.0).beat(0);
    hand.at(20.0).beat(0);
    let maps = hand.running(id, Kind::Map);
    hand.finish(maps[0], 1);
    assert_eq!(count(&hand.beat(0), id, Kind::Reduce), 0);
    hand.finish(maps[1], 1);
    assert_eq!(count(&hand.beat(0), id, Kind::Reduce), 1);
}

#[test]
fn fair_gives_min_shares_first_then_weights() {
    let pools =
        "[[pools]]\nname='guaranteed'\nmin_maps=4\n[[pools]]\nname='heavy'\nweight=3.0\n[[pools]]\nname='light'";
    let mut hand = Hand::with(setup("fair", pools), 1, 12, 1);
    let of = |pool| JobOf { pool, ..job(50, 0) };
    let (light, _) = hand.submit(of("light"));
    let (heavy, _) = hand.submit(of("heavy"));
    let (guaranteed, _) = hand.submit(of("guaranteed"));
    let actions = hand.beat(0);
    let first: Vec<JobId> = launches(&actions)[..4].iter().map(|launch| launch.0).collect();
    assert_eq!(first, vec![guaranteed; 4]);
    assert_eq!(count(&actions, heavy, Kind::Map), 6);
    assert_eq!(count(&actions, light, Kind::Map), 2);
}

#[test]
fn delay_scheduling_holds_out_for_the_node_then_the_rack_then_takes_anything() {
    let mut hand = Hand::new("fair", 3, 2, 1);
    hand.submit(JobOf { hosts: vec![vec![2]; 2], ..job(2, 0) });
    assert_eq!(launches(&hand.beat(0)), vec![], "it holds out for node 2");
    assert_eq!(launches(&hand.at(4.0).beat(1)), vec![]);
    assert_eq!(launches(&hand.at(5.0).beat(1)).len(), 2, "all are in one rack, so after five seconds anything will do");

    let mut racks = Hand::new("fair", 3, 2, 1);
    racks.join_rack(1);
    racks.submit(JobOf { hosts: vec![vec![2]; 2], ..job(2, 0) });
    assert_eq!(launches(&racks.beat(3)), vec![]);
    assert_eq!(launches(&racks.at(5.0).beat(3)), vec![], "it still holds out for the rack");
    assert_eq!(launches(&racks.at(9.0).beat(0)).len(), 2, "and takes it");
}

#[test]
fn a_slot_that_is_being_freed_for_one_does_not_hide_one_that_is_free() {
    let mut hand = Hand::new("hsrtf-pup", 2, 1, 1);
    let (long, _) = hand.submit(job(100, 1));
    hand.beat_all();
    let (first, actions) = hand.at(5.0).submit(job(1, 1));
    assert_eq!(orders(&actions).len(), 1, "{first} takes a slot");
    hand.join(1, 1, 1.0);
    let (second, actions) = hand.submit(job(1, 1));
    assert_eq!(orders(&actions), vec![], "{second} has the new node's slot; {long} need not give another");
}

#[test]
fn the_order_can_be_asked_for_without_binding_a_task() {
    for policy in ["fifo", "hsrtf-pu", "coshh"] {
        let mut hand = Hand::new(policy, 1, 1, 1);
        let (long, _) = hand.submit(job(100, 0));
        let (short, _) = hand.submit(JobOf { user: "bob", ..job(1, 0) });
        let mut expected = vec![long, short];
        if policy == "hsrtf-pu" {
            expected.reverse();
        }
        assert_eq!(hand.core.rank(Kind::Map, NodeId(0)), expected, "{policy}");
    }
}

#[test]
fn fair_preempts_for_a_pool_starved_for_too_long() {
    let pools = "[[pools]]\nname='greedy'\n[[pools]]\nname='starved'\nmin_maps=2";
    let mut hand = Hand::with(setup("fair-preempt", pools), 1, 4, 1);
    let (greedy, _) = hand.submit(JobOf { pool: "greedy", ..job(50, 0) });
    hand.beat(0);
    let (starved, actions) = hand.at(5.0).submit(JobOf { pool: "starved", ..job(50, 0) });
    assert_eq!(orders(&actions), vec![]);
    assert_eq!(orders(&hand.at(10.0).wake()), vec![], "not yet");
    assert_eq!(orders(&hand.at(20.0).wake()).len(), 2, "fifteen seconds below its min share");
    let _ = (greedy, starved);
}

#[test]
fn capacity_serves_the_queue_with_least_of_its_capacity_in_use() {
    let queues = "[[pools]]\nname='big'\ncapacity=75\n[[pools]]\nname='small'\ncapacity=25";
    let mut hand = Hand::with(setup("capacity", queues), 8, 1, 1);
    let (big, _) = hand.submit(JobOf { pool: "big", ..job(50, 0) });
    let (small, _) = hand.submit(JobOf { pool: "small", ..job(50, 0) });
    let actions = hand.beat_all();
    assert_eq!((count(&actions, big, Kind::Map), count(&actions, small, Kind::Map)), (6, 2));
}

#[test]
fn capacity_is_elastic_up_to_its_limit() {
    let queues = "[[pools]]\nname='big'\ncapacity=75\n[[pools]]\nname='small'\ncapacity=25\nmax_capacity=50";
    let mut hand = Hand::with(setup("capacity", queues), 8, 1, 1);
    let (small, _) = hand.submit(JobOf { pool: "small", ..job(50, 0) });
    assert_eq!(count(&hand.beat_all(), small, Kind::Map), 4);
}

#[test]
fn capacity_limits_what_one_user_takes_while_others_wait() {
    let queues = "[[pools]]\nname='q'\ncapacity=100\nuser_limit=25";
    let mut hand = Hand::with(setup("capacity", queues), 8, 1, 1);
    let (ann, _) = hand.submit(JobOf { pool: "q", user: "ann", ..job(50, 0) });
    let (bob, _) = hand.submit(JobOf { pool: "q", user: "bob", ..job(50, 0) });
    let actions = hand.beat_all();
    assert_eq!(
        (count(&actions, ann, Kind::Map), count(&actions, bob, Kind::Map)),
        (4, 4),
        "half each, though ann came first"
    );
}

#[test]
fn queues_inside_queues_share_their_parents_part() {
    let queues = "[[pools]]\nname='a'\ncapacity=50\n[[pools]]\nname='b'\ncapacity=50\n\
        [[pools]]\nname='a1'\nparent='a'\ncapacity=50\n[[pools]]\nname='a2'\nparent='a'\ncapacity=50";
    let mut hand = Hand::with(setup("capacity", queues), 8, 1, 1);
    let ids = ["a1", "a2", "b"].map(|pool| hand.submit(JobOf { pool, ..job(50, 0) }).0);
    let actions = hand.beat_all();
    assert_eq!(ids.map(|id| count(&actions, id, Kind::Map)), [2, 2, 4]);
}

#[test]
fn las_serves_whoever_had_least() {
    let mut hand = Hand::new("las", 1, 2, 1);
    let (old, _) = hand.submit(job(50, 0));
    hand.beat(0);
    hand.beat(0);
    hand.at(10.0).finish_maps(old, 0);
    hand.wake();
    let (new, _) = hand.submit(job(50, 0));
    assert_eq!(launches(&hand.beat(0)), vec![(new, Kind::Map, NodeId(0))]);
}

#[test]
fn late_and_impossible_news_is_refused_and_changes_nothing() {
    let mut hand = Hand::new("fifo", 1, 1, 1);
    let (id, _) = hand.submit(job(1, 0));
    let ghost = AttemptId::new(id, Kind::Map, 0, 7);
    let refused = |actions: Vec<Action>| matches!(actions[..], [Action::Refuse { .. }]);
    assert!(refused(hand.finish(ghost, 0)));
    hand.beat(0);
    let attempt = hand.running(id, Kind::Map)[0];
    assert!(refused(hand.tell(Event::AttemptPaused { attempt, progress_ppm: 1 })), "it was not asked to pause");
    assert!(refused(hand.tell(Event::SlotsOffered { node: NodeId(9), progress: vec![] })));
    assert!(refused(hand.tell(Event::NodeLost { node: NodeId(9) })));
    assert!(refused(hand.tell(Event::JobKilled { job: JobId(9) })));
    assert_eq!(hand.running(id, Kind::Map), vec![attempt]);
}

#[test]
fn a_task_that_fails_four_times_fails_its_job_and_a_killed_job_leaves_its_slots() {
    let mut hand = Hand::new("fifo", 1, 2, 1);
    let (id, _) = hand.submit(job(1, 0));
    for round in 0..4 {
        hand.beat(0);
        let attempt = hand.running(id, Kind::Map)[0];
        let actions = hand.tell(Event::AttemptFailed { attempt });
        assert_eq!(actions.contains(&Action::CloseJob { job: id, outcome: Outcome::Failed }), round == 3);
    }
    assert!(hand.core.state().find(id).is_none());
    let (id, _) = hand.submit(job(2, 1));
    hand.beat(0);
    hand.beat(0);
    let actions = hand.tell(Event::JobKilled { job: id });
    assert!(actions.contains(&Action::CloseJob { job: id, outcome: Outcome::Killed }));
    assert_eq!(asked(&actions).len(), 2);
    hand.obey(&actions, 0.0);
    assert!(hand.core.state().find(id).is_none());
    assert_eq!(hand.core.state().nodes().free(), PerKind::new(2, 1));
}

#[test]
fn a_map_whose_output_is_damaged_runs_again_once() {
    let mut hand = Hand::new("fifo", 2, 1, 1);
    let (id, _) = hand.submit(job(1, 1));
    hand.beat(0);
    let map = hand.running(id, Kind::Map)[0];
    hand.finish(map, 100);
    hand.beat(0);
    assert_eq!(hand.running(id, Kind::Reduce).len(), 1);
    assert_eq!(hand.tell(Event::MapOutputLost { map }), vec![]);
    assert_eq!(hand.state_of(id, Kind::Map, 0), TaskState::Pending);
    let again = hand.tell(Event::MapOutputLost { map });
    assert!(matches!(again[..], [Action::Refuse { refusal: Refusal::StaleAttempt(_) }]), "said twice, it is done once");
    assert_eq!(launches(&hand.beat(1)), vec![(id, Kind::Map, NodeId(1))]);
}

#[test]
fn a_person_may_ask_a_task_to_give_way_and_it_loses_nothing() {
    let mut hand = Hand::new("fifo", 1, 1, 1);
    let (id, _) = hand.submit(job(1, 1));
    hand.beat(0);
    let map = hand.running(id, Kind::Map)[0];
    let actions = hand.tell(Event::YieldRequested { attempt: map });
    assert!(matches!(actions[..], [Action::EndEarly { reason: Reason::RequestedByUser, .. }]), "{actions:?}");
    let again = hand.tell(Event::YieldRequested { attempt: map });
    assert!(matches!(again[..], [Action::Refuse { refusal: Refusal::NotRequested(_) }]), "asked once is enough");
    hand.obey(&actions, 0.5);
    hand.beat(0);
    assert_eq!(hand.job(id).total(Kind::Map), 2, "the rest is a map of its own");
    hand.finish_maps(id, 10);
    hand.beat(0);
    let reduce = hand.running(id, Kind::Reduce)[0];
    let actions = hand.tell(Event::YieldRequested { attempt: reduce });
    assert!(matches!(actions[..], [Action::Pause { reason: Reason::RequestedByUser, .. }]), "{actions:?}");
}

#[test]
fn a_body_that_cannot_pause_is_told_at_the_start() {
    let mut setup = Setup::new(policy::catalog::by_name("fcs").unwrap());
    setup.capabilities.pause_reduces = false;
    let error = Scheduler::new(setup).unwrap_err().to_string();
    assert!(error.contains("pause a reduce"), "{error}");
}
