//! Multi-signatures over BLS12-381: keys in G1, signatures in G2, both proofs of possession and messages hashed by the
//! standard suites ([`SIGNING`], [`POSSESSION`]).
//!
//! *What it gives.* Many signatures of one message add up to one ([`SignatureSum`]), which one pairing equation checks
//! against the sum of their keys ([`KeySum`]). Sums mean something only over keys whose owners proved that they have the
//! secret, so the one way to a [`BlsPublicKey`] is a check of its registration. As with other signatures, only jobs hold
//! [`Keys`](crate::Keys) and only a check mints [`Verified`](crate::Verified): [`BlsClaim::verify`], [`verify_all`],
//! [`search`], [`BlsCertificate::verify`] and [`combine`].
//!
//! *Two predicates.* A signature of one member is only known to be on the curve (0.7 us for an uncompressed one): the check
//! that it is in G2 costs 50 us and is made of aggregates alone, for an equation that holds determines the one valid
//! aggregate. What is refused everywhere is infinity: a sum of keys there lets anybody sign, a signature there is nobody's.
//!
//! *Batches.* Several equations become one multi-pairing, each under its own 64-bit coefficient, which is drawn from the
//! secret of the process and everything in the batch. A batch that fails is bisected, so the verdict on an equation never
//! depends on its company (but for a chance of 2^-64).
//!
//! *Speed.* [`KeyAdder`] adds keys of a book ([`KeySource`]) in vectors where the processor has them, [`Bls::sum_keys`] up to
//! [`KEYS_AT_ONCE`] keys with one inversion per level by the curve library; [`Bls::sum_keys_one_by_one`] is the reference that
//! both are tested against, and what counts before a batch is refused ([`BlsClaim::reconsider`]).
//!
//! *Directories.* [`Keys::vouched_keys`](crate::Keys::vouched_keys) reads thousands of keys at once.
//!
//! *Benchmarks.* [`BenchFamily`] makes keys and genuine signatures of a million signers by one addition each.
//!
//! *Simulation.* In a universe of [`toy`](crate::toy) keys the same sums run over numbers modulo 2^61 - 1, with the sizes
//! of the real encodings.
//!
//! Chop Chop, sections 2.2, 3.1 and 5.1; suites of the CFRG draft on BLS signatures.

mod certificate;
mod claim;
mod equation;
mod family;
mod numbers;
mod points;
mod reading;
mod registration;
mod scheme;
mod search;
mod secret;
mod stored;
#[cfg(test)]
mod tests;

pub use certificate::{BlsCertificate, BlsMembers, Uncombined, combine};
pub use claim::{BlsClaim, Reconsidered, verify_all};
pub use family::{BenchFamily, FamilyShares};
pub use points::{BlsPublicKey, BlsSignature, KeySum, SignatureSum};
pub use registration::{BadBls, Registration};
pub use scheme::{Bls, KEYS_AT_ONCE, POSSESSION, SIGNING};
pub use search::{Found, LEAF, Share, search};
pub use secret::BlsSecret;
pub use stored::{KeyAdder, KeySource, StoredKey};

pub(crate) use numbers::reduce;
pub(crate) use scheme::Signer;
pub(crate) use stored::Vectors;
