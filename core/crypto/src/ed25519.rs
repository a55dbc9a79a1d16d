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
//! *Paths.* Sixteen square roots and eight sums side by side where the processor has the instructions ([`synod_simd::Edwards`]) and
//! nobody distrusts them; the curve library elsewhere. Keys that were read on one path are read anew on the other.
//!
//! [`verify_all`](crate::verify_all) goes the first way too, from some signatures on: it keeps no keys.
//!
//! *Bounds.* Some 500 bytes per signature while a batch is under way.

use core::fmt;

use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity, VartimeMultiscalarMul};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha512};
use synod_simd::Edwards;

use crate::keys::Signed;
use crate::{Claim, Keys, PublicKey, Statement, Verified};

/// A key and the point that it is: what [`verify_all_read`] found out once and need not find out again.
#[derive(Clone, Copy)]
pub struct ReadKey {
    key: PublicKey,
    point: Point,
}

/// A point as a path has it.
#[derive(Clone, Copy)]
enum Point {
    /// The simulator's keys are none.
    Toy,
    Library(EdwardsPoint),
    Vector(synod_simd::EdwardsPoint),
}

impl ReadKey {
    /// Of a key that is no point of the curve: the simulator's.
    pub(crate) const fn toy(key: PublicKey) -> Self {
        Self { key, point: Point::Toy }
    }

    /// Whose it is.
    #[must_use]
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }
}

impl fmt::Debug for ReadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadKey({:?})", self.key)
    }
}

/// How points are read and added.
trait Curve {
    type Point: Copy;
    /// The points of encodings, in order.
    fn read(&self, encodings: &[[u8; 32]]) -> Vec<Option<Self::Point>>;
    /// The point, if it was read on this path.
    fn known(point: &Point) -> Option<Self::Point>;
    /// The point as a [`ReadKey`] keeps it.
    fn keep(point: Self::Point) -> Point;
    /// Whether eight times the sum of multiples is the identity.
    fn vanishes(&self, points: &[&Self::Point], numbers: &[Scalar]) -> bool;
}

/// The curve library.
struct Library;

impl Curve for Library {
    type Point = EdwardsPoint;

    fn read(&self, encodings: &[[u8; 32]]) -> Vec<Option<EdwardsPoint>> {
        encodings.iter().map(|encoding| CompressedEdwardsY(*encoding).decompress()).collect()
    }

    fn known(point: &Point) -> Option<EdwardsPoint> {
        if let Point::Library(point) = point { Some(*point) } else { None }
    }

    fn keep(point: EdwardsPoint) -> Point {
        Point::Library(point)
    }

    fn vanishes(&self, points: &[&EdwardsPoint], numbers: &[Scalar]) -> bool {
        let sum = EdwardsPoint::vartime_multiscalar_mul(numbers, points.iter().copied());
        sum.mul_by_cofactor().is_identity()
    }
}

impl Curve for Edwards {
    type Point = synod_simd::EdwardsPoint;

    fn read(&self, encodings: &[[u8; 32]]) -> Vec<Option<Self::Point>> {
        Self::read(self, encodings)
    }

    fn known(point: &Point) -> Option<Self::Point> {
        if let Point::Vector(point) = point { Some(*point) } else { None }
    }

    fn keep(point: Self::Point) -> Point {
        Point::Vector(point)
    }

    fn vanishes(&self, points: &[&Self::Point], numbers: &[Scalar]) -> bool {
        let numbers: Vec<[u8; 32]> = numbers.iter().map(Scalar::to_bytes).collect();
        Self::vanishes(self, points, &numbers)
    }
}

/// A signature whose parts were read.
struct Read<'a, P> {
    at: usize,
    signed: &'a Signed<'a>,
    key: P,
    nonce: P,
    response: Scalar,
    challenge: Scalar,
}

/// A batch under way.
struct Batch<'a, C: Curve> {
    curve: C,
    base: C::Point,
    read: Vec<Read<'a, C::Point>>,
    secret: &'a [u8; 32],
}

/// The two halves of a signature.
fn halves(signed: &Signed<'_>) -> ([u8; 32], [u8; 32]) {
    let (nonce, response) = signed.signature.0.split_at(32);
    (nonce.first_chunk().copied().unwrap_or_default(), response.first_chunk().copied().unwrap_or_default())
}

impl<'a, C: Curve> Batch<'a, C> {
    /// Reads what was not read; none without the base point.
    fn new(
        curve: C,
        signed: &'a [Signed<'a>],
        known: &[Option<ReadKey>],
        secret: &'a [u8; 32],
    ) -> Option<Self> {
        let known = |at: usize, key: &PublicKey| -> Option<C::Point> {
            let known = known.get(at)?.as_ref()?;
            C::known(&known.point).filter(|_| known.key == *key)
        };
        let mut encodings = vec![ED25519_BASEPOINT_COMPRESSED.to_bytes()];
        encodings.extend(signed.iter().map(|one| halves(one).0));
        let unknown = signed.iter().enumerate().filter(|(at, one)| known(*at, &one.key).is_none());
        encodings.extend(unknown.map(|(_, one)| one.key.0));
        let mut points = curve.read(&encodings).into_iter();
        let base = points.next()??;
        let nonces: Vec<Option<C::Point>> = points.by_ref().take(signed.len()).collect();
        let mut read = Vec::with_capacity(signed.len());
        for ((at, one), nonce) in signed.iter().enumerate().zip(nonces) {
            // One of those that were read, in their order, if it was not known.
            let key = known(at, &one.key).or_else(|| points.next().flatten());
            let (own, response) = halves(one);
            let response: Option<Scalar> = Scalar::from_canonical_bytes(response).into();
            let (Some(key), Some(nonce), Some(response)) = (key, nonce, response) else { continue };
            let hash = Sha512::new().chain_update(own).chain_update(one.key.0).chain_update(one.message);
            let challenge = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
            read.push(Read { at, signed: one, key, nonce, response, challenge });
        }
        Some(Self { curve, base, read, secret })
    }

    /// Whether all of `part` hold, with weights drawn from the secret and everything in it.
    fn holds(&self, part: &[Read<'_, C::Point>]) -> bool {
        let mut transcript = blake3::Hasher::new_keyed(self.secret);
        for Read { signed, .. } in part {
            transcript.update(&signed.key.0).update(&signed.signature.0).update(signed.message);
        }
        let mut rng = ChaCha8Rng::from_seed(*transcript.finalize().as_bytes());
        let mut numbers = Vec::with_capacity(2 * part.len() + 1);
        let mut weights = Vec::with_capacity(part.len());
        numbers.push(Scalar::ZERO);
        let mut of_base = Scalar::ZERO;
        for one in part {
            let mut weight = [0; 16];
            rng.fill_bytes(&mut weight);
            let weight = Scalar::from(u128::from_le_bytes(weight));
            of_base -= weight * one.response;
            numbers.push(weight * one.challenge);
            weights.push(weight);
        }
        numbers[0] = of_base;
        numbers.extend(weights);
        let mut points = Vec::with_capacity(2 * part.len() + 1);
        points.push(&self.base);
        points.extend(part.iter().map(|one| &one.key));
        points.extend(part.iter().map(|one| &one.nonce));
        self.curve.vanishes(&points, &numbers)
    }

    /// The verdicts on what could be read, given to `say` by their places; with the point of each key that holds.
    fn judge(&self, alone: impl Fn(&Signed<'_>) -> bool, mut say: impl FnMut(usize, bool, Point)) {
        // Halves are examined from a work list: its length is at most the logarithm of the batch.
        let mut work = vec![self.read.as_slice()];
        while let Some(part) = work.pop() {
            let good = match part {
                [] => continue,
                [one] => alone(one.signed),
                many => self.holds(many),
            };
            if good || part.len() == 1 {
                part.iter().for_each(|one| say(one.at, good, C::keep(one.key)));
            } else {
                let (front, back) = part.split_at(part.len() / 2);
                work.extend([front, back]);
            }
        }
    }
}

/// Fewest signatures that are checked in vectors though none of their keys is to be kept: putting the sums of all places together
/// costs as much as some signatures.
const VECTORS_MIN: usize = 16;

/// Whether so many signatures are checked faster in vectors.
pub(crate) fn in_vectors(count: usize, trusts_vectors: bool) -> bool {
    count >= VECTORS_MIN && trusts_vectors && Edwards::new().path() == synod_simd::Path::Avx512
}

/// Which of `signed` hold, and of those the keys that were not `known`.
pub(crate) fn check_each(
    signed: &[Signed<'_>],
    known: &[Option<ReadKey>],
    keys: (&[u8; 32], bool),
    alone: impl Fn(&Signed<'_>) -> bool,
) -> Vec<(bool, Option<ReadKey>)> {
    let (secret, trusts_vectors) = keys;
    let edwards = Edwards::new();
    let in_vectors = trusts_vectors && edwards.path() == synod_simd::Path::Avx512;
    let mut verdicts: Vec<Option<(bool, Option<ReadKey>)>> = vec![None; signed.len()];
    let say = |at: usize, good: bool, point: Point| {
        let Some(one) = signed.get(at) else { return };
        let old = known.get(at).and_then(Option::as_ref).filter(|known| known.key == one.key);
        let is_new =
            old.is_none_or(|old| core::mem::discriminant(&old.point) != core::mem::discriminant(&point));
        verdicts[at] = Some((good, (good && is_new).then_some(ReadKey { key: one.key, point })));
    };
    if in_vectors {
        if let Some(batch) = Batch::new(edwards, signed, known, secret) {
            batch.judge(&alone, say);
        }
    } else if let Some(batch) = Batch::new(Library, signed, known, secret) {
        batch.judge(&alone, say);
    }
    // What could not be read is for the other library.
    let judged = |(one, verdict): (&Signed<'_>, Option<_>)| verdict.unwrap_or_else(|| (alone(one), None));
    signed.iter().zip(verdicts).map(judged).collect()
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
