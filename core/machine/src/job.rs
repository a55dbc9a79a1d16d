//! Expensive pure work that may run elsewhere.

use core::ops::Add;

use synod_crypto::Keys;
use synod_quorum::NodeId;

/// Pure work. A crash loses it; its answer comes back once, after any delay, in any order.
pub trait Job: Sized + Send + 'static {
    /// What it answers.
    type Done: Send + 'static;

    /// Does the work.
    fn run(self, keys: &Keys) -> Self::Done;

    /// Does many at once, answers in order; override to verify as one batch and bisect on failure.
    fn run_all(jobs: Vec<Self>, keys: &Keys) -> Vec<Self::Done> {
        jobs.into_iter().map(|job| job.run(keys)).collect()
    }

    /// Counts of primitive operations, priced by the simulator.
    fn cost(&self) -> Cost {
        Cost::default()
    }

    /// Whose data is checked, for fairness between peers.
    fn peer(&self) -> Option<NodeId> {
        None
    }
}

/// Counts of primitive operations of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Signatures made.
    pub sign: u32,
    /// Signatures checked one by one.
    pub verify: u32,
    /// Signatures checked in batches.
    pub batch_verify: u32,
    /// Pairings.
    pub pairing: u32,
    /// Hashes to the curve.
    pub hash_to_curve: u32,
    /// Key additions.
    pub key_add: u32,
    /// Subgroup checks.
    pub subgroup: u32,
    /// Bytes hashed.
    pub hashed: u64,
    /// Bytes encoded or decoded.
    pub coded: u64,
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            sign: self.sign + other.sign,
            verify: self.verify + other.verify,
            batch_verify: self.batch_verify + other.batch_verify,
            pairing: self.pairing + other.pairing,
            hash_to_curve: self.hash_to_curve + other.hash_to_curve,
            key_add: self.key_add + other.key_add,
            subgroup: self.subgroup + other.subgroup,
            hashed: self.hashed + other.hashed,
            coded: self.coded + other.coded,
        }
    }
}
