//! The baselines of the papers: Hadoop 1's schedulers, slow start, delay scheduling; and events that no paper describes.

use crate::manual_cluster::*;
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
fn fifo_serves_jobs_in_submission_order() {
    let mut cluster = ManualCluster::new("fifo", 1, 4, 1);
    let (first, _) = cluster.submit_job(job(3, 0));
    let (second, _) = cluster.submit_job(job(3, 0));
    // No split has a replica, so every map is off-rack: one per offer.
    for expected in [first, first, first, second] {
        assert_eq!(launches(&cluster.offer(0)), vec![(expected, Kind::Map, NodeId(0))]);
    }
}

#[test]
fn fifo_launches_one_reduce_per_offer() {
    let mut cluster = ManualCluster::new("fifo", 1, 4, 4);
    let (id, _) = cluster.submit_job(TestJob { slowstart_ppm: 0, ..job(1, 4) });
    assert_eq!(count(&cluster.offer(0), id, Kind::Reduce), 1);
    assert_eq!(count(&cluster.offer(0), id, Kind::Reduce), 1);
}

#[test]
fn reduces_wait_for_slow_start() {
    let mut cluster = ManualCluster::new("fair", 1, 4, 4);
    let (id, _) = cluster.submit_job(TestJob { slowstart_ppm: 500_000, ..job(4, 1) });
    cluster.offer(0);
    cluster.at(10.0).offer(0);
    cluster.at(20.0).offer(0);
    let maps = cluster.running(id, Kind::Map);
    cluster.finish(maps[0], 1);
    assert_eq!(count(&cluster.offer(0), id, Kind::Reduce), 0);
    cluster.finish(maps[1], 1);
    assert_eq!(count(&cluster.offer(0), id, Kind::Reduce), 1);
}

#[test]
fn fair_satisfies_min_shares_before_weights() {
    let pools =
        "[[pools]]\nname='guaranteed'\nmin_maps=4\n[[pools]]\nname='heavy'\nweight=3.0\n[[pools]]\nname='light'";
    let mut cluster = ManualCluster::with_setup(setup("fair", pools), 1, 12, 1);
    let of = |pool| TestJob { pool, ..job(50, 0) };
    let (light, _) = cluster.submit_job(of("light"));
    let (heavy, _) = cluster.submit_job(of("heavy"));
    let (guaranteed, _) = cluster.submit_job(of("guaranteed"));
    let actions = cluster.offer(0);
    let first: Vec<JobId> = launches(&actions)[..4].iter().map(|launch| launch.0).collect();
    assert_eq!(first, vec![guaranteed; 4]);
    assert_eq!(count(&actions, heavy, Kind::Map), 6);
    assert_eq!(count(&actions, light, Kind::Map), 2);
}

#[test]
fn delay_scheduling_waits_for_a_node_then_a_rack_then_accepts_any_node() {
    let mut cluster = ManualCluster::new("fair", 3, 2, 1);
    cluster.submit_job(TestJob { hosts: vec![vec![2]; 2], ..job(2, 0) });
    assert_eq!(launches(&cluster.offer(0)), vec![], "the job waits for node 2");
    assert_eq!(launches(&cluster.at(4.0).offer(1)), vec![]);
    assert_eq!(launches(&cluster.at(5.0).offer(1)).len(), 2, "with one rack, any node is accepted after five seconds");

    let mut racks = ManualCluster::new("fair", 3, 2, 1);
    racks.add_node_in_rack(1);
    racks.submit_job(TestJob { hosts: vec![vec![2]; 2], ..job(2, 0) });
    assert_eq!(launches(&racks.offer(3)), vec![]);
    assert_eq!(launches(&racks.at(5.0).offer(3)), vec![], "the job still waits for rack 0");
    assert_eq!(launches(&racks.at(9.0).offer(0)).len(), 2, "node 0 is in rack 0");
}

/// Hadoop 1 keeps a list of failed maps and looks there first (`failedMaps` in `JobInProgress`).
#[test]
fn a_lost_map_runs_first_and_on_any_node() {
    for (policy, first_map) in [("fifo", 0), ("fair", 0), ("giveway", 1)] {
        let mut cluster = ManualCluster::new(policy, 3, 1, 1);
        // The first map's input is on nodes 0 and 2, that of all others on node 1.
        let hosts = vec![vec![0, 2], vec![1], vec![1], vec![1]];
        let (id, _) = cluster.submit_job(TestJob { hosts, ..job(4, 0) });
        cluster.offer(0);
        assert_eq!(cluster.running(id, Kind::Map)[0].task.index, 0, "{policy}");
        cluster.at(1.0).submit_event(Event::NodeLost { node: NodeId(0) });
        cluster.offer(1);
        let on_node_1 = cluster.running(id, Kind::Map);
        assert_eq!(on_node_1[0].task.index, first_map, "{policy}: node 1 has input of the maps that were not lost");
    }
}

#[test]
fn a_reservation_on_a_slot_being_freed_does_not_hide_a_free_slot() {
    let mut cluster = ManualCluster::new("hsrtf-pup", 2, 1, 1);
    let (long, _) = cluster.submit_job(job(100, 1));
    cluster.offer_all();
    let (first, actions) = cluster.at(5.0).submit_job(job(1, 1));
    assert_eq!(stop_requests(&actions).len(), 1, "{first} preempts one attempt");
    cluster.add_node(1, 1, 1.0);
    let (second, actions) = cluster.submit_job(job(1, 1));
    assert_eq!(stop_requests(&actions), vec![], "{second} can use the new node's slot; {long} keeps its attempts");
}

#[test]
fn jobs_can_be_ranked_without_binding_a_task() {
    for policy in ["fifo", "hsrtf-pu", "coshh"] {
        let mut cluster = ManualCluster::new(policy, 1, 1, 1);
        let (long, _) = cluster.submit_job(job(100, 0));
        let (short, _) = cluster.submit_job(TestJob { user: "bob", ..job(1, 0) });
        let mut expected = vec![long, short];
        if policy == "hsrtf-pu" {
            expected.reverse();
        }
        assert_eq!(cluster.core.rank(Kind::Map, NodeId(0)), expected, "{policy}");
    }
}

#[test]
fn fair_preempts_for_a_pool_below_its_min_share_after_the_timeout() {
    let pools = "[[pools]]\nname='greedy'\n[[pools]]\nname='starved'\nmin_maps=2";
    let mut cluster = ManualCluster::with_setup(setup("fair-preempt", pools), 1, 4, 1);
    cluster.submit_job(TestJob { pool: "greedy", ..job(50, 0) });
    cluster.offer(0);
    let (_, actions) = cluster.at(5.0).submit_job(TestJob { pool: "starved", ..job(50, 0) });
    assert_eq!(stop_requests(&actions), vec![]);
    assert_eq!(stop_requests(&cluster.at(10.0).fire_timers()), vec![], "the timeout has not passed");
    assert_eq!(stop_requests(&cluster.at(20.0).fire_timers()).len(), 2, "below its min share for fifteen seconds");
}

#[test]
fn capacity_serves_the_queue_with_the_lowest_used_capacity() {
    let queues = "[[pools]]\nname='big'\ncapacity=75\n[[pools]]\nname='small'\ncapacity=25";
    let mut cluster = ManualCluster::with_setup(setup("capacity", queues), 8, 1, 1);
    let (big, _) = cluster.submit_job(TestJob { pool: "big", ..job(50, 0) });
    let (small, _) = cluster.submit_job(TestJob { pool: "small", ..job(50, 0) });
    let actions = cluster.offer_all();
    assert_eq!((count(&actions, big, Kind::Map), count(&actions, small, Kind::Map)), (6, 2));
}

#[test]
fn a_capacity_queue_grows_up_to_its_max_capacity() {
    let queues = "[[pools]]\nname='big'\ncapacity=75\n[[pools]]\nname='small'\ncapacity=25\nmax_capacity=50";
    let mut cluster = ManualCluster::with_setup(setup("capacity", queues), 8, 1, 1);
    let (small, _) = cluster.submit_job(TestJob { pool: "small", ..job(50, 0) });
    assert_eq!(count(&cluster.offer_all(), small, Kind::Map), 4);
}

#[test]
fn capacity_applies_the_user_limit_while_several_users_wait() {
    let queues = "[[pools]]\nname='q'\ncapacity=100\nuser_limit=25";
    let mut cluster = ManualCluster::with_setup(setup("capacity", queues), 8, 1, 1);
    let (ann, _) = cluster.submit_job(TestJob { pool: "q", user: "ann", ..job(50, 0) });
    let (bob, _) = cluster.submit_job(TestJob { pool: "q", user: "bob", ..job(50, 0) });
    let actions = cluster.offer_all();
    assert_eq!(
        (count(&actions, ann, Kind::Map), count(&actions, bob, Kind::Map)),
        (4, 4),
        "two active users: half the queue each, whatever the order of submission"
    );
}

#[test]
fn child_queues_share_their_parents_capacity() {
    let queues = "[[pools]]\nname='a'\ncapacity=50\n[[pools]]\nname='b'\ncapacity=50\n\
        [[pools]]\nname='a1'\nparent='a'\ncapacity=50\n[[pools]]\nname='a2'\nparent='a'\ncapacity=50";
    let mut cluster = ManualCluster::with_setup(setup("capacity", queues), 8, 1, 1);
    let ids = ["a1", "a2", "b"].map(|pool| cluster.submit_job(TestJob { pool, ..job(50, 0) }).0);
    let actions = cluster.offer_all();
    assert_eq!(ids.map(|id| count(&actions, id, Kind::Map)), [2, 2, 4]);
}

#[test]
fn las_serves_the_job_with_the_least_attained_service() {
    let mut cluster = ManualCluster::new("las", 1, 2, 1);
    let (first, _) = cluster.submit_job(job(50, 0));
    cluster.offer(0);
    cluster.offer(0);
    cluster.at(10.0).finish_maps(first, 0);
    cluster.fire_timers();
    let (second, _) = cluster.submit_job(job(50, 0));
    assert_eq!(launches(&cluster.offer(0)), vec![(second, Kind::Map, NodeId(0))]);
}

#[test]
fn stale_and_contradictory_events_are_refused_without_effect() {
    let mut cluster = ManualCluster::new("fifo", 1, 1, 1);
    let (id, _) = cluster.submit_job(job(1, 0));
    let unknown = AttemptId::new(id, Kind::Map, 0, 7);
    let refused = |actions: Vec<Action>| matches!(actions[..], [Action::Refuse { .. }]);
    assert!(refused(cluster.finish(unknown, 0)));
    cluster.offer(0);
    let attempt = cluster.running(id, Kind::Map)[0];
    assert!(refused(cluster.submit_event(Event::AttemptPaused { attempt, progress_ppm: 1 })), "no pause was requested");
    assert!(refused(cluster.submit_event(Event::SlotsOffered { node: NodeId(9), progress: vec![] })));
    assert!(refused(cluster.submit_event(Event::NodeLost { node: NodeId(9) })));
    assert!(refused(cluster.submit_event(Event::JobKilled { job: JobId(9) })));
    assert_eq!(cluster.running(id, Kind::Map), vec![attempt]);
}

#[test]
fn four_failures_of_a_task_fail_its_job_and_a_killed_job_frees_its_slots() {
    let mut cluster = ManualCluster::new("fifo", 1, 2, 1);
    let (id, _) = cluster.submit_job(job(1, 0));
    for round in 0..4 {
        // Longer than the delay before any retry.
        cluster.at(20.0 * f64::from(round)).fire_timers();
        cluster.offer(0);
        let attempt = cluster.running(id, Kind::Map)[0];
        let actions = cluster.submit_event(Event::AttemptFailed { attempt });
        assert_eq!(actions.contains(&Action::CloseJob { job: id, outcome: Outcome::Failed }), round == 3);
    }
    assert!(cluster.core.state().find(id).is_none());
    let (id, _) = cluster.submit_job(job(2, 1));
    cluster.offer(0);
    cluster.offer(0);
    let actions = cluster.submit_event(Event::JobKilled { job: id });
    assert!(actions.contains(&Action::CloseJob { job: id, outcome: Outcome::Killed }));
    assert_eq!(attempts_to_stop(&actions).len(), 2);
    cluster.carry_out(&actions, 0.0);
    assert!(cluster.core.state().find(id).is_none());
    assert_eq!(cluster.core.state().nodes().free(), PerKind::new(2, 1));
}

#[test]
fn a_map_whose_output_is_lost_runs_again_once() {
    let mut cluster = ManualCluster::new("fifo", 2, 1, 1);
    let (id, _) = cluster.submit_job(job(1, 1));
    cluster.offer(0);
    let map = cluster.running(id, Kind::Map)[0];
    cluster.finish(map, 100);
    cluster.offer(0);
    assert_eq!(cluster.running(id, Kind::Reduce).len(), 1);
    assert_eq!(cluster.submit_event(Event::MapOutputLost { map }), vec![]);
    assert_eq!(cluster.state_of(id, Kind::Map, 0), TaskState::Pending);
    let again = cluster.submit_event(Event::MapOutputLost { map });
    assert!(
        matches!(again[..], [Action::Refuse { refusal: Refusal::StaleAttempt(_) }]),
        "the second report concerns a stale attempt"
    );
    assert_eq!(launches(&cluster.offer(1)), vec![(id, Kind::Map, NodeId(1))]);
}

#[test]
fn a_job_takes_a_slot_that_nobody_uses_instead_of_waiting_for_the_one_reserved_for_it() {
    let mut cluster = ManualCluster::new("hsrtf-pup-pause", 2, 1, 1);
    let (long, _) = cluster.submit_job(job(3, 0));
    cluster.offer_all();
    let (short, actions) = cluster.at(10.0).submit_job(job(1, 0));
    let [stopping] = attempts_to_stop(&actions)[..] else { panic!("{actions:?}") };
    let reserved = cluster.job(long).task(stopping.task.key()).node();
    let free = NodeId(1 - reserved.0);
    let finish_on_free_node = |cluster: &mut ManualCluster| {
        let maps = cluster.running(long, Kind::Map);
        let map = maps.into_iter().find(|map| cluster.job(long).task(map.task.key()).node() == free).unwrap();
        cluster.finish(map, BLOCK);
        launches(&cluster.offer(free.0))
    };
    assert_eq!(finish_on_free_node(&mut cluster), vec![(long, Kind::Map, free)], "its last pending map");
    assert_eq!(finish_on_free_node(&mut cluster), vec![(short, Kind::Map, free)]);
    cluster.carry_out(&actions, 0.25);
    assert_eq!(launches(&cluster.offer(reserved.0)), vec![(long, Kind::Map, reserved)], "the rest of what was stopped");
}

#[test]
fn a_yield_request_frees_the_slot_and_keeps_the_work() {
    let mut cluster = ManualCluster::new("fifo", 1, 1, 1);
    let (id, _) = cluster.submit_job(job(1, 1));
    cluster.offer(0);
    let map = cluster.running(id, Kind::Map)[0];
    let actions = cluster.submit_event(Event::YieldRequested { attempt: map });
    assert!(matches!(actions[..], [Action::EndEarly { reason: Reason::RequestedByUser, .. }]), "{actions:?}");
    let again = cluster.submit_event(Event::YieldRequested { attempt: map });
    assert!(
        matches!(again[..], [Action::Refuse { refusal: Refusal::NotRequested(_) }]),
        "a stop was already requested"
    );
    cluster.carry_out(&actions, 0.5);
    cluster.offer(0);
    assert_eq!(cluster.job(id).total(Kind::Map), 2, "the rest of the split is a new map");
    cluster.finish_maps(id, 10);
    cluster.offer(0);
    let reduce = cluster.running(id, Kind::Reduce)[0];
    let actions = cluster.submit_event(Event::YieldRequested { attempt: reduce });
    assert!(matches!(actions[..], [Action::Pause { reason: Reason::RequestedByUser, .. }]), "{actions:?}");
}

#[test]
fn a_policy_that_pauses_is_rejected_for_a_backend_that_cannot_pause() {
    let mut setup = Setup::new(policy::catalog::by_name("fcs").unwrap());
    setup.capabilities.pause_reduces = false;
    let error = Scheduler::new(setup).unwrap_err().to_string();
    assert!(error.contains("pause a reduce"), "{error}");
}
