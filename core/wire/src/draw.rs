//! Values drawn from a fixed random stream: the source of conformance hashes, properties and structured fuzz
//! input. Production code never draws from it.

/// A value that can be drawn.
pub trait Draw: Sized {
    /// Draws one value; equal streams give equal values.
    fn draw(from: &mut Drawn) -> Self;
}

/// A small deterministic stream (SplitMix64); not for secrets, not for protocols.
#[derive(Clone, Debug)]
pub struct Drawn {
    state: u64,
}

impl Drawn {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "the stream never ends, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// The length of a sequence of at most `max` elements: mostly short, so that nested values stay small.
    pub fn length(&mut self, max: usize) -> usize {
        let short = usize::try_from(self.below(5)).unwrap_or(0);
        short.min(max)
    }
}
