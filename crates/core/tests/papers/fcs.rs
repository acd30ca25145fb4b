//! FCS: "Preemptive ReduceTask Scheduling for Fair and Fast Job Completion".

use crate::hand::*;
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
fn sec_4_the_migration_parameter_of_twenty_nodes_and_ninety_five_percent_is_61() {
    assert_eq!(refusals_before_migration(Migration::ForLocality(0.95), 20), 61);
    assert_eq!(refusals_before_migration(Migration::AfterRefusals(60), 20), 60);
    assert_eq!(refusals_before_migration(Migration::Never, 20), u64::MAX);
}

#[test]
fn sec_4_remaining_shuffle_time_follows_the_pace_of_the_maps() {
    // 30 maps in 60 s, 10 left: 20 s more, whatever one map takes.
    assert_eq!(remaining_shuffle(10, 30, secs(60), 5, secs(999)), secs(20));
    // None done yet: two waves of those that run.
    assert_eq!(remaining_shuffle(10, 0, secs(60), 5, secs(12)), secs(24));
    assert_eq!(remaining_shuffle(0, 30, secs(60), 0, secs(12)), Span::ZERO);
}

#[test]
fn sec_4_slackness_is_time_since_start_over_time_undisturbed() {
    // 100 s since it began, 20 s of them in a slot, half done: it would have taken 40 s.
    assert_eq!(slackness(secs(100), secs(20), 500_000), 2.5);
    assert_eq!(slackness(secs(100), Span::ZERO, 0), 0.0);
}

#[test]
fn sec_4_each_guard_spares_on_its_own() {
    let mut hand = Hand::new("fcs", 2, 2, 1);
    let (id, _) = hand.submit(job(2, 1));
    hand.beat(0);
    hand.at(10.0).finish_maps(id, BLOCK);
    hand.beat(0);
    let reduce = hand.running(id, Kind::Reduce)[0];
    hand.at(110.0).progress_of(reduce, 0.6);
    let now = hand.now;
    let job = hand.job(id);
    let is_protected = |guards: &Guards, now| !is_preemptable(job, TaskKey::reduce(0), guards, now);
    let none = Guards::default();
    assert!(!is_protected(&none, now));
    assert!(is_protected(&Guards { max_progress: Some(0.55), ..none }, now), "progress over the limit");
    assert!(!is_protected(&Guards { max_progress: Some(0.6), ..none }, now), "not at the limit");
    assert!(is_protected(&Guards { min_runtime: secs(101), ..none }, now), "just launched");
    assert!(!is_protected(&Guards { min_runtime: secs(100), ..none }, now));
    // Never disturbed: slackness is its progress.
    assert!(!is_protected(&Guards { max_slackness: Some(5.0), ..none }, now));
    assert!(is_protected(&Guards { max_slackness: Some(0.6), ..none }, now), "slackness at the limit");
    assert!(is_protected(&Guards { max_preemptions: Some(0), ..none }, now));
}

/// Two jobs: the large one holds both reduce slots while its maps still run, the small one has all maps done and wants one reduce slot.
fn large_holds_all_reduce_slots() -> (Hand, JobId) {
    let mut hand = Hand::new("fcs", 2, 10, 1);
    let (large, _) = hand.submit(JobOf { slowstart_ppm: 10_000, ..job(100, 2) });
    hand.beat_all();
    let first = hand.running(large, Kind::Map)[0];
    hand.at(20.0).finish(first, BLOCK);
    hand.beat_all();
    assert_eq!(hand.running(large, Kind::Reduce).len(), 2);
    (hand, large)
}

/// A small job's maps take slots and finish, so that its reduce may start at 60 s.
fn small_wants_a_reduce_slot(hand: &mut Hand, large: JobId) -> (JobId, Vec<Action>) {
    let (small, _) = hand.at(40.0).submit(job(1, 1));
    let done = hand.running(large, Kind::Map)[0];
    hand.finish(done, BLOCK);
    hand.beat_all();
    let map = hand.running(small, Kind::Map)[0];
    let actions = hand.at(60.0).finish(map, BLOCK);
    (small, actions)
}

#[test]
fn algorithm_1_a_small_job_pauses_one_reduce_of_a_large_one() {
    let (mut hand, large) = large_holds_all_reduce_slots();
    let (small, actions) = small_wants_a_reduce_slot(&mut hand, large);
    let [Action::Pause { attempt, node, reason }] = &orders(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!(
        (attempt.task.job, reason),
        (large, &Reason::PreemptedFor { job: small }),
        "line 5: m is one slot, and no more"
    );
    hand.obey(&actions, 0.1);
    assert!(launches(&hand.beat(node.0)).contains(&(small, Kind::Reduce, *node)), "the freed slot is the small job's");
}

#[test]
fn algorithm_1_line_4_nothing_is_preempted_while_slots_are_free() {
    let mut hand = Hand::new("fcs", 3, 10, 1);
    let (large, _) = hand.submit(JobOf { slowstart_ppm: 10_000, ..job(100, 2) });
    hand.beat_all();
    let first = hand.running(large, Kind::Map)[0];
    hand.at(20.0).finish(first, BLOCK);
    hand.beat_all();
    let (_, actions) = small_wants_a_reduce_slot(&mut hand, large);
    assert_eq!(orders(&actions), vec![], "the third node's reduce slot is free");
}

#[test]
fn algorithm_1_line_7_a_job_with_more_shuffle_left_demands_nothing() {
    let mut hand = Hand::new("fcs", 2, 10, 1);
    let (small, _) = hand.submit(JobOf { slowstart_ppm: 0, ..job(2, 2) });
    hand.beat_all();
    assert_eq!(hand.running(small, Kind::Reduce).len(), 2);
    hand.at(20.0).finish_maps(small, BLOCK);
    let (_, actions) = hand.at(40.0).submit(JobOf { slowstart_ppm: 0, ..job(100, 2) });
    assert_eq!(orders(&actions), vec![]);
    assert_eq!(orders(&hand.at(50.0).wake()), vec![]);
}

#[test]
fn algorithm_1_line_7_with_equal_shuffle_the_job_with_more_to_reduce_gives_way() {
    for (held_bytes, wanted_bytes, expected) in [(BLOCK, 1, 1), (1, BLOCK, 0)] {
        let mut hand = Hand::new("fcs", 1, 10, 1);
        let (holder, _) = hand.submit(job(1, 1));
        hand.beat(0);
        hand.at(10.0).finish_maps(holder, held_bytes);
        hand.beat(0);
        let (taker, _) = hand.at(20.0).submit(job(1, 1));
        hand.beat(0);
        hand.at(40.0).finish_maps(taker, wanted_bytes);
        // Both have all maps done, T_rs is zero for both; R_left decides, as of the next renewal.
        let actions = hand.at(40.0).wake();
        assert_eq!(orders(&actions).len(), expected, "holder {held_bytes}, taker {wanted_bytes}: {actions:?}");
    }
}

#[test]
fn algorithm_1_a_reduce_past_seventy_percent_keeps_its_slot() {
    let (mut hand, large) = large_holds_all_reduce_slots();
    hand.at(30.0).progress(large, Kind::Reduce, 0.71);
    let (_, actions) = small_wants_a_reduce_slot(&mut hand, large);
    assert_eq!(orders(&actions), vec![]);
}

#[test]
fn algorithm_1_a_reduce_just_launched_keeps_its_slot() {
    let mut policy = catalog::by_name("fcs").unwrap();
    policy.reduce.preempt[0].guards.min_runtime = secs(1000);
    let mut hand = Hand::with(Setup::new(policy), 2, 10, 1);
    let (large, _) = hand.submit(JobOf { slowstart_ppm: 10_000, ..job(100, 2) });
    hand.beat_all();
    let first = hand.running(large, Kind::Map)[0];
    hand.at(20.0).finish(first, BLOCK);
    hand.beat_all();
    let (_, actions) = small_wants_a_reduce_slot(&mut hand, large);
    assert_eq!(orders(&actions), vec![]);
}

#[test]
fn algorithm_1_a_reduce_of_slackness_five_keeps_its_slot() {
    let (mut hand, large) = large_holds_all_reduce_slots();
    let (_, actions) = small_wants_a_reduce_slot(&mut hand, large);
    let paused = asked(&actions)[0];
    hand.obey(&actions, 0.5);
    let small = JobId(1);
    let node = hand.job(large).task(TaskKey::reduce(paused.task.index)).node();
    hand.beat(node.0);
    let reduce = hand.running(small, Kind::Reduce)[0];
    // It served 40 s for half its work, so it would have taken 80 s; at 520 s since its start its slackness is over 6.
    hand.at(500.0).finish(reduce, 1);
    hand.beat(node.0);
    hand.at(520.0).progress(large, Kind::Reduce, 0.6);
    let other = hand.running(large, Kind::Reduce).into_iter().find(|a| a.task.index != paused.task.index).unwrap();
    hand.progress_of(other, 0.71);
    let (_, actions) = hand.submit(JobOf { slowstart_ppm: 0, ..job(1, 1) });
    assert_eq!(orders(&actions), vec![], "one is past 70 %, the other too slack");
}

/// A large job's reduce paused on a node; the small one that took its slot is done.
fn paused_and_slot_free() -> (Hand, JobId, AttemptId, NodeId) {
    let (mut hand, large) = large_holds_all_reduce_slots();
    let (small, actions) = small_wants_a_reduce_slot(&mut hand, large);
    let paused = asked(&actions)[0];
    hand.obey(&actions, 0.3);
    let node = hand.job(large).task(TaskKey::reduce(paused.task.index)).node();
    hand.beat(node.0);
    let reduce = hand.running(small, Kind::Reduce)[0];
    hand.at(100.0).finish(reduce, 1);
    (hand, large, paused, node)
}

#[test]
fn algorithm_2_line_4_a_paused_reduce_resumes_on_its_own_node() {
    let (mut hand, large, paused, node) = paused_and_slot_free();
    let actions = hand.beat(node.0);
    let resumed = actions.iter().find_map(|action| match action {
        Action::Launch { work: Work::Reduce { start }, .. } => Some(*start),
        _ => None,
    });
    assert_eq!(resumed, Some(Start::Resumed { from: paused }));
    assert_eq!(hand.job(large).task(TaskKey::reduce(paused.task.index)).progress_ppm(), 300_000, "with all it had");
}

#[test]
fn algorithm_2_lines_11_to_16_it_migrates_after_d_refusals() {
    let (mut hand, large, paused, node) = paused_and_slot_free();
    hand.join(0, 1, 1.0);
    let start = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Launch { work: Work::Reduce { start }, .. } => Some(*start),
            _ => None,
        })
    };
    // Offers of the new node are refused while r.migration is at most D = 60.
    for refusal in 0..=60 {
        assert_eq!(start(&hand.beat(2)), None, "refusal {refusal}");
    }
    assert_eq!(hand.state_of(large, Kind::Reduce, paused.task.index), TaskState::Paused);
    assert_eq!(start(&hand.beat(2)), Some(Start::Migrated { from: paused, node }));
}

#[test]
fn sec_5_2_2_the_killing_kind_loses_the_work() {
    let mut hand = Hand::new("fcs-kill", 2, 10, 1);
    let (large, _) = hand.submit(JobOf { slowstart_ppm: 10_000, ..job(100, 2) });
    hand.beat_all();
    let first = hand.running(large, Kind::Map)[0];
    hand.at(20.0).finish(first, BLOCK);
    hand.beat_all();
    let (_, actions) = small_wants_a_reduce_slot(&mut hand, large);
    assert!(matches!(orders(&actions)[..], [Action::Kill { .. }]), "{actions:?}");
    hand.obey(&actions, 0.3);
    assert_eq!(hand.job(large).task(TaskKey::reduce(asked(&actions)[0].task.index)).progress_ppm(), 0);
}
