//! Changing the members is refused by this build: nothing ordered, signed or shown changes who they are (TS18).

use synod_crypto::Hash;
use synod_hotstuff::{Fault, Kind, Message, Pack, Record, Statement, View};
use synod_quorum::Epoch;
use synod_wire::{Limits, Wire};

use crate::world::{World, Written};

/// TS18: an item that names other members is an item like any other; the epoch and its members stay.
#[test]
fn an_item_that_asks_for_other_members_is_ordered_and_changes_none() {
    let mut world = World::four(Pack::Chain2Order, crate::world::one_view);
    let statement = Statement::Members { members: Hash([3; 32]) };
    let text = String::from_utf8_lossy(&statement.encode()).into_owned();
    world.submit(1, &text);
    world.submit(1, "behind it");
    world.run(synod_machine::Span::millis(30));
    for id in 0..4 {
        assert_eq!(
            world.seat(id).texts(),
            [text.clone(), "behind it".to_owned()],
            "items behind it are kept"
        );
        let epochs = world.seat(id).journal.iter().filter_map(|written| match written {
            Written::Record(Record::Safety(safety)) => Some(safety.epoch),
            _ => None,
        });
        assert!(epochs.into_iter().all(|epoch| epoch == Epoch(0)), "nobody leaves the epoch");
    }
}

/// TS18: no message carries a vote for other members or for a later epoch; their statements have numbers that votes
/// cannot take, and a replay in a later epoch is refused there by the scope.
#[test]
fn the_statements_of_reconfiguration_are_reserved_and_no_vote_can_carry_them() {
    let reserved = [
        Statement::Members { members: Hash([3; 32]) },
        Statement::EpochReady {
            epoch: Epoch(1),
            members: Hash([3; 32]),
            height: 4,
            digest: Hash([4; 32]),
            root: Hash([5; 32]),
        },
    ];
    for statement in reserved {
        assert!(statement.as_vote().is_none());
        let number = synod_crypto::Statement::kind(&statement);
        for kind in [Kind::Prepare, Kind::Precommit, Kind::Commit, Kind::Generic, Kind::Order] {
            let vote = Statement::vote(kind, View(4), Hash([4; 32]));
            assert_ne!(synod_crypto::Statement::kind(&vote), number);
        }
    }
}

/// TS18: a message of a kind this build does not have is refused where frames are decoded.
#[test]
fn a_message_of_an_unknown_kind_is_not_decoded() {
    let known = Message::Fetch(synod_hotstuff::Want::Status).encode();
    assert!(Message::decode(known.clone(), &Limits::default()).is_ok());
    for kind in 13..=255_u8 {
        let mut bytes = known.to_vec();
        bytes[0] = kind;
        assert!(Message::decode(bytes.into(), &Limits::default()).is_err(), "kind {kind}");
    }
}

/// TS18: a block of a later epoch is not taken, even on a good parent by the right leader.
#[test]
fn a_block_of_a_later_epoch_is_refused() {
    let mut world = World::alone(Pack::Chain2Order, 0);
    let a = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
    world.show(0, &a);
    let mut next = world.block(2, &a, world.qc(&a), &["b"]);
    next.header.epoch = Epoch(1);
    world.show(0, &next);
    assert!(world.seat(0).blames(2, Fault::WrongEpoch) && !world.voted(0, &next));
}
