//! Auctions over lanes: the same as in one go, whatever the number of lanes, while clients sign up.

use std::collections::BTreeMap;

use proptest::prelude::*;
use synod_service::lanes::{Batch, NOT_DELIVERED, State};

use super::{at, offer, sell};
use crate::{AuctionLanes, Code, House};

const LANES: [u8; 4] = [1, 2, 7, 16];
/// Accounts and tokens of a chunk: lanes are cut between chunks.
const ACCOUNTS: u32 = 4_096;
const TOKENS: u32 = 2_048;
const ENDOWED: u32 = 9 * TOKENS + 3;

pub(super) fn batch(height: u64, directory: u32, asked: &BTreeMap<u32, u64>, skipped: Vec<u32>) -> Batch {
    let operations = asked.values().flat_map(|operation| operation.to_le_bytes()).collect::<Vec<u8>>();
    let ids = asked.keys().copied().collect();
    Batch { height, at: at(height), directory, ids, operations: operations.into(), skipped }
}

#[derive(Clone, Debug)]
struct Step {
    directory: u32,
    asked: BTreeMap<u32, u64>,
    skip: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let directory = prop_oneof![Just(3), Just(ACCOUNTS), Just(9 * ACCOUNTS + 1), Just(10 * ACCOUNTS + 2)];
    // The owners of tokens of the first places of chunks, and their neighbours.
    let client = (0_u32..11, 0_u32..3).prop_map(|(chunk, place)| chunk * TOKENS + place);
    let token = (0_u32..3, 0_u32..4).prop_map(|(chunk, place)| chunk * 4 * TOKENS + place);
    let operation = (0_u32..3, token, 0_u32..50).prop_map(|(kind, token, amount)| match kind {
        0 => sell(token),
        _ => offer(token, amount),
    });
    let asked = proptest::collection::btree_map(client, operation, 0..33);
    let step =
        (directory, asked, 2_u32..9).prop_map(|(directory, asked, skip)| Step { directory, asked, skip });
    proptest::collection::vec(step, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lanes_judge_as_the_house_does(steps in steps()) {
        let app = AuctionLanes::new(40, ENDOWED).expect("little money");
        let mut house = House::granting(40, ENDOWED, 0).expect("little money");
        let mut states = LANES.map(|lanes| State::new(app, lanes, 0));
        for (height, step) in (1..).zip(&steps) {
            let skipped: Vec<u32> =
                (0..).take(step.asked.len()).filter(|index| index % step.skip == 1).collect();
            house.grow(step.directory);
            let delivered = (0..).zip(&step.asked).filter(|(index, _)| !skipped.contains(index));
            let delivered = delivered.map(|(_, (id, asked))| (*id, *asked));
            let mut codes = house.execute(&at(height), delivered).into_iter();
            let codes: Vec<u8> = (0..)
                .take(step.asked.len())
                .map(|index| if skipped.contains(&index) { NOT_DELIVERED } else { codes.next().expect("one each").byte() })
                .collect();
            let batch = batch(height, step.directory, &step.asked, skipped);
            for state in &mut states {
                prop_assert_eq!(&state.execute(&batch), &codes);
            }
        }
        house.invariants();
        for state in &states {
            state.invariants();
            prop_assert_eq!(state.root(), house.root());
        }
    }
}

#[test]
fn a_token_changes_hands_between_lanes() {
    let (buyer, token) = (9 * ACCOUNTS, 8 * TOKENS);
    let app = AuctionLanes::new(50, ENDOWED).expect("little money");
    for lanes in LANES {
        let mut state = State::new(app, lanes, 10 * ACCOUNTS);
        let bid = BTreeMap::from([(token, offer(token, 1)), (buyer, offer(token, 20))]);
        assert_eq!(state.execute(&batch(1, 0, &bid, vec![])), [Code::Owner.byte(), Code::Bid.byte()]);
        let taken = BTreeMap::from([(token, sell(token))]);
        assert_eq!(state.execute(&batch(2, 0, &taken, vec![])), [Code::Taken.byte()]);
        state.invariants();
        let ask = |kind: u8, number: u32| {
            let question: Vec<u8> = core::iter::once(kind).chain(number.to_le_bytes()).collect();
            let answer = state.query(&question).expect("a question of auctions");
            answer.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<u64>>()
        };
        assert_eq!(ask(0, buyer), [30, 0], "{lanes} lanes");
        assert_eq!(ask(0, token), [70, 0]);
        assert_eq!(ask(1, token), [u64::from(buyer), u64::from(u32::MAX), 0]);
        assert_eq!((ask(0, 10 * ACCOUNTS), ask(1, ENDOWED)), (vec![], vec![]));
        assert_eq!((state.query(&[2, 0, 0, 0, 0]), state.query(b"?")), (None, None));
    }
}
