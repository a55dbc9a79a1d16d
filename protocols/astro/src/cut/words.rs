//! What members say and sign of cuts.

use synod_crypto::{Evidence, Group, Hash, Refusal, Signature, Statement, Threshold};
use synod_ledger::{AccountId, Node, Total};
use synod_machine::broadcast::{Context, Lot};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{List, wire};

/// Most exceptions of a cut: what a frame carries.
pub const EXCEPTIONS_MAX: usize = 1 << 16;
/// Most ledgers of a shard that cuts are made of.
pub const LEDGERS_MAX: usize = 1_024;
/// Most lanes, and most shards that money goes to or comes from.
const MEMBERS_MAX: usize = 256;

wire! {
    /// How far a cut counts a lane.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LaneEnd {
        /// The last batch; number 0 before the first.
        pub lot: Lot,
        /// Its digest, zero before the first: the next batch of the lane names it.
        pub digest: Hash,
    }

    /// An account whose counted entries are not all those that its lane carried.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Exception {
        /// Which.
        pub account: AccountId,
        /// The highest place that batches of its registrar's lane carried up to the cut.
        pub carried: u64,
        /// The first place that is not counted, below or above that.
        pub first: u64,
    }

    /// A set of entries, by what carries them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cut {
        /// Shard and view.
        pub context: Context,
        /// The number of the view.
        pub epoch: Epoch,
        /// The how-manieth. A number belongs to the member whose turn it is.
        pub number: u64,
        /// That member.
        pub proposer: u8,
        /// Every lane once, lowest first.
        pub lanes: List<LaneEnd, MEMBERS_MAX>,
        /// Lowest account first.
        pub exceptions: List<Exception, EXCEPTIONS_MAX>,
    }

    /// What went to another shard, or came from there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Crossed {
        /// The other shard.
        pub shard: u16,
        /// How much in all.
        pub total: Total,
    }

    /// All accounts of a ledger.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LedgerRoot {
        /// Which ledger.
        pub ledger: u32,
        /// The root over its accounts, with their sums.
        pub root: Node,
        /// How many they are.
        pub count: u32,
        /// What came from other shards, lowest first.
        pub imported: List<Crossed, MEMBERS_MAX>,
        /// What left for other shards, lowest first.
        pub exported: List<Crossed, MEMBERS_MAX>,
    }

    /// The state behind a cut.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RootRecord {
        /// See [`Cut::digest`].
        pub cut: Hash,
        /// Shard and view.
        pub context: Context,
        /// The number of the view.
        pub epoch: Epoch,
        /// The cut's number.
        pub number: u64,
        /// Whose cut it is.
        pub proposer: u8,
        /// Lowest ledger first.
        pub ledgers: List<LedgerRoot, LEDGERS_MAX>,
        /// Over ranges of open holds.
        pub holds: Hash,
        /// How many holds are open.
        pub holds_open: u64,
        /// Over entries of other shards that were credited. Nothing crosses shards yet: zero.
        pub imports: Hash,
    }

    /// What a member signs: this is the state behind that member's cut.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CutSigned {
        /// Shard and view.
        pub context: Context,
        /// The cut's number.
        pub number: u64,
        /// Whose cut it is.
        pub proposer: u8,
        /// See [`RootRecord::digest`].
        pub root: Hash,
    }

    /// A member's signature on a root.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CutSign {
        /// The cut's number.
        pub number: u64,
        /// Whose cut it is.
        pub proposer: u8,
        /// See [`RootRecord::digest`].
        pub root: Hash,
        /// Who signed.
        pub member: u8,
        /// Over [`CutSigned`].
        pub signature: Signature,
    }

    /// One signature of a certificate.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CutSignedBy {
        /// Whose.
        pub member: u8,
        /// Over [`CutSigned`].
        pub signature: Signature,
    }

    /// That a quorum has this state behind a cut.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CutCertificate {
        /// Shard and view.
        pub context: Context,
        /// The number of the view.
        pub epoch: Epoch,
        /// The cut's number.
        pub number: u64,
        /// Whose cut it is.
        pub proposer: u8,
        /// See [`RootRecord::digest`].
        pub root: Hash,
        /// Lowest member first.
        pub signed: List<CutSignedBy, MEMBERS_MAX>,
    }

    /// A cut, the state behind it, and the proof that a quorum has it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CertifiedCut {
        /// The cut.
        pub cut: Cut,
        /// The state behind it.
        pub record: RootRecord,
        /// The proof.
        pub certificate: CutCertificate,
    }
}

impl Statement for CutSigned {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        16
    }
}

impl Cut {
    /// What stands for the cut.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("synod astro cut", self)
    }

    /// The last batch of a lane that counts.
    #[must_use]
    pub fn lane(&self, source: u8) -> Option<&LaneEnd> {
        let at = self.lanes.binary_search_by_key(&source, |end| end.lot.source).ok()?;
        self.lanes.get(at)
    }

    /// The exception of an account.
    #[must_use]
    pub fn exception(&self, account: AccountId) -> Option<&Exception> {
        let at = self.exceptions.binary_search_by_key(&account, |one| one.account).ok()?;
        self.exceptions.get(at)
    }
}

impl RootRecord {
    /// What members sign of it.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("synod astro root", self)
    }

    /// The root of a ledger.
    #[must_use]
    pub fn ledger(&self, ledger: u32) -> Option<&LedgerRoot> {
        let at = self.ledgers.binary_search_by_key(&ledger, |root| root.ledger).ok()?;
        self.ledgers.get(at)
    }
}

impl LedgerRoot {
    /// Whether nothing was made or lost in it.
    #[must_use]
    pub fn balances(&self) -> bool {
        let sum =
            |crossed: &[Crossed]| crossed.iter().try_fold(Total::ZERO, |sum, one| sum.checked_add(one.total));
        let (imported, exported) = (sum(&self.imported), sum(&self.exported));
        imported.zip(exported).is_some_and(|(imported, exported)| self.root.sums.balances(imported, exported))
    }
}

impl CutCertificate {
    const fn statement(&self) -> CutSigned {
        CutSigned { context: self.context, number: self.number, proposer: self.proposer, root: self.root }
    }

    /// Whether it is of this state.
    #[must_use]
    pub fn is_of(&self, record: &RootRecord) -> bool {
        (self.context, self.epoch, self.number, self.proposer)
            == (record.context, record.epoch, record.number, record.proposer)
            && self.root == record.digest()
    }
}

impl Evidence for CutCertificate {
    type Statement = CutSigned;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<CutSigned>>, Refusal> {
        if !self.signed.is_sorted_by(|one, next| one.member < next.member) {
            return Err(Refusal::Unfit("members stand in order, each once"));
        }
        let signed = self.signed.iter();
        let signed = signed.map(|one| (NodeId(u32::from(one.member)), self.statement(), one.signature));
        Ok(vec![Group { threshold: Threshold::Intersecting, signed: signed.collect() }])
    }
}

impl CertifiedCut {
    /// Whether its parts are of each other. The signatures are another matter.
    #[must_use]
    pub fn fits(&self) -> bool {
        let (cut, record) = (&self.cut, &self.record);
        (cut.context, cut.epoch, cut.number, cut.proposer)
            == (record.context, record.epoch, record.number, record.proposer)
            && cut.digest() == record.cut
            && self.certificate.is_of(record)
    }
}
