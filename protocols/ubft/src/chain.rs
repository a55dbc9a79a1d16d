//! A digest of all that slots added, one after the other.
//!
//! It is asked for once per checkpoint, so what slots add is taken into one digest until then, and the next begins with it: a slot costs
//! its bytes and no digest of its own. What was added since the last checkpoint says so little apart that only whole lists are compared.

use synod_crypto::{Hash, Hasher};

use crate::batch::Slot;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    domain: &'static str,
    /// At the last checkpoint.
    closed: Hash,
    /// What was added since, if anything.
    since: Option<Hasher>,
}

impl Chain {
    /// One whose digest was `closed` at a checkpoint.
    pub(crate) const fn new(domain: &'static str, closed: Hash) -> Self {
        Self { domain, closed, since: None }
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: &[u8]) {
        let (domain, closed) = (self.domain, self.closed);
        let since = self.since.get_or_insert_with(|| {
            let mut hasher = Hasher::new(domain);
            hasher.add(&closed.0);
            hasher
        });
        since.add(part);
    }

    /// The digest of all that was added.
    pub(crate) fn head(&self) -> Hash {
        self.since.as_ref().map_or(self.closed, Hasher::finish)
    }

    /// Ends what belongs to one checkpoint.
    pub(crate) fn close(&mut self) -> Hash {
        self.closed = self.head();
        self.since = None;
        self.closed
    }

    /// Adds what a slot decided, and ends what belongs to the checkpoint behind it, if there is one every `half` slots.
    pub(crate) fn follow(&mut self, slot: Slot, digest: Hash, half: u64) {
        self.add(&digest.0);
        if slot.0.saturating_add(1).is_multiple_of(half) {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_added_counts_and_where_checkpoints_were() {
        let digest = |n: u8| Hash::of(&[n]);
        let of = |slots: &[u8], half: u64| {
            let mut chain = Chain::new("ubft test chain", Hash::ZERO);
            (0..).zip(slots).for_each(|(slot, n)| chain.follow(Slot(slot), digest(*n), half));
            chain.head()
        };
        let all = of(&[1, 2, 3, 4], 2);
        assert_eq!(all, of(&[1, 2, 3, 4], 2));
        for other in [of(&[1, 2, 3, 5], 2), of(&[5, 2, 3, 4], 2), of(&[2, 1, 3, 4], 2), of(&[1, 2, 3], 2)] {
            assert_ne!(all, other);
        }
        assert_ne!(all, of(&[1, 2, 3, 4], 4), "whoever counts checkpoints differently is noticed");
        assert_eq!(of(&[], 2), Hash::ZERO);
    }

    #[test]
    fn whoever_begins_at_a_checkpoint_goes_on_as_one_that_was_there() {
        let mut whole = Chain::new("ubft test chain", Hash::ZERO);
        whole.add(b"before");
        let at = whole.close();
        let mut later = Chain::new("ubft test chain", at);
        assert_eq!(whole.head(), later.head(), "nothing was added since");
        for part in [&b"after"[..], &[7; 2_000]] {
            whole.add(part);
            later.add(part);
            assert_eq!(whole.head(), later.head());
        }
        assert_ne!(whole.head(), at);
        assert_eq!(whole.close(), later.close());
    }
}
