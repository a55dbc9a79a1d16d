//! The fourteen bad identities, shown to a running node: each must be refused by name, fast and for few bytes.
//!
//! *What.* [`run`] makes every [`Case`] against a [`Target`] and gives one [`Finding`] each. A case has one or several
//! attempts, each with the refusals that may answer it; all must be refused. A refusal counts only if the node counts
//! it too: what [`Counters`] shows must rise under one of the codes that the attempt allows.
//!
//! *Why.* testing.md, N1. A refusal that only the attacker sees may be an accident, and a connection that ends without
//! a name cannot be told from a network that is down.
//!
//! *Two cases without reconfiguration.* Rosters do not change yet. The removed member is a key that no genesis names;
//! the old epoch is a Hello of a member's own key with another epoch than the genesis has.
//!
//! *Bounds.* An attempt waits 5 s for an answer, and 15 s where the node must dial.

mod attempt;
mod case;
mod certificate;
mod mirror;
mod run;
mod ticket;

pub use case::Case;
pub use run::{BYTES_MAX, Counters, Finding, MS_MAX, Target, admitted, run};
