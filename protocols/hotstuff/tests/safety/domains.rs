//! What is signed in one domain is worth nothing in another (TS7).

use synod_crypto::{Claim, Hash, Scope};
use synod_hotstuff::{Attested, Fault, Kind, Message, Pack, Statement, View};
use synod_machine::broadcast::Position;
use synod_quorum::{Epoch, NodeId};

use crate::world::World;

/// One statement of each kind, all about the same view and digest.
fn all_kinds(view: u64, digest: Hash) -> Vec<Statement> {
    let view = View(view);
    let state = Attested { position: Position(view.0), view, digest, index: 1, root: digest };
    vec![
        Statement::Proposal { view, digest },
        Statement::VotePrepare { view, digest },
        Statement::VotePrecommit { view, digest },
        Statement::VoteCommit { view, digest },
        Statement::Vote { view, digest },
        Statement::Order { view, digest },
        Statement::Complain { view, high: view },
        Statement::Checkpoint(state),
        Statement::EpochReady { epoch: Epoch(1), members: digest, height: view.0, digest, root: digest },
        Statement::Members { members: digest },
    ]
}

fn holds(world: &World, scope: Scope, statement: Statement, signature: synod_crypto::Signature) -> bool {
    let key = world.roster.member(NodeId(2)).expect("a member").key;
    let claim = Claim { statement, scope, signer: NodeId(2), key, signature };
    claim.verify(&world.seat(2).keys).is_ok()
}

/// TS7: every ordered pair of kinds.
#[test]
fn a_signature_of_one_kind_is_worth_nothing_for_any_other() {
    let world = World::alone(Pack::Chain2Order, 0);
    let kinds = all_kinds(3, Hash([4; 32]));
    let mut crossed = 0;
    for (at, said) in kinds.iter().enumerate() {
        let signature = world.sign(2, said.clone());
        for (other, claimed) in kinds.iter().enumerate() {
            let good = holds(&world, world.scope(), claimed.clone(), signature);
            assert_eq!(good, at == other, "{said:?} shown as {claimed:?}");
            crossed += u32::from(at != other);
        }
    }
    assert_eq!(crossed, 90);
}

/// TS7: cluster, epoch, view, digest and signer stand inside the signed bytes.
#[test]
fn a_signature_holds_in_its_cluster_its_epoch_and_its_view_alone() {
    let world = World::alone(Pack::Chain2Order, 0);
    let here = world.scope();
    let there = Scope { cluster: Hash([1; 32]), ..here };
    let later = Scope { epoch: Epoch(1), ..here };
    for (said, moved) in all_kinds(3, Hash([4; 32])).into_iter().zip(all_kinds(4, Hash([4; 32]))) {
        let signature = world.sign(2, said.clone());
        assert!(holds(&world, here, said.clone(), signature));
        assert!(!holds(&world, there, said.clone(), signature), "{said:?} in another cluster");
        assert!(!holds(&world, later, said.clone(), signature), "{said:?} in another epoch");
        let same = said == moved;
        assert!(same || !holds(&world, here, moved, signature), "{said:?} in another view");
        let foreign = world.sign(3, said.clone());
        assert!(!holds(&world, here, said.clone(), foreign), "{said:?} of another member");
    }
}

/// TS7 at the replica: a vote made of anything else than a vote of this cluster, epoch and kind certifies nothing.
#[test]
fn a_vote_signed_in_another_domain_certifies_nothing_and_is_blamed() {
    let probe = World::alone(Pack::Chain2, 0);
    let here = probe.scope();
    let b = probe.block(1, &probe.genesis(), probe.genesis_qc(), &["b"]);
    let (view, digest) = (View(1), b.digest());
    let vote = Statement::Vote { view, digest };
    let mut disguised: Vec<(String, Scope, Statement)> = all_kinds(1, digest)
        .into_iter()
        .filter(|statement| *statement != vote)
        .map(|statement| (format!("{statement:?}"), here, statement))
        .collect();
    disguised.push(("another cluster".into(), Scope { cluster: Hash([1; 32]), ..here }, vote.clone()));
    disguised.push(("another epoch".into(), Scope { epoch: Epoch(1), ..here }, vote.clone()));
    for (name, scope, statement) in disguised {
        let mut world = World::alone(Pack::Chain2, 0);
        world.show(0, &b);
        let signature = world.sign_in(scope, 2, statement);
        world.say(2, 0, Message::Vote { kind: Kind::Generic, view, digest, signature });
        let good = world.vote(3, Kind::Generic, &b);
        world.say(3, 0, good);
        assert_eq!(world.seat(0).seen().high, View(0), "{name}");
        assert!(world.seat(0).blames(2, Fault::ForgedVote), "{name}");
    }
}

/// TS7 at the replica: a vote, an order or a statement of another epoch or cluster gives up no term.
#[test]
fn a_complaint_signed_in_another_domain_gives_up_nothing_and_is_blamed() {
    let probe = World::alone(Pack::Chain2Order, 0);
    let here = probe.scope();
    let complain = Statement::Complain { view: View(1), high: View(0) };
    let mut disguised: Vec<(String, Scope, Statement)> = all_kinds(1, Hash::ZERO)
        .into_iter()
        .map(|statement| (format!("{statement:?}"), here, statement))
        .collect();
    disguised.push(("another cluster".into(), Scope { cluster: Hash([1; 32]), ..here }, complain.clone()));
    disguised.push(("another epoch".into(), Scope { epoch: Epoch(1), ..here }, complain));
    for (name, scope, statement) in disguised {
        let mut world = World::alone(Pack::Chain2Order, 0);
        let high = world.genesis_qc();
        let signature = world.sign_in(scope, 2, statement);
        world.say(2, 0, Message::Complain { view: View(1), high: high.clone(), signature });
        let good = world.complain(3, 1, &high);
        world.say(3, 0, good);
        assert_eq!(world.seat(0).seen().view, View(1), "{name}");
        assert!(world.seat(0).blames(2, Fault::ForgedComplaint), "{name}");
    }
}

/// TS7 at the replica: a certificate of order votes is none of votes, and the reverse.
#[test]
fn a_certificate_of_one_kind_never_passes_as_another() {
    for (pack, wrong) in [
        (Pack::Chain2Order, vec![Kind::Order, Kind::Prepare, Kind::Precommit, Kind::Commit]),
        (Pack::Chain3, vec![Kind::Order, Kind::Prepare, Kind::Precommit, Kind::Commit]),
        (Pack::Basic, vec![Kind::Generic, Kind::Order]),
    ] {
        for kind in wrong {
            let mut world = World::alone(pack, 0);
            let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
            world.show(0, &b);
            let qc = world.qc_as(kind, 1, b.digest(), &[1, 2, 3]);
            let honest = world.advance(&qc);
            world.say(3, 0, honest);
            assert!(world.seat(0).blames(3, Fault::WrongKind), "{pack:?} {kind:?}");
            let mut renamed = qc;
            renamed.kind = pack.kind();
            let message = world.advance(&renamed);
            world.say(2, 0, message);
            assert!(world.seat(0).blames(2, Fault::BadQc), "{pack:?} {kind:?}");
            assert_eq!(world.seat(0).seen().high, View(0), "{pack:?} {kind:?}");
        }
    }
}

/// TS7, TS18: nobody leaves the epoch by a message of another one.
#[test]
fn messages_of_another_epoch_are_refused_and_blamed() {
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::alone(pack, 0);
        let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
        let mut qc = world.qc(&b);
        qc.epoch = Epoch(1);
        let message = world.advance(&qc);
        world.say(2, 0, message);
        assert!(world.seat(0).blames(2, Fault::WrongEpoch), "{pack:?}: a certificate");
        let mut tc =
            world.tc(1, &[(1, &world.genesis_qc()), (2, &world.genesis_qc()), (3, &world.genesis_qc())]);
        tc.epoch = Epoch(1);
        let message = world.advance_tc(&tc);
        world.say(3, 0, message);
        assert!(world.seat(0).blames(3, Fault::WrongEpoch), "{pack:?}: a TC");
        let mut header = b;
        header.header.epoch = Epoch(1);
        world.show(0, &header);
        assert!(world.seat(0).blames(1, Fault::WrongEpoch), "{pack:?}: a header");
        assert_eq!((world.seat(0).seen().view, world.votes(0).len()), (View(1), 0), "{pack:?}");
    }
}
