//! Promises of batches over keys that were read before: the verdicts are those of one check alone, whatever was read.

use curve25519_dalek::Scalar;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::EdwardsPoint;
use sha2::{Digest as _, Sha512};
use synod_crypto::{
    Claim, Hash, Keys, PublicKey, ReadKey, Scope, Seed, Signature, Statement, toy, verify_all,
    verify_all_read,
};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Draw as _, Drawn, wire};

wire! {
    /// Something to sign.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Said(u64);
}

impl Statement for Said {
    const PROTOCOL: u8 = 250;
    const VERSION: u8 = 1;
    fn kind(&self) -> u16 {
        9
    }
}

fn judge(secret: u8) -> Keys {
    Keys::ed25519(&Seed::new([1; 32]), [secret; 32])
}

fn claim(said: u64, key: [u8; 32], signature: [u8; 64]) -> Claim<Said> {
    let scope = Scope { cluster: Hash([9; 32]), epoch: Epoch(2) };
    let signer = NodeId(u32::try_from(said).expect("small"));
    Claim { statement: Said(said), scope, signer, key: PublicKey(key), signature: Signature(signature) }
}

fn number(from: &mut Drawn) -> Scalar {
    let halves = [<[u8; 32]>::draw(from), <[u8; 32]>::draw(from)];
    Scalar::from_bytes_mod_order_wide(halves.as_flattened().try_into().expect("64 bytes"))
}

/// Some point of small order, the identity in half of all cases.
fn small(from: &mut Drawn) -> EdwardsPoint {
    EIGHT_TORSION.get(usize::try_from(from.below(16)).expect("small")).copied().unwrap_or_default()
}

/// A signature whose key and nonce may each have a part of small order; `by` is added to what holds.
fn signed(from: &mut Drawn, said: u64, secret: &Scalar, by: Scalar) -> Claim<Said> {
    let nonce = number(from);
    let key = (EdwardsPoint::mul_base(secret) + small(from)).compress().to_bytes();
    let commitment = (EdwardsPoint::mul_base(&nonce) + small(from)).compress().to_bytes();
    let mut claim = claim(said, key, [0; 64]);
    let bytes = claim.statement.signed_bytes(&claim.scope);
    let hash = Sha512::new().chain_update(commitment).chain_update(key).chain_update(&bytes).finalize();
    let response = nonce + Scalar::from_bytes_mod_order_wide(&hash.into()) * secret + by;
    claim.signature.0[..32].copy_from_slice(&commitment);
    claim.signature.0[32..].copy_from_slice(&response.to_bytes());
    claim
}

/// The fourteen encodings of points of small order: canonical ones, ones with the sign of zero, and ones with a coordinate of the
/// field's size or more.
fn encodings() -> Vec<[u8; 32]> {
    let mut all: Vec<[u8; 32]> = EIGHT_TORSION.iter().map(|point| point.compress().to_bytes()).collect();
    let with = |first: u8, rest: u8, last: u8| {
        let mut bytes = [rest; 32];
        (bytes[0], bytes[31]) = (first, last);
        bytes
    };
    all.extend([with(1, 0, 0x80), with(0xec, 0xff, 0xff)]);
    all.extend([0xed, 0xee].into_iter().flat_map(|first| [with(first, 0xff, 0x7f), with(first, 0xff, 0xff)]));
    all.sort_unstable();
    all.dedup();
    all
}

/// The verdicts over keys that were read, which must be those of each alone; and the keys that are new.
fn verdicts(claims: Vec<(Claim<Said>, Option<ReadKey>)>, keys: &Keys) -> Vec<(bool, Option<ReadKey>)> {
    let alone: Vec<bool> = claims.iter().map(|(claim, _)| claim.clone().verify(keys).is_ok()).collect();
    // On the curve library's path, whatever this processor has.
    let other = judge(77);
    other.distrust_vectors();
    let plain = if keys.public() == other.public() { found(claims.clone(), &other) } else { Vec::new() };
    assert!(plain.iter().map(|(good, _)| *good).eq(alone.iter().copied().take(plain.len())));
    let found = found(claims, keys);
    assert_eq!(found.iter().map(|(good, _)| *good).collect::<Vec<_>>(), alone);
    found
}

fn found(claims: Vec<(Claim<Said>, Option<ReadKey>)>, keys: &Keys) -> Vec<(bool, Option<ReadKey>)> {
    let all = verify_all_read(claims, keys).into_iter();
    all.map(|verdict| verdict.map_or((false, None), |(_, new)| (true, new))).collect()
}

/// The read keys of these claims, all of which hold.
fn read(claims: &[Claim<Said>], keys: &Keys) -> Vec<Option<ReadKey>> {
    let all = claims.iter().map(|claim| (claim.clone(), None)).collect();
    verdicts(all, keys).into_iter().map(|(good, new)| new.filter(|_| good)).collect()
}

#[test]
fn all_196_small_order_vectors_are_judged_alike_over_keys_that_were_read() {
    let (keys, encodings, mut from) = (judge(3), encodings(), Drawn::new(1));
    assert_eq!(encodings.len(), 14);
    let genuine: Vec<Claim<Said>> = (0..5)
        .map(|said| {
            let secret = number(&mut from);
            signed(&mut from, said, &secret, Scalar::ZERO)
        })
        .collect();
    let (mut accepted, mut refused) = (0, 0);
    for key in &encodings {
        for nonce in &encodings {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(nonce);
            let mut known = None;
            for (s, holds) in [(0, true), (1, false)] {
                signature[32] = s;
                for _ in 0..2 {
                    let mut batch: Vec<_> = genuine.iter().map(|claim| (claim.clone(), None)).collect();
                    batch.insert(2, (claim(7, *key, signature), known));
                    let (good, new) = verdicts(batch, &keys).remove(2);
                    assert_eq!((good, new.is_some()), (holds, holds && known.is_none()));
                    known = new.or(known);
                    accepted += u32::from(good);
                    refused += u32::from(!good);
                }
            }
        }
    }
    assert_eq!((accepted, refused), (2 * 196, 2 * 196), "with s = 1 none of them signs anything");
}

#[test]
fn torsion_and_forgeries_among_hundreds_are_judged_as_alone() {
    let mut from = Drawn::new(7);
    let secrets: Vec<Scalar> = (0..300).map(|_| number(&mut from)).collect();
    let mut known: Vec<Option<ReadKey>> = vec![None; secrets.len()];
    let (mut held, mut failed, mut reused) = (0, 0, 0);
    for round in 0..6_u8 {
        let mut batch = Vec::new();
        for (said, secret) in (0..).zip(&secrets) {
            // Off by a little; or with a number, a nonce or a key that cannot be read.
            let kind = if round == 0 { 0 } else { from.below(40) };
            let by = if kind == 1 { Scalar::ONE } else { Scalar::ZERO };
            let mut one = signed(&mut from, said, secret, by);
            match kind {
                2 => one.signature.0[63] |= 0xf0,
                3 => one.signature.0[..32].fill(0x02),
                4 => one.key.0.fill(0x02),
                5 => one.statement = Said(said + 1_000),
                _ => {}
            }
            batch.push((one, known[usize::try_from(said).expect("small")]));
        }
        let claims: Vec<Claim<Said>> = batch.iter().map(|(claim, _)| claim.clone()).collect();
        let by_library: Vec<bool> = verify_all(claims.clone(), &judge(4)).iter().map(Result::is_ok).collect();
        let of_round = verdicts(batch, &judge(round));
        for (at, (good, new)) in of_round.into_iter().enumerate() {
            assert_eq!(good, by_library[at]);
            let had = known[at].is_some_and(|known| *known.key() == claims[at].key);
            assert_eq!(new.is_some(), good && !had, "keys are given once, and of those that hold alone");
            assert!(new.is_none_or(|new| *new.key() == claims[at].key));
            reused += u32::from(had && good);
            held += u32::from(good);
            failed += u32::from(!good);
            known[at] = new.or(known[at]);
        }
    }
    assert!(held > 1_500 && failed > 100 && reused > 100, "{held} {failed} {reused}");
}

#[test]
fn a_key_read_for_another_claim_changes_no_verdict() {
    let (keys, mut from) = (judge(3), Drawn::new(2));
    let secrets = [number(&mut from), number(&mut from)];
    let claims: Vec<Claim<Said>> =
        (0..).zip(&secrets).map(|(said, secret)| signed(&mut from, said, secret, Scalar::ZERO)).collect();
    let [first, second] = read(&claims, &keys)[..] else { unreachable!("two claims") };
    let crossed = vec![(claims[0].clone(), second), (claims[1].clone(), first)];
    for (verdict, claim) in verdicts(crossed, &keys).into_iter().zip(&claims) {
        assert!(verdict.0 && verdict.1.is_some_and(|new| *new.key() == claim.key), "it is read anew");
    }
    let own = vec![(claims[0].clone(), first), (claims[1].clone(), second)];
    assert!(verdicts(own, &keys).into_iter().all(|(good, new)| good && new.is_none()));
    // A signature by another key than the one that was read.
    let stolen = Claim { key: claims[1].key, ..claims[0].clone() };
    let batch = vec![(stolen, first), (claims[1].clone(), second), (claims[0].clone(), first)];
    let goods: Vec<bool> = verdicts(batch, &keys).into_iter().map(|(good, _)| good).collect();
    assert_eq!(goods, [false, true, true]);
}

#[test]
fn two_errors_that_cancel_out_do_not_pass() {
    let (keys, mut from) = (judge(5), Drawn::new(3));
    let secret = number(&mut from);
    for _ in 0..20 {
        let by = number(&mut from);
        let batch: Vec<Claim<Said>> =
            vec![signed(&mut from, 1, &secret, by), signed(&mut from, 2, &secret, -by)];
        let known = vec![None; 2];
        assert!(verdicts(batch.into_iter().zip(known).collect(), &keys).iter().all(|(good, _)| !good));
    }
}

#[test]
fn toys_are_read_once_as_well_and_stand_in_for_no_point() {
    let universe = toy::Universe::new(1);
    let make = |name: u64| {
        let scope = Scope { cluster: Hash([9; 32]), epoch: Epoch(2) };
        universe.keys(name).sign(scope, NodeId(0), Said(name)).into_inner()
    };
    let claims: Vec<Claim<Said>> = (0..4).map(make).collect();
    let keys = universe.keys(9);
    let known = read(&claims, &keys);
    assert!(known.iter().zip(&claims).all(|(known, claim)| known.is_some_and(|k| *k.key() == claim.key)));
    let mut again: Vec<_> = claims.iter().cloned().zip(known.iter().copied()).collect();
    again[2].0.signature.0[3] ^= 1;
    let goods: Vec<bool> = verdicts(again, &keys).iter().map(|(good, new)| *good && new.is_none()).collect();
    assert_eq!(goods, [true, true, false, true]);
    // What a toy proves proves nothing where keys are points.
    let batch = claims.into_iter().zip(known).collect();
    assert!(verdicts(batch, &judge(1)).iter().all(|(good, _)| !good));
    assert!(verify_all_read::<Said>(Vec::new(), &keys).is_empty());
}

#[test]
fn keys_that_were_read_on_one_path_are_read_anew_on_the_other_and_kept() {
    let (vectors, plain, mut from) = (judge(3), judge(3), Drawn::new(11));
    plain.distrust_vectors();
    let claims: Vec<Claim<Said>> = (0..40)
        .map(|said| {
            let secret = number(&mut from);
            signed(&mut from, said, &secret, Scalar::ZERO)
        })
        .collect();
    let of = |known: Vec<Option<ReadKey>>, keys: &Keys| -> Vec<Option<ReadKey>> {
        let all = claims.iter().cloned().zip(known).collect();
        let all = found(all, keys);
        assert!(all.iter().all(|(good, _)| *good));
        all.into_iter().map(|(_, new)| new).collect()
    };
    let by_vectors = of(vec![None; 40], &vectors);
    let by_library = of(vec![None; 40], &plain);
    assert!(by_vectors.iter().chain(&by_library).all(Option::is_some));
    assert!(
        of(by_vectors.clone(), &vectors).iter().chain(&of(by_library.clone(), &plain)).all(Option::is_none)
    );
    // Where the processor has no vectors both paths are one.
    let crossed = [of(by_vectors, &plain), of(by_library, &vectors)].concat();
    assert!(crossed.iter().all(Option::is_some) || crossed.iter().all(Option::is_none));
}
