//! What is delivered, in which order, and what stops everything (TS11, TS12, TS13).

use synod_hotstuff::{Body, Fault, Kind, Message, NoteName, Pack, Record};
use synod_machine::broadcast::Position;
use synod_machine::{Condition, Span};

use crate::world::{Made, World, Written};

const CHAINED: [Pack; 3] = [Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

/// Blocks with a gap of one view between each, `depth` of them, certified and not committed.
fn gapped(world: &mut World, depth: u64) -> Vec<Made> {
    let mut all = Vec::new();
    let mut parent = world.genesis();
    for at in 0..depth {
        let view = 1 + 2 * at;
        let text = format!("item {at}");
        let justify = world.qc(&parent);
        let made = match view {
            1 => world.block(view, &parent, justify, &[&text]),
            _ => world.block_after_tc(view, &parent, justify, &[&text]),
        };
        world.show(0, &made);
        all.push(made.clone());
        parent = made;
    }
    all
}

/// TS11: depth 1 to 5.
#[test]
fn ancestors_are_delivered_oldest_first_and_once_whatever_gaps_lie_between_their_views() {
    for pack in CHAINED {
        for depth in 1..=5 {
            let mut world = World::crowd(pack, 0);
            let mut blocks = gapped(&mut world, depth);
            assert!(world.seat(0).entries.is_empty(), "{pack:?} {depth}: a gapped chain commits nothing");
            let top = blocks.last().expect("a block").clone();
            let length = if pack == Pack::Chain3 { 2 } else { 1 };
            let more = world.good_views(0, top.view() + 1, length, &top);
            blocks.extend(more);
            let last = blocks.last().expect("a block").clone();
            world.certify(0, &last);
            let expected: Vec<String> = (0..depth).map(|at| format!("item {at}")).collect();
            assert_eq!(world.seat(0).texts(), expected, "{pack:?} {depth}");
            let positions: Vec<u64> = world.seat(0).entries.iter().map(|e| e.position.0).collect();
            assert_eq!(positions, (1..=depth).collect::<Vec<_>>(), "{pack:?} {depth}");
            for made in &blocks {
                world.certify(0, made);
                world.show(0, made);
            }
            assert_eq!(world.seat(0).texts(), expected, "{pack:?} {depth}: nothing twice");
        }
    }
}

/// TS11 by order votes: the newest block alone is ordered, and all below it come first.
#[test]
fn order_votes_for_the_newest_block_deliver_its_ancestors_before_it() {
    for depth in 1..=5 {
        let mut world = World::crowd(Pack::Chain2Order, 0);
        let blocks = gapped(&mut world, depth);
        let top = blocks.last().expect("a block");
        world.certify(0, top);
        for id in world.a_quorum() {
            let order = world.order(id, top);
            world.say(id, 0, order);
        }
        let expected: Vec<String> = (0..depth).map(|at| format!("item {at}")).collect();
        assert_eq!(world.seat(0).texts(), expected, "{depth}");
    }
}

/// TS11 in the basic pack: a decision delivers what was prepared below it.
#[test]
fn a_decision_of_the_basic_pack_delivers_its_ancestors_before_it() {
    for depth in 1..=5 {
        let mut world = World::crowd(Pack::Basic, 0);
        let mut parent = world.genesis();
        for at in 0..depth {
            let text = format!("item {at}");
            let justify = world.qc(&parent);
            let view = 1 + 2 * at;
            let made = match view {
                1 => world.block(view, &parent, justify, &[&text]),
                _ => world.block_after_tc(view, &parent, justify, &[&text]),
            };
            world.show(0, &made);
            parent = made;
        }
        for kind in [Kind::Prepare, Kind::Precommit] {
            let qc = world.qc_as(kind, parent.view(), parent.digest(), &world.a_quorum());
            world.say(1, 0, Message::Phase(qc));
            assert!(world.seat(0).entries.is_empty(), "{depth}: {kind:?} commits nothing");
        }
        let qc = world.qc_as(Kind::Commit, parent.view(), parent.digest(), &world.a_quorum());
        world.say(1, 0, Message::Phase(qc));
        let expected: Vec<String> = (0..depth).map(|at| format!("item {at}")).collect();
        assert_eq!(world.seat(0).texts(), expected, "{depth}");
    }
}

/// Two branches of empty blocks from the genesis, both with certificates that commit their first block: what no quorum
/// with a correct majority can sign.
fn forked(world: &World, pack: Pack) -> (Vec<Made>, Vec<Made>) {
    let length = if pack == Pack::Chain3 { 3 } else { 2 };
    let branch = |first: u64| {
        let mut all: Vec<Made> = Vec::new();
        let mut parent = world.genesis();
        for view in first..first + length {
            let justify = world.qc(&parent);
            let made = match parent.view() + 1 == view {
                true => world.block(view, &parent, justify, &[]),
                false => world.block_after_tc(view, &parent, justify, &[]),
            };
            all.push(made.clone());
            parent = made;
        }
        all
    };
    (branch(1), branch(9))
}

/// TS12: an injected fork.
#[test]
fn a_conflicting_commit_halts_the_replica_and_it_says_so() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let (one, other) = forked(&world, pack);
        for made in &one {
            world.show(0, made);
            world.certify(0, made);
        }
        let before = world.seat(0).seen();
        assert_eq!(
            (before.height, before.digest),
            (1, one[0].digest()),
            "{pack:?}: the first branch commits"
        );
        for made in &other {
            world.show(0, made);
            world.certify(0, made);
            world.answer_fetches(0, &other);
        }
        let after = world.seat(0).seen();
        assert!(after.halted && !after.acting, "{pack:?}: the replica stops");
        assert!(world.seat(0).noted(NoteName::Conflict), "{pack:?}: and operators are told");
        assert_eq!((after.height, after.digest), (1, before.digest), "{pack:?}: what is committed stays");
        assert_silent(&mut world, pack, other.last().expect("a block"));
    }
}

/// A halted replica votes, serves and orders nothing more.
fn assert_silent(world: &mut World, pack: Pack, top: &Made) {
    world.flight.clear();
    let next = world.block(top.view() + 1, top, world.qc(top), &["late"]);
    world.show(0, &next);
    world.say(1, 0, Message::Fetch(synod_hotstuff::Want::Status));
    world.submit(0, "more");
    world.expire(0);
    assert!(world.flight.is_empty(), "{pack:?}: it says nothing more: {:?}", world.flight);
}

/// TS12: a direct conflict at one height, by order votes: the second block never was here, for it was proposed below what
/// is committed, and is asked for by its certificate.
#[test]
fn two_blocks_ordered_at_one_height_halt_the_replica() {
    for orders_first in [false, true] {
        let mut world = World::crowd(Pack::Chain2Order, 0);
        let one = world.block(1, &world.genesis(), world.genesis_qc(), &[]);
        let other = world.block_after_tc(9, &world.genesis(), world.genesis_qc(), &[]);
        world.show(0, &one);
        world.certify(0, &one);
        let order = |world: &mut World, made: &Made| {
            for id in world.a_quorum() {
                let order = world.order(id, made);
                world.say(id, 0, order);
            }
        };
        order(&mut world, &one);
        assert_eq!(world.seat(0).seen().digest, one.digest(), "the first one is committed");
        if orders_first {
            order(&mut world, &other);
            world.certify(0, &other);
        } else {
            world.certify(0, &other);
            order(&mut world, &other);
        }
        assert!(!world.seat(0).seen().halted, "nobody showed the other block yet");
        assert!(world.answer_fetches(0, core::slice::from_ref(&other)) > 0, "it is asked for");
        assert!(world.seat(0).seen().halted && world.seat(0).noted(NoteName::Conflict));
        assert_eq!(world.seat(0).seen().digest, one.digest(), "what is committed stays");
        assert_silent(&mut world, Pack::Chain2Order, &other);
    }
}

/// TS12: two decisions of the basic pack at one height.
#[test]
fn two_decisions_at_one_height_halt_the_replica() {
    let mut world = World::crowd(Pack::Basic, 0);
    let one = world.block(1, &world.genesis(), world.genesis_qc(), &[]);
    let other = world.block_after_tc(9, &world.genesis(), world.genesis_qc(), &[]);
    world.show(0, &one);
    for made in [&one, &other] {
        let decided = world.qc_as(Kind::Commit, made.view(), made.digest(), &world.a_quorum());
        world.say(1, 0, Message::Phase(decided));
        world.answer_fetches(0, &[one.clone(), other.clone()]);
    }
    assert!(world.seat(0).seen().halted && world.seat(0).noted(NoteName::Conflict));
    assert_eq!(world.seat(0).seen().digest, one.digest());
}

/// TS13: a header whose body stays away is certified, committed and not executed.
#[test]
fn a_header_without_its_body_gets_no_vote_and_never_executes() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let made = world.block(1, &world.genesis(), world.genesis_qc(), &["one", "two"]);
        let header = world.propose(&made);
        world.say(1, 0, header);
        assert!(world.votes(0).is_empty(), "{pack:?}");
        let mut parent = made.clone();
        for view in 2..=4 {
            let next = world.block(view, &parent, world.qc(&parent), &[]);
            world.show(0, &next);
            parent = next;
        }
        world.certify(0, &parent);
        assert!(world.seat(0).seen().height >= 1, "{pack:?}: it is committed");
        assert!(world.seat(0).entries.is_empty(), "{pack:?}: and not executed");
        let wants = |message: &Message| matches!(message, Message::Fetch(synod_hotstuff::Want::Bodies(_)));
        assert!(!world.sent(0, wants).is_empty(), "{pack:?}: it asks for the body");
    }
}

/// TS13: other items under the same root, the same items under another root, and bytes that are no items.
#[test]
fn a_body_is_the_one_its_header_names_or_none() {
    let probe = World::alone(Pack::Chain2, 0);
    let genesis = probe.genesis();
    let made = probe.block(1, &genesis, probe.genesis_qc(), &["one", "two"]);
    let swapped = probe.block(1, &genesis, probe.genesis_qc(), &["two", "one"]);
    let fewer = probe.block(1, &genesis, probe.genesis_qc(), &["one"]);
    let twice = probe.block(1, &genesis, probe.genesis_qc(), &["one", "one"]);
    let mut blanked = made.body.items.clone();
    blanked[1].payload = synod_wire::Blob::default();
    for (name, bytes) in [
        ("a payload blanked", Body::pack(blanked).bytes),
        ("other items", swapped.body.bytes.clone()),
        ("fewer items", fewer.body.bytes.clone()),
        ("an item twice", twice.body.bytes.clone()),
        ("no items", synod_wire::Bytes::from_static(&[0xff; 40])),
    ] {
        let mut world = World::alone(Pack::Chain2, 0);
        let bytes = synod_wire::Blob::try_from(bytes).expect("short");
        world.say(1, 0, Message::Body { view: made.header.view, root: made.body.root, bytes });
        let header = world.propose(&made);
        world.say(1, 0, header);
        assert!(world.seat(0).blames(1, Fault::BadBody), "{name}: {:?}", world.seat(0).blamed);
        assert!(world.votes(0).is_empty(), "{name}");
        let good = world.body(&made);
        world.say(2, 0, good);
        assert!(world.voted(0, &made), "{name}: the true body is taken from anybody");
    }
}

/// TS13: a header that states another size or count than the body of its root.
#[test]
fn a_header_that_misstates_its_body_gets_no_vote() {
    for (bytes, count) in [(1, 0), (0, 1)] {
        let mut world = World::alone(Pack::Chain2, 0);
        let mut made = world.block(1, &world.genesis(), world.genesis_qc(), &["one", "two"]);
        made.header.bytes += bytes;
        made.header.count += count;
        world.show(0, &made);
        assert!(world.votes(0).is_empty());
        assert!(world.seat(0).blames(1, Fault::BodyMismatch), "{:?}", world.seat(0).blamed);
    }
}

/// TS13, 4.5: an item of an uncommitted ancestor, again.
#[test]
fn a_proposal_that_repeats_an_item_of_its_branch_gets_no_vote() {
    for pack in CHAINED {
        let mut world = World::alone(pack, 0);
        let a = world.block(1, &world.genesis(), world.genesis_qc(), &["one"]);
        world.show(0, &a);
        let repeating = world.block(2, &a, world.qc(&a), &["two", "one"]);
        world.show(0, &repeating);
        assert!(!world.voted(0, &repeating), "{pack:?}");
        assert!(world.seat(0).blames(2, Fault::RepeatedItem), "{pack:?}");
        let fresh = world.block_after_tc(3, &a, world.qc(&a), &["two"]);
        world.show(0, &fresh);
        assert!(world.voted(0, &fresh), "{pack:?}");
    }
}

fn commits(world: &World, id: u32) -> usize {
    let is_commit = |written: &&Written| matches!(written, Written::Record(Record::Commit { .. }));
    world.seat(id).journal.iter().filter(is_commit).count()
}

/// What order votes commit is delivered before the log says so: the block and its certificate are in it. A crash in
/// between loses nothing, alone or together with all others.
#[test]
fn a_commit_that_the_log_lacks_is_found_again() {
    for all in [false, true] {
        let mut world = World::four(Pack::Chain2Order, |_| {});
        world.submit(0, "hello");
        world.run(Span::millis(20));
        for id in 0..4 {
            assert_eq!((world.seat(id).texts(), commits(&world, id)), (vec!["hello".to_owned()], 0));
        }
        (if all { 0..4 } else { 2..3 }).for_each(|id| world.restart_whole(id));
        world.run(Span::secs(2));
        for id in 0..4 {
            assert_eq!(world.seat(id).texts(), ["hello"], "all: {all}, n{id}");
        }
    }
}

/// An idle replica writes the commit it owes with its next status, a busy one with the next record.
#[test]
fn a_commit_is_written_soon() {
    let mut world = World::four(Pack::Chain2Order, |_| {});
    world.submit(0, "one");
    world.run(Span::millis(20));
    world.submit(0, "two");
    world.run(Span::millis(20));
    assert_eq!(commits(&world, 1), 1, "the first, with the vote for the second");
    world.run(Span::secs(3));
    assert_eq!(commits(&world, 1), 2);
}

/// A user may keep what it was given before the log says that it is committed: recovery finds the block below the high
/// QC, delivers nothing twice, and goes on behind it. A position that no block of the log reaches is refused as before.
#[test]
fn a_user_may_hold_a_commit_that_the_log_lacks() {
    let mut world = World::four(Pack::Chain2Order, |_| {});
    for text in ["one", "two", "three"] {
        world.submit(0, text);
        world.run(Span::millis(20));
    }
    assert_eq!(world.seat(1).texts(), ["one", "two", "three"]);
    assert_eq!(commits(&world, 1), 2, "the third stands in the log as a block and a certificate");
    let kept = world.seat(1).journal.len();
    world.seat_mut(1).crash(kept);
    world.start(1, Condition::Clean, Position(3));
    world.submit(0, "four");
    world.run(Span::secs(2));
    assert_eq!(world.seat(1).texts(), ["four"]);
}

/// The record of a stable checkpoint finds its block committed: a commit that reaches a multiple of `checkpoint_every` is
/// in the log before it is delivered.
#[test]
fn a_commit_that_reaches_a_checkpoint_is_written_before_it_is_delivered() {
    let mut world = World::four(Pack::Chain2Order, |parameters| parameters.checkpoint_every = 2);
    for text in ["one", "two"] {
        world.submit(0, text);
        world.run(Span::millis(20));
    }
    let of = |written: &Written| match written {
        Written::Record(Record::Commit { last, .. }) => Some(last.0),
        Written::Record(_) | Written::Blob(..) | Written::Erase(_) => None,
    };
    let written: Vec<u64> = world.seat(1).journal.iter().filter_map(of).collect();
    assert_eq!(written, [1, 2]);
    let kept = world.seat(1).journal.len();
    world.seat_mut(1).crash(kept);
    world.start(1, Condition::Clean, Position(2));
    world.submit(0, "three");
    world.run(Span::secs(2));
    assert_eq!(world.seat(1).texts(), ["three"], "delivery goes on behind what the user holds");
}
