//! Servers whose bodies the others released, and applications whose lane is lost (T52, section 4.9).

use std::cell::Cell;
use std::rc::Rc;

use synod_chopchop::batch::Sealed;
use synod_chopchop::config::Rules;
use synod_chopchop::message::{ServerMessage, StoreMessage, TransferMessage};
use synod_chopchop::server::{Mark, ServerRecord};
use synod_chopchop::store::StoreParameters;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::{Condition, Span};

use crate::ideal::Say;
use crate::world::{Envelope, N, Recipe, Setup, World, Written};

fn batch(world: &World, n: u64) -> Sealed {
    world.maker.batch(&Recipe { expiry: 900, ..Recipe::of(n, &[(1, n), (2, n)]) })
}

/// Checkpoints four positions apart, of which little is kept; the order keeps everything, so that it never jumps.
fn little() -> Setup {
    let usual = Setup::default();
    let rules = Rules { checkpoint_every: 4, ..usual.rules };
    let parameters = StoreParameters { retain_bytes: 10_000, ..usual.parameters };
    Setup { rules, parameters, ..usual }
}

/// The state at 44 is certified nowhere.
fn certified(envelope: &Envelope) -> bool {
    !matches!(&envelope.message, Message::Ordering(Say::Root { position, .. }) if position.0 == 44)
}

fn is_names(envelope: &Envelope) -> bool {
    matches!(&envelope.message, Message::Server(ServerMessage::Transfer(TransferMessage::Names(_))))
}

/// Server 3 knows the order of 44 batches and has none of them. The others released the first 40 below the certified
/// checkpoint at 40.
fn behind() -> World {
    behind_of(little())
}

fn behind_of(setup: Setup) -> World {
    let mut world = World::new(setup);
    world.passes = Box::new(|e| match &e.message {
        Message::Store(StoreMessage::Batch(_) | StoreMessage::Piece(_) | StoreMessage::Gone { .. }) => {
            e.to != 3
        }
        _ => certified(e),
    });
    let batches: Vec<Sealed> = (0..44).map(|n| batch(&world, n)).collect();
    for batch in &batches {
        world.deliver(batch);
    }
    assert_eq!(world.delivered(), [45, 45, 45, 1]);
    assert_eq!(world.server(3).height(), 45, "all of them are accepted");
    assert!((0..N).all(|id| !world.node(id).store.holds(&world.body_name(&batches[39]))));
    assert!((0..3).all(|id| world.node(id).store.holds(&world.body_name(&batches[40]))));
    world
}

fn goes_on(world: &mut World) {
    assert_eq!(world.delivered(), [45; 4], "the certified state, and each batch behind it once");
    let installed = world.node(3).server.notes.iter().filter(|note| note.name == "state_installed");
    let installed: Vec<_> = installed.map(|note| (note.values[2], note.values[1])).collect();
    assert_eq!(installed, [(1, 41)], "from which height to which nothing was delivered here");
    world.agree();
    world.passes = Box::new(|_| true);
    for n in 44..54 {
        let batch = batch(world, n);
        world.deliver(&batch);
    }
    assert_eq!(world.delivered(), [55; 4]);
    world.agree();
    world.restart(3);
    assert_eq!(world.delivered(), [55; 4], "what it took is durable");
}

/// The checkpoint of a server at a position.
fn mark(world: &World, id: u32, at: u64) -> Mark {
    let of = |written: &Written<ServerRecord<_>>| match written {
        Written::Record(ServerRecord::Mark(mark)) if mark.position.0 == at => Some(mark.clone()),
        _ => None,
    };
    world.node(id).server.journal.iter().find_map(of).expect("a checkpoint")
}

#[test]
fn t52_a_server_whose_bodies_are_gone_takes_a_certified_state_though_the_order_never_jumps() {
    let mut world = behind();
    world.passes = Box::new(certified);
    world.pass(Span::secs(4));
    assert!(world.nodes.iter().all(|node| node.server.blamed.is_empty() && node.store.blamed.is_empty()));
    goes_on(&mut world);
}

#[test]
fn t52_one_server_that_says_gone_and_names_a_state_leads_nobody_astray() {
    let mut world = behind();
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    // The others cannot be heard; server 0 says that everything is gone.
    world.passes = Box::new(move |e| {
        let wanted =
            matches!(&e.message, Message::Server(ServerMessage::Transfer(TransferMessage::NewestWanted(_))));
        count.set(count.get() + u32::from(wanted));
        !(matches!(e.message, Message::Store(StoreMessage::Gone { .. })) && e.from != 0) && certified(e)
    });
    for n in 0..8 {
        let digest = batch(&world, n).digest(world.maker.cluster.domains());
        world.say(0, 3, StoreMessage::Gone { digest, stable: u64::MAX });
        world.pass(Span::millis(500));
    }
    assert_eq!((world.server(3).delivered(), asked.get()), (1, 0), "f servers may all be liars");
    // Now all are heard, but what they name; server 0 names a state of its own.
    world.passes = Box::new(|e| !is_names(e) && certified(e));
    world.pass(Span::secs(20));
    let made_up = Mark { app: Hash([7; 32]), ..mark(&world, 1, 40) };
    let said = ServerMessage::Transfer(TransferMessage::Names(made_up));
    world.passes = Box::new(|e| !(is_names(e) && e.from != 0) && certified(e));
    world.say(0, 3, said);
    world.calm();
    assert_eq!(world.server(3).delivered(), 1, "one server names no state");
    world.passes = Box::new(|e| !(is_names(e) && e.from == 0) && certified(e));
    world.pass(Span::secs(4));
    assert_eq!(world.node(3).server.blamed, [(0, "wrong_state_part")]);
    goes_on(&mut world);
}

#[test]
fn a_server_says_to_its_order_that_it_cannot_go_on_while_bodies_are_gone_and_no_state_is_named() {
    let mut world = behind();
    let said = Rc::new(Cell::new(0));
    let watch = |named: bool, liars: bool| {
        let count = said.clone();
        move |e: &Envelope| {
            let stuck = matches!(&e.message, Message::Ordering(Say::Stuck));
            count.set(count.get() + u32::from(stuck && e.from == 3));
            let gone = matches!(e.message, Message::Store(StoreMessage::Gone { .. }));
            !(liars && gone && e.from != 0) && (named || !is_names(e)) && certified(e)
        }
    };
    world.passes = Box::new(watch(false, true));
    world.pass(Span::secs(4));
    assert_eq!(said.get(), 0, "one server that says that everything is gone may be a liar");
    world.passes = Box::new(watch(false, false));
    world.pass(Span::secs(20));
    assert!(said.get() > 0 && world.server(3).delivered() == 1, "it said so {} times", said.get());
    world.passes = Box::new(watch(true, false));
    world.pass(Span::secs(4));
    let before = said.get();
    world.pass(Span::secs(4));
    assert_eq!(said.get(), before, "it goes on");
    goes_on(&mut world);
}

/// Found by a soak: the disk of a server that was away lost its newest state, which the others had let go of meanwhile.
#[test]
fn a_server_says_so_when_nobody_has_the_state_any_more_that_its_disk_lost() {
    let mut world = World::new(Setup { retain: 4, ..little() });
    for n in 0..9 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    world.kill(3);
    for n in 9..25 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    let blob = |written: &Written<_>| match written {
        Written::Blob(name, _) => Some(*name),
        _ => None,
    };
    let blobs: Vec<Hash> = world.node(3).server.journal.iter().filter_map(blob).collect();
    blobs.iter().for_each(|name| world.node_mut(3).server.rot(name));
    let said = Rc::new(Cell::new(0));
    let count = said.clone();
    world.passes = Box::new(move |e: &Envelope| {
        let stuck = matches!(&e.message, Message::Ordering(Say::Stuck));
        count.set(count.get() + u32::from(stuck && e.from == 3));
        // The order names no newer state by itself.
        !(e.to == 3 && matches!(&e.message, Message::Ordering(Say::Gone { .. })))
    });
    world.open(3, Condition::Clean);
    world.pass(Span::millis(400));
    assert_eq!(said.get(), 0, "the others are asked first");
    world.pass(Span::secs(5));
    assert!(said.get() > 0 && world.server(3).delivered() == 1);
    world.passes = Box::new(|_| true);
    world.pass(Span::secs(10));
    assert_eq!(world.delivered(), [26; 4]);
    world.agree();
}

#[test]
fn a_jump_of_the_order_to_the_state_that_is_being_taken_starts_over_behind_it() {
    let mut world = behind();
    // Names come, and no chunk.
    let chunk = |e: &Envelope| {
        matches!(&e.message, Message::Server(ServerMessage::Transfer(TransferMessage::Chunk(_))))
    };
    world.passes = Box::new(move |e| !chunk(e) && certified(e));
    world.pass(Span::secs(2));
    let mark = mark(&world, 1, 40);
    let root = mark.root(world.maker.cluster.domains());
    world.say(0, 3, Message::Ordering(Say::Gone { position: mark.position, root }));
    world.calm();
    world.passes = Box::new(certified);
    world.pass(Span::secs(4));
    goes_on(&mut world);
}

#[test]
fn chunks_that_a_crash_kept_from_becoming_a_state_are_released() {
    let mut world = behind();
    let passed = Rc::new(Cell::new(0));
    let count = passed.clone();
    let chunk = |e: &Envelope| {
        matches!(&e.message, Message::Server(ServerMessage::Transfer(TransferMessage::Chunk(_))))
    };
    world.passes = Box::new(move |e| {
        if !chunk(e) {
            return certified(e);
        }
        count.set(count.get() + 1);
        count.get() == 1
    });
    world.pass(Span::secs(3));
    let names = mark(&world, 1, 40);
    let held = |world: &World| {
        let names = names.dedup.iter().chain(names.directory.iter()).chain(names.ring.iter());
        names.filter(|name| world.node(3).server.holds(name)).count()
    };
    assert_eq!(held(&world), 1, "one of three came");
    world.passes = Box::new(move |e| !chunk(e) && certified(e));
    world.restart(3);
    assert_eq!(held(&world), 0);
    world.passes = Box::new(certified);
    world.pass(Span::secs(6));
    assert_eq!(held(&world), 3);
    goes_on(&mut world);
}

#[test]
fn an_application_that_lost_its_lane_goes_back_to_the_state_of_its_server() {
    let mut world = World::new(little());
    for n in 0..6 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    world.kill(2);
    world.node_mut(2).applied.clear();
    world.open(2, Condition::Clean);
    world.calm();
    assert_eq!(world.node(2).applied.len(), 6, "that of the checkpoint, and what lies behind it");
    world.agree();
    // The next checkpoints have equal roots, which the order asserts.
    for n in 6..13 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    assert_eq!(world.delivered(), [14; 4]);
    world.agree();
}

/// A certified state stays, however many checkpoints follow that nobody certifies: whoever cannot go on needs it.
#[test]
fn the_newest_certified_state_outlives_many_that_are_not_certified() {
    let mut world = behind_of(Setup { retain: 4, ..little() });
    let certifies = |e: &Envelope| !matches!(&e.message, Message::Ordering(Say::Root { position, .. }) if position.0 > 40);
    // Servers 0 to 2 go on for many checkpoints, two of them through a restart.
    let is_deaf = |e: &Envelope| {
        e.to == 3 && matches!(e.message, Message::Store(_) | Message::Ordering(Say::Gone { .. }))
    };
    world.passes = Box::new(move |e| certifies(e) && !is_deaf(e));
    for n in 44..104 {
        let batch = batch(&world, n);
        world.deliver(&batch);
        // Checks cost credit, which comes with time.
        world.pass(Span::millis(100));
    }
    [1, 2].into_iter().for_each(|id| world.restart(id));
    assert_eq!(world.delivered(), [105, 105, 105, 1]);
    world.passes = Box::new(certifies);
    world.pass(Span::secs(10));
    assert_eq!(world.delivered(), [105; 4], "the state at 40, and what lies behind it");
    let installed = world.node(3).server.notes.iter().filter(|note| note.name == "state_installed");
    assert_eq!(installed.map(|note| note.values[1]).collect::<Vec<_>>(), [41]);
    world.agree();
}
