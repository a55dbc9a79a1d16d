//! An ideal ordering loop around real executors and clients: what is submitted becomes an entry, messages can be lost
//! and doubled, nodes can crash at any effect and lie. Equal seeds give equal runs.

mod effects;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Ticket};
use synod_machine::{Condition, DoneOf, Event, Fault, Link, Log, Machine, Recover, Rng, Span, Time, Wall};
use synod_quorum::{Epoch, Member, NodeId, Roster, Weights};
use synod_service::client::ClientTimer;
use synod_service::executor::{ExecutorRecord, ExecutorTimer};
use synod_service::matching::Trust;
use synod_service::{
    Client, ClientAuth, ClientConfig, ClientInput, ClientMessage, Command, Executor, ExecutorConfig,
    ExecutorInput, ExecutorLimits, ExecutorOutput, Outcome,
};
use synod_wire::{Blob, Bytes, Drawn};

use crate::board::Board;

pub(crate) const CLUSTER: Hash = Hash([7; 32]);

pub(crate) fn keys(n: u8) -> Keys {
    Keys::ed25519(&Seed::new([n; 32]), [9; 32])
}

/// Rewrites what a lying member sends; false drops it.
pub(crate) type Lie = fn(&mut ClientMessage) -> bool;

pub(crate) struct Node {
    pub(crate) machine: Option<Executor<Board>>,
    pub(crate) records: Vec<ExecutorRecord>,
    pub(crate) blobs: BTreeMap<Hash, Bytes>,
    /// Blobs that cannot be read any more.
    pub(crate) rotten: BTreeSet<Hash>,
    /// Entries delivered so far.
    pub(crate) cursor: u64,
    pub(crate) paused: bool,
    /// Whether what guests send to it is lost.
    pub(crate) deaf: bool,
    pub(crate) lie: Option<Lie>,
    timers: BTreeMap<ExecutorTimer, Time>,
    barriers: Vec<(u64, Ticket)>,
    tickets: BTreeMap<Bytes, Ticket>,
    pub(crate) applied: u64,
    stable: u64,
    /// Effects until it crashes.
    pub(crate) fuse: Option<u64>,
    pub(crate) outputs: Vec<ExecutorOutput>,
}

pub(crate) struct Guest {
    pub(crate) machine: Client,
    keys: Keys,
    timers: BTreeMap<ClientTimer, Time>,
    pub(crate) outcomes: BTreeMap<u64, Outcome>,
    pub(crate) blamed: BTreeSet<(NodeId, &'static str)>,
    pub(crate) sent: Vec<(NodeId, ClientMessage)>,
}

enum Packet {
    ToNode { from: NodeId, to: usize, message: ClientMessage },
    ToGuest { from: NodeId, to: usize, message: ClientMessage },
    NodeDone { to: usize, done: DoneOf<Executor<Board>> },
    GuestDone { to: usize, done: DoneOf<Client> },
    Loaded { to: usize, name: Hash },
}

pub(crate) struct Setup {
    pub(crate) nodes: u32,
    pub(crate) clients: u32,
    pub(crate) seed: u64,
    pub(crate) auth: ClientAuth,
    pub(crate) limits: ExecutorLimits,
    pub(crate) window: u32,
}

impl Default for Setup {
    fn default() -> Self {
        let mut limits =
            ExecutorLimits { checkpoint_every: 16, app_bytes: 1 << 20, ..ExecutorLimits::default() };
        limits.sessions.sessions_max = 64;
        Self { nodes: 4, clients: 1, seed: 1, auth: ClientAuth::Signed, limits, window: 1_024 }
    }
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) guests: Vec<Guest>,
    /// The agreed order: payload, agreed time, whether it closes its block.
    pub(crate) log: Vec<(Bytes, Wall, bool)>,
    pub(crate) submitted: Vec<Bytes>,
    pub(crate) now: Time,
    pub(crate) from: Drawn,
    /// One of so many messages is lost, doubled; 0 is none.
    pub(crate) lossy: u64,
    pub(crate) doubling: u64,
    /// Whether submitted payloads are put into the order.
    pub(crate) orders: bool,
    pub(crate) faults: Vec<(NodeId, NodeId, Fault)>,
    roots: BTreeMap<u64, BTreeMap<usize, Hash>>,
    net: VecDeque<Packet>,
    rng: Rng,
    setup: Setup,
    node_keys: Keys,
    next_tag: u64,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut world = Self {
            nodes: Vec::new(),
            guests: Vec::new(),
            log: Vec::new(),
            submitted: Vec::new(),
            now: Time(1),
            from: Drawn::new(setup.seed),
            lossy: 0,
            doubling: 0,
            orders: true,
            faults: Vec::new(),
            roots: BTreeMap::new(),
            net: VecDeque::new(),
            rng: Rng::new(setup.seed, NodeId(0), 0),
            setup,
            node_keys: keys(200),
            next_tag: 1,
        };
        for at in 0..world.setup.nodes {
            let machine = world.recovered(at, Vec::new(), Condition::Clean);
            world.nodes.push(Node {
                machine: Some(machine),
                records: Vec::new(),
                blobs: BTreeMap::new(),
                rotten: BTreeSet::new(),
                cursor: 0,
                paused: false,
                deaf: false,
                lie: None,
                timers: BTreeMap::new(),
                barriers: Vec::new(),
                tickets: BTreeMap::new(),
                applied: 0,
                stable: 0,
                fuse: None,
                outputs: Vec::new(),
            });
        }
        for at in 0..world.setup.clients {
            world.add_guest(at);
        }
        world
    }

    /// A client of this key and nonce from its start on.
    fn client(&self, at: u32, own: &Keys, resume: Option<u64>, first: u64) -> Client {
        let trust = Trust::Members(Weights::equal(self.setup.nodes));
        let mut config = ClientConfig::new(trust, CLUSTER, own.public(), u64::from(at));
        config.auth = self.setup.auth;
        config.window = self.setup.window;
        config.resume = resume;
        config.first = first;
        let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
        Client::recover(config, log).expect("a client has no log")
    }

    /// A client starts again with its key and nonce, to ask for what it asked in this session.
    pub(crate) fn resume(&mut self, at: usize, session: u64) {
        self.resume_behind(at, session, 1);
    }

    /// The same, whose first request has the number `first`.
    pub(crate) fn resume_behind(&mut self, at: usize, session: u64, first: u64) {
        let own = keys(u8::try_from(100 + at).expect("few clients"));
        let number = u32::try_from(at).expect("few clients");
        self.guests[at].machine = self.client(number, &own, Some(session), first);
        self.guests[at].timers.clear();
    }

    fn add_guest(&mut self, at: u32) {
        let own = keys(u8::try_from(100 + at).expect("few clients"));
        let machine = self.client(at, &own, None, 1);
        self.guests.push(Guest {
            machine,
            keys: own,
            timers: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            blamed: BTreeSet::new(),
            sent: Vec::new(),
        });
    }

    pub(crate) fn roster(&self) -> Roster {
        let member = |n: u32| Member { key: keys(u8::try_from(n).expect("few")).public(), power: 1 };
        Roster::new(Epoch(0), (0..self.setup.nodes).map(member).collect()).expect("distinct keys")
    }

    fn recovered(&self, at: u32, records: Vec<ExecutorRecord>, condition: Condition) -> Executor<Board> {
        let config = ExecutorConfig {
            app: Board::default(),
            own: NodeId(at),
            roster: self.roster(),
            cluster: CLUSTER,
            auth: self.setup.auth,
            limits: self.setup.limits,
        };
        let log = Log { condition, records: &mut records.into_iter() };
        Executor::recover(config, log).expect("own records")
    }

    pub(crate) fn executor(&self, at: usize) -> &Executor<Board> {
        self.nodes[at].machine.as_ref().expect("running")
    }

    /// Stops a node, losing all but its lane.
    pub(crate) fn crash(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.machine = None;
        node.timers.clear();
        node.barriers.clear();
        node.tickets.clear();
        node.fuse = None;
        let id = NodeId(u32::try_from(at).expect("few"));
        self.net.retain(|packet| match packet {
            Packet::ToNode { to, from, .. } => *to != at && *from != id,
            Packet::NodeDone { to, .. } | Packet::Loaded { to, .. } => *to != at,
            _ => true,
        });
    }

    /// Starts it again: delivery resumes behind the position it names.
    pub(crate) fn restart(&mut self, at: usize) {
        self.restart_over(at, Condition::Clean);
    }

    /// Starts it again over a lane of this condition.
    pub(crate) fn restart_over(&mut self, at: usize, condition: Condition) {
        let id = u32::try_from(at).expect("few");
        let machine = self.recovered(id, self.nodes[at].records.clone(), condition);
        let resume = machine.resume_position().0;
        let node = &mut self.nodes[at];
        node.machine = Some(machine);
        node.cursor = resume;
        node.applied = resume;
        node.stable = resume;
        self.step_node(at, Event::Start);
        for guest in 0..self.guests.len() {
            self.step_guest(guest, Event::Link { peer: NodeId(id), link: Link::Up });
        }
    }

    /// Submits commands at a client; gives their tags.
    pub(crate) fn submit(&mut self, guest: usize, commands: &[&str]) -> Vec<u64> {
        self.submit_within(guest, commands, Span::secs(3_600))
    }

    pub(crate) fn submit_within(&mut self, guest: usize, commands: &[&str], deadline: Span) -> Vec<u64> {
        let first = self.next_tag;
        self.next_tag += commands.len() as u64;
        let tagged = (first..).zip(commands);
        let commands = tagged
            .map(|(tag, body)| Command { tag, body: Bytes::copy_from_slice(body.as_bytes()) })
            .collect();
        self.step_guest(guest, Event::Input(ClientInput::Submit { commands, deadline }));
        (first..self.next_tag).collect()
    }

    pub(crate) fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag - 1
    }

    pub(crate) fn input(&mut self, guest: usize, input: ClientInput) {
        self.step_guest(guest, Event::Input(input));
    }

    /// Delivers a message to a node as if `from` had sent it.
    pub(crate) fn inject(&mut self, from: NodeId, to: usize, message: ClientMessage) {
        self.net.push_back(Packet::ToNode { from, to, message });
    }

    pub(crate) fn deliver(&mut self, at: usize, delivered: Delivered) {
        self.step_node(at, Event::Input(ExecutorInput::Delivered(delivered)));
    }

    /// Puts a payload into the order without anybody's submission: what a lying proposer can do.
    pub(crate) fn order_again(&mut self, payload: Bytes) {
        self.append(payload, true);
    }

    pub(crate) fn value(&self, guest: usize, tag: u64) -> Option<String> {
        match self.guests[guest].outcomes.get(&tag) {
            Some(Outcome::Accepted { value, .. }) => Some(String::from_utf8_lossy(value).into_owned()),
            _ => None,
        }
    }

    /// Runs until `done`, or says after many steps that it never came.
    pub(crate) fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            assert!(self.tick(), "everything is quiet and still not: {what}");
        }
        unreachable!("200,000 steps and still not: {what}")
    }

    pub(crate) fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end && self.tick_before(end) {}
        // Also where nobody has a timer.
        self.now = end;
    }

    pub(crate) fn run_quiet(&mut self) {
        while self.tick_now() {}
    }

    pub(crate) fn all_answered(&self, guest: usize, tags: &[u64]) -> bool {
        tags.iter().all(|tag| self.guests[guest].outcomes.contains_key(tag))
    }

    /// One thing happens: a message or job arrives, an entry is delivered, a payload is ordered, or time passes.
    pub(crate) fn tick(&mut self) -> bool {
        self.tick_before(Time(u64::MAX))
    }

    fn tick_before(&mut self, end: Time) -> bool {
        self.tick_now() || self.fire(end)
    }

    fn tick_now(&mut self) -> bool {
        let mut progress = Vec::new();
        if !self.net.is_empty() {
            progress.push(0);
        }
        if self.orders && !self.submitted.is_empty() {
            progress.push(1);
        }
        let behind: Vec<usize> = (0..self.nodes.len()).filter(|at| self.can_deliver(*at)).collect();
        if !behind.is_empty() {
            progress.push(2);
        }
        let Some(pick) = progress.get(self.draw(progress.len())).copied() else { return false };
        match pick {
            0 => self.arrive(),
            1 => self.order(),
            _ => {
                let at = behind[self.draw(behind.len())];
                self.deliver_next(at);
            }
        }
        true
    }

    fn draw(&mut self, below: usize) -> usize {
        usize::try_from(self.from.below(below as u64)).expect("small")
    }

    fn can_deliver(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let due = node.cursor < self.log.len() as u64
            || node.barriers.first().is_some_and(|(behind, _)| *behind <= node.cursor)
            || self.stable_due(at).is_some();
        node.machine.as_ref().is_some_and(|machine| machine.room() > 0) && !node.paused && due
    }

    fn stable_due(&self, at: usize) -> Option<Checkpoint> {
        let node = &self.nodes[at];
        let (position, root) = self.certified()?;
        (position > node.stable && position <= node.applied).then(|| checkpoint(position, root))
    }

    /// The newest checkpoint that a quorum has reported.
    pub(crate) fn certified(&self) -> Option<(u64, Hash)> {
        let quorum = usize::try_from(Weights::equal(self.setup.nodes).quorum()).expect("small");
        self.roots.iter().rev().find_map(|(position, roots)| {
            let mut roots = roots.values();
            let root = *roots.next()?;
            (roots.len() + 1 >= quorum).then_some((*position, root))
        })
    }

    fn deliver_next(&mut self, at: usize) {
        if let Some(stable) = self.stable_due(at) {
            self.nodes[at].stable = stable.position.0;
            return self.deliver(at, Delivered::Stable(stable));
        }
        let node = &mut self.nodes[at];
        if node.barriers.first().is_some_and(|(behind, _)| *behind <= node.cursor) {
            let (_, ticket) = node.barriers.remove(0);
            return self.deliver(at, Delivered::Barrier(ticket));
        }
        let index = usize::try_from(node.cursor).expect("small");
        let (payload, time, last) = self.log[index].clone();
        node.cursor += 1;
        let proposer = Origin::Member(NodeId(u32::try_from(index).expect("small") % self.setup.nodes));
        let origin = node.tickets.get(&payload).map_or(proposer, |ticket| Origin::Local(*ticket));
        let position = Position(node.cursor);
        self.deliver(at, Delivered::Entry(Entry { position, time, last, origin, payload, proof: None }));
    }

    /// Orders some of what was submitted as one block.
    fn order(&mut self) {
        let count = 1 + self.draw(self.submitted.len());
        let block: Vec<Bytes> = self.submitted.drain(..count).collect();
        let last = block.len() - 1;
        for (at, payload) in block.into_iter().enumerate() {
            self.append(payload, at == last);
        }
    }

    fn append(&mut self, payload: Bytes, last: bool) {
        let before = self.log.last().map_or(Wall(0), |(_, time, _)| *time);
        let time = before.max(Wall(self.now.0 / 1_000_000));
        self.log.push((payload, time, last));
    }

    fn arrive(&mut self) {
        let Some(packet) = self.net.pop_front() else { return };
        match packet {
            Packet::ToNode { from, to, message } => self.step_node(to, Event::Message { from, message }),
            Packet::ToGuest { from, to, message } => self.step_guest(to, Event::Message { from, message }),
            Packet::NodeDone { to, done } => self.step_node(to, Event::Done(done)),
            Packet::GuestDone { to, done } => self.step_guest(to, Event::Done(done)),
            Packet::Loaded { to, name } => {
                let node = &self.nodes[to];
                let bytes = node.blobs.get(&name).filter(|_| !node.rotten.contains(&name)).cloned();
                self.step_node(to, Event::Loaded { name, bytes });
            }
        }
    }

    /// Time passes to the next timer.
    fn fire(&mut self, end: Time) -> bool {
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.flat_map(|(at, node)| node.timers.iter().map(move |(t, due)| (*due, at, Ok(*t))));
        let guests = self.guests.iter().enumerate();
        let guests =
            guests.flat_map(|(at, guest)| guest.timers.iter().map(move |(t, due)| (*due, at, Err(*t))));
        let Some((due, at, timer)) = nodes.chain(guests).min_by_key(|(due, at, _)| (*due, *at)) else {
            return false;
        };
        if due > end {
            self.now = end;
            return false;
        }
        self.now = self.now.max(due);
        match timer {
            Ok(timer) => {
                self.nodes[at].timers.remove(&timer);
                self.step_node(at, Event::Timer(timer));
            }
            Err(timer) => {
                self.guests[at].timers.remove(&timer);
                self.step_guest(at, Event::Timer(timer));
            }
        }
        true
    }

    /// No command was executed twice anywhere, and what one node executed is a prefix of what another did.
    pub(crate) fn check_exactly_once(&self) {
        let mut longest: &[(u64, u64)] = &[];
        for node in self.nodes.iter().filter_map(|node| node.machine.as_ref()) {
            let executed = &node.app().executed;
            let distinct: BTreeSet<_> = executed.iter().collect();
            assert_eq!(distinct.len(), executed.len(), "a command was executed twice");
            let (short, long) = if executed.len() < longest.len() {
                (&executed[..], longest)
            } else {
                (longest, &executed[..])
            };
            assert_eq!(short, &long[..short.len()], "nodes executed different orders");
            longest = long;
        }
    }
}

pub(crate) fn checkpoint(position: u64, root: Hash) -> Checkpoint {
    let certificate = Blob::try_from(Bytes::from_static(b"certified")).expect("short");
    Checkpoint { position: Position(position), root, certificate }
}
