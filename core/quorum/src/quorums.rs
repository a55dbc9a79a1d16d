//! Thresholds for members of equal power.

use core::fmt;

use crate::NodeSet;

/// What faulty members may do, and so how many members f of them need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Arbitrary behaviour: n >= 3f + 1.
    Byzantine,
    /// Arbitrary behaviour behind trusted memory (uBFT): n >= 2f + 1.
    Majority,
    /// Stopping only: n >= 2f + 1.
    Crash,
}

/// A model cannot work with this many members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// Members offered.
    pub n: u32,
    /// Faults asked for.
    pub f: u32,
}

impl fmt::Display for TooFew {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} members cannot tolerate {} faults under this model", self.n, self.f)
    }
}

impl core::error::Error for TooFew {}

/// The thresholds of n members of which f may be faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorums {
    model: Model,
    n: u32,
    f: u32,
}

impl Quorums {
    /// The thresholds of `n` members with the largest f the model allows.
    ///
    /// # Errors
    /// [`TooFew`] without any member.
    pub fn new(model: Model, n: u32) -> Result<Self, TooFew> {
        let f = match model {
            Model::Byzantine => n.saturating_sub(1) / 3,
            Model::Majority | Model::Crash => n.saturating_sub(1) / 2,
        };
        Self::with_faults(model, n, f)
    }

    /// The thresholds of `n` members of which exactly `f` may be faulty.
    ///
    /// # Errors
    /// [`TooFew`] when the model needs more members.
    pub fn with_faults(model: Model, n: u32, f: u32) -> Result<Self, TooFew> {
        let needed = match model {
            Model::Byzantine => f.checked_mul(3),
            Model::Majority | Model::Crash => f.checked_mul(2),
        };
        match needed.and_then(|m| m.checked_add(1)) {
            Some(needed) if n >= needed => Ok(Self { model, n, f }),
            _ => Err(TooFew { n, f }),
        }
    }

    /// The fault model.
    #[must_use]
    pub const fn model(&self) -> Model {
        self.model
    }

    /// Number of members, n.
    #[must_use]
    pub const fn members(&self) -> u32 {
        self.n
    }

    /// Number of faults tolerated, f.
    #[must_use]
    pub const fn faulty(&self) -> u32 {
        self.f
    }

    /// Smallest size whose sets meet in a correct member: ceil((n + f + 1) / 2).
    #[must_use]
    pub const fn intersecting(&self) -> u32 {
        (self.n + self.f + 1).div_ceil(2)
    }

    /// Smallest size that contains a correct member: f + 1.
    #[must_use]
    pub const fn one_correct(&self) -> u32 {
        self.f + 1
    }

    /// Smallest size with more correct members than there can be faulty ones: 2f + 1.
    #[must_use]
    pub const fn majority_correct(&self) -> u32 {
        2 * self.f + 1
    }

    /// Most members one can wait for: n - f.
    #[must_use]
    pub const fn available(&self) -> u32 {
        self.n - self.f
    }

    /// Whether `set` contains a correct member.
    #[must_use]
    pub const fn has_correct(&self, set: NodeSet) -> bool {
        set.count() >= self.one_correct()
    }

    /// Whether `set` meets every other such set in a correct member.
    #[must_use]
    pub const fn intersects(&self, set: NodeSet) -> bool {
        set.count() >= self.intersecting()
    }
}
