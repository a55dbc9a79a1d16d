//! What members sign, say and keep in the signed broadcast.

use synod_crypto::{Evidence, Group, Hash, Refusal, Signature, Statement, Threshold};
use synod_machine::{Message as Spoken, Queue, Record as Kept, planted};
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::{Blob, List, wire};

pub use synod_machine::broadcast::{Context, Except, ITEMS_MAX, UNCHECKED};
use synod_machine::broadcast::{PAYLOAD_MAX, Transferable};

use crate::Lot;

/// Members that a cluster has at most.
const MEMBERS: usize = 128;
/// Rows of one answer about slots that are certified in part.
pub(super) const ROWS_PER_ANSWER: usize = 256;
/// Slots that one message tells of which are certified above one that is not.
pub(super) const BEYOND_MAX: usize = 256;
/// Longest certificate that is put together, in bytes: what a frame of a proposal carries.
pub(super) const CERTIFICATE_BYTES_MAX: usize = PAYLOAD_MAX as usize;

wire! {
    /// What an ACK signs: this payload and no other has the slot, and all of it but the exceptions is endorsed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Acked {
        /// Where it is good.
        pub context: Context,
        /// The slot.
        pub lot: Lot,
        /// Of the payload.
        pub digest: Hash,
        /// See [`Except::digest`].
        pub except: Hash,
        /// Whether the signer checked that the items are authorized.
        pub authorized: bool,
    }

    /// One member's part of a certificate.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Said {
        /// Whose.
        pub member: u8,
        /// What it does not endorse.
        pub except: Except,
        /// See [`Acked`].
        pub authorized: bool,
        /// Over [`Acked`].
        pub signature: Signature,
    }

    /// ACK: answered to whoever collects.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ack {
        /// The slot.
        pub lot: Lot,
        /// Of the payload.
        pub digest: Hash,
        /// By whom, and what not.
        pub said: Said,
    }

    /// Proof that a payload has its slot: an item is certified that q signers do not except.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Certificate {
        /// Where it is good.
        pub context: Context,
        /// The number of the view.
        pub epoch: Epoch,
        /// The slot.
        pub lot: Lot,
        /// Of the payload.
        pub digest: Hash,
        /// Who signed, lowest member first.
        pub said: List<Said, MEMBERS>,
    }

    /// Two payloads in one slot, by proofs that anybody can check.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum TwoPayloads {
        /// Its source signed both.
        0 = Signed {
            /// The first, as it is kept here.
            one: Acked,
            /// Over it.
            first: Signature,
            /// The other.
            other: Acked,
            /// Over it.
            second: Signature,
        },
        /// Quorums signed both: more members lie than may.
        1 = Certified {
            /// The one that was delivered here.
            one: Certificate,
            /// The other.
            other: Certificate,
        },
    }

    /// What is left uncertified in a slot.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Row {
        /// The slot.
        pub lot: Lot,
        /// Its items that no certificate here certifies.
        pub open: Except,
    }

    /// Spoken between members.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// PREPARE: the payload of a slot, with its source's ACK, by the source or by whoever passes it on.
        0 = Prepare {
            /// Which slot.
            lot: Lot,
            /// The payload.
            payload: Blob<{ PAYLOAD_MAX as usize }>,
            /// The source's over [`Acked`] without exceptions.
            signature: Signature,
        },
        /// See there.
        1 = Ack(Ack),
        /// COMMIT.
        2 = Commit(Certificate),
        /// What do you say of this slot? Answered by an ACK, or by certificates where there are any.
        3 = Ask(Lot),
        /// The payload of this digest, please.
        4 = Pull {
            /// For which slot.
            lot: Lot,
            /// Of the payload.
            digest: Hash,
        },
        /// Here it is.
        5 = Pulled {
            /// For which slot.
            lot: Lot,
            /// The payload.
            payload: Blob<{ PAYLOAD_MAX as usize }>,
        },
        /// How far this node is, and so many rows tell which slots are certified in part.
        6 = Frontier {
            /// By source: all slots up to this one are certified.
            certified: List<Lot, MEMBERS>,
            /// Certified above one that is not, which a liar may have left for ever; some of them, others the next time.
            beyond: List<Lot, BEYOND_MAX>,
            /// Drawn at each start: rows are numbered anew.
            life: u64,
            /// Rows there are.
            rows: u64,
        },
        /// Rows from this one on, please.
        7 = AskRows(u64),
        /// Rows, the first with this number.
        8 = Rows {
            /// See [`Message::Frontier`].
            life: u64,
            /// The number of the first.
            from: u64,
            /// Rows.
            rows: List<Row, ROWS_PER_ANSWER>,
        },
    }

    /// A promise.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Record {
        /// Before PREPARE, and this node's ACK of it: its own slot has this payload, stored under its digest.
        0 = Mine {
            /// Which slot.
            sequence: u64,
            /// Of the payload.
            digest: Hash,
            /// See [`Message::Prepare`].
            signature: Signature,
        },
        /// Before ACK: this slot has this payload, and what is endorsed of it only grows.
        1 = Accepted {
            /// Which slot.
            lot: Lot,
            /// Of the payload, which is stored.
            digest: Hash,
            /// What is not endorsed.
            except: Except,
            /// See [`Acked`].
            authorized: bool,
            /// See [`Message::Prepare`]: the source's ACK counts for certificates after a restart too, and who lacks the payload
            /// takes it by this.
            signature: Signature,
        },
        /// Before it is passed on or acted upon.
        2 = Committed(Certificate),
        /// A payload is stored under this name.
        3 = Held {
            /// For which slot.
            lot: Lot,
            /// In statements.
            digest: Hash,
            /// Of the blob.
            name: Hash,
        },
    }
}

impl Statement for Acked {
    const PROTOCOL: u8 = 6;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        1
    }
}

/// The shard and view that an endorsement names.
pub(super) fn named(context: Context) -> Context {
    if planted!(A18) { Context { shard: 0, view: Hash::ZERO } } else { context }
}

impl Said {
    /// What was signed.
    pub(crate) fn statement(&self, context: Context, lot: Lot, digest: Hash) -> Acked {
        let context = named(context);
        Acked { context, lot, digest, except: self.except.digest(), authorized: self.authorized }
    }
}

impl Certificate {
    /// Items that fewer than `quorum` signers endorse, of those that somebody excepts. All others are certified.
    #[must_use]
    pub fn open(&self, quorum: u32) -> Except {
        let mut excepted: Vec<u32> =
            self.said.iter().flat_map(|said| said.except.items().iter().copied()).collect();
        excepted.sort_unstable();
        let signers = u32::try_from(self.said.len()).unwrap_or(u32::MAX);
        let mut open = Vec::new();
        for same in excepted.chunk_by(|one, other| one == other) {
            let against = u32::try_from(same.len()).unwrap_or(u32::MAX);
            if signers.saturating_sub(against) < quorum {
                open.extend(same.first());
            }
        }
        Except::new(open).unwrap_or_default()
    }

    /// The certificate of as many of these as find place, shortest lists first; `None` where a quorum does not.
    pub(crate) fn fitting(
        (context, epoch): (Context, Epoch),
        lot: Lot,
        digest: Hash,
        mut said: Vec<Said>,
        quorum: u32,
    ) -> Option<Self> {
        said.sort_by_key(|one| (one.except.items().len(), one.member));
        let mut bytes = 0;
        said.retain(|one| {
            bytes += size_of::<Said>() + size_of_val(one.except.items());
            bytes <= CERTIFICATE_BYTES_MAX
        });
        said.sort_by_key(|one| one.member);
        let is_enough = u32::try_from(said.len()).is_ok_and(|count| count >= quorum);
        let said = List::try_from(said).ok().filter(|_| is_enough)?;
        Some(Self { context, epoch, lot, digest, said })
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lists: usize = self.said.iter().map(|said| size_of_val(said.except.items())).sum();
        (size_of::<Self>() + self.said.len() * size_of::<Said>() + lists) as u64
    }
}

impl Evidence for Certificate {
    type Statement = Acked;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Acked>>, Refusal> {
        if !self.said.is_sorted_by(|one, next| one.member < next.member) {
            return Err(Refusal::Unfit("the signers of a certificate stand in order, each once"));
        }
        let signed = self.said.iter().map(|said| {
            let statement = said.statement(self.context, self.lot, self.digest);
            (NodeId(u32::from(said.member)), statement, said.signature)
        });
        let threshold = if planted!(A16) { Threshold::Weak } else { Threshold::Intersecting };
        Ok(vec![Group { threshold, signed: signed.collect() }])
    }
}

impl Transferable for Certificate {
    fn context(&self) -> Context {
        self.context
    }

    fn lot(&self) -> Lot {
        self.lot
    }

    fn digest(&self) -> Hash {
        self.digest
    }

    fn signers(&self) -> NodeSet {
        self.said.iter().fold(NodeSet::EMPTY, |all, said| all.with(NodeId(u32::from(said.member))))
    }

    fn excepting(&self, item: u32) -> Option<NodeId> {
        let mut excepting = self.said.iter().filter(|said| said.except.items().binary_search(&item).is_ok());
        excepting.next().map(|said| NodeId(u32::from(said.member)))
    }

    fn of_item(&self, item: u32, quorum: u32) -> Option<Self> {
        let endorses = |said: &&Said| said.except.items().binary_search(&item).is_err();
        let mut said: Vec<Said> = self.said.iter().filter(endorses).cloned().collect();
        said.sort_by_key(|said| (said.except.items().len(), said.member));
        said.truncate(usize::try_from(quorum).unwrap_or(usize::MAX));
        said.sort_by_key(|said| said.member);
        let is_enough = u32::try_from(said.len()).is_ok_and(|count| count >= quorum);
        let said = List::try_from(said).ok().filter(|_| is_enough)?;
        Some(Self { said, ..self.clone() })
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        match self {
            // Lists of exceptions can make a certificate long.
            Self::Prepare { .. } | Self::Commit(_) => Queue::PROPOSAL,
            Self::Pulled { .. } | Self::Rows { .. } => Queue::BULK,
            Self::Ack(_) | Self::Ask(_) | Self::Pull { .. } | Self::Frontier { .. } | Self::AskRows(_) => {
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
    /// Collect the ACKs of a slot again.
    Resend(Lot),
    /// Ask the next peer for a payload.
    Pull(Lot),
}

#[cfg(test)]
mod tests {
    use synod_wire::Wire;

    use super::*;

    const CONTEXT: Context = Context { shard: 1, view: Hash([2; 32]) };
    const LOT: Lot = Lot { source: 3, sequence: 4 };

    fn said(member: u8, excepted: u32) -> Said {
        let except = Except::new((0..excepted).collect()).expect("rising");
        Said { member, except, authorized: true, signature: Signature([0; 64]) }
    }

    fn fitting(said: Vec<Said>) -> Option<Certificate> {
        Certificate::fitting((CONTEXT, Epoch(1)), LOT, Hash([7; 32]), said, 86)
    }

    #[test]
    fn a_certificate_fits_a_frame_though_a_third_of_the_members_except_everything() {
        let longest = u32::try_from(ITEMS_MAX).expect("few");
        let all: Vec<Said> =
            (0..128).map(|member| said(member, if member < 42 { longest } else { 9_000 })).collect();
        let certificate = fitting(all).expect("86 short lists find place");
        assert!(certificate.encode().len() <= PAYLOAD_MAX as usize);
        assert!(certificate.said.len() >= 86);
        assert!(certificate.said.is_sorted_by_key(|one| one.member));
        assert!(certificate.said.iter().filter(|one| one.member >= 42).count() == 86, "the shortest stay");
    }

    #[test]
    fn no_certificate_is_made_where_the_lists_of_a_quorum_find_no_place() {
        let longest = u32::try_from(ITEMS_MAX).expect("few");
        assert!(fitting((0..128).map(|member| said(member, longest)).collect()).is_none());
        assert!(fitting((0..85).map(|member| said(member, 0)).collect()).is_none(), "no quorum");
    }

    #[test]
    fn an_endorsement_is_a_statement_of_one_shard_and_one_view() {
        let (said, digest) = (said(1, 0), Hash([7; 32]));
        for other in [Context { shard: 9, ..CONTEXT }, Context { view: Hash([3; 32]), ..CONTEXT }] {
            assert_ne!(said.statement(CONTEXT, LOT, digest), said.statement(other, LOT, digest));
        }
    }
}
