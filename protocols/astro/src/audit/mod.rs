//! An audit of what a node says has happened, by whoever has the members' keys (specification, section 4.10).
//!
//! A node's log is a file of records ([`Item`]): what settled there in its order, the batches, their certificates, and members' words
//! that batches settled. An [`Audit`] reads them one by one and believes none of it: a payment counts that a quorum certified, or one
//! behind it in its payer's log, that its owner signed or its institution carried, and that the money was there for. Where the log has cuts, the entries that they count have to give the
//! states that a quorum signed. [`compare`] holds the
//! logs of several nodes against each other.
//!
//! *What it does not show.* That nothing is missing at the end: a log is as new as its node says it is. Whether what settled in other
//! shards was settled there, unless their logs are compared too.
//!
//! *Bounds.* About 600 bytes per payment and 100 per entry of a batch; [`ENTRIES_MAX`] payments, [`VIOLATIONS_MAX`] violations that are told one by one.

mod lanes;
mod replay;
mod roots;
mod violation;
mod words;

pub use lanes::Audit;
pub use replay::{Findings, Money, compare};
pub use violation::{Shown, Violation, What};
pub use words::{Beside, COUNTED_MAX, Carried, CountedAt, Format, Head, Item};

/// Most numbers of what cuts count in a log that is audited.
pub const COUNTS_MAX: usize = 1 << 24;
/// Most payments of a log that is audited.
pub const ENTRIES_MAX: usize = 1 << 24;
/// Most violations that are told one by one.
pub const VIOLATIONS_MAX: usize = 1_000;
