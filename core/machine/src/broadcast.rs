//! Contracts between protocols: atomic broadcast and reliable broadcast.

use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, wire};

pub use crate::begun::Begun;
pub use crate::items::{
    Context, Except, ITEMS_MAX, Independent, Items, Lot, PAYLOAD_MAX, Read, UNCHECKED, View,
};
pub use crate::proof::Transferable;
use crate::{Machine, Span, Wall};

wire! {
    /// A place in the agreed order: 1, 2, 3, ... without holes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Position(pub u64);

    /// The user's name for a submission, local to the node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Ticket(pub u64);

    /// The state at a position, certified by a quorum.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Checkpoint {
        /// The position.
        pub position: Position,
        /// The root of the state there.
        pub root: Hash,
        /// Proof that a quorum has this root; opaque to the user.
        pub certificate: Blob<{ 16 << 10 }>,
    }
}

/// What the user of an atomic broadcast asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submit {
    /// Orders a payload. Not refused means: it becomes an entry, unless this node restarts first; the user
    /// submits again after a restart.
    Payload {
        /// Returned in [`Origin::Local`] or in the refusal.
        ticket: Ticket,
        /// One request, or a client's frame of requests.
        payload: Bytes,
    },
    /// The user applied everything up to `position`, with the root where one is due.
    Applied {
        /// The last position applied.
        position: Position,
        /// The state root, at positions divisible by `checkpoint_every`.
        root: Option<Hash>,
    },
    /// Asks for a transferable proof of an entry.
    Prove(Position),
    /// Comes back behind every entry that could have been committed by what this node knows now.
    Barrier(Ticket),
    /// The user cannot go on with what it was given, for what an entry names is gone everywhere: a certified state above all of
    /// it is to take its place, though peers may retain the entries. Where none is known here, others are asked. Said again
    /// while that is so.
    Stuck,
}

/// What an atomic broadcast tells its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The next entry.
    Entry(Entry),
    /// A checkpoint is certified; what lies below it may go.
    Stable(Checkpoint),
    /// This node is behind what peers retain: fetch the state of this root, then report `Applied`.
    Jump(Checkpoint),
    /// The answer to `Prove`.
    Proof {
        /// Of this entry.
        position: Position,
        /// The proof, if there can be one.
        proof: Option<Bytes>,
    },
    /// The answer to `Barrier`.
    Barrier(Ticket),
    /// The submission was not taken.
    Refused {
        /// Which one.
        ticket: Ticket,
        /// Why.
        why: Refusal,
    },
}

/// One entry of the agreed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub position: Position,
    /// Agreed time, never decreasing.
    pub time: Wall,
    /// Whether it closes its block or batch.
    pub last: bool,
    /// Where it came from, as far as this node knows.
    pub origin: Origin,
    /// What was submitted; empty payloads are the layer's own: count their position and skip them.
    pub payload: Bytes,
    /// A transferable proof, if it is at hand.
    pub proof: Option<Bytes>,
}

/// Where an entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Submitted at this node under this ticket.
    Local(Ticket),
    /// Proposed by this member.
    Member(NodeId),
    /// Sent in a client session.
    Session {
        /// The session.
        id: u64,
        /// The sequence number within it.
        sequence: u64,
    },
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Over a budget; try again after this many milliseconds.
    Busy {
        /// Queued bytes over drain rate.
        retry_ms: u32,
    },
    /// The node is recovering or not ready.
    NotReady,
    /// The payload is larger than any block.
    TooLarge,
    /// Behind what this node still knows.
    Stale,
}

/// Total order. Blanket-implemented.
pub trait AtomicBroadcast: Machine<Input = Submit, Output = Delivered> {}
impl<M: Machine<Input = Submit, Output = Delivered>> AtomicBroadcast for M {}

/// One broadcast of one source: (source, sequence).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Who broadcasts.
    pub source: NodeId,
    /// Its sequence number.
    pub sequence: u64,
}

/// What a reliable broadcast keeps for its user, and when it says something again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Undelivered slots per source that are worked on; a source may fill fewer of its own.
    pub window: u64,
    /// Delivered slots per source whose votes and payload are kept for whoever is behind.
    pub retain: u64,
    /// Longest payload, in bytes.
    pub payload_max: u32,
    /// How often a node says how far it is, while somebody may not know.
    pub frontier_every: Span,
    /// When the votes of an undelivered slot are said again at the soonest; doubles up to `resend_max`.
    pub resend: Span,
    /// See there.
    pub resend_max: Span,
    /// When a payload is asked of the next peer; doubles up to `pull_max`.
    pub pull: Span,
    /// See there.
    pub pull_max: Span,
}

impl Default for Bounds {
    /// Those of the payment system (its specification, section 2): 64 slots of 256 KiB.
    fn default() -> Self {
        Self {
            window: 64,
            retain: 1_024,
            payload_max: 256 << 10,
            frontier_every: Span::millis(50),
            resend: Span::millis(500),
            resend_max: Span::secs(10),
            pull: Span::millis(100),
            pull_max: Span::secs(5),
        }
    }
}

/// What the user of a reliable broadcast asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Broadcasts a payload in this node's next slot, whose number is said: one that has a payload already keeps it, so that
    /// after a restart everything can be offered again.
    Broadcast {
        /// Which slot: 1, 2, 3, ...
        sequence: u64,
        /// What to broadcast.
        payload: Bytes,
    },
    /// The same for a payload that the user put together and need not have read.
    BroadcastRead {
        /// Which slot: 1, 2, 3, ...
        sequence: u64,
        /// What to broadcast.
        payload: Bytes,
        /// What stands for it: see [`Items::digest`].
        digest: Hash,
        /// What reading it would give: see [`Items::read`].
        read: Read,
    },
    /// Answers `Proposed`: this node endorses the payload except the listed items.
    Judge {
        /// Which slot.
        slot: Slot,
        /// Which payload.
        digest: Hash,
        /// Items this node does not endorse; normally none.
        except: Vec<u32>,
    },
    /// Of a slot that older views left open to nothing but a certificate: what is certified in the lane behind it names this payload, so no other one
    /// is certified. Nothing happens where it is open to another one, or certified. Asked again after a restart.
    Decide {
        /// Which slot.
        slot: Slot,
        /// Which payload.
        digest: Hash,
    },
}

/// What a reliable broadcast tells its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// May this node endorse the payload? Nothing is promised before `Judge`.
    Proposed {
        /// Which slot.
        slot: Slot,
        /// The payload.
        payload: Bytes,
    },
    /// The slot's payload, the same at every correct node.
    Delivered {
        /// Which slot.
        slot: Slot,
        /// The payload.
        payload: Bytes,
        /// Its items that are not delivered by this proof: those that too few endorse. None where payloads are delivered whole.
        open: Except,
        /// A transferable proof, where the broadcast gives one.
        proof: Option<Bytes>,
    },
    /// The source signed two payloads for one slot.
    Conflict {
        /// Which slot.
        slot: Slot,
        /// Both, with what proves them.
        evidence: Bytes,
    },
    /// The offer was not taken.
    Refused {
        /// Why.
        why: Refusal,
    },
}

/// Consistent broadcast per slot.
pub trait ReliableBroadcast: Machine<Input = Offer, Output = Broadcast> {
    /// Longest payload that it carries, in bytes: longer ones are refused, of peers too.
    fn payload_max(&self) -> u32;

    /// Transferable proofs of a slot that are kept, each of some item that those before it do not prove: encodings of a
    /// [`Transferable`]. None where the broadcast gives none, or the slot is too old.
    fn proofs(&self, slot: Slot) -> Vec<Bytes>;

    /// What [`Items::read`] gave for the payload that was just proposed in a slot; `None` where it gives nothing, and where the
    /// payload came from the disk.
    fn read(&self, _slot: Slot) -> Option<Read> {
        None
    }

    /// Records of what stays good in a later view: payloads and certificates, and no endorsements. None where the broadcast does not
    /// change its view.
    fn crossing(&self) -> Vec<Self::Record> {
        Vec::new()
    }

    /// The digest under which a slot's proposed payload is judged, where that is not what the user takes for it.
    fn judged_as(&self, _slot: Slot) -> Option<Hash> {
        None
    }
}
