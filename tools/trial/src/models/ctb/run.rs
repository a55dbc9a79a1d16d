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
}

impl Instance {
    pub(super) fn name(&self) -> String {
        let Self { numbers, memory, says } = self;
        format!("numbers={numbers} memory={memory} says={says}")
    }
}

/// An instance of a few seconds.
pub const SMALL: Instance = Instance { numbers: 1, memory: 1, says: 8 };

/// The planted bugs that must be found, each with the instance that finds it.
pub const CONTROLS: [(&str, Instance); 5] = [
    ("U1", SMALL),
    ("U2", SMALL),
    ("U3", Instance { numbers: 1, memory: 3, says: 2 }),
    ("U5", Instance { numbers: 2, memory: 1, says: 4 }),
    ("U6", SMALL),
];

/// The instances of a level: all that can be said of one number, and so much of two and three; each level more.
#[must_use]
pub fn standard(more: u8) -> Vec<Instance> {
    let of = |numbers, memory, says: u8| Instance { numbers, memory, says: (says + more).min(8 * numbers) };
    vec![SMALL, of(1, 3, 2), of(2, 1, 4), of(3, 1, 4)]
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Broadcast::new(instance, deadline))
}

#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Instance, SMALL, explore};

    #[test]
    fn whatever_is_said_of_one_number_no_two_messages_are_delivered() {
        for instance in [SMALL, Instance { numbers: 1, memory: 3, says: 2 }] {
            let report = explore(instance, Instant::now() + Duration::from_secs(300));
            assert_eq!(report.broken, None);
            assert!(report.exhausted && report.reached && report.unique > 1_000, "{report:?}");
        }
    }
}
