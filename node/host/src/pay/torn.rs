//! Owners who signed two entries for one place: which accounts cannot go on, and what shows it to anybody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_astro::TwoEntries;
use synod_config::{Genesis, SynError, code};
use synod_crypto::{Keys, Seed};
use synod_ledger::{AccountId, EntryId};
use synod_wire::{Bytes, Limits, Wire as _};

/// The kind of what shows two entries of one place, where proofs state their kind.
pub const TWO_ENTRIES: &str = "two-entries";

/// Accounts that the replica told of, until what stands in the place settled.
#[derive(Default)]
pub(super) struct Torn {
    places: Mutex<BTreeMap<AccountId, u64>>,
    count: AtomicUsize,
    /// Representatives that signed two batches for a place, by number, with the last such place.
    lanes: Mutex<BTreeMap<u32, u64>>,
}

impl Torn {
    /// A representative signed two batches for one place: its lane may stand still there.
    pub(super) fn tear_lane(&self, lane: u32, sequence: u64) {
        tracing::error!(lane, sequence, "a representative signed two batches for one place");
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, sequence);
    }

    /// Which ones did since this node started.
    pub(super) fn lanes(&self) -> BTreeMap<u32, u64> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<AccountId, u64>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner signed two entries for this place.
    pub(super) fn tear(&self, id: EntryId) {
        tracing::error!(account = %id.spender, n = id.n, "an owner signed two entries for one place");
        let mut places = self.places();
        let place = places.entry(id.spender).or_insert(id.n);
        *place = (*place).min(id.n);
        self.count.store(places.len(), Ordering::Relaxed);
    }

    /// An entry settled.
    pub(super) fn settled(&self, id: EntryId) {
        if self.count() == 0 {
            return;
        }
        let mut places = self.places();
        if places.get(&id.spender).is_some_and(|place| *place <= id.n) {
            places.remove(&id.spender);
            tracing::warn!(account = %id.spender, n = id.n, "a certificate decided between two entries of an owner");
        }
        self.count.store(places.len(), Ordering::Relaxed);
    }

    /// How many accounts there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// Checks the bytes of what shows two entries, for members of a cluster, without network or disk.
///
/// # Errors
/// SYN-6002 with what does not hold.
pub fn check_two(bytes: Bytes, genesis: &Genesis) -> Result<TwoEntries, SynError> {
    let invalid = |why: &str| SynError::of(code::CERTIFICATE_INVALID, &[("reason", why)]);
    let two = TwoEntries::decode(bytes, &Limits::default())
        .map_err(|malformed| invalid(&format!("its bytes are no two entries: {malformed}")))?;
    // Only the key that the bytes name is used: the secret is one that nobody has.
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    if two.proves(genesis.id(), &keys) {
        return Ok(two);
    }
    Err(invalid("one key did not sign two entries for one place, of this cluster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_counted_until_what_stands_in_the_torn_place_settled() {
        let (torn, account) = (Torn::default(), AccountId { shard: 0, registrar: 1, local: 2 });
        let id = |n| EntryId { spender: account, n };
        torn.settled(id(1));
        torn.tear(id(3));
        torn.tear(id(3));
        torn.tear(EntryId { spender: AccountId { local: 9, ..account }, n: 1 });
        torn.settled(id(2));
        assert_eq!(torn.count(), 2);
        torn.settled(id(3));
        assert_eq!(torn.count(), 1);
    }
}
