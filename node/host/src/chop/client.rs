//! A client of Chop Chop as a part of a process: the machine, its journal, datagram links to the brokers.
//!
//! *What it gives.* [`ChopClient`] signs up, broadcasts one payload at a time and gives a receipt that anybody checks off
//! line, asks where it stands, and finishes what an earlier process of the same key left in flight. Everything it
//! promised is durable before a signature leaves.
//!
//! *One instance.* The journal's lock keeps two processes of one directory apart. Two directories with one key are two
//! clients to the servers: messages may then be told stale, but nothing is forged.
//!
//! *Bounds.* Payloads of [`PAYLOAD_MAX`] bytes, which is what one datagram carries: streams to brokers are not built.
//! `queue_max` payloads wait; the journal holds 8 MiB beside its newest segment.

mod calls;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use synod_chopchop::client::{Client, Config, Input, Parameters};
use synod_chopchop::config::{Class, Cluster};
use synod_chopchop::receipt::Receipt;
use synod_chopchop::vocabulary::{BROKER_CLIENTS, CLIENT as TO_CLIENTS};
use synod_config::{NodeKey, SynError, code};
use synod_crypto::PublicKey;
use synod_journal::{self as journal, Journal, OsDisk, SyncMode};
use synod_machine::Condition;
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_net::datagram::{LinkLimits, LinkPeer, LinkQueues, LinkSockets};
use synod_net::{Deliveries, Handle, Hosting, Keeper, Lane, Limits, Node, Role, Transport};
use synod_quorum::NodeId;
use synod_wire::Bytes;
use tokio::sync::oneshot;

use super::CLIENT;
use crate::error::{invalid, network, storage, unreadable};
use crate::random;

use calls::{Asked, Calls};

/// Longest payload: with it, every message of a client and every answer fits a datagram.
pub const PAYLOAD_MAX: usize = 1_024;
/// Size of a segment of a client's journal.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Log behind the last snapshot above which the journal is compacted.
const LOG_BYTES_MAX: u64 = 8 << 20;
/// Longest wait for the first answer of a broker's handshake before it is asked again.
const LINK_RTO_MIN: synod_machine::Span = synod_machine::Span::millis(250);

/// A broker as its clients reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChopBroker {
    /// Where it accepts datagram links.
    pub address: SocketAddr,
    /// The key that vouches for its links.
    pub key: PublicKey,
}

/// What a client is started from.
pub struct ChopClientSetup {
    /// Name of the cluster.
    pub cluster_name: String,
    /// The cluster.
    pub cluster: Cluster,
    /// What its brokers take.
    pub class: Class,
    /// The brokers, in the order in which they are asked.
    pub brokers: Vec<ChopBroker>,
    /// The client's place in the directory of the genesis, if it stands there.
    pub id: Option<u32>,
    /// The client's key; the key of multi-signatures is derived from it.
    pub key: NodeKey,
    /// Where its journal lies; made when there is none.
    pub data: PathBuf,
    /// What it may choose.
    pub parameters: Parameters,
}

/// Where a client stands, as far as this process was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChopState {
    /// Its id, once it has one.
    pub id: Option<u32>,
    /// The lowest number that it may sign, when servers or its own journal said so last.
    pub next_k: u64,
    /// Whether a message of an earlier process is still in flight.
    pub unfinished: bool,
    /// Brokers with a link now.
    pub linked: usize,
}

/// What became of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChopDelivered {
    /// The proof for others; none when the servers said that the message was delivered before, which proves nothing to
    /// others: SYN-3206.
    pub receipt: Option<Box<Receipt>>,
}

/// A running client. Dropping it stops its threads; [`ChopClient::stop`] also says whether the journal closed well.
pub struct ChopClient {
    node: Option<Node>,
    journal: Option<Keeper>,
    handle: Handle,
    calls: Arc<Calls>,
}

impl ChopClient {
    /// Opens or makes the journal, recovers the machine and calls the brokers, in the background.
    ///
    /// # Errors
    /// Those of the journal (SYN-1108 for that of another key, SYN-1112 if a process has it); SYN-1106 for a description
    /// that contradicts itself.
    pub fn open(setup: ChopClientSetup) -> Result<Self, SynError> {
        let (journal, log) = open_journal(&setup)?;
        let peers = links(&setup.brokers);
        let names = peers.iter().map(|peer| peer.id).collect();
        let config = Config::new(setup.cluster.clone(), setup.class, names, setup.id, setup.parameters)
            .map_err(|rule| invalid(rule.0))?;
        let host = HostConfig {
            own: NodeId::GUESTS,
            machine: CLIENT,
            seed: random::number(),
            jobs_max: 64,
            checked: cfg!(debug_assertions),
        };
        let machine = Host::<Client>::open(host, config, log).map_err(|why| {
            SynError::of(code::JOURNAL_CORRUPT, &[("segment", "?"), ("offset", "?")]).because(why)
        })?;
        let calls = Arc::new(Calls::new(machine.machine(), setup.class));
        let (keeper, lane) = keep(journal)?;
        let node = start(&setup, Hosting::new(CLIENT, Box::new(machine)).lane(lane), peers, &calls)?;
        Ok(Self { handle: node.handle().clone(), node: Some(node), journal: Some(keeper), calls })
    }

    /// Where this client stands.
    #[must_use]
    pub fn state(&self) -> ChopState {
        self.calls.state()
    }

    /// Enters the directory, or gives the id that the client has already.
    ///
    /// # Errors
    /// SYN-3202 when another client has one of its keys; what kept brokers from answering before `patience` was over.
    pub async fn sign_up(&self, patience: Duration) -> Result<u32, SynError> {
        if let Some(id) = self.state().id {
            return Ok(id);
        }
        let answer = self.ask(Asked::SignUp, Input::SignUp)?;
        match self.within(answer, patience).await {
            Some(told) => told?.id.ok_or_else(|| self.calls.silent("sign-up")),
            None => Err(self.calls.silent("sign-up")),
        }
    }

    /// Broadcasts a payload and waits until f + 1 servers say that it was delivered.
    ///
    /// # Errors
    /// SYN-3201 without an id, SYN-3203 for a payload that the class does not take, SYN-3002 for one that no datagram
    /// holds, SYN-3402 while too many wait; SYN-3501 when `patience` is over: the message stands in the journal and is
    /// sent again by the next process of this client.
    pub async fn submit(&self, payload: Bytes, patience: Duration) -> Result<ChopDelivered, SynError> {
        self.calls.takes(payload.len())?;
        let token = self.calls.token();
        let answer = self.ask(Asked::Submit(token), Input::Broadcast { token, payload })?;
        match self.within(answer, patience).await {
            Some(told) => Ok(ChopDelivered { receipt: told?.receipt }),
            None => Err(self.calls.undecided(patience)),
        }
    }

    /// Waits until the message that an earlier process left in flight is delivered; at once when there is none.
    ///
    /// # Errors
    /// SYN-3501 when `patience` is over.
    pub async fn finish(&self, patience: Duration) -> Result<Option<ChopDelivered>, SynError> {
        let Some(answer) = self.calls.unfinished() else { return Ok(None) };
        match self.within(answer, patience).await {
            Some(told) => Ok(Some(ChopDelivered { receipt: told?.receipt })),
            None => Err(self.calls.undecided(patience)),
        }
    }

    /// Asks f + 1 servers where this client stands; gives the lowest number that is free.
    ///
    /// # Errors
    /// SYN-3201 without an id; what kept brokers from answering before `patience` was over.
    pub async fn resync(&self, patience: Duration) -> Result<u64, SynError> {
        let answer = self.ask(Asked::Resync, Input::Resync)?;
        match self.within(answer, patience).await {
            Some(told) => told.map(|told| told.next_k),
            None => Err(self.calls.silent("state")),
        }
    }

    /// Stops the threads and closes the journal.
    ///
    /// # Errors
    /// What ended a thread or the journal.
    pub fn stop(mut self) -> Result<(), SynError> {
        if let Some(node) = self.node.take() {
            node.stop().map_err(|e| network(&e))?;
        }
        match self.journal.take() {
            Some(journal) => journal.close().map_err(|e| network(&e)),
            None => Ok(()),
        }
    }

    fn ask(&self, asked: Asked, input: Input) -> Result<oneshot::Receiver<calls::Answer>, SynError> {
        let answer = self.calls.wait(asked);
        match self.handle.input(CLIENT, input) {
            Ok(()) => Ok(answer),
            Err(_) => {
                self.calls.forget(asked);
                Err(calls::busy())
            }
        }
    }

    async fn within(
        &self,
        answer: oneshot::Receiver<calls::Answer>,
        patience: Duration,
    ) -> Option<calls::Answer> {
        tokio::time::timeout(patience, answer).await.ok()?.ok()
    }
}

/// Links to the brokers, by ids that a client knows them by.
fn links(brokers: &[ChopBroker]) -> Vec<LinkPeer> {
    let ids = (NodeId::GUESTS.0 + 1..).map(NodeId);
    ids.zip(brokers).map(|(id, broker)| LinkPeer { id, address: broker.address, key: broker.key }).collect()
}

/// The journal of this key: a directory of another one is refused by its header.
fn open_journal(setup: &ChopClientSetup) -> Result<(Journal, LaneLog), SynError> {
    let public = setup.key.public();
    let owner = public.0.first_chunk().map_or(0, |head| u32::from_le_bytes(*head));
    let mut config = journal::Config::new(setup.cluster.digest().0, owner, 1);
    config.mode = SyncMode::Group;
    config.segment_bytes = SEGMENT_BYTES;
    config.salt = random::number();
    let wal = setup.data.join("wal");
    let disk = || OsDisk::open(&wal).map_err(|e| unreadable(&wal, &e));
    match Journal::create(Box::new(disk()?), &config) {
        Ok(()) | Err(journal::Error::AlreadyInitialised) => {}
        Err(error) => return Err(storage(&error)),
    }
    let opened = Journal::open(Box::new(disk()?), config).map_err(|e| storage(&e))?;
    if opened.damage.is_some() {
        tracing::error!(
            code = "SYN-5001",
            "the client's journal is damaged: it asks servers where it stands"
        );
    }
    let log = opened.lanes.into_iter().next().map_or_else(
        || LaneLog { condition: Condition::Damaged, records: Vec::new() },
        |lane| LaneLog {
            condition: match lane.condition {
                journal::Condition::Fresh => Condition::Fresh,
                journal::Condition::Clean => Condition::Clean,
                journal::Condition::Damaged => Condition::Damaged,
            },
            records: lane.records,
        },
    );
    Ok((opened.journal, log))
}

fn keep(journal: Journal) -> Result<(Keeper, Lane), SynError> {
    let (keeper, lanes) =
        synod_net::keep(journal, LOG_BYTES_MAX, Box::new(|_| {})).map_err(|e| network(&e))?;
    match lanes.into_iter().next() {
        Some(lane) => Ok((keeper, lane)),
        None => Err(invalid("the journal of a client has one lane")),
    }
}

fn start(
    setup: &ChopClientSetup,
    hosting: Hosting,
    peers: Vec<LinkPeer>,
    calls: &Arc<Calls>,
) -> Result<Node, SynError> {
    let is_v6 = peers.iter().any(|peer| peer.address.is_ipv6());
    let local = if is_v6 { "[::]:0" } else { "0.0.0.0:0" };
    let limits = LinkLimits { rto_min: LINK_RTO_MIN, buffer_bytes: 1 << 20, ..LinkLimits::default() };
    let sockets = LinkSockets::caller(local, 1, limits).map_err(|e| network(&e))?;
    let net = synod_net::Config {
        own: NodeId::GUESTS,
        role: Role::Guest,
        seed: setup.key.seed().clone(),
        cluster_name: setup.cluster_name.clone(),
        cluster: setup.cluster.digest(),
        roster: setup.cluster.roster().clone(),
        transport: Transport::Tls,
        limits: Limits::default(),
    };
    let to = calls.clone();
    let connector = move |_: u8, output: Box<dyn Any + Send>, _: &mut Deliveries<'_>| {
        if let Ok(output) = output.downcast() {
            to.hear(*output);
        }
    };
    let queues = LinkQueues { inward: TO_CLIENTS, outward: BROKER_CLIENTS };
    Node::builder(net)
        .machine(hosting)
        .keys(setup.key.to_bls_keys()?)
        .connector(connector)
        .observer(calls.clone())
        .dial_links(sockets, CLIENT, queues, peers)
        .start()
        .map_err(|e| network(&e))
}
