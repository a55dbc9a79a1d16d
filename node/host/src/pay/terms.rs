//! What becomes of accounts themselves.

use synod_ledger::AccountId;

use super::Teller;

impl Teller {
    /// What an order to close this account pays out that has this name, if there is one: who sends it again and says no amount means
    /// the same.
    #[must_use]
    pub fn closed_with(&self, id: u128, of: AccountId) -> Option<u128> {
        self.ordered((id, of)).and_then(|order| order.closes())
    }
}
