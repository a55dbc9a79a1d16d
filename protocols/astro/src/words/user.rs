//! What a replica's local user asks and is told.

use super::{Draft, Receipt};
use crate::batch::{Line, Opened};
use crate::bundle::BundlesSeen;
use crate::cut::{Accounts, CutCertificate, Proof, RootRecord};
use crate::together::Invitation;
use crate::torn::TwoEntries;
use crate::wallet::Log;
use std::sync::Arc;
use synod_crypto::{Hash, PublicKey};
use synod_ledger::{AccountId, Code, Entry, EntryId, Opening, Standing, Total};
use synod_machine::broadcast::Lot;
use synod_wire::Bytes;

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
