//! The demo's servers and brokers, as processes, in a directory that goes with them.

use crate::bench::{ChopStart, Processes, Start};
use crate::cluster::ChopPlan;
use crate::deployment::describe_ports;
use crate::exit::bug;
use crate::health::{self, Brokering, Survey, metrics_address};
use crate::layout::{GENESIS_FILE, PORTS_FILE};
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use synod_chopchop::config::{Class, Cluster};
use synod_config::{Address, Chop, ClusterKind, Context, Genesis, Ports, SynError, code};
use synod_crypto::Seed;
use synod_host::chop;
use synod_host::chop::client::ChopBroker;
use synod_load::chop::KeyFamily;
use synod_load::usage;

/// Brokers.
pub(super) const BROKERS: u16 = 2;
/// Servers, of which one may do anything.
pub(crate) const SERVERS: u16 = 4;
/// The family of the crowd's keys.
const FAMILY: [u8; 32] = [20; 32];
/// How long a node may take to tell.
const PATIENCE: Duration = Duration::from_secs(2);

/// Servers, brokers and what their clients need to know.
pub(crate) struct ChopCluster {
    processes: Processes,
    /// The ports of all.
    pub(crate) ports: Ports,
    pub(super) family: Arc<KeyFamily>,
    /// What clients believe, out of the genesis and nothing else.
    pub(super) known: Cluster,
    pub(super) class: Class,
    pub(super) brokers: Vec<ChopBroker>,
    /// Clients of the crowd, who stand in the directory of the genesis.
    pub(super) painters: u32,
}

impl ChopCluster {
    /// Makes the genesis of a cluster with a board and a crowd of so many, and starts its processes.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) fn start(painters: u32) -> Result<Self, SynError> {
        let family = Arc::new(KeyFamily::new(&Seed::new(FAMILY)));
        let (bls, ed) = (family.bls.keys(0, painters), family.ed.keys(0, painters));
        let keys = bls.iter().zip(&ed);
        let directory: Vec<u8> = keys.flat_map(|(bls, ed)| bls.to_bytes().into_iter().chain(ed.0)).collect();
        let flag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let quiet = flag("log.level", "warn");
        // Whoever is a crowd is here to be distilled: windows are long enough for many, and all of them are waited for.
        let crowded = [
            quiet.clone(),
            flag("broker.links_per_second", "1000000"),
            flag("broker.window_min", "100ms"),
            flag("broker.distil_max", "5s"),
        ];
        let start = Start {
            name: "demo-chop",
            nodes: SERVERS,
            dead: 0,
            parameters: &|_| {},
            flags: std::slice::from_ref(&quiet),
        };
        // Whoever makes the keys of clients says so in the genesis.
        let chop = Chop { kind: ClusterKind::Bench, ..Chop::default() };
        let plan = ChopPlan { app: "pixels", chop, directory: Some(&directory), ..ChopPlan::default() };
        let chop = ChopStart { brokers: BROKERS, memory: 0, plan, flags: &crowded };
        let processes = Processes::start_chop(&start, chop)?;
        let ports = describe_ports(processes.directory())?;
        ports.write(&processes.directory().join(PORTS_FILE))?;
        let known = chop::cluster(&processes.genesis)?;
        let class = chop::class(&processes.genesis)?;
        let brokers = self::brokers(&processes.genesis)?;
        Ok(Self { processes, ports, family, known, class, brokers, painters })
    }

    /// The genesis.
    pub(crate) fn genesis(&self) -> &Genesis {
        &self.processes.genesis
    }

    /// The directory, which goes with the demo.
    pub(crate) fn directory(&self) -> PathBuf {
        self.processes.directory().to_owned()
    }

    /// Where the person of this number keeps what is its own.
    pub(super) fn home(&self, number: usize) -> PathBuf {
        self.directory().join("people").join(format!("p{number}"))
    }

    /// The context of the demo. A signal that ends this process removes it.
    pub(crate) fn context(&self, name: &str) -> Context {
        self.processes.takes_along(name);
        let addresses = crate::context::client_addresses(self.genesis());
        Context {
            name: name.to_owned(),
            genesis: self.processes.directory().join(GENESIS_FILE),
            addresses: addresses.iter().filter_map(|(_, text)| Address::parse(text)).collect(),
            directory: Some(self.directory()),
            resp: None,
            http: None,
            member: None,
            token_file: None,
            managed: true,
        }
    }

    /// Kills a server or, behind the servers, a broker, with SIGKILL.
    pub(super) fn kill(&mut self, index: usize) {
        self.processes.kill(index);
    }

    /// Starts it again and waits until all say that they are ready.
    ///
    /// # Errors
    /// What kept one of them.
    pub(super) fn launch(&mut self, index: usize) -> Result<(), SynError> {
        self.processes.launch(index)?;
        self.processes.await_all()
    }

    /// Name of a server or broker.
    pub(super) fn name(&self, index: usize) -> &str {
        self.processes.name(index)
    }

    /// What a broker says of itself.
    ///
    /// # Errors
    /// SYN-2001 or SYN-2003 if it does not answer.
    pub(super) fn broker(&self, number: u16) -> Result<Brokering, SynError> {
        let name = self.processes.name(usize::from(SERVERS + number));
        health::brokering(&metrics_address(&self.ports, name)?, PATIENCE)
    }

    /// Messages that a server delivered since its process started, if it answers.
    pub(super) fn delivered(&self, server: usize) -> Option<u64> {
        let address = metrics_address(&self.ports, self.processes.name(server)).ok()?;
        health::delivered(&address, PATIENCE).ok()
    }

    /// The server that leads the order now, as the servers say.
    pub(super) fn leader(&self, context: &Context) -> Option<usize> {
        let survey = Survey::take(context, PATIENCE).ok()?;
        let leader = survey.leader()?;
        survey.nodes.iter().position(|node| node.name == leader)
    }

    /// The largest memory that all processes and this one held, added up.
    pub(super) fn memory(&self) -> u64 {
        let own = std::iter::once(std::process::id());
        let all = self.processes.pids().into_iter().map(|(_, pid)| pid).chain(own);
        all.filter_map(usage).map(|used| used.rss_peak_bytes).sum()
    }
}

fn brokers(genesis: &Genesis) -> Result<Vec<ChopBroker>, SynError> {
    let stated = genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
    let of = |broker: &synod_config::Broker| {
        let text = broker.datagram.to_string();
        let mut all = text.to_socket_addrs().map_err(|error| bug("address", &error))?;
        let unknown = || SynError::of(code::NAME_NOT_FOUND, &[("host", &text)]);
        Ok(ChopBroker { address: all.next().ok_or_else(unknown)?, key: broker.ed25519 })
    };
    stated.iter().map(of).collect()
}
