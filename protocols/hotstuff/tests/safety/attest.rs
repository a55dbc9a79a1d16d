//! Attestations that are lost (4.12): they are said again until each member holds the certificate, and not longer.

use synod_hotstuff::{Message, Pack, Parameters};
use synod_machine::Span;
use synod_machine::broadcast::Position;

use crate::world::World;

fn every_position(parameters: &mut Parameters) {
    parameters.checkpoint_every = 1;
}

fn stable(world: &World) -> Vec<u64> {
    (0..4).map(|id| world.seat(id).seen().stable.0).collect()
}

fn attestations(world: &World) -> usize {
    world.said.iter().filter(|(_, message)| matches!(message, Message::Attest { .. })).count()
}

/// The first round is lost for all; of the second one member hears nothing; nobody orders anything more.
#[test]
pub(crate) fn lost_attestations_are_said_again_until_everybody_has_the_certificate() {
    let mut world = World::four(Pack::Chain2Order, every_position);
    world.submit(0, "a");
    world.run_losing(Span::millis(900), |e| matches!(e.message, Message::Attest { .. }));
    assert_eq!(world.seat(3).seen().delivered, Position(1));
    assert_eq!((stable(&world), attestations(&world)), (vec![0; 4], 4), "each said it once");
    let deaf = |e: &crate::world::Envelope| e.to == 3 && matches!(e.message, Message::Attest { .. });
    world.run_losing(Span::millis(1_800), deaf);
    assert_eq!(stable(&world), [1, 1, 1, 0], "said again without being asked");
    world.run(Span::secs(3));
    assert_eq!(stable(&world), [1; 4], "whoever says it again is answered");
    let said = attestations(&world);
    world.run(Span::secs(20));
    assert_eq!(attestations(&world), said, "and then there is silence");
}

/// A member that was cut off when the others attested hears of it when the link comes back.
#[test]
fn a_link_that_comes_back_brings_the_attestation() {
    let mut world = World::four(Pack::Chain2Order, every_position);
    world.submit(0, "a");
    world.run_losing(Span::millis(900), |e| matches!(e.message, Message::Attest { .. }));
    assert_eq!(stable(&world), [0; 4]);
    for (id, peer) in [(1, 0), (2, 0)] {
        world.link_up(id, peer);
    }
    world.run(Span::millis(20));
    assert_eq!(stable(&world), [1, 0, 0, 0]);
}
