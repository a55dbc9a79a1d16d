//! MinBFT as published, over the rings and pollers that `synod bench ubft` places its replicas on: a baseline.
//!
//! *What it gives.* [`measure`] runs three replicas of the crate `minbft` (n = 2f + 1, f = 1) at one poller and a client
//! at another, and takes the times of requests. Replicas and client are machines hosted by the shared-memory runtime:
//! the same rings, encoding of frames, pollers and cores as the replicas of uBFT in placement `cooperative`.
//!
//! *The trusted counter.* `usig::hmac::UsigHmac` with HMAC-SHA256, the software USIG of the crate `usig`: counters in
//! this process, and keys that the replicas tell each other as their attestations. [`Uses`] counts its uses, and makes
//! each take as long as a call of an enclave does. Nothing here is protected from anybody.
//!
//! *What it does.* The client sends a request to all replicas and believes f + 1 equal results. The primary's PREPARE
//! and the others' COMMITs go to everybody, as `bincode` writes them. A request is a batch, there is a checkpoint every
//! 256 of them. Requests carry no signature, as on the fast path of uBFT; results come from `synod-flip`.
//!
//! *What it does not do.* It arms no timer, so there is no view change; it keeps nothing; one client asks, one request
//! at a time. A view that changes, a message that does not decode or a replica that complains counts as an error of the
//! row.
//!
//! *Bounds.* [`SAMPLES_MAX`] samples, [`SIZE_MAX`] bytes of a request.

mod caller;
mod counts;
mod replica;
mod report;
mod rig;
mod uses;

pub use counts::Counts;
pub use report::{header, row};
pub use rig::{Assembled, Awaited, Measured, Plan, REPLICAS, SAMPLES_MAX, SIZE_MAX, assemble, measure};
pub use uses::Uses;
