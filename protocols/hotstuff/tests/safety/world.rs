//! A small world: n members, some of them real replicas, the rest puppets; the test decides which message arrives.
//!
//! Nothing moves by itself. A step of a replica runs its jobs at once (unless they are held back) and leaves its
//! messages in flight; [`World::deliver`] lets chosen ones arrive, [`World::run`] plays them all out in virtual time.
//! Order is durability: what a replica says rests on what it wrote before, and a crash keeps at least that.

mod forge;
mod puppets;
mod seat;
mod trace;

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use synod_crypto::Hash;
use synod_hotstuff::{Config, Identity, Message, Pack, Parameters, Replica, Safety, Timer};
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::testing::effects;
use synod_machine::{Bounded, Condition, Effect, Event, Job as _, Link, Span, Time, To};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_sim::{Crypto, Keyring};
use synod_wire::{Bytes, Wire};

pub(crate) use forge::{Made, item};
pub(crate) use seat::{Counts, Seat, Written};

/// Events of one call before the test is stopped: a conversation that does not end is a bug.
const EVENTS_MAX: u32 = 200_000;

thread_local! {
    /// Rules applied in any world of this thread.
    static APPLIED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// The rules applied in any world of this thread so far.
pub(crate) fn applied() -> BTreeSet<&'static str> {
    APPLIED.with(|rules| rules.borrow().clone())
}

/// How a world is made.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Members.
    pub(crate) n: u32,
    /// The rule pack.
    pub(crate) pack: Pack,
    /// Which members are real replicas.
    pub(crate) hosted: Vec<u32>,
    /// Changes to the default parameters.
    pub(crate) tweak: fn(&mut Parameters),
    /// Whether what happens is written down.
    pub(crate) traced: bool,
}

impl Setup {
    /// Four members, terms of one view, no reputation; the named ones are replicas.
    pub(crate) fn of(pack: Pack, hosted: &[u32]) -> Self {
        Self { n: 4, pack, hosted: hosted.to_vec(), tweak: one_view, traced: false }
    }
}

/// Terms of one view and no bench, so that the leader of view v is member v mod n.
pub(crate) fn one_view(parameters: &mut Parameters) {
    parameters.term_views = 1;
    parameters.reputation = false;
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// Who sent it.
    pub(crate) from: u32,
    /// Whom it is for.
    pub(crate) to: u32,
    /// When it arrives if nobody interferes.
    pub(crate) due: Time,
    /// What it says.
    pub(crate) message: Message,
}

/// The members and what is between them.
pub(crate) struct World {
    /// How it was made.
    pub(crate) setup: Setup,
    /// The parameters of every replica.
    pub(crate) parameters: Parameters,
    /// Digest of the genesis file.
    pub(crate) cluster: Hash,
    /// The members as every replica knows them.
    pub(crate) roster: Roster,
    /// Virtual time.
    pub(crate) now: Time,
    /// One-way delay of every link in [`World::run`].
    pub(crate) delay: Span,
    /// The members.
    pub(crate) seats: Vec<Seat>,
    /// Messages on their way, oldest first.
    pub(crate) flight: VecDeque<Envelope>,
    /// Members whose jobs wait for [`World::work`].
    pub(crate) holding: BTreeSet<u32>,
    /// Every message sent since the start, once for each sending.
    pub(crate) said: Vec<(u32, Message)>,
    /// What happened, for golden conversations.
    pub(crate) lines: Option<Vec<String>>,
    tickets: u64,
}

impl World {
    /// Makes the members and starts the replicas.
    pub(crate) fn new(setup: Setup) -> Self {
        arm_plant();
        let ring = Keyring::new(Crypto::Toy, 1);
        let member = |id: u32| Member { key: ring.public(u64::from(id)), power: 1 };
        let roster = Roster::new(Epoch(0), (0..setup.n).map(member).collect()).expect("a roster");
        let mut parameters = Parameters::of(setup.pack, setup.n);
        parameters.checkpoint_every = 1 << 16;
        (setup.tweak)(&mut parameters);
        let seats = (0..setup.n).map(|id| Seat::puppet(id, ring.keys(u64::from(id)))).collect();
        let mut world = Self {
            setup,
            parameters,
            cluster: Hash::of(b"the cluster of these tests"),
            roster,
            now: Time(Span::secs(1).0),
            delay: Span::millis(1),
            seats,
            flight: VecDeque::new(),
            holding: BTreeSet::new(),
            lines: None,
            said: Vec::new(),
            tickets: 0,
        };
        if world.setup.traced {
            world.lines = Some(Vec::new());
        }
        for id in world.setup.hosted.clone() {
            world.start(id, Condition::Fresh, Position(0));
        }
        world
    }

    /// One replica among puppets.
    pub(crate) fn alone(pack: Pack, subject: u32) -> Self {
        Self::new(Setup::of(pack, &[subject]))
    }

    /// One replica among twelve puppets, so many that it leads none of the first views but its own.
    pub(crate) fn crowd(pack: Pack, subject: u32) -> Self {
        Self::new(Setup { n: 13, ..Setup::of(pack, &[subject]) })
    }

    /// Four replicas, with everything as `tweak` says.
    pub(crate) fn four(pack: Pack, tweak: fn(&mut Parameters)) -> Self {
        Self::new(Setup { tweak, ..Setup::of(pack, &[0, 1, 2, 3]) })
    }

    /// A member.
    pub(crate) fn seat(&self, id: u32) -> &Seat {
        self.seats.get(id as usize).expect("a member")
    }

    /// A member, to change.
    pub(crate) fn seat_mut(&mut self, id: u32) -> &mut Seat {
        self.seats.get_mut(id as usize).expect("a member")
    }

    fn config(&self, id: u32, resume: Position) -> Config {
        let identity = Identity { own: NodeId(id), cluster: self.cluster, roster: self.roster.clone() };
        Config::new(identity, self.parameters.clone(), resume).expect("the parameters hold together")
    }

    /// Opens a replica over what its journal holds.
    pub(crate) fn start(&mut self, id: u32, condition: Condition, resume: Position) {
        let config = self.config(id, resume);
        self.seat_mut(id).open(config, condition);
        self.settle(id);
    }

    /// Kills a replica and opens it again over `kept` entries of its journal; its user had applied nothing durable.
    pub(crate) fn restart(&mut self, id: u32, kept: usize) {
        self.seat_mut(id).crash(kept);
        self.trace_line(format!("n{id} restarts"));
        let condition = if kept == 0 { Condition::Fresh } else { Condition::Clean };
        self.start(id, condition, Position(0));
    }

    /// Kills a replica and opens it again over all it wrote.
    pub(crate) fn restart_whole(&mut self, id: u32) {
        let kept = self.seat(id).journal.len();
        self.restart(id, kept);
    }

    /// Kills a replica that loses all it wrote, and opens it again over a journal known to be damaged.
    pub(crate) fn lose_memory(&mut self, id: u32) {
        self.seat_mut(id).crash(0);
        self.trace_line(format!("n{id} restarts without its journal"));
        self.start(id, Condition::Damaged, Position(0));
    }

    /// Gives one event to a replica, and everything that follows inside it.
    pub(crate) fn give(&mut self, id: u32, event: Event<Replica>) {
        if self.seat(id).replica.is_some() {
            self.seat_mut(id).local.push_back(event);
            self.settle(id);
        }
    }

    /// A message arrives.
    pub(crate) fn say(&mut self, from: u32, to: u32, message: Message) {
        self.give(to, Event::Message { from: NodeId(from), message });
    }

    /// The user of a replica wants a payload ordered.
    pub(crate) fn submit(&mut self, id: u32, text: &str) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let payload = Bytes::copy_from_slice(text.as_bytes());
        self.trace_line(format!("n{id} is given {text:?}"));
        self.give(id, Event::Input(Submit::Payload { ticket, payload }));
        ticket
    }

    /// The user of a replica says something else.
    pub(crate) fn input(&mut self, id: u32, submit: Submit) {
        self.give(id, Event::Input(submit));
    }

    /// A connection comes up.
    pub(crate) fn link_up(&mut self, id: u32, peer: u32) {
        self.give(id, Event::Link { peer: NodeId(peer), link: Link::Up });
    }

    /// Runs the held jobs of a member.
    pub(crate) fn work(&mut self, id: u32) {
        let held = self.holding.remove(&id);
        self.settle(id);
        if held {
            self.holding.insert(id);
        }
    }

    /// Steps a replica until it has nothing left to do by itself.
    pub(crate) fn settle(&mut self, id: u32) {
        for _ in 0..EVENTS_MAX {
            let now = self.now;
            let holding = self.holding.contains(&id);
            let seat = self.seat_mut(id);
            let Some(replica) = seat.replica.as_mut() else { return };
            let event = match seat.local.pop_front() {
                Some(event) => event,
                None if holding => return,
                None => match seat.jobs.pop_front() {
                    Some(job) => {
                        let cost = job.cost();
                        seat.counts.signatures += u64::from(cost.sign);
                        seat.counts.verifications += u64::from(cost.verify) + u64::from(cost.batch_verify);
                        Event::Done(job.run(&seat.keys))
                    }
                    None => return,
                },
            };
            let said = effects(replica, event, now);
            assert!(replica.bytes() <= replica.bytes_max(), "memory stays below its formula");
            for effect in said {
                self.effect(id, effect);
            }
        }
        unreachable!("member {id} does not come to rest");
    }

    fn effect(&mut self, id: u32, effect: Effect<Replica>) {
        self.trace_effect(id, &effect);
        match effect {
            Effect::Send { to, message } => self.send(id, to, &message),
            Effect::Output(output) => self.output(id, output),
            Effect::Arm { timer, after } => {
                let due = self.now + after;
                self.seat_mut(id).timers.insert(timer, due);
            }
            Effect::Disarm(timer) => drop(self.seat_mut(id).timers.remove(&timer)),
            Effect::Persist(record) => self.seat_mut(id).journal.push(Written::Record(record)),
            Effect::Store { name, bytes } => self.seat_mut(id).journal.push(Written::Blob(name, bytes)),
            Effect::Erase(name) => self.seat_mut(id).journal.push(Written::Erase(name)),
            Effect::Load(name) => {
                let bytes = self.seat(id).blob(&name);
                self.seat_mut(id).local.push_back(Event::Loaded { name, bytes });
            }
            Effect::Compute(job) => self.seat_mut(id).jobs.push_back(job),
            Effect::Blame { peer, fault } => self.seat_mut(id).blamed.push((peer.0, fault.name)),
            Effect::Applied(rule) => {
                APPLIED.with(|rules| rules.borrow_mut().insert(rule.name));
                self.seat_mut(id).rules.insert(rule.name);
            }
            Effect::Note(note) => self.seat_mut(id).notes.push(note),
            Effect::Compact => {}
        }
    }

    /// What leaves rests on what was written: the sync that it waits for.
    fn sync(&mut self, id: u32) {
        let seat = self.seat_mut(id);
        if seat.synced < seat.journal.len() {
            seat.synced = seat.journal.len();
            seat.counts.syncs += 1;
        }
    }

    fn send(&mut self, id: u32, to: To, message: &Message) {
        self.sync(id);
        self.assert_promised(id, message);
        let due = self.now + self.delay;
        self.said.push((id, message.clone()));
        let peers: Vec<u32> = match to {
            To::Node(node) => vec![node.0],
            To::Set(set) => set.iter().map(|node| node.0).collect(),
        };
        let bytes = message.encode().len() as u64 + 1;
        for peer in peers {
            let seat = self.seat_mut(id);
            seat.counts.messages += 1;
            seat.counts.bytes += bytes;
            self.flight.push_back(Envelope { from: id, to: peer, due, message: message.clone() });
        }
    }

    /// The promise gate: what is signed here is kept by the newest safety record written before.
    fn assert_promised(&self, id: u32, message: &Message) {
        let fresh = Safety::fresh(Epoch(0), self.genesis().digest(), self.kind());
        let kept = self.seat(id).promises().unwrap_or(fresh);
        let holds = match message {
            Message::Vote { view, digest, .. } => (kept.voted.view, kept.voted.digest) == (*view, *digest),
            Message::Order { view, digest, .. } => {
                (kept.ordered.view, kept.ordered.digest) == (*view, *digest)
            }
            Message::Propose { header, .. } => kept.proposed.digest == header.digest(),
            Message::Complain { view, .. } => kept.complained >= *view,
            _ => true,
        };
        assert!(holds, "n{id} says what no record keeps: {message:?}");
    }

    fn output(&mut self, id: u32, output: Delivered) {
        self.sync(id);
        let every = self.parameters.checkpoint_every;
        let seat = self.seat_mut(id);
        match output {
            Delivered::Entry(entry) => {
                let position = entry.position;
                let due = position.0.is_multiple_of(every);
                let root = due.then(|| root_at(position));
                if seat.applies && (due || entry.last) {
                    seat.local.push_back(Event::Input(Submit::Applied { position, root }));
                }
                seat.entries.push(entry);
            }
            Delivered::Jump(checkpoint) => {
                if seat.applies {
                    let (position, root) = (checkpoint.position, Some(checkpoint.root));
                    seat.local.push_back(Event::Input(Submit::Applied { position, root }));
                }
                seat.outputs.push(Delivered::Jump(checkpoint));
            }
            other => seat.outputs.push(other),
        }
    }

    /// Loses the messages that `chosen` names; how many there were.
    pub(crate) fn lose(&mut self, chosen: impl Fn(&Envelope) -> bool) -> usize {
        let before = self.flight.len();
        self.flight.retain(|envelope| !chosen(envelope));
        before - self.flight.len()
    }

    /// Messages of `from` still on their way, one for each receiver.
    pub(crate) fn sent(&self, from: u32, of: impl Fn(&Message) -> bool) -> Vec<Message> {
        let of = |envelope: &&Envelope| envelope.from == from && of(&envelope.message);
        self.flight.iter().filter(of).map(|envelope| envelope.message.clone()).collect()
    }

    /// Fires the next timer of a member whose name `chosen` names, whenever it is due.
    pub(crate) fn fire(&mut self, id: u32, chosen: impl Fn(&Timer) -> bool) -> bool {
        let armed = self.seat(id).timers.iter().find(|(timer, _)| chosen(timer)).map(|(t, due)| (*t, *due));
        let Some((timer, due)) = armed else { return false };
        self.now = self.now.max(due);
        self.seat_mut(id).timers.remove(&timer);
        self.give(id, Event::Timer(timer));
        true
    }

    /// Plays out messages and timers in virtual time until `span` has passed.
    pub(crate) fn run(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..EVENTS_MAX {
            let message = self.flight.iter().enumerate().map(|(at, e)| (e.due, at)).min();
            let timer = self
                .seats
                .iter()
                .flat_map(|seat| seat.timers.iter().map(move |(timer, due)| (*due, seat.id, *timer)))
                .min();
            let (arrives, fires) = (message.map(|(due, _)| due), timer.map(|(due, _, _)| due));
            let next = arrives.into_iter().chain(fires).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            match (message, timer) {
                (Some((due, at)), _) if due == next => {
                    let envelope = self.flight.remove(at).expect("it was found there");
                    self.say(envelope.from, envelope.to, envelope.message);
                }
                (_, Some((_, id, timer))) => {
                    self.seat_mut(id).timers.remove(&timer);
                    self.give(id, Event::Timer(timer));
                }
                _ => unreachable!("something was due"),
            }
        }
        unreachable!("the conversation does not end");
    }

    /// Plays out while `cut` loses messages at their arrival.
    pub(crate) fn run_losing(&mut self, span: Span, cut: impl Fn(&Envelope) -> bool) {
        let end = self.now + span;
        while self.now < end {
            self.lose(&cut);
            let step = Span::micros(500).0.min(end.since(self.now).0);
            self.run(Span(step));
        }
        self.lose(&cut);
    }

    /// What all members together did.
    pub(crate) fn counts(&self) -> Counts {
        self.seats.iter().fold(Counts::default(), |sum, seat| Counts {
            messages: sum.messages + seat.counts.messages,
            bytes: sum.bytes + seat.counts.bytes,
            signatures: sum.signatures + seat.counts.signatures,
            verifications: sum.verifications + seat.counts.verifications,
            syncs: sum.syncs + seat.counts.syncs,
        })
    }
}

/// The state root that every user of these tests has at a position.
pub(crate) fn root_at(position: Position) -> Hash {
    Hash::of(&position.0.to_le_bytes())
}

/// In the build with planted bugs, the one that `SYNOD_PLANT` names is active.
#[cfg(synod_plant)]
#[expect(clippy::disallowed_methods, reason = "the build with planted bugs is told which one is active")]
fn arm_plant() {
    synod_machine::planted::activate(&std::env::var("SYNOD_PLANT").unwrap_or_default());
}

#[cfg(not(synod_plant))]
const fn arm_plant() {}
