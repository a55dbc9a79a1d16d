//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use super::broadcast::Broadcast;
use crate::models::bounded::explored;
use crate::models::report::InstanceReport;

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Numbers of which the liar speaks: 16, 32 of the same place, 1 of another.
    pub numbers: u8,
    /// Memory nodes.
    pub memory: u8,
    /// Things that the liar says at most; of a number it can say eight.
    pub says: u8,
    /// Whether receivers promise with what they lock (4.18); then the numbers are 1, 17 of the same place, and 2.
    pub merged: bool,
}

impl Instance {
    pub(super) fn name(&self) -> String {
        let Self { numbers, memory, says, merged } = self;
        let merged = if *merged { " merged" } else { "" };
        format!("numbers={numbers} memory={memory} says={says}{merged}")
    }
}

/// An instance of a few seconds.
pub const SMALL: Instance = Instance { numbers: 1, memory: 1, says: 8, merged: false };

/// The planted bugs that must be found, each with the instance that finds it.
pub const CONTROLS: [(&str, Instance); 5] = [
    ("U1", SMALL),
    ("U2", SMALL),
    ("U3", Instance { numbers: 1, memory: 3, says: 2, merged: false }),
    ("U5", Instance { numbers: 2, memory: 1, says: 4, merged: false }),
    ("U6", SMALL),
];

/// The instances of a level: all that can be said of one number, and so much of two and three; each level more.
#[must_use]
pub fn standard(more: u8) -> Vec<Instance> {
    let of = |numbers, memory, says: u8| Instance {
        numbers,
        memory,
        says: (says + more).min(8 * numbers),
        merged: false,
    };
    vec![SMALL, of(1, 3, 2), of(2, 1, 4), of(3, 1, 4)]
}

/// The smallest instance with promises that go with what is locked.
pub const MERGED: Instance = Instance { numbers: 2, memory: 1, says: 3, merged: true };

/// The planted bug of merged promises that this model must find: a lock that moves past a number that is promised.
pub const MERGED_CONTROLS: [(&str, Instance); 1] = [("V13", MERGED)];

/// The instances of a level with merged promises.
#[must_use]
pub fn merged(more: u8) -> Vec<Instance> {
    let of = |numbers, says: u8| Instance { numbers, says: (says + more).min(8 * numbers), ..MERGED };
    vec![of(1, 8), of(2, 3), of(3, 3)]
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Broadcast::new(instance, deadline))
}

#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Instance, MERGED, SMALL, explore};

    #[test]
    fn whatever_is_said_of_one_number_no_two_messages_are_delivered() {
        for instance in [SMALL, Instance { numbers: 1, memory: 3, says: 2, merged: false }] {
            let report = explore(instance, Instant::now() + Duration::from_secs(300));
            assert_eq!(report.broken, None);
            assert!(report.exhausted && report.reached && report.unique > 1_000, "{report:?}");
        }
    }

    #[test]
    fn what_is_promised_with_a_lock_is_delivered_whatever_is_said_of_later_numbers() {
        let report = explore(MERGED, Instant::now() + Duration::from_secs(300));
        assert_eq!(report.broken, None);
        assert!(report.exhausted && report.reached && report.unique > 500, "{report:?}");
    }
}
