//! Errors as HTTP responses: problem objects of RFC 9457.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::Value;
use synod_config::SynError;

const PROBLEM_JSON: &str = "application/problem+json";

/// An error with what only its request knows.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    error: SynError,
    instance: Option<String>,
    retry_ms: Option<u64>,
    status: Option<StatusCode>,
    evidence: Option<Value>,
}

impl From<SynError> for Problem {
    fn from(error: SynError) -> Self {
        Self { error, instance: None, retry_ms: None, status: None, evidence: None }
    }
}

impl Problem {
    /// Names the request.
    pub(crate) fn of_request(mut self, id: Option<String>) -> Self {
        self.instance = id;
        self
    }

    /// States when to try again; 0 states nothing.
    pub(crate) fn after_ms(mut self, retry_ms: u32) -> Self {
        self.retry_ms = (retry_ms > 0).then_some(u64::from(retry_ms));
        self
    }

    /// Answers with another status than that of the code, where HTTP has a truer one.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Shows what proves it to anybody.
    pub(crate) fn shown_by(mut self, evidence: Option<Value>) -> Self {
        self.evidence = evidence;
        self
    }

    pub(crate) fn code(&self) -> synod_config::Code {
        self.error.code()
    }

    fn status(&self) -> StatusCode {
        let of_code = StatusCode::from_u16(self.error.http_status());
        self.status.or(of_code.ok()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The problem object.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.error.to_problem(self.instance.as_deref(), self.retry_ms);
        object["status"] = Value::from(self.status().as_u16());
        if let Some(evidence) = &self.evidence {
            object["evidence"] = evidence.clone();
        }
        object
    }

    pub(crate) fn into_response(self) -> Response {
        let (object, status) = (self.object(), self.status());
        let mut response = Response::new(Body::from(object.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(retry_ms) = self.retry_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1_000)));
        }
        response
    }
}

/// The response of an error that needs nothing else said.
pub(crate) fn problem(error: &SynError) -> Response {
    Problem::from(error.clone()).into_response()
}
