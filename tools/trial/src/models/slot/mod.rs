//! Consensus of uBFT over two slots and three views: three real machines, of which one may lie (Algorithms 2, 3; specification, 4.9, 4.11, 4.13).
//!
//! *Machines.* Real consensus with toy signatures. What its broadcasts do below is taken as given, for the model `ctb` is about that: what a
//! replica says by one comes to each other whole, once, in its order, and the same to all. A step is an event and all that follows inside the machine. The user vouches for all, executes
//! by hashing, and signs a checkpoint behind each slot.
//!
//! *Schedule.* Replicas take turns, and at its turn one hears all that is on its way to it, link by link. When nothing is, all hear all again
//! and every timer fires. Everything else is a *deviation*, of which an instance allows a number: a replica misses its turn, goes deaf to
//! one other until nothing is on its way, or suspects its leader. No other reduction is made: states are equal where the machines hold the same.
//!
//! *The liar* is replica 1, the leader of view 1. It does as the protocol says but for this: its NEW_VIEW has one certificate of those that it
//! should have, and it proposes nothing where something must be proposed.
//!
//! *Judged.* U-S7: one batch for each slot and one state behind it. U-S9: no certificate of a later view for another batch than was
//! executed. U-S8: whoever says SEAL_VIEW has signed, and shown, or shown a checkpoint over, what it promised, and promises nothing in that view afterwards. And sealing
//! ends: after all heard all and all timers fired so often, nobody is still leaving.
//!
//! *Controls.* Sealing without the certificates promised (U9), a NEW_VIEW of f certificates (V4), sealing without the own checkpoint (V14).

mod cluster;
mod run;
mod seat;

pub use run::{CONTROLS, Instance, explore, standard};
