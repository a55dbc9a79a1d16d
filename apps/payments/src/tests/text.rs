//! Payments as text.

use proptest::prelude::*;

use crate::text::{answer, code, parse, question, show};
use crate::{Code, PaymentLanes, operation};
use synod_service::lanes::State;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_shown_is_read_again(asked: u64) {
        match show(asked) {
            Some(text) => prop_assert_eq!(parse(&text), Ok(asked)),
            None => prop_assert!(asked >> 28 & 15 != 0),
        }
    }
}

#[test]
fn other_words_are_refused_with_the_form() {
    assert_eq!(parse(" pay  7 8 "), Ok(operation(7, 8).expect("a short id")));
    for text in
        ["", "pay", "pay 7", "pay 7 8 9", "buy 7 8", "pay 268435456 1", "pay 1 4294967296", "pay -1 1"]
    {
        let why = parse(text).expect_err("no payment");
        assert!(why.to_string().contains("pay TO AMOUNT"), "{text}: {why}");
    }
    assert!(question("balance").is_err() && question("balance 1 2").is_err() && question("pay 1").is_err());
}

#[test]
fn a_balance_is_asked_and_answered() {
    let state = State::new(PaymentLanes::new(9).expect("little money"), 2, 4);
    let ask = |text| state.query(&question(text).expect("a question")).expect("understood");
    assert_eq!((answer(&ask("balance 3")), answer(&ask("balance 4"))), (Some(9), None));
    let codes = [Code::Paid, Code::Malformed, Code::NoAccount, Code::NoAmount, Code::Short];
    let mut words: Vec<&str> = codes.map(|one| code(one.byte())).into();
    words.extend([code(255), code(254)]);
    words.sort_unstable();
    words.dedup();
    assert_eq!((words.len(), code(99), words.contains(&"unknown")), (7, "unknown", false));
}
