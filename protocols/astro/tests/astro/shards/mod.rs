//! Money between shards: several groups of members, each a network of its own, in one world.

mod country;
mod crossing;
mod placed;
pub(crate) mod proofs;
