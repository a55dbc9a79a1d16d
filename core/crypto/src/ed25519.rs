//! Batches of Ed25519 over keys that were read before (Chop Chop, 8.3 Q9).
//!
//! *Why.* A batch reads two points per signature, the key and the nonce, and each costs a square root: together more than all
//! else. Whoever signs again has the same key, so a [`ReadKey`] keeps its point; only the nonce is read anew.
//!
//! *Verdicts* are those of ZIP-215, by the same equation as one check alone: eight times the weighted sum is the identity, with
//! weights of 128 bits that whoever makes signatures cannot know ([`Keys::ed25519`]). A batch that holds is good. What a batch
//! refuses is halved, and what is left alone, or has a part that cannot be read, is judged by the other library: no refusal
//! comes from here.
//!
//! *Bounds.* Some 450 bytes per signature while a batch is under way.

use core::fmt;

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity, VartimeMultiscalarMul};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha512};

use crate::keys::Signed;
use crate::{Claim, Keys, PublicKey, Statement, Verified};

/// A key and the point that it is: what [`verify_all_read`] found out once and need not find out again.
#[derive(Clone, Copy)]
pub struct ReadKey {
    key: PublicKey,
    /// None of a toy.
    point: Option<EdwardsPoint>,
}

impl ReadKey {
    /// Of a key that is no point of the curve: the simulator's.
    pub(crate) const fn toy(key: PublicKey) -> Self {
        Self { key, point: None }
    }

    /// Whose it is.
    #[must_use]
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The point of `key`, if it is this one's. Another's is never taken for it.
    fn of(&self, key: &PublicKey) -> Option<EdwardsPoint> {
        self.point.filter(|_| self.key == *key)
    }
}

impl fmt::Debug for ReadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadKey({:?})", self.key)
    }
}

/// A signature whose parts were read.
struct Read<'a> {
    at: usize,
    signed: &'a Signed<'a>,
    key: EdwardsPoint,
    nonce: EdwardsPoint,
    response: Scalar,
    challenge: Scalar,
}

impl<'a> Read<'a> {
    fn new(at: usize, signed: &'a Signed<'a>, known: Option<&ReadKey>) -> Option<Self> {
        let (nonce, response) = signed.signature.0.split_first_chunk::<32>()?;
        let response: Option<Scalar> = Scalar::from_canonical_bytes(*response.first_chunk::<32>()?).into();
        let hash = Sha512::new().chain_update(nonce).chain_update(signed.key.0).chain_update(signed.message);
        Some(Self {
            at,
            signed,
            key: match known.and_then(|known| known.of(&signed.key)) {
                Some(point) => point,
                None => CompressedEdwardsY(signed.key.0).decompress()?,
            },
            nonce: CompressedEdwardsY(*nonce).decompress()?,
            response: response?,
            challenge: Scalar::from_bytes_mod_order_wide(&hash.finalize().into()),
        })
    }
}

/// Whether all of `part` hold, with weights drawn from the secret and everything in it.
fn holds(part: &[Read<'_>], secret: &[u8; 32]) -> bool {
    let mut transcript = blake3::Hasher::new_keyed(secret);
    for Read { signed, .. } in part {
        transcript.update(&signed.key.0).update(&signed.signature.0).update(signed.message);
    }
    let mut rng = ChaCha8Rng::from_seed(*transcript.finalize().as_bytes());
    let mut of_nonces = Vec::with_capacity(part.len());
    let mut of_keys = Vec::with_capacity(part.len());
    let mut of_base = Scalar::ZERO;
    for one in part {
        let mut weight = [0; 16];
        rng.fill_bytes(&mut weight);
        let weight = Scalar::from(u128::from_le_bytes(weight));
        of_base -= weight * one.response;
        of_keys.push(weight * one.challenge);
        of_nonces.push(weight);
    }
    let numbers = core::iter::once(&of_base).chain(&of_keys).chain(&of_nonces);
    let (keys, nonces) = (part.iter().map(|one| &one.key), part.iter().map(|one| &one.nonce));
    let points = core::iter::once(&ED25519_BASEPOINT_POINT).chain(keys).chain(nonces);
    EdwardsPoint::vartime_multiscalar_mul(numbers, points).mul_by_cofactor().is_identity()
}

/// Which of `signed` hold, and of those the keys that were not `known`.
pub(crate) fn check_each(
    signed: &[Signed<'_>],
    known: &[Option<ReadKey>],
    secret: &[u8; 32],
    alone: impl Fn(&Signed<'_>) -> bool,
) -> Vec<(bool, Option<ReadKey>)> {
    let mut verdicts = vec![(false, None); signed.len()];
    let mut read = Vec::with_capacity(signed.len());
    for (at, one) in signed.iter().enumerate() {
        let known = known.get(at).and_then(Option::as_ref);
        match Read::new(at, one, known) {
            Some(parts) => read.push(parts),
            None => verdicts[at].0 = alone(one),
        }
    }
    // Halves are examined from a work list: its length is at most the logarithm of the batch.
    let mut work = vec![read.as_slice()];
    while let Some(part) = work.pop() {
        let good = match part {
            [] => continue,
            [one] => alone(one.signed),
            many => holds(many, secret),
        };
        if !good && part.len() > 1 {
            let (front, back) = part.split_at(part.len() / 2);
            work.extend([front, back]);
            continue;
        }
        for one in part {
            let is_new =
                known.get(one.at).and_then(Option::as_ref).is_none_or(|known| known.key != one.signed.key);
            let new = ReadKey { key: one.signed.key, point: Some(one.key) };
            verdicts[one.at] = (good, (good && is_new).then_some(new));
        }
    }
    verdicts
}

/// What a check over keys that may have been read says of a claim: it holds, with the key if that was not read before; or not.
pub type Checked<S> = Result<(Verified<Claim<S>>, Option<ReadKey>), Claim<S>>;

/// Checks many claims as one batch, as [`verify_all`](crate::verify_all) does and with the same verdicts, over keys that were read
/// before where there are any. A key that belongs to another claim changes nothing: it is read anew. Keys of claims that do not
/// hold are not given, so that who signs nothing displaces nobody's.
pub fn verify_all_read<S: Statement>(
    claims: Vec<(Claim<S>, Option<ReadKey>)>,
    keys: &Keys,
) -> Vec<Checked<S>> {
    let (claims, known): (Vec<Claim<S>>, Vec<Option<ReadKey>>) = claims.into_iter().unzip();
    let messages: Vec<Vec<u8>> = claims.iter().map(|c| c.statement.signed_bytes(&c.scope)).collect();
    let signed: Vec<Signed<'_>> = claims
        .iter()
        .zip(&messages)
        .map(|(c, message)| Signed { key: c.key, message, signature: c.signature })
        .collect();
    let verdicts = keys.check_each_read(&signed, &known);
    claims
        .into_iter()
        .zip(verdicts)
        .map(|(claim, (good, new))| if good { Ok((Verified::mint(claim), new)) } else { Err(claim) })
        .collect()
}
