//! BLAKE3 of inputs of different lengths, each under a key of its own or under none: one in each of sixteen lanes.
//!
//! A step compresses the next block of every lane. A lane whose input ended takes the next one, so all of them work until
//! no input waits. Whole blocks are read where they are; only the last one of an input, which zeros fill up, is copied.
//!
//! Inputs are one chunk of BLAKE3 at most, so there is no tree over them.

use crate::hash::{BLOCK, DIGEST, FIRST, INITIAL, KEYED, LAST, Row, WIDE, mix, words};

/// Longest input of [`Hasher::digest_each`](crate::Hasher::digest_each): one chunk.
pub const CHUNK: usize = 1_024;

/// What is hashed, under which key, and where to the digest goes.
pub struct Input<'a> {
    /// The key; none for plain BLAKE3.
    pub key: Option<&'a [u8; 32]>,
    /// At most [`CHUNK`] bytes.
    pub bytes: &'a [u8],
    /// The digest, when all were hashed.
    pub digest: &'a mut [u8; DIGEST],
}

/// Where sixteen inputs are.
pub(crate) struct Chains {
    /// Row `w` holds word `w` of every chaining value.
    chain: [[u32; WIDE]; 8],
    sizes: [u32; WIDE],
    flags: [u32; WIDE],
}

/// Compresses a block of every lane.
#[inline(always)]
pub(crate) fn step<R: Row>(chains: &mut Chains, blocks: &[&[u8; BLOCK]; WIDE]) {
    let m = R::spread(blocks);
    let mut chain = [R::splat(0); 8];
    for (chain, row) in chain.iter_mut().zip(&chains.chain) {
        *chain = R::load(row);
    }
    let chain = mix(&chain, &m, R::load(&chains.sizes), R::load(&chains.flags));
    for (row, chain) in chains.chain.iter_mut().zip(chain) {
        *row = chain.store();
    }
}

/// What a lane has yet to hash, and where to the digest goes.
type Lane<'a> = (&'a [u8], &'a mut [u8; DIGEST]);

impl Chains {
    /// An input begins.
    fn begin(&mut self, lane: usize, key: Option<&[u8; 32]>) {
        for (row, word) in self.chain.iter_mut().zip(key.map_or(INITIAL, words)) {
            row[lane] = word;
        }
        self.sizes[lane] = 64;
        self.flags[lane] = FIRST | if key.is_some() { KEYED } else { 0 };
    }

    /// The next block is the last of its input and has this size.
    fn end(&mut self, lane: usize, size: usize) {
        self.sizes[lane] = u32::try_from(size).unwrap_or(u32::MAX);
        self.flags[lane] |= LAST;
    }

    fn digest(&self, lane: usize) -> [u8; DIGEST] {
        let mut digest = [0; DIGEST];
        let (words, _) = digest.as_chunks_mut::<4>();
        words.iter_mut().zip(&self.chain).for_each(|(out, row)| *out = row[lane].to_le_bytes());
        digest
    }
}

/// Hashes all inputs by a kernel that does one [`step`].
pub(crate) fn hash_each<'a>(
    mut inputs: impl Iterator<Item = Input<'a>>,
    kernel: impl Fn(&mut Chains, &[&[u8; BLOCK]; WIDE]),
) {
    let mut chains = Chains { chain: [[0; WIDE]; 8], sizes: [0; WIDE], flags: [0; WIDE] };
    let mut lanes: [Option<Lane<'a>>; WIDE] = [const { None }; WIDE];
    let mut last = [[0; BLOCK]; WIDE];
    loop {
        let (mut is_done, mut ended) = (true, [false; WIDE]);
        // A lane without an input hashes zeros, which nobody reads.
        let mut blocks = [&[0; BLOCK]; WIDE];
        for (at, ((lane, block), last)) in lanes.iter_mut().zip(&mut blocks).zip(&mut last).enumerate() {
            if lane.is_none() {
                *lane = inputs.next().map(|Input { key, bytes, digest }| {
                    assert!(bytes.len() <= CHUNK, "an input of one chunk");
                    chains.begin(at, key);
                    (bytes, digest)
                });
            }
            let Some((rest, _)) = lane else { continue };
            is_done = false;
            match rest.split_first_chunk::<BLOCK>() {
                Some((whole, after)) if !after.is_empty() => (*block, *rest) = (whole, after),
                _ => {
                    let (front, zeros) = last.split_at_mut(rest.len());
                    front.copy_from_slice(rest);
                    zeros.fill(0);
                    chains.end(at, rest.len());
                    *block = last;
                    ended[at] = true;
                }
            }
        }
        if is_done {
            return;
        }
        kernel(&mut chains, &blocks);
        chains.flags.iter_mut().for_each(|flags| *flags &= !FIRST);
        for (at, lane) in lanes.iter_mut().enumerate().filter(|(at, _)| ended[*at]) {
            if let Some((_, digest)) = lane.take() {
                *digest = chains.digest(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Input};
    use crate::Hasher;
    use crate::testing::Drawn;

    /// Lengths and digests of the BLAKE3 reference (its published test vectors): bytes 0, 1, ..., 250, 0, ..., and this key.
    const KEY: &[u8; 32] = b"whats the Elvish word for friend";
    const KNOWN: [(usize, &str); 4] = [
        (0, "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"),
        (64, "ba8ced36f327700d213f120b1a207a3b8c04330528586f414d09f2f7d9ccb7e6"),
        (1_023, "c951ecdf03288d0fcc96ee3413563d8a6d3589547f2c2fb36d9786470f1b9d6e"),
        (1_024, "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"),
    ];

    fn hashed(hasher: Hasher, inputs: &[([u8; 32], &[u8])]) -> Vec<[u8; 32]> {
        let mut out = vec![[7; 32]; inputs.len()];
        let each = inputs.iter().zip(&mut out);
        hasher.digest_each(each.map(|((key, bytes), digest)| Input { key: Some(key), bytes, digest }));
        out
    }

    #[test]
    fn digests_are_those_of_the_reference_whatever_lies_beside_them() {
        let bytes: Vec<u8> = (0..=250).cycle().take(CHUNK).collect();
        let inputs: Vec<([u8; 32], &[u8])> =
            (0..5).flat_map(|_| KNOWN.map(|(size, _)| (*KEY, &bytes[..size]))).collect();
        for hasher in Hasher::all() {
            for (digest, (size, wanted)) in hashed(hasher, &inputs).iter().zip(KNOWN.iter().cycle()) {
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(&hex, wanted, "{size} bytes, {:?}", hasher.path());
            }
        }
    }

    #[test]
    fn both_paths_agree_and_every_input_has_its_own_digest() {
        let mut from = Drawn::new(21);
        let bytes: Vec<u8> = (0..CHUNK).map(|_| from.word().to_le_bytes()[0]).collect();
        for count in [0, 1, 15, 16, 17, 100] {
            let mut draw = |_| {
                let size = from.below(CHUNK + 1);
                (core::array::from_fn(|_| from.word().to_le_bytes()[0]), &bytes[CHUNK - size..])
            };
            let inputs: Vec<([u8; 32], &[u8])> = (0..count).map(&mut draw).collect();
            let plain = hashed(Hasher::portable(), &inputs);
            for hasher in Hasher::all() {
                assert_eq!(plain, hashed(hasher, &inputs), "{count} inputs, {:?}", hasher.path());
            }
            for (input, digest) in inputs.iter().zip(&plain) {
                assert_eq!(hashed(Hasher::portable(), &[*input]), [*digest], "as if it were alone");
            }
        }
    }

    #[test]
    #[should_panic(expected = "an input of one chunk")]
    fn an_input_of_two_chunks_is_the_callers_mistake() {
        hashed(Hasher::new(), &[(*KEY, &[0; CHUNK + 1])]);
    }
}
