//! Small event logs with figures a person can check, and long ones against the twin.

use super::twin;
use super::{Grouping, Metrics, Summary};
use crate::cluster::{Faults, RandomFaults};
use crate::{Observer, Simulation, fixture};
use giveway_core::policy::catalog;
use giveway_core::{
    Action, AttemptId, Event, Hosts, JobId, JobSpec, Kind, Locality, NodeId, NodeSpec, Outcome, Priority, RackId,
    Reason, Refusal, Span, Split, Start, Tenants, Time, User, WHOLE_PPM, Work,
};
use proptest::prelude::*;

/// An event log written by hand.
struct Story(Metrics);

impl Story {
    /// Two nodes of two map slots and one reduce slot, and a job of two maps and one reduce at 10 s.
    fn begin() -> Story {
        let tenants = Tenants { users: vec![User { name: "ann".into(), weight: 1.0, min_share: 2 }], pools: vec![] };
        let mut story = Story(Metrics::new(&tenants, Grouping::by_maps(), vec![20.0]));
        for node in 0..2 {
            let spec = NodeSpec {
                name: format!("n{node}"),
                rack: RackId(0),
                map_slots: 2,
                reduce_slots: 1,
                speed_ppm: WHOLE_PPM,
                disk_bytes_per_s: 1,
                disk_bytes: 1,
            };
            story.told(0.0, Event::NodeJoined { node: NodeId(node), spec }, []);
        }
        let spec = JobSpec {
            external_id: None,
            id: JobId(0),
            name: "count".into(),
            user: "ann".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            splits: vec![Split { bytes: 100, hosts: Hosts::new() }; 2].into(),
            reduces: 1,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        story.told(10.0, Event::JobSubmitted(Box::new(spec)), []);
        story
    }

    fn told<const N: usize>(&mut self, at_s: f64, event: Event, actions: [Action; N]) {
        self.0.saw(Time::from_secs_f64(at_s), &event, &actions);
    }

    fn beat<const N: usize>(&mut self, at_s: f64, actions: [Action; N]) {
        self.told(at_s, Event::SlotsOffered { node: NodeId(0), progress: vec![] }, actions);
    }

    fn summary(&self) -> Summary {
        self.0.summary("fifo", 1, Some(3.0))
    }
}

fn map(index: u32, number: u16) -> AttemptId {
    AttemptId::new(JobId(0), Kind::Map, index, number)
}

fn reduce(number: u16) -> AttemptId {
    AttemptId::new(JobId(0), Kind::Reduce, 0, number)
}

fn launch_map(attempt: AttemptId, node: u32, locality: Locality) -> Action {
    let work = Work::Map { split: 0, start_bytes: 0, bytes: 100, locality };
    Action::Launch { attempt, node: NodeId(node), work, reason: Reason::ranked(Measure::Submission) }
}

fn launch_reduce(attempt: AttemptId, node: u32, start: Start) -> Action {
    Action::Launch { attempt, node: NodeId(node), work: Work::Reduce { start }, reason: Reason::ranked(Measure::Submission) }
}

fn finished(attempt: AttemptId) -> Event {
    Event::AttemptFinished { attempt, output_bytes: 1 }
}

fn close() -> Action {
    Action::CloseJob { job: JobId(0), outcome: Outcome::Succeeded }
}

#[test]
fn a_quiet_job_has_plain_figures() {
    let mut story = Story::begin();
    story.beat(12.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 1, Locality::Rack)]);
    story.told(22.0, finished(map(0, 0)), []);
    story.told(24.0, finished(map(1, 0)), []);
    story.beat(27.0, [launch_reduce(reduce(0), 0, Start::Fresh)]);
    story.told(40.0, finished(reduce(0)), [close()]);
    let Summary { jobs, events, figures, groups, more, dissatisfaction, makespan_s, .. } = story.summary();
    assert_eq!((jobs, events), (1, 8));
    assert_eq!((figures.mean_completion_s, figures.p99_completion_s), (Some(30.0), Some(30.0)));
    assert_eq!((figures.mean_wait_s, figures.mean_execution_s), (Some(2.0), Some(28.0)));
    assert_eq!((figures.mean_slowdown, figures.max_slowdown), (Some(1.4), Some(1.4)));
    assert_eq!((figures.locality_node, more.locality_rack, more.locality_remote), (Some(0.5), Some(0.5), Some(0.0)));
    assert_eq!(more.mean_reduce_wait_s, Some(3.0));
    assert_eq!(more.utilisation_map, Some(22.0 / 120.0));
    assert_eq!(more.utilisation_reduce, Some(13.0 / 60.0));
    assert_eq!(figures.utilisation, Some(35.0 / 180.0));
    assert_eq!((figures.lost_work_s, figures.pauses, figures.kills, figures.early_ends), (0.0, 0, 0, 0));
    assert_eq!(makespan_s, 30.0);
    // Two slots owed: none held for 2 s, two for 10 s, one for 2 s, none for 3 s; then nothing waits any more.
    assert_eq!(dissatisfaction, Some((2.0 + 0.5 * 2.0 + 3.0) / 30.0));
    assert_eq!((groups[0].0.as_str(), groups[0].1.jobs, groups[1].1.jobs), ("small", 1, 0));
    assert_eq!(groups[0].1.figures.mean_completion_s, Some(30.0));
    assert_eq!(groups[1].1.figures.mean_completion_s, None);
    assert_eq!(story.0.jobs()[0].slowdown, Some(1.4));
}

#[test]
fn giving_way_is_counted_when_it_happened() {
    let mut story = Story::begin();
    let way = Reason::PreemptedFor { job: JobId(1) };
    let (fresh, node) = (Start::Fresh, NodeId(0));
    story.beat(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 0, Locality::Node)]);
    story.beat(10.0, [launch_reduce(reduce(0), 0, fresh)]);
    // Asked to pause, to end early, to die: nothing has happened yet.
    story.beat(
        12.0,
        [
            Action::Pause { attempt: reduce(0), node, reason: way },
            Action::EndEarly { attempt: map(0, 0), node, reason: way },
            Action::Kill { attempt: map(1, 0), node, reason: way },
        ],
    );
    assert_eq!(story.summary().figures.pauses, 0);
    story.told(13.0, Event::AttemptPaused { attempt: reduce(0), progress_ppm: 1 }, []);
    story.told(13.0, Event::AttemptEndedEarly { attempt: map(0, 0), done_bytes: 40, output_bytes: 4 }, []);
    story.told(14.0, Event::AttemptKilled { attempt: map(1, 0) }, []);
    let summary = story.summary();
    assert_eq!((summary.figures.pauses, summary.figures.kills, summary.figures.early_ends), (1, 1, 1));
    assert_eq!(summary.figures.lost_work_s, 4.0);
    // The rest of the first map is a new map with number 2; the second begins again.
    story.beat(20.0, [launch_map(map(2, 0), 0, Locality::Node), launch_map(map(1, 1), 0, Locality::Node)]);
    let from = reduce(0);
    story.beat(21.0, [launch_reduce(reduce(1), 1, Start::Migrated { from, node })]);
    story.told(22.0, Event::AttemptPaused { attempt: reduce(1), progress_ppm: 2 }, []);
    story.beat(23.0, [launch_reduce(reduce(2), 1, Start::Resumed { from: reduce(1) })]);
    story.told(24.0, finished(map(2, 0)), []);
    story.told(25.0, finished(map(1, 1)), []);
    // A kill for another reason is none of the policy's, and takes all with it that had been kept: 3 + 1 + 3 s.
    story.beat(25.0, [Action::Kill { attempt: reduce(2), node: NodeId(1), reason: Reason::JobEnded }]);
    story.told(26.0, Event::AttemptKilled { attempt: reduce(2) }, []);
    let Summary { figures, more, .. } = story.summary();
    assert_eq!((figures.pauses, figures.kills, more.migrations, more.resumes), (2, 1, 1, 1));
    assert_eq!(figures.lost_work_s, 4.0 + 7.0);
    // The reduce had a slot before the maps were done, and again after: only the first counts.
    story.beat(30.0, [launch_reduce(reduce(3), 0, Start::Fresh)]);
    assert_eq!(story.summary().more.mean_reduce_wait_s, Some(0.0));
}

#[test]
fn what_is_lost_with_a_node_is_followed_until_it_runs_again() {
    let mut story = Story::begin();
    story.beat(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 1, Locality::Node)]);
    story.beat(10.0, [launch_reduce(reduce(0), 0, Start::Fresh)]);
    story.told(15.0, finished(map(0, 0)), []);
    story.told(20.0, Event::NodeLost { node: NodeId(0) }, []);
    // The reduce ran there for 10 s.
    assert_eq!(story.summary().figures.lost_work_s, 10.0);
    story.beat(24.0, [launch_map(map(0, 1), 1, Locality::Remote), launch_reduce(reduce(1), 1, Start::Fresh)]);
    let Summary { more, .. } = story.summary();
    assert_eq!((more.recoveries, more.recovery_wait_s, more.recovery_locality), (2, Some(4.0), Some(0.0)));
    assert_eq!(more.lost_output_s, 5.0);
    story.told(26.0, finished(map(1, 0)), []);
    story.told(27.0, finished(map(0, 1)), []);
    story.told(30.0, finished(reduce(1)), [close()]);
    let Summary { figures, more, .. } = story.summary();
    // Four map slots for 10 s, two for 10 s.
    assert_eq!(more.utilisation_map, Some((5.0 + 16.0 + 3.0) / 60.0));
    assert_eq!(figures.utilisation, Some((5.0 + 16.0 + 3.0 + 10.0 + 6.0) / 90.0));
}

#[test]
fn a_copy_that_was_outrun_worked_for_nothing() {
    let mut story = Story::begin();
    story.beat(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 0, Locality::Node)]);
    story.beat(15.0, [launch_map(map(0, 1), 1, Locality::Node)]);
    let outrun = Action::Kill { attempt: map(0, 0), node: NodeId(0), reason: Reason::OtherAttemptFinished };
    story.told(20.0, finished(map(0, 1)), [outrun]);
    // It finished before the order to die came.
    story.told(21.0, finished(map(0, 0)), []);
    let Summary { figures, more, .. } = story.summary();
    assert_eq!((figures.lost_work_s, figures.kills, more.recoveries), (11.0, 0, 0));
}

#[test]
fn what_the_core_refused_has_not_happened() {
    let mut story = Story::begin();
    story.beat(10.0, [launch_map(map(0, 0), 0, Locality::Node)]);
    let refusal = Action::Refuse { refusal: Refusal::NotRequested(map(0, 0)) };
    story.told(11.0, Event::AttemptEndedEarly { attempt: map(0, 0), done_bytes: 1, output_bytes: 1 }, [refusal]);
    story.told(12.0, finished(map(7, 7)), []);
    let Summary { figures, submitted, jobs, .. } = story.summary();
    assert_eq!((figures.early_ends, submitted, jobs), (0, 1, 0));
}

#[test]
fn the_keys_come_in_their_order() {
    let json = serde_json::to_string(&Story::begin().summary()).unwrap();
    let first = concat!(
        r#"{"policy":"fifo","seed":1,"jobs":0,"events":3,"mean_completion_s":null,"p50_completion_s":null,"#,
        r#""p95_completion_s":null,"p99_completion_s":null,"mean_wait_s":null,"mean_execution_s":null,"mean_slowdown":null,"#,
        r#""max_slowdown":null,"lower_bound_mean_completion_s":3.0,"locality_node":null,"lost_work_s":0.0,"pauses":0,"kills":0,"#,
        r#""early_ends":0,"utilisation":null,"groups":{"small":{"jobs":0,"mean_completion_s":null,"#
    );
    assert!(json.starts_with(first), "{json}");
    assert!(json.contains(r#""medium":{"#) && json.contains(r#""makespan_s":"#));
}

/// Keeps a whole run.
#[derive(Default)]
struct EventLog(Vec<twin::Record>);

impl Observer for EventLog {
    fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.push((now, event.clone(), actions.to_vec()));
    }
}

const POLICIES: [&str; 7] = ["fifo", "fair", "hsrtf-prp", "fcs", "fcs-kill", "chronos(fair)", "coshh"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn long_event_logs_give_what_the_twin_finds(seed in any::<u64>(), policy in 0usize..POLICIES.len(), faults in any::<bool>(), jobs in 1u32..7) {
        let mut cluster = fixture::cluster(3);
        (cluster.noise, cluster.stragglers.share, cluster.stragglers.factor) = (0.3, 0.1, 4.0);
        if faults {
            let (mean_up, mean_down, until) = (Span::from_secs(300), Span::from_secs(60), Span::from_secs(900));
            cluster.faults = Faults { scripted: vec![], random: Some(RandomFaults { mean_up, mean_down, until }) };
        }
        let plans = (0..jobs).map(|job| {
            let mut plan = fixture::plan(job, f64::from(job) * 7.0, 1 + (seed >> job) as u32 % 40, (seed >> (8 + job)) as u32 % 6);
            plan.user = format!("user{}", job % 3);
            plan
        });
        let mut workload = fixture::workload(plans.collect());
        let user = |name: &str, weight, min_share| User { name: name.into(), weight, min_share };
        workload.tenants.users = vec![user("user0", 1.0, 3), user("user1", 2.0, 0), user("idle", 1.0, 1)];
        let name = POLICIES[policy];
        let policy = catalog::by_name(name).unwrap();
        let mut event_log = EventLog::default();
        let mut metrics = Metrics::new(&workload.tenants, Grouping::listed(vec!["all".into()], vec![]), vec![10.0; 7]);
        Simulation::new(&cluster, &workload, policy, seed).unwrap().run(&mut (&mut event_log, &mut metrics));
        let (seen, expected) = (metrics.summary(name, seed, None), twin::figures(&event_log.0, &workload.tenants));
        let near = |name: &str, seen: Option<f64>, expected: Option<f64>| match (seen, expected) {
            (Some(a), Some(b)) => prop_assert_ok((a - b).abs() <= 1e-6 * b.abs().max(1.0), name, a, b),
            (a, b) => prop_assert_ok(a == b, name, a.unwrap_or(-1.0), b.unwrap_or(-1.0)),
        };
        near("completion", seen.figures.mean_completion_s, expected.mean_completion_s)?;
        near("wait", seen.figures.mean_wait_s, expected.mean_wait_s)?;
        near("reduce wait", seen.more.mean_reduce_wait_s, expected.mean_reduce_wait_s)?;
        near("utilisation", seen.figures.utilisation, expected.utilisation)?;
        near("lost work", Some(seen.figures.lost_work_s), Some(expected.lost_work_s))?;
        near("lost output", Some(seen.more.lost_output_s), Some(expected.lost_output_s))?;
        near("recovery wait", seen.more.recovery_wait_s, expected.recovery_wait_s)?;
        near("dissatisfaction", seen.dissatisfaction, expected.dissatisfaction)?;
        near("fairness", seen.fairness, expected.fairness)?;
        prop_assert_eq!((seen.figures.pauses, seen.figures.kills, seen.figures.early_ends), expected.gave_way);
    }
}

fn prop_assert_ok(fits: bool, name: &str, seen: f64, expected: f64) -> Result<(), TestCaseError> {
    if fits { Ok(()) } else { Err(TestCaseError::fail(format!("{name}: {seen}, not {expected}"))) }
}
