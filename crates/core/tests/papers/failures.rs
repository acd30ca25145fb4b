//! Failed attempts: retries elsewhere and after a delay, exclusion of nodes, probes.

use crate::manual_cluster::*;
use giveway_core::*;

/// Fails the attempts on node 0 and finishes the others, each second, until no job is left; returns how the jobs ended.
fn run_with_bad_node(cluster: &mut ManualCluster, node_0_recovers_s: f64) -> Vec<(JobId, Outcome)> {
    let mut ended = Vec::new();
    for second in 1..600 {
        let second = f64::from(second);
        let mut actions = cluster.at(second).fire_timers();
        actions.extend(cluster.offer_all());
        let running: Vec<(AttemptId, NodeId)> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Launch { attempt, node, .. } => Some((*attempt, *node)),
                _ => None,
            })
            .collect();
        for (attempt, node) in running {
            let fails = node == NodeId(0) && second < node_0_recovers_s;
            let event = if fails {
                Event::AttemptFailed { attempt }
            } else {
                Event::AttemptFinished { attempt, output_bytes: 1 }
            };
            actions.extend(cluster.submit_event(event));
        }
        ended.extend(actions.iter().filter_map(|action| match action {
            Action::CloseJob { job, outcome } => Some((*job, *outcome)),
            _ => None,
        }));
        if cluster.core.live_job_count() == 0 {
            break;
        }
    }
    ended
}

#[test]
fn a_node_that_fails_every_task_fails_no_job() {
    for policy in ["fifo", "fair", "giveway", "hsrtf-prp-pause", "coshh"] {
        for nodes in [2, 3] {
            let mut cluster = ManualCluster::new(policy, nodes, 2, 1);
            // The input is on the bad node, which offers first: every task prefers it.
            (0..4).for_each(|_| drop(cluster.submit_job(TestJob { hosts: vec![vec![0]; 6], ..job(6, 2) })));
            let ended = run_with_bad_node(&mut cluster, f64::INFINITY);
            assert_eq!(ended.len(), 4, "{policy}");
            assert!(ended.iter().all(|&(_, outcome)| outcome == Outcome::Succeeded), "{policy}: {ended:?}");
        }
    }
}

#[test]
fn a_failed_task_waits_and_then_runs_elsewhere() {
    let mut cluster = ManualCluster::new("fifo", 2, 1, 1);
    let (id, _) = cluster.submit_job(job(1, 0));
    cluster.offer(0);
    let attempt = cluster.running(id, Kind::Map)[0];
    let actions = cluster.submit_event(Event::AttemptFailed { attempt });
    let at = Time::from_secs_f64(1.0);
    assert!(actions.contains(&Action::SetTimer { timer: Timer::Retry, at }), "{actions:?}");
    assert_eq!(cluster.offer_all(), [], "it backs off");
    assert!(!cluster.core.has_pending(Kind::Map));
    cluster.at(1.0).fire_timers();
    assert_eq!(cluster.offer(0), [], "it failed there");
    let actions = cluster.offer(1);
    assert_eq!(launches(&actions), [(id, Kind::Map, NodeId(1))]);
    let Action::Launch { reason, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(*reason, Reason::Retry { failures: 1, failed_on: NodeId(0) });
}

#[test]
fn a_failed_task_returns_to_its_node_if_no_other_offers_a_slot_for_long() {
    let mut cluster = ManualCluster::new("fifo", 2, 1, 1);
    let (id, _) = cluster.submit_job(job(1, 1));
    for kind in Kind::BOTH {
        let before_s = cluster.now.as_secs_f64();
        cluster.offer(0);
        let attempt = cluster.running(id, kind)[0];
        cluster.submit_event(Event::AttemptFailed { attempt });
        cluster.at(before_s + 59.0).fire_timers();
        assert_eq!(cluster.offer(0), []);
        let actions = cluster.at(before_s + 60.0).fire_timers();
        assert!(stop_requests(&actions).is_empty());
        assert_eq!(launches(&cluster.offer(0)), [(id, kind, NodeId(0))]);
        let attempt = cluster.running(id, kind)[0];
        cluster.finish(attempt, 1);
    }
    assert_eq!(cluster.core.live_job_count(), 0);
}

/// Maps of both jobs fail on node 0, twice each; then they finish on node 1.
fn fail_on_node_0(cluster: &mut ManualCluster, jobs: [JobId; 2]) {
    for _ in 0..2 {
        for attempt in launched(&cluster.offer(0)) {
            cluster.submit_event(Event::AttemptFailed { attempt });
        }
    }
    let later_s = cluster.now.as_secs_f64() + 1.0;
    cluster.at(later_s).fire_timers();
    for _ in 0..20 {
        for attempt in launched(&cluster.offer(1)) {
            cluster.finish(attempt, 1);
        }
    }
    assert!(jobs.iter().all(|&id| cluster.running(id, Kind::Map).is_empty()));
}

fn launched(actions: &[Action]) -> Vec<AttemptId> {
    let attempts = actions.iter().filter_map(|action| match action {
        Action::Launch { attempt, .. } => Some(*attempt),
        _ => None,
    });
    attempts.collect()
}

#[test]
fn tasks_that_fail_everywhere_exclude_no_node() {
    for policy in ["fifo", "fair", "giveway"] {
        let mut cluster = ManualCluster::new(policy, 4, 2, 1);
        (0..3).for_each(|_| drop(cluster.submit_job(job(12, 1))));
        for second in 1..200 {
            let mut actions = cluster.at(f64::from(second)).fire_timers();
            actions.extend(cluster.offer_all());
            for attempt in launched(&actions) {
                cluster.submit_event(Event::AttemptFailed { attempt });
            }
        }
        assert_eq!(cluster.core.live_job_count(), 0, "{policy}: the jobs have failed");
        assert!(cluster.core.nodes().all(|node| node.excluded.is_none()), "{policy}");
    }
}

#[test]
fn a_node_that_fails_tasks_of_two_jobs_is_excluded_until_a_probe_succeeds() {
    let mut cluster = ManualCluster::new("fair", 2, 2, 1);
    let jobs = [0, 1].map(|_| cluster.submit_job(job(40, 0)).0);
    fail_on_node_0(&mut cluster, jobs);
    let excluded = |cluster: &ManualCluster| cluster.core.nodes().next().unwrap().excluded;
    let exclusion = excluded(&cluster).expect("four failures of two jobs");
    assert_eq!((exclusion.failures, exclusion.jobs), (4, 2));
    assert_eq!(cluster.core.slots(Kind::Map).1, 2, "its slots do not count");
    assert_eq!(launches(&cluster.at(10.0).offer(0)), []);
    // After a minute one task is launched as a probe. It fails, so that the next comes two minutes later.
    cluster.at(61.0).fire_timers();
    let actions = cluster.offer(0);
    assert_eq!(launches(&actions).len(), 1);
    let Action::Launch { attempt, reason, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(*reason, Reason::Probe { failures: 4, jobs: 2 });
    assert_eq!(cluster.offer(0), [], "one probe at a time");
    cluster.at(62.0).submit_event(Event::AttemptFailed { attempt: *attempt });
    assert_eq!(launches(&cluster.at(181.0).offer(0)), []);
    cluster.at(182.0).fire_timers();
    let actions = cluster.offer(0);
    let Action::Launch { attempt, .. } = &actions[0] else { panic!("{actions:?}") };
    cluster.at(190.0).finish(*attempt, 1);
    assert_eq!(excluded(&cluster), None);
    assert_eq!(cluster.core.slots(Kind::Map).1, 4);
    assert!(!launches(&cluster.offer(0)).is_empty());
}

#[test]
fn a_job_avoids_a_node_that_failed_three_of_its_tasks() {
    let mut cluster = ManualCluster::new("fifo", 3, 1, 1);
    let (id, _) = cluster.submit_job(job(40, 0));
    for _ in 0..3 {
        cluster.offer(0);
        let attempt = cluster.running(id, Kind::Map)[0];
        cluster.submit_event(Event::AttemptFailed { attempt });
    }
    assert_eq!(cluster.offer(0), []);
    let (other, _) = cluster.submit_job(job(1, 0));
    assert_eq!(launches(&cluster.offer(0)), [(other, Kind::Map, NodeId(0))], "other jobs use it");
    assert_eq!(launches(&cluster.offer(1)), [(id, Kind::Map, NodeId(1))]);
}

#[test]
fn a_job_does_not_avoid_the_only_node_where_it_may_run() {
    let mut cluster = ManualCluster::new("fifo", 1, 1, 1);
    (0..2).for_each(|_| cluster.add_node(0, 1, 1.0));
    let (id, _) = cluster.submit_job(job(40, 0));
    for _ in 0..4 {
        assert_eq!(launches(&cluster.offer(0)), [(id, Kind::Map, NodeId(0))], "the others have no map slots");
        let attempt = cluster.running(id, Kind::Map)[0];
        cluster.submit_event(Event::AttemptFailed { attempt });
    }
}

#[test]
fn a_job_whose_tasks_fail_on_the_fast_node_accepts_slow_ones() {
    let mut cluster = ManualCluster::new("giveway", 1, 2, 1);
    (0..2).for_each(|_| cluster.add_node(2, 1, 0.2));
    // One job alone: its failures exclude no node.
    cluster.submit_job(job(2, 1));
    let ended = run_with_bad_node(&mut cluster, f64::INFINITY);
    assert_eq!(ended, [(JobId(0), Outcome::Succeeded)]);
}

#[test]
fn an_excluded_node_that_is_lost_and_joins_again_is_used_again() {
    let mut cluster = ManualCluster::new("fair", 3, 2, 1);
    let jobs = [0, 1].map(|_| cluster.submit_job(job(40, 0)).0);
    fail_on_node_0(&mut cluster, jobs);
    assert!(cluster.core.nodes().next().unwrap().excluded.is_some());
    let spec = cluster.core.nodes().next().unwrap().spec.clone();
    cluster.submit_event(Event::NodeLost { node: NodeId(0) });
    assert_eq!(cluster.core.slots(Kind::Map), (4, 4));
    cluster.submit_event(Event::NodeJoined { node: NodeId(0), spec });
    assert_eq!(cluster.core.slots(Kind::Map), (6, 6));
    assert_eq!(launches(&cluster.offer(0)).len(), 2);
}
