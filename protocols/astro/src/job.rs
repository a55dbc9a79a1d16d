//! What is read, hashed, signed and checked beside the handlers.

mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::bls::StoredKey;
use synod_crypto::{Keys, PublicKey};
use synod_ledger::{AccountId, EntryId};
use synod_machine::broadcast::{Except, Lot, View};
use synod_machine::{Cost, Job as Run};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use crate::batch::{Content, Line, Opened};
use crate::bundle::{Bundle, Unproven};
use crate::config::Profile;
use crate::cut::{CertifiedCut, Counted, Cut, CutSign, CutState, NoCut};
use crate::dependency::{Credit, Sub, With};
use crate::shards::Proofs;
use crate::spoken::{Good, Recalled};
use crate::together::{Invitation, Points, Shared, Signer};
use crate::witness::Witnessed;
use crate::words::{Receipt, Settled};

pub(crate) use run::{check, owner_claim, owner_scope, receipt_claim};

/// What a batch is read for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Its representative wants it endorsed.
    Judge,
    /// It is certified but for these entries.
    Settle(Except),
}

/// Work of a replica beside the broadcast's.
#[derive(Clone, Debug)]
pub enum Work {
    /// Reads a payload.
    Read {
        /// For which slot.
        lot: Lot,
        /// The payload.
        payload: Bytes,
        /// Of which payment system.
        profile: Profile,
        /// See there.
        purpose: Purpose,
    },
    /// Checks owners' signatures on entries of a batch.
    Check {
        /// The batch.
        opened: Arc<Opened>,
        /// The cluster.
        view: Arc<View>,
        /// The keys that each line's owner has, where it needs one.
        keys: Vec<Option<Signer>>,
        /// Keys that were read.
        points: Points,
        /// What is known of the words that entries are backed with.
        recalled: Recalled,
    },
    /// The same, and says what was found.
    Witness {
        /// The batch.
        opened: Arc<Opened>,
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// See [`Work::Check`].
        keys: Vec<Option<Signer>>,
        /// See [`Work::Check`].
        points: Points,
    },
    /// Reads keys of accounts for sums.
    Points {
        /// Whose accounts.
        registrar: u32,
        /// The first, counted from 0.
        from: usize,
        /// Their keys; none of an account that signs with nobody.
        keys: Vec<Option<[u8; 48]>>,
    },
    /// Makes the tree that owners are asked to sign.
    Invite {
        /// Its number.
        number: u64,
        /// Its leaves.
        leaves: BTreeMap<AccountId, synod_crypto::Hash>,
    },
    /// Adds up what owners signed.
    AddUp {
        /// The number of the tree.
        number: u64,
        /// The cluster.
        view: Arc<View>,
        /// The root.
        root: synod_crypto::Hash,
        /// Of each owner, its key and what it gave.
        shares: BTreeMap<AccountId, ([u8; 48], [u8; 192])>,
        /// Keys that were read.
        points: Points,
    },
    /// Checks a member's word on owners' signatures.
    Look {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The word.
        word: Witnessed,
    },
    /// Checks owners' signatures on orders, all at once.
    Admit {
        /// The cluster.
        view: Arc<View>,
        /// Tickets, entries, and the keys of their owners.
        orders: Vec<(u64, Line, PublicKey)>,
    },
    /// Puts this node's next batch together.
    Build {
        /// The shard.
        shard: u16,
        /// Its slot.
        lot: Lot,
        /// Digest of the batch before.
        prev: synod_crypto::Hash,
        /// What it is made of.
        content: Content,
        /// What each entry is backed with; none but in profile II.
        withs: Option<Vec<Option<With>>>,
    },
    /// Vouches for payments.
    Vouch {
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// Which they are.
        of: Sub,
        /// Their places.
        ids: Vec<EntryId>,
        /// Their digests.
        digests: Vec<synod_crypto::Hash>,
        /// Those that are not vouched for.
        open: Except,
        /// For whom the word is.
        to: NodeSet,
    },
    /// Checks a member's word on payments.
    Credit {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The word.
        credit: Credit,
    },
    /// Signs a receipt.
    Sign {
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// What is signed.
        settled: Settled,
        /// The same with its list.
        open: Except,
    },
    /// Checks a receipt.
    Receipt {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The receipt.
        receipt: Receipt,
    },
    /// Checks the proof of entries that cross between shards.
    Bundle {
        /// Who sent it.
        from: NodeId,
        /// The entries.
        bundle: Arc<Bundle>,
        /// The members of their shard.
        view: Arc<View>,
        /// How.
        proofs: Proofs,
    },
    /// Hashes the state behind a cut, checks that it is in order, and signs it.
    Root {
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// The cut.
        cut: Arc<Cut>,
        /// The state.
        counted: Box<Counted>,
    },
    /// Checks a member's signature on the state behind a cut.
    CutSign {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The signature.
        sign: CutSign,
    },
    /// Checks a certified cut.
    CutCertified {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The cut.
        certified: Box<CertifiedCut>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Made {
    /// A payload was read, if it is a batch.
    Read {
        /// For which slot.
        lot: Lot,
        /// See there.
        purpose: Purpose,
        /// The batch.
        opened: Option<Arc<Opened>>,
    },
    /// Signatures were checked.
    Checked {
        /// The batch.
        opened: Arc<Opened>,
        /// The key under which each line's signature is good.
        keys: Vec<Option<PublicKey>>,
        /// Entries that are backed with something that does not pay their spenders.
        forged: BTreeSet<u32>,
        /// Words that entries are backed with and that were checked and found good.
        said: Vec<Good>,
    },
    /// Signatures were checked for others as well.
    Witnessed {
        /// The batch.
        opened: Arc<Opened>,
        /// The keys that were wanted.
        wanted: Vec<Option<Signer>>,
        /// The key under which each line's signature is good.
        keys: Vec<Option<PublicKey>>,
        /// What is said of it.
        word: Witnessed,
    },
    /// A word on owners' signatures was checked.
    Looked {
        /// Who sent it.
        from: NodeId,
        /// The word, if it is signed well.
        word: Option<Witnessed>,
    },
    /// Orders' signatures were checked.
    Admitted {
        /// Tickets, entries, and the keys under which their signatures are good.
        orders: Vec<(u64, Line, Option<PublicKey>)>,
    },
    /// Keys were read: those that are none are absent.
    Points {
        /// Whose accounts.
        registrar: u32,
        /// The first, counted from 0.
        from: usize,
        /// Their keys.
        keys: Vec<StoredKey>,
    },
    /// What each owner of a tree is asked.
    Invited(Vec<Invitation>),
    /// What owners signed of a tree is added up.
    AddedUp {
        /// The number of the tree.
        number: u64,
        /// Whose signatures are in it.
        owners: Vec<AccountId>,
        /// The signature, if there is any.
        signature: Option<Shared>,
    },
    /// A batch is ready to go out.
    Built(Arc<Opened>, Bytes),
    /// A word on payments is signed.
    Vouched {
        /// The word.
        credit: Credit,
        /// The payments' places.
        ids: Vec<EntryId>,
        /// Their digests.
        digests: Vec<synod_crypto::Hash>,
        /// For whom it is.
        to: NodeSet,
    },
    /// A word on payments was checked.
    Credit {
        /// Who sent it.
        from: NodeId,
        /// The word, if it is good.
        credit: Option<Credit>,
    },
    /// A receipt is signed.
    Signed(Receipt),
    /// A receipt was checked.
    Receipt {
        /// Who sent it.
        from: NodeId,
        /// The receipt, if it is good.
        receipt: Option<Receipt>,
    },
    /// A bundle was checked.
    Bundle {
        /// Who sent it.
        from: NodeId,
        /// The bundle.
        bundle: Arc<Bundle>,
        /// The digests of its entries, if it is good.
        digests: Result<Vec<synod_crypto::Hash>, Unproven>,
    },
    /// The state behind a cut was hashed.
    Rooted {
        /// Whose cut.
        proposer: u8,
        /// Its number.
        number: u64,
        /// The state and this node's signature, if it is in order.
        rooted: Result<(Arc<CutState>, CutSign), NoCut>,
    },
    /// A signature on a state was checked.
    CutSign {
        /// Who sent it.
        from: NodeId,
        /// The signature, if it is good.
        sign: Option<CutSign>,
    },
    /// A certified cut was checked.
    CutCertified {
        /// Who sent it.
        from: NodeId,
        /// The cut, if it is certified.
        certified: Option<Box<CertifiedCut>>,
    },
}

/// Work of a replica; `J` is the broadcast's.
#[derive(Clone, Debug)]
pub enum Job<J> {
    /// Of the broadcast.
    Broadcast(J),
    /// Beside it. Boxed: queues of events and effects hold many that are small.
    Own(Box<Work>),
}

/// What came of it; `D` is what came of the broadcast's.
#[derive(Clone, Debug)]
pub enum Done<D> {
    /// Of the broadcast.
    Broadcast(D),
    /// Beside it.
    Own(Box<Made>),
}

impl<J> From<Work> for Job<J> {
    fn from(own: Work) -> Self {
        Self::Own(Box::new(own))
    }
}

impl<J: Run> Run for Job<J> {
    type Done = Done<J::Done>;

    fn run(self, keys: &Keys) -> Self::Done {
        match self {
            Self::Broadcast(job) => Done::Broadcast(job.run(keys)),
            Self::Own(work) => Done::Own(Box::new(work.run(keys))),
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Broadcast(job) => job.cost(),
            Self::Own(work) => work.cost(),
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Broadcast(job) => job.peer(),
            Self::Own(work) => work.peer(),
        }
    }
}
