//! One member of a cluster, running: machines, journal, sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use synod_config::{ClusterKind, Effective, Genesis, NodeConfig, NodeKey, SynError, Sync};
use synod_journal::thread::Durable;
use synod_journal::{self as journal, Journal, OsDisk, SyncMode};
use synod_machine::Condition;
use synod_machine::host::{Hosted, LaneLog};
use synod_net::{Address, Handle, Hosting, Keeper, Lane, Listener, Node, NodeBuilder, Role, Transport};
use synod_quorum::NodeId;
use synod_service::{BatchInput, ExecutorInput};

use crate::chop::ChopMeters;
use crate::disk::Timed;
use crate::drill::{Drill, Drilled};
use crate::error::{ended, listen, network, storage, unreadable};
use crate::meters::Meters;
use crate::pay::{self, Teller};
use crate::plan::{self, EXECUTOR, Linked, Part, Plan};
use crate::random;
use crate::ubft::{self, Standing};
use crate::watch::{Seen, Watch};

/// Log behind the last snapshot above which the journal is compacted, at least and at most.
const LOG_BYTES_MIN: u64 = 256 << 20;
const LOG_BYTES_MAX: u64 = 1 << 30;

/// What a member is started from, read and checked.
pub struct Setup {
    /// The cluster.
    pub genesis: Genesis,
    /// This node's own choices.
    pub node: NodeConfig,
    /// This node's key.
    pub key: NodeKey,
    /// Which member it is.
    pub own: NodeId,
    /// Where the journal lies.
    pub data: PathBuf,
    /// The genesis' file; what it names by digest stands beside it.
    pub genesis_file: PathBuf,
}

impl Setup {
    /// Reads `node.toml` in `folder` with its layers, and what it names.
    ///
    /// # Errors
    /// The code of the file, key or relation that is wrong.
    pub fn read(
        folder: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &[(String, String)],
    ) -> Result<Self, SynError> {
        let effective = Effective::read(&folder.join("node.toml"), env, flags.iter().cloned())?;
        let node = effective.config()?.clone();
        let genesis_file = folder.join(&node.node.genesis);
        let genesis = Genesis::read(&genesis_file)?;
        let key = NodeKey::read(&folder.join(&node.node.key_file))?;
        let own = node.check(&genesis, &key.public())?;
        let data = folder.join(&node.node.data_dir);
        Ok(Self { genesis, node, key, own, data, genesis_file })
    }

    fn sync(&self) -> SyncMode {
        match self.node.storage.sync {
            Sync::Always => SyncMode::Always,
            Sync::NoneUnsafe => SyncMode::NoneUnsafe,
            Sync::VolatileUnsafe => SyncMode::VolatileUnsafe,
            _ => SyncMode::Group,
        }
    }

    /// Whether the clients' keys are made up by a load generator, which knows all of their secrets.
    #[must_use]
    pub fn is_bench(&self) -> bool {
        self.genesis.chop().is_some_and(|chop| chop.kind == ClusterKind::Bench)
    }

    /// The journal's layout for this member.
    #[must_use]
    pub fn journal(&self) -> journal::Config {
        journal_config(&self.genesis, self.own, self.sync())
    }
}

/// How the journal of member `own` is laid out; `synod init` makes it, a node opens it.
#[must_use]
pub fn journal_config(genesis: &Genesis, own: NodeId, mode: SyncMode) -> journal::Config {
    let mut config = journal::Config::new(genesis.id().0, own.0, plan::lanes(genesis, own));
    config.mode = mode;
    config.salt = random::number();
    config
}

/// A running member.
pub struct Server {
    node: Option<Node>,
    handle: Handle,
    journal: Option<Keeper>,
    /// Holds the directory's lock in mode `volatile-UNSAFE`.
    locked: Option<Journal>,
    watch: Arc<Watch>,
    drill: Option<Arc<Drill>>,
    teller: Option<Arc<Teller>>,
    standing: Option<Arc<dyn Standing>>,
    genesis: Genesis,
    own: NodeId,
    durability: &'static str,
    peer: Address,
    client: Option<Address>,
}

impl Server {
    /// Recovers the journal and the machines, binds the listeners and starts the threads. A failed write or sync
    /// ends the process with exit code 9; a log that was rolled back stops the node: [`Server::failure`].
    ///
    /// # Errors
    /// The code of whatever refused: journal, port, configuration.
    pub fn start(setup: Setup) -> Result<Self, SynError> {
        Self::start_as(setup, |_, hosted| hosted)
    }

    /// The same, but each machine, named by its number, runs inside what `wrap` makes of it: for tests in which a process lies.
    ///
    /// # Errors
    /// Those of [`Server::start`].
    pub fn start_as(
        setup: Setup,
        wrap: impl FnMut(u8, Box<dyn Hosted>) -> Box<dyn Hosted>,
    ) -> Result<Self, SynError> {
        let config = setup.journal();
        let wal = setup.data.join("wal");
        let disk = OsDisk::open(&wal).map_err(|e| unreadable(&wal, &e))?;
        let watch = Arc::new(Watch::default());
        let disk = Timed::new(disk, watch.clone());
        let opened = Journal::open(Box::new(disk), config).map_err(|e| storage(&e))?;
        if let Some(damage) = &opened.damage {
            told(damage);
        }
        let damaged: Vec<bool> = opened.lanes.iter().map(is_damaged).collect();
        let lanes = opened.lanes.into_iter().map(machine_log).collect();
        let mut plan = plan::recover(&setup, lanes, &watch)?;
        wrapped(&mut plan, wrap);
        let drill = setup.genesis.cluster().drill.then(Arc::<Drill>::default);
        drill.iter().for_each(|drill| drilled(&mut plan, drill));
        let (journal, locked, writers) = lanes_of(opened.journal, &setup, &watch, plan.parts.len())?;

        let peer = Listener::tcp(&setup.node.listen.peer.to_string()).map_err(listen("listen.peer"))?;
        let client = match &setup.node.listen.client {
            Some(address) => Some(Listener::tcp(&address.to_string()).map_err(listen("listen.client"))?),
            None => None,
        };
        let peer_address = peer.address().map_err(|e| network(&e))?;
        let client_address = client.as_ref().map(Listener::address).transpose().map_err(|e| network(&e))?;

        let mut builder = Node::builder(net_config(&setup))
            .listen(peer)
            .pool(setup.node.runtime.jobs)
            .observer(watch.clone())
            .brake(watch.brake().clone())
            .named_guests(plan.named)
            .connector(plan.connector);
        if let Some(keys) = plan.keys {
            builder = builder.keys(keys);
        }
        if let Some(client) = client {
            builder = builder.listen_guests(client, &plan.guests);
        }
        let numbers: Vec<u8> = plan.parts.iter().map(|part| part.number).collect();
        builder = hosting(builder, plan.parts, writers, plan.linked.as_ref());
        for (id, member) in (0_u32..).map(NodeId).zip(setup.genesis.members()) {
            if id != setup.own && member.peer.port() != 0 {
                builder = builder.address(id, Address::Tcp(member.peer.to_string()));
            }
        }
        let node = builder.start().map_err(|e| network(&e))?;
        let handle = node.handle().clone();
        plan.teller.iter().for_each(|teller| pay::begin(teller, &handle));
        plan.standing.iter().for_each(|standing| standing.begin(&handle));
        let lost = numbers.iter().zip(damaged).filter(|(_, damaged)| *damaged).map(|(number, _)| *number);
        lost.filter(|number| plan.readmitted.contains(number)).for_each(|number| handle.readmit(number));
        let readmitting = handle.clone();
        watch.on_rejoin(move |machine| readmitting.readmit(machine));
        Ok(Self {
            handle,
            node: Some(node),
            journal,
            locked,
            watch,
            drill,
            teller: plan.teller,
            standing: plan.standing,
            durability: setup.sync().durability(),
            genesis: setup.genesis,
            own: setup.own,
            peer: peer_address,
            client: client_address,
        })
    }

    /// Where members reach this node.
    #[must_use]
    pub const fn peer_address(&self) -> &Address {
        &self.peer
    }

    /// Where binary clients reach this node.
    #[must_use]
    pub const fn client_address(&self) -> Option<&Address> {
        self.client.as_ref()
    }

    /// Which member this is.
    #[must_use]
    pub const fn own(&self) -> NodeId {
        self.own
    }

    /// The cluster.
    #[must_use]
    pub const fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The runtime's handle: counters, memory, inputs.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// `fsync`, `nosync` or `volatile`, as results label it.
    #[must_use]
    pub const fn durability(&self) -> &'static str {
        self.durability
    }

    /// The faults this node can be told to have; `None` unless the genesis is for drills.
    #[must_use]
    pub const fn drill(&self) -> Option<&Arc<Drill>> {
        self.drill.as_ref()
    }

    /// Who speaks with the replica of a payment system; `None` at a node of another protocol.
    #[must_use]
    pub const fn teller(&self) -> Option<&Arc<Teller>> {
        self.teller.as_ref()
    }

    /// The first slot that a replica of uBFT has not executed, and the digest of its application's state before it; `None` at a node
    /// of another protocol.
    #[must_use]
    pub fn standing(&self) -> Option<(u64, synod_crypto::Hash)> {
        self.standing.as_ref().and_then(|standing| standing.standing())
    }

    /// What a server of Chop Chop counted; all zero at a node of another protocol.
    #[must_use]
    pub fn chop(&self) -> &ChopMeters {
        self.watch.chop()
    }

    /// Asks the executor for news, which a later [`Server::look`] shows.
    pub fn ask(&self) {
        // Without room the last answer stands: asking never waits.
        if self.teller.is_some() || self.standing.is_some() {
            // A teller tells what is asked of it, and a replica that executes by itself tells what it does.
        } else if self.genesis.chop().is_some() {
            let _ = self.handle.input(EXECUTOR, BatchInput::Status);
        } else {
            let _ = self.handle.input(EXECUTOR, ExecutorInput::Status);
        }
    }

    /// What the node's machines told so far; asks the executor for news.
    #[must_use]
    pub fn look(&self) -> Seen {
        self.ask();
        self.watch.look()
    }

    /// What the node measured.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        self.watch.meters()
    }

    /// Why the node stopped by itself: SYN-5005 when its log was rolled back, SYN-6006 when its state is not the one that
    /// was certified and could not be repaired. Nothing has left it since; what is left to do is [`Server::stop`], which says the same.
    #[must_use]
    pub fn failure(&self) -> Option<SynError> {
        let why = *self.watch.ended().borrow();
        why.map(|why| ended(&self.genesis, why))
    }

    /// Ends with [`Server::failure`] as soon as there is one; else never.
    pub fn failing(&self) -> impl Future<Output = SynError> + Send + use<> {
        let (mut heard, genesis) = (self.watch.ended(), self.genesis.clone());
        async move {
            loop {
                let why = *heard.borrow_and_update();
                if let Some(why) = why {
                    return ended(&genesis, why);
                }
                if heard.changed().await.is_err() {
                    // A node that was stopped by its owner fails no more.
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Stops the threads and closes the journal.
    ///
    /// # Errors
    /// What ended a thread or the journal; why the node stopped by itself.
    pub fn stop(mut self) -> Result<(), SynError> {
        self.watch.deafen();
        if let Some(node) = self.node.take() {
            node.stop().map_err(|e| network(&e))?;
        }
        if let Some(teller) = &self.teller {
            teller.end();
        }
        if let Some(standing) = &self.standing {
            standing.end();
        }
        drop(self.locked.take());
        if let Some(journal) = self.journal.take() {
            journal.close().map_err(|e| network(&e))?;
        }
        self.failure().map_or(Ok(()), Err)
    }
}

/// The machines with their lanes, and who is linked beside members.
fn hosting(
    mut builder: NodeBuilder,
    parts: Vec<Part>,
    writers: Vec<Lane>,
    linked: Option<&Linked>,
) -> NodeBuilder {
    if let Some(linked) = linked {
        builder = builder.plan(&linked.plan);
        for (id, address) in &linked.addresses {
            builder = builder.address(NodeId(*id), Address::Tcp(address.clone()));
        }
    }
    for (part, lane) in parts.into_iter().zip(writers) {
        let mut hosting = Hosting::new(part.number, part.hosted).lane(lane).reactor(part.reactor);
        if let Some(Linked { memory: (number, queues), asking, .. }) = linked
            && *asking == part.number
        {
            hosting = hosting.memory(*number, queues.clone());
        }
        let routed = part.routes.into_iter().fold(hosting, |hosting, (to, queues)| hosting.route(to, queues));
        builder = builder.machine(routed);
    }
    builder
}

/// The machines of a node, each inside what a test puts around it.
fn wrapped(plan: &mut Plan, mut wrap: impl FnMut(u8, Box<dyn Hosted>) -> Box<dyn Hosted>) {
    for part in std::mem::take(&mut plan.parts) {
        let hosted = wrap(part.number, part.hosted);
        plan.parts.push(Part { hosted, ..part });
    }
}

/// The machines of a node of a drill: the only ones beside which its key may sign twice.
fn drilled(plan: &mut Plan, drill: &Arc<Drill>) {
    let mut signer = plan.signer.take();
    for part in std::mem::take(&mut plan.parts) {
        let hosted = Drilled::wrap(part.hosted, drill, signer.take());
        plan.parts.push(Part { hosted, ..part });
    }
}

/// Says where the journal is damaged, and what this node does about it.
fn told(damage: &journal::Spot) {
    tracing::error!(
        code = "SYN-5001",
        segment = damage.segment,
        offset = damage.offset,
        "the journal is damaged: this node votes for nothing and listens until it can rejoin"
    );
}

fn is_damaged(lane: &journal::LaneLog) -> bool {
    lane.condition == journal::Condition::Damaged
}

pub(crate) fn machine_log(lane: journal::LaneLog) -> LaneLog {
    LaneLog {
        condition: match lane.condition {
            journal::Condition::Fresh => Condition::Fresh,
            journal::Condition::Clean => Condition::Clean,
            journal::Condition::Damaged => Condition::Damaged,
        },
        records: lane.records,
    }
}

/// The journal's thread, or the journal that nobody writes, and the lanes.
type Kept = (Option<Keeper>, Option<Journal>, Vec<Lane>);

/// The journal's thread and its lanes, or lanes that forget.
fn lanes_of(journal: Journal, setup: &Setup, watch: &Arc<Watch>, count: usize) -> Result<Kept, SynError> {
    watch.meters().has_segments(u64::try_from(journal.segments()).unwrap_or(u64::MAX));
    if setup.sync() == SyncMode::VolatileUnsafe {
        let forgetful = (0..count).map(|_| synod_net::Volatile::lane()).collect();
        return Ok((None, Some(journal), forgetful));
    }
    let log_bytes_max = setup.node.storage.retain_bytes.clamp(LOG_BYTES_MIN, LOG_BYTES_MAX);
    let (keeper, lanes) = synod_net::keep(journal, log_bytes_max, synced(watch)).map_err(|e| network(&e))?;
    Ok((Some(keeper), None, lanes))
}

/// Hears of each group of writes that was settled.
fn synced(watch: &Arc<Watch>) -> synod_net::Synced {
    let watch = watch.clone();
    Box::new(move |durable: &Durable| {
        let meters = watch.meters();
        meters.records_per_sync.record(durable.records);
        meters.has_segments(durable.segments);
        if durable.compacted_us > 0 {
            meters.snapshot.time(Duration::from_micros(durable.compacted_us));
        }
    })
}

fn net_config(setup: &Setup) -> synod_net::Config {
    let mut limits =
        if setup.genesis.ubft().is_some() { ubft::limits() } else { synod_net::Limits::default() };
    limits.guests_max = setup.node.limits.clients_max;
    synod_net::Config {
        own: setup.own,
        role: Role::Member,
        seed: setup.key.seed().clone(),
        cluster_name: setup.genesis.cluster().name.clone(),
        cluster: setup.genesis.id(),
        roster: setup.genesis.linked(),
        transport: Transport::Tls,
        limits,
    }
}
