//! Owners who sign two entries for one place: shown with both, kept, and no harm to anybody else (specification, section 4.12).

use std::sync::Arc;

use synod_astro::{Auth, Input, Line, Output, Promise, Refusal, Seen, TwoEntries};
use synod_crypto::{Hash, Keys, Seed};
use synod_ledger::{AccountId, Code, EntryId, Kind};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, Wire as _};

use crate::alone::{Alone, Record};
use crate::bank::{
    Bank, CLUSTER, World, agrees, custodial, digest, first, issuer, order, owner, pay, settle, signed,
    signing, told,
};
use crate::forge::{ALL, batch, prepare};

/// Keys of somebody who checks and has no part in anything.
fn nobody() -> Keys {
    Keys::ed25519(&Seed::new([0; 32]), [0; 32])
}

/// How this account stands at each member.
fn looked(world: &mut World, account: AccountId) -> Vec<Seen> {
    for member in 0..4 {
        world.ask(NodeId(member), Input::Look { ticket: 900, from: account, count: 1 });
    }
    world.go_on(50);
    told(world).map(|told| told.looked[&900][0].clone()).collect()
}

/// A wallet that lies to two representatives at once: where neither entry is certified, every member says so and shows both; else the
/// account goes on. Others pay meanwhile.
#[test]
fn a_split_owner_is_conflicted_everywhere_with_both_entries_or_goes_on_and_delays_nobody() {
    let (mut locked, mut went_on) = (0, 0);
    for seed in 0..40 {
        let mut world = Bank::world(4, seed);
        order(&mut world, 1, issuer(0), signing(0), 100);
        assert!(settle(&mut world, 1));
        let lines = [(0, 1), (1, 2)].map(|(member, to)| {
            let line = first(signing(0), pay(custodial(to), 60), 5 + u128::from(to));
            world.ask(NodeId(member), Input::Signed { ticket: 2, line: line.clone() });
            line
        });
        order(&mut world, 3, issuer(2), custodial(3), 9);
        world.go_on(3_000);
        assert!(agrees(&world), "seed {seed}");
        assert!(told(&world).all(|told| told.settled.contains_key(&EntryId { spender: issuer(2), n: 1 })));
        let seen = looked(&mut world, signing(0));
        let has_settled = seen.iter().filter(|seen| seen.standing.sequence == 1).count();
        if has_settled == 0 {
            for seen in &seen {
                let two = seen.torn.as_ref().unwrap_or_else(|| panic!("seed {seed}: {seen:?}"));
                assert_eq!((two.place(), two.key), (lines[0].entry.id, owner(signing(0)).public()));
                assert!(
                    two.proves(CLUSTER, &nobody()) && lines.contains(&two.one) && lines.contains(&two.other)
                );
                assert_eq!(seen.available.to_string(), "100", "its money stays");
            }
            locked += 1;
        } else {
            assert_eq!(has_settled, 4);
            assert!(seen.iter().all(|seen| seen.torn.is_none()), "seed {seed}: the account goes on");
            went_on += 1;
        }
        // What comes behind is taken where the account goes on alone.
        let behind = |line: &Line| {
            let id = EntryId { spender: signing(0), n: 2 };
            signed(id, digest(&line.entry), pay(custodial(3), 1), 9)
        };
        let known = told(&world).next().expect("a member").settled.get(&lines[0].entry.id).cloned();
        let before = lines.iter().find(|line| known.as_ref().is_none_or(|(entry, _)| *entry == *line.entry));
        world.ask(NodeId(0), Input::Signed { ticket: 4, line: behind(before.expect("one of the two")) });
        world.go_on(1_000);
        let refused = world.users.told[0].refused.get(&4).copied();
        let wanted = (has_settled == 0).then_some(Refusal::Ledger(Code::Conflicted));
        assert_eq!(refused, wanted, "seed {seed}");
    }
    assert!(locked > 0 && went_on > 0, "{locked} locked, {went_on} went on");
}

/// Member 0, which endorsed the first of two entries and was shown the other.
fn torn() -> (Alone, [Line; 2], synod_astro::Opened) {
    let mut alone = Alone::new();
    let lines = [1, 2].map(|transfer| first(signing(3), Kind::Move(0), transfer));
    let one = batch(1, Hash::ZERO, Vec::new(), vec![lines[0].clone()]);
    let other = batch(2, one.digest, Vec::new(), vec![lines[1].clone()]);
    alone.hear(3, prepare(&one));
    alone.hear(3, prepare(&other));
    (alone, lines, one)
}

fn shown(alone: &Alone) -> Vec<Arc<TwoEntries>> {
    let all = alone.told.iter().filter_map(|output| match output {
        Output::Conflict { id, two } if *id == two.place() => Some(Arc::clone(two)),
        _ => None,
    });
    all.collect()
}

fn is_conflicted(alone: &mut Alone) -> bool {
    alone.told.clear();
    alone.ask(Input::Look { ticket: 7, from: signing(3), count: 1 });
    match alone.told.as_slice() {
        [Output::Looked { accounts, .. }] => accounts[0].torn.is_some(),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_restart_forgets_no_conflict_and_tells_it_again_until_a_certificate_is_there() {
    let (mut alone, lines, one) = torn();
    assert_eq!(shown(&alone).len(), 1);
    let kept = |alone: &Alone| alone.promises().filter(|promise| matches!(promise, Promise::Torn(_))).count();
    assert_eq!((kept(&alone), is_conflicted(&mut alone)), (1, true));
    // Also where the batches that show it are kept no more.
    let is_torn = |record: &&Record| matches!(record, Record::Own(Promise::Torn(_)));
    assert_eq!(alone.kept.iter().filter(is_torn).count(), 1);
    for mut again in [alone.restarted(), alone.compacted(), alone.compacted().compacted()] {
        let told = shown(&again);
        assert!(told.iter().all(|two| two.one == lines[0] && two.other == lines[1]) && !told.is_empty());
        assert!(is_conflicted(&mut again));
        again.certify(&one, ALL);
        assert!(!is_conflicted(&mut again));
        assert_eq!(kept(&again), 0);
        let mut last = again.restarted();
        assert_eq!(shown(&last), [], "what is decided is told no more");
        assert!(!is_conflicted(&mut last));
    }
}

/// A certificate of the entry that was not endorsed here lets the account go on as well, and one behind it that names it.
#[test]
fn a_certificate_of_either_entry_or_of_a_later_one_lets_the_account_go_on() {
    for behind in [false, true] {
        let (mut alone, lines, _) = torn();
        let id = EntryId { spender: signing(3), n: 2 };
        let next = signed(id, digest(&lines[1].entry), Kind::Move(0), 3);
        let line = if behind { next } else { lines[1].clone() };
        let opened = synod_astro::Opened::new(
            0,
            synod_broadcast::Lot { source: 1, sequence: 1 },
            Hash::ZERO,
            Vec::new(),
            vec![line],
        );
        alone.certify_whole(&opened);
        // Of the entry below one that is certified, only its digest is known yet.
        assert_eq!(is_conflicted(&mut alone), behind);
        if behind {
            alone.hear(1, synod_astro::Message::Own(synod_astro::Word::Here(lines[1].clone())));
            assert!(!is_conflicted(&mut alone));
        }
    }
}

#[test]
fn two_entries_prove_nothing_once_a_bit_of_them_is_another() {
    let (alone, lines, _) = torn();
    let [two] = shown(&alone).try_into().expect("it is shown once");
    assert!(two.proves(CLUSTER, &nobody()));
    assert!(!two.proves(Hash([9; 32]), &nobody()), "of another cluster");
    let bytes = two.encode();
    let mut read = 0;
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(changed) = TwoEntries::decode(Bytes::from(changed), &Limits::default()) {
            assert!(!changed.proves(CLUSTER, &nobody()), "bit {bit}");
            read += 1;
        }
    }
    assert!(read > 1_000, "{read} were read");
    let twice = TwoEntries { other: lines[0].clone(), ..(*two).clone() };
    assert!(!twice.proves(CLUSTER, &nobody()), "one entry is no two");
    let id = EntryId { spender: signing(3), n: 2 };
    let next = TwoEntries { other: signed(id, digest(&lines[0].entry), Kind::Move(0), 3), ..(*two).clone() };
    assert!(!next.proves(CLUSTER, &nobody()), "two places are no one");
    let vouched = Line { auth: Auth::Institution, ..lines[1].clone() };
    assert!(!TwoEntries { other: vouched, ..(*two).clone() }.proves(CLUSTER, &nobody()));
}
