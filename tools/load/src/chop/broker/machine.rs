//! The machine: batches in, words of servers in, uploads and orders out.

use super::flight::{Flight, Recent};
use super::source::Ready;
use std::collections::BTreeMap;
use std::fmt;
use synod_chopchop::batch::{Refusal, Sealed};
use synod_chopchop::config::Cluster;
use synod_chopchop::message::{Refused, ServerMessage, Shard, StoreMessage, Upload, Verdict};
use synod_chopchop::vocabulary::{self, Message};
use synod_crypto::Hash;
use synod_machine::{
    Bounded, Event, Link, Log, Machine, Never, QueueSpec, Recover, Span, Time, Turn, Unrecoverable,
};
use synod_quorum::{NodeId, NodeSet};

/// Wait for shards and for deliveries before the first ones, and the shortest ones later. Longer than a broker's: asking twice
/// under full load would be load of its own.
const FIRST: Span = Span::secs(2);
const SHORTEST: Span = Span::millis(500);
/// How long a server that let a wait run out is asked behind all others.
const ASIDE: Span = Span::secs(5);

/// Whom a load broker speaks with.
#[derive(Clone)]
pub struct Config {
    /// The servers.
    pub cluster: Cluster,
    /// Servers beyond f + 1 that are asked to witness a batch at once.
    pub margin: u32,
    /// Batches on their way, at most.
    pub window: u32,
}

/// What a load broker is told.
pub enum Input {
    /// A batch to be delivered. One with a number that is on its way is no other batch.
    Batch(Box<Ready>),
    /// A batch that all servers are to get and none to witness: its bytes count, and nothing else.
    Show(Box<Sealed>),
}

/// Why a batch is never delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// f + 1 servers refuse it for this reason.
    Refused(Refusal),
    /// More are on their way than were announced.
    Full,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "refused for {why:?}"),
            Self::Full => f.write_str("beyond the window"),
        }
    }
}

/// What it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// f + 1 servers say the same: a batch was delivered.
    Delivered {
        /// Its number.
        number: u64,
        /// Its height.
        height: u64,
        /// Its messages that were not delivered.
        exceptions: u32,
    },
    /// A batch is given up.
    Lost {
        /// Its number.
        number: u64,
        /// Why.
        why: Lost,
    },
}

/// The name of a timer: the number of a batch and how often it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// More servers are asked to witness.
    Witness(u64, u32),
    /// More servers are asked to order.
    Order(u64, u32),
}

/// A broker of generated batches.
pub struct LoadBroker {
    config: Config,
    up: NodeSet,
    credit: BTreeMap<NodeId, u64>,
    open: BTreeMap<u64, Flight>,
    by_digest: BTreeMap<Hash, u64>,
    witness_times: Recent,
    order_times: Recent,
    /// Servers that let a wait run out, and until when they are asked last.
    aside: BTreeMap<NodeId, Time>,
}

type Step<'a> = Turn<'a, LoadBroker>;

impl LoadBroker {
    fn on_batch(&mut self, ready: &Ready, turn: &mut Step<'_>) {
        let number = ready.number;
        if self.open.len() >= self.config.window as usize && !self.open.contains_key(&number) {
            turn.output(Output::Lost { number, why: Lost::Full });
            return;
        }
        let cluster = &self.config.cluster;
        let ask = cluster.quorums().one_correct() + self.config.margin;
        let members = cluster.roster().size();
        let first = u32::try_from(turn.rng().below(u64::from(members.max(1)))).unwrap_or(0);
        self.aside.retain(|_, until| *until > turn.now());
        let aside = self.aside.keys().copied().collect();
        let flight = Flight::new(ready, cluster, (first, ask, aside), turn.now());
        self.open.insert(number, flight);
        self.by_digest.insert(ready.digest, number);
        self.upload(number, NodeSet::first(members), turn);
        turn.arm(Timer::Witness(number, 1), wait(&self.witness_times, 2));
    }

    /// Sends a batch to servers that are there and have room for it: one frame for those that are asked, one for the others.
    fn upload(&mut self, number: u64, to: NodeSet, turn: &mut Step<'_>) {
        let Some(flight) = self.open.get_mut(&number) else { return };
        let bytes = u64::from(flight.statement.body_len);
        let mut chosen = NodeSet::EMPTY;
        for server in to.and(self.up).minus(flight.later).minus(flight.refused).iter() {
            let left = self.credit.get_mut(&server);
            if left.as_ref().is_none_or(|left| **left >= bytes) {
                left.into_iter().for_each(|left| *left -= bytes);
                chosen.insert(server);
            }
        }
        flight.uploaded = flight.uploaded.or(chosen);
        for ask in [true, false] {
            let to = if ask { chosen.and(flight.asked) } else { chosen.minus(flight.asked) };
            if !to.is_empty() {
                let upload = Upload::messages(ask, flight.sealed.clone());
                turn.send(to, Message::Store(StoreMessage::Batch(upload)));
            }
        }
    }

    /// Batches that wait for shards and that a server should have but does not.
    fn upload_waiting(&mut self, server: NodeId, turn: &mut Step<'_>) {
        let waits = |flight: &Flight| flight.item.is_none() && !flight.uploaded.contains(server);
        let waiting: Vec<u64> =
            self.open.iter().filter(|(_, flight)| waits(flight)).map(|(number, _)| *number).collect();
        waiting.into_iter().for_each(|number| self.upload(number, NodeSet::only(server), turn));
    }

    /// Not enough shards in time: 2f + 1 servers are asked, then all, who get the batch again where no answer came.
    fn extend(&mut self, number: u64, stage: u32, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        let Some(flight) = self.open.get_mut(&number).filter(|flight| flight.item.is_none()) else { return };
        for server in flight.silent().iter() {
            self.aside.insert(server, turn.now() + ASIDE);
        }
        let count = if stage == 1 { 2 * quorums.faulty() + 1 } else { quorums.members() };
        let fresh = flight.first(count).minus(flight.asked);
        flight.asked = flight.asked.or(fresh);
        flight.later = NodeSet::EMPTY;
        flight.since = turn.now();
        let silent = flight.silent();
        let (ask, again) = match stage {
            1 => (fresh.and(flight.uploaded), silent.minus(flight.uploaded)),
            _ => (NodeSet::EMPTY, silent),
        };
        if !ask.is_empty() {
            turn.send(ask, Message::Store(StoreMessage::Ask(flight.statement.digest)));
        }
        self.upload(number, again, turn);
        let next = wait(&self.witness_times, 2).times(1 << stage.min(4));
        turn.arm(Timer::Witness(number, stage.saturating_add(1)), next);
    }

    fn on_shard(&mut self, from: NodeId, shard: &Shard, turn: &mut Step<'_>) {
        let Some(number) = self.by_digest.get(&shard.digest).copied() else { return };
        let Some(flight) = self.open.get_mut(&number) else { return };
        if flight.witnessed(from, shard.signature, &self.config.cluster) {
            self.witness_times.add(turn.now().since(flight.since));
            self.order(number, 0, turn);
        }
    }

    /// One server, then f + 1, then all, until the batch is delivered.
    fn order(&mut self, number: u64, stage: u32, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        let Some(flight) = self.open.get_mut(&number) else { return };
        let Some(item) = flight.item.clone() else { return };
        let up: Vec<NodeId> = flight.order.iter().copied().filter(|id| self.up.contains(*id)).collect();
        let count = match stage {
            0 => 1,
            1 => quorums.one_correct(),
            _ => quorums.members(),
        };
        if let (1, Some(server)) = (stage, up.first()) {
            self.aside.insert(*server, turn.now() + ASIDE);
        }
        let to: NodeSet = up.into_iter().take(count as usize).collect();
        flight.since = turn.now();
        if !to.is_empty() {
            turn.send(to, Message::Server(ServerMessage::Order(item)));
        }
        if stage > 0 {
            // A verdict that was lost with a link is asked for.
            let digest = flight.statement.digest;
            turn.send(NodeSet::first(quorums.members()), Message::Server(ServerMessage::Certify(digest)));
        }
        let next = wait(&self.order_times, 4).times(1 << stage.min(4));
        turn.arm(Timer::Order(number, stage.saturating_add(1)), next);
    }

    fn on_verdict(&mut self, from: NodeId, verdict: Verdict, turn: &mut Step<'_>) {
        let Some(number) = self.by_digest.get(&verdict.statement.digest).copied() else { return };
        let Some(flight) = self.open.get_mut(&number) else { return };
        let Some(said) = flight.said(from, verdict.statement, &self.config.cluster) else { return };
        if flight.item.is_some() {
            self.order_times.add(turn.now().since(flight.since));
        }
        self.close(number);
        turn.output(Output::Delivered { number, height: said.height, exceptions: said.exc_count });
    }

    fn on_refuse(&mut self, from: NodeId, refused: &Refused, turn: &mut Step<'_>) {
        let Some(number) = self.by_digest.get(&refused.digest).copied() else { return };
        let Some(flight) = self.open.get_mut(&number).filter(|flight| flight.item.is_none()) else { return };
        if matches!(refused.why, Refusal::Directory | Refusal::Credit | Refusal::TooFar) {
            // It is sent again when the wait for shards is over: a server that finds it too far is behind.
            flight.uploaded.remove(from);
            flight.later.insert(from);
            return;
        }
        flight.refused.insert(from);
        if self.config.cluster.quorums().has_correct(flight.refused) {
            self.close(number);
            turn.output(Output::Lost { number, why: Lost::Refused(refused.why) });
        }
    }

    fn close(&mut self, number: u64) {
        if let Some(flight) = self.open.remove(&number) {
            self.by_digest.remove(&flight.statement.digest);
        }
    }

    fn on_link(&mut self, server: NodeId, link: Link, turn: &mut Step<'_>) {
        match link {
            Link::Up => {
                self.up.insert(server);
                self.credit.remove(&server);
                self.upload_waiting(server, turn);
            }
            Link::Down => {
                self.up.remove(server);
                for flight in self.open.values_mut() {
                    flight.uploaded.remove(server);
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message<Never>, turn: &mut Step<'_>) {
        match message {
            Message::Store(StoreMessage::Shard(shard)) => self.on_shard(from, &shard, turn),
            Message::Store(StoreMessage::Refuse(refused)) => self.on_refuse(from, &refused, turn),
            Message::Store(StoreMessage::Credit(credit)) => {
                self.credit.insert(from, credit.bytes);
                self.upload_waiting(from, turn);
            }
            Message::Server(ServerMessage::Delivered(verdict)) => self.on_verdict(from, verdict, turn),
            // Nothing else was asked for.
            Message::Client(_) | Message::Store(_) | Message::Server(_) | Message::Ordering(_) => {}
        }
    }
}

/// So many times what 95 of 100 took of late.
fn wait(times: &Recent, factor: u64) -> Span {
    times.p95().map_or(FIRST, |span| span.times(factor).max(SHORTEST))
}

impl Machine for LoadBroker {
    type Input = Input;
    type Message = Message<Never>;
    type Timer = Timer;
    type Record = Never;
    type Job = Never;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Input::Batch(ready)) => self.on_batch(&ready, turn),
            Event::Input(Input::Show(sealed)) => {
                turn.send(self.up, Message::Store(StoreMessage::Batch(Upload::messages(false, *sealed))));
            }
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Witness(number, stage)) => self.extend(number, stage, turn),
            Event::Timer(Timer::Order(number, stage)) => self.order(number, stage, turn),
            Event::Link { peer, link } => self.on_link(peer, link, turn),
            Event::Start | Event::Done(_) | Event::Loaded { .. } => {}
        }
    }
}

impl Bounded for LoadBroker {
    fn bytes(&self) -> u64 {
        self.open.values().map(Flight::bytes).sum()
    }

    fn bytes_max(&self) -> u64 {
        let body = u64::from(self.config.cluster.rules().body_bytes_max);
        u64::from(self.config.window) * (1_024 + body)
    }
}

impl Recover for LoadBroker {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        vocabulary::queues([])
    }

    fn recover(config: Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self {
            config,
            up: NodeSet::EMPTY,
            credit: BTreeMap::new(),
            open: BTreeMap::new(),
            by_digest: BTreeMap::new(),
            witness_times: Recent::default(),
            order_times: Recent::default(),
            aside: BTreeMap::new(),
        })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
