//! Keys as books of many keep them, and how servers add them up.
//!
//! A [`StoredKey`] is in the form that the vectors of `synod_simd` read, so a sum over a book copies nothing: the ids of a batch
//! become references, and the adder asks for the memory of a key while it works on those before.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use blst::blst_p1_affine;
use blst::min_pk::{AggregatePublicKey, PublicKey};
use synod_simd::{Adder, PackedKey, Path};

use super::numbers;
use super::points::{BlsPublicKey, KeySum};
use super::scheme::Bls;
use crate::Keys;

/// Fewest keys that are added in vectors; below it the inversions of a tree would be most of the work.
const VECTORS_MIN: usize = 256;

/// A [`BlsPublicKey`] in the form that sums of many read. 96 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct StoredKey(PackedKey);

impl StoredKey {
    /// Holds the place of a key that is not there. It must not be added.
    pub const ABSENT: Self = Self(PackedKey([0; 12]));

    /// A key that was found to be one, by whoever calls this.
    pub(super) const fn of(key: PackedKey) -> Self {
        Self(key)
    }

    /// The key in the curve library's form: what the reference path adds.
    #[must_use]
    pub fn key(&self) -> BlsPublicKey {
        let stored = key_of(&self.0.0);
        // A toy is kept as it is.
        if numbers::of_key(&stored.0).is_some() { stored } else { key_of(&self.0.to_library()) }
    }
}

impl From<&BlsPublicKey> for StoredKey {
    fn from(key: &BlsPublicKey) -> Self {
        let point: &blst_p1_affine = (&key.0).into();
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (point.x.l, point.y.l);
        let words = [a, b, c, d, e, f, g, h, i, j, k, l];
        Self(if numbers::of_key(&key.0).is_some() { PackedKey(words) } else { PackedKey::of_library(&words) })
    }
}

impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key().fmt(f)
    }
}

fn key_of(words: &[u64; 12]) -> BlsPublicKey {
    let mut point = blst_p1_affine::default();
    let (x, y) = words.split_at(6);
    point.x.l.copy_from_slice(x);
    point.y.l.copy_from_slice(y);
    BlsPublicKey(PublicKey::from(point))
}

/// Where stored keys lie, by the ids of their owners.
pub trait KeySource {
    /// The key of an id; nothing for an id that has none. It should not read the key: sums do that later, many at a time.
    fn stored(&self, id: u32) -> Option<&StoredKey>;
}

impl KeySource for [StoredKey] {
    fn stored(&self, id: u32) -> Option<&StoredKey> {
        self.get(usize::try_from(id).ok()?)
    }
}

/// Whether vectors may add keys in this process: until their sum was found wrong, or the operator does not want them.
pub(crate) struct Vectors(AtomicBool);

impl Vectors {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(true))
    }
}

thread_local! {
    /// What added keys on this thread before: its 2.5 MiB are used again, for memory that is new to a process costs more than
    /// what is done in it.
    static SPARE: Cell<Option<Adder>> = const { Cell::new(None) };
}

/// Adds stored keys, sum after sum, with memory that the thread keeps.
pub struct KeyAdder<'a> {
    bls: Bls<'a>,
    pub(super) vectors: Option<Adder>,
}

impl KeyAdder<'_> {
    /// Whether it adds in vectors; else one key after the other.
    #[must_use]
    pub const fn is_vector(&self) -> bool {
        self.vectors.is_some()
    }

    /// The sum of the keys of `ids`; nothing when one has none. No refusal rests on this sum:
    /// [`BlsClaim::reconsider`](super::BlsClaim::reconsider).
    pub fn sum<S: KeySource + ?Sized>(&mut self, source: &S, ids: &[u32]) -> Option<KeySum> {
        let mut keys: Vec<&PackedKey> = Vec::with_capacity(ids.len());
        for id in ids {
            keys.push(&source.stored(*id)?.0);
        }
        Some(match &mut self.vectors {
            // What is no point counts as infinity, under which nothing holds, so that the reference path decides.
            Some(adder) if keys.len() >= VECTORS_MIN => {
                in_vectors(&self.bls, adder, &keys).unwrap_or_else(|| self.bls.sum_keys([]))
            }
            Some(_) | None => self.bls.sum_keys(keys.into_iter().map(|key| StoredKey(*key).key())),
        })
    }
}

impl Drop for KeyAdder<'_> {
    fn drop(&mut self) {
        if let Some(adder) = self.vectors.take() {
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(adder)));
        }
    }
}

/// Adds keys of the curve in vectors. Nothing for a sum that is no point of the curve, which can only come from a fault of the
/// kernel.
pub(super) fn in_vectors(bls: &Bls<'_>, adder: &mut Adder, keys: &[&PackedKey]) -> Option<KeySum> {
    // Vectors take eight at a time; the curve library adds the others faster one by one.
    let (whole, rest) = keys.split_at(keys.len() / 8 * 8);
    let mut sum = bls.sum_keys_one_by_one(rest.iter().map(|key| StoredKey(**key).key()));
    match adder.sum(whole) {
        synod_simd::Sum::Infinity => {}
        synod_simd::Sum::Affine(bytes) => {
            let key = PublicKey::deserialize(&bytes).ok()?;
            sum.add(&KeySum::of_point(AggregatePublicKey::from_public_key(&key)));
        }
    }
    Some(sum)
}

impl Keys {
    /// What adds stored keys up: by vectors where the processor has them, nobody distrusts them and keys are of the curve.
    #[must_use]
    pub fn key_adder(&self) -> KeyAdder<'_> {
        let bls = self.bls();
        let spare = || SPARE.with(Cell::take).unwrap_or_default();
        let adder = (self.trusts_vectors() && bls.is_of_curve()).then(spare);
        KeyAdder { bls, vectors: adder.filter(|adder| adder.path() == Path::Avx512) }
    }

    /// Whether vectors may add keys, where the processor has them.
    #[must_use]
    pub fn trusts_vectors(&self) -> bool {
        self.vectors().0.load(Ordering::Relaxed)
    }

    /// Has no key added by vectors any more: their sum was not the reference's, or the operator does not want them.
    pub fn distrust_vectors(&self) {
        self.vectors().0.store(false, Ordering::Relaxed);
    }
}
