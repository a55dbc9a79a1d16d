//! Flip, uBFT's toy application (paper, section 7): a reply is its request with the bytes reversed.
//!
//! *Why it has a state.* Reversing needs none, but replicas that executed different requests, or the same ones in another
//! order, must not have equal roots. So it keeps how many requests it executed and a chain of hashes over them.
//!
//! *Bounds.* A state of 48 bytes in one chunk. A request is as long as the ordering layer allows; the reply has its
//! length. Nothing is refused, so there are no codes.
//!
//! ```
//! use synod_flip::Flip;
//! use synod_service::{App, At, Position, Replies, Request, Wall};
//! use synod_crypto::Hash;
//! let mut flip = Flip::default();
//! let at = At { position: Position(1), time: Wall(0), draw: Hash::ZERO };
//! let mut replies = Replies::default();
//! let request = Request { session: 1, sequence: 1, body: b"uBFT" };
//! flip.execute(&at, &mut [request].into_iter(), &mut replies);
//! assert!(replies.drain().eq([&b"TFBu"[..]]));
//! ```

mod app;
#[cfg(test)]
mod tests;

pub use app::Flip;
