//! All accounts behind a cut, under the roots of their ledgers: whoever has them proves how each stands.
//!
//! They come from a replica that signed the cut, or are put together again from where a node kept them, under the roots that a quorum
//! signed.
//!
//! *Bounds.* About 700 bytes per account.

use std::collections::BTreeMap;

use synod_ledger::{AccountId, Node, Opened, Standing, SumTree, Total};

use super::proof::{Adjacent, Balance, Proof, Shown};
use super::range::StoodAt;
use super::words::{CutCertificate, RootRecord};

/// All accounts of one ledger, under their root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfLedger {
    /// With what their holds set aside, lowest first.
    accounts: Vec<(Standing, Total)>,
    tree: SumTree,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    ledgers: BTreeMap<u32, OfLedger>,
}

/// What an account shows of itself.
pub(crate) fn opened(standing: &Standing, pending: Total) -> Opened {
    Opened::of(standing, pending, standing.opening.salt())
}

impl Accounts {
    /// Hashes accounts, lowest first; `None` where sums pass 2^192.
    pub(crate) fn new(all: Vec<(Standing, Total)>) -> Option<Self> {
        let mut ledgers: BTreeMap<u32, Vec<(Standing, Total)>> = BTreeMap::new();
        for (standing, pending) in all {
            ledgers.entry(standing.opening.ledger).or_default().push((standing, pending));
        }
        let hashed = |(ledger, accounts): (u32, Vec<(Standing, Total)>)| {
            let leaves: Vec<Opened> =
                accounts.iter().map(|(standing, pending)| opened(standing, *pending)).collect();
            Some((ledger, OfLedger { tree: SumTree::new(&leaves)?, accounts }))
        };
        Some(Self { ledgers: ledgers.into_iter().map(hashed).collect::<Option<_>>()? })
    }

    /// Puts the accounts behind a cut together again; `None` where they are not those whose roots a quorum signed.
    #[must_use]
    pub fn restore(record: &RootRecord, all: Vec<StoodAt>) -> Option<Self> {
        let is_in_order = all.is_sorted_by(|one, next| one.standing.opening.id < next.standing.opening.id);
        let all = is_in_order.then(|| all.into_iter().map(|one| (one.standing, one.pending)).collect())?;
        let accounts = Self::new(all)?;
        let signed = record.ledgers.iter().map(|of| (of.ledger, of.root, of.count));
        accounts.roots().eq(signed).then_some(accounts)
    }

    /// Ledger, root and number of accounts of each ledger, lowest first.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (u32, Node, u32)> {
        self.ledgers.iter().map(|(ledger, of)| (*ledger, of.tree.root(), of.tree.count()))
    }

    /// Every account with what its holds set aside, ledger by ledger, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = &(Standing, Total)> {
        self.ledgers.values().flat_map(|of| &of.accounts)
    }

    /// How an account stands, with what its holds set aside.
    #[must_use]
    pub fn get(&self, account: AccountId) -> Option<&(Standing, Total)> {
        self.ledgers.values().find_map(|of| of.accounts.get(of.find(account).ok()?))
    }

    /// Ranges of so many accounts of a ledger, with the tree over all of them.
    pub(super) fn of_ledger(&self, ledger: u32) -> Option<(&[(Standing, Total)], &SumTree)> {
        self.ledgers.get(&ledger).map(|of| (of.accounts.as_slice(), &of.tree))
    }

    /// Proves how an account stands, or that it is not there; `None` where nobody has an account in that ledger.
    #[must_use]
    pub fn prove(
        &self,
        (ledger, account): (u32, AccountId),
        record: &RootRecord,
        certificate: &CutCertificate,
    ) -> Option<Proof> {
        let of = self.ledgers.get(&ledger)?;
        let path = |at: usize| of.tree.path(u32::try_from(at).ok()?);
        let neighbour = |at: usize| {
            let (standing, pending) = of.accounts.get(at)?;
            let opened = opened(standing, *pending);
            Some(Box::new(Adjacent { leaf: opened.leaf(), sums: opened.sums(), path: path(at)? }))
        };
        let shown = match of.find(account) {
            Ok(at) => {
                let (standing, pending) = of.accounts.get(at)?;
                Shown::Balance(Box::new(Balance { opened: opened(standing, *pending), path: path(at)? }))
            }
            Err(at) => {
                let below = at.checked_sub(1).and_then(neighbour);
                Shown::Absence { account, below, above: neighbour(at) }
            }
        };
        Some(Proof::new(ledger, shown, record, certificate))
    }

    pub(crate) fn bytes(&self) -> u64 {
        let accounts: usize = self.ledgers.values().map(|of| of.accounts.len()).sum();
        let account = size_of::<(Standing, Total)>() + 2 * size_of::<Node>();
        (accounts * account) as u64
    }
}

impl OfLedger {
    /// Where an account stands, or would.
    fn find(&self, account: AccountId) -> Result<usize, usize> {
        self.accounts.binary_search_by_key(&account, |(standing, _)| standing.opening.id)
    }
}
