//! Consistent Tail Broadcast of one broadcaster who lies (Alg. 1), at two receivers who do not, over memory nodes, in every order.
//!
//! *Machines.* Real receivers with toy signatures and real memory nodes. What the broadcaster can say of a number are LOCK and SIGNED of two
//! messages, to each receiver, each once and at any time. Numbers 16 and 32 share a place of the tail, and 1 has another: to a liar
//! who skips numbers that is a tail of two, where the least that a configuration has is sixteen.
//!
//! *State.* Receivers and nodes by digests of all they hold, and what is on its way: LOCKED, operations and answers of registers, jobs,
//! each of which comes in any order, or never. Operations take effect at one node after another, so a write is there in part.
//!
//! *Symmetry.* The first thing said goes to the first receiver and is of the first message; nodes to which nothing came yet are equal, and the
//! first of them is next. Operations and answers that nobody waits for any more are left out, but for writes.
//!
//! *Judged.* U-S1, U-S2 and U-S3 at every delivery, X6 at every blame, and both signatures of what is called a proof. U-S4, which is about
//! broadcasters who do not lie, is not.

mod broadcast;
mod cast;
mod run;
mod table;

pub use run::{CONTROLS, Instance, MERGED, MERGED_CONTROLS, SMALL, explore, merged, standard};
