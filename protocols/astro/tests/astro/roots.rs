//! Cuts of a log: its entries give the states that a quorum signed, or the audit says which they do not give.

use std::collections::BTreeMap;

use synod_astro::audit::{CountedAt, Findings, Item, compare};
use synod_astro::{CutCertificate, RootRecord};
use synod_ledger::AccountId;
use synod_wire::{Blob, List};

use crate::audit::{audit, batch, names};
use crate::bank::{Told, World, settle};
use crate::cuts::busy;

/// The log of a member with the cuts that it signed, in their order; each says what it counts that the one before did not.
fn log(world: &World, told: &Told) -> Vec<Item> {
    let mut items: Vec<Item> =
        told.order.values().map(|id| Item::Settled(told.settled[id].0.clone())).collect();
    let batches = world.users.told.iter().flat_map(|told| &told.certified);
    for (opened, proofs) in batches.collect::<BTreeMap<_, _>>().into_values() {
        items.push(batch(opened));
        let proofs = proofs.iter().map(|proof| Blob::try_from(proof.clone()).expect("short"));
        items.extend(proofs.map(Item::Certificate));
    }
    let mut counted: BTreeMap<AccountId, u64> = BTreeMap::new();
    for (number, accounts) in &told.behind {
        let now = accounts.iter().map(|(standing, _)| (standing.opening.id, standing.sequence));
        let now: BTreeMap<AccountId, u64> = now.collect();
        let changed = now.iter().filter(|(id, n)| counted.get(id) != Some(n));
        let changed = changed.map(|(account, n)| CountedAt { account: *account, n: Some(*n) });
        let gone = counted.keys().filter(|id| !now.contains_key(id));
        let all: Vec<CountedAt> =
            changed.chain(gone.map(|account| CountedAt { account: *account, n: None })).collect();
        items.push(Item::Counted(List::try_from(all).expect("few")));
        let (root, certificate) = told.cuts[number].clone();
        items.push(Item::Cut { root: Box::new(root), certificate: Box::new(certificate) });
        counted = now;
    }
    items
}

/// A network where everybody paid everybody while cuts were signed, with crashes and losses.
fn ended(seed: u64) -> World {
    let mut world = busy(4, seed, |ticket| ticket % 20 == 0);
    assert!(settle(&mut world, 1));
    world
}

#[test]
fn the_entries_of_every_member_give_the_states_that_a_quorum_signed() {
    let mut checked = 0;
    for seed in 200..204 {
        let world = ended(seed);
        let mut all: Vec<Findings> = Vec::new();
        for told in &world.users.told {
            let found = audit(&log(&world, told));
            assert!(found.is_clean(), "seed {seed}: {:?}", found.violations);
            assert_eq!(found.cuts(), (told.behind.len() as u64, told.behind.keys().last().copied()));
            checked += found.cuts().0;
            all.push(found);
        }
        assert_eq!(compare(&all), []);
    }
    assert!(checked > 100, "{checked} cuts");
}

/// The log of a member, and where its last cut that counts payments stands in it.
fn sample() -> (Vec<Item>, usize) {
    let world = ended(205);
    let told = world.users.told.iter().max_by_key(|told| told.behind.len()).expect("four");
    let items = log(&world, told);
    let counts =
        |item: &Item| matches!(item, Item::Counted(counted) if counted.iter().any(|of| of.n > Some(0)));
    let at = items.iter().rposition(counts).expect("payments were counted") + 1;
    (items[..=at].to_vec(), at)
}

/// What is found in a log where one item is another.
fn with(items: &[Item], at: usize, item: Item) -> Vec<&'static str> {
    let mut items = items.to_vec();
    items[at] = item;
    names(&audit(&items))
}

#[test]
fn what_a_cut_is_said_to_count_and_a_quorum_did_not_sign_is_named() {
    let (items, at) = sample();
    assert!(audit(&items).is_clean());
    let Item::Counted(counted) = &items[at - 1] else { unreachable!("its numbers stand before it") };
    let mut one = counted.to_vec();
    let some = one.iter().position(|of| of.n > Some(0)).expect("it counts payments");
    let change = |n| {
        let mut one = counted.to_vec();
        one[some].n = n;
        with(&items, at - 1, Item::Counted(List::try_from(one).expect("few")))
    };
    let n = one[some].n;
    assert_eq!(change(n.map(|n| n - 1)), ["cut_state"], "one less");
    assert_eq!(change(n.map(|n| n + 1)), ["cut_state"], "one more, or one that there is not");
    assert_eq!(change(Some(u64::MAX)), ["cut_state"], "more than anybody counts to");
    assert_eq!(change(None), ["cut_state"], "an account that was there");
    one.clear();
    assert_eq!(with(&items, at - 1, Item::Counted(List::try_from(one).expect("few"))), ["cut_state"]);
}

#[test]
fn a_state_that_no_quorum_signed_is_named_with_its_certificate() {
    let (items, at) = sample();
    let Item::Cut { root, certificate } = items[at].clone() else { unreachable!("the cut stands last") };
    let cut = |root: RootRecord, certificate: CutCertificate| {
        with(&items, at, Item::Cut { root: Box::new(root), certificate: Box::new(certificate) })
    };
    let mut other = (*root).clone();
    other.number += 1;
    assert_eq!(cut(other, (*certificate).clone()), ["cut_certificate"]);
    let mut short = certificate.signed.to_vec();
    short.truncate(2);
    let short = CutCertificate { signed: List::try_from(short).expect("few"), ..(*certificate).clone() };
    assert_eq!(cut((*root).clone(), short), ["cut_certificate"]);
    let found = audit(&items[..at]);
    assert!(found.is_clean(), "numbers without a cut say nothing");
}

#[test]
fn a_log_without_a_payment_that_a_cut_counts_does_not_give_its_state() {
    let (items, at) = sample();
    let Item::Cut { root, .. } = &items[at] else { unreachable!("the cut stands last") };
    let number = root.number;
    let last = items.iter().rposition(|item| matches!(item, Item::Settled(_))).expect("payments settled");
    let mut named = 0;
    for without in 0..=last {
        let mut items = items.clone();
        items.remove(without);
        let found = audit(&items);
        named += usize::from(names(&found).contains(&"cut_state"));
        assert!(found.cuts().1 < Some(number) || found.is_clean(), "{without} of {last}");
    }
    assert!(named > last / 2, "{named} of {last}");
}
