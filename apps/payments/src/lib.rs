//! Payments: one u64 per operation, credits spendable from the next batch.
//!
//! Bits 0 to 27 name the recipient, 28 to 31 are zero, 32 to 63 are the amount. An operation is judged by the balances
//! at the start of its batch, so the order inside a batch never matters: debits are taken as they are read, credits are
//! added when the batch is over. A payment to oneself is allowed and has no effect.
//!
//! Two forms of one thing: [`Payments`] executes a batch in one go and is the oracle of [`PaymentLanes`], which lanes
//! execute at once.
//!
//! *Invariant.* The sum of balances is the supply, which is below 2^63.
//! *Bounds.* 8 bytes per account; an operation that breaks a rule changes nothing and yields a code.

mod lanes;
mod ledger;
#[cfg(test)]
mod tests;
pub mod text;

pub use lanes::{Credit, PaymentLanes, balance};
pub use ledger::{Code, Payments, operation};
