//! Lies in what is said of batches: withheld certificates, lists of exceptions that lie, receipts for nothing, forged certificates,
//! and false answers to those who ask.

use std::sync::Arc;

use synod_astro::{Credit, Cut, Message, Witnessed, Word};
use synod_broadcast::signed::{self, Ack, Except, Said};
use synod_crypto::{Hash, Signature};
use synod_quorum::NodeId;
use synod_wire::{Blob, List};

use super::super::sight::{self, Spoken};
use super::craft::say;
use super::liar::{Edited, HALF, Lie};
use crate::oracle::astro::quorum;

/// Says everything but certificates, or but batches to some, or answers nobody who asks (B1).
pub(super) fn withhold(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    lie.edit(|_, to, message| {
        let Message::Broadcast(message) = message else { return Edited::Same };
        let is_withheld = match (&message, amount / 2 % 4) {
            (signed::Message::Commit(_), 0 | 1) => true,
            (signed::Message::Prepare { .. }, 1 | 2) => u64::from(to.0) % 2 == amount / 8 % 2,
            (signed::Message::Pulled { .. } | signed::Message::Rows { .. }, 3) => true,
            _ => false,
        };
        if is_withheld { Edited::Nothing } else { Edited::Same }
    })
}

/// Delivers batches and certificates to one, or to one less than a quorum (B11).
pub(super) fn shave(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    let members = lie.known.people.members;
    let served = match amount % 3 {
        0 => 1,
        1 => quorum(members).saturating_sub(2),
        _ => quorum(members).saturating_sub(1),
    };
    let me = lie.hand.me.0;
    let shift = u32::try_from(amount / 3 % u64::from(members)).unwrap_or(0);
    lie.edit(|_, to, message| {
        let shaved = matches!(
            message,
            Message::Broadcast(signed::Message::Commit(_) | signed::Message::Prepare { .. })
        );
        let place = (to.0 + members - me + shift) % members;
        if shaved && place > served { Edited::Nothing } else { Edited::Same }
    })
}

/// Exceptions that nobody else sees: none, all, any, the first ones.
fn list(lie: &mut Lie<'_, '_>, count: u32) -> Except {
    let shapes = [(0, 0), (count, 0), (0, 300_000), (0, 700_000), (1, 0), (count / 2, 0)];
    let (first, ppm) = lie.act.draws.pick(&shapes).copied().unwrap_or((0, 0));
    let items = (0..count).filter(|item| *item < first || lie.act.draws.chance(ppm)).collect();
    Except::new(items).unwrap_or_default()
}

/// Lists of exceptions that lie, and receipts that do (B7).
pub(super) fn false_acks(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    lie.edit(|lie, _, message| match message {
        Message::Broadcast(signed::Message::Ack(ack)) if lie.act.draws.chance(HALF) => {
            let count = lie.memory.heard.iter().find(|(lot, ..)| *lot == ack.lot).map_or(4, |heard| heard.2);
            let except = list(lie, u32::try_from(count).unwrap_or(4));
            let said = lie.hand.said(ack.lot, ack.digest, except);
            Edited::Other(Message::Broadcast(signed::Message::Ack(Ack { said, ..ack })))
        }
        Message::Own(Word::Receipt(receipt)) if lie.act.draws.chance(HALF) => {
            let digest = if amount.is_multiple_of(3) { Hash::of(b"another") } else { receipt.digest };
            let open = list(lie, 4);
            Edited::Other(Message::Own(Word::Receipt(lie.hand.receipt(receipt.lot, digest, open))))
        }
        Message::Own(Word::Credit(credit)) if lie.act.draws.chance(HALF) => {
            let open = list(lie, 4);
            let vouch = lie.hand.vouch(credit.root, open);
            Edited::Other(Message::Own(Word::Credit(Credit { vouch, ..credit })))
        }
        Message::Own(Word::Witnessed(word)) if lie.act.draws.chance(HALF) => {
            Edited::Other(Message::Own(Word::Witnessed(other_look(lie, word))))
        }
        Message::Own(Word::CutSign(sign)) if lie.act.draws.chance(HALF) => {
            let root = Hash::of(&amount.to_le_bytes());
            let sign = lie.hand.cut_sign(sign.number, sign.proposer, root);
            Edited::Other(Message::Own(Word::CutSign(sign)))
        }
        Message::Own(Word::CutPropose(cut)) if lie.act.draws.chance(HALF) => {
            other_cut(*cut, lie.act.draws.below(3))
        }
        Message::Broadcast(signed::Message::Frontier { certified, beyond: told, life, rows })
            if amount.is_multiple_of(2) =>
        {
            let mut all = certified.into_vec();
            all.iter_mut().for_each(|lot| lot.sequence = lot.sequence.saturating_add(amount % 7));
            let Ok(certified) = List::<_, 128>::try_from(all) else { return Edited::Nothing };
            let rows = rows + amount % 5;
            let beyond = if amount.is_multiple_of(3) { certified.clone().into_vec() } else { Vec::new() };
            let beyond = beyond.try_into().unwrap_or(told);
            Edited::Other(Message::Broadcast(signed::Message::Frontier { certified, beyond, life, rows }))
        }
        _ => Edited::Same,
    })
}

/// A word on signatures that says the other thing, or speaks of another batch or of other keys.
fn other_look(lie: &mut Lie<'_, '_>, word: Witnessed) -> Witnessed {
    let other = match lie.act.draws.below(4) {
        0 => Witnessed { digest: Hash::of(&word.digest.0), ..word },
        1 => Witnessed { keys: Hash::of(&word.keys.0), ..word },
        _ => Witnessed { is_good: !word.is_good, ..word },
    };
    lie.hand.witnessed(other)
}

/// A cut that counts less, or names no batch that there is, or leaves its exceptions out.
fn other_cut(mut cut: Cut, which: u64) -> Edited {
    let mut lanes = cut.lanes.to_vec();
    match which {
        0 => lanes.iter_mut().for_each(|end| end.lot.sequence = end.lot.sequence.saturating_sub(1)),
        1 => lanes.iter_mut().for_each(|end| end.digest = Hash::of(&end.digest.0)),
        _ => cut.exceptions = List::default(),
    }
    let Ok(lanes) = lanes.try_into() else { return Edited::Nothing };
    Edited::Other(Message::Own(Word::CutPropose(Box::new(Cut { lanes, ..cut }))))
}

/// Certificates that prove nothing: of one signer many times, of too few, of signatures that nobody made, and of true ones whose
/// lists were taken away (B9).
pub(super) fn forge(lie: &mut Lie<'_, '_>) -> bool {
    if !lie.act.draws.chance(60_000) {
        return false;
    }
    let members = lie.known.people.members;
    let heard = lie.memory.heard.clone();
    let Some((lot, digest, count)) = lie.act.draws.pick(&heard).copied() else { return false };
    let own = lie.hand.said(lot, digest, Except::default());
    let other = |member: u32| Said {
        member: u8::try_from(member).unwrap_or(0),
        signature: Signature([7; 64]),
        ..own.clone()
    };
    let said: Vec<Said> = match lie.act.draws.below(4) {
        0 => vec![own.clone(); quorum(members) as usize],
        1 => vec![own.clone()],
        2 => (0..members).map(other).collect(),
        _ => {
            let known = lie.memory.acks.values().last().cloned().unwrap_or_default();
            let bare = known.into_values().map(|said| Said { except: Except::default(), ..said });
            bare.chain([own.clone()]).collect()
        }
    };
    let digest = if lie.act.draws.chance(200_000) { Hash::of(&count.to_le_bytes()) } else { digest };
    let Some(message) = lie.hand.commit(lot, digest, said) else { return false };
    for to in lie.some(HALF) {
        say(lie.act, to, &message);
    }
    true
}

/// Answers that are something else than what was asked for (B16).
pub(super) fn false_answers(lie: &mut Lie<'_, '_>) -> bool {
    lie.edit(|lie, _: NodeId, message| match message {
        Message::Broadcast(signed::Message::Pulled { lot, payload }) if lie.act.draws.chance(HALF) => {
            other_payload(lie, lot, payload.bytes())
        }
        Message::Broadcast(signed::Message::Rows { life, from, rows }) => {
            let mut all = rows.into_vec();
            all.iter_mut().for_each(|row| row.open = Except::default());
            let Ok(rows) = all.try_into() else { return Edited::Nothing };
            let from = from + lie.act.draws.below(2);
            Edited::Other(Message::Broadcast(signed::Message::Rows { life, from, rows }))
        }
        Message::Own(Word::Here(mut line)) if lie.act.draws.chance(HALF) => {
            Arc::make_mut(&mut line.entry).transfer ^= 1;
            Edited::Other(Message::Own(Word::Here(line)))
        }
        _ => Edited::Same,
    })
}

fn other_payload(lie: &mut Lie<'_, '_>, lot: synod_broadcast::Lot, payload: &synod_wire::Bytes) -> Edited {
    let Some(mut batch) = sight::batch(payload) else { return Edited::Same };
    let mut lines = batch.batch.lines.to_vec();
    match lie.act.draws.below(3) {
        0 => drop(lines.pop()),
        1 => lines.reverse(),
        _ => lines.iter_mut().for_each(|line| Arc::make_mut(&mut line.entry).transfer ^= 1),
    }
    let (prev, openings) = (batch.batch.header.prev, batch.batch.openings.to_vec());
    batch = synod_astro::Opened::new(0, lot, prev, openings, lines);
    match Blob::try_from(batch.payload()) {
        Ok(payload) => Edited::Other(Spoken::Broadcast(signed::Message::Pulled { lot, payload })),
        Err(_) => Edited::Nothing,
    }
}
