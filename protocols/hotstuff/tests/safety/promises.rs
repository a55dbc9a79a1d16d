//! What a replica promised stands: after a complaint, against a leader with two faces, after a restart (TS4, TS10,
//! TS14, TS16).

use synod_hotstuff::{Fault, Kind, Message, Pack, Parameters, View};
use synod_machine::Span;

use crate::world::{Made, Setup, World, one_view};

const CHAINED: [Pack; 3] = [Pack::Chain3, Pack::Chain2, Pack::Chain2Order];
const PACKS: [Pack; 4] = [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

pub(crate) fn terms_of_four(parameters: &mut Parameters) {
    one_view(parameters);
    parameters.term_views = 4;
}

/// Subject 3 in terms of four views; member 0 leads the first term.
fn in_terms(pack: Pack) -> World {
    World::new(Setup { tweak: terms_of_four, ..Setup::of(pack, &[3]) })
}

/// TS10: a vote after a complaint.
#[test]
fn who_gave_a_view_up_votes_for_nothing_in_it() {
    for pack in PACKS {
        let mut world = World::alone(pack, 0);
        let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
        world.submit(0, "work");
        assert!(world.expire(0), "{pack:?}: a view with work has a timer");
        assert_eq!(world.complaints(0).into_iter().collect::<Vec<_>>(), [(1, 0)], "{pack:?}");
        world.show(0, &b);
        assert!(world.votes(0).is_empty(), "{pack:?}");
        let next = world.block_after_tc(2, &world.genesis(), world.genesis_qc(), &["c"]);
        world.show(0, &next);
        assert!(world.voted(0, &next), "{pack:?}: in the next view it votes");
    }
}

/// TS10: an order vote after a complaint.
#[test]
fn who_gave_a_view_up_orders_nothing_in_it() {
    let mut world = World::alone(Pack::Chain2Order, 0);
    let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
    world.show(0, &b);
    world.submit(0, "work");
    assert!(world.expire(0));
    world.certify(0, &b);
    assert_eq!(world.seat(0).seen().high, View(1), "the certificate is used");
    assert!(world.orders(0).is_empty(), "and not ordered");
    let c = world.block(2, &b, world.qc(&b), &["c"]);
    world.show(0, &c);
    world.certify(0, &c);
    assert_eq!(
        world.orders(0).into_iter().collect::<Vec<_>>(),
        [(2, c.digest())],
        "the next view is ordered"
    );
}

/// TS10: a later phase of the basic pack after a complaint.
#[test]
fn who_gave_a_view_up_takes_part_in_no_later_phase_of_it() {
    for (kind, next) in [(Kind::Prepare, Kind::Precommit), (Kind::Precommit, Kind::Commit)] {
        for complains in [false, true] {
            let mut world = World::alone(Pack::Basic, 0);
            let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
            world.show(0, &b);
            let prepared = world.qc_as(Kind::Prepare, 1, b.digest(), &[1, 2, 3]);
            if kind == Kind::Precommit {
                world.say(1, 0, Message::Phase(prepared));
            }
            if complains {
                world.submit(0, "work");
                assert!(world.expire(0));
            }
            let qc = world.qc_as(kind, 1, b.digest(), &[1, 2, 3]);
            world.say(1, 0, Message::Phase(qc));
            let voted = world.votes(0).contains(&(1, next, b.digest()));
            assert_eq!(voted, !complains, "{next:?}, complained: {complains}");
        }
    }
}

/// TS10: a complaint gives up the whole term.
#[test]
fn a_complaint_bars_every_vote_and_order_to_the_end_of_its_term() {
    for pack in CHAINED {
        let mut world = in_terms(pack);
        let mut parent = world.block(1, &world.genesis(), world.genesis_qc(), &["v1"]);
        world.show(3, &parent);
        assert!(world.voted(3, &parent), "{pack:?}");
        world.submit(3, "work");
        assert!(world.expire(3));
        assert_eq!(world.complaints(3).into_iter().collect::<Vec<_>>(), [(3, 0)], "{pack:?}: the term's end");
        for view in 2..=4 {
            let text = format!("v{view}");
            let made = world.block(view, &parent, world.qc(&parent), &[&text]);
            world.show(3, &made);
            assert_eq!(world.voted(3, &made), view == 4, "{pack:?} view {view}");
            parent = made;
        }
        world.certify(3, &parent);
        let orders: Vec<u64> = world.orders(3).into_iter().map(|(view, _)| view).collect();
        let expected: &[u64] = if pack == Pack::Chain2Order { &[4] } else { &[] };
        assert_eq!(orders, expected, "{pack:?}");
    }
}

/// TS10: a vote or an order that waits for its signature does not leave once the view is given up.
#[test]
fn a_promise_on_its_way_to_be_signed_is_overtaken_by_a_complaint() {
    let mut world = World::alone(Pack::Chain2Order, 0);
    world.submit(0, "work");
    let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
    let (body, header) = (world.body(&b), world.propose(&b));
    world.say(1, 0, body);
    world.holding.insert(0);
    world.say(1, 0, header);
    // Its check is done, its signature is not.
    let check = world.seat_mut(0).jobs.pop_front().expect("the header's check");
    let done = synod_machine::Job::run(check, &world.seat(0).keys);
    world.give(0, synod_machine::Event::Done(done));
    assert_eq!(
        world.seat(0).promises().map(|safety| safety.voted.view),
        Some(View(1)),
        "the vote is promised"
    );
    assert!(world.expire(0), "and then the view is given up");
    world.work(0);
    assert!(world.votes(0).is_empty(), "so it never leaves");
    assert_eq!(world.complaints(0).into_iter().collect::<Vec<_>>(), [(1, 0)]);
}

/// TS16: joining a later term, then the timer of an earlier view.
#[test]
pub(crate) fn what_is_given_up_never_falls() {
    for pack in CHAINED {
        let setup = Setup { n: 7, tweak: terms_of_four, ..Setup::of(pack, &[3]) };
        let mut world = World::new(setup);
        let genesis = world.genesis_qc();
        world.submit(3, "work");
        for id in [1, 2, 4] {
            let complaint = world.complain(id, 11, &genesis);
            world.say(id, 3, complaint);
        }
        assert_eq!(world.seat(3).seen().complained, View(11), "{pack:?}: a weak quorum is joined");
        world.flight.clear();
        for _ in 0..3 {
            assert!(world.expire(3), "{pack:?}: the timer of view 1");
            assert_eq!(world.seat(3).seen().complained, View(11), "{pack:?}");
        }
        assert!(
            world.complaints(3).iter().all(|(view, _)| *view == 11),
            "{pack:?}: {:?}",
            world.complaints(3)
        );
        assert_eq!(world.seat(3).promises().map(|safety| safety.complained), Some(View(11)), "{pack:?}");
        world.restart_whole(3);
        assert_eq!(world.seat(3).seen().complained, View(11), "{pack:?}: nor by a restart");
        let made = world.block(1, &world.genesis(), genesis, &["b"]);
        world.show(3, &made);
        assert!(!world.voted(3, &made), "{pack:?}");
    }
}

/// TS14: two proposals of one leader for one view, in either order.
#[test]
fn a_leader_with_two_faces_gets_one_vote_and_is_named_with_both() {
    for pack in PACKS {
        let mut world = World::alone(pack, 0);
        let first = world.block(1, &world.genesis(), world.genesis_qc(), &["one"]);
        let second = world.block(1, &world.genesis(), world.genesis_qc(), &["two"]);
        world.show(0, &first);
        world.show(0, &second);
        assert!(world.voted(0, &first) && !world.voted(0, &second), "{pack:?}");
        assert!(world.seat(0).blames(1, Fault::EquivocatedProposal), "{pack:?}");
        world.restart_whole(0);
        world.show(0, &second);
        assert!(!world.voted(0, &second), "{pack:?}: nor after a restart");
    }
}

/// Counts which blocks of view 1 have votes of quorum power, the liar's own included.
fn certified(world: &World, liar: u32, blocks: &[Made]) -> usize {
    let honest = (0..4).filter(|id| *id != liar);
    let votes: Vec<_> = honest.map(|id| world.votes(id)).collect();
    let of = |made: &Made| {
        votes.iter().filter(|cast| cast.contains(&(1, world.kind(), made.digest()))).count() + 1
    };
    blocks.iter().filter(|made| of(made) >= 3).count()
}

/// TS14: halves, f + 1, late: however a leader divides the members, one view certifies one block at most.
#[test]
fn however_an_equivocating_leader_divides_the_members_one_block_at_most_is_certified() {
    for pack in PACKS {
        let mut seen = 0;
        // Each of the members 0, 2, 3 hears one of: the first alone, the second alone, both in either order.
        for plan in 0..64_u32 {
            let mut world = World::new(Setup::of(pack, &[0, 2, 3]));
            let first = world.block(1, &world.genesis(), world.genesis_qc(), &["one"]);
            let second = world.block(1, &world.genesis(), world.genesis_qc(), &["two"]);
            for (at, member) in [0, 2, 3].into_iter().enumerate() {
                match plan >> (2 * at) & 3 {
                    0 => world.show(member, &first),
                    1 => world.show(member, &second),
                    2 => {
                        world.show(member, &first);
                        world.show(member, &second);
                    }
                    _ => {
                        world.show(member, &second);
                        world.show(member, &first);
                    }
                }
            }
            let found = certified(&world, 1, &[first, second]);
            assert!(found <= 1, "{pack:?}, plan {plan}: two blocks of one view");
            seen += found;
        }
        assert!(seen > 16, "{pack:?}: {seen} plans certified a block");
    }
}

/// Brings the subject to propose in view 1 and gives its proposal.
fn proposing(pack: Pack) -> (World, (u64, synod_crypto::Hash)) {
    let mut world = World::alone(pack, 1);
    world.submit(1, "first");
    let proposed: Vec<_> = world.proposals(1).into_iter().collect();
    assert_eq!(proposed.len(), 1, "{pack:?}: the leader of view 1 proposes once");
    (world, proposed[0])
}

/// TS14: a second proposal after a restart.
#[test]
fn a_restarted_leader_repeats_its_proposal_and_makes_no_second_one() {
    for pack in PACKS {
        let (mut world, proposed) = proposing(pack);
        for _ in 0..3 {
            world.flight.clear();
            world.restart_whole(1);
            world.submit(1, "second");
            world.run(Span::millis(20));
            let again: Vec<_> = world.proposals(1).into_iter().collect();
            assert!(again.iter().all(|made| *made == proposed), "{pack:?}: {again:?}");
        }
    }
}

/// TS14: with the last proposal above the view after the restart, for the log of certificates ends earlier.
#[test]
fn a_leader_proposes_above_its_last_proposal_only_wherever_a_restart_puts_it() {
    for pack in CHAINED {
        let mut world = in_terms(pack);
        let lead = world.plain(12);
        assert_eq!(lead, 3, "the subject leads the term of view 12");
        let parent = world.block_after_tc(12, &world.genesis(), world.genesis_qc(), &[]);
        let mut promises =
            synod_hotstuff::Safety::fresh(synod_quorum::Epoch(0), world.genesis().digest(), Kind::Generic);
        promises.proposed = synod_hotstuff::Mark { view: View(14), digest: synod_crypto::Hash([2; 32]) };
        let tc = parent.header.tc.clone().expect("a TC of view 11");
        promises.tc = View(11);
        let records = [synod_hotstuff::Record::Tc(tc), synod_hotstuff::Record::Safety(promises)];
        world.seat_mut(3).journal = records.into_iter().map(crate::world::Written::Record).collect();
        world.restart_whole(3);
        assert_eq!(world.seat(3).seen().view, View(12), "{pack:?}: the view of the log");
        world.submit(3, "item");
        world.run(Span::millis(20));
        assert!(world.proposals(3).is_empty(), "{pack:?}: 14 was proposed in before");
    }
}

/// TS4: at every prefix of its journal that a crash may leave, a replica that votes again votes for the same block.
#[test]
fn at_every_crash_point_there_is_one_vote_for_each_view_and_kind() {
    for pack in PACKS {
        let mut points = 0;
        for kept in 0.. {
            let mut world = World::alone(pack, 0);
            let first = world.block(1, &world.genesis(), world.genesis_qc(), &["one"]);
            let second = world.block(1, &world.genesis(), world.genesis_qc(), &["two"]);
            world.show(0, &first);
            assert!(world.voted(0, &first));
            let (whole, synced) = (world.seat(0).journal.len(), world.seat(0).synced);
            if kept > whole {
                break;
            }
            // A sent vote has its records; a crash before the sync sends nothing.
            if kept < synced {
                world.flight.clear();
            }
            world.restart(0, kept);
            world.show(0, &second);
            let of_view: Vec<_> = world.votes(0).into_iter().filter(|(view, ..)| *view == 1).collect();
            assert!(of_view.len() <= 1, "{pack:?}, {kept} of {whole} entries: {of_view:?}");
            points += 1;
        }
        assert!(points > 3, "{pack:?}: {points} crash points");
    }
}

/// TS14, 3.5: the lock comes back with the log, and a restarted replica votes for nothing below it.
#[test]
fn a_lock_survives_a_restart() {
    for restarts in [false, true] {
        let mut world = World::crowd(Pack::Chain3, 0);
        let genesis = world.genesis();
        let blocks = world.good_views(0, 1, 3, &genesis);
        world.certify(0, &blocks[2]);
        assert_eq!(
            world.seat(0).promises().map(|safety| safety.lock.view),
            Some(View(2)),
            "locked at view 2"
        );
        if restarts {
            world.restart_whole(0);
        }
        let beside = world.block_after_tc(6, &blocks[0], world.qc(&blocks[0]), &["beside"]);
        world.show(0, &beside);
        assert!(!world.voted(0, &beside), "restarted: {restarts}: its justify is of view 1, below the lock");
        let above = world.block_after_tc(7, &blocks[2], world.qc(&blocks[2]), &["above"]);
        world.show(0, &above);
        assert!(world.voted(0, &above), "restarted: {restarts}: it extends the lock");
    }
}

/// Paper 2.2.3, line 24: at the lock's own view, without the locked block, there is no vote.
#[test]
fn a_justify_as_high_as_the_lock_does_not_unlock() {
    for pack in [Pack::Basic, Pack::Chain3] {
        let mut world = World::crowd(pack, 0);
        let genesis = world.genesis();
        let locked = world.block(1, &genesis, world.genesis_qc(), &["locked"]);
        world.show(0, &locked);
        match pack {
            Pack::Basic => {
                for kind in [Kind::Prepare, Kind::Precommit] {
                    let qc = world.qc_as(kind, 1, locked.digest(), &world.a_quorum());
                    world.say(1, 0, Message::Phase(qc));
                }
            }
            _ => {
                let next = world.block(2, &locked, world.qc(&locked), &["next"]);
                world.show(0, &next);
                world.certify(0, &next);
            }
        }
        assert_eq!(world.seat(0).promises().map(|safety| safety.lock.view), Some(View(1)), "{pack:?}");
        // What no correct quorum certifies: another block of the lock's view.
        let mut twin = world.block(1, &genesis, world.genesis_qc(), &["twin"]);
        twin.header.proposer = 1;
        let beside = world.block_after_tc(5, &twin, world.qc(&twin), &["beside"]);
        world.show(0, &twin);
        world.show(0, &beside);
        world.answer_fetches(0, &[twin]);
        assert!(!world.voted(0, &beside), "{pack:?}");
    }
}

/// 3.5: a block that was voted for comes back with the log and is served, though the voter never had the log of its
/// parent; else a certified block could be lost by a restart of all.
#[test]
fn a_block_voted_for_survives_a_restart_without_its_parent_in_the_log() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let a = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
        world.submit(0, "work");
        assert!(world.expire(0), "{pack:?}: it gives view 1 up");
        world.show(0, &a);
        assert!(!world.voted(0, &a), "{pack:?}: so it does not vote for a, and writes nothing of it");
        let b = world.block_after_tc(3, &a, world.qc(&a), &["b"]);
        world.show(0, &b);
        assert!(world.voted(0, &b), "{pack:?}");
        world.certify(0, &b);
        world.restart_whole(0);
        assert_eq!(world.seat(0).seen().high, View(3), "{pack:?}: the certificate of b comes back");
        world.flight.clear();
        let wanted = synod_wire::List::try_from(vec![b.digest()]).expect("one digest");
        world.say(3, 0, Message::Fetch(synod_hotstuff::Want::Blocks(wanted)));
        let served = |message: &Message| {
            matches!(message, Message::Blocks(blocks)
                if blocks.headers.iter().any(|h| h.digest() == b.digest()) && blocks.bodies.len() == 1)
        };
        assert_eq!(world.sent(0, served).len(), 1, "{pack:?}: and b with its body");
        assert!(world.fire(0, |timer| matches!(timer, synod_hotstuff::Timer::Status)));
        assert!(
            world.answer_fetches(0, core::slice::from_ref(&a)) > 0,
            "{pack:?}: it asks for what lies below"
        );
    }
}
