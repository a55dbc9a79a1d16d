//! Refusals: each names its rule and changes nothing.

use synod_crypto::Hash;
use synod_ledger::{
    Book, Class, Code, Entry, EntryId, HOLDS_OPEN_MAX, Kind, Opening, Promised, Total, Units, Verdict, judge,
};
use synod_wire::List;

use crate::shop::{
    ABROAD, ANNA, BERT, CARL, DORA, FOREIGN_LEDGER, ISSUER, NOBODY, book, hold, leg, next, opening, pay, put,
    with,
};

fn shown(book: &Book) -> String {
    format!("{book:?}")
}

#[test]
fn an_entry_out_of_its_place_changes_nothing() {
    let mut book = with(100);
    put(&mut book, ANNA, pay(BERT, 1)).expect("funded");
    let good = next(&book, ANNA, pay(BERT, 1));
    let at = |n: u64| Entry { id: EntryId { spender: ANNA, n }, ..good.clone() };
    let before = shown(&book);
    for (entry, why) in [
        (at(0), Code::SequenceConflict),
        (at(1), Code::SequenceConflict),
        (at(3), Code::SequenceGap),
        (at(u64::MAX), Code::SequenceGap),
        (Entry { prev: Hash::ZERO, ..good.clone() }, Code::ChainMismatch),
        (next(&book, NOBODY, pay(BERT, 1)), Code::UnknownAccount),
        (next(&book, ABROAD, pay(BERT, 1)), Code::UnknownAccount),
        (Entry { ledger: FOREIGN_LEDGER, ..good.clone() }, Code::LedgerMismatch),
        (next(&book, ANNA, pay(DORA, 1)), Code::LedgerMismatch),
        (next(&book, ANNA, pay(NOBODY, 1)), Code::UnknownBeneficiary),
        (next(&book, ANNA, pay(BERT, 0)), Code::AmountZero),
        (next(&book, ANNA, pay(BERT, 1 << 96)), Code::AmountTooLarge),
        (next(&book, ANNA, pay(BERT, u128::MAX)), Code::AmountTooLarge),
        (next(&book, ANNA, pay(BERT, 100)), Code::InsufficientFunds),
        (next(&book, ANNA, hold(BERT, 1, ABROAD)), Code::WrongShard),
        (next(&book, ANNA, hold(BERT, 100, CARL)), Code::InsufficientFunds),
        (next(&book, ANNA, Kind::Close(leg(BERT, 100))), Code::InsufficientFunds),
        (next(&book, ANNA, resolve(ABROAD, 1)), Code::WrongShard),
        (next(&book, ANNA, resolve(ANNA, 2)), Code::HoldNotFound),
        (next(&book, ANNA, resolve(ANNA, 1)), Code::HoldResolved),
        (next(&book, ANNA, resolve(NOBODY, 1)), Code::HoldNotFound),
    ] {
        assert_eq!(book.apply(&entry, Hash::ZERO), Err(why), "{entry:?}");
        assert_eq!(shown(&book), before);
    }
    assert_eq!(book.apply(&good, Hash::ZERO), Ok(()));
}

fn resolve(payer: synod_ledger::AccountId, n: u64) -> Kind {
    let holds = List::try_from(vec![EntryId { spender: payer, n }]).expect("one");
    Kind::Resolve { holds, verdict: Verdict::Void }
}

#[test]
fn accounts_open_one_after_the_other() {
    let mut book = book();
    let before = shown(&book);
    let id = |local| synod_ledger::AccountId { local, ..ANNA };
    for (refused, why) in [
        (opening(id(5), 0), Code::SequenceConflict),
        (opening(id(7), 0), Code::SequenceGap),
        (opening(ABROAD, 0), Code::WrongShard),
        (opening(id(0), 0), Code::LimitNotCosigned),
        (Opening { limit_max: Units(9), ..opening(id(6), 10) }, Code::LimitNotCosigned),
        (Opening { limit_max: Units(1 << 96), ..opening(id(6), 10) }, Code::LimitNotCosigned),
    ] {
        assert_eq!(book.open(&refused), Err(why), "{refused:?}");
        assert_eq!(shown(&book), before);
    }
    assert_eq!(book.open(&opening(id(6), 0)), Ok(()));
}

#[test]
fn what_was_promised_cannot_be_promised_again() {
    let book = with(100);
    let mut promised = Promised::default();
    let entries: Vec<Entry> = (1..=3)
        .map(|n| Entry { id: EntryId { spender: ANNA, n }, ..next(&book, ANNA, pay(BERT, 40)) })
        .collect();
    let mut passed = Vec::new();
    for entry in &entries {
        let judged = judge(&book, entry, &promised);
        if let Ok(debit) = judged {
            promised.add(entry, debit);
        }
        passed.push(judged);
    }
    assert_eq!(passed, [Ok(Total::of(40)), Ok(Total::of(40)), Err(Code::InsufficientFunds)]);
    assert_eq!(promised.debits(), Total::of(80));
    promised.settled(&entries[0], Total::of(40));
    promised.settled(&entries[1], Total::of(40));
    assert_eq!(promised, Promised::default());
}

#[test]
fn promises_close_and_count_holds_and_decide_once() {
    let mut book = with(100);
    put(&mut book, ANNA, hold(BERT, 1, ANNA)).expect("funded");
    let promise = |kinds: &[Kind]| {
        let mut promised = Promised::default();
        for kind in kinds {
            let entry = next(&book, ANNA, kind.clone());
            let debit = judge(&book, &entry, &promised).expect("allowed so far");
            promised.add(&entry, debit);
        }
        promised
    };
    let behind = |kinds: &[Kind], kind: Kind| judge(&book, &next(&book, ANNA, kind), &promise(kinds));
    assert_eq!(behind(&[resolve(ANNA, 1)], resolve(ANNA, 1)), Err(Code::HoldResolved));
    assert_eq!(behind(&[hold(BERT, 1, CARL)], Kind::Close(leg(BERT, 0))), Err(Code::CloseNotEmpty));
    assert_eq!(
        behind(&[], Kind::Close(leg(BERT, 0))),
        Err(Code::CloseNotEmpty),
        "the first hold is settled and open"
    );
    let rekeyed = promise(&[Kind::Rekey(synod_ledger::Owner::Custodial(4))]);
    assert_eq!(rekeyed.owner_at(u64::MAX), Some(synod_ledger::Owner::Custodial(4)));
    let mut bert = Promised::default();
    let closing = next(&book, BERT, Kind::Close(leg(ANNA, 0)));
    bert.add(&closing, judge(&book, &closing, &bert).expect("Bert holds nothing"));
    assert_eq!(judge(&book, &next(&book, BERT, Kind::Move(1)), &bert), Err(Code::AccountClosed));
}

/// Two changes of the owner are open: each stands behind its own place, the later one behind both, in whatever order they were
/// counted.
#[test]
fn each_owner_that_is_promised_stands_behind_its_place() {
    use synod_ledger::Owner::Custodial;
    let book = with(100);
    let entry = |n: u64, kind: Kind| Entry { id: EntryId { spender: ANNA, n }, ..next(&book, ANNA, kind) };
    let [first, second] = [(3, 4), (5, 6)].map(|(n, owner)| entry(n, Kind::Rekey(Custodial(owner))));
    for [one, other] in [[&first, &second], [&second, &first]] {
        let mut promised = Promised::default();
        promised.add(one, Total::ZERO);
        promised.add(other, Total::ZERO);
        let owners = |promised: &Promised| [3, 4, 5, 6].map(|n| promised.owner_at(n));
        assert_eq!(owners(&promised), [None, Some(Custodial(4)), Some(Custodial(4)), Some(Custodial(6))]);
        promised.settled(&first, Total::ZERO);
        assert_eq!(owners(&promised), [None, None, None, Some(Custodial(6))]);
        promised.settled(&second, Total::ZERO);
        assert_eq!(promised, Promised::default());
    }
}

#[test]
fn open_holds_of_one_payer_are_bounded() {
    let mut book = book();
    let rich = synod_ledger::AccountId { local: 6, ..ANNA };
    book.open(&opening(rich, 5_000)).expect("the next account");
    for _ in 0..HOLDS_OPEN_MAX {
        assert_eq!(put(&mut book, rich, hold(BERT, 1, rich)), Ok(()));
    }
    assert_eq!(put(&mut book, rich, hold(BERT, 1, rich)), Err(Code::Busy));
    assert_eq!(put(&mut book, rich, resolve(rich, 1)), Ok(()));
    assert_eq!(put(&mut book, rich, hold(BERT, 1, rich)), Ok(()));
}

#[test]
fn a_frozen_account_still_settles() {
    let mut book = with(100);
    book.freeze(ANNA, true).expect("open");
    assert!(book.account(ANNA).is_some_and(|anna| anna.is_frozen()));
    assert_eq!(put(&mut book, ANNA, pay(BERT, 1)), Ok(()));
    book.freeze(ANNA, false).expect("open");
    assert!(book.account(ANNA).is_some_and(|anna| !anna.is_frozen()));
    assert_eq!(book.freeze(NOBODY, true), Err(Code::UnknownAccount));
}

#[test]
fn only_what_time_can_cure_is_transient() {
    assert_eq!(Code::InsufficientFunds.class(), Class::Transient);
    assert_eq!(Code::ChainMismatch.class(), Class::Permanent);
    assert_eq!(
        (Code::InsufficientFunds.number(), Code::Busy.number(), Code::WrongShard.number()),
        (3115, 3402, 3102)
    );
    let issuer = book().account(ISSUER).map(|issuer| issuer.credits_posted());
    assert_eq!(issuer, Some(Total::ZERO));
}

/// Found by a review: up and down again while both are open let a payment behind them count on the limit that does not stay.
#[test]
fn a_payment_behind_two_limits_stands_both_of_them() {
    let mut book = book();
    assert_eq!(put(&mut book, ISSUER, Kind::SetLimit(Units(100))), Ok(()));
    let base = next(&book, ISSUER, Kind::SetLimit(Units(200)));
    let entry = |n: u64, kind: Kind| Entry { id: EntryId { n, ..base.id }, kind, ..base.clone() };
    let (up, down) = (base.clone(), entry(base.id.n + 1, Kind::SetLimit(Units(150))));
    let mut promised = Promised::default();
    let raised = judge(&book, &up, &promised).expect("up to 1,000");
    promised.add(&up, raised);
    let lowered = judge(&book, &down, &promised).expect("nothing is used");
    promised.add(&down, lowered);
    // The first settles: 200 may be owed now, and 150 soon.
    assert_eq!(put(&mut book, ISSUER, Kind::SetLimit(Units(200))), Ok(()));
    promised.settled(&up, raised);
    let of = |amount: u128| entry(base.id.n + 2, pay(ANNA, amount));
    assert_eq!(judge(&book, &of(151), &promised), Err(Code::InsufficientFunds));
    assert_eq!(judge(&book, &of(150), &promised), Ok(Total::of(150)));
}
