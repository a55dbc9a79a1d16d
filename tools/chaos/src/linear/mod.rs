//! Whether what clients were told of single keys can be explained by one order of all operations.
//!
//! *What.* A [`History`] is one key's operations with the times at which each was called and answered. [`check`] looks
//! for an order that respects these times and the semantics of [`Action`] (Wing and Gong, with the memory of visited
//! configurations of Lowe). Linearizability is local, so keys are checked one by one.
//!
//! *Unknown outcomes.* An operation without an answer may take effect at any moment after its call, or never. The
//! search first leaves all of them out, which is allowed, and takes them in only if that explains nothing.
//!
//! *Bounds.* The search looks at [`STEPS_MAX`] configurations and remembers as many; beyond that it says
//! [`Verdict::Undecided`]. A refutation names the shortest prefix that no order explains.

mod action;
mod check;
mod history;

pub use action::{Action, Answer, Held};
pub use check::{STEPS_MAX, Verdict, check};
pub use history::{History, Operation, Tally};

#[cfg(test)]
mod tests;
