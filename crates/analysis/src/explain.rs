//! Why a job runs, waits or ended as it did: one source for `giveway explain`, the API and the job page.
//!
//! An explanation is a list of facts at the present instant, each with its numbers. One of them may be the cause: what holds the job back now.

use crate::forecast::{Forecasts, Interval, JobForecast, Present};
use crate::model::{AttemptRow, JobRow, JobState, Mark, MarkKind, Model, Subject};
use giveway_core::cluster::{Blocked, KindStatus, PositionReason};
use giveway_core::policy::catalog;
use giveway_core::policy::preemption::is_preemptable;
use giveway_core::{JobId, Kind, Measure, Outcome, PreemptAction, Span, TaskKey, Time, plural};
use serde::Serialize;
use std::time::Duration;

/// Jobs that a fact names, at most.
const BARS_MAX: usize = 6;

/// Decisions that an explanation has, at most.
const DECISIONS_MAX: usize = 12;

/// How long the forecasts for one answer may take, for each policy.
const FORECAST_LIMIT: Duration = Duration::from_millis(400);

/// Policies that a forecast compares, besides the one in use.
const OTHER_POLICIES: [&str; 3] = ["giveway", "fair", "fifo"];

/// Why a job runs or waits.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    pub job: JobId,
    pub name: String,
    pub state: JobState,
    /// The policy in use.
    pub policy: String,
    /// The instant explained, in seconds of the log.
    pub at_s: f64,
    /// Milliseconds of the Unix epoch at the log's time zero, if known.
    pub wall_ms: Option<f64>,
    /// The facts, in order.
    pub facts: Vec<Fact>,
    /// The latest decisions about it, oldest first.
    pub decisions: Vec<Decision>,
    /// When it is expected to start and end, the policy in use first. Empty for a job that ended and for a recorded log.
    pub forecasts: Vec<PolicyForecast>,
}

/// One fact of an explanation.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// The fact in a few words.
    pub title: String,
    pub text: String,
    /// True if it holds the job back.
    pub cause: bool,
    /// Jobs that it names, with a number each.
    pub bars: Vec<Bar>,
}

/// A job that a fact names.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    pub job: JobId,
    pub name: String,
    /// A number to compare it by.
    pub value: f64,
    /// The number as text.
    pub text: String,
}

/// A decision about the job.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// When, in seconds of the log.
    pub at_s: f64,
    /// When, in milliseconds of the Unix epoch, if known.
    pub at_ms: Option<f64>,
    pub text: String,
}

/// Start and end under one policy, in seconds of the log: 5th, 50th and 95th percentile, no middle one if it has passed.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyForecast {
    pub policy: String,
    /// When the job starts; none if it has started.
    pub start_s: Option<[Option<f64>; 3]>,
    /// When it ends; none if too little is known of its tasks, or if it did not end in every run.
    pub end_s: Option<[Option<f64>; 3]>,
}

impl PolicyForecast {
    /// The forecast of a job under a policy.
    pub fn new(policy: &str, forecast: JobForecast) -> PolicyForecast {
        let [start_s, end_s] = [forecast.start, forecast.end].map(|interval| interval.map(Interval::seconds));
        PolicyForecast { policy: policy.into(), start_s, end_s }
    }
}

/// Explains a job with what is in the log, at an instant after its last record; none if there is no such job.
pub fn explain(model: &Model, id: JobId, now: Time) -> Option<Explanation> {
    let job = model.job(id)?;
    let mut facts = vec![life(model, job, now)];
    if let (None, Some(status)) = (job.outcome, model.scheduler().job_status(id)) {
        for kind in Kind::BOTH {
            of_kind(model, job, kind, status.tasks[kind], now, &mut facts);
        }
    }
    facts.extend(gave_way(model, job));
    facts.extend(lost(job));
    facts.extend(failed(job));
    Some(Explanation {
        job: id,
        name: job.name.clone(),
        state: job.state(),
        policy: model.scheduler().setup().policy.name.clone(),
        at_s: now.as_secs_f64(),
        wall_ms: model.wall_ms(),
        facts,
        decisions: decisions(model, id),
        forecasts: Vec::new(),
    })
}

/// A duration with two significant units.
pub fn duration(span: Span) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        ..0.1 => span.to_string(),
        ..10.0 => format!("{seconds:.1} s"),
        ..100.0 => format!("{seconds:.0} s"),
        ..3_600.0 => format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor()),
        _ => format!("{:.0} h {:02.0} min", (seconds / 3_600.0).floor(), (seconds % 3_600.0 / 60.0).floor()),
    }
}

fn fact(title: impl Into<String>, text: impl Into<String>) -> Fact {
    Fact { title: title.into(), text: text.into(), cause: false, bars: Vec::new() }
}

fn life(model: &Model, job: &JobRow, now: Time) -> Fact {
    let ago = |time: Time| duration(model.elapsed(time, now));
    let who = format!(
        "Submitted {} ago by {} to pool {}: {} and {}.",
        ago(job.submitted),
        job.user,
        job.pool,
        plural(job.tasks[0], "map"),
        plural(job.tasks[1], "reduce")
    );
    match (job.state(), job.started, job.ended) {
        (JobState::Waiting, None, _) => fact(format!("Waiting for {}", ago(job.submitted)), who),
        (JobState::Waiting | JobState::Running, Some(started), _) => {
            let waited = duration(model.elapsed(job.submitted, started));
            let title = match job.state() {
                JobState::Running => format!("Running for {}, after a wait of {waited}", ago(started)),
                _ => format!("Started {} ago, after a wait of {waited}; holds no slot now", ago(started)),
            };
            fact(title, who)
        }
        (state, started, Some(ended)) => {
            let word = match state {
                JobState::Succeeded => "Succeeded",
                JobState::Killed => "Killed",
                _ => "Failed",
            };
            let total = duration(model.elapsed(job.submitted, ended));
            let waited = started.map_or_else(
                || "no task was started".into(),
                |started| {
                    format!("{} of it until its first task started", duration(model.elapsed(job.submitted, started)))
                },
            );
            fact(format!("{word} {} ago", ago(ended)), format!("{who} It took {total}, {waited}."))
        }
        _ => fact("Submitted", who),
    }
}

fn of_kind(model: &Model, job: &JobRow, kind: Kind, tasks: KindStatus, now: Time, facts: &mut Vec<Fact>) {
    if tasks.total == 0 || tasks.done == tasks.total {
        return;
    }
    let mut counts = vec![format!("{} of {} done", tasks.done, plural(tasks.total, &kind.to_string()))];
    let more = [
        (tasks.running, "running"),
        (tasks.stopping, "requested to stop"),
        (tasks.paused, "paused"),
        (tasks.pending, "pending"),
    ];
    counts.extend(more.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    let mut held = fact(capitalized(&format!("{kind}s: {}", counts.join(", "))), share(tasks));
    let blocked = model.scheduler().blocked(job.id, kind);
    let held_back = match &blocked {
        None | Some(Blocked::Queued(_)) => None,
        Some(Blocked::SlowStart { maps }) => {
            let done = model.scheduler().job_status(job.id).map_or(0, |status| status.tasks[Kind::Map].done);
            Some(slow_start(*maps, done))
        }
        Some(Blocked::NoSlots) => {
            Some(format!("No node with {kind} slots is in use: all are lost, excluded or drained."))
        }
        Some(Blocked::BackingOff { until }) => Some(format!(
            "Its pending tasks have failed before; the first of them is tried again in {}.",
            duration(until.since(now))
        )),
        Some(Blocked::NotQueued) => {
            Some("Slots are reserved for all of its pending tasks, or its pool may not grow now.".into())
        }
    };
    held.cause = held_back.is_some();
    held.text = held_back.unwrap_or(held.text);
    facts.push(held);
    match blocked {
        None | Some(Blocked::SlowStart { .. } | Blocked::NoSlots | Blocked::BackingOff { .. }) => return,
        Some(Blocked::NotQueued) => {}
        Some(Blocked::Queued(positions)) => facts.extend(
            positions.first().map(|position| rank(model, job.id, kind, &position.ahead, &standing(&position.reason))),
        ),
    }
    facts.push(holders(model, kind));
    facts.extend(guards(model, job.id, kind, now));
}

/// What the job is ranked by, and the jobs before it, which are ranked by the same.
fn rank(model: &Model, id: JobId, kind: Kind, ahead: &[JobId], reason: &str) -> Fact {
    let title = match ahead.len() {
        0 => format!("Next to get a {kind} slot"),
        jobs => format!("{} ahead for {kind} slots", plural(jobs as u32, "job")),
    };
    let measure = |job: JobId| match model.scheduler().blocked(job, kind)? {
        Blocked::Queued(positions) => Some(positions.first()?.reason.rank.measure),
        _ => None,
    };
    let own_measure = measure(id);
    let own = own_measure.map_or_else(String::new, |own| own.amount());
    let bar = |job: JobId| {
        let measure = measure(job)?;
        // Without what is measured, if that is the same as in the text above.
        let text = match (measure.amount().split_once(": "), own.split_once(": ")) {
            (Some((what, amount)), Some((same, _))) if what == same => amount.into(),
            _ => measure.amount(),
        };
        let name = model.job(job).map(|job| job.name.clone()).unwrap_or_default();
        Some(Bar { job, name, value: measure.number(), text })
    };
    let first = ahead.iter().take(BARS_MAX - 1).copied();
    let bars: Vec<Bar> = first.chain(Some(id).filter(|_| !ahead.is_empty())).filter_map(bar).collect();
    let mut text = format!("Rank {} of the waiting jobs: {reason}.", ahead.len() + 1);
    let is_by_work =
        |measure: &Measure| matches!(measure, Measure::RemainingArea(_) | Measure::RemainingAreaAndShuffle { .. });
    if own_measure.is_some_and(|own| is_by_work(&own) && bars.iter().any(|bar| bar.value > own.number())) {
        text.push_str(" Jobs with about as much work left, within a factor of two, rank in the order of submission.");
    }
    Fact { title, text, cause: !ahead.is_empty(), bars }
}

fn standing(reason: &PositionReason) -> String {
    let refused = reason.refused.map_or_else(String::new, |refused| format!("; {refused}"));
    format!("{}{refused}", reason.rank.standing())
}

fn share(tasks: KindStatus) -> String {
    match tasks.fair_share {
        share if share > 0.0 => {
            format!("It holds {}; its fair share is {share:.1}.", plural(tasks.running, "slot"))
        }
        _ => format!("It holds {}.", plural(tasks.running, "slot")),
    }
}

/// Who holds the slots of a kind.
fn holders(model: &Model, kind: Kind) -> Fact {
    let (holders, slots) = (model.holders(kind), model.slots(kind));
    let used: u32 = holders.iter().map(|(_, held)| held).sum();
    let bars = holders.iter().take(BARS_MAX).filter_map(|&(row, held)| {
        let job = model.jobs.get(row as usize)?;
        Some(Bar { job: job.id, name: job.name.clone(), value: f64::from(held), text: plural(held, "slot") })
    });
    let more = holders.len().saturating_sub(BARS_MAX) as u32;
    let text = if more > 0 { format!("And {} with fewer.", plural(more, "other job")) } else { String::new() };
    Fact {
        title: format!("{} slots: {used} of {slots} in use", capitalized(&kind.to_string())),
        text,
        cause: used >= slots,
        bars: bars.collect(),
    }
}

/// Whether the policy preempts for the job, and which attempts its guards protect now.
fn guards(model: &Model, id: JobId, kind: Kind, now: Time) -> Option<Fact> {
    let scheduler = model.scheduler();
    let policy = &scheduler.setup().policy;
    let Some(rule) = policy.slots(kind).preempt.first() else {
        let text = format!("{kind} slots free only when their tasks end.");
        return Some(fact(format!("{} does not preempt for {kind} slots", policy.name), capitalized(&text)));
    };
    let state = scheduler.state();
    let (mut open, mut protected, mut next): (u32, u32, Option<Time>) = (0, 0, None);
    for (_, other) in state.jobs().iter().filter(|(_, other)| other.id() != id && !other.is_closed()) {
        for &index in &other.counts(kind).running {
            let task = TaskKey { kind, index };
            if is_preemptable(other, task, &rule.guards, now) {
                open += 1;
                continue;
            }
            protected += 1;
            let young = other.task(task).launched() + rule.guards.min_runtime;
            if now < young {
                next = Some(next.map_or(young, |at| at.min(young)));
            }
        }
    }
    if open + protected == 0 {
        return None;
    }
    let action = match rule.action {
        PreemptAction::Pause => "pauses reduces",
        PreemptAction::EndEarly => "ends maps early",
        PreemptAction::Kill => "kills attempts",
    };
    let mut text = format!(
        "{} {action} of jobs that rank behind. {protected} of {} running {kind}s of other jobs {} protected.",
        policy.name,
        protected + open,
        if protected == 1 { "is" } else { "are" }
    );
    if rule.margin > 1.0 {
        text.push_str(&format!(" It takes a slot only if this job is ahead by a factor of {}.", rule.margin));
    }
    if let Some(at) = next {
        text.push_str(&format!(" The next protection of a young attempt ends in {}.", duration(at.since(now))));
    }
    let title = match (open, protected) {
        (0, 1) => format!("The only running {kind} of another job is protected"),
        (0, _) => format!("All {protected} running {kind}s of other jobs are protected"),
        _ => format!(
            "Of {} of other jobs, {open} may be preempted",
            plural(protected + open, &format!("running {kind}"))
        ),
    };
    Some(fact(title, text))
}

fn slow_start(needed: u32, done: u32) -> String {
    let needed = if needed == 1 { "1 map finishes".into() } else { format!("{needed} maps finish") };
    let done = match done {
        0 => "none has".into(),
        1 => "1 has".into(),
        _ => format!("{done} have"),
    };
    format!("Reduces start after {needed}; {done} (slow start).")
}

fn gave_way(model: &Model, job: &JobRow) -> Option<Fact> {
    if job.pauses + job.early_ends + job.kills == 0 {
        return None;
    }
    let mut others: Vec<(u32, u32)> = Vec::new();
    let row = model.job_row(job.id)?;
    for mark in &model.marks {
        let Subject::Attempt { job, beneficiary: Some(beneficiary), .. } = mark.subject else { continue };
        if job != row {
            continue;
        }
        match others.iter_mut().find(|(other, _)| *other == beneficiary) {
            Some((_, count)) => *count += 1,
            None => others.push((beneficiary, 1)),
        }
    }
    others.sort_by_key(|&(other, count)| (std::cmp::Reverse(count), other));
    let bars = others.into_iter().take(BARS_MAX).filter_map(|(other, count)| {
        let other = model.jobs.get(other as usize)?;
        Some(Bar { job: other.id, name: other.name.clone(), value: f64::from(count), text: plural(count, "time") })
    });
    let lost = if job.lost_to_preemption.is_zero() {
        "no work was lost".into()
    } else {
        format!("{} of slot time was lost to kills", duration(job.lost_to_preemption))
    };
    Some(Fact {
        title: format!("Preempted {}; {lost}", plural(job.pauses + job.early_ends + job.kills, "time")),
        text: format!(
            "{}, {}, {}; {} paused now.",
            plural(job.pauses, "pause"),
            plural(job.early_ends, "early end"),
            plural(job.kills, "kill"),
            plural(job.paused, "reduce")
        ),
        cause: false,
        bars: bars.collect(),
    })
}

fn lost(job: &JobRow) -> Option<Fact> {
    if job.recovered == 0 && job.lost_with_nodes.is_zero() {
        return None;
    }
    // A node is lost too if the cluster is stopped while tasks run on it.
    let text = format!("{} of slot time was lost.", duration(job.lost_with_nodes));
    let title = match job.recovered {
        0 => "Attempts were lost with a node, or when the cluster stopped; their tasks run again".to_owned(),
        tasks => format!("{} ran again, because a node was lost or the cluster stopped", plural(tasks, "task")),
    };
    Some(fact(title, text))
}

fn failed(job: &JobRow) -> Option<Fact> {
    (job.failures > 0).then(|| {
        let text = "A task that fails is tried again, on another node if there is one; the fourth failure of a task fails its job.";
        fact(format!("{} failed", plural(job.failures, "attempt")), text)
    })
}

fn decisions(model: &Model, id: JobId) -> Vec<Decision> {
    let Some(row) = model.job_row(id) else { return Vec::new() };
    let name = |row: u32| model.jobs.get(row as usize).map_or_else(String::new, |job| job.name.clone());
    let mine = |mark: &&Mark| match mark.subject {
        Subject::Node(_) => false,
        Subject::Job(job) => job == row,
        Subject::Attempt { job, beneficiary, .. } => job == row || beneficiary == Some(row),
    };
    let mut found: Vec<Decision> = Vec::new();
    for mark in model.marks.iter().rev().filter(mine).take(DECISIONS_MAX) {
        let (job, attempt, beneficiary) = match mark.subject {
            Subject::Node(_) => continue,
            Subject::Job(job) => (job, None, None),
            Subject::Attempt { job, row, beneficiary } => (job, Some(row), beneficiary),
        };
        let row = attempt.and_then(|attempt| model.attempts.row(attempt));
        let task = row.map(|AttemptRow { kind, task, node, .. }| format!("{kind} {task} on {}", model.node_name(node)));
        let task = task.as_deref().unwrap_or("a task");
        let (what, slot) = match mark.kind {
            MarkKind::Paused => (format!("paused {task}"), true),
            MarkKind::EndedEarly => (format!("ended {task} early"), true),
            MarkKind::Killed => (format!("lost {task} to a kill"), true),
            MarkKind::Resumed => (format!("resumed {task}"), false),
            MarkKind::Migrated => (format!("moved a paused reduce: {task}"), false),
            MarkKind::Failed => (format!("had a failed attempt of {task}"), false),
            MarkKind::JobSubmitted => ("was submitted".to_owned(), false),
            MarkKind::JobEnded => match model.jobs.get(job as usize).and_then(|job| job.outcome) {
                Some(Outcome::Failed) => ("failed".to_owned(), false),
                Some(Outcome::Killed) => ("was killed".to_owned(), false),
                Some(Outcome::Succeeded) | None => ("succeeded".to_owned(), false),
            },
            MarkKind::NodeLost
            | MarkKind::NodeJoined
            | MarkKind::NodeExcluded
            | MarkKind::NodeIncluded
            | MarkKind::NodeDrained => continue,
        };
        // An attempt that was to give way may fail before it does.
        let for_whom = beneficiary.filter(|_| slot).map_or_else(String::new, |other| format!(" for {}", name(other)));
        let stop = attempt.filter(|_| slot).and_then(|attempt| model.attempts.stop_reason(attempt));
        let reason = stop.map(|(_, reason)| model.reason_text(reason));
        let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        found.push(Decision {
            at_s: mark.at.as_secs_f64(),
            at_ms: model.unix_ms(mark.at),
            text: format!("{} {what}{for_whom}{why}", name(job)),
        });
    }
    found.reverse();
    found
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Forecasts of a job under the policy in use and others. The first is one of `own`, if it has one: what is shown beside it came from there.
pub fn forecasts(present: &Present, own: &Forecasts, job: JobId) -> Vec<PolicyForecast> {
    let others = OTHER_POLICIES
        .iter()
        .filter_map(|name| catalog::by_name(name))
        .filter(|policy| policy.name != present.policy.name);
    let mut found = Vec::new();
    for policy in std::iter::once(present.policy.clone()).chain(others) {
        let known = own.of_job(job, present.now).filter(|_| policy == present.policy);
        let made = || present.forecast(&policy, FORECAST_LIMIT).of_job(job, present.now);
        found.extend(known.or_else(made).map(|forecast| PolicyForecast::new(&policy.name, forecast)));
    }
    found
}
