//! One faulty server among those that a state is taken from: it costs its own answers and no more (section 4.9).

use std::cell::Cell;
use std::rc::Rc;

use synod_chopchop::config::Rules;
use synod_chopchop::message::{ServerMessage, StoreMessage, TransferMessage};
use synod_chopchop::server::{Mark, ServerRecord};
use synod_chopchop::store::StoreParameters;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::{Bounded, Span};
use synod_wire::{Blob, Bytes, List};

use crate::world::{Envelope, Recipe, Setup, World, Written};

/// A state of 128 chunks of the directory, and of some more.
const CLIENTS: u32 = 65_536;

fn is_chunk(envelope: &Envelope) -> bool {
    matches!(&envelope.message, Message::Server(ServerMessage::Transfer(TransferMessage::Chunk(_))))
}

/// Server 3 has the order of 12 batches and none of their bodies, which the others released below the checkpoint at 8.
fn behind(clients: u32) -> World {
    let usual = Setup::default();
    let rules = Rules { checkpoint_every: 4, ..usual.rules };
    let parameters = StoreParameters { retain_bytes: 10_000, ..usual.parameters };
    let mut world = World::new(Setup { rules, parameters, clients, ..usual });
    world.passes = Box::new(|e| match &e.message {
        Message::Store(StoreMessage::Batch(_) | StoreMessage::Piece(_) | StoreMessage::Gone { .. }) => {
            e.to != 3
        }
        _ => true,
    });
    for n in 0..12 {
        let batch = world.maker.batch(&Recipe { expiry: 900, ..Recipe::of(n, &[(1, n), (2, n)]) });
        world.deliver(&batch);
    }
    assert_eq!((world.delivered(), world.server(3).height()), (vec![13, 13, 13, 1], 13));
    world
}

/// The blobs of server 1, and the checkpoint it made last.
fn state(world: &World) -> (Vec<(Hash, Bytes)>, Mark) {
    let journal = &world.node(1).server.journal;
    let blobs = journal.iter().filter_map(|written| match written {
        Written::Blob(name, bytes) => Some((*name, bytes.clone())),
        Written::Record(_) | Written::Erase(_) => None,
    });
    let mark = journal.iter().rev().find_map(|written| match written {
        Written::Record(ServerRecord::Mark(mark)) => Some(mark.clone()),
        _ => None,
    });
    (blobs.collect(), mark.expect("a checkpoint"))
}

#[test]
fn a_server_that_gives_one_chunk_in_a_while_holds_nobody_up() {
    let mut world = behind(CLIENTS);
    let (blobs, mark) = state(&world);
    let own = [&mark.dedup[..], &mark.directory[..], &mark.ring[..]].concat();
    assert!(own.len() > 140, "{}", own.len());
    // What server 0 is asked for it says nothing to; but now and then it gives some chunk that is missing.
    let (asked, gifts) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (count, given) = (asked.clone(), gifts.clone());
    world.passes = Box::new(move |e| {
        let wanted =
            matches!(&e.message, Message::Server(ServerMessage::Transfer(TransferMessage::ChunkWanted(_))));
        count.set(count.get() + u32::from(wanted && e.to == 0));
        !(is_chunk(e) && e.from == 0) || given.replace(0) == 1
    });
    let installed = |world: &World| world.node(3).server.notes.iter().any(|n| n.name == "state_installed");
    let mut drops = 0;
    while !installed(&world) && drops < 20 {
        world.pass(Span::millis(450));
        let missing =
            blobs.iter().rev().find(|(name, _)| own.contains(name) && !world.node(3).server.holds(name));
        if let Some((_, bytes)) = missing.cloned() {
            let chunk = TransferMessage::Chunk(Blob::try_from(bytes).expect("a chunk"));
            gifts.set(1);
            world.say(0, 3, ServerMessage::Transfer(chunk));
        }
        drops += 1;
    }
    assert!(installed(&world) && drops <= 7, "three seconds, and not one for each chunk: {drops}");
    assert!(asked.get() <= 24, "it was late, and is asked after the others: {}", asked.get());
    world.passes = Box::new(|_| true);
    world.pass(Span::secs(2));
    assert_eq!(world.delivered(), [13; 4]);
    world.agree();
}

#[test]
fn a_chunk_of_a_state_taken_before_that_comes_late_is_no_fault() {
    let mut world = behind(CLIENTS);
    let first = state(&world).0;
    let keeps_chunks = |e: &Envelope| !(is_chunk(e) && e.from == 0);
    world.passes = Box::new(keeps_chunks);
    world.pass(Span::secs(6));
    assert_eq!(world.delivered(), [13; 4], "the others gave all of it");
    world.passes = Box::new(|e| match &e.message {
        Message::Store(StoreMessage::Batch(_) | StoreMessage::Piece(_) | StoreMessage::Gone { .. }) => {
            e.to != 3
        }
        _ => true,
    });
    for n in 12..24 {
        let batch = world.maker.batch(&Recipe { expiry: 900, ..Recipe::of(n, &[(1, n), (2, n)]) });
        world.deliver(&batch);
    }
    let mark = state(&world).1;
    let wanted = [&mark.dedup[..], &mark.directory[..], &mark.ring[..]].concat();
    let late = first.into_iter().find(|(name, _)| !wanted.contains(name)).expect("something changed").1;
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    world.passes = Box::new(move |e| {
        let asks =
            matches!(&e.message, Message::Server(ServerMessage::Transfer(TransferMessage::ChunkWanted(_))));
        count.set(count.get() + u32::from(asks && e.to == 0));
        keeps_chunks(e)
    });
    while asked.get() == 0 {
        world.pass(Span::millis(10));
    }
    let chunk = TransferMessage::Chunk(Blob::try_from(late).expect("a chunk"));
    world.passes = Box::new(|_| true);
    world.say(0, 3, ServerMessage::Transfer(chunk));
    world.pass(Span::secs(4));
    assert_eq!(world.delivered(), [25; 4]);
    assert!(world.node(3).server.blamed.is_empty(), "{:?}", world.node(3).server.blamed);
    world.agree();
}

#[test]
fn one_server_that_names_a_state_of_clients_that_nobody_has_takes_no_memory() {
    let mut world = behind(16);
    let names = |e: &Envelope| {
        matches!(&e.message, Message::Server(ServerMessage::Transfer(TransferMessage::Names(_))))
    };
    world.passes = Box::new(move |e| !names(e) || e.from == 0);
    world.pass(Span::secs(4));
    let machine = |world: &World| {
        let server = world.server(3);
        (server.bytes(), server.bytes_max())
    };
    let before = machine(&world);
    let (_, mark) = state(&world);
    let list = |count| List::try_from(vec![Hash([7; 32]); count]).expect("few");
    let length = 4 << 20;
    let many = Mark { length, dedup: list(1 << 10), directory: list(8 << 10), ..mark };
    world.passes = Box::new(move |e| !names(e) || e.from == 0);
    world.say(0, 3, ServerMessage::Transfer(TransferMessage::Names(many)));
    world.calm();
    assert_eq!(machine(&world), before);
    assert_eq!(world.node(3).server.blamed, [(0, "wrong_state_part")]);
}

#[test]
fn the_memory_formula_does_not_follow_what_waits_to_be_decided() {
    let mut world = World::usual();
    let most = |world: &World| world.server(3).bytes_max();
    let before = (world.server(3).bytes(), most(&world));
    world.node_mut(3).server.holding = true;
    for n in 0..6 {
        let batch = world.maker.batch(&Recipe::of(n, &[(1, n)]));
        world.deliver(&batch);
    }
    assert_eq!(world.delivered(), [7, 7, 7, 1], "its shards are not checked");
    assert!(world.server(3).bytes() > before.0);
    assert_eq!(most(&world), before.1);
}
