//! Chains with a gap between their views, and proposals that hide what complainers knew (TS1, TS2).

use synod_hotstuff::{Complaint, Message, NoteName, Pack, Tc, View};
use synod_quorum::Epoch;
use synod_wire::List;

use crate::world::{Setup, World};

/// TS1, D7: b@1 certified; s@3 conflicts and its certificate stays hidden; b'@5 on b and b''@6 on b'. The certificate of
/// b'' reaches one replica: b must not commit there, and the branch of s, revealed by leader 8, must.
#[test]
fn a_three_chain_with_a_gap_of_views_commits_nothing_and_the_hidden_branch_may_win() {
    let mut world = World::new(Setup { n: 7, ..Setup::of(Pack::Chain3, &[4]) });
    let genesis = world.genesis();
    let b = world.block(1, &genesis, world.genesis_qc(), &["b"]);
    world.show(4, &b);
    let s = world.block_after_tc(3, &genesis, world.genesis_qc(), &["s"]);
    world.show(4, &s);
    let s_qc = world.qc(&s);
    let b1 = world.block_after_tc(5, &b, world.qc(&b), &["b1"]);
    world.show(4, &b1);
    let b2 = world.block(6, &b1, world.qc(&b1), &["b2"]);
    world.show(4, &b2);
    let qc = world.advance(&world.qc(&b2));
    world.say(0, 4, qc);
    let seen = world.seat(4).seen();
    assert_eq!((seen.high.0, seen.height), (6, 0), "b'' is certified and nothing is committed");
    assert!(world.voted(4, &b2), "the subject took part in the gapped chain");

    let mut parent = (s.clone(), s_qc);
    for view in 8..=10 {
        let made = match view {
            8 => world.block_after_tc(8, &parent.0, parent.1.clone(), &["t8"]),
            _ => world.block(view, &parent.0, parent.1.clone(), &[]),
        };
        world.show(4, &made);
        parent = (made.clone(), world.qc(&made));
    }
    let last = world.advance(&parent.1);
    world.say(0, 4, last);
    assert_eq!(world.seat(4).texts(), ["s", "t8"], "the three-chain 8, 9, 10 commits s before it");
    assert!(!world.seat(4).seen().halted && !world.seat(4).noted(NoteName::Conflict));
}

/// TS1 at the other packs: two-chains need consecutive views as well.
#[test]
fn a_two_chain_with_a_gap_of_views_commits_nothing() {
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::alone(pack, 3);
        let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
        world.show(3, &b);
        let b1 = world.block_after_tc(5, &b, world.qc(&b), &["b1"]);
        world.show(3, &b1);
        let qc = world.advance(&world.qc(&b1));
        world.say(0, 3, qc);
        assert_eq!((world.seat(3).seen().high.0, world.seat(3).seen().height), (5, 0), "{pack:?}");
        let b2 = world.block(6, &b1, world.qc(&b1), &[]);
        world.show(3, &b2);
        let qc = world.advance(&world.qc(&b2));
        world.say(0, 3, qc);
        assert_eq!(world.seat(3).texts(), ["b", "b1"], "{pack:?}: consecutive views commit all below");
    }
}

/// TS2: the twins trace that breaks two-chains without timeout evidence. a@1 is certified and, by b@2, committed at the
/// subject; a leader with two faces proposes c@3 on the genesis with a TC(2) whose signers held QC(a).
#[test]
fn a_proposal_below_what_its_tc_lists_gets_no_vote() {
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::alone(pack, 0);
        let genesis = world.genesis();
        let a = world.block(1, &genesis, world.genesis_qc(), &["a"]);
        let a_qc = world.qc(&a);
        world.show(0, &a);
        let b = world.block(2, &a, a_qc.clone(), &["b"]);
        world.show(0, &b);
        let g_qc = world.genesis_qc();
        let hiding = world.tc(2, &[(1, &a_qc), (2, &a_qc), (3, &g_qc)]);
        let mut c = world.block(3, &genesis, g_qc.clone(), &["c"]);
        c.header.tc = Some(hiding.clone());
        world.show(0, &c);
        assert_eq!(world.seat(0).seen().view.0, 4 - 1, "{pack:?}: the TC moves the subject to view 3");
        assert!(
            world.votes(0).iter().all(|(view, ..)| *view < 3),
            "{pack:?}: no vote below the TC's evidence"
        );

        let mut fit = world.block(3, &a, a_qc, &["d"]);
        fit.header.tc = Some(hiding);
        let mut honest = World::alone(pack, 0);
        honest.show(0, &a);
        honest.show(0, &b);
        honest.show(0, &fit);
        assert!(honest.voted(0, &fit), "{pack:?}: at the evidence it votes");
    }
}

/// TS2, the whole trace with three honest replicas: a commits at one of them by its child; the other two give view 2 up
/// with what they hold; the liar leads view 3 and shows everybody a block beside a with their very complaints.
#[test]
fn after_a_two_chain_no_tc_of_true_complaints_lets_a_conflicting_block_be_certified() {
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::new(Setup::of(pack, &[0, 1, 2]));
        let genesis = world.genesis();
        let a = world.block(1, &genesis, world.genesis_qc(), &["a"]);
        let (a_qc, g_qc) = (world.qc(&a), world.genesis_qc());
        let b = world.block(2, &a, a_qc, &["b"]);
        for id in 0..3 {
            for made in [&a, &b] {
                if u32::from(made.header.proposer) != id {
                    world.show(id, made);
                }
            }
            if id > 0 {
                let qc = world.advance(&world.qc(&a));
                world.say(3, id, qc);
            }
        }
        world.certify(0, &b);
        assert_eq!(world.seat(0).texts(), ["a"], "{pack:?}: a is committed at one replica");
        let mut complaints = vec![world.complaint(3, 2, 0)];
        let mut high = g_qc.clone();
        for id in [1, 2] {
            world.submit(id, "work");
            while !world.complaints(id).iter().any(|(view, _)| *view == 2) {
                assert!(world.expire(id), "{pack:?}: n{id} gives view 2 up");
            }
            for (from, message) in world.said.clone() {
                if let Message::Complain { view: View(2), high: shown, signature } = message
                    && from == id
                {
                    let member = u8::try_from(id).expect("a member");
                    complaints.insert(0, Complaint { member, high: shown.view, signature });
                    high = if shown.view > high.view { shown } else { high };
                }
            }
        }
        complaints.sort_by_key(|complaint| complaint.member);
        complaints.dedup_by_key(|complaint| complaint.member);
        let complaints = List::try_from(complaints).expect("three");
        let mut c = world.block(3, &genesis, g_qc, &["c"]);
        c.header.tc = Some(Tc { epoch: Epoch(0), view: View(2), complaints, high });
        for id in 0..3 {
            world.show(id, &c);
        }
        assert!((1..3).all(|id| world.seat(id).seen().view == View(3)), "{pack:?}: the TC is a good one");
        assert!((0..3).all(|id| !world.voted(id, &c)), "{pack:?}: and yet nobody votes beside a");
    }
}
