//! Entries of a faulty leader that are no items: positions count them, and checkpoints fall due for nothing.

use synod_chopchop::batch::Sealed;
use synod_chopchop::config::Rules;
use synod_chopchop::vocabulary::Message;
use synod_machine::{Bounded, Condition, Span};
use synod_wire::{Blob, Bytes};

use crate::ideal::Say;
use crate::world::{N, Recipe, Setup, World};

/// Checkpoints that fall due for one height in these tests.
const DUE: u64 = 1_000;

fn often() -> Setup {
    let usual = Setup::default();
    let rules = Rules { checkpoint_every: 4, horizon: 64, ..usual.rules };
    Setup { rules, retain: 8, ..usual }
}

fn batch(world: &World, n: u64) -> Sealed {
    let expiry = world.server(0).height() + 50;
    world.maker.batch(&Recipe { expiry, ..Recipe::of(n, &[(1, n), (2, n)]) })
}

fn deliver(world: &mut World, batches: core::ops::Range<u64>) {
    for n in batches {
        let batch = batch(world, n);
        world.deliver(&batch);
        // Checks cost credit, which comes with time.
        world.pass(Span::millis(100));
    }
}

/// The order takes so many entries that are nothing.
fn junk(world: &mut World, count: u64) {
    for n in 0..count {
        let payload = Blob::try_from(Bytes::copy_from_slice(&n.to_le_bytes())).expect("small");
        world.say(0, 0, Message::Ordering(Say::Number(payload)));
    }
    world.calm();
}

fn bytes(world: &World, id: u32) -> u64 {
    world.server(id).bytes()
}

#[test]
fn entries_that_are_nothing_cost_no_memory_while_the_application_is_busy() {
    let mut world = World::new(often());
    deliver(&mut world, 0..70);
    (0..N).for_each(|id| world.node_mut(id).late = Some(Vec::new()));
    let before: Vec<u64> = (0..N).map(|id| bytes(&world, id)).collect();
    junk(&mut world, 4 * DUE);
    for (id, before) in (0..N).zip(before) {
        let more = bytes(&world, id) - before;
        assert!(more < 128 << 10, "the chunks of one state, not {more} bytes for {DUE} checkpoints");
    }
    // Batches are delivered, though no checkpoint is durable; then one is due of another height.
    deliver(&mut world, 70..72);
    assert_eq!(world.delivered(), [73; 4]);
    world.agree();
}

#[test]
fn batches_go_on_at_once_whatever_checkpoints_of_one_height_are_due() {
    let mut world = World::new(often());
    deliver(&mut world, 0..70);
    let of_height = |world: &World, id: u32, height: u64| {
        world.node(id).asked.iter().filter(|(_, asked)| *asked == height).count()
    };
    (0..N).for_each(|id| world.node_mut(id).late = Some(Vec::new()));
    junk(&mut world, 4 * DUE);
    deliver(&mut world, 70..71);
    assert_eq!(world.delivered(), [72; 4]);
    (0..N).for_each(|id| assert!(of_height(&world, id, 71) <= 8, "few stand for all"));
    (0..N).for_each(|id| world.answer_late(id));
    world.calm();
    (0..N).for_each(|id| assert!(of_height(&world, id, 71) <= 16, "few stand for all"));
    // Each of them has its root, which is the same, and the order goes on behind it.
    deliver(&mut world, 71..80);
    assert_eq!(world.delivered(), [81; 4]);
    world.agree();
}

#[test]
fn a_server_that_was_away_takes_the_state_of_one_of_many_checkpoints_of_one_height() {
    for rest in 0..6 {
        let mut world = World::new(often());
        deliver(&mut world, 0..6);
        world.kill(3);
        deliver(&mut world, 6..9);
        junk(&mut world, 400 + rest);
        world.restart(1);
        junk(&mut world, 40);
        world.open(3, Condition::Clean);
        world.pass(Span::secs(4));
        assert_eq!(world.delivered(), [10; 4], "{rest} more");
        assert!(world.node(3).server.notes.iter().any(|note| note.name == "behind_retention"));
        deliver(&mut world, 9..20);
        assert_eq!(world.delivered(), [21; 4], "{rest} more");
        world.agree();
        world.restart(3);
        assert_eq!(world.delivered(), [21; 4], "{rest} more");
    }
}

#[test]
fn the_digests_of_a_state_are_those_of_its_height_however_many_were_accepted_behind_it() {
    let mut world = World::new(often());
    deliver(&mut world, 0..70);
    // Bodies are kept from server 2, which accepts twenty batches and delivers none of them.
    world.passes = Box::new(|envelope| envelope.to != 2 || !matches!(envelope.message, Message::Store(_)));
    for n in 70..90 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    assert_eq!((world.server(2).delivered(), world.server(2).height()), (71, 91));
    world.passes = Box::new(|_| true);
    world.pass(Span::secs(4));
    // Its roots are those of the others, which the order asserts.
    assert_eq!(world.delivered(), [91; 4]);
    world.restart(2);
    deliver(&mut world, 90..100);
    assert_eq!(world.delivered(), [101; 4]);
    world.agree();
}
