//! Batches that lie: two for one slot, and entries that nobody may carry.

use std::sync::Arc;

use synod_astro::{Auth, Line, Message, Opened};
use synod_broadcast::signed;
use synod_crypto::{Hash, Signature};
use synod_ledger::{AccountId, Entry, EntryId, Flags, Kind, Leg, Opening, Units, UserData};

use super::super::plan::{EURO, People, account};
use super::super::sight;
use super::colluding;
use super::liar::{BATCHES_MAX, Edited, HALF, Lie};

/// An entry without an owner's signature.
pub(super) fn bare(id: EntryId, prev: Hash, kind: Kind, transfer: u128) -> Line {
    let (code, user_data, flags) = (0, UserData::default(), Flags::default());
    let entry = Entry { id, prev, kind, transfer, ledger: EURO, code, user_data, flags };
    Line { entry: entry.into(), auth: Auth::Institution }
}

/// Shows half of its peers another batch in each of its slots (B4).
pub(super) fn equivocate(lie: &mut Lie<'_, '_>) -> bool {
    let me = lie.hand.lane();
    lie.edit(|lie, to, message| {
        let Message::Broadcast(signed::Message::Prepare { lot, payload, .. }) = message else {
            return Edited::Same;
        };
        if lot.source != me || to.0 % 2 == 0 {
            return Edited::Same;
        }
        if !lie.memory.instead.contains_key(&lot) {
            let other = sight::batch(payload.bytes()).and_then(|batch| other(lie, &batch));
            lie.memory.instead.insert(lot, other);
        }
        let instead = lie.memory.instead.get(&lot).and_then(Option::as_ref);
        match instead.and_then(|batch| lie.hand.prepare(batch)) {
            Some(message) => Edited::Other(message),
            None => Edited::Same,
        }
    })
}

/// Another batch for the same slot, sometimes none.
pub(super) fn other(lie: &mut Lie<'_, '_>, batch: &Opened) -> Option<Opened> {
    let mut lines = batch.batch.lines.to_vec();
    let openings = batch.batch.openings.to_vec();
    match lie.act.draws.below(4) {
        0 => return None,
        1 if lines.len() > 1 => drop(lines.pop()),
        _ => {
            let custodial = lines.iter_mut().rev().find(|line| line.auth == Auth::Institution)?;
            let entry = Arc::make_mut(&mut custodial.entry);
            match &mut entry.kind {
                Kind::Pay(leg) => leg.amount = Units(1 + leg.amount.0 / 2),
                _ => entry.transfer ^= 1 << 90,
            }
        }
    }
    let at = (batch.lot().sequence, batch.batch.header.prev);
    Some(lie.hand.batch(at, openings, lines))
}

/// Where its lane goes on, as its peers see it; sometimes where it does not.
pub(super) fn place(lie: &mut Lie<'_, '_>) -> (u64, Hash) {
    let last = lie.memory.lane.iter().max_by_key(|(sequence, _)| *sequence).copied();
    let all: Vec<(u64, Hash)> = lie.memory.lane.clone();
    let behind = match lie.act.draws.chance(700_000) {
        true => last,
        false => lie.act.draws.pick(&all).copied(),
    };
    let (sequence, prev) = behind.unwrap_or((0, Hash::ZERO));
    (sequence + 1, prev)
}

/// Where a log stands, as somebody sees it.
pub(super) fn end(lie: &Lie<'_, '_>, id: AccountId) -> (u64, Hash, u128) {
    let book = lie.known.book.borrow();
    let purses = book.reckonings.values().filter_map(|of| of.purse(id));
    let most = purses.max_by_key(|purse| purse.sequence);
    most.map_or((0, synod_ledger::genesis(id), 0), |purse| (purse.sequence, purse.head, purse.available()))
}

/// Entries of other institutions' customers, of owners who signed nothing, without money, behind no entry, twice; accounts out
/// of order; and something good among them (B15).
pub(super) fn invent(lie: &mut Lie<'_, '_>) -> bool {
    let is_certified = is_carried(lie);
    if lie.memory.made.len() >= BATCHES_MAX || !lie.act.draws.chance(30_000) {
        return is_certified;
    }
    let (members, own) = (lie.known.people.members, lie.hand.me.0);
    let count = 1 + lie.act.draws.below(5);
    let lines: Vec<Line> = (0..count).map(|_| line(lie, members, own)).collect();
    let openings = if lie.act.draws.chance(150_000) { opening(lie, own) } else { Vec::new() };
    let at = place(lie);
    let batch = lie.hand.batch(at, openings, lines);
    let Some(message) = lie.hand.propose(&batch) else { return false };
    let share = if lie.act.draws.chance(HALF) { 1_000_000 } else { 600_000 };
    for to in lie.some(share) {
        message.say(lie.act, to);
    }
    lie.memory.lane.push((batch.lot().sequence, batch.digest));
    lie.memory.made.push(batch);
    true
}

/// Its own replica knows nothing of batches that it makes up: it has them certified by itself, now and then, and so that its lane
/// goes on.
pub(super) fn is_carried(lie: &mut Lie<'_, '_>) -> bool {
    !lie.memory.made.is_empty() && lie.act.draws.chance(200_000) && colluding::certify(lie)
}

fn line(lie: &mut Lie<'_, '_>, members: u32, own: u32) -> Line {
    let other = u32::try_from(lie.act.draws.below(u64::from(members))).unwrap_or(0);
    let owner = lie.known.people.owners(other).next().unwrap_or(account(other, 3));
    let spender = match lie.act.draws.below(5) {
        0 => account(other, 2),
        1 => owner,
        2 => account(own, 2),
        3 => People::issuer(other),
        _ => People::issuer(own),
    };
    let (n, head, has) = end(lie, spender);
    let (n, prev) = match lie.act.draws.below(6) {
        0 => (n, Hash::of(b"nothing")),
        1 => (n + 1, head),
        _ => (n, head),
    };
    let amount = match lie.act.draws.below(4) {
        0 => has.saturating_add(1),
        1 => 0,
        _ => 1 + has / 3,
    };
    let to = account(own, 2);
    let transfer = u128::from(lie.act.draws.draw()) << 66 | 1;
    let kind = Kind::Pay(Leg { to, amount: Units(amount) });
    let mut line = bare(EntryId { spender, n: n + 1 }, prev, kind, transfer);
    if lie.act.draws.chance(400_000) {
        line.auth = Auth::Owner(Signature([9; 64]));
    }
    line
}

fn opening(lie: &mut Lie<'_, '_>, own: u32) -> Vec<Opening> {
    let known = lie.known.book.borrow().facts.openings().filter(|of| of.id.registrar == own).count() as u64;
    let local = known + lie.act.draws.below(3);
    let mut opening = lie.known.people.opening(account(own, local.max(1)), false);
    if lie.act.draws.chance(300_000) {
        opening.terms.limit = Units(1 << 40);
        opening.limit_max = Units(1 << 40);
    }
    vec![opening]
}
