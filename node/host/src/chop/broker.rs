//! A broker as a process: it dials all servers and accepts clients by datagrams.
//!
//! *No journal.* A broker promises nothing: after a crash its clients come again or go to another one, and what it had
//! pinned at the servers is ordered or expires.
//!
//! *Bounds.* Those of the machine and of `[broker]` in `node.toml`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_chopchop::broker::{Broker, Config, Parameters, Seen, Verify};
use synod_chopchop::vocabulary::{
    BROKER_CLIENTS, CLIENT as TO_CLIENTS, SERVER as TO_SERVERS, SERVER_BULK, STORE as TO_STORES, STORE_BULK,
};
use synod_config::{ClusterKind, Effective, Genesis, NodeConfig, NodeKey, SynError};
use synod_machine::host::{Host, HostConfig};
use synod_machine::{Condition, Span};
use synod_net::datagram::{LinkLimits, LinkQueues, LinkSockets};
use synod_net::{Address, Deliveries, Guest, Handle, Hosting, Node, Role, Transport};
use synod_quorum::NodeId;

use super::{BROKER, ChopMeters, SERVER, STORE, class, cluster, directory};
use crate::error::{invalid, network};
use crate::watch::{Seen as NodeSeen, Watch};
use crate::{plan, random};

/// What a broker is started from, read and checked.
pub struct BrokerSetup {
    /// The cluster.
    pub genesis: Genesis,
    /// This process' own choices.
    pub node: NodeConfig,
    /// The broker's key.
    pub key: NodeKey,
    /// Which broker of the genesis it is.
    pub number: u32,
    /// The genesis' file; what it names by digest stands beside it.
    pub genesis_file: PathBuf,
}

impl BrokerSetup {
    /// Reads `node.toml` in `folder` with its layers, and what it names.
    ///
    /// # Errors
    /// The code of the file, key or relation that is wrong; SYN-1107 if the key is no broker's.
    pub fn read(
        folder: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &[(String, String)],
    ) -> Result<Self, SynError> {
        let effective = Effective::read(&folder.join("node.toml"), env, flags.iter().cloned())?;
        let node = effective.config()?;
        let genesis_file = folder.join(&node.node.genesis);
        let genesis = Genesis::read(&genesis_file)?;
        let key = NodeKey::read(&folder.join(&node.node.key_file))?;
        let number = node.check_broker(&genesis, &key.public())?;
        Ok(Self { genesis, node, key, number, genesis_file })
    }

    /// Whether the clients' keys are made up by a load generator, which knows all of their secrets.
    #[must_use]
    pub fn is_bench(&self) -> bool {
        self.genesis.chop().is_some_and(|chop| chop.kind == ClusterKind::Bench)
    }

    fn parameters(&self) -> Parameters {
        let from = &self.node.broker;
        Parameters {
            window_min: span(from.window_min),
            window_max: span(from.window_max),
            pipeline_max: from.pipeline_max,
            distil_min: from.distil_min,
            distil_max: span(from.distil_max),
            keep: span(from.keep),
            keep_bytes: from.keep_bytes,
            links_max: from.links_max,
            read_keys_max: from.read_keys_max,
            verify: Verify::Eager,
            ..Parameters::of(self.genesis.roster().size())
        }
    }

    fn sockets(&self) -> Result<LinkSockets, SynError> {
        let from = &self.node.broker;
        let limits = LinkLimits {
            links_max: from.links_max,
            links_per_second: from.links_per_second,
            ..LinkLimits::default()
        };
        let Some(address) = &self.node.listen.datagram else {
            return Err(invalid("a broker listens for datagrams of clients"));
        };
        LinkSockets::bind(&address.to_string(), from.sockets, limits).map_err(|e| network(&e))
    }
}

fn span(duration: std::time::Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A running broker.
pub struct BrokerNode {
    node: Option<Node>,
    handle: Handle,
    watch: Arc<Watch>,
    datagram: SocketAddr,
    genesis: Genesis,
    number: u32,
}

impl BrokerNode {
    /// Binds the sockets, starts the threads and calls every server whose client address the genesis states.
    ///
    /// # Errors
    /// The code of whatever refused: directory, port, configuration.
    pub fn start(setup: BrokerSetup) -> Result<Self, SynError> {
        let clients = directory(&setup.genesis, &setup.genesis_file)?;
        let known = cluster(&setup.genesis)?;
        let config = Config::new(known, setup.number, class(&setup.genesis)?, clients, setup.parameters())
            .map_err(|rule| invalid(rule.0))?;
        let host = HostConfig {
            own: Guest::OWN,
            machine: BROKER,
            seed: random::number(),
            jobs_max: setup.node.limits.jobs_max,
            checked: cfg!(debug_assertions),
        };
        let machine =
            Host::<Broker>::open(host, config, plan::empty(Condition::Fresh)).map_err(plan::damaged)?;
        let sockets = setup.sockets()?;
        let datagram = sockets.address();
        let watch = Arc::new(Watch::default());
        let looked = watch.clone();
        let connector = move |_: u8, output: Box<dyn std::any::Any + Send>, _: &mut Deliveries<'_>| {
            if let Ok(seen) = output.downcast::<Seen>() {
                looked.chop().broker(*seen);
            }
        };
        let hosting = Hosting::new(BROKER, Box::new(machine))
            .route(SERVER, [TO_SERVERS, SERVER_BULK])
            .route(STORE, [TO_STORES, STORE_BULK]);
        let queues = LinkQueues { inward: BROKER_CLIENTS, outward: TO_CLIENTS };
        let mut builder = Node::builder(net_config(&setup))
            .machine(hosting)
            .keys(super::cluster::keys(&setup.key, &setup.node)?)
            .pool(setup.node.runtime.jobs)
            .observer(watch.clone())
            .connector(connector)
            .listen_links(sockets, BROKER, queues);
        for (id, member) in (0_u32..).map(NodeId).zip(setup.genesis.members()) {
            if let Some(client) = member.client.as_ref().filter(|client| client.port() != 0) {
                builder = builder.address(id, Address::Tcp(client.to_string()));
            }
        }
        let node = builder.start().map_err(|e| network(&e))?;
        let handle = node.handle().clone();
        let BrokerSetup { genesis, number, .. } = setup;
        Ok(Self { node: Some(node), handle, watch, datagram, genesis, number })
    }

    /// Where clients reach it.
    #[must_use]
    pub const fn datagram(&self) -> SocketAddr {
        self.datagram
    }

    /// Its number in the genesis.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The cluster.
    #[must_use]
    pub const fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The runtime's handle: counters, memory, addresses.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What the broker counted and saw.
    #[must_use]
    pub fn meters(&self) -> &ChopMeters {
        self.watch.chop()
    }

    /// Links and faults, as the runtime told.
    #[must_use]
    pub fn look(&self) -> NodeSeen {
        self.watch.look()
    }

    /// Servers it has a link to.
    #[must_use]
    pub fn servers_up(&self) -> usize {
        self.watch.look().up.values().filter(|up| **up).count()
    }

    /// Stops the threads.
    ///
    /// # Errors
    /// What ended a thread.
    pub fn stop(mut self) -> Result<(), SynError> {
        match self.node.take() {
            Some(node) => node.stop().map_err(|e| network(&e)),
            None => Ok(()),
        }
    }
}

fn net_config(setup: &BrokerSetup) -> synod_net::Config {
    synod_net::Config {
        own: Guest::OWN,
        role: Role::Guest,
        seed: setup.key.seed().clone(),
        cluster_name: setup.genesis.cluster().name.clone(),
        cluster: setup.genesis.id(),
        roster: setup.genesis.roster().clone(),
        transport: Transport::Tls,
        limits: synod_net::Limits::default(),
    }
}
