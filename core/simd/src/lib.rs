//! Vector kernels: sums of BLS12-381 keys, hashes of tree nodes.
//!
//! *What it gives.* [`Adder`] sums thousands of public keys of G1 (Chop Chop, section 8.3 Q4): servers add the keys of
//! everybody who signed a batch. It has one portable path, over arrays, and one for processors with AVX-512 IFMA; which
//! one runs is found out at run time, and both give the same sums.
//!
//! The same type reads compressed keys, eight square roots side by side: a server with a million clients does that when it starts.
//!
//! [`Hasher`] hashes many short inputs with keyed BLAKE3, sixteen side by side: leaves and nodes of trees (8.3 Q2), and
//! datagrams of different lengths, each under a key of its own (4.11).
//!
//! [`Edwards`] reads points of edwards25519 and finds whether a sum of multiples of thousands vanishes: what a batch of Ed25519
//! signatures is checked by (8.3 Q9).
//!
//! [`near()`] asks for memory that is read later (8.3 Q7).
//!
//! *What it does not decide.* A sum is only as good as the processor: whoever refuses something because of a sum checks
//! it by another library first.
//!
//! *Bounds.* An addition of n keys takes 2.5 MiB beside the keys, whatever n is.
//!
//! [`planted!`] is here because nothing lies below this crate.
//!
//! *Unsafe code.* Calls of functions for processors that were found to have them, loads of whole rows and prefetches of what is borrowed;
//! see docs/adr/0016-vector-kernels.md.

mod adder;
mod complete;
mod curve;
mod each;
mod edwards;
mod field;
mod field25519;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that only some processors have; see the module")]
mod half;
mod hash;
mod hasher;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that only some processors have; see the module")]
mod ifma;
mod invert;
mod lanes;
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a prefetch takes an address; see the module")
)]
mod near;
pub mod planted;
mod point;
mod root;
mod sum;
#[cfg(test)]
mod testing;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that only some processors have; see the module")]
mod wide;

pub use adder::Adder;
pub use curve::Edwards;
pub use each::{CHUNK, Input};
pub use edwards::EdwardsPoint;
pub use hash::BLOCK;
pub use hasher::Hasher;
pub use near::near;
pub use point::{PackedKey, Sum};

/// How an [`Adder`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Arrays of words, on every processor.
    Portable,
    /// Vectors of 256 bits; for hashes alone.
    Avx2,
    /// Vectors of 512 bits; for sums, with the multiply-add of 52 bits.
    Avx512,
}
