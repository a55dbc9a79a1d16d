//! What a client must remember: its numbers, and the message it signed for.

use synod_machine::Record as Kept;
use synod_wire::{Blob, List, wire};

use crate::certificate::Legitimacy;

/// Most payloads that travel as one message.
pub const BURST_MAX: usize = 256;

wire! {
    /// The message in flight. It is never replaced or dropped once a signature has left, across restarts too.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Flying {
        /// The user's names of the payloads in it.
        pub tokens: List<u64, BURST_MAX>,
        /// Its number, as the client signs it alone.
        pub k0: u64,
        /// The message.
        pub message: Blob<65_535>,
        /// Its parity bit.
        pub parity: bool,
        /// The height that was proven when it was first signed: what was delivered up to there is an earlier message,
        /// were it equal to the last bit.
        pub after: u64,
    }

    /// Everything a client promises: no number at or above `next_k` carries a signature of another message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Next {
        /// The client's id, once it has one.
        pub id: Option<u32>,
        /// The lowest number that was never signed.
        pub next_k: u64,
        /// Parity of the next message.
        pub parity: bool,
        /// The message in flight.
        pub flight: Option<Flying>,
        /// The highest height that was proven. Last, for it is read to the end.
        pub certificate: Option<Legitimacy>,
    }

    /// A promise.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum ClientRecord {
        /// The newest one counts.
        1 = Next(Next),
    }
}

impl Kept for ClientRecord {}
