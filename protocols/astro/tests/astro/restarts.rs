//! What a member forgets, and what it does not.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{Input, Opened, Output, Promise, Word, Work};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::{EntryId, Owner, genesis};

use crate::alone::Alone;
use crate::bank::{Message, account, custodial, digest, draft, first, issuer, opening, pay, signed, signing};
use crate::forge::{ALL, batch, carried, prepare};

/// A batch of another lane.
fn of_lane(source: u8, sequence: u64, prev: Hash, lines: Vec<synod_astro::Line>) -> Opened {
    Opened::new(0, Lot { source, sequence }, prev, Vec::new(), lines)
}

/// This member's issuer pays, and it settles.
fn paid(alone: &mut Alone, ticket: u64, to: synod_ledger::AccountId, amount: u128) {
    alone.ask(Input::Order { ticket, draft: draft(issuer(0), pay(to, amount), u128::from(ticket)) });
    let mine = alone.mine();
    alone.certify(&mine, ALL);
}

/// Which batches of the liar's lane are kept with all that they carry.
fn kept(alone: &Alone) -> Vec<(u64, bool)> {
    let all = alone.promises().filter_map(|promise| match promise {
        Promise::Batch { lot, batch, .. } if lot.source == 3 => Some((lot.sequence, batch.is_some())),
        _ => None,
    });
    all.collect()
}

#[test]
fn a_batch_is_let_go_of_once_it_is_certified_as_a_whole_and_its_accounts_are_open() {
    let mut alone = Alone::new();
    let open = |local| vec![opening(account(3, local), Owner::Custodial(3), 0)];
    let one = batch(1, Hash::ZERO, open(4), Vec::new());
    let two = batch(2, one.digest, open(5), Vec::new());
    let line = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(0), 1), 1);
    let three = batch(3, two.digest, Vec::new(), vec![line]);
    for opened in [&one, &two, &three] {
        alone.hear(3, prepare(opened));
    }
    alone.certify(&two, ALL);
    assert_eq!(kept(&alone), [(1, true), (2, true), (3, true)], "the first batch's accounts come first");
    alone.certify(&one, ALL);
    assert_eq!(kept(&alone), [(1, false), (2, false), (3, true)]);
    alone.certify(&three, [(0, &[0]), (1, &[]), (3, &[])]);
    assert_eq!(kept(&alone), [(1, false), (2, false), (3, true)], "an entry of it is not certified");
    alone.certify(&three, ALL);
    assert_eq!(
        kept(&alone),
        [(1, false), (2, false), (3, true)],
        "the user does not keep what receipts need"
    );
    alone.ask(Input::Kept(1));
    assert_eq!(kept(&alone), [(1, false), (2, false), (3, false)]);
    assert!(alone.blamed.is_empty());
}

#[test]
fn accounts_count_as_opened_in_the_turn_of_their_batch_whenever_that_was_certified() {
    let mut alone = Alone::new();
    let open = |local| vec![opening(account(3, local), Owner::Custodial(3), 0)];
    let one = batch(1, Hash::ZERO, open(4), Vec::new());
    let two = batch(2, one.digest, open(5), Vec::new());
    let three = batch(3, two.digest, open(6), Vec::new());
    alone.hear(3, prepare(&two));
    alone.certify(&two, ALL);
    for mut member in [alone.restarted(), alone.compacted(), alone] {
        for opened in [&one, &three] {
            member.hear(3, prepare(opened));
            assert_eq!(member.lists(opened), [Vec::<u32>::new()]);
        }
        assert!(member.blamed.is_empty());
    }
}

#[test]
fn a_list_that_shrank_is_replayed_by_what_it_gained() {
    let mut alone = Alone::new();
    paid(&mut alone, 1, signing(3), 100);
    let gives_way = first(signing(3), pay(custodial(0), 60), 2);
    let unfunded = carried(custodial(3), 1, genesis(custodial(3)), pay(custodial(0), 1), 3);
    let both = batch(1, Hash::ZERO, Vec::new(), vec![gives_way, unfunded.clone()]);
    alone.hear(3, prepare(&both));
    // Another entry is certified in the place of the first, and does not settle: its money is not here.
    let certified = first(signing(3), pay(custodial(1), 150), 4);
    let theirs = of_lane(2, 1, Hash::ZERO, vec![certified.clone()]);
    alone.hear(2, prepare(&theirs));
    alone.certify(&theirs, ALL);
    // Money comes for the second.
    paid(&mut alone, 5, custodial(3), 1);
    assert_eq!(alone.lists(&both), [vec![1], Vec::new()]);
    let open = |member: &Alone| {
        let all = member.promises().filter_map(|promise| match promise {
            Promise::Open { line, is_certified, .. } => Some((line.entry, is_certified)),
            _ => None,
        });
        all.collect::<Vec<_>>()
    };
    let expected = [(unfunded.entry, false), (certified.entry, true)];
    for member in [alone.restarted(), alone.compacted(), alone] {
        assert_eq!(open(&member), expected);
    }
}

#[test]
fn every_gap_of_a_log_is_asked_for_at_a_start() {
    let mut alone = Alone::new();
    let mut lines = vec![first(signing(3), pay(custodial(0), 1), 1)];
    for n in 2..=6 {
        let prev = digest(&lines[lines.len() - 1].entry);
        let id = EntryId { spender: signing(3), n };
        lines.push(signed(id, prev, pay(custodial(0), 1), u128::from(n)));
    }
    let mut prev = Hash::ZERO;
    for (sequence, n) in [(1, 2), (2, 4), (3, 6)] {
        let opened = batch(sequence, prev, Vec::new(), vec![lines[n - 1].clone()]);
        prev = opened.digest;
        alone.hear(3, prepare(&opened));
        alone.certify(&opened, ALL);
    }
    let wanted = |member: &Alone| {
        let all = member.sent.iter().filter_map(|message| match message {
            Message::Own(Word::Want { id, .. }) => Some(id.n),
            _ => None,
        });
        all.collect::<BTreeSet<u64>>()
    };
    for member in [alone.restarted(), alone.compacted(), alone] {
        assert_eq!(wanted(&member), BTreeSet::from([1, 3, 5]));
    }
}

#[test]
fn a_line_twice_in_one_batch_is_counted_once() {
    let mut alone = Alone::new();
    let line = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(0), 7), 1);
    let twice = batch(1, Hash::ZERO, Vec::new(), vec![line.clone(), line]);
    alone.hear(3, prepare(&twice));
    assert_eq!(alone.lists(&twice), [Vec::<u32>::new()]);
    alone.certify(&twice, ALL);
    let receipted = alone.works.iter().any(|work| matches!(work, Work::Sign { .. }));
    assert!(receipted, "all of it has settled");
}

/// What a member told of settled entries, by position.
fn told(alone: &Alone) -> BTreeMap<u64, EntryId> {
    let settled = alone.told.iter().filter_map(|output| match output {
        Output::Settled { first, entries } => Some((*first..).zip(entries.iter().map(|(entry, _)| entry.id))),
        _ => None,
    });
    settled.flatten().collect()
}

/// No record says who waits, so nothing may settle in another order for that.
#[test]
fn what_one_certificate_settles_is_told_in_the_same_order_after_a_restart_whoever_waited() {
    for somebody_waits in [true, false] {
        let mut alone = Alone::new();
        paid(&mut alone, 1, custodial(2), 5);
        if somebody_waits {
            let poor = carried(custodial(3), 1, genesis(custodial(3)), pay(custodial(0), 1), 2);
            let left = batch(1, Hash::ZERO, Vec::new(), vec![poor]);
            alone.hear(3, prepare(&left));
            assert_eq!(alone.lists(&left), [vec![0]]);
        }
        // A liar's lines need not be in the order of their accounts.
        let lines = [(custodial(2), 3), (issuer(2), 4)];
        let lines = lines.map(|(by, name)| carried(by, 1, genesis(by), pay(custodial(1), 1), name));
        let theirs = of_lane(2, 1, Hash::ZERO, lines.to_vec());
        alone.certify_whole(&theirs);
        let before = told(&alone);
        assert_eq!(before.len(), 3);
        for member in [alone.restarted(), alone.compacted()] {
            assert_eq!(told(&member), before, "somebody waits: {somebody_waits}");
        }
    }
}

/// A desk takes an order without a record: it is this node's alone until a batch carries it. Others may have a later one certified.
#[test]
fn an_order_that_settles_by_the_certificate_of_a_later_one_is_told_at_the_same_place_after_a_restart() {
    for is_pulled in [true, false] {
        let mut alone = Alone::new();
        paid(&mut alone, 1, signing(0), 9);
        alone.builds = false;
        let mut lines = vec![first(signing(0), pay(custodial(1), 1), 2)];
        for n in 2..=3 {
            let prev = digest(&lines[lines.len() - 1].entry);
            let id = EntryId { spender: signing(0), n };
            lines.push(signed(id, prev, pay(custodial(1), 1), u128::from(n) + 1));
        }
        let later = lines.pop().expect("three");
        if is_pulled {
            // The entry between is asked for.
            let pulled = lines.pop().expect("two");
            alone.ask(Input::Signed { ticket: 2, line: lines[0].clone() });
            alone.certify_whole(&of_lane(2, 1, Hash::ZERO, vec![later]));
            alone.hear(1, Message::Own(Word::Here(pulled)));
        } else {
            for (ticket, line) in (2..).zip(&lines) {
                alone.ask(Input::Signed { ticket, line: line.clone() });
            }
            alone.certify_whole(&of_lane(2, 1, Hash::ZERO, vec![later]));
        }
        let theirs = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(1), 1), 9);
        alone.certify_whole(&batch(1, Hash::ZERO, Vec::new(), vec![theirs]));
        let before = told(&alone);
        assert_eq!(before.len(), 5, "{before:?}");
        for member in [alone.restarted(), alone.compacted()] {
            assert_eq!(told(&member), before);
        }
    }
}
