//! Binding, routing, access, and the headers of every answer.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::{Map, Value};
use synod_config::{Address, NodeConfig, SynError, code};
use synod_host::Mode;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::{
    access::{Secret, Shown, loopback_only, named, without_tls},
    bind::bind,
    http::{
        ask::{Ask, Told},
        ids::Ids,
        info, kv, pay,
        request::{REQUEST_ID, deadline, malformed, request_id},
        txn,
    },
    metrics::Build,
    problem::Problem,
    shared::{DEADLINE, Shared},
    web::{Link, Places, serve},
};

/// Longest body, when nothing is said.
const REQUEST_MAX: usize = 768 << 10;
/// Responses at one time that go on until their client leaves.
pub(super) const STREAMS_MAX: usize = 64;
/// Whose word an answer is.
const TRUST: &str = "synod-trust";
/// The position at which an answer was given.
const HEIGHT: &str = "synod-height";

/// How the listener behaves.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// How long an operation may take when its request says nothing; never zero.
    pub deadline: Duration,
    /// How reads are carried out when their request says nothing: `--read`.
    pub reads: Mode,
    /// What every request must show; `None` asks for nothing.
    pub token: Option<Secret>,
    /// Longest body in bytes: `limits.request_max`.
    pub request_max: usize,
    /// The build.
    pub build: Build,
}

impl Default for HttpSettings {
    /// 5 s, quorum reads, no token, 768 KiB.
    fn default() -> Self {
        Self {
            deadline: DEADLINE,
            reads: Mode::Quorum,
            token: None,
            request_max: REQUEST_MAX,
            build: Build::default(),
        }
    }
}

impl HttpSettings {
    /// What a node's file says; `directory` is where that file is.
    ///
    /// # Errors
    /// SYN-1003 if it asks for TLS, else those of [`Secret::read`].
    pub fn from_config(config: &NodeConfig, directory: &Path) -> Result<Self, SynError> {
        without_tls(&config.access)?;
        let token = named(config.access.http_token_file.as_ref(), directory)?;
        let request_max = usize::try_from(config.limits.request_max).unwrap_or(usize::MAX);
        Ok(Self { token, request_max, ..Self::default() })
    }
}

/// What the handlers share.
pub(super) struct Front {
    pub(super) shared: Shared,
    pub(super) deadline: Duration,
    pub(super) reads: Mode,
    pub(super) request_max: usize,
    pub(super) build: Build,
    token: Option<Secret>,
    ids: Arc<Ids>,
    /// Places for responses that go on until their client leaves.
    pub(super) streams: Arc<Semaphore>,
}

/// A bound listener.
pub struct HttpServer {
    listener: TcpListener,
    local: SocketAddr,
    shared: Shared,
    router: Router,
}

impl HttpServer {
    /// Binds `address`; port 0 lets the system choose.
    ///
    /// # Errors
    /// SYN-2004 if the port is taken, SYN-1111 if other machines can reach it: HTTP here is plain.
    pub async fn bind(address: &Address, settings: HttpSettings, shared: Shared) -> Result<Self, SynError> {
        assert!(!settings.deadline.is_zero(), "a deadline of zero answers nothing");
        let (listener, local) = bind(address, "listen.http").await?;
        loopback_only(local, "listen.http")?;
        let front = Front {
            shared: shared.clone(),
            deadline: settings.deadline,
            reads: settings.reads,
            request_max: settings.request_max,
            build: settings.build,
            token: settings.token,
            ids: Arc::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        };
        Ok(Self { listener, local, shared, router: routes(Arc::new(front)) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Serves until stop is said and every answer is out.
    pub async fn run(self) {
        let Shared { budget, traffic, stop, .. } = self.shared;
        serve(self.listener, self.router, Places::counted(budget, traffic), stop).await;
    }
}

fn routes(front: Arc<Front>) -> Router {
    Router::new()
        .route("/v1/kv/{key}", get(kv::get).put(kv::put).delete(kv::delete))
        .route("/v1/kv", get(kv::scan))
        .route("/v1/txn", post(txn::post))
        .route("/v1/pay/accounts", get(pay::list).post(pay::open))
        .route("/v1/pay/accounts/{id}", get(pay::show))
        .route("/v1/pay/accounts/{id}/close", post(pay::alter))
        .route("/v1/pay/accounts/{id}/rekey", post(pay::alter))
        .route("/v1/pay/accounts/{id}/move", post(pay::alter))
        .route("/v1/pay/accounts/{id}/limit", post(pay::alter))
        .route("/v1/pay/accounts/{id}/evidence", get(pay::evidence))
        .route("/v1/pay/accounts/{id}/history", get(pay::history))
        .route("/v1/pay/accounts/{id}/log", get(pay::log))
        .route("/v1/pay/accounts/{id}/proof", get(pay::prove))
        .route("/v1/pay/accounts/{id}/statement", get(pay::statement))
        .route("/v1/pay/ledgers/{ledger}/proof", get(pay::prove_liabilities))
        .route("/v1/pay/cuts", get(pay::cuts))
        .route("/v1/pay/members", get(pay::members).post(pay::change))
        .route("/v1/pay/bundles", get(pay::bundles))
        .route("/v1/pay/lanes", get(pay::lanes))
        .route("/v1/pay/log", get(pay::export))
        .route("/v1/changes", get(pay::changes))
        .route("/v1/pay/check", post(pay::check))
        .route("/v1/pay/entries", post(pay::submit))
        .route("/v1/pay/transfers", post(pay::transfer))
        .route("/v1/pay/create_transfers", post(pay::create_transfers))
        .route("/v1/pay/create_accounts", post(pay::create_accounts))
        .route("/v1/pay/transfers/{id}", get(pay::find))
        .route("/v1/pay/transfers/{id}/receipt", get(pay::receipt))
        .route("/v1/requests/{id}", get(info::request))
        .route("/v1/status", get(info::status))
        .route("/v1/why", get(info::why))
        .route("/v1/members", get(info::members))
        .route("/v1/views", get(info::views))
        .route("/openapi.json", get(info::openapi))
        .route("/version", get(info::version))
        .fallback(|| async { unrouted(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { unrouted(StatusCode::METHOD_NOT_ALLOWED) })
        .layer(middleware::from_fn_with_state(Arc::clone(&front), enter))
        .with_state(front)
}

fn unrouted(status: StatusCode) -> Problem {
    let what = if status == StatusCode::NOT_FOUND { "this path" } else { "this method of this path" };
    Problem::from(SynError::of(code::UNSUPPORTED, &[("verb", what)])).with_status(status)
}

/// Judges a request before anything of it is read, and says in every answer whose word it is.
async fn enter(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let refusal: Option<Problem> = match Secret::judge(front.token.as_ref(), given) {
        Shown::Right if front.token.is_none() && !names_this_machine(request.headers()) => {
            Some(SynError::of(code::NOT_PERMITTED, &[("what", "a host name without a token")]).into())
        }
        Shown::Right if is_foreign_form(&request) => {
            Some(malformed("the content type is not application/json"))
        }
        Shown::Right => None,
        Shown::Missing => Some(SynError::of(code::NO_CREDENTIALS, &[]).into()),
        Shown::Wrong => Some(SynError::of(code::WRONG_CREDENTIALS, &[]).into()),
    };
    let mut response = match refusal {
        None => next.run(request).await,
        Some(refusal) => {
            front.shared.traffic.refused(crate::traffic::Api::Http, refusal.code());
            refusal.into_response()
        }
    };
    let trust = HeaderValue::from_static(front.shared.backend.trust());
    response.headers_mut().entry(TRUST).or_insert(trust);
    response
}

/// Whether a request is one that any web page can make a browser send without being asked: a POST of a form or of plain text.
fn is_foreign_form(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    request.method() == Method::POST && !kind.eq_ignore_ascii_case("application/json")
}

/// Whether the host that a request names is an address or `localhost`. A web page that had its own name point here
/// would name that.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    let host = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(host, _)| host);
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

impl Front {
    /// Performs a write under the id that its request gives, if any.
    pub(super) async fn write(
        &self,
        link: &Link,
        headers: &HeaderMap,
        operation: Bytes,
    ) -> Result<Told, Problem> {
        let deadline = deadline(headers, self.deadline)?;
        let ask = Ask { lane: link.share.id(), operation, mode: Mode::Ordered, deadline };
        link.writes();
        match request_id(headers)? {
            None => ask.perform(&self.shared).await,
            Some(id) => {
                let told = self.ids.perform(id.clone(), ask, &self.shared).await;
                told.map_err(|problem| problem.of_request(Some(id)))
            }
        }
    }
}

/// A success.
pub(super) struct Answer {
    pub(super) object: Map<String, Value>,
    /// Where it was executed or read; 0 when unknown.
    pub(super) position: u64,
    /// The id that the request gave itself.
    pub(super) id: Option<HeaderValue>,
    pub(super) mode: Mode,
}

impl Answer {
    /// The answer to a write.
    pub(super) fn of_write(object: Map<String, Value>, position: u64, headers: &HeaderMap) -> Response {
        let id = headers.get(REQUEST_ID).cloned();
        Self { object, position, id, mode: Mode::Ordered }.into_response()
    }

    pub(super) fn into_response(mut self) -> Response {
        if self.position > 0 {
            self.object.insert("height".to_owned(), Value::from(self.position.to_string()));
        }
        let mut response = Json(Value::from(self.object)).into_response();
        let headers = response.headers_mut();
        if self.position > 0 {
            headers.insert(HEIGHT, HeaderValue::from(self.position));
        }
        if let Some(id) = self.id {
            headers.insert(REQUEST_ID, id);
        }
        if self.mode == Mode::Local {
            headers.insert(TRUST, HeaderValue::from_static("local"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        Problem::into_response(self)
    }
}
