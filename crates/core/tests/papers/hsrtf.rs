//! hSRTF: "On the Usability of Shortest Remaining Time First Policy in Shared Hadoop Clusters".

use crate::hand::*;
use giveway_core::policy::estimates::{reduce_time, remaining_time};
use giveway_core::policy::shares::{MakespanAlone, starvation_ratio};
use giveway_core::policy::{Share, catalog};
use giveway_core::*;

fn secs(s: u64) -> Span {
    Span::from_secs(s)
}

#[test]
fn eq_1_counts_whole_waves_of_both_phases() {
    // 100 maps on 50 slots are 2 waves of 10 s; 10 reduces on 5 slots 2 waves of 20 s.
    assert_eq!(
        remaining_time(PerKind::new(100, 10), PerKind::new(50.0, 5.0), PerKind::new(secs(10), secs(20))),
        secs(60)
    );
    // One map more is a third wave.
    assert_eq!(
        remaining_time(PerKind::new(101, 10), PerKind::new(50.0, 5.0), PerKind::new(secs(10), secs(20))),
        secs(70)
    );
    // No map left: reduces only.
    assert_eq!(remaining_time(PerKind::new(0, 1), PerKind::new(50.0, 5.0), PerKind::new(secs(10), secs(20))), secs(20));
    assert_eq!(
        remaining_time(PerKind::new(0, 0), PerKind::new(50.0, 5.0), PerKind::new(secs(10), secs(20))),
        Span::ZERO
    );
}

#[test]
fn eq_2_a_reduce_costs_per_byte_what_a_map_costs() {
    assert_eq!(reduce_time(256.0, 128.0, secs(10)), secs(20));
    assert_eq!(reduce_time(64.0, 128.0, secs(10)), secs(5));
}

#[test]
fn sec_3_2_map_time_comes_from_finished_maps_and_from_progress_of_running_ones() {
    let mut hand = Hand::new("hsrtf-pu", 1, 2, 1);
    let (id, _) = hand.submit(job(4, 1));
    hand.beat_all();
    hand.beat_all();
    let running = hand.running(id, Kind::Map);
    hand.at(20.0).finish(running[0], BLOCK);
    // The other has run 20 s and come half way: it will take 40 s, and the mean is 30 s.
    hand.progress_of(running[1], 0.5);
    hand.at(20.0).wake();
    assert_eq!(hand.job(id).estimate().task_time[Kind::Map], secs(30));
}

#[test]
fn sec_3_2_reduce_time_comes_from_sizes_while_maps_run_and_from_reduces_afterwards() {
    let mut hand = Hand::new("hsrtf-pu", 1, 2, 1);
    let (id, _) = hand.submit(job(2, 1));
    hand.beat_all();
    hand.beat_all();
    let running = hand.running(id, Kind::Map);
    // One of two maps gave half a block, so both will give one block to the one reduce: one map time, 20 s.
    hand.at(20.0).finish(running[0], BLOCK / 2);
    hand.wake();
    assert_eq!(hand.job(id).estimate().task_time, PerKind::new(secs(20), secs(20)));
    hand.at(20.0).finish(running[1], BLOCK / 2);
    hand.beat(0);
    hand.at(50.0).progress(id, Kind::Reduce, 0.5);
    hand.wake();
    assert_eq!(hand.job(id).estimate().task_time[Kind::Reduce], secs(60));
}

#[test]
fn sec_3_2_a_new_job_starts_from_the_averages_of_running_ones() {
    let mut hand = Hand::new("hsrtf-pu", 1, 2, 1);
    let (first, _) = hand.submit(job(4, 1));
    hand.at(0.0).beat(0);
    hand.at(12.0).finish_maps(first, BLOCK);
    hand.wake();
    let (second, _) = hand.submit(job(4, 1));
    assert_eq!(hand.job(second).estimate().task_time[Kind::Map], secs(12));
}

#[test]
fn sec_3_2_estimates_are_renewed_every_ten_seconds_and_not_between() {
    let mut hand = Hand::new("hsrtf-pu", 1, 2, 1);
    let (id, actions) = hand.submit(job(4, 1));
    assert!(
        actions.contains(&Action::SetTimer { timer: Timer::Estimates, at: Time::from_secs_f64(10.0) }),
        "{actions:?}"
    );
    let before = *hand.job(id).estimate();
    hand.at(1.0).beat(0);
    hand.at(5.0).finish_maps(id, BLOCK);
    assert_eq!(*hand.job(id).estimate(), before);
    let actions = hand.at(10.0).wake();
    assert_ne!(*hand.job(id).estimate(), before);
    assert!(
        actions.contains(&Action::SetTimer { timer: Timer::Estimates, at: Time::from_secs_f64(20.0) }),
        "{actions:?}"
    );
}

#[test]
fn pure_mode_gives_all_slots_to_the_shortest_and_what_it_cannot_use_to_the_next() {
    let mut hand = Hand::new("hsrtf-pu", 4, 1, 1);
    let (long, _) = hand.submit(job(100, 1));
    let (short, _) = hand.submit(job(2, 1));
    let got = launches(&hand.beat_all());
    let of = |id: JobId| got.iter().filter(|(job, ..)| *job == id).count();
    assert_eq!((of(short), of(long)), (2, 2));
    assert_eq!(got[0].0, short);
}

/// Three jobs of very different length on 60 map slots; what each is owed, and its remaining time.
fn owed_and_remaining(setup: Setup) -> (Vec<f64>, Vec<f64>) {
    let mut hand = Hand::with(setup, 10, 6, 2);
    let ids: Vec<JobId> = [600, 300, 100].map(|maps| hand.submit(job(maps, 4)).0).into();
    hand.at(10.0).wake();
    let owed = ids.iter().map(|&id| hand.job(id).counts(Kind::Map).fair_share).collect();
    (owed, ids.iter().map(|&id| hand.job(id).estimate().remaining_time.as_secs_f64()).collect())
}

#[test]
fn eqs_3_and_4_shares_are_inverse_to_remaining_time_and_add_up_to_the_cluster() {
    let (owed, remaining) = owed_and_remaining(Setup::new(catalog::by_name("hsrtf-pr").unwrap()));
    assert!((owed.iter().sum::<f64>() - 60.0).abs() < 1e-6, "{owed:?}");
    // Nobody has waited long yet, so eq. 5 is nearly one for all.
    for i in 0..3 {
        let expected = remaining[0] / remaining[i] * owed[0];
        assert!((owed[i] / expected - 1.0).abs() < 0.05, "S_i = RT_0 / RT_i x S_0: {owed:?} for {remaining:?}");
    }
}

#[test]
fn eq_5_to_the_letter_undoes_eq_3() {
    let mut policy = catalog::by_name("hsrtf-pr").unwrap();
    policy.map.share = Share::InverseRemainingTimeLiteral;
    let (owed, _) = owed_and_remaining(Setup::new(policy));
    assert!((owed.iter().sum::<f64>() - 60.0).abs() < 1e-6, "{owed:?}");
    // Eq. 3 alone would give 9 : 16 : 35; with the letter of eq. 5 all three are owed about a third.
    assert!(owed.iter().all(|share| (share - 20.0).abs() < 2.0), "{owed:?}");
}

#[test]
fn sec_3_5_what_a_job_cannot_use_is_handed_on() {
    let mut hand = Hand::new("hsrtf-pr", 10, 6, 2);
    let (long, _) = hand.submit(job(600, 4));
    let (tiny, _) = hand.submit(job(1, 1));
    assert_eq!(hand.job(tiny).counts(Kind::Map).fair_share, 1.0, "at once");
    hand.at(10.0).wake();
    assert_eq!(hand.job(tiny).counts(Kind::Map).fair_share, 1.0);
    assert!((hand.job(long).counts(Kind::Map).fair_share - 59.0).abs() < 1e-6);
}

#[test]
fn eq_5_the_longer_a_job_starves_the_more_it_is_owed() {
    let mut hand = Hand::new("hsrtf-pr", 10, 6, 2);
    let (id, _) = hand.submit(job(600, 4));
    let slots = PerKind::new(60, 20);
    let ratio = |alone, at: f64| starvation_ratio(hand.job(id), Kind::Map, 6.0, slots, alone, Time::from_secs_f64(at));
    // Alone on the cluster: 10 waves of 30 s and one of 60 s make 360 s. On a tenth of the slots: 100 waves and 2 waves make 3120 s.
    assert!((ratio(MakespanAlone::OnTheCluster, 0.0) - 3120.0 / 360.0).abs() < 1e-9);
    assert!((ratio(MakespanAlone::OnTheCluster, 1e4) - (1e4 + 3120.0) / 360.0).abs() < 1e-9);
    assert!((ratio(MakespanAlone::OnItsShare, 0.0) - 1.0).abs() < 1e-9);
    assert!(
        (ratio(MakespanAlone::OnItsShare, 3120.0) - 2.0).abs() < 1e-9,
        "kept waiting for as long as it should have taken"
    );
}

#[test]
fn sec_3_3_victims_come_from_the_longest_job_least_progress_first_and_are_killed() {
    let mut hand = Hand::new("hsrtf-pup", 4, 1, 1);
    let (longer, _) = hand.submit(job(300, 1));
    let (long, _) = hand.submit(job(100, 1));
    hand.beat(0);
    hand.beat(1);
    assert_eq!(hand.running(long, Kind::Map).len(), 2, "the shorter of the two goes first");
    let rest = hand.running(long, Kind::Map);
    // Two slots for the longer one, by hand: the other has no more than two maps to give.
    hand.at(1.0).finish(rest[0], BLOCK);
    hand.beat(2);
    hand.beat(3);
    let _ = longer;
    for (i, attempt) in hand.running(long, Kind::Map).into_iter().enumerate() {
        hand.progress_of(attempt, 0.2 + 0.1 * i as f64);
    }
    let least = hand.running(long, Kind::Map)[0];
    let (short, actions) = hand.at(5.0).submit(job(1, 1));
    let orders = orders(&actions);
    assert_eq!(orders.len(), 0, "a slot is free on node 0: {orders:?}");
    hand.beat(0);
    let (shorter, actions) = hand.submit(job(1, 1));
    assert_eq!(asked(&actions), vec![least], "{actions:?}");
    let [Action::Kill { reason, .. }] = &self::orders(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!(*reason, Reason::PreemptedFor { job: shorter });
    let node = hand.job(long).task(TaskKey::map(least.task.index)).node();
    hand.obey(&actions, 0.2);
    assert_eq!(launches(&hand.beat(node.0)), vec![(shorter, Kind::Map, node)], "the freed slot is the taker's");
    let _ = short;
}

#[test]
fn sec_6_the_same_with_work_kept_ends_maps_early() {
    let mut hand = Hand::new("hsrtf-pup-pause", 2, 1, 1);
    let (long, _) = hand.submit(job(100, 1));
    hand.beat_all();
    let (short, actions) = hand.at(10.0).submit(job(1, 1));
    let orders = orders(&actions);
    assert!(matches!(orders[..], [Action::EndEarly { .. }]), "{actions:?}");
    hand.obey(&actions, 0.25);
    assert_eq!(hand.job(long).total(Kind::Map), 101, "the rest of the map is a new map");
    assert_eq!(hand.job(long).counts(Kind::Map).done, 1);
    assert_eq!(launches(&hand.beat_all()).first().map(|launch| launch.0), Some(short));
}

#[test]
fn sec_3_5_with_preemption_a_job_below_its_share_takes_slots() {
    let mut hand = Hand::new("hsrtf-prp", 10, 1, 1);
    let (long, _) = hand.submit(job(1000, 1));
    hand.beat_all();
    assert_eq!(hand.running(long, Kind::Map).len(), 10);
    let (short, actions) = hand.at(10.0).submit(job(10, 1));
    let taken = asked(&actions).len();
    let owed = hand.job(short).counts(Kind::Map).fair_share;
    assert!(taken >= 1 && taken as f64 <= owed, "took {taken} of {owed} owed");
}

#[test]
fn sec_3_4_reduces_go_where_maps_of_their_job_ran() {
    let mut hand = Hand::new("hsrtf-pu", 4, 1, 1);
    let (id, _) = hand.submit(JobOf { hosts: vec![vec![2]], ..job(1, 1) });
    hand.beat(2);
    hand.at(10.0).finish_maps(id, BLOCK);
    assert_eq!(launches(&hand.beat(0)), vec![], "it holds out for node 2");
    assert_eq!(launches(&hand.beat(2)), vec![(id, Kind::Reduce, NodeId(2))]);
    // It does not hold out for ever.
    let (other, _) = hand.submit(JobOf { hosts: vec![vec![2]], ..job(1, 1) });
    hand.beat(2);
    hand.at(20.0).finish_maps(other, BLOCK);
    assert_eq!(launches(&hand.beat(0)), vec![]);
    assert_eq!(launches(&hand.at(26.0).beat(0)), vec![(other, Kind::Reduce, NodeId(0))]);
}
