//! hSRTF: "On the Usability of Shortest Remaining Time First Policy in Shared Hadoop Clusters".

use crate::manual_cluster::*;
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
    let mut cluster = ManualCluster::new("hsrtf-pu", 1, 2, 1);
    let (id, _) = cluster.submit_job(job(4, 1));
    cluster.offer_all();
    cluster.offer_all();
    let running = cluster.running(id, Kind::Map);
    cluster.at(20.0).finish(running[0], BLOCK);
    // The other map is at 50 % after 20 s: 40 s in all. The mean is 30 s.
    cluster.report_attempt(running[1], 0.5);
    cluster.at(20.0).fire_timers();
    assert_eq!(cluster.job(id).estimate().task_time[Kind::Map], secs(30));
}

#[test]
fn sec_3_2_reduce_time_comes_from_sizes_while_maps_run_and_from_reduces_afterwards() {
    let mut cluster = ManualCluster::new("hsrtf-pu", 1, 2, 1);
    let (id, _) = cluster.submit_job(job(2, 1));
    cluster.offer_all();
    cluster.offer_all();
    let running = cluster.running(id, Kind::Map);
    // One of two maps wrote half a block, so the only reduce is expected to read one block. By eq. 2 it takes one map time, 20 s.
    cluster.at(20.0).finish(running[0], BLOCK / 2);
    cluster.fire_timers();
    assert_eq!(cluster.job(id).estimate().task_time, PerKind::new(secs(20), secs(20)));
    cluster.at(20.0).finish(running[1], BLOCK / 2);
    cluster.offer(0);
    cluster.at(50.0).report_progress(id, Kind::Reduce, 0.5);
    cluster.fire_timers();
    assert_eq!(cluster.job(id).estimate().task_time[Kind::Reduce], secs(60));
}

#[test]
fn sec_3_2_a_new_job_starts_from_the_averages_of_running_ones() {
    let mut cluster = ManualCluster::new("hsrtf-pu", 1, 2, 1);
    let (first, _) = cluster.submit_job(job(4, 1));
    cluster.at(0.0).offer(0);
    cluster.at(12.0).finish_maps(first, BLOCK);
    cluster.fire_timers();
    let (second, _) = cluster.submit_job(job(4, 1));
    assert_eq!(cluster.job(second).estimate().task_time[Kind::Map], secs(12));
}

#[test]
fn sec_3_2_estimates_are_updated_every_ten_seconds_and_not_in_between() {
    let mut cluster = ManualCluster::new("hsrtf-pu", 1, 2, 1);
    let (id, actions) = cluster.submit_job(job(4, 1));
    assert!(
        actions.contains(&Action::SetTimer { timer: Timer::Estimates, at: Time::from_secs_f64(10.0) }),
        "{actions:?}"
    );
    let before = *cluster.job(id).estimate();
    cluster.at(1.0).offer(0);
    cluster.at(5.0).finish_maps(id, BLOCK);
    assert_eq!(*cluster.job(id).estimate(), before);
    let actions = cluster.at(10.0).fire_timers();
    assert_ne!(*cluster.job(id).estimate(), before);
    assert!(
        actions.contains(&Action::SetTimer { timer: Timer::Estimates, at: Time::from_secs_f64(20.0) }),
        "{actions:?}"
    );
}

#[test]
fn pure_mode_serves_the_shortest_job_first_and_passes_on_the_slots_it_cannot_use() {
    let mut cluster = ManualCluster::new("hsrtf-pu", 4, 1, 1);
    let (long, _) = cluster.submit_job(job(100, 1));
    let (short, _) = cluster.submit_job(job(2, 1));
    let got = launches(&cluster.offer_all());
    let of = |id: JobId| got.iter().filter(|(job, ..)| *job == id).count();
    assert_eq!((of(short), of(long)), (2, 2));
    assert_eq!(got[0].0, short);
}

/// The map share and the remaining time (s) of three jobs of different length on 60 map slots.
fn shares_and_remaining(setup: Setup) -> (Vec<f64>, Vec<f64>) {
    let mut cluster = ManualCluster::with_setup(setup, 10, 6, 2);
    let ids: Vec<JobId> = [600, 300, 100].map(|maps| cluster.submit_job(job(maps, 4)).0).into();
    cluster.at(10.0).fire_timers();
    let shares = ids.iter().map(|&id| cluster.job(id).counts(Kind::Map).fair_share).collect();
    (shares, ids.iter().map(|&id| cluster.job(id).estimate().remaining_time.as_secs_f64()).collect())
}

#[test]
fn eqs_3_and_4_shares_are_inverse_to_remaining_time_and_add_up_to_the_cluster() {
    let (shares, remaining) = shares_and_remaining(Setup::new(catalog::by_name("hsrtf-pr").unwrap()));
    assert!((shares.iter().sum::<f64>() - 60.0).abs() < 1e-6, "{shares:?}");
    // No job has waited long, so the starvation ratio of eq. 5 is nearly 1 for all.
    for i in 0..3 {
        let expected = remaining[0] / remaining[i] * shares[0];
        assert!((shares[i] / expected - 1.0).abs() < 0.05, "S_i = RT_0 / RT_i x S_0: {shares:?} for {remaining:?}");
    }
}

#[test]
fn eq_5_taken_literally_cancels_eq_3() {
    let mut policy = catalog::by_name("hsrtf-pr").unwrap();
    policy.map.share = Share::InverseRemainingTimeLiteral;
    let (shares, _) = shares_and_remaining(Setup::new(policy));
    assert!((shares.iter().sum::<f64>() - 60.0).abs() < 1e-6, "{shares:?}");
    // Eq. 3 alone would give 9 : 16 : 35 slots; with eq. 5 as printed every job gets about a third.
    assert!(shares.iter().all(|share| (share - 20.0).abs() < 2.0), "{shares:?}");
}

#[test]
fn sec_3_5_slots_that_a_job_cannot_use_are_redistributed() {
    let mut cluster = ManualCluster::new("hsrtf-pr", 10, 6, 2);
    let (long, _) = cluster.submit_job(job(600, 4));
    let (tiny, _) = cluster.submit_job(job(1, 1));
    assert_eq!(cluster.job(tiny).counts(Kind::Map).fair_share, 1.0, "at submission, before the next update");
    cluster.at(10.0).fire_timers();
    assert_eq!(cluster.job(tiny).counts(Kind::Map).fair_share, 1.0);
    assert!((cluster.job(long).counts(Kind::Map).fair_share - 59.0).abs() < 1e-6);
}

#[test]
fn eq_5_the_starvation_ratio_grows_with_the_waiting_time() {
    let mut cluster = ManualCluster::new("hsrtf-pr", 10, 6, 2);
    let (id, _) = cluster.submit_job(job(600, 4));
    let slots = PerKind::new(60, 20);
    let ratio =
        |alone, at: f64| starvation_ratio(cluster.job(id), Kind::Map, 6.0, slots, alone, Time::from_secs_f64(at));
    // Alone on the cluster: 10 map waves of 30 s and one reduce wave of 60 s, 360 s. On a tenth of the slots: 100 map waves and 2 reduce
    // waves, 3120 s.
    assert!((ratio(MakespanAlone::OnTheCluster, 0.0) - 3120.0 / 360.0).abs() < 1e-9);
    assert!((ratio(MakespanAlone::OnTheCluster, 1e4) - (1e4 + 3120.0) / 360.0).abs() < 1e-9);
    assert!((ratio(MakespanAlone::OnItsShare, 0.0) - 1.0).abs() < 1e-9);
    assert!(
        (ratio(MakespanAlone::OnItsShare, 3120.0) - 2.0).abs() < 1e-9,
        "it has waited as long as it takes on its share"
    );
}

#[test]
fn sec_3_3_victims_come_from_a_longer_job_least_progress_first_and_are_killed() {
    let mut cluster = ManualCluster::new("hsrtf-pup", 4, 1, 1);
    cluster.submit_job(job(300, 1));
    let (long, _) = cluster.submit_job(job(100, 1));
    cluster.offer(0);
    cluster.offer(1);
    assert_eq!(cluster.running(long, Kind::Map).len(), 2, "the shorter job is served first");
    let rest = cluster.running(long, Kind::Map);
    // One attempt finishes: node 0 has a free slot from here on.
    cluster.at(1.0).finish(rest[0], BLOCK);
    cluster.offer(2);
    cluster.offer(3);
    for (i, attempt) in cluster.running(long, Kind::Map).into_iter().enumerate() {
        cluster.report_attempt(attempt, 0.2 + 0.1 * i as f64);
    }
    let least = cluster.running(long, Kind::Map)[0];
    let (_, actions) = cluster.at(5.0).submit_job(job(1, 1));
    assert_eq!(stop_requests(&actions), vec![], "a slot is free on node 0");
    cluster.offer(0);
    let (shorter, actions) = cluster.submit_job(job(1, 1));
    assert_eq!(attempts_to_stop(&actions), vec![least], "{actions:?}");
    let [Action::Kill { reason, .. }] = &stop_requests(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!(reason.beneficiary(), Some(shorter));
    let node = cluster.job(long).task(TaskKey::map(least.task.index)).node();
    cluster.carry_out(&actions, 0.2);
    assert_eq!(
        launches(&cluster.offer(node.0)),
        vec![(shorter, Kind::Map, node)],
        "the freed slot is reserved for the beneficiary"
    );
}

#[test]
fn sec_3_3_the_job_with_the_longest_remaining_time_is_preempted_first() {
    let mut cluster = ManualCluster::new("hsrtf-pup", 4, 1, 1);
    let (long, _) = cluster.submit_job(job(6, 1));
    let (longer, _) = cluster.submit_job(job(300, 1));
    cluster.offer_all();
    cluster.at(1.0).finish_maps(long, BLOCK);
    cluster.offer_all();
    let [long_maps, longer_maps] = [long, longer].map(|id| cluster.running(id, Kind::Map));
    assert_eq!((long_maps.len(), longer_maps.len()), (2, 2));
    cluster.report_progress(long, Kind::Map, 0.1);
    cluster.report_attempt(longer_maps[0], 0.5);
    cluster.report_attempt(longer_maps[1], 0.3);
    let (_, actions) = cluster.at(2.0).submit_job(job(1, 1));
    assert_eq!(attempts_to_stop(&actions), vec![longer_maps[1]], "{actions:?}");
}

#[test]
fn sec_6_preemption_that_keeps_work_ends_maps_early() {
    let mut cluster = ManualCluster::new("hsrtf-pup-pause", 2, 1, 1);
    let (long, _) = cluster.submit_job(job(100, 1));
    cluster.offer_all();
    let (short, actions) = cluster.at(10.0).submit_job(job(1, 1));
    assert!(matches!(stop_requests(&actions)[..], [Action::EndEarly { .. }]), "{actions:?}");
    cluster.carry_out(&actions, 0.25);
    assert_eq!(cluster.job(long).total(Kind::Map), 101, "the rest of the map is a new map");
    assert_eq!(cluster.job(long).counts(Kind::Map).done, 1);
    assert_eq!(launches(&cluster.offer_all()).first().map(|launch| launch.0), Some(short));
}

#[test]
fn sec_6_attempts_that_are_too_young_are_preempted_when_they_have_run_long_enough() {
    let mut cluster = ManualCluster::new("hsrtf-pup-pause", 2, 1, 1);
    cluster.submit_job(job(100, 1));
    cluster.offer_all();
    let (_, actions) = cluster.at(2.3).submit_job(job(1, 1));
    assert_eq!(stop_requests(&actions), vec![], "they have run for 2.3 s of 3 s");
    let timer = Timer::Preemption;
    let at = Time::from_secs_f64(3.8);
    assert!(actions.contains(&Action::SetTimer { timer, at }), "{actions:?}");
    let actions = cluster.at(3.8).submit_event(Event::TimerFired { timer });
    assert!(matches!(stop_requests(&actions)[..], [Action::EndEarly { .. }]), "{actions:?}");
}

/// `giveway` protects attempts from a small job for no longer than that job takes.
#[test]
fn a_small_job_waits_no_longer_than_it_takes_for_attempts_that_are_too_young() {
    let mut cluster = ManualCluster::new("giveway", 2, 1, 1);
    cluster.submit_job(job(100, 1));
    cluster.offer_all();
    let hint = Some(Hint { map: Span::from_secs_f64(0.3), reduce: Span::from_secs_f64(0.1) });
    let (_, actions) = cluster.at(0.1).submit_job(TestJob { hint, ..job(1, 1) });
    assert_eq!(stop_requests(&actions), vec![], "they have run for 0.1 s");
    let due = |action: &Action| match *action {
        Action::SetTimer { timer: Timer::Preemption, at } => Some(at),
        _ => None,
    };
    let at = actions.iter().filter_map(due).min().expect("the timer is set");
    assert!(at < Time::from_secs_f64(0.1 + 0.6), "{at:?}");
    let actions = cluster.at(at.as_secs_f64()).submit_event(Event::TimerFired { timer: Timer::Preemption });
    assert!(matches!(stop_requests(&actions)[..], [Action::EndEarly { .. }]), "{actions:?}");
}

#[test]
fn sec_3_5_with_preemption_a_job_below_its_share_takes_slots() {
    let mut cluster = ManualCluster::new("hsrtf-prp", 10, 1, 1);
    let (long, _) = cluster.submit_job(job(1000, 1));
    cluster.offer_all();
    assert_eq!(cluster.running(long, Kind::Map).len(), 10);
    let (short, actions) = cluster.at(10.0).submit_job(job(10, 1));
    let preempted = attempts_to_stop(&actions).len();
    let share = cluster.job(short).counts(Kind::Map).fair_share;
    assert!(preempted >= 1 && preempted as f64 <= share, "preempted {preempted} for a share of {share}");
}

#[test]
fn sec_3_5_a_job_gets_its_share_from_one_that_then_ranks_equal() {
    let mut cluster = ManualCluster::new("hsrtf-prp", 4, 1, 1);
    cluster.submit_job(job(4, 1));
    cluster.offer_all();
    // Both need one wave of maps of the same length. With one map each has exactly its share.
    let (second, actions) = cluster.submit_job(job(1, 1));
    assert_eq!(cluster.job(second).counts(Kind::Map).fair_share, 1.0);
    assert_eq!(attempts_to_stop(&actions).len(), 1);
    let (_, actions) = cluster.at(0.1).submit_job(job(1, 1));
    assert_eq!(attempts_to_stop(&actions).len(), 1, "from the first job, which still has more than its share");
}

#[test]
fn sec_3_4_reduces_run_where_maps_of_their_job_ran() {
    let mut cluster = ManualCluster::new("hsrtf-pu", 4, 1, 1);
    let (id, _) = cluster.submit_job(TestJob { hosts: vec![vec![2]], ..job(1, 1) });
    cluster.offer(2);
    cluster.at(10.0).finish_maps(id, BLOCK);
    assert_eq!(launches(&cluster.offer(0)), vec![], "it waits for node 2");
    assert_eq!(launches(&cluster.offer(2)), vec![(id, Kind::Reduce, NodeId(2))]);
    // After the delay it takes any node.
    let (other, _) = cluster.submit_job(TestJob { hosts: vec![vec![2]], ..job(1, 1) });
    cluster.offer(2);
    cluster.at(20.0).finish_maps(other, BLOCK);
    assert_eq!(launches(&cluster.offer(0)), vec![]);
    assert_eq!(launches(&cluster.at(26.0).offer(0)), vec![(other, Kind::Reduce, NodeId(0))]);
}
