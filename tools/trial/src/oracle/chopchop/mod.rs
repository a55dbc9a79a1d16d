//! Independent checks of Chop Chop: C-S1 to C-S10, C-L2 and C-L3, from what left nodes and what was delivered.
//!
//! Nothing here calls a predicate of the protocol: deduplication is a sequential model by whole messages, roots are
//! computed again, quorum sizes are the literal tables, and what applications make of it all is a sequential model too.

mod apps;
mod clients;
mod deliveries;
mod directory;
mod facts;
mod keeping;
mod model;
mod refusals;
mod seen;
mod tree;
mod witnesses;

pub use apps::{Given, Ledgers};
pub use clients::{Clients, Promise};
pub use deliveries::{Counts, Deliveries};
pub use directory::Directories;
pub use facts::Facts;
pub use keeping::{Keeping, Kept};
pub use model::{Model, Outcome};
pub use refusals::{Refusals, Why};
pub use seen::{BatchSeen, CertificateSeen, EntrySeen, How};
pub use witnesses::Witnesses;
