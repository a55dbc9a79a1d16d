//! Keys and signatures for multi-signatures: what is read is a point with one encoding, and no proof holds but the true one.

use std::sync::OnceLock;

use synod_chopchop::statement::Height;
use synod_crypto::bls::{BadBls, BlsCertificate, BlsMembers, BlsSecret, Registration};
use synod_crypto::{Hash, Keys, Scope, Seed};
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::Drawn;

use super::{some_bytes, wires};
use crate::check::accept;
use crate::{Kind, Tape, Target};

wires! {
    "bls-certificate" certificate BlsCertificate<Height>;
    and Target::new("bls-key", Kind::Slow, key, keys);
    and Target::new("bls-signature", Kind::Slow, signature, signatures::<96>);
    and Target::new("bls-share", Kind::Slow, share, signatures::<192>);
    and Target::new("bls-proof", Kind::Slow, proof, changes);
}

const MEMBERS: u32 = 4;
const SCOPE: Scope = Scope { cluster: Hash([6; 32]), epoch: Epoch(1) };

fn member(id: u32) -> Keys {
    let mut seed = [5; 32];
    seed[..4].copy_from_slice(&id.to_le_bytes());
    Keys::ed25519(&Seed::new(seed), [1; 32]).with_bls(BlsSecret::new(&Seed::new(seed)))
}

/// The first bytes of the input, zeros behind them.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    out
}

/// Reads a key; no possession but its owner's registers it.
///
/// # Panics
/// When another encoding is read than is written, or a proof of something else is one of possession.
pub fn key(bytes: &[u8]) {
    let bytes = padded::<48>(bytes);
    let keys = member(0);
    let Ok(key) = keys.bls().vouched_key(&bytes) else { return };
    accept();
    assert_eq!(key.to_bytes(), bytes, "roundtrip: a key has two encodings");
    assert!(!keys.bls().sum_keys([key]).is_infinity(), "a key is infinity");
    // No input is made of this member's key.
    let foreign = member(1_000).possess_key().unwrap_or([0; 96]);
    let verdict = keys.bls().register(&[Registration::of_key(bytes, foreign)]).remove(0);
    assert_eq!(verdict, Err(BadBls::Possession), "a foreign possession registers a key");
}

/// Reads a compressed signature.
///
/// # Panics
/// When another encoding is read than is written, or both encodings do not name one point.
pub fn signature(bytes: &[u8]) {
    let bytes = padded::<96>(bytes);
    let keys = member(0);
    let Ok(signature) = keys.bls().signature(&bytes) else { return };
    accept();
    assert_eq!(signature.to_bytes(), bytes, "roundtrip: a signature has two short encodings");
    assert_eq!(keys.bls().share(&signature.to_share()), Ok(signature), "roundtrip: the long encoding");
}

/// Reads an uncompressed signature.
///
/// # Panics
/// When another encoding is read than is written, or both encodings do not name one point.
pub fn share(bytes: &[u8]) {
    let bytes = padded::<192>(bytes);
    let keys = member(0);
    let Ok(signature) = keys.bls().share(&bytes) else { return };
    accept();
    assert_eq!(signature.to_share(), bytes, "roundtrip: a signature has two long encodings");
    assert_eq!(keys.bls().signature(&signature.to_bytes()), Ok(signature), "roundtrip: the short encoding");
}

/// A certificate of all members over height 1, and the members.
fn certified() -> &'static (BlsCertificate<Height>, BlsMembers) {
    static MADE: OnceLock<(BlsCertificate<Height>, BlsMembers)> = OnceLock::new();
    MADE.get_or_init(|| {
        let (checker, all) = (member(0), (0..MEMBERS).map(member));
        let public: Vec<_> = all.clone().filter_map(|keys| keys.bls_public()).collect();
        let shares = all.filter_map(|keys| keys.sign_bls(&SCOPE, &Height { height: 1 }));
        let aggregate = checker.bls().sum_signatures(shares).to_signature().to_bytes();
        let members = BlsMembers::new(public).expect("distinct seeds give distinct keys");
        (
            BlsCertificate { statement: Height { height: 1 }, signers: NodeSet::first(MEMBERS), aggregate },
            members,
        )
    })
}

/// Changes a good certificate, by pairs of bytes: its statement, its signers, its signature.
///
/// # Panics
/// When a changed certificate holds, or the true one does not.
pub fn proof(bytes: &[u8]) {
    let (good, members) = certified();
    let (mut tape, mut claimed) = (Tape::new(bytes), good.clone());
    while !tape.is_over() {
        match tape.byte() % 8 {
            0 => claimed.statement.height = u64::from(tape.byte()),
            1 => drop(claimed.signers.remove(NodeId(u32::from(tape.byte() % 6)))),
            2 => drop(claimed.signers.insert(NodeId(u32::from(tape.byte() % 6)))),
            _ => {
                let bit = tape.below(96 * 8);
                claimed.aggregate[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    let verdict = claimed.clone().verify(SCOPE, members, |set| set.count() > 1, &member(0));
    if verdict.is_ok() {
        accept();
    }
    assert_eq!(verdict.is_ok(), claimed == *good, "a certificate is malleable: {claimed:?}");
}

/// Points of the curve, or something near one.
fn keys(from: &mut Drawn) -> Vec<u8> {
    let bytes = member(u32::from(from.next().to_le_bytes()[0])).bls_public().map(|key| key.to_bytes());
    near(from, bytes.unwrap_or([0; 48]).to_vec())
}

fn signatures<const N: usize>(from: &mut Drawn) -> Vec<u8> {
    let signed = member(1).sign_bls(&SCOPE, &Height { height: from.below(256) });
    let bytes = signed.map(|one| if N == 96 { one.to_bytes().to_vec() } else { one.to_share().to_vec() });
    near(from, bytes.unwrap_or_default())
}

/// The same bytes, or with one changed.
fn near(from: &mut Drawn, mut bytes: Vec<u8>) -> Vec<u8> {
    if from.below(4) == 0 {
        let at = usize::try_from(from.below(bytes.len() as u64)).unwrap_or(0);
        bytes[at] ^= from.next().to_le_bytes()[0];
    }
    bytes
}

fn changes(from: &mut Drawn) -> Vec<u8> {
    if from.below(3) == 0 { Vec::new() } else { some_bytes(from, 12) }
}
