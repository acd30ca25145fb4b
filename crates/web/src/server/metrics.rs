//! `/metrics` in the text format of Prometheus.

use super::Shared;
use super::api::ask;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use giveway_analysis::model::{JobState, Model};
use giveway_core::{Kind, Outcome};
use giveway_engine::client::Client;
use giveway_engine::coordinator::{Timing, Timings};
use giveway_engine::wire::JobStatus;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// `GET /metrics`
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let mut text = String::new();
    let feed_ok = shared.feed_error.lock().is_ok_and(|error| error.is_none());
    // The coordinator forgets nodes that were not started again; the journal does not.
    let known = ask(&shared, Client::nodes).await.ok();
    if let Some(source) = shared.sources.first() {
        source.read(|model, _| {
            let is_known = |name: &str| known.as_ref().is_none_or(|known| known.iter().any(|node| node.name == name));
            of_model(model, is_known, &mut text);
        });
    }
    gauge(
        &mut text,
        "giveway_journal_readable",
        "1 if the journal could be read at the last attempt.",
        f64::from(u8::from(feed_ok)),
    );
    if let Some(timings) = &shared.timings {
        of_coordinator(timings, &mut text);
    }
    let watchers = shared.watchers.load(Ordering::Relaxed) as f64;
    gauge(&mut text, "giveway_dashboard_streams", "Open streams of updates.", watchers);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn gauge(out: &mut String, name: &str, help: &str, value: f64) {
    head(out, name, help, "gauge");
    let _ = writeln!(out, "{name} {value}");
}

fn counter(out: &mut String, name: &str, help: &str, value: f64) {
    head(out, name, help, "counter");
    let _ = writeln!(out, "{name} {value}");
}

fn summary(out: &mut String, name: &str, help: &str, timing: &Timing) {
    head(out, name, help, "summary");
    let _ = writeln!(out, "{name}_sum {}\n{name}_count {}", timing.total().as_secs_f64(), timing.count());
}

/// Upper limits of the buckets of histograms of jobs, in seconds.
const BUCKETS_S: [f64; 12] = [0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0];

fn histogram(out: &mut String, name: &str, pool: &str, values: &[f64]) {
    let pool = label(pool);
    for limit in BUCKETS_S {
        let count = values.iter().filter(|value| **value <= limit).count();
        let _ = writeln!(out, "{name}_bucket{{pool=\"{pool}\",le=\"{limit}\"}} {count}");
    }
    let (count, sum) = (values.len(), values.iter().sum::<f64>() + 0.0);
    let _ = writeln!(out, "{name}_bucket{{pool=\"{pool}\",le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{name}_sum{{pool=\"{pool}\"}} {sum}\n{name}_count{{pool=\"{pool}\"}} {count}");
}

/// A label's value: backslash, quote and line break are escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub(super) fn of_coordinator(timings: &Timings, out: &mut String) {
    let decisions = "Time to handle a batch of inputs, with all scheduling decisions that follow from it.";
    summary(out, "giveway_decision_seconds", decisions, &timings.decisions);
    let writes = "Time to write to the journal and sync it.";
    summary(out, "giveway_journal_write_seconds", writes, &timings.journal_writes);
}

/// The jobs of a pool.
#[derive(Default)]
struct OfPool {
    /// By state, as in [`JobStatus::STATES`].
    jobs: [u64; 5],
    /// How long jobs waited that have started, and all others so far.
    waits_s: Vec<f64>,
    waiting_s: f64,
    completions_s: Vec<f64>,
}

fn of_model(model: &Model, is_known: impl Fn(&str) -> bool, out: &mut String) {
    head(out, "giveway_slots", "Slots of the nodes that are up, and neither drained nor excluded.", "gauge");
    for kind in Kind::BOTH {
        let _ = writeln!(out, "giveway_slots{{kind=\"{kind}\"}} {}", model.slots(kind));
    }
    head(out, "giveway_slots_in_use", "Slots that run an attempt.", "gauge");
    for kind in Kind::BOTH {
        let used: u32 = model.holders(kind).iter().map(|(_, held)| held).sum();
        let _ = writeln!(out, "giveway_slots_in_use{{kind=\"{kind}\"}} {used}");
    }
    head(out, "giveway_nodes", "Nodes by state.", "gauge");
    let up = model.nodes.iter().filter(|node| node.is_up()).count();
    let excluded = model.nodes.iter().filter(|node| node.is_up() && node.is_excluded()).count();
    let drained = model.nodes.iter().filter(|node| node.is_up() && node.is_drained()).count();
    let lost = model.nodes.iter().filter(|node| !node.is_up() && is_known(&node.name)).count();
    let states = [("up", up - excluded), ("excluded", excluded - drained), ("drained", drained), ("lost", lost)];
    for (state, count) in states {
        let _ = writeln!(out, "giveway_nodes{{state=\"{state}\"}} {count}");
    }
    let mut by_pool: BTreeMap<&str, OfPool> = BTreeMap::new();
    for job in &model.jobs {
        let pool = by_pool.entry(&job.pool).or_default();
        match job.state() {
            JobState::Waiting => pool.jobs[0] += 1,
            JobState::Running => pool.jobs[1] += 1,
            JobState::Succeeded => pool.jobs[2] += 1,
            JobState::Killed => pool.jobs[3] += 1,
            JobState::Failed => pool.jobs[4] += 1,
        }
        let since_submission = |until| model.elapsed(job.submitted, until).as_secs_f64();
        match job.started {
            Some(started) => pool.waits_s.push(since_submission(started)),
            None if job.outcome.is_none() => pool.waiting_s += since_submission(model.now),
            None => {}
        }
        let succeeded = job.ended.filter(|_| job.outcome == Some(Outcome::Succeeded));
        pool.completions_s.extend(succeeded.map(since_submission));
    }
    head(out, "giveway_jobs", "Jobs in the journal, by pool and state.", "gauge");
    for (name, pool) in &by_pool {
        for (state, count) in JobStatus::STATES.iter().zip(pool.jobs) {
            let _ = writeln!(out, "giveway_jobs{{pool=\"{}\",state=\"{state}\"}} {count}", label(name));
        }
    }
    head(out, "giveway_wait_seconds_total", "Time from submission to the first launch, by pool.", "counter");
    for (name, pool) in &by_pool {
        let wait_s = pool.waits_s.iter().sum::<f64>() + pool.waiting_s;
        let _ = writeln!(out, "giveway_wait_seconds_total{{pool=\"{}\"}} {wait_s}", label(name));
    }
    head(out, "giveway_job_wait_seconds", "Time from submission to the first launch, of each job.", "histogram");
    by_pool.iter().for_each(|(name, pool)| histogram(out, "giveway_job_wait_seconds", name, &pool.waits_s));
    let help = "Time from submission to success, of each job.";
    head(out, "giveway_job_completion_seconds", help, "histogram");
    by_pool.iter().for_each(|(name, pool)| histogram(out, "giveway_job_completion_seconds", name, &pool.completions_s));
    let sum = |of: fn(&giveway_analysis::model::JobRow) -> f64| model.jobs.iter().map(of).sum::<f64>();
    counter(out, "giveway_attempts_total", "Attempts launched.", model.attempts.len() as f64);
    counter(out, "giveway_pauses_total", "Reduces paused.", sum(|job| f64::from(job.pauses)));
    counter(out, "giveway_early_ends_total", "Maps ended early.", sum(|job| f64::from(job.early_ends)));
    counter(out, "giveway_kills_total", "Attempts killed for another job.", sum(|job| f64::from(job.kills)));
    counter(out, "giveway_failures_total", "Attempts that failed.", sum(|job| f64::from(job.failures)));
    let lost = "Slot time of attempts killed for another job.";
    counter(out, "giveway_lost_to_preemption_seconds_total", lost, sum(|job| job.lost_to_preemption.as_secs_f64()));
    let lost = "Slot time of attempts lost with their node.";
    counter(out, "giveway_lost_with_nodes_seconds_total", lost, sum(|job| job.lost_with_nodes.as_secs_f64()));
    gauge(out, "giveway_paused_reduces", "Reduces that are paused.", sum(|job| f64::from(job.paused)));
    counter(out, "giveway_events_total", "Records of the event log.", model.records as f64);
}
