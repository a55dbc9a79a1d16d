//! Who may carry an entry (E4): in profiles whose batches stand or fall as a whole, the registered representative of its spender alone,
//! as of what has settled.

use synod_ledger::{AccountId, Entry, EntryId, Kind, Owner, judge};
use synod_machine::planted;

use super::Ledger;
use crate::xlog::Xlog;

impl Ledger {
    /// Whether a lane may carry the entry of a place, whose owner this is.
    pub(super) fn may_carry(&self, id: EntryId, owner: Owner, lane: u8) -> bool {
        !self.profile.registers() || self.carrier(id.spender, owner) == Some(lane) || planted!(A2)
    }

    fn carrier(&self, spender: AccountId, owner: Owner) -> Option<u8> {
        match owner {
            Owner::Custodial(institution) => Some(institution),
            Owner::SelfSigned(_) | Owner::Distilled { .. } => {
                self.book.account(spender).map(synod_ledger::Account::representative)
            }
        }
    }

    /// Whether a lane carries the next entries of an account.
    pub(crate) fn is_carried_by(&self, id: EntryId, lane: u8) -> bool {
        self.owner(id).is_some_and(|owner| self.may_carry(id, owner, lane))
    }

    /// The last open entry before a place that changes who carries the log: what comes behind it waits until it has settled, for
    /// only then does everybody see the same representative (4.3).
    pub(super) fn handover(&self, id: EntryId) -> Option<EntryId> {
        if !self.profile.registers() {
            return None;
        }
        let xlog = self.open.get(id.spender)?;
        let is_before = |entry: &Entry| entry.id.n < id.n;
        let all = xlog.slots().map(|slot| &*slot.line.entry).filter(|entry| is_before(entry));
        let changes = all.filter(|entry| matches!(entry.kind, Kind::Move(_) | Kind::Rekey(_)));
        changes.last().map(|entry| entry.id)
    }

    /// Whether an entry could be paid behind what its log has open.
    pub(crate) fn is_funded(&self, entry: &Entry) -> bool {
        let xlog = self.open.get(entry.id.spender).unwrap_or(Xlog::NONE);
        judge(&self.book, entry, xlog.promised()).is_ok()
    }
}
