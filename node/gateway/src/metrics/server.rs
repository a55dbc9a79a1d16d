//! The listener of metrics and health.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use synod_config::{Address, NodeConfig, SynError, code};
use tokio::time::Instant;

use crate::{
    access::{Secret, Shown, guarded, named},
    bind::bind,
    budget::Budget,
    metrics::{
        health::{Check, Health},
        page::{Label, Page, traffic},
    },
    problem::problem,
    shared::Shared,
    stop::Stop,
    web::{Places, serve},
};

/// Most connections of the listener.
const CONNECTIONS_MAX: u32 = 64;
/// The format that scrapers are told.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The build, as `/version` and `synod_build_info` tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Version of the release.
    pub version: &'static str,
    /// Commit it was built from.
    pub commit: &'static str,
    /// Features it was built with, separated by commas.
    pub features: &'static str,
}

impl Default for Build {
    /// This crate's version; commit unknown, no features.
    fn default() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), commit: "unknown", features: "" }
    }
}

impl Build {
    /// The object of `/version`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let features: Vec<&str> = self.features.split(',').filter(|name| !name.is_empty()).collect();
        json!({ "version": self.version, "commit": self.commit, "features": features })
    }
}

/// What a host tells about itself. Both are called on the listener's thread and must not wait: they read what the
/// hot loops published, at most 250 ms old.
pub trait Sources: Send + Sync + 'static {
    /// Puts every value that the host has. The gateway puts its own.
    fn sample(&self, page: &mut Page);

    /// States the present facts.
    fn health(&self) -> Health;
}

/// How the listener behaves.
#[derive(Clone, Debug, Default)]
pub struct MetricsSettings {
    /// What a scraper must show off loopback.
    pub token: Option<Secret>,
    /// The build.
    pub build: Build,
    /// Names of the members, by index.
    pub members: Vec<String>,
}

impl MetricsSettings {
    /// What a node's file says; `directory` is where that file is.
    ///
    /// # Errors
    /// Those of [`Secret::read`].
    pub fn from_config(config: &NodeConfig, directory: &Path) -> Result<Self, SynError> {
        let token = named(config.metrics.token_file.as_ref(), directory)?;
        Ok(Self { token, ..Self::default() })
    }
}

/// A bound listener.
pub struct MetricsServer {
    listener: tokio::net::TcpListener,
    local: SocketAddr,
    places: Arc<Budget>,
    stop: Stop,
    router: Router,
}

struct Table {
    sources: Arc<dyn Sources>,
    shared: Shared,
    build: Build,
    members: Arc<[String]>,
    started: Instant,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("build", &self.build).finish_non_exhaustive()
    }
}

impl Collector for Table {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(Arc::clone(&self.members));
        let Build { version, commit, features } = self.build;
        page.count("synod_build_info", &[commit, version, features].map(Label::Word), 1);
        page.seconds("synod_uptime_seconds", &[], self.started.elapsed());
        traffic(&mut page, &self.shared.traffic, self.shared.budget.used());
        self.sources.sample(&mut page);
        if page.dropped() > 0 {
            tracing::warn!(dropped = page.dropped(), "metrics above the bound of series were left out");
        }
        page.encode(encoder)
    }
}

struct Pages {
    registry: Registry,
    sources: Arc<dyn Sources>,
    build: Build,
    /// What must be shown; none on loopback.
    token: Option<Secret>,
}

impl MetricsServer {
    /// Binds `address`; port 0 lets the system choose.
    ///
    /// # Errors
    /// SYN-2004 if the port is taken, SYN-1111 if other machines can reach it and there is no token.
    pub async fn bind(
        address: &Address,
        settings: MetricsSettings,
        sources: Arc<dyn Sources>,
        shared: Shared,
    ) -> Result<Self, SynError> {
        let (listener, local) = bind(address, "listen.metrics").await?;
        guarded(local, settings.token.as_ref(), ("listen.metrics", "metrics.token_file"))?;
        let stop = shared.stop.clone();
        let table = Table {
            sources: Arc::clone(&sources),
            shared,
            build: settings.build,
            members: settings.members.into(),
            started: Instant::now(),
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(table));
        let token = settings.token.filter(|_| !local.ip().is_loopback());
        let pages = Arc::new(Pages { registry, sources, build: settings.build, token });
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/version", get(version))
            .layer(middleware::from_fn_with_state(Arc::clone(&pages), authorize))
            .with_state(pages);
        Ok(Self { listener, local, places: Budget::new(0, CONNECTIONS_MAX), stop, router })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Serves until stop is said and every answer is out.
    pub async fn run(self) {
        serve(self.listener, self.router, Places::uncounted(self.places), self.stop).await;
    }
}

async fn authorize(State(pages): State<Arc<Pages>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    match Secret::judge(pages.token.as_ref(), given) {
        Shown::Right => next.run(request).await,
        Shown::Missing => problem(&SynError::of(code::NO_CREDENTIALS, &[])),
        Shown::Wrong => problem(&SynError::of(code::WRONG_CREDENTIALS, &[])),
    }
}

async fn metrics(State(pages): State<Arc<Pages>>) -> Response {
    let mut page = String::new();
    match text::encode(&mut page, &pages.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(error) => problem(&SynError::of(code::BUG, &[("bundle", "the cause below")]).because(error)),
    }
}

async fn livez(State(pages): State<Arc<Pages>>, uri: Uri) -> Response {
    judged(pages.sources.health().live(), uri.query())
}

async fn readyz(State(pages): State<Arc<Pages>>, uri: Uri) -> Response {
    judged(pages.sources.health().ready(), uri.query())
}

async fn version(State(pages): State<Arc<Pages>>) -> Response {
    axum::Json(pages.build.to_json()).into_response()
}

/// 200 when every check that is not excluded passes. Lines are given for what fails, and for all when asked.
fn judged(mut checks: Vec<Check>, query: Option<&str>) -> Response {
    let mut verbose = false;
    for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=').unwrap_or((part, "")) {
            ("verbose", "" | "1" | "true") => verbose = true,
            ("exclude", name) if checks.iter().any(|check| check.name == name) => {
                checks.retain(|check| check.name != name);
            }
            _ => {
                let what = "the query takes verbose and exclude=NAME, each name once";
                return problem(&SynError::of(code::MALFORMED, &[("problem", what)]));
            }
        }
    }
    let healthy = checks.iter().all(|check| check.problem.is_none());
    let shown = checks.iter().filter(|check| verbose || check.problem.is_some());
    let mut body: String = shown.map(|check| check.line() + "\n").collect();
    body.push_str(if healthy { "ok\n" } else { "failed\n" });
    let status = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}
