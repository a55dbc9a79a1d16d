//! The roots over a state, and the state under them for whoever asks.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_crypto::merkle::{self, Tree};
use synod_ledger::{AccountId, Border, EntryId, Hold, Opened, Standing, SumTree, Total};
use synod_wire::{List, wire};

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

/// All accounts of one ledger, under their root.
#[derive(Clone, Debug)]
pub(crate) struct LedgerState {
    /// With what their holds set aside, lowest first.
    pub(crate) accounts: Vec<(Standing, Total)>,
    pub(crate) tree: SumTree,
}

/// The state behind a cut.
#[derive(Clone, Debug)]
pub struct CutState {
    pub(crate) cut: Cut,
    pub(crate) record: RootRecord,
    pub(crate) ledgers: BTreeMap<u32, LedgerState>,
    pub(crate) holds: Vec<OpenHold>,
    pub(crate) hold_ranges: Tree,
}

/// What an account shows of itself.
pub(crate) fn opened(standing: &Standing, pending: Total) -> Opened {
    Opened::of(standing, pending, standing.opening.salt())
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
        let mut ledgers: BTreeMap<u32, Vec<(Standing, Total)>> = BTreeMap::new();
        for (standing, pending) in accounts {
            if !is_funded(&standing, pending) {
                return Err(NoCut::NotFunded);
            }
            ledgers.entry(standing.opening.ledger).or_default().push((standing, pending));
        }
        let (mut states, mut roots) = (BTreeMap::new(), Vec::new());
        for (ledger, accounts) in ledgers {
            let leaves: Vec<Opened> =
                accounts.iter().map(|(standing, pending)| opened(standing, *pending)).collect();
            let tree = SumTree::new(&leaves).ok_or(NoCut::NotFunded)?;
            let root = LedgerRoot {
                ledger,
                root: tree.root(),
                count: tree.count(),
                imported: crossed(&imported, ledger)?,
                exported: crossed(&exported, ledger)?,
            };
            if !root.balances() {
                return Err(NoCut::NotFunded);
            }
            roots.push(root);
            states.insert(ledger, LedgerState { accounts, tree });
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
        Ok(Self { cut, record, ledgers: states, holds, hold_ranges })
    }

    /// Where an account stands among those of its ledger.
    pub(crate) fn find(&self, ledger: u32, account: AccountId) -> Result<usize, usize> {
        let Some(state) = self.ledgers.get(&ledger) else { return Err(0) };
        state.accounts.binary_search_by_key(&account, |(standing, _)| standing.opening.id)
    }

    pub(crate) fn bytes(&self) -> u64 {
        let accounts: usize = self.ledgers.values().map(|state| state.accounts.len()).sum();
        let account = size_of::<(Standing, Total)>() + 2 * size_of::<synod_ledger::Node>();
        (accounts * account + self.holds.len() * size_of::<OpenHold>() + 64 * self.cut.exceptions.len())
            as u64
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
