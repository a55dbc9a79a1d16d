//! What one pairing equation says, alone and in company.

use blst::min_pk::PublicKey;
use synod_crypto::bls::{BlsClaim, BlsSignature, KeySum, Registration, verify_all};
use synod_crypto::{Hash, Keys, Scope, toy};
use synod_quorum::Epoch;
use synod_wire::Drawn;

use crate::{Make, SCHEMES, SCOPE, Say, Sign, claim, moved, real, signed, stray, torsion, toys};

#[test]
fn a_sum_is_good_only_for_its_statement_and_its_keys() {
    for make in SCHEMES {
        let good = claim(make, 1..6, 1);
        assert!(good.clone().verify(&make(0)).is_ok());
        let changes: [fn(&mut BlsClaim<Say>); 4] = [
            |c| c.statement = Say(2),
            |c| c.scope = Scope { cluster: Hash::ZERO, ..SCOPE },
            |c| c.scope = Scope { epoch: Epoch(3), ..SCOPE },
            |c| c.scope = Scope { cluster: Hash([1; 32]), epoch: Epoch(0) },
        ];
        for change in changes {
            let mut other = good.clone();
            change(&mut other);
            assert_eq!(other.clone().verify(&make(0)), Err(other), "it comes back as it was");
        }
        for signers in [1..5, 1..7, 2..6] {
            let other = claim(make, signers, 1).keys;
            assert!(BlsClaim { keys: other, ..good.clone() }.verify(&make(0)).is_err());
        }
        assert!(claim(make, 3..4, 1).verify(&make(0)).is_ok(), "one signer is a sum");
    }
}

#[test]
fn a_share_counts_as_often_as_its_key() {
    for make in SCHEMES {
        let twice = claim(make, [1, 2, 2].into_iter(), 1);
        assert!(twice.clone().verify(&make(0)).is_ok());
        let once = claim(make, 1..3, 1);
        assert!(BlsClaim { keys: once.keys, ..twice }.verify(&make(0)).is_err());
    }
}

#[test]
fn a_sum_follows_keys_that_come_and_leave() {
    for make in SCHEMES {
        let keys = make(0);
        let key = |name| make(name).bls_public().expect("a key");
        let mut sum = keys.bls().sum_keys((1..9).map(key));
        (3..7).for_each(|name| sum.remove_key(&key(name)));
        sum.add_key(&key(20));
        sum.add(&keys.bls().sum_keys([key(21), key(22)]));
        sum.subtract(&keys.bls().sum_keys([key(8), key(22)]));
        let left = [1, 2, 7, 20, 21];
        assert_eq!(sum, keys.bls().sum_keys(left.map(key)));
        assert!(BlsClaim { keys: sum, ..claim(make, left.into_iter(), 1) }.verify(&keys).is_ok());
    }
}

#[test]
fn infinity_signs_nothing() {
    for make in SCHEMES {
        let keys = make(0);
        let good = claim(make, 1..4, 1);
        let none = keys.bls().sum_keys([]);
        let nothing = keys.bls().sum_signatures([]);
        assert!(none.is_infinity() && nothing.is_infinity());
        for (sum, signature) in
            [(none, nothing.to_signature()), (good.keys, nothing.to_signature()), (none, good.signature)]
        {
            let claimed = BlsClaim { keys: sum, signature, ..good.clone() };
            assert!(claimed.clone().verify(&keys).is_err());
            // Nor beside others, where its terms would vanish from the product.
            let verdicts = verify_all(vec![good.clone(), claimed, good.clone()], &keys);
            assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        }
    }
}

#[test]
fn keys_that_cancel_sign_nothing_together() {
    // One owner registers x and -x, each with a good possession; together they are nobody.
    let (keys, owner) = (real(0), real(1));
    let plus = owner.bls_public().expect("a key");
    let mut minus = plus.to_bytes();
    minus[0] ^= 0x20;
    PublicKey::key_validate(&minus).expect("-x is a key");
    let nothing = keys.bls().sum_signatures([]).to_signature();
    let negative = |signature: BlsSignature| moved(&keys, nothing, signature, Sign::Minus);
    let proof = owner.possess(&SCOPE, &Say(1)).expect("a secret");
    let proof = negative(keys.bls().signature(&proof).expect("a signature")).to_bytes();
    let minus = keys.bls().register(&[Registration::of_statement(minus, proof, &Say(1), &SCOPE)]);
    let minus = minus[0].expect("its owner has the secret");
    let both = keys.bls().sum_keys([plus, minus]);
    assert!(both.is_infinity());
    let share = signed(&owner, 7);
    for signature in [share, negative(share), nothing] {
        let claimed = BlsClaim { statement: Say(7), scope: SCOPE, keys: both, signature };
        assert!(claimed.verify(&keys).is_err());
    }
    // Beside an honest signer they change nothing: the sum is the honest one's.
    let honest = claim(real, 5..6, 7);
    let mut three = both;
    three.add(&honest.keys);
    assert!(BlsClaim { keys: three, ..honest }.verify(&keys).is_ok());
}

#[test]
fn aggregates_outside_the_group_are_refused() {
    let mut from = Drawn::new(3);
    let keys = real(0);
    let good = claim(real, 1..4, 1);
    for _ in 0..4 {
        let off = torsion(&keys, &mut from);
        for bad in [stray(&keys, &mut from), off, moved(&keys, good.signature, off, Sign::Plus)] {
            let claimed = BlsClaim { signature: bad, ..good.clone() };
            assert!(claimed.clone().verify(&keys).is_err());
            let verdicts = verify_all(vec![claimed, good.clone()], &keys);
            assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
        }
    }
}

/// Makes claims of every kind, good and bad, and says which should hold by how they were made.
fn drawn(make: Make, from: &mut Drawn) -> (Vec<BlsClaim<Say>>, Vec<bool>) {
    let keys = make(0);
    let (mut claims, mut expected) = (Vec::new(), Vec::new());
    let none: KeySum = keys.bls().sum_keys([]);
    for _ in 0..1 + from.below(7) {
        let first = 1 + from.below(20);
        let good = claim(make, first..first + 1 + from.below(4), from.below(3));
        let delta = signed(&make(30), from.below(50));
        let add = |c: &BlsClaim<Say>, sign| moved(&keys, c.signature, delta, sign);
        match from.below(8) {
            0 => {
                // Two wrong by opposite amounts: under equal coefficients they would cancel.
                let other = claim(make, 40..42, good.statement.0);
                claims.push(BlsClaim { signature: add(&good, Sign::Plus), ..good });
                claims.push(BlsClaim { signature: add(&other, Sign::Minus), ..other });
                expected.extend([false, false]);
            }
            1 => {
                claims.push(BlsClaim { statement: Say(77), ..good });
                expected.push(false);
            }
            2 => {
                claims.push(BlsClaim { keys: none, ..good });
                expected.push(false);
            }
            3 if keys.bls().share(&torsion_of(make, from)).is_ok() => {
                let off = keys.bls().share(&torsion_of(make, from)).expect("read before");
                let signature = moved(&keys, good.signature, off, Sign::Plus);
                claims.push(BlsClaim { signature, ..good });
                expected.push(false);
            }
            _ => {
                claims.push(good);
                expected.push(true);
            }
        }
    }
    (claims, expected)
}

/// Torsion on the curve; in a universe, where there is none, bytes that it does not read.
fn torsion_of(make: Make, from: &mut Drawn) -> [u8; 192] {
    let curve = make(0).bls_public().expect("a key") == real(0).bls_public().expect("a key");
    if curve { torsion(&make(0), from).to_share() } else { [0xff; 192] }
}

#[test]
fn company_never_changes_a_verdict() {
    let mut from = Drawn::new(17);
    for (make, runs) in [(real as Make, 25), (toys, 200)] {
        let (mut held, mut refused) = (0, 0);
        for _ in 0..runs {
            let (claims, expected) = drawn(make, &mut from);
            let alone: Vec<bool> = claims.iter().map(|c| c.clone().verify(&make(0)).is_ok()).collect();
            assert_eq!(alone, expected);
            let together = verify_all(claims.clone(), &make(0));
            assert_eq!(together.iter().map(Result::is_ok).collect::<Vec<_>>(), expected);
            for (verdict, claimed) in together.into_iter().zip(claims) {
                assert_eq!(verdict.map_or_else(|back| back, |good| good.into_inner()), claimed, "in order");
            }
            held += expected.iter().filter(|good| **good).count();
            refused += expected.iter().filter(|good| !**good).count();
        }
        assert!(held > runs && refused > runs, "{held} held and {refused} did not, in {runs} runs");
    }
    assert!(verify_all::<Say>(Vec::new(), &real(0)).is_empty());
}

#[test]
fn no_refusal_rests_on_the_fast_adder() {
    for make in SCHEMES {
        let keys = make(0);
        let signers =
            |names: core::ops::Range<u64>| names.map(|name| make(name).bls_public().expect("a key"));
        let good = claim(make, 1..5, 1);
        // An adder that lost a key: the refused claim is good after all, and the difference is told.
        let lost = BlsClaim { keys: keys.bls().sum_keys(signers(1..4)), ..good.clone() };
        let refused = lost.verify(&keys).expect_err("the sum lacks a key");
        let again = refused.reconsider(signers(1..5), &keys);
        assert!(!again.adders_agree);
        assert_eq!(again.verdict.map(|good| good.into_inner()), Ok(good.clone()));
        // A bad signature stays bad, and where both adders agree no second pairing is needed.
        let bad = BlsClaim { signature: signed(&make(9), 1), ..good };
        let again = bad.clone().reconsider(signers(1..5), &keys);
        assert!(again.adders_agree);
        assert_eq!(again.verdict, Err(bad.clone()));
        let again = bad.reconsider(signers(1..4), &keys);
        assert!(!again.adders_agree && again.verdict.is_err());
    }
}

#[test]
fn universes_do_not_know_each_other() {
    let (a, b) = (toy::Universe::new(1), toy::Universe::new(2));
    let good = claim(toys, 1..4, 1);
    assert!(good.clone().verify(&a.keys(50)).is_ok());
    assert!(good.verify(&b.keys(1)).is_err());
    let named = |keys: Keys| keys.bls_public().expect("a key").to_bytes();
    assert_ne!(named(a.keys(1)), named(a.keys(2)));
    assert_ne!(named(a.keys(1)), named(b.keys(1)));
}
