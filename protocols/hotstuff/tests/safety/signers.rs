//! Whoever says a thing twice has said it once, and a certificate is of the view and block it was signed for (TS5, TS6).

use synod_crypto::{Hash, Signature};
use synod_hotstuff::{Attested, Fault, Kind, Message, Pack, Parameters, Proof, Qc, Statement, Tc, View};
use synod_machine::broadcast::{Delivered, Position};
use synod_quorum::{Epoch, NodeId};
use synod_service::matching::{Matching, Say, Trust, Verdict};
use synod_wire::{Bytes, List};

use crate::world::{Made, Setup, World, one_view, root_at};

const CHAINED: [Pack; 3] = [Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

/// A world whose subject 0 holds b@1.
fn with_block(pack: Pack) -> (World, Made) {
    let mut world = World::alone(pack, 0);
    let made = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
    world.show(0, &made);
    assert!(world.voted(0, &made), "{pack:?}: the subject votes for a good block");
    (world, made)
}

/// TS5, D8: votes.
#[test]
fn one_member_that_votes_many_times_completes_no_quorum_and_a_second_one_does() {
    for pack in CHAINED {
        let (mut world, b) = with_block(pack);
        for _ in 0..5 {
            let vote = world.vote(2, Kind::Generic, &b);
            world.say(2, 0, vote);
        }
        assert_eq!(world.seat(0).seen().high, View(0), "{pack:?}: two of four are no quorum");
        let vote = world.vote(3, Kind::Generic, &b);
        world.say(3, 0, vote);
        assert_eq!((world.seat(0).seen().high, world.seat(0).seen().view), (View(1), View(2)), "{pack:?}");
    }
}

/// TS5: the three kinds of votes of the basic pack, at its collector.
#[test]
fn repeated_votes_complete_no_phase_of_the_basic_pack() {
    let mut world = World::alone(Pack::Basic, 1);
    world.submit(1, "item");
    let proposed = world.sent(1, |message| matches!(message, Message::Propose { .. }));
    let Some(Message::Propose { header, .. }) = proposed.first().cloned() else {
        unreachable!("the leader of view 1 proposes")
    };
    let body = synod_hotstuff::Body::pack(vec![crate::world::item("item")]);
    let made = Made { header, body };
    for kind in [Kind::Prepare, Kind::Precommit, Kind::Commit] {
        for _ in 0..5 {
            let vote = world.vote(2, kind, &made);
            world.say(2, 1, vote);
        }
        let formed =
            |world: &World| !world.sent(1, |m| matches!(m, Message::Phase(qc) if qc.kind == kind)).is_empty();
        assert!(!formed(&world), "{kind:?}: own vote and one other are no quorum");
        let vote = world.vote(3, kind, &made);
        world.say(3, 1, vote);
        assert!(formed(&world), "{kind:?}");
    }
    assert_eq!(world.seat(1).texts(), ["item"]);
}

/// TS5: order votes.
#[test]
fn one_member_that_orders_many_times_commits_nothing_and_a_second_one_does() {
    let (mut world, b) = with_block(Pack::Chain2Order);
    world.certify(0, &b);
    assert_eq!(world.orders(0).len(), 1, "the subject orders the certified block");
    for _ in 0..5 {
        let order = world.order(2, &b);
        world.say(2, 0, order);
    }
    assert!(world.seat(0).texts().is_empty());
    let order = world.order(3, &b);
    world.say(3, 0, order);
    assert_eq!(world.seat(0).texts(), ["b"]);
}

/// TS5: complaints, to join and to form a TC, also with rising certificates.
#[test]
fn one_member_that_complains_many_times_is_not_joined_and_completes_no_tc() {
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::alone(pack, 0);
        let genesis = world.genesis_qc();
        for _ in 0..5 {
            let complaint = world.complain(2, 1, &genesis);
            world.say(2, 0, complaint);
        }
        assert!(world.complaints(0).is_empty(), "{pack:?}: one member is not joined");
        let complaint = world.complain(3, 1, &genesis);
        world.say(3, 0, complaint);
        assert_eq!(world.complaints(0).len(), 1, "{pack:?}: two are, and with the own one form a TC");
        assert_eq!(world.seat(0).seen().view, View(2), "{pack:?}");
    }
}

/// TS5: with seven members the own complaint and a repeated one are far from a quorum.
#[test]
fn complaints_count_members_and_not_messages() {
    let setup = Setup { n: 7, ..Setup::of(Pack::Chain2Order, &[0]) };
    let mut world = World::new(setup);
    let genesis = world.genesis_qc();
    world.submit(0, "work");
    assert!(world.expire(0));
    for id in [2, 2, 2, 3, 3, 3, 4, 4, 4] {
        let complaint = world.complain(id, 1, &genesis);
        world.say(id, 0, complaint);
    }
    assert_eq!(world.seat(0).seen().view, View(1), "four of seven");
    let complaint = world.complain(5, 1, &genesis);
    world.say(5, 0, complaint);
    assert_eq!(world.seat(0).seen().view, View(2), "five of seven");
}

/// TS5: checkpoints.
#[test]
pub(crate) fn one_member_that_attests_many_times_makes_no_checkpoint_stable() {
    fn every_position(parameters: &mut Parameters) {
        one_view(parameters);
        parameters.checkpoint_every = 1;
    }
    let mut world = World::new(Setup { tweak: every_position, ..Setup::of(Pack::Chain2Order, &[0]) });
    let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
    world.show(0, &b);
    let c = world.block(2, &b, world.qc(&b), &[]);
    world.show(0, &c);
    world.certify(0, &c);
    assert_eq!(world.seat(0).texts(), ["b"]);
    let position = Position(1);
    let state = Attested { position, view: View(1), digest: b.digest(), index: 1, root: root_at(position) };
    let stable =
        |world: &World| world.seat(0).outputs.iter().any(|output| matches!(output, Delivered::Stable(_)));
    for _ in 0..5 {
        let attest = world.attest(2, state);
        world.say(2, 0, attest);
    }
    assert!(!stable(&world), "the own attestation and one other are no quorum");
    let attest = world.attest(3, state);
    world.say(3, 0, attest);
    assert!(stable(&world));
}

/// TS5: answers to a read.
#[test]
fn one_member_that_answers_a_read_many_times_is_not_believed() {
    let weights = World::alone(Pack::Chain2Order, 0).roster.weights().clone();
    let trust = Trust::Members(weights);
    let mut heard = Matching::default();
    for (id, times) in [(1, 1), (2, 5)] {
        for _ in 0..times {
            heard.hear(NodeId(id), Say::Result(7_u8), Some(Bytes::from_static(b"value")));
        }
    }
    assert_eq!(heard.verdict(|members| trust.reads(members)), Verdict::Open, "two of four");
    heard.hear(NodeId(3), Say::Result(7), None);
    let accepted = Verdict::Accepted(7, Bytes::from_static(b"value"));
    assert_eq!(heard.verdict(|members| trust.reads(members)), accepted);
}

/// TS5: repeated, unknown and disordered members in a received TC.
#[test]
fn a_tc_with_a_repeated_an_unknown_or_a_disordered_member_is_refused_and_its_sender_blamed() {
    for members in [vec![1, 1, 2], vec![1, 2, 2], vec![1, 2], vec![2, 1, 3], vec![1, 2, 9]] {
        let mut world = World::alone(Pack::Chain2Order, 0);
        let complaints: Vec<_> = members
            .iter()
            .map(|id| synod_hotstuff::Complaint {
                member: u8::try_from(*id).expect("small"),
                ..world.complaint(if *id == 9 { 3 } else { *id }, 1, 0)
            })
            .collect();
        let complaints = List::try_from(complaints).expect("few");
        let tc = Tc { epoch: Epoch(0), view: View(1), complaints, high: world.genesis_qc() };
        let message = world.advance_tc(&tc);
        world.say(3, 0, message);
        assert_eq!(world.seat(0).seen().view, View(1), "{members:?}");
        assert!(world.seat(0).blames(3, Fault::BadTc), "{members:?}");
    }
}

/// TS5: too few and unknown members in a received QC; a repeated one cannot even be written down.
#[test]
fn a_qc_with_too_few_or_unknown_members_is_refused_and_its_sender_blamed() {
    for pack in CHAINED {
        for members in [vec![1, 2], vec![0], vec![], vec![1, 2, 9]] {
            let (mut world, b) = with_block(pack);
            let statement = Statement::vote(Kind::Generic, View(1), b.digest());
            let votes = members.iter().map(|id| {
                let signer = if *id == 9 { 3 } else { *id };
                (NodeId(*id), world.sign(signer, statement.clone()))
            });
            let qc = Qc::assemble(Epoch(0), (Kind::Generic, View(1), b.digest()), votes);
            let message = world.advance(&qc);
            world.say(3, 0, message);
            assert_eq!(world.seat(0).seen().high, View(0), "{pack:?} {members:?}");
            assert!(world.seat(0).blames(3, Fault::BadQc), "{pack:?} {members:?}");
        }
    }
}

/// TS5, section 6: a forged vote is found by its signature, its slot is closed, and the others form the certificate.
#[test]
fn a_forged_vote_is_blamed_and_the_certificate_forms_from_the_others() {
    for pack in CHAINED {
        let (mut world, b) = with_block(pack);
        let (view, digest) = (View(1), b.digest());
        let forged = Message::Vote { kind: Kind::Generic, view, digest, signature: Signature([7; 64]) };
        world.say(2, 0, forged.clone());
        let vote = world.vote(3, Kind::Generic, &b);
        world.say(3, 0, vote);
        assert!(world.seat(0).blames(2, Fault::ForgedVote), "{pack:?}");
        world.say(2, 0, forged);
        assert_eq!(world.seat(0).seen().high, View(0), "{pack:?}: the slot of the forger stays closed");
        let vote = world.vote(1, Kind::Generic, &b);
        world.say(1, 0, vote);
        assert_eq!(world.seat(0).seen().high, View(1), "{pack:?}");
    }
}

/// TS6: a certificate signed for one view and labelled with another, of a block that is here and of one that is not.
#[test]
fn a_relabelled_certificate_raises_nothing_and_its_sender_is_blamed() {
    for pack in CHAINED {
        for view in [2, 5, 1_000_000_000] {
            let (mut world, b) = with_block(pack);
            let unknown = world.block(1, &world.genesis(), world.genesis_qc(), &["elsewhere"]);
            for (made, fault) in [(&b, Fault::WrongView), (&unknown, Fault::BadQc)] {
                let mut qc = world.qc(made);
                qc.view = View(view);
                let message = world.advance(&qc);
                world.say(3, 0, message);
                assert!(world.seat(0).blames(3, fault), "{pack:?} view {view}: {:?}", world.seat(0).blamed);
            }
            assert_eq!((world.seat(0).seen().high, world.seat(0).seen().view), (View(0), View(1)));
        }
    }
}

/// TS6: even signed by a quorum, a certificate of another view than its block's is not used.
#[test]
fn a_certificate_of_another_view_than_its_block_is_refused_whoever_signed_it() {
    for pack in CHAINED {
        let (mut world, b) = with_block(pack);
        let qc = world.qc_as(Kind::Generic, 4, b.digest(), &[1, 2, 3]);
        let message = world.advance(&qc);
        world.say(3, 0, message);
        assert!(world.seat(0).blames(3, Fault::WrongView), "{pack:?}");
        assert_eq!(world.seat(0).seen().high, View(0), "{pack:?}");
    }
}

/// TS6: the genesis certificate is one constant.
#[test]
fn no_other_certificate_passes_as_that_of_the_genesis() {
    for pack in CHAINED {
        let genesis = World::alone(pack, 0).genesis_qc();
        let (digest, kind) = (genesis.digest, genesis.kind);
        let mut elsewhere = genesis.clone();
        elsewhere.digest = Hash([5; 32]);
        let mut later = genesis.clone();
        later.view = View(3);
        for (name, qc, fault) in
            [("digest", elsewhere, Fault::FalseGenesis), ("view", later, Fault::WrongView)]
        {
            let mut world = World::alone(pack, 0);
            let message = world.advance(&qc);
            world.say(3, 0, message);
            let blamed = world.seat(0).blames(3, fault) || world.seat(0).blames(3, Fault::BadQc);
            assert!(blamed, "{pack:?} {name}: {:?}", world.seat(0).blamed);
            assert_eq!((world.seat(0).seen().high, world.seat(0).seen().view), (View(0), View(1)));
        }
        let mut world = World::alone(pack, 0);
        let signed = world.qc_as(kind, 0, digest, &[1, 2, 3]);
        world.say(3, 0, Message::Advance(Proof::Qc(signed)));
        assert!(world.seat(0).blames(3, Fault::FalseGenesis), "{pack:?}: with signatures");
    }
}

/// A world whose subject 0 voted for b@1 and verified the votes of 1 and 2 beside its own, and a proposal of view 2 whose
/// justify says that `voters` voted, the last of them with `forged` if that is given.
fn after_votes(pack: Pack, voters: &[u32], forged: Option<Signature>) -> (World, Made) {
    let (mut world, b) = with_block(pack);
    for id in [1, 2] {
        let vote = world.vote(id, Kind::Generic, &b);
        world.say(id, 0, vote);
    }
    assert_eq!(world.seat(0).seen().high, View(1), "{pack:?}: the votes were verified");
    let good = world.qc_as(Kind::Generic, 1, b.digest(), voters);
    let last = voters.last().copied();
    let votes = good.votes.signed().map(|(id, own)| match forged {
        Some(signature) if Some(id.0) == last => (id, signature),
        _ => (id, own),
    });
    let justify = Qc::assemble(Epoch(0), (Kind::Generic, View(1), b.digest()), votes.collect::<Vec<_>>());
    let made = world.block(2, &b, justify, &["c"]);
    (world, made)
}

/// Votes verified before are not checked again inside a justify; any other signature in it is.
#[test]
fn a_forged_vote_among_votes_that_are_known_is_refused() {
    for pack in CHAINED {
        for voters in [[0, 1, 3], [0, 1, 2]] {
            for signature in [Signature([9; 64]), Signature([0; 64])] {
                let (mut world, made) = after_votes(pack, &voters, Some(signature));
                world.show(0, &made);
                let liar = u32::from(made.header.proposer);
                assert!(!world.voted(0, &made), "{pack:?} {voters:?}");
                assert!(world.seat(0).blames(liar, Fault::BadQc), "{pack:?} {voters:?}");
            }
        }
    }
}

/// The own vote and those of a certificate formed here cost one check each; the same votes in a justify cost none.
#[test]
fn a_vote_is_verified_once() {
    for pack in CHAINED {
        let of = |voters: &[u32]| {
            let (mut world, made) = after_votes(pack, voters, None);
            let before = world.seat(0).counts.verifications;
            world.show(0, &made);
            assert!(world.voted(0, &made), "{pack:?} {voters:?}");
            world.seat(0).counts.verifications - before
        };
        // One check is of the proposal's own signature.
        assert_eq!(of(&[0, 1, 2]), 1, "{pack:?}: the very certificate formed here");
        assert_eq!(of(&[0, 1, 3]), 2, "{pack:?}: the vote of 3 is new");
    }
}
