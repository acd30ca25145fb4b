//! Parts of a request. As those of axum, but what is wrong with them is answered as every other problem is: as JSON.

use super::api::Problem;
use axum::extract::{self, FromRequestParts};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// The variable parts of the path.
pub(super) struct Path<T>(pub(super) T);

/// The parameters after the question mark.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        match extract::Path::from_request_parts(parts, state).await {
            Ok(extract::Path(value)) => Ok(Path(value)),
            Err(_) => {
                Err(Problem::invalid(format!("there is no {}: jobs are called by their number", parts.uri.path())))
            }
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Problem> {
        match extract::Query::from_request_parts(parts, state).await {
            Ok(extract::Query(value)) => Ok(Query(value)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}
