//! Vector kernels: sums of BLS12-381 keys, hashes of tree nodes.
//!
//! *What it gives.* [`Adder`] sums thousands of public keys of G1 (Chop Chop, section 8.3 Q4): servers add the keys of
//! everybody who signed a batch. It has one portable path, over arrays, and one for processors with AVX-512 IFMA; which
//! one runs is found out at run time, and both give the same sums.
//!
//! [`Hasher`] hashes many short inputs with keyed BLAKE3, sixteen side by side: leaves and nodes of trees (8.3 Q2).
//!
//! *What it does not decide.* A sum is only as good as the processor: whoever refuses something because of a sum checks
//! it by another library first.
//!
//! *Bounds.* An addition of n keys takes 2 MiB beside the keys, whatever n is.
//!
//! *Unsafe code.* Calls of functions for processors that were found to have them, and loads of whole rows; see
//! docs/adr/0016-vector-kernels.md.

mod adder;
mod field;
mod hash;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that only some processors have; see the module")]
mod ifma;
mod lanes;
mod point;
mod scalar;
mod sum;
#[cfg(test)]
mod testing;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that only some processors have; see the module")]
mod wide;

pub use adder::Adder;
pub use hash::BLOCK;
pub use point::{Key, LibraryKey, PackedKey, Sum};

/// How an [`Adder`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Arrays of words, on every processor.
    Portable,
    /// Vectors of 512 bits; for sums, with the multiply-add of 52 bits.
    Avx512,
}

/// Hashes short inputs of one length.
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
        if wide::is_here() {
            return Self { path: Path::Avx512 };
        }
        Self::portable()
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
            return hash::hash_all(key, inputs, size, out, |key, blocks, size| unsafe {
                wide::compress(key, blocks, size)
            });
        }
        hash::hash_all(key, inputs, size, out, hash::compress::<hash::PlainRow>);
    }
}
