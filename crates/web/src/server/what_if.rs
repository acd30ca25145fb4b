//! The recorded jobs simulated under another policy, for the view Compare.

use super::api::{Answer, Cluster, Problem, blocking, octets};
use super::extract::Query;
use axum::extract::State;
use axum::response::Response;
use giveway_analysis::forecast::Forecasts;
use giveway_analysis::what_if::{RerunError, rerun};
use giveway_core::policy::catalog;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// How long the simulations of one request may take.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
pub(super) struct Other {
    policy: String,
}

/// `GET /api/v1/what-if`: the timelines of two simulated runs, each at a multiple of 8 bytes after its length. One at a time, in a thread of low priority.
pub(super) async fn what_if(State(shared): Cluster, Query(other): Query<Other>) -> Answer<Response> {
    let policy = catalog::by_name(&other.policy).ok_or_else(|| {
        Problem::invalid(format!("no policy is called `{}`; use one of {}", other.policy, catalog::names().join(", ")))
    })?;
    let source = shared.sources.first().ok_or_else(Problem::not_ready)?;
    let clock = source.read(|model, _| model.clock.clone()).ok_or_else(Problem::not_ready)?;
    let path = source.path.clone();
    let permit = Arc::clone(&shared.what_if).try_acquire_owned().map_err(|_| Problem::busy())?;
    let simulated = blocking(move || {
        // Held until the simulations end, also if the browser has gone.
        let _permit = permit;
        let mut answer = Vec::new();
        for mut model in rerun(&path, policy, LIMIT)? {
            model.clock = clock.clone();
            let timeline = model.snapshot(&Forecasts::default());
            answer.extend_from_slice(&(timeline.len() as u64).to_le_bytes());
            answer.extend_from_slice(&timeline);
            answer.resize(answer.len().next_multiple_of(8), 0);
        }
        Ok::<_, RerunError>(answer)
    });
    Ok(octets(simulated.await?.map_err(|error| Problem::conflict(&error.to_string()))?))
}
