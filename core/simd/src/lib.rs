//! Vector kernels: sums of BLS12-381 keys.
//!
//! *What it gives.* [`Adder`] sums thousands of public keys of G1 (Chop Chop, section 8.3 Q4): servers add the keys of
//! everybody who signed a batch. It has one portable path, over arrays, and one for processors with AVX-512 IFMA; which
//! one runs is found out at run time, and both give the same sums.
//!
//! *What it does not decide.* A sum is only as good as the processor: whoever refuses something because of a sum checks
//! it by another library first.
//!
//! *Bounds.* An addition of n keys takes 2 MiB beside the keys, whatever n is.
//!
//! *Unsafe code.* Calls of functions for processors that were found to have them, and loads of whole rows; see
//! docs/adr/0016-vector-kernels.md.

mod field;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that only some processors have; see the module")]
mod ifma;
mod lanes;
mod point;
mod scalar;
mod sum;
#[cfg(test)]
mod testing;

pub use point::{PackedKey, Sum};

use lanes::Plain;

/// How an [`Adder`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Arrays of words, on every processor.
    Portable,
    /// Vectors of 512 bits with the multiply-add of 52 bits.
    Avx512Ifma,
}

/// Sums keys.
#[derive(Clone, Copy, Debug)]
pub struct Adder {
    path: Path,
}

impl Default for Adder {
    fn default() -> Self {
        Self::new()
    }
}

impl Adder {
    /// The fastest path of this processor.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if ifma::is_here() {
            return Self { path: Path::Avx512Ifma };
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

    /// The sum of all keys; a key that is named twice counts twice. About 70 ns per key with vectors when the keys are in
    /// cache, whatever the keys; ten times that for a part of 8,192 in which two partial sums have the same x.
    #[must_use]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn sum(&self, keys: &[&PackedKey]) -> Sum {
        #[cfg(target_arch = "x86_64")]
        if self.path == Path::Avx512Ifma {
            // SAFETY: only `new` makes this path, after it found the instructions on this processor.
            return sum::add_all(keys, |chunk, work| unsafe { ifma::chunk(chunk, work) });
        }
        sum::add_all(keys, sum::add_chunk::<Plain>)
    }
}
