//! What members say, keep and compute in Bracha's broadcast.

use synod_crypto::{Hash, Keys};
use synod_machine::{Cost, Job as Work, Message as Spoken, Queue, Record as Kept};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, List, wire};

use crate::Lot;
use synod_machine::broadcast::PAYLOAD_MAX;

/// Members that a cluster has at most.
const LANES: usize = 128;

wire! {
    /// A digest for a slot.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Vote {
        /// For which slot.
        pub lot: Lot,
        /// Of the payload.
        pub digest: Hash,
    }

    /// Spoken between members.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// PREPARE: the sender's payload for its own slot.
        0 = Prepare {
            /// Which of its slots.
            sequence: u64,
            /// The payload.
            payload: Blob<{ PAYLOAD_MAX as usize }>,
        },
        /// ECHO: the first payload seen had this digest.
        1 = Echo(Vote),
        /// READY: no other payload can be delivered.
        2 = Ready(Vote),
        /// What was said in this slot? Answered by the votes of whoever is asked, and by its own payload.
        3 = Ask(Lot),
        /// The payload of these votes, please.
        4 = Pull(Vote),
        /// Here it is.
        5 = Pulled {
            /// For which slot.
            lot: Lot,
            /// The payload.
            payload: Blob<{ PAYLOAD_MAX as usize }>,
        },
        /// Delivered so far, by source, as far as anything is.
        6 = Frontier(List<Lot, LANES>),
    }

    /// A promise.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Record {
        /// Before PREPARE: this node's slot has this payload, which is stored under its digest.
        0 = Mine {
            /// Which slot.
            sequence: u64,
            /// Of the payload.
            digest: Hash,
        },
        /// Before ECHO: no other payload is echoed here.
        1 = Echoed(Vote),
        /// Before READY: ready for no other payload.
        2 = Readied(Vote),
        /// A source's slots are delivered up to this one, and payloads of old ones are erased: no promise.
        3 = Delivered(Lot),
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        match self {
            Self::Prepare { .. } => Queue::PROPOSAL,
            Self::Pulled { .. } => Queue::BULK,
            Self::Echo(_) | Self::Ready(_) | Self::Ask(_) | Self::Pull(_) | Self::Frontier(_) => {
                Queue::CONTROL
            }
        }
    }
}

impl Kept for Record {}

/// A timer's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Say how far this node is.
    Frontier,
    /// Say the votes of a slot again.
    Resend(Lot),
    /// Ask the next peer for a payload.
    Pull(Lot),
}

/// Hashes a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Who sent it; this node for its own.
    pub from: NodeId,
    /// For which slot.
    pub lot: Lot,
    /// The payload.
    pub payload: Bytes,
}

/// A payload with its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// What was asked.
    pub job: Job,
    /// Of the payload.
    pub digest: Hash,
}

impl Work for Job {
    type Done = Hashed;

    fn run(self, _: &Keys) -> Hashed {
        let digest = Hash::of(&self.payload);
        Hashed { job: self, digest }
    }

    fn cost(&self) -> Cost {
        Cost { hashed: self.payload.len() as u64, ..Cost::default() }
    }

    fn peer(&self) -> Option<NodeId> {
        Some(self.from)
    }
}
