//! Whole runs: they end, they are repeatable, they survive failures, and pauses lose no work.

use giveway_core::policy::{Speculation, catalog};
use giveway_core::{
    Action, AttemptId, Event, JobId, Kind, NodeId, NodeSpec, Outcome, PerKind, Policy, Priority, RackId, Span, Start,
    Tenants, Time, WHOLE_PPM, Work,
};
use giveway_sim::cluster::{
    Cluster, Costs, Faults, HeartbeatMode, NodeModel, RandomFaults, ScriptedFault, Stragglers, TaskFailures,
};
use giveway_sim::workload::{JobPlan, Workload};
use giveway_sim::{Observer, RunStats, Simulation};
use std::collections::HashMap;

fn cluster(nodes: u32, racks: u32) -> Cluster {
    let node = |index: u32| NodeModel {
        spec: NodeSpec {
            name: format!("n{index}"),
            rack: RackId(index % racks),
            map_slots: 4,
            reduce_slots: 2,
            speed_ppm: if index % 5 == 4 { WHOLE_PPM / 2 } else { WHOLE_PPM },
            disk_bytes_per_s: 100_000_000,
            disk_bytes: 1 << 40,
        },
        net_bytes_per_s: 125_000_000,
        shared: None,
    };
    Cluster {
        name: "test".into(),
        nodes: (0..nodes).map(node).collect(),
        heartbeat: Span::from_secs(3),
        reporting: HeartbeatMode::Heartbeat,
        lost_after: Span::from_secs(25),
        block_bytes: 64 << 20,
        replicas: 3,
        cross_rack: 0.5,
        costs: Costs::default(),
        noise: 0.2,
        stragglers: Stragglers { share: 0.02, factor: 4.0 },
        faults: Faults::default(),
    }
}

fn plan(job: u32, submit_s: f64, maps: u32, reduces: u32) -> JobPlan {
    JobPlan {
        id: JobId(job),
        name: format!("job {job}"),
        user: ["ada", "bob", "cyd"][job as usize % 3].into(),
        pool: "default".into(),
        priority: Priority::Normal,
        submit: Time::from_secs_f64(submit_s),
        group: 0,
        maps,
        map_bytes: 64 << 20,
        map_compute: Span::from_secs(10),
        map_output_bytes: 32 << 20,
        reduces,
        reduce_compute: Span::from_secs(20),
        reduce_output_bytes: 64 << 20,
        slowstart_ppm: 50_000,
        relative_ppm: PerKind::default(),
        input: None,
    }
}

/// Thirty jobs of all sizes, one every 20 s.
fn mixed() -> Workload {
    let sizes = [(1, 1), (5, 1), (20, 4), (80, 8), (3, 0), (200, 16)];
    let jobs = (0..30).map(|job| {
        let (maps, reduces) = sizes[job as usize % sizes.len()];
        plan(job, f64::from(job) * 20.0, maps, reduces)
    });
    workload(jobs.collect())
}

fn workload(jobs: Vec<JobPlan>) -> Workload {
    let (name, groups) = ("test".into(), vec!["all".into()]);
    Workload { name, tenants: Tenants::default(), jobs, groups, hints: false, estimate_error: 0.1 }
}

fn policy(name: &str) -> Policy {
    catalog::by_name(name).unwrap_or_else(|| panic!("unknown policy `{name}`"))
}

/// Records all events and actions.
#[derive(Default)]
struct Transcript(Vec<(Time, Event, Vec<Action>)>);

impl Observer for Transcript {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.push((now, event.clone(), actions.to_vec()));
    }
}

fn run(cluster: &Cluster, workload: &Workload, name: &str, seed: u64) -> (RunStats, Transcript) {
    let mut transcript = Transcript::default();
    let stats = Simulation::new(cluster, workload, policy(name), seed).unwrap().run(&mut transcript);
    (stats, transcript)
}

fn assert_all_done(name: &str, workload: &Workload, stats: &RunStats) {
    assert_eq!(stats.jobs_unfinished, 0, "{name}: {stats:?}");
    assert_eq!(stats.jobs_closed, workload.jobs.len(), "{name}: {stats:?}");
    assert_eq!(stats.refusals, 0, "{name}: {stats:?}");
}

#[test]
fn every_policy_finishes_every_job() {
    let (cluster, workload) = (cluster(10, 2), mixed());
    for name in catalog::all_names() {
        let (stats, transcript) = run(&cluster, &workload, &name, 1);
        assert_all_done(&name, &workload, &stats);
        check_transcript(&name, &cluster, &transcript);
    }
}

#[test]
fn one_seed_gives_one_run() {
    let (mut cluster, workload) = (cluster(10, 2), mixed());
    cluster.faults.random = Some(RandomFaults {
        mean_up: Span::from_secs(900),
        mean_down: Span::from_secs(60),
        until: Span::from_secs(1_200),
    });
    for name in ["fair", "fcs", "chronos(hsrtf-prp)"] {
        let (first, second) = (run(&cluster, &workload, name, 5), run(&cluster, &workload, name, 5));
        assert_eq!(first.0, second.0);
        assert!(first.1.0 == second.1.0, "{name} is not repeatable");
        assert!(first.1.0 != run(&cluster, &workload, name, 6).1.0, "{name} ignores its seed");
    }
}

#[test]
fn every_policy_gets_the_same_jobs_and_replica_locations() {
    let (cluster, workload) = (cluster(10, 2), mixed());
    let arrivals = |name| -> Vec<(Time, Event)> {
        let records = run(&cluster, &workload, name, 3).1.0.into_iter();
        records
            .filter(|(_, event, _)| matches!(event, Event::JobSubmitted(_)))
            .map(|(now, event, _)| (now, event))
            .collect()
    };
    assert!(arrivals("fifo") == arrivals("hsrtf-pup"));
}

#[test]
fn failures_delay_jobs_but_lose_none() {
    let (mut cluster, workload) = (cluster(10, 2), mixed());
    let fault = |node, at_s, back_after_s| ScriptedFault { node: NodeId(node), at_s, back_after_s };
    // One node never returns, one returns after its loss was detected, one before that.
    cluster.faults.scripted = vec![fault(3, 60.0, None), fault(7, 100.0, Some(200.0)), fault(1, 150.0, Some(5.0))];
    cluster.faults.random = Some(RandomFaults {
        mean_up: Span::from_secs(600),
        mean_down: Span::from_secs(60),
        until: Span::from_secs(3_600),
    });
    for name in catalog::all_names() {
        let (stats, transcript) = run(&cluster, &workload, &name, 2);
        assert_all_done(&name, &workload, &stats);
        check_transcript(&name, &cluster, &transcript);
        let lost = transcript.0.iter().filter(|(_, event, _)| matches!(event, Event::NodeLost { .. })).count();
        assert!(lost >= 3, "{name}: {lost}");
    }
}

/// A node whose disk is full fails every attempt within a second, and so attracts more and more: no job may fail for it, under any policy. It is
/// excluded, probed while it is broken, and used again after its repair.
#[test]
fn a_node_that_fails_its_tasks_fails_no_job() {
    let (mut cluster, workload) = (cluster(6, 2), mixed());
    let after = Span::from_secs(1);
    cluster.faults.task_failures =
        vec![TaskFailures { node: NodeId(1), from_s: 30.0, until_s: Some(400.0), share: 1.0, after }];
    for name in catalog::all_names() {
        let (stats, transcript) = run(&cluster, &workload, &name, 2);
        assert_all_done(&name, &workload, &stats);
        check_transcript(&name, &cluster, &transcript);
        let actions =
            || transcript.0.iter().flat_map(|(now, _, actions)| actions.iter().map(move |action| (*now, action)));
        let failed = actions().find(|(_, action)| matches!(action, Action::CloseJob { outcome: Outcome::Failed, .. }));
        assert_eq!(failed, None, "{name}");
        let failures = transcript.0.iter().filter(|(_, event, _)| matches!(event, Event::AttemptFailed { .. })).count();
        assert!((4..60).contains(&failures), "{name}: {failures} failures");
        let launches = |from_s: f64, to_s: f64| {
            let on_it = |(now, action): &(Time, &Action)| {
                let when_s = now.as_secs_f64();
                from_s <= when_s && when_s < to_s && matches!(action, Action::Launch { node: NodeId(1), .. })
            };
            actions().filter(on_it).count()
        };
        assert!(launches(200.0, 400.0) < 20, "{name}: {} launches while excluded", launches(200.0, 400.0));
        assert!(launches(700.0, f64::INFINITY) > 0, "{name} does not use the node after its repair");
    }
}

#[test]
fn a_node_that_returns_before_detection_is_lost_before_it_joins() {
    let (mut cluster, workload) = (cluster(4, 1), mixed());
    cluster.faults.scripted = vec![ScriptedFault { node: NodeId(2), at_s: 50.0, back_after_s: Some(5.0) }];
    let (stats, transcript) = run(&cluster, &workload, "fifo", 1);
    assert_all_done("fifo", &workload, &stats);
    let of_node = |event: &Event| match event {
        Event::NodeLost { node: NodeId(2) } => Some("lost"),
        Event::NodeJoined { node: NodeId(2), .. } => Some("joined"),
        _ => None,
    };
    let history: Vec<_> =
        transcript.0.iter().filter_map(|(now, event, _)| Some((now.0 / 1_000_000, of_node(event)?))).collect();
    assert_eq!(history, [(0, "joined"), (55, "lost"), (55, "joined")]);
}

/// `lost_after` of the cluster is 25 s, `node_expiry` of `giveway` 10 s.
#[test]
fn a_policy_may_declare_silent_nodes_lost_sooner_than_the_cluster() {
    let (mut cluster, workload) = (cluster(4, 1), mixed());
    cluster.faults.scripted = vec![ScriptedFault { node: NodeId(2), at_s: 50.0, back_after_s: None }];
    for (policy, lost_at_s) in [("fifo", 75), ("giveway", 60)] {
        let (stats, transcript) = run(&cluster, &workload, policy, 1);
        assert_all_done(policy, &workload, &stats);
        let lost = transcript.0.iter().find(|(_, event, _)| matches!(event, Event::NodeLost { .. }));
        assert_eq!(lost.map(|(now, ..)| now.0 / 1_000_000), Some(lost_at_s), "{policy}");
    }
}

/// FCS, section 3: a paused reduce continues where it stopped, without lost or repeated work. Short jobs preempt the reduces of a long one; the slot
/// time of these, without the costs of pausing and resuming, must be the same as without preemption.
#[test]
fn pauses_lose_no_work() {
    let mut cluster = cluster(4, 1);
    cluster.noise = 0.0;
    cluster.stragglers.share = 0.0;
    cluster.nodes.iter_mut().for_each(|node| (node.spec.reduce_slots, node.spec.speed_ppm) = (1, WHOLE_PPM));
    let mut long = plan(0, 0.0, 16, 4);
    // Long enough to stay below the progress of 70 % above which FCS does not preempt a reduce.
    long.reduce_compute = Span::from_secs(10_000);
    let alone = workload(vec![long.clone()]);
    let shorts = (1..9).map(|job| plan(job, 100.0 + 60.0 * f64::from(job), 2, 2));
    let contended = workload(std::iter::once(long).chain(shorts).collect());
    let undisturbed = reduce_time(&run(&cluster, &alone, "fcs", 1).1, JobId(0));
    let (stats, transcript) = run(&cluster, &contended, "fcs", 1);
    assert_all_done("fcs", &contended, &stats);
    let paused =
        transcript.0.iter().filter(|(_, event, _)| matches!(event, Event::AttemptPaused { .. })).count() as u64;
    assert!(paused >= 4, "only {paused} pauses");
    let moved =
        transcript.0.iter().flat_map(|(_, _, actions)| actions).any(|action| {
            matches!(action, Action::Launch { work: Work::Reduce { start: Start::Migrated { .. } }, .. })
        });
    assert!(!moved, "this case is about resuming in place");
    let costs = &cluster.costs;
    let per_pause = costs.pause + costs.launch + costs.resume;
    let spent = reduce_time(&transcript, JobId(0));
    // Memory is flushed only during the shuffle, and ends are reported up to one heartbeat late.
    let slack = Span::from_secs(2).times(paused) + cluster.heartbeat.times(8);
    let expected = undisturbed + per_pause.times(paused);
    assert!(spent <= expected + slack && spent + slack >= expected, "{spent}, expected {expected}, {paused} pauses");
}

/// Total slot time of the reduces of a job.
fn reduce_time(transcript: &Transcript, job: JobId) -> Span {
    let mut launched = HashMap::new();
    let mut total = Span::ZERO;
    for (now, event, actions) in &transcript.0 {
        if let Some(attempt) =
            ended(event).filter(|attempt| attempt.task.job == job && attempt.task.kind == Kind::Reduce)
        {
            total += now.since(launched[&attempt]);
        }
        for action in actions {
            if let Action::Launch { attempt, .. } = action {
                launched.insert(*attempt, *now);
            }
        }
    }
    total
}

fn ended(event: &Event) -> Option<AttemptId> {
    match event {
        Event::AttemptFinished { attempt, .. }
        | Event::AttemptFailed { attempt }
        | Event::AttemptKilled { attempt }
        | Event::AttemptPaused { attempt, .. }
        | Event::AttemptEndedEarly { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

/// Checks a run independently of the simulator: time never decreases, attempts are launched once, on live nodes and within their slots, and end once,
/// and no event is refused.
fn check_transcript(name: &str, cluster: &Cluster, transcript: &Transcript) {
    let mut before = Time::ZERO;
    let mut running: HashMap<AttemptId, NodeId> = HashMap::new();
    let mut up = vec![false; cluster.nodes.len()];
    for (now, event, actions) in &transcript.0 {
        assert!(*now >= before, "{name}: time decreased");
        before = *now;
        match event {
            Event::NodeJoined { node, .. } => up[node.0 as usize] = true,
            Event::NodeLost { node } => {
                up[node.0 as usize] = false;
                running.retain(|_, on| on != node);
            }
            _ => {}
        }
        if let Some(attempt) = ended(event) {
            assert!(running.remove(&attempt).is_some(), "{name}: {attempt} ended and was not running");
        }
        for action in actions {
            assert!(!matches!(action, Action::Refuse { .. }), "{name} at {now}: {action:?} to {event:?}");
            let Action::Launch { attempt, node, .. } = action else { continue };
            assert!(up[node.0 as usize], "{name}: {attempt} launched on a node that is down");
            assert!(running.insert(*attempt, *node).is_none(), "{name}: {attempt} launched twice");
            let kind = attempt.task.kind;
            let occupied = running.iter().filter(|(other, on)| *on == node && other.task.kind == kind).count();
            assert!(
                occupied <= usize::from(cluster.nodes[node.0 as usize].spec.slots(kind)),
                "{name}: {node} has more attempts than slots"
            );
        }
    }
    assert!(running.is_empty(), "{name}: {} attempts never ended", running.len());
}

#[test]
fn a_run_without_nodes_ends_with_unfinished_jobs() {
    let (mut cluster, workload) = (cluster(3, 1), mixed());
    cluster.faults.scripted =
        (0..3).map(|node| ScriptedFault { node: NodeId(node), at_s: 30.0, back_after_s: None }).collect();
    for name in ["fifo", "hsrtf-prp", "fcs"] {
        let (stats, _) = run(&cluster, &workload, name, 1);
        assert_eq!(stats.jobs_unfinished, 30 - stats.jobs_closed);
        assert!(stats.jobs_unfinished > 20, "{name}: {stats:?}");
    }
}

#[test]
fn nothing_happens_without_jobs_or_nodes() {
    let (stats, _) = run(&cluster(3, 1), &workload(Vec::new()), "fair", 1);
    assert_eq!((stats.events, stats.jobs_unfinished), (3, 0));
    let (stats, _) = run(&cluster(0, 1), &mixed(), "fair", 1);
    assert_eq!(stats.jobs_unfinished, 30);
}

/// Reporting without waiting for the next heartbeat saves time.
#[test]
fn faster_reporting_shortens_runs() {
    let (mut cluster, workload) = (cluster(10, 2), mixed());
    let mut end = |reporting: HeartbeatMode| {
        cluster.reporting = reporting;
        let stats = run(&cluster, &workload, "fifo", 1).0;
        assert_all_done("fifo", &workload, &stats);
        stats.end
    };
    let (slow, fast, faster) =
        (end(HeartbeatMode::Heartbeat), end(HeartbeatMode::OutOfBand), end(HeartbeatMode::Immediate));
    assert!(faster < fast && fast < slow, "{faster}, {fast}, {slow}");
}

/// As in the embedded engine: a job that arrives between heartbeats starts on every node immediately, and preemption takes effect immediately.
#[test]
fn immediate_reporting_does_not_wait_for_heartbeats() {
    let mut cluster = cluster(4, 1);
    (cluster.reporting, cluster.noise, cluster.stragglers.share) = (HeartbeatMode::Immediate, 0.0, 0.0);
    let jobs = vec![plan(0, 0.1, 400, 1), plan(1, 30.7, 1, 1)];
    let (_, transcript) = run(&cluster, &workload(jobs), "hsrtf-pup-pause", 1);
    let launched = |job: u32| {
        let launches =
            transcript.0.iter().flat_map(|(now, _, actions)| actions.iter().map(move |action| (*now, action)));
        let of_job = launches.filter(
            move |(_, action)| matches!(action, Action::Launch { attempt, .. } if attempt.task.job == JobId(job)),
        );
        of_job.map(|(now, _)| now)
    };
    let map_slots = cluster.nodes.iter().map(|node| usize::from(node.spec.map_slots)).sum();
    assert!(launched(0).take(map_slots).all(|at| at == Time::from_secs_f64(0.1)));
    let first_of_second = launched(1).next().expect("the second job ran");
    assert_eq!(first_of_second, Time::from_secs_f64(30.7) + cluster.costs.end_early);
}

/// Four jobs that arrive together on one node with four map slots get one each, also at the instant of a heartbeat.
#[test]
fn jobs_that_arrive_together_share_the_slots() {
    let mut cluster = cluster(1, 1);
    cluster.reporting = HeartbeatMode::Immediate;
    let jobs = (0..4).map(|job| plan(job, 0.0, 10, 1)).collect();
    let (_, transcript) = run(&cluster, &workload(jobs), "fair", 1);
    let launched = transcript.0.iter().filter(|(now, ..)| *now == Time::ZERO).flat_map(|(_, _, actions)| actions);
    let mut jobs: Vec<u32> = launched
        .filter_map(|action| match action {
            Action::Launch { attempt, .. } => Some(attempt.task.job.0),
            _ => None,
        })
        .collect();
    jobs.sort_unstable();
    assert_eq!(jobs, [0, 1, 2, 3]);
}

/// Computed by hand: one job on one node, nothing random. Maps are launched at the first heartbeat after submission; launching takes 1 s, a map
/// reads 100 MB at 100 MB/s, computes 5 s and writes 50 MB; both maps run at the same time and are reported at the next heartbeat. The reduce
/// has all input on its own node, sorts 100 MB, computes 20 s and writes 100 MB.
#[test]
fn the_time_of_a_small_job_is_the_sum_of_its_phases() {
    let mut cluster = cluster(1, 1);
    (cluster.noise, cluster.stragglers.share) = (0.0, 0.0);
    cluster.costs.sort_per_gb = Span::from_secs_f64((1u64 << 30) as f64 / 1e8);
    let mut job = plan(0, 0.5, 2, 1);
    (job.map_bytes, job.map_compute, job.map_output_bytes) = (100_000_000, Span::from_secs(5), 50_000_000);
    (job.reduce_compute, job.reduce_output_bytes) = (Span::from_secs(20), 100_000_000);
    let (stats, transcript) = run(&cluster, &workload(vec![job]), "fifo", 1);
    assert_eq!(stats.jobs_unfinished, 0);
    let ends = transcript.0.iter().filter_map(|(now, event, _)| Some((now.as_secs_f64(), ended(event)?.task.kind)));
    // Launched in the heartbeat at 3 s; done at 3 + 1 + 1 + 5 + 0.5 s; reported at 12 s. The reduce is launched then, fetches at 13 s, sorts 1 s,
    // reduces 20 s and writes 1 s: done at 35 s, reported at 36 s.
    assert_eq!(ends.collect::<Vec<_>>(), [(12.0, Kind::Map), (12.0, Kind::Map), (36.0, Kind::Reduce)]);
}

/// Chronos, section III-C: a map that ends early and its remainder together are the whole map: every byte of every split is mapped by attempts that
/// count, and all output reaches the reduces.
#[test]
fn early_ends_lose_and_repeat_nothing() {
    let (mut cluster, workload) = (cluster(6, 2), mixed());
    cluster.nodes.iter_mut().for_each(|node| node.spec.map_slots = 2);
    let faults = [(2, 80.0), (4, 260.0), (1, 500.0)];
    let fault = |(node, at_s)| ScriptedFault { node: NodeId(node), at_s, back_after_s: Some(100.0) };
    cluster.faults.scripted = faults.into_iter().map(fault).collect();
    let (stats, transcript) = run(&cluster, &workload, "chronos(fifo)", 1);
    assert_all_done("chronos(fifo)", &workload, &stats);
    let mut launched = HashMap::new();
    let mut done: HashMap<(JobId, u32), Vec<(u64, u64)>> = HashMap::new();
    let mut early = 0;
    for (_, event, actions) in &transcript.0 {
        for action in actions {
            if let Action::Launch { attempt, work: Work::Map { split, start_bytes, bytes, .. }, .. } = action {
                launched.insert(*attempt, (*split, *start_bytes, *bytes));
            }
        }
        let (attempt, bytes) = match event {
            Event::AttemptFinished { attempt, .. } if attempt.task.kind == Kind::Map => (*attempt, None),
            Event::AttemptEndedEarly { attempt, done_bytes, .. } => (*attempt, Some(*done_bytes)),
            _ => continue,
        };
        early += u32::from(bytes.is_some_and(|bytes| bytes > 0));
        let (split, start_bytes, whole) = launched[&attempt];
        done.entry((attempt.task.job, split)).or_default().push((start_bytes, start_bytes + bytes.unwrap_or(whole)));
    }
    assert!(early > 0, "no map ended early");
    for ((job, split), mut pieces) in done {
        pieces.sort_unstable();
        pieces.dedup();
        let mut reached = 0;
        for (start, end) in pieces {
            assert!(start <= reached, "{job} split {split}: bytes {reached} to {start} were never mapped");
            reached = reached.max(end);
        }
        assert_eq!(reached, 64 << 20, "{job} split {split}");
    }
}

/// Failures, stragglers with speculative attempts and various heartbeat intervals and reporting modes, under every policy and several seeds. The
/// environment variable `GIVEWAY_SOAK_SEEDS` sets the number of seeds.
#[test]
fn soak() {
    let seeds: u64 = std::env::var("GIVEWAY_SOAK_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let workload = mixed();
    for seed in 0..seeds {
        let mut cluster = cluster(6 + seed as u32 % 7, 1 + seed as u32 % 3);
        cluster.reporting =
            [HeartbeatMode::Heartbeat, HeartbeatMode::OutOfBand, HeartbeatMode::Immediate][seed as usize % 3];
        cluster.stragglers = Stragglers { share: 0.1, factor: 8.0 };
        cluster.heartbeat = Span::from_millis(500 + 700 * (seed % 5));
        cluster.faults.random = Some(RandomFaults {
            mean_up: Span::from_secs(300 + 300 * (seed % 4)),
            mean_down: Span::from_secs(10 + 40 * (seed % 3)),
            until: Span::from_secs(5_000),
        });
        for name in catalog::all_names() {
            let mut policy = policy(&name);
            policy.speculation =
                Some(Speculation { rate_below: 0.5, min_runtime: Span::from_secs(20), end_early: false });
            let mut transcript = Transcript::default();
            let stats = Simulation::new(&cluster, &workload, policy, seed).unwrap().run(&mut transcript);
            let name = format!("{name}, seed {seed}");
            check_transcript(&name, &cluster, &transcript);
            assert_all_done(&name, &workload, &stats);
        }
    }
}
