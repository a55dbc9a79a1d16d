//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use super::writing::Writing;
use crate::models::bounded::explored;
use crate::models::report::InstanceReport;

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// WRITEs.
    pub writes: u8,
    /// Words of a half that are steps beside its last: the timestamp, and so many of its value less one.
    pub words: u8,
    /// Whether the owner lets the cooldown pass.
    pub cools_down: bool,
    /// Whether the reader takes one valid half however long it took.
    pub takes_half: bool,
}

impl Instance {
    pub(super) fn name(&self) -> String {
        let Self { writes, words, cools_down, takes_half } = self;
        format!("writes={writes} words={words} cools_down={cools_down} takes_half={takes_half}")
    }
}

/// An instance of a few seconds.
pub const SMALL: Instance = sound(3, 2);

/// Bugs that must be found, each with the instance that has it.
pub const CONTROLS: [(&str, Instance); 2] = [
    ("V5", Instance { takes_half: true, ..sound(4, 2) }),
    ("U16", Instance { cools_down: false, ..sound(4, 2) }),
];

const fn sound(writes: u8, words: u8) -> Instance {
    Instance { writes, words, cools_down: true, takes_half: false }
}

/// The instances of a level: three WRITEs and one more with each level, by the ends of values and by more of their words.
#[must_use]
pub fn standard(more: u8) -> Vec<Instance> {
    vec![sound(3 + more, 2), sound(3 + more, 4)]
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Writing::new(instance, deadline))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{CONTROLS, SMALL, explore};

    #[test]
    fn a_read_gives_the_last_write_or_a_concurrent_one_wherever_both_stop() {
        let report = explore(SMALL, Instant::now() + Duration::from_secs(300));
        assert_eq!(report.broken, None);
        assert!(report.exhausted && report.reached && report.unique > 5_000, "{report:?}");
    }

    /// V5 and U16: the rule of the paper, and an owner in a hurry.
    #[test]
    fn one_half_of_a_slow_read_and_an_owner_without_a_cooldown_are_found() {
        for (id, instance) in CONTROLS {
            let report = explore(instance, Instant::now() + Duration::from_secs(300));
            assert!(report.broken.is_some(), "{id}: {report:?}");
        }
    }
}
