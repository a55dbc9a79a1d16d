//! A member and owners who share their keys with it: chains that contradict each other and together spend more than there is, in
//! batches that some see and others do not, with certificates that certify as little as they may (B12; T2, T11, T46, T47).

use synod_broadcast::Lot;
use synod_broadcast::signed::{Except, Said};
use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId, Kind, Leg, Units};

use super::super::plan::account;
use super::super::wallets::signed;
use super::craft::say;
use super::inventing::{end, place};
use super::liar::{BATCHES_MAX, HALF, Lie};
use crate::oracle::astro::quorum;

/// Ends of chains that are remembered.
const CHAINS_MAX: usize = 8;

pub(super) fn collude(lie: &mut Lie<'_, '_>, amount: u64) -> bool {
    let share = [40_000, 120_000][usize::try_from(amount % 2).unwrap_or(0)];
    let mut changed = false;
    if lie.memory.made.len() < BATCHES_MAX && lie.act.draws.chance(share) {
        changed |= propose(lie);
    }
    if lie.act.draws.chance(300_000) {
        changed |= certify(lie);
    }
    changed
}

/// A batch of entries that its owners sign, for some.
fn propose(lie: &mut Lie<'_, '_>) -> bool {
    let members = lie.known.people.members;
    // Where owners are registered, those of others come to nothing.
    let is_near = |of: &u32| !lie.known.people.registers() || *of == lie.hand.me.0;
    let near = (0..members).filter(is_near);
    let owners: Vec<AccountId> = near.filter_map(|of| lie.known.people.liar(of)).collect();
    if owners.is_empty() {
        return false;
    }
    let count = 1 + lie.act.draws.below(3);
    let mut lines = Vec::new();
    for _ in 0..count {
        let Some(owner) = lie.act.draws.pick(&owners).copied() else { continue };
        lines.push(entry(lie, owner));
    }
    let at = place(lie);
    let batch = lie.hand.batch(at, Vec::new(), lines);
    let Some(message) = lie.hand.propose(&batch) else { return false };
    for to in lie.some(660_000) {
        message.say(lie.act, to);
    }
    lie.memory.lane.push((batch.lot().sequence, batch.digest));
    lie.memory.made.push(batch);
    true
}

/// The next entry of one of an owner's chains.
fn entry(lie: &mut Lie<'_, '_>, owner: AccountId) -> synod_astro::Line {
    let (n, head, has) = end(lie, owner);
    let chains = lie.memory.chains.entry(owner).or_default();
    if !chains.contains(&(n, head)) {
        chains.push((n, head));
    }
    let all = chains.clone();
    // Behind what it signed last, or behind anything.
    let last = all.last().filter(|_| lie.act.draws.chance(HALF));
    let (n, prev) = last.or_else(|| lie.act.draws.pick(&all)).copied().unwrap_or((n, head));
    // What a chain that began earlier took is not in what is left: sums beyond it are wanted.
    let part = [5, 3, 2, 1][usize::try_from(lie.act.draws.below(4)).unwrap_or(0)];
    let amount = Units((has / part).max(1));
    let to = u32::try_from(lie.act.draws.below(u64::from(lie.known.people.members))).unwrap_or(0);
    let transfer = 1 << 100 | u128::from(lie.act.draws.draw());
    let keys = lie.known.people.keys(owner);
    let kind = Kind::Pay(Leg { to: account(to, 2), amount });
    let (line, digest) = signed(&keys, EntryId { spender: owner, n: n + 1 }, prev, kind, transfer);
    lie.known.book.borrow_mut().facts.sign(digest);
    if let Some(chains) = lie.memory.chains.get_mut(&owner) {
        chains.push((n + 1, digest));
        if chains.len() > CHAINS_MAX {
            chains.remove(0);
        }
    }
    line
}

/// A certificate of exactly a quorum for one of its batches, in which it excepts what it likes, for some.
pub(super) fn certify(lie: &mut Lie<'_, '_>) -> bool {
    if lie.memory.acks.is_empty() {
        return false;
    }
    let members = lie.known.people.members;
    let wanted = quorum(members) as usize - 1;
    let ready: Vec<(Lot, Hash)> =
        lie.memory.acks.iter().filter(|(_, said)| said.len() >= wanted).map(|(of, _)| *of).collect();
    let Some((lot, digest)) = lie.act.draws.pick(&ready).copied() else { return false };
    let count = lie.memory.made.iter().find(|batch| batch.digest == digest).map_or(1, |of| of.digests.len());
    let mut others: Vec<Said> =
        lie.memory.acks.get(&(lot, digest)).into_iter().flatten().map(|(_, said)| said.clone()).collect();
    lie.act.draws.shuffle(&mut others);
    others.truncate(wanted);
    let count = u32::try_from(count).unwrap_or(1);
    let items = (0..count).filter(|_| lie.act.draws.chance(300_000)).collect();
    others.push(lie.hand.said(lot, digest, Except::new(items).unwrap_or_default()));
    let Some(message) = lie.hand.commit(lot, digest, others) else { return false };
    for to in lie.some(300_000) {
        say(lie.act, to, &message);
    }
    true
}
