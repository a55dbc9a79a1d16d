//! Quorums against tables written by hand, and sets against their encoding.

use synod_quorum::{
    Epoch, Member, Model, NodeId, NodeSet, PublicKey, Quorums, Roster, RosterError, VoteSet, Voted, Weights,
};
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

/// (n, f, intersecting, one correct, available), Byzantine, written by hand.
const BYZANTINE: [(u32, u32, u32, u32, u32); 14] = [
    (1, 0, 1, 1, 1),
    (2, 0, 2, 1, 2),
    (3, 0, 2, 1, 3),
    (4, 1, 3, 2, 3),
    (5, 1, 4, 2, 4),
    (6, 1, 4, 2, 5),
    (7, 2, 5, 3, 5),
    (8, 2, 6, 3, 6),
    (9, 2, 6, 3, 7),
    (10, 3, 7, 4, 7),
    (13, 4, 9, 5, 9),
    (16, 5, 11, 6, 11),
    (31, 10, 21, 11, 21),
    (100, 33, 67, 34, 67),
];

#[test]
fn byzantine_thresholds_equal_the_table() {
    for (n, f, intersecting, one_correct, available) in BYZANTINE {
        let q = Quorums::new(Model::Byzantine, n).expect("n > 0");
        assert_eq!(
            (q.faulty(), q.intersecting(), q.one_correct(), q.available()),
            (f, intersecting, one_correct, available),
            "n = {n}"
        );
        assert_eq!(q.majority_correct(), f + one_correct, "more correct than faulty ones, n = {n}");
    }
}

#[test]
fn two_intersecting_sets_share_a_correct_member_for_every_n() {
    for n in 1..=128 {
        for model in [Model::Byzantine, Model::Majority, Model::Crash] {
            let q = Quorums::new(model, n).expect("n > 0");
            // |A| + |B| - n members are in both; one of them is correct if that exceeds f.
            assert!(2 * q.intersecting() - n > q.faulty(), "n = {n}");
            assert!(q.one_correct() > q.faulty());
            if model == Model::Byzantine {
                assert!(q.available() >= q.intersecting(), "n = {n} would block");
            }
        }
    }
}

#[test]
fn too_few_members_are_refused() {
    assert!(Quorums::new(Model::Byzantine, 0).is_err());
    assert!(Quorums::with_faults(Model::Byzantine, 3, 1).is_err());
    assert!(Quorums::with_faults(Model::Byzantine, 5, 1).is_ok());
    assert!(Quorums::with_faults(Model::Majority, 3, 1).is_ok());
    assert!(Quorums::with_faults(Model::Byzantine, u32::MAX, u32::MAX / 2).is_err());
}

#[test]
fn weights_of_equal_power_equal_the_byzantine_table() {
    for (n, f, intersecting, one_correct, available) in BYZANTINE {
        let w = Weights::equal(n);
        assert_eq!(
            (w.faulty(), w.weak(), w.intersecting(), w.quorum()),
            (u64::from(f), u64::from(one_correct), u64::from(intersecting), u64::from(available))
        );
    }
}

#[test]
fn two_quorums_of_weight_share_more_than_the_faulty_power() {
    let mut from = Drawn::new(5);
    for _ in 0..2_000 {
        let n = 1 + from.below(20);
        let w = Weights::new((0..n).map(|_| 1 + from.below(1_000)).collect()).expect("positive");
        assert!(2 * w.quorum() - w.total() > w.faulty());
        assert!(2 * w.intersecting() - w.total() > w.faulty());
        assert!(2 * (w.intersecting() - 1) - w.total() <= w.faulty(), "one less would not do");
        assert!(w.intersecting() <= w.quorum());
        assert!(w.total() - w.faulty() >= w.quorum());
    }
}

#[test]
fn weights_refuse_no_power_and_too_much() {
    assert!(Weights::new(vec![1, 0]).is_none());
    assert!(Weights::new(vec![1 << 62, 1 << 62]).is_none());
    assert!(Weights::new(vec![1 << 62, (1 << 62) - 1]).is_some());
}

#[test]
fn a_repeated_signer_never_completes_a_quorum() {
    let weights = Weights::equal(4);
    let mut votes = VoteSet::new(4);
    for _ in 0..10 {
        votes.add(NodeId(1), "v");
    }
    assert_eq!(votes.add(NodeId(1), "w"), Voted::Repeated);
    assert_eq!(votes.get(NodeId(1)), Some(&"v"));
    assert!(!votes.is_quorum(&weights));
    assert_eq!(votes.add(NodeId(4), "v"), Voted::Refused);
    assert_eq!(votes.add(NodeId(u32::MAX), "v"), Voted::Refused);
    votes.add(NodeId(0), "v");
    assert_eq!(votes.add(NodeId(3), "v"), Voted::New);
    assert!(votes.is_quorum(&weights));
}

#[test]
fn a_closed_slot_stays_closed() {
    let mut votes = VoteSet::new(4);
    votes.add(NodeId(2), 1);
    votes.close(NodeId(2));
    assert_eq!(votes.add(NodeId(2), 1), Voted::Refused);
    assert!(votes.voters().is_empty());
    assert_eq!(votes.iter().count(), 0);
}

#[test]
fn a_set_has_one_encoding() {
    let mut from = Drawn::new(6);
    for _ in 0..2_000 {
        let set = NodeSet::draw(&mut from);
        assert_eq!(NodeSet::decode(set.encode(), &Limits::default()), Ok(set));
    }
    assert_eq!(NodeSet::EMPTY.encode().as_ref(), [0]);
    assert_eq!(NodeSet::first(4).encode().as_ref(), [1, 0x0f]);
    let padded = Bytes::from_static(&[2, 0x0f, 0]);
    assert!(NodeSet::decode(padded, &Limits::default()).is_err());
    assert!(NodeSet::decode(Bytes::from_static(&[17]), &Limits::default()).is_err());
}

#[test]
fn a_set_holds_members_and_no_guest() {
    let mut set = NodeSet::EMPTY;
    assert!(set.insert(NodeId(127)));
    assert!(!set.insert(NodeId(127)));
    assert!(!set.insert(NodeId::GUESTS));
    assert!(!set.contains(NodeId(200)));
    assert_eq!(set.count(), 1);
    assert!(set.within(NodeSet::first(128)));
    assert!(!set.within(NodeSet::first(127)));
    assert_eq!(set.iter().collect::<Vec<_>>(), vec![NodeId(127)]);
    assert_eq!(
        NodeSet::first(5).minus(NodeSet::first(3)).iter().map(|n| n.0).collect::<Vec<_>>(),
        vec![3, 4]
    );
}

#[test]
fn a_roster_names_what_is_wrong_with_it() {
    let member = |byte| Member { key: PublicKey([byte; 32]), power: 1 };
    assert_eq!(Roster::new(Epoch(0), vec![]).map(|_| ()), Err(RosterError::Size(0)));
    assert_eq!(
        Roster::new(Epoch(0), vec![member(1), member(2), member(1)]).map(|_| ()),
        Err(RosterError::SharedKey(0, 2))
    );
    let weak = Member { power: 0, ..member(3) };
    assert_eq!(Roster::new(Epoch(0), vec![weak]).map(|_| ()), Err(RosterError::Power));
    let roster = Roster::new(Epoch(3), (0..4).map(member).collect()).expect("four keys");
    assert_eq!(roster.holder(&PublicKey([2; 32])), Some(NodeId(2)));
    assert_eq!(roster.others(NodeId(0)), NodeSet::first(4).without(NodeId(0)));
    assert!(roster.member(NodeId(4)).is_none());
}

synod_wire::conformance!(Epoch, PublicKey, NodeSet);
