//! Brokers and clients around servers that a test plays: messages in order, virtual time, and losses that a test chooses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_machine::{Condition, Effect, Event, Log, Machine, Recover, Time, To};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use super::servers::Servers;
use super::{Hand, SERVERS, client_keys, cluster_of, keys, member};
use crate::broker::{self, Broker};
use crate::client::{self, Client, ClientRecord, Input, Output};
use crate::config::{Class, Cluster, Rules};
use crate::directory::Directory;
use crate::message::ClientMessage;
use crate::vocabulary::Message;

/// The brokers of a world, in the order in which clients ask them.
pub(crate) const BROKERS: [NodeId; 2] = [NodeId(200), NodeId(201)];

/// Where client `id` speaks from.
pub(crate) fn link(id: u32) -> NodeId {
    NodeId(1_000 + id)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Broker(NodeId, broker::Timer),
    Client(NodeId, client::Timer),
}

/// A letter on its way.
#[derive(Clone)]
pub(crate) struct Letter {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) message: Message,
}

/// Whether a letter is lost.
pub(crate) type Loss = Box<dyn FnMut(&Letter) -> bool>;

/// The delays of the copies of a letter that arrive, in milliseconds.
pub(crate) type Way = Box<dyn FnMut(&Letter) -> Vec<u64>>;

/// Servers, four unless a test wants more, up to two brokers, and clients.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) servers: Servers,
    pub(crate) brokers: BTreeMap<NodeId, Hand<Broker>>,
    pub(crate) clients: BTreeMap<NodeId, Hand<Client>>,
    pub(crate) records: BTreeMap<NodeId, Vec<ClientRecord>>,
    pub(crate) outputs: Vec<(NodeId, Output)>,
    pub(crate) blames: Vec<(NodeId, &'static str)>,
    pub(crate) now: Time,
    timers: BTreeSet<(Time, Due)>,
    letters: VecDeque<Letter>,
    pub(crate) loss: Loss,
    pub(crate) way: Way,
    /// Letters that arrive later, in order of time and posting.
    flying: BTreeMap<(Time, u64), Letter>,
    posted: u64,
    /// A broker that dies when it has sent so many letters more.
    pub(crate) fuse: Option<(NodeId, u32)>,
}

/// A directory of clients 0 to `count` - 1.
pub(crate) fn directory(count: u32) -> Directory {
    let mut directory = Directory::default();
    for id in 0..count {
        assert_eq!(directory.admit(&member(&client_keys(id))), (Some(id), true));
    }
    directory
}

/// Parameters under which a few clients distil.
pub(crate) fn eager() -> broker::Parameters {
    broker::Parameters { distil_min: 2, ..broker::Parameters::of(SERVERS) }
}

impl World {
    /// A world of these brokers, whose directory has `known` clients; none of them runs yet.
    pub(crate) fn new(known: u32, parameters: broker::Parameters) -> Self {
        Self::among(SERVERS, known, parameters)
    }

    /// As [`World::new`], with so many servers.
    pub(crate) fn among(servers: u32, known: u32, parameters: broker::Parameters) -> Self {
        let rules = Rules { batch_max: 64, body_bytes_max: 64 << 10, ..Rules::default() };
        let cluster = cluster_of(servers, rules);
        let mut world = Self {
            servers: Servers::new(cluster.clone(), directory(known)),
            cluster,
            brokers: BTreeMap::new(),
            clients: BTreeMap::new(),
            records: BTreeMap::new(),
            outputs: Vec::new(),
            blames: Vec::new(),
            now: Time::ZERO,
            timers: BTreeSet::new(),
            letters: VecDeque::new(),
            loss: Box::new(|_| false),
            way: Box::new(|_| vec![0]),
            flying: BTreeMap::new(),
            posted: 0,
            fuse: None,
        };
        BROKERS.into_iter().for_each(|id| world.start_broker(id, parameters));
        world.settle();
        world
    }

    /// Starts a broker, or starts it anew.
    pub(crate) fn start_broker(&mut self, id: NodeId, parameters: broker::Parameters) {
        let directory = self.servers.directory.clone();
        let config = broker::Config::new(self.cluster.clone(), 0, Class::Fixed(8), directory, parameters);
        let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
        let machine = Broker::recover(config.expect("sound"), log).expect("it keeps nothing");
        self.timers.retain(|(_, due)| !matches!(due, Due::Broker(of, _) if *of == id));
        self.brokers.insert(id, Hand::new(machine, keys(500 + u64::from(id.0))));
        self.step_broker(id, Event::Start);
        self.credit();
    }

    /// Starts client `id`, or starts it anew from its records.
    pub(crate) fn start_client(&mut self, id: u32) {
        self.start_unknown(id, Some(id));
    }

    /// Starts a client that may have no id yet.
    pub(crate) fn start_unknown(&mut self, name: u32, id: Option<u32>) {
        let parameters = client::Parameters::default();
        let class = Class::Fixed(8);
        let config = client::Config::new(self.cluster.clone(), class, BROKERS.to_vec(), id, parameters);
        let blank = client::Next { id, next_k: 0, parity: false, flight: None, certificate: None };
        let first = id.map(|_| ClientRecord::Next(blank)).into_iter().collect();
        let records = self.records.entry(link(name)).or_insert(first).clone();
        let log = Log { condition: Condition::Clean, records: &mut records.into_iter() };
        let machine = Client::recover(config.expect("sound"), log).expect("its own journal");
        self.timers.retain(|(_, due)| !matches!(due, Due::Client(of, _) if *of == link(name)));
        self.clients.insert(link(name), Hand::new(machine, client_keys(name)));
        self.step_client(link(name), Event::Start);
    }

    /// Client `id` broadcasts a word.
    pub(crate) fn broadcast(&mut self, id: u32, word: u64) {
        let payload: Bytes = word.to_le_bytes().to_vec().into();
        self.input(id, Input::Broadcast { token: word, payload });
    }

    pub(crate) fn input(&mut self, id: u32, input: Input) {
        self.step_client(link(id), Event::Input(input));
    }

    /// Somebody says something to a broker.
    pub(crate) fn say(&mut self, from: NodeId, to: NodeId, message: ClientMessage) {
        self.letters.push_back(Letter { from, to, message: Message::Client(message) });
    }

    /// Anybody says anything to a broker.
    pub(crate) fn say_any(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.letters.push_back(Letter { from, to, message });
    }

    /// Servers say where they stand.
    pub(crate) fn credit(&mut self) {
        for to in self.brokers.keys() {
            for (from, message) in self.servers.credits() {
                self.letters.push_back(Letter { from, to: *to, message });
            }
        }
    }

    fn arm(&mut self, due: Due, at: Option<Time>) {
        self.timers.retain(|(_, armed)| *armed != due);
        self.timers.extend(at.map(|at| (at, due)));
    }

    fn post(&mut self, from: NodeId, to: To, message: &Message) {
        let to: NodeSet = match to {
            To::Node(to) if !to.is_member() => {
                self.letters.push_back(Letter { from, to, message: message.clone() });
                return;
            }
            To::Node(to) => NodeSet::only(to),
            To::Set(set) => set,
        };
        for to in to.iter() {
            self.letters.push_back(Letter { from, to, message: message.clone() });
        }
    }

    fn step_broker(&mut self, id: NodeId, event: Event<Broker>) {
        let Some(hand) = self.brokers.get_mut(&id) else { return };
        hand.now = self.now;
        for effect in hand.step(event) {
            match effect {
                Effect::Send { to, message } => {
                    if let Some((_, left)) = self.fuse.as_mut().filter(|(of, _)| *of == id) {
                        if *left == 0 {
                            self.brokers.remove(&id);
                            return;
                        }
                        *left -= 1;
                    }
                    self.post(id, to, &message);
                }
                Effect::Arm { timer, after } => {
                    self.arm(Due::Broker(id, timer), Some(self.now + after));
                }
                Effect::Disarm(timer) => self.arm(Due::Broker(id, timer), None),
                Effect::Blame { peer, fault } => self.blames.push((peer, fault.name)),
                _ => {}
            }
        }
        Self::bounded(&self.brokers[&id].machine);
    }

    fn bounded<M: Machine + synod_machine::Bounded>(machine: &M) {
        assert!(machine.bytes() <= machine.bytes_max(), "within the formula");
    }

    fn step_client(&mut self, id: NodeId, event: Event<Client>) {
        let Some(hand) = self.clients.get_mut(&id) else { return };
        hand.now = self.now;
        for effect in hand.step(event) {
            match effect {
                Effect::Send { to, message } => self.post(id, to, &message),
                Effect::Arm { timer, after } => {
                    self.arm(Due::Client(id, timer), Some(self.now + after));
                }
                Effect::Disarm(timer) => self.arm(Due::Client(id, timer), None),
                Effect::Persist(record) => self.records.entry(id).or_default().push(record),
                Effect::Output(output) => self.outputs.push((id, output)),
                Effect::Blame { peer, fault } => self.blames.push((peer, fault.name)),
                _ => {}
            }
        }
        Self::bounded(&self.clients[&id].machine);
    }

    /// Delivers every letter, and those that follow from them.
    pub(crate) fn settle(&mut self) {
        while let Some(letter) = self.letters.pop_front() {
            if (self.loss)(&letter) {
                continue;
            }
            for delay in (self.way)(&letter) {
                if delay == 0 {
                    self.deliver(letter.clone());
                } else {
                    self.posted += 1;
                    let at = Time(self.now.0 + delay * 1_000_000);
                    self.flying.insert((at, self.posted), letter.clone());
                }
            }
        }
    }

    fn deliver(&mut self, Letter { from, to, message }: Letter) {
        if self.brokers.contains_key(&to) {
            self.step_broker(to, Event::Message { from, message });
        } else if self.clients.contains_key(&to) {
            self.step_client(to, Event::Message { from, message });
        } else if to.is_member() {
            let before = self.servers.height;
            for (server, message) in self.servers.hear(to, message) {
                self.letters.push_back(Letter { from: server, to: from, message });
            }
            if self.servers.height > before {
                self.credit();
            }
        }
    }

    /// Lets time pass until `until` milliseconds, firing what is due in order.
    pub(crate) fn run_until(&mut self, until: u64) {
        let until = Time(until * 1_000_000);
        self.settle();
        loop {
            let next = self.timers.first().copied().filter(|(at, _)| *at <= until);
            let latest = next.map_or(until, |(at, _)| at);
            if let Some(first) = self.flying.first_entry().filter(|first| first.key().0 <= latest) {
                self.now = self.now.max(first.key().0);
                let letter = first.remove();
                self.deliver(letter);
                self.settle();
                continue;
            }
            let Some((at, due)) = next else { break };
            self.timers.remove(&(at, due));
            self.now = self.now.max(at);
            match due {
                Due::Broker(id, timer) => self.step_broker(id, Event::Timer(timer)),
                Due::Client(id, timer) => self.step_client(id, Event::Timer(timer)),
            }
            self.settle();
        }
        self.now = until;
    }

    /// Tokens that client `id` was told are delivered, and whether with a receipt.
    pub(crate) fn done(&self, id: u32) -> Vec<(u64, bool)> {
        let own = self.outputs.iter().filter(|(of, _)| *of == link(id));
        let done = own.filter_map(|(_, output)| match output {
            Output::Delivered { tokens, receipt } => Some((tokens[0], receipt.is_some())),
            _ => None,
        });
        done.collect()
    }

    /// Messages of client `id` that were delivered.
    pub(crate) fn delivered(&self, id: u32) -> Vec<u64> {
        let own = self.servers.delivered.iter().filter(|(of, ..)| *of == id);
        own.map(|(_, _, message, _)| u64::from_le_bytes(*message.first_chunk().expect("eight bytes")))
            .collect()
    }
}
