//! Reading the keys of a directory, thousands at a time.
//!
//! Alone a key costs a square root and a check of its group by the curve library, 40 to 50 us. Of many keys the roots are
//! taken in vectors, and their group is checked together: of 64 subsets, drawn by the secret of the process and all the keys, the sums
//! are checked.
//!
//! *Why it is sound.* Let a key have a part outside the group. Whatever the others are, a subset's sum is in the group with the key for at
//! most one of the two ways to draw it, so each of the 64 subsets lets it pass with a chance of at most a half: all do with a
//! chance of 2^-64 at most, as in batches of signatures.
//!
//! *What is refused.* Nothing, by a vector or a sum: keys that the vectors do not read, and all of a batch one of whose sums is
//! outside the group, are judged one by one by the library.

use synod_simd::{Adder, PackedKey};

use super::points::KeySum;
use super::registration::BadBls;
use super::scheme::Bls;
use super::stored::{StoredKey, in_vectors};
use crate::Keys;

/// Fewest keys whose group is checked together: below it 64 checks of sums, and the sums, are as much work.
const TOGETHER_MIN: usize = 1_024;
/// Bits of a draw: 16 groups of keys, out of whose sums those of four subsets are made.
const DRAW_BITS: usize = 4;
/// Draws: 64 subsets in all.
const DRAWS: usize = 16;

impl Keys {
    /// Reads keys that somebody trusted vouches for, as [`Bls::vouched_key`] does, in order; 8 us each where there are thousands and
    /// the processor has vectors.
    #[must_use]
    pub fn vouched_keys(&self, bytes: &[[u8; 48]]) -> Vec<Result<StoredKey, BadBls>> {
        let mut adder = self.key_adder();
        let bls = self.bls();
        let alone = |bytes: &[u8; 48]| bls.vouched_key(bytes).map(|key| StoredKey::from(&key));
        let Some(vectors) = adder.vectors.as_mut().filter(|_| bytes.len() >= TOGETHER_MIN) else {
            return bytes.iter().map(alone).collect();
        };
        let read = vectors.read(bytes);
        let found: Vec<&PackedKey> = read.iter().flatten().collect();
        if found.len() < TOGETHER_MIN || !all_in_group(&bls, vectors, bytes, &found) {
            return bytes.iter().map(alone).collect();
        }
        let judged = |(bytes, key): (&[u8; 48], Option<PackedKey>)| {
            key.map_or_else(|| alone(bytes), |key| Ok(StoredKey::of(key)))
        };
        bytes.iter().zip(read).map(judged).collect()
    }
}

/// Whether the sums of all subsets are in the group. The draw depends on every byte of the batch and on the secret.
fn all_in_group(bls: &Bls<'_>, adder: &mut Adder, bytes: &[[u8; 48]], keys: &[&PackedKey]) -> bool {
    let mut transcript = blake3::Hasher::new_keyed(bls.batch_secret());
    transcript.update(b"groups of keys").update(bytes.as_flattened());
    let mut drawn = transcript.finalize_xof();
    let mut draw = vec![0; keys.len()];
    let mut groups: [Vec<&PackedKey>; 1 << DRAW_BITS] = Default::default();
    (0..DRAWS).all(|_| {
        drawn.fill(&mut draw);
        groups.iter_mut().for_each(Vec::clear);
        for (key, byte) in keys.iter().zip(&draw) {
            groups[usize::from(byte & 0xf)].push(key);
        }
        let sums: Option<Vec<KeySum>> = groups.iter().map(|group| in_vectors(bls, adder, group)).collect();
        let Some(sums) = sums else { return false };
        (0..DRAW_BITS).all(|bit| {
            let chosen = sums.iter().enumerate().filter(|(group, _)| group >> bit & 1 == 1);
            let mut sum = bls.sum_keys([]);
            chosen.for_each(|(_, of_group)| sum.add(of_group));
            sum.is_in_group()
        })
    })
}
