//! The board: who wins a pixel, and that it is a replay of the log.

mod lanes;
mod text;

use std::collections::BTreeMap;

use proptest::prelude::*;
use synod_crypto::Hash;
use synod_service::{At, Position, Wall};

use super::{Board, Code, SIDE, operation};

fn at(position: u64) -> At {
    At { position: Position(position), time: Wall(0), draw: Hash::of(&position.to_le_bytes()) }
}

fn paint(x: u32, y: u32, colour: u32) -> u64 {
    operation(x, y, colour).expect("on the board")
}

#[test]
fn corners_are_painted_and_what_lies_beside_the_board_is_refused() {
    let mut board = Board::default();
    let last = SIDE - 1;
    let asked = [(1, paint(0, last, 1)), (2, paint(last, 0, 0xff_ffff)), (3, paint(last, last, 7) | 1 << 46)];
    assert_eq!(board.execute(&at(1), asked), [Code::Painted, Code::Painted, Code::Malformed]);
    assert_eq!((board.colour(0, last), board.colour(last, 0)), (Some(1), Some(0xff_ffff)));
    assert_eq!((board.colour(last, last), board.colour(SIDE, 0)), (Some(0), None));
    assert_eq!((operation(SIDE, 0, 0), operation(0, SIDE, 0), operation(0, 0, 1 << 24)), (None, None, None));
}

#[test]
fn ties_are_uniform_over_ids() {
    let mut board = Board::default();
    let mut wins = [0_u32; 8];
    for position in 0..4_000 {
        board.execute(&at(position), (0..8).map(|id| (id, paint(5, 5, id))));
        let winner = board.colour(5, 5).expect("on the board");
        wins[winner as usize] += 1;
    }
    // 500 each; the standard deviation is 21.
    assert!(wins.iter().all(|won| (400..600).contains(won)), "{wins:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_board_is_a_replay_of_the_log_whatever_order_a_batch_lists(
        batches in proptest::collection::vec(
            proptest::collection::btree_map(any::<u32>(), (0_u32..3, 0_u32..3, 0_u32..9), 0..12), 1..8),
    ) {
        let (mut board, mut backwards) = (Board::default(), Board::default());
        let mut model: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (position, batch) in (0..).zip(&batches) {
            let at = at(position);
            let asked: Vec<(u32, u64)> = batch.iter().map(|(id, (x, y, c))| (*id, paint(*x, *y, *c))).collect();
            board.execute(&at, asked.iter().copied());
            backwards.execute(&at, asked.iter().rev().copied());
            let mut ranked: Vec<_> = batch.iter().collect();
            ranked.sort_by_key(|(id, _)| at.rank(**id));
            model.extend(ranked.into_iter().map(|(_, (x, y, c))| ((*x, *y), *c)));
        }
        for ((x, y), colour) in model {
            prop_assert_eq!(board.colour(x, y), Some(colour));
        }
        prop_assert!(board == backwards);
    }
}
