//! A liar: an honest replica inside, and moves that edit what it says or say more.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use synod_astro::{Dependency, Message, Opened, Profile, Vouch, Word};
use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Said, View};
use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_sim::{Act, Deed, Family, Incident, PPM, Seen, Strategy, generic};
use synod_wire::Bytes;

use super::super::book::Shared;
use super::super::plan::People;
use super::super::sight::{self, Spoken};
use super::craft::{Hand, sealed};
use super::voting::Ballots;
use super::{backing, colluding, inventing, saying};

/// What whoever is corrupted knows.
pub(crate) struct Corrupted {
    /// The members.
    pub(crate) view: Arc<View>,
    /// Who has accounts.
    pub(crate) people: People,
    /// What is known of the run.
    pub(crate) book: Shared,
}

/// Batches that one liar makes up: members that keep few batches have to catch up with all of them.
pub(super) const BATCHES_MAX: usize = 60;

/// Batches of others that it remembers, the newest.
const HEARD_MAX: usize = 64;

/// What a liar has seen and made.
#[derive(Default)]
pub(super) struct Memory {
    /// Batches of its own lane, its own honest ones among them: number and digest.
    pub(super) lane: Vec<(u64, Hash)>,
    /// Batches that it made up.
    pub(super) made: Vec<Opened>,
    /// What others said of its own batches.
    pub(super) acks: BTreeMap<(Lot, Hash), BTreeMap<u8, Said>>,
    /// What else is broadcast: slot, digest and number of entries.
    pub(super) heard: Vec<(Lot, Hash, usize)>,
    /// Ends of chains that its owners signed.
    pub(super) chains: BTreeMap<synod_ledger::AccountId, Vec<(u64, Hash)>>,
    /// What it shows to some of its peers in the place of its own batch.
    pub(super) instead: BTreeMap<Lot, Option<Opened>>,
    /// Payments that anybody showed to have settled, the newest.
    pub(super) shown: Vec<Dependency>,
    /// Members' words by what they are on.
    pub(super) vouched: BTreeMap<Hash, BTreeMap<u8, Vouch>>,
}

impl Memory {
    /// A batch that somebody broadcasts.
    pub(super) fn proposed(&mut self, me: u8, lot: Lot, payload: &Bytes) {
        let Some(batch) = sight::batch(payload) else { return };
        let at = (lot.sequence, batch.digest);
        if lot.source == me && !self.lane.contains(&at) {
            self.lane.push(at);
        } else if lot.source != me {
            self.heard.push((lot, batch.digest, batch.digests.len()));
            self.heard.drain(..self.heard.len().saturating_sub(HEARD_MAX));
        }
        for dependency in sight::backings(&batch).into_values().flatten() {
            if !self.shown.contains(&dependency) {
                self.shown.push(dependency);
            }
        }
        self.shown.drain(..self.shown.len().saturating_sub(HEARD_MAX));
    }

    fn learn(&mut self, me: u8, message: &Spoken) {
        let message = match message {
            Message::Broadcast(message) => message,
            Message::Own(Word::Credit(credit)) => {
                let said = self.vouched.entry(credit.root).or_default();
                said.insert(credit.vouch.member, credit.vouch.clone());
                return;
            }
            Message::Own(_) => return,
        };
        match message {
            signed::Message::Prepare { lot, payload, .. } => self.proposed(me, *lot, payload.bytes()),
            signed::Message::Ack(ack) if ack.lot.source == me => {
                let all = self.acks.entry((ack.lot, ack.digest)).or_default();
                all.insert(ack.said.member, ack.said.clone());
            }
            _ => {}
        }
    }
}

/// One call of a corrupted replica, with what the liar knows.
pub(super) struct Lie<'a, 'b> {
    pub(super) act: &'a mut Act<'b>,
    pub(super) hand: Hand<'a>,
    pub(super) known: &'a Corrupted,
    pub(super) memory: &'a mut Memory,
}

/// What becomes of a message.
pub(super) enum Edited {
    Same,
    Nothing,
    Other(Spoken),
}

impl Lie<'_, '_> {
    /// Members that hear it, each with this chance.
    pub(super) fn some(&mut self, ppm: u32) -> Vec<NodeId> {
        let peers = self.act.peers.to_vec();
        peers.into_iter().filter(|_| self.act.draws.chance(ppm)).collect()
    }

    /// Edits each message that is about to leave, one recipient at a time.
    pub(super) fn edit(&mut self, mut edit: impl FnMut(&mut Self, NodeId, Spoken) -> Edited) -> bool {
        self.act.split_sends();
        let mut changed = false;
        let deeds = core::mem::take(self.act.deeds);
        let mut kept = Vec::with_capacity(deeds.len());
        for deed in deeds {
            let Deed::Send { to: synod_machine::To::Node(to), queue, body } = &deed else {
                kept.push(deed);
                continue;
            };
            let Some(message) = sight::opened(body) else {
                kept.push(deed);
                continue;
            };
            match edit(self, *to, message) {
                Edited::Same => kept.push(deed),
                Edited::Nothing => changed = true,
                Edited::Other(message) => {
                    changed = true;
                    let (to, queue) = (synod_machine::To::Node(*to), *queue);
                    kept.push(Deed::Send { to, queue, body: sealed(&message) });
                }
            }
        }
        // What was said meanwhile leaves behind what the machine said.
        kept.append(self.act.deeds);
        *self.act.deeds = kept;
        changed
    }
}

/// The lying member.
struct Liar {
    family: Family,
    amount: u64,
    known: Rc<Corrupted>,
    memory: Memory,
}

impl Strategy for Liar {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        let (all, me) = (act.keys, act.node);
        let Some(keys) = all.get(&me) else { return false };
        let hand = Hand { view: &self.known.view, me, keys, profile: self.known.people.profile };
        if let Seen::Frame(frame) = act.seen
            && let Some(message) = sight::opened(&frame.body)
        {
            self.memory.learn(hand.lane(), &message);
        }
        for deed in act.deeds.iter() {
            if let Deed::Send { body, .. } = deed
                && let Some(message) = sight::opened(body)
            {
                self.memory.learn(hand.lane(), &message);
            }
        }
        let (family, amount) = (self.family, self.amount);
        let mut lie = Lie { act, hand, known: &self.known, memory: &mut self.memory };
        match family {
            Family::ByzSilent => saying::withhold(&mut lie, amount),
            Family::ByzEquivocate => inventing::equivocate(&mut lie),
            Family::ByzAcks => saying::false_acks(&mut lie, amount),
            Family::ByzForge => backing::spend(&mut lie) | saying::forge(&mut lie),
            Family::ByzShave => saying::shave(&mut lie, amount),
            Family::ByzCollude => colluding::collude(&mut lie, amount),
            Family::ByzBatches => inventing::invent(&mut lie),
            _ => saying::false_answers(&mut lie),
        }
    }
}

/// The strategy of an incident.
pub(crate) fn of(incident: &Incident, known: &Rc<Corrupted>) -> Option<Box<dyn Strategy>> {
    let amount = incident.amount.unsigned_abs();
    let is_own = match incident.family {
        Family::ByzSilent => amount.is_multiple_of(2),
        Family::ByzEquivocate
        | Family::ByzAcks
        | Family::ByzForge
        | Family::ByzShave
        | Family::ByzCollude
        | Family::ByzBatches
        | Family::ByzSync => true,
        _ => false,
    };
    if !is_own {
        return generic(incident);
    }
    let (family, known, memory) = (incident.family, Rc::clone(known), Memory::default());
    Some(match known.people.profile {
        Profile::I => Box::new(Ballots { family, amount, known, memory }),
        Profile::II | Profile::Funded => Box::new(Liar { family, amount, known, memory }),
    })
}

/// Half of all.
pub(super) const HALF: u32 = PPM / 2;
