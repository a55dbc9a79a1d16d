//! Members that lag: what they are told, what they wait for, and where they start again (R9, 4.10, 4.12).

use synod_hotstuff::{Message, Pack, Parameters, Proof, View};
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::{Condition, Span};

use crate::world::{World, one_view, root_at};

const CHAINED: [Pack; 3] = [Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

/// R9: who complains about a term that is over is answered with the certificate it lacks, once in a while.
#[test]
pub(crate) fn a_complaint_about_what_is_over_is_answered_with_the_certificate() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let genesis = world.genesis();
        let blocks = world.good_views(0, 1, 3, &genesis);
        world.certify(0, &blocks[2]);
        let answers = |world: &World| {
            let to = world.flight.iter().filter(|envelope| envelope.to == 5);
            to.filter(
                |envelope| matches!(&envelope.message, Message::Advance(Proof::Qc(qc)) if qc.view == View(3)),
            )
            .count()
        };
        for times in 0..3 {
            let complaint = world.complain(5, 1, &world.genesis_qc());
            world.say(5, 0, complaint);
            assert_eq!(answers(&world), 1, "{pack:?}: after {} complaints in one timeout", times + 1);
        }
        world.now = world.now + Span::millis(150);
        let complaint = world.complain(5, 1, &world.genesis_qc());
        world.say(5, 0, complaint);
        assert_eq!(answers(&world), 2, "{pack:?}: and again after a timeout");
    }
}

fn returned(world: &World, ticket: u64) -> bool {
    world.seat(0).outputs.contains(&Delivered::Barrier(Ticket(ticket)))
}

/// 4.10: a barrier comes back behind every block that the certificates held then could have committed.
#[test]
pub(crate) fn a_barrier_waits_for_what_the_certificate_held_may_have_committed() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        world.input(0, Submit::Barrier(Ticket(901)));
        assert!(returned(&world, 901), "{pack:?}: nothing is certified, nothing is waited for");
        let genesis = world.genesis();
        let blocks = world.good_views(0, 1, 2, &genesis);
        world.input(0, Submit::Barrier(Ticket(902)));
        assert!(!returned(&world, 902), "{pack:?}: the block of view 1 is certified and not delivered");
        let more = world.good_views(0, 3, 3, &blocks[1]);
        world.certify(0, &more[2]);
        assert!(world.seat(0).texts().len() >= 3, "{pack:?}");
        assert!(returned(&world, 902), "{pack:?}: it is delivered now");
    }
}

fn small_checkpoints(parameters: &mut Parameters) {
    one_view(parameters);
    parameters.checkpoint_every = 8;
    parameters.retain_blocks = 2;
}

/// 4.12: who is behind what its peers retain is sent to a certified state, and agrees from there on.
#[test]
pub(crate) fn who_is_behind_everything_starts_at_a_certified_state() {
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::four(pack, small_checkpoints);
        world.seat_mut(3).crash(0);
        for at in 0..80 {
            world.submit(at % 3, &format!("item {at}"));
            world.run(Span::millis(200));
        }
        let there = world.seat(0).seen();
        assert!(there.stable > Position(40), "{pack:?}: {there:?}");
        world.start(3, Condition::Fresh, Position(0));
        for at in 80..90 {
            world.submit(at % 3, &format!("item {at}"));
            world.run(Span::secs(1));
        }
        let jumps: Vec<_> = world
            .seat(3)
            .outputs
            .iter()
            .filter_map(|output| match output {
                Delivered::Jump(checkpoint) => Some(checkpoint.clone()),
                _ => None,
            })
            .collect();
        assert!(!jumps.is_empty(), "{pack:?}: it was sent to a state");
        assert!(jumps.iter().all(|jump| jump.root == root_at(jump.position)), "{pack:?}: to a certified one");
        let first = world.seat(3).entries.first().expect("entries after the jump").position;
        assert!(jumps.iter().any(|jump| jump.position.0 + 1 == first.0), "{pack:?}: it goes on behind it");
        let own: Vec<_> = world.seat(3).entries.iter().map(|e| (e.position, e.payload.clone())).collect();
        let all: Vec<_> = world.seat(0).entries.iter().map(|e| (e.position, e.payload.clone())).collect();
        assert!(own.iter().all(|entry| all.contains(entry)), "{pack:?}: and agrees with the others");
        assert_eq!(world.seat(3).seen().delivered, world.seat(0).seen().delivered, "{pack:?}");
    }
}
