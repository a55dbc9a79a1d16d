//! What each kind of entry does.

use synod_crypto::Hash;
use synod_ledger::{Book, Border, Code, Digests, Entry, Kind, Owner, Total, Units, Verdict};
use synod_quorum::PublicKey;
use synod_wire::{Bytes, Draw, Drawn, List, Wire as _};

use crate::shop::{
    ABROAD, ANNA, BERT, CARL, EURO, ISSUER, available, hold, leg, legs, next, pay, put, sums, with,
};

fn spendable(book: &Book) -> [u64; 3] {
    [ANNA, BERT, CARL].map(|id| available(book, id).to_string().parse().expect("small"))
}

#[test]
fn a_payment_moves_money_and_makes_none() {
    let mut book = with(100);
    assert_eq!(put(&mut book, ANNA, pay(BERT, 60)), Ok(()));
    assert_eq!(spendable(&book), [40, 60, 0]);
    let (credits, debits, pending) = sums(&book, EURO);
    assert_eq!((credits, pending), (debits, Total::ZERO));
    let issuer = book.account(ISSUER).expect("open");
    assert_eq!(issuer.balance(), (Total::ZERO, Total::of(100)), "money is what issuers owe");
    assert_eq!(available(&book, ISSUER), Total::of(900));
    assert_eq!(book.account(ANNA).map(|anna| anna.sequence()), Some(1));
}

#[test]
fn the_whole_balance_paid_to_oneself_changes_no_balance() {
    let mut book = with(100);
    assert_eq!(put(&mut book, ANNA, pay(ANNA, 100)), Ok(()));
    assert_eq!(spendable(&book), [100, 0, 0]);
    assert_eq!(put(&mut book, ANNA, legs(&[(ANNA, 30), (BERT, 70)])), Ok(()));
    assert_eq!(spendable(&book), [30, 70, 0]);
    assert_eq!(
        put(&mut book, ANNA, pay(ANNA, 31)),
        Err(Code::InsufficientFunds),
        "own money comes after it went"
    );
}

#[test]
fn a_payment_of_many_legs_is_all_or_nothing() {
    let mut book = with(100);
    for (refused, why) in [
        (legs(&[(BERT, 60), (CARL, 41)]), Code::InsufficientFunds),
        (legs(&[(BERT, 60), (crate::shop::NOBODY, 1)]), Code::UnknownBeneficiary),
        (legs(&[(BERT, 60), (CARL, 0)]), Code::AmountZero),
        (legs(&[]), Code::TooManyLegs),
    ] {
        assert_eq!(put(&mut book, ANNA, refused), Err(why));
        assert_eq!(spendable(&book), [100, 0, 0]);
    }
    assert_eq!(put(&mut book, ANNA, legs(&[(BERT, 60), (CARL, 30), (BERT, 10)])), Ok(()));
    assert_eq!(spendable(&book), [0, 70, 30]);
}

#[test]
fn held_money_is_spent_by_nobody_until_its_resolver_decides() {
    let mut book = with(100);
    let held = next(&book, ANNA, hold(BERT, 70, CARL));
    assert_eq!(put(&mut book, ANNA, held.kind.clone()), Ok(()));
    assert_eq!(spendable(&book), [30, 0, 0]);
    assert_eq!(put(&mut book, ANNA, pay(BERT, 31)), Err(Code::InsufficientFunds));
    let post = |amount| {
        let amounts = List::try_from(vec![Units(amount)]).expect("one");
        Kind::Resolve { holds: List::try_from(vec![held.id]).expect("one"), verdict: Verdict::Post(amounts) }
    };
    assert_eq!(put(&mut book, BERT, post(70)), Err(Code::HoldWrongResolver));
    assert_eq!(put(&mut book, CARL, post(71)), Err(Code::HoldAmountExceeded));
    assert_eq!(put(&mut book, CARL, post(0)), Err(Code::AmountZero));
    assert_eq!(put(&mut book, CARL, post(50)), Ok(()));
    assert_eq!(spendable(&book), [50, 50, 0], "what is not posted is free again");
    assert_eq!(put(&mut book, CARL, post(20)), Err(Code::HoldResolved));
    assert_eq!(sums(&book, EURO).2, Total::ZERO);
}

#[test]
fn one_verdict_exchanges_the_money_of_two_owners() {
    let mut book = with(100);
    put(&mut book, ISSUER, pay(BERT, 20)).expect("funded");
    let (first, second) = (next(&book, ANNA, hold(BERT, 100, CARL)), next(&book, BERT, hold(ANNA, 20, CARL)));
    put(&mut book, ANNA, first.kind.clone()).expect("funded");
    put(&mut book, BERT, second.kind.clone()).expect("funded");
    let holds = List::try_from(vec![first.id, second.id]).expect("two");
    let short = Verdict::Post(List::try_from(vec![Units(100)]).expect("one"));
    let twice = List::try_from(vec![first.id, first.id]).expect("two");
    assert_eq!(
        put(&mut book, CARL, Kind::Resolve { holds: holds.clone(), verdict: short }),
        Err(Code::HoldAmountExceeded)
    );
    assert_eq!(
        put(&mut book, CARL, Kind::Resolve { holds: twice, verdict: Verdict::Void }),
        Err(Code::HoldResolved)
    );
    let both = Verdict::Post(List::try_from(vec![Units(100), Units(20)]).expect("two"));
    assert_eq!(put(&mut book, CARL, Kind::Resolve { holds, verdict: both }), Ok(()));
    assert_eq!(spendable(&book), [20, 100, 0]);
}

#[test]
fn a_void_gives_everything_back() {
    let mut book = with(100);
    let held = next(&book, ANNA, hold(BERT, 70, ANNA));
    put(&mut book, ANNA, held.kind.clone()).expect("funded");
    let holds = List::try_from(vec![held.id]).expect("one");
    assert_eq!(put(&mut book, ANNA, Kind::Resolve { holds, verdict: Verdict::Void }), Ok(()));
    assert_eq!(spendable(&book), [100, 0, 0]);
}

#[test]
fn a_closed_account_takes_credits_and_is_emptied_again() {
    let mut book = with(100);
    let held = next(&book, ANNA, hold(BERT, 10, CARL));
    put(&mut book, ANNA, held.kind.clone()).expect("funded");
    assert_eq!(put(&mut book, ANNA, Kind::Close(leg(BERT, 90))), Err(Code::CloseNotEmpty));
    let holds = List::try_from(vec![held.id]).expect("one");
    put(&mut book, CARL, Kind::Resolve { holds, verdict: Verdict::Void }).expect("Carl decides");
    assert_eq!(
        put(&mut book, ANNA, Kind::Close(leg(BERT, 60))),
        Ok(()),
        "an entry names its amount, not all"
    );
    assert_eq!(put(&mut book, ANNA, pay(BERT, 1)), Err(Code::AccountClosed));
    assert_eq!(put(&mut book, ISSUER, pay(ANNA, 5)), Ok(()), "credits cannot be refused");
    assert_eq!(put(&mut book, ANNA, Kind::Close(leg(CARL, 45))), Ok(()));
    assert_eq!(spendable(&book), [0, 60, 45]);
    assert_eq!(put(&mut book, ANNA, Kind::Close(leg(CARL, 0))), Ok(()));
}

/// Listing 9 with E19: what becomes of an entry, its own log alone decides.
#[test]
fn what_is_spent_is_credited_once_it_is_collected_and_a_place_without_money_is_taken() {
    let mut book = with(100);
    let spend = |book: &mut Book, kind: Kind| {
        let entry = next(book, ANNA, kind);
        book.spend(&entry, Digests::default().entry(&entry))
    };
    assert_eq!(spend(&mut book, pay(BERT, 60)), Ok(true));
    assert_eq!(spendable(&book), [40, 0, 0], "nobody collected it");
    let before = book.account(ANNA).map(|anna| (anna.sequence(), anna.debits_posted()));
    assert_eq!(spend(&mut book, pay(BERT, 41)), Ok(false));
    assert_eq!(spendable(&book), [40, 0, 0]);
    let after = book.account(ANNA).map(|anna| (anna.sequence(), anna.debits_posted()));
    assert_eq!((before, after), (Some((1, Total::of(60))), Some((2, Total::of(60)))), "n is used");
    assert_eq!(spend(&mut book, pay(crate::shop::NOBODY, 1)), Err(Code::UnknownBeneficiary));
    assert_eq!(spend(&mut book, Kind::SetLimit(Units(0))), Ok(true));
    assert_eq!(book.collect(BERT, Total::of(60)), Ok(()));
    assert_eq!(book.collect(crate::shop::NOBODY, Total::of(60)), Err(Code::UnknownAccount));
    assert_eq!(spendable(&book), [40, 60, 0]);
    let entry = next(&book, ANNA, pay(BERT, 1));
    assert_eq!(
        book.spend(&Entry { prev: Hash::ZERO, ..entry.clone() }, Hash::ZERO),
        Err(Code::ChainMismatch)
    );
    assert_eq!(spend(&mut book, Kind::Close(leg(BERT, 40))), Ok(true));
    assert_eq!((spendable(&book), book.account(ANNA).map(|anna| anna.is_closed())), ([0, 60, 0], Some(true)));
    assert_eq!(book.spend(&entry, Hash::ZERO), Err(Code::SequenceConflict));
}

#[test]
fn money_for_another_shard_leaves_and_is_counted() {
    let mut book = with(100);
    put(&mut book, ANNA, legs(&[(ABROAD, 30), (BERT, 20), (ABROAD, 5)])).expect("funded");
    let border = Border { shard: ABROAD.shard, ledger: EURO };
    assert_eq!(book.exported().collect::<Vec<_>>(), [(&border, &Total::of(35))]);
    let (credits, debits, _) = sums(&book, EURO);
    assert_eq!(debits.checked_sub(credits), Some(Total::of(35)));
    assert_eq!(spendable(&book), [45, 20, 0]);
}

#[test]
fn terms_change_for_one_account_alone() {
    let mut book = with(100);
    let other = Owner::SelfSigned(PublicKey([9; 32]));
    put(&mut book, ANNA, Kind::Rekey(other)).expect("nothing stands against it");
    put(&mut book, ANNA, Kind::Move(3)).expect("nothing stands against it");
    assert_eq!(book.terms(ANNA).map(|(terms, _)| terms.owner), Some(other));
    assert_eq!(book.terms(BERT).map(|(terms, _)| terms.owner), Some(Owner::SelfSigned(PublicKey([7; 32]))));
    assert_eq!(
        [ANNA, BERT].map(|id| book.account(id).map(|account| account.representative())),
        [Some(3), Some(0)]
    );
    put(&mut book, BERT, Kind::Rekey(other)).expect("nothing stands against it");
    put(&mut book, CARL, Kind::Rekey(Owner::Custodial(2))).expect("nothing stands against it");
    let owners = [ANNA, BERT, CARL].map(|id| book.terms(id).map(|(terms, _)| terms.owner));
    assert_eq!(owners, [Some(other), Some(other), Some(Owner::Custodial(2))]);
}

#[test]
fn a_limit_is_lowered_to_what_is_used_and_raised_to_what_was_agreed() {
    let mut book = with(400);
    assert_eq!(put(&mut book, ISSUER, Kind::SetLimit(Units(399))), Err(Code::LimitBelowUse));
    assert_eq!(put(&mut book, ISSUER, Kind::SetLimit(Units(400))), Ok(()));
    assert_eq!(put(&mut book, ISSUER, pay(ANNA, 1)), Err(Code::InsufficientFunds));
    assert_eq!(put(&mut book, ISSUER, Kind::SetLimit(Units(1_001))), Err(Code::LimitNotCosigned));
    assert_eq!(put(&mut book, ISSUER, Kind::SetLimit(Units(1_000))), Ok(()));
    assert_eq!(put(&mut book, ISSUER, pay(ANNA, 600)), Ok(()));
}

/// Entries of all kinds and lengths, few and many.
#[test]
fn entries_that_are_hashed_together_have_the_digests_that_each_has_alone() {
    let digests = Digests::default();
    let mut drawn = Drawn::new(5);
    for count in [0, 1, 3, 40] {
        let entries: Vec<Entry> = (0..count).map(|_| Entry::draw(&mut drawn)).collect();
        let alone: Vec<Hash> = entries.iter().map(|entry| digests.entry(entry)).collect();
        let encoded: Vec<Bytes> = entries.iter().map(Entry::encode).collect();
        let encoded: Vec<&[u8]> = encoded.iter().map(|one| &one[..]).collect();
        assert_eq!(digests.encoded(&encoded), alone);
        assert_eq!(digests.entries(entries.iter()), alone);
    }
}
