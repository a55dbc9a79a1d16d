//! The store: takes batches in, witnesses them, keeps bodies and fetches those that are missing (section 4.7).
//!
//! *Composition.* A machine beside the server, with a lane of its own, so that syncing bodies never delays a vote. A
//! connector takes the server's `Ordered`, `Need`, `Recent` and `Progress` to [`StoreInput`] and [`StoreOutput`] back, in the
//! order in which they were given.
//!
//! *What is durable when.* Body and `Pinned` record stand before the shard in the lane, so a shard that left means a body
//! that is kept until every server has a durable checkpoint behind it, or the batch expires without being ordered.
//!
//! *Bounds.* [`Bounded`]: quotas of brokers, bodies in jobs and pulls, keys of the directory, 400 bytes for each body on disk.

mod cohort;
mod config;
mod intake;
mod job;
mod pull;
mod quota;
mod record;
mod release;
mod retrieve;
mod witness;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Signature};
use synod_machine::planted;
use synod_machine::{
    Bounded, Condition, Event, Log, Machine, Never, QueueSpec, Recover, Time, Turn, Unrecoverable,
};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

pub use cohort::{Cohort, Known};
pub use config::{Quota, StoreConfig, StoreParameters};
pub use job::{CheckBatch, Sound, StoreDone, StoreJob, Task, Why};
pub use record::{Ordered, Pinned, StoreRecord};

use crate::content::{AnyBatch, AnyHeader};
use crate::directory::View;
use crate::fault::Fault;
use crate::keybook::KeyBook;
use crate::message::{Pull, StoreMessage};
use crate::rations::Rations;
use crate::statement::Witness;
use crate::trace::{Note, NoteName};
use crate::vocabulary::{Message, queues};
use cohort::Cohorts;
use config::OTHERS;
use pull::Pulling;
use quota::Accounts;
pub(crate) use quota::work_of;
use witness::Checking;

/// Bytes in memory and on disk that stand for a batch beside its body.
const OVERHEAD: u64 = 4_096;
/// Bytes in memory for a batch whose body is on disk.
const HELD_BYTES: u64 = 640;
/// Brokers that are remembered for one batch.
const BROKERS_MAX: usize = 8;
/// Bodies that are kept for servers that pull them.
const CACHED: usize = 4;
/// Records after which the lane is worth rewriting.
const COMPACT_EVERY: u32 = 4_096;

/// What the server at this node says.
#[derive(Clone, Debug)]
pub enum StoreInput {
    /// An item was accepted at a height: its batch is kept, and fetched from `signers` if it is not here.
    Ordered {
        /// What was witnessed.
        statement: Witness,
        /// By whom.
        signers: NodeSet,
        /// The height.
        height: u64,
    },
    /// The server wants an ordered batch, answered by `Have` or `Gone`.
    Need(Hash),
    /// After a restart: the digests of the last heights, ending at `last`.
    Recent {
        /// Height of the last one.
        last: u64,
        /// The digests, rising.
        digests: Vec<Hash>,
    },
    /// Where the server stands.
    Progress(Progress),
}

/// Where a server stands.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Batches accepted, genesis included (H).
    pub height: u64,
    /// Batches delivered, genesis included.
    pub delivered: u64,
    /// The directory.
    pub directory: View,
    /// Height of the last certified checkpoint.
    pub stable: u64,
    /// Height that a durable checkpoint of every server covers.
    pub collected: u64,
}

/// What the store tells the server at this node.
#[derive(Clone, Debug)]
pub enum StoreOutput {
    /// A needed batch.
    Have {
        /// Its digest.
        digest: Hash,
        /// The batch.
        batch: AnyBatch,
        /// Who uploaded it.
        brokers: Vec<NodeId>,
    },
    /// A needed batch was collected and lies below a certified checkpoint: the server must take that state.
    Gone(Hash),
}

/// Timers of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreTimer {
    /// The batch waited long enough for the directory it needs.
    DirectoryWait(Hash),
    /// The sources of a pull had long enough: which attempt.
    Pull(Hash, u32),
}

/// How far a batch is from being witnessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody asked.
    Idle,
    /// Asked for: the directory is too short, or too many jobs run.
    Waiting,
    /// A job checks it.
    Checking,
    /// It passed.
    Sound,
}

/// A batch that is here.
#[derive(Clone, Debug)]
struct Held {
    header: AnyHeader,
    name: Hash,
    /// In memory until the server has it; on disk alone afterwards.
    body: Option<Bytes>,
    /// Blob and record are in the lane.
    durable: bool,
    stage: Stage,
    shard: Option<Signature>,
    /// A job signs it.
    signing: bool,
    height: Option<u64>,
    /// Whose quota it is charged to.
    charged: Option<NodeId>,
    uploaders: Vec<NodeId>,
    askers: Vec<NodeId>,
    /// Where it waits for its check: a place for each payer that asked.
    turns: Vec<(NodeId, u64)>,
    /// Order of arrival, for eviction.
    arrival: u64,
    asked: Time,
}

impl Held {
    /// Whether it makes room for newer ones of this broker.
    fn may_go(&self, broker: NodeId) -> bool {
        self.charged == Some(broker)
            && !self.durable
            && self.height.is_none()
            && self.stage != Stage::Checking
    }
}

/// Who waits for a blob.
#[derive(Clone, Debug)]
enum Waiter {
    Server(Hash),
    Peer(NodeId, Pull),
}

/// The store of one server.
pub struct Store {
    config: StoreConfig,
    progress: Progress,
    keys: KeyBook,
    cohorts: Cohorts,
    reading: bool,
    held: BTreeMap<Hash, Held>,
    /// Batches on disk by the name of their body: two may share one.
    names: BTreeMap<Hash, u32>,
    /// Expiry and digest of what is not ordered.
    expiries: BTreeSet<(u64, Hash)>,
    ordered: BTreeMap<u64, Hash>,
    retained: u64,
    /// Pinned bytes that were told last.
    told_pinned: u64,
    /// What waits for its check, by payer and in the order in which each asked.
    waiting: BTreeMap<(NodeId, u64), Hash>,
    /// Whose batch was checked last.
    served: NodeId,
    checking: BTreeMap<Hash, Checking>,
    accounts: Accounts,
    /// Questions of brokers for what is theirs here.
    asked: Rations,
    pulling: Pulling,
    loads: BTreeMap<Hash, Vec<Waiter>>,
    cache: VecDeque<(Hash, Bytes)>,
    /// Nothing is witnessed below this height.
    silent: Option<u64>,
    damaged: bool,
    jobs: u32,
    /// Bodies of uploads in jobs, and their bytes, by whose share they use.
    digesting: BTreeMap<NodeId, (u32, u64)>,
    arrivals: u64,
    records: u32,
    /// Bytes of bodies in `held`.
    in_memory: u64,
}

impl Store {
    fn empty(config: StoreConfig) -> Self {
        let (accounts, keys) = (Accounts::new(&config), config.known.clone());
        Self {
            config,
            progress: Progress::default(),
            keys,
            cohorts: Cohorts::default(),
            reading: false,
            held: BTreeMap::new(),
            names: BTreeMap::new(),
            expiries: BTreeSet::new(),
            ordered: BTreeMap::new(),
            retained: 0,
            told_pinned: 0,
            waiting: BTreeMap::new(),
            served: OTHERS,
            checking: BTreeMap::new(),
            accounts,
            asked: Rations::default(),
            pulling: Pulling::default(),
            loads: BTreeMap::new(),
            cache: VecDeque::new(),
            silent: None,
            damaged: false,
            jobs: 0,
            digesting: BTreeMap::new(),
            arrivals: 0,
            records: 0,
            in_memory: 0,
        }
    }

    fn job(&mut self, from: NodeId, task: Task, turn: &mut Turn<'_, Self>) {
        self.jobs += 1;
        turn.compute(StoreJob { cluster: self.config.cluster.clone(), from, task });
    }

    /// Length of the directory whose keys can be added up.
    fn directory(&self) -> u32 {
        self.progress.directory.len().min(self.keys.len())
    }

    fn persist(&mut self, record: StoreRecord, turn: &mut Turn<'_, Self>) {
        turn.persist(record);
        self.records += 1;
        if self.records >= COMPACT_EVERY {
            self.records = 0;
            turn.compact();
        }
    }

    fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        if core::mem::take(&mut self.damaged) {
            // Whatever an earlier loss said.
            self.silent = Some(u64::MAX);
            self.persist(StoreRecord::Silent(u64::MAX), turn);
            turn.note(Note::of(NoteName::Silent, [0; 3], Hash::ZERO));
        }
    }

    fn on_message(&mut self, from: NodeId, message: StoreMessage, turn: &mut Turn<'_, Self>) {
        let member = self.config.cluster.roster().member(from).is_some();
        match message {
            StoreMessage::Batch(upload) => self.on_batch(from, &upload, turn),
            StoreMessage::Ask(digest) => self.on_ask(from, digest, turn),
            StoreMessage::HeldAsk => self.on_held_ask(from, turn),
            StoreMessage::Pull(pull) if member => self.on_pull(from, pull, turn),
            StoreMessage::Piece(piece) if member => self.on_piece(from, piece, turn),
            StoreMessage::Gone { digest, stable } if member => self.on_gone(from, digest, stable, turn),
            StoreMessage::Pull(_) | StoreMessage::Piece(_) | StoreMessage::Gone { .. } => {
                turn.blame(from, Fault::Stranger);
            }
            StoreMessage::Shard(_)
            | StoreMessage::Refuse(_)
            | StoreMessage::Credit(_)
            | StoreMessage::Held(_) => {
                turn.blame(from, Fault::WrongRole);
            }
        }
    }

    fn on_input(&mut self, input: StoreInput, turn: &mut Turn<'_, Self>) {
        match input {
            StoreInput::Ordered { statement, signers, height } => {
                self.on_ordered(statement, signers, height, turn);
            }
            StoreInput::Need(digest) => self.on_need(digest, turn),
            StoreInput::Recent { last, digests } => self.on_recent(last, &digests),
            StoreInput::Progress(progress) => self.on_progress(progress, turn),
        }
    }

    fn on_done(&mut self, done: StoreDone, turn: &mut Turn<'_, Self>) {
        self.jobs = self.jobs.saturating_sub(1);
        match done {
            StoreDone::Digested { from, why: Why::Uploaded(ask), batch, name, digest } => {
                self.on_uploaded((from, ask), batch, (name, digest), turn);
            }
            StoreDone::Digested { why: Why::Pulled(wanted), batch, name, digest, .. } => {
                self.on_pulled(wanted, batch, (name, digest), turn);
            }
            StoreDone::Checked { digest, verdict, mismatch, cohort } => {
                self.on_checked(digest, verdict, (mismatch, cohort), turn);
            }
            StoreDone::Shard(claim) => self.on_shard(&claim, turn),
            StoreDone::Keys { from, keys } => self.on_keys(from, keys, turn),
        }
        self.retry(turn);
    }
}

impl Machine for Store {
    type Input = StoreInput;
    type Message = Message<Never>;
    type Timer = StoreTimer;
    type Record = StoreRecord;
    type Job = StoreJob;
    type Output = StoreOutput;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message: Message::Store(message) } => self.on_message(from, message, turn),
            Event::Message { from, message: Message::Client(_) | Message::Server(_) } => {
                turn.blame(from, Fault::WrongRole);
            }
            Event::Message { message: Message::Ordering(never), .. } => match never {},
            Event::Timer(StoreTimer::DirectoryWait(digest)) => self.on_directory_wait(digest, turn),
            Event::Timer(StoreTimer::Pull(digest, attempt)) => self.on_patience(digest, attempt, turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => self.on_loaded(name, bytes, turn),
            Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        let mut in_memory = 0;
        for (digest, held) in &self.held {
            in_memory += held.body.as_ref().map_or(0, |body| body.len() as u64);
            assert!(
                held.stage != Stage::Sound || held.durable || planted!(C8),
                "what may be witnessed is stored: {digest:?}"
            );
            assert!(held.durable || held.body.is_some(), "a batch is somewhere");
            assert_eq!(
                held.height.is_none(),
                self.expiries.contains(&(held.header.expiry(), *digest)),
                "what is not ordered expires"
            );
        }
        assert_eq!(in_memory, self.in_memory, "bytes are the sum over bodies");
        let durable = self.held.values().filter(|held| held.durable).count() as u64;
        let named: u64 = self.names.values().map(|count| u64::from(*count)).sum();
        assert_eq!(named, durable, "every batch on disk has a body there");
        let charged = self.held.values().filter(|held| held.charged.is_some());
        let bytes: u64 = charged.map(|held| u64::from(held.header.body_len())).sum();
        assert_eq!(self.accounts.bytes(), bytes, "quotas are charged for what is here");
        let own = |broker| self.accounts.charged(broker).all(|digest| self.held.contains_key(digest));
        assert!(self.accounts.brokers().chain([OTHERS]).all(own), "and for nothing else");
    }
}

impl Bounded for Store {
    fn bytes(&self) -> u64 {
        let cached: u64 = self.cache.iter().map(|(_, body)| body.len() as u64).sum();
        let digesting: u64 = self.digesting.values().map(|(_, bytes)| bytes).sum();
        self.in_memory
            + cached
            + digesting
            + self.pulling.bytes()
            + self.keys.bytes()
            + self.cohorts.bytes()
            + self.asked.bytes()
            + self.held.len() as u64 * HELD_BYTES
    }

    fn bytes_max(&self) -> u64 {
        let body = u64::from(self.config.cluster.rules().body_bytes_max) + 192;
        let (quotas, batches) = self.accounts.most();
        let rules = self.config.cluster.rules();
        // Delivered bodies: at most what is retained, or what lies between two checkpoints.
        let parameters = &self.config.parameters;
        let on_disk = (parameters.retain_bytes / OVERHEAD).max(2 * rules.checkpoint_every);
        // Each broker of the genesis has a place of its own beside those, and so have all others together.
        let places = u64::from(parameters.jobs_max) + self.config.brokers.len() as u64 + 1;
        let bodies = places + pull::BYTES_MAX_BODIES + CACHED as u64;
        quotas
            + bodies * body
            + KeyBook::bytes_of(self.progress.directory.len().max(self.keys.len()))
            + parameters.cohort_bytes
            + Rations::bytes_max(&intake::ASKS)
            + (batches + on_disk + 4_096) * HELD_BYTES
    }
}

impl Recover for Store {
    type Config = StoreConfig;

    fn queues(_: &StoreConfig) -> Vec<QueueSpec> {
        queues([])
    }

    fn recover(config: StoreConfig, log: Log<'_, StoreRecord>) -> Result<Self, Unrecoverable> {
        let mut store = Self::empty(config);
        store.damaged = log.condition == Condition::Damaged;
        for record in log.records {
            store.replay(record);
        }
        Ok(store)
    }

    fn snapshot(&self, put: &mut dyn FnMut(StoreRecord)) {
        for (digest, held) in self.held.iter().filter(|(_, held)| held.durable) {
            put(StoreRecord::Pinned(self.pinned(*digest, held)));
            if let Some(height) = held.height {
                put(StoreRecord::Ordered(Ordered { digest: *digest, height }));
            }
        }
        if let Some(until) = self.silent.filter(|until| self.progress.height < *until) {
            put(StoreRecord::Silent(until));
        }
    }
}
