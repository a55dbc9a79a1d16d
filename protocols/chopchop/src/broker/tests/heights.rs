//! Heights that a broker has proven: it asks for what servers accepted, also before they delivered it.

use super::hostile::{from, lone, small};
use super::*;
use crate::broker::{Broker, Timer};
use crate::by_hand::{Hand, sent};
use crate::message::{Credit, SignedHeight};
use crate::statement::Height;
use synod_machine::{Effect, Event, To};

/// These servers accepted a batch at this height.
fn accepted(hand: &mut Hand<Broker>, servers: &[u32], height: u64) {
    for server in servers {
        let credit = Credit { bytes: 1 << 30, work: 1 << 30, height, directory: 0 };
        hand.step(from(NodeId(*server), StoreMessage::Credit(credit)));
    }
}

/// So much later it looks after heights; what it asks for, and whom.
fn look_after(hand: &mut Hand<Broker>, ms: u64) -> Vec<(u64, Vec<u32>)> {
    hand.now = hand.now + Span::millis(ms);
    asked(hand.step(Event::Timer(Timer::Heights)))
}

fn asked(effects: Vec<Effect<Broker>>) -> Vec<(u64, Vec<u32>)> {
    let of = |(to, message)| match (to, message) {
        (To::Set(set), Message::Server(ServerMessage::HeightAsk(ask))) => {
            Some((ask.height, set.iter().map(|server| server.0).collect()))
        }
        _ => None,
    };
    sent(effects).into_iter().filter_map(of).collect()
}

/// A server delivered this height.
fn signs(hand: &mut Hand<Broker>, server: u32, height: u64) -> Vec<Effect<Broker>> {
    let statement = Height { height };
    let signature = keys(u64::from(server)).sign_bls(&cluster().scope(), &statement).expect("it has a key");
    let signature = BlsSignatureBytes(signature.to_bytes());
    hand.step(from(NodeId(server), ServerMessage::Height(SignedHeight { statement, signature })))
}

/// A broker that knows the height of the genesis.
fn at_genesis() -> Hand<Broker> {
    let mut hand = lone(0, small());
    (0..2).for_each(|server| drop(signs(&mut hand, server, 1)));
    hand
}

#[test]
fn a_height_that_was_asked_for_too_early_is_proven_with_the_delivery_and_the_next_batch_signs_together() {
    let mut world = running(4);
    // Two stores speak of a batch that is not delivered yet; servers here remember no question.
    let credit = Credit { bytes: 1 << 30, work: 1 << 30, height: 2, directory: 4 };
    for server in 0..2 {
        let credit = Message::Store(StoreMessage::Credit(credit.clone()));
        world.say_any(NodeId(server), BROKERS[0], credit);
    }
    world.run_until(1_010);
    (0..4).for_each(|id| world.broadcast(id, 1));
    world.run_until(1_200);
    assert_eq!(world.servers.height, 2);
    assert_eq!(world.brokers[&BROKERS[0]].machine.proven_height(), 2, "it was asked for again");
    (0..4).for_each(|id| world.broadcast(id, 2));
    world.run_until(1_400);
    assert_eq!(world.servers.shapes, [(4, 0, 0), (4, 0, 1)], "without a wait, and all sign");
    assert!((0..4).all(|id| world.done(id).len() == 2));
}

#[test]
fn a_height_that_rises_while_it_is_asked_for_is_proven_all_the_same() {
    let mut hand = at_genesis();
    // Servers accept faster than they deliver.
    for height in 2..=6 {
        accepted(&mut hand, &[0, 1, 2, 3], height);
        let asked = look_after(&mut hand, 250);
        assert!(asked.contains(&(height, vec![0, 1, 2, 3])), "each is asked for: {asked:?}");
    }
    signs(&mut hand, 3, 2);
    signs(&mut hand, 0, 2);
    assert_eq!(hand.machine.proven_height(), 2, "the lowest is delivered first, and counts");
    signs(&mut hand, 1, 5);
    signs(&mut hand, 2, 5);
    assert_eq!(hand.machine.proven_height(), 5);
    let again = look_after(&mut hand, 250);
    assert_eq!(again, [(6, vec![0, 1, 2, 3])], "what is proven below is forgotten");
}

#[test]
fn servers_that_do_not_answer_are_asked_again_and_no_others() {
    let mut hand = at_genesis();
    accepted(&mut hand, &[0, 1], 9);
    assert_eq!(look_after(&mut hand, 10), [(9, vec![0, 1, 2, 3])]);
    signs(&mut hand, 1, 9);
    assert_eq!(look_after(&mut hand, 100), [], "it was just asked for");
    assert_eq!(look_after(&mut hand, 100), [(9, vec![0, 2, 3])]);
    signs(&mut hand, 2, 9);
    assert_eq!(hand.machine.proven_height(), 9);
    assert_eq!(look_after(&mut hand, 1_000), []);
}

#[test]
fn heights_that_nobody_delivers_stay_few_and_the_lowest_are_among_them() {
    let mut hand = at_genesis();
    for height in 2..=100 {
        accepted(&mut hand, &[0, 1], height);
        let asked = look_after(&mut hand, 50);
        assert!(asked.len() <= 8, "{asked:?}");
        assert!(asked.iter().any(|(of, _)| *of == height), "the newest is asked for");
    }
    signs(&mut hand, 0, 2);
    signs(&mut hand, 1, 2);
    assert_eq!(hand.machine.proven_height(), 2);
    // A long time later they are asked for no more, but for the newest.
    look_after(&mut hand, 20_000);
    assert_eq!(look_after(&mut hand, 1_000), [(100, vec![0, 1, 2, 3])]);
}
