//! Messages between clients and brokers; each fits a datagram at a payload of up to 1,024 bytes.

mod body;
mod draw;

use synod_crypto::{Hash, PublicKey, Signature};
use synod_machine::Queue;
use synod_wire::{Blob, Malformed, Reader, Why, Wire, Writer};

use super::Nack;
use crate::card::Card;
use crate::certificate::{AGGREGATE_BYTES, Aggregate, HeightCertificate, Legitimacy};
use crate::dedup::EXC_LEAF_BYTES;
use crate::fixed::Fixed;
use crate::statement::BlsShareBytes;
use crate::tree::{EntryProof, TreeShape};

/// Version of client messages.
const VERSION: u8 = 1;

/// A client's message on its way into a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// The client.
    pub id: u32,
    /// Its sequence number.
    pub k0: u64,
    /// What it broadcasts; never empty.
    pub message: Blob<65_535>,
    /// Its parity bit.
    pub parity: bool,
    /// Its signature over SUBMIT.
    pub t: Signature,
    /// Why `k0` is legitimate, when the broker asked for it.
    pub legitimacy: Option<Legitimacy>,
}

/// Shows a client that its message stands under a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inclusion {
    /// The root.
    pub root: Hash,
    /// The number all signers share.
    pub k: u64,
    /// Entries and message size of the batch.
    pub shape: TreeShape,
    /// That the client's entry is among them.
    pub proof: EntryProof,
    /// Why `k` is legitimate, for a client that may not know it.
    pub height: Option<HeightCertificate>,
    /// Whether the batch is closed: the proof is for reading DELIVERY, not for signing.
    pub closed: bool,
}

/// The leaf of the exceptions vector with a client's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceptionProof {
    /// The leaf.
    pub leaf: [u8; EXC_LEAF_BYTES],
    /// The siblings above it.
    pub path: Vec<Hash>,
}

/// Tells a client that the batch with its message was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// First half of what the client signed, by which it knows the batch.
    pub root_commit: [u8; 16],
    /// The height the batch took.
    pub height: u64,
    /// Its digest.
    pub digest: Hash,
    /// Tree over the exceptions.
    pub exceptions_root: Hash,
    /// Entries not delivered.
    pub exc_count: u32,
    /// The servers' signatures.
    pub aggregate: Aggregate,
    /// The client's place in the exceptions; there is one exactly when `exc_count` is above 0.
    pub exception: Option<ExceptionProof>,
}

/// Tells a client where it stands; answers its one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAnswer {
    /// The lowest free sequence number.
    pub next_k: u64,
    /// Tag of the last delivered message.
    pub tag: u64,
    /// The servers' signatures over STATE.
    pub aggregate: Aggregate,
    /// The newest certificate of a height.
    pub height: HeightCertificate,
}

/// Tells a client its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The height the sign-up batch took.
    pub height: u64,
    /// Its digest.
    pub digest: Hash,
    /// Which card of the batch.
    pub index: u32,
    /// Cards of the batch.
    pub count: u32,
    /// The id, or `u32::MAX` for none.
    pub id: u32,
    /// The siblings above the card's leaf.
    pub path: Vec<Hash>,
    /// Cards that were not appended.
    pub exc_count: u32,
    /// The servers' signatures.
    pub aggregate: Aggregate,
}

/// What clients and brokers say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// C->B: take this.
    Submit(Submit),
    /// B->C: it stands here; acknowledges SUBMIT.
    Inclusion(Inclusion),
    /// C->B: the client's share of the multi-signature; acknowledges INCLUSION.
    MultiSig {
        /// The client.
        id: u32,
        /// First half of what it signed.
        root_commit: [u8; 16],
        /// Its signature, uncompressed.
        share: Box<BlsShareBytes>,
    },
    /// B->C: it was delivered, or why not.
    Delivery(Box<Delivery>),
    /// C->B: DELIVERY of this height came.
    Ack {
        /// The height.
        height: u64,
    },
    /// B->C: not taken.
    Nack {
        /// Why.
        why: Nack,
        /// When to try again, in milliseconds.
        retry_ms: u32,
    },
    /// C->B: where do I stand?
    Query {
        /// Makes the answer fresh.
        nonce: u64,
        /// The client.
        id: u32,
    },
    /// B->C: the answer of f + 1 servers.
    State(Box<StateAnswer>),
    /// C->B: a card for the directory.
    SignUp(Box<Card>),
    /// B->C: the id of the card.
    Signed(Box<Signed>),
    /// B->C: show that the id is yours.
    Challenge {
        /// To be signed.
        nonce: [u8; 16],
    },
    /// C->B: it is mine.
    Claim {
        /// The client.
        id: u32,
        /// Its signature over CLAIM.
        signature: Signature,
    },
}

/// Bytes of a digest.
const DIGEST: usize = 32;

const FIRST: u16 = 1;
const SECOND: u16 = 2;

impl ClientMessage {
    const fn kind(&self) -> u8 {
        match self {
            Self::Submit(_) => 1,
            Self::Inclusion(_) => 2,
            Self::MultiSig { .. } => 3,
            Self::Delivery(_) => 4,
            Self::Ack { .. } => 5,
            Self::Nack { .. } => 6,
            Self::Query { .. } => 7,
            Self::State(_) => 8,
            Self::SignUp(_) => 9,
            Self::Signed(_) => 10,
            Self::Challenge { .. } => 11,
            Self::Claim { .. } => 12,
        }
    }

    const fn flags(&self) -> u16 {
        let (first, second) = match self {
            Self::Submit(submit) => (submit.parity, submit.legitimacy.is_some()),
            Self::Inclusion(inclusion) => (inclusion.height.is_some(), inclusion.closed),
            _ => (false, false),
        };
        (if first { FIRST } else { 0 }) | (if second { SECOND } else { 0 })
    }

    /// The outgoing queue: datagrams are one unordered queue.
    #[must_use]
    pub const fn queue(&self) -> Queue {
        Queue::CONTROL
    }

    /// What the broker's challenge must be answered with.
    #[must_use]
    pub const fn claim(nonce: [u8; 16], broker: PublicKey, id: u32) -> crate::statement::LinkClaim {
        crate::statement::LinkClaim { nonce, broker, id }
    }
}

impl Wire for ClientMessage {
    fn write(&self, out: &mut Writer) {
        out.byte(self.kind());
        out.byte(VERSION);
        self.flags().put(out);
        self.put_body(out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        let (kind, version, flags) = (u8::take(input)?, u8::take(input)?, u16::take(input)?);
        if version != VERSION {
            return Err(Malformed { why: Why::UnknownVersion(version), ..refusal });
        }
        let message = Self::take_body(kind, flags, input)?;
        if message.flags() == flags { Ok(message) } else { Err(refusal) }
    }

    /// Exact but for what explains a number: bytes that fill what was asked for are shared without asking for more.
    fn size_hint(&self) -> usize {
        let height = |of: &HeightCertificate| HeightCertificate::FIXED_BYTES + of.aggregate.signers.width();
        let aggregate = |of: &Aggregate| AGGREGATE_BYTES + of.signers.width();
        4 + match self {
            Self::Submit(submit) => 78 + submit.message.len() + submit.legitimacy.as_ref().map_or(0, |_| 256),
            Self::Inclusion(Inclusion { proof, height: shown, .. }) => {
                50 + proof.neighbours.len() + DIGEST * proof.path.len() + shown.as_ref().map_or(0, height)
            }
            Self::MultiSig { .. } => 212,
            Self::Delivery(delivery) => {
                let beside = |of: &ExceptionProof| EXC_LEAF_BYTES + DIGEST * of.path.len();
                92 + aggregate(&delivery.aggregate) + delivery.exception.as_ref().map_or(0, beside)
            }
            Self::Ack { .. } => 8,
            Self::Nack { .. } => 5,
            Self::Query { .. } => 12,
            Self::State(state) => 40 + aggregate(&state.aggregate) + height(&state.height),
            Self::SignUp(card) => card.size_hint(),
            Self::Signed(signed) => 56 + DIGEST * signed.path.len() + aggregate(&signed.aggregate),
            Self::Challenge { .. } => 16,
            Self::Claim { .. } => 68,
        }
    }
}
