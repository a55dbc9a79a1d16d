//! The Hello: who speaks, of which cluster, in which role, and since when.
//!
//! *What it gives.* Over the fresh connection both sides send a Hello (versions, cluster, epoch, role, machine
//! numbers, instance nonce), signed over bytes only this TLS session exports, and then a verdict. Whoever refuses
//! says the code, so both sides learn it. [`Registry`] keeps one live instance per key and one connection per line;
//! of simultaneous dials the lower member's stays.
//!
//! *Bounds.* A Hello is at most 1 KiB; before the verdict at most 64 KiB are read; the caller puts a time limit
//! around the whole.

mod exchange;
mod hello;
mod registry;

pub(crate) use exchange::{Established, Local, accept, dial, nonce};
pub use hello::{Beat, Greeting, Hello, Introduction, Line, Role, Verdict};
pub(crate) use hello::{name as hello_name, versions};
pub(crate) use registry::{Claim, Registry};
