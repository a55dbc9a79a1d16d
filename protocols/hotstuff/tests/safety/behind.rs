//! Members that lag: what they are told, what they wait for, and where they start again (R9, 4.10, 4.12).

use synod_hotstuff::{
    Blocks, CommitProof, Commitment, Fault, Kind, Message, Pack, Parameters, Proof, Status, Timer, View, Want,
};
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::{Condition, Span};
use synod_wire::List;

use crate::world::{Made, World, one_view, root_at};

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

/// 4.4: whoever is asked for a certificate and sends one that does not hold does not end the asking.
#[test]
fn a_certificate_that_does_not_hold_ends_no_ask_for_it() {
    let ask = |message: &Message| matches!(message, Message::Fetch(Want::Certificate(View(1))));
    let mut world = World::alone(Pack::Chain2Order, 0);
    let made = world.block(1, &world.genesis(), world.genesis_qc(), &["one"]);
    world.show(0, &made);
    for id in [2, 3, 1] {
        let order = world.order(id, &made);
        world.say(id, 0, order);
    }
    assert_eq!(world.sent(0, ask).len(), 1, "orders without their certificate");
    let mut qc = world.qc_as(Kind::Generic, 5, made.digest(), &[1, 2, 3]);
    qc.view = View(1);
    world.say(1, 0, Message::Advance(Proof::Qc(qc)));
    assert!(world.seat(0).blames(1, Fault::BadQc), "{:?}", world.seat(0).blamed);
    assert!(world.fire(0, |timer| matches!(timer, Timer::Fetch(_))), "the question is open");
    assert_eq!(world.sent(0, ask).len(), 2, "and put again");
    let good = world.advance(&world.qc(&made));
    world.say(2, 0, good);
    assert!(!world.fire(0, |timer| matches!(timer, Timer::Fetch(_))), "until it is answered");
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

/// Twelve empty blocks of views 1 to 12, and the two-chain that proves the eleventh.
fn chain(world: &World) -> (Vec<Made>, CommitProof) {
    let mut parent = world.genesis();
    let mut blocks = Vec::new();
    for view in 1..=12 {
        let made = world.block(view, &parent, world.qc(&parent), &[]);
        blocks.push(made.clone());
        parent = made;
    }
    let child = Box::new(blocks[11].header.clone());
    let commitment = Commitment::TwoChain { child, qc: world.qc(&blocks[11]) };
    let proof = CommitProof { header: blocks[10].header.clone(), commitment };
    (blocks, proof)
}

/// A world whose subject asked member 5 for the blocks from height 1 on.
fn asking() -> World {
    let mut world = World::crowd(Pack::Chain2, 0);
    let high = world.genesis_qc();
    let status = Status { height: 50, view: View(0), high, tc: None, stable: Position(0), yours: None };
    world.say(5, 0, Message::Status(status));
    let asks = |message: &Message| matches!(message, Message::Fetch(Want::Range { from: 1, .. }));
    assert_eq!(world.sent(0, asks).len(), 1, "a member far behind asks for a range");
    world
}

/// What a liar does to the blocks it serves.
type Lie = fn(&mut Vec<Made>);

/// 4.11: a range with a gap, out of order, cut, doubled or without its proof is refused and its sender blamed; a whole one
/// is taken.
#[test]
fn a_range_is_taken_whole_and_linked_or_not_at_all() {
    let lies: [(&str, Lie); 6] = [
        ("whole", |_| ()),
        ("a gap", |blocks| drop(blocks.remove(4))),
        ("two swapped", |blocks| blocks.swap(3, 4)),
        ("one twice", |blocks| blocks.insert(3, blocks[2].clone())),
        ("the proved one missing", |blocks| blocks.truncate(10)),
        ("another block inside", |blocks| blocks[5].header.time.0 += 1),
    ];
    for (name, lie) in lies {
        let mut world = asking();
        let (blocks, proof) = chain(&world);
        let mut told = blocks[..11].to_vec();
        lie(&mut told);
        let headers = List::try_from(told.iter().map(|made| made.header.clone()).collect::<Vec<_>>());
        let headers = headers.expect("few headers");
        let answer = Blocks { headers, bodies: List::default(), proof: Some(proof), anchor: None };
        world.say(5, 0, Message::Blocks(answer));
        let whole = name == "whole";
        assert_eq!(world.seat(0).seen().height, if whole { 11 } else { 0 }, "{name}");
        assert_eq!(world.seat(0).blames(5, Fault::BadRange), !whole, "{name}: {:?}", world.seat(0).blamed);
    }
}

/// 4.11: a range whose proof nobody signed is refused.
#[test]
fn a_range_with_a_forged_proof_is_refused() {
    let mut world = asking();
    let (blocks, mut proof) = chain(&world);
    let child = Box::new(blocks[11].header.clone());
    let qc = world.qc_as(world.kind(), 12, blocks[11].digest(), &[5, 6, 7]);
    proof.commitment = Commitment::TwoChain { child, qc };
    let headers: Vec<_> = blocks[..11].iter().map(|made| made.header.clone()).collect();
    let headers = List::try_from(headers).expect("few headers");
    let answer = Blocks { headers, bodies: List::default(), proof: Some(proof), anchor: None };
    world.say(5, 0, Message::Blocks(answer));
    assert!(world.seat(0).blames(5, Fault::BadRange));
    assert_eq!(world.seat(0).seen().height, 0);
}
