//! The state is a function of the set of entries: in whatever order those of different spenders settle.

use proptest::prelude::*;
use synod_ledger::{AccountId, Book, Class, Digests, Entry, EntryId, Kind, Total, Units, Verdict};
use synod_wire::List;

use crate::shop::{ABROAD, ANNA, BERT, CARL, EURO, ISSUER, book, hold, leg, legs, next, pay, sums};

pub(crate) const ALL: [AccountId; 5] = [ISSUER, ANNA, BERT, CARL, ABROAD];

/// A kind of entry from drawn numbers, which may be refused.
fn kind(book: &Book, spender: AccountId, drawn: (u8, u8, u16)) -> Kind {
    let (which, whom, amount) = (drawn.0 % 8, ALL[usize::from(drawn.1) % 5], u128::from(drawn.2 % 300));
    let ours = book.holds().find(|(_, hold)| hold.resolver == spender).map(|(id, hold)| (*id, *hold));
    match (which, ours) {
        (0..=2, _) => pay(whom, amount),
        (3, _) => legs(&[(whom, amount), (ANNA, 1)]),
        (4, _) => hold(whom, amount, [ANNA, BERT][usize::from(drawn.1) % 2]),
        (5, Some((id, hold))) => {
            let holds = List::try_from(vec![id]).expect("one");
            let posted = List::try_from(vec![Units(amount.min(hold.amount.0))]).expect("one");
            Kind::Resolve {
                holds,
                verdict: if amount % 2 == 0 { Verdict::Void } else { Verdict::Post(posted) },
            }
        }
        (6, _) => Kind::SetLimit(Units(amount * 3)),
        (7, _) if amount > 280 => Kind::Close(leg(whom, amount - 280)),
        _ => Kind::Move(drawn.1),
    }
}

/// Settles what the drawn numbers ask, as far as the ledger takes it; each spender's entries in order.
pub(crate) fn history(drawn: &[(u8, u8, u8, u16)]) -> (Book, Vec<Entry>) {
    let (mut book, digests, mut settled) = (book(), Digests::default(), Vec::new());
    for (by, which, whom, amount) in drawn {
        let spender = ALL[usize::from(*by) % 4];
        let entry = next(&book, spender, kind(&book, spender, (*which, *whom, *amount)));
        let before = format!("{book:?}");
        match book.apply(&entry, digests.entry(&entry)) {
            Ok(()) => settled.push(entry),
            Err(_) => assert_eq!(format!("{book:?}"), before, "a refusal changes nothing"),
        }
        conserved(&book);
    }
    (book, settled)
}

/// Nothing is made or lost, and nobody spends what is not there.
fn conserved(book: &Book) {
    let (credits, debits, _) = sums(book, EURO);
    let left = book.exported().fold(Total::ZERO, |sum, (_, one)| sum.checked_add(*one).expect("small"));
    assert_eq!(credits.checked_add(left), Some(debits));
    for (id, account) in book.accounts() {
        let limit = book.terms(id).expect("open").0.limit;
        let has = account.credits_posted().checked_add(Total::of(limit.0)).expect("small");
        let spent = account.debits_posted().checked_add(account.debits_pending()).expect("small");
        assert!(has >= spent, "{id} spent more than it had");
    }
}

/// Settles entries again, those of the spender that `turns` names first wherever they can be.
fn again(entries: &[Entry], turns: &[u8]) -> Book {
    let (mut book, digests) = (book(), Digests::default());
    let mut logs: Vec<Vec<&Entry>> =
        ALL.map(|id| entries.iter().filter(|entry| entry.id.spender == id).collect()).into();
    let mut turns = turns.iter().cycle();
    let mut left: usize = logs.iter().map(Vec::len).sum();
    while left > 0 {
        let first = usize::from(*turns.next().expect("a cycle"));
        let mut has_moved = false;
        for at in (0..ALL.len()).map(|at| (at + first) % ALL.len()) {
            let Some(entry) = logs[at].first() else { continue };
            match book.apply(entry, digests.entry(entry)) {
                Ok(()) => {
                    logs[at].remove(0);
                    (left, has_moved) = (left - 1, true);
                    break;
                }
                Err(code) if code.class() == Class::Transient => {}
                Err(other) => unreachable!("{entry:?} settled before and is refused now: {other:?}"),
            }
        }
        assert!(has_moved, "every entry that settled once settles in some order");
    }
    book
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_order_between_spenders_does_not_matter(
        drawn in proptest::collection::vec(any::<(u8, u8, u8, u16)>(), 1..80),
        turns in proptest::collection::vec(any::<u8>(), 1..40),
    ) {
        let (once, settled) = history(&drawn);
        prop_assert_eq!(format!("{:?}", again(&settled, &turns)), format!("{once:?}"));
    }
}

#[test]
fn drawn_histories_reach_every_kind() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let drawn = proptest::collection::vec(any::<(u8, u8, u8, u16)>(), 60..80);
    let mut reached = [0; 8];
    for _ in 0..60 {
        let tree = drawn.new_tree(&mut runner).expect("drawn");
        for entry in history(&proptest::strategy::ValueTree::current(&tree)).1 {
            let at = match entry.kind {
                Kind::Pay(_) => 0,
                Kind::MultiPay(_) => 1,
                Kind::Hold { .. } => 2,
                Kind::Resolve { verdict: Verdict::Void, .. } => 3,
                Kind::Resolve { .. } => 4,
                Kind::Close(_) => 5,
                Kind::Move(_) | Kind::Rekey(_) => 6,
                Kind::SetLimit(_) => 7,
            };
            reached[at] += 1;
        }
    }
    assert!(reached.iter().all(|count| *count >= 5), "{reached:?}");
    let entry = next(&book(), ANNA, pay(BERT, 1));
    assert_eq!(entry.id, EntryId { spender: ANNA, n: 1 });
}
