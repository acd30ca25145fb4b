//! The API. [docs/api.md](../../../../docs/api.md) describes it.

use super::auth::Caller;
use super::extract::{Path, Query};
use super::{Shared, Source, usage};
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use giveway_analysis::explain::{self, Explanation, PolicyForecast};
use giveway_analysis::feed;
use giveway_analysis::forecast::Present;
use giveway_analysis::model::JobRow;
use giveway_core::policy::catalog;
use giveway_core::{JobId, Priority, Time};
use giveway_engine::client::{Client, ClientError};
use giveway_engine::wire::{JobStatus, NodeStatus, Rejection, RejectionCode};
use giveway_mapreduce::apps::automatic_split_bytes;
use giveway_mapreduce::job::Request;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Reasons that one request may ask for.
const REASONS_MAX: usize = 500;

/// Size of a submitted job, and time in which it has to arrive.
const BODY_BYTES_MAX: usize = 2 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// An error as JSON: `{"error": "..."}`.
#[derive(Debug)]
pub(super) struct Problem(StatusCode, String);

impl Problem {
    pub(super) fn unauthorized(text: &str) -> Problem {
        Problem(StatusCode::UNAUTHORIZED, text.into())
    }

    pub(super) fn forbidden(text: &str) -> Problem {
        Problem(StatusCode::FORBIDDEN, text.into())
    }

    pub(super) fn misdirected(text: &str) -> Problem {
        Problem(StatusCode::MISDIRECTED_REQUEST, text.into())
    }

    pub(super) fn busy() -> Problem {
        Problem(StatusCode::TOO_MANY_REQUESTS, "another comparison is running; try again when it has ended".into())
    }

    pub(super) fn conflict(text: &str) -> Problem {
        Problem(StatusCode::CONFLICT, text.into())
    }

    pub(super) fn not_found(text: &str) -> Problem {
        Problem(StatusCode::NOT_FOUND, text.into())
    }

    pub(super) fn unavailable(error: &std::io::Error) -> Problem {
        Problem(StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the cluster's directory: {error}"))
    }

    pub(super) fn interrupted() -> Problem {
        Problem(StatusCode::INTERNAL_SERVER_ERROR, "the request was interrupted; try again".into())
    }

    pub(super) fn invalid(text: impl Into<String>) -> Problem {
        Problem(StatusCode::BAD_REQUEST, text.into())
    }

    fn no_job(id: u32) -> Problem {
        Problem(StatusCode::NOT_FOUND, format!("job {id} does not exist"))
    }

    pub(super) fn not_ready() -> Problem {
        Problem(StatusCode::SERVICE_UNAVAILABLE, "the journal has not been read yet; try again".into())
    }

    pub(super) fn not_live() -> Problem {
        Problem(
            StatusCode::CONFLICT,
            "this is an event log: only a cluster that `giveway up` started can answer this".into(),
        )
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Problem {
        let status = match error {
            ClientError::Rejected(Rejection { code, .. }) => match code {
                RejectionCode::Invalid => StatusCode::BAD_REQUEST,
                RejectionCode::Forbidden => StatusCode::FORBIDDEN,
                RejectionCode::NotFound => StatusCode::NOT_FOUND,
                RejectionCode::Conflict => StatusCode::CONFLICT,
                RejectionCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            },
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem(status, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, [(header::CACHE_CONTROL, "no-store")], Json(json!({ "error": self.1 }))).into_response()
    }
}

pub(super) type Answer<T> = Result<T, Problem>;

/// What every handler gets.
pub(super) type Cluster = State<Arc<Shared>>;

/// Calls what blocks, in a thread for that.
pub(super) async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    tokio::task::spawn_blocking(call).await.map_err(|_| Problem::interrupted())
}

/// Which of two logs: 0 or 1.
#[derive(Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    log: usize,
}

fn source(shared: &Shared, which: usize) -> Answer<&Source> {
    shared.sources.get(which).ok_or_else(|| Problem::not_found("no such log"))
}

pub(super) async fn not_found() -> Problem {
    Problem::not_found("no such page; /api/v1/openapi.json lists the API")
}

/// `GET /healthz`
pub(super) async fn healthz(State(shared): Cluster) -> Response {
    let error = shared.feed_error.lock().ok().and_then(|error| error.clone());
    match error {
        None => (StatusCode::OK, "ok\n".to_owned()).into_response(),
        Some(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// `GET /api/v1/info`
pub(super) async fn info(State(shared): Cluster, Extension(caller): Extension<Caller>) -> Json<Value> {
    let logs: Vec<Value> = shared
        .sources
        .iter()
        .map(|source| {
            let policy = source.read(|model, _| model.scheduler().setup().policy.name.clone());
            json!({ "name": source.name, "policy": policy })
        })
        .collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "live": shared.is_live,
        "coordinator": shared.folder.is_some(),
        "logs": logs,
        "user": caller.user(),
        "policies": catalog::names(),
        "watchers": shared.watchers.load(Ordering::Relaxed),
        "uptime_s": shared.started.elapsed().as_secs(),
    }))
}

/// `GET /api/v1/timeline`
pub(super) async fn timeline(State(shared): Cluster, Query(which): Query<Which>) -> Answer<Response> {
    let bytes = source(&shared, which.log)?.read(|model, forecasts| model.snapshot(forecasts));
    Ok(octets(bytes.ok_or_else(Problem::not_ready)?))
}

pub(super) fn octets(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")], bytes).into_response()
}

#[derive(Deserialize)]
pub(super) struct Attempts {
    #[serde(default)]
    log: usize,
    attempts: String,
}

/// `GET /api/v1/reasons`
pub(super) async fn reasons(State(shared): Cluster, Query(query): Query<Attempts>) -> Answer<Json<Value>> {
    let rows: Result<Vec<u32>, _> = query.attempts.split(',').filter(|row| !row.is_empty()).map(str::parse).collect();
    let rows = rows.map_err(|_| Problem::invalid("attempts: expected row numbers, separated by commas"))?;
    if rows.len() > REASONS_MAX {
        return Err(Problem::invalid(format!("attempts: at most {REASONS_MAX} at once")));
    }
    let found = source(&shared, query.log)?.read(|model, _| {
        let reason = |row: u32| {
            json!({
                "attempt": row,
                "launched": model.attempts.launch_reason(row).map(|reason| model.reason_text(reason)),
                "stopped": model.attempts.stop_reason(row).map(|(_, reason)| model.reason_text(reason)),
                "kept": model.attempts.kept_ppm(row).map(|ppm| f64::from(ppm) / 1e6),
            })
        };
        rows.iter().map(|&row| reason(row)).collect::<Vec<_>>()
    });
    Ok(Json(Value::Array(found.ok_or_else(Problem::not_ready)?)))
}

/// Asks the coordinator.
pub(super) async fn ask<T: Send + 'static>(
    shared: &Shared,
    ask: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
) -> Answer<T> {
    let folder = shared.folder.clone().ok_or_else(Problem::not_live)?;
    Ok(blocking(move || Client::connect(&folder).and_then(|mut client| ask(&mut client))).await??)
}

/// Fails unless there is such a job.
pub(super) async fn check_job(shared: &Shared, id: u32) -> Answer<JobStatus> {
    ask(shared, move |client| client.job(JobId(id))).await
}

/// Fails unless there is such a job and this caller may change it.
async fn check_change(shared: &Shared, id: u32, caller: &Caller) -> Answer<()> {
    let user = check_job(shared, id).await?.user;
    match caller.limited_to() {
        Some(own) if own != user => {
            Err(Problem::forbidden(&format!("job {id} belongs to {user}; this token may change jobs of {own} only")))
        }
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobFilter {
    user: Option<String>,
    pool: Option<String>,
    state: Option<String>,
}

/// A job as the API shows it.
#[derive(Serialize)]
pub(super) struct JobJson {
    #[serde(flatten)]
    status: JobStatus,
    state: &'static str,
    /// Expected end: 5th, 50th and 95th percentile, milliseconds of the Unix epoch.
    expected_end_ms: Option<[Option<f64>; 3]>,
}

fn job_json(shared: &Shared, status: JobStatus) -> JobJson {
    let expected_end_ms = shared.sources.first().and_then(|source| {
        source.read(|model, forecasts| {
            let (wall_ms, forecast) = (model.wall_ms()?, forecasts.of_job(status.job, model.present())?);
            Some(forecast.end.filter(|_| status.outcome.is_none())?.seconds().map(|at| Some(wall_ms + at? * 1e3)))
        })
    });
    JobJson { expected_end_ms: expected_end_ms.flatten(), ..job_json_of(status) }
}

/// A job without a forecast.
pub(super) fn job_json_of(status: JobStatus) -> JobJson {
    JobJson { state: status.state(), status, expected_end_ms: None }
}

/// `GET /api/v1/jobs`
pub(super) async fn jobs(State(shared): Cluster, Query(filter): Query<JobFilter>) -> Answer<Json<Vec<JobJson>>> {
    if let Some(state) = filter.state.as_ref().filter(|state| !JobStatus::STATES.contains(&state.as_str())) {
        let states = JobStatus::STATES.join(", ");
        return Err(Problem::invalid(format!("`{state}` is not a state of a job; use one of {states}")));
    }
    let jobs = ask(&shared, Client::jobs).await?.into_iter().map(|status| job_json(&shared, status));
    let wanted = |job: &JobJson| {
        filter.user.as_ref().is_none_or(|user| *user == job.status.user)
            && filter.pool.as_ref().is_none_or(|pool| *pool == job.status.pool)
            && filter.state.as_ref().is_none_or(|state| state == job.state)
    };
    Ok(Json(jobs.filter(wanted).collect()))
}

/// `GET /api/v1/jobs/ID`
pub(super) async fn job(State(shared): Cluster, Path(id): Path<u32>) -> Answer<Json<JobJson>> {
    let status = ask(&shared, move |client| client.job(JobId(id))).await?;
    Ok(Json(job_json(&shared, status)))
}

/// A node as the API shows it.
#[derive(Serialize)]
pub(super) struct NodeJson {
    #[serde(flatten)]
    status: NodeStatus,
    /// Processor time of its processes so far.
    cpu_s: Option<f64>,
    memory_bytes: Option<u64>,
}

impl From<NodeStatus> for NodeJson {
    fn from(status: NodeStatus) -> NodeJson {
        let used = status.pid.and_then(usage::of_process);
        NodeJson { status, cpu_s: used.map(|used| used.cpu_s), memory_bytes: used.map(|used| used.memory_bytes) }
    }
}

/// `GET /api/v1/nodes`
pub(super) async fn nodes(State(shared): Cluster) -> Answer<Json<Vec<NodeJson>>> {
    let nodes = ask(&shared, |client| Ok(client.nodes()?.into_iter().map(NodeJson::from).collect())).await?;
    Ok(Json(nodes))
}

/// Which log, and an instant of it in seconds; its end without one.
#[derive(Deserialize)]
pub(super) struct Instant {
    #[serde(default)]
    log: usize,
    at: Option<f64>,
}

/// Waits until what the coordinator knows of a job, that it exists and that it has ended, has been read from the journal, which is read now and then only.
async fn wait_until_read(shared: &Shared, id: u32) {
    let mut changes = shared.changes.subscribe();
    let job = |is: fn(&JobRow) -> bool| {
        let source = shared.sources.first();
        source.and_then(|source| source.read(|model, _| model.job(JobId(id)).is_some_and(is))) == Some(true)
    };
    let has_ended = |row: &JobRow| row.outcome.is_some();
    if shared.folder.is_none() || job(has_ended) {
        return;
    }
    let Ok(status) = ask(shared, move |client| client.job(JobId(id))).await else { return };
    let is_read = || if status.outcome.is_some() { job(has_ended) } else { job(|_| true) };
    let read = async { while !is_read() && changes.changed().await.is_ok() {} };
    let _ = tokio::time::timeout(2 * super::POLL_IDLE, read).await;
}

/// `GET /api/v1/jobs/ID/explain`
pub(super) async fn explain(
    State(shared): Cluster,
    Path(id): Path<u32>,
    Query(when): Query<Instant>,
) -> Answer<Json<Explanation>> {
    let source = source(&shared, when.log)?;
    if let Some(at) = when.at {
        return explain_at(source.path.clone(), id, at).await;
    }
    wait_until_read(&shared, id).await;
    let explained = source.read(|model, forecasts| {
        let now = if shared.folder.is_some() { model.present() } else { model.now };
        let mut explanation = explain::explain(model, JobId(id), now)?;
        let is_ahead = shared.is_live && model.job(JobId(id)).is_some_and(|job| job.outcome.is_none());
        let own = forecasts.of_job(JobId(id), now).filter(|_| is_ahead);
        explanation.forecasts.extend(own.map(|forecast| PolicyForecast::new(&explanation.policy, forecast)));
        Some(explanation)
    });
    match (explained.ok_or_else(Problem::not_ready)?, shared.folder.clone()) {
        (Some(explanation), _) => Ok(Json(explanation)),
        (None, None) => Err(Problem::no_job(id)),
        // It may have ended before the journal began.
        (None, Some(folder)) => {
            check_job(&shared, id).await?;
            let explained = blocking(move || {
                let model = feed::archived(&folder, JobId(id))?;
                explain::explain(&model, JobId(id), model.now)
            });
            explained.await?.map(Json).ok_or_else(|| Problem::no_job(id))
        }
    }
}

/// Explains a job at a past instant. The log is read again up to there: nothing is told that was not known then.
async fn explain_at(path: PathBuf, id: u32, at: f64) -> Answer<Json<Explanation>> {
    if !(at.is_finite() && at >= 0.0) {
        return Err(Problem::invalid("at: expected seconds since the start of the log"));
    }
    let read = move || {
        feed::read_until(&path, Time::from_secs_f64(at)).map(|model| explain::explain(&model, JobId(id), model.now))
    };
    match blocking(read).await? {
        Ok(Some(explanation)) => Ok(Json(explanation)),
        Ok(None) => Err(Problem::not_found("the job had not been submitted then")),
        Err(error) => Err(Problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// `GET /api/v1/jobs/ID/forecast`
pub(super) async fn forecast(State(shared): Cluster, Path(id): Path<u32>) -> Answer<Json<Vec<PolicyForecast>>> {
    if !shared.is_live {
        return Err(Problem::not_live());
    }
    wait_until_read(&shared, id).await;
    let present = source(&shared, 0)?.read(|model, forecasts| {
        model.job(JobId(id)).map(|_| Present::of(model).map(|present| (present, forecasts.clone())))
    });
    let Some(present) = present.ok_or_else(Problem::not_ready)? else {
        // A job that ended before the journal began has no forecast either.
        return check_job(&shared, id).await.map(|_| Json(Vec::new()));
    };
    let Some((present, own)) = present else { return Ok(Json(Vec::new())) };
    Ok(Json(blocking(move || explain::forecasts(&present, &own, JobId(id))).await?))
}

/// `POST /api/v1/jobs/ID/kill`
pub(super) async fn kill(
    State(shared): Cluster,
    caller: Extension<Caller>,
    Path(id): Path<u32>,
) -> Answer<Json<Value>> {
    check_change(&shared, id, &caller).await?;
    ask(&shared, move |client| client.kill(JobId(id))).await?;
    Ok(Json(json!({ "job": id, "killed": true })))
}

/// `POST /api/v1/jobs/ID/yield`
pub(super) async fn yield_job(
    State(shared): Cluster,
    caller: Extension<Caller>,
    Path(id): Path<u32>,
) -> Answer<Json<Value>> {
    check_change(&shared, id, &caller).await?;
    ask(&shared, move |client| client.yield_job(JobId(id))).await?;
    Ok(Json(json!({ "job": id, "yielded": true })))
}

fn check_administers(caller: &Caller) -> Answer<()> {
    if caller.limited_to().is_some() {
        return Err(Problem::forbidden("this needs a token that may administer"));
    }
    Ok(())
}

/// `POST /api/v1/reload`
pub(super) async fn reload(State(shared): Cluster, caller: Extension<Caller>) -> Answer<Json<Value>> {
    check_administers(&caller)?;
    let reload = ask(&shared, Client::reload).await?;
    Ok(Json(json!({ "policy": reload.policy, "changed": reload.changed, "changes": reload.changes })))
}

/// `POST /api/v1/nodes/NAME/drain` and `POST /api/v1/nodes/NAME/include`
pub(super) async fn set_drained(
    State(shared): Cluster,
    caller: Extension<Caller>,
    Path(name): Path<String>,
    drained: bool,
) -> Answer<Json<Value>> {
    check_administers(&caller)?;
    let node = name.clone();
    if !ask(&shared, Client::nodes).await?.iter().any(|known| known.name == name) {
        return Err(Problem::not_found("no node has this name; /api/v1/nodes lists them"));
    }
    ask(&shared, move |client| client.set_drained(node, drained)).await?;
    Ok(Json(json!({ "node": name, "drained": drained })))
}

/// A job to submit. Only the application, the input and the output are required.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Submission {
    app: String,
    input: Vec<String>,
    output: PathBuf,
    #[serde(default)]
    options: BTreeMap<String, String>,
    reduces: Option<u32>,
    split_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    name: Option<String>,
    user: Option<String>,
    pool: Option<String>,
    #[serde(default)]
    priority: Priority,
}

/// `POST /api/v1/jobs`
pub(super) async fn submit(
    State(shared): Cluster,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Answer<(StatusCode, Json<Value>)> {
    let body = match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            return Err(Problem::invalid(format!("cannot read the job: {error}; send at most {BODY_BYTES_MAX} bytes")));
        }
        Err(_) => {
            let text = format!("the job did not arrive within {} s; try again", BODY_TIMEOUT.as_secs());
            return Err(Problem(StatusCode::REQUEST_TIMEOUT, text));
        }
    };
    let job: Submission =
        serde_json::from_slice(&body).map_err(|error| Problem::invalid(format!("invalid job: {error}")))?;
    let is_path = |path: &String| path.starts_with('/') || path.contains(':');
    if !job.output.is_absolute() || !job.input.iter().all(is_path) || job.input.is_empty() {
        return Err(Problem::invalid("input and output: expected absolute paths"));
    }
    let apps = shared.apps.clone();
    let split_bytes = job.split_bytes;
    let request = Request {
        name: job.name.unwrap_or_else(|| job.app.clone()),
        app: job.app,
        options: job.options,
        input: job.input.into_iter().map(OsString::from).collect(),
        output: job.output,
        reduces: job.reduces,
        // Chosen below, as the command line does.
        split_bytes: 1,
        memory_bytes: job.memory_bytes.unwrap_or(256 << 20),
        user: caller.limited_to().map(str::to_owned).or(job.user).unwrap_or_else(|| caller.user()),
        pool: job.pool.unwrap_or_default(),
        priority: job.priority,
        task_timeout_ms: 600_000,
        records_per_s: None,
        compress: false,
        sync_output: true,
    };
    let submit = move |client: &mut Client| {
        let map_slots = client.nodes()?.iter().filter(|node| node.up).map(|node| u32::from(node.map_slots.0)).sum();
        let automatic = || automatic_split_bytes(&apps, &request.app, &request.input, map_slots);
        let split_bytes = split_bytes.unwrap_or_else(automatic);
        client.submit(Request { split_bytes, ..request })
    };
    let id = ask(&shared, submit).await?;
    Ok((StatusCode::CREATED, Json(json!({ "job": id }))))
}
