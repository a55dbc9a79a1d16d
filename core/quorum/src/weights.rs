//! Thresholds for members of unequal power.

use crate::{NodeId, NodeSet};

/// The power of each member and the thresholds that follow: with total power P, the faulty power is
/// F = (P - 1) / 3, a quorum has power Q = P - F, a weak quorum W = F + 1. With equal power 1 these are f, n - f
/// and f + 1 of the Byzantine model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// By number; 0 where no member has it.
    powers: Vec<u64>,
    size: u32,
    total: u64,
}

impl Weights {
    /// Keeps `powers` in member order; `None` if one is 0 or the sum reaches 2^63.
    #[must_use]
    pub fn new(powers: Vec<u64>) -> Option<Self> {
        if powers.contains(&0) { None } else { Self::with_holes(powers) }
    }

    /// The same where some numbers have no member, and so no power; `None` if the sum reaches 2^63.
    #[must_use]
    pub fn with_holes(powers: Vec<u64>) -> Option<Self> {
        let total: u128 = powers.iter().map(|&p| u128::from(p)).sum();
        let total = u64::try_from(total).ok().filter(|&sum| sum < 1 << 63)?;
        let size = powers.iter().filter(|power| **power > 0).count();
        Some(Self { powers, size: u32::try_from(size).unwrap_or(u32::MAX), total })
    }

    /// Equal power 1 for `n` members.
    #[must_use]
    pub fn equal(n: u32) -> Self {
        let powers: Vec<u64> = (0..n).map(|_| 1).collect();
        Self { powers, size: n, total: u64::from(n) }
    }

    /// Number of members.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The power of one member; 0 for anybody else.
    #[must_use]
    pub fn power(&self, id: NodeId) -> u64 {
        usize::try_from(id.0).ok().and_then(|at| self.powers.get(at)).copied().unwrap_or(0)
    }

    /// The power of a set.
    #[must_use]
    pub fn sum(&self, set: NodeSet) -> u64 {
        set.iter().map(|id| self.power(id)).sum()
    }

    /// All power, P.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Power that may be faulty, F.
    #[must_use]
    pub const fn faulty(&self) -> u64 {
        self.total.saturating_sub(1) / 3
    }

    /// Power of a quorum, Q = P - F.
    #[must_use]
    pub const fn quorum(&self) -> u64 {
        self.total - self.faulty()
    }

    /// Smallest power such that any two sets of it share a correct member: more than (P + F) / 2. At most Q.
    #[must_use]
    pub const fn intersecting(&self) -> u64 {
        (self.total + self.faulty()) / 2 + 1
    }

    /// Power of a weak quorum, W = F + 1.
    #[must_use]
    pub const fn weak(&self) -> u64 {
        self.faulty() + 1
    }

    /// Whether `set` is a quorum.
    #[must_use]
    pub fn is_quorum(&self, set: NodeSet) -> bool {
        self.sum(set) >= self.quorum()
    }

    /// Whether `set` shares a correct member with every other such set.
    #[must_use]
    pub fn intersects(&self, set: NodeSet) -> bool {
        self.sum(set) >= self.intersecting()
    }

    /// Whether `set` contains a correct member.
    #[must_use]
    pub fn is_weak(&self, set: NodeSet) -> bool {
        self.sum(set) >= self.weak()
    }
}
