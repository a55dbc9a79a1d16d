//! The machines of a run: which node hosts which, and what they are told.

use synod_chopchop::broker::{self, Broker};
use synod_chopchop::client::{self, Client};
use synod_chopchop::config::{Class, Cluster, Rules};
use synod_chopchop::directory::{Directory, Member};
use synod_chopchop::server::{Server, ServerConfig};
use synod_chopchop::statement::BlsKeyBytes;
use synod_chopchop::store::{Quota, Store, StoreConfig, StoreParameters};
use synod_crypto::bls::BlsMembers;
use synod_crypto::check_key;
use synod_hotstuff::Replica;
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Unrecoverable};
use synod_quorum::{Epoch, Member as Voter, Model, NodeId, Quorums, Roster};
use synod_service::memory::{MemoryConfig, MemoryNode};
use synod_sim::{Keyring, Scenario};
use synod_ubft as ubft;

use super::executing::{self, App};
use super::keeper::Keeper;
use super::order::{Certified, Ideal, IdealConfig, Sequencer, SequencerConfig};
use crate::params::number;
use crate::systems::hotstuff::cluster;

/// Machine number of servers.
pub const SERVER: u8 = 0;
/// Machine number of stores.
pub const STORE: u8 = 1;
/// Machine number of the application beside a server.
pub const KEEPER: u8 = 2;
/// Machine number of brokers.
pub const BROKER: u8 = 3;
/// Machine number of clients.
pub const CLIENT: u8 = 4;
/// Machine number of the sequencer of the ideal ordering.
pub const SEQUENCER: u8 = 5;

/// Machine number of memory nodes.
pub const MEMORY: u8 = 6;

/// The first broker.
pub const BROKERS: u32 = 128;
/// The first client.
pub const CLIENTS: u32 = 160;
/// The node of the sequencer.
pub const ORDERER: NodeId = NodeId(255);
/// Bytes of a message.
pub const MESSAGE: u16 = 8;

/// What orders the items of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// A sequencer that never lies.
    Ideal,
    /// HotStuff.
    HotStuff,
    /// uBFT, with memory nodes.
    Ubft,
}

impl Ordering {
    /// The ordering of a system such as `chopchop/ideal`.
    #[must_use]
    pub fn of(system: &str) -> Option<Self> {
        match system {
            "chopchop/ideal" => Some(Self::Ideal),
            "chopchop/hotstuff" => Some(Self::HotStuff),
            super::OVER_UBFT => Some(Self::Ubft),
            _ => None,
        }
    }
}

/// Which nodes have which role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Number of servers.
    pub servers: u32,
    /// Number of brokers.
    pub brokers: u32,
    /// Number of clients of the genesis.
    pub known: u32,
    /// All clients, those of the genesis first.
    pub clients: Vec<NodeId>,
    /// Number of memory nodes; none but over uBFT.
    pub memory: u32,
}

impl Roles {
    /// The roles of a scenario: its guests are brokers first, then clients, the last of which sign up.
    ///
    /// # Errors
    /// There is no broker, no client, or no server.
    pub fn of(scenario: &Scenario) -> Result<Self, String> {
        let small = |key: &str, default: u64| u32::try_from(number(scenario, key, default)).unwrap_or(0);
        let brokers = small("brokers", 2);
        let clients = scenario.guests.saturating_sub(brokers);
        if !(1..=31).contains(&scenario.nodes) || !(1..=16).contains(&brokers) || !(1..=32).contains(&clients)
        {
            return Err(
                "a Chop Chop scenario has 1 to 31 servers, 1 to 16 brokers, 1 to 32 clients".to_owned()
            );
        }
        let newcomers = small("newcomers", 0).min(clients);
        let known = clients - newcomers;
        // A toy key need not be a point of the curve, and a card needs one that is.
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let sound = |id: &u32| check_key(&keyring.public(u64::from(*id))).is_ok();
        let later = (CLIENTS + known..ORDERER.0).filter(sound).take(newcomers as usize);
        let clients = (CLIENTS..CLIENTS + known).chain(later).map(NodeId).collect();
        let memory = if scenario.system == super::OVER_UBFT { small("memory", 3) } else { 0 };
        Ok(Self { servers: scenario.nodes, brokers, known, clients, memory })
    }

    /// The brokers.
    pub fn brokers(&self) -> impl Iterator<Item = NodeId> + use<> {
        (BROKERS..BROKERS + self.brokers).map(NodeId)
    }

    /// The memory nodes.
    pub fn memory(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.servers..self.servers.saturating_add(self.memory)).map(NodeId)
    }

    /// The clients that sign up.
    pub fn newcomers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.clients.iter().skip(self.known as usize).copied()
    }

    /// The id a client has in the genesis.
    #[must_use]
    pub fn id_of(&self, client: NodeId) -> Option<u32> {
        client.0.checked_sub(CLIENTS).filter(|id| *id < self.known)
    }
}

/// What machines are built from.
pub struct Plan {
    scenario: Scenario,
    /// What orders.
    pub ordering: Ordering,
    /// Who is there.
    pub roles: Roles,
    /// The cluster as every role knows it.
    pub cluster: Cluster,
    genesis: Directory,
    certified: Certified,
}

fn refused(why: impl core::fmt::Display) -> Unrecoverable {
    Unrecoverable(why.to_string())
}

/// The keys of a node as the directory has them.
#[must_use]
pub fn member(keyring: &Keyring, node: NodeId) -> Option<Member> {
    let keys = keyring.keys(u64::from(node.0));
    Some(Member { bls: BlsKeyBytes(keys.bls_public()?.to_bytes()), ed: keys.public() })
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// The scenario is none of this system.
    pub fn new(scenario: &Scenario) -> Result<Self, String> {
        let system = &scenario.system;
        let ordering = Ordering::of(system).ok_or_else(|| format!("no system is called {system}"))?;
        let roles = Roles::of(scenario)?;
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let servers = (0..roles.servers).map(|id| keyring.keys(u64::from(id)));
        let voters = servers.clone().map(|keys| Voter { key: keys.public(), power: 1 }).collect();
        let roster = Roster::new(Epoch(0), voters).map_err(|e| e.to_string())?;
        let bls: Option<Vec<_>> = servers.map(|keys| keys.bls_public()).collect();
        let bls = bls.and_then(BlsMembers::new).ok_or("servers have keys of their own")?;
        // With memory that only stops, servers are two for each that may lie, and one.
        let model = if ordering == Ordering::Ubft { Model::Majority } else { Model::Byzantine };
        let quorums = Quorums::new(model, roles.servers).map_err(|e| e.to_string())?;
        let rules = rules(scenario);
        let cluster = Cluster::new(cluster(), roster, bls, quorums, rules).map_err(|e| e.to_string())?;
        let mut genesis = Directory::default();
        for node in roles.clients.iter().take(roles.known as usize) {
            genesis.admit(&member(&keyring, *node).ok_or("clients have keys of their own")?);
        }
        let certified = Certified::default();
        let plan = Self { scenario: scenario.clone(), ordering, roles, cluster, genesis, certified };
        plan.store(NodeId(0)).map_err(|e| e.0)?;
        plan.broker(NodeId(BROKERS)).map_err(|e| e.0)?;
        plan.client(NodeId(CLIENTS)).map_err(|e| e.0)?;
        Ok(plan)
    }

    /// How many servers may be faulty, with the memory nodes that there are.
    #[must_use]
    pub fn faulty(&self) -> u32 {
        match self.ordering {
            Ordering::Ubft => self.roles.servers.saturating_sub(1) / 2,
            Ordering::Ideal | Ordering::HotStuff => crate::oracle::faults(self.roles.servers),
        }
    }

    /// Builds one machine of a node from its lane.
    ///
    /// # Errors
    /// The log contradicts itself or the configuration.
    pub fn machine(
        &self,
        node: NodeId,
        machine: u8,
        log: LaneLog,
        life: u32,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let seed = self.scenario.seed ^ u64::from(life) << 48;
        let config = HostConfig { own: node, machine, seed, jobs_max: 4_096, checked: true };
        Ok(match machine {
            STORE => Box::new(Host::<Store>::open(config, self.store(node)?, log)?),
            KEEPER => match App::of(&self.scenario) {
                App::Chain => Box::new(Host::<Keeper>::open(config, (), log)?),
                app => {
                    let place = (node, self.cluster.roster().clone(), life);
                    executing::host(&self.scenario, (app, self.roles.known), config, place, log)?
                }
            },
            BROKER => Box::new(Host::<Broker>::open(config, self.broker(node)?, log)?),
            CLIENT => Box::new(Host::<Client>::open(config, self.client(node)?, log)?),
            SEQUENCER => Box::new(Host::<Sequencer>::open(config, self.sequencer(), log)?),
            MEMORY => Box::new(Host::<MemoryNode>::open(config, self.memory(), log)?),
            _ => match self.ordering {
                Ordering::HotStuff => {
                    Box::new(Host::<Server<Replica>>::open(config, self.over_hotstuff(node)?, log)?)
                }
                Ordering::Ubft => {
                    Box::new(Host::<Server<ubft::Ordering>>::open(config, self.over_ubft(node)?, log)?)
                }
                Ordering::Ideal => {
                    Box::new(Host::<Server<Ideal>>::open(config, self.over_ideal(node)?, log)?)
                }
            },
        })
    }

    fn of(&self, key: &str, default: u64) -> u64 {
        number(&self.scenario, key, default)
    }

    fn lanes(&self) -> u8 {
        u8::try_from(self.of("lanes", 4)).unwrap_or(4)
    }

    fn over_ideal(&self, own: NodeId) -> Result<ServerConfig<Ideal>, Unrecoverable> {
        let ahead = self.of("ahead", 32);
        let order = Box::new(move |resume| IdealConfig { sequencer: ORDERER, resume, ahead });
        ServerConfig::new(self.cluster.clone(), own, self.lanes(), self.genesis.clone(), order)
            .map(|config| config.serving(self.known()))
            .map_err(refused)
    }

    fn sequencer(&self) -> SequencerConfig {
        let members = self.roles.servers;
        let agree = members - crate::oracle::faults(members);
        SequencerConfig {
            certified: self.certified.clone(),
            members,
            agree,
            retain: self.of("retain", 64),
            empty: self.of("empty", 50),
        }
    }

    /// Brokers of the genesis: sometimes the last one is none.
    fn known(&self) -> Vec<NodeId> {
        let strangers = usize::from(self.of("stranger", 0) == 1);
        let known = (self.roles.brokers as usize).saturating_sub(strangers).max(1);
        self.roles.brokers().take(known).collect()
    }

    fn store(&self, own: NodeId) -> Result<StoreConfig, Unrecoverable> {
        let work = self.of("quota_work", 25_000);
        let quota = Quota {
            bytes: self.of("quota_bytes", 256 << 10),
            batches: u32::try_from(self.of("quota_batches", 64)).unwrap_or(64),
            work,
            burst: (10 * work).max(1_000),
        };
        let parameters = StoreParameters {
            genesis: quota,
            other: quota,
            others_max: 4,
            retain_bytes: self.of("retain_bytes", 1 << 20),
            jobs_max: u32::try_from(self.of("store_jobs", 16)).unwrap_or(16),
            directory_wait: Span::millis(self.of("directory_wait_ms", 2_000)),
            pull_patience: Span::millis(self.of("pull_patience_ms", 250)),
            // Small, so that what a flood takes is not lost in it.
            cohort_bytes: 64 << 10,
        };
        StoreConfig::new(self.cluster.clone(), own, self.known(), parameters).map_err(refused)
    }

    fn broker(&self, own: NodeId) -> Result<broker::Config, Unrecoverable> {
        let defaults = broker::Parameters::of(self.roles.servers);
        let small = |key: &str, default: u64| u32::try_from(self.of(key, default)).unwrap_or(1);
        let window_min = Span::millis(self.of("window_min_ms", 10));
        let parameters = broker::Parameters {
            window_min,
            window_max: Span::millis(self.of("window_max_ms", 200)).max(window_min),
            pipeline_max: small("pipeline_max", 4),
            distil_min: small("distil_min", 2),
            distil_max: Span::millis(self.of("distil_max_ms", 300)),
            margin: small("margin", 0),
            search_max: small("search_max", 64),
            keep: Span::millis(self.of("keep_ms", 60_000)),
            keep_bytes: 1 << 20,
            links_max: 1_024,
            // Fewer than there are clients, so that keys give way.
            read_keys_max: 2,
            ..defaults
        };
        let place = own.0 - BROKERS;
        let class = Class::Fixed(MESSAGE);
        broker::Config::new(self.cluster.clone(), place, class, self.genesis.clone(), parameters)
            .map_err(refused)
    }

    fn client(&self, own: NodeId) -> Result<client::Config, Unrecoverable> {
        let submit = Span::millis(self.of("submit_ms", 1_500));
        let parameters = client::Parameters {
            submit,
            submit_max: Span::millis(self.of("submit_max_ms", 6_000)).max(submit),
            retransmit: Span::millis(self.of("retransmit_ms", 250)),
            queue_max: 256,
            burst: false,
        };
        // Each client has its own first broker.
        let mut brokers: Vec<NodeId> = self.roles.brokers().collect();
        brokers.rotate_left(own.0.wrapping_sub(CLIENTS) as usize % self.roles.brokers.max(1) as usize);
        let class = Class::Fixed(MESSAGE);
        client::Config::new(self.cluster.clone(), class, brokers, self.roles.id_of(own), parameters)
            .map_err(refused)
    }

    fn memory(&self) -> MemoryConfig {
        let members = self.roles.servers;
        let registers = members.saturating_sub(1) * super::beneath::TAIL;
        MemoryConfig { members, faulty: members.saturating_sub(1) / 2, registers, quota: 1_000_000 }
    }

    fn over_ubft(&self, own: NodeId) -> Result<ServerConfig<ubft::Ordering>, Unrecoverable> {
        let order = super::beneath::orderings(&self.scenario, &self.cluster, (own, self.roles.memory()))?;
        ServerConfig::new(self.cluster.clone(), own, self.lanes(), self.genesis.clone(), order)
            .map(|config| config.serving(self.known()))
            .map_err(refused)
    }

    fn over_hotstuff(&self, own: NodeId) -> Result<ServerConfig<Replica>, Unrecoverable> {
        let order = super::over::replicas(&self.scenario, &self.cluster, own).map_err(refused)?;
        ServerConfig::new(self.cluster.clone(), own, self.lanes(), self.genesis.clone(), order)
            .map(|config| config.serving(self.known()))
            .map_err(refused)
    }
}

fn rules(scenario: &Scenario) -> Rules {
    let of = |key: &str, default: u64| number(scenario, key, default);
    Rules {
        batch_max: u32::try_from(of("batch_max", 64)).unwrap_or(64),
        body_bytes_max: u32::try_from(of("body_bytes_max", 32 << 10)).unwrap_or(32 << 10),
        horizon: of("horizon", 1_000),
        checkpoint_every: of("checkpoint_every", 64),
    }
}
