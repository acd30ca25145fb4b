//! FCS: "Preemptive ReduceTask Scheduling for Fair and Fast Job Completion".

use crate::manual_cluster::*;
use giveway_core::policy::estimates::{remaining_shuffle, slackness};
use giveway_core::policy::placement::refusals_before_migration;
use giveway_core::policy::preemption::is_preemptable;
use giveway_core::policy::{Guards, Migration, catalog};
use giveway_core::state::TaskState;
use giveway_core::*;

fn secs(s: u64) -> Span {
    Span::from_secs(s)
}

#[test]
fn sec_4_the_migration_parameter_is_61_for_20_nodes_and_95_percent_locality() {
    assert_eq!(refusals_before_migration(Migration::ForLocality(0.95), 20), 61);
    assert_eq!(refusals_before_migration(Migration::AfterRefusals(60), 20), 60);
    assert_eq!(refusals_before_migration(Migration::Never, 20), u64::MAX);
}

#[test]
fn sec_4_remaining_shuffle_time_follows_the_rate_of_finished_maps() {
    // 30 maps in 60 s, 10 left: 20 s more; the mean map time cancels out.
    assert_eq!(remaining_shuffle(10, 30, secs(60), 5, secs(999)), secs(20));
    // No map is done: 10 maps left and 5 running are two waves of 12 s.
    assert_eq!(remaining_shuffle(10, 0, secs(60), 5, secs(12)), secs(24));
    assert_eq!(remaining_shuffle(0, 30, secs(60), 0, secs(12)), Span::ZERO);
}

#[test]
fn sec_4_slackness_is_time_since_start_over_undisturbed_time() {
    // 20 s of slot time for half the work: 40 s undisturbed. 100 s since its first launch.
    assert_eq!(slackness(secs(100), secs(20), 500_000), 2.5);
    assert_eq!(slackness(secs(100), Span::ZERO, 0), 0.0);
}

#[test]
fn sec_4_each_guard_protects_on_its_own() {
    let mut cluster = ManualCluster::new("fcs", 2, 2, 1);
    let (id, _) = cluster.submit_job(job(2, 1));
    cluster.offer(0);
    cluster.at(10.0).finish_maps(id, BLOCK);
    cluster.offer(0);
    let reduce = cluster.running(id, Kind::Reduce)[0];
    cluster.at(110.0).report_attempt(reduce, 0.6);
    let now = cluster.now;
    let job = cluster.job(id);
    let is_protected = |guards: &Guards, now| !is_preemptable(job, TaskKey::reduce(0), guards, now);
    let none = Guards::default();
    assert!(!is_protected(&none, now));
    assert!(is_protected(&Guards { max_progress: Some(0.55), ..none }, now), "progress over the limit");
    assert!(!is_protected(&Guards { max_progress: Some(0.6), ..none }, now), "not at the limit");
    assert!(is_protected(&Guards { min_runtime: secs(101), ..none }, now), "just launched");
    assert!(!is_protected(&Guards { min_runtime: secs(100), ..none }, now));
    // It has run without interruption, so its slackness is its progress, 0.6.
    assert!(!is_protected(&Guards { max_slackness: Some(5.0), ..none }, now));
    assert!(is_protected(&Guards { max_slackness: Some(0.6), ..none }, now), "slackness at the limit");
    assert!(is_protected(&Guards { max_preemptions: Some(0), ..none }, now));
}

/// A large job holds both reduce slots while its maps still run.
fn large_job_holds_all_reduce_slots() -> (ManualCluster, JobId) {
    let mut cluster = ManualCluster::new("fcs", 2, 10, 1);
    let (large, _) = cluster.submit_job(TestJob { slowstart_ppm: 10_000, ..job(100, 2) });
    cluster.offer_all();
    let first = cluster.running(large, Kind::Map)[0];
    cluster.at(20.0).finish(first, BLOCK);
    cluster.offer_all();
    assert_eq!(cluster.running(large, Kind::Reduce).len(), 2);
    (cluster, large)
}

/// Submits a small job and finishes its only map at 60 s, so that its reduce may start; returns the actions of that event.
fn small_job_needs_a_reduce_slot(cluster: &mut ManualCluster, large: JobId) -> (JobId, Vec<Action>) {
    let (small, _) = cluster.at(40.0).submit_job(job(1, 1));
    let done = cluster.running(large, Kind::Map)[0];
    cluster.finish(done, BLOCK);
    cluster.offer_all();
    let map = cluster.running(small, Kind::Map)[0];
    let actions = cluster.at(60.0).finish(map, BLOCK);
    (small, actions)
}

#[test]
fn algorithm_1_a_small_job_pauses_one_reduce_of_a_large_one() {
    let (mut cluster, large) = large_job_holds_all_reduce_slots();
    let (small, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    let [Action::Pause { attempt, node, reason }] = &stop_requests(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!(
        (attempt.task.job, reason.beneficiary()),
        (large, Some(small)),
        "line 5: m = 1, so one reduce is preempted"
    );
    cluster.carry_out(&actions, 0.1);
    assert!(
        launches(&cluster.offer(node.0)).contains(&(small, Kind::Reduce, *node)),
        "the freed slot is reserved for the small job"
    );
}

#[test]
fn algorithm_1_line_4_nothing_is_preempted_while_slots_are_free() {
    let mut cluster = ManualCluster::new("fcs", 3, 10, 1);
    let (large, _) = cluster.submit_job(TestJob { slowstart_ppm: 10_000, ..job(100, 2) });
    cluster.offer_all();
    let first = cluster.running(large, Kind::Map)[0];
    cluster.at(20.0).finish(first, BLOCK);
    cluster.offer_all();
    let (_, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    assert_eq!(stop_requests(&actions), vec![], "the third node's reduce slot is free");
}

#[test]
fn algorithm_1_line_7_a_job_with_more_shuffle_left_preempts_nothing() {
    let mut cluster = ManualCluster::new("fcs", 2, 10, 1);
    let (small, _) = cluster.submit_job(TestJob { slowstart_ppm: 0, ..job(2, 2) });
    cluster.offer_all();
    assert_eq!(cluster.running(small, Kind::Reduce).len(), 2);
    cluster.at(20.0).finish_maps(small, BLOCK);
    let (_, actions) = cluster.at(40.0).submit_job(TestJob { slowstart_ppm: 0, ..job(100, 2) });
    assert_eq!(stop_requests(&actions), vec![]);
    assert_eq!(stop_requests(&cluster.at(50.0).fire_timers()), vec![]);
}

#[test]
fn algorithm_1_line_7_with_equal_shuffle_the_job_with_more_to_reduce_is_preempted() {
    for (running_bytes, pending_bytes, expected) in [(BLOCK, 1, 1), (1, BLOCK, 0)] {
        let mut cluster = ManualCluster::new("fcs", 1, 10, 1);
        let (running, _) = cluster.submit_job(job(1, 1));
        cluster.offer(0);
        cluster.at(10.0).finish_maps(running, running_bytes);
        cluster.offer(0);
        let (pending, _) = cluster.at(20.0).submit_job(job(1, 1));
        cluster.offer(0);
        cluster.at(40.0).finish_maps(pending, pending_bytes);
        // All maps of both jobs are done, so T_rs is zero for both. R_left decides once the estimates are updated.
        let actions = cluster.at(40.0).fire_timers();
        assert_eq!(
            stop_requests(&actions).len(),
            expected,
            "running {running_bytes}, pending {pending_bytes}: {actions:?}"
        );
    }
}

#[test]
fn algorithm_1_a_reduce_past_seventy_percent_keeps_its_slot() {
    let (mut cluster, large) = large_job_holds_all_reduce_slots();
    cluster.at(30.0).report_progress(large, Kind::Reduce, 0.71);
    let (_, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    assert_eq!(stop_requests(&actions), vec![]);
}

#[test]
fn algorithm_1_a_reduce_just_launched_keeps_its_slot() {
    let mut policy = catalog::by_name("fcs").unwrap();
    policy.reduce.preempt[0].guards.min_runtime = secs(1000);
    let mut cluster = ManualCluster::with_setup(Setup::new(policy), 2, 10, 1);
    let (large, _) = cluster.submit_job(TestJob { slowstart_ppm: 10_000, ..job(100, 2) });
    cluster.offer_all();
    let first = cluster.running(large, Kind::Map)[0];
    cluster.at(20.0).finish(first, BLOCK);
    cluster.offer_all();
    let (_, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    assert_eq!(stop_requests(&actions), vec![]);
}

#[test]
fn algorithm_1_a_reduce_of_slackness_five_keeps_its_slot() {
    let (mut cluster, large) = large_job_holds_all_reduce_slots();
    let (_, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    let paused = attempts_to_stop(&actions)[0];
    cluster.carry_out(&actions, 0.5);
    let small = JobId(1);
    let node = cluster.job(large).task(TaskKey::reduce(paused.task.index)).node();
    cluster.offer(node.0);
    let reduce = cluster.running(small, Kind::Reduce)[0];
    // 40 s of slot time for half its work: 80 s undisturbed. 500 s after its first launch its slackness is over 6.
    cluster.at(500.0).finish(reduce, 1);
    cluster.offer(node.0);
    cluster.at(520.0).report_progress(large, Kind::Reduce, 0.6);
    let other = cluster.running(large, Kind::Reduce).into_iter().find(|a| a.task.index != paused.task.index).unwrap();
    cluster.report_attempt(other, 0.71);
    let (_, actions) = cluster.submit_job(TestJob { slowstart_ppm: 0, ..job(1, 1) });
    assert_eq!(stop_requests(&actions), vec![], "one reduce is past 70 %, the other over the slackness limit");
}

/// A reduce of a large job is paused, and the slot it lost is free again: job, paused attempt and its node.
fn paused_and_slot_free() -> (ManualCluster, JobId, AttemptId, NodeId) {
    let (mut cluster, large) = large_job_holds_all_reduce_slots();
    let (small, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    let paused = attempts_to_stop(&actions)[0];
    cluster.carry_out(&actions, 0.3);
    let node = cluster.job(large).task(TaskKey::reduce(paused.task.index)).node();
    cluster.offer(node.0);
    let reduce = cluster.running(small, Kind::Reduce)[0];
    cluster.at(100.0).finish(reduce, 1);
    (cluster, large, paused, node)
}

#[test]
fn algorithm_2_line_4_a_paused_reduce_resumes_on_its_own_node() {
    let (mut cluster, large, paused, node) = paused_and_slot_free();
    let actions = cluster.offer(node.0);
    let resumed = actions.iter().find_map(|action| match action {
        Action::Launch { work: Work::Reduce { start }, .. } => Some(*start),
        _ => None,
    });
    assert_eq!(resumed, Some(Start::Resumed { from: paused }));
    assert_eq!(
        cluster.job(large).task(TaskKey::reduce(paused.task.index)).progress_ppm(),
        300_000,
        "all progress is kept"
    );
}

#[test]
fn algorithm_2_lines_11_to_16_a_paused_reduce_migrates_after_d_refused_offers() {
    let (mut cluster, large, paused, node) = paused_and_slot_free();
    cluster.add_node(0, 1, 1.0);
    let start = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Launch { work: Work::Reduce { start }, .. } => Some(*start),
            _ => None,
        })
    };
    // The reduce refuses offers of the new node while r.migration is at most D = 60.
    for refusal in 0..=60 {
        assert_eq!(start(&cluster.offer(2)), None, "refusal {refusal}");
    }
    assert_eq!(cluster.state_of(large, Kind::Reduce, paused.task.index), TaskState::Paused);
    assert_eq!(start(&cluster.offer(2)), Some(Start::Migrated { from: paused, node }));
}

#[test]
fn sec_5_2_2_the_killing_variant_loses_the_work() {
    let mut cluster = ManualCluster::new("fcs-kill", 2, 10, 1);
    let (large, _) = cluster.submit_job(TestJob { slowstart_ppm: 10_000, ..job(100, 2) });
    cluster.offer_all();
    let first = cluster.running(large, Kind::Map)[0];
    cluster.at(20.0).finish(first, BLOCK);
    cluster.offer_all();
    let (_, actions) = small_job_needs_a_reduce_slot(&mut cluster, large);
    assert!(matches!(stop_requests(&actions)[..], [Action::Kill { .. }]), "{actions:?}");
    cluster.carry_out(&actions, 0.3);
    assert_eq!(cluster.job(large).task(TaskKey::reduce(attempts_to_stop(&actions)[0].task.index)).progress_ppm(), 0);
}
