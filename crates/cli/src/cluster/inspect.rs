//! `giveway jobs`, `job`, `nodes`, `yield` and `kill`: inspect a running cluster and control its jobs.

use super::args::{JobSelector, Jobs, Kill, NodeNames, Nodes, NodesCommand, WatchJob, json, now_ms};
use crate::terminal::{printable, watch};
use crate::text_table::TextTable;
use anyhow::{Context, Result, anyhow};
use giveway_analysis::explain::duration;
use giveway_analysis::feed::{Feed, JournalFeed};
use giveway_analysis::forecast::{Forecasts, Present};
use giveway_analysis::model::{AttemptRow, Model};
use giveway_core::{JobId, Kind, Outcome, Priority, Span, plural};
use giveway_engine::client::{Client, ClientError};
use giveway_engine::coordinator::journal_path;
use giveway_engine::wire::{JobStatus, NodeExclusion, NodeStatus, TaskCounts};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// How long the forecasts of a list may take.
const FORECAST_LIMIT: Duration = Duration::from_millis(500);

/// `giveway jobs`
pub fn jobs(args: &Jobs) -> Result<()> {
    watch(args.watch.watch, || render_jobs(args))
}

fn render_jobs(args: &Jobs) -> Result<String> {
    let (mut rows, _) = rows(&args.cluster.dir)?;
    rows.retain(|row| args.filter.wants(&row.user, &row.pool, row.state, row.submitted_ms));
    args.format.list(&rows, args.watch.watch.is_some(), |row| row.job.to_string(), || jobs_table(&rows))
}

pub(super) fn jobs_table(rows: &[Row]) -> TextTable {
    let header = "job|name|application|user|pool|priority|state|submitted (UTC)|wait|elapsed|maps|reduces|paused|expected end (UTC)|90 % interval";
    let mut table = TextTable::new(header.split('|')).states("state").leave_out(
        "application|priority|90 % interval|submitted (UTC)|paused|pool|name…|wait|user|reduces|expected end (UTC)",
    );
    for row in rows {
        let [end, interval] = row.expected_end_ms.map(expected_end).unwrap_or_default();
        let seconds = |s: f64| duration(Span::from_secs_f64(s));
        table.add_row([
            row.job.to_string(),
            printable(&row.name),
            row.app.clone(),
            row.user.clone(),
            row.pool.clone(),
            row.priority.to_string(),
            row.state.into(),
            row.submitted_ms.map_or_else(String::new, utc),
            seconds(row.wait_s),
            seconds(row.elapsed_s),
            format!("{}/{}", row.maps_done, row.maps),
            format!("{}/{}", row.reduces_done, row.reduces),
            if row.paused > 0 { row.paused.to_string() } else { String::new() },
            end,
            interval,
        ]);
    }
    table
}

/// The jobs of a cluster, and the name of its policy if that can be read.
pub fn rows(folder: &Path) -> Result<(Vec<Row>, Option<String>)> {
    let statuses = connect_or_history(folder)?.jobs()?;
    Ok(with_forecast(folder, &statuses))
}

/// Jobs with what the journal adds, the expected end, and the name of the policy; without, if it cannot be read.
fn with_forecast(folder: &Path, statuses: &[JobStatus]) -> (Vec<Row>, Option<String>) {
    let model = read_journal(folder);
    let forecasts = model.as_ref().and_then(Present::of).map(|now| now.forecast(&now.policy, FORECAST_LIMIT));
    let rows = statuses.iter().map(|status| Row::new(status, model.as_ref(), forecasts.as_ref())).collect();
    (rows, model.map(|model| model.scheduler().setup().policy.name.clone()))
}

/// A connection. What is known of the jobs of a cluster that is down is in its journals.
fn connect_or_history(folder: &Path) -> Result<Client> {
    Client::connect(folder).map_err(|error| match error {
        ClientError::NoCluster { .. } if journal_path(folder).exists() => {
            anyhow!("{error}. While it is down, `giveway history`, `explain` and `logs` show its jobs")
        }
        error => error.into(),
    })
}

/// A job in the list. The names are part of the JSON output, which scripts read.
#[derive(Debug, Serialize)]
pub struct Row {
    pub job: u32,
    pub name: String,
    pub app: String,
    pub user: String,
    pub pool: String,
    pub priority: Priority,
    pub state: &'static str,
    /// Milliseconds of the Unix epoch.
    pub submitted_ms: Option<f64>,
    /// Seconds until the first task started; so far, if none has.
    pub wait_s: f64,
    /// Seconds from the submission to the end, or until now.
    pub elapsed_s: f64,
    pub maps: u32,
    pub maps_done: u32,
    pub reduces: u32,
    pub reduces_done: u32,
    pub running: u32,
    pub paused: u32,
    pub pauses: u32,
    pub early_ends: u32,
    pub kills: u32,
    /// 5th, 50th and 95th percentile, milliseconds of the Unix epoch; no middle one if it has passed.
    pub expected_end_ms: Option<[Option<f64>; 3]>,
}

impl Row {
    fn new(status: &JobStatus, model: Option<&Model>, forecasts: Option<&Forecasts>) -> Row {
        let wall_ms = model.and_then(Model::wall_ms);
        let until_now_s = || status.submitted_ms.map_or(0.0, |submitted_ms| (now_ms() - submitted_ms).max(0.0) / 1e3);
        let elapsed_s = status.total_s().unwrap_or_else(until_now_s);
        let forecast =
            forecasts.zip(model).and_then(|(forecasts, model)| forecasts.of_job(status.job, model.present()));
        let end = forecast.and_then(|forecast| forecast.end).filter(|_| status.outcome.is_none());
        Row {
            job: status.job.0,
            name: status.name.clone(),
            app: status.app.clone(),
            user: status.user.clone(),
            pool: status.pool.clone(),
            priority: status.priority,
            state: status.state(),
            submitted_ms: status.submitted_ms,
            wait_s: status.wait_s().unwrap_or(elapsed_s),
            elapsed_s,
            maps: status.maps.total,
            maps_done: status.maps.done,
            reduces: status.reduces.total,
            reduces_done: status.reduces.done,
            running: status.maps.running + status.reduces.running,
            paused: status.reduces.paused,
            pauses: status.pauses,
            early_ends: status.early_ends,
            kills: status.kills,
            expected_end_ms: wall_ms
                .zip(end)
                .map(|(wall_ms, end)| end.seconds().map(|at| at.map(|at_s| wall_ms + at_s * 1e3))),
        }
    }
}

/// The median of an interval, or its latest time if that has passed, and the interval, as times of day.
fn expected_end([low, middle, high]: [Option<f64>; 3]) -> [String; 2] {
    let (Some(low), Some(high)) = (low.map(utc_time), high.map(utc_time)) else { return Default::default() };
    [middle.map_or_else(|| format!("by {high}"), utc_time), format!("{low} to {high}")]
}

/// An interval as text: the median, if it has not passed, and from when to when.
pub fn expected([low, middle, high]: [Option<f64>; 3], at: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = (at(low?), at(high?));
    Some(match middle {
        Some(middle) => format!("{} ({low} to {high})", at(middle)),
        None => format!("between {low} and {high}"),
    })
}

/// What the journal of a cluster says, as far as it can be read.
pub fn read_journal(folder: &Path) -> Option<Model> {
    let mut model = None;
    JournalFeed::new(&journal_path(folder)).poll(&mut model).ok()?;
    model
}

/// Date and time in UTC, to the second.
pub fn utc(unix_ms: f64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(unix_ms.max(0.0) as u64);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace('T', " ").trim_end_matches('Z').to_owned()
}

/// The time of day in UTC.
pub fn utc_time(unix_ms: f64) -> String {
    utc(unix_ms).split_off(11)
}

/// `giveway job`
pub fn job(args: &WatchJob) -> Result<()> {
    watch(args.watch.watch, || render_job(args))
}

fn render_job(WatchJob { show, tasks: with_tasks, watch }: &WatchJob) -> Result<String> {
    let folder = &show.job.cluster.dir;
    let job = connect_or_history(folder)?.job(JobId(show.job.id))?;
    let attempts = if *with_tasks { Some(attempts(folder, &job)?) } else { None };
    if show.json {
        return json(&JobAndAttempts { job: &job, attempts }, watch.watch.is_some());
    }
    let mut out = String::new();
    writeln!(out, "{} {} ({}) of user {}: {}", job.job, job.name, job.app, job.user, job.state())?;
    let failures = job.distinct_failures();
    if let Some(&(times, failure)) = failures.first().filter(|_| job.outcome == Some(Outcome::Failed)) {
        writeln!(out, "\n{}{}\n", printable(failure), repeated(times))?;
    }
    writeln!(out, "pool        {}, priority {}", job.pool, job.priority)?;
    writeln!(out, "output      {}", printable(&job.output).replace('\n', "\\n"))?;
    if let Some(submitted_ms) = job.submitted_ms {
        writeln!(out, "submitted   {} UTC", utc(submitted_ms))?;
    }
    match (job.wait_s(), job.total_s()) {
        (Some(wait_s), Some(total_s)) => {
            writeln!(out, "elapsed     {total_s:.2} s, including {wait_s:.2} s until the first task started")?;
        }
        (_, None) => {
            let (rows, _) = with_forecast(folder, std::slice::from_ref(&job));
            write_life(&rows[0], job.wait_s().is_some(), &mut out)?;
        }
        (None, Some(_)) => {}
    }
    writeln!(out, "maps        {} finished, {} running", tasks(job.maps), job.maps.running)?;
    let reduces = job.reduces;
    writeln!(out, "reduces     {} finished, {} running, {} paused", tasks(reduces), reduces.running, reduces.paused)?;
    let preemptions =
        [plural(job.pauses, "pause"), plural(job.early_ends, "early end"), plural(job.kills, "kill")].join(", ");
    writeln!(out, "preemptions {preemptions}")?;
    writeln!(out, "re-executed {} after lost nodes or map outputs", plural(job.recovered, "task"))?;
    if let Some(next) = job.next_round {
        writeln!(out, "next round  {next}")?;
    }
    for (name, value) in &job.counters {
        writeln!(out, "{name:<30} {value:>14}")?;
    }
    // The first one of a failed job is printed above.
    for &(times, failure) in failures.iter().skip(usize::from(job.outcome == Some(Outcome::Failed))) {
        writeln!(out, "failure: {}{}", printable(failure), repeated(times))?;
    }
    if let Some(attempts) = attempts {
        let header = ["task", "attempt", "node", "started", "time", "began", "ended"];
        let mut table = TextTable::new(header);
        for attempt in attempts {
            table.add_row([
                format!("{} {}", attempt.kind, attempt.task),
                attempt.attempt.to_string(),
                attempt.node,
                format!("{:.2} s", attempt.started_after_s),
                attempt.time_s.map_or_else(String::new, |time_s| format!("{time_s:.2} s")),
                attempt.began.into(),
                attempt.ended.into(),
            ]);
        }
        writeln!(out, "{table}\nStarted: after the job was submitted.")?;
    }
    Ok(out)
}

/// How long a job has taken so far, and when it is expected to end.
fn write_life(row: &Row, has_started: bool, out: &mut String) -> std::fmt::Result {
    let [elapsed, wait] = [row.elapsed_s, row.wait_s].map(|s| duration(Span::from_secs_f64(s)));
    match has_started {
        true => writeln!(out, "elapsed     {elapsed}, including {wait} until the first task started")?,
        false => writeln!(out, "elapsed     {elapsed}; no task has started")?,
    }
    match row.expected_end_ms.and_then(|interval| expected(interval, utc_time)) {
        Some(end) => writeln!(out, "expected    to end at {end} UTC"),
        None => Ok(()),
    }
}

#[derive(Serialize)]
struct JobAndAttempts<'a> {
    #[serde(flatten)]
    job: &'a JobStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<Attempt>>,
}

/// An attempt of a task. The names are part of the JSON output, which scripts read.
#[derive(Serialize)]
struct Attempt {
    kind: &'static str,
    task: u32,
    attempt: u16,
    node: String,
    /// After the job was submitted.
    started_after_s: f64,
    time_s: Option<f64>,
    began: &'static str,
    ended: &'static str,
}

/// The attempts of a job, from the journal.
fn attempts(folder: &Path, job: &JobStatus) -> Result<Vec<Attempt>> {
    let mut model = None;
    let path = journal_path(folder);
    let read = JournalFeed::new(&path).poll(&mut model);
    read.context("the attempts of tasks are in the journal, which only the owner of the cluster can read")?;
    let model = model.context("the journal is empty")?;
    let row = model
        .job_row(job.job)
        .with_context(|| format!("{} is not in the present journal; `giveway view` shows earlier ones", job.job))?;
    let attempt = |attempt: AttemptRow| Attempt {
        kind: if attempt.kind == Kind::Map { "map" } else { "reduce" },
        task: attempt.task,
        attempt: attempt.number,
        node: model.node_name(attempt.node),
        started_after_s: attempt.start_s - job.submitted_us as f64 / 1e6,
        time_s: attempt.end_s.map(|end_s| end_s - attempt.start_s),
        began: attempt.began.into(),
        ended: attempt.ended.into(),
    };
    Ok(model.attempts.of_job(row).map(attempt).collect())
}

fn repeated(times: usize) -> String {
    if times > 1 {
        format!("\n(and {} like this one)", plural(times as u64 - 1, "more failure"))
    } else {
        String::new()
    }
}

/// `giveway nodes`
pub fn nodes(args: &Nodes) -> Result<()> {
    match &args.command {
        Some(NodesCommand::Drain(names)) => return set_drained(names, true),
        Some(NodesCommand::Include(names)) => return set_drained(names, false),
        None => {}
    }
    watch(args.watch.watch, || render_nodes(args))
}

fn set_drained(names: &NodeNames, drained: bool) -> Result<()> {
    let mut client = Client::connect(&names.cluster.dir)?;
    for name in &names.nodes {
        client.set_drained(name.clone(), drained)?;
        let node = client.nodes()?.into_iter().find(|node| node.name == *name);
        let busy = node.map_or(0, |node| node.map_slots.1 + node.reduce_slots.1);
        if !drained {
            eprintln!("{name} is used again");
        } else if busy > 0 {
            eprintln!("{name} is draining: it gets no new tasks; {} there", are_running(busy));
        } else {
            eprintln!("{name} is drained: it gets no new tasks, and nothing runs there");
        }
    }
    Ok(())
}

fn are_running(attempts: u16) -> String {
    if attempts == 1 { "1 task is still running".into() } else { format!("{attempts} tasks are still running") }
}

/// A node as JSON.
#[derive(Serialize)]
struct NodeRow<'a> {
    #[serde(flatten)]
    node: &'a NodeStatus,
    state: &'static str,
}

/// The state of a node in a word.
fn state_word(node: &NodeStatus) -> &'static str {
    let is_busy = node.map_slots.1 + node.reduce_slots.1 > 0;
    match (node.up, node.pid) {
        (false, _) => "lost",
        (true, _) if node.drained && is_busy => "draining",
        (true, _) if node.drained => "drained",
        (true, None) => "disconnected",
        (true, Some(_)) if node.excluded.is_some() => "excluded",
        (true, Some(_)) => "up",
    }
}

/// The state of a node, and why it gets no tasks.
fn node_state(node: &NodeStatus) -> String {
    match (state_word(node), &node.excluded) {
        ("lost", _) if node.drained => "lost, drained".into(),
        ("excluded", Some(exclusion)) => excluded(exclusion),
        (word, _) => word.into(),
    }
}

fn render_nodes(args: &Nodes) -> Result<String> {
    let nodes = nodes_by_name(&args.cluster.dir)?;
    let rows: Vec<NodeRow> = nodes.iter().map(|node| NodeRow { node, state: state_word(node) }).collect();
    args.format.list(&rows, args.watch.watch.is_some(), |row| row.node.name.clone(), || nodes_table(&nodes))
}

/// The nodes of a cluster by name, numbers in their order.
pub(super) fn nodes_by_name(folder: &Path) -> Result<Vec<NodeStatus>> {
    let mut nodes = Client::connect(folder)?.nodes()?;
    nodes.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    Ok(nodes)
}

pub(super) fn nodes_table(nodes: &[NodeStatus]) -> TextTable {
    let header = ["node", "state", "pid", "map slots", "reduce slots", "paused"];
    let mut table = TextTable::new(header).states("state").leave_out("pid|paused");
    for node in nodes {
        let slots = |(all, used): (u16, u16)| format!("{used} of {all} used");
        table.add_row([
            node.name.clone(),
            node_state(node),
            node.pid.map_or_else(String::new, |pid| pid.to_string()),
            slots(node.map_slots),
            slots(node.reduce_slots),
            node.paused.to_string(),
        ]);
    }
    table
}

fn excluded(exclusion: &NodeExclusion) -> String {
    let NodeExclusion { failures, jobs, failed_probes, probing, probe_in_s } = exclusion;
    let probes =
        if *failed_probes > 0 { format!(", {}", plural(*failed_probes, "failed probe")) } else { String::new() };
    let (failures, jobs) = (plural(*failures, "failure"), plural(*jobs, "job"));
    let next = if *probing { "a probe runs".into() } else { format!("next probe in {probe_in_s:.0} s") };
    format!("excluded: {failures} of {jobs}{probes}; {next}")
}

/// `giveway yield`
pub fn yield_job(args: &JobSelector) -> Result<()> {
    let (mut client, job) = (Client::connect(&args.cluster.dir)?, JobId(args.id));
    client.yield_job(job)?;
    eprintln!("{job} yields: its running maps end early, its running reduces pause");
    Ok(())
}

/// `giveway kill`: all jobs that can be killed. Fails with the first reason why one cannot.
pub fn kill(args: &Kill) -> Result<()> {
    let mut client = Client::connect(&args.cluster.dir)?;
    let mut rejected = None;
    for job in args.ids.iter().copied().map(JobId) {
        match client.kill(job) {
            Ok(()) => eprintln!("{job} killed; its output is removed"),
            Err(error @ ClientError::Rejected(_)) if rejected.is_none() => rejected = Some(error),
            Err(ClientError::Rejected(rejection)) => eprintln!("giveway: {}", rejection.reason),
            Err(error) => return Err(error.into()),
        }
    }
    rejected.map_or(Ok(()), |error| Err(error.into()))
}

/// Finished and total tasks of one kind, as `3/8`.
fn tasks(counts: TaskCounts) -> String {
    format!("{}/{}", counts.done, counts.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_end_that_may_have_passed_is_told_by_its_latest_time() {
        let at = |second: u32| Some(f64::from(second) * 1e3);
        assert_eq!(expected_end([at(1), at(2), at(4)]), ["00:00:02", "00:00:01 to 00:00:04"]);
        assert_eq!(expected_end([at(1), None, at(4)]), ["by 00:00:04", "00:00:01 to 00:00:04"]);
    }
}
