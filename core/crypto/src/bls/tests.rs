//! Sums against their reference, and points that no key of a signer can be.

use blst::min_pk::{AggregatePublicKey, PublicKey, Signature};
use blst::{blst_p1, blst_p1_affine, blst_p2_affine};
use synod_wire::Drawn;

use super::equation::Equation;
use super::points::{KeySum, Sum};
use super::{BlsPublicKey, BlsSecret, KEYS_AT_ONCE, SIGNING, StoredKey};
use crate::{Keys, Seed};

fn keys() -> Keys {
    Keys::ed25519(&Seed::new([1; 32]), [2; 32])
}

/// `count` keys, each the last plus one key.
fn many(count: usize) -> Vec<BlsPublicKey> {
    let step = AggregatePublicKey::from_public_key(&BlsSecret::new(&Seed::new([3; 32])).public().0);
    let mut last = step;
    let mut out = Vec::with_capacity(count);
    for _ in 0..count {
        out.push(BlsPublicKey(last.to_public_key()));
        last.add_aggregate(&step);
    }
    out
}

fn negative(key: BlsPublicKey) -> BlsPublicKey {
    let mut none = AggregatePublicKey::from(blst_p1::default());
    none.sub_aggregate(&AggregatePublicKey::from_public_key(&key.0));
    BlsPublicKey(none.to_public_key())
}

fn infinity() -> BlsPublicKey {
    BlsPublicKey(PublicKey::from(blst_p1_affine::default()))
}

fn agree(of: &[BlsPublicKey]) -> KeySum {
    let keys = keys();
    let fast = keys.bls().sum_keys(of.iter().copied());
    assert_eq!(fast, keys.bls().sum_keys_one_by_one(of.iter().copied()), "{} keys", of.len());
    // Nobody's key is infinity, so books have none.
    let real = of.iter().filter(|key| **key != infinity());
    let stored: Vec<StoredKey> = real.clone().map(StoredKey::from).collect();
    assert!(real.eq(stored.iter().map(StoredKey::key).collect::<Vec<_>>().iter()), "keys stay what they are");
    let ids: Vec<u32> = (0..).take(stored.len()).collect();
    assert_eq!(keys.key_adder().sum(stored.as_slice(), &ids), Some(fast), "{} keys", ids.len());
    let Sum::Curve(sum) = fast.0 else { unreachable!("keys of the curve") };
    assert_eq!(fast.is_infinity(), sum.to_public_key().validate().is_err());
    fast
}

#[test]
fn both_adders_agree_at_every_size() {
    let all = many(20_000);
    for size in (0..=200).chain([383, 384, 385, 1_000]) {
        agree(&all[..size]);
    }
    for size in [KEYS_AT_ONCE - 1, KEYS_AT_ONCE, KEYS_AT_ONCE + 1, 2 * KEYS_AT_ONCE, 20_000] {
        agree(&all[..size]);
    }
    assert!(agree(&[]).is_infinity());
}

#[test]
fn both_adders_agree_on_repeats_negatives_and_infinity() {
    let all = many(64);
    let mut from = Drawn::new(11);
    let pick = |from: &mut Drawn| {
        let key = all[usize::try_from(from.below(all.len() as u64)).expect("below 64")];
        match from.below(8) {
            0 => infinity(),
            1 | 2 => negative(key),
            _ => key,
        }
    };
    for _ in 0..400 {
        let count = from.below(90);
        let drawn: Vec<BlsPublicKey> = (0..count).map(|_| pick(&mut from)).collect();
        agree(&drawn);
    }
    for size in [1, 2, 7, 64, 500] {
        // The same point everywhere, a point beside its negative, pairs that meet at every level of a tree.
        agree(&vec![all[0]; size]);
        let pairs: Vec<BlsPublicKey> = (0..size).flat_map(|n| [all[n % 64], negative(all[n % 64])]).collect();
        assert!(agree(&pairs).is_infinity());
        let halves: Vec<BlsPublicKey> =
            (0..size).map(|n| all[n % 64]).chain((0..size).map(|n| negative(all[n % 64]))).collect();
        assert!(agree(&halves).is_infinity());
        agree(&vec![infinity(); size]);
    }
}

#[test]
fn distrusted_vectors_add_no_more_and_sums_stay_the_same() {
    let (all, keys) = (many(1_000), keys());
    let stored: Vec<StoredKey> = all.iter().map(StoredKey::from).collect();
    let ids: Vec<u32> = (0..1_000).step_by(3).collect();
    let before = keys.key_adder().sum(stored.as_slice(), &ids).expect("every id has a key");
    assert!(keys.trusts_vectors());
    keys.distrust_vectors();
    assert!(!keys.trusts_vectors() && !keys.key_adder().is_vector());
    assert_eq!(keys.key_adder().sum(stored.as_slice(), &ids), Some(before));
    assert_eq!(keys.bls().sum_keys_one_by_one(all.iter().copied().step_by(3)), before);
    assert!(keys.key_adder().sum(stored.as_slice(), &[999, 1_000]).is_none(), "an id without a key");
}

#[test]
fn what_is_added_can_be_taken_away() {
    let (all, keys) = (many(40), keys());
    let mut sum = keys.bls().sum_keys(all.iter().copied());
    all[10..30].iter().for_each(|key| sum.remove_key(key));
    all[10..15].iter().for_each(|key| sum.add_key(key));
    let rest = all[..15].iter().chain(&all[30..]).copied();
    assert_eq!(sum, keys.bls().sum_keys(rest));
    sum.subtract(&keys.bls().sum_keys(all[30..].iter().copied()));
    assert_eq!(sum, agree(&all[..15]));
    sum.subtract(&agree(&all[..15]));
    assert!(sum.is_infinity());
    sum.add(&agree(&all[..3]));
    assert_eq!(sum, agree(&all[..3]));
}

#[test]
fn infinity_and_points_outside_the_group_do_not_reach_a_pairing() {
    let secret = BlsSecret::new(&Seed::new([4; 32]));
    let (key, signature) = (secret.public().0, secret.sign(SIGNING, b"message").0);
    let is_fit = |key, signature| Equation { key, signature, message: b"message" }.is_fit();
    assert!(is_fit(key, signature));
    assert!(!is_fit(infinity().0, signature));
    assert!(!is_fit(key, Signature::from(blst_p2_affine::default())));
    let strays: Vec<Signature> = (0..=255)
        .filter_map(|x| {
            let mut bytes = [0; 96];
            (bytes[0], bytes[95]) = (0x80, x);
            Signature::uncompress(&bytes).ok()
        })
        .collect();
    assert!(strays.len() > 50, "about half of all coordinates have a point");
    assert!(strays.iter().all(|stray| !is_fit(key, *stray)), "a point is in the group once in 2^250");
}
