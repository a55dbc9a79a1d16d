//! Attestations that are lost (4.12): they are said again until each member holds the certificate, and not longer.

use synod_crypto::Hash;
use synod_hotstuff::{Message, NoteName, Pack, Parameters};
use synod_machine::broadcast::{Delivered, Position, Refusal, Submit};
use synod_machine::{Condition, Event, Span};

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

/// The root of its state is another than the one a quorum certified.
#[test]
fn a_member_that_diverged_stays_stopped_until_its_log_is_given_up() {
    let mut world = World::four(Pack::Chain2Order, every_position);
    world.seat_mut(3).applies = false;
    world.submit(0, "a");
    world.run(Span::millis(900));
    assert_eq!(stable(&world), [1, 1, 1, 0]);
    let root = Some(Hash::of(b"a bit of it flipped"));
    world.give(3, Event::Input(Submit::Applied { position: Position(1), root }));
    assert!(world.seat(3).seen().halted && world.seat(3).noted(NoteName::Divergence));

    world.seat_mut(3).notes.clear();
    world.restart_whole(3);
    assert!(world.seat(3).seen().halted, "another start cures nothing");
    assert!(world.seat(3).noted(NoteName::Divergence), "and operators are told again");
    world.submit(3, "b");
    let told = &world.seat(3).outputs[..];
    assert!(matches!(told, [Delivered::Refused { why: Refusal::NotReady, .. }]), "{told:?}");

    let kept = world.seat(3).journal.len();
    world.seat_mut(3).crash(kept);
    world.seat_mut(3).applies = true;
    world.start(3, Condition::Damaged, Position(0));
    assert!(!world.seat(3).seen().halted && !world.seat(3).seen().acting, "it listens");
    world.run(Span::secs(10));
    assert!(world.seat(3).seen().acting, "and is readmitted");
    world.restart_whole(3);
    assert!(world.seat(3).seen().acting, "for good");
}
