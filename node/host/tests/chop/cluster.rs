//! A cluster in one process. Addresses of the genesis are of no use here: whoever starts tells the others its port.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use synod_config::{
    Address, Broker, Chop, Cluster, Effective, Genesis, Member, NodeConfig, NodeKey, Parameters, Protocol,
    Rules,
};
use synod_crypto::Seed;
use synod_host::chop::client::{ChopBroker, ChopClient, ChopClientSetup, ChopDelivered};
use synod_host::chop::{self, BrokerNode, BrokerSetup};
use synod_host::{Server, Setup, journal_config};
use synod_journal::{Journal, OsDisk, SyncMode};
use synod_quorum::NodeId;
use synod_wire::Bytes;

/// How long anything may take on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A directory that goes with the value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("synod-chop-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory is made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn key(number: u8) -> NodeKey {
    NodeKey::from_seed(Seed::new([number; 32]))
}

fn genesis(servers: u8, brokers: u8, change: &dyn Fn(&mut Parameters, &mut Chop)) -> Genesis {
    let member = |at: u8| {
        let (bls, pop) = key(at).bls_card().expect("the system has randomness");
        let port = 1 + 2 * u16::from(at);
        Member {
            client: Some(Address::loopback(port + 1)),
            bls: Some(bls),
            pop: Some(pop),
            ..Member::new(&format!("n{at}"), Address::loopback(port), key(at).public())
        }
    };
    let broker = |at: u8| Broker {
        name: format!("b{at}"),
        datagram: Address::loopback(900 + u16::from(at)),
        ed25519: key(100 + at).public(),
    };
    let cluster = Cluster {
        name: "chop".to_owned(),
        protocol: Protocol::Chopchop,
        app: "payments".to_owned(),
        drill: false,
    };
    let mut parameters = Parameters::defaults(Rules::Chain2Order, usize::from(servers));
    let mut chop = Chop { brokers: (0..brokers).map(broker).collect(), ..Chop::default() };
    parameters.checkpoint_every = Chop::CHECKPOINT_EVERY;
    change(&mut parameters, &mut chop);
    let members = (0..servers).map(member).collect();
    Genesis::build_chop(cluster, (parameters, chop), members, Vec::new()).expect("a sound genesis")
}

fn node(name: &str, sections: &str) -> NodeConfig {
    let text = format!(
        "[node]\nname = \"{name}\"\n[listen]\npeer = \"127.0.0.1:0\"\nclient = \"127.0.0.1:0\"\nhttp = \"\"\nresp = \"\"\n\
         metrics = \"\"\ndatagram = \"127.0.0.1:0\"\n{sections}"
    );
    let none: [(String, String); 0] = [];
    let read = Effective::load(Some(("node.toml", &text)), none.clone(), none);
    read.and_then(|effective| effective.config()).expect("a sound configuration")
}

/// The servers and brokers, each running or not.
pub(crate) struct Deployment {
    pub(crate) folder: Folder,
    pub(crate) genesis: Genesis,
    pub(crate) servers: Vec<Option<Server>>,
    pub(crate) brokers: Vec<Option<BrokerNode>>,
}

impl Deployment {
    pub(crate) fn new(servers: u8, brokers: u8, change: &dyn Fn(&mut Parameters, &mut Chop)) -> Self {
        let folder = Folder::new();
        let genesis = genesis(servers, brokers, change);
        for at in 0..servers {
            let wal = folder.0.join(format!("n{at}/wal"));
            std::fs::create_dir_all(&wal).expect("it is ours");
            let disk = OsDisk::open(&wal).expect("it is there");
            let config = journal_config(&genesis, NodeId(at.into()), SyncMode::Group);
            Journal::create(Box::new(disk), &config).expect("an empty directory");
        }
        let mut deployment = Self {
            folder,
            genesis,
            servers: (0..servers).map(|_| None).collect(),
            brokers: (0..brokers).map(|_| None).collect(),
        };
        (0..servers).for_each(|at| deployment.start_server(at));
        (0..brokers).for_each(|at| deployment.start_broker(at));
        deployment
    }

    pub(crate) fn start_server(&mut self, at: u8) {
        let name = format!("n{at}");
        let setup = Setup {
            genesis: self.genesis.clone(),
            node: node(&name, ""),
            key: key(at),
            own: NodeId(at.into()),
            data: self.folder.0.join(&name),
            genesis_file: self.folder.0.join("genesis.toml"),
        };
        let server = Server::start(setup).expect("it starts");
        let (peer, client) = (server.peer_address().clone(), server.client_address().cloned());
        for (id, other) in (0..).map(NodeId).zip(&self.servers) {
            let Some(other) = other else { continue };
            other.handle().set_address(server.own(), Some(peer.clone()));
            server.handle().set_address(id, Some(other.peer_address().clone()));
        }
        for broker in self.brokers.iter().flatten() {
            broker.handle().set_address(server.own(), client.clone());
        }
        self.servers[usize::from(at)] = Some(server);
    }

    pub(crate) fn start_broker(&mut self, at: u8) {
        let setup = BrokerSetup {
            genesis: self.genesis.clone(),
            node: node(&format!("b{at}"), "[broker]\nsockets = 1\n"),
            key: key(100 + at),
            number: at.into(),
            genesis_file: self.folder.0.join("genesis.toml"),
        };
        let broker = BrokerNode::start(setup).expect("it starts");
        for server in self.servers.iter().flatten() {
            broker.handle().set_address(server.own(), server.client_address().cloned());
        }
        self.brokers[usize::from(at)] = Some(broker);
    }

    /// The client of this number, which knows the brokers that run now.
    pub(crate) fn client(&self, number: u8) -> ChopClient {
        let broker = |node: &BrokerNode| {
            let at = usize::try_from(node.number()).expect("few");
            let key = self.genesis.chop().expect("of chopchop").brokers[at].ed25519;
            let address: SocketAddr = node.datagram();
            ChopBroker { address, key }
        };
        let setup = ChopClientSetup {
            cluster_name: self.genesis.cluster().name.clone(),
            cluster: chop::cluster(&self.genesis).expect("a sound genesis"),
            class: chop::class(&self.genesis).expect("a sound genesis"),
            brokers: self.brokers.iter().flatten().map(broker).collect(),
            id: None,
            key: key(200 + number),
            data: self.folder.0.join(format!("client{number}")),
            parameters: synod_chopchop::client::Parameters::default(),
        };
        ChopClient::open(setup).expect("it opens")
    }

    /// Waits until the servers that run agree on a delivered height of at least `height` and on the clients.
    pub(crate) fn level(&self, height: u64) -> Vec<(u64, u64, u64)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = |server: &Server| {
                let seen = server.chop().look();
                (seen.delivered, seen.directory, seen.height)
            };
            let all: Vec<_> = self.servers.iter().flatten().map(seen).collect();
            if all.iter().all(|one| one == &all[0] && one.0 >= height && one.0 == one.2) {
                return all;
            }
            assert!(Instant::now() < deadline, "servers stand at {all:?}, not at {height}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    pub(crate) fn stop(mut self) {
        for broker in self.brokers.drain(..).flatten() {
            broker.stop().expect("it ends well");
        }
        for server in self.servers.drain(..).flatten() {
            server.stop().expect("it ends well");
        }
    }
}

/// Runs a client's call.
pub(crate) fn wait<T>(call: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the system grants a runtime").block_on(call)
}

/// Signs up and gives the id.
pub(crate) fn sign_up(client: &ChopClient) -> u32 {
    match wait(client.sign_up(PATIENCE)) {
        Ok(id) => id,
        Err(error) => panic!("{error} {:?}", client.state()),
    }
}

/// Pays and waits for the receipt.
pub(crate) fn pay(client: &ChopClient, to: u32, amount: u32) -> ChopDelivered {
    let operation = synod_payments::operation(to, amount).expect("a short id");
    let payload = Bytes::copy_from_slice(&operation.to_le_bytes());
    match wait(client.submit(payload, PATIENCE)) {
        Ok(delivered) => delivered,
        Err(error) => panic!("{error} {:?}", client.state()),
    }
}
