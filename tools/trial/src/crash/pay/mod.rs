//! Crash points of Astro, in its three profiles.
//!
//! *What it gives.* One fixed conversation per member that crashes: customers order, owners sign, one of each institution's signs
//! two entries for one place, and another member broadcasts two batches for one slot. At a boundary the member falls, with one
//! outcome of its disk, and comes back in the whole world, which goes on. There it is tempted: the names of orders that it has
//! taken are given to it again with other contents, and owners who lie sign other entries for places that it may have promised.
//!
//! *What must hold.* All that the oracles of the system demand of a run, of what was said in both lives: no two endorsements, votes or
//! receipts that contradict each other (X4), none without its record (X3), no order with two places (A-S10), nothing that was told to
//! have settled is missing or another (A-S1, A-S4), and all that is due settles in the end at every member (A-L1 to A-L5).
//!
//! *Bounds.* One run per outcome, from its beginning: as long as the conversation, as many as there are boundaries.

mod fall;
mod node;

pub(super) use node::{again, one};

#[cfg(test)]
mod tests;
