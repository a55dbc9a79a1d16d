//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::broadcast::Broadcast;
use crate::models::report::{Broken, InstanceReport};

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
    fn name(&self) -> String {
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
    let began = Instant::now();
    let broadcast = Broadcast::new(instance, deadline);
    let checker = broadcast.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let broadcast = checker.model();
    broadcast.end();
    let broken = checker.discovery("safe").map(|path| {
        let breach = broadcast.breach(path.last_state());
        let (checker, what) = breach.map_or(("", String::new()), |breach| (breach.checker, breach.what));
        let trail = broadcast.told(path.into_actions());
        Broken { instance: instance.name(), checker: checker.to_owned(), what, trail }
    });
    let (machines, steps) = broadcast.size();
    InstanceReport {
        name: instance.name(),
        states: checker.state_count() as u64,
        unique: checker.unique_state_count() as u64,
        exhausted: broken.is_none() && !broadcast.was_cut(),
        depth: checker.max_depth() as u64,
        machines: machines as u64,
        steps: steps as u64,
        reached: checker.discovery("a message is delivered through registers").is_some(),
        broken,
        ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
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
