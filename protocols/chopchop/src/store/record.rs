//! What a store must remember through a crash.

use synod_crypto::Hash;
use synod_machine::Record;
use synod_wire::wire;

use crate::content::AnyHeader;

wire! {
    /// A batch that a store holds durably: its body is the blob `name`, stored before this record.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Pinned {
        /// The batch.
        pub digest: Hash,
        /// Name of the body's blob.
        pub name: Hash,
        /// The header.
        pub header: AnyHeader,
        /// The place of its broker among those of the genesis, or `u32::MAX`.
        pub broker: u32,
        /// Whether it was checked here; else it was kept because it was ordered.
        pub sound: bool,
    }

    /// Where a batch stands in the order.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ordered {
        /// The batch.
        pub digest: Hash,
        /// The height it took.
        pub height: u64,
    }

    /// A promise of a store.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum StoreRecord {
        /// A witness of this batch may have been given: it is kept until it is collected or expires.
        0 = Pinned(Pinned),
        /// The batch was collected, or expired without being ordered.
        1 = Released(Hash),
        /// Promises were lost: nothing is witnessed below this height; the highest one while none is known.
        2 = Silent(u64),
        /// The batch took this height. Written behind what it allows: the server's recent digests close the gap.
        3 = Ordered(Ordered),
    }
}

impl Record for StoreRecord {}
