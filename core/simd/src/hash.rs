//! Keyed BLAKE3 of many short inputs: sixteen at a time, each one block.
//!
//! An input of at most 64 bytes is one chunk of one block, so its digest is one compression. Sixteen of them run side by
//! side, word `w` of all inputs in one row. The compression is that of the BLAKE3 specification (2.2), written over rows
//! that are arrays or vectors. Longer inputs go through it block by block: see the module `each`.

/// Largest input.
pub const BLOCK: usize = 64;
/// Inputs that are hashed side by side.
pub(crate) const WIDE: usize = 16;
/// Length of a digest.
pub(crate) const DIGEST: usize = 32;
/// The chaining value that hashing without a key begins with.
pub(crate) const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
/// Set for every block under a key.
pub(crate) const KEYED: u32 = 16;
/// Set for the first block of a chunk.
pub(crate) const FIRST: u32 = 1;
/// Set for the last block of the only chunk, which is the root.
pub(crate) const LAST: u32 = 2 | 8;
/// Where each word of a round's message comes from in the round before.
const PERMUTED: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
/// Where each word of a round's message comes from in the first.
const ORDERS: [[usize; 16]; 7] = orders();

const fn orders() -> [[usize; 16]; 7] {
    let mut out = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]; 7];
    let mut at = 16;
    while at < 7 * 16 {
        out[at / 16][at % 16] = out[at / 16 - 1][PERMUTED[at % 16]];
        at += 1;
    }
    out
}

/// One word of sixteen inputs.
pub(crate) trait Row: Copy {
    /// The same word for all.
    fn splat(word: u32) -> Self;
    /// Modulo 2^32.
    fn add(self, other: Self) -> Self;
    /// Bit by bit.
    fn xor(self, other: Self) -> Self;
    /// Rotated right by `BITS`.
    fn turn<const BITS: i32>(self) -> Self;
    /// Word `i` of input `i`.
    fn load(words: &[u32; WIDE]) -> Self;
    /// What [`Row::load`] took.
    fn store(self) -> [u32; WIDE];
    /// Row `w` holds word `w` of every block.
    fn spread(blocks: &[&[u8; BLOCK]; WIDE]) -> [Self; 16];
    /// The digests whose word `w` is row `w`.
    fn gather(rows: &[Self; 8]) -> [[u8; DIGEST]; WIDE];
}

/// Sixteen words in an array.
#[derive(Clone, Copy)]
pub(crate) struct PlainRow([u32; 16]);

impl PlainRow {
    #[inline(always)]
    fn map(self, other: Self, f: impl Fn(u32, u32) -> u32) -> Self {
        let mut out = self;
        for (out, other) in out.0.iter_mut().zip(other.0) {
            *out = f(*out, other);
        }
        out
    }
}

impl Row for PlainRow {
    #[inline(always)]
    fn splat(word: u32) -> Self {
        Self([word; 16])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.map(other, u32::wrapping_add)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.map(other, |a, b| a ^ b)
    }
    #[inline(always)]
    fn turn<const BITS: i32>(self) -> Self {
        Self(self.0.map(|word| word.rotate_right(BITS.cast_unsigned())))
    }
    #[inline(always)]
    fn load(words: &[u32; WIDE]) -> Self {
        Self(*words)
    }
    #[inline(always)]
    fn store(self) -> [u32; WIDE] {
        self.0
    }
    #[inline(always)]
    fn spread(blocks: &[&[u8; BLOCK]; WIDE]) -> [Self; 16] {
        let words = blocks.map(|block| {
            let (words, _) = block.as_chunks::<4>();
            let mut out = [0; 16];
            out.iter_mut().zip(words).for_each(|(out, word)| *out = u32::from_le_bytes(*word));
            out
        });
        core::array::from_fn(|word| Self(core::array::from_fn(|input| words[input][word])))
    }
    #[inline(always)]
    fn gather(rows: &[Self; 8]) -> [[u8; DIGEST]; WIDE] {
        core::array::from_fn(|input| {
            let mut digest = [0; DIGEST];
            for (out, row) in digest.chunks_exact_mut(4).zip(rows) {
                out.copy_from_slice(&row.0[input].to_le_bytes());
            }
            digest
        })
    }
}

/// The quarter round.
#[inline(always)]
fn quarter<R: Row>(v: &mut [R; 16], at: [usize; 4], x: R, y: R) {
    let [a, b, c, d] = at;
    v[a] = v[a].add(v[b]).add(x);
    v[d] = v[d].xor(v[a]).turn::<16>();
    v[c] = v[c].add(v[d]);
    v[b] = v[b].xor(v[c]).turn::<12>();
    v[a] = v[a].add(v[b]).add(y);
    v[d] = v[d].xor(v[a]).turn::<8>();
    v[c] = v[c].add(v[d]);
    v[b] = v[b].xor(v[c]).turn::<7>();
}

/// Round `AT`: the columns, then the diagonals.
#[inline(always)]
fn round<R: Row, const AT: usize>(v: &mut [R; 16], m: &[R; 16]) {
    // No closure: what is not inlined is compiled without the instructions.
    let order = &ORDERS[AT];
    quarter(v, [0, 4, 8, 12], m[order[0]], m[order[1]]);
    quarter(v, [1, 5, 9, 13], m[order[2]], m[order[3]]);
    quarter(v, [2, 6, 10, 14], m[order[4]], m[order[5]]);
    quarter(v, [3, 7, 11, 15], m[order[6]], m[order[7]]);
    quarter(v, [0, 5, 10, 15], m[order[8]], m[order[9]]);
    quarter(v, [1, 6, 11, 12], m[order[10]], m[order[11]]);
    quarter(v, [2, 7, 8, 13], m[order[12]], m[order[13]]);
    quarter(v, [3, 4, 9, 14], m[order[14]], m[order[15]]);
}

/// The chaining values after a block of each input, of which the sizes count, in the first chunk.
#[inline(always)]
pub(crate) fn mix<R: Row>(chain: &[R; 8], m: &[R; 16], sizes: R, flags: R) -> [R; 8] {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *chain;
    let [i0, i1, i2, i3, ..] = INITIAL;
    let mut v = [
        c0,
        c1,
        c2,
        c3,
        c4,
        c5,
        c6,
        c7,
        R::splat(i0),
        R::splat(i1),
        R::splat(i2),
        R::splat(i3),
        R::splat(0),
        R::splat(0),
        sizes,
        flags,
    ];
    // Seven calls and not a loop, so that state and message stay in registers.
    round::<R, 0>(&mut v, m);
    round::<R, 1>(&mut v, m);
    round::<R, 2>(&mut v, m);
    round::<R, 3>(&mut v, m);
    round::<R, 4>(&mut v, m);
    round::<R, 5>(&mut v, m);
    round::<R, 6>(&mut v, m);
    let [a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q] = v;
    [a.xor(i), b.xor(j), c.xor(k), d.xor(l), e.xor(n), f.xor(o), g.xor(p), h.xor(q)]
}

/// Sixteen digests of blocks of which `size` bytes count; the others are zero.
#[inline(always)]
pub(crate) fn compress<R: Row>(
    key: &[u32; 8],
    blocks: &[[u8; BLOCK]; WIDE],
    size: u32,
) -> [[u8; DIGEST]; WIDE] {
    let mut places = [&blocks[0]; WIDE];
    let mut chain = [R::splat(0); 8];
    for at in 0..WIDE {
        places[at] = &blocks[at];
    }
    for at in 0..8 {
        chain[at] = R::splat(key[at]);
    }
    let m = R::spread(&places);
    R::gather(&mix(&chain, &m, R::splat(size), R::splat(KEYED | FIRST | LAST)))
}

/// A kernel: the digests of sixteen blocks under a key, of which so many bytes count.
pub(crate) trait Kernel: Fn(&[u32; 8], &[[u8; BLOCK]; WIDE], u32) -> [[u8; DIGEST]; WIDE] {}
impl<K: Fn(&[u32; 8], &[[u8; BLOCK]; WIDE], u32) -> [[u8; DIGEST]; WIDE]> Kernel for K {}

/// The words of a key.
pub(crate) fn words(key: &[u8; 32]) -> [u32; 8] {
    let (words, _) = key.as_chunks::<4>();
    let mut out = [0; 8];
    out.iter_mut().zip(words).for_each(|(out, word)| *out = u32::from_le_bytes(*word));
    out
}

/// Appends the digest of each input of `size` bytes, which are laid out in blocks here unless they are blocks.
pub(crate) fn hash_all(key: &[u8; 32], inputs: &[u8], size: usize, out: &mut Vec<u8>, kernel: impl Kernel) {
    if size == BLOCK {
        return hash_blocks(key, inputs.as_chunks::<BLOCK>().0, size, out, kernel);
    }
    let mut blocks = [[0; BLOCK]; WIDE];
    for some in inputs.chunks(size * WIDE) {
        let each = some.chunks_exact(size);
        let count = each.len();
        for (block, input) in blocks.iter_mut().zip(each) {
            block[..size].copy_from_slice(input);
        }
        hash_blocks(key, &blocks[..count], size, out, &kernel);
    }
}

/// Appends the digest of each block, of which `size` bytes count and the others are zero.
pub(crate) fn hash_blocks(
    key: &[u8; 32],
    blocks: &[[u8; BLOCK]],
    size: usize,
    out: &mut Vec<u8>,
    kernel: impl Kernel,
) {
    let (key, length) = (words(key), u32::try_from(size).unwrap_or(u32::MAX));
    let (whole, rest) = blocks.as_chunks::<WIDE>();
    for blocks in whole {
        out.extend_from_slice(kernel(&key, blocks, length).as_flattened());
    }
    if rest.is_empty() {
        return;
    }
    let mut blocks = [[0; BLOCK]; WIDE];
    blocks.iter_mut().zip(rest).for_each(|(block, rest)| *block = *rest);
    let digests = kernel(&key, &blocks, length);
    out.extend_from_slice(digests.get(..rest.len()).unwrap_or_default().as_flattened());
}

#[cfg(test)]
mod tests {
    use crate::Hasher;
    use crate::testing::Drawn;

    /// Inputs and digests of the BLAKE3 reference (its published test vectors): bytes 0, 1, 2, ..., and this key.
    const KEY: &[u8; 32] = b"whats the Elvish word for friend";
    const KNOWN: [(usize, &str); 3] = [
        (1, "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b"),
        (63, "bb1eb5d4afa793c1ebdd9fb08def6c36d10096986ae0cfe148cd101170ce37ae"),
        (64, "ba8ced36f327700d213f120b1a207a3b8c04330528586f414d09f2f7d9ccb7e6"),
    ];

    #[test]
    fn digests_are_those_of_the_reference() {
        for (size, wanted) in KNOWN {
            let input: Vec<u8> = (0..64).take(size).collect();
            for hasher in Hasher::all() {
                let mut out = Vec::new();
                hasher.keyed(KEY, &input.repeat(3), size, &mut out);
                let hex: String = out[32..64].iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!((out.len(), hex.as_str()), (96, wanted), "{size} bytes, {:?}", hasher.path());
            }
        }
    }

    #[test]
    fn both_paths_agree_on_every_size_and_count() {
        let mut from = Drawn::new(20);
        for size in 1..=64 {
            for count in [0, 1, 15, 16, 17, 33] {
                let inputs: Vec<u8> = (0..size * count).map(|_| from.word().to_le_bytes()[0]).collect();
                let hashed = |hasher: Hasher| {
                    let mut out = vec![7];
                    hasher.keyed(KEY, &inputs, size, &mut out);
                    out
                };
                let plain = hashed(Hasher::portable());
                assert_eq!(plain.len(), 1 + 32 * count);
                for hasher in Hasher::all() {
                    assert_eq!(plain, hashed(hasher), "{count} inputs of {size}, {:?}", hasher.path());
                }
                let mut block = |input: &[u8]| {
                    let mut block = [0; 64];
                    block[..size].copy_from_slice(input);
                    block
                };
                let blocks: Vec<[u8; 64]> = inputs.chunks(size).map(&mut block).collect();
                for hasher in Hasher::all() {
                    let mut out = vec![7];
                    hasher.keyed_blocks(KEY, &blocks, size, &mut out);
                    assert_eq!(out, plain, "{count} blocks of {size}, {:?}", hasher.path());
                }
            }
        }
    }
}
