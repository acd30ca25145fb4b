//! COSHH: "A Classification and Optimization based Scheduler for Heterogeneous Hadoop Systems".

use crate::hand::*;
use giveway_core::policy::matching::lp::{Problem, solve};
use giveway_core::policy::{Fallback, Matching, catalog};
use giveway_core::*;

#[test]
fn sec_3_2_the_worked_instance_comes_out() {
    let mu = [vec![9.0, 5.0], vec![2.0, 1.0]];
    let allocation = solve(&Problem { alpha: &[2.45, 2.45], mu: &mu, counts: &[1.0, 1.0] }).unwrap();
    assert!((allocation.lambda - 1.0204).abs() < 1e-4);
    for (got, wanted) in allocation.delta.iter().flatten().zip([0.0, 0.5, 1.0, 0.5]) {
        assert!((got - wanted).abs() < 1e-6, "{:?}", allocation.delta);
    }
    assert_eq!(allocation.suggested(), vec![vec![1], vec![0, 1]], "SC_1 = {{C_2}}, SC_2 = {{C_1, C_2}}");
}

fn user(name: &str, weight: f64, min_share: u32) -> User {
    User { name: name.into(), weight, min_share }
}

fn setup(users: Vec<User>, fallback: Fallback) -> Setup {
    let mut policy = catalog::by_name("coshh").unwrap();
    policy.matching = Some(Matching { fallback, place_replicas: false, ..Matching::default() });
    Setup { tenants: Tenants { users, pools: Vec::new() }, ..Setup::new(policy) }
}

fn hinted(user: &'static str, maps: u32, map_s: u64) -> JobOf {
    let hint = Hint { map: Span::from_secs(map_s), reduce: Span::from_secs(1) };
    JobOf { user, hint: Some(hint), ..job(maps, 0) }
}

#[test]
fn algorithm_2_first_loop_the_user_furthest_below_min_share_times_weight_goes_first() {
    let users = vec![user("small", 1.0, 4), user("large", 1.0, 6), user("heavy", 3.0, 3), user("none", 9.0, 0)];
    let mut hand = Hand::with(setup(users, Fallback::Backfill), 1, 16, 1);
    for name in ["none", "small", "large", "heavy"] {
        hand.submit(hinted(name, 20, 10));
    }
    let order: Vec<JobId> = launches(&hand.beat(0)).iter().map(|launch| launch.0).collect();
    let [none, small, large, heavy] = [JobId(0), JobId(1), JobId(2), JobId(3)];
    // (min - current) x weight: heavy 9, large 6, small 4. Heavy leads until 3 x 2 = 6 ties with large, and so on down to none left below.
    assert_eq!(order[0], heavy);
    let count = |of: JobId| order[..13].iter().filter(|&&id| id == of).count();
    assert_eq!((count(heavy), count(large), count(small), count(none)), (3, 6, 4, 0), "{order:?}");
    // Second loop: smallest current / weight. None has 0 of weight 9, so it comes next.
    assert!(order[13..].iter().all(|&id| id == none), "{order:?}");
}

#[test]
fn algorithm_2_second_loop_shares_follow_weights() {
    let users = vec![user("one", 1.0, 0), user("two", 2.0, 0)];
    let mut hand = Hand::with(setup(users, Fallback::Backfill), 1, 9, 1);
    let (one, _) = hand.submit(hinted("one", 20, 10));
    let (two, _) = hand.submit(hinted("two", 20, 10));
    let got = launches(&hand.beat(0));
    let count = |of: JobId| got.iter().filter(|launch| launch.0 == of).count();
    assert_eq!((count(one), count(two)), (3, 6));
}

/// A fast node and a slow one; one user's tasks take a hundred times as long as the other's.
fn fast_and_slow(fallback: Fallback) -> (Hand, JobId, JobId) {
    let mut hand = Hand::with(setup(vec![user("quick", 1.0, 0), user("slow", 1.0, 0)], fallback), 0, 0, 0);
    hand.join(4, 1, 1.0);
    hand.join(4, 1, 0.01);
    let (quick, _) = hand.submit(hinted("quick", 50, 1));
    let (slow, _) = hand.submit(hinted("slow", 50, 1000));
    (hand, quick, slow)
}

#[test]
fn sec_3_1_there_are_as_many_classes_as_users_and_like_jobs_make_no_new_ones() {
    let (mut hand, ..) = fast_and_slow(Fallback::Backfill);
    let solved = hand.core.matcher().unwrap().classifications();
    assert!(solved >= 1);
    let classes = |hand: &Hand, id: JobId| hand.job(id).classes()[1].unwrap();
    assert_ne!(classes(&hand, JobId(0)), classes(&hand, JobId(1)));
    let (again, _) = hand.at(60.0).submit(hinted("slow", 50, 1000));
    assert_eq!(
        hand.core.matcher().unwrap().classifications(),
        solved,
        "Algorithm 1: a job that fits a class makes nothing anew"
    );
    assert_eq!(classes(&hand, again), classes(&hand, JobId(1)));
}

#[test]
fn sec_4_a_strict_node_stays_idle_rather_than_take_a_class_it_was_not_suggested() {
    let (mut strict, ..) = fast_and_slow(Fallback::Strict);
    let (mut backfill, ..) = fast_and_slow(Fallback::Backfill);
    let matcher = strict.core.matcher().unwrap();
    let suggested = |node: u16| (0..2).filter(|&class| matcher.suggests(1, node, Some(class))).count();
    let narrow = (0..2).find(|&node| suggested(node) == 1).expect("the program leaves one type with one class");
    let jobs_on = |hand: &mut Hand, node: u16| {
        let mut jobs: Vec<JobId> = launches(&hand.beat(u32::from(node))).iter().map(|launch| launch.0).collect();
        jobs.dedup();
        jobs.sort();
        jobs.dedup();
        jobs.len()
    };
    assert_eq!(jobs_on(&mut strict, narrow), 1);
    assert!(jobs_on(&mut backfill, narrow) >= 1);
}

#[test]
fn sec_3_2_replicas_go_to_suggested_nodes() {
    let mut policy = catalog::by_name("coshh").unwrap();
    policy.matching = Some(Matching { place_replicas: true, ..Matching::default() });
    let mut setup = setup(vec![user("quick", 1.0, 0), user("slow", 1.0, 0)], Fallback::Backfill);
    setup.policy = policy;
    let mut hand = Hand::with(setup, 0, 0, 0);
    (0..4).for_each(|_| hand.join(4, 1, 1.0));
    (0..4).for_each(|_| hand.join(4, 1, 0.01));
    let hosts = vec![vec![0, 4]; 5];
    hand.submit(JobOf { hosts: hosts.clone(), ..hinted("quick", 5, 1) });
    hand.submit(JobOf { hosts: hosts.clone(), ..hinted("slow", 5, 1000) });
    let (id, actions) = hand.at(60.0).submit(JobOf { hosts, ..hinted("slow", 5, 1000) });
    let matcher = hand.core.matcher().unwrap();
    let suits = |node: NodeId| matcher.suggests(1, matcher.type_of(node), hand.job(id).classes()[1]);
    for action in &actions {
        if let Action::PlaceReplicas { hosts, .. } = action {
            assert!(hosts.iter().flatten().all(|&node| suits(node)), "{hosts:?}");
            assert!(hosts.iter().all(|hosts| hosts.len() == 2 && hosts[0] != hosts[1]), "{hosts:?}");
        }
    }
    let anywhere = (0..8).map(NodeId).all(suits);
    assert!(anywhere || actions.iter().any(|action| matches!(action, Action::PlaceReplicas { .. })), "{actions:?}");
}

#[test]
fn sec_2_1_reading_is_no_part_of_the_work_a_finished_map_shows() {
    let mut hand = Hand::with(setup(Vec::new(), Fallback::Backfill), 0, 0, 0);
    hand.join(1, 1, 0.5);
    let (id, _) = hand.submit(job(2, 0));
    let map = launches(&hand.beat(0)).len();
    assert_eq!(map, 1);
    // 128 MB at 100 MB/s, then ten seconds at half speed.
    hand.at(11.28).finish_maps(id, 0);
    let work_s = hand.job(id).counts(Kind::Map).finished_work_s;
    assert!((work_s - 5.0).abs() < 1e-6, "{work_s}: the rate adds what reading takes on each type of node");
}

#[test]
fn sec_3_1_a_class_outlives_its_jobs() {
    let mut hand = Hand::with(setup(Vec::new(), Fallback::Backfill), 1, 1, 1);
    let run_alone = |hand: &mut Hand, at_s: f64, user: &'static str, map_s: u64| {
        let (id, _) = hand.at(at_s).submit(hinted(user, 1, map_s));
        hand.beat(0);
        hand.at(at_s + 50.0).finish_maps(id, 0);
        assert_eq!(hand.core.state().find(id), None, "it is over");
    };
    run_alone(&mut hand, 0.0, "ann", 10);
    run_alone(&mut hand, 300.0, "bob", 1000);
    let solved = hand.core.matcher().unwrap().classifications();
    run_alone(&mut hand, 600.0, "ann", 10);
    assert_eq!(
        hand.core.matcher().unwrap().classifications(),
        solved,
        "later jobs of a class need no new ones (section 6.2.1)"
    );
}

#[test]
fn sec_3_2_a_user_who_has_sent_one_job_does_not_count_as_one_who_sends_one_a_minute() {
    let mut hand = Hand::with(setup(Vec::new(), Fallback::Backfill), 0, 0, 0);
    hand.join(4, 1, 1.0);
    hand.join(4, 1, 0.01);
    // Jobs that only read are as well off on the slow node; the other user's compute.
    (0..20u32).for_each(|i| drop(hand.at(f64::from(i) * 100.0).submit(hinted("often", 50, 0))));
    let (once, _) = hand.at(2000.0).submit(hinted("once", 50, 4));
    let matcher = hand.core.matcher().unwrap();
    let suggested = |node: u16, id: JobId| matcher.suggests(1, node, hand.job(id).classes()[1]);
    assert!(suggested(0, once) && !suggested(1, once), "one job in 2000 s leaves the fast node time for others");
    assert!(suggested(0, JobId(0)) && suggested(1, JobId(0)));
}

#[test]
fn algorithm_2_a_users_share_is_slots_of_both_kinds() {
    let mut hand = Hand::with(setup(vec![user("full", 1.0, 3), user("short", 1.0, 2)], Fallback::Backfill), 1, 3, 1);
    hand.submit(hinted("full", 3, 10));
    assert_eq!(launches(&hand.beat(0)).len(), 3);
    let at_once = |user| JobOf { reduces: 1, slowstart_ppm: 0, ..hinted(user, 1, 10) };
    hand.submit(at_once("full"));
    let (short, _) = hand.submit(at_once("short"));
    let node = NodeId(0);
    assert_eq!(launches(&hand.beat(0)), [(short, Kind::Reduce, node)], "three maps fill a min share of three");
}

#[test]
fn sec_4_suggestions_follow_the_nodes() {
    let (mut hand, quick, slow) = fast_and_slow(Fallback::Strict);
    let served = |hand: &Hand, node: u16| {
        let matcher = hand.core.matcher().unwrap();
        [quick, slow].iter().filter(|&&id| matcher.suggests(1, node, hand.job(id).classes()[1])).count()
    };
    let narrow = (0..2).find(|&node| served(&hand, node) == 1).expect("the program leaves one type with one class");
    hand.tell(Event::NodeLost { node: NodeId(u32::from(1 - narrow)) });
    assert_eq!(served(&hand, narrow), 2, "the node that is left serves all classes");
    let solved = hand.core.matcher().unwrap().classifications();
    hand.join(2, 1, 3.0);
    assert_eq!(
        hand.core.matcher().unwrap().classifications(),
        solved + 1,
        "a new type of node is matched when it joins"
    );
}
