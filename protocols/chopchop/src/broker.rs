//! The broker: gathers submissions, has their clients sign them together, and carries the batch through witness, order and
//! certificate back to the clients (4.3 to 4.5).
//!
//! *Trust.* Nobody trusts a broker, so it keeps no record: after a crash its clients go to another one, or come again, and
//! the rule of deduplication sees to it that nothing is delivered twice. It trusts f + 1 servers together.
//!
//! *Bounds.* `read_keys_max` keys of clients as points, four batches' worth of submissions in the pool and as many held over,
//! `2 pipeline_max` open batches, `keep` and `keep_bytes` of delivered ones, `links_max` records of links, 1,024 open questions.

mod ask;
mod batches;
mod bounds;
mod by_id;
mod collect;
mod config;
mod distil;
mod enrol;
mod flow;
mod follow;
mod heights;
mod held;
mod job;
mod links;
mod open;
mod order;
mod read;
mod recent;
mod respond;
mod search;
mod standing;
mod tell;
#[cfg(test)]
mod tests;
mod witness;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Signature};
use synod_machine::{
    Event, Link, Log, Machine, Never, QueueSpec, Recover, Span, Time, To, Turn, Unrecoverable,
};
use synod_quorum::NodeId;

use self::ask::Questions;
use self::enrol::Desk;
use self::flow::{Flow, Width};
use self::follow::Follow;
use self::heights::Heights;
use self::held::Earlier;
use self::job::Submitted;
use self::links::Links;
use self::open::{Admitted, Batch, Phase, Shares};
use self::read::ReadKeys;
use self::recent::{Bucket, Recent};
use self::standing::Standings;
use self::{batches::Batches, by_id::ById};
use crate::certificate::HeightCertificate;
use crate::directory::Directory;
use crate::fault::Fault;
use crate::keybook::KeyBook;
use crate::message::{ClientMessage, Nack, ServerMessage, StoreMessage};
use crate::vocabulary::{self, Message};

pub use config::{Config, Parameters, Verify};
pub use job::{Done, Job, Task};

/// The name of a timer; a batch's number is never used again, so a stale firing does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The window may close.
    Window(u64),
    /// Submissions are checked.
    Flush,
    /// Clients of a batch that said nothing are told again.
    Resend(u64),
    /// More clients are told something.
    Tell,
    /// A batch waits no longer for shares.
    Distil(u64),
    /// More servers are asked for shards.
    Witness(u64, u32),
    /// More servers are asked to order.
    Order(u64, u32),
    /// A delivered batch is forgotten.
    Keep(u64),
    /// Servers can be asked about the next client.
    Ask,
    /// Heights, directory and questions are looked after.
    Heights,
}

/// What servers said of themselves, as hints.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    height: u64,
    directory: u32,
    /// What may be sent; none before they said so.
    bytes: Option<u64>,
    /// What may still be asked to be checked, when they said so.
    work: u64,
}

/// What operators ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Submissions in the pool.
    pub pool: usize,
    /// Batches that are not certified yet.
    pub open: usize,
    /// Batches kept for those who ask again.
    pub kept: usize,
    /// The highest height that was proven.
    pub height: u64,
    /// Clients that are known.
    pub directory: u32,
    /// Entries that signed together, of all in sealed batches.
    pub signed: u64,
    /// Entries of sealed batches.
    pub sealed: u64,
    /// Bytes of bodies that servers take, by the least that f liars cannot lower; `None` before f + 1 said so.
    pub credit: Option<u64>,
}

/// One broker.
#[derive(Clone, Debug)]
pub struct Broker {
    config: Config,
    directory: Directory,
    /// Length of the directory that f + 1 servers reported, or the genesis had.
    trusted: u32,
    book: KeyBook,
    /// Length of what was trusted when the reading of keys began, while it lasts.
    reading_keys: Option<u32>,
    follow: Follow,
    /// n^: the highest height that was proven here.
    height: u64,
    /// The newest certificate of a height, to show.
    shown: Option<HeightCertificate>,
    hints: BTreeMap<NodeId, Hint>,
    questions: Questions,
    heights: Heights,
    /// What an earlier life had pinned at servers.
    earlier: Earlier,
    links: Links,
    buckets: BTreeMap<u32, Bucket>,
    suspects: BTreeSet<u32>,
    unchecked: VecDeque<Submitted>,
    /// Submissions under check, and the checks that they are in.
    checking: usize,
    checks: u32,
    /// Of each client the first submission that waits for its check or is under it: its number, signature and link.
    under_check: ById<(u64, Signature, NodeId)>,
    /// Links with a certificate under check.
    explaining: BTreeSet<NodeId>,
    /// Clients' Ed25519 keys that were read.
    read: ReadKeys,
    /// Highest number admitted and newest batch, by client.
    standings: Standings,
    pool: ById<Admitted>,
    held: BTreeMap<u32, Admitted>,
    pool_bytes: u64,
    /// Where the next batch begins to take.
    cursor: u32,
    window: u64,
    window_since: Option<Time>,
    batches: Batches,
    /// The room of the shares of a batch that was searched, for those of the next.
    spare: Vec<Shares>,
    last_batch: u64,
    by_digest: BTreeMap<Hash, u64>,
    by_commit: BTreeMap<[u8; 16], u64>,
    kept: BTreeSet<u64>,
    /// Kept batches by the height they took.
    by_height: BTreeMap<u64, u64>,
    kept_bytes: u64,
    desk: Desk,
    places: Flow,
    deliveries: Flow,
    answers: Recent,
    witness_times: Recent,
    order_times: Recent,
    signed: u64,
    sealed: u64,
    ticks: u64,
}

type Step<'a> = Turn<'a, Broker>;

/// How long submissions wait for their check.
const FLUSH: Span = Span::millis(5);
/// Shortest timeout of a place that was shown.
const SHOW: Span = Span::millis(50);
/// Shortest timeout of a delivery: a client verifies it, and its next submission, which answers it, is verified.
const DELIVER: Span = Span::millis(200);
/// How often heights and the directory are looked after.
const HEIGHTS: Span = Span::secs(1);
/// After how many of these times stores are asked where they stand.
const STANDING: u64 = 8;

impl Broker {
    /// What operators ask.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen {
            pool: self.pool.len(),
            open: self.open(),
            kept: self.kept.len(),
            height: self.height,
            directory: self.book.len(),
            signed: self.signed,
            sealed: self.sealed,
            credit: self.credit(),
        }
    }

    /// What the servers that said so still take; f of them may say anything, so as many of the lowest do not count.
    fn credit(&self) -> Option<u64> {
        let mut left: Vec<u64> = self.hints.values().filter_map(|hint| hint.bytes).collect();
        left.sort_unstable();
        left.get(self.config.cluster.quorums().faulty() as usize).copied()
    }

    /// Batches closed and not yet certified.
    fn open(&self) -> usize {
        self.batches.len() - self.kept.len()
    }

    fn servers(&self) -> synod_quorum::NodeSet {
        self.config.cluster.roster().all()
    }

    fn compute(&self, turn: &mut Step<'_>, task: Task) {
        turn.compute(Job { cluster: self.config.cluster.clone(), task });
    }

    fn tell(link: NodeId, message: ClientMessage, turn: &mut Step<'_>) {
        turn.send(link, Message::Client(message));
    }

    fn nack(link: NodeId, why: Nack, retry: Span, turn: &mut Step<'_>) {
        let retry_ms = u32::try_from(retry.as_millis()).unwrap_or(u32::MAX);
        Self::tell(link, ClientMessage::Nack { why, retry_ms }, turn);
    }

    fn ask_servers(to: impl Into<To>, message: ServerMessage, turn: &mut Step<'_>) {
        turn.send(to, Message::Server(message));
    }

    /// The number that at least one correct server reached, of one per server.
    fn reached(&self, of: impl Fn(&Hint) -> u64) -> u64 {
        let mut numbers: Vec<u64> = self.hints.values().map(of).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let at = self.config.cluster.quorums().faulty() as usize;
        numbers.get(at).copied().unwrap_or(0)
    }

    /// Batches delivered at a correct server, as far as this broker knows.
    fn reached_height(&self) -> u64 {
        self.reached(|hint| hint.height).max(self.height)
    }

    fn on_start(&mut self, turn: &mut Step<'_>) {
        self.read_keys(turn);
        self.ask_height(1, turn);
        self.ask_standing(turn);
        turn.arm(Timer::Heights, HEIGHTS);
    }

    fn on_client(&mut self, link: NodeId, message: ClientMessage, turn: &mut Step<'_>) {
        match message {
            ClientMessage::Submit(submit) => self.on_submit(link, submit, turn),
            ClientMessage::MultiSig { id, root_commit, share } => {
                self.on_multi_sig((link, id), root_commit, share, turn);
            }
            ClientMessage::Ack { height } => self.on_ack(link, height, turn),
            ClientMessage::Query { nonce, id } => self.on_query(link, nonce, id, turn),
            ClientMessage::SignUp(card) => self.on_card(link, *card, turn),
            // No link was challenged.
            ClientMessage::Claim { .. } => {}
            ClientMessage::Inclusion(_)
            | ClientMessage::Delivery(_)
            | ClientMessage::Nack { .. }
            | ClientMessage::State(_)
            | ClientMessage::Signed(_)
            | ClientMessage::Challenge { .. } => turn.blame(link, Fault::WrongRole),
        }
    }

    fn on_store(&mut self, from: NodeId, message: StoreMessage, turn: &mut Step<'_>) {
        match message {
            StoreMessage::Shard(shard) => self.on_shard(from, shard, turn),
            StoreMessage::Refuse(refused) => self.on_refuse(from, &refused, turn),
            StoreMessage::Credit(credit) => self.on_credit(from, &credit, turn),
            StoreMessage::Held(list) => self.on_held(from, list.into_vec(), turn),
            StoreMessage::Batch(_)
            | StoreMessage::Ask(_)
            | StoreMessage::HeldAsk
            | StoreMessage::Pull(_)
            | StoreMessage::Piece(_)
            | StoreMessage::Gone { .. } => turn.blame(from, Fault::WrongRole),
        }
    }

    fn on_server(&mut self, from: NodeId, message: ServerMessage, turn: &mut Step<'_>) {
        match message {
            ServerMessage::Delivered(verdict) => self.on_delivered(from, verdict, turn),
            ServerMessage::Height(signed) => self.on_height(from, &signed, turn),
            ServerMessage::State(signed) => self.on_state(from, &signed, turn),
            ServerMessage::Cards(cards) => self.on_cards(from, cards, turn),
            ServerMessage::Order(_)
            | ServerMessage::Certify(_)
            | ServerMessage::HeightAsk(_)
            | ServerMessage::StateAsk(_)
            | ServerMessage::DirPull { .. }
            | ServerMessage::Mark(_)
            | ServerMessage::Transfer(_) => turn.blame(from, Fault::WrongRole),
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message<Never>, turn: &mut Step<'_>) {
        let is_server = self.servers().contains(from);
        match message {
            Message::Client(message) => self.on_client(from, message, turn),
            Message::Store(message) if is_server => self.on_store(from, message, turn),
            Message::Server(message) if is_server => self.on_server(from, message, turn),
            Message::Store(_) | Message::Server(_) => turn.blame(from, Fault::Stranger),
            Message::Ordering(never) => match never {},
        }
    }

    fn on_done(&mut self, done: Done, turn: &mut Step<'_>) {
        match done {
            Done::Submissions(checked, read) => self.submissions_checked((checked, read), turn),
            Done::Legitimacy(link, submit, shown, holds) => {
                self.explained(link, *submit, &shown, holds, turn);
            }
            Done::Tree(batch, tree) => self.tree_built(batch, tree, turn),
            Done::Shares(batch, shares) => self.shares_read(batch, shares, turn),
            Done::Search(batch, found) => self.searched(batch, &found, turn),
            Done::Sealed(batch, sealed) => self.sealed(batch, sealed, turn),
            Done::Shards(batch, digest, shards) => self.shards_checked(batch, digest, shards, turn),
            Done::Earlier(digest, checked) => self.earlier_checked(digest, *checked, turn),
            Done::Verdicts(batch, exceptions, leaves, combined) => {
                self.certified(batch, exceptions, leaves, combined, turn);
            }
            Done::Heights(combined) => self.height_proven(combined, turn),
            Done::States(state, combined) => self.state_proven(&state, combined, turn),
            Done::Cards(cards) => self.cards_checked(cards, turn),
            Done::Keys(from, keys) => self.keys_read(from, keys, turn),
            Done::Root(length, root) => self.root_computed(length, root, turn),
        }
    }

    fn on_timer(&mut self, timer: Timer, turn: &mut Step<'_>) {
        match timer {
            Timer::Window(window) => self.window_due(window, turn),
            Timer::Flush => self.flush(turn),
            Timer::Resend(batch) => self.resend(batch, turn),
            Timer::Tell => self.tell_more(turn),
            Timer::Ask => self.on_ask(turn),
            Timer::Distil(batch) => self.distil_due(batch, turn),
            Timer::Witness(batch, stage) => self.extend(batch, stage, turn),
            Timer::Order(batch, stage) => self.order_again(batch, stage, turn),
            Timer::Keep(batch) => self.forget(batch, turn),
            Timer::Heights => self.look_after(turn),
        }
    }

    /// Stores say with what they hold how much more they take, and where they stand.
    fn ask_standing(&self, turn: &mut Step<'_>) {
        turn.send(self.servers(), Message::Store(StoreMessage::HeldAsk));
    }

    fn look_after(&mut self, turn: &mut Step<'_>) {
        let now = turn.now();
        self.buckets.retain(|_, bucket| !bucket.is_full(now));
        self.questions.expire(now);
        self.heights.expire(now);
        let reached = self.reached_height();
        if self.shown.is_none() || self.proven_height() < reached {
            self.ask_height(reached, turn);
        }
        self.ask_heights_again(turn);
        self.follow_directory(turn);
        self.close_cards(turn);
        self.ticks += 1;
        if self.ticks.is_multiple_of(STANDING) {
            self.ask_standing(turn);
        }
        turn.output(self.seen());
        turn.arm(Timer::Heights, HEIGHTS);
    }
}

impl Machine for Broker {
    type Input = Never;
    type Message = Message<Never>;
    type Timer = Timer;
    type Record = Never;
    type Job = Job;
    type Output = Seen;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(never) => match never {},
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(timer) => self.on_timer(timer, turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Link { peer, link: Link::Up } if self.servers().contains(peer) => {
                turn.send(peer, Message::Store(StoreMessage::HeldAsk));
                self.ask_heights_of(peer, turn);
                self.upload_again(peer, turn);
            }
            Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        for (id, admitted) in self.pool.iter() {
            assert_eq!(id, admitted.id, "the pool is by id");
            let placed = self.standings.place(id).and_then(|(batch, _)| self.batches.get(&batch));
            assert!(
                placed.is_none_or(|batch| batch.phase == Phase::Delivered),
                "one entry per id in pool and open batches together"
            );
        }
        let waiting = |of: fn(&open::Messages) -> u32| -> u32 {
            self.batches.values().filter_map(Batch::messages).map(of).sum()
        };
        assert_eq!(self.places.waiting(), waiting(|of| of.places.waiting), "places that were shown");
        assert_eq!(
            self.deliveries.waiting(),
            waiting(|of| of.deliveries.waiting),
            "deliveries that were sent"
        );
        assert!(self.open() <= 2 * self.config.parameters.pipeline_max as usize + 1, "open batches");
        assert!(self.pool.len() + self.held.len() <= 2 * self.config.pool_max(), "the pool");
    }
}

impl Recover for Broker {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        vocabulary::queues([])
    }

    fn recover(config: Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self {
            directory: config.directory.clone(),
            trusted: config.directory.len(),
            book: KeyBook::default(),
            reading_keys: None,
            follow: Follow::default(),
            height: 1,
            shown: None,
            hints: BTreeMap::new(),
            questions: Questions::default(),
            heights: Heights::default(),
            earlier: Earlier::default(),
            links: Links::new(config.parameters.links_max),
            buckets: BTreeMap::new(),
            suspects: BTreeSet::new(),
            unchecked: VecDeque::new(),
            checking: 0,
            checks: 0,
            under_check: ById::new(),
            explaining: BTreeSet::new(),
            read: ReadKeys::new(config.parameters.read_keys_max),
            standings: Standings::default(),
            pool: ById::new(),
            held: BTreeMap::new(),
            pool_bytes: 0,
            cursor: 0,
            window: 0,
            window_since: None,
            batches: Batches::default(),
            spare: Vec::new(),
            last_batch: 0,
            by_digest: BTreeMap::new(),
            by_commit: BTreeMap::new(),
            kept: BTreeSet::new(),
            by_height: BTreeMap::new(),
            kept_bytes: 0,
            desk: Desk::default(),
            places: Flow::new(Width::DEFAULT, SHOW),
            deliveries: Flow::new(Width::DEFAULT, DELIVER),
            answers: Recent::default(),
            witness_times: Recent::default(),
            order_times: Recent::default(),
            signed: 0,
            sealed: 0,
            ticks: 0,
            config,
        })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
