//! Fuzz targets as plain functions, with their committed corpora.
//!
//! *What it gives.* [`TARGETS`]: one `fn(&[u8])` per decoder of bytes from outside, and one per role that is driven by
//! events made from bytes. A target returns, or panics with the property that broke. Properties per decoder (testing,
//! section 12): no panic; at most 8 x input + 64 KiB allocated while decoding; decode(encode(x)) = x;
//! encode(decode(b)) = b for every accepted b; lengths that must agree are checked. Per role: no panic, the machine's
//! invariants and `bytes() <= bytes_max()` after every step, honest peers never blamed.
//!
//! *Input.* [`input::generate`] makes the input of (target, seed, index): structured values, mutated by flips, cuts,
//! splices, repeats and length-field tampering, and raw bytes. Equal arguments give equal inputs, so a finding
//! replays by its index.
//!
//! *Running.* `cargo test -p synod-fuzz` replays the corpora and runs every target for a fixed number of inputs;
//! `cargo xtask fuzz` runs longer. Each target runs in a child process of its own: an abort is a finding, with the
//! input printed in hex. The child's allocator enforces the bound on allocation.

pub mod check;
pub mod corpus;
mod decoders;
pub mod drive;
pub mod input;
mod roles;
mod tape;
mod target;

pub use decoders::{
    astro, bls, broadcast, channel, chopchop, config, hotstuff, http, journal, kv, ledger, link, merkle,
    orderbook, resp, service, ubft, vocabulary,
};
pub use roles::{astro as payments, chop, client, connection, executor, recovery, replica};
pub use tape::Tape;
pub use target::{Kind, TARGETS, Target, find};
