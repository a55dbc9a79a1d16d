//! What a teller makes of orders that set money aside, and of those that decide over it.

use synod_astro::{Level, Output};
use synod_ledger::{Code, Entry, EntryId, Kind, Units, Verdict};

use super::{Counter, account, entry, order, told};
use crate::pay::{Denied, Order, What};

/// Anna, 0-0-1, holds 60 for 0-1-2; `resolver` decides.
fn hold(id: u128, resolver: u32) -> Order {
    let (to, resolver) = (account(1, 2), account(resolver, 1));
    Order { what: What::Hold { to, amount: 60, resolver, expires_at: 9 }, ..order(id, 1) }
}

fn decide(id: u128, what: What) -> Order {
    Order { what, ..order(id, 1) }
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
    assert_eq!(told(&mut answer).expect("it is held").entry, accepted.0);
    (counter, accepted.0)
}

#[test]
fn a_hold_is_posted_in_part_or_as_a_whole_or_voided_by_its_name() {
    for (what, wanted) in [
        (What::Post { hold: 8, amount: None }, Some(60)),
        (What::Post { hold: 8, amount: Some(5) }, Some(5)),
        (What::Void { hold: 8 }, None),
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
    assert_eq!(denied(&decide(9, What::Void { hold: 7 })), Denied::Ledger(Code::HoldNotFound));
    let other = Order { from: account(0, 5), ..decide(9, What::Void { hold: 8 }) };
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
        (decide(8, What::Void { hold: 8 }), "kind"),
    ] {
        assert_eq!(answer(&order).map(|_| ()), Err(Denied::Different(field)));
    }
}

#[test]
fn a_decision_is_in_the_history_of_whoever_it_touches_and_the_hold_names_it() {
    let (counter, held) = held();
    assert!(counter.teller.index().decided(held.id).is_none());
    let _answer = counter.teller.pay(&decide(9, What::Post { hold: 8, amount: Some(5) }), Level::Certified);
    let (decision, digest) = entry(&counter.orders()[1].1, 2);
    // Another account decides, whose log this is.
    let id = EntryId { spender: account(3, 1), n: 1 };
    let decision = Entry { id, ..decision };
    counter.teller.hear(Output::Settled { position: 2, entry: decision, digest });
    assert_eq!(counter.teller.kept().blocking_recv().expect("it is answered"), Ok(()));
    let index = counter.teller.index();
    assert_eq!(index.decided(held.id).map(|by| by.entry.transfer), Some(9));
    for account in [account(0, 1), account(1, 2)] {
        let names: Vec<u128> = index.history(account, 0, 9).iter().map(|one| one.entry.transfer).collect();
        assert_eq!(names, [8, 9], "{account}");
    }
    assert_eq!(index.history(account(3, 1), 0, 9).len(), 1);
}
