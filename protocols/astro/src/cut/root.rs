//! The roots over a state, and the state under them for whoever asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_crypto::merkle::{self, Tree};
use synod_ledger::{Border, EntryId, Hold, Total};
use synod_wire::{List, wire};

use super::accounts::Accounts;
use super::counted::{Counted, NoCut, is_funded};
use super::words::{Crossed, Cut, LedgerRoot, RootRecord};

/// Holds of one range.
pub(crate) const HOLDS_PER_RANGE: usize = 1_024;

wire! {
    /// A hold that is open behind a cut.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenHold {
        /// Its name.
        pub id: EntryId,
        /// What it sets aside.
        pub hold: Hold,
    }
}

/// The state behind a cut.
#[derive(Clone, Debug)]
pub struct CutState {
    pub(crate) cut: Cut,
    pub(crate) record: RootRecord,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) holds: Vec<OpenHold>,
    pub(crate) hold_ranges: Tree,
}

/// What stands for a range of holds.
pub(crate) fn hold_range(holds: &[OpenHold]) -> Hash {
    let list: List<OpenHold, HOLDS_PER_RANGE> = List::try_from(holds.to_vec()).unwrap_or_default();
    merkle::leaf(&Hash::of_value("synod astro holds", &list).0)
}

impl CutState {
    /// Hashes the state behind a cut.
    ///
    /// # Errors
    /// [`NoCut::NotFunded`] where a ledger made or lost money, or sums pass 2^192; [`NoCut::TooMany`] ledgers.
    pub(crate) fn new(cut: Cut, counted: Counted) -> Result<Self, NoCut> {
        let Counted { accounts, holds, exported, imported } = counted;
        if accounts.iter().any(|(standing, pending)| !is_funded(standing, *pending)) {
            return Err(NoCut::NotFunded);
        }
        let accounts = Accounts::new(accounts).ok_or(NoCut::NotFunded)?;
        let mut roots = Vec::new();
        for (ledger, root, count) in accounts.roots() {
            let (imported, exported) = (crossed(&imported, ledger)?, crossed(&exported, ledger)?);
            let root = LedgerRoot { ledger, root, count, imported, exported };
            if !root.balances() {
                return Err(NoCut::NotFunded);
            }
            roots.push(root);
        }
        let holds: Vec<OpenHold> = holds.into_iter().map(|(id, hold)| OpenHold { id, hold }).collect();
        let hold_ranges = Tree::new(holds.chunks(HOLDS_PER_RANGE).map(hold_range).collect());
        let record = RootRecord {
            cut: cut.digest(),
            context: cut.context,
            epoch: cut.epoch,
            number: cut.number,
            proposer: cut.proposer,
            ledgers: List::try_from(roots).map_err(|_| NoCut::TooMany)?,
            holds: hold_ranges.root(),
            holds_open: holds.len() as u64,
            imports: Hash::ZERO,
        };
        Ok(Self { cut, record, accounts: Arc::new(accounts), holds, hold_ranges })
    }

    pub(crate) fn bytes(&self) -> u64 {
        let small = self.holds.len() * size_of::<OpenHold>() + 64 * self.cut.exceptions.len();
        self.accounts.bytes() + small as u64
    }
}

fn crossed<const MAX: usize>(
    all: &BTreeMap<Border, Total>,
    ledger: u32,
) -> Result<List<Crossed, MAX>, NoCut> {
    let of = all.iter().filter(|(border, _)| border.ledger == ledger);
    let of: Vec<Crossed> = of.map(|(border, total)| Crossed { shard: border.shard, total: *total }).collect();
    List::try_from(of).map_err(|_| NoCut::TooMany)
}
