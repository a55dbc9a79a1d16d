//! What servers deliver (T8, T10, T18, T19, T20, T21, T22, T40).

use synod_chopchop::certificate::Signers;
use synod_chopchop::dedup::Reason;
use synod_chopchop::item::Item;
use synod_chopchop::message::{Piece, ServerMessage, StateAsk, StoreMessage};
use synod_chopchop::statement::Height;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Signature;
use synod_machine::Span;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Blob;

use crate::world::{BROKER, CLIENTS, Envelope, N, OTHER, Recipe, World};

#[test]
fn every_server_delivers_what_was_witnessed_and_ordered() {
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(0, &[(1, 5), (4, 6), (15, 7)]));
    let digest = world.deliver(&batch);
    assert_eq!(world.outcome(&batch), []);
    assert_eq!(world.delivered(), [2; 4]);
    world.agree();
    let slot = world.server(3).slot(4).expect("a client");
    assert_eq!(slot.next_k, 1);
    let rules = &world.node(1).server.rules;
    for rule in
        ["S12_order", "S13_accept", "S15_deliver", "S16_sign_delivery", "replay_rule", "parallel_dedup"]
    {
        assert!(rules.contains(rule), "{rule}");
    }
    assert!(world.nodes.iter().all(|node| node.server.blamed.is_empty() && node.store.blamed.is_empty()));
    assert_eq!(world.verdicts(&digest)[0].1.statement.height, 2);
}

#[test]
fn an_older_message_is_stale_once_a_newer_one_was_delivered() {
    // T8: the root of m is ordered behind m'.
    let mut world = World::usual();
    let old = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    let new = world.maker.batch(&Recipe::of(1, &[(1, 6)]));
    world.deliver(&new);
    world.deliver(&old);
    assert_eq!(world.outcome(&new), []);
    assert_eq!(world.outcome(&old), [(0, Reason::Stale)]);
    world.agree();
}

#[test]
fn two_equal_messages_in_a_row_are_two_deliveries() {
    // T10: they differ in parity; the first one again does not.
    let mut world = World::usual();
    let first = Recipe::of(0, &[(1, 5)]);
    let mut second = Recipe::of(1, &[(1, 5)]);
    second.entries[0].2 = true;
    let mut again = second.clone();
    again.k = 2;
    let batches = [first, second, again].map(|recipe| world.maker.batch(&recipe));
    for batch in &batches {
        world.deliver(batch);
    }
    assert_eq!(world.outcome(&batches[0]), []);
    assert_eq!(world.outcome(&batches[1]), []);
    assert_eq!(world.outcome(&batches[2]), [(0, Reason::Same)]);
    assert_eq!(world.server(0).slot(1).expect("a client").next_k, 3, "SAME raises the number");
}

#[test]
fn one_root_under_two_digests_delivers_once() {
    // T19: two batches that differ in their expiry alone have one body.
    let mut world = World::usual();
    let recipe = Recipe::of(0, &[(1, 5), (2, 6)]);
    let one = world.maker.batch(&recipe);
    let two = world.maker.batch(&Recipe { expiry: 999, ..recipe });
    assert_eq!(world.body_name(&one), world.body_name(&two));
    let (first, second) = (world.deliver(&one), world.deliver(&two));
    assert_ne!(first, second);
    assert_eq!(world.outcome(&one), []);
    assert_eq!(world.outcome(&two), [(0, Reason::Same), (1, Reason::Same)]);
    assert_eq!(world.delivered(), [3; 4]);
}

#[test]
fn an_ordered_digest_is_ignored_when_it_is_ordered_again() {
    // T22: by another broker, and by a faulty member that gives the ordering layer the item once more.
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    let digest = world.deliver(&batch);
    let item = world.item_of(world.statement(&batch), &[0, 1]);
    let again = crate::ideal::Say::Number(Blob::try_from(synod_wire::Wire::encode(&item)).expect("small"));
    world.say(3, 0, Message::Ordering(again));
    world.calm();
    world.inbox.clear();
    world.say(OTHER, 2, ServerMessage::Order(item));
    world.calm();
    assert_eq!(world.delivered(), [2; 4], "heights do not move");
    assert_eq!(world.verdicts(&digest).len(), 1, "who orders it again hears the verdict");
    world.agree();
}

#[test]
fn shards_that_do_not_hold_order_nothing_and_their_sender_is_blamed() {
    // T18: over another digest, forged, of one member twice, of too few.
    let mut world = World::usual();
    let batches = [5, 6].map(|word| world.maker.batch(&Recipe::of(0, &[(1, word)])));
    for batch in &batches {
        world.upload(BROKER, &[0, 1, 2], batch);
    }
    let statement = world.statement(&batches[0]);
    let shards = |digest| world.shards(digest).into_iter().map(|(_, shard)| shard).collect::<Vec<_>>();
    let (own, other) = (shards(&statement.digest), shards(&world.statement(&batches[1]).digest));
    let signers = |ids: &[u32]| {
        let set: NodeSet = ids.iter().map(|id| NodeId(*id)).collect();
        Signers::new(set, N).expect("members")
    };
    let item = |ids: &[u32], shards: Vec<Signature>| {
        Item::new(statement.clone(), signers(ids), shards).expect("equal")
    };
    let wrong = [
        item(&[0, 1], vec![own[0], other[1]]),
        item(&[0, 1], vec![own[0], Signature([9; 64])]),
        item(&[0, 3], vec![own[0], own[1]]),
        item(&[0], vec![own[0]]),
        item(&[0, 1, 2], vec![own[0], own[1], own[2]]),
    ];
    for item in wrong {
        world.say(BROKER, 1, ServerMessage::Order(item.clone()));
        // A faulty member gives it to the ordering layer all the same.
        let payload = Blob::try_from(synod_wire::Wire::encode(&item)).expect("small");
        world.say(3, 0, Message::Ordering(crate::ideal::Say::Number(payload)));
        world.calm();
    }
    assert_eq!(world.delivered(), [1; 4], "ignored alike, the height unchanged");
    let blamed: Vec<&str> = world.node(1).server.blamed.iter().map(|(_, fault)| *fault).collect();
    assert_eq!(blamed, ["bad_shard", "bad_shard", "bad_shard", "bad_signers", "bad_signers"]);
    world.order(&batches[0], &[0, 2]);
    assert_eq!(world.delivered(), [2; 4]);
}

#[test]
fn a_batch_that_expired_before_it_was_ordered_is_ignored_by_all() {
    // C16: the expiry is tested at acceptance.
    let mut world = World::usual();
    let late = world.maker.batch(&Recipe { expiry: 2, ..Recipe::of(0, &[(1, 5)]) });
    world.upload(BROKER, &[0, 1], &late);
    let item = world.item_of(world.statement(&late), &[0, 1]);
    let other = world.maker.batch(&Recipe::of(0, &[(2, 5)]));
    world.deliver(&other);
    let payload = Blob::try_from(synod_wire::Wire::encode(&item)).expect("small");
    world.say(3, 0, Message::Ordering(crate::ideal::Say::Number(payload)));
    world.calm();
    assert_eq!(world.delivered(), [2; 4]);
}

#[test]
fn a_batch_that_two_servers_have_reaches_all() {
    // T20: uploaded to its f + 1 witnesses only, one of which says nothing.
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(0, &[(1, 5), (2, 9)]));
    let digest = world.upload(BROKER, &[0, 1], &batch);
    world.passes = Box::new(|envelope| {
        !(envelope.from == 0 && matches!(envelope.message, Message::Store(StoreMessage::Piece(_))))
    });
    world.order(&batch, &[0, 1]);
    world.pass(Span::secs(2));
    assert_eq!(world.delivered(), [2; 4]);
    assert!(world.node(3).store.rules.contains("retrieve"));
    world.agree();
    // Those who never spoke with the broker are asked for their verdicts.
    for server in [2, 3] {
        world.say(BROKER, server, ServerMessage::Certify(digest));
    }
    world.calm();
    assert_eq!(world.outcome(&batch), []);
}

#[test]
fn a_lying_source_is_blamed_and_delays_only_its_own_batch() {
    // T21: member 0 answers pulls of one batch with bytes of its own.
    let mut world = World::usual();
    let lied = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    let other = world.maker.batch(&Recipe::of(0, &[(2, 5)]));
    let (first, second) = (world.upload(BROKER, &[0, 1], &lied), world.upload(BROKER, &[1, 2], &other));
    world.passes = Box::new(move |envelope| match &envelope.message {
        Message::Store(StoreMessage::Piece(piece)) => piece.digest != first,
        _ => true,
    });
    world.order(&lied, &[0, 1]);
    world.order(&other, &[1, 2]);
    let length = 192 + lied.body.len();
    for member in [0, 1] {
        let bytes = Blob::try_from(synod_wire::Bytes::from(vec![0; length])).expect("short");
        let piece = Piece { digest: first, offset: 0, bytes };
        world.passes = Box::new(|_| true);
        world.say(member, 3, StoreMessage::Piece(piece));
        world.calm();
    }
    assert!(world.node(3).store.holds(&world.body_name(&other)), "the other batch is here: {second:?}");
    world.pass(Span::secs(3));
    assert_eq!(world.delivered(), [3; 4]);
    assert!(
        world.node(3).store.blamed.iter().any(|(_, fault)| *fault == "wrong_body"),
        "{:?}",
        world.node(3).store.blamed
    );
}

#[test]
fn verdicts_of_f_plus_one_servers_are_equal_and_one_lie_cannot_be() {
    // T40: the root is a function of the order, so a server that signs another one stands alone.
    let mut world = World::usual();
    let first = world.maker.batch(&Recipe::of(3, &[(1, 5)]));
    let second = world.maker.batch(&Recipe::of(2, &[(1, 6), (2, 7)]));
    world.deliver(&first);
    let digest = world.deliver(&second);
    let verdicts = world.verdicts(&digest);
    assert_eq!(world.outcome(&second), [(0, Reason::Stale)]);
    let mut lie = verdicts[0].1.statement.clone();
    lie.exc_count = 0;
    assert!(verdicts.iter().all(|(_, verdict)| verdict.statement != lie));
}

#[test]
fn heights_and_states_are_signed_only_as_they_are() {
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(4, &[(1, 5)]));
    world.deliver(&batch);
    world.inbox.clear();
    for height in [0, 1, 2, 3] {
        world.say(OTHER, 0, ServerMessage::HeightAsk(Height { height }));
    }
    for id in [1, CLIENTS] {
        world.say(OTHER, 0, ServerMessage::StateAsk(StateAsk { nonce: 7, id }));
    }
    world.say(OTHER, 0, ServerMessage::DirPull { from: 10 });
    world.calm();
    let (mut heights, mut states, mut cards) = (Vec::new(), Vec::new(), Vec::new());
    for envelope in &world.inbox {
        match &envelope.message {
            Message::Server(ServerMessage::Height(signed)) => heights.push(signed.statement.height),
            Message::Server(ServerMessage::State(signed)) => states.push(signed.statement.clone()),
            Message::Server(ServerMessage::Cards(some)) => {
                cards.push((some.from, some.members.len(), some.length))
            }
            _ => {}
        }
    }
    assert_eq!(heights, [1, 2]);
    assert_eq!(states.len(), 1);
    assert_eq!((states[0].id, states[0].next_k), (1, 5));
    assert_eq!(cards, [(10, 6, 16)]);
    // The same client again within ten seconds is not answered.
    world.say(OTHER, 0, ServerMessage::StateAsk(StateAsk { nonce: 8, id: 1 }));
    let before = world.inbox.len();
    world.calm();
    assert_eq!(world.inbox.len(), before);
}

#[test]
fn a_height_that_is_asked_for_between_acceptance_and_delivery_is_signed_at_the_delivery() {
    let mut world = World::usual();
    let batch = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    world.upload(BROKER, &[0, 1], &batch);
    let held_back = |envelope: &Envelope| matches!(&envelope.message, Message::Store(StoreMessage::Piece(_)));
    world.passes = Box::new(move |envelope| !held_back(envelope));
    world.order(&batch, &[0, 1]);
    let server = world.server(3);
    assert_eq!((server.height(), server.delivered()), (2, 1), "accepted, and its body is not here");
    world.inbox.clear();
    for (broker, height) in [(BROKER, 2), (OTHER, 2), (OTHER, 2), (OTHER, 3)] {
        world.say(broker, 3, ServerMessage::HeightAsk(Height { height }));
    }
    world.calm();
    let signed = |world: &World| -> Vec<(u32, u64)> {
        let of = |envelope: &Envelope| match &envelope.message {
            Message::Server(ServerMessage::Height(signed)) => Some((envelope.to, signed.statement.height)),
            _ => None,
        };
        world.inbox.iter().filter_map(of).collect()
    };
    assert_eq!(signed(&world), [], "only what is delivered is signed");
    world.passes = Box::new(|_| true);
    world.pass(Span::secs(2));
    assert_eq!(world.delivered(), [2; 4]);
    assert_eq!(
        signed(&world),
        [(BROKER, 2), (OTHER, 2)],
        "each hears of it once, and of no height that is unknown"
    );
}
