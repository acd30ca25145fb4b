//! Short event logs with metrics computed by hand, and long ones against the reference implementation.

mod reference;

use super::{Grouping, Metrics, Summary};
use crate::cluster::{Faults, RandomFaults};
use crate::{Observer, Simulation, fixture};
use giveway_core::policy::catalog;
use giveway_core::{
    Action, AttemptId, Event, Hosts, JobId, JobSpec, Kind, Locality, NodeId, NodeSpec, Outcome, Priority, RackId,
    Reason, Refusal, Span, Split, Start, Tenants, Time, User, WHOLE_PPM, Work,
};
use proptest::prelude::*;

/// Metrics of a hand-written sequence of events.
struct EventSequence(Metrics);

impl EventSequence {
    /// Two nodes of two map slots and one reduce slot, and a job of two maps and one reduce at 10 s.
    fn begin() -> EventSequence {
        let tenants = Tenants { users: vec![User { name: "ann".into(), weight: 1.0, min_share: 2 }], pools: vec![] };
        let groups = Grouping::listed(["small", "medium", "large"].map(String::from).into(), vec![0]);
        let mut sequence = EventSequence(Metrics::new(&tenants, groups, vec![20.0]));
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
            sequence.record(0.0, Event::NodeJoined { node: NodeId(node), spec }, []);
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
        sequence.record(10.0, Event::JobSubmitted(Box::new(spec)), []);
        sequence
    }

    fn record<const N: usize>(&mut self, at_s: f64, event: Event, actions: [Action; N]) {
        self.0.observe(Time::from_secs_f64(at_s), &event, &actions);
    }

    fn offer<const N: usize>(&mut self, at_s: f64, actions: [Action; N]) {
        self.record(at_s, Event::SlotsOffered { node: NodeId(0), progress: vec![] }, actions);
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
    Action::Launch { attempt, node: NodeId(node), work, reason: Reason::Reserved }
}

fn launch_reduce(attempt: AttemptId, node: u32, start: Start) -> Action {
    Action::Launch { attempt, node: NodeId(node), work: Work::Reduce { start }, reason: Reason::Reserved }
}

fn finished(attempt: AttemptId) -> Event {
    Event::AttemptFinished { attempt, output_bytes: 1 }
}

fn close() -> Action {
    Action::CloseJob { job: JobId(0), outcome: Outcome::Succeeded }
}

#[test]
fn a_job_without_interference() {
    let mut sequence = EventSequence::begin();
    sequence.offer(12.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 1, Locality::Rack)]);
    sequence.record(22.0, finished(map(0, 0)), []);
    sequence.record(24.0, finished(map(1, 0)), []);
    sequence.offer(27.0, [launch_reduce(reduce(0), 0, Start::Fresh)]);
    sequence.record(40.0, finished(reduce(0)), [close()]);
    let Summary { jobs, events, key_metrics, groups, details, dissatisfaction, makespan_s, .. } = sequence.summary();
    assert_eq!((jobs, events), (1, 8));
    assert_eq!((key_metrics.mean_completion_s, key_metrics.p99_completion_s), (Some(30.0), Some(30.0)));
    assert_eq!((key_metrics.mean_wait_s, key_metrics.mean_execution_s), (Some(2.0), Some(28.0)));
    assert_eq!((key_metrics.mean_slowdown, key_metrics.max_slowdown), (Some(1.5), Some(1.5)));
    assert_eq!(
        (key_metrics.locality_node, details.locality_rack, details.locality_remote),
        (Some(0.5), Some(0.5), Some(0.0))
    );
    assert_eq!(details.mean_reduce_wait_s, Some(3.0));
    assert_eq!(details.utilisation_map, Some(22.0 / 120.0));
    assert_eq!(details.utilisation_reduce, Some(13.0 / 60.0));
    assert_eq!(key_metrics.utilisation, Some(35.0 / 180.0));
    assert_eq!(
        (key_metrics.lost_work_s, key_metrics.pauses, key_metrics.kills, key_metrics.early_ends),
        (0.0, 0, 0, 0)
    );
    assert_eq!(makespan_s, 30.0);
    // Nothing is pending when the job completes.
    assert_eq!(dissatisfaction, Some(0.0));
    assert_eq!((groups[0].0.as_str(), groups[0].1.jobs, groups[1].1.jobs), ("small", 1, 0));
    assert_eq!(groups[0].1.key_metrics.mean_completion_s, Some(30.0));
    assert_eq!(groups[1].1.key_metrics.mean_completion_s, None);
    assert_eq!(sequence.0.jobs()[0].slowdown, Some(1.5));
}

#[test]
fn preemption_is_counted_when_the_attempt_has_stopped() {
    let mut sequence = EventSequence::begin();
    let reason = || Reason::PreemptedFor { job: JobId(1) };
    let (fresh, node) = (Start::Fresh, NodeId(0));
    sequence.offer(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 0, Locality::Node)]);
    sequence.offer(10.0, [launch_reduce(reduce(0), 0, fresh)]);
    // Pause, early end and kill are requested, but no attempt has stopped yet.
    sequence.offer(
        12.0,
        [
            Action::Pause { attempt: reduce(0), node, reason: reason() },
            Action::EndEarly { attempt: map(0, 0), node, reason: reason() },
            Action::Kill { attempt: map(1, 0), node, reason: reason() },
        ],
    );
    assert_eq!(sequence.summary().key_metrics.pauses, 0);
    sequence.record(13.0, Event::AttemptPaused { attempt: reduce(0), progress_ppm: 1 }, []);
    sequence.record(13.0, Event::AttemptEndedEarly { attempt: map(0, 0), done_bytes: 40, output_bytes: 4 }, []);
    sequence.record(14.0, Event::AttemptKilled { attempt: map(1, 0) }, []);
    let summary = sequence.summary();
    assert_eq!((summary.key_metrics.pauses, summary.key_metrics.kills, summary.key_metrics.early_ends), (1, 1, 1));
    assert_eq!(summary.key_metrics.lost_work_s, 4.0);
    // The remainder of the first map is a new map with number 2; the second starts from the beginning.
    sequence.offer(20.0, [launch_map(map(2, 0), 0, Locality::Node), launch_map(map(1, 1), 0, Locality::Node)]);
    let from = reduce(0);
    sequence.offer(21.0, [launch_reduce(reduce(1), 1, Start::Migrated { from, node })]);
    sequence.record(22.0, Event::AttemptPaused { attempt: reduce(1), progress_ppm: 2 }, []);
    sequence.offer(23.0, [launch_reduce(reduce(2), 1, Start::Resumed { from: reduce(1) })]);
    sequence.record(24.0, finished(map(2, 0)), []);
    sequence.record(25.0, finished(map(1, 1)), []);
    // A kill for another reason is not preemption. It also loses the retained progress: 3 + 1 + 3 s.
    sequence.offer(25.0, [Action::Kill { attempt: reduce(2), node: NodeId(1), reason: Reason::JobEnded }]);
    sequence.record(26.0, Event::AttemptKilled { attempt: reduce(2) }, []);
    let Summary { key_metrics, details, .. } = sequence.summary();
    assert_eq!((key_metrics.pauses, key_metrics.kills, details.migrations, details.resumes), (2, 1, 1, 1));
    assert_eq!(key_metrics.lost_work_s, 4.0 + 7.0);
    // The reduce was launched before the maps were done, and again after: only the first launch counts.
    sequence.offer(30.0, [launch_reduce(reduce(3), 0, Start::Fresh)]);
    assert_eq!(sequence.summary().details.mean_reduce_wait_s, Some(0.0));
}

#[test]
fn tasks_lost_with_a_node_count_until_they_are_launched_again() {
    let mut sequence = EventSequence::begin();
    sequence.offer(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 1, Locality::Node)]);
    sequence.offer(10.0, [launch_reduce(reduce(0), 0, Start::Fresh)]);
    sequence.record(15.0, finished(map(0, 0)), []);
    sequence.record(20.0, Event::NodeLost { node: NodeId(0) }, []);
    // The reduce ran there for 10 s.
    assert_eq!(sequence.summary().key_metrics.lost_work_s, 10.0);
    sequence.offer(24.0, [launch_map(map(0, 1), 1, Locality::Remote), launch_reduce(reduce(1), 1, Start::Fresh)]);
    let Summary { details, .. } = sequence.summary();
    assert_eq!((details.recoveries, details.recovery_wait_s, details.recovery_locality), (2, Some(4.0), Some(0.0)));
    assert_eq!(details.lost_output_s, 5.0);
    sequence.record(26.0, finished(map(1, 0)), []);
    sequence.record(27.0, finished(map(0, 1)), []);
    sequence.record(30.0, finished(reduce(1)), [close()]);
    let Summary { key_metrics, details, .. } = sequence.summary();
    // Four map slots for 10 s, two for 10 s.
    assert_eq!(details.utilisation_map, Some((5.0 + 16.0 + 3.0) / 60.0));
    assert_eq!(key_metrics.utilisation, Some((5.0 + 16.0 + 3.0 + 10.0 + 6.0) / 90.0));
}

#[test]
fn a_speculative_attempt_that_finishes_second_is_lost_work() {
    let mut sequence = EventSequence::begin();
    sequence.offer(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 0, Locality::Node)]);
    sequence.offer(15.0, [launch_map(map(0, 1), 1, Locality::Node)]);
    let kill = Action::Kill { attempt: map(0, 0), node: NodeId(0), reason: Reason::OtherAttemptFinished };
    sequence.record(20.0, finished(map(0, 1)), [kill]);
    // It finished before the kill request arrived.
    sequence.record(21.0, finished(map(0, 0)), []);
    let Summary { key_metrics, details, .. } = sequence.summary();
    assert_eq!((key_metrics.lost_work_s, key_metrics.kills, details.recoveries), (11.0, 0, 0));
}

#[test]
fn refused_events_have_no_effect() {
    let mut sequence = EventSequence::begin();
    sequence.offer(10.0, [launch_map(map(0, 0), 0, Locality::Node)]);
    let refusal = Action::Refuse { refusal: Refusal::NotRequested(map(0, 0)) };
    sequence.record(11.0, Event::AttemptEndedEarly { attempt: map(0, 0), done_bytes: 1, output_bytes: 1 }, [refusal]);
    sequence.record(12.0, finished(map(7, 7)), []);
    let Summary { key_metrics, submitted, jobs, .. } = sequence.summary();
    assert_eq!((key_metrics.early_ends, submitted, jobs), (0, 1, 0));
}

#[test]
fn a_resync_frees_the_slots_and_loses_no_work() {
    let mut sequence = EventSequence::begin();
    sequence.offer(10.0, [launch_map(map(0, 0), 0, Locality::Node), launch_map(map(1, 0), 1, Locality::Node)]);
    sequence.record(20.0, Event::Resynced, []);
    // One of the two still runs and is reported again.
    sequence.offer(20.0, [launch_map(map(0, 1), 0, Locality::Node)]);
    sequence.record(30.0, finished(map(0, 1)), [close()]);
    let Summary { key_metrics, details, .. } = sequence.summary();
    // Two of four map slots for 10 s, one for 10 s.
    assert_eq!((key_metrics.lost_work_s, key_metrics.kills, details.utilisation_map), (0.0, 0, Some(30.0 / 80.0)));
    assert_eq!(details.recoveries, 0);
}

#[test]
fn json_keys_have_a_fixed_order() {
    let json = serde_json::to_string(&EventSequence::begin().summary()).unwrap();
    let first = concat!(
        r#"{"policy":"fifo","seed":1,"jobs":0,"events":3,"mean_completion_s":null,"p50_completion_s":null,"#,
        r#""p95_completion_s":null,"p99_completion_s":null,"mean_wait_s":null,"mean_execution_s":null,"mean_slowdown":null,"#,
        r#""max_slowdown":null,"lower_bound_mean_completion_s":3.0,"locality_node":null,"lost_work_s":0.0,"pauses":0,"kills":0,"#,
        r#""early_ends":0,"utilisation":null,"groups":{"small":{"jobs":0,"mean_completion_s":null,"#
    );
    assert!(json.starts_with(first), "{json}");
    assert!(json.contains(r#""medium":{"#) && json.contains(r#""makespan_s":"#));
}

/// Records a whole run.
#[derive(Default)]
struct EventLog(Vec<reference::Record>);

impl Observer for EventLog {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.push((now, event.clone(), actions.to_vec()));
    }
}

const POLICIES: [&str; 8] = ["giveway", "fifo", "fair", "hsrtf-prp", "fcs", "fcs-kill", "chronos(fair)", "coshh"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn long_event_logs_agree_with_the_reference(seed in any::<u64>(), policy in 0usize..POLICIES.len(), faults in any::<bool>(), jobs in 1u32..7) {
        let mut cluster = fixture::cluster(3);
        (cluster.noise, cluster.stragglers.share, cluster.stragglers.factor) = (0.3, 0.1, 4.0);
        if faults {
            let (mean_up, mean_down, until) = (Span::from_secs(300), Span::from_secs(60), Span::from_secs(900));
            cluster.faults = Faults { random: Some(RandomFaults { mean_up, mean_down, until }), ..Faults::default() };
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
        let (computed, expected) = (metrics.summary(name, seed, None), reference::compute(&event_log.0, &workload.tenants));
        let near = |name: &str, computed: Option<f64>, expected: Option<f64>| match (computed, expected) {
            (Some(a), Some(b)) => check((a - b).abs() <= 1e-6 * b.abs().max(1.0), name, a, b),
            (a, b) => check(a == b, name, a.unwrap_or(-1.0), b.unwrap_or(-1.0)),
        };
        near("completion", computed.key_metrics.mean_completion_s, expected.mean_completion_s)?;
        near("wait", computed.key_metrics.mean_wait_s, expected.mean_wait_s)?;
        near("reduce wait", computed.details.mean_reduce_wait_s, expected.mean_reduce_wait_s)?;
        near("utilisation", computed.key_metrics.utilisation, expected.utilisation)?;
        near("lost work", Some(computed.key_metrics.lost_work_s), Some(expected.lost_work_s))?;
        near("lost output", Some(computed.details.lost_output_s), Some(expected.lost_output_s))?;
        near("recovery wait", computed.details.recovery_wait_s, expected.recovery_wait_s)?;
        near("dissatisfaction", computed.dissatisfaction, expected.dissatisfaction)?;
        near("fairness", computed.fairness, expected.fairness)?;
        near("Jain index", computed.jain_index, expected.jain_index)?;
        prop_assert_eq!((computed.key_metrics.pauses, computed.key_metrics.kills, computed.key_metrics.early_ends), expected.preemptions);
    }
}

fn check(matches: bool, name: &str, computed: f64, expected: f64) -> Result<(), TestCaseError> {
    if matches { Ok(()) } else { Err(TestCaseError::fail(format!("{name}: {computed}, expected {expected}"))) }
}
