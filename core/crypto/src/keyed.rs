//! Keyed BLAKE3: hashes within a domain that a cluster names, and tags of links.
//!
//! A protocol that hashes millions of short inputs cannot afford the domain as a prefix of each; it derives a key per
//! domain once. [`HashKey::hash_many`] hashes equal-length inputs behind one function, so that a kernel which works on
//! many at once can stand in for its loop without another line changing. [`HashKey::tag_each`] and [`HashKey::tagged_each`]
//! do the same for tags of messages of different lengths, each under the key of its own link.

use core::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use synod_simd::{BLOCK, CHUNK, Hasher, Input};

use crate::Hash;

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
        if size <= BLOCK && hasher.blocks_per_step().is_some_and(|few| each.len() > few) {
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
        if hasher.blocks_per_step().is_some_and(|few| blocks.len() > few) {
            return hasher.keyed_blocks(&self.0, blocks, size, out);
        }
        out.reserve(blocks.len().saturating_mul(32));
        for input in blocks.iter().filter_map(|block| block.get(..size)) {
            out.extend_from_slice(blake3::keyed_hash(&self.0, input).as_bytes());
        }
    }

    /// The digest of each input, whatever their lengths: those that [`HashKey::hash`] gives, for less time.
    #[must_use]
    pub fn hash_each(&self, inputs: &[&[u8]]) -> Vec<Hash> {
        let each = inputs.iter().map(|input| (Some(self), *input));
        digests(each, inputs.len()).into_iter().map(Hash).collect()
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

    /// The tags of many messages, each under a key of its own: those that [`HashKey::tag`] gives, for less time.
    #[must_use]
    pub fn tag_each(messages: &[(&Self, &[u8])]) -> Vec<[u8; 16]> {
        let each = messages.iter().map(|(key, message)| (Some(*key), *message));
        digests(each, messages.len()).iter().map(front).collect()
    }

    /// Whether each tag is that of its message under its key; in constant time for each, as [`HashKey::tagged`] tells.
    #[must_use]
    pub fn tagged_each(messages: &[(&Self, &[u8], [u8; 16])]) -> Vec<bool> {
        let each = messages.iter().map(|(key, message, _)| (Some(*key), *message));
        let digests = digests(each, messages.len());
        let tags = messages.iter().map(|(_, _, tag)| tag);
        digests.iter().zip(tags).map(|(digest, tag)| bool::from(front(digest).ct_eq(tag))).collect()
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

/// A digest's first half.
fn front(digest: &[u8; 32]) -> [u8; 16] {
    digest.first_chunk::<16>().copied().unwrap_or_default()
}

/// The digests of `count` messages. Side by side, where lanes for it are there and most of them would have something to do;
/// a message of more than one chunk always alone.
pub(crate) fn digests<'a>(
    messages: impl Iterator<Item = (Option<&'a HashKey>, &'a [u8])> + Clone,
    count: usize,
) -> Vec<[u8; 32]> {
    let hasher = Hasher::new();
    let sizes = messages.clone().map(|(_, message)| message.len()).filter(|size| *size <= CHUNK);
    let blocks = sizes.map(|size| size.div_ceil(BLOCK).max(1));
    let (all, longest) = blocks.fold((0, 0), |(all, longest), one| (all + one, longest.max(one)));
    let is_wide = hasher.blocks_per_step().is_some_and(|few| all >= few * longest);
    let mut out = vec![[0; 32]; count];
    let short = |message: &[u8]| is_wide && message.len() <= CHUNK;
    if is_wide {
        let own = messages.clone().zip(&mut out).filter(|((_, message), _)| short(message));
        hasher.digest_each(own.map(|((key, bytes), digest)| Input {
            key: key.map(|key| &key.0),
            bytes,
            digest,
        }));
    }
    for ((key, message), digest) in messages.zip(&mut out).filter(|((_, message), _)| !short(message)) {
        let hash = key.map_or_else(|| blake3::hash(message), |key| blake3::keyed_hash(&key.0, message));
        *digest = *hash.as_bytes();
    }
    out
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

    /// Tags of messages of these sizes, each under another key, at once and one by one.
    fn compared(sizes: &[usize]) {
        let bytes: Vec<u8> = (0..=250).cycle().take(1_600).collect();
        let keys: Vec<HashKey> =
            (0..sizes.len()).map(|n| HashKey::derive("synod test each", &n.to_le_bytes())).collect();
        let messages: Vec<(&HashKey, &[u8])> =
            keys.iter().zip(sizes).map(|(key, size)| (key, &bytes[1_600 - size..])).collect();
        let tags = HashKey::tag_each(&messages);
        let single: Vec<[u8; 16]> = messages.iter().map(|(key, message)| key.tag(&[message])).collect();
        assert_eq!(tags, single, "{sizes:?}");
        for (at, (key, message)) in messages.iter().enumerate().take(1_300) {
            assert_eq!(blake3::keyed_hash(&key.0, message).as_bytes()[..16], tags[at], "{at}");
        }
        // One tag of another key, one bit of a tag and one of a message are found, and nothing else.
        let mut claims: Vec<_> =
            messages.iter().zip(&tags).map(|((key, of), tag)| (*key, *of, *tag)).collect();
        assert!(HashKey::tagged_each(&claims).into_iter().all(|is_good| is_good));
        let changed = [sizes.len() / 5, sizes.len() / 3, sizes.len() / 2];
        if changed[0] < changed[1] && changed[1] < changed[2] {
            claims[changed[0]].0 = &keys[changed[2]];
            claims[changed[1]].2[15] ^= 128;
            claims[changed[2]].1 = &bytes[..sizes[changed[2]] + 1];
            let good = HashKey::tagged_each(&claims);
            let bad: Vec<usize> = (0..good.len()).filter(|at| !good[*at]).collect();
            assert_eq!(bad, changed, "{sizes:?}");
        }
    }

    #[test]
    fn tags_at_once_are_those_of_each_alone_for_all_lengths_and_keys() {
        for count in [0, 1, 2, 3, 4, 15, 16, 17, 64] {
            compared(&vec![900; count]);
        }
        compared(&(0..=1_300).collect::<Vec<usize>>());
        compared(&(0..=1_300).rev().collect::<Vec<usize>>());
        // Lengths of no order, ends of blocks and chunks among them; and one long message beside short ones.
        let drawn = (0..700_usize).map(|n| n * n * 7_919 % 1_301);
        compared(&drawn.flat_map(|size| [size, size / 64 * 64, 1_024]).collect::<Vec<usize>>());
        compared(&[&[1_024][..], &[0; 20]].concat());
        compared(&[1_025; 20]);
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
