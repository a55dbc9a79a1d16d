//! A proposal carries its evidence or is a fault; a complaint's certificate is the one it signs for (TS8, TS9).

use synod_crypto::{Hash, Signature};
use synod_hotstuff::{Fault, Message, Pack, Qc, Statement, Tc, View};
use synod_quorum::Epoch;
use synod_wire::List;

use crate::world::{Made, World};

const PACKS: [Pack; 4] = [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

/// A world whose subject 0 took part in view 1 and entered view 2 by its certificate, and the block of view 1. In the
/// basic pack the subject learns the certificate without leaving the view.
fn after_view_one(pack: Pack) -> (World, Made) {
    let mut world = World::alone(pack, 0);
    let made = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
    world.show(0, &made);
    let qc = match pack {
        Pack::Basic => Message::Phase(world.qc(&made)),
        _ => world.advance(&world.qc(&made)),
    };
    world.say(1, 0, qc);
    assert_eq!(world.seat(0).seen().high, View(1), "{pack:?}");
    (world, made)
}

/// What a liar does to a header that its puppet would sign, and the fault that names it.
type Lie = (&'static str, fn(&World, &Made, &mut Made), Fault);

fn complaints_of(tc: &Tc) -> Vec<synod_hotstuff::Complaint> {
    tc.complaints.iter().cloned().collect()
}

fn with_tc(made: &mut Made, change: impl FnOnce(&mut Tc)) {
    let mut tc = made.header.tc.clone().expect("the block came after a TC");
    change(&mut tc);
    made.header.tc = Some(tc);
}

/// Lies about the TC of a proposal of view 3 that stands on a@1 and a TC(2).
fn lies_about_the_tc() -> Vec<Lie> {
    vec![
        ("no TC", |_, _, made| made.header.tc = None, Fault::MissingTc),
        (
            "a TC of another view",
            |world, a, made| {
                let qc = world.qc(a);
                made.header.tc = Some(world.tc(1, &[(1, &qc), (2, &qc), (3, &qc)]));
            },
            Fault::WrongTc,
        ),
        (
            "a TC of complaints that nobody signed",
            |_, _, made| {
                with_tc(made, |tc| {
                    let mut complaints = complaints_of(tc);
                    complaints[0].signature = Signature([1; 64]);
                    tc.complaints = List::try_from(complaints).expect("few");
                });
            },
            Fault::BadTc,
        ),
        (
            "a TC of two complaints",
            |_, _, made| {
                with_tc(made, |tc| {
                    tc.complaints = List::try_from(complaints_of(tc)[..2].to_vec()).expect("few");
                });
            },
            Fault::BadTc,
        ),
        (
            "a TC without any complaint",
            |_, _, made| with_tc(made, |tc| tc.complaints = List::default()),
            Fault::BadTc,
        ),
        (
            "a TC without its QC",
            |world, _, made| with_tc(made, |tc| tc.high = world.genesis_qc()),
            Fault::BadTc,
        ),
        (
            "a TC with a forged QC",
            |_, a, made| {
                with_tc(made, |tc| {
                    let votes = [1, 2, 3].map(|id| (synod_quorum::NodeId(id), Signature([3; 64])));
                    tc.high = Qc::assemble(Epoch(0), (tc.high.kind, View(1), a.digest()), votes);
                });
            },
            Fault::BadTc,
        ),
    ]
}

/// Lies about what it stands on, and about itself.
fn lies_about_the_parent() -> Vec<Lie> {
    vec![
        (
            "an empty justify",
            |_, a, made| {
                let mut empty = Qc::empty(Epoch(0), made.header.justify.kind, a.digest());
                empty.view = View(1);
                made.header.justify = empty;
            },
            Fault::BadQc,
        ),
        (
            "a justify of too few",
            |world, a, made| {
                made.header.justify = world.qc_as(world.kind(), 1, a.digest(), &[2, 3]);
            },
            Fault::BadQc,
        ),
        (
            "a justify of an invented genesis",
            |world, _, made| {
                made.header.justify = Qc::empty(Epoch(0), world.kind(), Hash([8; 32]));
                made.header.parent = Hash([8; 32]);
            },
            Fault::FalseGenesis,
        ),
        (
            "another parent than the justify's",
            |_, _, made| made.header.parent = Hash([8; 32]),
            Fault::NotExtending,
        ),
        (
            "a justify of its own view",
            |world, a, made| {
                made.header.justify = world.qc_as(world.kind(), 3, Hash([8; 32]), &[1, 2, 3]);
                made.header.parent = made.header.justify.digest;
                assert!(a.view() < 3);
            },
            Fault::JustifyAhead,
        ),
        ("a height too high", |_, _, made| made.header.height += 1, Fault::WrongHeight),
        ("more items than a block may have", |_, _, made| made.header.count = 1 << 20, Fault::Oversized),
    ]
}

/// TS8: each lie costs the vote and is blamed by its name; the honest proposal beside it is voted for.
#[test]
fn a_proposal_without_its_evidence_gets_no_vote_and_its_sender_is_blamed() {
    for pack in PACKS {
        for (name, lie, fault) in lies_about_the_tc().into_iter().chain(lies_about_the_parent()) {
            let (mut world, a) = after_view_one(pack);
            let a_qc = world.qc(&a);
            let mut honest = world.block_after_tc(3, &a, a_qc, &["x"]);
            honest.header.time = a.header.time;
            let mut lying = honest.clone();
            lie(&world, &a, &mut lying);
            let view = world.seat(0).seen().view;
            world.show(0, &lying);
            assert!(world.seat(0).blames(3, fault), "{pack:?}, {name}: {:?}", world.seat(0).blamed);
            assert!(!world.voted(0, &lying), "{pack:?}, {name}");
            if lying.header.tc != honest.header.tc {
                assert_eq!(world.seat(0).seen().view, view, "{pack:?}, {name}: the view stays");
            }
            let (mut world, _) = after_view_one(pack);
            world.show(0, &honest);
            assert!(world.voted(0, &honest), "{pack:?}: without the lie it votes");
        }
    }
}

/// TS8: a TC where none is needed is a fault too in the chained packs.
#[test]
fn a_superfluous_tc_is_a_fault_in_the_chained_packs() {
    for pack in [Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let (mut world, a) = after_view_one(pack);
        let a_qc = world.qc(&a);
        let mut made = world.block(2, &a, a_qc.clone(), &["x"]);
        made.header.tc = Some(world.tc(1, &[(1, &a_qc), (2, &a_qc), (3, &a_qc)]));
        world.show(0, &made);
        assert!(world.seat(0).blames(2, Fault::SuperfluousTc), "{pack:?}");
        assert!(!world.voted(0, &made), "{pack:?}");
    }
}

/// TS8, D6, section 6: the certificates of a proposal that gets no vote are used all the same.
#[test]
fn a_refused_proposal_still_teaches_its_certificates() {
    for pack in [Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::alone(pack, 0);
        let a = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
        world.show(0, &a);
        let mut made = world.block(2, &a, world.qc(&a), &["x"]);
        made.header.height += 7;
        world.show(0, &made);
        assert!(world.seat(0).blames(2, Fault::WrongHeight), "{pack:?}");
        assert_eq!((world.seat(0).seen().high, world.seat(0).seen().view), (View(1), View(2)), "{pack:?}");
    }
}

/// TS8, D5: only the leader that the evidence names is voted for, in every view.
#[test]
fn each_view_has_the_one_leader_its_evidence_names() {
    for pack in PACKS {
        for view in 2..=9_u64 {
            for proposer in 0..4_u8 {
                let subject = (u32::from(proposer) + 1) % 4;
                let mut world = World::alone(pack, subject);
                let mut made = world.block_after_tc(view, &world.genesis(), world.genesis_qc(), &["x"]);
                made.header.proposer = proposer;
                world.show(subject, &made);
                let leads = u64::from(proposer) == view % 4;
                assert_eq!(world.voted(subject, &made), leads, "{pack:?} view {view} by {proposer}");
                assert_eq!(world.seat(subject).blames(u32::from(proposer), Fault::NotLeader), !leads);
            }
        }
    }
}

/// TS8: a header is its proposer's own word.
#[test]
fn a_header_in_anothers_name_or_with_a_forged_signature_gets_no_vote() {
    for pack in PACKS {
        let mut world = World::alone(pack, 0);
        let made = world.block(1, &world.genesis(), world.genesis_qc(), &["a"]);
        let (body, header) = (world.body(&made), world.propose(&made));
        world.say(1, 0, body);
        world.say(2, 0, header.clone());
        assert!(world.seat(0).blames(2, Fault::NotProposer), "{pack:?}");
        let Message::Propose { header, .. } = header else { unreachable!("a proposal") };
        world.say(1, 0, Message::Propose { header, signature: Signature([9; 64]) });
        assert!(world.seat(0).blames(1, Fault::ForgedProposal), "{pack:?}");
        assert!(world.votes(0).is_empty(), "{pack:?}");
    }
}

/// TS9: a complaint whose signature names a higher certificate than it shows enters no TC.
#[test]
fn a_complaint_that_signs_for_another_certificate_than_it_shows_enters_no_tc() {
    for pack in PACKS {
        for claimed in [1, 5, 1_000] {
            let mut world = World::alone(pack, 0);
            let genesis = world.genesis_qc();
            let statement = Statement::Complain { view: View(1), high: View(claimed) };
            let signature = world.sign(2, statement);
            world.say(2, 0, Message::Complain { view: View(1), high: genesis.clone(), signature });
            let good = world.complain(3, 1, &genesis);
            world.say(3, 0, good);
            assert!(world.seat(0).blames(2, Fault::ForgedComplaint), "{pack:?} {claimed}");
            assert_eq!(
                world.seat(0).seen().view,
                View(1),
                "{pack:?}: own and one good complaint are no quorum"
            );
            let good = world.complain(1, 1, &genesis);
            world.say(1, 0, good);
            assert_eq!(world.seat(0).seen().view, View(2), "{pack:?}: a third good one is");
        }
    }
}

/// TS9: a complaint with a certificate that nobody signed is not counted, and not joined.
#[test]
fn a_complaint_with_a_forged_certificate_counts_for_nothing() {
    for pack in PACKS {
        let mut world = World::alone(pack, 0);
        let votes = [1, 2, 3].map(|id| (synod_quorum::NodeId(id), Signature([3; 64])));
        let forged = Qc::assemble(Epoch(0), (world.kind(), View(1), Hash([6; 32])), votes);
        for liar in [2, 3] {
            let complaint = world.complain(liar, 1, &forged);
            world.say(liar, 0, complaint);
            assert!(world.seat(0).blames(liar, Fault::BadQc), "{pack:?}");
        }
        assert!(world.complaints(0).is_empty() && world.seat(0).seen().view == View(1), "{pack:?}");
    }
}

/// TS9: a TC that lists a view higher than the QC it carries is refused, alone and inside a proposal.
#[test]
fn a_tc_that_lists_a_certificate_nobody_shows_is_refused() {
    for pack in PACKS {
        let mut world = World::alone(pack, 0);
        let genesis = world.genesis_qc();
        let complaints = [world.complaint(1, 1, 0), world.complaint(2, 1, 0), world.complaint(3, 1, 1)];
        let complaints = List::try_from(complaints.to_vec()).expect("few");
        let tc = Tc { epoch: Epoch(0), view: View(1), complaints, high: genesis.clone() };
        let message = world.advance_tc(&tc);
        world.say(3, 0, message);
        assert!(world.seat(0).blames(3, Fault::BadTc), "{pack:?}");
        let mut made = world.block(2, &world.genesis(), genesis, &["x"]);
        made.header.tc = Some(tc);
        world.show(0, &made);
        assert!(world.seat(0).blames(2, Fault::BadTc), "{pack:?}");
        assert_eq!((world.seat(0).seen().view, world.votes(0).len()), (View(1), 0), "{pack:?}");
    }
}

/// TS9, section 6: a complaint inside a term is no complaint, and one above its own certificate's term is refused.
#[test]
fn a_complaint_that_ends_no_term_or_knows_more_than_it_gives_up_is_blamed() {
    let setup = crate::world::Setup {
        tweak: |parameters| {
            crate::world::one_view(parameters);
            parameters.term_views = 4;
        },
        ..crate::world::Setup::of(Pack::Chain2Order, &[3])
    };
    let mut world = World::new(setup);
    let genesis = world.genesis_qc();
    for view in [1, 2, 4, 5] {
        let inside = world.complain(1, view, &genesis);
        world.say(1, 3, inside);
    }
    assert_eq!(world.seat(3).blamed.iter().filter(|(_, f)| *f == Fault::NotTermEnd.name()).count(), 4);
    let high = world.qc_as(world.kind(), 4, Hash([6; 32]), &[0, 1, 2]);
    let ahead = world.complain(2, 3, &high);
    world.say(2, 3, ahead);
    assert!(world.seat(3).blames(2, Fault::ComplaintAhead));
    assert!(world.complaints(3).is_empty() && world.seat(3).seen().view == View(1));
}
