//! Every state of a follower or memory node that was ever reached, and what became of each at each thing that came.
//!
//! Bounds: [`MACHINES_MAX`] states; an exploration that reaches more is cut off there.

use std::collections::HashMap;

use synod_crypto::{Hash, Hasher};
use synod_machine::register::{RegisterOp, RegisterReply, Said};
use synod_machine::testing::effects;
use synod_machine::{Effect, Event, Message as _};
use synod_quorum::{Epoch, NodeId};
use synod_service::memory::{MemoryNode, MemoryWord};
use synod_ubft::CheckpointBy;
use synod_ubft::batch::Slot;
use synod_ubft::replica::Word;

use super::cast::{Cast, END, LAST, LIAR, NOW, Proposal, memory_id};
use super::run::{Bug, Instance};
use super::seat::{Seat, Sent, judge, subject};
use crate::oracle::Breach;

/// Most machine states of one exploration.
const MACHINES_MAX: usize = 100_000;

/// A state, by its place in the table.
pub(super) type Local = u32;
/// Something on its way, by its place in the table.
pub(super) type Flight = u32;

/// What comes to a follower or a memory node.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Words of a replica.
    Words(u8, Epoch, Vec<Word>),
    /// The operation of a life of a follower.
    Op { own: u8, life: u64, epoch: Epoch, op: RegisterOp },
    /// The answer of a memory node to a life.
    Reply { at: u8, life: u64, epoch: Epoch, reply: RegisterReply },
    /// A follower is killed and starts again.
    Rise,
    /// Epoch 0 is over.
    Over(Box<CheckpointBy>),
}

/// What a machine became, and what is on its way from it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) next: Local,
    /// To the other follower.
    pub(super) words: Vec<Flight>,
    /// To memory nodes.
    pub(super) ops: Vec<(Epoch, u8, Flight)>,
}

/// What the liar may do with a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    Propose { proposal: Proposal, is_signed: bool },
    Back(Epoch),
    Commit(Epoch, Proposal),
    Tell,
}

/// Values with names.
struct Named<T> {
    all: Vec<T>,
    names: HashMap<Hash, u32>,
}

impl<T: core::fmt::Debug> Named<T> {
    fn new() -> Self {
        Self { all: Vec::new(), names: HashMap::new() }
    }

    fn name(&mut self, value: T) -> u32 {
        let mut hasher = Hasher::new("synod model rejoin");
        hasher.add(format!("{value:?}").as_bytes());
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let name = *self.names.entry(hasher.finish()).or_insert(next);
        if name == next {
            self.all.push(value);
        }
        name
    }

    fn get(&self, name: u32) -> &T {
        match usize::try_from(name).ok().and_then(|at| self.all.get(at)) {
            Some(value) => value,
            None => unreachable!("names are given by the table"),
        }
    }
}

/// What happened in some run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// A follower that lags asked a region that is over.
    is_refused: bool,
    /// Either follower decided the last slot of epoch 0.
    has_decided: [bool; 2],
    /// The life that epoch 1 lists came there.
    has_entered: bool,
    /// The second follower was started again.
    has_risen: bool,
}

pub(super) struct Table {
    cast: Cast,
    seats: Named<Seat>,
    nodes: Named<MemoryNode>,
    flights: Named<What>,
    heard: HashMap<(Local, Flight), Outcome>,
    served: HashMap<(Local, u8, Flight), (Local, Option<Flight>)>,
    /// What the liar can say to a follower, by the states of both and the place of the lie.
    lies: HashMap<([Local; 2], u8, u8), Option<Flight>>,
    breaches: Vec<Breach>,
    seen: Seen,
}

impl Table {
    /// An empty table, the first states of both followers, and that of the memory nodes.
    pub(super) fn begin(instance: Instance) -> (Self, [Local; 2], Vec<Local>) {
        let mut table = Self {
            cast: Cast::new(instance),
            seats: Named::new(),
            nodes: Named::new(),
            flights: Named::new(),
            heard: HashMap::new(),
            served: HashMap::new(),
            lies: HashMap::new(),
            breaches: Vec::new(),
            seen: Seen::default(),
        };
        let node = table.cast.node();
        let first = table.nodes.name(node);
        let mut nodes = vec![first; usize::from(instance.memory)];
        let begun = [1, 2].map(|own| table.started(own, &mut nodes));
        (table, begun, nodes)
    }

    /// A follower at the begin; what it asks memory nodes at its start is answered.
    fn started(&mut self, own: u8, nodes: &mut [Local]) -> Local {
        let (seat, sent) = Seat::begin(&self.cast, own);
        let mut seat = self.seats.name(seat);
        for (epoch, at, op) in sent.ops {
            let op = self.flights.name(What::Op { own, life: 1, epoch, op });
            // The liar asks about the next epoch as well.
            self.ask_ahead(nodes, at, op);
            let Some(node) = nodes.get_mut(usize::from(at)) else { continue };
            let (next, reply) = self.serve(*node, at, op);
            *node = next;
            seat = reply.map_or(seat, |reply| self.hear(seat, reply).next);
        }
        seat
    }

    fn ask_ahead(&mut self, nodes: &mut [Local], at: u8, op: Flight) {
        let What::Op { op, .. } = self.flights.get(op).clone() else { return };
        let mut place = op.place();
        place.region.epoch = Epoch(1);
        let op = RegisterOp::Read { tag: 1, place };
        let Some(local) = nodes.get_mut(usize::from(at)) else { return };
        let mut node = self.nodes.get(*local).clone();
        let from = NodeId(u32::from(LIAR));
        effects(&mut node, Event::Message { from, message: MemoryWord::Op(op) }, NOW);
        *local = self.nodes.name(node);
    }

    pub(super) fn what(&self, flight: Flight) -> &What {
        self.flights.get(flight)
    }

    pub(super) fn seat(&self, local: Local) -> &Seat {
        self.seats.get(local)
    }

    /// What becomes of a follower.
    pub(super) fn hear(&mut self, local: Local, flight: Flight) -> Outcome {
        if let Some(known) = self.heard.get(&(local, flight)) {
            return known.clone();
        }
        let mut seat = self.seats.get(local).clone();
        let Sent { words, ops } = match self.flights.get(flight).clone() {
            What::Words(from, epoch, words) => seat.hear(&self.cast, NodeId(u32::from(from)), epoch, words),
            What::Reply { at, life, epoch, reply } if life == seat.life => {
                let words = Word::registered(reply).into_iter().collect();
                seat.hear(&self.cast, memory_id(at), epoch, words)
            }
            What::Rise => seat.rise(&self.cast),
            What::Over(certificate) => seat.enter(&self.cast, &certificate),
            What::Reply { .. } | What::Op { .. } => Sent::default(),
        };
        let (own, life, was_in) = (seat.own, seat.life, self.seats.get(local).epoch);
        let words = words.into_iter().filter(|_| was_in == Epoch(0));
        let word = |word| self.flights.name(What::Words(own, Epoch(0), vec![word]));
        let words = words.map(word).collect();
        let op = |(epoch, at, op)| (epoch, at, self.flights.name(What::Op { own, life, epoch, op }));
        let ops = ops.into_iter().map(op).collect();
        let outcome = Outcome { next: self.seats.name(seat), words, ops };
        self.heard.insert((local, flight), outcome.clone());
        outcome
    }

    fn see(&mut self, local: Local) {
        let seat = self.seats.get(local);
        let is_second = seat.own == 2;
        self.seen.is_refused |= seat.record.is_refused && !is_second && seat.is_in(Epoch(0));
        let [first, second] = &mut self.seen.has_decided;
        let decided = if is_second { second } else { first };
        *decided |= seat.has_decided(LAST);
        let listed = self.cast.listed(Epoch(1), seat.own);
        self.seen.has_entered |= is_second && seat.is_in(Epoch(1)) && seat.life == listed;
        self.seen.has_risen |= is_second && seat.life > 1;
    }

    /// Whether everything that the model is about happened.
    pub(super) const fn has_seen_all(&self) -> bool {
        let Seen { is_refused, has_decided: [one, other], has_entered, has_risen } = self.seen;
        is_refused && one && other && has_entered && has_risen
    }

    /// What becomes of a memory node, and its answer.
    pub(super) fn serve(&mut self, local: Local, at: u8, flight: Flight) -> (Local, Option<Flight>) {
        if let Some(known) = self.served.get(&(local, at, flight)) {
            return *known;
        }
        let What::Op { own, life, epoch, op } = self.flights.get(flight).clone() else {
            unreachable!("only operations come to memory nodes");
        };
        let mut node = self.nodes.get(local).clone();
        let before = node.oldest();
        let from = NodeId(u32::from(own));
        let mut answer = None;
        for effect in effects(&mut node, Event::Message { from, message: MemoryWord::Op(op) }, NOW) {
            if let Effect::Send { message: MemoryWord::Reply(reply), .. } = effect {
                let reply = self.told(op, reply);
                answer = Some(self.flights.name(What::Reply { at, life, epoch, reply }));
            }
        }
        // A read that retires nothing leaves no more at a node than a count of what was served, which is without bound here.
        let is_idle = matches!(op, RegisterOp::Read { .. }) && node.oldest() == before;
        let next = if is_idle { local } else { self.nodes.name(node) };
        self.served.insert((local, at, flight), (next, answer));
        (next, answer)
    }

    /// An answer, as the node of the instance gives it.
    fn told(&self, op: RegisterOp, reply: RegisterReply) -> RegisterReply {
        let is_over = matches!(reply.said, Said::Retired { .. });
        let said = match op {
            _ if !is_over || self.cast.bug() != Bug::EmptyRegion => reply.said,
            RegisterOp::Write { .. } => Said::Written,
            RegisterOp::Read { .. } => Said::Value(None),
        };
        RegisterReply { said, ..reply }
    }

    /// Whether a follower waits for the answer to an operation, or it writes: if not, it never will.
    pub(super) fn is_awaited(&mut self, seat: Local, node: Local, at: u8, flight: Flight) -> bool {
        let What::Op { life, epoch, op, .. } = *self.flights.get(flight) else { return false };
        if matches!(op, RegisterOp::Write { .. }) || epoch > Epoch(0) {
            return true;
        }
        let waits = self.seats.get(seat);
        if waits.life != life || waits.epoch != epoch {
            return false;
        }
        let (_, reply) = self.serve(node, at, flight);
        reply.is_none_or(|reply| {
            let outcome = self.hear(seat, reply);
            outcome.next != seat || !outcome.ops.is_empty()
        })
    }

    /// What the liar would say to a follower, if it can.
    pub(super) fn lie(&mut self, seats: [Local; 2], to: u8, (at, lie): (u8, Lie)) -> Option<Flight> {
        if let Some(known) = self.lies.get(&(seats, to, at)) {
            return *known;
        }
        let what = self.lied(seats, to, lie);
        let flight = what.map(|what| self.flights.name(what));
        self.lies.insert((seats, to, at), flight);
        flight
    }

    fn lied(&self, seats: [Local; 2], to: u8, lie: Lie) -> Option<What> {
        let [one, other] = seats.map(|local| self.seats.get(local));
        let (seat, second) = if to == 0 { (one, other) } else { (other, one) };
        let slot_of = |epoch: Epoch| if epoch == Epoch(0) { LAST } else { END };
        Some(match lie {
            Lie::Propose { proposal, is_signed } => {
                let (epoch, word) = self.cast.propose(proposal, is_signed);
                if !seat.is_in(epoch) {
                    return None;
                }
                What::Words(LIAR, epoch, vec![word])
            }
            Lie::Back(epoch) => {
                let slot = slot_of(epoch);
                let (digest, _) = seat.record.certified.get(&(epoch, slot)).filter(|_| seat.is_in(epoch))?;
                What::Words(LIAR, epoch, self.cast.back(epoch, slot, *digest))
            }
            Lie::Commit(epoch, proposal) => {
                let (slot, wanted) = (slot_of(epoch), proposal.digest());
                let share = |of: &Seat| share(of, epoch, slot).filter(|(_, digest, _)| *digest == wanted);
                let (own, digest, signature) =
                    share(seat).or_else(|| share(second)).filter(|_| seat.is_in(epoch))?;
                let word = self.cast.commit(epoch, subject(slot, digest), (own, signature));
                What::Words(LIAR, epoch, vec![word])
            }
            Lie::Tell => {
                let ended = |of: &Seat| of.record.ended.map(|(subject, share)| (of.own, subject, share));
                let (own, subject, share) =
                    ended(seat).or_else(|| ended(second)).filter(|_| seat.epoch == Epoch(0))?;
                What::Over(Box::new(self.cast.over(subject, (own, share))))
            }
        })
    }

    /// A follower is killed and starts again.
    pub(super) fn rise(&mut self) -> Flight {
        self.flights.name(What::Rise)
    }

    /// The number of a breach in these states, or 0.
    pub(super) fn judge(&mut self, seats: [Local; 2]) -> u32 {
        seats.into_iter().for_each(|local| self.see(local));
        match judge(seats.map(|local| self.seats.get(local))) {
            None => 0,
            Some(breach) => {
                self.breaches.push(breach);
                u32::try_from(self.breaches.len()).unwrap_or(u32::MAX)
            }
        }
    }

    pub(super) fn breach(&self, number: u32) -> Option<&Breach> {
        self.breaches.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    pub(super) fn is_full(&self) -> bool {
        self.seats.all.len() >= MACHINES_MAX
    }

    /// Different machine states, and steps that were really taken.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.seats.all.len() + self.nodes.all.len(), self.heard.len() + self.served.len())
    }
}

/// A follower's signature of a proposal that it spoke of.
fn share(of: &Seat, epoch: Epoch, slot: Slot) -> Option<(u8, Hash, synod_crypto::Signature)> {
    of.record.certified.get(&(epoch, slot)).map(|(digest, signature)| (of.own, *digest, *signature))
}
