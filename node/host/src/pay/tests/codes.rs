//! Section 6 of the specification, as a node tells it: every code with its class, its status, and the routes that can answer with it.

use synod_astro::{Level, Output, Refusal};
use synod_config::{ROUTES, Retry, explain};
use synod_ledger::{Class, Code};
use synod_wire::{Bytes, Limits, Wire};

use super::{Counter, account, order, paying, told};
use crate::pay::Denied;

/// All codes of the ledger.
fn codes() -> Vec<Code> {
    let read = |tag: u8| Code::decode(Bytes::copy_from_slice(&[tag]), &Limits { frame_max: 1 }).ok();
    (0..=u8::MAX).filter_map(read).collect()
}

#[test]
fn every_code_of_the_ledger_has_its_class_and_its_status_in_the_catalogue() {
    let codes = codes();
    assert_eq!(codes.len(), 26);
    for code in codes {
        let number = code.number();
        let row = explain(synod_config::Code::new(number)).expect("a row of the catalogue");
        let (retry, status) = match code.class() {
            Class::Permanent => (Retry::Permanent, if number == 3_003 { 501 } else { 409 }),
            Class::Transient => (Retry::Temporary, if number == 3_402 { 429 } else { 409 }),
        };
        assert_eq!((row.retry, row.http), (retry, Some(status)), "SYN-{number}");
    }
    for (number, retry, status) in [
        (3_001, Retry::Permanent, 400),
        (3_002, Retry::Permanent, 413),
        (3_116, Retry::Permanent, 409),
        (3_132, Retry::Temporary, 404),
        (3_501, Retry::Unknown, 504),
    ] {
        let row = explain(synod_config::Code::new(number)).expect("a row of the catalogue");
        assert_eq!((row.retry, row.http), (retry, Some(status)), "SYN-{number}");
    }
    // What is not built is told by no node: refusals bind no name, profiles I and II and several
    // networks or views are hosted by none.
    for absent in [3_101, 3_103, 3_111, 3_117, 3_121, 3_122] {
        assert!(explain(synod_config::Code::new(absent)).is_none(), "SYN-{absent}");
    }
}

/// Where orders get their places from the node, none is of a wrong place; limits and closing have routes of their own, and what owners sign has no route there.
#[test]
fn routes_name_every_code_that_their_orders_can_come_to() {
    let signed = [3_112, 3_113, 3_114, 3_129, 3_131];
    // Profile II alone has kinds that are unsupported; an owner has no limit to lower.
    let nowhere = [3_003, 3_130];
    for (route, is_signed) in
        [("pay_transfer", false), ("pay_create_transfers", false), ("pay_check", true), ("pay_submit", true)]
    {
        let route = ROUTES.iter().find(|one| one.name == route).expect("a route");
        for code in codes() {
            let number = code.number();
            let comes = !nowhere.contains(&number) && (is_signed || !signed.contains(&number));
            assert_eq!(route.codes.contains(&number), comes, "{}: SYN-{number}", route.name);
        }
        assert!([3_001, 3_116, 3_501].iter().all(|code| route.codes.contains(code)), "{}", route.name);
    }
}

/// Rows 3111, 3116 and 3117: the first result again, another content by its field, and a refusal that binds no name.
#[test]
fn an_order_that_is_given_again_has_its_first_result_and_a_refused_one_may_be_taken_later() {
    let counter = Counter::new();
    let mut refused = counter.teller.pay(&order(7, 5), Level::Certified);
    let (ticket, _) = counter.orders()[0].clone();
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Ledger(Code::InsufficientFunds) });
    assert_eq!(told(&mut refused), Err(Denied::Ledger(Code::InsufficientFunds)));
    let mut paid = counter.teller.pay(&order(7, 5), Level::Certified);
    let accepted = counter.accept(1);
    counter.settle(1, accepted.clone(), Level::Certified);
    let first = told(&mut paid).expect("it is paid");
    let mut again = counter.teller.pay(&order(7, 5), Level::Certified);
    let again = told(&mut again).expect("it was paid");
    assert_eq!((again.digest, again.place()), (first.digest, first.place()));
    for (other, field) in [(order(7, 6), "amount"), (paying(7, account(1, 9), 5), "payee")] {
        let mut other = counter.teller.pay(&other, Level::Certified);
        assert_eq!(told(&mut other), Err(Denied::Different(field)));
    }
    assert_eq!(counter.orders().len(), 2, "nothing is given twice");
}
