//! Auctions: the rules one by one, and the invariant over any batches.

mod lanes;
mod text;

use proptest::prelude::*;
use synod_crypto::Hash;
use synod_service::{At, Position, Wall};

use super::{Code, House, bid, take};

fn at(position: u64) -> At {
    At { position: Position(position), time: Wall(0), draw: Hash::of(&position.to_le_bytes()) }
}

fn offer(token: u32, amount: u32) -> u64 {
    bid(token, amount).expect("a short id")
}

fn sell(token: u32) -> u64 {
    take(token).expect("a short id")
}

#[test]
fn a_token_is_bid_for_outbid_and_taken() {
    let mut house = House::new(&[0, 50, 50], &[0]).expect("little money");
    assert_eq!(house.execute(&at(1), [(1, offer(0, 20))]), [Code::Bid]);
    assert_eq!((house.money(1), house.token(0)), (Some((30, 20)), Some((0, Some((1, 20))))));
    assert_eq!(house.execute(&at(2), [(2, offer(0, 30))]), [Code::Bid]);
    assert_eq!((house.money(1), house.money(2)), (Some((50, 0)), Some((20, 30))));
    assert_eq!(house.execute(&at(3), [(0, sell(0))]), [Code::Taken]);
    assert_eq!(
        (house.money(0), house.money(2), house.token(0)),
        (Some((30, 0)), Some((20, 0)), Some((2, None)))
    );
    house.invariants();
}

#[test]
fn each_rule_has_its_code_and_a_refused_operation_changes_nothing() {
    let mut house = House::new(&[10, 50, 50], &[0, 1]).expect("little money");
    house.execute(&at(1), [(1, offer(0, 20))]);
    for (sender, asked, code) in [
        (0, sell(0) | 1 << 32, Code::Malformed),
        (3, offer(0, 30), Code::NoAccount),
        (2, offer(2, 30), Code::NoToken),
        (0, offer(0, 30), Code::Owner),
        (2, offer(0, 20), Code::Low),
        (2, offer(1, 0), Code::Low),
        (2, offer(0, 51), Code::Short),
        (1, offer(0, 31), Code::Short),
        (1, sell(0), Code::NotOwner),
        (1, sell(1), Code::NoBid),
    ] {
        let before = house.clone();
        assert_eq!(house.execute(&at(2), [(sender, asked)]), [code]);
        assert_eq!(house, before, "{code:?}");
    }
    assert_eq!((bid(1 << 31, 1), take(1 << 31)), (None, None));
    assert!(House::new(&[1], &[1]).is_none() && House::new(&[1 << 62, 1 << 62], &[]).is_none());
}

#[test]
fn releases_and_proceeds_count_from_the_next_batch() {
    // Whichever of the two bids comes first, the lower one ends released or refused, and nobody spends it twice.
    for position in 0..40 {
        let mut house = House::new(&[0, 50, 50], &[0, 0]).expect("little money");
        let codes = house.execute(&at(position), [(1, offer(0, 20)), (2, offer(0, 30))]);
        assert!(codes == [Code::Bid, Code::Bid] || codes == [Code::Low, Code::Bid]);
        assert_eq!((house.money(1), house.money(2)), (Some((50, 0)), Some((20, 30))));
        house.invariants();
    }
}

#[test]
fn equal_bids_are_won_uniformly_over_ids() {
    let mut wins = [0_u32; 8];
    for position in 0..4_000 {
        let mut house = House::new(&[9; 9], &[8]).expect("little money");
        house.execute(&at(position), (0..8).map(|id| (id, offer(0, 5))));
        let (_, best) = house.token(0).expect("it is there");
        wins[best.expect("somebody won").0 as usize] += 1;
    }
    // 500 each; the standard deviation is 21.
    assert!(wins.iter().all(|won| (400..600).contains(won)), "{wins:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn money_and_tokens_are_kept_whatever_order_a_batch_lists(
        batches in proptest::collection::vec(
            proptest::collection::btree_map(0_u32..9, (any::<bool>(), 0_u32..5, 0_u32..40), 0..9), 0..20),
    ) {
        let mut house = House::new(&[30; 8], &[0, 1, 2, 0]).expect("little money");
        let mut backwards = house.clone();
        for (position, batch) in (0..).zip(&batches) {
            let ask = |(id, (sells, token, amount)): (&u32, &(bool, u32, u32))| {
                (*id, if *sells { sell(*token) } else { offer(*token, *amount) })
            };
            let asked: Vec<(u32, u64)> = batch.iter().map(ask).collect();
            let codes = house.execute(&at(position), asked.iter().copied());
            let mut reversed = backwards.execute(&at(position), asked.iter().rev().copied());
            reversed.reverse();
            prop_assert_eq!(reversed, codes);
            prop_assert_eq!(house.root(), backwards.root());
            house.invariants();
        }
    }
}
