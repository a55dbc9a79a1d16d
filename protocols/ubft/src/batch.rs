//! What a slot orders: requests of clients, in batches (specification, section 3.4).

use synod_crypto::{Hash, Hasher, Signature};
use synod_wire::{Blob, List, Wire as _, wire};

/// Requests of a batch at most, whatever the configuration.
pub const REQUESTS_MAX: usize = 64;
/// Longest operation that a request carries itself, whatever the configuration.
pub const INLINE_MAX: usize = 64 << 10;

wire! {
    /// A view: its leader is `view mod n`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct View(pub u64);

    /// A place in the order, from 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Slot(pub u64);

    /// What a client wants done.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Op {
        /// The operation itself.
        0 = Inline(Blob<INLINE_MAX>),
        /// One that was sent beside, by its digest and length.
        1 = Ref {
            /// Of the operation.
            digest: Hash,
            /// Its bytes.
            length: u32,
        },
    }

    /// Why a replica may believe that a client asked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Auth {
        /// Replicas heard it from the client itself (paper, section 5.4).
        0 = Heard,
        /// The client signed it.
        1 = Signed(Signature),
    }

    /// A request of a session.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Request {
        /// Whose.
        pub session: u64,
        /// Its number within the session.
        pub id: u64,
        /// What is asked.
        pub op: Op,
        /// How it is known to be asked.
        pub auth: Auth,
    }

    /// What one slot orders. An empty one does nothing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Batch {
        /// The view in which it was first proposed.
        pub origin: View,
        /// When, by its proposer's clock, in unix milliseconds.
        pub time_ms: u64,
        /// The requests, in their order.
        pub requests: List<Request, REQUESTS_MAX>,
    }
}

impl Batch {
    /// What stands for all of it.
    #[must_use]
    pub fn digest(&self) -> Hash {
        self.measure().0
    }

    /// What stands for all of it, and the bytes of its encoding.
    #[must_use]
    pub fn measure(&self) -> (Hash, usize) {
        let encoded = self.encode();
        let mut hasher = Hasher::new("ubft batch");
        hasher.add(&encoded);
        (hasher.finish(), encoded.len())
    }
}
