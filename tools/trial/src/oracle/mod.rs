//! Independent checks of what every run shows. Nothing here calls production predicates: quorum sizes are literal
//! tables, rules are written out again, and what a replica decided is recomputed from what it said.

mod agreement;
pub mod astro;
mod blocks;
pub mod chopchop;
mod commits;
mod execution;
mod promises;
mod sighting;
mod signatures;
mod tables;
pub mod ubft;
mod verdict;
mod views;
mod votes;

pub use agreement::Agreement;
pub use blocks::Blocks;
pub use commits::Commits;
pub use execution::{ExecutedSeen, Execution};
pub use promises::Promises;
pub use sighting::{CertSeen, HeaderSeen, MarkSeen, Pack, Phase, SafetySeen, Seen, Sighting};
pub use signatures::{Conflict, Signatures};
pub use tables::{faults, quorum, weak};
pub use verdict::{Breach, Oracle, Verdict};
pub use views::Views;
pub use votes::Votes;

pub(crate) use verdict::breach;
