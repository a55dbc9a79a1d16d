//! One node, served: the member's machines and the gateways in front of its cluster.
//!
//! The gateways of a node hold a session of their own with the whole cluster, so that a linearizable read is one; what
//! their users believe is still this node, and they are told so. The metrics listener comes first: a node that
//! replays its journal says that it is not ready.

use crate::context::client_addresses;
use crate::sources::NodeSources;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use synod_config::{Effective, Genesis, Limits, SynError};
use synod_gateway::{
    Build, HttpServer, HttpSettings, MetricsServer, MetricsSettings, RespServer, RespSettings, Shared, Stop,
};
use synod_host::{Backend, ClientSetup, ClusterClient, Server, Setup};
use synod_quorum::NodeId;

/// The build as listeners tell it.
pub(crate) const BUILD: Build =
    Build { version: env!("CARGO_PKG_VERSION"), commit: env!("SYNOD_BUILD_COMMIT"), features: "" };

/// Sessions of a gateway; connections are spread over them.
const SESSIONS: usize = 2;
/// How long listeners may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// A served node.
pub(crate) struct Served {
    /// The member, and what it tells.
    pub(crate) node: Arc<NodeSources>,
    /// Where RESP clients connect.
    pub(crate) resp: Option<SocketAddr>,
    /// Where HTTP clients connect.
    pub(crate) http: Option<SocketAddr>,
    /// Where metrics and health are read.
    pub(crate) metrics: Option<SocketAddr>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// The limits of a gateway that no node.toml describes.
///
/// # Errors
/// Never for the defaults, which are checked like any other values.
pub(crate) fn default_limits() -> Result<Limits, SynError> {
    let name = ("node.name".to_owned(), "proxy".to_owned());
    Ok(Effective::load(None, [], [name])?.config()?.limits)
}

/// Opens a session with a cluster that believes nobody alone.
///
/// # Errors
/// The code of whatever refused.
pub(crate) fn client(
    genesis: &Genesis,
    trust: &'static str,
    nearest: NodeId,
    sessions: usize,
) -> Result<Arc<ClusterClient>, SynError> {
    ClusterClient::connect(&client_setup(genesis, trust, nearest, sessions)).map(Arc::new)
}

/// How such a client reaches its cluster.
pub(crate) fn client_setup(
    genesis: &Genesis,
    trust: &'static str,
    nearest: NodeId,
    sessions: usize,
) -> ClientSetup {
    ClientSetup {
        genesis: genesis.clone(),
        addresses: client_addresses(genesis),
        send_all: false,
        trust,
        nearest,
        sessions,
        believe: None,
    }
}

impl Served {
    /// Starts the member whose directory is `folder` and serves its gateways until `stop`.
    ///
    /// # Errors
    /// The code of the file, port, key or journal that refused.
    pub(crate) async fn start(
        folder: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &[(String, String)],
        stop: Stop,
    ) -> Result<Self, SynError> {
        let setup = Setup::read(folder, env, flags)?;
        crate::layout::known_format(&setup.data)?;
        let (config, own, genesis) = (setup.node.clone(), setup.own, setup.genesis.clone());
        let node = NodeSources::new(&genesis, &config, own, folder);
        let gateway = client(&genesis, "gateway", own, SESSIONS)?;
        node.has_client(gateway.clone());
        let backend: Arc<dyn Backend> = gateway;
        let shared = Shared::new(backend, &config.limits, stop);
        let mut served =
            Self { node: node.clone(), resp: None, http: None, metrics: None, tasks: Vec::new() };
        if let Some(address) = &config.listen.metrics {
            let members = genesis.members().iter().map(|member| member.name.clone()).collect();
            let settings =
                MetricsSettings { members, build: BUILD, ..MetricsSettings::from_config(&config, folder)? };
            let bound = MetricsServer::bind(address, settings, node.clone(), shared.clone()).await?;
            served.metrics = Some(bound.local());
            served.tasks.push(tokio::spawn(bound.run()));
        }
        let server = tokio::task::spawn_blocking(move || Server::start(setup)).await;
        let server = server.map_err(|error| crate::exit::bug("start", &error))??;
        if let Some(address) = &config.listen.resp {
            let bound =
                RespServer::bind(address, RespSettings::from_config(&config, folder)?, shared.clone())
                    .await?;
            served.resp = Some(bound.local());
            served.tasks.push(tokio::spawn(bound.run()));
        }
        if let Some(address) = &config.listen.http {
            let settings = HttpSettings { build: BUILD, ..HttpSettings::from_config(&config, folder)? };
            let bound = HttpServer::bind(address, settings, shared).await?;
            served.http = Some(bound.local());
            served.tasks.push(tokio::spawn(bound.run()));
        }
        // Ready is said when clients find a listener.
        node.is_up(server);
        Ok(served)
    }

    /// Ends with the reason when the member stops by itself; else never.
    pub(crate) async fn failing(&self) -> SynError {
        match self.node.with(Server::failing) {
            Some(failing) => failing.await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the listeners to end after stop was said, then stops the machines and closes the journal.
    ///
    /// # Errors
    /// What ended a thread or the journal; why the member stopped by itself.
    pub(crate) async fn end(self) -> Result<(), SynError> {
        self.node.drain();
        for task in self.tasks {
            // A listener that takes longer loses its connections with the process.
            let _ = tokio::time::timeout(GRACE, task).await;
        }
        match self.node.take() {
            Some(server) => {
                let stopped = tokio::task::spawn_blocking(move || server.stop()).await;
                stopped.map_err(|error| crate::exit::bug("stop", &error))?
            }
            None => Ok(()),
        }
    }
}
