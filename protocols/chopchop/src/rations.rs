//! How much of one kind of work brokers may ask for each second: each its share, those that are not of the genesis also one
//! share together, for new names are to be had for nothing.
//!
//! *Bounds.* An entry for whoever asked in this second: brokers of the genesis, and as many others as their share together has
//! units.

use std::collections::BTreeMap;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

/// Bytes of an entry.
const ENTRY: u64 = 64;
/// Brokers that a genesis names at most.
const NAMED: u64 = 64;

/// Units for a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Of each broker of the genesis.
    pub(crate) named: u32,
    /// Of each other one.
    pub(crate) other: u32,
    /// Of all others together.
    pub(crate) others: u32,
}

/// What was used in this second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rations {
    second: Time,
    of: BTreeMap<NodeId, u32>,
    others: u32,
}

impl Rations {
    /// Takes so many units, at least one, for a broker; false when its share for this second does not have them.
    pub(crate) fn take(
        &mut self,
        (broker, named): (NodeId, bool),
        units: u32,
        share: &Share,
        now: Time,
    ) -> bool {
        if now.since(self.second) >= Span::secs(1) {
            *self = Self { second: now, ..Self::default() };
        }
        let units = units.max(1);
        let used = self.of.get(&broker).copied().unwrap_or(0).saturating_add(units);
        let together = if named { self.others } else { self.others.saturating_add(units) };
        if used > if named { share.named } else { share.other } || together > share.others {
            return false;
        }
        self.of.insert(broker, used);
        self.others = together;
        true
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.of.len() as u64 * ENTRY
    }

    /// Most bytes under such a share.
    pub(crate) const fn bytes_max(share: &Share) -> u64 {
        (share.others as u64 + NAMED) * ENTRY
    }
}

#[cfg(test)]
mod tests {
    use super::{Rations, Share};
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    #[test]
    fn names_that_nobody_knows_have_one_share_and_those_of_the_genesis_have_theirs() {
        let share = Share { named: 50, other: 20, others: 30 };
        let (mut rations, now) = (Rations::default(), Time(Span::secs(5).0));
        let mut count = |id: u32, named: bool, units: u32, now: Time| {
            (0..1_000).filter(|_| rations.take((NodeId(id), named), units, &share, now)).count()
        };
        assert_eq!(count(200, false, 0, now), 20, "also what is said to cost nothing");
        assert_eq!(count(201, false, 3, now), 3);
        let rest: usize = (202..400).map(|id| count(id, false, 1, now)).sum();
        assert_eq!(rest, 1, "whoever comes late");
        assert_eq!((count(100, true, 1, now), count(101, true, 9, now)), (50, 5));
        let late = now + Span::secs(1);
        assert_eq!((count(300, false, 1, late), count(100, true, 1, late)), (20, 50));
        assert!(rations.bytes() <= Rations::bytes_max(&share));
    }
}
