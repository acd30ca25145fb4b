//! Tests of the tables against the event log they are made from.

use super::*;
use crate::fixture;
use crate::forecast::{Forecasts, Interval, Present};
use giveway_core::event_log::EventLogReader;
use giveway_engine::coordinator::ClockReading;
use serde_json::Value;
use std::time::Duration;

fn records() -> (Setup, Vec<Record>) {
    let bytes = fixture::event_log();
    let reader = EventLogReader::open(&bytes).unwrap();
    let setup = reader.setup().clone();
    (setup, reader.map_while(Result::ok).collect())
}

/// The model after so many records.
fn model(until: usize) -> Model {
    let (setup, records) = records();
    let mut model = Model::new(setup, 1).unwrap();
    records.iter().take(until).for_each(|record| model.apply(record));
    model
}

/// Parses the binary form: the JSON and the number of attempts.
fn parse(snapshot: &[u8]) -> (Value, usize) {
    let length = u32::from_le_bytes(snapshot[..4].try_into().unwrap()) as usize;
    assert_eq!((length + 4) % 8, 0, "columns must be aligned");
    let head: Value = serde_json::from_slice(&snapshot[4..4 + length]).unwrap();
    let column =
        |name: &str| head["columns"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    let (start, last) = (column("start"), column("markSubject"));
    let end = 4 + length + (last["offset"].as_u64().unwrap() + 4 * last["len"].as_u64().unwrap()) as usize;
    assert!(end <= snapshot.len() && snapshot.len() - end < 8);
    let attempts = start["len"].as_u64().unwrap() as usize;
    (head, attempts)
}

#[test]
fn the_tables_agree_with_the_records() {
    let (_, records) = records();
    let model = model(usize::MAX);
    let launches =
        records.iter().flat_map(|record| &record.actions).filter(|action| matches!(action, Action::Launch { .. }));
    assert_eq!(model.attempts.len(), launches.count());
    assert_eq!(model.running().count(), 0);
    assert_eq!(model.mismatch(), None, "the replica decides as the scheduler did");
    let early = records.iter().filter(|record| matches!(record.event, Event::AttemptEndedEarly { .. })).count();
    assert_eq!(model.jobs.iter().map(|job| job.early_ends as usize).sum::<usize>(), early);
    assert!(model.jobs.iter().all(|job| job.state() == JobState::Succeeded && job.running == [0; 2]));
    assert!(model.jobs[0].lost_with_nodes > giveway_core::Span::ZERO, "a node failed while the large job ran");
    assert!(!model.nodes[2].is_up());
    assert_eq!(model.marks.iter().filter(|mark| mark.kind == MarkKind::NodeLost).count(), 1);
}

#[test]
fn no_two_attempts_share_a_lane() {
    let model = model(usize::MAX);
    let attempts = &model.attempts;
    for a in 0..attempts.len() {
        for b in a + 1..attempts.len() {
            let same = attempts.node[a] == attempts.node[b]
                && attempts.lane[a] == attempts.lane[b]
                && attempts.kind[a] == attempts.kind[b];
            assert!(!same || attempts.end_s[a] <= attempts.start_s[b], "{a} {b}");
        }
    }
}

#[test]
fn updates_from_any_moment_lead_to_the_same_end() {
    let (setup, records) = records();
    let mut model = Model::new(setup, 1).unwrap();
    let (mut cursor, mut attempts, mut ended, mut marks) = (model.cursor(), 0, 0, 0);
    for (number, record) in records.iter().enumerate() {
        model.apply(record);
        if number % 37 != 0 && number + 1 != records.len() {
            continue;
        }
        assert!(model.continues(cursor));
        let update: Value = serde_json::from_str(&model.update(cursor, &Forecasts::default())).unwrap();
        assert_eq!(update["attempts"]["from"], attempts);
        attempts += update["attempts"]["start"].as_array().unwrap().len();
        ended += update["attempts"]["ended"].as_array().unwrap().len();
        marks += update["marks"].as_array().unwrap().len();
        cursor = update["cursor"].as_str().unwrap().parse().unwrap();
    }
    let (head, all) = parse(&model.snapshot(&Forecasts::default()));
    assert_eq!((attempts, ended, marks), (all, all, model.marks.len()));
    assert_eq!(head["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(cursor, model.cursor());
}

#[test]
fn a_cursor_of_another_log_or_nonsense_is_not_continued() {
    let model = model(100);
    let (setup, _) = records();
    assert!(!Model::new(setup, 2).unwrap().continues(model.cursor()));
    for text in ["", "1", "1.2.3.4", "1.2.3.4.5.6", "x.2.3.4.5", "-1.0.0.0.0"] {
        assert!(text.parse::<Cursor>().is_err(), "{text}");
    }
    let beyond: Cursor = "1.ffffff.0.0.0".parse().unwrap();
    assert!(!model.continues(beyond));
}

#[test]
fn every_job_is_explained_at_every_moment() {
    let (_, records) = records();
    let mut causes = 0;
    for until in (1..records.len()).step_by(29) {
        let model = model(until);
        for job in &model.jobs {
            let explanation = crate::explain::explain(&model, job.id, model.now).unwrap();
            assert!(!explanation.facts.is_empty());
            causes += explanation.facts.iter().filter(|fact| fact.cause).count();
        }
    }
    assert!(causes > 0, "some job had to wait");
    assert!(crate::explain::explain(&model(10), JobId(99), Time::ZERO).is_none());
}

#[test]
fn reasons_and_explanations_have_the_names_of_nodes() {
    let model = model(usize::MAX);
    let rows = 0..model.attempts.len() as u32;
    let texts: Vec<String> =
        rows.filter_map(|row| Some(model.reason_text(model.attempts.launch_reason(row)?))).collect();
    assert!(texts.iter().any(|text| text == "reruns work that was lost with node-2"), "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains("node 2")), "{texts:?}");
}

#[test]
fn an_explanation_counts_from_the_present_of_an_idle_cluster() {
    let mut model = model(usize::MAX);
    let title = |model: &Model, now| crate::explain::explain(model, JobId(1), now).unwrap().facts[0].title.clone();
    let ended = model.job(JobId(1)).and_then(|job| job.ended).unwrap();
    let hour = Span::from_secs(3_600);
    assert!(title(&model, ended + hour).ends_with("1 h 00 min ago"), "{}", title(&model, ended + hour));
    // The coordinator was down for an hour right after that; the log's own time stood still.
    let later = ended + Span::from_secs(1);
    model.clock.add(ClockReading { at: Time::ZERO, unix_us: 0 });
    model.clock.add(ClockReading { at: later, unix_us: (later + hour).0 });
    assert!(title(&model, later).ends_with("1 h 00 min ago"), "{}", title(&model, later));
    assert_eq!(model.elapsed(Time::ZERO, ended), ended.since(Time::ZERO));
}

#[test]
fn forecasts_contain_what_then_happens() {
    let (_, records) = records();
    let end = model(usize::MAX);
    let large = end.jobs[0].id;
    let forecast = |now: &Model| {
        let present = Present::of(now).unwrap();
        present.forecast(&present.policy, Duration::from_secs(60))
    };
    let actual = end.jobs[0].ended.unwrap();
    // In the middle, how long its reduces take is known from the one of a small job only.
    let middle = model(records.len() / 2);
    let Interval { low, median, high } = forecast(&middle).jobs[&large].end.unwrap();
    assert!(middle.now < low && Some(low) <= median && median <= Some(high));
    assert!(low < actual && actual < high, "{actual} is not between {low} and {high}");
    let has_reduced = |until: &usize| model(*until).job(large).is_some_and(|row| row.done[1] > 0);
    let later = model((records.len() / 2..).find(has_reduced).unwrap());
    let forecasts = forecast(&later);
    let Interval { median, high, .. } = forecasts.jobs[&large].end.unwrap();
    let median = median.unwrap();
    let error = (median.as_secs_f64() - actual.as_secs_f64()).abs() / (actual.as_secs_f64() - later.now.as_secs_f64());
    assert!(error < 0.5, "forecast {median} at {}, actual {actual}", later.now);
    assert!(Present::of(&end).is_none(), "no job is live");
    let [after_median, after_high] = [median, high].map(|time| time + Span(1));
    let late = forecasts.of_job(large, after_median).unwrap().end.unwrap();
    assert_eq!((late.low, late.median, late.high), (after_median, None, high), "nothing is expected in the past");
    assert!(forecasts.of_job(large, after_high).unwrap().end.is_none());
}

#[test]
fn the_first_job_of_a_cluster_is_forecast_once_its_maps_have_made_progress() {
    let (_, records) = records();
    let first = records.iter().position(|record| matches!(record.event, Event::JobSubmitted(_))).unwrap();
    let submitted = model(first + 1);
    let job = submitted.jobs[0].id;
    let end = |now: &Model| {
        let present = Present::of(now).unwrap();
        present.forecast(&present.policy, Duration::from_secs(60)).jobs[&job].end
    };
    assert_eq!(end(&submitted), None);
    let has_progress = |until: &usize| !model(*until).early_progress.is_empty();
    let early = model((first..).find(has_progress).unwrap());
    assert_eq!(early.job(job).unwrap().done, [0; 2]);
    let end = end(&early).unwrap();
    let actual = model(usize::MAX).jobs[0].ended.unwrap();
    assert!(end.low < actual && actual < end.high, "{end:?}, {actual}");
}

#[test]
fn forecasts_of_an_application_begin_with_what_it_runs_and_requests() {
    let mut follower = Follower::new("fair", 3);
    follower.submit_job(0, 2, 0);
    let mut spec = follower.core.state().job(follower.core.state().find(JobId(0)).unwrap()).spec();
    (spec.id, spec.splits, spec.reduces) = (JobId(7), [].into(), 0);
    follower.submit(Event::JobOpened(Box::new(spec)));
    follower.submit(Event::SlotsRequested { job: JobId(7), maps: 5, reduces: 2 });
    follower.submit(Event::SlotGranted { job: JobId(7), kind: Kind::Map, node: NodeId(1) });
    follower.offer(0);
    let running: Vec<giveway_core::AttemptId> = follower.model.running().map(|running| running.id).collect();
    assert!([0, 7].iter().all(|&job| running.iter().any(|attempt| attempt.task.job == JobId(job))), "{running:?}");
    follower.now = follower.now + giveway_core::Span::from_secs(10);
    let progress = running.into_iter().map(|attempt| giveway_core::Progress { attempt, progress_ppm: 100_000 });
    follower.submit(Event::ProgressReported { progress: progress.collect() });
    let present = Present::of(&follower.model).unwrap();
    let forecasts = present.forecast(&present.policy, Duration::from_secs(60));
    assert!(forecasts.jobs[&JobId(7)].end.is_some() && forecasts.jobs[&JobId(0)].end.is_some(), "{forecasts:?}");
}

/// A model that follows events directly.
struct Follower {
    core: Scheduler,
    model: Model,
    now: Time,
}

impl Follower {
    fn new(policy: &str, nodes: u32) -> Follower {
        let setup = Setup::new(giveway_core::policy::catalog::by_name(policy).unwrap());
        let model = Model::new(setup.clone(), 1).unwrap();
        let mut follower = Follower { core: Scheduler::new(setup).unwrap(), model, now: Time::ZERO };
        for node in 0..nodes {
            let spec = giveway_core::NodeSpec {
                name: format!("node-{node}"),
                rack: giveway_core::RackId(0),
                map_slots: 2,
                reduce_slots: 1,
                speed_ppm: giveway_core::WHOLE_PPM,
                disk_bytes_per_s: 1 << 26,
                disk_bytes: 1 << 40,
            };
            follower.submit(Event::NodeJoined { node: NodeId(node), spec });
        }
        follower
    }

    fn submit(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        self.model.apply(&Record { now: self.now, event, actions: actions.clone() });
        actions
    }

    fn submit_job(&mut self, id: u32, maps: u32, reduces: u32) {
        self.submit(Event::JobSubmitted(Box::new(giveway_core::JobSpec {
            external_id: None,
            id: JobId(id),
            name: format!("j{id}"),
            user: "ann".into(),
            pool: "default".into(),
            priority: giveway_core::Priority::Normal,
            splits: (0..maps).map(|_| giveway_core::Split { bytes: 1 << 20, hosts: Default::default() }).collect(),
            reduces,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: giveway_core::WHOLE_PPM,
        })));
    }

    /// Offers the slots of a node and returns what was launched.
    fn offer(&mut self, node: u32) -> Vec<giveway_core::AttemptId> {
        let actions = self.submit(Event::SlotsOffered { node: NodeId(node), progress: Vec::new() });
        let launched = actions.into_iter().filter_map(|action| match action {
            Action::Launch { attempt, .. } => Some(attempt),
            _ => None,
        });
        launched.collect()
    }
}

#[test]
fn an_excluded_node_is_not_healthy_and_its_slots_do_not_count() {
    let mut cluster = Follower::new("fair", 3);
    [1, 2].into_iter().for_each(|id| cluster.submit_job(id, 30, 0));
    for _ in 0..2 {
        for attempt in cluster.offer(0) {
            cluster.submit(Event::AttemptFailed { attempt });
        }
    }
    assert!(!cluster.model.nodes[0].is_excluded(), "the tasks have not succeeded elsewhere");
    cluster.now = cluster.now + giveway_core::Span::from_secs(2);
    cluster.submit(Event::TimerFired { timer: giveway_core::Timer::Retry });
    for _ in 0..15 {
        for attempt in cluster.offer(1) {
            cluster.submit(Event::AttemptFinished { attempt, output_bytes: 1 });
        }
    }
    let model = &cluster.model;
    assert_eq!(model.mismatch(), None);
    assert_eq!(model.nodes.iter().map(NodeRow::is_excluded).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(model.slots(Kind::Map), 4);
    let (head, _) = parse(&model.snapshot(&Forecasts::default()));
    assert_eq!(head["nodes"][0][1]["exclusions"][0]["failures"], 4);
    assert_eq!(head["nodes"][0][1]["exclusions"][0]["until"], Value::Null);
    assert_eq!(model.marks.iter().filter(|mark| mark.kind == MarkKind::NodeExcluded).count(), 1);
}

/// A job of one map and one reduce, which is paused on the first node.
fn with_paused_reduce(nodes: u32) -> Follower {
    let mut cluster = Follower::new("fcs", nodes);
    cluster.submit_job(1, 1, 1);
    let launched = cluster.offer(0);
    let reduce = *launched.iter().find(|attempt| attempt.task.kind == Kind::Reduce).expect("slow start is off");
    cluster.submit(Event::YieldRequested { attempt: reduce });
    cluster.submit(Event::AttemptPaused { attempt: reduce, progress_ppm: 500_000 });
    assert_eq!(cluster.model.jobs[0].paused, 1);
    cluster
}

#[test]
fn a_killed_job_has_no_paused_reduces() {
    let mut cluster = with_paused_reduce(1);
    cluster.submit(Event::JobKilled { job: JobId(1) });
    assert_eq!((cluster.model.jobs[0].paused, cluster.model.jobs[0].pauses), (0, 1));
    let explained = crate::explain::explain(&cluster.model, JobId(1), cluster.model.now).unwrap();
    assert!(explained.facts.iter().all(|fact| !fact.title.contains("Lost work")), "{explained:?}");
}

#[test]
fn reduces_that_are_lost_while_they_are_paused_are_not_paused_any_more() {
    let mut cluster = with_paused_reduce(2);
    let explained = crate::explain::explain(&cluster.model, JobId(1), cluster.model.now).unwrap();
    let paused = explained.decisions.iter().find(|decision| decision.text.contains("paused")).unwrap();
    assert!(paused.text.contains("paused reduce 0 on "), "{}", paused.text);
    cluster.submit(Event::NodeLost { node: NodeId(0) });
    assert_eq!((cluster.model.jobs[0].paused, cluster.model.jobs[0].pauses), (0, 1));
}

#[test]
fn codes_of_the_pages_are_those_of_the_columns() {
    let script = codes_script();
    for code in [
        format!("endedEarly: {},", Ended::EndedEarly as u8),
        format!("resynced: {},", Ended::Resynced as u8),
        format!("migrated: {},", Began::Migrated as u8),
        format!("nodeIncluded: {},", MarkKind::NodeIncluded as u8),
        "export const NONE = 4294967295;".to_owned(),
    ] {
        assert!(script.contains(&code), "{code} in {script}");
    }
}

/// A journal that replaces another tells what its jobs did before: those that run are not waiting.
#[test]
fn a_job_that_ran_before_the_log_began_is_not_taken_for_a_new_one() {
    let mut before = Follower::new("giveway", 2);
    before.submit_job(0, 6, 1);
    before.now = Time::ZERO + Span::from_secs(5);
    let launched = before.offer(0);
    before.now = Time::ZERO + Span::from_secs(15);
    before.submit(Event::AttemptFinished { attempt: launched[0], output_bytes: 1 });
    let snapshot = before.core.snapshot();

    let mut after = Follower::new("giveway", 2);
    after.submit_job(0, 6, 1);
    after.now = before.now;
    after.submit(Event::Restored(Box::new(snapshot)));
    let job = after.model.job(JobId(0)).unwrap();
    assert_eq!(job.started, Some(Time::ZERO + Span::from_secs(5)));
    assert_eq!((job.state(), job.done, job.running), (JobState::Running, [1, 0], [1, 1]));
    assert_eq!(job.mean_task_time(Kind::Map), before.model.job(JobId(0)).unwrap().mean_task_time(Kind::Map));
}
