//! A bookkeeper who trusts nobody: what each member tells is checked against sums kept by hand.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{Level, Output};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId, Kind, genesis};

/// What issuers may owe.
pub(crate) const LIMIT: u128 = 1_000_000;

/// What one member told.
#[derive(Default)]
pub(crate) struct Told {
    /// Settled entries by place.
    pub(crate) settled: BTreeMap<EntryId, (Entry, Hash)>,
    /// Callers' names of them.
    pub(crate) names: BTreeSet<u128>,
    order: BTreeMap<u64, EntryId>,
    balances: BTreeMap<AccountId, i128>,
    pub(crate) accepted: BTreeSet<u128>,
    pub(crate) certified: BTreeSet<u128>,
    pub(crate) refused: usize,
    pub(crate) opened: BTreeSet<AccountId>,
}

impl Told {
    /// A-S2 to A-S6 at one member, by hand.
    fn settle(&mut self, position: u64, entry: Entry, digest: Hash) {
        if position <= self.order.len() as u64 {
            assert_eq!(
                self.order.get(&position),
                Some(&entry.id),
                "what was told is told again, in its order"
            );
            assert_eq!(self.settled.get(&entry.id), Some(&(entry, digest)));
            return;
        }
        assert_eq!(position, self.order.len() as u64 + 1, "nothing is left out");
        let EntryId { spender, n } = entry.id;
        let before = n.checked_sub(1).filter(|before| *before > 0).map(|n| EntryId { spender, n });
        let head = before.map_or(genesis(spender), |id| self.settled.get(&id).expect("logs have no gaps").1);
        assert_eq!(entry.prev, head, "a log is one chain");
        let Kind::Pay(leg) = &entry.kind else { unreachable!("payments alone") };
        let amount = i128::try_from(leg.amount.0).expect("small");
        *self.balances.entry(spender).or_default() -= amount;
        *self.balances.entry(leg.to).or_default() += amount;
        let limit = if spender.local == 1 { i128::try_from(LIMIT).expect("small") } else { 0 };
        assert!(self.balances[&spender] >= -limit, "{spender} spends what it does not have");
        assert_eq!(self.balances.values().sum::<i128>(), 0, "money is made");
        assert!(self.names.insert(entry.transfer), "payment {} settles twice", entry.transfer);
        self.order.insert(position, entry.id);
        assert!(self.settled.insert(entry.id, (entry, digest)).is_none(), "a place settles once");
    }

    /// Takes in what its member tells; gives how many settled entries are kept, every third time.
    pub(crate) fn hear(&mut self, output: Output) -> Option<u64> {
        match output {
            Output::Accepted { entry, .. } => drop(self.accepted.insert(entry.transfer)),
            Output::Progress { level: Level::Certified, entries } => {
                self.certified.extend(entries.into_iter().map(|(_, transfer)| transfer));
            }
            Output::Refused { .. } => self.refused += 1,
            Output::Settled { first, entries } => {
                let last = first + entries.len() as u64 - 1;
                for (position, (entry, digest)) in (first..).zip(entries) {
                    self.settle(position, (*entry).clone(), digest);
                }
                let third = last - last % 3;
                return (third >= first).then(|| third - 1);
            }
            Output::Opened(account) => drop(self.opened.insert(account)),
            Output::Contradiction { id, .. } => unreachable!("{id:?} contradicts, and nobody lies"),
            _ => {}
        }
        None
    }
}
