//! Which kernel hashes.

use crate::Path;
use crate::each::{self, Input, hash_each};
use crate::hash::{BLOCK, PlainRow, compress, hash_all, hash_blocks};

/// Hashes many inputs side by side.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    path: Path,
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl Hasher {
    /// The fastest path of this processor.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::wide::is_here() {
            return Self { path: Path::Avx512 };
        }
        #[cfg(target_arch = "x86_64")]
        if crate::half::is_here() {
            return Self { path: Path::Avx2 };
        }
        Self::portable()
    }

    /// All paths that this processor has.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::portable(), Self::new()];
        #[cfg(target_arch = "x86_64")]
        if crate::half::is_here() {
            all.push(Self { path: Path::Avx2 });
        }
        all
    }

    /// The portable path.
    #[must_use]
    pub const fn portable() -> Self {
        Self { path: Path::Portable }
    }

    /// Which path this is.
    #[must_use]
    pub const fn path(&self) -> Path {
        self.path
    }

    /// How many blocks one after the other, by the usual library, take the time of one step of sixteen here; `None` where
    /// sixteen side by side take no less time than one after the other.
    #[must_use]
    pub const fn blocks_per_step(&self) -> Option<usize> {
        match self.path {
            Path::Portable => None,
            Path::Avx2 => Some(6),
            Path::Avx512 => Some(3),
        }
    }

    /// Appends the 32-byte keyed BLAKE3 digest of each input of `size` bytes, `inputs` holding them one after another.
    ///
    /// # Panics
    /// When `size` is not 1 to 64 or `inputs` is no multiple of it: the caller laid the inputs out.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn keyed(&self, key: &[u8; 32], inputs: &[u8], size: usize, out: &mut Vec<u8>) {
        assert!((1..=BLOCK).contains(&size) && inputs.len().is_multiple_of(size), "inputs of one length");
        out.reserve(inputs.len() / size * 32);
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx512 {
            // SAFETY: only `new` makes this path, after it found the instructions on this processor.
            return hash_all(key, inputs, size, out, |key, blocks, size| unsafe {
                crate::wide::compress(key, blocks, size)
            });
        }
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx2 {
            // SAFETY: as above.
            return hash_all(key, inputs, size, out, |key, blocks, size| unsafe {
                crate::half::compress(key, blocks, size)
            });
        }
        hash_all(key, inputs, size, out, compress::<PlainRow>);
    }

    /// The same for inputs that are laid out in blocks, each of `size` bytes and then zeros: nothing is copied.
    ///
    /// # Panics
    /// When `size` is not 1 to 64.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn keyed_blocks(&self, key: &[u8; 32], blocks: &[[u8; BLOCK]], size: usize, out: &mut Vec<u8>) {
        assert!((1..=BLOCK).contains(&size), "inputs of one block");
        out.reserve(blocks.len() * 32);
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx512 {
            // SAFETY: only `new` makes this path, after it found the instructions on this processor.
            return hash_blocks(key, blocks, size, out, |key, blocks, size| unsafe {
                crate::wide::compress(key, blocks, size)
            });
        }
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx2 {
            // SAFETY: as above.
            return hash_blocks(key, blocks, size, out, |key, blocks, size| unsafe {
                crate::half::compress(key, blocks, size)
            });
        }
        hash_blocks(key, blocks, size, out, compress::<PlainRow>);
    }

    /// Writes the 32-byte BLAKE3 digest of each input into its place, whatever their lengths: sixteen lanes hash
    /// them block by block, and a lane takes the next input as soon as its own ended.
    ///
    /// The longest input costs as many steps as it has blocks, though the others be short: the caller sees to it that
    /// most lanes have something to do.
    ///
    /// # Panics
    /// When an input is longer than [`CHUNK`](crate::CHUNK).
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn digest_each<'a>(&self, inputs: impl Iterator<Item = Input<'a>>) {
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx512 {
            // SAFETY: only `new` makes this path, after it found the instructions on this processor.
            return hash_each(inputs, |chains, blocks| unsafe { crate::wide::step(chains, blocks) });
        }
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx2 {
            // SAFETY: as above.
            return hash_each(inputs, |chains, blocks| unsafe { crate::half::step(chains, blocks) });
        }
        hash_each(inputs, each::step::<PlainRow>);
    }
}
