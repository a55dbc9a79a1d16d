//! Orderings with a user each, who applies what it is given, hashes it, and takes a state where it is told to. A judge writes down what was
//! delivered where, and compares.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Hasher};
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Refusal, Submit, Ticket};
use synod_machine::{Condition, Log, Recover as _, Span, Time, Wall};
use synod_quorum::NodeId;
use synod_ubft::certificate::Certificate;
use synod_ubft::ordering::{Message, Ordering, OrderingConfig, Rooted};
use synod_wire::{Bytes, Limits, Wire as _};

use crate::group::config;
use crate::net::{Net, Seen};
use crate::town::Town;
use crate::world::{TAIL, keys};

/// Positions between two states.
pub(crate) const EVERY: u64 = 8;

/// What an entry is to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) payload: Bytes,
    pub(crate) time: Wall,
    pub(crate) last: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) position: u64,
    pub(crate) root: Hash,
    time: Wall,
    /// Takes entries, and reports nothing.
    pub(crate) is_idle: bool,
    /// Its state is another one.
    pub(crate) is_wrong: bool,
    /// Takes no state that it is told to take.
    pub(crate) is_stateless: bool,
    /// Up to where it reported, and what it has on its disk.
    pub(crate) applied: u64,
    durable: BTreeMap<u64, Hash>,
    pub(crate) local: BTreeMap<u64, u64>,
    pub(crate) origins: BTreeSet<u32>,
    pub(crate) stable: Vec<Checkpoint>,
    pub(crate) jumps: Vec<Checkpoint>,
    /// Of barriers, with the position up to which entries were given before.
    pub(crate) barriers: BTreeMap<u64, u64>,
    pub(crate) refused: Vec<(u64, Refusal)>,
    pub(crate) proofs: Vec<(Position, Option<Bytes>)>,
}

/// See the module.
pub(crate) struct Choir {
    pub(crate) n: u32,
    pub(crate) net: Net<Ordering>,
    pub(crate) users: BTreeMap<NodeId, User>,
    pub(crate) order: BTreeMap<u64, Row>,
    /// Of whom nothing is expected.
    pub(crate) liars: BTreeSet<NodeId>,
    next: u64,
    tweak: fn(&mut OrderingConfig),
}

pub(crate) fn root_of(before: Hash, position: u64, payload: &[u8]) -> Hash {
    let mut hasher = Hasher::new("test user");
    hasher.add(&before.0).add(&position.to_le_bytes()).add(payload);
    hasher.finish()
}

impl Choir {
    pub(crate) fn new(n: u32, seed: u64, tweak: fn(&mut OrderingConfig)) -> Self {
        let specs = Ordering::queues(&Self::settings(NodeId(0), n, 0, tweak));
        let mut choir = Self {
            n,
            net: Net::new(n, specs, (n - 1) * TAIL, seed),
            users: BTreeMap::new(),
            order: BTreeMap::new(),
            liars: BTreeSet::new(),
            next: 0,
            tweak,
        };
        (0..n).for_each(|id| choir.start(id, Condition::Clean));
        choir
    }

    pub(crate) fn settings(
        me: NodeId,
        n: u32,
        resume: u64,
        tweak: fn(&mut OrderingConfig),
    ) -> OrderingConfig {
        let mut replica = Town::settings(me, n);
        replica.config = config(me, n);
        let mut settings = OrderingConfig::new(replica, Position(resume));
        (settings.checkpoint_every, settings.ahead_max) = (EVERY, 64);
        tweak(&mut settings);
        settings
    }

    /// Starts an ordering over what it persisted, behind what its user has on its disk.
    pub(crate) fn start(&mut self, id: u32, condition: Condition) {
        let node = NodeId(id);
        let old = self.users.remove(&node).unwrap_or_default();
        let (position, root) =
            old.durable.last_key_value().map_or((0, Hash::ZERO), |(at, root)| (*at, *root));
        let user = User { position, root, applied: position, durable: old.durable, ..User::default() };
        self.users.insert(node, user);
        let records = self.net.persisted.get(&node).cloned().unwrap_or_default();
        let log = Log { condition, records: &mut records.into_iter() };
        let settings = Self::settings(node, self.n, position, self.tweak);
        let ordering = Ordering::recover(settings, log).expect("sound");
        self.net.start(node, ordering, keys(node));
        self.watch();
    }

    pub(crate) fn stop(&mut self, id: u32) {
        self.net.stop(NodeId(id));
        self.liars.insert(NodeId(id));
    }

    pub(crate) fn of(&self, id: u32) -> &Ordering {
        &self.net.machines[&NodeId(id)]
    }

    pub(crate) fn user(&mut self, id: u32) -> &mut User {
        self.users.get_mut(&NodeId(id)).expect("a user")
    }

    pub(crate) fn count(&self, rule: &str) -> u64 {
        self.net.rules.get(rule).copied().unwrap_or(0)
    }

    pub(crate) fn submit(&mut self, id: u32, payload: &[u8]) -> u64 {
        self.next += 1;
        self.submit_as(id, self.next, payload);
        self.next
    }

    pub(crate) fn submit_as(&mut self, id: u32, ticket: u64, payload: &[u8]) {
        let payload = Bytes::copy_from_slice(payload);
        self.net.input(NodeId(id), Submit::Payload { ticket: Ticket(ticket), payload });
        self.watch();
    }

    pub(crate) fn barrier(&mut self, id: u32) -> u64 {
        self.next += 1;
        self.net.input(NodeId(id), Submit::Barrier(Ticket(self.next)));
        self.watch();
        self.next
    }

    pub(crate) fn input(&mut self, id: u32, submit: Submit) {
        self.net.input(NodeId(id), submit);
        self.watch();
    }

    /// What was applied and not reported is.
    pub(crate) fn wake(&mut self, id: u32) {
        self.user(id).is_idle = false;
        let (from, to) = (self.user(id).applied, self.user(id).position);
        for position in from + 1..=to {
            self.report(NodeId(id), position);
        }
        self.watch();
    }

    /// The root of a correct user at a position.
    pub(crate) fn root_at(&self, position: u64) -> Hash {
        let rows = self.order.range(..=position);
        rows.fold(Hash::ZERO, |root, (at, row)| root_of(root, *at, &row.payload))
    }

    fn report(&mut self, id: NodeId, position: u64) {
        let root = position.is_multiple_of(EVERY).then(|| self.root_at(position));
        let user = self.users.get_mut(&id).expect("a user");
        let root = root.map(|root| if user.is_wrong { Hash([9; 32]) } else { root });
        user.applied = position;
        if let Some(root) = root {
            user.durable.insert(position, root);
        }
        self.net.input(id, Submit::Applied { position: Position(position), root });
    }

    pub(crate) fn watch(&mut self) {
        while !self.net.seen.is_empty() {
            for seen in std::mem::take(&mut self.net.seen) {
                if let Seen::Told { id, output } = seen {
                    self.told(id, output);
                }
            }
        }
    }

    fn told(&mut self, id: NodeId, output: Delivered) {
        match output {
            Delivered::Entry(entry) => self.on_entry(id, entry),
            Delivered::Stable(checkpoint) => {
                self.is_proven(&checkpoint);
                let user = self.users.get_mut(&id).expect("a user");
                assert!(checkpoint.position.0 <= user.applied, "never before the own Applied");
                let last = user.stable.last().map_or(0, |last| last.position.0);
                assert!(checkpoint.position.0 > last, "states that are certified rise");
                user.stable.push(checkpoint);
            }
            Delivered::Jump(checkpoint) => self.on_jump(id, checkpoint),
            Delivered::Proof { position, proof } => {
                self.users.get_mut(&id).expect("a user").proofs.push((position, proof));
            }
            Delivered::Barrier(ticket) => {
                let user = self.users.get_mut(&id).expect("a user");
                let position = user.position;
                assert!(user.barriers.insert(ticket.0, position).is_none(), "a barrier comes back once");
            }
            Delivered::Refused { ticket, why } => {
                self.users.get_mut(&id).expect("a user").refused.push((ticket.0, why));
            }
        }
    }

    fn on_entry(&mut self, id: NodeId, entry: Entry) {
        let Entry { position: Position(at), time, last, origin, payload, proof } = entry;
        assert!(proof.is_none(), "a decision has no proof");
        let user = self.users.get_mut(&id).expect("a user");
        assert_eq!(at, user.position + 1, "{id}: positions have no hole");
        assert!(time >= user.time, "{id}: time goes on");
        (user.position, user.time) = (at, time);
        user.root = root_of(user.root, at, &payload);
        match origin {
            Origin::Local(ticket) => {
                assert!(user.local.insert(ticket.0, at).is_none(), "{id}: {ticket:?} is delivered twice");
            }
            Origin::Member(NodeId(node)) => drop(user.origins.insert(node)),
            Origin::Session { .. } => unreachable!("no client asks here"),
        }
        let idle = user.is_idle;
        let row = Row { payload, time, last };
        let first = self.order.entry(at).or_insert_with(|| row.clone());
        assert_eq!(*first, row, "{id}: position {at} is another entry");
        if !idle {
            self.report(id, at);
        }
    }

    fn on_jump(&mut self, id: NodeId, checkpoint: Checkpoint) {
        self.is_proven(&checkpoint);
        let at = checkpoint.position.0;
        let user = self.users.get_mut(&id).expect("a user");
        assert!(at > user.position, "{id} has that already");
        user.jumps.push(checkpoint.clone());
        if !user.is_stateless {
            (user.position, user.root) = (at, checkpoint.root);
            assert_eq!(
                self.root_at(at),
                checkpoint.root,
                "the state that is certified is the one of correct users"
            );
            self.report(id, at);
        }
    }

    /// f + 1 distinct replicas signed it.
    fn is_proven(&self, checkpoint: &Checkpoint) {
        assert!(checkpoint.position.0 > 0 && checkpoint.position.0.is_multiple_of(EVERY));
        assert_eq!(self.root_at(checkpoint.position.0), checkpoint.root, "a state of correct users");
        let signed = checkpoint.certificate.bytes().clone();
        let signed = synod_wire::List::decode(signed, &Limits::default()).expect("signatures");
        let subject = Rooted { position: checkpoint.position, root: checkpoint.root };
        let certificate = Certificate { subject, signed };
        assert!(certificate.verify(&config(NodeId(0), self.n), &keys(NodeId(0))).is_ok());
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.net.after(span);
        for _ in 0..3_000_000_u64 {
            self.watch();
            if !self.net.turn() && !self.net.tick(end) {
                self.net.now = end;
                return;
            }
        }
        unreachable!("it never ends");
    }

    fn correct(&self) -> impl Iterator<Item = (&NodeId, &User)> {
        self.users.iter().filter(|(id, _)| !self.liars.contains(id))
    }

    /// Waits until what was submitted under a ticket is delivered where it was, and everywhere else.
    pub(crate) fn ordered(&mut self, id: u32, tickets: &[u64], most: Span) -> Span {
        let (start, end) = (self.net.now, self.net.after(most));
        loop {
            let local = &self.users[&NodeId(id)].local;
            let last = tickets.iter().map(|ticket| local.get(ticket).copied()).collect::<Option<Vec<u64>>>();
            let last = last.map(|at| at.into_iter().max().unwrap_or(0));
            if last.is_some_and(|last| self.correct().all(|(_, user)| user.position >= last)) {
                return self.net.now.since(start);
            }
            assert!(self.net.now < end, "not ordered in {most}: {}", self.describe());
            self.pass(Span::millis(1));
        }
    }

    /// Waits for something.
    pub(crate) fn until(&mut self, most: Span, what: impl Fn(&Self) -> bool) -> Time {
        let end = self.net.after(most);
        while !what(self) {
            assert!(self.net.now < end, "not in {most}: {}", self.describe());
            self.pass(Span::millis(2));
        }
        self.net.now
    }

    /// How often a payload is in the order.
    pub(crate) fn times(&self, payload: &[u8]) -> usize {
        self.order.values().filter(|row| row.payload == payload).count()
    }

    pub(crate) fn say(&mut self, from: u32, to: u32, message: Message) {
        self.net.say(NodeId(from), NodeId(to), message);
    }

    pub(crate) fn describe(&self) -> String {
        let one = |(id, one): (&NodeId, &Ordering)| {
            let (user, replica) = (&self.users[id], one.replica());
            let consensus = replica.consensus().map(|one| (one.view(), one.next(), one.low().low));
            format!(
                "{id} life {} {:?} executed {:?} snapshot {:?} consensus {consensus:?} counted {:?} user {} applied {} stable {:?} jumps {:?}; ",
                replica.incarnation(),
                replica.configuration().epoch,
                replica.executed(),
                replica.snapshotted(),
                one.position(),
                user.position,
                user.applied,
                user.stable.last().map(|stable| stable.position),
                user.jumps.iter().map(|jump| jump.position).collect::<Vec<_>>(),
            )
        };
        self.net.machines.iter().map(one).collect::<String>() + &format!("{:?}", self.net.rules)
    }
}
