//! The machines of a run: which node hosts which, and what they are told.

use std::sync::Arc;

use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Unrecoverable};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::memory::{MemoryConfig, MemoryNode};
use synod_sim::{Keyring, Scenario};
use synod_ubft::batch::View;
use synod_ubft::client::ClientConfig;
use synod_ubft::replica::ReplicaConfig;
use synod_ubft::sessions::SessionLimits;
use synod_ubft::{Client, Config, Memory, Parameters, Replica};

use super::ctb::machine::Broadcasts;
use super::ledger::Ledgers;
use super::names::CTB;
use crate::params::number;
use crate::systems::hotstuff::cluster;

/// Machine number of replicas, and of the clients that speak with them.
pub const REPLICA: u8 = 0;
/// Machine number of memory nodes.
pub const MEMORY: u8 = 6;
/// The first client.
pub const CLIENTS: u32 = 128;
/// The boot number that the first epoch lists.
const FIRST_BOOT: u64 = 1;
/// Requests that a client may have under way.
pub const WINDOW: u32 = 16;

/// Who is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Number of replicas.
    pub replicas: u32,
    /// Number of clients.
    pub clients: u32,
    /// Number of memory nodes.
    pub memory: u32,
}

impl Roles {
    /// The roles of a scenario.
    ///
    /// # Errors
    /// Replicas or memory nodes are even in number, too few or too many, or there is no client where there must be one.
    pub fn of(scenario: &Scenario) -> Result<Self, String> {
        let memory = u32::try_from(number(scenario, "memory", 3)).unwrap_or(0);
        let roles = Self { replicas: scenario.nodes, clients: scenario.guests, memory };
        let is_odd = |count: u32| !count.is_multiple_of(2);
        let clients = if scenario.system == CTB { 0..=0 } else { 1..=16 };
        let is_sound = is_odd(roles.replicas)
            && (3..=7).contains(&roles.replicas)
            && is_odd(memory)
            && (1..=7).contains(&memory)
            && clients.contains(&roles.clients);
        if is_sound {
            Ok(roles)
        } else {
            Err("a uBFT scenario has 3, 5 or 7 replicas, up to 7 memory nodes, an odd number, and 1 to 16 clients; \
                 one of broadcasts alone has no client"
                .to_owned())
        }
    }

    /// How many replicas may be faulty: f.
    #[must_use]
    pub const fn faulty(&self) -> u32 {
        (self.replicas - 1) / 2
    }

    /// How many memory nodes may have stopped: f_m.
    #[must_use]
    pub const fn stopped(&self) -> u32 {
        (self.memory - 1) / 2
    }

    /// The replicas.
    pub fn replicas(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.replicas).map(NodeId)
    }

    /// The memory nodes.
    pub fn memory(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.replicas..self.replicas + self.memory).map(NodeId)
    }

    /// The clients.
    pub fn clients(&self) -> impl Iterator<Item = NodeId> + use<> {
        (CLIENTS..CLIENTS + self.clients).map(NodeId)
    }

    /// Whether a node is a replica.
    #[must_use]
    pub const fn is_replica(&self, id: NodeId) -> bool {
        id.0 < self.replicas
    }

    /// Whether a node holds registers.
    #[must_use]
    pub const fn is_memory(&self, id: NodeId) -> bool {
        id.0 >= self.replicas && id.0 < self.replicas + self.memory
    }

    /// The place of the first memory node in the list of seats.
    #[must_use]
    pub const fn first_memory_place(&self) -> u32 {
        self.replicas + self.clients
    }
}

/// What machines are built from.
pub struct Plan {
    scenario: Scenario,
    /// Who is there.
    pub roles: Roles,
    /// What every replica knows, as the first one.
    pub genesis: Config,
    keyring: Keyring,
    ledgers: Ledgers,
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// The scenario is none of this system.
    pub fn new(scenario: &Scenario, ledgers: Ledgers) -> Result<Self, String> {
        let roles = Roles::of(scenario)?;
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let member = |id: NodeId| Member { key: keyring.public(u64::from(id.0)), power: 1 };
        let roster =
            Roster::new(Epoch(0), roles.replicas().map(member).collect()).map_err(|e| e.to_string())?;
        let genesis = Config {
            cluster: cluster(),
            epoch: Epoch(0),
            me: NodeId(0),
            roster: Arc::new(roster),
            first_view: View(0),
            memory: roles.memory().map(|node| Memory { node, boot: FIRST_BOOT }).collect(),
            parameters: parameters(scenario),
        };
        genesis.quorums().map_err(|why| format!("the parameters make no replica: {why:?}"))?;
        Ok(Self { scenario: scenario.clone(), roles, genesis, keyring, ledgers })
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
        if self.roles.is_memory(node) {
            return Ok(Box::new(Host::<MemoryNode>::open(config, self.memory(), log)?));
        }
        if !self.roles.is_replica(node) {
            return Ok(Box::new(Host::<Client>::open(config, self.client(node, life), log)?));
        }
        if self.scenario.system == CTB {
            let alone = Config { me: node, ..self.genesis.clone() };
            return Ok(Box::new(Host::<Broadcasts>::open(config, alone, log)?));
        }
        self.ledgers.borrow_mut().insert(node, super::ledger::Ledger::default());
        Ok(Box::new(Host::<Replica>::open(config, self.replica(node), log)?))
    }

    fn replica(&self, me: NodeId) -> ReplicaConfig {
        ReplicaConfig {
            config: Config { me, ..self.genesis.clone() },
            sessions: self.sessions(),
            archive_bytes_max: number(&self.scenario, "archive_bytes", 64 << 10),
            fast_path: number(&self.scenario, "slow_only", 0) == 0,
        }
    }

    fn sessions(&self) -> SessionLimits {
        SessionLimits { session_window: WINDOW, ..SessionLimits::default() }
    }

    fn memory(&self) -> MemoryConfig {
        MemoryConfig {
            members: self.roles.replicas,
            faulty: self.roles.faulty(),
            registers: self.genesis.registers(),
            quota: u32::try_from(number(&self.scenario, "quota", 1_000)).unwrap_or(1_000),
        }
    }

    fn client(&self, own: NodeId, life: u32) -> ClientConfig {
        ClientConfig {
            config: self.genesis.clone(),
            key: self.keyring.public(u64::from(own.0)),
            nonce: u64::from(life) << 32 | 1,
            session_window: WINDOW,
            retry: Span::millis(number(&self.scenario, "retry_ms", 20)),
            deadline: Span::secs(1_000_000),
        }
    }
}

fn parameters(scenario: &Scenario) -> Parameters {
    let of = |key: &str, default: u64| number(scenario, key, default);
    let small = |key: &str, default: u64| u32::try_from(of(key, default)).unwrap_or(1);
    let window = small("window", 32);
    Parameters {
        tail: small("tail", 16),
        window,
        batch_max: small("batch_max", 8),
        batch_bytes_max: 4 << 10,
        request_inline_max: 1 << 10,
        request_max: 1 << 10,
        echo_raw_max: small("echo_raw_max", 128),
        snapshot_slots: window / 2 * small("snapshot_halves", 4),
        fast: Span::micros(of("fast_us", 2_000)),
        echo: Span::micros(of("echo_us", 1_000)),
        suspect: Span::millis(of("suspect_ms", 50)),
        merge_promises: of("merge", 0) > 0,
    }
}
