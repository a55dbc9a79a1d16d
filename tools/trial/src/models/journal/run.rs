//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use super::instance::Instance;
use super::power::Power;
use crate::models::bounded::explored;
use crate::models::report::InstanceReport;

/// An instance of a few seconds.
pub const SMALL: Instance = Instance { writes: 2, syncs: 1, room: 1_500 };

/// The planted bugs that must be found, each with the instance that finds it.
pub const CONTROLS: [(&str, Instance); 2] = [("G3", instance(4, ROOMS[1])), ("G4", instance(4, ROOMS[1]))];

/// Room of a segment for all records, for a few, and for one of the longest.
const ROOMS: [u64; 3] = [20_000, 5_000, 3_000];

const fn instance(writes: u8, room: u64) -> Instance {
    Instance { writes, syncs: 2, room }
}

/// Two syncs and this many writes, in segments that are used up never, after a while, and at once.
#[must_use]
pub fn standard(writes: u8) -> Vec<Instance> {
    ROOMS.into_iter().map(|room| instance(writes, room)).collect()
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Power::new(instance, deadline))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{SMALL, explore};

    #[test]
    fn a_small_journal_keeps_its_promises_whatever_the_disk_loses() {
        let report = explore(SMALL, Instant::now() + Duration::from_secs(120));
        assert_eq!(report.broken, None);
        assert!(report.exhausted && report.reached && report.unique > 300, "{report:?}");
    }
}
