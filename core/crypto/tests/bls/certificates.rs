//! Certificates of one aggregate.

use synod_crypto::bls::{BlsCertificate, BlsMembers, BlsSignature, Uncombined, combine};
use synod_crypto::{Hash, Refusal, Scope};
use synod_quorum::{Epoch, Model, NodeId, NodeSet, Quorums};
use synod_wire::{Bytes, Limits, Wire};

use crate::{Make, SCHEMES, SCOPE, Say, Sign, moved, signed};

const N: u32 = 4;

fn members(make: Make) -> BlsMembers {
    let keys = (0..u64::from(N)).map(|name| make(name).bls_public().expect("a key"));
    BlsMembers::new(keys.collect()).expect("distinct keys")
}

fn votes(make: Make, signers: &[u32], what: u64) -> Vec<(NodeId, BlsSignature)> {
    signers.iter().map(|&id| (NodeId(id), signed(&make(u64::from(id)), what))).collect()
}

fn one_correct(set: NodeSet) -> bool {
    Quorums::new(Model::Byzantine, N).expect("four members").has_correct(set)
}

fn combined(make: Make, votes: &[(NodeId, BlsSignature)]) -> Result<BlsCertificate<Say>, Uncombined> {
    combine((Say(1), SCOPE), votes, &members(make), one_correct, &make(0)).map(|good| good.into_inner())
}

fn refused(refusal: Refusal, liars: &[u32]) -> Result<BlsCertificate<Say>, Uncombined> {
    let mut set = NodeSet::EMPTY;
    liars.iter().for_each(|&id| assert!(set.insert(NodeId(id))));
    Err(Uncombined { refusal, liars: set })
}

#[test]
fn a_certificate_needs_enough_members_and_all_of_their_signatures() {
    for make in SCHEMES {
        let (members, keys) = (members(make), make(9));
        let good = combined(make, &votes(make, &[1, 3], 1)).expect("two of four, of whom one is correct");
        let check = |c: &BlsCertificate<Say>, scope| {
            c.clone().verify(scope, &members, one_correct, &keys).map(|_| ())
        };
        assert_eq!(check(&good, SCOPE), Ok(()));
        assert_eq!(good.signers.iter().collect::<Vec<_>>(), [NodeId(1), NodeId(3)]);
        let with = |change: fn(&mut BlsCertificate<Say>)| {
            let mut other = good.clone();
            change(&mut other);
            check(&other, SCOPE)
        };
        assert_eq!(with(|c| c.statement = Say(2)), Err(Refusal::Aggregate));
        assert_eq!(with(|c| c.signers = NodeSet::first(2)), Err(Refusal::Aggregate));
        assert_eq!(with(|c| c.signers = NodeSet::first(4)), Err(Refusal::Aggregate));
        assert_eq!(with(|c| c.signers = NodeSet::only(NodeId(1))), Err(Refusal::TooWeak));
        assert_eq!(with(|c| c.signers = NodeSet::EMPTY), Err(Refusal::TooWeak));
        assert_eq!(with(|c| c.signers = NodeSet::first(5)), Err(Refusal::Stranger(NodeId(4))));
        assert_eq!(with(|c| c.aggregate = [0; 96]), Err(Refusal::Aggregate));
        assert_eq!(with(|c| c.aggregate = [0xc0; 96]), Err(Refusal::Aggregate));
        assert_eq!(check(&good, Scope { cluster: Hash::ZERO, ..SCOPE }), Err(Refusal::Aggregate));
        assert_eq!(check(&good, Scope { epoch: Epoch(3), ..SCOPE }), Err(Refusal::Aggregate));
        // Nobody is enough for nothing, whatever the rule says.
        let nobody = BlsCertificate { signers: NodeSet::EMPTY, ..good.clone() };
        assert_eq!(nobody.verify(SCOPE, &members, |_| true, &keys).map(|_| ()), Err(Refusal::TooWeak));
    }
}

#[test]
fn liars_among_the_votes_are_named() {
    for make in SCHEMES {
        let mut all = votes(make, &[0, 1, 2, 3], 1);
        all[2].1 = signed(&make(2), 8);
        assert_eq!(combined(make, &all), refused(Refusal::Aggregate, &[2]));
        all[0].1 = signed(&make(1), 1);
        assert_eq!(combined(make, &all), refused(Refusal::Aggregate, &[0, 2]));
        // Without them the rest is a certificate.
        assert!(combined(make, &[all[1], all[3]]).is_ok());
        // Two that cancel give a good aggregate: what they signed together is what they say.
        let (mut two, delta) = (votes(make, &[0, 1], 1), signed(&make(7), 7));
        two[0].1 = moved(&make(0), two[0].1, delta, Sign::Plus);
        two[1].1 = moved(&make(0), two[1].1, delta, Sign::Minus);
        assert!(combined(make, &two).is_ok());
        assert_eq!(combined(make, &[two[0], all[3]]), refused(Refusal::Aggregate, &[0]));
    }
}

#[test]
fn votes_of_strangers_repeated_votes_and_too_few_are_no_certificate() {
    for make in SCHEMES {
        let of = |signers: &[u32]| combined(make, &votes(make, signers, 1));
        assert_eq!(of(&[0]), refused(Refusal::TooWeak, &[]));
        assert_eq!(of(&[]), refused(Refusal::TooWeak, &[]));
        assert_eq!(of(&[1, 1]), refused(Refusal::Repeated(NodeId(1)), &[]));
        assert_eq!(of(&[1, 4]), refused(Refusal::Stranger(NodeId(4)), &[]));
    }
}

#[test]
fn a_certificate_comes_back_from_its_bytes_and_not_from_a_part() {
    for make in SCHEMES {
        let good = combined(make, &votes(make, &[0, 2, 3], 1)).expect("three of four");
        let bytes = good.encode();
        assert_eq!(BlsCertificate::<Say>::decode(bytes.clone(), &Limits::default()), Ok(good));
        for cut in 0..bytes.len() {
            assert!(BlsCertificate::<Say>::decode(bytes.slice(..cut), &Limits::default()).is_err());
        }
        let longer = Bytes::from([bytes.as_ref(), &[0]].concat());
        assert!(BlsCertificate::<Say>::decode(longer, &Limits::default()).is_err());
    }
}
