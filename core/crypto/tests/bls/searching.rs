//! The search for bad shares.

use synod_crypto::Keys;
use synod_crypto::bls::{BlsClaim, BlsSignature, Found, LEAF, Share, search};
use synod_wire::Drawn;

use crate::{Make, SCHEMES, SCOPE, Say, Sign, moved, real, signed, torsion, toys};

/// Shares of `Say(1)` by `count` signers.
fn shares(make: Make, count: u64) -> Vec<Share> {
    (0..count)
        .map(|name| {
            let keys = make(name);
            Share { key: (&keys.bls_public().expect("a key")).into(), signature: signed(&keys, 1) }
        })
        .collect()
}

/// Makes the shares at these indices bad.
fn spoil(make: Make, shares: &mut [Share], at: &[u32]) {
    for &at in at {
        let at = usize::try_from(at).expect("an index");
        shares[at].signature = signed(&make(at as u64), 2);
    }
}

fn found(shares: &[Share], checks_max: u32, keys: &Keys) -> Found<Say> {
    let found = search(Say(1), SCOPE, shares, checks_max, keys);
    assert!(found.checks <= checks_max);
    assert!(found.bad.is_sorted() && found.unresolved.is_sorted());
    // Every share has one place, and the good ones are proved together by a claim that holds.
    let mut left: Vec<u32> = found.bad.iter().chain(&found.unresolved).copied().collect();
    left.sort_unstable();
    left.dedup();
    assert_eq!(left.len(), found.bad.len() + found.unresolved.len());
    let is_good =
        |(at, _): &(usize, &Share)| left.binary_search(&u32::try_from(*at).expect("an index")).is_err();
    let good: Vec<Share> = shares.iter().enumerate().filter(is_good).map(|(_, share)| *share).collect();
    assert_eq!(found.good.is_some(), !good.is_empty());
    if let Some(proved) = &found.good {
        assert_eq!(proved.keys, keys.bls().sum_keys(good.iter().map(|share| share.key.key())));
        let again: BlsClaim<Say> = (**proved).clone();
        assert!(again.verify(keys).is_ok());
    }
    found
}

#[test]
fn good_shares_need_one_check() {
    for make in SCHEMES {
        for count in [1, 2, 64, 65, 200] {
            let found = found(&shares(make, count), 512, &make(0));
            assert_eq!((found.checks, found.bad.len(), found.unresolved.len()), (1, 0, 0));
        }
        let nothing = found(&[], 512, &make(0));
        assert!(nothing.good.is_none() && nothing.checks == 0);
    }
}

#[test]
fn exactly_the_bad_shares_are_found() {
    let mut from = Drawn::new(6);
    for (make, runs, sizes) in [
        (real as Make, 1, [1_u64, 2, 65, 150].as_slice()),
        (toys, 20, &[1, 2, 3, 63, 64, 65, 127, 128, 129, 700]),
    ] {
        for &size in sizes {
            let genuine = shares(make, size);
            for run in 0..runs {
                let (mut all, rate) = (genuine.clone(), 2 + run * 10);
                let count = u32::try_from(size).expect("few");
                let bad: Vec<u32> = (0..count).filter(|_| from.below(rate) == 0).collect();
                spoil(make, &mut all, &bad);
                let found = found(&all, u32::MAX, &make(0));
                assert_eq!(found.bad, bad);
                assert!(found.unresolved.is_empty());
            }
        }
    }
}

#[test]
fn one_bad_share_costs_a_path() {
    let genuine = shares(toys, 4_096);
    for at in [0, 63, 64, 2_047, 2_048, 4_095] {
        let mut all = genuine.clone();
        spoil(toys, &mut all, &[at]);
        let found = found(&all, 512, &toys(0));
        assert_eq!(found.bad, [at]);
        // The root, then one check a level where the left half holds and two where it does not.
        assert!((13..=25).contains(&found.checks), "{} checks for share {at}", found.checks);
    }
}

#[test]
fn search_ends_within_its_budget() {
    let genuine = shares(toys, 65_536);
    let mut from = Drawn::new(2);
    for one_in in [10_000, 1_000, 100] {
        let mut all = genuine.clone();
        let bad: Vec<u32> = (0..65_536).filter(|_| from.below(one_in) == 0).collect();
        spoil(toys, &mut all, &bad);
        let found = found(&all, 512, &toys(0));
        assert!(found.bad.iter().all(|at| bad.binary_search(at).is_ok()), "no good share is called bad");
        let undecided = |at: &&u32| found.bad.binary_search(at).is_err();
        let hidden: Vec<&u32> = bad.iter().filter(undecided).collect();
        assert!(hidden.iter().all(|at| found.unresolved.binary_search(at).is_ok()), "no bad share is good");
        match one_in {
            10_000 => assert!(found.unresolved.is_empty(), "few bad shares are all found"),
            1_000 => assert!(found.unresolved.len() < 65_536 / 4, "{} unresolved", found.unresolved.len()),
            _ => assert_eq!(found.checks, 512),
        }
    }
}

#[test]
fn without_a_budget_nothing_is_decided() {
    for make in SCHEMES {
        let mut all = shares(make, 70);
        let nothing = found(&all, 0, &make(0));
        assert_eq!((nothing.unresolved.len(), nothing.checks), (70, 0));
        spoil(make, &mut all, &[3]);
        for budget in 1..4 {
            let some = found(&all, budget, &make(0));
            assert!(some.bad.is_empty() && some.unresolved.contains(&3));
            assert_eq!(some.checks, budget);
        }
    }
}

#[test]
fn shares_that_cancel_are_judged_by_their_sum() {
    for make in SCHEMES {
        let keys = make(0);
        let delta = signed(&make(500), 9);
        let shift = |share: &mut Share, sign| share.signature = moved(&keys, share.signature, delta, sign);
        let mut all = shares(make, 130);
        shift(&mut all[5], Sign::Plus);
        shift(&mut all[100], Sign::Minus);
        assert_eq!(found(&all, 512, &keys).checks, 1, "the equation holds for all of them together");
        // A third bad share makes the tree fall apart between the two, and both are bad alone.
        spoil(make, &mut all, &[70]);
        let found = found(&all, 512, &keys);
        assert_eq!(found.bad, [5, 70, 100]);
        assert!(found.unresolved.is_empty());
    }
}

#[test]
fn shares_outside_the_group_are_bad_and_their_sums_are_judged() {
    let mut from = Drawn::new(9);
    let keys = real(0);
    let off = torsion(&keys, &mut from);
    let mut all = shares(real, 2 * LEAF as u64 + 3);
    all[1].signature = moved(&keys, all[1].signature, off, Sign::Plus);
    assert_eq!(found(&all, 512, &keys).bad, [1]);
    all[2].signature = off;
    assert_eq!(found(&all, 512, &keys).bad, [1, 2]);
    let honest = signed(&real(2), 1);
    all[2].signature = moved(&keys, honest, off, Sign::Minus);
    assert_eq!(found(&all, 512, &keys).checks, 1, "torsion that cancels is not in the aggregate");
    all[2].signature = honest;
    all[130].signature = moved(&keys, all[130].signature, off, Sign::Minus);
    assert_eq!(found(&all, 512, &keys).checks, 1);
    spoil(real, &mut all, &[60]);
    assert_eq!(found(&all, 512, &keys).bad, [1, 60, 130]);
}

#[test]
fn signers_that_cancel_prove_nothing_and_hide_nobody() {
    let keys = real(0);
    let nothing = keys.bls().sum_signatures([]).to_signature();
    let one = shares(real, 2)[1];
    let mut minus = one.key.key().to_bytes();
    minus[0] ^= 0x20;
    let key = (&keys.bls().vouched_key(&minus).expect("-x is a key")).into();
    let other = Share { key, signature: moved(&keys, nothing, one.signature, Sign::Minus) };
    let pair = search(Say(1), SCOPE, &[one, other], 512, &keys);
    assert!(pair.good.is_none() && pair.bad.is_empty());
    assert_eq!(pair.unresolved, [0, 1]);
    // Beside a bad share the pair is told apart from it; beside a good one it is good.
    let bad = Share { signature: signed(&real(5), 4), key: (&real(5).bls_public().expect("a key")).into() };
    let three = search(Say(1), SCOPE, &[one, other, bad], 512, &keys);
    assert_eq!((three.bad, three.unresolved), (vec![2], vec![0, 1]));
    let good: BlsSignature = signed(&real(6), 1);
    let good = Share { signature: good, key: (&real(6).bls_public().expect("a key")).into() };
    assert_eq!(found(&[one, other, good], 512, &keys).checks, 1);
    assert_eq!(found(&[one, bad, other, good], 512, &keys).bad, [1]);
}

/// Keys of hundreds are added in vectors, which no share is called bad by.
#[test]
fn hundreds_of_shares_are_judged_alike_with_vectors_and_without() {
    let (trusting, plain) = (real(0), real(0));
    plain.distrust_vectors();
    let mut all = shares(real, 300);
    assert_eq!(found(&all, 512, &trusting).checks, 1);
    spoil(real, &mut all, &[7, 299]);
    for keys in [&trusting, &plain] {
        let found = found(&all, 512, keys);
        assert_eq!((found.bad, found.unresolved), (vec![7, 299], vec![]));
    }
    assert!(trusting.trusts_vectors(), "bad shares say nothing against the vectors");
}
