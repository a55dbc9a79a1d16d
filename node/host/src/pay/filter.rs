//! Which names a run may hold: a filter in memory, for most names that are looked for are new.
//!
//! A name is six bits of one block of 512, about 13 bits of memory each: one of some 200 names that are not there seems to be.

/// Numbers of a block.
const BLOCK: usize = 8;
/// Names for which a block is reckoned.
const NAMES: usize = 40;
/// Bits of a name.
const BITS: u32 = 6;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    blocks: Vec<[u64; BLOCK]>,
    names: u64,
}

/// Spreads numbers over all of 64 bits. Files hold what comes of it: it stays as it is.
fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, number| {
        let mixed = (mixed ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 32)
    })
}

impl Filter {
    /// A filter for so many names.
    pub(super) fn new(names: usize) -> Self {
        Self { blocks: vec![[0; BLOCK]; names.div_ceil(NAMES).max(1)], names: 0 }
    }

    /// Names that it has.
    pub(super) const fn names(&self) -> u64 {
        self.names
    }

    /// The block of a name, and its bits there.
    fn place(&self, name: &[u64]) -> (usize, [u64; BLOCK]) {
        let mixed = mix(name);
        let wide = u128::from(mixed) * self.blocks.len() as u128;
        let block = usize::try_from(wide >> 64).unwrap_or(0);
        let mut bits = mix(&[mixed]);
        let mut mask = [0; BLOCK];
        for _ in 0..BITS {
            let bit = bits & 511;
            bits >>= 9;
            if let Some(number) = usize::try_from(bit / 64).ok().and_then(|at| mask.get_mut(at)) {
                *number |= 1 << (bit % 64);
            }
        }
        (block, mask)
    }

    pub(super) fn add(&mut self, name: &[u64]) {
        let (block, mask) = self.place(name);
        self.names += 1;
        if let Some(block) = self.blocks.get_mut(block) {
            block.iter_mut().zip(mask).for_each(|(number, bits)| *number |= bits);
        }
    }

    /// Whether the name may be there: never false of one that is.
    pub(super) fn may_have(&self, name: &[u64]) -> bool {
        let (block, mask) = self.place(name);
        self.blocks
            .get(block)
            .is_none_or(|block| block.iter().zip(mask).all(|(number, bits)| number & bits == bits))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = std::iter::once(&self.names).chain(self.blocks.as_flattened());
        numbers.flat_map(|number| number.to_be_bytes()).collect()
    }

    /// The filter that bytes are; `None` where they are none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = bytes.as_chunks::<8>() else { return None };
        let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_be_bytes(*number)).collect();
        let (names, blocks) = numbers.split_first()?;
        let (blocks, []) = blocks.as_chunks::<BLOCK>() else { return None };
        (!blocks.is_empty()).then(|| Self { blocks: blocks.to_vec(), names: *names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_there_is_found_and_few_others_are() {
        let name = |at: u64| [0, at, 1 << 16, 2];
        let mut filter = Filter::new(10_000);
        (0..10_000).for_each(|at| filter.add(&name(at)));
        let filter = Filter::read(&filter.to_bytes()).expect("its bytes");
        assert!((0..10_000).all(|at| filter.may_have(&name(at))));
        let wrong = (10_000..110_000).filter(|at| filter.may_have(&name(*at))).count();
        assert!(wrong < 2_000, "{wrong} of 100,000");
        assert_eq!(filter.names(), 10_000);
    }

    #[test]
    fn what_is_no_filter_is_not_read_as_one() {
        let bytes = Filter::new(1).to_bytes();
        assert_eq!(Filter::read(&bytes), Some(Filter::new(1)));
        for length in [0, 7, 8, bytes.len() - 1, bytes.len() - 8] {
            assert_eq!(Filter::read(&bytes[..length]), None, "{length}");
        }
    }
}
