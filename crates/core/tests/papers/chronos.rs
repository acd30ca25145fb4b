//! Chronos: "Failure-Aware Scheduling in Shared Hadoop Clusters".

use crate::manual_cluster::*;
use giveway_core::policy::catalog;
use giveway_core::state::TaskState;
use giveway_core::*;

fn lose_node(cluster: &mut ManualCluster, node: u32) -> Vec<Action> {
    cluster.submit_event(Event::NodeLost { node: NodeId(node) })
}

#[test]
fn sec_2_running_tasks_and_needed_map_outputs_of_a_lost_node_run_again() {
    let mut cluster = ManualCluster::new("chronos(fifo)", 3, 2, 1);
    let (id, _) = cluster.submit_job(TestJob { slowstart_ppm: WHOLE_PPM, ..job(6, 1) });
    cluster.offer_all();
    let on_node_0: Vec<u32> = cluster
        .running(id, Kind::Map)
        .iter()
        .map(|a| a.task.index)
        .filter(|&i| cluster.job(id).task(TaskKey::map(i)).node() == NodeId(0))
        .collect();
    let done = AttemptId::new(id, Kind::Map, on_node_0[0], 0);
    cluster.at(10.0).finish(done, BLOCK);
    lose_node(&mut cluster, 0);
    for &index in &on_node_0 {
        assert_eq!(cluster.state_of(id, Kind::Map, index), TaskState::Pending);
        assert_eq!(cluster.job(id).lost_with(TaskKey::map(index)), Some(NodeId(0)));
    }
}

#[test]
fn sec_2_a_lost_map_output_that_no_reduce_needs_is_recomputed_only_once_one_does() {
    let mut cluster = ManualCluster::new("fifo", 3, 2, 1);
    let (id, _) = cluster.submit_job(TestJob { hosts: vec![vec![0]], ..job(1, 1) });
    cluster.offer(0);
    cluster.at(10.0).finish_maps(id, BLOCK);
    cluster.offer(1);
    let reduce = cluster.running(id, Kind::Reduce)[0];
    // Past a third of its progress, a reduce has fetched all map output.
    cluster.report_attempt(reduce, 0.5);
    lose_node(&mut cluster, 0);
    assert_eq!(cluster.state_of(id, Kind::Map, 0), TaskState::Done);
    // The reduce's node is lost too: its next attempt needs the output again.
    lose_node(&mut cluster, 1);
    assert_eq!(launches(&cluster.at(20.0).offer(2)), vec![(id, Kind::Reduce, NodeId(2))]);
    assert_eq!(cluster.state_of(id, Kind::Map, 0), TaskState::Pending);
}

/// Three nodes of one map slot each: the first job runs on node 0, the second and third on nodes 1 and 2, which also hold the first job's
/// input. Node 0 is lost at 10 s; returns the jobs and the actions.
fn first_job_loses_its_node(policy: &str) -> (ManualCluster, [JobId; 3], Vec<Action>) {
    let mut cluster = ManualCluster::new(policy, 3, 1, 1);
    let (first, _) = cluster.submit_job(TestJob { hosts: vec![vec![0, 1, 2]], ..job(1, 1) });
    cluster.offer(0);
    let (second, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], ..job(1, 1) });
    cluster.offer(1);
    let (third, _) = cluster.submit_job(TestJob { hosts: vec![vec![2]], ..job(1, 1) });
    cluster.offer(2);
    for id in [first, second, third] {
        assert_eq!(cluster.running(id, Kind::Map).len(), 1);
    }
    let actions = lose_node(cluster.at(10.0), 0);
    (cluster, [first, second, third], actions)
}

#[test]
fn sec_3b_the_candidate_that_ranks_last_on_a_node_with_the_input_is_preempted() {
    let (mut cluster, [first, _, third], actions) = first_job_loses_its_node("chronos(fifo)");
    let [Action::EndEarly { attempt, node, reason }] = &stop_requests(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!((attempt.task.job, *node), (third, NodeId(2)), "the job submitted last ranks last");
    assert_eq!(*reason, Reason::PreemptedForRecovery { job: first });
    cluster.carry_out(&actions, 0.4);
    let actions = cluster.offer(2);
    let Action::Launch { attempt, work: Work::Map { locality, .. }, reason, .. } = &actions[0] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (attempt.task.job, *locality),
        (first, Locality::Node),
        "the recovery task runs on a node with its input"
    );
    assert_eq!(*reason, Reason::Recovery { lost: NodeId(0) });
}

#[test]
fn sec_3b_among_equals_the_attempt_with_the_least_progress_is_preempted() {
    let mut cluster = ManualCluster::new("chronos(fifo)", 2, 2, 1);
    let (first, _) = cluster.submit_job(TestJob { hosts: vec![vec![0, 1]; 2], ..job(2, 1) });
    cluster.offer(0);
    let (second, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]; 2], ..job(2, 1) });
    cluster.offer(1);
    let running = cluster.running(second, Kind::Map);
    cluster.report_attempt(running[0], 0.6);
    cluster.report_attempt(running[1], 0.3);
    let one = cluster.running(first, Kind::Map)[0];
    cluster.at(5.0).finish(one, 0);
    // A running map and a map output are lost. The first recovery task preempts the attempt at 30 %, the second the one at 60 %.
    let actions = lose_node(&mut cluster, 0);
    assert_eq!(attempts_to_stop(&actions), vec![running[1], running[0]]);
}

#[test]
fn sec_3b_a_recovery_task_that_does_not_outrank_a_candidate_waits() {
    let mut cluster = ManualCluster::new("chronos(fifo)", 2, 1, 1);
    let (first, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], ..job(1, 1) });
    cluster.offer(1);
    let (_, _) = cluster.submit_job(TestJob { hosts: vec![vec![0, 1]], ..job(1, 1) });
    cluster.offer(0);
    let actions = lose_node(&mut cluster, 0);
    assert_eq!(stop_requests(&actions), vec![], "the later job may not preempt {first}");
}

#[test]
fn sec_3b_preemption_stops_once_the_base_order_is_restored() {
    // Under fair sharing each of two jobs holds four of eight slots; one job loses its four with a node.
    let mut cluster = ManualCluster::new("chronos(fair)", 2, 4, 1);
    let everywhere = vec![vec![0, 1]; 8];
    let (a, _) = cluster.submit_job(TestJob { hosts: everywhere.clone(), ..job(8, 1) });
    cluster.offer(0);
    let (b, _) = cluster.submit_job(TestJob { hosts: everywhere, ..job(8, 1) });
    cluster.offer(1);
    assert_eq!((cluster.running(a, Kind::Map).len(), cluster.running(b, Kind::Map).len()), (4, 4));
    let actions = lose_node(&mut cluster, 0);
    // Two of the remaining four slots each are fair: two attempts are preempted, not four.
    assert_eq!(attempts_to_stop(&actions).len(), 2, "{actions:?}");
    assert!(attempts_to_stop(&actions).iter().all(|attempt| attempt.task.job == b));
}

#[test]
fn sec_3b_a_free_slot_near_the_data_needs_no_victim() {
    let mut cluster = ManualCluster::new("chronos(fifo)", 3, 2, 1);
    let (first, _) = cluster.submit_job(TestJob { hosts: vec![vec![0, 1]], ..job(1, 1) });
    cluster.offer(0);
    let (_, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], ..job(1, 1) });
    cluster.offer(1);
    let actions = lose_node(&mut cluster, 0);
    assert_eq!(stop_requests(&actions), vec![]);
    assert_eq!(launches(&cluster.offer(1)), vec![(first, Kind::Map, NodeId(1))]);
}

#[test]
fn sec_3c_early_end_conserves_every_record() {
    let (mut cluster, [_, _, third], actions) = first_job_loses_its_node("chronos(fifo)");
    cluster.carry_out(&actions, 0.4);
    let job = cluster.job(third);
    let (done, rest) = (job.task(TaskKey::map(0)), job.task(TaskKey::map(1)));
    assert_eq!(done.state(), TaskState::Done);
    assert_eq!(rest.state(), TaskState::Pending);
    assert_eq!((job.map_start_bytes(0), job.map_bytes(0) + job.map_bytes(1)), (0, BLOCK));
    assert_eq!(
        (job.map_start_bytes(1), rest.split()),
        (job.map_bytes(0), done.split()),
        "the rest starts where the finished part ends"
    );
    let done_bytes = job.map_bytes(0);
    cluster.offer(2);
    let recovery = cluster.running(JobId(0), Kind::Map)[0];
    cluster.at(30.0).finish(recovery, BLOCK);
    let actions = cluster.offer(2);
    let resumed = actions.iter().find_map(|action| match action {
        Action::Launch { work: Work::Map { start_bytes, bytes, .. }, .. } => Some((*start_bytes, *bytes)),
        _ => None,
    });
    assert_eq!(resumed, Some((done_bytes, BLOCK - done_bytes)));
}

#[test]
fn sec_3c_reduces_pause_and_free_their_slot() {
    let mut cluster = ManualCluster::new("chronos(fifo)", 2, 2, 1);
    let (first, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 1) });
    cluster.offer(0);
    let (second, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 1) });
    cluster.offer(1);
    assert_eq!(cluster.running(first, Kind::Reduce).len(), 1);
    let on_1 = cluster.running(second, Kind::Reduce)[0];
    let actions = lose_node(cluster.at(10.0), 0);
    let pauses: Vec<AttemptId> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Pause { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(pauses, vec![on_1]);
    cluster.carry_out(&actions, 0.2);
    assert_eq!(cluster.state_of(second, Kind::Reduce, 0), TaskState::Paused);
    assert!(launches(&cluster.offer(1)).contains(&(first, Kind::Reduce, NodeId(1))));
}

#[test]
fn sec_3b_one_free_slot_is_reserved_for_one_lost_reduce() {
    let mut cluster = ManualCluster::new("chronos(fifo)", 3, 4, 2);
    let (first, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 2) });
    (0..2).for_each(|_| drop(cluster.offer(0)));
    let (second, _) = cluster.submit_job(TestJob { hosts: vec![vec![1]], slowstart_ppm: 0, ..job(1, 3) });
    [1, 1, 2].into_iter().for_each(|node| drop(cluster.offer(node)));
    assert_eq!((cluster.running(first, Kind::Reduce).len(), cluster.running(second, Kind::Reduce).len()), (2, 3));
    // Node 2 has one free slot. It is reserved for one lost reduce; the other needs a victim.
    let actions = lose_node(cluster.at(10.0), 0);
    let pauses = actions.iter().filter(|action| matches!(action, Action::Pause { .. })).count();
    assert_eq!(pauses, 1, "{actions:?}");
    cluster.carry_out(&actions, 0.2);
    let again: Vec<_> = (1..3).flat_map(|node| launches(&cluster.offer(node))).collect();
    assert_eq!(again.iter().filter(|(job, kind, _)| *job == first && *kind == Kind::Reduce).count(), 2, "{again:?}");
}

#[test]
fn sec_3a_chronos_wraps_every_base_policy() {
    for name in catalog::all_names().into_iter().filter(|name| name.starts_with("chronos(")) {
        let (mut cluster, [first, ..], actions) = first_job_loses_its_node(&name);
        // Victims, if there are any, belong to other jobs than the one that recovers.
        assert!(attempts_to_stop(&actions).iter().all(|attempt| attempt.task.job != first), "{name}: {actions:?}");
        cluster.carry_out(&actions, 0.5);
        (1..3).for_each(|node| drop(cluster.offer(node)));
        cluster.at(11.0).fire_timers();
    }
}

#[test]
fn without_chronos_lost_work_waits_for_a_free_slot() {
    let (mut cluster, [first, second, _], actions) = first_job_loses_its_node("fifo");
    assert_eq!(stop_requests(&actions), vec![]);
    assert_eq!(launches(&cluster.offer(1)), vec![]);
    let map = cluster.running(second, Kind::Map)[0];
    cluster.at(40.0).finish(map, BLOCK);
    assert!(launches(&cluster.offer(1)).contains(&(first, Kind::Map, NodeId(1))));
}
