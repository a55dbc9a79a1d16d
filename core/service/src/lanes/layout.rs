//! Which lane holds which key: ranges of a power of two, the same for all nodes with as many lanes.

use super::LaneApp;
use super::cells::chunk_shift;

/// Most keys of a space: clients have 32-bit numbers.
pub const KEYS_MAX: u64 = 1 << 32;

/// The keys of one space, cut into ranges by lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of keys.
    pub len: u64,
    chunk: u32,
    shift: u32,
    lanes: u32,
}

impl Extent {
    fn new(len: u64, bytes: usize, lanes: u32) -> Self {
        let chunk = chunk_shift(bytes);
        let mut shift = chunk;
        while len.saturating_sub(1) >> shift >= u64::from(lanes) {
            shift += 1;
        }
        Self { len, chunk, shift, lanes }
    }

    /// The lane that holds `key`; the last one for a key that nobody holds.
    #[must_use]
    pub fn lane(&self, key: u64) -> usize {
        let lane = u32::try_from(key >> self.shift).unwrap_or(u32::MAX);
        lane.min(self.lanes - 1) as usize
    }

    /// First key of a lane, and how many it holds.
    pub(super) fn part(&self, lane: u32) -> (u64, usize) {
        // Of an empty lane too: it may grow.
        let first = u64::from(lane) << self.shift;
        let end = (u64::from(lane + 1) << self.shift).min(self.len);
        (first, usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX))
    }

    pub(super) const fn cut_as(&self, other: &Self) -> bool {
        self.shift == other.shift
    }

    /// Number of chunks.
    pub(super) const fn chunks(&self) -> u64 {
        self.len.div_ceil(1 << self.chunk)
    }

    /// Bytes of chunk `at` of cells of `bytes` bytes.
    pub(super) fn chunk_bytes(&self, at: u64, bytes: usize) -> u64 {
        let left = self.len.saturating_sub(at << self.chunk);
        left.min(1 << self.chunk) * bytes as u64
    }

    /// The lane and the place there of chunk `at`.
    pub(super) fn chunk_place(&self, at: u64) -> (usize, usize) {
        let key = at << self.chunk;
        let lane = self.lane(key);
        let first = (lane as u64) << self.shift;
        (lane, usize::try_from((key - first) >> self.chunk).unwrap_or(usize::MAX))
    }
}

/// How the state of an application is cut into lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    lanes: u32,
    spaces: Vec<Extent>,
}

impl Layout {
    pub(super) fn new<P: LaneApp>(lanes: u8, lens: &[u64]) -> Self {
        let lanes = u32::from(lanes.max(1));
        let extent = |(len, bytes): (&u64, &usize)| Extent::new(*len, *bytes, lanes);
        Self { lanes, spaces: lens.iter().zip(P::CELLS).map(extent).collect() }
    }

    /// Number of lanes.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Space `number`; an empty one beyond the last.
    #[must_use]
    pub fn space(&self, number: usize) -> Extent {
        let nothing = Extent { len: 0, chunk: 0, shift: 0, lanes: self.lanes };
        self.spaces.get(number).copied().unwrap_or(nothing)
    }

    pub(super) fn lens(&self) -> Vec<u64> {
        self.spaces.iter().map(|extent| extent.len).collect()
    }

    /// Number of chunks, the header included.
    pub(super) fn chunks(&self) -> u64 {
        1 + self.spaces.iter().map(Extent::chunks).sum::<u64>()
    }

    /// The space and the chunk there of chunk `index` of the state; `None` for the header and beyond the last.
    pub(super) fn chunk(&self, index: u32) -> Option<(usize, u64)> {
        let mut rest = u64::from(index).checked_sub(1)?;
        for (number, extent) in self.spaces.iter().enumerate() {
            match rest.checked_sub(extent.chunks()) {
                None => return Some((number, rest)),
                Some(less) => rest = less,
            }
        }
        None
    }
}
