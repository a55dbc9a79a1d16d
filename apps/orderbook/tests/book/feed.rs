//! Depth and feed: who applies the changes of a slot to the depth before it has the depth behind it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use synod_orderbook::{Answer, Config, Depth, Level, Order, Question, Side, Symbol};
use synod_wire::Drawn;

use crate::floor::{Floor, S, buy, sell};
use crate::properties::{operation, sender};

fn depth(floor: &Floor) -> Depth {
    match floor.answer(Question::Depth { symbol: S, levels: 256 }) {
        Answer::Depth(depth) => depth,
        other => unreachable!("{other:?}"),
    }
}

type Levels = BTreeMap<(Side, u64), Level>;

fn levels(depth: &Depth) -> Levels {
    let side = |side, levels: &[Level]| levels.iter().map(|level| ((side, level.price.0), *level)).collect();
    let mut all: Levels = side(Side::Buy, &depth.bids);
    all.append(&mut side(Side::Sell, &depth.offers));
    all
}

proptest! {
    #[test]
    fn a_depth_and_the_changes_behind_it_are_the_later_depth(seed in any::<u64>(), count in 1..80_u64) {
        let mut draw = Drawn::new(seed);
        let mut floor = Floor::new();
        let mut mine = depth(&floor);
        let mut shown = levels(&mine);
        for _ in 0..count {
            let bodies: Vec<_> = (0..1 + draw.below(6))
                .map(|_| {
                    let operation = operation(&mut draw, floor.requests, floor.time);
                    (sender(&mut draw, &operation), synod_wire::Wire::encode(&operation))
                })
                .collect();
            floor.slot(&bodies);
            let Answer::Feed { lost, changes } = floor.answer(Question::Feed { symbol: S, after: mine.change }) else {
                unreachable!("the feed")
            };
            prop_assert_eq!(lost, 0);
            for change in &changes {
                mine.change += 1;
                prop_assert_eq!(change.number, mine.change);
                prop_assert_eq!(change.position.0, floor.position);
                let key = (change.side, change.level.price.0);
                if change.level.orders == 0 {
                    shown.remove(&key);
                } else {
                    shown.insert(key, change.level);
                }
            }
            let now = depth(&floor);
            prop_assert_eq!(&levels(&now), &shown);
            prop_assert_eq!(now.change, mine.change);
        }
    }
}

#[test]
fn a_level_that_changed_twice_in_a_slot_is_told_once_and_lost_changes_show() {
    let mut floor = Floor::within(Config { symbols: 2, feed_max: 2, ..Config::default() });
    let place = |order: Order| synod_wire::Wire::encode(&synod_orderbook::Operation::Place(order));
    floor.slot(&[(1, place(buy(1, 5))), (2, place(buy(2, 5))), (1, place(sell(1, 7)))]);
    let feed = |floor: &Floor, after| match floor.answer(Question::Feed { symbol: S, after }) {
        Answer::Feed { lost, changes } => (lost, changes.into_vec()),
        other => unreachable!("{other:?}"),
    };
    let (lost, changes) = feed(&floor, 0);
    assert_eq!((lost, changes.len()), (0, 2));
    assert_eq!((changes[0].level.lots.0, changes[0].level.orders), (3, 2));
    floor.rests(1, buy(1, 4));
    let (lost, changes) = feed(&floor, 0);
    assert_eq!((lost, changes.iter().map(|change| change.number).collect::<Vec<_>>()), (1, vec![2, 3]));
}

#[test]
fn the_best_of_each_side_and_no_symbol() {
    let mut floor = Floor::new();
    floor.rests(1, buy(1, 5));
    floor.rests(1, buy(1, 4));
    floor.rests(1, sell(1, 7));
    let Answer::Depth(best) = floor.answer(Question::Best(S)) else { unreachable!("the best") };
    assert_eq!((best.bids[0].price.0, best.offers[0].price.0), (5, 7));
    assert_eq!((best.bids.len(), best.offers.len(), best.whole), (1, 1, false));
    let none = floor.answer(Question::Best(Symbol(2)));
    assert_eq!(none, Answer::None(synod_orderbook::Code::NoSymbol));
}
