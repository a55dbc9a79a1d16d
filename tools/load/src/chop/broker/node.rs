//! A load broker that runs: links to all servers, threads, counters.

use super::machine::{Config, Input, LoadBroker, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use synod_chopchop::config::Cluster;
use synod_chopchop::vocabulary::{SERVER as TO_SERVERS, SERVER_BULK, STORE as TO_STORES, STORE_BULK};
use synod_crypto::Seed;
use synod_host::chop::{BROKER, SERVER, STORE};
use synod_machine::Condition;
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_net::{Address, Busy, Deliveries, Guest, Handle, Hosting, Limits, Node, Role, Transport};
use synod_quorum::NodeId;

/// Pause before an input is offered again.
const AGAIN: Duration = Duration::from_millis(1);

/// What a load broker is started from.
#[derive(Clone)]
pub struct BrokerSetup {
    /// Name of the cluster.
    pub cluster_name: String,
    /// The servers.
    pub cluster: Cluster,
    /// The key by which servers know it as a broker of their genesis.
    pub seed: Seed,
    /// Where servers listen for guests.
    pub servers: Vec<(NodeId, String)>,
    /// Servers beyond f + 1 that witness a batch.
    pub margin: u32,
    /// Batches on their way, at most.
    pub window: u32,
}

/// What a load broker says, and when it said so.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// What it says.
    pub output: Output,
    /// When.
    pub at: Instant,
}

/// What went over the links to the servers, TLS included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes sent to all servers.
    pub sent: u64,
    /// Bytes received from all servers.
    pub received: u64,
    /// Links that are up.
    pub links: u64,
}

/// A running load broker. Dropping it ends its threads and its links.
pub struct LoadNode {
    _node: Node,
    handle: Handle,
    members: u32,
}

impl LoadNode {
    /// Starts the threads and calls the servers, in the background. What it says goes to `tell`, which is not to wait.
    ///
    /// # Errors
    /// Threads that the system does not grant.
    pub fn start(setup: &BrokerSetup, tell: impl Fn(Told) + Send + 'static) -> anyhow::Result<Self> {
        let BrokerSetup { cluster_name, cluster, seed, servers, margin, window } = setup;
        let net = synod_net::Config {
            own: Guest::OWN,
            role: Role::Guest,
            seed: seed.clone(),
            cluster_name: cluster_name.clone(),
            cluster: cluster.digest(),
            roster: cluster.roster().clone(),
            transport: Transport::Tls,
            limits: Limits::default(),
        };
        let host = HostConfig {
            own: Guest::OWN,
            machine: BROKER,
            seed: 1,
            jobs_max: 1,
            checked: cfg!(debug_assertions),
        };
        let config = Config { cluster: cluster.clone(), margin: *margin, window: *window };
        let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
        let machine = Host::<LoadBroker>::open(host, config, log).map_err(|why| anyhow::anyhow!("{why}"))?;
        let tell = Mutex::new(tell);
        let connector = move |_: u8, output: Box<dyn std::any::Any + Send>, _: &mut Deliveries<'_>| {
            if let Ok(output) = output.downcast::<Output>() {
                tell.lock().unwrap_or_else(PoisonError::into_inner)(Told {
                    output: *output,
                    at: Instant::now(),
                });
            }
        };
        let hosting = Hosting::new(BROKER, Box::new(machine))
            .route(SERVER, [TO_SERVERS, SERVER_BULK])
            .route(STORE, [TO_STORES, STORE_BULK]);
        let mut builder = Node::builder(net).machine(hosting).pool(1).connector(connector);
        for (id, address) in servers {
            builder = builder.address(*id, Address::Tcp(address.clone()));
        }
        let node = builder.start()?;
        Ok(Self { handle: node.handle().clone(), _node: node, members: cluster.roster().size() })
    }

    /// Tells the machine something; waits while it has no room.
    pub fn tell(&self, mut input: Input) {
        while let Err(Busy(back)) = self.handle.input(BROKER, input) {
            input = back;
            std::thread::sleep(AGAIN);
        }
    }

    /// What went over its links.
    #[must_use]
    pub fn carried(&self) -> Carried {
        let counters = self.handle.counters();
        let peers = (0..self.members).map(|id| counters.peer(NodeId(id)));
        let (sent, received) = peers.fold((0, 0), |(sent, received), peer| {
            (sent + peer.sent_bytes.get(), received + peer.received_bytes.get())
        });
        Carried { sent, received, links: counters.links_up.get() }
    }
}
