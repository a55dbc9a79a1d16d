//! A replica that lies in broadcasts alone: different messages under one number (B4), in many orders, and words and registers that
//! nobody should believe (B9, B14).
//!
//! What only a receiver says (B7) it says as a replica does, and so do those who know no words.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Keys, Signature};
use synod_machine::register::{Held, RegisterOp, Said};
use synod_machine::{Message as _, Span, To};
use synod_quorum::NodeId;
use synod_sim::{Act, Deed, Family, Incident, Seen, Strategy};
use synod_ubft::message::Message;
use synod_ubft::replica::Word;
use synod_ubft::{Config, ctb};
use synod_wire::Bytes;

use crate::systems::ubft::plan::Roles;
use crate::systems::ubft::sight::{opened, sealed};
use crate::systems::ubft::strategy::{self, shown};

const HALF: u32 = 500_000;
/// Most numbers for which it remembers what it told whom, and most entries.
const TOLD_MAX: usize = 256;
/// The first byte of the other message.
const FALSE: u8 = 0xfe;

/// What whoever is corrupted knows.
pub(super) struct Corrupted {
    /// The cluster.
    pub(super) genesis: Config,
    /// Who is there.
    pub(super) roles: Roles,
}

/// The strategy of an incident.
pub(super) fn of(incident: &Incident, known: &Corrupted) -> Option<Box<dyn Strategy>> {
    let (family, genesis) = (incident.family, known.genesis.clone());
    let wrote = Vec::new();
    match family {
        Family::ByzEquivocate => Some(Box::new(Equivocator {
            genesis,
            amount: incident.amount.unsigned_abs(),
            doubles: BTreeMap::new(),
        })),
        Family::ByzForge | Family::ByzRegisters => Some(Box::new(Forger { genesis, family, wrote })),
        _ => {
            let known = strategy::Corrupted { genesis, roles: known.roles };
            strategy::of(incident, &known)
        }
    }
}

/// In which order the two messages of a number are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Each receiver gets one of them, locked and signed.
    Apart,
    /// All are told the same, and some get the other one signed.
    Beside,
    /// Some are told nothing, and get the other one signed.
    Unsaid,
    /// All are told one, and some the other a little later.
    Again,
}

/// The other message of a number, and who gets it: a bit for each replica.
struct Double {
    other: Bytes,
    whom: u64,
    order: Order,
    /// How much later the other one is said; not at all later in two of three runs.
    after: Span,
}

/// B4, of messages of its own.
struct Equivocator {
    genesis: Config,
    amount: u64,
    doubles: BTreeMap<u64, Option<Double>>,
}

/// A word of the own broadcast as it travels.
fn own(genesis: &Config, me: NodeId, word: ctb::Message) -> Option<Message> {
    let word = Word::Ctb { broadcaster: me.member()?, word };
    Some(Message::Word { epoch: genesis.epoch, word })
}

fn send(to: NodeId, message: &Message) -> Deed {
    Deed::Send { to: To::Node(to), queue: message.queue(), body: sealed(message) }
}

/// What a frame says of the own messages: their number, and the body of a LOCK.
fn about_own(me: NodeId, body: &Bytes) -> Option<(u64, Option<Bytes>)> {
    let Message::Word { word: Word::Ctb { broadcaster, word }, .. } = opened(body)? else { return None };
    match word {
        _ if Some(broadcaster) != me.member() => None,
        ctb::Message::Lock { k, body } => Some((k, Some(body.into_bytes()))),
        ctb::Message::Signed { k, .. } => Some((k, None)),
        _ => None,
    }
}

impl Equivocator {
    /// What becomes of a number: nothing, or another message beside it.
    fn draw(&mut self, act: &mut Act<'_>, body: &Bytes) -> Option<Double> {
        if !act.draws.chance(800_000) {
            return None;
        }
        let mut other = body.to_vec();
        if let Some(first) = other.first_mut() {
            *first = FALSE;
        }
        let replicas = u64::from(self.genesis.roster.size());
        let mut whom = act.draws.below(1 << replicas);
        if replicas == 3 {
            // One of two receivers.
            let receivers: Vec<u64> = (0..replicas).filter(|id| *id != u64::from(act.node.0)).collect();
            whom = act.draws.pick(&receivers).map_or(0, |id| 1 << id);
        }
        let order = match act.draws.below(8) {
            0..=3 => Order::Apart,
            4 => Order::Beside,
            5 | 6 => Order::Unsaid,
            _ => Order::Again,
        };
        let longest = 1_000 * (self.amount + 1);
        let after = if self.amount.is_multiple_of(3) { act.draws.log_uniform(1, longest) } else { 0 };
        Some(Double { other: other.into(), whom, order, after: Span(after) })
    }

    /// Says a word of the own broadcast to somebody, at once or a little later.
    fn say(&self, act: &mut Act<'_>, to: NodeId, word: Option<ctb::Message>, after: Span) {
        let Some(message) = word.and_then(|word| own(&self.genesis, act.node, word)) else { return };
        if after == Span::ZERO {
            act.deeds.push(send(to, &message));
        } else {
            act.later.push((after, send(to, &message)));
        }
    }

    /// What one receiver is told in the place of a LOCK or a SIGNED.
    fn tell(
        &mut self,
        act: &mut Act<'_>,
        keys: &Keys,
        to: NodeId,
        (k, body): (u64, Option<Bytes>),
        frame: Deed,
    ) {
        if let (None, Some(body)) = (self.doubles.get(&k), &body) {
            while self.doubles.len() >= TOLD_MAX {
                self.doubles.pop_first();
            }
            let double = self.draw(act, body);
            self.doubles.insert(k, double);
        }
        let Some(Some(double)) = self.doubles.get(&k) else { return act.deeds.push(frame) };
        let (is_other, after, order) = (double.whom >> (to.0 % 64) & 1 == 1, double.after, double.order);
        let scope = (act.node, self.genesis.epoch);
        let signed = |body: &Bytes| shown(&self.genesis, scope, keys, (k, body));
        let lock = |body: &Bytes| {
            let body = body.clone().try_into().ok()?;
            Some(ctb::Message::Lock { k, body })
        };
        let is_lock = body.is_some();
        match (order, is_other) {
            (_, false) => act.deeds.push(frame),
            (Order::Apart, true) => {
                let word = if is_lock { lock(&double.other) } else { signed(&double.other) };
                let after = if is_lock { Span::ZERO } else { after };
                self.say(act, to, word, after);
            }
            (Order::Beside, true) if is_lock => act.deeds.push(frame),
            (Order::Unsaid, true) if is_lock => {}
            (Order::Beside | Order::Unsaid, true) => {
                let word = signed(&double.other);
                self.say(act, to, word, after);
            }
            (Order::Again, true) => {
                act.deeds.push(frame);
                let word = if is_lock { lock(&double.other) } else { signed(&double.other) };
                self.say(act, to, word, Span(after.0 + 1_000));
            }
        }
    }
}

impl Strategy for Equivocator {
    fn name(&self) -> &'static str {
        Family::ByzEquivocate.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let all = act.keys;
        let Some(keys) = all.get(&act.node) else { return false };
        let deeds = core::mem::take(act.deeds);
        let (me, mut is_changed) = (act.node, false);
        for deed in deeds {
            let Deed::Send { to: To::Node(to), body, .. } = &deed else {
                act.deeds.push(deed);
                continue;
            };
            match (*to, about_own(me, body)) {
                (to, Some(about)) => {
                    is_changed |= !matches!(self.doubles.get(&about.0), Some(None));
                    self.tell(act, keys, to, about, deed);
                }
                (_, None) => act.deeds.push(deed),
            }
        }
        is_changed
    }
}

/// B9 and B14: words of others with signatures that are none, and registers with entries that were changed, copied or moved.
struct Forger {
    genesis: Config,
    family: Family,
    /// Entries that it wrote, or read of others.
    wrote: Vec<Held>,
}

impl Forger {
    fn keep(&mut self, held: Held) {
        if self.wrote.len() < TOLD_MAX {
            self.wrote.push(held);
        }
    }

    /// An entry that no correct replica writes, another one for each memory node.
    fn register(&self, act: &mut Act<'_>, held: &mut Held) {
        let tail = u64::from(self.genesis.parameters.tail);
        match act.draws.below(6) {
            0 => {
                if let Some(byte) = held.value.first_mut() {
                    *byte ^= 1;
                }
            }
            1 => held.stamp += tail * act.draws.between(1, 3),
            // What was signed for another number, or by somebody else.
            2 | 3 => {
                if let Some(old) = act.draws.pick(&self.wrote) {
                    held.value = old.value;
                }
            }
            4 => {
                if let Some(old) = act.draws.pick(&self.wrote) {
                    *held = *old;
                }
            }
            _ => held.value = [7; 96],
        }
    }

    /// A message of another broadcaster that it never signed, and a lock of one that was not sent.
    fn invent(&self, act: &mut Act<'_>, k: u64, broadcaster: u8) -> Option<Message> {
        let body = Bytes::copy_from_slice(&[&[FALSE][..], &act.draws.draw().to_le_bytes()].concat());
        let k = k + act.draws.below(3) * u64::from(self.genesis.parameters.tail);
        let digest = Hash::of(&body);
        let word = if act.draws.chance(HALF) {
            let signature = Box::new(Signature([7; 64]));
            ctb::Message::Signed { broadcaster, k, digest, signature, body: body.try_into().ok() }
        } else {
            ctb::Message::Locked { broadcaster, k, told: ctb::Told::Digest(digest), promise: false }
        };
        Some(Message::Word { epoch: self.genesis.epoch, word: Word::Ctb { broadcaster, word } })
    }
}

impl Strategy for Forger {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        if let Seen::Registered { reply, .. } = act.seen
            && let Said::Value(Some(held)) = reply.said
        {
            self.keep(held);
        }
        let deeds = core::mem::take(act.deeds);
        let mut is_changed = false;
        for mut deed in deeds {
            match &mut deed {
                Deed::Register { op: RegisterOp::Write { held, .. }, .. }
                    if self.family == Family::ByzRegisters =>
                {
                    let honest = *held;
                    if act.draws.chance(800_000) {
                        self.register(act, held);
                    }
                    is_changed |= *held != honest;
                    self.keep(honest);
                }
                Deed::Send { to: To::Node(to), body, .. } if self.family == Family::ByzForge => {
                    if let Some(Message::Word {
                        word: Word::Ctb { broadcaster, word: ctb::Message::Locked { k, .. } },
                        ..
                    }) = opened(body)
                        && act.draws.chance(300_000)
                        && let Some(message) = self.invent(act, k, broadcaster)
                    {
                        is_changed = true;
                        act.deeds.push(send(*to, &message));
                    }
                }
                _ => {}
            }
            act.deeds.push(deed);
        }
        is_changed
    }
}
