//! What brokers may ask each second (D17): one that nobody knows costs servers and stores its share and no more.

use synod_chopchop::message::{ServerMessage, StoreMessage};
use synod_chopchop::store::{Quota, StoreParameters};
use synod_chopchop::vocabulary::Message;
use synod_machine::Span;

use crate::world::{BROKER, OTHER, Recipe, Setup, World};

/// Answers of server 0 to a broker that are of this kind.
fn answers(world: &World, broker: u32, of: impl Fn(&Message<crate::ideal::Say>) -> bool) -> usize {
    let to = |envelope: &&crate::world::Envelope| envelope.to == broker && envelope.from == 0;
    world.inbox.iter().filter(to).filter(|envelope| of(&envelope.message)).count()
}

fn cards(message: &Message<crate::ideal::Say>) -> bool {
    matches!(message, Message::Server(ServerMessage::Cards(_)))
}

fn held(message: &Message<crate::ideal::Say>) -> bool {
    matches!(message, Message::Store(StoreMessage::Held(_)))
}

fn pull(world: &mut World, broker: u32, times: u32) {
    for from in 0..times {
        world.say(broker, 0, ServerMessage::DirPull { from });
    }
    world.calm();
}

#[test]
fn a_stranger_that_pulls_the_directory_without_end_has_its_ration_and_others_have_theirs() {
    let mut world = World::usual();
    // The root is known from here on.
    pull(&mut world, BROKER, 1);
    pull(&mut world, OTHER, 1_000);
    assert_eq!(answers(&world, OTHER, cards), 256);
    // Others that nobody knows share what is left, whatever they call themselves.
    for name in 200..300 {
        pull(&mut world, name, 10);
    }
    let strangers: usize = (200..300).map(|name| answers(&world, name, cards)).sum();
    assert_eq!(strangers, 256);
    pull(&mut world, BROKER, 100);
    assert_eq!(answers(&world, BROKER, cards), 101, "a broker of the genesis has its own");
    world.inbox.clear();
    world.pass(Span::secs(1));
    pull(&mut world, 300, 1);
    assert_eq!(answers(&world, 300, cards), 1, "a second later there is more");
}

#[test]
fn strangers_that_pull_much_leave_places_to_wait_for_the_root() {
    let mut world = World::usual();
    world.node_mut(0).server.holding = true;
    for name in 200..700 {
        pull(&mut world, name, 1);
    }
    pull(&mut world, BROKER, 20);
    world.node_mut(0).server.holding = false;
    world.calm();
    let strangers: usize = (200..700).map(|name| answers(&world, name, cards)).sum();
    assert_eq!((strangers, answers(&world, BROKER, cards)), (128, 20));
}

#[test]
fn full_answers_cost_as_many_units_as_they_have_thousands() {
    let usual = Setup::default();
    let mut world = World::new(Setup { clients: 2_500, ..usual });
    pull(&mut world, OTHER, 200);
    assert_eq!(answers(&world, OTHER, cards), 85, "three units each");
}

#[test]
fn a_stranger_that_asks_a_store_what_it_holds_without_end_has_its_ration_and_others_have_theirs() {
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(1, &[(1, 1)]));
    let digest = world.upload(BROKER, &[0], &batch);
    let ask = |world: &mut World, broker: u32, times: u32| {
        (0..times).for_each(|_| world.say(broker, 0, StoreMessage::HeldAsk));
        world.calm();
        answers(world, broker, held)
    };
    assert_eq!(ask(&mut world, OTHER, 1_000), 8);
    let strangers: usize = (200..300).map(|name| ask(&mut world, name, 10)).sum();
    assert_eq!(strangers, 248);
    assert_eq!(ask(&mut world, BROKER, 2), 2, "a broker of the genesis has its own");
    let lists = world.inbox.iter().filter_map(|envelope| match &envelope.message {
        Message::Store(StoreMessage::Held(list)) if envelope.to == BROKER => Some(list),
        _ => None,
    });
    lists.for_each(|list| assert!(list.len() == 1 && list[0].digest == digest));
    world.pass(Span::secs(1));
    world.inbox.clear();
    assert_eq!(ask(&mut world, OTHER, 1), 1, "a second later there is more");
}

#[test]
fn what_strangers_pinned_before_a_restart_takes_their_places_behind_it() {
    let usual = Setup::default();
    let quota = Quota { bytes: 64 << 10, batches: 4, work: 1_000, burst: 100_000 };
    let parameters = StoreParameters { other: quota, others_max: 3, ..usual.parameters };
    let mut world = World::new(Setup { parameters, ..usual });
    let mut pinned = 0;
    let upload = |world: &mut World, broker: u32, n: u64| {
        let batch = world.maker.batch(&Recipe::of(n, &[(1, n)]));
        let digest = world.upload(broker, &[0], &batch);
        world.shards(&digest).len()
    };
    for life in 0..5 {
        // Whoever comes takes as much as it gets.
        for (name, n) in (0..8).flat_map(|name| (0..5).map(move |n| (name, n))) {
            let number = u64::from(life * 100 + name * 10 + n);
            pinned += upload(&mut world, 200 + life * 10 + name, number);
        }
        world.restart(0);
        assert!(pinned <= 16, "three places and what is nobody's: {pinned} batches in life {life}");
    }
    assert_eq!(pinned, 16, "as many as there is room for");
    assert_eq!(upload(&mut world, BROKER, 900), 1, "a broker of the genesis has its own");
}
