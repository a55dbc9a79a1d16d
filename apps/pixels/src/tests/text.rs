//! Pixels as text.

use proptest::prelude::*;

use crate::text::{board, code, parse, question, rows, show};
use crate::{SIDE, TILE_ROWS, operation};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_shown_is_read_again(asked: u64) {
        match show(asked) {
            Some(text) => prop_assert_eq!(parse(&text), Ok(asked)),
            None => prop_assert!(asked >> 46 != 0),
        }
        let painted = asked & ((1 << 46) - 1);
        prop_assert_eq!(parse(&show(painted).expect("a stroke")), Ok(painted));
    }
}

#[test]
fn other_words_are_refused_with_the_form() {
    assert_eq!(parse("pixel 3 4 00fF10").ok(), operation(3, 4, 0xff10));
    for text in
        ["", "pixel 1 2", "pixel 1 2 red", "pixel 1 2 +12345", "pixel 2048 0 000000", "pixel 1 2 000000 3"]
    {
        let why = parse(text).expect_err("no stroke");
        assert!(why.to_string().contains("pixel X Y RRGGBB"), "{text}: {why}");
    }
}

#[test]
fn the_board_is_asked_tile_by_tile() {
    assert_eq!(board().count(), (SIDE / TILE_ROWS) as usize);
    assert_eq!(board().last(), rows(SIDE - TILE_ROWS));
    assert_eq!((rows(SIDE), question("rows 8").ok()), (None, rows(8)));
    assert!(question("rows 2048").is_err() && question("rows").is_err() && question("board 1").is_err());
    assert_eq!(
        [0, 1, 254, 255, 7].map(code),
        ["painted", "malformed", "not an operation", "not delivered", "unknown"]
    );
}
