//! What one faulty server or broker may try against stores and servers (T21, T22, T24, T41, T52; section 6, rows 16 to 18, 22).

use synod_chopchop::batch::Sealed;
use synod_chopchop::certificate::Signers;
use synod_chopchop::config::Rules;
use synod_chopchop::content::{AnyBatch, AnyHeader};
use synod_chopchop::item::Item;
use synod_chopchop::message::{Piece, Pull, ServerMessage, StoreMessage, TransferMessage, Upload};
use synod_chopchop::server::{Mark, ServerOutput, ServerRecord};
use synod_chopchop::statement::{Height, Kind};
use synod_chopchop::store::{Quota, Store, StoreInput, StoreOutput, StoreParameters, Task};
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Span};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, List, Wire};

use crate::ideal::Say;
use crate::world::{BROKER, N, OTHER, Recipe, Setup, World, Written};

/// Batch number `n`.
fn batch(world: &World, n: u64) -> Sealed {
    world.maker.batch(&Recipe { expiry: 900, ..Recipe::of(n, &[(1, n), (2, n)]) })
}

/// Checkpoints four positions apart, of which little is kept.
fn little() -> Setup {
    let usual = Setup::default();
    let rules = Rules { checkpoint_every: 4, ..usual.rules };
    let parameters = StoreParameters { retain_bytes: 10_000, ..usual.parameters };
    Setup { rules, parameters, retain: 8, ..usual }
}

/// One message to the store of server 0, and what it does.
fn tell(world: &mut World, from: u32, message: StoreMessage) -> Vec<Effect<Store>> {
    let now = world.now;
    let store = world.node_mut(0).store.machine.as_mut().expect("it is up");
    effects(store, Event::Message { from: NodeId(from), message: message.into() }, now)
}

fn loads(effects: &[Effect<Store>]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Load(_))).count()
}

/// A faulty member has the ordering layer order an item.
fn order_behind_the_back(world: &mut World, item: &Item) {
    let payload = Blob::try_from(item.encode()).expect("small");
    world.say(3, 0, Message::Ordering(Say::Number(payload)));
    world.calm();
}

#[test]
fn wrong_pieces_of_one_server_keep_no_pull_from_turning_to_others() {
    // T21: those who have the body were not heard; a third one sends pieces nobody asked it for.
    let mut world = World::usual();
    let batch = batch(&world, 1);
    let digest = world.upload(BROKER, &[0, 1], &batch);
    world.passes = Box::new(|e| !matches!(e.message, Message::Store(StoreMessage::Piece(_))));
    world.order(&batch, &[0, 1]);
    world.passes = Box::new(|_| true);
    for _ in 0..40 {
        let bytes = Blob::try_from(Bytes::from_static(b"x")).expect("short");
        world.say(2, 3, StoreMessage::Piece(Piece { digest, offset: 0, bytes }));
        world.pass(Span::millis(50));
    }
    assert_eq!(world.delivered(), [2; 4]);
    assert!(world.node(3).store.blamed.iter().all(|blamed| *blamed == (2, "wrong_piece")));
}

#[test]
fn pulls_of_others_never_hide_what_the_own_server_needs() {
    let mut world = World::usual();
    let batch = batch(&world, 1);
    let digest = world.deliver(&batch);
    let mut read = 0;
    for offset in 0..300 {
        let pull = Pull { digest, offset: offset % 64, length: 1 };
        read += loads(&tell(&mut world, 2, StoreMessage::Pull(pull)));
    }
    assert_eq!(read, 1, "one reading answers all who wait for it");
    let (now, name) = (world.now, world.body_name(&batch));
    let store = world.node_mut(0).store.machine.as_mut().expect("it is up");
    effects(store, Event::Input(StoreInput::Need(digest)), now);
    let done = effects(store, Event::Loaded { name, bytes: Some(batch.body.clone()) }, now);
    let given = done.iter().filter(|e| matches!(e, Effect::Output(StoreOutput::Have { .. })));
    assert_eq!(given.count(), 1);
}

#[test]
fn a_server_that_pulls_everything_has_few_bodies_read_at_a_time() {
    let mut world = World::usual();
    let digests: Vec<Hash> = (0..14)
        .map(|n| {
            let batch = batch(&world, n);
            world.deliver(&batch)
        })
        .collect();
    let read = |world: &mut World, from: u32, digests: &[Hash]| {
        let pull = |digest: &Hash| StoreMessage::Pull(Pull { digest: *digest, offset: 0, length: 9 });
        digests.iter().map(|digest| loads(&tell(world, from, pull(digest)))).sum::<usize>()
    };
    assert_eq!(read(&mut world, 2, &digests[..12]), 8);
    assert_eq!(read(&mut world, 3, &digests[12..]), 2, "others are served");
}

#[test]
fn who_asks_again_and_again_for_a_shard_makes_it_be_signed_once() {
    let mut world = World::usual();
    let batch = batch(&world, 1);
    let digest = world.upload(BROKER, &[0], &batch);
    world.restart(0);
    let shard = |effect: &Effect<Store>| matches!(effect, Effect::Compute(job) if matches!(job.task, Task::Shard(..)));
    let signed = (0..20).flat_map(|_| tell(&mut world, BROKER, StoreMessage::Ask(digest)));
    assert_eq!(signed.filter(shard).count(), 1);
}

#[test]
fn a_broker_without_credit_cannot_keep_the_batch_of_another_from_being_witnessed() {
    // D17: it has the other's batch from a faulty server and uploads it first.
    let usual = Setup::default();
    let quota = Quota { bytes: 64 << 10, batches: 4, work: 100, burst: 1_000 };
    let parameters = StoreParameters { other: quota, ..usual.parameters };
    let mut world = World::new(Setup { parameters, ..usual });
    for n in 0..10 {
        let batch = batch(&world, n);
        world.upload(OTHER, &[0], &batch);
        world.order_by_hand(&batch, n + 2);
    }
    let stolen = batch(&world, 90);
    world.say(OTHER, 0, StoreMessage::Batch(Upload::messages(true, stolen.clone())));
    world.calm();
    let digest = world.upload(BROKER, &[0], &stolen);
    assert_eq!(world.shards(&digest).len(), 1);
}

#[test]
fn a_collected_digest_is_never_fetched() {
    // T22, D4: with a horizon of eight heights a digest is forgotten, and by then its item has expired.
    let usual = Setup::default();
    let rules = Rules { checkpoint_every: 4, horizon: 8, ..usual.rules };
    let mut world = World::new(Setup { rules, ..usual });
    let mut items = Vec::new();
    for n in 0..20 {
        let height = world.delivered()[0];
        let batch = world.maker.batch(&Recipe { expiry: height + 8, ..Recipe::of(n, &[(1, n)]) });
        world.deliver(&batch);
        items.push(world.item_of(world.statement(&batch), &[0, 1]));
        items.iter().for_each(|item| order_behind_the_back(&mut world, item));
        assert_eq!(world.delivered(), [height + 1; 4], "one batch, one height");
    }
    assert!(world.node(0).store.rules.contains("collect_all"));
    assert!(world.nodes.iter().all(|node| !node.store.rules.contains("retrieve")));
    world.agree();
}

#[test]
fn a_witnessed_batch_that_breaks_a_rule_stops_every_server_with_its_evidence() {
    // Row 18: two of four servers sign what no correct one would.
    let mut world = World::usual();
    let mut bad = batch(&world, 1);
    let mut body = bad.body.to_vec();
    *body.last_mut().expect("a filling") = 1;
    bad.body = Bytes::from(body);
    let statement = world.statement(&bad);
    let digest = world.upload(BROKER, &[0, 1, 2, 3], &bad);
    assert!(world.shards(&digest).is_empty());
    for server in 0..N {
        world.say(BROKER, server, StoreMessage::Batch(Upload::messages(false, bad.clone())));
    }
    let scope = world.maker.cluster.scope();
    let sign = |id: u32| {
        let keys = world.maker.ring.keys(u64::from(id));
        keys.sign(scope, NodeId(id), statement.clone()).signature
    };
    let signers = Signers::new(NodeSet::first(2), N).expect("members");
    let item = Item::new(statement.clone(), signers, vec![sign(0), sign(1)]).expect("a shard of each");
    world.say(BROKER, 1, ServerMessage::Order(item));
    world.calm();
    for node in &world.nodes {
        let said = |output: &ServerOutput| matches!(output, ServerOutput::FalseWitness { statement: of } if *of == statement);
        assert_eq!(node.outputs.iter().filter(|output| said(output)).count(), 1);
        assert!(node.applied.is_empty());
    }
    let good = batch(&world, 2);
    world.deliver(&good);
    assert_eq!(world.delivered(), [1; 4], "nothing that follows could be trusted");
}

#[test]
fn marks_that_fall_are_blamed_and_marks_ahead_collect_nothing() {
    // Row 22.
    let mut world = World::new(Setup { parameters: Setup::default().parameters, ..little() });
    world.kill(3);
    let batches: Vec<Sealed> = (0..9).map(|n| batch(&world, n)).collect();
    for batch in &batches {
        world.deliver(batch);
    }
    let mark = |height| ServerMessage::Mark(Height { height });
    for (from, height) in [(3, 900), (2, 900), (2, 1), (OTHER, 9)] {
        world.say(from, 0, mark(height));
    }
    world.calm();
    assert_eq!(world.node(0).server.blamed, [(2, "falling_mark"), (OTHER, "stranger")]);
    assert!(batches.iter().all(|batch| world.node(0).store.holds(&world.body_name(batch))));
}

/// The newest checkpoint of a server, and one before it.
fn marks(world: &World, id: u32) -> [Mark; 2] {
    let record = |written: &Written<ServerRecord<_>>| match written {
        Written::Record(ServerRecord::Mark(mark)) => Some(mark.clone()),
        Written::Record(_) | Written::Blob(..) | Written::Erase(_) => None,
    };
    let mut all = world.node(id).server.journal.iter().rev().filter_map(record);
    [all.next(), all.next()].map(|mark| mark.expect("a checkpoint"))
}

#[test]
fn names_that_have_the_certified_root_and_are_no_state_are_blamed() {
    // 4.9: the root is over all names in a row, so it is their numbers that tell the lists apart.
    let mut world = World::new(little());
    world.kill(3);
    for n in 0..40 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    let names =
        |m: &Message<Say>| matches!(m, Message::Server(ServerMessage::Transfer(TransferMessage::Names(_))));
    world.passes = Box::new(move |e| !names(&e.message));
    world.open(3, Condition::Clean);
    world.pass(Span::secs(1));
    let [mark, older] = marks(&world, 1);
    let domains = world.maker.cluster.domains().clone();
    let all: Vec<Hash> =
        mark.dedup.iter().chain(mark.directory.iter()).chain(mark.ring.iter()).copied().collect();
    assert_eq!(all.len(), 3);
    let list = |names: &[Hash]| List::try_from(names.to_vec()).expect("few");
    let none = || List::try_from(Vec::new()).expect("none");
    let shifted = Mark { dedup: none(), directory: list(&all[..1]), ring: list(&all[1..]), ..mark.clone() };
    let inner = domains.state.hash_parts(&[&all[1].0, &all[2].0]);
    let folded = Mark { directory: list(&[inner]), ring: none(), ..mark.clone() };
    world.passes = Box::new(|_| true);
    for wrong in [shifted, folded] {
        assert_eq!(wrong.root(&domains), mark.root(&domains));
        world.say(1, 3, ServerMessage::Transfer(TransferMessage::Names(wrong)));
    }
    // What another one says of a checkpoint that was wanted before is late, and no fault.
    world.say(2, 3, ServerMessage::Transfer(TransferMessage::Names(older)));
    world.pass(Span::secs(4));
    assert_eq!(world.delivered(), [41; 4]);
    assert_eq!(world.node(3).server.blamed, [(1, "wrong_state_part"), (1, "wrong_state_part")]);
    world.agree();
}

#[test]
fn a_server_whose_bodies_were_released_everywhere_takes_the_certified_state() {
    // T52: server 3 knows the whole order and has none of its bodies; server 0 says nothing, the others that they are gone.
    let mut world = World::new(little());
    let certified =
        |m: &Message<Say>| !matches!(m, Message::Ordering(Say::Root { position, .. }) if position.0 == 44);
    world.passes = Box::new(move |e| match &e.message {
        Message::Store(StoreMessage::Batch(_) | StoreMessage::Piece(_)) => e.to != 3,
        other => certified(other),
    });
    let batches: Vec<Sealed> = (0..44).map(|n| batch(&world, n)).collect();
    for (n, batch) in batches.iter().enumerate() {
        // The last four are ordered when their place is not decided there yet.
        world.node_mut(3).server.holding = n >= 40;
        world.deliver(batch);
    }
    assert_eq!(world.delivered(), [45, 45, 45, 1]);
    assert!((0..N).all(|id| !world.node(id).store.holds(&world.body_name(&batches[0]))));
    world.passes = Box::new(move |e| {
        let pulled = matches!(e.message, Message::Store(StoreMessage::Piece(_) | StoreMessage::Gone { .. }));
        !(pulled && e.from == 0) && certified(&e.message)
    });
    world.pass(Span::secs(8));
    assert_eq!(world.delivered()[3], 41, "the certified state");
    world.node_mut(3).server.holding = false;
    world.pass(Span::secs(4));
    assert_eq!(world.delivered(), [45; 4], "and each batch behind it once");
    world.agree();
    world.passes = Box::new(|_| true);
    for n in 44..50 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    assert_eq!(world.delivered(), [51; 4]);
    world.agree();
}

#[test]
fn no_flipped_bit_of_a_batch_is_witnessed() {
    // T41: whatever of header and body a broker changes, but its own number and the expiry.
    let usual = Setup::default();
    let quota = Quota { bytes: 8 << 20, batches: 4_096, work: 1_000, burst: 10_000_000 };
    let parameters = StoreParameters { genesis: quota, ..usual.parameters };
    let mut world = World::new(Setup { parameters, ..usual });
    let recipe = Recipe {
        stragglers: vec![(1, 4)],
        voids: vec![3],
        ..Recipe::of(5, &[(0, 1), (3, 2), (5, 3), (9, 4)])
    };
    let good = world.maker.batch(&recipe);
    let bytes = [good.header.to_bytes().as_slice(), &good.body].concat();
    let mut tried = 0;
    for at in (0..bytes.len()).filter(|at| !(8..12).contains(at) && !(40..48).contains(at)) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let Some(batch) = AnyBatch::read(Kind::Messages, &Bytes::from(changed)) else { continue };
        let (AnyHeader::Messages(header), body) = (batch.header, batch.body) else { continue };
        let digest = world.upload(BROKER, &[0], &Sealed { header, body });
        assert!(world.shards(&digest).is_empty(), "byte {at}");
        tried += 1;
    }
    assert!(tried > good.body.len(), "{tried}");
    let digest = world.upload(BROKER, &[0], &good);
    assert_eq!(world.shards(&digest).len(), 1);
}

#[test]
fn a_flood_of_questions_for_heights_is_signed_a_few_at_a_time() {
    let mut world = World::usual();
    for n in 0..80 {
        let batch = batch(&world, n);
        world.deliver(&batch);
    }
    world.inbox.clear();
    world.node_mut(0).server.holding = true;
    let ask = |world: &mut World| {
        for height in 1..=81 {
            world.say(OTHER, 0, ServerMessage::HeightAsk(Height { height }));
        }
        world.calm();
    };
    ask(&mut world);
    assert_eq!(world.node(0).server.jobs.len(), 8);
    world.node_mut(0).server.holding = false;
    for _ in 0..10 {
        ask(&mut world);
    }
    let answered: std::collections::BTreeSet<u64> = world
        .inbox
        .iter()
        .filter_map(|envelope| match &envelope.message {
            Message::Server(ServerMessage::Height(signed)) => Some(signed.statement.height),
            _ => None,
        })
        .collect();
    assert_eq!(answered.len(), 81);
}
