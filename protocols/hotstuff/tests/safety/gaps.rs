//! Chains with a gap between their views, and proposals that hide what complainers knew (TS1, TS2).

use synod_hotstuff::{NoteName, Pack};

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

/// TS2, the whole trace: after a is committed by its child, no quorum with one liar certifies a block that does not
/// extend it, whichever two complaints the liar shows beside its own.
#[test]
fn after_a_two_chain_no_tc_of_a_quorum_lets_a_conflicting_block_pass() {
    for pack in [Pack::Chain2, Pack::Chain2Order] {
        for other in 0..3 {
            let mut world = World::alone(pack, 0);
            let genesis = world.genesis();
            let a = world.block(1, &genesis, world.genesis_qc(), &["a"]);
            let (a_qc, g_qc) = (world.qc(&a), world.genesis_qc());
            world.show(0, &a);
            let b = world.block(2, &a, a_qc.clone(), &["b"]);
            world.show(0, &b);
            let committed = world.advance(&world.qc(&b));
            world.say(1, 0, committed);
            assert_eq!(world.seat(0).texts(), ["a"], "{pack:?}");
            // Of the three that voted for b, two are honest and held QC(a): one of them is in every quorum.
            let held = [(1, if other == 1 { &g_qc } else { &a_qc }), (2, &a_qc), (3, &g_qc)];
            let mut c = world.block(3, &genesis, g_qc.clone(), &["c"]);
            c.header.tc = Some(world.tc(2, &held));
            world.show(0, &c);
            assert!(!world.voted(0, &c), "{pack:?} {other}");
            assert_eq!(world.seat(0).texts(), ["a"]);
        }
    }
}
