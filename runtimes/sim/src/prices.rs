//! What work costs in virtual time.

use synod_machine::{Cost, Span};

/// Prices of primitive operations in nanoseconds, charged in both crypto modes. The defaults are of the order
/// `synod bench crypto` prints for a Zen 4 core; a plan may give measured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// One event of a machine, whatever it does.
    pub turn: u64,
    /// One frame put on a link or taken from it.
    pub frame: u64,
    /// A KiB encoded or decoded.
    pub coded_kib: u64,
    /// A KiB hashed.
    pub hashed_kib: u64,
    /// A signature made.
    pub sign: u64,
    /// A signature checked alone.
    pub verify: u64,
    /// A signature checked in a batch.
    pub batch_verify: u64,
    /// A pairing.
    pub pairing: u64,
    /// A hash to the curve.
    pub hash_to_curve: u64,
    /// A key addition.
    pub key_add: u64,
    /// A subgroup check.
    pub subgroup: u64,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            turn: 500,
            frame: 1_000,
            coded_kib: 300,
            hashed_kib: 400,
            sign: 15_000,
            verify: 35_000,
            batch_verify: 14_000,
            pairing: 450_000,
            hash_to_curve: 120_000,
            key_add: 400,
            subgroup: 60_000,
        }
    }
}

impl Prices {
    /// No work costs anything: runs whose times are only those of links and disks.
    pub const FREE: Self = Self {
        turn: 0,
        frame: 0,
        coded_kib: 0,
        hashed_kib: 0,
        sign: 0,
        verify: 0,
        batch_verify: 0,
        pairing: 0,
        hash_to_curve: 0,
        key_add: 0,
        subgroup: 0,
    };

    /// What `cost` takes on a node of normal speed.
    #[must_use]
    pub fn of(&self, cost: &Cost) -> Span {
        let counts = [
            (cost.sign, self.sign),
            (cost.verify, self.verify),
            (cost.batch_verify, self.batch_verify),
            (cost.pairing, self.pairing),
            (cost.hash_to_curve, self.hash_to_curve),
            (cost.key_add, self.key_add),
            (cost.subgroup, self.subgroup),
        ];
        let operations: u64 = counts.iter().map(|(count, price)| u64::from(*count) * price).sum();
        Span(operations + cost.hashed * self.hashed_kib / 1_024 + cost.coded * self.coded_kib / 1_024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_sum_of_its_priced_parts() {
        let cost = Cost { sign: 1, verify: 2, hashed: 2_048, ..Cost::default() };
        assert_eq!(Prices::default().of(&cost), Span(15_000 + 70_000 + 800));
        assert_eq!(Prices::FREE.of(&cost), Span::ZERO);
    }
}
