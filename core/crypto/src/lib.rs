//! Hashes, statements, claims, certificates and the keys that mint verified statements.
//!
//! *What it gives.* A [`Statement`] is what a node can sign; its bytes carry the protocol, version, kind,
//! cluster and epoch, so that no signature is good in another domain. A [`Claim`] is a statement somebody
//! says was signed; a [`Verified`] value is one that was checked. `Verified` has no public constructor:
//! [`Claim::verify`], [`verify_all`], [`verify_all_read`], [`verify_evidence`], [`verify_evidence_beyond`] and [`Keys::sign`] are its only
//! sources, and `Keys` exist only inside jobs, so acting on an unverified statement does not compile:
//!
//! ```compile_fail
//! use synod_crypto::Verified;
//! let minted: Verified<u64> = Verified(7);
//! ```
//!
//! *Rules.* Ed25519 follows ZIP-215, single and batch alike: what one correct replica accepts, all accept.
//! Small-order and non-canonical keys are refused at registration ([`check_key`]). Signature bytes are never an
//! identifier. Tags compare in constant time.
//!
//! *Together.* [`bls`] adds up signatures of many for one statement; its claims and certificates mint `Verified` as well.
//!
//! *Memory.* [`near()`] asks for memory that is read later: tables of millions of clients are walked over with it.
//!
//! *Simulation.* [`toy`] replaces signatures by keyed tags of the real sizes; only the simulator builds it.
//!
//! *Costs.* Batch verification of Ed25519 costs about a third of single verification per signature at 64
//! signatures, and a tenth in vectors: 5 us at 128 of them, 3.5 to 4 at 2,048 (one core of a Zen 4 with AVX-512 IFMA; the libraries' batch
//! 12 to 15), half a microsecond less over keys that were read before ([`ReadKey`]).

pub mod bls;
mod certificate;
mod claim;
mod ed25519;
mod hash;
mod keyed;
mod keys;
pub mod merkle;
mod registration;
mod statement;
pub mod toy;

pub use certificate::{
    Certificate, Claims, Evidence, Group, Refusal, Threshold, verify_evidence, verify_evidence_beyond,
};
pub use claim::{Claim, Verified, verify_all};
pub use ed25519::{Checked, ReadKey, verify_all_read};
pub use hash::{Hash, Hasher};
pub use keyed::HashKey;
pub use keys::{Keys, Seed, Signature};
pub use registration::{BadKey, check_key};
pub use statement::{STATEMENT_MAX, Scope, Statement};
pub use synod_quorum::PublicKey;
pub use synod_simd::{near, planted};
