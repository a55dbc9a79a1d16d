//! The board over lanes: the same as in one go, whatever the number of lanes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use synod_service::lanes::{Batch, NOT_DELIVERED, State};

use super::{at, paint};
use crate::{Board, PixelLanes, SIDE, TILE_ROWS, colour};

const LANES: [u8; 4] = [1, 2, 7, 16];

fn batch(height: u64, asked: &BTreeMap<u32, u64>, skipped: Vec<u32>) -> Batch {
    let operations = asked.values().flat_map(|operation| operation.to_le_bytes()).collect::<Vec<u8>>();
    let ids = asked.keys().copied().collect();
    Batch { height, at: at(height), directory: 0, ids, operations: operations.into(), skipped }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lanes_paint_as_the_board_does(
        batches in proptest::collection::vec(
            proptest::collection::btree_map(any::<u32>(), (0_u32..4, 0_u32..4, 0_u32..9, any::<bool>()), 0..60), 1..8),
        skip in 2_u32..9,
    ) {
        let mut board = Board::default();
        let mut states = LANES.map(|lanes| State::new(PixelLanes, lanes, 0));
        for (height, batch_of) in (1..).zip(&batches) {
            // Few pixels in four bands of rows, so that strokes meet; some are malformed.
            let ask = |(id, (x, y, c, bad)): (&u32, &(u32, u32, u32, bool))| {
                (*id, paint(*x, y * 600, *c) | if *bad && c % 4 == 0 { 1 << 50 } else { 0 })
            };
            let asked: BTreeMap<u32, u64> = batch_of.iter().map(ask).collect();
            let skipped: Vec<u32> = (0..).take(asked.len()).filter(|index| index % skip == 1).collect();
            let delivered = (0..).zip(&asked).filter(|(index, _)| !skipped.contains(index));
            let mut codes = board.execute(&at(height), delivered.map(|(_, (id, asked))| (*id, *asked))).into_iter();
            let codes: Vec<u8> = (0..)
                .take(asked.len())
                .map(|index| if skipped.contains(&index) { NOT_DELIVERED } else { codes.next().expect("one each").byte() })
                .collect();
            for state in &mut states {
                prop_assert_eq!(&state.execute(&batch(height, &asked, skipped.clone())), &codes);
            }
        }
        let root = board.root();
        for state in &states {
            state.invariants();
            prop_assert_eq!(state.root(), root);
        }
    }
}

#[test]
fn a_tile_is_eight_rows_of_three_bytes_a_pixel() {
    let mut state = State::new(PixelLanes, 7, 0);
    let asked = BTreeMap::from([(4, paint(1, 8, 0x12_3456)), (5, paint(SIDE - 1, 15, 0xff_0001))]);
    state.execute(&batch(1, &asked, vec![]));
    assert_eq!(colour(&state, 1, 8), Some(0x12_3456));
    assert_eq!((colour(&state, SIDE, 0), colour(&state, 0, SIDE)), (None, None));
    let tile = state.query(&8_u16.to_le_bytes()).expect("rows of the board");
    assert_eq!(tile.len(), (SIDE * TILE_ROWS * 3) as usize);
    assert_eq!((&tile[3..6], &tile[tile.len() - 3..]), (&[0x12, 0x34, 0x56][..], &[0xff, 0, 1][..]));
    assert_eq!(state.query(&2_048_u16.to_le_bytes()).as_deref(), Some(&[][..]), "below the board");
    assert_eq!(state.query(b"all"), None);
}
