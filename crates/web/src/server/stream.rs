//! Server-sent events: what is new in the tables, a few times a second at most.
//!
//! Each message has a cursor as its id. A browser that lost the connection sends the last id it received and continues from there, also after a restart of
//! the coordinator: the tables are made from the same journal. If the journal is another one, the message `reset` tells it to load everything again.

use super::Shared;
use super::extract::Query;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use giveway_analysis::model::Cursor;
use serde::Deserialize;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// The least time between two messages to a browser.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(250);

/// Ranks, shares and forecasts change without a new record, so a message is sent at least this often.
const MESSAGE_INTERVAL_MAX: Duration = Duration::from_secs(2);

const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The last updates, by cursor: most browsers ask for the same one.
#[derive(Default)]
pub(crate) struct UpdateCache {
    to: Cursor,
    by_cursor: HashMap<Cursor, (Cursor, Arc<str>)>,
}

#[derive(Deserialize)]
pub(super) struct After {
    after: Option<String>,
}

/// Counts the open streams.
struct Watcher(Arc<Shared>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

struct State_ {
    watcher: Watcher,
    changes: watch::Receiver<u64>,
    cursor: Option<Cursor>,
    is_first: bool,
}

/// `GET /api/v1/updates`
pub(super) async fn updates(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let cursor = last.or(query.after.as_deref()).and_then(|text| text.parse().ok());
    shared.watchers.fetch_add(1, Ordering::Relaxed);
    let changes = shared.changes.subscribe();
    let state = State_ { watcher: Watcher(shared), changes, cursor, is_first: true };
    let stream = futures::stream::unfold(state, |mut state| async move {
        loop {
            if !std::mem::take(&mut state.is_first) {
                tokio::time::sleep(MESSAGE_INTERVAL).await;
                // An error means that the sender is gone, which happens only at the end of the process.
                let _ = tokio::time::timeout(MESSAGE_INTERVAL_MAX, state.changes.changed()).await;
            }
            let Some((cursor, event)) = next(&state.watcher.0, state.cursor) else { continue };
            state.cursor = Some(cursor);
            return Some((Ok(event), state));
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// The message for a browser that has read up to a cursor; none if there is no log yet.
fn next(shared: &Shared, after: Option<Cursor>) -> Option<(Cursor, Event)> {
    let source = shared.sources.first()?;
    let (to, update) = source.read(|model, forecasts| {
        let to = model.cursor();
        let Some(after) = after.filter(|&after| model.continues(after)) else { return (to, None) };
        let mut cache = shared.updates.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if cache.to != to {
            *cache = UpdateCache { to, by_cursor: HashMap::new() };
        }
        let (_, update) = cache.by_cursor.entry(after).or_insert_with(|| (to, model.update(after, forecasts).into()));
        (to, Some(Arc::clone(update)))
    })?;
    let event = match update {
        Some(update) => Event::default().event("update").id(to.to_string()).data(&*update),
        None => Event::default().event("reset").data("{}"),
    };
    Some((to, event))
}
