//! Proofs of one account's balance behind a cut, that there is no such account, or of what all are owed, to check with the members' keys alone
//! (specification, section 4.10).
//!
//! A proof is the root record that a quorum signed, its certificate, and a path from the account to the root of its ledger. Whoever
//! holds one sees the sums of siblings on the way, and nothing of another account but a hash.
//!
//! *Bounds.* Nothing is allocated beyond what the bytes of a proof hold.

use core::fmt;

use synod_crypto::{Keys, Refusal, verify_evidence};
use synod_ledger::{AccountId, Opened, SumLeaf, SumPath, Sums, Total};
use synod_machine::broadcast::View;
use synod_quorum::NodeSet;
use synod_wire::wire;

use super::words::{CutCertificate, RootRecord};
use crate::receipt::Format;

wire! {
    /// An account and where it stands.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Balance {
        /// The account, all of it but who may recover it and what its registrar noted.
        pub opened: Opened,
        /// From its leaf to the root.
        pub path: SumPath,
    }

    /// An account beside which another one would stand: its name and its sums, and a hash that hides the rest.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Adjacent {
        /// Its leaf.
        pub leaf: SumLeaf,
        /// What it adds to the sums.
        pub sums: Sums,
        /// From its leaf to the root.
        pub path: SumPath,
    }

    /// What a proof shows.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Shown {
        /// How an account stands.
        0 = Balance(Box<Balance>),
        /// That an account is not there.
        1 = Absence {
            /// Which.
            account: AccountId,
            /// The one before it, unless it would be the first.
            below: Option<Box<Adjacent>>,
            /// The one behind it, unless it would be the last.
            above: Option<Box<Adjacent>>,
        },
        /// What all accounts of the ledger are owed together, which the root record has.
        2 = Liabilities,
    }

    /// What proves how an account stands behind a cut, or all of a ledger.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Proof {
        /// How it is written.
        pub format: Format,
        /// In which ledger.
        pub ledger: u32,
        /// What it shows.
        pub shown: Shown,
        /// The state behind the cut.
        pub record: RootRecord,
        /// That a quorum has it.
        pub certificate: CutCertificate,
    }
}

/// What a proof proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shows {
    /// The account, as it stood; none where it was not there, and where no account was asked for.
    pub account: Option<Opened>,
    /// What it was owed and what it owed; one of the two is nothing.
    pub balance: (Total, Total),
    /// All that its ledger owes, and all that was issued.
    pub sums: Sums,
    /// The number of the cut: later entries are not in it.
    pub number: u64,
    /// Members who signed.
    pub signers: NodeSet,
}

/// Why a proof proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoProof {
    /// Signed in another view, epoch or shard.
    OtherView,
    /// The certificate is of another state.
    OtherState,
    /// The certificate's signatures.
    Certificate(Refusal),
    /// There is no such ledger behind the cut.
    Ledger,
    /// A ledger behind the cut made or lost money.
    Unbalanced,
    /// The path does not lead from the account to the root.
    Path,
    /// The two accounts are no neighbours, or not on both sides of the one that is said to be absent.
    Neighbours,
}

impl fmt::Display for NoProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherView => f.write_str("it was signed in another view or shard"),
            Self::OtherState => f.write_str("the certificate is of another state"),
            Self::Certificate(why) => write!(f, "the certificate does not hold: {why}"),
            Self::Ledger => f.write_str("there is no such ledger"),
            Self::Unbalanced => f.write_str("the ledger made or lost money"),
            Self::Path => f.write_str("the account does not stand under the root"),
            Self::Neighbours => f.write_str("the account could stand between its neighbours"),
        }
    }
}

impl core::error::Error for NoProof {}

/// Checks a proof against the members of a view, without network or disk; `keys` may be anybody's.
///
/// # Errors
/// [`NoProof`] names what does not hold.
pub fn verify_proof(proof: &Proof, view: &View, keys: &Keys) -> Result<Shows, NoProof> {
    let (record, certificate) = (&proof.record, &proof.certificate);
    if (record.context, record.epoch) != (view.context, view.roster.epoch()) {
        return Err(NoProof::OtherView);
    }
    if !certificate.is_of(record) {
        return Err(NoProof::OtherState);
    }
    verify_evidence(certificate.clone(), keys, view.cluster, &view.roster).map_err(NoProof::Certificate)?;
    let ledger = record.ledger(proof.ledger).ok_or(NoProof::Ledger)?;
    if !ledger.balances() {
        return Err(NoProof::Unbalanced);
    }
    let shows =
        |leaf: &SumLeaf, sums: Sums, path: &SumPath| path.shows(leaf, sums, &ledger.root, ledger.count);
    let account = match &proof.shown {
        Shown::Balance(balance) => {
            let Balance { opened, path } = &**balance;
            if !shows(&opened.leaf(), opened.sums(), path) {
                return Err(NoProof::Path);
            }
            Some(opened.clone())
        }
        Shown::Absence { account, below, above } => {
            let sides = [below, above].into_iter().flatten();
            if !sides.into_iter().all(|side| shows(&side.leaf, side.sums, &side.path)) {
                return Err(NoProof::Path);
            }
            if !is_between(*account, (below.as_deref(), above.as_deref()), ledger.count) {
                return Err(NoProof::Neighbours);
            }
            None
        }
        Shown::Liabilities => None,
    };
    let members = certificate.signed.iter().map(|one| synod_quorum::NodeId(u32::from(one.member)));
    let balance = account.as_ref().map_or((Total::ZERO, Total::ZERO), |opened| {
        let Sums { liabilities, issued, .. } = opened.sums();
        (liabilities, issued)
    });
    Ok(Shows {
        account,
        balance,
        sums: ledger.root.sums,
        number: record.number,
        signers: members.fold(NodeSet::EMPTY, NodeSet::with),
    })
}

/// Whether an account would stand between two that are neighbours, before the first, or behind the last of so many.
fn is_between(
    account: AccountId,
    (below, above): (Option<&Adjacent>, Option<&Adjacent>),
    count: u32,
) -> bool {
    let is_behind = below.is_none_or(|below| below.leaf.account < account);
    let is_before = above.is_none_or(|above| account < above.leaf.account);
    let first = below.map_or(Some(0), |below| below.path.index.checked_add(1));
    let next = above.map_or(count, |above| above.path.index);
    is_behind && is_before && first == Some(next)
}

impl Proof {
    /// Of what is shown behind a cut.
    pub(super) fn new(ledger: u32, shown: Shown, record: &RootRecord, certificate: &CutCertificate) -> Self {
        let (record, certificate) = (record.clone(), certificate.clone());
        Self { format: Format::First, ledger, shown, record, certificate }
    }

    /// Proves what all accounts of a ledger are owed together; `None` where nobody has an account in it.
    #[must_use]
    pub fn of_liabilities(ledger: u32, record: &RootRecord, certificate: &CutCertificate) -> Option<Self> {
        record.ledger(ledger)?;
        Some(Self::new(ledger, Shown::Liabilities, record, certificate))
    }
}
