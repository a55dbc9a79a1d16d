//! What the ledger of a shard keeps of the others: which there are, how much of each account is on its way to them, and what came
//! for accounts that are not open here yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_ledger::{AccountId, Code, Digests, Entry, EntryId, Kind};

use crate::ledger::{Ledger, Settlement};
use crate::waits::{Cause, Waiter};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Borders {
    shards: BTreeSet<u16>,
    /// Entries per account that others have not confirmed.
    exports: BTreeMap<AccountId, u64>,
    incoming: BTreeMap<EntryId, Arc<Entry>>,
}

impl Borders {
    pub(crate) fn new(shards: BTreeSet<u16>) -> Self {
        Self { shards, ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let exports = self.exports.len() * 2 * size_of::<(AccountId, u64)>();
        let incoming = self.incoming.len() * 2 * (size_of::<(EntryId, Arc<Entry>)>() + size_of::<Entry>());
        (exports + incoming) as u64
    }
}

impl Ledger {
    /// Whether what an entry names of other shards may be named: a payment goes to those that are known. Holds and verdicts stay in
    /// their shard.
    pub(crate) fn may_leave(&self, entry: &Entry) -> Result<(), Code> {
        let own = self.book().shard();
        if matches!(entry.kind, Kind::Pay(leg) if leg.to.shard == own) {
            return Ok(());
        }
        if entry.names().all(|account| account.shard == own) {
            return Ok(());
        }
        let pays = matches!(entry.kind, Kind::Pay(_) | Kind::MultiPay(_) | Kind::Close(_));
        let is_known =
            |account: AccountId| account.shard == own || self.borders.shards.contains(&account.shard);
        if pays && entry.names().all(is_known) { Ok(()) } else { Err(Code::WrongShard) }
    }

    /// Whether too many entries of an account are on their way for this one.
    pub(crate) fn waits_abroad(&self, entry: &Entry) -> bool {
        let own = self.book().shard();
        self.exports_of(entry.id.spender) >= self.window()
            && entry.legs().iter().any(|leg| leg.to.shard != own)
    }

    /// Entries of an account that others have not confirmed.
    pub(crate) fn exports_of(&self, spender: AccountId) -> u64 {
        self.borders.exports.get(&spender).copied().unwrap_or_default()
    }

    pub(crate) fn count_export(&mut self, spender: AccountId) {
        let count = self.borders.exports.entry(spender).or_default();
        *count = count.saturating_add(1);
    }

    pub(crate) fn uncount_export(&mut self, spender: AccountId) {
        if let Some(count) = self.borders.exports.get_mut(&spender) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.borders.exports.remove(&spender);
            }
        }
        self.stir(Cause::Funds(spender));
    }

    /// Credits an entry of another shard whose import is certified; whether that is new. It waits for accounts that are not open.
    pub(crate) fn import(&mut self, entry: &Arc<Entry>) -> bool {
        let own = self.book().shard();
        match self.book_mut().import(entry) {
            Ok(true) => {
                entry.legs_into(own).for_each(|leg| self.stir(Cause::Funds(leg.to)));
                true
            }
            Err(Code::UnknownBeneficiary) => {
                let unknown = |to: &AccountId| self.book().account(*to).is_none();
                if let Some(account) = entry.legs_into(own).map(|leg| leg.to).find(unknown) {
                    self.borders.incoming.insert(entry.id, Arc::clone(entry));
                    self.waits.put(Waiter::Import(entry.id), Cause::Opening(account), 0);
                }
                false
            }
            // Members who endorsed the import looked at this; what more liars than there may be let pass is left out.
            Ok(false) | Err(_) => false,
        }
    }

    /// An account opened that an import waited for.
    pub(crate) fn import_at_last(&mut self, id: EntryId, out: &mut Settlement) {
        let Some(entry) = self.borders.incoming.remove(&id) else { return };
        if self.import(&entry) {
            let digest = Digests::default().entry(&entry);
            out.imported.push((entry, digest));
        }
    }

    /// Entries whose import waits for an account.
    pub(crate) fn incoming(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.borders.incoming.values()
    }
}
