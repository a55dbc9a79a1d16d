//! Accounts that close (specification, section 4.7 and code 3131).

use synod_ledger::{Amount, Entry, Kind, Total};

use super::{Carrier, Replica};

impl<B: Carrier> Replica<B> {
    /// Whether an account would close and keep money that is seen here: what is left can leave by another such entry, but who closes an
    /// account means all of it. Members endorse it all the same, for they may have seen less or more.
    pub(super) fn leaves_money(&self, entry: &Entry) -> bool {
        let Kind::Close(leg) = &entry.kind else { return false };
        let Some(account) = self.book().account(entry.id.spender) else { return false };
        let (owed, _) = account.balance();
        let open = self.ledger.log(entry.id.spender).map_or(Total::ZERO, |log| log.promised().debits());
        let is_most = leg.amount.0 == Amount::MAX.units();
        !is_most
            && owed.saturating_sub(open).saturating_sub(account.debits_pending()) > Total::of(leg.amount.0)
    }
}
