//! Sign-up batches (T12, T36; paper 2.2), with real keys: cards are points and possessions.

use synod_chopchop::batch::Refusal;
use synod_chopchop::card::Card;
use synod_chopchop::message::{ServerMessage, StoreMessage, Upload};
use synod_chopchop::signup::SealedSignUp;
use synod_chopchop::statement::{BlsSignatureBytes, Kind};
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::Crypto;

use crate::world::{BROKER, CLIENTS, N, Recipe, Setup, World};

/// The card of a client, with the possession and the signature of these clients.
fn card(world: &World, id: u32, (possessed, signed): (u32, u32)) -> Card {
    let scope = world.maker.cluster.card_scope();
    let member = world.maker.member(id);
    let unsigned =
        Card::new(member.bls, member.ed, BlsSignatureBytes(some(world)), synod_crypto::Signature([0; 64]));
    let possession = unsigned.expect("canonical").possession();
    let pop = world.maker.client(possessed).possess(&scope, &possession).expect("a secret");
    let card = Card::new(member.bls, member.ed, BlsSignatureBytes(pop), synod_crypto::Signature([0; 64]));
    let statement = card.expect("canonical").sign_up();
    let signature = world.maker.client(signed).sign(scope, NodeId(id), statement).signature;
    Card::new(member.bls, member.ed, BlsSignatureBytes(pop), signature).expect("canonical")
}

/// Some point, where the possession is not made yet.
fn some(world: &World) -> [u8; 96] {
    world.maker.client(0).possess_key().expect("a secret")
}

fn world() -> World {
    World::new(Setup { crypto: Crypto::Real, ..Setup::default() })
}

/// Real keys, and cards of two clients that nobody knows yet.
pub(crate) fn world_with_cards() -> (World, [Card; 2]) {
    let world = world();
    let cards = [CLIENTS, CLIENTS + 1].map(|id| card(&world, id, (id, id)));
    (world, cards)
}

pub(crate) fn upload(world: &mut World, cards: &[Card]) -> (SealedSignUp, Hash) {
    let batch = SealedSignUp::seal(0, world.maker.cluster.epoch(), 100, cards).expect("cards");
    for server in 0..N {
        world.say(BROKER, server, StoreMessage::Batch(Upload::sign_up(true, batch.clone())));
    }
    world.calm();
    let digest = batch.digest(world.maker.cluster.domains());
    (batch, digest)
}

pub(crate) fn order(world: &mut World, batch: &SealedSignUp) {
    let header = synod_chopchop::content::AnyHeader::SignUp(batch.header.clone());
    let statement = header.witness(batch.digest(world.maker.cluster.domains()));
    let item = world.item_of(statement, &[0, 1]);
    world.say(BROKER, 1, ServerMessage::Order(item));
    world.calm();
}

#[test]
fn new_clients_have_the_same_ids_everywhere_and_broadcast_at_once() {
    let mut world = world();
    let cards = [CLIENTS, CLIENTS + 1, 3].map(|id| card(&world, id, (id, id)));
    let (batch, digest) = upload(&mut world, &cards);
    assert_eq!(world.shards(&digest).len(), 4);
    order(&mut world, &batch);
    assert_eq!(world.delivered(), [2; 4]);
    for id in 0..N {
        assert_eq!(world.server(id).directory().len(), CLIENTS + 2, "client 3 is known already");
    }
    let verdict = &world.verdicts(&digest)[0].1;
    assert_eq!((verdict.statement.kind, verdict.statement.exc_count), (Kind::SignUp, 1));
    assert_eq!(verdict.statement.root_commit, Hash::ZERO);
    // T36: a batch of the new clients is witnessed by every server, their keys having been read.
    let messages = Recipe { directory: CLIENTS + 2, ..Recipe::of(0, &[(CLIENTS, 4), (CLIENTS + 1, 5)]) };
    let messages = world.maker.batch(&messages);
    world.deliver(&messages);
    assert_eq!(world.outcome(&messages), []);
    world.agree();
}

#[test]
fn a_card_whose_possession_or_signature_is_of_another_key_is_refused() {
    let mut world = world();
    let id = CLIENTS;
    for forged in [(id + 1, id), (id, id + 1)] {
        let cards = [card(&world, id + 2, (id + 2, id + 2)), card(&world, id, forged)];
        let (_, digest) = upload(&mut world, &cards);
        assert_eq!(world.refusals(&digest), (0..N).map(|id| (id, Refusal::Card)).collect::<Vec<_>>());
    }
    assert_eq!(world.node(0).store.blamed, [(BROKER, "bad_card"), (BROKER, "bad_card")]);
    assert!(!world.inbox.iter().any(|e| matches!(e.message, Message::Store(StoreMessage::Shard(_)))));
}

#[test]
fn a_server_that_has_not_delivered_the_sign_up_yet_waits_and_then_witnesses() {
    // T36: the sign-up is ordered just before its first use, and one server hears of it later.
    let mut world = world();
    let cards = [CLIENTS, CLIENTS + 1].map(|id| card(&world, id, (id, id)));
    let (batch, _) = upload(&mut world, &cards);
    world.passes = Box::new(|envelope| {
        !(envelope.to == 3 && matches!(envelope.message, Message::Ordering(crate::ideal::Say::Numbered(_))))
    });
    order(&mut world, &batch);
    assert_eq!(world.delivered(), [2, 2, 2, 1]);
    let messages = Recipe { directory: CLIENTS + 2, ..Recipe::of(0, &[(CLIENTS, 4), (CLIENTS + 1, 5)]) };
    let messages = world.maker.batch(&messages);
    let digest = world.upload(BROKER, &[0, 1, 2, 3], &messages);
    assert_eq!(world.shards(&digest).len(), 3);
    world.passes = Box::new(|_| true);
    world.pass(Span::secs(1));
    assert_eq!(world.shards(&digest).len(), 4);
    world.pass(Span::secs(3));
    assert!(world.refusals(&digest).is_empty(), "no false refusal");
    assert!(world.nodes.iter().all(|node| node.store.blamed.is_empty()));
    world.order(&messages, &[0, 3]);
    assert_eq!(world.delivered(), [3; 4]);
    for id in 0..N {
        assert_eq!(world.server(id).directory().view().root(world.maker.cluster.domains()), {
            world.server(0).directory().view().root(world.maker.cluster.domains())
        });
    }
    world.agree();
}

#[test]
fn cards_with_a_known_key_are_witnessed_and_get_no_second_id() {
    // T12: the victim's own card again, and either of its keys beside a new one.
    let mut world = world();
    let (victim, thief) = (world.maker.member(3), world.maker.member(CLIENTS));
    let own = card(&world, 3, (3, 3));
    let mixed = |bls: u32, ed: u32| {
        let scope = world.maker.cluster.card_scope();
        let keys = (world.maker.member(bls).bls, world.maker.member(ed).ed);
        let new =
            |pop, signature| Card::new(keys.0, keys.1, BlsSignatureBytes(pop), signature).expect("canonical");
        let none = synod_crypto::Signature([0; 64]);
        let pop =
            world.maker.client(bls).possess(&scope, &new(some(&world), none).possession()).expect("a secret");
        let signed = world.maker.client(ed).sign(scope, NodeId(ed), new(pop, none).sign_up());
        new(pop, signed.signature)
    };
    let cards = [own, mixed(3, CLIENTS), mixed(CLIENTS, 3)];
    let (batch, digest) = upload(&mut world, &cards);
    assert_eq!(world.shards(&digest).len(), 4, "each is sound by itself");
    order(&mut world, &batch);
    assert_eq!(world.verdicts(&digest)[0].1.statement.exc_count, 3);
    for id in 0..N {
        let directory = world.server(id).directory();
        assert_eq!(
            (directory.len(), directory.id_of(&victim), directory.id_of(&thief)),
            (CLIENTS, Some(3), None)
        );
    }
}
