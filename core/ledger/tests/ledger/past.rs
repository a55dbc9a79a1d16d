//! A book as it was before some of its entries: whoever settled more stands where everybody stands who settled less.

use proptest::prelude::*;
use synod_ledger::{
    Applied, Book, Code, Digests, Entry, EntryId, Hold, Kind, Overwrote, Past, Standing, Total, Units,
    Verdict,
};
use synod_wire::List;

use crate::order::{ALL, history};
use crate::shop::{ANNA, BERT, CARL, book, hold, next, pay, with};

/// Everything that a state is.
type State = (Vec<(Standing, Total)>, Vec<(EntryId, Hold)>, Vec<Total>);

fn state(book: &Book) -> State {
    let accounts = book.accounts();
    let accounts =
        accounts.map(|(id, account)| (book.standing(id).expect("open"), account.debits_pending())).collect();
    let holds = book.holds().map(|(id, hold)| (*id, *hold)).collect();
    (accounts, holds, book.exported().map(|(_, total)| *total).filter(|total| *total > Total::ZERO).collect())
}

fn past_state(past: &Past<'_>, book: &Book) -> State {
    let accounts = book.accounts().map(|(id, _)| past.standing(id).expect("open")).collect();
    let exported = past.exported().into_values().filter(|total| *total > Total::ZERO).collect();
    (accounts, past.holds().into_iter().collect(), exported)
}

/// Settles entries in another order, those of the spender that `turns` names first wherever they can be; gives what each overwrote.
fn elsewhere(entries: &[Entry], turns: &[u8]) -> (Book, Vec<Applied>) {
    let (mut book, digests, mut done) = (book(), Digests::default(), Vec::new());
    let mut turns = turns.iter().cycle();
    while done.len() < entries.len() {
        let first = usize::from(*turns.next().expect("a cycle"));
        let next = (0..ALL.len()).map(|at| ALL[(at + first) % ALL.len()]).find_map(|spender| {
            let n = book.account(spender)?.sequence() + 1;
            let entry = entries.iter().find(|entry| entry.id == EntryId { spender, n })?;
            let applied = Applied { entry: entry.clone().into(), overwrote: Overwrote::by(&book, entry) };
            book.apply(entry, digests.entry(entry)).ok()?;
            Some(applied)
        });
        done.push(next.expect("every entry that settled once settles in some order"));
    }
    (book, done)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn entries_beyond_a_set_leave_no_trace_when_they_are_taken_back(
        drawn in proptest::collection::vec(any::<(u8, u8, u8, u16)>(), 1..80),
        turns in proptest::collection::vec(any::<u8>(), 1..40),
        part in 0..100_usize,
    ) {
        let (_, settled) = history(&drawn);
        let inside = &settled[..settled.len() * part / 100];
        let (less, _) = elsewhere(inside, &[0]);
        let (more, done) = elsewhere(&settled, &turns);
        let mut past = Past::new(&more);
        for applied in done.iter().rev().filter(|applied| !inside.contains(&applied.entry)) {
            prop_assert_eq!(past.undo(applied), Ok(()));
        }
        prop_assert_eq!(past_state(&past, &more), state(&less));
    }
}

fn applied(book: &mut Book, entry: Entry) -> Applied {
    let overwrote = Overwrote::by(book, &entry);
    book.apply(&entry, Digests::default().entry(&entry)).expect("it settles");
    Applied { entry: entry.into(), overwrote }
}

#[test]
fn an_entry_below_the_last_of_its_log_cannot_be_taken_back() {
    let mut book = with(100);
    let first = next(&book, ANNA, pay(BERT, 1));
    let first = applied(&mut book, first);
    let second = next(&book, ANNA, pay(BERT, 1));
    let second = applied(&mut book, second);
    assert_eq!(Past::new(&book).undo(&first), Err(Code::SequenceConflict));
    let mut past = Past::new(&book);
    assert_eq!((past.undo(&second), past.undo(&first)), (Ok(()), Ok(())));
    assert_eq!(past.undo(&first), Err(Code::SequenceConflict));
}

/// A set that counts the verdict over a hold and not the hold, or what somebody paid and not what it was paid, is no state.
#[test]
fn a_set_that_is_not_closed_is_refused_or_shows_who_paid_what_it_had_not() {
    let mut book = with(100);
    let held = next(&book, ANNA, hold(BERT, 10, CARL));
    let held = applied(&mut book, held);
    let holds = List::try_from(vec![held.entry.id]).expect("one");
    let posted = List::try_from(vec![Units(10)]).expect("one");
    let verdict = next(&book, CARL, Kind::Resolve { holds, verdict: Verdict::Post(posted) });
    applied(&mut book, verdict);
    assert!(Past::new(&book).undo(&held).is_err());
    let paid = next(&book, ANNA, pay(BERT, 50));
    let paid = applied(&mut book, paid);
    let spent = next(&book, BERT, pay(CARL, 55));
    applied(&mut book, spent);
    let mut past = Past::new(&book);
    assert_eq!(past.undo(&paid), Ok(()));
    let (bert, terms) = past.account(BERT).expect("open");
    assert!(bert.credits_posted() < bert.debits_posted() && terms.limit == Units(0));
}

#[test]
fn an_account_that_is_closed_twice_was_closed_before_the_second_time() {
    let mut book = with(100);
    let close = |book: &Book, amount| {
        let leg = synod_ledger::Leg { to: BERT, amount: Units(amount) };
        next(book, ANNA, Kind::Close(leg))
    };
    let first = close(&book, 60);
    let first = applied(&mut book, first);
    let second = close(&book, 40);
    let second = applied(&mut book, second);
    let mut past = Past::new(&book);
    assert_eq!(past.undo(&second), Ok(()));
    assert!(past.account(ANNA).expect("open").0.is_closed());
    assert_eq!(past.undo(&first), Ok(()));
    assert!(!past.account(ANNA).expect("open").0.is_closed());
}
