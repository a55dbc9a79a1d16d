//! Promises of signatures, certificates, keys and Merkle proofs.

use synod_crypto::bls::BlsCertificate;
use synod_crypto::{
    BadKey, Certificate, Claim, Evidence, Group, Hash, Keys, PublicKey, Refusal, Scope, Seed, Signature,
    Statement, Threshold, check_key, merkle, toy, verify_all, verify_evidence, verify_evidence_beyond,
};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_wire::{Bytes, Drawn, Limits, Wire, wire};

wire! {
    /// A statement of two kinds.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Say {
        /// Yes.
        0 = Yes(u64),
        /// No, with the same content.
        1 = No(u64),
    }
}

impl Statement for Say {
    const PROTOCOL: u8 = 250;
    const VERSION: u8 = 1;
    fn kind(&self) -> u16 {
        match self {
            Self::Yes(_) => 7,
            Self::No(_) => 8,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Agreed(Certificate<Say>, Epoch);

impl Evidence for Agreed {
    type Statement = Say;
    fn epoch(&self) -> Epoch {
        self.1
    }
    fn groups(&self) -> Result<Vec<Group<Say>>, Refusal> {
        Ok(vec![self.0.group(Threshold::Quorum)])
    }
}

const CLUSTER: Hash = Hash([9; 32]);

fn scope() -> Scope {
    Scope { cluster: CLUSTER, epoch: Epoch(2) }
}

fn real(name: u8) -> Keys {
    Keys::ed25519(&Seed::new([name; 32]), [3; 32])
}

fn toys(name: u8) -> Keys {
    toy::Universe::new(1).keys(u64::from(name))
}

fn claims(make: fn(u8) -> Keys, count: u8) -> Vec<Claim<Say>> {
    (0..count)
        .map(|n| make(n).sign(scope(), NodeId(u32::from(n)), Say::Yes(u64::from(n))).into_inner())
        .collect()
}

fn roster(make: fn(u8) -> Keys, n: u8) -> Roster {
    let members = (0..n).map(|i| Member { key: make(i).public(), power: 1 }).collect();
    Roster::new(Epoch(2), members).expect("distinct keys")
}

fn agreed(make: fn(u8) -> Keys, signers: &[u8]) -> Agreed {
    let votes = signers.iter().map(|&n| {
        let claim = make(n).sign(scope(), NodeId(u32::from(n)), Say::Yes(1)).into_inner();
        (claim.signer, claim.signature)
    });
    Agreed(Certificate::assemble(Say::Yes(1), votes), Epoch(2))
}

#[test]
fn a_signature_is_good_only_where_it_was_made() {
    for make in [real as fn(u8) -> Keys, toys] {
        let claim = claims(make, 1).remove(0);
        assert!(claim.clone().verify(&make(5)).is_ok());
        let changes: [fn(&mut Claim<Say>); 5] = [
            |c| c.scope.cluster = Hash([8; 32]),
            |c| c.scope.epoch = Epoch(3),
            |c| c.statement = Say::No(0),
            |c| c.statement = Say::Yes(1),
            |c| c.signature.0[9] ^= 1,
        ];
        for change in changes {
            let mut other = claim.clone();
            change(&mut other);
            assert!(other.verify(&make(5)).is_err());
        }
        let stolen = Claim { key: make(1).public(), ..claim };
        assert!(stolen.verify(&make(5)).is_err());
    }
}

#[test]
fn a_batch_finds_exactly_the_forged_ones() {
    let mut from = Drawn::new(4);
    for make in [real as fn(u8) -> Keys, toys] {
        for round in 0..20 {
            let count = 13 + 4 * (round % 2);
            let mut batch = claims(make, count);
            let forged: Vec<usize> = (0..usize::from(count)).filter(|_| from.below(4) == 0).collect();
            for &at in &forged {
                batch[at].signature.0[40] ^= 0x10;
            }
            let verdicts = verify_all(batch, &make(0));
            let refused: Vec<usize> =
                verdicts.iter().enumerate().filter(|(_, v)| v.is_err()).map(|(at, _)| at).collect();
            assert_eq!(refused, forged);
        }
    }
    assert!(verify_all::<Say>(Vec::new(), &real(0)).is_empty());
}

/// All fourteen encodings of small-order points that ZIP-215 admits as a key or nonce: ten with a reduced coordinate, two
/// of them with the sign of zero set, and four with a coordinate of the field's size or more.
fn torsion() -> Vec<[u8; 32]> {
    [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ]
    .iter()
    .map(|hex| {
        let mut out = [0; 32];
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal");
        }
        out
    })
    .collect()
}

/// What one check, a batch of four and one of eighteen say of (key, nonce, s); they say the same.
fn agreed_on(key: [u8; 32], nonce: [u8; 32], s: u8) -> bool {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&nonce);
    signature[32] = s;
    let claim = Claim {
        statement: Say::Yes(3),
        scope: scope(),
        signer: NodeId(0),
        key: PublicKey(key),
        signature: Signature(signature),
    };
    let single = claim.clone().verify(&real(0)).is_ok();
    for others in [3, 17] {
        let mut batch = claims(real, others);
        batch.push(claim.clone());
        let many = verify_all(batch, &real(0)).pop().expect("four verdicts or more").is_ok();
        assert_eq!(single, many);
    }
    single
}

#[test]
fn all_196_small_order_vectors_are_accepted_alone_and_in_a_batch() {
    // Under ZIP-215 a small-order key with a small-order nonce and s = 0 signs everything. What matters is that
    // one check and a batch of many say the same, or replicas would disagree.
    let (mut accepted, mut refused) = (0, 0);
    for key in torsion() {
        for nonce in torsion() {
            accepted += u32::from(agreed_on(key, nonce, 0));
            refused += u32::from(!agreed_on(key, nonce, 1));
        }
    }
    assert_eq!((accepted, refused), (196, 196), "with s = 1 none of them signs anything");
}

#[test]
fn small_order_and_non_canonical_keys_are_refused_at_registration() {
    for key in torsion() {
        assert!(matches!(check_key(&PublicKey(key)), Err(BadKey::SmallOrder | BadKey::NonCanonical)));
    }
    let mut padded = [0xff; 32];
    padded[0] = 0xf0;
    padded[31] = 0x7f;
    assert_eq!(check_key(&PublicKey(padded)), Err(BadKey::NonCanonical));
    let mut from = Drawn::new(8);
    let refused = (0..64)
        .filter(|_| {
            let mut key: [u8; 32] = synod_wire::Draw::draw(&mut from);
            key[31] &= 0x3f;
            check_key(&PublicKey(key)) == Err(BadKey::NoPoint)
        })
        .count();
    assert!(refused > 10, "about half of random encodings are no points: {refused}");
    assert_eq!(check_key(&real(1).public()), Ok(()));
}

#[test]
fn a_certificate_needs_distinct_members_of_enough_power() {
    for make in [real as fn(u8) -> Keys, toys] {
        let roster = roster(make, 4);
        let keys = make(0);
        let verdict = |e: Agreed| verify_evidence(e, &keys, CLUSTER, &roster).map(|_| ());
        assert_eq!(verdict(agreed(make, &[0, 1, 3])), Ok(()));
        assert_eq!(verdict(agreed(make, &[0, 1, 2, 3])), Ok(()));
        assert_eq!(verdict(agreed(make, &[0, 3])), Err(Refusal::TooWeak));
        assert_eq!(verdict(agreed(make, &[])), Err(Refusal::TooWeak));
        assert_eq!(verdict(agreed(make, &[0, 1, 4])), Err(Refusal::Stranger(NodeId(4))));
        let stale = Agreed(agreed(make, &[0, 1, 2]).0, Epoch(1));
        assert_eq!(verdict(stale), Err(Refusal::Epoch));
        let wrong_cluster = verify_evidence(agreed(make, &[0, 1, 2]), &keys, Hash::ZERO, &roster);
        assert_eq!(wrong_cluster.map(|_| ()), Err(Refusal::Forged(NodeId(0))));
    }
}

#[test]
fn only_the_very_same_signature_is_not_checked_twice() {
    for make in [real as fn(u8) -> Keys, toys] {
        let (roster, keys) = (roster(make, 4), make(0));
        let first = verify_evidence_beyond(agreed(make, &[0, 1, 2]), &[], &keys, CLUSTER, &roster);
        let (_, seen) = first.expect("three of four agreed");
        assert_eq!(seen.len(), 3);
        let verdict =
            |e: Agreed| verify_evidence_beyond(e, &seen, &keys, CLUSTER, &roster).map(|(_, all)| all);
        // One of them is new, and comes back with the others.
        assert_eq!(verdict(agreed(make, &[0, 1, 2, 3])).map(|all| all.len()), Ok(4));
        let forge = |signers: &[u8], liar: u32, signature: Signature| {
            let Agreed(good, epoch) = agreed(make, signers);
            let votes = good.signed().map(|(id, own)| (id, if id.0 == liar { signature } else { own }));
            Agreed(Certificate::assemble(good.statement.clone(), votes.collect::<Vec<_>>()), epoch)
        };
        let forged = |id: u32| Err(Refusal::Forged(NodeId(id)));
        assert_eq!(verdict(forge(&[0, 1, 3], 3, Signature([7; 64]))), forged(3), "beside known ones");
        assert_eq!(verdict(forge(&[0, 1, 2], 1, Signature([7; 64]))), forged(1), "of a known signer");
        // A known signature proves nothing for another signer, another statement, or in another cluster.
        let of_2 = seen.iter().find(|claim| claim.signer == NodeId(2)).expect("it signed").signature;
        assert_eq!(verdict(forge(&[0, 1, 3], 3, of_2)), forged(3));
        let other =
            |e: Agreed| Agreed(Certificate::assemble(Say::No(9), e.0.signed().collect::<Vec<_>>()), e.1);
        assert_eq!(verdict(other(agreed(make, &[0, 1, 2]))), forged(0));
        let moved = verify_evidence_beyond(agreed(make, &[0, 1, 2]), &seen, &keys, Hash::ZERO, &roster);
        assert_eq!(moved.map(|_| ()), Err(Refusal::Forged(NodeId(0))));
        // What is known does not stand in for missing power.
        assert_eq!(verdict(agreed(make, &[0, 1])), Err(Refusal::TooWeak));
    }
}

#[test]
fn one_signer_cannot_stand_for_two() {
    struct Doubled(Vec<(NodeId, Say, Signature)>);
    impl Evidence for Doubled {
        type Statement = Say;
        fn epoch(&self) -> Epoch {
            Epoch(2)
        }
        fn groups(&self) -> Result<Vec<Group<Say>>, Refusal> {
            Ok(vec![Group { threshold: Threshold::Weak, signed: self.0.clone() }])
        }
    }
    let claim = real(1).sign(scope(), NodeId(1), Say::Yes(1)).into_inner();
    let one = (claim.signer, claim.statement, claim.signature);
    let doubled = Doubled(vec![one.clone(), one]);
    let verdict = verify_evidence(doubled, &real(0), CLUSTER, &roster(real, 4)).map(|_| ());
    assert_eq!(verdict, Err(Refusal::Repeated(NodeId(1))));
}

#[test]
fn shared_evidence_proves_what_it_proves_alone() {
    let roster = roster(real, 4);
    let shared = std::sync::Arc::new(agreed(real, &[0, 1, 2]));
    assert!(verify_evidence(shared.clone(), &real(0), CLUSTER, &roster).is_ok_and(|v| **v == *shared));
    let weak = std::sync::Arc::new(agreed(real, &[0, 1]));
    assert_eq!(verify_evidence(weak, &real(0), CLUSTER, &roster).map(|_| ()), Err(Refusal::TooWeak));
}

#[test]
fn a_cut_certificate_does_not_decode() {
    let bytes = agreed(toys, &[0, 1, 2]).0.encode();
    assert!(Certificate::<Say>::decode(bytes.clone(), &Limits::default()).is_ok());
    for cut in 0..bytes.len() {
        assert!(Certificate::<Say>::decode(bytes.slice(..cut), &Limits::default()).is_err());
    }
    let mut more = bytes.to_vec();
    more[3] |= 8;
    assert!(Certificate::<Say>::decode(Bytes::from(more), &Limits::default()).is_err());
}

#[test]
fn a_merkle_path_proves_its_leaf_at_its_index_and_nothing_else() {
    for count in 1..=33_u32 {
        let leaves: Vec<Hash> = (0..count).map(|n| merkle::leaf(&n.to_le_bytes())).collect();
        let tree = merkle::Tree::new(leaves.clone());
        let root = tree.root();
        for (index, leaf) in (0..count).zip(&leaves) {
            let path = tree.path(index).expect("inside");
            assert!(merkle::proves(&root, count, index, *leaf, &path));
            assert!(!merkle::proves(&root, count + 1, index, *leaf, &path));
            assert!(!merkle::proves(&root, count, count, *leaf, &path));
            assert!(!merkle::proves(&root, count, index, merkle::leaf(b"other"), &path));
            if count > 1 {
                assert!(!merkle::proves(&root, count, (index + 1) % count, *leaf, &path));
                assert!(!merkle::proves(&root, count, index, *leaf, &path[..path.len() - 1]));
            }
            let mut longer = path.clone();
            longer.push(Hash::ZERO);
            assert!(!merkle::proves(&root, count, index, *leaf, &longer));
        }
        assert!(tree.path(count).is_none());
    }
}

#[test]
fn leaves_that_are_hashed_together_are_those_that_are_hashed_alone() {
    for count in [0, 1, 2, 3, 16, 17, 100] {
        let each: Vec<Hash> = (0..count).map(|n: u32| Hash::of(&n.to_le_bytes())).collect();
        let alone: Vec<Hash> = each.iter().map(|hash| merkle::leaf(&hash.0)).collect();
        assert_eq!(merkle::leaves(&each), alone);
    }
}

#[test]
fn toy_tags_need_the_handle_of_their_key() {
    let (a, b) = (toy::Universe::new(1), toy::Universe::new(2));
    let claim = a.keys(0).sign(scope(), NodeId(0), Say::Yes(1)).into_inner();
    assert!(claim.clone().verify(&a.keys(9)).is_ok());
    assert!(claim.verify(&b.keys(0)).is_err());
    assert_ne!(a.keys(0).public(), a.keys(1).public());
}

#[test]
fn no_secret_shows_in_debug_output() {
    let keys = real(0x5a);
    assert!(!format!("{keys:?}").contains("5a5a"));
}

synod_wire::conformance!(Hash, Signature, Scope, Certificate<Say>, BlsCertificate<Say>);

#[test]
fn exactly_so_many_members_are_what_a_count_asks_for() {
    struct Counted(Vec<(NodeId, Say, Signature)>, u32);
    impl Evidence for Counted {
        type Statement = Say;
        fn epoch(&self) -> Epoch {
            Epoch(2)
        }
        fn groups(&self) -> Result<Vec<Group<Say>>, Refusal> {
            Ok(vec![Group { threshold: Threshold::Members(self.1), signed: self.0.clone() }])
        }
    }
    let signed = |count: u8| {
        let sign = |id: u8| {
            let claim = real(id).sign(scope(), NodeId(u32::from(id)), Say::Yes(1)).into_inner();
            (claim.signer, claim.statement, claim.signature)
        };
        (0..count).map(sign).collect::<Vec<_>>()
    };
    let verdict = |count, need| {
        let counted = Counted(signed(count), need);
        verify_evidence(counted, &real(0), CLUSTER, &roster(real, 4)).map(|_| ())
    };
    assert_eq!(verdict(2, 2), Ok(()));
    for (count, need) in [(1, 2), (3, 2), (1, 0), (0, 0)] {
        assert_eq!(verdict(count, need), Err(Refusal::TooWeak), "{count} of {need}");
    }
}
