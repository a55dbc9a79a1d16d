//! One node, served: the member's machines and the gateways in front of its cluster.
//!
//! The gateways of a node hold a session of their own with the whole cluster, so that a linearizable read is one; what
//! their users believe is still this node, and they are told so. The metrics listener comes first: a node that
//! replays its journal says that it is not ready.

use crate::cluster::{MEMCACHED, REDIS};
use crate::context::client_addresses;
use crate::sources::{BrokerSources, MemorySources, NodeSources};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use synod_config::{Effective, Genesis, Limits, NodeConfig, SynError};
use synod_gateway::resp::Store;
use synod_gateway::{
    Build, HttpServer, HttpSettings, MetricsServer, MetricsSettings, RespServer, RespSettings, Shared, Stop,
    TextServer, TextSettings, Webhook,
};
use synod_host::chop::{BrokerNode, BrokerSetup};
use synod_host::ubft::{MemoryServer, MemorySetup};
use synod_host::{Backend, Call, ClientSetup, ClusterClient, Outcome, Server, Setup};
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
    /// Where clients of Memcached connect.
    pub(crate) memcached: Option<SocketAddr>,
    /// Where HTTP clients connect.
    pub(crate) http: Option<SocketAddr>,
    /// Where metrics and health are read.
    pub(crate) metrics: Option<SocketAddr>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// What stands behind a process without gateways: it refuses whatever it is asked.
struct Nobody;

impl Backend for Nobody {
    fn call(&self, call: Call) {
        let refused = Outcome::Rejected { code: synod_config::code::NOT_PERMITTED.number(), retry_ms: 0 };
        // Who asked may have gone.
        let _ = call.reply.send(vec![refused; call.operations.len()]);
    }

    fn trust(&self) -> &'static str {
        "gateway"
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({ "schema": "synod-status/1" })
    }
}

/// What stands behind the gateway of a payment system for whoever asks for anything but payments.
struct PaymentsOnly;

impl Backend for PaymentsOnly {
    fn call(&self, call: Call) {
        let refused = Outcome::Rejected { code: synod_config::code::UNSUPPORTED.number(), retry_ms: 0 };
        // Who asked may have gone.
        let _ = call.reply.send(vec![refused; call.operations.len()]);
    }

    fn trust(&self) -> &'static str {
        "gateway"
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({ "schema": "synod-status/1", "kind": "astro" })
    }
}

/// A served broker.
pub(crate) struct ServedBroker {
    broker: Arc<BrokerSources>,
    datagram: SocketAddr,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl ServedBroker {
    /// Starts the broker of `setup`, whose directory is `folder`, with its metrics until `stop`.
    ///
    /// # Errors
    /// The code of the port or directory that refused.
    pub(crate) async fn start(setup: BrokerSetup, folder: &Path, stop: Stop) -> Result<Self, SynError> {
        let (config, genesis) = (setup.node.clone(), setup.genesis.clone());
        let broker = BrokerSources::new(&genesis, &config, folder);
        let shared = Shared::new(Arc::new(Nobody), &config.limits, stop);
        let mut tasks = Vec::new();
        if let Some(address) = &config.listen.metrics {
            let members = genesis.members().iter().map(|member| member.name.clone()).collect();
            let settings =
                MetricsSettings { members, build: BUILD, ..MetricsSettings::from_config(&config, folder)? };
            let bound = MetricsServer::bind(address, settings, broker.clone(), shared).await?;
            tasks.push(tokio::spawn(bound.run()));
        }
        let node = tokio::task::spawn_blocking(move || BrokerNode::start(setup)).await;
        let node = node.map_err(|error| crate::exit::bug("start", &error))??;
        let datagram = node.datagram();
        broker.is_up(node);
        Ok(Self { broker, datagram, tasks })
    }

    /// Where clients reach it.
    pub(crate) const fn datagram(&self) -> SocketAddr {
        self.datagram
    }

    /// Waits for the listener to end after stop was said, then stops the broker.
    ///
    /// # Errors
    /// What ended a thread.
    pub(crate) async fn end(self) -> Result<(), SynError> {
        for task in self.tasks {
            // A listener that takes longer loses its connections with the process.
            let _ = tokio::time::timeout(GRACE, task).await;
        }
        match self.broker.take() {
            Some(node) => {
                let stopped = tokio::task::spawn_blocking(move || node.stop()).await;
                stopped.map_err(|error| crate::exit::bug("stop", &error))?
            }
            None => Ok(()),
        }
    }
}

/// A served memory node.
pub(crate) struct ServedMemory {
    node: Arc<MemorySources>,
    address: String,
    boot: u64,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl ServedMemory {
    /// Starts the memory node of `setup`, whose directory is `folder`, with its metrics until `stop`.
    ///
    /// # Errors
    /// The code of the port, key or journal that refused.
    pub(crate) async fn start(setup: MemorySetup, folder: &Path, stop: Stop) -> Result<Self, SynError> {
        crate::layout::known_format(&setup.data)?;
        let (config, genesis) = (setup.node.clone(), setup.genesis.clone());
        let node = MemorySources::new(&genesis, &config, folder);
        let shared = Shared::new(Arc::new(Nobody), &config.limits, stop);
        let mut tasks = Vec::new();
        if let Some(address) = &config.listen.metrics {
            let members = genesis.members().iter().map(|member| member.name.clone()).collect();
            let settings =
                MetricsSettings { members, build: BUILD, ..MetricsSettings::from_config(&config, folder)? };
            let bound = MetricsServer::bind(address, settings, node.clone(), shared).await?;
            tasks.push(tokio::spawn(bound.run()));
        }
        let server = tokio::task::spawn_blocking(move || MemoryServer::start(setup)).await;
        let server = server.map_err(|error| crate::exit::bug("start", &error))??;
        let (address, boot) = (server.address().to_string(), server.boot());
        node.is_up(server);
        Ok(Self { node, address, boot, tasks })
    }

    /// Where replicas reach it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// How often it was started, this time included.
    pub(crate) const fn boot(&self) -> u64 {
        self.boot
    }

    /// Waits for the listener to end after stop was said, then stops the memory node.
    ///
    /// # Errors
    /// What ended a thread or the journal.
    pub(crate) async fn end(self) -> Result<(), SynError> {
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

/// The webhook that a node's file asks for.
///
/// # Errors
/// SYN-1106 at a node of another protocol, and those of [`Webhook::open`].
fn webhook(config: &NodeConfig, folder: &Path, server: &Server) -> Result<Option<Webhook>, SynError> {
    match server.teller() {
        Some(teller) => Webhook::open(config, folder, teller),
        None if config.webhook.address.is_none() => Ok(None),
        None => {
            let what = "only a payment system has what is posted";
            let values = [("first", "webhook.address"), ("second", "cluster.protocol"), ("problem", what)];
            Err(SynError::of(synod_config::code::RELATION_BROKEN, &values))
        }
    }
}

/// The gateways that may stand in front of a cluster: by the keys that turn them on.
fn served_by(genesis: &Genesis) -> &'static [&'static str] {
    if genesis.chop().is_some() {
        return &[];
    }
    match genesis.cluster().app.as_str() {
        "kv" => &["listen.http", "listen.resp"],
        "ledger" => &["listen.http"],
        REDIS => &["listen.resp"],
        MEMCACHED => &["listen.memcached"],
        _ => &[],
    }
}

/// Whose commands its RESP gateway takes.
pub(crate) fn store_of(genesis: &Genesis) -> Store {
    if genesis.cluster().app == REDIS { Store::Redis } else { Store::Keys }
}

/// Refuses gateways that speak of something else than the cluster does.
fn fronts(config: &NodeConfig, genesis: &Genesis) -> Result<(), SynError> {
    let listen = &config.listen;
    let all = [
        ("listen.http", &listen.http),
        ("listen.resp", &listen.resp),
        ("listen.memcached", &listen.memcached),
    ];
    let served = served_by(genesis);
    let Some((key, _)) = all.into_iter().find(|(key, address)| address.is_some() && !served.contains(key))
    else {
        return Ok(());
    };
    let of = match (genesis.chop(), genesis.pay()) {
        (Some(_), _) => "a server of chopchop",
        (_, Some(_)) => "a payment system",
        _ => genesis.cluster().app.as_str(),
    };
    let is_kind = genesis.chop().is_some() || genesis.pay().is_some();
    let second = if is_kind { "cluster.protocol" } else { "cluster.app" };
    let what = format!("{key} is on, and no such gateway stands in front of {of}");
    let values = [("first", key), ("second", second), ("problem", &*what)];
    Err(SynError::of(synod_config::code::RELATION_BROKEN, &values))
}

impl Served {
    /// Starts the member of `setup`, whose directory is `folder`, and serves its gateways until `stop`. In front of a
    /// server of Chop Chop stand none, for its clients speak to brokers, and none in front of an application without keys.
    ///
    /// # Errors
    /// The code of the file, port, key or journal that refused.
    pub(crate) async fn start(setup: Setup, folder: &Path, stop: Stop) -> Result<Self, SynError> {
        crate::layout::known_format(&setup.data)?;
        let (config, own, genesis) = (setup.node.clone(), setup.own, setup.genesis.clone());
        let node = NodeSources::new(&genesis, &config, own, folder);
        fronts(&config, &genesis)?;
        let backend: Arc<dyn Backend> = if genesis.pay().is_some() {
            Arc::new(PaymentsOnly)
        } else if served_by(&genesis).is_empty() {
            Arc::new(Nobody)
        } else {
            let gateway = client(&genesis, "gateway", own, SESSIONS)?;
            node.has_client(gateway.clone());
            gateway
        };
        let shared = Shared::new(backend, &config.limits, stop.clone());
        let mut served = Self {
            node: node.clone(),
            resp: None,
            memcached: None,
            http: None,
            metrics: None,
            tasks: Vec::new(),
        };
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
        let shared = shared.with_teller(server.teller().cloned());
        if let Some(address) = &config.listen.resp {
            let store = store_of(&genesis);
            let settings = RespSettings { store, ..RespSettings::from_config(&config, folder)? };
            let bound = RespServer::bind(address, settings, shared.clone()).await?;
            served.resp = Some(bound.local());
            served.tasks.push(tokio::spawn(bound.run()));
        }
        if let Some(address) = &config.listen.memcached {
            let bound = TextServer::bind(address, TextSettings::default(), shared.clone()).await?;
            served.memcached = Some(bound.local());
            served.tasks.push(tokio::spawn(bound.run()));
        }
        if let Some(address) = &config.listen.http {
            let settings = HttpSettings { build: BUILD, ..HttpSettings::from_config(&config, folder)? };
            let bound = HttpServer::bind(address, settings, shared).await?;
            served.http = Some(bound.local());
            served.tasks.push(tokio::spawn(bound.run()));
        }
        if let Some(webhook) = webhook(&config, folder, &server)? {
            node.has_webhook(webhook.hooked());
            served.tasks.push(tokio::spawn(webhook.run(stop)));
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
