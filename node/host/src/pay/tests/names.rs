//! Whose a name is: what one payer calls a payment says nothing of another's.

use synod_astro::{Level, Output, Refusal};
use synod_ledger::EntryId;

use super::{Counter, account, draft, entry, order, paying, told};
use crate::pay::{Denied, Found, Named, Order};

/// Somebody else of this institution, who signs for himself: any member may carry what he signs.
fn theirs(id: u128, amount: u128) -> Order {
    Order { from: account(0, 4), ..order(id, amount) }
}

fn found(counter: &Counter, id: u128, payer: Option<u64>) -> Result<Found, Denied> {
    counter.teller.find(&Named { id, payer: payer.map(|local| account(0, local)) })
}

#[test]
fn an_order_that_was_taken_is_not_given_up_for_what_another_payer_calls_so() {
    let counter = Counter::new();
    let mut answer = counter.teller.pay(&order(7, 5), Level::Certified);
    let accepted = counter.accept(0);
    let (other, digest) = entry(&draft(&theirs(7, 9)), 1);
    let (id, transfer) = (other.id, other.transfer);
    counter.teller.hear(Output::Settled { first: 1, entries: vec![(other.into(), digest)] });
    counter.teller.hear(Output::Progress { level: Level::Stable, entries: vec![(id, transfer)] });
    assert!(answer.try_recv().is_err(), "nothing is said of another's payment");
    let mut again = counter.teller.pay(&order(7, 5), Level::Certified);
    assert!(again.try_recv().is_err(), "it is the same order");
    counter.settle(2, accepted.clone(), Level::Certified);
    for answer in [&mut answer, &mut again] {
        let paid = told(answer).expect("it is paid");
        assert_eq!((paid.digest, paid.level), (accepted.1, Level::Certified));
    }
    assert_eq!(counter.orders().len(), 1);
}

#[test]
fn what_another_payer_calls_so_answers_no_order_after_a_restart() {
    let counter = Counter::new();
    let (other, digest) = entry(&draft(&theirs(7, 9)), 1);
    counter.teller.hear(Output::Settled { first: 1, entries: vec![(other.into(), digest)] });
    let counter = counter.again();
    let mut answer = counter.teller.pay(&order(7, 5), Level::Certified);
    // The replica knows it from before.
    let (own, digest) = entry(&draft(&order(7, 5)), 3);
    let (ticket, _) = counter.orders()[0].clone();
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Exists(own.id) });
    counter.settle(2, (own, digest), Level::Certified);
    assert_eq!(told(&mut answer).expect("it is paid").digest, digest);
}

#[test]
fn two_payers_who_use_one_name_at_one_time_are_both_paid() {
    let counter = Counter::new();
    let mut answers = [order(7, 5), theirs(7, 5)].map(|order| counter.teller.pay(&order, Level::Certified));
    let accepted = [counter.accept(0), counter.accept(1)];
    assert_ne!(accepted[0].0.id.spender, accepted[1].0.id.spender);
    // In the other order than they came.
    counter.settle(1, accepted[1].clone(), Level::Certified);
    assert!(answers[0].try_recv().is_err(), "nothing is said of the other's");
    assert_eq!(told(&mut answers[1]).expect("it is paid").digest, accepted[1].1);
    counter.settle(2, accepted[0].clone(), Level::Certified);
    assert_eq!(told(&mut answers[0]).expect("it is paid").digest, accepted[0].1);
    // Each has its own answer again, before and after a restart.
    counter.kept();
    let counter = counter.again();
    for (order, (_, digest)) in [order(7, 5), theirs(7, 5)].iter().zip(&accepted) {
        let mut again = counter.teller.pay(order, Level::Certified);
        assert_eq!(told(&mut again).expect("it was paid").digest, *digest);
    }
    assert!(counter.orders().is_empty(), "nothing is paid again");
}

#[test]
fn a_level_of_another_place_is_told_to_nobody() {
    let counter = Counter::new();
    let mut answer = counter.teller.pay(&order(7, 5), Level::Settled);
    let accepted = counter.accept(0);
    let progress = |n, level| {
        let id = EntryId { n, ..accepted.0.id };
        counter.teller.hear(Output::Progress { level, entries: vec![(id, 7)] });
    };
    progress(9, Level::Stable);
    assert!(answer.try_recv().is_err(), "it is the level of another entry");
    counter.settle(1, accepted.clone(), Level::Certified);
    progress(9, Level::Stable);
    assert!(answer.try_recv().is_err(), "it is the level of another entry");
    progress(1, Level::Settled);
    assert_eq!(told(&mut answer).expect("paid").level, Level::Settled);
    let again = counter.teller.pay(&order(7, 5), Level::Certified).try_recv().expect("at once");
    assert_eq!(again.expect("paid").level, Level::Settled);
}

#[test]
fn a_level_that_was_told_before_the_place_of_an_order_was_known_counts() {
    let counter = Counter::new();
    let mut answer = counter.teller.pay(&order(7, 5), Level::Settled);
    let (own, digest) = entry(&draft(&order(7, 5)), 3);
    let (ticket, _) = counter.orders()[0].clone();
    counter.teller.hear(Output::Progress { level: Level::Settled, entries: vec![(own.id, 7)] });
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Exists(own.id) });
    counter.teller.hear(Output::Settled { first: 1, entries: vec![(own.into(), digest)] });
    assert_eq!(told(&mut answer).expect("paid").level, Level::Settled);
}

#[test]
fn who_asks_for_a_name_that_several_have_is_to_name_the_payer() {
    let counter = Counter::new();
    let settled = [theirs(7, 9), Order { from: account(2, 1), ..order(7, 1) }, order(8, 1)];
    for (position, order) in (1..).zip(&settled) {
        let (entry, digest) = entry(&draft(order), position);
        counter.teller.hear(Output::Settled { first: position, entries: vec![(entry.into(), digest)] });
    }
    counter.kept();
    assert_eq!(found(&counter, 7, None), Err(Denied::Ambiguous(7)));
    let Ok(Found::Payment(named)) = found(&counter, 7, Some(4)) else { unreachable!("it has one") };
    assert_eq!(named.entry.id.spender, account(0, 4));
    assert_eq!(found(&counter, 7, Some(1)), Ok(Found::Nothing));
    assert!(matches!(found(&counter, 8, None), Ok(Found::Payment(_))));
    // An order that is under way is one of the name's, too.
    let _answer = counter.teller.pay(&paying(9, account(1, 2), 5), Level::Settled);
    assert_eq!(found(&counter, 9, None), Ok(Found::UnderWay));
    let (other, digest) = entry(&draft(&theirs(9, 5)), 1);
    counter.teller.hear(Output::Settled { first: 4, entries: vec![(other.into(), digest)] });
    assert_eq!(found(&counter, 9, None), Err(Denied::Ambiguous(9)));
    assert_eq!(found(&counter, 10, None), Ok(Found::Nothing));
}
