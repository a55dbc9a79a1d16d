//! Brokers and clients beside the servers of [`World`], with journals, timers and jobs of their own.

use std::collections::{BTreeMap, VecDeque};

use synod_chopchop::broker::{self, Broker};
use synod_chopchop::client::{self, Client, ClientRecord, Input, Next, Output};
use synod_chopchop::config::Class;
use synod_chopchop::message::ClientMessage;
use synod_chopchop::vocabulary::{Message, Role};
use synod_crypto::Keys;
use synod_machine::{Condition, Event, Never, Span, To};
use synod_quorum::NodeId;

use crate::world::{BROKER, CLIENTS, Envelope, Host, N, OTHER, Said, Setup, World, Written, words};

/// Where client `name` speaks from.
pub(crate) const fn link(name: u32) -> u32 {
    1_000 + name
}

/// Everything.
pub(crate) struct Whole {
    pub(crate) world: World,
    pub(crate) brokers: BTreeMap<u32, Host<Broker>>,
    clients: BTreeMap<u32, Host<Client>>,
    /// Under which id a client was started.
    ids: BTreeMap<u32, Option<u32>>,
    /// Clients that hold the keys of another.
    twins: BTreeMap<u32, u32>,
    /// Whether everybody waits as short as it may.
    hasty: bool,
    pub(crate) outputs: Vec<(u32, Output)>,
    letters: VecDeque<(u32, u32, Message<Never>)>,
    /// Whether a letter of a broker or a client gets through.
    pub(crate) passes: Box<dyn Fn(&Envelope) -> bool>,
}

fn plain<A>(message: Message<A>) -> Message<Never> {
    match message {
        Message::Client(message) => Message::Client(message),
        Message::Store(message) => Message::Store(message),
        Message::Server(message) => Message::Server(message),
        Message::Ordering(_) => unreachable!("servers order among themselves"),
    }
}

fn spoken(message: Message<Never>) -> Message<crate::ideal::Say> {
    match message {
        Message::Client(message) => Message::Client(message),
        Message::Store(message) => Message::Store(message),
        Message::Server(message) => Message::Server(message),
        Message::Ordering(never) => match never {},
    }
}

impl Whole {
    pub(crate) fn new(setup: Setup) -> Self {
        Self::of(setup, false)
    }

    /// One in which brokers and clients wait as short as they may.
    pub(crate) fn hasty(setup: Setup) -> Self {
        Self::of(setup, true)
    }

    fn of(setup: Setup, hasty: bool) -> Self {
        let mut whole = Self {
            world: World::new(setup),
            brokers: BTreeMap::new(),
            clients: BTreeMap::new(),
            ids: BTreeMap::new(),
            twins: BTreeMap::new(),
            hasty,
            outputs: Vec::new(),
            letters: VecDeque::new(),
            passes: Box::new(|_| true),
        };
        for id in [BROKER, OTHER] {
            whole.start_broker(id);
        }
        whole.settle();
        whole
    }

    /// Starts a broker, or the next life of one: it keeps nothing.
    pub(crate) fn start_broker(&mut self, id: u32) {
        let mut parameters = broker::Parameters { distil_min: 2, ..broker::Parameters::of(N) };
        if self.hasty {
            let shortest = Span::millis(1);
            (parameters.window_min, parameters.window_max) = (shortest, shortest);
            (parameters.distil_max, parameters.keep) = (Span::millis(20), Span::ZERO);
        }
        let (cluster, directory) = (self.world.maker.cluster.clone(), self.world.maker.directory(CLIENTS));
        let config = broker::Config::new(cluster, 0, Class::Fixed(8), directory, parameters);
        let mut host = Host::new();
        host.open(config.expect("sound"), Condition::Fresh);
        self.brokers.insert(id, host);
    }

    fn config(&self, id: Option<u32>) -> client::Config {
        let cluster = self.world.maker.cluster.clone();
        let brokers = vec![NodeId(BROKER), NodeId(OTHER)];
        let mut parameters = client::Parameters::default();
        if self.hasty {
            let (submit, retransmit) = (Span::millis(50), Span::millis(1));
            parameters = client::Parameters { submit, retransmit, ..parameters };
        }
        client::Config::new(cluster, Class::Fixed(8), brokers, id, parameters).expect("sound")
    }

    /// Starts a client; one with an id has a journal that begins here.
    pub(crate) fn start_client(&mut self, name: u32, id: Option<u32>) {
        let mut host: Host<Client> = Host::new();
        if id.is_some() {
            let next = Next { id, next_k: 0, parity: false, flight: None, certificate: None };
            host.journal.push(Written::Record(ClientRecord::Next(next)));
        }
        host.open(self.config(id), Condition::Clean);
        self.ids.insert(name, id);
        self.clients.insert(link(name), host);
        self.settle();
    }

    /// Starts a second instance of a client under another name, without a journal.
    pub(crate) fn start_twin(&mut self, name: u32, of: u32) {
        self.ids.insert(name, Some(of));
        self.twins.insert(name, of);
        self.lose_client(name);
    }

    /// Kills a client and opens it again over what surely was on its disk.
    pub(crate) fn restart_client(&mut self, name: u32) {
        let config = self.config(self.ids[&name]);
        let host = self.clients.get_mut(&link(name)).expect("it was started");
        host.crash(0);
        host.open(config, Condition::Clean);
        self.settle();
    }

    /// Kills a client and loses its journal.
    pub(crate) fn lose_client(&mut self, name: u32) {
        let mut host: Host<Client> = Host::new();
        host.open(self.config(self.ids[&name]), Condition::Fresh);
        self.clients.insert(link(name), host);
        self.settle();
    }

    pub(crate) fn input(&mut self, name: u32, input: Input) {
        let host = self.clients.get_mut(&link(name)).expect("it was started");
        host.local.push_back(Event::Input(input));
        self.settle();
    }

    pub(crate) fn broadcast(&mut self, name: u32, word: u64) {
        let payload = word.to_le_bytes().to_vec().into();
        self.input(name, Input::Broadcast { token: word, payload });
    }

    fn post(&mut self, from: u32, to: To, message: &Message<Never>) {
        self.world.trace(from, to, &spoken(message.clone()));
        let peers: Vec<u32> = match to {
            To::Node(node) => vec![node.0],
            To::Set(set) => set.iter().map(|node| node.0).collect(),
        };
        for to in peers {
            let envelope = Envelope { from, to, message: spoken(message.clone()) };
            if !(self.passes)(&envelope) {
                continue;
            }
            if to < N {
                self.world.flight.push_back(envelope);
            } else {
                self.letters.push_back((from, to, message.clone()));
            }
        }
    }

    fn keys(&self, name: u32) -> Keys {
        self.world.maker.client(self.twins.get(&name).copied().unwrap_or(name))
    }

    /// Somebody says something to a broker.
    pub(crate) fn say(&mut self, from: u32, to: u32, message: ClientMessage) {
        self.letters.push_back((from, to, Message::Client(message)));
        self.settle();
    }

    fn step_all(&mut self) -> bool {
        let now = self.world.now;
        let mut said = Vec::new();
        let mut moved = false;
        let broker_keys = self.keys(9_000);
        for (id, host) in &mut self.brokers {
            while let Some(some) = host.step(now, &broker_keys) {
                moved = true;
                said.extend(some.into_iter().filter_map(|one| match one {
                    Said::Send(to, message) => Some((*id, to, message)),
                    // How it looks at itself, each second.
                    Said::Output(_) => None,
                }));
            }
        }
        let names: Vec<u32> = self.clients.keys().copied().collect();
        for from in names {
            let keys = self.keys(from - link(0));
            let host = self.clients.get_mut(&from).expect("a client");
            let mut before = host.journal.len();
            while let Some(some) = host.step(now, &keys) {
                moved = true;
                let written = host.journal[before..].iter().filter_map(words::of_client);
                written.for_each(|what| self.world.note(&words::name(from), &what));
                before = host.journal.len();
                for one in some {
                    match one {
                        Said::Send(to, message) => said.push((from, to, message)),
                        Said::Output(output) => self.outputs.push((from, output)),
                    }
                }
            }
        }
        for (from, to, message) in said {
            self.post(from, to, &message);
        }
        moved
    }

    /// Lets everything happen that needs no time.
    pub(crate) fn settle(&mut self) {
        loop {
            self.world.calm();
            let mut moved = false;
            for Envelope { from, to, message } in core::mem::take(&mut self.world.inbox) {
                let envelope = Envelope { from, to, message };
                if (self.passes)(&envelope) {
                    self.letters.push_back((from, to, plain(envelope.message)));
                }
            }
            while let Some((from, to, message)) = self.letters.pop_front() {
                moved = true;
                let (role, from) = (message.to(), NodeId(from));
                match (role, self.brokers.get_mut(&to), self.clients.get_mut(&to)) {
                    (Role::Broker, Some(host), _) => host.local.push_back(Event::Message { from, message }),
                    (Role::Client, _, Some(host)) => host.local.push_back(Event::Message { from, message }),
                    // It is dead.
                    _ => {}
                }
            }
            moved |= self.step_all();
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass, in steps of 50 ms.
    pub(crate) fn pass(&mut self, span: Span) {
        for _ in 0..span.as_millis().div_ceil(50) {
            self.world.pass(Span::millis(50));
            let now = self.world.now;
            self.brokers.values_mut().for_each(|host| host.fire(now));
            self.clients.values_mut().for_each(|host| host.fire(now));
            self.settle();
        }
    }

    /// Lets time pass in steps of a millisecond.
    pub(crate) fn pass_finely(&mut self, span: Span) {
        for _ in 0..span.as_millis() {
            self.jump(Span::millis(1));
        }
    }

    /// The clock of everybody goes on at once.
    pub(crate) fn jump(&mut self, span: Span) {
        self.world.now = self.world.now + span;
        let now = self.world.now;
        for node in &mut self.world.nodes {
            node.store.fire(now);
            node.server.fire(now);
        }
        self.brokers.values_mut().for_each(|host| host.fire(now));
        self.clients.values_mut().for_each(|host| host.fire(now));
        self.settle();
    }

    /// Events that all machines took.
    pub(crate) fn steps(&self) -> u64 {
        let servers: u64 = self.world.nodes.iter().map(|node| node.server.steps + node.store.steps).sum();
        let brokers: u64 = self.brokers.values().map(|host| host.steps).sum();
        servers + brokers + self.clients.values().map(|host| host.steps).sum::<u64>()
    }

    /// Words of client `id` that server 0 delivered, in order.
    pub(crate) fn delivered(&self, id: u32) -> Vec<u64> {
        let mut words = Vec::new();
        for apply in &self.world.node(0).applied {
            for (index, entry) in (0_u32..).zip(apply.batch.columns().entries()) {
                if entry.id == id && apply.exceptions.reason(index).is_none() {
                    words.push(u64::from_le_bytes(*entry.message.first_chunk().expect("eight bytes")));
                }
            }
        }
        words
    }

    /// Messages that a client was told are delivered.
    pub(crate) fn done(&self, name: u32) -> usize {
        let done =
            |(of, output): &&(u32, Output)| *of == link(name) && matches!(output, Output::Delivered { .. });
        self.outputs.iter().filter(done).count()
    }

    /// Receipts that clients got; every one of them holds.
    pub(crate) fn receipts(&self) -> usize {
        let receipts = self.outputs.iter().filter_map(|(_, output)| match output {
            Output::Delivered { receipt, .. } => receipt.as_ref(),
            _ => None,
        });
        let cluster = &self.world.maker.cluster;
        let each = receipts.map(|receipt| assert_eq!(receipt.verify(cluster, &self.keys(1)), Ok(())));
        each.count()
    }

    /// Everybody that a broker, a client or a server blamed.
    pub(crate) fn blamed(&self) -> Vec<(u32, &'static str)> {
        let brokers = self.brokers.values().flat_map(|host| &host.blamed);
        let clients = self.clients.values().flat_map(|host| &host.blamed);
        let servers = self.world.nodes.iter().flat_map(|node| &node.server.blamed);
        let stores = self.world.nodes.iter().flat_map(|node| &node.store.blamed);
        brokers.chain(clients).chain(servers).chain(stores).copied().collect()
    }
}
