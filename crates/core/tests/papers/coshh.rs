//! COSHH: "A Classification and Optimization based Scheduler for Heterogeneous Hadoop Systems".

use crate::manual_cluster::*;
use giveway_core::policy::matching::lp::{Problem, solve};
use giveway_core::policy::{Fallback, Matching, catalog};
use giveway_core::*;

#[test]
fn sec_3_2_the_worked_example_is_reproduced() {
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

fn hinted(user: &'static str, maps: u32, map_s: u64) -> TestJob {
    let hint = Hint { map: Span::from_secs(map_s), reduce: Span::from_secs(1) };
    TestJob { user, hint: Some(hint), ..job(maps, 0) }
}

#[test]
fn algorithm_2_first_loop_the_user_furthest_below_min_share_times_weight_goes_first() {
    let users = vec![user("small", 1.0, 4), user("large", 1.0, 6), user("heavy", 3.0, 3), user("none", 9.0, 0)];
    let mut cluster = ManualCluster::with_setup(setup(users, Fallback::Backfill), 1, 16, 1);
    for name in ["none", "small", "large", "heavy"] {
        cluster.submit_job(hinted(name, 20, 10));
    }
    let order: Vec<JobId> = launches(&cluster.offer(0)).iter().map(|launch| launch.0).collect();
    let [none, small, large, heavy] = [JobId(0), JobId(1), JobId(2), JobId(3)];
    // (min share - current share) x weight is 9 for heavy, 6 for large, 4 for small. After 3 + 6 + 4 = 13 launches no user is below its
    // min share.
    assert_eq!(order[0], heavy);
    let count = |of: JobId| order[..13].iter().filter(|&&id| id == of).count();
    assert_eq!((count(heavy), count(large), count(small), count(none)), (3, 6, 4, 0), "{order:?}");
    // Second loop: smallest current share / weight. User `none` has 0 slots for weight 9.
    assert!(order[13..].iter().all(|&id| id == none), "{order:?}");
}

#[test]
fn algorithm_2_second_loop_shares_follow_weights() {
    let users = vec![user("one", 1.0, 0), user("two", 2.0, 0)];
    let mut cluster = ManualCluster::with_setup(setup(users, Fallback::Backfill), 1, 9, 1);
    let (one, _) = cluster.submit_job(hinted("one", 20, 10));
    let (two, _) = cluster.submit_job(hinted("two", 20, 10));
    let got = launches(&cluster.offer(0));
    let count = |of: JobId| got.iter().filter(|launch| launch.0 == of).count();
    assert_eq!((count(one), count(two)), (3, 6));
}

/// A fast node and a slow one; the tasks of one user take a thousand times as long as those of the other.
fn fast_and_slow(fallback: Fallback) -> (ManualCluster, JobId, JobId) {
    let mut cluster =
        ManualCluster::with_setup(setup(vec![user("quick", 1.0, 0), user("slow", 1.0, 0)], fallback), 0, 0, 0);
    cluster.add_node(4, 1, 1.0);
    cluster.add_node(4, 1, 0.01);
    let (quick, _) = cluster.submit_job(hinted("quick", 50, 1));
    let (slow, _) = cluster.submit_job(hinted("slow", 50, 1000));
    (cluster, quick, slow)
}

#[test]
fn sec_3_1_there_are_as_many_classes_as_users_and_similar_jobs_create_no_new_ones() {
    let (mut cluster, ..) = fast_and_slow(Fallback::Backfill);
    let solved = cluster.core.matcher().unwrap().classifications();
    assert!(solved >= 1);
    let classes = |cluster: &ManualCluster, id: JobId| cluster.job(id).classes()[1].unwrap();
    assert_ne!(classes(&cluster, JobId(0)), classes(&cluster, JobId(1)));
    let (again, _) = cluster.at(60.0).submit_job(hinted("slow", 50, 1000));
    assert_eq!(
        cluster.core.matcher().unwrap().classifications(),
        solved,
        "Algorithm 1: a job that fits a class triggers no new classification"
    );
    assert_eq!(classes(&cluster, again), classes(&cluster, JobId(1)));
}

#[test]
fn sec_4_a_strict_node_stays_idle_rather_than_run_a_class_that_is_not_suggested() {
    let (mut strict, ..) = fast_and_slow(Fallback::Strict);
    let (mut backfill, ..) = fast_and_slow(Fallback::Backfill);
    let matcher = strict.core.matcher().unwrap();
    let suggested = |node: u16| (0..2).filter(|&class| matcher.suggests(1, node, Some(class))).count();
    let narrow = (0..2)
        .find(|&node| suggested(node) == 1)
        .expect("the linear program suggests one class to one of the node types");
    let jobs_on = |cluster: &mut ManualCluster, node: u16| {
        let mut jobs: Vec<JobId> = launches(&cluster.offer(u32::from(node))).iter().map(|launch| launch.0).collect();
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
    let mut cluster = ManualCluster::with_setup(setup, 0, 0, 0);
    (0..4).for_each(|_| cluster.add_node(4, 1, 1.0));
    (0..4).for_each(|_| cluster.add_node(4, 1, 0.01));
    let hosts = vec![vec![0, 4]; 5];
    cluster.submit_job(TestJob { hosts: hosts.clone(), ..hinted("quick", 5, 1) });
    cluster.submit_job(TestJob { hosts: hosts.clone(), ..hinted("slow", 5, 1000) });
    let (id, actions) = cluster.at(60.0).submit_job(TestJob { hosts, ..hinted("slow", 5, 1000) });
    let matcher = cluster.core.matcher().unwrap();
    let suits = |node: NodeId| matcher.suggests(1, matcher.type_of(node), cluster.job(id).classes()[1]);
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
fn sec_2_1_the_measured_work_of_a_map_excludes_reading_its_split() {
    let mut cluster = ManualCluster::with_setup(setup(Vec::new(), Fallback::Backfill), 0, 0, 0);
    cluster.add_node(1, 1, 0.5);
    let (id, _) = cluster.submit_job(job(2, 0));
    let map = launches(&cluster.offer(0)).len();
    assert_eq!(map, 1);
    // 1.28 s to read 128 MB at 100 MB/s, then 10 s of computing at half speed: 5 s of work.
    cluster.at(11.28).finish_maps(id, 0);
    let work_s = cluster.job(id).counts(Kind::Map).finished_work_s;
    assert!((work_s - 5.0).abs() < 1e-6, "{work_s} s; reading is added per node type when rates are predicted");
}

#[test]
fn sec_3_1_users_who_have_not_submitted_count() {
    let classes_of_two_jobs = |users: Vec<User>| {
        let mut cluster = ManualCluster::with_setup(setup(users, Fallback::Backfill), 1, 4, 1);
        let (short, _) = cluster.submit_job(hinted("ann", 50, 1));
        let (long, _) = cluster.submit_job(hinted("ann", 50, 1000));
        [short, long].map(|id| cluster.job(id).classes()[1].unwrap())
    };
    let [short, long] = classes_of_two_jobs(vec![user("ann", 1.0, 0), user("bob", 1.0, 0)]);
    assert_ne!(short, long, "two users of the tenants file, two classes");
    let [short, long] = classes_of_two_jobs(vec![user("ann", 1.0, 0)]);
    assert_eq!(short, long);
}

#[test]
fn sec_3_1_a_class_outlives_its_jobs() {
    let mut cluster = ManualCluster::with_setup(setup(Vec::new(), Fallback::Backfill), 1, 1, 1);
    let run_alone = |cluster: &mut ManualCluster, at_s: f64, user: &'static str, map_s: u64| {
        let (id, _) = cluster.at(at_s).submit_job(hinted(user, 1, map_s));
        cluster.offer(0);
        cluster.at(at_s + 50.0).finish_maps(id, 0);
        assert_eq!(cluster.core.state().find(id), None, "the job has ended");
    };
    run_alone(&mut cluster, 0.0, "ann", 10);
    run_alone(&mut cluster, 300.0, "bob", 1000);
    let solved = cluster.core.matcher().unwrap().classifications();
    run_alone(&mut cluster, 600.0, "ann", 10);
    assert_eq!(
        cluster.core.matcher().unwrap().classifications(),
        solved,
        "later jobs of the same class need no new classes (section 6.2.1)"
    );
}

#[test]
fn sec_3_2_a_user_with_one_job_does_not_count_as_one_job_per_minute() {
    let mut cluster = ManualCluster::with_setup(setup(Vec::new(), Fallback::Backfill), 0, 0, 0);
    cluster.add_node(4, 1, 1.0);
    cluster.add_node(4, 1, 0.01);
    // Jobs of one user only read, which the slow node does as fast; the other user's job computes.
    (0..20u32).for_each(|i| drop(cluster.at(f64::from(i) * 100.0).submit_job(hinted("often", 50, 0))));
    let (once, _) = cluster.at(2000.0).submit_job(hinted("once", 50, 4));
    let matcher = cluster.core.matcher().unwrap();
    let suggested = |node: u16, id: JobId| matcher.suggests(1, node, cluster.job(id).classes()[1]);
    assert!(
        suggested(0, once) && !suggested(1, once),
        "at one job per 2000 s the fast node has time for other classes"
    );
    assert!(suggested(0, JobId(0)) && suggested(1, JobId(0)));
}

#[test]
fn algorithm_2_a_users_share_counts_slots_of_both_kinds() {
    let mut cluster = ManualCluster::with_setup(
        setup(vec![user("full", 1.0, 3), user("short", 1.0, 2)], Fallback::Backfill),
        1,
        3,
        1,
    );
    cluster.submit_job(hinted("full", 3, 10));
    assert_eq!(launches(&cluster.offer(0)).len(), 3);
    let at_once = |user| TestJob { reduces: 1, slowstart_ppm: 0, ..hinted(user, 1, 10) };
    cluster.submit_job(at_once("full"));
    let (short, _) = cluster.submit_job(at_once("short"));
    let node = NodeId(0);
    assert_eq!(launches(&cluster.offer(0)), [(short, Kind::Reduce, node)], "three maps satisfy a min share of three");
}

#[test]
fn sec_4_suggestions_follow_the_nodes() {
    let (mut cluster, quick, slow) = fast_and_slow(Fallback::Strict);
    let served = |cluster: &ManualCluster, node: u16| {
        let matcher = cluster.core.matcher().unwrap();
        [quick, slow].iter().filter(|&&id| matcher.suggests(1, node, cluster.job(id).classes()[1])).count()
    };
    let narrow = (0..2)
        .find(|&node| served(&cluster, node) == 1)
        .expect("the linear program suggests one class to one of the node types");
    cluster.submit_event(Event::NodeLost { node: NodeId(u32::from(1 - narrow)) });
    assert_eq!(served(&cluster, narrow), 2, "the only remaining node is suggested for all classes");
    let solved = cluster.core.matcher().unwrap().classifications();
    cluster.add_node(2, 1, 3.0);
    assert_eq!(
        cluster.core.matcher().unwrap().classifications(),
        solved + 1,
        "a new node type triggers a classification when it joins"
    );
}

#[test]
fn users_without_matching_are_all_served() {
    let mut policy = catalog::by_name("coshh").unwrap();
    policy.matching = None;
    let mut cluster = ManualCluster::with_setup(Setup::new(policy), 1, 4, 1);
    let (job, _) = cluster.submit_job(job(4, 0));
    assert_eq!(launches(&cluster.offer(0)), vec![(job, Kind::Map, NodeId(0)); 4], "no user has a min share");
}
