//! Keyed BLAKE3: hashes within a domain that a cluster names, and tags of links.
//!
//! A protocol that hashes millions of short inputs cannot afford the domain as a prefix of each; it derives a key per
//! domain once. [`HashKey::hash_many`] hashes equal-length inputs behind one function, so that a kernel which works on
//! many at once can stand in for its loop without another line changing.

use core::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use synod_simd::{BLOCK, Hasher, Path};

use crate::Hash;

/// Inputs from which sixteen side by side take less time than one after the other.
const SIDE_BY_SIDE_FROM: usize = 4;

/// Bytes below which parts are put together before they are hashed.
const SHORT: usize = 128;

/// A BLAKE3 key for one purpose. Zeroised on drop and never printed, for some of them are secret.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct HashKey([u8; 32]);

impl HashKey {
    /// Derives the key of `context`, a name that no other use of hashing shares, from `material`.
    #[must_use]
    pub fn derive(context: &'static str, material: &[u8]) -> Self {
        Self(blake3::derive_key(context, material))
    }

    /// The digest of `input`.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> Hash {
        Hash(*blake3::keyed_hash(&self.0, input).as_bytes())
    }

    /// The digest of the concatenation of `parts`. The caller sees to it that the parts can be told apart.
    #[must_use]
    pub fn hash_parts(&self, parts: &[&[u8]]) -> Hash {
        Hash(*self.over(parts).as_bytes())
    }

    /// Appends the 32-byte digest of each input of `size` bytes, `inputs` holding them one after another.
    ///
    /// # Panics
    /// When `size` is 0 or `inputs` is no multiple of it: the caller laid the inputs out.
    pub fn hash_many(&self, inputs: &[u8], size: usize, out: &mut Vec<u8>) {
        let each = inputs.chunks_exact(size);
        assert!(each.remainder().is_empty(), "inputs of equal length");
        let hasher = Hasher::new();
        if size <= BLOCK && each.len() >= SIDE_BY_SIDE_FROM && hasher.path() == Path::Avx512 {
            return hasher.keyed(&self.0, inputs, size, out);
        }
        out.reserve(each.len().saturating_mul(32));
        for input in each {
            out.extend_from_slice(blake3::keyed_hash(&self.0, input).as_bytes());
        }
    }

    /// The same for inputs that are laid out in blocks, each of `size` bytes and then zeros: nothing is copied on their way.
    ///
    /// # Panics
    /// When `size` is not 1 to 64.
    pub fn hash_blocks(&self, blocks: &[[u8; BLOCK]], size: usize, out: &mut Vec<u8>) {
        assert!((1..=BLOCK).contains(&size), "inputs of one block");
        let hasher = Hasher::new();
        if blocks.len() >= SIDE_BY_SIDE_FROM && hasher.path() == Path::Avx512 {
            return hasher.keyed_blocks(&self.0, blocks, size, out);
        }
        out.reserve(blocks.len().saturating_mul(32));
        for input in blocks.iter().filter_map(|block| block.get(..size)) {
            out.extend_from_slice(blake3::keyed_hash(&self.0, input).as_bytes());
        }
    }

    /// A tag of 16 bytes over the concatenation of `parts`.
    #[must_use]
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 16] {
        self.over(parts).as_bytes().first_chunk::<16>().copied().unwrap_or_default()
    }

    /// Whether `tag` is the tag of `parts`; in constant time.
    #[must_use]
    pub fn tagged(&self, parts: &[&[u8]], tag: &[u8; 16]) -> bool {
        bool::from(self.tag(parts).ct_eq(tag))
    }

    fn over(&self, parts: &[&[u8]]) -> blake3::Hash {
        // What is short is put together first: an update each costs more.
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut short = [0; SHORT];
        if let Some(short) = short.get_mut(..length) {
            let mut rest = &mut *short;
            for part in parts {
                let (own, after) = core::mem::take(&mut rest).split_at_mut(part.len());
                own.copy_from_slice(part);
                rest = after;
            }
            return blake3::keyed_hash(&self.0, short);
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}

#[cfg(test)]
mod tests {
    use super::HashKey;

    #[test]
    fn many_at_once_are_the_same_as_one_by_one() {
        let key = HashKey::derive("synod test a", b"cluster");
        let inputs: Vec<u8> = (0..=255).cycle().take(148 * 37).collect();
        for size in [1, 13, 52, 64, 65, 148] {
            for count in [0, 1, 3, 4, 37] {
                let (some, mut many) = (&inputs[..(size * count).min(inputs.len() / size * size)], vec![7]);
                key.hash_many(some, size, &mut many);
                let single: Vec<u8> = some.chunks(size).flat_map(|one| key.hash(one).0).collect();
                assert_eq!(many.split_first(), Some((&7, single.as_slice())), "{count} of {size}");
                if size <= 64 {
                    let mut blocks = vec![[0; 64]; some.len() / size];
                    for (block, input) in blocks.iter_mut().zip(some.chunks(size)) {
                        block[..size].copy_from_slice(input);
                    }
                    let mut out = Vec::new();
                    key.hash_blocks(&blocks, size, &mut out);
                    assert_eq!(out, single, "{count} blocks of {size}");
                }
            }
        }
        assert_eq!(key.hash_parts(&[b"ab", b"", b"c"]), key.hash(b"abc"));
        for split in [0, 1, 64, 128, 129, 500] {
            for length in [split, 127, 128, 129, 700] {
                let (a, b) = inputs[..length.max(split)].split_at(split);
                assert_eq!(key.hash_parts(&[a, b]), key.hash(&inputs[..length.max(split)]));
            }
        }
    }

    #[test]
    fn keys_differ_by_context_and_material_and_tags_by_their_bytes() {
        let key = HashKey::derive("synod test a", b"cluster");
        assert_ne!(key.hash(b"x"), HashKey::derive("synod test b", b"cluster").hash(b"x"));
        assert_ne!(key.hash(b"x"), HashKey::derive("synod test a", b"another").hash(b"x"));
        let tag = key.tag(&[b"x"]);
        assert!(key.tagged(&[b"x"], &tag) && !key.tagged(&[b"y"], &tag));
        assert_eq!(format!("{key:?}"), "HashKey", "a key is not printed");
    }
}
