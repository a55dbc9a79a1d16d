//! Cells: what one lane holds of a state, values of one size in a row, by chunks that know whether they changed.

use core::fmt::Debug;
use core::ops::Range;

use synod_crypto::near;
use synod_wire::Bytes;

use crate::app::CHUNK_MAX;

/// A value of fixed size.
pub trait Cell: Copy + Debug + Default + Send + Sync + 'static {
    /// Bytes of its encoding: 1 to 65,536.
    const BYTES: usize;

    /// Appends its encoding.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads [`Cell::BYTES`] bytes; `None` when they are no encoding.
    fn get(bytes: &[u8]) -> Option<Self>;
}

impl Cell for u64 {
    const BYTES: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_le_bytes)
    }
}

impl Cell for u32 {
    const BYTES: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_le_bytes)
    }
}

/// How many cells of `bytes` bytes a chunk of the state holds, as a power of two.
#[must_use]
pub const fn chunk_shift(bytes: usize) -> u32 {
    (CHUNK_MAX / bytes).ilog2()
}

/// The cells of keys `first..first + len` of one space.
#[derive(Clone, Debug, Default)]
pub struct Cells<T> {
    first: u64,
    cells: Vec<T>,
    changed: Vec<bool>,
}

impl<T: Cell> Cells<T> {
    const SHIFT: u32 = chunk_shift(T::BYTES);

    /// The place of `key`, whether it is here or not: a place that is not here gets nothing.
    #[must_use]
    pub fn place(&self, key: u64) -> usize {
        usize::try_from(key.wrapping_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// The cell at `place`.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.cells.get(place)
    }

    /// The cell at `place`, to be changed.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if let Some(changed) = self.changed.get_mut(place >> Self::SHIFT) {
            *changed = true;
        }
        self.cells.get_mut(place)
    }

    /// Asks for the memory of cells that are worked on next: it comes while others are.
    pub fn near(&self, keys: impl IntoIterator<Item = u64>) {
        for key in keys {
            if let Some(cell) = self.cells.get(self.place(key)) {
                near(cell);
            }
        }
    }

    /// The cells in a row.
    #[must_use]
    pub fn all(&self) -> &[T] {
        &self.cells
    }

    /// The key of the first cell.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.first
    }

    fn range(&self, at: usize) -> Range<usize> {
        let from = (at << Self::SHIFT).min(self.cells.len());
        from..((at + 1) << Self::SHIFT).min(self.cells.len())
    }
}

/// Cells whatever they are: how a state is cut into chunks, grows, and is put together again.
pub trait Space {
    /// Holds `len` cells from key `first` on, all of them new.
    fn begin(&mut self, first: u64, len: usize);

    /// Appends new cells up to `len`.
    fn grow(&mut self, len: usize);

    /// Number of cells.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of chunks.
    fn chunks(&self) -> usize;

    /// The encoding of chunk `at`; empty beyond the last.
    fn chunk(&self, at: usize) -> Bytes;

    /// Whether chunk `at` changed since [`Space::settle`].
    fn changed(&self, at: usize) -> bool;

    /// Takes what is here for unchanged.
    fn settle(&mut self);

    /// Takes the first cells of chunk `at` from an encoding; false when it is none, or longer than the chunk.
    fn adopt(&mut self, at: usize, bytes: &[u8], changed: bool) -> bool;

    /// Bytes that the cells take.
    fn bytes(&self) -> u64;
}

impl<T: Cell> Space for Cells<T> {
    fn begin(&mut self, first: u64, len: usize) {
        (self.first, self.cells, self.changed) = (first, Vec::new(), Vec::new());
        self.grow(len);
    }

    fn grow(&mut self, len: usize) {
        if len > self.cells.len() {
            let old = self.cells.len() >> Self::SHIFT;
            self.cells.resize(len, T::default());
            self.changed.resize(self.chunks(), true);
            self.changed.iter_mut().skip(old).for_each(|changed| *changed = true);
        }
    }

    fn len(&self) -> usize {
        self.cells.len()
    }

    fn chunks(&self) -> usize {
        self.cells.len().div_ceil(1 << Self::SHIFT)
    }

    fn chunk(&self, at: usize) -> Bytes {
        let cells = self.cells.get(self.range(at)).unwrap_or_default();
        let mut out = Vec::with_capacity(cells.len() * T::BYTES);
        cells.iter().for_each(|cell| cell.put(&mut out));
        out.into()
    }

    fn changed(&self, at: usize) -> bool {
        self.changed.get(at).copied().unwrap_or(false)
    }

    fn settle(&mut self) {
        self.changed.fill(false);
    }

    fn adopt(&mut self, at: usize, bytes: &[u8], changed: bool) -> bool {
        let range = self.range(at);
        let Some(cells) = self.cells.get_mut(range) else { return false };
        let read = bytes.chunks_exact(T::BYTES);
        if !read.remainder().is_empty() || read.len() > cells.len() {
            return false;
        }
        for (cell, bytes) in cells.iter_mut().zip(read) {
            let Some(value) = T::get(bytes) else { return false };
            *cell = value;
        }
        if let Some(place) = self.changed.get_mut(at) {
            *place = changed;
        }
        true
    }

    fn bytes(&self) -> u64 {
        (self.cells.len() * size_of::<T>() + self.changed.len()) as u64
    }
}

/// What one lane holds: its part of each space of the application.
pub trait Shard: Default + Debug + Send + 'static {
    /// The part of space `number`.
    fn space(&self, number: usize) -> &dyn Space;

    /// The same, to be changed.
    fn space_mut(&mut self, number: usize) -> &mut dyn Space;
}

impl<T: Cell> Shard for Cells<T> {
    fn space(&self, _: usize) -> &dyn Space {
        self
    }

    fn space_mut(&mut self, _: usize) -> &mut dyn Space {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(len: usize) -> Cells<u64> {
        let mut cells = Cells::default();
        cells.begin(100, len);
        cells
    }

    #[test]
    fn a_cell_is_found_by_its_key_and_marks_its_chunk() {
        let mut cells = shard(8_193);
        cells.settle();
        assert_eq!((cells.get(cells.place(99)), cells.get(cells.place(100 + 8_193))), (None, None));
        *cells.get_mut(cells.place(100 + 8_192)).expect("the last key") = 7;
        assert_eq!((cells.changed(0), cells.changed(1), cells.changed(2)), (false, true, false));
        assert_eq!(cells.chunk(1).as_ref(), 7_u64.to_le_bytes());
        assert_eq!((cells.chunk(2).len(), cells.chunks()), (0, 2));
    }

    #[test]
    fn growing_marks_the_chunk_that_grew_and_no_other() {
        let mut cells = shard(8_192 + 5);
        cells.settle();
        cells.grow(8_192 + 6);
        assert_eq!((cells.changed(0), cells.changed(1)), (false, true));
        cells.settle();
        cells.grow(8_192 + 6);
        assert!(!cells.changed(1), "nothing grew");
    }

    #[test]
    fn an_encoding_is_adopted_whole_or_as_the_first_cells_and_never_beyond() {
        let (mut from, mut to) = (shard(10), shard(8_200));
        *from.get_mut(3).expect("it is there") = 9;
        assert!(to.adopt(0, &from.chunk(0), false));
        assert_eq!((to.get(3), to.changed(0), to.changed(1)), (Some(&9), false, true));
        assert!(!to.adopt(1, &from.chunk(0), false), "longer than the last chunk");
        assert!(!to.adopt(2, &from.chunk(0), false) && !to.adopt(0, &[0; 9], false));
    }
}
