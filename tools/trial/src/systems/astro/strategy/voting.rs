//! Lies in Bracha's broadcast: two payloads for one slot, two votes, votes for what nobody saw, votes and payloads withheld, and
//! false answers (B1, B4, B7, B9, B11, B12, B15, B16).

use std::rc::Rc;

use synod_astro::{Message, Opened};
use synod_broadcast::Lot;
use synod_broadcast::bracha::{self, Vote};
use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_sim::{Act, Deed, Family, Seen, Strategy};
use synod_wire::{Blob, Bytes, List};

use super::super::sight::{self, Voted};
use super::craft::{Hand, say, sealed};
use super::liar::{Corrupted, HALF, Lie, Memory};
use super::{colluding, inventing};
use crate::oracle::astro::quorum;

/// A member that lies with votes.
pub(super) struct Ballots {
    pub(super) family: Family,
    pub(super) amount: u64,
    pub(super) known: Rc<Corrupted>,
    pub(super) memory: Memory,
}

/// What becomes of a message.
enum Edited {
    Same,
    Nothing,
    Other(bracha::Message),
}

fn learn(memory: &mut Memory, me: u8, from: u8, body: &Bytes) {
    if let Some(Message::Broadcast(bracha::Message::Prepare { sequence, payload })) = sight::voted(body) {
        memory.proposed(me, Lot { source: from, sequence }, payload.bytes());
    }
}

/// Edits each message that is about to leave, one recipient at a time.
fn edit(
    lie: &mut Lie<'_, '_>,
    mut edit: impl FnMut(&mut Lie<'_, '_>, NodeId, bracha::Message) -> Edited,
) -> bool {
    lie.act.split_sends();
    let mut changed = false;
    let deeds = core::mem::take(lie.act.deeds);
    let mut kept = Vec::with_capacity(deeds.len());
    for deed in deeds {
        let Deed::Send { to: synod_machine::To::Node(to), queue, body } = &deed else {
            kept.push(deed);
            continue;
        };
        let Some(Message::Broadcast(message)) = sight::voted(body) else {
            kept.push(deed);
            continue;
        };
        match edit(lie, *to, message) {
            Edited::Same => kept.push(deed),
            Edited::Nothing => changed = true,
            Edited::Other(message) => {
                changed = true;
                let (to, queue) = (synod_machine::To::Node(*to), *queue);
                let body = sealed(&Voted::Broadcast(message));
                kept.push(Deed::Send { to, queue, body });
            }
        }
    }
    kept.append(lie.act.deeds);
    *lie.act.deeds = kept;
    changed
}

/// Votes or payloads that some do not hear, or answers that nobody hears (B1).
fn withhold(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    edit(lie, |_, to, message| {
        let is_withheld = match (&message, amount / 2 % 4) {
            (bracha::Message::Ready(_), 0 | 1) => true,
            (bracha::Message::Prepare { .. }, 1 | 2) => u64::from(to.0) % 2 == amount / 8 % 2,
            (bracha::Message::Echo(_), 2) => u64::from(to.0) % 2 == amount / 8 % 2,
            (bracha::Message::Pulled { .. }, 3) => true,
            _ => false,
        };
        if is_withheld { Edited::Nothing } else { Edited::Same }
    })
}

/// Delivers payloads and votes to one, or to one less than a quorum (B11).
fn shave(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    let members = lie.known.people.members;
    let served = if amount.is_multiple_of(2) { 1 } else { quorum(members).saturating_sub(2) };
    let me = lie.hand.me.0;
    edit(lie, |_, to, message| {
        let is_shaved = !matches!(message, bracha::Message::Ask(_) | bracha::Message::Frontier(_));
        let place = (to.0 + members - me) % members;
        if is_shaved && place > served { Edited::Nothing } else { Edited::Same }
    })
}

/// Another payload for odd peers in each of its slots (B4).
fn equivocate(lie: &mut Lie<'_, '_>) -> bool {
    let me = lie.hand.lane();
    edit(lie, |lie, to, message| {
        let bracha::Message::Prepare { sequence, payload } = message else { return Edited::Same };
        if to.0.is_multiple_of(2) {
            return Edited::Same;
        }
        let lot = Lot { source: me, sequence };
        if !lie.memory.instead.contains_key(&lot) {
            let other = sight::batch(payload.bytes()).and_then(|batch| inventing::other(lie, &batch));
            lie.memory.instead.insert(lot, other);
        }
        let instead = lie.memory.instead.get(&lot).and_then(Option::as_ref);
        match instead.and_then(|batch| Blob::try_from(batch.payload()).ok()) {
            Some(payload) => Edited::Other(bracha::Message::Prepare { sequence, payload }),
            None => Edited::Same,
        }
    })
}

/// Votes for another payload, for some, and frontiers that nobody reached (B7).
fn false_votes(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    edit(lie, |lie, _, message| match message {
        bracha::Message::Echo(vote) if lie.act.draws.chance(HALF) => {
            Edited::Other(bracha::Message::Echo(Vote { digest: Hash::of(&vote.digest.0), ..vote }))
        }
        bracha::Message::Ready(vote) if lie.act.draws.chance(HALF) => {
            Edited::Other(bracha::Message::Ready(Vote { digest: Hash::of(&vote.digest.0), ..vote }))
        }
        bracha::Message::Frontier(lots) if amount.is_multiple_of(2) => {
            let mut all = lots.into_vec();
            all.iter_mut().for_each(|lot| lot.sequence = lot.sequence.saturating_add(amount % 7));
            List::try_from(all).map_or(Edited::Nothing, |lots| Edited::Other(bracha::Message::Frontier(lots)))
        }
        _ => Edited::Same,
    })
}

/// Votes for payloads of its own that it shows or does not, in its lane and in others' (B9).
fn forge(lie: &mut Lie<'_, '_>) -> bool {
    if !lie.act.draws.chance(60_000) {
        return false;
    }
    let heard = lie.memory.heard.clone();
    let lot = match lie.act.draws.pick(&heard).copied() {
        Some((lot, ..)) => Lot { sequence: lot.sequence + lie.act.draws.below(3), ..lot },
        None => return false,
    };
    let vote = Vote { lot, digest: Hash::of(&lie.act.draws.below(4).to_le_bytes()) };
    let votes = match lie.act.draws.below(3) {
        0 => vec![bracha::Message::Ready(vote)],
        1 => vec![bracha::Message::Echo(vote), bracha::Message::Ready(vote)],
        _ => vec![bracha::Message::Echo(vote)],
    };
    for to in lie.some(700_000) {
        votes.iter().for_each(|message| say(lie.act, to, &Voted::Broadcast(message.clone())));
    }
    true
}

/// Payloads that were not asked for (B16).
fn false_answers(lie: &mut Lie<'_, '_>) -> bool {
    edit(lie, |lie, _, message| match message {
        bracha::Message::Pulled { lot, payload } if lie.act.draws.chance(HALF) => {
            let batch = sight::batch(payload.bytes());
            let other: Option<Opened> = batch.and_then(|batch| inventing::other(lie, &batch));
            match other.and_then(|batch| Blob::try_from(batch.payload()).ok()) {
                Some(payload) => Edited::Other(bracha::Message::Pulled { lot, payload }),
                None => Edited::Nothing,
            }
        }
        _ => Edited::Same,
    })
}

impl Strategy for Ballots {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        let (all, me) = (act.keys, act.node);
        let Some(keys) = all.get(&me) else { return false };
        let hand = Hand { view: &self.known.view, me, keys, profile: self.known.people.profile };
        if let Seen::Frame(frame) = act.seen {
            learn(&mut self.memory, hand.lane(), frame.from.member().unwrap_or(u8::MAX), &frame.body);
        }
        for deed in act.deeds.iter() {
            if let Deed::Send { body, .. } = deed {
                learn(&mut self.memory, hand.lane(), hand.lane(), body);
            }
        }
        let (family, amount) = (self.family, self.amount);
        let mut lie = Lie { act, hand, known: &self.known, memory: &mut self.memory };
        match family {
            Family::ByzSilent => withhold(&mut lie, amount),
            Family::ByzEquivocate => equivocate(&mut lie),
            Family::ByzAcks => false_votes(&mut lie, amount),
            Family::ByzForge => forge(&mut lie),
            Family::ByzShave => shave(&mut lie, amount),
            Family::ByzCollude => colluding::collude(&mut lie, amount),
            Family::ByzBatches => inventing::invent(&mut lie),
            _ => false_answers(&mut lie),
        }
    }
}
