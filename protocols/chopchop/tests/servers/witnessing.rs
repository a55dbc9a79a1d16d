//! What a store witnesses, and what it refuses by which code (T1, T2, T28, T42).

use synod_chopchop::batch::{BatchFault, Refusal};
use synod_chopchop::config::Rules;
use synod_chopchop::ids::IdCodec;
use synod_chopchop::message::{StoreMessage, Upload};
use synod_chopchop::store::StoreParameters;
use synod_sim::Crypto;
use synod_wire::Bytes;

use crate::world::{BROKER, N, OTHER, Recipe, Setup, World};

const EIGHT: [(u32, u64); 8] = [(0, 10), (1, 11), (2, 12), (3, 13), (5, 15), (7, 17), (8, 18), (15, 25)];

fn witnessed(world: &mut World, recipe: &Recipe) -> bool {
    let batch = world.maker.batch(recipe);
    let digest = world.upload(BROKER, &[0], &batch);
    let shards = world.shards(&digest).len();
    assert_eq!(shards + world.refusals(&digest).len(), 1, "one answer");
    shards == 1
}

#[test]
fn a_batch_is_witnessed_however_many_of_it_straggle() {
    // T28, with both schemes of keys.
    for crypto in [Crypto::Toy, Crypto::Real] {
        let mut world = World::new(Setup { crypto, ..Setup::default() });
        let plain = Recipe::of(5, &EIGHT);
        assert!(witnessed(&mut world, &plain), "nobody straggles");
        assert!(witnessed(&mut world, &plain.clone().all_straggle()), "everybody straggles");
        assert!(
            witnessed(&mut world, &Recipe { stragglers: vec![(3, 2)], ..plain.clone() }),
            "one straggles"
        );
        let half = vec![(0, 5), (2, 0), (4, 1), (6, 4)];
        assert!(witnessed(&mut world, &Recipe { stragglers: half, ..plain.clone() }), "half straggles");
        let most = vec![(0, 5), (1, 0), (2, 0), (3, 0), (4, 1), (6, 4)];
        assert!(
            witnessed(&mut world, &Recipe { stragglers: most, voids: vec![5], ..plain.clone() }),
            "one signs"
        );
        assert!(
            witnessed(&mut world, &Recipe { voids: (0..8).collect(), ..plain }),
            "nobody stands behind it"
        );
        assert!(world.node(0).store.blamed.is_empty());
        assert!(world.node(0).store.rules.contains("S10_witness"));
    }
}

#[test]
fn an_entry_that_nobody_signed_is_refused_whatever_part_signs_for_it() {
    // T28: the signature of one client less, of one straggler under another number, none at all.
    for crypto in [Crypto::Toy, Crypto::Real] {
        let mut world = World::new(Setup { crypto, ..Setup::default() });
        let recipe = Recipe { stragglers: vec![(1, 4)], ..Recipe::of(5, &EIGHT) };
        let good = world.maker.batch(&recipe);
        let fewer = world.maker.batch(&Recipe::of(5, &EIGHT[..7]));
        let mut wrong = good.clone();
        wrong.header.aggregate = fewer.header.aggregate;
        let digest = world.upload(BROKER, &[0], &wrong);
        assert_eq!(world.refusals(&digest), [(0, Refusal::Aggregate)]);
        let mut spoiled = good.body.to_vec();
        let end = spoiled.len();
        spoiled[end - 20] ^= 1;
        let mut wrong = good;
        wrong.body = Bytes::from(spoiled);
        let digest = world.upload(BROKER, &[0], &wrong);
        assert_eq!(world.refusals(&digest), [(0, Refusal::Straggler)]);
        assert_eq!(world.node(0).store.blamed, [(BROKER, "bad_aggregate"), (BROKER, "bad_straggler")]);
        assert!(world.shards(&digest).is_empty());
    }
}

#[test]
fn a_client_that_stands_twice_in_a_batch_is_refused() {
    // T1: x is shown one message and the batch has another one of x as well.
    let mut world = World::usual();
    let mut recipe = Recipe::of(5, &[(0, 1), (1, 2), (2, 3)]);
    recipe.directory = 4;
    let good = world.maker.batch(&recipe);
    // Ids as written by hand: 1 stands where 2 stood. Packed ids of two bits make a byte of the column.
    let mut twice = good.clone();
    twice.header.codec = IdCodec::Packed(2);
    let mut body = good.body.to_vec();
    let ids = match good.header.codec {
        IdCodec::Packed(_) | IdCodec::EliasFano => 8,
        IdCodec::Range => 16,
    };
    body.splice(..ids, [0b01_01_00, 0, 0, 0, 0, 0, 0, 0]);
    twice.header.body_len = u32::try_from(body.len()).expect("small");
    twice.body = Bytes::from(body);
    let digest = world.upload(BROKER, &[0], &twice);
    assert_eq!(world.refusals(&digest), [(0, Refusal::Ids)]);
    assert_eq!(world.node(0).store.blamed, [(BROKER, "bad_ids")]);
}

#[test]
fn a_body_with_another_message_than_was_proved_is_refused() {
    // T2: what clients signed stands in the header, and the body says something else.
    let mut world = World::usual();
    let (shown, sent) = (
        Recipe::of(5, &EIGHT),
        Recipe::of(5, &[(0, 99), (1, 11), (2, 12), (3, 13), (5, 15), (7, 17), (8, 18), (15, 25)]),
    );
    let (shown, mut sent) = (world.maker.batch(&shown), world.maker.batch(&sent));
    sent.header = shown.header;
    let digest = world.upload(BROKER, &[0, 1], &sent);
    assert_eq!(world.refusals(&digest), [(0, Refusal::Root), (1, Refusal::Root)]);
    assert_eq!(world.node(1).store.blamed, [(BROKER, "bad_root")]);
}

#[test]
fn the_limits_of_a_batch_are_taken_and_one_beyond_is_refused() {
    // T42.
    let mut world = World::usual();
    let entries = |count: u32| (0..count).map(|id| (id, u64::from(id))).collect::<Vec<_>>();
    assert!(witnessed(&mut world, &Recipe::of(0, &entries(1))), "k = 0, one entry");
    assert!(
        witnessed(&mut world, &Recipe::of(u64::MAX - 1, &entries(16))),
        "the last k that leaves a free one"
    );
    let expiry = |expiry| Recipe { expiry, ..Recipe::of(1, &entries(2)) };
    // The height is 1 and the horizon 1,000.
    assert!(witnessed(&mut world, &expiry(2)));
    assert!(witnessed(&mut world, &expiry(1_001)));
    for (recipe, why) in [(expiry(1), Refusal::Expired), (expiry(1_002), Refusal::TooFar)] {
        let batch = world.maker.batch(&recipe);
        let digest = world.upload(BROKER, &[0], &batch);
        assert_eq!(world.refusals(&digest), [(0, why)]);
    }
    assert!(world.node(0).store.blamed.is_empty(), "who is late or early is not blamed");
    let mut beyond = world.maker.batch(&Recipe::of(u64::MAX - 1, &entries(2)));
    beyond.header.k = u64::MAX;
    let digest = world.upload(BROKER, &[0], &beyond);
    assert_eq!(world.refusals(&digest), [(0, Refusal::Straggler)], "no number is left above it");
    let mut long = Recipe::of(1, &entries(1));
    long.entries[0].1 = vec![7; 65_535];
    let usual = Setup::default();
    let rules = Rules { body_bytes_max: 70_000, batch_max: 15, ..usual.rules };
    let parameters = StoreParameters { other: usual.parameters.genesis, ..usual.parameters };
    let mut world = World::new(Setup { rules, parameters, ..usual });
    assert!(witnessed(&mut world, &long), "the longest message");
    assert!(witnessed(&mut world, &Recipe::of(1, &entries(15))), "the cap of entries");
    assert!(!witnessed(&mut world, &Recipe::of(1, &entries(16))), "one more");
    assert_eq!(BatchFault::Counts.refusal(), Refusal::Malformed);
}

#[test]
fn a_batch_that_needs_a_longer_directory_waits_and_is_refused_after_two_seconds() {
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe { directory: 17, ..Recipe::of(5, &EIGHT) });
    let digest = world.upload(BROKER, &[0], &batch);
    world.pass(synod_machine::Span::millis(1_900));
    assert!(world.refusals(&digest).is_empty() && world.shards(&digest).is_empty());
    world.pass(synod_machine::Span::millis(200));
    assert_eq!(world.refusals(&digest), [(0, Refusal::Directory)]);
    assert!(world.node(0).store.blamed.is_empty());
}

#[test]
fn a_batch_is_kept_without_being_asked_for_and_witnessed_when_asked() {
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(5, &EIGHT));
    let digest = batch.digest(world.maker.cluster.domains());
    for server in 0..N {
        world.say(BROKER, server, StoreMessage::Batch(Upload::messages(false, batch.clone())));
    }
    world.calm();
    assert!(world.shards(&digest).is_empty());
    world.say(OTHER, 2, StoreMessage::Ask(digest));
    world.calm();
    assert_eq!(world.shards(&digest).len(), 1);
    assert!(world.node(2).store.holds(&world.body_name(&batch)), "a shard means a body on disk");
    assert!(!world.node(1).store.holds(&world.body_name(&batch)));
}
