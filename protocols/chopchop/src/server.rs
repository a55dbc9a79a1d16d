//! The server: orders witnessed digests, deduplicates their batches, answers for what it delivered (sections 4.8 and 4.9).
//!
//! *Composition.* Owns the ordering layer (*under*: one lane, so that what is said rests on its records). Beside it stand the
//! store, which takes [`ServerOutput::Store`] and answers [`ServerInput::Store`], and an executor, which takes
//! [`ServerOutput::Apply`] and answers [`ServerOutput::Checkpoint`] by [`ServerInput::Applied`]. Connectors keep the order.
//!
//! *What decides.* Acceptance is a function of ordered content and state only: form, f + 1 shards, expiry, recent digests.
//! Deduplication follows the order of heights. So every correct server delivers the same.
//!
//! *Coming back.* From the chunks of the last mark; what of them is lost, and a state that a `Jump` of the ordering layer names,
//! is fetched from other servers, each part proved by its name under the certified root. A server whose bodies the others
//! released asks f + 1 of them for such a state itself.
//!
//! *Bounds.* [`Bounded`]: 168 bytes per client, 112 per recent digest, 4,096 accepted items and verdicts, the ordering layer and
//! the entries it gives before one of them is applied; what the application was given and did not execute yet; while a state is
//! taken from others, that state.

mod behind;
mod checkpoint;
mod config;
mod deliver;
mod given;
mod job;
mod order;
mod places;
mod recent;
mod record;
mod recover;
mod respond;
mod transfer;

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_machine::broadcast::{AtomicBroadcast, Delivered, Position, Submit, Ticket};
use synod_machine::planted;
use synod_machine::{Bounded, Event, Job, Lift, Machine, Nested, Span, Time, Turn, Wall};
use synod_quorum::NodeId;

pub use config::{OrderConfig, ServerConfig};
pub use given::Apply;
pub use job::{Frozen, Named, Outcome, ServerDone, ServerJob, ServerTask, Witnessed};
pub use record::{Mark, ServerRecord};

use crate::content::AnyBatch;
use crate::dedup::{Cut, Reason, Runs, Table};
use crate::directory::Directory;
use crate::fault::Fault;
use crate::item::Item;
use crate::message::ServerMessage;
use crate::statement::Witness;
use crate::store::{Progress, StoreInput, StoreOutput};
use crate::vocabulary::Message;
use behind::Behind;
use checkpoint::Checkpoints;
use config::Settings;
use given::Given;
use places::Checking;
use recent::Recent;
use respond::Answers;
use transfer::Loading;

/// Accepted batches that wait at most; beyond it ORDER is refused.
const BACKLOG_MAX: usize = 4_096;
/// Items of brokers that are on their way into the order at most.
const PENDING_MAX: usize = 4_096;
/// Bodies that a server holds for delivery at a time.
const WINDOW: u64 = 4;
/// Items whose shards are known to hold.
const KNOWN_MAX: usize = 8_192;
/// Brokers that hear of the delivery of one batch.
const BROKERS_MAX: usize = 16;
/// How often the own mark is said again.
const MARKS_EVERY: Span = Span::secs(1);

/// What the machines beside a server say to it.
#[derive(Clone, Debug)]
pub enum ServerInput {
    /// Of the store.
    Store(StoreOutput),
    /// Of the executor: its root at a checkpoint, durable there.
    Applied {
        /// The checkpoint's position.
        position: Position,
        /// The root.
        root: Hash,
    },
    /// Of the executor: a batch that is awaited, and all before it, are executed.
    Executed {
        /// Its height.
        height: u64,
    },
    /// Of the executor: nobody has the state that it was to take. A newer one is needed; said again while that is so.
    Stuck,
}

/// What a server tells the machines beside it.
#[derive(Clone, Debug)]
pub enum ServerOutput {
    /// To the store.
    Store(StoreInput),
    /// To the executor: a batch.
    Apply(Box<Apply>),
    /// To the executor: every batch up to this height lies behind; make the state there durable and answer its root.
    Checkpoint {
        /// The position.
        position: Position,
        /// The height.
        height: u64,
        /// Position of the newest own checkpoint that is known to be certified: nobody asks for an older state.
        stable: Position,
    },
    /// To the executor: take the state of this root from others, then answer as to a checkpoint.
    Jump {
        /// The position.
        position: Position,
        /// The height.
        height: u64,
        /// Root of the application there.
        root: Hash,
    },
    /// The server stopped: f + 1 servers witnessed a batch that breaks a rule.
    FalseWitness {
        /// What they signed.
        statement: Witness,
    },
}

/// Timers of a server, and of the ordering layer under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerTimer<T> {
    /// Time to say the own mark again.
    Marks,
    /// Whoever was asked for a part of a state had long enough.
    Fetch,
    /// Of the ordering layer.
    Order(T),
}

/// How the ordering layer speaks through a server.
#[derive(Clone, Copy, Debug)]
struct InServer;

impl<A: AtomicBroadcast> Lift<A, Server<A>> for InServer {
    fn message(&self, message: A::Message) -> Message<A::Message> {
        Message::Ordering(message)
    }
    fn timer(&self, timer: A::Timer) -> ServerTimer<A::Timer> {
        ServerTimer::Order(timer)
    }
    fn record(&self, record: A::Record) -> ServerRecord<A::Record> {
        ServerRecord::Order(record)
    }
    fn job(&self, job: A::Job) -> ServerJob<A::Job> {
        ServerJob::Order(job)
    }
}

/// An ordered entry that is not decided yet.
#[derive(Clone, Debug)]
struct Queued {
    position: Position,
    time: Wall,
    draw: Hash,
    name: Hash,
    /// Nothing when the payload is empty or no item.
    item: Option<Item>,
    /// Whether f + 1 shards hold, once that is known.
    verdict: Option<bool>,
}

/// An accepted item whose batch is not delivered yet.
#[derive(Clone, Debug)]
struct Accepted {
    height: u64,
    position: Position,
    time: Wall,
    draw: Hash,
    statement: Witness,
    brokers: Vec<NodeId>,
    needed: bool,
    batch: Option<AnyBatch>,
    split: Split,
}

/// How far the batch of an accepted item is: several are opened and split ahead of their turn.
#[derive(Clone, Debug)]
enum Split {
    /// It is not here, or holds cards.
    Not,
    /// A job is at it.
    UnderWay,
    /// By such a cut; `None` when it breaks a rule.
    Done(Cut, Option<Runs>),
}

/// An item on its way into the order.
#[derive(Clone, Debug)]
struct Pending {
    ticket: Ticket,
    item: Item,
    /// When the ordering layer was given it last.
    since: Time,
    brokers: Vec<NodeId>,
}

/// The batch that is being delivered.
#[derive(Debug)]
enum Work {
    /// A job opens its cards.
    Opening,
    /// Lanes are out: what each run did not deliver.
    Lanes(Runs, Vec<Option<Vec<(u32, Reason)>>>),
}

/// The server of one node, over the ordering layer `A`.
pub struct Server<A: AtomicBroadcast> {
    settings: Settings,
    order: Nested<A>,
    submits: VecDeque<Submit>,
    recent: Recent,
    queue: VecDeque<Queued>,
    /// Names of items whose shards hold, oldest first.
    known: VecDeque<Hash>,
    pending: BTreeMap<Hash, Pending>,
    tickets: BTreeMap<Ticket, Hash>,
    next_ticket: u64,
    checking: Checking,
    backlog: VecDeque<Accepted>,
    delivered: u64,
    work: Option<Work>,
    directory: Directory,
    table: Table,
    answers: Answers,
    checkpoints: Checkpoints,
    /// Of the application.
    given: Given,
    loading: Option<Loading>,
    /// What is known of bodies that others collected.
    behind: Behind,
    /// Chunks of a state that a crash kept from being taken.
    orphans: Vec<Hash>,
    /// Chunks that are read for other servers.
    serving: BTreeMap<Hash, Vec<NodeId>>,
    halted: bool,
    said: (u64, u32, u64, u64),
}

impl<A: AtomicBroadcast> Server<A> {
    fn job(&self, task: ServerTask, turn: &mut Turn<'_, Self>) {
        turn.compute(ServerJob::Own(Box::new((self.settings.cluster.clone(), task))));
    }

    /// Batches delivered, genesis included.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Batches accepted, genesis included (H).
    #[must_use]
    pub const fn height(&self) -> u64 {
        self.recent.height()
    }

    /// The directory.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The ordering layer, to look at.
    #[must_use]
    pub const fn ordering(&self) -> &A {
        self.order.get()
    }

    /// Where a client stands; nothing while its lane is at work.
    #[must_use]
    pub fn slot(&self, id: u32) -> Option<crate::dedup::Slot> {
        self.table.slot(id)
    }

    /// Steps the ordering layer, takes what it says, and gives it what that leads to.
    fn drive(&mut self, event: Event<A>, turn: &mut Turn<'_, Self>) {
        let said: Vec<Delivered> = self.order.step(event, &InServer, turn).collect();
        said.into_iter().for_each(|delivered| self.on_delivered(delivered, turn));
    }

    /// Ends a turn: gives the ordering layer what is for it, and says where this server stands.
    fn flush(&mut self, turn: &mut Turn<'_, Self>) {
        self.seek(turn);
        while let Some(submit) = self.submits.pop_front() {
            self.drive(Event::Input(submit), turn);
        }
        let (stable, collected) = (self.checkpoints.stable(), self.collected());
        let now = (self.height(), self.directory.len(), stable, collected);
        if self.loading.is_none() && now != self.said {
            self.said = now;
            let directory = self.directory.view();
            let delivered = self.delivered;
            let progress = Progress { height: now.0, delivered, directory, stable, collected };
            turn.output(ServerOutput::Store(StoreInput::Progress(progress)));
        }
    }

    /// Height that a durable checkpoint of every server covers.
    fn collected(&self) -> u64 {
        if planted!(C10) { self.delivered } else { self.checkpoints.collected() }
    }

    fn on_message(&mut self, from: NodeId, message: ServerMessage, turn: &mut Turn<'_, Self>) {
        match message {
            ServerMessage::Order(item) => self.on_order(from, item, turn),
            ServerMessage::Certify(digest) => self.on_certify(from, &digest, turn),
            ServerMessage::HeightAsk(ask) => self.on_height_ask(from, ask.height, turn),
            ServerMessage::StateAsk(ask) => self.on_state_ask(from, ask, turn),
            ServerMessage::DirPull { from: first } => self.on_dir_pull(from, first, turn),
            ServerMessage::Mark(mark) => self.on_mark(from, mark.height, turn),
            ServerMessage::Transfer(part) => self.on_transfer(from, part, turn),
            ServerMessage::Delivered(_)
            | ServerMessage::Height(_)
            | ServerMessage::State(_)
            | ServerMessage::Cards(_) => turn.blame(from, Fault::WrongRole),
        }
    }

    fn on_input(&mut self, input: ServerInput, turn: &mut Turn<'_, Self>) {
        match input {
            ServerInput::Store(StoreOutput::Have { digest, batch, brokers }) => {
                self.on_have(&digest, batch, &brokers, turn);
            }
            ServerInput::Store(StoreOutput::Gone(digest)) => self.on_gone(&digest, turn),
            ServerInput::Applied { position, root } => self.on_applied(position, root, turn),
            ServerInput::Executed { height } => {
                self.given.executed(height);
                self.advance(turn);
            }
            ServerInput::Stuck => self.submits.push_back(Submit::Stuck),
        }
    }

    fn on_done(&mut self, done: ServerDone<<A::Job as Job>::Done>, turn: &mut Turn<'_, Self>) {
        match done {
            ServerDone::Order(done) => self.drive(Event::Done(done), turn),
            ServerDone::Item { from, name, item, verdict } => {
                self.on_checked(from, name, &item, verdict, turn);
            }
            ServerDone::Split(height, cut, runs) => self.on_split(height, cut, runs, turn),
            ServerDone::Cards(height, cards) => self.on_cards(height, cards, turn),
            ServerDone::Dedup(height, at, lane, list) => self.on_lane(height, at, lane, list, turn),
            ServerDone::Delivered(verdict) => self.on_verdict(*verdict, turn),
            ServerDone::Height(to, signed) => self.on_height(to, signed, turn),
            ServerDone::State(to, state) => turn.send(to, ServerMessage::State(state).into()),
            ServerDone::Chunks(position, named, blobs) => self.on_chunks(position, named, blobs, turn),
            ServerDone::Root(length, root) => self.on_root(length, root, turn),
            ServerDone::NoKey => {}
        }
    }
}

impl<A: AtomicBroadcast> Machine for Server<A> {
    type Input = ServerInput;
    type Message = Message<A::Message>;
    type Timer = ServerTimer<A::Timer>;
    type Record = ServerRecord<A::Record>;
    type Job = ServerJob<A::Job>;
    type Output = ServerOutput;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        if self.halted {
            return;
        }
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message: Message::Ordering(message) } => {
                self.drive(Event::Message { from, message }, turn);
            }
            Event::Message { from, message: Message::Server(message) } => {
                self.on_message(from, message, turn)
            }
            Event::Message { from, message: Message::Client(_) | Message::Store(_) } => {
                turn.blame(from, Fault::WrongRole);
            }
            Event::Timer(ServerTimer::Order(timer)) => self.drive(Event::Timer(timer), turn),
            Event::Timer(ServerTimer::Marks) => {
                self.on_marks(turn);
                self.submit_again(turn);
            }
            Event::Timer(ServerTimer::Fetch) => self.on_fetch(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => {
                self.on_chunk(name, bytes.as_ref(), turn);
                self.drive(Event::Loaded { name, bytes }, turn);
            }
            Event::Link { peer, link } => self.drive(Event::Link { peer, link }, turn),
        }
        self.flush(turn);
    }

    fn invariants(&self) {
        self.order.get().invariants();
        self.recent.invariants();
        assert!(self.delivered <= self.height(), "what is delivered was accepted");
        if self.loading.is_none() {
            assert_eq!(self.table.len(), self.directory.len(), "every client has a slot");
            let waiting = self.height() - self.delivered;
            assert_eq!(
                self.backlog.len() as u64,
                waiting,
                "the backlog is what is accepted and not delivered"
            );
        }
        let heights = self.backlog.iter().zip(self.delivered + 1..);
        assert!(
            heights.into_iter().all(|(accepted, height)| accepted.height == height),
            "heights have no gap"
        );
    }
}

impl<A: AtomicBroadcast + Bounded> Bounded for Server<A> {
    fn bytes(&self) -> u64 {
        let bodies: usize = self.backlog.iter().filter_map(|a| a.batch.as_ref()).map(|b| b.body.len()).sum();
        // The body that jobs work on.
        let worked = self.backlog.front().filter(|_| self.work.is_some());
        let worked = worked.map_or(0, |first| u64::from(first.statement.body_len));
        // Of those that are split or will be, the ids are there as well.
        let split = self.backlog.iter().filter(|accepted| accepted.needed);
        let ids: u64 = split.map(|accepted| 4 * u64::from(accepted.statement.count)).sum();
        let small = self.queue.len() + self.pending.len() + self.checking.len() + self.backlog.len();
        self.order.get().bytes()
            + self.directory.bytes()
            + self.table.bytes()
            + self.recent.bytes()
            + self.answers.bytes()
            + self.checkpoints.bytes()
            + self.given.bytes()
            + self.loading.as_ref().map_or(0, Loading::bytes)
            + self.behind.bytes()
            + bodies as u64
            + worked
            + ids
            + small as u64 * self.item_bytes()
    }

    fn bytes_max(&self) -> u64 {
        let rules = self.settings.cluster.rules();
        let clients = u64::from(self.directory.len()).next_multiple_of(4_096);
        let body = u64::from(rules.body_bytes_max) + 192;
        let chunks =
            |clients: u64| clients.div_ceil(4_096) + clients.div_ceil(512) + rules.horizon / 2_048 + 2;
        let others = u64::from(self.settings.cluster.roster().size()) - 1;
        // The ordering layer stops delivering when nothing is applied, so the queue and what is due are as long as its own window.
        let small = (BACKLOG_MAX + PENDING_MAX) as u64 + self.settings.window;
        self.order.get().bytes_max()
            + 2 * clients * (96 + 32 + 24 + 16)
            + self.loading.as_ref().map_or(0, Loading::bytes_max)
            + Behind::bytes_max(others, chunks(self.clients_max()))
            + Checkpoints::names_max(chunks(clients))
            + 4 * 112 * rules.horizon
            + 32 * BACKLOG_MAX as u64
            + Answers::bytes_max()
            + WINDOW * (body + 4 * u64::from(rules.batch_max))
            + self.settings.given
            + (body + 12 * u64::from(rules.batch_max))
            + small * self.item_bytes()
            + (1 << 20)
    }
}

impl<A: AtomicBroadcast> Server<A> {
    fn item_bytes(&self) -> u64 {
        512 + 66 + 64 * u64::from(self.settings.cluster.quorums().one_correct())
    }
}
