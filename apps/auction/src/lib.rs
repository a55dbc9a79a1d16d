//! Auctions: bids lock money, ties within a batch fall by the agreed draw.
//!
//! Bit 0 is 0 for a bid and 1 for a take, bits 1 to 31 name the token, 32 to 63 are the amount (0 for a take). A bid
//! locks its amount and releases the former bidder; a take gives the locked money to the owner and the token to the
//! bidder. A client's money is what it had available at the start of the batch: releases and proceeds count from the
//! next one. Operations on one token are judged in the order of their ranks.
//!
//! Two forms of one thing: [`House`] executes a batch in one go and is the oracle of [`AuctionLanes`], which lanes execute at
//! once.
//!
//! *Invariant.* Available and locked money add up to the supply; what a client has locked is the sum of its best bids;
//! every token has one owner.
//! *Bounds.* 16 bytes per client and 24 per token; an operation that breaks a rule changes nothing and yields a code.

mod contest;
mod house;
mod lanes;
#[cfg(test)]
mod tests;
pub mod text;

pub use house::{Code, House, bid, take};
pub use lanes::{Ask, AuctionLanes, Letter, Rooms};
