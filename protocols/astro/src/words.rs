//! What replicas say, keep and tell.

mod user;

use std::sync::Arc;

use synod_crypto::{Hash, Signature, Statement};
use synod_ledger::{AccountId, Entry, EntryId, Flags, Kind, Part, Total, UserData};
use synod_machine::broadcast::{Context, Except, ITEMS_MAX, Lot, PAYLOAD_MAX};
use synod_machine::{Message as Spoken, Queue, Record as Kept};
use synod_wire::{Blob, Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer, wire};

use crate::batch::Line;
use crate::bundle::{Bundle, BundleId, PLACES_MAX, Place};
use crate::cut::{CertifiedCut, Cut, CutSign, LaneEnd, Piece, Served};
use crate::dependency::{Credit, DEPENDENCIES_MAX, Dependency};
use crate::torn::TwoEntries;
use crate::witness::Witnessed;

pub use user::{Input, LOOKED_MAX, LaneSeen, Level, Output, Refusal, Seen};

/// Receipts asked for at once.
pub(crate) const ASKED_MAX: usize = 64;
/// Imported entries told at once.
pub(crate) const IMPORTED_MAX: usize = 512;

wire! {
    /// What an owner signs of an entry. It is good in every view.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Authorized {
        /// Of the entry.
        pub entry: Hash,
    }

    /// What a replica signs after it settled a batch: all entries have settled but those that are open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Settled {
        /// The shard and view of the signer.
        pub context: Context,
        /// Which batch.
        pub lot: Lot,
        /// Its digest.
        pub digest: Hash,
        /// See [`Except::digest`].
        pub open: Hash,
    }

    /// One replica's word that a batch has settled there.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Receipt {
        /// Which batch.
        pub lot: Lot,
        /// Its digest.
        pub digest: Hash,
        /// Entries that have not settled by this batch.
        pub open: Except,
        /// Whose word.
        pub member: u8,
        /// Over [`Settled`].
        pub signature: Signature,
    }

    /// Spoken between replicas beside the broadcast.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Word {
        /// To the batch's representative.
        0 = Receipt(Receipt),
        /// What have you settled of these?
        1 = AskReceipts(List<Lot, ASKED_MAX>),
        /// The entry of this digest, please: a certificate that I have rests on it.
        2 = Want {
            /// Its place.
            id: EntryId,
            /// Its digest.
            digest: Hash,
        },
        /// Here it is.
        3 = Here(Line),
        /// What a member found of owners' signatures.
        4 = Witnessed(Witnessed),
        /// This is what has settled here: sign the state behind it, please.
        16 = CutPropose(Box<Cut>),
        /// A member's signature on the state behind a cut.
        17 = CutSign(CutSign),
        /// The newest certified cut above this number, please.
        18 = AskCut(u64),
        /// Here it is.
        19 = CutCertified(Box<CertifiedCut>),
        /// A part of the state behind a certified cut, please.
        20 = AskRange {
            /// The cut's number.
            number: u64,
            /// Which part.
            piece: Piece,
        },
        /// Here it is.
        21 = Range(Box<Served>),
        /// To the representative of those who were paid.
        32 = Credit(Credit),
        /// Do you vouch for these payments to those accounts?
        33 = AskCredits(List<(AccountId, EntryId), ASKED_MAX>),
        /// Between shards, and beside a batch that imports: entries of a shard with their proof.
        64 = Bundle(Arc<Bundle>),
        /// The proof of this entry, please: it is said to be imported, or a batch imports it.
        65 = WantProof(Place),
        /// To members of the shard that these left: they are credited here, for good.
        66 = Imported {
            /// Drawn at each start: what is told is counted anew.
            life: u64,
            /// How many this member had credited of that shard's when the first of them was, itself counted, since it remembers; 0
            /// where the answer is to a bundle that came again, and nobody counts.
            first: u64,
            /// The entries.
            places: List<Place, IMPORTED_MAX>,
        },
        /// Of what you imported, this member has settled all up to a number.
        67 = Heard {
            /// In which life of yours it was counted.
            life: u64,
            /// The number.
            upto: u64,
        },
    }

    /// An order that a representative gives its place in the log: of a customer of its institution.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Draft {
        /// Whose log.
        pub spender: AccountId,
        /// What is to happen.
        pub kind: Kind,
        /// The caller's name for it.
        pub transfer: u128,
        /// The ledger.
        pub ledger: u32,
        /// The caller's reason.
        pub code: u16,
        /// See there.
        pub user_data: UserData,
        /// See there.
        pub flags: Flags,
    }

    /// A promise, or what one is judged by.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Promise {
        /// Before a batch is endorsed, but for these entries.
        0 = Endorsed {
            /// Which slot.
            lot: Lot,
            /// What is not endorsed.
            except: Except,
            /// The batch, unless a record before this one holds it.
            batch: Option<Blob<{ PAYLOAD_MAX as usize }>>,
        },
        /// Before entries settle by a certificate, all of the batch but the open ones.
        1 = Certified {
            /// Which slot.
            lot: Lot,
            /// What is not certified.
            open: Except,
            /// The batch, unless a record before this one holds it.
            batch: Option<Blob<{ PAYLOAD_MAX as usize }>>,
        },
        /// Before an entry settles by the certificate of a later one.
        2 = Descended(Line),
        /// Of a snapshot: a part of the book.
        3 = Book(Box<Part>),
        /// Of a snapshot: an open entry.
        4 = Open {
            /// The entry.
            line: Line,
            /// What it takes.
            debit: Total,
            /// Whether a certificate is known.
            is_certified: bool,
            /// Whose certificates.
            lots: List<Lot, LOTS_MAX>,
        },
        /// Of a snapshot: an entry that settled by the certificate of a later one, for whoever is behind.
        5 = Settled(Line),
        /// Of a snapshot: how far a lane is.
        6 = Lane {
            /// The last batch that was judged.
            judged: Lot,
            /// Its digest.
            head: Hash,
            /// All batches up to this one are certified here.
            frontier: u64,
        },
        /// Of a snapshot: a batch.
        7 = Batch {
            /// Which slot.
            lot: Lot,
            /// Its digest.
            digest: Hash,
            /// What is not endorsed, if anything of it is.
            endorsed: Option<Except>,
            /// What is not certified, if anything of it is.
            certified: Option<Except>,
            /// The batch, while it is needed.
            batch: Option<Blob<{ PAYLOAD_MAX as usize }>>,
        },
        /// The user keeps all settled entries up to this position. In a snapshot, those behind it follow.
        8 = Kept(u64),
        /// Of a snapshot: a settled entry that the user does not keep yet, in its order.
        9 = Unkept(Arc<Entry>),
        /// Before nothing is endorsed any more behind a place for which an owner signed two entries.
        10 = Torn(Arc<TwoEntries>),
        /// Before a signature on the state behind a cut leaves.
        16 = CutSigned(CutSign),
        /// The newest certified cut.
        17 = CutCertified(Box<CertifiedCut>),
        /// Of a snapshot: a lane is counted for cuts up to this batch. The places that it carried are those that have settled, but for
        /// those that follow.
        18 = Carried(LaneEnd),
        /// Of a snapshot: the highest place that its lane carried of an account.
        19 = CarriedTo {
            /// Which.
            account: AccountId,
            /// The place.
            place: u64,
        },
        /// The records up to the next [`Self::Whole`] are a snapshot that takes the place of all before them: the state behind a
        /// certified cut, with what was promised beyond.
        20 = Anew,
        /// See there. Without it, what came before [`Self::Anew`] stands.
        21 = Whole,
        /// Before a payment goes with an entry of whoever was paid.
        32 = Collected(Dependency),
        /// Of a snapshot: a payment that nobody collected.
        33 = Unspent {
            /// Who was paid.
            to: AccountId,
            /// The payment.
            entry: Arc<Entry>,
            /// The digest that settled.
            digest: Hash,
            /// What stands for the payment's own dependencies.
            with: Hash,
        },
        /// Of a snapshot: a payment that was collected and has not settled here.
        34 = Ahead {
            /// Who was paid.
            to: AccountId,
            /// The payment.
            id: EntryId,
        },
        /// Of the open entry in the next record: what it is backed with.
        35 = Backed {
            /// The entry's digest.
            digest: Hash,
            /// See there.
            with: List<Dependency, DEPENDENCIES_MAX>,
        },
        /// Of a snapshot: a settled entry that the user does not keep yet, in its order.
        36 = UnkeptAs {
            /// The entry.
            entry: Arc<Entry>,
            /// The digest that settled.
            digest: Hash,
            /// Whether it paid.
            is_paid: bool,
        },
        /// Of a snapshot: entries of a batch that settled by it and were rejected, and the places of those that have not settled.
        37 = Outcome {
            /// Which slot.
            lot: Lot,
            /// What was rejected.
            rejected: Except,
            /// What has not settled.
            places: List<(EntryId, u32), ITEMS_MAX>,
        },
        /// Before a bundle leaves for another shard; a blob of this name holds it.
        64 = Exported {
            /// Where to.
            shard: u16,
            /// The blob.
            name: Hash,
            /// See there.
            bundle: BundleId,
            /// Entries that are not imported there.
            places: List<Place, PLACES_MAX>,
        },
        /// A quorum of another shard imported these entries of a bundle.
        65 = Confirmed {
            /// Where to it was.
            shard: u16,
            /// The blob.
            name: Hash,
            /// Their places.
            ids: List<EntryId, PLACES_MAX>,
        },
        /// Before entries of another shard wait for this node's next batch.
        66 = Inbound(Arc<Bundle>),
        /// Of a snapshot: an entry of another shard whose import is certified, and that pays an account that is not open.
        67 = Incoming(Arc<Entry>),
        /// Of a snapshot: an imported entry that not all members of its shard are known to have heard of.
        68 = Told(Place),
    }
}

/// Most batches that certify one entry and are told when it settles: all that 128 representatives have under way.
pub(crate) const LOTS_MAX: usize = 1 << 17;

impl Statement for Authorized {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        1
    }
}

impl Statement for Settled {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        2
    }
}

/// What replicas say to each other; `A` is the broadcast's vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<A> {
    /// Of the broadcast.
    Broadcast(A),
    /// Beside it.
    Own(Word),
}

/// What a replica keeps; `A` is what the broadcast keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<A> {
    /// Of the broadcast.
    Broadcast(A),
    /// Beside it.
    Own(Promise),
}

/// Two vocabularies in one: a byte tells which.
macro_rules! beside {
    ($($outer:ident, $own:ident;)*) => { $(
        impl<A> From<$own> for $outer<A> {
            fn from(own: $own) -> Self {
                Self::Own(own)
            }
        }

        impl<A: Wire> Wire for $outer<A> {
            fn write(&self, out: &mut Writer) {
                match self {
                    Self::Broadcast(inner) => {
                        out.byte(0);
                        inner.write(out);
                    }
                    Self::Own(own) => {
                        out.byte(1);
                        own.write(out);
                    }
                }
            }

            fn read(input: &mut Reader) -> Result<Self, Malformed> {
                let refusal = input.refuse(Why::UnknownTag(0));
                match u8::read(input)? {
                    0 => Ok(Self::Broadcast(A::read(input)?)),
                    1 => Ok(Self::Own($own::read(input)?)),
                    tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
                }
            }

            fn size_hint(&self) -> usize {
                1 + match self {
                    Self::Broadcast(inner) => inner.size_hint(),
                    Self::Own(own) => own.size_hint(),
                }
            }
        }

        impl<A: Draw> Draw for $outer<A> {
            fn draw(from: &mut Drawn) -> Self {
                if from.below(2) == 0 { Self::Broadcast(A::draw(from)) } else { Self::Own($own::draw(from)) }
            }
        }
    )* };
}

beside! {
    Message, Word;
    Record, Promise;
}

impl<A: Spoken> Spoken for Message<A> {
    fn queue(&self) -> Queue {
        match self {
            Self::Broadcast(message) => message.queue(),
            // A list of open entries can be long.
            Self::Own(Word::Receipt(receipt)) if !receipt.open.items().is_empty() => Queue::PROPOSAL,
            Self::Own(Word::CutPropose(_)) => Queue::PROPOSAL,
            Self::Own(Word::CutCertified(_) | Word::Range(_)) => Queue::BULK,
            Self::Own(Word::Credit(credit)) if !credit.vouch.open.items().is_empty() => Queue::PROPOSAL,
            Self::Own(Word::Bundle(_)) => Queue::PROPOSAL,
            Self::Own(_) => Queue::CONTROL,
        }
    }
}

impl<A: Kept> Kept for Record<A> {}

/// A timer's name; `T` is that of the broadcast's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer<T> {
    /// Of the broadcast.
    Broadcast(T),
    /// What was admitted goes out.
    Flush,
    /// Ask the next peer for an entry.
    Want(EntryId),
    /// Ask for receipts of this node's own batches.
    Receipts,
    /// Another cut is due.
    Cut,
    /// Ask the next member for parts of a state.
    Fetch,
    /// Send again what other shards have not confirmed.
    Border,
    /// Ask the next peer for the proof of an entry that crosses.
    Proof(EntryId),
    /// Check the owners' signatures of this batch, for witnesses are silent.
    Witness(Lot),
    /// Wait no longer for other entries to be signed together with those that wait.
    Plant,
    /// Wait no longer for owners to sign this tree.
    Distil(u64),
}
