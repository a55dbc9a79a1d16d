//! Crashes: what was promised is kept, and a server comes back from its last checkpoint (T25, section 4.9).

use std::cell::RefCell;
use std::rc::Rc;

use synod_chopchop::config::Rules;
use synod_chopchop::message::{ServerMessage, StoreMessage, TransferMessage};
use synod_chopchop::server::ServerRecord;
use synod_chopchop::store::StoreRecord;
use synod_chopchop::vocabulary::Message;
use synod_machine::broadcast::Position;
use synod_machine::{Condition, Span};
use synod_sim::Crypto;
use synod_wire::{Blob, Bytes};

use crate::world::{BROKER, N, OTHER, Recipe, Setup, World, Written};

/// A world whose checkpoints are four positions apart.
fn often() -> Setup {
    let usual = Setup::default();
    Setup { rules: Rules { checkpoint_every: 4, ..usual.rules }, ..usual }
}

/// Batch number `n`: two clients under the number `n`.
fn batch(world: &World, n: u64) -> synod_chopchop::batch::Sealed {
    world.maker.batch(&Recipe::of(n, &[(u32::try_from(n % 7).expect("small"), n), (9, 100 + n)]))
}

#[test]
fn a_shard_that_left_means_a_body_that_survives_wherever_the_crash_falls() {
    // T25: the crash keeps every prefix of the lane that it may.
    let mut world = World::usual();
    let batch = batch(&world, 1);
    let digest = world.upload(BROKER, &[0], &batch);
    let (journal, synced) = (world.node(0).store.journal.clone(), world.node(0).store.synced);
    let (name, whole) = (world.body_name(&batch), journal.len());
    assert_eq!((world.shards(&digest).len(), synced), (1, whole), "the shard left behind both");
    let at = journal.iter().position(|written| matches!(written, Written::Blob(known, _) if *known == name));
    let record = journal.iter().position(|w| matches!(w, Written::Record(StoreRecord::Pinned(_))));
    assert!(at < record, "the body stands before its record");
    for kept in 0..=whole {
        let mut world = World::usual();
        world.kill(0);
        world.node_mut(0).store.journal = journal[..kept].to_vec();
        world.node_mut(0).store.synced = 0;
        world.open(0, Condition::Clean);
        world.calm();
        world.say(BROKER, 0, StoreMessage::Ask(digest));
        world.calm();
        let shards = world.shards(&digest).len();
        assert_eq!(shards == 1, kept == whole, "a shard is given again by whoever holds all: {kept}");
        assert!(shards == 0 || world.node(0).store.holds(&name));
    }
}

#[test]
fn a_broker_that_restarted_finds_what_it_had_pinned() {
    let mut world = World::usual();
    let batch = batch(&world, 1);
    let digest = world.upload(BROKER, &[0], &batch);
    world.restart(0);
    for broker in [BROKER, OTHER] {
        world.say(broker, 0, StoreMessage::HeldAsk);
    }
    world.calm();
    let held: Vec<(u32, usize)> = world
        .inbox
        .iter()
        .filter_map(|envelope| match &envelope.message {
            Message::Store(StoreMessage::Held(list)) => {
                assert!(list.iter().all(|held| held.digest == digest));
                Some((envelope.to, list.len()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(held, [(BROKER, 1), (OTHER, 0)]);
}

#[test]
fn a_server_comes_back_from_its_checkpoint_and_goes_on_alike() {
    for (crypto, lanes) in [(Crypto::Toy, 1), (Crypto::Toy, 16)] {
        let mut world = World::new(Setup { crypto, lanes, ..often() });
        for n in 0..10 {
            let batch = batch(&world, n);
            world.deliver(&batch);
        }
        assert_eq!(world.delivered(), [11; 4]);
        assert_eq!(world.node(2).applied.len(), 10);
        world.restart(2);
        assert_eq!(world.delivered(), [11; 4], "two positions behind the checkpoint are replayed");
        let resumed = world.node(2).server.notes.iter().filter(|note| note.name.starts_with("state_"));
        let resumed: Vec<_> = resumed.map(|note| (note.name, note.values[1])).collect();
        assert_eq!(resumed, [("state_resumed", 9)], "a state of its own, and none of others");
        for n in 10..13 {
            let batch = batch(&world, n);
            world.deliver(&batch);
        }
        assert_eq!(world.delivered(), [14; 4]);
        world.agree();
        // A digest from before the checkpoint is recent still.
        let old = batch(&world, 2);
        let item = world.item_of(world.statement(&old), &[0, 1]);
        world.say(BROKER, 2, ServerMessage::Order(item));
        world.calm();
        assert_eq!(world.delivered(), [14; 4], "C17: the ring is part of the state");
    }
}

/// Heights of the states that server 2 names to server 1 as its newest certified one; nothing else is said.
fn named(world: &mut World) -> Vec<u64> {
    let named = Rc::new(RefCell::new(Vec::new()));
    let heard = named.clone();
    world.passes = Box::new(move |envelope| match &envelope.message {
        Message::Server(ServerMessage::Transfer(TransferMessage::Names(mark))) => {
            heard.borrow_mut().push(mark.height);
            false
        }
        Message::Server(ServerMessage::Transfer(_)) => true,
        _ => false,
    });
    world.say(1, 2, ServerMessage::Transfer(TransferMessage::NewestWanted(Position(u64::MAX))));
    world.calm();
    named.take()
}

#[test]
fn a_server_that_comes_back_knows_which_checkpoint_is_certified_wherever_the_crash_falls() {
    let mut world = World::new(often());
    for n in 0..17 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    let journal = world.node(2).server.journal.clone();
    let of = |at: u64| {
        let is = move |written: &Written<ServerRecord<_>>| matches!(written, Written::Record(ServerRecord::Certified(position)) if position.0 == at);
        journal.iter().position(is).expect("it wrote that down")
    };
    let (fourth, third) = (of(16), of(12));
    assert_eq!(named(&mut world), [17]);
    for kept in third..=journal.len() {
        world.kill(2);
        world.node_mut(2).server.journal = journal[..kept].to_vec();
        world.node_mut(2).server.synced = 0;
        world.passes = Box::new(|_| false);
        world.open(2, Condition::Clean);
        world.calm();
        let known = match kept {
            _ if kept > fourth => 17,
            _ if kept > third => 13,
            _ => 9,
        };
        assert_eq!(named(&mut world), [known], "{kept} of {}", journal.len());
    }
    for written in &journal {
        let Written::Blob(name, _) = written else { continue };
        let lost = journal.iter().any(|w| matches!(w, Written::Erase(erased) if erased == name));
        assert!(!lost || !world.node(2).server.holds(name), "what was let go stays so");
    }
}

#[test]
fn bodies_go_when_every_server_has_a_durable_checkpoint_behind_them() {
    let mut world = World::new(often());
    let batches: Vec<_> = (0..6).map(|n| batch(&world, n)).collect();
    for batch in &batches {
        world.deliver(batch);
    }
    let held = |world: &World, at: usize| {
        let name = world.body_name(&batches[at]);
        world.nodes.iter().map(|node| node.store.holds(&name)).collect::<Vec<_>>()
    };
    for at in 0..4 {
        assert_eq!(held(&world, at), [false; 4], "collected: {at}");
    }
    for at in 4..6 {
        assert_eq!(held(&world, at), [true; 4], "behind the checkpoint: {at}");
    }
    assert!(world.node(0).store.rules.contains("collect_all"));
}

#[test]
fn bodies_stay_while_one_server_is_down_and_it_catches_up() {
    // C10, C29: two thirds are not all, and delivery is not durability.
    let mut world = World::new(often());
    world.kill(3);
    let batches: Vec<_> = (0..9).map(|n| batch(&world, n)).collect();
    for batch in &batches {
        world.deliver(batch);
    }
    for batch in &batches {
        let name = world.body_name(batch);
        assert!((0..3).all(|id| world.node(id).store.holds(&name)), "kept for the one that is down");
    }
    world.open(3, Condition::Clean);
    world.pass(Span::secs(5));
    assert_eq!(world.delivered(), [10; 4]);
    world.agree();
    assert!((0..N).all(|id| !world.node(id).store.holds(&world.body_name(&batches[0]))), "collected at last");
    assert!((0..N).all(|id| world.node(id).store.holds(&world.body_name(&batches[8]))));
}

#[test]
fn a_body_that_rots_on_disk_is_fetched_again() {
    let mut world = World::new(often());
    let batches: Vec<_> = (0..3).map(|n| batch(&world, n)).collect();
    for batch in &batches {
        world.deliver(batch);
    }
    world.kill(3);
    let name = world.body_name(&batches[1]);
    world.node_mut(3).store.rot(&name);
    world.open(3, Condition::Clean);
    world.pass(Span::secs(2));
    assert_eq!(world.delivered(), [4; 4]);
    assert!(world.node(3).store.holds(&name));
    world.agree();
}

#[test]
fn a_body_of_two_batches_that_rots_is_written_again_when_one_of_them_needs_it() {
    // T19 and a bad disk: the first of the two lies below the checkpoint and is not needed any more.
    let mut world = World::new(often());
    world.kill(2);
    for n in 0..3 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    let recipe = Recipe::of(3, &[(1, 5)]);
    let one = world.maker.batch(&recipe);
    let two = world.maker.batch(&Recipe { expiry: 999, ..recipe });
    let name = world.body_name(&one);
    world.deliver(&one);
    world.deliver(&two);
    world.kill(3);
    world.node_mut(3).store.rot(&name);
    world.open(3, Condition::Clean);
    world.pass(Span::secs(2));
    assert_eq!(world.delivered(), [6; 3]);
    assert!(world.node(3).store.holds(&name), "whoever pulls it from here gets it");
}

#[test]
fn a_chunk_of_the_state_that_rots_is_fetched_from_others() {
    let mut world = World::new(often());
    for n in 0..5 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    world.kill(1);
    let blobs: Vec<_> = world.node(1).server.journal.iter().filter_map(blob).collect();
    assert!(blobs.len() >= 3, "deduplication, directory, recent digests");
    blobs.iter().for_each(|name| world.node_mut(1).server.rot(name));
    // One of the others lies.
    world.passes = Box::new(|envelope| {
        let chunk = |message: &Message<crate::ideal::Say>| {
            matches!(message, Message::Server(ServerMessage::Transfer(TransferMessage::Chunk(_))))
        };
        !(envelope.from == 0 && chunk(&envelope.message))
    });
    world.open(1, Condition::Clean);
    world.calm();
    assert_eq!(world.delivered()[1], 1, "nothing is decided before the state is whole");
    world.passes = Box::new(|_| true);
    let lie = Blob::try_from(Bytes::from_static(b"no chunk")).expect("short");
    world.say(0, 1, ServerMessage::Transfer(TransferMessage::Chunk(lie)));
    world.pass(Span::secs(3));
    assert_eq!(world.delivered(), [6; 4]);
    assert_eq!(world.node(1).server.blamed, [(0, "wrong_state_part")]);
    world.agree();
}

fn blob<R>(written: &Written<R>) -> Option<synod_crypto::Hash> {
    match written {
        Written::Blob(name, _) => Some(*name),
        Written::Record(_) | Written::Erase(_) => None,
    }
}

#[test]
fn a_store_that_lost_its_promises_witnesses_nothing() {
    let mut world = World::usual();
    world.kill(0);
    world.node_mut(0).store.journal.clear();
    world.open(0, Condition::Damaged);
    world.calm();
    let batch = batch(&world, 1);
    let digest = world.upload(BROKER, &[0, 1, 2], &batch);
    let by: Vec<u32> = world.shards(&digest).iter().map(|(id, _)| id.0).collect();
    assert_eq!(by, [1, 2]);
    world.restart(0);
    world.upload(BROKER, &[0], &batch);
    assert_eq!(world.shards(&digest).len(), 2, "a second restart does not make it forget");
}
