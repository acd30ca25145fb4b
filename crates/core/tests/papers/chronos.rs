//! Chronos: "Failure-Aware Scheduling in Shared Hadoop Clusters".

use crate::hand::*;
use giveway_core::policy::catalog;
use giveway_core::state::TaskState;
use giveway_core::*;

fn lose(hand: &mut Hand, node: u32) -> Vec<Action> {
    hand.tell(Event::NodeLost { node: NodeId(node) })
}

#[test]
fn sec_2_running_tasks_and_needed_map_outputs_of_a_lost_node_run_again() {
    let mut hand = Hand::new("chronos(fifo)", 3, 2, 1);
    let (id, _) = hand.submit(JobOf { slowstart_ppm: WHOLE_PPM, ..job(6, 1) });
    hand.beat_all();
    let on_node_0: Vec<u32> = hand
        .running(id, Kind::Map)
        .iter()
        .map(|a| a.task.index)
        .filter(|&i| hand.job(id).task(TaskKey::map(i)).node() == NodeId(0))
        .collect();
    let done = AttemptId::new(id, Kind::Map, on_node_0[0], 0);
    hand.at(10.0).finish(done, BLOCK);
    lose(&mut hand, 0);
    for &index in &on_node_0 {
        assert_eq!(hand.state_of(id, Kind::Map, index), TaskState::Pending);
        assert_eq!(hand.job(id).lost_with(TaskKey::map(index)), Some(NodeId(0)));
    }
}

#[test]
fn sec_2_map_output_that_no_reduce_needs_any_more_is_let_go_until_one_does() {
    let mut hand = Hand::new("fifo", 3, 2, 1);
    let (id, _) = hand.submit(JobOf { hosts: vec![vec![0]], ..job(1, 1) });
    hand.beat(0);
    hand.at(10.0).finish_maps(id, BLOCK);
    hand.beat(1);
    let reduce = hand.running(id, Kind::Reduce)[0];
    // It has fetched everything.
    hand.progress_of(reduce, 0.5);
    lose(&mut hand, 0);
    assert_eq!(hand.state_of(id, Kind::Map, 0), TaskState::Done);
    // Now the reduce's node goes too: its next attempt needs the output again.
    lose(&mut hand, 1);
    assert_eq!(launches(&hand.at(20.0).beat(2)), vec![(id, Kind::Reduce, NodeId(2))]);
    assert_eq!(hand.state_of(id, Kind::Map, 0), TaskState::Pending);
}

/// Three nodes of one map slot: the first job runs on node 0, the second and third on nodes 1 and 2, which hold the first's data.
fn first_loses_its_node(policy: &str) -> (Hand, [JobId; 3], Vec<Action>) {
    let mut hand = Hand::new(policy, 3, 1, 1);
    let (first, _) = hand.submit(JobOf { hosts: vec![vec![0, 1, 2]], ..job(1, 1) });
    hand.beat(0);
    let (second, _) = hand.submit(JobOf { hosts: vec![vec![1]], ..job(1, 1) });
    hand.beat(1);
    let (third, _) = hand.submit(JobOf { hosts: vec![vec![2]], ..job(1, 1) });
    hand.beat(2);
    for id in [first, second, third] {
        assert_eq!(hand.running(id, Kind::Map).len(), 1);
    }
    let actions = lose(hand.at(10.0), 0);
    (hand, [first, second, third], actions)
}

#[test]
fn sec_3b_the_candidate_that_ranks_last_gives_way_on_a_node_with_the_data() {
    let (mut hand, [first, _, third], actions) = first_loses_its_node("chronos(fifo)");
    let [Action::EndEarly { attempt, node, reason }] = &orders(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!((attempt.task.job, *node), (third, NodeId(2)), "last submitted ranks last");
    assert_eq!(*reason, Reason::PreemptedForRecovery { job: first });
    hand.obey(&actions, 0.4);
    let actions = hand.beat(2);
    let Action::Launch { attempt, work: Work::Map { locality, .. }, reason, .. } = &actions[0] else {
        panic!("{actions:?}")
    };
    assert_eq!((attempt.task.job, *locality), (first, Locality::Node), "the recovery task runs near its data");
    assert_eq!(*reason, Reason::Recovery { lost: NodeId(0) });
}

#[test]
fn sec_3b_among_equals_the_one_that_has_come_least_far_gives_way() {
    let mut hand = Hand::new("chronos(fifo)", 2, 2, 1);
    let (first, _) = hand.submit(JobOf { hosts: vec![vec![0, 1]; 2], ..job(2, 1) });
    hand.beat(0);
    let (second, _) = hand.submit(JobOf { hosts: vec![vec![1]; 2], ..job(2, 1) });
    hand.beat(1);
    let running = hand.running(second, Kind::Map);
    hand.progress_of(running[0], 0.6);
    hand.progress_of(running[1], 0.3);
    let one = hand.running(first, Kind::Map)[0];
    hand.at(5.0).finish(one, 0);
    // One running map and one output are lost; the first to be given room pushes the one at 30 % aside.
    let actions = lose(&mut hand, 0);
    assert_eq!(asked(&actions), vec![running[1], running[0]]);
}

#[test]
fn sec_3b_a_recovery_task_that_does_not_outrank_a_candidate_waits() {
    let mut hand = Hand::new("chronos(fifo)", 2, 1, 1);
    let (first, _) = hand.submit(JobOf { hosts: vec![vec![1]], ..job(1, 1) });
    hand.beat(1);
    let (_, _) = hand.submit(JobOf { hosts: vec![vec![0, 1]], ..job(1, 1) });
    hand.beat(0);
    let actions = lose(&mut hand, 0);
    assert_eq!(orders(&actions), vec![], "the later job may not push {first} aside");
}

#[test]
fn sec_3b_it_stops_once_the_base_order_is_right_again() {
    // Under fair sharing two jobs hold four slots each of eight; one loses its four with a node.
    let mut hand = Hand::new("chronos(fair)", 2, 4, 1);
    let everywhere = vec![vec![0, 1]; 8];
    let (a, _) = hand.submit(JobOf { hosts: everywhere.clone(), ..job(8, 1) });
    hand.beat(0);
    let (b, _) = hand.submit(JobOf { hosts: everywhere, ..job(8, 1) });
    hand.beat(1);
    assert_eq!((hand.running(a, Kind::Map).len(), hand.running(b, Kind::Map).len()), (4, 4));
    let actions = lose(&mut hand, 0);
    // Of the four slots left, two each are fair: two give way, not four.
    assert_eq!(asked(&actions).len(), 2, "{actions:?}");
    assert!(asked(&actions).iter().all(|attempt| attempt.task.job == b));
}

#[test]
fn sec_3b_a_free_slot_near_the_data_needs_no_victim() {
    let mut hand = Hand::new("chronos(fifo)", 3, 2, 1);
    let (first, _) = hand.submit(JobOf { hosts: vec![vec![0, 1]], ..job(1, 1) });
    hand.beat(0);
    let (_, _) = hand.submit(JobOf { hosts: vec![vec![1]], ..job(1, 1) });
    hand.beat(1);
    let actions = lose(&mut hand, 0);
    assert_eq!(orders(&actions), vec![]);
    assert_eq!(launches(&hand.beat(1)), vec![(first, Kind::Map, NodeId(1))]);
}

#[test]
fn sec_3c_early_end_conserves_every_record() {
    let (mut hand, [_, _, third], actions) = first_loses_its_node("chronos(fifo)");
    hand.obey(&actions, 0.4);
    let job = hand.job(third);
    let (done, rest) = (job.task(TaskKey::map(0)), job.task(TaskKey::map(1)));
    assert_eq!(done.state(), TaskState::Done);
    assert_eq!(rest.state(), TaskState::Pending);
    assert_eq!((job.map_start_bytes(0), job.map_bytes(0) + job.map_bytes(1)), (0, BLOCK));
    assert_eq!(
        (job.map_start_bytes(1), rest.split()),
        (job.map_bytes(0), done.split()),
        "the rest begins where the first part ended"
    );
    let done_bytes = job.map_bytes(0);
    hand.beat(2);
    let recovery = hand.running(JobId(0), Kind::Map)[0];
    hand.at(30.0).finish(recovery, BLOCK);
    let actions = hand.beat(2);
    let resumed = actions.iter().find_map(|action| match action {
        Action::Launch { work: Work::Map { start_bytes, bytes, .. }, .. } => Some((*start_bytes, *bytes)),
        _ => None,
    });
    assert_eq!(resumed, Some((done_bytes, BLOCK - done_bytes)));
}

#[test]
fn sec_3c_reduces_pause_and_go_back_to_the_pool() {
    let mut hand = Hand::new("chronos(fifo)", 2, 2, 1);
    let (first, _) = hand.submit(JobOf { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 1) });
    hand.beat(0);
    let (second, _) = hand.submit(JobOf { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 1) });
    hand.beat(1);
    assert_eq!(hand.running(first, Kind::Reduce).len(), 1);
    let on_1 = hand.running(second, Kind::Reduce)[0];
    let actions = lose(hand.at(10.0), 0);
    let pauses: Vec<AttemptId> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Pause { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(pauses, vec![on_1]);
    hand.obey(&actions, 0.2);
    assert_eq!(hand.state_of(second, Kind::Reduce, 0), TaskState::Paused);
    assert!(launches(&hand.beat(1)).contains(&(first, Kind::Reduce, NodeId(1))));
}

#[test]
fn sec_3b_one_free_slot_is_promised_to_one_lost_reduce() {
    let mut hand = Hand::new("chronos(fifo)", 3, 4, 2);
    let (first, _) = hand.submit(JobOf { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 2) });
    (0..2).for_each(|_| drop(hand.beat(0)));
    let (second, _) = hand.submit(JobOf { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 3) });
    [1, 1, 2].into_iter().for_each(|node| drop(hand.beat(node)));
    assert_eq!((hand.running(first, Kind::Reduce).len(), hand.running(second, Kind::Reduce).len()), (2, 3));
    // Node 2 has one slot left: one lost reduce goes there, the other cannot count on it too.
    let actions = lose(hand.at(10.0), 0);
    let pauses = actions.iter().filter(|action| matches!(action, Action::Pause { .. })).count();
    assert_eq!(pauses, 1, "{actions:?}");
    hand.obey(&actions, 0.2);
    let again: Vec<_> = (1..3).flat_map(|node| launches(&hand.beat(node))).collect();
    assert_eq!(again.iter().filter(|(job, kind, _)| *job == first && *kind == Kind::Reduce).count(), 2, "{again:?}");
}

#[test]
fn sec_3a_it_wraps_every_base() {
    for name in catalog::names() {
        let (mut hand, [first, ..], actions) = first_loses_its_node(&format!("chronos({name})"));
        // Whoever gives way, if anyone does, belongs to another job than the one that recovers.
        assert!(asked(&actions).iter().all(|attempt| attempt.task.job != first), "{name}: {actions:?}");
        hand.obey(&actions, 0.5);
        (1..3).for_each(|node| drop(hand.beat(node)));
        hand.at(11.0).wake();
    }
}

#[test]
fn without_chronos_lost_work_waits_for_a_free_slot() {
    let (mut hand, [first, second, _], actions) = first_loses_its_node("fifo");
    assert_eq!(orders(&actions), vec![]);
    assert_eq!(launches(&hand.beat(1)), vec![]);
    let map = hand.running(second, Kind::Map)[0];
    hand.at(40.0).finish(map, BLOCK);
    assert!(launches(&hand.beat(1)).contains(&(first, Kind::Map, NodeId(1))));
}
