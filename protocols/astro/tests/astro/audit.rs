//! What an audit of a node's log finds, and that it finds nothing in what correct members do.

use std::collections::BTreeMap;

use synod_astro::audit::{Audit, Beside, Carried, Findings, Item, Violation, What, compare};
use synod_astro::{Auth, Content, Line, Opened, Receipt};
use synod_broadcast::Lot;
use synod_broadcast::signed::Certificate;
use synod_crypto::{Hash, Signature};
use synod_ledger::{AccountId, Code, Entry, EntryId, Kind, Opening, Owner, Units, genesis};
use synod_machine::testing::pick;
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, Drawn, Limits, Wire};

use crate::bank::{
    Bank, LIMIT, account, custodial, digest, issuer, keys, numbers, opening, order, pay, settle, signed,
    signing, view,
};
use crate::forge::{ALL, carried};
use crate::receipts::{certificate, of_lines, payments, word};

/// The log of a network of four.
pub(crate) fn audit(items: &[Item]) -> Findings {
    let config = numbers(4, NodeId(0));
    let mut audit = Audit::<Certificate>::new((*view(4)).clone(), config.genesis, config.caps);
    for (record, item) in (1..).zip(items) {
        assert!(audit.take(record, item.clone(), &keys(9)));
    }
    audit.finish(&keys(9))
}

pub(crate) fn batch(opened: &Opened) -> Item {
    let digests = opened.digests.clone().try_into().expect("few");
    Item::Batch(Carried { header: opened.batch.header, digests, beside: Beside::of(&opened.batch) })
}

fn proof(certificate: &Certificate) -> Item {
    Item::Certificate(Blob::try_from(certificate.encode()).expect("short"))
}

fn entries(opened: &Opened) -> Vec<Item> {
    opened.batch.lines.iter().map(|line| Item::Settled((*line.entry).clone())).collect()
}

/// All of a batch, as everybody endorses it.
fn whole(opened: &Opened) -> Vec<Item> {
    let mut items = entries(opened);
    items.extend([batch(opened), proof(&certificate(opened, &ALL))]);
    items
}

/// The batch of a lane with these.
fn lot(source: u8, sequence: u64, prev: Hash, openings: Vec<Opening>, lines: Vec<Line>) -> Opened {
    let content = Content { openings, lines, ..Content::default() };
    Opened::of(0, Lot { source, sequence }, prev, content)
}

/// What was found: each by what it is, the record, the place in a lane and the entry.
pub(crate) fn names(found: &Findings) -> Vec<&'static str> {
    found.violations.iter().map(|violation| violation.what.name()).collect()
}

fn only(found: &Findings) -> &Violation {
    assert_eq!(found.violations_count, 1, "{:?}", found.violations);
    &found.violations[0]
}

/// Two batches of lane 1, of an issuer and of a customer who signs, with what members say of the second.
fn sample() -> Vec<Item> {
    let first = of_lines(1, Hash::ZERO, &payments(3));
    let to = signing(1);
    let last = digest(&first.batch.lines[2].entry);
    let paid = carried(issuer(1), 4, last, pay(to, 50), 9);
    let own = signed(EntryId { spender: to, n: 1 }, genesis(to), pay(custodial(2), 20), 10);
    let new = opening(account(1, 4), Owner::Custodial(1), 0);
    let second = lot(1, 2, first.digest, vec![new], vec![paid, own]);
    let mut items = entries(&first);
    items.extend(entries(&second));
    items.extend([batch(&first), batch(&second)]);
    items.extend([proof(&certificate(&first, &ALL)), proof(&certificate(&second, &ALL))]);
    items.extend([0, 2].map(|by| Item::Word(word(by, &second, &[]))));
    items
}

#[test]
fn what_was_endorsed_ordered_and_paid_for_passes_and_the_money_is_counted() {
    let found = audit(&sample());
    assert!(found.is_clean(), "{:?}", found.violations);
    assert_eq!((found.entries, found.certified, found.unseen), (5, 5, 0));
    assert_eq!((found.batches, found.certificates, found.words, found.beyond), (2, 2, 2, 0));
    let money = found.money.values().next().expect("one ledger");
    let paid: u128 = (1..=3).map(|n| 100 + n).sum();
    let sum = |units: u128| synod_ledger::Total::of(units);
    // Three accounts of each of four registrars, and the one that was opened.
    assert_eq!((money.accounts, money.credits, money.debits), (13, sum(paid + 70), sum(paid + 70)));
    assert_eq!((money.liabilities, money.issued), (sum(paid + 50), sum(paid + 50)));
}

#[test]
fn the_log_of_each_member_of_a_running_network_passes_and_none_differs_from_another() {
    let mut world = Bank::world(4, 11);
    for ticket in 1..=20_u64 {
        let payee = custodial(u32::try_from(ticket % 4).expect("few"));
        order(&mut world, ticket, issuer(u32::try_from(ticket % 3).expect("few")), payee, 10);
    }
    assert!(settle(&mut world, 20));
    let mut all = Vec::new();
    let told = &world.users.told;
    // Each is told of the batches of its own accounts.
    let batches: BTreeMap<Lot, _> =
        told.iter().flat_map(|told| &told.certified).map(|(lot, of)| (*lot, of)).collect();
    for told in told {
        let mut items: Vec<Item> =
            told.order.values().map(|id| Item::Settled(told.settled[id].0.clone())).collect();
        for (opened, proofs) in batches.values() {
            items.push(batch(opened));
            items.extend(
                proofs.iter().map(|proof| Item::Certificate(Blob::try_from(proof.clone()).expect("short"))),
            );
        }
        items.extend(told.words.values().flat_map(BTreeMap::values).cloned().map(Item::Word));
        let found = audit(&items);
        assert!(found.is_clean(), "{:?}", found.violations);
        assert_eq!((found.entries, found.unseen), (20, 0));
        assert!(found.batches > 2 && found.certificates >= found.batches);
        all.push(found);
    }
    assert_eq!(compare(&all), []);
}

/// Every byte of every record but a certificate's list of signers who are more than a quorum: none can change unseen.
#[test]
fn a_byte_that_is_changed_anywhere_is_found_where_it_is() {
    let items = sample();
    let (mut changed, mut silent) = (0, Vec::new());
    for (at, item) in items.iter().enumerate() {
        let bytes = item.encode();
        // The first byte says what the record is.
        for byte in 1..bytes.len() {
            let mut other = bytes.to_vec();
            other[byte] ^= 1;
            // What is no record is refused before the audit.
            let Ok(other) = Item::decode(Bytes::from(other), &Limits::default()) else { continue };
            changed += 1;
            let mut items = items.clone();
            items[at] = other;
            let found = audit(&items);
            if found.is_clean() {
                silent.push((at, byte));
            }
        }
    }
    assert!(changed > 1_000, "{changed}");
    assert_eq!(silent, []);
}

#[test]
fn a_payment_that_no_quorum_endorsed_is_named_and_one_with_a_later_one_behind_it_is_not() {
    let chain = payments(3);
    let opened = of_lines(1, Hash::ZERO, &chain);
    // Two of the signers except the last two: neither has a quorum.
    let weak = certificate(&opened, &[(1, &[]), (2, &[1, 2]), (3, &[1, 2])]);
    let mut items = entries(&opened);
    items.extend([batch(&opened), proof(&weak)]);
    let found = audit(&items);
    assert_eq!(names(&found), ["uncertified", "uncertified"]);
    let of: Vec<_> = found.violations.iter().filter_map(|violation| violation.entry).collect();
    assert_eq!(of, [2, 3].map(|n| EntryId { spender: issuer(1), n }));
    // The next batch certifies the third, and with it the second.
    let again = lot(1, 2, opened.digest, Vec::new(), vec![opened.batch.lines[2].clone()]);
    items.extend([batch(&again), proof(&certificate(&again, &ALL))]);
    let found = audit(&items);
    assert!(found.is_clean(), "{:?}", found.violations);
    assert_eq!((found.entries, found.certified), (3, 2));
    // What nobody carries and a later one does not name is not endorsed.
    let stranger = carried(custodial(2), 1, genesis(custodial(2)), pay(issuer(1), 5), 77);
    items.insert(3, Item::Settled((*stranger.entry).clone()));
    assert_eq!(names(&audit(&items)), ["uncertified"]);
}

#[test]
fn a_payment_that_its_owner_did_not_order_is_named_though_a_quorum_endorsed_it() {
    let funds = of_lines(
        1,
        Hash::ZERO,
        &[(*carried(issuer(1), 1, genesis(issuer(1)), pay(signing(1), 50), 1).entry).clone()],
    );
    let id = EntryId { spender: signing(1), n: 1 };
    let good = signed(id, genesis(signing(1)), pay(custodial(2), 20), 2);
    let Auth::Owner(Signature(mut bytes)) = good.auth else { unreachable!("it is signed") };
    bytes[0] ^= 1;
    for auth in [Auth::Institution, Auth::Owner(Signature(bytes))] {
        let bad = lot(1, 2, funds.digest, Vec::new(), vec![Line { auth, ..good.clone() }]);
        let found = audit(&[whole(&funds), whole(&bad)].concat());
        assert_eq!((&only(&found).what, only(&found).entry), (&What::Unauthorized, Some(id)));
        // In another batch it is signed well: one order is enough.
        let also = lot(2, 1, Hash::ZERO, Vec::new(), vec![good.clone()]);
        let found = audit(
            &[whole(&funds), whole(&bad), vec![batch(&also), proof(&certificate(&also, &ALL))]].concat(),
        );
        assert!(found.is_clean(), "{:?}", found.violations);
    }
    // Another institution carries a custodial account.
    let foreign = lot(
        2,
        1,
        Hash::ZERO,
        Vec::new(),
        vec![carried(issuer(1), 1, genesis(issuer(1)), pay(custodial(2), 5), 1)],
    );
    assert_eq!(only(&audit(&whole(&foreign))).what, What::Unauthorized);
}

#[test]
fn money_that_was_not_there_and_entries_out_of_their_order_are_named_with_the_code() {
    let poor = custodial(1);
    let overdraft =
        of_lines(1, Hash::ZERO, &[(*carried(poor, 1, genesis(poor), pay(custodial(2), 5), 1).entry).clone()]);
    assert_eq!(only(&audit(&whole(&overdraft))).what, What::Refused(Code::InsufficientFunds));
    let chain = of_lines(1, Hash::ZERO, &payments(3));
    let mut items = whole(&chain);
    items.swap(0, 1);
    // The second comes before the first, and the third before the second.
    assert_eq!(names(&audit(&items)), ["refused", "refused"]);
    // Gone in the middle: everything behind it hangs in the air.
    let mut items = whole(&chain);
    items.remove(1);
    assert_eq!(only(&audit(&items)).what, What::Refused(Code::SequenceGap));
    let mut items = whole(&chain);
    items.insert(1, items[0].clone());
    assert_eq!(names(&audit(&items)), ["twice", "refused"]);
}

#[test]
fn lanes_are_chains_and_a_certificate_that_does_not_hold_certifies_nothing() {
    let first = of_lines(1, Hash::ZERO, &payments(2));
    let last = digest(&first.batch.lines[1].entry);
    let next = carried(issuer(1), 3, last, pay(custodial(2), 5), 3);
    let second = lot(1, 2, first.digest, Vec::new(), vec![next.clone()]);
    assert!(audit(&[whole(&first), whole(&second)].concat()).is_clean());
    let loose = lot(1, 2, Hash::ZERO, Vec::new(), vec![next.clone()]);
    assert_eq!(only(&audit(&[whole(&first), whole(&loose)].concat())).what, What::Lane);
    let third = lot(1, 3, second.digest, Vec::new(), vec![next.clone()]);
    let found = audit(&[whole(&first), whole(&third)].concat());
    assert_eq!(
        (&only(&found).what, only(&found).lot),
        (&What::Missing, Some(Lot { source: 1, sequence: 2 }))
    );
    // Two batches in one place, each with a certificate.
    let other =
        lot(1, 2, first.digest, Vec::new(), vec![carried(issuer(1), 3, last, pay(custodial(3), 5), 3)]);
    let found = audit(
        &[whole(&first), whole(&second), vec![batch(&other), proof(&certificate(&other, &ALL))]].concat(),
    );
    assert_eq!((&only(&found).what, only(&found).shown.len()), (&What::TwoBatches, 2));
    // By too few.
    let mut items = entries(&first);
    items.extend([batch(&first), proof(&certificate(&first, &ALL[..2]))]);
    assert_eq!(names(&audit(&items)), ["certificate", "uncertified", "uncertified"]);
}

#[test]
fn accounts_are_opened_by_their_registrar_in_order_and_within_its_cap() {
    let open = |id: AccountId, limit: u128| {
        lot(1, 1, Hash::ZERO, vec![opening(id, Owner::Custodial(1), limit)], Vec::new())
    };
    assert!(audit(&whole(&open(account(1, 4), LIMIT))).is_clean());
    assert_eq!(only(&audit(&whole(&open(account(1, 4), LIMIT + 1)))).what, What::Cap);
    assert_eq!(only(&audit(&whole(&open(account(1, 5), 0)))).what, What::Opening(Code::SequenceGap));
    assert_eq!(only(&audit(&whole(&open(account(2, 4), 0)))).what, What::Opening(Code::Unauthorized));
}

#[test]
fn a_word_that_is_not_its_members_and_two_words_for_one_place_are_named() {
    let first = of_lines(1, Hash::ZERO, &payments(2));
    let mut forged: Receipt = word(2, &first, &[]);
    forged.member = 3;
    assert_eq!(only(&audit(&[whole(&first), vec![Item::Word(forged)]].concat())).what, What::Word);
    let other = of_lines(1, Hash::ZERO, &payments(1));
    let words = [&first, &other].map(|opened| Item::Word(word(2, opened, &[])));
    let found = audit(&[whole(&first), words.to_vec()].concat());
    assert_eq!((&only(&found).what, only(&found).shown.len()), (&What::TwoWords, 2));
    assert_eq!((found.words, found.beyond), (1, 1));
}

#[test]
fn logs_that_differ_and_credits_from_nowhere_are_named() {
    let one = audit(&whole(&of_lines(1, Hash::ZERO, &payments(2))));
    let mut entries: Vec<Entry> = payments(2);
    entries[1].code = 7;
    let other = audit(&whole(&of_lines(1, Hash::ZERO, &entries)));
    assert!(one.is_clean() && other.is_clean());
    let found = compare(&[one.clone(), other]);
    let of: Vec<_> =
        found.iter().map(|violation| (violation.what.name(), violation.entry, violation.lot)).collect();
    let id = EntryId { spender: issuer(1), n: 2 };
    assert_eq!(of, [("disagree", Some(id), None), ("disagree", None, Some(Lot { source: 1, sequence: 1 }))]);
    assert_eq!(compare(&[one.clone(), one]), []);
}

#[test]
fn records_of_any_bytes_never_stop_an_audit() {
    let mut drawn = Drawn::new(5);
    let sample = sample();
    for _ in 0..300 {
        let mut items = sample.clone();
        for _ in 0..3 {
            let at = pick(&mut drawn, items.len());
            match pick(&mut drawn, 3) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, sample[at % sample.len()].clone()),
                _ => items.swap(at, 0),
            }
        }
        let found = audit(&items);
        assert!(found.violations.len() as u64 <= found.violations_count);
    }
    // Holds that nobody set aside, and amounts of nothing.
    let odd = carried(issuer(1), 1, genesis(issuer(1)), Kind::SetLimit(Units(u128::MAX >> 33)), 1);
    assert!(!audit(&[Item::Settled((*odd.entry).clone())]).is_clean());
}
