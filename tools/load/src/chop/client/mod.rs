//! Many clients as one machine: the whole protocol of a client over links of its own, for each of them.
//!
//! *What it gives.* [`LoadClient`] signs up members of a key family with real proofs of possession, and has each broadcast
//! one message after another: it signs SUBMIT, checks where INCLUSION says that its message stands, signs the root, reads
//! DELIVERY. Every signature is made when it is needed, over what is said then; what the family saves is the
//! multiplication, so a signature costs 2 to 3 us.
//!
//! *What it leaves out.* As in the paper it verifies no certificate, and it keeps no journal. Real clients run beside it,
//! which do both.
//!
//! *Conduct.* Some members may be silent, so that their messages need signatures of their own, and some may break rules.
//!
//! *Bounds.* Some 400 bytes per member, 128 roots of late with those that wait to sign under them, and the trees of the 16
//! newest as far as they were shown: 65 bytes per leaf. A member has one message in flight and remembers four roots.
//!
//! Chop Chop, sections 4 and 6.2.

mod config;
mod confirm;
mod due;
mod enrol;
mod job;
mod machine;
mod member;
mod node;
mod root;
mod sign;
mod stats;
mod submit;
#[cfg(test)]
mod tests;

pub use config::{Conduct, Crowd, Invalid, Pace, links};
pub use machine::{Input, LoadClient, Output, Timer};
pub use node::{LoadNode, LoadSetup, Receipts, Wire};
pub use stats::{Account, Stats};
pub use submit::stroke;
