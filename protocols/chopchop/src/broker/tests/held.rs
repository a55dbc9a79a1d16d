//! Batches of earlier lives: what servers say that they hold, and what liars among them gain by it.

use super::hostile::{from, lone};
use super::*;
use crate::broker::Broker;
use crate::broker::held::SALVAGED_MAX;
use crate::by_hand::{Hand, sent};
use crate::message::{HELD_MAX, HeldBatch, StoreMessage};
use synod_crypto::Hash;
use synod_wire::List;

fn batches(numbers: core::ops::Range<usize>) -> Vec<HeldBatch> {
    let batch = |number: usize| HeldBatch {
        digest: Hash::of(&number.to_le_bytes()),
        expiry: 900,
        count: 1,
        body_len: 8,
    };
    numbers.map(batch).collect()
}

/// Digests that somebody is asked to witness again after `server` said that it holds `list`.
fn asked(hand: &mut Hand<Broker>, server: u32, list: Vec<HeldBatch>) -> Vec<Hash> {
    let list = List::try_from(list).expect("not too many");
    let said = sent(hand.step(from(NodeId(server), StoreMessage::Held(list))));
    let asks = said.into_iter().filter_map(|(_, message)| match message {
        Message::Store(StoreMessage::Ask(digest)) => Some(digest),
        _ => None,
    });
    asks.collect()
}

fn hand() -> Hand<Broker> {
    lone(1, crate::config::Rules::default())
}

#[test]
fn a_liar_alone_keeps_no_place_by_naming_what_others_held_once() {
    let (mut hand, liar, old) = (hand(), 0, batches(0..SALVAGED_MAX));
    assert_eq!(asked(&mut hand, liar, old.clone()), [], "one alone names nothing");
    assert_eq!(asked(&mut hand, 1, old.clone()).len(), SALVAGED_MAX);
    // They were ordered: everybody else holds them no more.
    assert_eq!(asked(&mut hand, 1, Vec::new()), []);
    assert_eq!(asked(&mut hand, liar, old.clone()), []);
    let new = batches(1_000..1_000 + SALVAGED_MAX);
    assert_eq!(asked(&mut hand, 1, new.clone()), []);
    let digests: Vec<Hash> = asked(&mut hand, 2, new.clone());
    assert_eq!(digests.len(), SALVAGED_MAX, "there is a place for each");
    assert!(new.iter().all(|held| digests.contains(&held.digest)));
    assert_eq!(asked(&mut hand, liar, old), []);
    assert_eq!(asked(&mut hand, 1, new).len(), SALVAGED_MAX, "those that two hold stay");
}

#[test]
fn servers_that_say_different_things_of_a_batch_do_not_hold_the_same() {
    let (mut hand, one) = (hand(), batches(0..1));
    let other = vec![HeldBatch { body_len: 16, ..one[0].clone() }];
    assert_eq!(asked(&mut hand, 0, other), []);
    assert_eq!(asked(&mut hand, 1, one.clone()), []);
    assert_eq!(asked(&mut hand, 2, one.clone()), [one[0].digest]);
}

#[test]
fn the_longest_lists_of_all_servers_stay_within_the_places() {
    let mut hand = hand();
    for round in 0..3 {
        for server in 0..SERVERS {
            let first = round * 100;
            let asks = asked(&mut hand, server, batches(first..first + HELD_MAX));
            assert!(asks.len() <= SALVAGED_MAX, "{}", asks.len());
            assert_eq!(asks.is_empty(), round == 0 && server == 0);
        }
    }
}
