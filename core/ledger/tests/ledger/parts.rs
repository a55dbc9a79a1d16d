//! A book as records, and back.

use synod_ledger::{Book, Code, Kind, Part, Promised, Total, Units, Verdict, judge};
use synod_wire::List;

use crate::shop::{
    ABROAD, ANNA, BERT, CARL, DORA, ISSUER, NOBODY, hold, incoming, legs, next, pay, put, with,
};

/// A book in which everything happened once: holds, a closed account, a frozen one, new terms, money that left and came.
fn eventful() -> Book {
    let mut book = with(500);
    for (spender, kind) in [
        (ANNA, hold(BERT, 70, CARL)),
        (ANNA, hold(CARL, 30, CARL)),
        (ANNA, legs(&[(BERT, 10), (ABROAD, 5)])),
        (BERT, Kind::Close(synod_ledger::Leg { to: ANNA, amount: Units(10) })),
        (ISSUER, Kind::SetLimit(Units(900))),
        (CARL, Kind::Move(3)),
    ] {
        assert_eq!(put(&mut book, spender, kind), Ok(()));
    }
    let held = book.holds().map(|(id, _)| *id).next().expect("two are open");
    let verdict = Verdict::Post(List::try_from(vec![Units(20)]).expect("one"));
    let kind = Kind::Resolve { holds: List::try_from(vec![held]).expect("one"), verdict };
    assert_eq!(put(&mut book, CARL, kind), Ok(()));
    for n in [3, 4, 9] {
        assert_eq!(book.import(&incoming(n, &[(CARL, 8)])), Ok(true));
    }
    assert_eq!(book.freeze(DORA, true), Ok(()));
    book
}

fn parts(book: &Book) -> Vec<Part> {
    let mut parts = Vec::new();
    book.parts(&mut |part| parts.push(part));
    parts
}

#[test]
fn a_book_of_its_own_parts_is_equal_and_goes_on_alike() {
    let mut first = eventful();
    let told = parts(&first);
    assert_eq!(told.len(), 5 + 1 + 1 + 1 + 2, "accounts, a hold, what left, what came, and of which entries");
    let mut second = Book::new(0);
    for part in told.clone() {
        assert_eq!(second.restore(part), Ok(()));
    }
    assert_eq!(parts(&second), told);
    for (spender, kind) in
        [(ANNA, pay(CARL, 250)), (CARL, pay(ANNA, 1)), (ISSUER, pay(ANNA, 900)), (BERT, pay(ANNA, 1))]
    {
        let entry = next(&first, spender, kind.clone());
        assert_eq!(put(&mut first, spender, kind), second.apply(&entry, digest(&entry)));
    }
    assert_eq!(parts(&second), parts(&first));
}

fn digest(entry: &synod_ledger::Entry) -> synod_crypto::Hash {
    synod_ledger::Digests::default().entry(entry)
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let told = parts(&eventful());
    let held = told.iter().find(|part| matches!(part, Part::Hold { .. })).expect("one is open").clone();
    let mut book = Book::new(0);
    assert_eq!(book.restore(held.clone()), Err(Code::UnknownAccount));
    for part in told.clone() {
        assert_eq!(book.restore(part), Ok(()));
    }
    assert_eq!(book.restore(held), Err(Code::HoldResolved));
    assert_eq!(book.restore(told[0].clone()), Err(Code::SequenceConflict));
    let used = told.iter().find(|part| matches!(part, Part::Used { .. })).expect("some came");
    assert_eq!(book.restore(used.clone()), Err(Code::SequenceConflict));
    assert_eq!(parts(&book), told, "nothing has changed");
}

#[test]
fn what_an_entry_costs_is_what_the_judge_takes() {
    let book = eventful();
    for (spender, kind) in [
        (ANNA, pay(CARL, 7)),
        (ANNA, legs(&[(CARL, 1), (ABROAD, 2)])),
        (ANNA, hold(CARL, 9, CARL)),
        (CARL, Kind::Move(1)),
        (ISSUER, Kind::SetLimit(Units(800))),
    ] {
        let entry = next(&book, spender, kind);
        let (terms, _) = book.terms(spender).expect("open");
        assert_eq!(judge(&book, &entry, &Promised::default()), Ok(entry.cost(terms.limit)));
    }
    let unpaid = next(&book, ANNA, pay(CARL, 1_000_000));
    assert_eq!(unpaid.cost(Units(0)), Total::of(1_000_000), "whether it can pay or not");
    assert_eq!(judge(&book, &unpaid, &Promised::default()), Err(Code::InsufficientFunds));
    assert!(next(&book, ANNA, legs(&[(CARL, 1), (NOBODY, 2)])).names().eq([CARL, NOBODY]));
}
