//! What a teller makes of orders that set money aside, and of those that decide over it.

use synod_astro::{Level, Output};
use synod_ledger::{Code, Entry, EntryId, Kind, Units, Verdict};

use super::{Counter, account, draft, entry, order, told};
use crate::pay::{Denied, Named, Order, What};

/// Anna, 0-0-1, holds 60 for 0-1-2; `resolver` decides.
fn hold(id: u128, resolver: u32) -> Order {
    let (to, resolver) = (account(1, 2), account(resolver, 1));
    Order { what: What::Hold { to, amount: 60, resolver, expires_at: 9 }, ..order(id, 1) }
}

fn decide(id: u128, what: What) -> Order {
    Order { what, ..order(id, 1) }
}

/// A hold by its name alone.
const fn named(id: u128) -> Named {
    Named { id, payer: None }
}

/// The kind of the nth order that was given.
fn kind(counter: &Counter, nth: usize) -> Kind {
    counter.orders()[nth].1.kind.clone()
}

/// A counter where a hold of name 8 settled, of which 0-0-1 decides.
fn held() -> (Counter, Entry) {
    let counter = Counter::new();
    let mut answer = counter.teller.pay(&hold(8, 0), Level::Certified);
    let accepted = counter.accept(0);
    counter.settle(1, accepted.clone(), Level::Certified);
    assert_eq!(*told(&mut answer).expect("it is held").entry, accepted.0);
    counter.kept();
    (counter, accepted.0)
}

#[test]
fn a_hold_is_posted_in_part_or_as_a_whole_or_voided_by_its_name() {
    for (what, wanted) in [
        (What::Post { hold: named(8), amount: None }, Some(60)),
        (What::Post { hold: named(8), amount: Some(5) }, Some(5)),
        (What::Void { hold: named(8) }, None),
    ] {
        let (counter, held) = held();
        let _answer = counter.teller.pay(&decide(9, what), Level::Certified);
        let Kind::Resolve { holds, verdict } = kind(&counter, 1) else { unreachable!("it decides") };
        assert_eq!(holds.to_vec(), [held.id]);
        let posted = match verdict {
            Verdict::Post(amounts) => Some(amounts.to_vec()),
            Verdict::Void => None,
        };
        assert_eq!(posted, wanted.map(|amount| vec![Units(amount)]));
    }
}

#[test]
fn who_decides_over_a_hold_that_is_not_here_or_not_theirs_is_refused() {
    let (counter, _) = held();
    let denied = |order: &Order| {
        let answer = counter.teller.pay(order, Level::Certified).try_recv().expect("at once");
        answer.map(|_| ()).expect_err("it is refused")
    };
    assert_eq!(denied(&decide(9, What::Void { hold: named(7) })), Denied::Ledger(Code::HoldNotFound));
    let other = Order { from: account(0, 5), ..decide(9, What::Void { hold: named(8) }) };
    assert_eq!(denied(&other), Denied::Ledger(Code::HoldWrongResolver));
    let many = vec![(account(1, 2), 1); 65];
    assert_eq!(denied(&decide(9, What::Multi(many))), Denied::Ledger(Code::TooManyLegs));
    assert_eq!(counter.orders().len(), 1, "nothing of it was given");
}

#[test]
fn a_name_is_one_order_whatever_it_orders() {
    let (counter, _) = held();
    let answer = |order: &Order| counter.teller.pay(order, Level::Certified).try_recv().expect("at once");
    assert!(answer(&hold(8, 0)).is_ok(), "the same order has the same answer");
    let shorter = What::Hold { to: account(1, 2), amount: 60, resolver: account(0, 1), expires_at: 8 };
    let less = What::Hold { to: account(1, 2), amount: 59, resolver: account(0, 1), expires_at: 9 };
    for (order, field) in [
        (hold(8, 2), "resolver"),
        (decide(8, less), "amount"),
        (decide(8, shorter), "expires_at"),
        (order(8, 60), "kind"),
        (decide(8, What::Multi(vec![(account(1, 2), 60)])), "kind"),
        (decide(8, What::Void { hold: named(8) }), "kind"),
    ] {
        assert_eq!(answer(&order).map(|_| ()), Err(Denied::Different(field)));
    }
}

#[test]
fn a_decision_is_in_the_history_of_whoever_it_touches_and_the_hold_names_it() {
    let (counter, held) = held();
    assert!(counter.teller.index().decided(held.id).is_none());
    let _answer =
        counter.teller.pay(&decide(9, What::Post { hold: named(8), amount: Some(5) }), Level::Certified);
    let (decision, digest) = entry(&counter.orders()[1].1, 2);
    // Another account decides, whose log this is.
    let id = EntryId { spender: account(3, 1), n: 1 };
    let decision = Entry { id, ..decision };
    counter.teller.hear(Output::Settled { first: 2, entries: vec![(decision.into(), digest)] });
    counter.kept();
    let index = counter.teller.index();
    assert_eq!(index.decided(held.id).map(|by| by.entry.transfer), Some(9));
    for account in [account(0, 1), account(1, 2)] {
        let names: Vec<u128> =
            index.history(account, 0, 9).entries.iter().map(|one| one.entry.transfer).collect();
        assert_eq!(names, [8, 9], "{account}");
    }
    assert_eq!(index.history(account(3, 1), 0, 9).entries.len(), 1);
}

/// What settles here of others, as many as are told, behind what has settled.
fn others(counter: &Counter, orders: &[Order]) {
    let first = counter.teller.index().position() + 1;
    for (position, order) in (first..).zip(orders) {
        let (entry, digest) = entry(&draft(order), position);
        counter.teller.hear(Output::Settled { first: position, entries: vec![(entry.into(), digest)] });
    }
    counter.kept();
}

/// The places that the nth order decides over.
fn decided(counter: &Counter, nth: usize) -> Vec<EntryId> {
    let Kind::Resolve { holds, .. } = kind(counter, nth) else { unreachable!("it decides") };
    holds.to_vec()
}

#[test]
fn a_name_that_others_use_hides_no_hold_however_often_they_use_it() {
    let counter = Counter::new();
    let shadows = (1..=1_200).map(|local| Order { from: account(0, local), ..order(8, 1) });
    let theirs = Order { from: account(3, 1), ..hold(8, 0) };
    others(&counter, &shadows.chain([theirs]).collect::<Vec<_>>());
    let _answer =
        counter.teller.pay(&decide(9, What::Post { hold: named(8), amount: None }), Level::Certified);
    assert_eq!(decided(&counter, 0), [EntryId { spender: account(3, 1), n: 1_201 }]);
}

#[test]
fn of_several_holds_of_one_name_the_payer_is_named_and_those_that_are_decided_are_passed_over() {
    let (counter, own) = held();
    // Who wants to have this one posted in place of the other calls it by the same name.
    let liar = What::Hold { to: account(2, 9), amount: 1, resolver: account(0, 1), expires_at: 9 };
    let liar = Order { from: account(2, 1), ..decide(8, liar) };
    others(&counter, std::slice::from_ref(&liar));
    let post = |id, payer| decide(id, What::Post { hold: Named { id: 8, payer }, amount: None });
    let ask = |order: &Order| counter.teller.pay(order, Level::Certified);
    assert_eq!(told(&mut ask(&post(9, None))), Err(Denied::Ambiguous(8)));
    assert_eq!(told(&mut ask(&post(9, Some(account(1, 1))))), Err(Denied::Ledger(Code::HoldNotFound)));
    assert_eq!(counter.orders().len(), 1, "nothing of it was given");
    let mut first = ask(&post(9, Some(account(0, 1))));
    assert_eq!(decided(&counter, 1), [own.id]);
    let accepted = counter.accept(1);
    counter.settle(3, accepted, Level::Certified);
    assert!(told(&mut first).is_ok());
    counter.kept();
    let _second = ask(&post(10, None));
    assert_eq!(decided(&counter, 2), [EntryId { spender: account(2, 1), n: 2 }], "one is left");
}

#[test]
fn a_decision_that_is_sent_again_has_its_answer_whatever_came_under_the_names_since() {
    let (counter, own) = held();
    let post = decide(9, What::Post { hold: named(8), amount: Some(5) });
    let mut answer = counter.teller.pay(&post, Level::Certified);
    let accepted = counter.accept(1);
    counter.settle(2, accepted.clone(), Level::Certified);
    assert!(told(&mut answer).is_ok());
    others(&counter, &[Order { from: account(3, 1), ..hold(8, 0) }]);
    let ask = |order: &Order| told(&mut counter.teller.pay(order, Level::Certified));
    let named_by =
        |payer| decide(9, What::Post { hold: Named { id: 8, payer: Some(payer) }, amount: Some(5) });
    for again in [post, named_by(own.id.spender)] {
        assert_eq!(ask(&again).expect("it was posted").digest, accepted.1);
    }
    for (other, field) in [
        (named_by(account(3, 1)), "pending_id"),
        (decide(9, What::Post { hold: named(7), amount: Some(5) }), "pending_id"),
        (decide(9, What::Post { hold: named(8), amount: Some(6) }), "amount"),
        (decide(9, What::Post { hold: named(8), amount: None }), "amount"),
        (decide(9, What::Void { hold: named(8) }), "kind"),
        (decide(8, What::Void { hold: named(8) }), "kind"),
    ] {
        assert_eq!(ask(&other).map(|_| ()), Err(Denied::Different(field)), "{other:?}");
    }
    let late = Named { id: 8, payer: Some(own.id.spender) };
    assert_eq!(ask(&decide(10, What::Void { hold: late })), Err(Denied::Ledger(Code::HoldResolved)));
    assert_eq!(counter.orders().len(), 2, "nothing is decided twice");
}
