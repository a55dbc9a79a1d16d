//! What became of operations: a code each, kept for a number of heights and bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The codes of one batch, by rising id.
#[derive(Debug)]
struct Codes {
    ids: Arc<[u32]>,
    codes: Vec<u8>,
}

impl Codes {
    fn bytes(&self) -> u64 {
        64 + (4 * self.ids.len() + self.codes.len()) as u64
    }
}

/// The codes of the last batches.
#[derive(Debug, Default)]
pub(super) struct Results {
    kept: BTreeMap<u64, Codes>,
    bytes: u64,
}

impl Results {
    /// Keeps the codes of a batch; the oldest go until at most `heights` heights back and `bytes_max` bytes are kept.
    pub(super) fn add(
        &mut self,
        height: u64,
        ids: Arc<[u32]>,
        codes: Vec<u8>,
        (heights, bytes_max): (u32, u64),
    ) {
        assert_eq!(ids.len(), codes.len(), "every entry has a code");
        let codes = Codes { ids, codes };
        self.bytes += codes.bytes();
        if let Some(old) = self.kept.insert(height, codes) {
            self.bytes -= old.bytes();
        }
        let least = height.saturating_sub(u64::from(heights)) + 1;
        while let Some(oldest) = self.kept.first_entry() {
            if *oldest.key() >= least && self.bytes <= bytes_max {
                break;
            }
            self.bytes -= oldest.remove().bytes();
        }
    }

    /// The code of the operation of `id` at `height`; `None` when it is not known any more or was none.
    pub(super) fn code(&self, id: u32, height: u64) -> Option<u8> {
        let codes = self.kept.get(&height)?;
        let at = codes.ids.binary_search(&id).ok()?;
        codes.codes.get(at).copied()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_by_id_and_height_and_the_oldest_go() {
        let mut results = Results::default();
        for height in 1..=5 {
            results.add(height, [2, 7].into(), vec![u8::try_from(height).expect("few"), 9], (3, 1 << 20));
        }
        assert_eq!([1, 2, 3, 5].map(|height| results.code(2, height)), [None, None, Some(3), Some(5)]);
        assert_eq!((results.code(7, 4), results.code(3, 4), results.code(7, 6)), (Some(9), None, None));
        let one = results.bytes() / 3;
        results.add(6, [2, 7].into(), vec![0, 0], (9, 2 * one));
        assert_eq!((results.code(2, 4), results.code(2, 5), results.bytes()), (None, Some(5), 2 * one));
        results.add(6, [2].into(), vec![8], (9, 2 * one));
        assert_eq!(
            (results.code(2, 6), results.code(7, 6)),
            (Some(8), None),
            "a height again is the same height"
        );
        results.add(7, [2, 7].into(), vec![0, 0], (9, 0));
        assert_eq!(
            (results.code(2, 7), results.bytes()),
            (None, 0),
            "what is larger than the bound is not kept"
        );
    }
}
