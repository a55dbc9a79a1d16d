//! The directory's keys as points, ready to be added up.
//!
//! Reading a key costs a square root and a check of its group, so each is read once, in a job, when it enters the
//! directory: 8 us each where a job has thousands, 45 us alone. Ids whose keys are not read yet do not count as known. Keys lie in chunks, in the form that sums read, and a sum
//! borrows them: nothing is copied between a batch's ids and the adder.
//!
//! *Bounds.* 96 bytes per client, in whole chunks of 512. Appending copies at most one chunk that a job still holds, and the
//! pointers to all.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_crypto::Keys;
use synod_crypto::bls::{BlsPublicKey, KeySource, StoredKey};

use crate::directory::{CHUNK_MEMBERS, View, repeating};

/// Keys that one job reads at most.
pub(crate) const KEYS_PER_JOB: u32 = 8_192;

/// Keys of up to 512 ids in a row, then places for more.
#[derive(Clone, Debug)]
struct Chunk([StoredKey; CHUNK_MEMBERS]);

impl Chunk {
    fn of(keys: &[StoredKey]) -> Self {
        let mut chunk = Self([StoredKey::ABSENT; CHUNK_MEMBERS]);
        chunk.0.iter_mut().zip(keys).for_each(|(place, key)| *place = *key);
        chunk
    }
}

/// The keys of the first clients of a directory, as points; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct KeyBook {
    chunks: Arc<Vec<Arc<Chunk>>>,
    length: u32,
    /// Ids whose keys are no points: only a genesis directory that nobody checked has any.
    absent: Arc<BTreeSet<u32>>,
}

impl KeyBook {
    /// The keys of as many clients as [`View::repeating`] gives; `None` when it gives none. For load generators.
    #[must_use]
    pub fn repeating(keys: &[BlsPublicKey], length: u32) -> Option<Self> {
        let stored: Vec<StoredKey> = keys.iter().map(StoredKey::from).collect();
        let chunks = Arc::new(repeating(&stored, length, Chunk::of)?);
        Some(Self { chunks, length, absent: Arc::default() })
    }

    /// Number of clients whose keys are here.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is no key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The key of client `id`; `None` beyond the last, and for a key that is no point.
    #[must_use]
    pub fn key(&self, id: u32) -> Option<BlsPublicKey> {
        self.stored(id).map(StoredKey::key)
    }

    /// Appends the keys of the next clients.
    pub(crate) fn append(&mut self, keys: &[Option<StoredKey>]) {
        let chunks = Arc::make_mut(&mut self.chunks);
        for key in keys {
            let at = self.length as usize % CHUNK_MEMBERS;
            if at == 0 {
                chunks.push(Arc::new(Chunk::of(&[])));
            }
            if key.is_none() {
                Arc::make_mut(&mut self.absent).insert(self.length);
            }
            let place = chunks.last_mut().and_then(|chunk| Arc::make_mut(chunk).0.get_mut(at));
            if let (Some(place), Some(key)) = (place, key) {
                *place = *key;
            }
            self.length += 1;
        }
    }

    /// Reads the keys of `view` from `from` on, [`KEYS_PER_JOB`] at most.
    pub(crate) fn read(view: &View, from: u32, keys: &Keys) -> Vec<Option<StoredKey>> {
        let until = view.len().min(from.saturating_add(KEYS_PER_JOB));
        let members = (from..until).map_while(|id| view.member(id));
        let bytes: Vec<[u8; 48]> = members.map(|member| member.bls.0).collect();
        keys.vouched_keys(&bytes).into_iter().map(Result::ok).collect()
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        Self::bytes_of(self.length)
    }

    /// Bytes that the keys of `length` clients take.
    pub(crate) const fn bytes_of(length: u32) -> u64 {
        (length as u64).next_multiple_of(CHUNK_MEMBERS as u64) * size_of::<StoredKey>() as u64
    }
}

impl KeySource for KeyBook {
    fn stored(&self, id: u32) -> Option<&StoredKey> {
        let at = usize::try_from(id).ok()?;
        if id >= self.length || (!self.absent.is_empty() && self.absent.contains(&id)) {
            return None;
        }
        self.chunks.get(at / CHUNK_MEMBERS)?.0.get(at % CHUNK_MEMBERS)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyBook;
    use synod_crypto::bls::{BenchFamily, KeySource as _, StoredKey};
    use synod_crypto::{Keys, Seed};

    #[test]
    fn a_book_grows_key_by_key_and_older_clones_stay_as_they_were() {
        let keys = BenchFamily::new(&Seed::new([4; 32])).keys(0, 1_200);
        let stored: Vec<Option<StoredKey>> =
            (0_u32..).zip(&keys).map(|(id, key)| (id % 500 != 7).then(|| key.into())).collect();
        let (mut book, mut old) = (KeyBook::default(), Vec::new());
        for part in stored.chunks(170) {
            book.append(part);
            old.push(book.clone());
        }
        for (book, length) in old.iter().zip((170..).step_by(170)) {
            let length = length.min(1_200);
            assert_eq!((book.len(), book.is_empty()), (length, false));
            assert_eq!(book.bytes(), u64::from(length.div_ceil(512)) * 512 * 96);
            for (id, key) in (0..).zip(&keys) {
                let there = id < length && id % 500 != 7;
                assert_eq!(book.key(id), there.then_some(*key), "id {id} of {length}");
            }
        }
    }

    #[test]
    fn a_sum_over_a_book_is_that_of_its_keys_one_by_one() {
        let all = BenchFamily::new(&Seed::new([5; 32])).keys(0, 2_048);
        let book = KeyBook::repeating(&all, 4_096).expect("whole chunks");
        let keys = Keys::ed25519(&Seed::new([1; 32]), [2; 32]);
        for ids in
            [vec![], vec![5], (0..700).step_by(3).collect(), (9..4_096).step_by(2).collect::<Vec<u32>>()]
        {
            let reference = ids.iter().map(|id| all[*id as usize % 2_048]);
            let reference = keys.bls().sum_keys_one_by_one(reference);
            assert_eq!(keys.key_adder().sum(&book, &ids), Some(reference), "{} ids", ids.len());
        }
        assert!(keys.key_adder().sum(&book, &[3, 4_096]).is_none() && book.stored(4_096).is_none());
    }
}
