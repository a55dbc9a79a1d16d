//! Clients' Ed25519 keys as points: each is read with the first submission of its client that holds, and kept while the client
//! comes again (8.3 Q9).
//!
//! *Bounds.* [`ReadKeys::PLACE`] bytes for each of `read_keys_max` clients at most, the one that was away longest giving way, and 4
//! bytes for each id up to the highest that submitted; more of either while a row grows.

use synod_crypto::ReadKey;

/// No place.
const NONE: u32 = u32::MAX;

/// A key and its neighbours by age.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: u32,
    older: u32,
    newer: u32,
    key: ReadKey,
}

/// The keys that were read, by client.
#[derive(Clone, Debug)]
pub(super) struct ReadKeys {
    /// The place of each id, or [`NONE`].
    of: Vec<u32>,
    places: Vec<Place>,
    oldest: u32,
    newest: u32,
    most: u32,
}

impl ReadKeys {
    /// Bytes of a key and its place.
    pub(super) const PLACE: u64 = size_of::<Place>() as u64;

    pub(super) const fn new(most: u32) -> Self {
        Self { of: Vec::new(), places: Vec::new(), oldest: NONE, newest: NONE, most }
    }

    /// The key of a client that is here now.
    pub(super) fn get(&mut self, id: u32) -> Option<ReadKey> {
        let place = self.of.get(id as usize).copied().filter(|place| *place != NONE)?;
        if place != self.newest {
            self.unlist(place);
            self.list(place);
        }
        self.places.get(place as usize).map(|place| place.key)
    }

    /// Keeps the key of a client; whoever was away longest gives way where there is no room.
    pub(super) fn put(&mut self, id: u32, key: ReadKey) {
        if self.get(id).is_some() {
            // It was read in another way before.
            if let Some(place) = self.places.get_mut(self.newest as usize) {
                place.key = key;
            }
            return;
        }
        if self.most == 0 {
            return;
        }
        let at = id as usize;
        if at >= self.of.len() {
            self.of.resize(at + 1, NONE);
        }
        let blank = Place { id, older: NONE, newer: NONE, key };
        let place = match u32::try_from(self.places.len()) {
            Ok(next) if next < self.most => {
                if self.places.len() == self.places.capacity() {
                    self.places
                        .reserve_exact(self.places.len().clamp(64, (self.most - next).max(64) as usize));
                }
                self.places.push(blank);
                next
            }
            _ => {
                let oldest = self.oldest;
                self.unlist(oldest);
                let gone = self.places.get_mut(oldest as usize);
                if let Some(gone) = gone.map(|gone| core::mem::replace(gone, blank))
                    && let Some(of) = self.of.get_mut(gone.id as usize)
                {
                    *of = NONE;
                }
                oldest
            }
        };
        self.of[at] = place;
        self.list(place);
    }

    fn unlist(&mut self, place: u32) {
        let Some(Place { older, newer, .. }) = self.places.get(place as usize).copied() else { return };
        match self.places.get_mut(older as usize) {
            Some(other) => other.newer = newer,
            None => self.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(other) => other.older = older,
            None => self.newest = older,
        }
    }

    fn list(&mut self, place: u32) {
        let newest = core::mem::replace(&mut self.newest, place);
        match self.places.get_mut(newest as usize) {
            Some(other) => other.newer = place,
            None => self.oldest = place,
        }
        if let Some(own) = self.places.get_mut(place as usize) {
            (own.older, own.newer) = (newest, NONE);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        4 * self.of.capacity() as u64 + Self::PLACE * self.places.capacity() as u64
    }

    /// Bytes held at most, with so many clients.
    pub(super) fn bytes_max(clients: u64, most: u32) -> u64 {
        12 * clients + 64 + Self::PLACE * (2 * clients).max(64).min(u64::from(most).max(64))
    }
}

#[cfg(test)]
mod tests {
    use super::ReadKeys;
    use synod_crypto::{Keys, ReadKey, Scope, Seed, verify_all_read};
    use synod_quorum::{Epoch, NodeId};

    use crate::statement::Height;

    fn key(name: u8) -> ReadKey {
        let keys = Keys::ed25519(&Seed::new([name; 32]), [2; 32]);
        let scope = Scope { cluster: synod_crypto::Hash::ZERO, epoch: Epoch(1) };
        let claim = keys.sign(scope, NodeId(1), Height { height: 1 }).into_inner();
        let read = verify_all_read(vec![(claim, None)], &keys).remove(0);
        read.expect("it holds").1.expect("it was not read before")
    }

    #[test]
    fn who_was_away_longest_gives_way() {
        let mut all = ReadKeys::new(3);
        for id in [10, 4, 7] {
            all.put(id, key(u8::try_from(id).expect("small")));
        }
        assert!(all.get(10).is_some(), "it comes again, so 4 is the oldest");
        all.put(9, key(9));
        assert!(all.get(4).is_none() && all.get(3).is_none() && all.get(11).is_none());
        for id in [10_u8, 7, 9] {
            assert_eq!(all.get(u32::from(id)).map(|read| *read.key()), Some(*key(id).key()));
        }
        all.put(4, key(4));
        assert!(all.get(10).is_none(), "7 and 9 came after it");
        assert_eq!(all.places.len(), 3);
        let mut none = ReadKeys::new(0);
        none.put(1, key(1));
        assert!(none.get(1).is_none() && none.bytes() == 0);
    }

    #[test]
    fn the_bytes_of_keys_stay_within_their_formula() {
        let (one, most) = (key(1), 1_000);
        let mut all = ReadKeys::new(most);
        for id in 0..3_000 {
            all.put(id, one);
            assert!(all.bytes() <= ReadKeys::bytes_max(u64::from(id) + 1, most), "{id}");
        }
        assert_eq!(all.places.len(), 1_000);
        assert!((0..2_000).all(|id| all.get(id).is_none()) && (2_000..3_000).all(|id| all.get(id).is_some()));
    }
}
