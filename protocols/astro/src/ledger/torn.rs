//! Logs whose owners signed two entries for a place: nothing is endorsed behind it until one of the two is certified (4.12).

use std::sync::Arc;

use synod_ledger::{AccountId, EntryId};

use super::Ledger;
use crate::config::LINE_BYTES_MAX;
use crate::torn::TwoEntries;
use crate::xlog::Base;

impl Ledger {
    /// Keeps two entries that an owner signed for a place which nothing decides; false where they say nothing new. Of several places of
    /// a log the first is kept.
    pub(crate) fn tear(&mut self, two: Arc<TwoEntries>) -> bool {
        let id = two.place();
        let is_settled = id.n <= Base::of(&self.book, id.spender).sequence;
        let is_known = self.torn.get(&id.spender).is_some_and(|known| known.place().n <= id.n);
        if is_settled || is_known || self.is_certified(id) {
            return false;
        }
        self.torn.insert(id.spender, two);
        true
    }

    /// The two entries that keep a log from going on, as far as is known here.
    pub(crate) fn torn(&self, account: AccountId) -> Option<&Arc<TwoEntries>> {
        if self.torn.is_empty() {
            return None;
        }
        self.torn.get(&account).filter(|two| !self.is_certified(two.place()))
    }

    /// All such pairs, those of which one is certified among them.
    pub(crate) fn all_torn(&self) -> impl Iterator<Item = &Arc<TwoEntries>> {
        self.torn.values()
    }

    /// Whether a place lies behind one for which two entries were signed.
    pub(super) fn is_behind_torn(&self, id: EntryId) -> bool {
        self.torn(id.spender).is_some_and(|two| two.place().n < id.n)
    }

    fn is_certified(&self, id: EntryId) -> bool {
        self.slot(id).is_some_and(|slot| slot.is_certified)
    }

    /// An entry settled: its place is torn no more.
    pub(super) fn mend(&mut self, id: EntryId) {
        if self.torn.get(&id.spender).is_some_and(|two| two.place().n <= id.n) {
            self.torn.remove(&id.spender);
        }
    }

    pub(crate) fn torn_bytes(&self) -> u64 {
        let line = u64::from(LINE_BYTES_MAX) + size_of::<TwoEntries>() as u64;
        self.torn.len() as u64 * 2 * line
    }
}
