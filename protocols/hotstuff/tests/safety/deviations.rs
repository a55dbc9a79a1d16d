//! One test for each defect of the printed algorithms that stands nowhere else in this suite: it fails when the defect is
//! put back. `docs/papers/hotstuff.md` names the test of every deviation.

use synod_hotstuff::{Body, Fault, Header, Kind, Message, Pack, Parameters, Status, Timer, View, Votes};
use synod_machine::broadcast::Position;
use synod_machine::{Bounded, Span};
use synod_wire::Wire;

use crate::world::{Counts, Made, Setup, World, item, one_view};

const CHAINED: [Pack; 3] = [Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

/// Runs every test of this file, for the count of rules.
pub(crate) fn all() {
    the_certificate_held_is_the_newest_whatever_comes_late();
    a_leader_proposes_on_the_evidence_of_its_view_and_shows_it();
    orphaned_items_are_proposed_again_and_those_of_the_branch_are_not();
    every_expiry_is_said_to_all_and_again();
    the_timeout_grows_with_each_term_given_up_and_falls_with_a_commit();
    proposals_stay_small_however_far_a_member_is_behind();
}

/// Headers the subject proposed, oldest first.
fn headers(world: &World, subject: u32) -> Vec<Header> {
    let said = world.said.iter().filter(|(from, _)| *from == subject);
    said.filter_map(|(_, message)| match message {
        Message::Propose { header, .. } => Some(header.clone()),
        _ => None,
    })
    .collect()
}

/// D2: the high QC becomes the newer one; an older one that comes late changes nothing, and complaints show the newest.
#[test]
pub(crate) fn the_certificate_held_is_the_newest_whatever_comes_late() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let genesis = world.genesis();
        let blocks = world.good_views(0, 1, 4, &genesis);
        assert_eq!(world.seat(0).seen().high, View(3), "{pack:?}");
        for made in &blocks[..3] {
            world.certify(0, made);
            assert_eq!(world.seat(0).seen().high, View(3), "{pack:?}: an old certificate");
        }
        world.certify(0, &blocks[3]);
        assert_eq!(world.seat(0).seen().high, View(4), "{pack:?}: a newer one");
        world.submit(0, "work");
        assert!(world.expire(0));
        assert_eq!(world.complaints(0).into_iter().collect::<Vec<_>>(), [(5, 4)], "{pack:?}");
    }
}

/// D3: a certificate is newer by its view, though its block is lower than the one held.
#[test]
fn a_lower_block_of_a_later_view_is_the_newer_certificate() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let genesis = world.genesis();
        let tall = world.good_views(0, 1, 2, &genesis);
        world.certify(0, &tall[1]);
        assert_eq!(world.seat(0).seen().high, View(2), "{pack:?}: two blocks high");
        let short = world.block_after_tc(6, &tall[0], world.qc(&tall[0]), &["short"]);
        world.show(0, &short);
        let low = world.block_after_tc(8, &tall[0], world.qc(&tall[0]), &["low"]);
        world.show(0, &low);
        world.certify(0, &low);
        assert_eq!(world.seat(0).seen().high, View(8), "{pack:?}: two blocks high as well");
        let tall = world.good_views(0, 9, 3, &low);
        world.certify(0, &tall[2]);
        let last = world.block_after_tc(12 + 1, &tall[0], world.qc(&tall[0]), &["last"]);
        world.show(0, &last);
        world.certify(0, &last);
        assert_eq!(world.seat(0).seen().high, View(13), "{pack:?}: lower than the one before");
    }
}

/// D4: with votes to the next leader, that leader counts them also after it left the view they are of.
#[test]
fn the_collector_counts_votes_of_the_view_before() {
    fn to_the_leader(parameters: &mut Parameters) {
        one_view(parameters);
        parameters.votes = Votes::Leader;
    }
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::new(Setup { tweak: to_the_leader, ..Setup::of(pack, &[2]) });
        let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
        world.show(2, &b);
        let vote = world.vote(3, Kind::Generic, &b);
        world.say(3, 2, vote);
        let genesis = world.genesis_qc();
        let tc = world.tc(1, &[(0, &genesis), (1, &genesis), (3, &genesis)]);
        let message = world.advance_tc(&tc);
        world.say(3, 2, message);
        assert_eq!((world.seat(2).seen().view, world.seat(2).seen().high), (View(2), View(0)), "{pack:?}");
        let late = world.vote(0, Kind::Generic, &b);
        world.say(0, 2, late);
        assert_eq!(world.seat(2).seen().high, View(1), "{pack:?}: the late vote completes the certificate");
    }
}

/// D4: a vote goes to the member that collects it, and at the end of a term to the leader of the view as well.
#[test]
fn votes_to_the_leader_go_to_whoever_accepts_them() {
    fn terms(parameters: &mut Parameters) {
        one_view(parameters);
        parameters.term_views = 4;
        parameters.votes = Votes::Leader;
    }
    let mut world = World::new(Setup { tweak: terms, ..Setup::of(Pack::Chain3, &[3]) });
    let mut parent = world.genesis();
    for view in 1..=3 {
        let made = world.block(view, &parent, world.qc(&parent), &[&format!("v{view}")]);
        world.show(3, &made);
        let mut to: Vec<u32> = world
            .flight
            .iter()
            .filter(|e| matches!(&e.message, Message::Vote { view: of, .. } if of.0 == view))
            .map(|e| e.to)
            .collect();
        to.sort_unstable();
        let expected: &[u32] = if view == 3 { &[0, 1] } else { &[0] };
        assert_eq!(to, expected, "view {view}");
        parent = made;
    }
}

/// D6: a proposal that gets no vote, for the subject voted in its view before, still teaches its certificate.
#[test]
fn a_certificate_is_used_though_its_proposal_gets_no_vote() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        let genesis = world.genesis();
        let a = world.block(1, &genesis, world.genesis_qc(), &["a"]);
        world.show(0, &a);
        let first = world.block_after_tc(3, &genesis, world.genesis_qc(), &["first"]);
        world.show(0, &first);
        assert!(world.voted(0, &first), "{pack:?}");
        let second = world.block_after_tc(3, &a, world.qc(&a), &["second"]);
        world.show(0, &second);
        assert!(!world.voted(0, &second) && world.seat(0).blames(3, Fault::EquivocatedProposal), "{pack:?}");
        assert_eq!(world.seat(0).seen().high, View(1), "{pack:?}: its justify is used");
    }
}

/// D9: votes, orders and complaints of far views cost no memory and move nothing.
#[test]
fn inflated_views_are_not_stored() {
    for pack in CHAINED {
        let mut world = World::alone(pack, 0);
        let genesis = world.genesis();
        let before = world.seat(0).replica.as_ref().expect("it runs").bytes();
        for step in 0..500_u64 {
            let mut far = world.block(1, &genesis, world.genesis_qc(), &[]);
            far.header.view = View(2 + step * step * 7);
            let vote = world.vote(3, Kind::Generic, &far);
            world.say(3, 0, vote);
            let order = world.order(3, &far);
            world.say(3, 0, order);
            let complaint = world.complain(3, 2 + step * 1_000_003, &world.genesis_qc());
            world.say(3, 0, complaint);
        }
        let after = world.seat(0).replica.as_ref().expect("it runs").bytes();
        assert!(after - before < 8 << 10, "{pack:?}: {} bytes more", after - before);
        assert_eq!((world.seat(0).seen().view, world.seat(0).seen().high), (View(1), View(0)), "{pack:?}");
    }
}

/// D9, I4: what is held of a member is at most `view_window` views ahead.
#[test]
fn a_vote_beyond_the_window_is_not_held() {
    for (view, held) in [(2, true), (65, true), (66, false), (1_000_000, false)] {
        let mut world = World::alone(Pack::Chain2Order, 0);
        let mut far = world.genesis();
        far.header.view = View(view);
        let vote = world.vote(3, Kind::Generic, &far);
        world.say(3, 0, vote);
        world.link_up(0, 3);
        let told = world.said.iter().rev().find_map(|(_, message)| match message {
            Message::Status(status) => Some(status.yours.is_some()),
            _ => None,
        });
        assert_eq!(told, Some(held), "view {view}: whoever reconnects is told its newest statement");
    }
}

/// D10, D17: the leader of a view entered by a TC proposes on the certificate the TC lists, once it has that block, and
/// its first proposal embeds the TC.
#[test]
pub(crate) fn a_leader_proposes_on_the_evidence_of_its_view_and_shows_it() {
    for pack in CHAINED {
        let mut world = World::alone(pack, 3);
        world.submit(3, "work");
        let a = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
        let early = world.body(&a);
        world.say(1, 3, early);
        let (a_qc, g_qc) = (world.qc(&a), world.genesis_qc());
        let tc = world.tc(2, &[(0, &g_qc), (1, &a_qc), (2, &g_qc)]);
        let message = world.advance_tc(&tc);
        world.say(2, 3, message);
        assert_eq!(world.seat(3).seen().view, View(3), "{pack:?}: it leads view 3");
        assert!(
            headers(&world, 3).is_empty(),
            "{pack:?}: without the block its evidence names it proposes nothing"
        );
        assert_eq!(world.answer_fetches(3, core::slice::from_ref(&a)), 1, "{pack:?}: it asks for the block");
        world.run(Span::millis(5));
        let made = headers(&world, 3);
        assert_eq!(made.len(), 1, "{pack:?}");
        assert_eq!(
            (made[0].parent, made[0].justify.view),
            (a.digest(), View(1)),
            "{pack:?}: on a, not below"
        );
        assert_eq!(made[0].tc.as_ref().map(|tc| tc.view), Some(View(2)), "{pack:?}: with the TC");
    }
}

/// D10: a complaint carries the very certificate it signs for, so that whoever hears it holds it.
#[test]
fn a_complaint_teaches_the_certificate_it_signs_for() {
    for pack in CHAINED {
        let mut world = World::alone(pack, 0);
        let a = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
        world.show(0, &a);
        let complaint = world.complain(3, 2, &world.qc(&a));
        world.say(3, 0, complaint);
        assert_eq!((world.seat(0).seen().high, world.seat(0).seen().view), (View(1), View(2)), "{pack:?}");
    }
}

/// The subject leads view 1 and proposes "mine".
fn with_own_block(pack: Pack) -> (World, Made) {
    let mut world = World::alone(pack, 1);
    world.submit(1, "mine");
    let made = headers(&world, 1);
    assert_eq!(made.len(), 1, "{pack:?}: it proposes at once");
    let body = Body::pack(vec![item("mine")]);
    assert_eq!(made[0].root, body.root);
    (world, Made { header: made[0].clone(), body })
}

/// D11, D12, D13: an item whose block falls off the branch is proposed again by the same member when it leads again; one
/// whose block is an ancestor is not; no change of view takes items away.
#[test]
pub(crate) fn orphaned_items_are_proposed_again_and_those_of_the_branch_are_not() {
    for pack in CHAINED {
        for orphaned in [true, false] {
            let (mut world, own) = with_own_block(pack);
            world.submit(1, "later");
            let genesis = world.genesis();
            let parent = if orphaned { genesis } else { own };
            let x2 = world.block_after_tc(3, &parent, world.qc(&parent), &["x"]);
            world.show(1, &x2);
            let x4 = world.block(4, &x2, world.qc(&x2), &[]);
            world.show(1, &x4);
            world.certify(1, &x4);
            world.run(Span::millis(5));
            assert_eq!(world.seat(1).seen().view, View(5), "{pack:?}: it leads again");
            let again = headers(&world, 1).into_iter().find(|header| header.view == View(5));
            let expected: &[&str] = if orphaned { &["mine", "later"] } else { &["later"] };
            let root = Body::pack(expected.iter().map(|text| item(text)).collect()).root;
            assert_eq!(again.map(|header| header.root), Some(root), "{pack:?}, orphaned: {orphaned}");
        }
    }
}

/// D11, D12: items of a member that does not lead stay with it, whatever views pass, until it leads or they commit.
#[test]
fn pending_items_outlive_changes_of_view() {
    for pack in CHAINED {
        let mut world = World::alone(pack, 0);
        world.submit(0, "kept");
        let genesis = world.genesis();
        let blocks = world.good_views(0, 1, 3, &genesis);
        world.certify(0, &blocks[2]);
        assert_eq!((world.seat(0).seen().view, world.seat(0).seen().pending), (View(4), 1), "{pack:?}");
        world.run(Span::millis(5));
        let own = headers(&world, 0);
        let root = Body::pack(vec![item("kept")]).root;
        assert_eq!(own.first().map(|header| header.root), Some(root), "{pack:?}: it is proposed in view 4");
        assert_eq!(world.seat(0).seen().pending, 1, "{pack:?}: and pending until it commits");
    }
}

/// D14, D15: each expiry is said to all members and names the view; the timer runs again; evidence that came since is
/// shown with it.
#[test]
pub(crate) fn every_expiry_is_said_to_all_and_again() {
    for pack in CHAINED {
        let mut world = World::alone(pack, 0);
        let a = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
        world.submit(0, "work");
        for times in 1..=4 {
            world.flight.clear();
            assert!(world.expire(0), "{pack:?}: the timer runs again");
            let mut to: Vec<u32> = world
                .flight
                .iter()
                .filter(|e| matches!(&e.message, Message::Complain { view, .. } if *view == View(1)))
                .map(|e| e.to)
                .collect();
            to.sort_unstable();
            assert_eq!(to, [1, 2, 3], "{pack:?}: expiry {times}");
            let shares = world.flight.iter().any(|e| matches!(e.message, Message::Forward(_)));
            assert_eq!(shares, times >= 2, "{pack:?}: from the second expiry on its items go to all");
        }
        world.certify(0, &a);
        world.flight.clear();
        assert!(world.expire(0));
        assert_eq!(
            world.complaints(0).into_iter().collect::<Vec<_>>(),
            [(2, 1)],
            "{pack:?}: with the newest certificate"
        );
    }
}

/// How long the view timer of the subject was armed for.
fn armed_for(world: &World, subject: u32) -> Span {
    let mut views = world.seat(subject).timers.iter().filter(|(timer, _)| matches!(timer, Timer::View(_)));
    let due = views.next().map(|(_, due)| *due).expect("the view timer is armed");
    assert!(views.next().is_none(), "one view has one timer");
    due.since(world.now)
}

/// D16: the timeout grows by half with each term given up, up to its maximum, and commits take it back.
#[test]
pub(crate) fn the_timeout_grows_with_each_term_given_up_and_falls_with_a_commit() {
    for pack in CHAINED {
        let mut world = World::crowd(pack, 0);
        world.submit(0, "work");
        let genesis = world.genesis_qc();
        let mut expected = Span::millis(100);
        for view in 1..=12 {
            assert_eq!(armed_for(&world, 0), expected, "{pack:?} view {view}");
            let held: Vec<(u32, &synod_hotstuff::Qc)> =
                world.a_quorum().into_iter().map(|id| (id, &genesis)).collect();
            let tc = world.tc(view, &held);
            let message = world.advance_tc(&tc);
            world.say(1, 0, message);
            expected = Span((expected.0 / 2 * 3).min(Span::secs(10).0));
        }
        assert_eq!(expected, Span::secs(10), "twelve steps reach the maximum");
        let first = world.block_after_tc(14, &world.genesis(), genesis, &["v14"]);
        world.show(0, &first);
        let more = world.good_views(0, 15, 9, &first);
        world.certify(0, &more[8]);
        assert!(world.seat(0).seen().height >= 1, "{pack:?}: a block is committed");
        let next = world.block(24, &more[8], world.qc(&more[8]), &["v24"]);
        world.show(0, &next);
        world.certify(0, &next);
        assert_eq!(armed_for(&world, 0), Span::millis(100), "{pack:?}: the first timeout again");
    }
}

/// Bytes that the leader sent for forty items in the first and in the last third of a run in which member 3 is `dead`,
/// and its longest proposal behind the tenth block.
fn leader_bytes(pack: Pack, dead: bool) -> ([u64; 2], usize) {
    let mut world = World::four(pack, |parameters| {
        parameters.reputation = false;
        parameters.term_views = 1_000;
    });
    if dead {
        world.seat_mut(3).crash(0);
    }
    let mut thirds = [0; 3];
    for at in 0..120 {
        world.seat_mut(0).counts = Counts::default();
        world.submit(0, &format!("item {at:>4}"));
        world.run(Span::millis(20));
        thirds[at / 40] += world.seat(0).counts.bytes;
    }
    let proposals = world.said.iter().filter_map(|(_, message)| match message {
        Message::Propose { header, .. } if header.height > 10 => Some(message.encode().len()),
        _ => None,
    });
    let proposals: Vec<usize> = proposals.collect();
    assert!(proposals.len() > 50, "{pack:?}: {} proposals", proposals.len());
    ([thirds[0], thirds[2]], proposals.into_iter().max().unwrap_or(0))
}

/// D18: what a leader proposes does not grow with the distance of the slowest member; heights that members report are
/// hints and cost the others nothing.
#[test]
pub(crate) fn proposals_stay_small_however_far_a_member_is_behind() {
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        let (_, healthy) = leader_bytes(pack, false);
        let ([first, last], lagging) = leader_bytes(pack, true);
        assert!(lagging <= healthy + 4, "{pack:?}: {lagging} bytes against {healthy}");
        assert!(last <= first + first / 10, "{pack:?}: {first} bytes at first, {last} later");
    }
    for height in [0, 1, 1_000_000_000] {
        let mut world = World::alone(Pack::Chain2, 1);
        for id in [0, 2, 3] {
            let (view, high) = (View(height), world.genesis_qc());
            let status = Status { height, view, high, tc: None, stable: Position(0), yours: None };
            world.say(id, 1, Message::Status(status));
        }
        world.submit(1, "item");
        let made = headers(&world, 1);
        assert_eq!(made.len(), 1, "height {height}");
        assert_eq!(
            (made[0].height, made[0].count),
            (1, 1),
            "height {height}: the proposal carries one block"
        );
        assert_eq!(world.seat(1).seen().height, 0, "height {height}");
    }
}

/// Items delivered at member 0 in three seconds with a dead last member and leaders that change with each view.
fn delivered_with_one_dead(pack: Pack, tweak: fn(&mut Parameters)) -> usize {
    let mut world = World::four(pack, tweak);
    world.seat_mut(3).crash(0);
    for at in 0..30 {
        world.submit(at % 3, &format!("item {at}"));
        world.run(Span::millis(300));
    }
    world.seat(0).texts().len()
}

/// D19: where votes go to the next leader only, a dead one of four stops three-chains for ever; votes to all, terms or
/// order votes do not let it.
#[test]
fn a_dead_member_stops_the_paper_as_printed_and_no_production_pack() {
    assert_eq!(delivered_with_one_dead(Pack::Paper, |_| ()), 0, "the control: as printed nothing commits");
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let delivered = delivered_with_one_dead(pack, |parameters| parameters.reputation = false);
        assert!(delivered >= 20, "{pack:?}: {delivered} of 30 items");
    }
}
