//! A state as one stream of bytes, cut into chunks: for applications whose state is encoded whole.
//!
//! Chunk 0 is a header of the application's own, which says how long the stream is; the others are the stream, cut every
//! [`CHUNK_MAX`] bytes.
//!
//! *Bounds.* [`Arriving`] holds what came and nothing else; no length field is believed before the bytes have come.

use synod_crypto::{Hash, merkle};
use synod_wire::{Bytes, Wire};

use crate::CHUNK_MAX;

/// All chunks of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks(Vec<Bytes>);

impl Chunks {
    /// A header, and the stream in pieces.
    #[must_use]
    pub fn cut(header: &impl Wire, stream: &Bytes) -> Self {
        let starts = (0..stream.len()).step_by(CHUNK_MAX);
        let pieces = starts.map(|at| stream.slice(at..stream.len().min(at + CHUNK_MAX)));
        Self([header.encode()].into_iter().chain(pieces).collect())
    }

    /// What [`App::root`](crate::App::root) is.
    #[must_use]
    pub fn root(&self) -> Hash {
        merkle::Tree::new(self.0.iter().map(|chunk| merkle::leaf(chunk)).collect()).root()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// One of them; no bytes where there is none.
    #[must_use]
    pub fn get(&self, index: u32) -> Bytes {
        self.0.get(index as usize).cloned().unwrap_or_default()
    }
}

/// A stream that has arrived in part.
#[derive(Debug)]
pub struct Arriving {
    length: usize,
    stream: Vec<u8>,
    next: u32,
}

impl Arriving {
    /// Waits for a stream of so many bytes; `None` for one of 4 GiB or more.
    #[must_use]
    pub fn begin(length: u64) -> Option<Self> {
        let length = u32::try_from(length).ok()? as usize;
        Some(Self { length, stream: Vec::new(), next: 1 })
    }

    /// Adds the next chunk, which is a whole one unless it is the last; `None` for any other.
    pub fn add(&mut self, index: u32, chunk: &[u8]) -> Option<()> {
        let expected = (self.length - self.stream.len()).min(CHUNK_MAX);
        if index != self.next || chunk.is_empty() || chunk.len() != expected {
            return None;
        }
        self.stream.extend_from_slice(chunk);
        self.next += 1;
        Some(())
    }

    /// Whether all of it is there.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.stream.len() == self.length
    }

    /// What came.
    #[must_use]
    pub fn stream(self) -> Bytes {
        Bytes::from(self.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(length: usize) -> (Bytes, Chunks) {
        let stream: Bytes = (0..length).map(|at| (at % 251).to_le_bytes()[0]).collect::<Vec<u8>>().into();
        let chunks = Chunks::cut(&(length as u64), &stream);
        (stream, chunks)
    }

    #[test]
    fn a_stream_of_any_length_arrives_as_it_was_cut() {
        for length in [0, 1, CHUNK_MAX - 1, CHUNK_MAX, CHUNK_MAX + 1, 3 * CHUNK_MAX] {
            let (stream, chunks) = cut(length);
            assert_eq!(chunks.count() as usize, 1 + length.div_ceil(CHUNK_MAX));
            let mut arriving = Arriving::begin(length as u64).expect("short enough");
            for index in 1..chunks.count() {
                assert!(!arriving.is_whole());
                arriving.add(index, &chunks.get(index)).expect("the next one");
            }
            assert!(arriving.is_whole());
            assert_eq!(arriving.stream(), stream);
            assert_eq!(chunks.get(chunks.count()), Bytes::new());
        }
    }

    #[test]
    fn no_chunk_is_taken_out_of_turn_or_of_another_length() {
        let (_, chunks) = cut(2 * CHUNK_MAX + 5);
        let mut arriving = Arriving::begin(2 * CHUNK_MAX as u64 + 5).expect("short enough");
        assert_eq!(arriving.add(2, &chunks.get(2)), None);
        assert_eq!(arriving.add(1, &chunks.get(1)[1..]), None);
        assert_eq!(arriving.add(1, &[]), None);
        assert_eq!(arriving.add(1, &chunks.get(1)), Some(()));
        assert_eq!(arriving.add(1, &chunks.get(1)), None, "it has that one");
        assert_eq!(arriving.add(2, &chunks.get(2)), Some(()));
        assert_eq!(arriving.add(3, &[0; 6]), None, "one byte more than announced");
        assert_eq!(arriving.add(3, &chunks.get(3)), Some(()));
        assert_eq!(arriving.add(4, &[0]), None, "all is there");
    }

    #[test]
    fn a_length_alone_takes_no_memory_and_has_a_bound() {
        let arriving = Arriving::begin(u64::from(u32::MAX)).expect("the longest");
        assert_eq!(arriving.stream.capacity(), 0);
        assert!(Arriving::begin(u64::from(u32::MAX) + 1).is_none());
    }

    #[test]
    fn the_root_changes_with_each_chunk() {
        let (stream, chunks) = cut(CHUNK_MAX + 1);
        assert_ne!(chunks.root(), Chunks::cut(&1_u64, &stream).root(), "another header");
        let mut other = stream.to_vec();
        other[CHUNK_MAX] ^= 1;
        assert_ne!(chunks.root(), Chunks::cut(&(other.len() as u64), &other.into()).root());
    }
}
