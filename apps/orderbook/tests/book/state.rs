//! The state as chunks.

use synod_crypto::merkle::{Tree, leaf};
use synod_orderbook::{Config, Handling, Life, Order, Pricing, Ticks};
use synod_service::{App, Wall};
use synod_wire::{Bytes, Drawn, Wire};

use crate::floor::{Floor, buy, sell};
use crate::properties::{operation, sender};

fn busy() -> Floor {
    let mut floor = Floor::new();
    let mut draw = Drawn::new(11);
    for _ in 0..120 {
        let operation = operation(&mut draw, floor.requests, floor.time);
        let trader = sender(&mut draw, &operation);
        floor.ask(trader, &operation);
    }
    floor.rests(1, Order { handling: Handling::AllOrNone, ..buy(99, 3) });
    floor.rests(2, Order { life: Life::Until(Wall(floor.time + 9)), ..buy(1, 2) });
    floor.place(3, Order { stop: Some(Ticks(900)), pricing: Pricing::Market, ..buy(1, 2) });
    floor
}

fn chunks(floor: &Floor) -> Vec<Bytes> {
    (0..floor.book.chunks()).map(|index| floor.book.chunk(index)).collect()
}

#[test]
fn the_root_is_the_tree_over_the_chunks_before_and_after_it_was_asked_for() {
    let mut floor = busy();
    let before = chunks(&floor);
    let root = floor.book.root();
    assert_eq!(chunks(&floor), before);
    assert_eq!(Tree::new(before.iter().map(|chunk| leaf(chunk)).collect()).root(), root);
    assert!(floor.book.chunk(floor.book.chunks()).is_empty());
    floor.rests(1, sell(1, 1_000));
    assert_ne!(floor.book.root(), root, "an older root is not given again");
}

#[test]
fn no_chunk_with_a_flipped_bit_is_taken_and_nothing_is_left_of_it() {
    let floor = busy();
    let all = chunks(&floor);
    assert_eq!(all.len(), 2);
    let empty = Floor::new().book.root();
    let mut refused = 0;
    for chunk in 0..2 {
        for at in 0..all[chunk].len() {
            let mut changed = all.clone();
            let mut bytes = changed[chunk].to_vec();
            bytes[at] ^= 1 << (at % 8);
            changed[chunk] = Bytes::from(bytes);
            let mut other = Floor::new();
            let taken = (0..).zip(&changed).try_for_each(|(index, chunk)| other.book.restore(index, chunk));
            // A flipped bit may be another state that a book can have; it is then that state and no other.
            if taken.is_ok() {
                other.book.invariants();
                assert_eq!(chunks(&other), changed);
            } else {
                refused += 1;
                assert_eq!(other.book.root(), empty);
            }
        }
    }
    assert!(refused > all[1].len() / 4, "{refused}");
}

#[test]
fn chunks_out_of_order_too_many_or_of_other_bounds_are_refused() {
    let mut floor = Floor::new();
    let mut at = 0;
    while floor.book.chunks() < 4 {
        at += 1;
        let place =
            |trader: u64| (trader, synod_orderbook::Operation::Place(buy(1 + at % 7, 1 + at)).encode());
        floor.slot(&(0..64).map(place).collect::<Vec<_>>());
    }
    let all = chunks(&floor);
    assert!(all[1..all.len() - 1].iter().all(|chunk| chunk.len() == 64 << 10));
    let mut other = Floor::new();
    other.book.restore(0, &all[0]).expect("the header");
    assert!(other.book.restore(2, &all[2]).is_err());
    assert!(other.book.restore(1, &all[1]).is_err(), "after a refusal nothing is expected");
    for (index, chunk) in (0..).zip(&all) {
        other.book.restore(index, chunk).expect("its own chunk");
    }
    assert_eq!(other.book.root(), floor.book.root());
    assert!(other.book.restore(4, &all[1]).is_err(), "a fifth one");
    let mut smaller = Floor::within(Config { symbols: 2, orders_max: 9, ..Config::default() });
    assert!(smaller.book.restore(0, &all[0]).is_err());
}
