//! What the cluster says about itself, as far as the backend knows; and what this listener is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use synod_config::openapi_json;

use crate::{
    http::{request::unsupported, server::Front},
    problem::Problem,
};

/// `GET /v1/status`.
pub(super) async fn status(State(front): State<Arc<Front>>) -> Response {
    Json(front.shared.backend.status()).into_response()
}

/// `GET /v1/members`: the part of the status with that name.
pub(super) async fn members(State(front): State<Arc<Front>>) -> Result<Response, Problem> {
    part(&front, "members")
}

/// `GET /v1/why`: the part of the status with that name.
pub(super) async fn why(State(front): State<Arc<Front>>) -> Result<Response, Problem> {
    part(&front, "why")
}

/// A backend that does not know a part says so; nothing is made up for it.
fn part(front: &Front, name: &str) -> Result<Response, Problem> {
    match front.shared.backend.status().get_mut(name).map(Value::take) {
        Some(part) => Ok(Json(part).into_response()),
        None => Err(unsupported(&format!("GET /v1/{name} at this gateway"))),
    }
}

/// `GET /v1/requests/{id}`: a backend keeps no outcomes to be asked for.
pub(super) async fn request() -> Problem {
    unsupported("GET /v1/requests/{id} at this gateway")
}

/// `GET /v1/views`: a backend keeps no history.
pub(super) async fn views() -> Problem {
    unsupported("GET /v1/views at this gateway")
}

/// `GET /openapi.json`.
pub(super) async fn openapi() -> Response {
    Json(openapi_json()).into_response()
}

/// `GET /version`.
pub(super) async fn version(State(front): State<Arc<Front>>) -> Response {
    Json(front.build.to_json()).into_response()
}
