//! BLAKE3 digests.

use core::fmt;

use synod_wire::{Wire, wire};

wire! {
    /// A BLAKE3 digest of 32 bytes.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Hash(pub [u8; 32]);
}

impl Hash {
    /// The digest of nothing known: 32 zero bytes. No input is known to have it.
    pub const ZERO: Self = Self([0; 32]);

    /// The plain digest of `bytes`: names blobs and content.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a value's canonical encoding within `domain`, so that values of different kinds never share
    /// a digest.
    #[must_use]
    pub fn of_value<T: Wire>(domain: &'static str, value: &T) -> Self {
        let mut hasher = Hasher::new(domain);
        hasher.add(&value.encode());
        hasher.finish()
    }

    /// The first eight bytes as a number, for tie-breaks and names in logs.
    #[must_use]
    pub fn short(&self) -> u64 {
        self.0.first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(4) {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Bytes that are put together before they are hashed: a word to the library for each part costs more.
const STAGED: usize = 512;

/// Hashes parts within a domain; each part is preceded by its length, so no two lists of parts collide.
#[derive(Clone, Debug)]
pub struct Hasher {
    /// What was more than is staged; begun only then, for it is large.
    inner: Option<Box<blake3::Hasher>>,
    staged: [u8; STAGED],
    count: usize,
}

impl Hasher {
    /// Starts in `domain`, a name that no other use of hashing shares.
    #[must_use]
    #[inline]
    pub fn new(domain: &'static str) -> Self {
        let mut hasher = Self { inner: None, staged: [0; STAGED], count: 0 };
        hasher.add(domain.as_bytes());
        hasher
    }

    /// Adds one part.
    pub fn add(&mut self, part: &[u8]) -> &mut Self {
        self.put(&(part.len() as u64).to_le_bytes());
        self.put(part);
        self
    }

    /// Adds one part so many times, as that many calls of [`Self::add`] do.
    pub fn add_times(&mut self, part: &[u8], times: usize) -> &mut Self {
        let once = [&(part.len() as u64).to_le_bytes(), part].concat();
        let together = (STAGED / once.len()).max(1);
        let many = once.repeat(together.min(times));
        for _ in 0..times / together {
            self.put(&many);
        }
        self.put(many.get(..once.len().saturating_mul(times % together)).unwrap_or_default());
        self
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.count.saturating_add(bytes.len());
        if let Some(room) = self.staged.get_mut(self.count..end) {
            room.copy_from_slice(bytes);
            self.count = end;
            return;
        }
        let staged = self.staged.get(..self.count).unwrap_or_default();
        let inner = self.inner.get_or_insert_default();
        inner.update(staged);
        self.count = 0;
        match self.staged.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.count = bytes.len();
            }
            None => {
                inner.update(bytes);
            }
        }
    }

    fn staged(&self) -> &[u8] {
        self.staged.get(..self.count).unwrap_or_default()
    }

    /// The digest of all parts.
    #[must_use]
    pub fn finish(&self) -> Hash {
        match &self.inner {
            None => Hash(*blake3::hash(self.staged()).as_bytes()),
            Some(inner) => Hash(*inner.clone().update(self.staged()).finalize().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hash, Hasher, STAGED};

    #[test]
    fn a_part_many_times_is_that_many_parts() {
        for length in [0, 1, 8, 100, STAGED - 8, STAGED, 700] {
            for times in [0, 1, 2, 55, 56, 57, 113, 1_000] {
                let part = vec![7; length];
                let [mut one, mut other] = [(); 2].map(|()| Hasher::new("synod test parts"));
                for _ in 0..times {
                    one.add(&part);
                }
                other.add_times(&part, times);
                assert_eq!(one.finish(), other.finish(), "{times} of {length}");
                assert_eq!(one.add(&part).finish(), other.add(&part).finish(), "and one more");
            }
        }
    }

    /// Parts below, at and above what is put together, one after the other in every order.
    #[test]
    fn parts_of_any_length_are_hashed_as_one_text_of_lengths_and_parts() {
        let lengths = [0, 1, 8, STAGED - 30, STAGED - 9, STAGED - 8, STAGED - 1, STAGED, STAGED + 1, 5_000];
        let bytes: Vec<u8> = (0..=250).cycle().take(5_000).collect();
        for one in lengths {
            for other in lengths {
                for count in 0..=3 {
                    let parts = [one, other, one].into_iter().take(count);
                    let (mut hasher, mut text) = (Hasher::new("synod test parts"), Vec::new());
                    let mut put = |part: &[u8]| {
                        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
                        text.extend_from_slice(part);
                    };
                    put(b"synod test parts");
                    for length in parts {
                        hasher.add(&bytes[..length]);
                        put(&bytes[..length]);
                    }
                    assert_eq!(hasher.finish(), Hash::of(&text), "{count} of {one} and {other}");
                    assert_eq!(hasher.finish(), Hash::of(&text), "asked again");
                }
            }
        }
    }
}
