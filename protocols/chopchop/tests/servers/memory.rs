//! What brokers and lagging servers can make a store hold (T23, T24).

use synod_chopchop::batch::{Refusal, Sealed};
use synod_chopchop::config::Rules;
use synod_chopchop::message::{StoreMessage, Upload};
use synod_chopchop::server::ServerInput;
use synod_chopchop::store::{Quota, StoreParameters};
use synod_machine::{Bounded, Condition, Span};

use crate::world::{BROKER, OTHER, Recipe, Setup, World};

fn batch(world: &World, n: u64, expiry: u64) -> Sealed {
    world.maker.batch(&Recipe { expiry, ..Recipe::of(n, &[(1, n), (2, n)]) })
}

fn small_quota() -> Setup {
    let usual = Setup::default();
    let quota = Quota { bytes: 64 << 10, batches: 4, work: 100, burst: 1_000 };
    Setup { parameters: StoreParameters { other: quota, ..usual.parameters }, ..usual }
}

#[test]
fn what_is_witnessed_and_never_ordered_goes_at_its_expiry() {
    // T23.
    let mut world = World::usual();
    let pinned = batch(&world, 1, 3);
    let digest = world.upload(BROKER, &[0], &pinned);
    let name = world.body_name(&pinned);
    assert_eq!(world.shards(&digest).len(), 1);
    for n in 10..12 {
        assert!(world.node(0).store.holds(&name), "H is below the expiry");
        let other = batch(&world, n, 100);
        world.deliver(&other);
    }
    assert_eq!(world.delivered(), [3; 4]);
    assert!(!world.node(0).store.holds(&name));
    world.restart(0);
    world.say(BROKER, 0, StoreMessage::Ask(digest));
    world.inbox.clear();
    world.calm();
    assert!(world.shards(&digest).is_empty(), "it stays forgotten");
}

#[test]
fn a_broker_beyond_its_quota_loses_its_oldest_unwitnessed_batch_and_no_other() {
    // T23, C23: four batches, of which two are pinned.
    let mut world = World::new(small_quota());
    let batches: Vec<Sealed> = (0..9).map(|n| batch(&world, n, 100)).collect();
    let digest = |world: &World, at: usize| batches[at].digest(world.maker.cluster.domains());
    let upload = |world: &mut World, at: usize, ask: bool| {
        world.say(OTHER, 0, StoreMessage::Batch(Upload::messages(ask, batches[at].clone())));
        world.calm();
    };
    for (at, ask) in [(0, true), (1, false), (2, true), (3, false)] {
        upload(&mut world, at, ask);
    }
    upload(&mut world, 4, false);
    for at in [0, 1, 2, 3, 4] {
        world.say(OTHER, 0, StoreMessage::Ask(digest(&world, at)));
    }
    world.calm();
    let witnessed: Vec<bool> = (0..5).map(|at| world.shards(&digest(&world, at)).len() == 1).collect();
    assert_eq!(witnessed, [true, false, true, true, true], "number 1 gave way");
    upload(&mut world, 5, true);
    assert_eq!(world.refusals(&digest(&world, 5)), [(0, Refusal::Credit)], "all that is left is pinned");
    // Another broker has a quota of its own.
    let other = batch(&world, 20, 100);
    let digest = world.upload(BROKER, &[0], &other);
    assert_eq!(world.shards(&digest).len(), 1);
}

#[test]
fn an_undistilled_flood_keeps_to_its_credit() {
    // T35, D17: each small batch costs 100, and a thousand are saved up.
    let mut world = World::new(small_quota());
    let mut shards = 0;
    for n in 0..14 {
        let batch = batch(&world, n, 100);
        let digest = world.upload(OTHER, &[0], &batch);
        shards += world.shards(&digest).len();
        world.order_by_hand(&batch, n + 2);
    }
    assert_eq!(shards, 10);
    world.pass(Span::secs(2));
    let batch = batch(&world, 90, 100);
    let digest = world.upload(OTHER, &[0], &batch);
    assert_eq!(world.shards(&digest).len(), 1, "work comes back with time");
}

/// Bytes of batches that the application of a server was given above a height.
fn given(world: &World, id: u32, above: u64) -> u64 {
    let waiting = world.node(id).applied.iter().filter(|apply| apply.height > above);
    waiting.map(|apply| u64::from(apply.batch.header().body_len) + 4 * apply.ids.len() as u64).sum()
}

#[test]
fn an_application_that_is_slow_is_given_no_more_than_it_may_hold() {
    let mut world = World::new(Setup { slow: Some(500), ..Setup::default() });
    for n in 0..40 {
        let batch = batch(&world, n, 900);
        world.deliver(&batch);
    }
    world.pass(Span::secs(5));
    let stopped = world.delivered();
    assert!(stopped.iter().all(|height| (4..20).contains(height)), "it waits: {stopped:?}");
    let mut executed = [1; 4];
    while executed.iter().min() < Some(&40) {
        for (id, executed) in (0..4).zip(&mut executed) {
            let waits = given(&world, id, *executed);
            assert!(waits <= 500 + given(&world, id, world.delivered()[0] - 1), "{waits} bytes wait");
            let awaited = world.node(id).applied.iter().rev().find(|apply| apply.awaited);
            let height = awaited.map_or(1, |apply| apply.height);
            assert!(height > *executed || height + 4 > 41, "something new is awaited");
            *executed = height;
            world.tell_server(id, ServerInput::Executed { height });
        }
        world.calm();
    }
    assert_eq!(world.delivered(), [41; 4]);
    world.agree();
}

#[test]
fn memory_stays_bounded_with_one_server_down() {
    // T24: the world asserts bytes() <= bytes_max() behind every step.
    let usual = Setup::default();
    let rules = Rules { checkpoint_every: 4, ..usual.rules };
    let parameters = StoreParameters { retain_bytes: 40_000, ..usual.parameters };
    let mut world = World::new(Setup { rules, parameters, retain: 8, ..usual });
    world.kill(3);
    let mut names = Vec::new();
    for n in 0..40 {
        let batch = batch(&world, n, 900);
        names.push(world.body_name(&batch));
        world.deliver(&batch);
    }
    assert_eq!(world.delivered(), [41; 3]);
    let kept = names.iter().filter(|name| world.node(0).store.holds(name)).count();
    assert!((8..=14).contains(&kept), "the cap holds below the certified checkpoint: {kept}");
    let store = world.node(0).store.machine.as_ref().expect("it is up");
    assert!(store.bytes() < 64 << 10, "{}", store.bytes());
    // It takes the certified state from the others and goes on behind it.
    world.open(3, Condition::Clean);
    world.pass(Span::secs(4));
    assert_eq!(world.delivered(), [41; 4]);
    assert!(world.node(3).server.notes.iter().any(|note| note.name == "state_installed"));
    world.agree();
    for n in 40..46 {
        let batch = batch(&world, n, 900);
        world.deliver(&batch);
    }
    assert_eq!(world.delivered(), [47; 4]);
    world.agree();
    world.restart(3);
    assert_eq!(world.delivered(), [47; 4], "what it took is durable");
}
