//! Every state of a receiver or memory node that was ever reached, and what became of each at each thing that came.
//!
//! Bounds: [`MACHINES_MAX`] states of some 10 KB; an exploration that reaches more is cut off there.

use std::collections::HashMap;
use std::sync::Arc;

use synod_crypto::{Hash, Hasher};
use synod_machine::register::RegisterOp;
use synod_machine::testing::effects;
use synod_machine::{Effect, Event, Job as _, Message as _, Time, To};
use synod_quorum::NodeId;
use synod_service::memory::{MemoryNode, MemoryWord};
use synod_ubft::ctb::{Input, Message, Output};
use synod_ubft::{CtBroadcast, Job};

use super::cast::{Cast, LIAR, NUMBERS, SAYINGS, memory_id};
use crate::oracle::{Breach, Verdict, breach};

/// Most machine states of one exploration.
const MACHINES_MAX: usize = 200_000;
/// Time stands still.
const NOW: Time = Time(1_000_000_000);

/// A state, by its place in the table.
pub(super) type Local = u32;
/// Something on its way, by its place in the table.
pub(super) type Flight = u32;

/// What is on its way.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// To a receiver.
    Said(NodeId, Message),
    /// To a memory node, of a receiver.
    Op(u8, RegisterOp),
    /// A receiver's own work.
    Job(Job),
}

/// Who gets it, and what it is.
#[derive(Clone, Debug)]
pub(super) struct Flying {
    /// The receiver that gets it; of an operation the one whose it is.
    pub(super) of: NodeId,
    pub(super) what: What,
}

/// A receiver, and what its user was told.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    machine: CtBroadcast,
    /// Numbers and messages, in the order delivered.
    delivered: Vec<(u64, Option<u8>)>,
    is_slow: bool,
    /// What its user promises with what it locked, and of what numbers the other's promise counts at it (4.18).
    promised: Vec<(u64, Option<u8>)>,
    counts: Vec<u64>,
    /// What it broke by itself.
    breach: Option<(&'static str, String)>,
}

/// What a machine became, and what is on its way from it.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) next: Local,
    pub(super) sent: Vec<Flight>,
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
        let mut hasher = Hasher::new("synod model ctb");
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

pub(super) struct Table {
    cast: Cast,
    receivers: Named<Receiver>,
    nodes: Named<MemoryNode>,
    flights: Named<Flying>,
    heard: HashMap<(Local, Flight), Outcome>,
    served: HashMap<(Local, Flight), Outcome>,
    sayings: Vec<Flight>,
    breaches: Vec<Breach>,
}

impl Table {
    /// An empty table, the first states of both receivers, and that of a memory node.
    pub(super) fn begin(memory: u8, is_merged: bool) -> (Self, [Local; 2], Local) {
        let cast = Cast::new(memory, is_merged);
        let (mut receivers, mut nodes, mut flights) = (Named::new(), Named::new(), Named::new());
        let begun = [1, 2].map(|id| {
            let Ok(machine) = CtBroadcast::new(Arc::new(cast.config(NodeId(id))), LIAR) else {
                unreachable!("a sound configuration");
            };
            receivers.name(Receiver::new(machine))
        });
        let node = nodes.name(Cast::node());
        let all = 0..SAYINGS * u8::try_from(NUMBERS.len()).unwrap_or(1);
        let saying = |saying| Flying { of: Cast::hearer(saying), what: What::Said(LIAR, cast.say(saying)) };
        let sayings = all.map(|at| flights.name(saying(at))).collect();
        let (heard, served) = (HashMap::new(), HashMap::new());
        let table = Self { cast, receivers, nodes, flights, heard, served, sayings, breaches: Vec::new() };
        (table, begun, node)
    }

    /// The flight of something that the liar says.
    pub(super) fn saying(&self, saying: u8) -> Flight {
        self.sayings.get(usize::from(saying)).copied().unwrap_or(0)
    }

    pub(super) fn flying(&self, flight: Flight) -> &Flying {
        self.flights.get(flight)
    }

    /// What becomes of a receiver.
    pub(super) fn hear(&mut self, local: Local, flight: Flight) -> Outcome {
        if let Some(known) = self.heard.get(&(local, flight)) {
            return known.clone();
        }
        let mut receiver = self.receivers.get(local).clone();
        let Flying { of, what } = self.flights.get(flight).clone();
        let event = match what {
            What::Said(LIAR, Message::Lock { k, body }) if receiver.may_promise(k) => {
                let body = body.into_bytes();
                receiver.promised.push((k, Cast::message(&body)));
                Event::Input(Input::Promise { k, body })
            }
            What::Said(from, message) => Event::Message { from, message },
            What::Job(job) => Event::Done(job.run(&self.cast.keys(of))),
            What::Op(..) => unreachable!("operations come to memory nodes"),
        };
        let mut sent = Vec::new();
        for effect in effects(&mut receiver.machine, event, NOW) {
            receiver.take(of, effect, &self.cast, &mut sent);
        }
        let sent = sent.into_iter().map(|flying| self.flights.name(flying)).collect();
        let outcome = Outcome { next: self.receivers.name(receiver), sent };
        self.heard.insert((local, flight), outcome.clone());
        outcome
    }

    /// What becomes of a memory node, and its answer.
    pub(super) fn serve(&mut self, local: Local, flight: Flight) -> Outcome {
        if let Some(known) = self.served.get(&(local, flight)) {
            return known.clone();
        }
        let mut node = self.nodes.get(local).clone();
        let Flying { of, what: What::Op(at, op) } = self.flights.get(flight).clone() else {
            unreachable!("only operations come to memory nodes");
        };
        let mut sent = Vec::new();
        for effect in effects(&mut node, Event::Message { from: of, message: MemoryWord::Op(op) }, NOW) {
            if let Effect::Send { message: MemoryWord::Reply(reply), .. } = effect
                && let Some(message) = Message::registered(reply)
            {
                sent.push(self.flights.name(Flying { of, what: What::Said(memory_id(at), message) }));
            }
        }
        // A read leaves nothing at a node but a count of what was served, which is without bound here.
        let next = if matches!(op, RegisterOp::Read { .. }) { local } else { self.nodes.name(node) };
        let outcome = Outcome { next, sent };
        self.served.insert((local, flight), outcome.clone());
        outcome
    }

    /// Whether a receiver waits for an operation, or for its answer: if not, it never will, for tags only rise.
    pub(super) fn is_awaited(&mut self, receivers: [Local; 2], node: Local, flight: Flight) -> bool {
        let Flying { of, what } = self.flights.get(flight);
        let local = receivers[usize::from(of.0 == 2)];
        match what {
            What::Op(_, RegisterOp::Write { .. }) | What::Job(_) => true,
            What::Said(_, message) if message.reply().is_some() => self.hear(local, flight).next != local,
            What::Said(..) => true,
            What::Op(_, RegisterOp::Read { .. }) => {
                let answers = self.serve(node, flight).sent;
                answers.into_iter().any(|answer| self.hear(local, answer).next != local)
            }
        }
    }

    /// U-S1 to U-S3, U-S8, X6 and the end of sealing in these states: the number of a breach, or 0.
    pub(super) fn judge(&mut self, receivers: [Local; 2]) -> u32 {
        let [one, other] = receivers;
        let verdict = self.agreed(receivers);
        let verdict = verdict.and_then(|()| self.is_kept(one, other, NodeId(2)));
        match verdict.and_then(|()| self.is_kept(other, one, NodeId(1))) {
            Ok(()) => 0,
            Err(breach) => {
                self.breaches.push(breach);
                u32::try_from(self.breaches.len()).unwrap_or(u32::MAX)
            }
        }
    }

    /// What a receiver promised, and the other counts on, was promised of what the other delivered (U-S8), and is delivered when the other,
    /// which cannot leave its view without it, says once more what it locked: so sealing ends (U-L1).
    fn is_kept(&mut self, by: Local, at: Local, other: NodeId) -> Verdict {
        let counting = self.receivers.get(at);
        let counted: Vec<(u64, Option<u8>)> =
            counting.delivered.iter().filter(|(k, _)| counting.counts.contains(k)).copied().collect();
        for (k, message) in counted {
            let promised = self.receivers.get(by);
            if !promised.promised.contains(&(k, message)) {
                return breach("U-S8", format!("a promise about number {k} counts, and nobody made it"));
            }
            if promised.has_delivered(k) {
                continue;
            }
            let own = if other == NodeId(1) { NodeId(2) } else { NodeId(1) };
            let said = What::Said(other, Cast::locked(k, message.unwrap_or(0)));
            let flight = self.flights.name(Flying { of: own, what: said });
            let next = self.hear(by, flight).next;
            if !self.receivers.get(next).has_delivered(k) {
                return breach(
                    "U-L1",
                    format!("number {k} is promised and never delivered: sealing does not end"),
                );
            }
        }
        Ok(())
    }

    fn agreed(&self, receivers: [Local; 2]) -> Verdict {
        let [one, other] = receivers.map(|local| self.receivers.get(local));
        for receiver in [one, other] {
            if let Some((checker, what)) = &receiver.breach {
                return breach(checker, what.clone());
            }
        }
        for (k, message) in &one.delivered {
            if other.delivered.iter().any(|(of, said)| of == k && said != message) {
                return breach("U-S1", format!("two messages of number {k} are delivered"));
            }
        }
        Ok(())
    }

    pub(super) fn breach(&self, number: u32) -> Option<&Breach> {
        self.breaches.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// Whether a promise of a receiver counts at the other.
    pub(super) fn is_counted(&self, receivers: [Local; 2]) -> bool {
        receivers.iter().any(|local| !self.receivers.get(*local).counts.is_empty())
    }

    /// Whether a receiver delivered through registers.
    pub(super) fn is_slow(&self, receivers: [Local; 2]) -> bool {
        receivers.iter().any(|local| self.receivers.get(*local).is_slow)
    }

    pub(super) fn is_full(&self) -> bool {
        self.receivers.all.len() >= MACHINES_MAX
    }

    /// Different machine states, and steps that were really taken.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.receivers.all.len() + self.nodes.all.len(), self.heard.len() + self.served.len())
    }
}

impl Receiver {
    const fn new(machine: CtBroadcast) -> Self {
        Self {
            machine,
            delivered: Vec::new(),
            is_slow: false,
            promised: Vec::new(),
            counts: Vec::new(),
            breach: None,
        }
    }

    fn has_delivered(&self, k: u64) -> bool {
        self.delivered.iter().any(|(of, _)| *of == k)
    }

    /// Its user vouches for whatever is next in the stream.
    fn may_promise(&self, k: u64) -> bool {
        self.machine.may_promise(k)
            && !self.has_delivered(k)
            && (1..k).all(|before| self.has_delivered(before))
    }

    fn take(&mut self, own: NodeId, effect: Effect<CtBroadcast>, cast: &Cast, sent: &mut Vec<Flying>) {
        match effect {
            Effect::Send { to, message } => {
                let to: Vec<NodeId> = match to {
                    To::Node(node) => vec![node],
                    To::Set(set) => set.iter().collect(),
                };
                for to in to.into_iter().filter(|to| *to != LIAR) {
                    let op = message.register().map(|op| (u8::try_from(to.0 - NodeId::GUESTS.0), *op));
                    sent.push(match op {
                        Some((at, op)) => Flying { of: own, what: What::Op(at.unwrap_or(0), op) },
                        None => Flying { of: to, what: What::Said(own, message.clone()) },
                    });
                }
            }
            Effect::Compute(job) => sent.push(Flying { of: own, what: What::Job(job) }),
            Effect::Output(Output::Delivered { k, body }) => {
                let message = Cast::message(&body);
                if message.is_none() {
                    self.breach = Some(("U-S2", format!("number {k} is what nobody said")));
                }
                if self.delivered.iter().any(|(of, _)| *of == k) {
                    self.breach = Some(("U-S3", format!("number {k} is delivered twice")));
                }
                self.delivered.push((k, message));
                self.delivered.sort_unstable();
            }
            Effect::Output(Output::Promised { k, .. }) if !self.counts.contains(&k) => {
                self.counts.push(k);
                self.counts.sort_unstable();
            }
            Effect::Output(Output::Equivocated(proof)) if !cast.is_proof(&proof) => {
                self.breach = Some(("X6", "two messages are no proof".to_owned()));
            }
            Effect::Blame { peer, fault } if peer != LIAR => {
                self.breach = Some(("X6", format!("{peer} is blamed for {}", fault.name)));
            }
            Effect::Applied(rule) if rule.name == "A1.37_deliver_slow" => self.is_slow = true,
            _ => {}
        }
    }
}
