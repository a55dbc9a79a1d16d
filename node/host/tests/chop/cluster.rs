//! A cluster in one process. Addresses of the genesis are of no use here: whoever starts tells the others its port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use synod_config::{
    Address, Broker, Chop, Cluster, Effective, Genesis, Member, MemoryMember, NodeConfig, NodeKey,
    Parameters, Protocol, Rules, Ubft,
};
use synod_crypto::Seed;
use synod_host::chop::client::{ChopBroker, ChopClient, ChopClientSetup, ChopDelivered};
use synod_host::chop::{self, BrokerNode, BrokerSetup};
use synod_host::ubft::{MemoryServer, MemorySetup};
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

/// With memory nodes uBFT orders, else HotStuff.
fn genesis((servers, brokers, memory): (u8, u8, u8), change: &dyn Fn(&mut Parameters, &mut Chop)) -> Genesis {
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
    let node = |at: u8| MemoryMember {
        name: format!("m{at}"),
        memory: Address::loopback(950 + u16::from(at)),
        ed25519: key(150 + at).public(),
    };
    let members = (0..servers).map(member).collect();
    let made = if memory == 0 {
        Genesis::build_chop(cluster, (parameters, chop), members, Vec::new())
    } else {
        let ubft = Ubft { memory: (0..memory).map(node).collect(), ..Ubft::default() };
        let parts = (parameters.checkpoint_every, ubft, chop);
        Genesis::build_chop_over_ubft(cluster, parts, members, Vec::new())
    };
    made.expect("a sound genesis")
}

fn node(name: &str, sections: &str) -> NodeConfig {
    let text = format!(
        "[node]\nname = \"{name}\"\n[listen]\npeer = \"127.0.0.1:0\"\nclient = \"127.0.0.1:0\"\nhttp = \"\"\nresp = \"\"\n\
         metrics = \"\"\ndatagram = \"127.0.0.1:0\"\nmemory = \"127.0.0.1:0\"\n{sections}"
    );
    let none: [(String, String); 0] = [];
    let read = Effective::load(Some(("node.toml", &text)), none.clone(), none);
    read.and_then(|effective| effective.config()).expect("a sound configuration")
}

/// An empty journal for the node of this id in `folder`.
fn journal(folder: &Path, genesis: &Genesis, own: NodeId, mode: SyncMode) {
    let wal = folder.join("wal");
    std::fs::create_dir_all(&wal).expect("it is ours");
    let disk = OsDisk::open(&wal).expect("it is there");
    Journal::create(Box::new(disk), &journal_config(genesis, own, mode)).expect("an empty directory");
}

/// The servers, brokers and memory nodes, each running or not.
pub(crate) struct Deployment {
    pub(crate) folder: Folder,
    pub(crate) genesis: Genesis,
    pub(crate) servers: Vec<Option<Server>>,
    pub(crate) brokers: Vec<Option<BrokerNode>>,
    pub(crate) memory: Vec<Option<MemoryServer>>,
}

impl Deployment {
    pub(crate) fn new(servers: u8, brokers: u8, change: &dyn Fn(&mut Parameters, &mut Chop)) -> Self {
        Self::of((servers, brokers, 0), change)
    }

    /// The same over uBFT, where there are memory nodes.
    pub(crate) fn of(
        (servers, brokers, memory): (u8, u8, u8),
        change: &dyn Fn(&mut Parameters, &mut Chop),
    ) -> Self {
        let folder = Folder::new();
        let genesis = genesis((servers, brokers, memory), change);
        for at in 0..servers {
            journal(&folder.0.join(format!("n{at}")), &genesis, NodeId(at.into()), SyncMode::Group);
        }
        for at in 0..memory {
            let own = NodeId(u32::from(servers) + u32::from(at));
            journal(&folder.0.join(format!("m{at}")), &genesis, own, SyncMode::Always);
        }
        let mut deployment = Self {
            folder,
            genesis,
            servers: (0..servers).map(|_| None).collect(),
            brokers: (0..brokers).map(|_| None).collect(),
            memory: (0..memory).map(|_| None).collect(),
        };
        (0..memory).for_each(|at| deployment.start_memory(at));
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
        for node in self.memory.iter().flatten() {
            server.handle().set_address(node.own(), Some(node.address().clone()));
        }
        for broker in self.brokers.iter().flatten() {
            broker.handle().set_address(server.own(), client.clone());
        }
        self.servers[usize::from(at)] = Some(server);
    }

    pub(crate) fn start_memory(&mut self, at: u8) {
        let name = format!("m{at}");
        let (own, _) = self.genesis.memory_node(&name).expect("it is of the genesis");
        let setup = MemorySetup {
            genesis: self.genesis.clone(),
            node: node(&name, ""),
            key: key(150 + at),
            own,
            data: self.folder.0.join(&name),
        };
        let memory = MemoryServer::start(setup).expect("it starts");
        for server in self.servers.iter().flatten() {
            server.handle().set_address(own, Some(memory.address().clone()));
        }
        self.memory[usize::from(at)] = Some(memory);
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
        for node in self.memory.drain(..).flatten() {
            node.stop().expect("it ends well");
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
