//! The random stream of a machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};
use synod_crypto::Hasher;
use synod_quorum::NodeId;

/// A ChaCha8 stream keyed by (run seed, node, machine): equal keys and events give equal effects. Never for
/// secrets.
#[derive(Clone)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// The stream of machine `machine` at `node` in the run of `seed`.
    #[must_use]
    pub fn new(seed: u64, node: NodeId, machine: u8) -> Self {
        let mut key = Hasher::new("synod machine rng");
        key.add(&seed.to_le_bytes()).add(&node.0.to_le_bytes()).add(&[machine]);
        Self(ChaCha8Rng::from_seed(key.finish().0))
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 when `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }
}
