//! The files of the dashboard, inside the program.

use super::Shared;
use super::api::Problem;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and content. The scripts are modules that import each other by these names; one of them, `codes.js`, is generated.
const ASSETS: [(&str, &str, &str); 16] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../../assets/style.css")),
    ("main.js", SCRIPT, include_str!("../../assets/main.js")),
    ("store.js", SCRIPT, include_str!("../../assets/store.js")),
    ("dom.js", SCRIPT, include_str!("../../assets/dom.js")),
    ("format.js", SCRIPT, include_str!("../../assets/format.js")),
    ("instant.js", SCRIPT, include_str!("../../assets/instant.js")),
    ("timeline.js", SCRIPT, include_str!("../../assets/timeline.js")),
    ("draw.js", SCRIPT, include_str!("../../assets/draw.js")),
    ("overview.js", SCRIPT, include_str!("../../assets/overview.js")),
    ("job_table.js", SCRIPT, include_str!("../../assets/job_table.js")),
    ("job.js", SCRIPT, include_str!("../../assets/job.js")),
    ("job_chart.js", SCRIPT, include_str!("../../assets/job_chart.js")),
    ("job_tasks.js", SCRIPT, include_str!("../../assets/job_tasks.js")),
    ("job_why.js", SCRIPT, include_str!("../../assets/job_why.js")),
    ("nodes.js", SCRIPT, include_str!("../../assets/nodes.js")),
    ("compare.js", SCRIPT, include_str!("../../assets/compare.js")),
];

#[derive(Deserialize)]
pub(super) struct Link {
    token: Option<String>,
}

/// `GET /`. A link with the token for reading is turned into a cookie, so that the token does not stay in the address.
pub(super) async fn index(State(shared): State<Arc<Shared>>, Query(link): Query<Link>) -> Response {
    let Some(token) = link.token else {
        return serve("text/html; charset=utf-8", include_str!("../../assets/index.html"));
    };
    match shared.access.cookie(&token) {
        Some(cookie) => {
            (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/".into())]).into_response()
        }
        None => {
            let text = "this link's token is not valid or has expired; open the link that was printed last, or make a new one with `giveway token link`";
            Problem::unauthorized(text).into_response()
        }
    }
}

/// `GET /assets/NAME`
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    if name == "codes.js" {
        return serve(SCRIPT, giveway_analysis::model::codes_script());
    }
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, content)) => serve(kind, *content),
        None => Problem::not_found("no such file").into_response(),
    }
}

fn serve(kind: &'static str, content: impl IntoResponse) -> Response {
    // Another release may serve other files under the same address.
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], content).into_response()
}
