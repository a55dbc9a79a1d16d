//! A commit that rests on an order vote with a bad signature is proved all the same (TS17).

use synod_crypto::{Signature, verify_evidence};
use synod_hotstuff::{EntryProof, Fault, Message, Pack, Statement};
use synod_machine::Span;
use synod_machine::broadcast::{Delivered, Position, Submit};
use synod_wire::{Bytes, Limits, Wire};

use crate::world::{Setup, World};

/// Proofs that a member's user was given, checked with the keys of the cluster.
fn proofs(world: &World, id: u32) -> Vec<(u64, Option<EntryProof>)> {
    let outputs = world.seat(id).outputs.iter();
    outputs
        .filter_map(|output| match output {
            Delivered::Proof { position, proof } => {
                let proof = proof.as_ref().map(|bytes| {
                    let proof = EntryProof::decode(bytes.clone(), &Limits::default()).expect("a proof");
                    let checked =
                        verify_evidence(proof.clone(), &world.seat(id).keys, world.cluster, &world.roster);
                    assert!(checked.is_ok(), "whoever checks the proof accepts it");
                    proof
                });
                Some((position.0, proof))
            }
            _ => None,
        })
        .collect()
}

/// Members 0 to 2 run, 3 lies: it orders every certified block with a signature that is none.
fn with_a_lying_orderer() -> World {
    let mut world = World::new(Setup::of(Pack::Chain2Order, &[0, 1, 2]));
    world.delay = Span::millis(1);
    world
}

/// Plays `span` while the liar completes every quorum of orders of member 0, from which member 2's are kept, and member
/// 1 hears no order at all.
fn play(world: &mut World, span: Span) {
    let end = world.now + span;
    while world.now < end {
        let ordered: Vec<_> = world.orders(0).into_iter().collect();
        world.lose(|e| {
            matches!(e.message, Message::Order { .. }) && (e.to == 1 || (e.from == 2 && e.to == 0))
        });
        world.run(Span::micros(500));
        for (view, digest) in ordered {
            let view = synod_hotstuff::View(view);
            world.say(3, 0, Message::Order { view, digest, signature: Signature([0xbb; 64]) });
        }
    }
}

/// TS17: `Prove` and a lagging replica are answered at idle.
#[test]
pub(crate) fn a_commit_by_a_forged_order_is_proved_and_taught_to_a_member_that_missed_it() {
    let mut world = with_a_lying_orderer();
    world.submit(1, "item");
    play(&mut world, Span::millis(12));
    assert_eq!(world.seat(0).texts(), ["item"], "own order, one other and the forged one commit");
    assert!(world.seat(1).texts().is_empty(), "a member that hears no orders has not committed");
    world.input(0, Submit::Prove(Position(1)));
    assert!(world.seat(0).blames(3, Fault::ForgedOrder), "the signature is looked at now");
    assert!(proofs(&world, 0).is_empty(), "and what is left proves nothing yet");
    play(&mut world, Span::secs(2));
    let given = proofs(&world, 0);
    assert_eq!(given.len(), 1, "the chain moved and supplied the proof");
    let proof = given[0].1.clone().expect("a proof");
    assert!(given[0].0 == 1 && proof.is_of(&Bytes::from_static(b"item")));
    assert!(!proof.is_of(&Bytes::from_static(b"other")));
    assert_eq!(world.seat(1).texts(), ["item"], "who missed the orders is taught at idle");
    assert!(world.seat(0).rules.contains("X_prove_by_empty_item"));
}

/// TS17: with honest orders the proof needs no further block.
#[test]
fn honest_orders_prove_a_commit_at_once() {
    let mut world = World::four(Pack::Chain2Order, crate::world::one_view);
    world.submit(1, "item");
    world.run(Span::millis(10));
    let height = world.seat(0).seen().height;
    world.input(0, Submit::Prove(Position(1)));
    let given = proofs(&world, 0);
    assert!(given.len() == 1 && given[0].1.is_some(), "{given:?}");
    assert_eq!(world.seat(0).seen().height, height, "the chain did not have to move");
}

/// TS17: without order votes the certified blocks above a block are its proof.
#[test]
fn a_chain_proves_a_commit_by_the_certified_blocks_above_it() {
    for pack in [Pack::Chain3, Pack::Chain2] {
        let mut world = World::four(pack, crate::world::one_view);
        world.submit(1, "item");
        world.run(Span::millis(30));
        assert_eq!(world.seat(0).texts(), ["item"], "{pack:?}");
        world.input(0, Submit::Prove(Position(1)));
        let given = proofs(&world, 0);
        assert!(given.len() == 1 && given[0].1.is_some(), "{pack:?}: {given:?}");
    }
}

/// TS17: nothing is proved that is not there.
#[test]
fn a_position_that_holds_nothing_is_answered_with_no_proof() {
    let mut world = World::four(Pack::Chain2Order, crate::world::one_view);
    world.submit(1, "item");
    world.run(Span::millis(10));
    world.input(0, Submit::Prove(Position(0)));
    assert!(matches!(proofs(&world, 0).as_slice(), [(0, None)]));
    let order = Statement::Order { view: synod_hotstuff::View(1), digest: synod_crypto::Hash::ZERO };
    assert!(order.as_vote().is_some());
}
