//! Batches that a faulty broker makes, with the signatures it can get (T3, T5, T6), and shares of what servers check (D17).

use synod_chopchop::batch::{Refusal, Sealed};
use synod_chopchop::certificate::Signers;
use synod_chopchop::config::Rules;
use synod_chopchop::dedup::Reason;
use synod_chopchop::item::Item;
use synod_chopchop::message::{ServerMessage, StoreMessage, Upload};
use synod_chopchop::server::{ServerJob, ServerTask};
use synod_chopchop::statement::{BlsSignatureBytes, Height, Root, Witness};
use synod_chopchop::store::{Quota, StoreParameters, Task};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Signature};
use synod_machine::{Bounded, Job, Span};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::Crypto;

use crate::world::{BROKER, N, OTHER, Recipe, Setup, World};

/// Credit for thousands of small batches.
fn rich() -> Setup {
    let usual = Setup::default();
    let quota = Quota { bytes: 8 << 20, batches: 4_096, work: 1_000, burst: 10_000_000 };
    Setup { parameters: StoreParameters { genesis: quota, other: quota, ..usual.parameters }, ..usual }
}

/// The signature of client `id` over the root of this batch.
fn share(world: &World, batch: &Sealed, id: u32) -> synod_crypto::bls::BlsSignature {
    let cluster = &world.maker.cluster;
    let root = Root { root_commit: batch.header.root_commit(cluster.domains()) };
    world.maker.client(id).sign_bls(&cluster.scope(), &root).expect("a secret")
}

#[test]
fn t03_clients_that_were_shown_different_numbers_stand_under_one_only_as_stragglers() {
    for crypto in [Crypto::Toy, Crypto::Real] {
        let mut world = World::new(Setup { crypto, ..Setup::default() });
        let entries = [(1, 10), (2, 20), (3, 30)];
        let low = world.maker.batch(&Recipe::of(5, &entries));
        let high = world.maker.batch(&Recipe::of(6, &entries));
        // Clients 1 and 2 signed k = 5, client 3 was shown k = 6.
        for batch in [&low, &high] {
            let shares = [share(&world, &low, 1), share(&world, &low, 2), share(&world, &high, 3)];
            let sum = world.maker.ring.keys(0).bls().sum_signatures(shares);
            let mut split = batch.clone();
            split.header.aggregate = Some(BlsSignatureBytes(sum.to_signature().to_bytes()));
            let digest = world.upload(BROKER, &[0], &split);
            assert_eq!(world.refusals(&digest), [(0, Refusal::Aggregate)]);
        }
        // The one whose signature is missing stands by its own number, which may not be above that of the batch.
        let recipe = Recipe { stragglers: vec![(2, 4)], ..Recipe::of(5, &entries) };
        let batch = world.maker.batch(&recipe);
        world.deliver(&batch);
        assert_eq!(world.outcome(&batch), []);
        let next: Vec<u64> = (1..4).map(|id| world.server(0).slot(id).expect("a client").next_k).collect();
        assert_eq!(next, [6, 6, 5], "each under the number it signed");
        let above = Recipe { stragglers: vec![(2, 7)], ..Recipe::of(7, &entries) };
        let mut above = world.maker.batch(&above);
        above.header.k = 6;
        let digest = world.upload(BROKER, &[0], &above);
        assert_eq!(world.refusals(&digest), [(0, Refusal::Straggler)], "k below the k0 of a straggler");
    }
}

#[test]
fn t05_thousands_of_one_message_batches_raise_no_number_by_more_than_the_heights_they_gain() {
    let usual = rich();
    let rules = Rules { checkpoint_every: 32, ..usual.rules };
    let mut world = World::new(Setup { rules, ..usual });
    let victim = |world: &World| world.server(0).slot(1).expect("a client").next_k;
    let mut since = 0;
    for n in 0..2_000_u64 {
        // A colluding client always signs the highest number that is legitimate; client 1 broadcasts now and then.
        let height = world.delivered()[0];
        let colluding = (2 + u32::try_from(n % 2).expect("small"), n);
        let company = if n % 250 == 249 { vec![(1, n), colluding] } else { vec![colluding] };
        let batch = world.maker.batch(&Recipe { expiry: height + 500, ..Recipe::of(height - 1, &company) });
        let before = victim(&world);
        world.deliver(&batch);
        let gained = victim(&world) - before;
        assert!(gained <= height + 1 - since, "a gap of {gained} in {} heights", height + 1 - since);
        assert!(victim(&world) <= height, "H batches prove no number above H - 1");
        if gained > 0 {
            since = height + 1;
        }
        world.inbox.clear();
    }
    assert_eq!(world.delivered(), [2_001; 4]);
    assert_eq!(victim(&world), 2_000, "it signed with the last of them");
    // It goes on under the next number all the same.
    let next = world.maker.batch(&Recipe { expiry: 2_500, ..Recipe::of(2_000, &[(1, 77)]) });
    world.deliver(&next);
    assert_eq!(world.outcome(&next), []);
    world.agree();
}

#[test]
fn t06_a_message_that_signs_in_one_batch_and_straggles_in_another_is_delivered_once_in_either_order() {
    for (crypto, straggles_first) in
        [(Crypto::Toy, false), (Crypto::Toy, true), (Crypto::Real, false), (Crypto::Real, true)]
    {
        let mut world = World::new(Setup { crypto, ..Setup::default() });
        // Two brokers, other company, other numbers.
        let signs = world.maker.batch(&Recipe::of(9, &[(1, 5), (2, 6)]));
        let straggles = Recipe { stragglers: vec![(0, 3)], ..Recipe::of(4, &[(1, 5), (7, 8)]) };
        let straggles = world.maker.batch(&straggles);
        let order = if straggles_first { [&straggles, &signs] } else { [&signs, &straggles] };
        for batch in order {
            world.deliver(batch);
        }
        assert_eq!(world.outcome(order[0]), []);
        assert_eq!(world.outcome(order[1]), [(0, Reason::Same)], "the client is told that it is delivered");
        assert_eq!(world.server(0).slot(1).expect("a client").next_k, 10);
        let times = world.node(3).applied.iter().filter(|apply| {
            let index = apply.ids.iter().position(|id| *id == 1).and_then(|at| u32::try_from(at).ok());
            index.is_some_and(|index| apply.exceptions.reason(index).is_none())
        });
        assert_eq!(times.count(), 1);
        world.agree();
    }
}

#[test]
fn a_broker_that_floods_a_server_with_items_keeps_nobody_from_ordering() {
    let mut world = World::new(rich());
    let batch = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    let digest = world.upload(BROKER, &[0, 1, 2, 3], &batch);
    let statement = world.statement(&batch);
    world.node_mut(1).server.holding = true;
    let signers = Signers::new(NodeSet::first(2), N).expect("members");
    for n in 0..5_000_u64 {
        let digest = Hash::of(&n.to_le_bytes());
        let shards = vec![Signature([7; 64]); 2];
        let forged =
            Item::new(Witness { digest, ..statement.clone() }, signers, shards).expect("a shard of each");
        world.say(OTHER, 1, ServerMessage::Order(forged));
    }
    world.calm();
    let checks = |world: &World| {
        let of =
            |job: &&ServerJob<_>| matches!(job, ServerJob::Own(own) if matches!(own.1, ServerTask::Item(..)));
        world.node(1).server.jobs.iter().filter(of).count()
    };
    let flooded = checks(&world);
    assert_eq!(flooded, 2_048, "half of all places");
    world.order(&batch, &[0, 1]);
    assert_eq!(checks(&world), flooded + 1);
    world.node_mut(1).server.holding = false;
    world.calm();
    assert_eq!((world.delivered(), world.verdicts(&digest).len()), (vec![2; 4], 4));
}

#[test]
fn a_broker_that_floods_a_store_leaves_the_others_a_place_for_their_bodies() {
    for (flooding, other, share) in [(OTHER, BROKER, 4), (BROKER, OTHER, 8)] {
        let mut world = World::new(rich());
        world.node_mut(0).store.holding = true;
        let idle = world.node(0).store.machine.as_ref().expect("it is up").bytes();
        let digests = |world: &World| {
            let of = |job: &&synod_chopchop::store::StoreJob| matches!(job.task, Task::Digest(..));
            world.node(0).store.jobs.iter().filter(of).count()
        };
        for n in 0..40 {
            let batch = world.maker.batch(&Recipe::of(n, &[(1, n)]));
            world.say(flooding, 0, StoreMessage::Batch(Upload::messages(false, batch)));
        }
        world.calm();
        assert_eq!(digests(&world), share, "of sixteen");
        let body = world.maker.batch(&Recipe::of(0, &[(1, 0)])).body.len() as u64;
        let bytes = world.node(0).store.machine.as_ref().expect("it is up").bytes();
        assert_eq!(bytes - idle, body * share as u64, "what jobs hold is counted");
        let batch = world.maker.batch(&Recipe::of(90, &[(2, 1)]));
        let digest = world.upload(other, &[0], &batch);
        assert_eq!(digests(&world), share + 1);
        world.node_mut(0).store.holding = false;
        world.calm();
        assert_eq!(world.shards(&digest).len(), 1);
    }
}

/// Clients of batches that are large enough to cost nothing when they are sound.
const MANY: u32 = 4_096;

fn many(other: Quota) -> World {
    let usual = Setup::default();
    let rules = Rules { batch_max: MANY, body_bytes_max: 1 << 20, ..usual.rules };
    let parameters = StoreParameters { other, ..usual.parameters };
    World::new(Setup { rules, parameters, clients: MANY, ..usual })
}

/// A byte of each of so many clients under the number `k`.
fn everybody(k: u64) -> Recipe {
    let entries = (0..MANY).map(|id| (id, vec![7], false)).collect();
    Recipe { directory: MANY, entries, ..Recipe::of(k, &[]) }
}

#[test]
fn t35_full_batches_that_do_not_hold_cost_their_broker_what_their_checks_cost() {
    // 612 each: 100, and one for every eight signers.
    let mut world = many(Quota { bytes: 8 << 20, batches: 64, work: 1_000, burst: 10_000 });
    let sound = world.maker.batch(&everybody(0));
    let mut verdicts = Vec::new();
    for k in 1..=20 {
        let mut forged = sound.clone();
        forged.header.k = k;
        let digest = world.upload(OTHER, &[0], &forged);
        verdicts.extend(world.refusals(&digest).into_iter().map(|(_, why)| why));
    }
    let expected = [vec![Refusal::Aggregate; 17], vec![Refusal::Credit; 3]].concat();
    assert_eq!(verdicts, expected, "the seventeenth leads into debt");
    let digest = world.upload(OTHER, &[0], &sound);
    assert_eq!(world.refusals(&digest), [(0, Refusal::Credit)], "what costs nothing is not checked either");
    let digest = world.upload(BROKER, &[0], &sound);
    assert_eq!(world.shards(&digest).len(), 1, "others have their own account");
    world.pass(Span::secs(1));
    let next = world.maker.batch(&everybody(30));
    let digest = world.upload(OTHER, &[0], &next);
    assert_eq!(world.shards(&digest).len(), 1, "the debt is earned back");
}

#[test]
fn t35_a_full_batch_of_voids_costs_as_much_as_one_of_stragglers() {
    let mut world = many(Quota { bytes: 8 << 20, batches: 64, work: 1_000, burst: 10_000 });
    let shards: Vec<usize> = (0..3)
        .map(|k| {
            let batch = world.maker.batch(&Recipe { voids: (0..MANY).collect(), ..everybody(k) });
            let digest = world.upload(OTHER, &[0], &batch);
            world.shards(&digest).len()
        })
        .collect();
    assert_eq!(shards, [1, 1, 0], "4,096 of 10,000 each");
}

/// The batches that a store checks or is to check at once.
fn checks(world: &World) -> Vec<Hash> {
    let of = |job: &synod_chopchop::store::StoreJob| match &job.task {
        Task::Batch(check) => Some(check.digest),
        _ => None,
    };
    world.node(0).store.jobs.iter().filter_map(of).collect()
}

fn upload_unasked(world: &mut World, broker: u32, n: u64) -> Hash {
    let batch = world.maker.batch(&Recipe::of(n, &[(1, n)]));
    world.say(broker, 0, StoreMessage::Batch(Upload::messages(false, batch.clone())));
    world.calm();
    batch.digest(world.maker.cluster.domains())
}

#[test]
fn t35_a_broker_that_asks_for_many_checks_leaves_the_others_a_place_for_theirs() {
    for (flooding, other, share) in [(OTHER, BROKER, 4), (BROKER, OTHER, 8)] {
        let mut world = World::new(rich());
        let own = upload_unasked(&mut world, other, 90);
        let asked: Vec<Hash> = (0..40).map(|n| upload_unasked(&mut world, flooding, n)).collect();
        world.node_mut(0).store.holding = true;
        // It asks for the other one's batch, too, behind all of its own.
        for digest in asked.iter().chain([&own]) {
            world.say(flooding, 0, StoreMessage::Ask(*digest));
        }
        world.calm();
        assert_eq!(checks(&world), asked[..share], "of sixteen, those it asked for first");
        world.say(other, 0, StoreMessage::Ask(own));
        world.calm();
        assert_eq!((checks(&world).len(), checks(&world).last()), (share + 1, Some(&own)));
        world.node_mut(0).store.holding = false;
        world.calm();
        assert!(asked.iter().chain([&own]).all(|digest| world.shards(digest).len() == 1));
    }
}

#[test]
fn a_broker_that_asks_for_old_heights_makes_no_server_sign_as_its_own_work() {
    let mut world = World::usual();
    for n in 0..12 {
        let batch = world.maker.batch(&Recipe::of(n, &[(1, n)]));
        world.deliver(&batch);
    }
    world.inbox.clear();
    world.node_mut(0).server.holding = true;
    for height in 1..=12 {
        world.say(OTHER, 0, ServerMessage::HeightAsk(Height { height }));
    }
    world.say(BROKER, 0, ServerMessage::HeightAsk(Height { height: 13 }));
    world.calm();
    let peers: Vec<Option<NodeId>> = world.node(0).server.jobs.iter().map(Job::peer).collect();
    let expected = [vec![Some(NodeId(OTHER)); 8], vec![Some(NodeId(BROKER))]].concat();
    assert_eq!(peers, expected, "eight at a time, and those of others beside them");
    world.node_mut(0).server.holding = false;
    world.calm();
    let told = world.inbox.iter().filter(|envelope| envelope.to == BROKER);
    let heights = told.filter_map(|envelope| match &envelope.message {
        Message::Server(ServerMessage::Height(signed)) => Some(signed.statement.height),
        _ => None,
    });
    assert_eq!(heights.collect::<Vec<_>>(), [13]);
}
