//! What older views tell of places: nothing else may be accepted there until something settles.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_ledger::EntryId;

use super::Ledger;
use crate::views::Pin;

impl Ledger {
    /// Takes what older views tell in the place of what was told before.
    pub(crate) fn pin(&mut self, pins: BTreeMap<EntryId, Pin>) {
        let sequence =
            |id: &EntryId| self.book.account(id.spender).map_or(0, synod_ledger::Account::sequence);
        self.pins = pins.into_iter().filter(|(id, _)| id.n > sequence(id)).collect();
    }

    /// What is told of places that have not settled.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (&EntryId, &Pin)> {
        self.pins.iter()
    }

    /// Whether older views let a digest have a place.
    pub(super) fn is_free(&self, id: EntryId, digest: &Hash) -> bool {
        self.pins.get(&id).is_none_or(|pin| pin.allows(digest))
    }

    pub(crate) fn pin_bytes(&self) -> u64 {
        (self.pins.len() * 2 * size_of::<(EntryId, Pin)>()) as u64
    }
}
