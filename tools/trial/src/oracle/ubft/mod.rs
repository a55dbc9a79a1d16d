//! What holds in every run of uBFT: agreement of slots, each request once, promises kept before a view is left, shares that agree,
//! certificates of enough signers, and registers that only rise; and of its broadcast alone what is delivered, and what is read.
//!
//! Everything here is counted from what members that tell the truth were seen to say; quorums are written out again.

mod deliveries;
mod gaps;
mod order;
mod promises;
mod reads;
mod registers;
mod returning;
mod said;
mod shares;

pub use deliveries::Deliveries;
pub use gaps::Gaps;
pub use order::{Executed, Order, RowSeen, same_state};
pub use promises::Promises;
pub use reads::Reads;
pub use registers::Written;
pub use returning::{Detectors, Returning};
pub use said::{About, Heard, Spoken, Streamed, one_correct};
pub use shares::Shares;
