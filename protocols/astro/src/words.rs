//! What replicas say, keep and tell.

use std::sync::Arc;

use synod_crypto::{Hash, PublicKey, Signature, Statement};
use synod_ledger::{AccountId, Code, Entry, EntryId, Flags, Kind, Opening, Part, Standing, Total, UserData};
use synod_machine::broadcast::{Context, Except, ITEMS_MAX, Lot, PAYLOAD_MAX};
use synod_machine::{Message as Spoken, Queue, Record as Kept};
use synod_wire::{Blob, Bytes, Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer, wire};

use crate::batch::{Line, Opened};
use crate::bundle::{Bundle, BundleId, BundlesSeen, PLACES_MAX, Place};
use crate::cut::{
    Accounts, CertifiedCut, Cut, CutCertificate, CutSign, LaneEnd, Piece, Proof, RootRecord, Served,
};
use crate::dependency::{Credit, DEPENDENCIES_MAX, Dependency};
use crate::together::Invitation;
use crate::torn::TwoEntries;
use crate::wallet::Log;
use crate::witness::Witnessed;

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

/// What the local user asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Pays, by the rules of this representative's customers.
    Order {
        /// Returned in the answer.
        ticket: u64,
        /// What is ordered.
        draft: Draft,
    },
    /// Such orders, each with its ticket, for less than one by one.
    Orders(Vec<(u64, Draft)>),
    /// Carries an entry that its owner signed.
    Signed {
        /// Returned in the answer.
        ticket: u64,
        /// The entry.
        line: Line,
    },
    /// Opens an account of this node's own registrar.
    Open {
        /// Returned in the answer.
        ticket: u64,
        /// The account; local number 0 stands for the registrar's next.
        opening: Opening,
    },
    /// All settled entries up to this position are kept by the user for good: they are told no more after a restart.
    Kept(u64),
    /// How do these accounts stand here?
    Look {
        /// Returned in the answer.
        ticket: u64,
        /// The first of them.
        from: AccountId,
        /// How many at most; above [`LOOKED_MAX`] so many.
        count: u32,
    },
    /// Would this entry be endorsed, if the holder of this key signed it?
    Check {
        /// Returned in the answer.
        ticket: u64,
        /// The entry.
        entry: Arc<Entry>,
        /// The key.
        key: PublicKey,
    },
    /// An owner signed the tree that it was asked to sign.
    Share {
        /// See [`Invitation::number`].
        number: u64,
        /// Who.
        owner: AccountId,
        /// Over [`crate::SignedTogether`], uncompressed.
        share: [u8; 192],
    },
    /// How far is the log of this account?
    ReadLog {
        /// Returned in the answer.
        ticket: u64,
        /// The account.
        account: AccountId,
    },
    /// How far are the lanes?
    ReadLanes {
        /// Returned in the answer.
        ticket: u64,
    },
    /// What is on its way to other shards?
    ReadBundles {
        /// Returned in the answer.
        ticket: u64,
    },
    /// A proof of how an account stands behind the last certified cut, or that it is not there, please.
    Prove {
        /// Returned in the answer.
        ticket: u64,
        /// In which ledger.
        ledger: u32,
        /// Which account.
        account: AccountId,
    },
}

/// Most accounts of one [`Input::Look`].
pub const LOOKED_MAX: u32 = 1_024;

/// An account as it stands at one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What has settled.
    pub standing: Standing,
    /// What holds set aside.
    pub pending: Total,
    /// What can be spent of what has settled.
    pub available: Total,
    /// What was paid to it and not collected yet (profile II).
    pub incoming: Total,
    /// Its entries that were accepted here and have not settled.
    pub open: u32,
    /// What keeps it from going on, if its owner signed two entries for a place and no certificate is known here: it is conflicted.
    pub torn: Option<Arc<TwoEntries>>,
}

/// How far one representative's batches are at one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSeen {
    /// Whose they are: a member's number.
    pub lane: u8,
    /// The last one that was judged here, or certified.
    pub last: u64,
    /// All up to this one are certified here.
    pub frontier: u64,
    /// Of this member's own batches: who has not said that all certified ones settled there, and up to which each has.
    pub behind: Vec<(u8, u64)>,
}

/// How sure a payment is (specification, section 4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Its representative has it.
    Accepted,
    /// No other entry can have its place; it settles at every correct replica.
    Certified,
    /// A correct replica settled it.
    Settled,
    /// It survives any f faults.
    Stable,
}

/// Why an order was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The ledger's reason.
    Ledger(Code),
    /// An order of this name has this place: nothing happens twice.
    Exists(EntryId),
    /// Over a window; try again after so many milliseconds.
    Busy(u32),
}

/// What the local user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The order has its place.
    Accepted {
        /// Which order.
        ticket: u64,
        /// The entry.
        entry: Arc<Entry>,
        /// Its digest.
        digest: Hash,
    },
    /// The order that was just accepted waits in its log until money comes (SYN-3121, profile I).
    Queued {
        /// Which order.
        ticket: u64,
    },
    /// The order was not taken, and nothing happened.
    Refused {
        /// Which order.
        ticket: u64,
        /// Why.
        why: Refusal,
    },
    /// Entries that this representative carries are surer than before.
    Progress {
        /// How sure.
        level: Level,
        /// Which, with their callers' names for them, in the order of their batch.
        entries: Vec<(EntryId, u128)>,
    },
    /// An account has its number; it opens once its batch is certified.
    Numbered {
        /// Which opening.
        ticket: u64,
        /// The account.
        account: AccountId,
    },
    /// How accounts stand here, in the order of their names.
    Looked {
        /// Which question.
        ticket: u64,
        /// From the first one that was asked for.
        accounts: Vec<Seen>,
    },
    /// Whether an entry would be endorsed now.
    Checked {
        /// Which question.
        ticket: u64,
        /// Why not.
        why: Option<Refusal>,
    },
    /// How far a log is.
    Log {
        /// Which question.
        ticket: u64,
        /// The log; none of an account that is not open here.
        log: Option<Log>,
    },
    /// How far lanes are, in the order of their numbers.
    Lanes {
        /// Which question.
        ticket: u64,
        /// Each of the view.
        lanes: Vec<LaneSeen>,
    },
    /// What is on its way between shards.
    Bundles {
        /// Which question.
        ticket: u64,
        /// See there.
        bundles: BundlesSeen,
    },
    /// Entries have settled here, in the order in which entries settle here. Told again after a restart, in the same order
    /// under the same numbers, unless they were [`Input::Kept`].
    Settled {
        /// How many had settled here with the first of them, since the beginning; each other has the next number.
        first: u64,
        /// The entries with their digests.
        entries: Vec<(Arc<Entry>, Hash)>,
    },
    /// Entries of other shards are credited here: told as [`Self::Settled`] is, in one order with those.
    Imported {
        /// How many had settled and been credited here with the first of them, since the beginning; each other has the next number.
        first: u64,
        /// The entries with their digests.
        entries: Vec<(Arc<Entry>, Hash)>,
    },
    /// An entry's place is taken and nothing has moved, for there was no money (SYN-3122, profile II). Told as [`Self::Settled`] is, in one
    /// order with those.
    Rejected {
        /// How many had settled here with it, since the beginning.
        position: u64,
        /// The entry.
        entry: Arc<Entry>,
        /// Its digest.
        digest: Hash,
    },
    /// A batch of which accounts of this node's registrar pay or are paid is certified, as these proofs show. Told before what it
    /// settles; after a restart again, until more entries are [`Input::Kept`] than had settled when it was told.
    Certified {
        /// The batch.
        opened: Arc<Opened>,
        /// See [`synod_machine::broadcast::ReliableBroadcast::proofs`].
        proofs: Vec<Bytes>,
    },
    /// A member's word that a batch of this node's own has settled there, or more of it than by its last word. Its signature was
    /// checked.
    Receipted(Receipt),
    /// Owners are asked to sign together what they signed alone; those who do not within [`crate::Parameters::distil`] are left as they
    /// are. All of them are of one tree.
    Invited(Vec<Invitation>),
    /// An account is open.
    Opened(AccountId),
    /// A representative signed two batches for one place.
    TwoBatches {
        /// Whose lane.
        lane: synod_quorum::NodeId,
        /// Which place.
        sequence: u64,
        /// What proves it, as the broadcast shows it.
        evidence: Bytes,
    },
    /// An entry is certified that contradicts one that is certified or has settled: more members lie than may. What came first
    /// stays, and this entry is left out.
    Contradiction {
        /// Its place.
        id: EntryId,
        /// The batch whose certificate it is; none where an entry behind it is certified.
        lot: Option<Lot>,
        /// What is known of the entry that stands in its place, if there is one, and the one that is left out.
        evidence: Bytes,
    },
    /// An owner signed two entries for one place, which is not decided here. Told again after a restart while it is not.
    Conflict {
        /// The place.
        id: EntryId,
        /// Both.
        two: Arc<TwoEntries>,
    },
    /// A quorum has the same state behind a cut.
    CutCertified {
        /// The state.
        record: Box<RootRecord>,
        /// The proof.
        certificate: Box<CutCertificate>,
        /// The accounts behind it, where this member signed it: all that it counts has settled here then, and was told.
        accounts: Option<Arc<Accounts>>,
    },
    /// A member signed of owners' signatures what is not so.
    FalseWitness {
        /// Who.
        member: synod_quorum::NodeId,
        /// Of which batch.
        lot: Lot,
        /// A [`crate::FalseWitness`].
        evidence: Bytes,
    },
    /// A member signed two states behind one cut.
    TwoRoots {
        /// Who.
        member: synod_quorum::NodeId,
        /// The cut's number.
        number: u64,
        /// Both signatures.
        evidence: Bytes,
    },
    /// The answer to [`Input::Prove`].
    Proof {
        /// Which question.
        ticket: u64,
        /// The proof; none before a cut is certified whose state is here, and where the ledger has no accounts.
        proof: Option<Box<Proof>>,
    },
    /// The state behind a certified cut took the place of this member's own: it was further behind than others keep batches. What
    /// settled in between is not told entry by entry; what was ordered here and had not gone out is forgotten, as in a restart.
    CaughtUp {
        /// The cut's number.
        number: u64,
        /// The last position that was told; the next entry that settles has the next one.
        position: u64,
    },
}
