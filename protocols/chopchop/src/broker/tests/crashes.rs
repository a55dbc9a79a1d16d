//! Brokers that die between any two letters, and networks that lose, repeat, reorder and delay.

use super::*;
use synod_wire::Drawn;

/// Two clients whose first broker dies when it has sent `letters`; whether it did.
fn dies_after(letters: u32) -> (World, bool) {
    let mut world = World::new(2, eager());
    world.fuse = Some((BROKERS[0], letters));
    for id in 0..2 {
        world.start_client(id);
        world.broadcast(id, 10 + u64::from(id));
    }
    world.run_until(3_000);
    let is_dead = !world.brokers.contains_key(&BROKERS[0]);
    world.fuse = None;
    (world, is_dead)
}

fn each_is_delivered_once(world: &World, letters: u32) {
    for id in 0..2 {
        assert_eq!(world.delivered(id), [10 + u64::from(id)], "dead after {letters} letters");
        assert_eq!(world.done(id).len(), 1, "dead after {letters} letters");
    }
    assert_eq!(world.blames, [], "dead after {letters} letters");
}

/// T26: a broker that crashes between any two letters of steps 3 to 18, and stays dead: the next one, one delivery.
#[test]
fn t26_a_broker_dead_between_any_two_letters_costs_time_alone() {
    let mut letters = 0;
    loop {
        let (mut world, is_dead) = dies_after(letters);
        if !is_dead {
            break;
        }
        world.run_until(20_000);
        each_is_delivered_once(&world, letters);
        letters += 1;
    }
    assert!(letters >= 10, "{letters} letters are a whole run: places, uploads, an order, deliveries");
}

/// T26: the same, and the broker comes back without a memory.
#[test]
fn t26_a_broker_that_comes_back_after_any_letter_knows_nothing_and_harms_nobody() {
    for letters in (0..).step_by(3) {
        let (mut world, is_dead) = dies_after(letters);
        if !is_dead {
            break;
        }
        world.start_broker(BROKERS[0], eager());
        world.run_until(20_000);
        each_is_delivered_once(&world, letters);
    }
}

/// A network between clients and brokers that loses `percent` of all letters, repeats some, delays each by 1 to 20 ms and
/// one of a hundred by 1.5 s, so that they overtake each other.
fn weather(seed: u64, percent: u64) -> crate::by_hand::world::Way {
    let mut drawn = Drawn::new(seed);
    Box::new(move |letter: &Letter| {
        if !matches!(letter.message, Message::Client(_)) {
            return vec![0];
        }
        let copies = match drawn.below(100) {
            lost if lost < percent => 0,
            twice if twice >= 95 => 2,
            _ => 1,
        };
        let mut delay = || 1 + drawn.below(20) + if drawn.below(100) == 0 { 1_500 } else { 0 };
        (0..copies).map(|_| delay()).collect()
    })
}

/// T32: the share of entries that sign, of `percent` lost letters; everything is delivered once, in order, and no correct
/// node is accused.
fn share(percent: u64) -> u32 {
    let mut world = running(8);
    world.way = weather(percent, percent);
    for word in 0..5 {
        (0..8).for_each(|id| world.broadcast(id, word));
    }
    world.run_until(600_000);
    for id in 0..8 {
        assert_eq!(world.delivered(id), [0, 1, 2, 3, 4], "{percent} % lost");
        assert_eq!(world.done(id).len(), 5, "{percent} % lost");
    }
    let proven = world.blames.iter().filter(|(_, fault)| !fault.starts_with("suspected"));
    assert_eq!(proven.collect::<Vec<_>>(), Vec::<&(NodeId, &str)>::new(), "{percent} % lost");
    let (all, late) = world
        .servers
        .shapes
        .iter()
        .fold((0, 0), |(all, late), (count, stragglers, _)| (all + count, late + stragglers));
    (all - late) * 100 / all
}

/// T32: loss, repetition, reordering and spikes of 1.5 s only make fewer sign together.
#[test]
fn t32_lost_late_and_repeated_letters_cost_signatures_and_no_message() {
    let shares = [0, 5, 30].map(share);
    assert!(shares[0] >= 65 && shares[1] >= 50 && shares[2] >= 30, "{shares:?} % sign");
}

/// Servers that restarted behind a checkpoint know that a batch was ordered and not what came of it, so nobody ever says so
/// again. A broker that waits for it, or made the same batch in an earlier life, has it sealed anew.
#[test]
fn a_batch_whose_verdicts_are_gone_for_good_is_sealed_anew_and_counts_once() {
    let mut world = running(1);
    let mut gone = None;
    world.way = Box::new(move |letter: &Letter| match &letter.message {
        Message::Server(ServerMessage::Delivered(verdict)) => {
            let first = *gone.get_or_insert(verdict.statement.digest);
            if verdict.statement.digest == first { Vec::new() } else { vec![0] }
        }
        // The other broker does not help.
        _ if letter.to == BROKERS[1] => Vec::new(),
        _ => vec![0],
    });
    world.broadcast(0, 7);
    world.run_until(60_000);
    assert_eq!(world.delivered(0), [7]);
    assert_eq!(world.done(0).len(), 1, "its client hears of it");
    assert_eq!(world.blames, []);
}
