//! Auctions as text.

use proptest::prelude::*;
use synod_service::lanes::State;

use crate::text::{Known, answer, code, parse, question, show};
use crate::{AuctionLanes, bid, take};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_shown_is_read_again(asked: u64) {
        match show(asked) {
            Some(text) => prop_assert_eq!(parse(&text), Ok(asked)),
            None => prop_assert!(asked & 1 == 1 && asked >> 32 != 0),
        }
        let taken = asked & 0xffff_ffff | 1;
        prop_assert_eq!(parse(&show(taken).expect("a take")), Ok(taken));
    }
}

#[test]
fn other_words_are_refused_with_the_form() {
    assert_eq!((parse("bid 3 4").ok(), parse("take 3").ok()), (bid(3, 4), take(3)));
    for text in ["", "bid", "bid 1", "take", "take 1 2", "bid 2147483648 1", "sell 1", "bid 1 4294967296"] {
        let why = parse(text).expect_err("no operation");
        assert!(why.to_string().contains("bid TOKEN AMOUNT or take TOKEN"), "{text}: {why}");
    }
    assert!(question("money").is_err() && question("token x").is_err() && question("owner 1").is_err());
}

#[test]
fn money_and_tokens_are_asked_and_answered() {
    let mut state = State::new(AuctionLanes::new(9, 2).expect("little money"), 2, 4);
    state.execute(&super::lanes::batch(1, 0, &[(3, super::offer(0, 4))].into(), vec![]));
    let ask = |text| answer(&state.query(&question(text).expect("a question")).expect("understood"));
    assert_eq!(ask("money 3"), Some(Known::Money { available: 5, locked: 4 }));
    assert_eq!(ask("token 0"), Some(Known::Token { owner: 0, best: Some((3, 4)) }));
    assert_eq!(ask("token 1"), Some(Known::Token { owner: 1, best: None }));
    assert_eq!((ask("token 2"), ask("money 4"), answer(&[1; 9])), (None, None, None));
    let mut words: Vec<&str> = (0..10).chain([254, 255]).map(code).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!((words.len(), words.contains(&"unknown")), (12, false));
}
