//! Payments spent that are not what they are said to be (B9 in profile II): shown again with other signers, of another, with too few
//! words, with one word twice, of another amount, and with words that nobody gave (T6 to T8). And entries without money (T9, T36).

use std::sync::Arc;

use synod_astro::{Dependency, EntryProof, Vouch, With, Withs};
use synod_broadcast::signed::Except;
use synod_crypto::{Hash, Signature};
use synod_ledger::{AccountId, EntryId, Kind, Leg, Units};
use synod_wire::List;

use super::super::plan::{People, account};
use super::super::sight;
use super::inventing::{bare, end, is_carried, place};
use super::liar::{BATCHES_MAX, HALF, Lie};
use crate::oracle::weak;

/// A batch of its own customers' entries, which spend what they may not, for most.
pub(super) fn spend(lie: &mut Lie<'_, '_>) -> bool {
    if !lie.hand.profile.credits() {
        return false;
    }
    let is_certified = is_carried(lie);
    if lie.memory.made.len() >= BATCHES_MAX || !lie.act.draws.chance(60_000) {
        return is_certified;
    }
    let own = lie.hand.me.0;
    let (mut lines, mut withs) = (Vec::new(), Vec::new());
    for local in [2, 1] {
        let spender = account(own, local);
        let (n, prev, has) = end(lie, spender);
        let with = backing(lie, spender);
        let comes: u128 = with.iter().map(|one| crate::oracle::astro::paid_to(&one.entry, spender)).sum();
        // With money, without it, and with what is only said to be money.
        let amount = match lie.act.draws.below(4) {
            0 => has.saturating_add(comes).saturating_add(1),
            1 => has.saturating_add(comes).max(1),
            _ => 1 + has / 3,
        };
        let to = u32::try_from(lie.act.draws.below(u64::from(lie.known.people.members))).unwrap_or(0);
        let transfer = 1 << 101 | u128::from(lie.act.draws.draw());
        let kind = Kind::Pay(Leg { to: account(to, 2), amount: Units(amount) });
        lines.push(bare(EntryId { spender, n: n + 1 }, prev, kind, transfer));
        withs.push((!with.is_empty()).then(|| With::new(Withs::new(with))));
        if lie.act.draws.chance(HALF) {
            break;
        }
    }
    let at = place(lie);
    let batch = lie.hand.backed_batch(at, Vec::new(), (lines, withs));
    let Some(message) = lie.hand.propose(&batch) else { return false };
    let share = if lie.act.draws.chance(700_000) { 1_000_000 } else { 600_000 };
    for to in lie.some(share) {
        message.say(lie.act, to);
    }
    lie.memory.lane.push((batch.lot().sequence, batch.digest));
    lie.memory.made.push(batch);
    true
}

/// A payment that never was, of another's account, with the word of this member alone (T7).
fn made_up(lie: &mut Lie<'_, '_>, spender: AccountId) -> Option<Dependency> {
    let members = u64::from(lie.known.people.members);
    let payer = People::issuer(u32::try_from(lie.act.draws.below(members)).unwrap_or(0));
    let (n, prev, _) = end(lie, payer);
    let id = EntryId { spender: payer, n: n + lie.act.draws.below(2) };
    let kind = Kind::Pay(Leg { to: spender, amount: Units(1 + u128::from(lie.act.draws.below(1_000))) });
    let entry = bare(id, prev, kind, 1 << 102 | u128::from(lie.act.draws.draw())).entry;
    let root = sight::root(&[sight::digest(&entry)]);
    let own = lie.hand.vouch(root, Except::default());
    let wanted = usize::try_from(weak(lie.known.people.members)).unwrap_or(1);
    let said = if lie.act.draws.chance(HALF) { vec![own] } else { vec![own; wanted] };
    let proof = EntryProof { index: 0, count: 1, path: List::default() };
    Some(Dependency { entry, with: Hash::ZERO, proof, root, said: List::try_from(said).ok()? })
}

/// What an entry is backed with: up to two payments that were shown, as they were or not, or one that never was.
fn backing(lie: &mut Lie<'_, '_>, spender: AccountId) -> Vec<Dependency> {
    if lie.act.draws.chance(200_000) {
        return made_up(lie, spender).into_iter().collect();
    }
    let all = lie.memory.shown.clone();
    // The spender's own first, which were spent before: those of others show at a glance that they are not its.
    let near: Vec<Dependency> = all.iter().filter(|one| pays(one, spender)).cloned().collect();
    let from = if near.is_empty() || lie.act.draws.chance(150_000) { &all } else { &near };
    let count = lie.act.draws.below(3);
    let drawn = (0..count).filter_map(|_| lie.act.draws.pick(from).cloned());
    let drawn: Vec<Dependency> = drawn.collect();
    drawn.into_iter().map(|one| bent(lie, one)).collect()
}

fn pays(dependency: &Dependency, account: AccountId) -> bool {
    crate::oracle::astro::paid_to(&dependency.entry, account) > 0
}

fn bent(lie: &mut Lie<'_, '_>, one: Dependency) -> Dependency {
    let wanted = usize::try_from(weak(lie.known.people.members)).unwrap_or(1);
    let own = lie.hand.vouch(one.root, Except::default());
    let mut known = lie.memory.vouched.get(&one.root).cloned().unwrap_or_default();
    known.extend(one.said.iter().map(|vouch| (vouch.member, vouch.clone())));
    known.insert(own.member, own.clone());
    let mut said: Vec<Vouch> = match lie.act.draws.below(8) {
        0..3 => return one,
        3..5 => {
            let mut others: Vec<Vouch> = known.into_values().collect();
            lie.act.draws.shuffle(&mut others);
            others.truncate(wanted);
            others
        }
        5 => vec![own; wanted],
        6 => {
            let kind = match &one.entry.kind {
                Kind::Pay(leg) => Kind::Pay(Leg { amount: Units(leg.amount.0 + 1_000), ..*leg }),
                other => other.clone(),
            };
            let mut entry = (*one.entry).clone();
            entry.kind = kind;
            return Dependency { entry: Arc::new(entry), ..one };
        }
        _ => {
            let forged = |vouch: Vouch| Vouch { signature: Signature([5; 64]), ..vouch };
            known.into_values().map(forged).take(wanted).collect()
        }
    };
    said.sort_by_key(|vouch| vouch.member);
    if lie.act.draws.chance(100_000) {
        said.truncate(1);
    }
    let said = List::try_from(said).unwrap_or_default();
    Dependency { said, ..one }
}
