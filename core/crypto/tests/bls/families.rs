//! Families of benchmark keys: what is made by one addition is what single signers make.

use synod_crypto::bls::{BenchFamily, BlsClaim, BlsSignature};
use synod_crypto::{Keys, Seed};
use synod_wire::{Draw as _, Drawn};

use super::{SCOPE, Say, signed};

fn family(seed: u8) -> BenchFamily {
    BenchFamily::new(&Seed::new([seed; 32]))
}

/// The keys of one member.
fn member(seed: u8, member: u32) -> Keys {
    Keys::ed25519(&Seed::new([1; 32]), [2; 32]).with_bls(family(seed).secret(member))
}

fn signatures(seed: u8, members: impl IntoIterator<Item = u32>, what: u64) -> Vec<BlsSignature> {
    members.into_iter().map(|at| signed(&member(seed, at), what)).collect()
}

/// Calls `property` with drawn seeds of families, statements and members.
fn for_all(property: impl Fn(u8, u64, &[u32])) {
    let mut drawn = Drawn::new(5);
    for _ in 0..12 {
        let members = (0..1 + drawn.below(6)).map(|_| u32::draw(&mut drawn)).collect::<Vec<_>>();
        property(u8::draw(&mut drawn), u64::draw(&mut drawn), &members);
    }
}

#[test]
fn keys_and_signatures_by_addition_are_those_of_single_signers() {
    for_all(|seed, what, members| {
        let count = u32::try_from(members.len()).expect("a few");
        let first = members[0].min(u32::MAX - count);
        let each: Vec<_> = (first..first + count).map(|at| family(seed).secret(at).public()).collect();
        assert_eq!(family(seed).keys(first, count), each);
        let made = family(seed).signatures(&SCOPE, &Say(what), (first, count));
        assert_eq!(made, signatures(seed, first..first + count, what));
    });
    assert!(family(1).keys(3, 0).is_empty());
}

#[test]
fn members_wherever_they_stand_sign_what_they_sign_alone() {
    for_all(|seed, what, members| {
        let shares = family(seed).under(&SCOPE, &Say(what));
        assert_eq!(shares.of(members), signatures(seed, members.iter().copied(), what));
    });
    let shares = family(2).under(&SCOPE, &Say(3));
    let edges = [0, 255, 256, 257, 511, 512, 65_535, 7, 255];
    assert_eq!(shares.of(&edges), signatures(2, edges, 3), "in their order, and as often as they are named");
    assert!(shares.of(&[]).is_empty());
}

#[test]
fn a_sum_of_numbers_signs_like_all_its_members() {
    for_all(|seed, what, members| {
        let sum = family(seed).signed_by_all(&SCOPE, &Say(what), members.iter().copied());
        let each = signatures(seed, members.iter().copied(), what);
        assert_eq!(sum, Some(member(seed, 0).bls().sum_signatures(each).to_signature()));
    });
    assert_eq!(family(1).signed_by_all(&SCOPE, &Say(1), []), None);
}

#[test]
fn long_rows_go_on_where_a_part_ends() {
    let (first, count) = (77, 4_100);
    let (keys, made) = (family(3).keys(first, count), family(3).signatures(&SCOPE, &Say(9), (first, count)));
    assert_eq!((keys.len(), made.len()), (4_100, 4_100));
    for at in [0_u32, 1, 4_095, 4_096, 4_099] {
        let signer = member(3, first + at);
        assert_eq!(Some(keys[at as usize]), signer.bls_public(), "key {at}");
        assert_eq!(made[at as usize], signed(&signer, 9), "signature {at}");
    }
}

#[test]
fn a_sum_of_numbers_holds_for_these_members_and_this_statement_alone() {
    let (keys, members) = (member(4, 0), [2_u32, 5, 6, 4_000_000_000]);
    let signature = family(4).signed_by_all(&SCOPE, &Say(1), members).expect("there are members");
    let claim = |statement, members: &[u32]| {
        let sum = keys.bls().sum_keys(members.iter().map(|at| family(4).secret(*at).public()));
        BlsClaim { statement, scope: SCOPE, keys: sum, signature }
    };
    assert!(claim(Say(1), &members).verify(&keys).is_ok());
    assert!(claim(Say(2), &members).verify(&keys).is_err(), "another statement");
    assert!(claim(Say(1), &members[1..]).verify(&keys).is_err(), "one member less");
    assert!(claim(Say(1), &[2, 5, 6, 4_000_000_000, 7]).verify(&keys).is_err(), "one member more");
}
