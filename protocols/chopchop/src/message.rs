//! Messages: between clients and brokers, brokers and stores, brokers and servers, and servers among themselves.
//!
//! Client messages begin with type, version and flags, which are the first four bytes of a datagram, and have no length
//! field that something else implies: the shape of a proof follows from index and count, the width of a bitmap from
//! what remains. So each is read to the end of its frame. Stream messages begin with a tag.
//!
//! *Bounds.* Payloads share the frame. A list is as long as its frame says it can be, and has a cap of its own:
//! [`COUNT_MAX`] entries of a batch, [`PAIRS_MAX`] exceptions by pairs, [`HELD_MAX`] held batches, [`PIECE_MAX`] bytes of
//! a piece, [`CARDS_MAX`] members at once.

mod client;
mod codes;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod transfer;

pub use client::{ClientMessage, Delivery, ExceptionProof, Inclusion, Signed, StateAnswer, Submit};
pub use codes::Nack;
pub use server::{Cards, ExceptionList, ServerMessage, SignedHeight, SignedState, StateAsk, Verdict};
pub use store::{Credit, HeldBatch, Piece, Pull, Refused, Shard, StoreMessage, Upload};
pub use transfer::{CHUNK_MAX, TransferMessage};

/// Most entries of any batch, whatever a configuration says.
pub const COUNT_MAX: u32 = 1 << 20;
/// Most exceptions that travel as pairs; more travel as the vector.
pub const PAIRS_MAX: u32 = 1_024;
/// Most batches of one HELD.
pub const HELD_MAX: usize = 1_024;
/// Longest piece of a body, in bytes.
pub const PIECE_MAX: usize = 256 << 10;
/// Most members of one CARDS: 640 KiB.
pub const CARDS_MAX: usize = 8_192;
