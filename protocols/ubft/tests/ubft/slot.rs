//! What is said about one slot, and what follows from it.

use synod_crypto::{Claim, Hash, Verified};
use synod_quorum::{NodeId, NodeSet};
use synod_ubft::Statement;
use synod_ubft::batch::{Slot, View};
use synod_ubft::slot::{Ballot, PROMISES_MAX, Stand};

use crate::world::{config, keys, signature_by};

const LEADER: NodeId = NodeId(0);
const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);
const V0: View = View(0);
const V3: View = View(3);

fn all() -> NodeSet {
    NodeSet::first(3)
}

fn digest(byte: u8) -> Hash {
    Hash([byte; 32])
}

fn share(signer: NodeId, view: View, slot: u64, of: Hash) -> Verified<Claim<Statement>> {
    let signer_id = signer.member().expect("a replica");
    let statement = Statement::Certify { signer: signer_id, view, slot: Slot(slot), digest: of };
    let claim = config(ME, 3).claim(statement, signature_by(signer, statement)).expect("a replica");
    claim.verify(&keys(ME)).expect("it signed")
}

fn proposed(view: View) -> Ballot {
    let mut ballot = Ballot::new(Slot(7));
    ballot.propose(view, digest(1));
    ballot
}

#[test]
fn all_must_promise_twice_and_the_leader_does_so_once_by_proposing() {
    let mut ballot = proposed(V0);
    assert_eq!(ballot.stand(V0, digest(1), false), Some(Stand::Promise));
    assert_eq!(ballot.stand(V0, digest(1), false), None, "once");
    ballot.will_certify(ME, V0);
    assert!(!ballot.is_certain(V0, LEADER, all()));
    ballot.will_certify(OTHER, V0);
    assert!(ballot.is_certain(V0, LEADER, all()));
    assert!(ballot.promise_commit(V0) && !ballot.promise_commit(V0));
    for replica in [ME, OTHER] {
        ballot.will_commit(replica, V0);
        assert_eq!(ballot.unanimous(V0, all()), None);
    }
    ballot.will_commit(LEADER, V0);
    assert_eq!(ballot.unanimous(V0, all()), Some(digest(1)));
}

#[test]
fn promises_before_the_proposal_are_kept_and_those_of_another_view_do_not_count() {
    let mut ballot = Ballot::new(Slot(7));
    for replica in [LEADER, ME, OTHER] {
        ballot.will_certify(replica, V0);
        ballot.will_commit(replica, V0);
    }
    assert!(!ballot.is_certain(V0, LEADER, all()));
    assert_eq!(ballot.unanimous(V0, all()), None);
    ballot.propose(V0, digest(1));
    assert!(ballot.is_certain(V0, LEADER, all()));
    assert_eq!(ballot.unanimous(V0, all()), Some(digest(1)));
    // One that promises in a later view has left this one.
    ballot.will_certify(OTHER, V3);
    ballot.will_commit(OTHER, V3);
    assert!(!ballot.is_certain(V0, LEADER, all()) && ballot.unanimous(V0, all()).is_none());
    // And one that says again what it said in an older view takes nothing back.
    ballot.will_certify(OTHER, V0);
    assert!(!ballot.is_certain(V0, LEADER, all()));
    ballot.propose(V3, digest(2));
    ballot.propose(V0, digest(1));
    assert_eq!(ballot.proposed(), Some((V3, digest(2))));
    assert!(!ballot.is_certain(V3, LEADER, all()));
}

#[test]
fn a_replica_that_promised_often_signs_and_a_leader_forgets_its_oldest_promise() {
    let mut ballot = proposed(V0);
    let views = (0..PROMISES_MAX as u64).map(View);
    for view in views {
        assert_eq!(ballot.stand(view, digest(1), false), Some(Stand::Promise));
    }
    let next = View(PROMISES_MAX as u64);
    assert_eq!(ballot.stand(next, digest(1), false), Some(Stand::Signature));
    assert_eq!(ballot.promised().len(), PROMISES_MAX);
    assert_eq!(ballot.promised().first(), Some(&(V0, digest(1))));
    assert_eq!(ballot.stand(next, digest(1), true), Some(Stand::Promise));
    assert_eq!(ballot.promised().len(), PROMISES_MAX);
    assert_eq!(ballot.promised().first(), Some(&(View(1), digest(1))));
    // Whoever signed stands by it already.
    let mut signed = proposed(V3);
    assert!(
        signed.certify(V3, digest(1)) && !signed.certify(V3, digest(1)) && !signed.certify(V0, digest(1))
    );
    assert_eq!(signed.stand(V3, digest(1), false), None);
}

#[test]
fn a_certificate_has_f_plus_one_shares_of_one_proposal_and_the_own_is_among_them() {
    let mut ballot = proposed(V0);
    ballot.share(&share(OTHER, V0, 7, digest(1)), V0);
    ballot.share(&share(LEADER, V0, 7, digest(1)), V0);
    assert_eq!(ballot.certificate(ME, V0, 2), None, "not without the own one");
    ballot.share(&share(ME, V0, 8, digest(1)), V0);
    assert_eq!(ballot.certificate(ME, V0, 2), None, "of another slot");
    ballot.share(&share(ME, V0, 7, digest(1)), V0);
    let certificate = ballot.certificate(ME, V0, 2).expect("two signed");
    let signers: Vec<u8> = certificate.signed.iter().map(|(member, _)| *member).collect();
    assert_eq!(signers, [0, 1]);
    assert!(certificate.verify(&config(ME, 3), &keys(ME)).is_ok());
    assert_eq!(ballot.certificate(ME, V3, 2), None, "of another view");
    assert_eq!(ballot.certificate(ME, V0, 4), None, "too few");
    // All three make no certificate of two: it has exactly as many as it needs.
    assert!(ballot.certificate(OTHER, V0, 2).is_some_and(|certificate| certificate.signed.len() == 2));
}

#[test]
fn shares_of_another_proposal_or_an_older_view_do_not_mix() {
    let mut ballot = proposed(V3);
    ballot.share(&share(ME, V3, 7, digest(1)), V3);
    ballot.share(&share(OTHER, V3, 7, digest(2)), V3);
    ballot.share(&share(LEADER, V0, 7, digest(1)), V3);
    assert_eq!(ballot.certificate(ME, V3, 2), None);
    // The share of the view that this replica is in counts, and an older one beside it changes nothing.
    ballot.share(&share(LEADER, V3, 7, digest(1)), V3);
    ballot.share(&share(LEADER, V0, 7, digest(1)), V3);
    assert!(ballot.certificate(ME, V3, 2).is_some());
    assert!(ballot.commit(V3) && !ballot.commit(V3) && !ballot.commit(V0));
}

#[test]
fn whoever_went_on_can_still_give_the_share_that_this_replica_needs_to_leave() {
    let mut ballot = proposed(V0);
    ballot.share(&share(ME, V0, 7, digest(1)), V0);
    ballot.share(&share(OTHER, V3, 7, digest(2)), V0);
    ballot.share(&share(OTHER, V0, 7, digest(1)), V0);
    assert!(ballot.has_share(OTHER, V0) && ballot.has_share(OTHER, V3));
    assert!(ballot.certificate(ME, V0, 2).is_some());
    // Of other views the newest alone is kept.
    ballot.share(&share(OTHER, View(5), 7, digest(2)), V0);
    ballot.share(&share(OTHER, View(4), 7, digest(2)), V0);
    assert!(
        ballot.has_share(OTHER, View(5)) && !ballot.has_share(OTHER, V3) && !ballot.has_share(OTHER, View(4))
    );
}

#[test]
fn what_f_plus_one_streams_show_in_one_view_is_decided_once() {
    let mut ballot = Ballot::new(Slot(7));
    assert_eq!(ballot.committed(OTHER, V0, digest(1), 2), None);
    assert_eq!(ballot.committed(OTHER, V0, digest(1), 2), None, "a replica counts once");
    assert_eq!(ballot.committed(LEADER, V3, digest(1), 2), None, "one view");
    assert_eq!(ballot.committed(ME, V3, digest(2), 2), None, "one batch");
    assert_eq!(ballot.committed(OTHER, V3, digest(1), 2), Some(digest(1)));
    assert_eq!(ballot.committed(LEADER, V0, digest(1), 2), None, "an older one comes too late");
    assert_eq!(ballot.decide(digest(1)), Ok(true));
    assert_eq!(ballot.decide(digest(1)), Ok(false));
    assert_eq!(ballot.decide(digest(2)), Err(digest(1)));
    assert_eq!(ballot.decided(), Some(digest(1)));
}
