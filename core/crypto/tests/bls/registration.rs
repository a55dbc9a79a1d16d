//! Which keys may sign with others.

use blst::min_pk::{AggregatePublicKey, PublicKey};
use blst::{blst_p1, min_pk};
use synod_crypto::bls::{
    BadBls, BenchFamily, BlsClaim, BlsMembers, BlsPublicKey, BlsSecret, POSSESSION, Registration, SIGNING,
};
use synod_crypto::{Hash, Keys, Scope, Seed};
use synod_wire::Drawn;

use crate::{Make, SCHEMES, SCOPE, Say, claim, real, signed, toys};

/// A key with its possession over `Say(1)`.
fn registration(make: Make, name: u64) -> Registration {
    let keys = make(name);
    let key = keys.bls_public().expect("a key").to_bytes();
    Registration::of_statement(key, keys.possess(&SCOPE, &Say(1)).expect("a secret"), &Say(1), &SCOPE)
}

/// The verdict on a key of these bytes with the possession of `name`.
fn verdict(make: Make, key: [u8; 48], name: u64) -> Result<(), BadBls> {
    let possession = make(name).possess(&SCOPE, &Say(1)).expect("a secret");
    let one = Registration::of_statement(key, possession, &Say(1), &SCOPE);
    make(0).bls().register(&[one]).remove(0).map(|_| ())
}

fn name_of(keys: &Keys) -> [u8; 48] {
    keys.bls_public().expect("a key").to_bytes()
}

#[test]
fn a_key_is_registered_by_its_owner_alone() {
    for make in SCHEMES {
        let keys = make(0);
        assert_eq!(keys.bls().register(&[registration(make, 4)]), [Ok(make(4).bls_public().expect("a key"))]);
        assert_eq!(verdict(make, name_of(&make(4)), 5), Err(BadBls::Possession));
        let key = name_of(&make(4));
        let own = make(4).possess_key().expect("a secret");
        let alone = Registration::of_key(key, own);
        assert!(keys.bls().register(&[alone])[0].is_ok());
        let as_statement = Registration::of_statement(key, own, &Say(1), &SCOPE);
        let signature = signed(&make(4), 1).to_bytes();
        let signing = Registration::of_statement(key, signature, &Say(1), &SCOPE);
        let elsewhere = Scope { cluster: Hash::ZERO, ..SCOPE };
        let moved = make(4).possess(&elsewhere, &Say(1)).expect("a secret");
        let moved = Registration::of_statement(key, moved, &Say(1), &SCOPE);
        for other in [as_statement, signing, moved, Registration::of_key(key, [0; 96])] {
            assert_eq!(keys.bls().register(&[other]), [Err(BadBls::Possession)]);
        }
    }
}

#[test]
fn bad_possessions_are_found_in_a_batch() {
    let mut from = Drawn::new(5);
    for make in SCHEMES {
        for _ in 0..6 {
            let lies: Vec<bool> = (0..11).map(|_| from.below(4) == 0).collect();
            let batch: Vec<Registration> = (0..11)
                .zip(&lies)
                .map(|(name, lie)| {
                    let keys = make(name);
                    let of = if *lie { make(name + 1) } else { make(name) };
                    let possession = of.possess(&SCOPE, &Say(1)).expect("a secret");
                    Registration::of_statement(name_of(&keys), possession, &Say(1), &SCOPE)
                })
                .collect();
            let refused: Vec<bool> =
                make(0).bls().register(&batch).iter().map(|v| *v == Err(BadBls::Possession)).collect();
            assert_eq!(refused, lies);
        }
        assert!(make(0).bls().register(&[]).is_empty());
    }
}

#[test]
fn a_rogue_key_would_sign_for_all_and_is_refused() {
    let keys = real(0);
    let victims: Vec<_> = (1..4).map(|name| real(name).bls_public().expect("a key")).collect();
    // g^x less the keys of the victims: with them it adds up to g^x, whose secret the attacker has.
    let attacker = real(9);
    let own = PublicKey::from_bytes(&name_of(&attacker)).expect("a key");
    let mut rogue = AggregatePublicKey::from_public_key(&own);
    for victim in &victims {
        let victim = PublicKey::from_bytes(&victim.to_bytes()).expect("a key");
        rogue.sub_aggregate(&AggregatePublicKey::from_public_key(&victim));
    }
    let rogue = rogue.to_public_key().to_bytes();
    let vouched = keys.bls().vouched_key(&rogue).expect("it is a point of the group");
    let forged = BlsClaim {
        statement: Say(3),
        scope: SCOPE,
        keys: keys.bls().sum_keys(victims.into_iter().chain([vouched])),
        signature: signed(&attacker, 3),
    };
    assert!(forged.verify(&keys).is_ok(), "no check of a sum can see it");
    assert_eq!(verdict(real, rogue, 9), Err(BadBls::Possession));
    assert_eq!(verdict(real, rogue, 1), Err(BadBls::Possession));
}

#[test]
fn points_outside_the_group_and_infinity_are_no_keys() {
    let mut infinity = [0; 48];
    infinity[0] = 0xc0;
    for make in SCHEMES {
        assert_eq!(verdict(make, infinity, 1), Err(BadBls::Infinity));
        assert_eq!(verdict(make, [0; 48], 1), Err(BadBls::Encoding));
    }
    let (mut outside, mut off) = (0, 0);
    for x in 0..40 {
        let mut bytes = [0; 48];
        (bytes[0], bytes[47]) = (0x80, x);
        match verdict(real, bytes, 1) {
            Err(BadBls::OutsideGroup) => outside += 1,
            Err(BadBls::NoPoint) => off += 1,
            other => assert_eq!(other, Err(BadBls::Possession)),
        }
    }
    assert!(outside > 10 && off > 10, "{outside} outside, {off} no points");
}

#[test]
fn a_key_has_one_encoding() {
    let good = name_of(&real(1));
    assert_eq!(verdict(real, good, 1), Ok(()));
    // Flags: uncompressed; infinity with a coordinate; the coordinate at the order of the field or above.
    let mut order: [u8; 48] = core::array::from_fn(|_| 0xff);
    order[0] = 0x9f;
    for bad in [with(good, |b| b[0] &= 0x7f), with(good, |b| b[0] |= 0x40), order, [0xff; 48]] {
        assert_eq!(verdict(real, bad, 1), Err(BadBls::Encoding));
    }
    // The other root is the key of -x: another point, of which this is no possession.
    assert_eq!(verdict(real, with(good, |b| b[0] ^= 0x20), 1), Err(BadBls::Possession));
}

fn with(mut bytes: [u8; 48], change: fn(&mut [u8; 48])) -> [u8; 48] {
    change(&mut bytes);
    bytes
}

#[test]
fn signatures_come_back_from_both_encodings_and_from_no_other() {
    for make in SCHEMES {
        let keys = make(1);
        let signature = signed(&keys, 5);
        let (short, long) = (signature.to_bytes(), signature.to_share());
        assert_eq!(keys.bls().signature(&short), Ok(signature));
        assert_eq!(keys.bls().share(&long), Ok(signature));
        let (mut none, mut none_long) = ([0; 96], [0; 192]);
        (none[0], none_long[0]) = (if short == long[..96] { 0x80 } else { 0xc0 }, 0x40);
        assert!(keys.bls().signature(&none).is_err() && keys.bls().share(&none_long).is_err());
        assert!(keys.bls().signature(&[0; 96]).is_err());
        let mut refused = 0;
        for bit in 0..96 * 8 {
            let mut other = short;
            other[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(keys.bls().signature(&other).is_err());
            assert_ne!(keys.bls().signature(&other), Ok(signature), "bit {bit}");
            for half in [0, 96] {
                let mut other = long;
                other[half + bit / 8] ^= 1 << (bit % 8);
                assert_ne!(keys.bls().share(&other), Ok(signature), "bit {bit} after {half} bytes");
            }
        }
        assert!(refused > 200, "about half of changed signatures are no points: {refused}");
    }
}

#[test]
fn infinity_and_points_off_the_curve_are_no_signatures() {
    let keys = real(1);
    let mut short = [0; 96];
    short[0] = 0xc0;
    assert_eq!(keys.bls().signature(&short), Err(BadBls::Infinity));
    let mut long = [0; 192];
    long[0] = 0x40;
    assert_eq!(keys.bls().share(&long), Err(BadBls::Infinity));
    let mut off = signed(&keys, 1).to_share();
    off[100] ^= 1;
    assert_eq!(keys.bls().share(&off), Err(BadBls::NoPoint));
    assert_eq!(toys(1).bls().share(&off), Err(BadBls::Encoding), "no universe reads points");
}

#[test]
fn members_have_distinct_keys() {
    for make in SCHEMES {
        let key = |name| make(name).bls_public().expect("a key");
        assert!(BlsMembers::new((0..4).map(key).collect()).is_some());
        assert!(BlsMembers::new([0, 1, 2, 0].map(key).to_vec()).is_none(), "one key for two members");
    }
}

#[test]
fn keys_without_a_secret_sign_nothing_and_check_everything() {
    let mute = Keys::ed25519(&Seed::new([1; 32]), [3; 32]);
    assert!(mute.bls_public().is_none() && mute.sign_bls(&SCOPE, &Say(1)).is_none());
    assert!(mute.possess(&SCOPE, &Say(1)).is_none() && mute.possess_key().is_none());
    assert!(claim(real, 1..4, 1).verify(&mute).is_ok());
}

#[test]
fn suites_and_derivation_are_those_of_the_curve_library() {
    // The same through the library alone: the seed's key, the suite's signature.
    let seed = [21; 32];
    let (secret, keys) = (BlsSecret::new(&Seed::new(seed)), Keys::ed25519(&Seed::new(seed), [0; 32]));
    let plain = min_pk::SecretKey::key_gen(&seed, &[]).expect("32 bytes");
    assert_eq!(secret.public().to_bytes(), plain.sk_to_pk().to_bytes());
    let keys = keys.with_bls(secret);
    let message = synod_crypto::Statement::signed_bytes(&Say(8), &SCOPE);
    assert_eq!(signed(&keys, 8).to_bytes(), plain.sign(&message, SIGNING, &[]).to_bytes());
    let key = plain.sk_to_pk().to_bytes();
    assert_eq!(keys.possess_key(), Some(plain.sign(&key, POSSESSION, &[]).to_bytes()));
    assert_eq!(AggregatePublicKey::from(blst_p1::default()).to_public_key().to_bytes()[0], 0xc0);
}

/// What `vouched_keys` says, as points, beside what the library says of each alone.
fn both(keys: &Keys, bytes: &[[u8; 48]]) -> [Vec<Result<[u8; 48], BadBls>>; 2] {
    let many = keys.vouched_keys(bytes).into_iter().map(|key| key.map(|key| key.key().to_bytes())).collect();
    let bls = keys.bls();
    [many, bytes.iter().map(|bytes| bls.vouched_key(bytes).map(|key| key.to_bytes())).collect()]
}

/// Encodings of points of the curve outside the group.
fn outsiders(count: usize) -> Vec<[u8; 48]> {
    let keys = real(1);
    let encoding = |x: u16| {
        let mut bytes = [0; 48];
        bytes[0] = 0x80 | if x.is_multiple_of(3) { 0x20 } else { 0 };
        bytes[46..].copy_from_slice(&x.to_be_bytes());
        bytes
    };
    let outside = |bytes: &[u8; 48]| keys.bls().vouched_key(bytes) == Err(BadBls::OutsideGroup);
    (1..).map(encoding).filter(outside).take(count).collect()
}

#[test]
fn keys_read_together_are_judged_as_each_alone() {
    let family = BenchFamily::new(&Seed::new([8; 32])).keys(0, 2_100);
    let genuine: Vec<[u8; 48]> = family.iter().map(BlsPublicKey::to_bytes).collect();
    let (keys, mut from) = (real(0), Drawn::new(9));
    for count in [0, 1, 8, 1_023, 1_024, 1_031, 2_100] {
        let [many, alone] = both(&keys, &genuine[..count]);
        assert_eq!(many, alone, "{count} keys");
        assert!(many.iter().all(Result::is_ok));
    }
    // Encodings that nobody's key has, among genuine ones.
    let broken: [fn(&mut [u8; 48]); 5] =
        [|b| b[0] &= 0x7f, |b| b[0] |= 0x40, |b| *b = [0xff; 48], |b| b[20] ^= 4, |b| b[0] ^= 0x20];
    let mut mixed = genuine.clone();
    for _ in 0..40 {
        let at = usize::try_from(from.below(2_100)).expect("small");
        broken[usize::try_from(from.below(5)).expect("small")](&mut mixed[at]);
    }
    let [many, alone] = both(&keys, &mixed);
    assert!(many == alone && many.iter().filter(|one| one.is_err()).count() > 10);
    let toys = toys(0);
    let [many, alone] = both(&toys, &genuine);
    assert_eq!(many, alone, "in a universe too");
}

#[test]
fn one_point_outside_the_group_is_found_among_thousands() {
    let family = BenchFamily::new(&Seed::new([9; 32])).keys(0, 1_100);
    let genuine: Vec<[u8; 48]> = family.iter().map(BlsPublicKey::to_bytes).collect();
    let keys = real(0);
    let outsiders = outsiders(6);
    for (place, outsider) in [0, 7, 550, 1_098, 1_099].into_iter().zip(&outsiders) {
        let mut bytes = genuine.clone();
        bytes[place] = *outsider;
        let verdicts = keys.vouched_keys(&bytes);
        let refused: Vec<usize> = (0..1_100).filter(|at| verdicts[*at].is_err()).collect();
        assert_eq!((refused, verdicts[place].err()), (vec![place], Some(BadBls::OutsideGroup)));
    }
    // A point and its negation, which add up to a member of the group: whoever has both drawn sees nothing.
    let mut bytes = genuine;
    bytes[400] = outsiders[5];
    bytes[401] = with(outsiders[5], |b| b[0] ^= 0x20);
    let verdicts = keys.vouched_keys(&bytes);
    let refused: Vec<usize> = (0..1_100).filter(|at| verdicts[*at].is_err()).collect();
    assert_eq!(refused, [400, 401]);
}
