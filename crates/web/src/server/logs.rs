//! What the attempts of a job have printed.

use super::Shared;
use super::api::{self, Answer, Cluster, Problem, blocking};
use super::extract::{Path, Query};
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use giveway_core::JobId;
use giveway_engine::attempt_logs::{self, AttemptLog};
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes of a log in one answer.
const CHUNK_BYTES: u64 = 1 << 20;

/// The stored logs of a job. An unknown job is an error.
async fn find(shared: &Shared, id: u32) -> Answer<Vec<AttemptLog>> {
    let folder = shared.folder.clone().ok_or_else(Problem::not_live)?;
    let found = blocking(move || attempt_logs::find(&folder, JobId(id))).await?;
    let logs = found.map_err(|error| Problem::unavailable(&error))?;
    if logs.is_empty() {
        api::check_job(shared, id).await.map(drop)?;
    }
    Ok(logs)
}

/// `GET /api/v1/jobs/ID/logs`
pub(super) async fn list(State(shared): Cluster, Path(id): Path<u32>) -> Answer<Json<Value>> {
    let logs = find(&shared, id).await?;
    let row = |log: &AttemptLog| json!({ "attempt": log.name(), "node": log.node, "bytes": log.bytes(), "stored_bytes": log.stored_bytes() });
    Ok(Json(logs.iter().map(row).collect()))
}

/// Which part of a log.
#[derive(Deserialize)]
pub(super) struct Part {
    /// Offset of the first byte.
    from: Option<u64>,
    /// Only the last bytes.
    tail: Option<u64>,
}

/// `GET /api/v1/jobs/ID/logs/ATTEMPT`
pub(super) async fn read(
    State(shared): Cluster,
    Path((id, attempt)): Path<(u32, String)>,
    Query(part): Query<Part>,
) -> Answer<Response> {
    let attempt = attempt_logs::parse_attempt(JobId(id), &attempt)
        .ok_or_else(|| Problem::invalid("attempt: expected for example map-7.0 or reduce-0.1"))?;
    let log = find(&shared, id).await?.into_iter().find(|log| log.attempt == attempt);
    let log = log.ok_or_else(|| Problem::not_found("the attempt has printed nothing, or its log was removed"))?;
    let from = part.from.unwrap_or(0).max(part.tail.map_or(0, |bytes| log.tail_start(bytes)));
    let chunk = blocking(move || log.read(from, CHUNK_BYTES)).await?;
    let chunk = chunk.map_err(|error| Problem::unavailable(&error))?;
    let next = chunk.start.saturating_add(chunk.bytes.len() as u64);
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::HeaderName::from_static("giveway-log-start"), chunk.start.to_string()),
        (header::HeaderName::from_static("giveway-log-next"), next.to_string()),
    ];
    Ok((headers, chunk.bytes).into_response())
}
