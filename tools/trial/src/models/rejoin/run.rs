//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use super::cluster::Cluster;
use crate::models::bounded::explored;
use crate::models::report::InstanceReport;

/// What is wrong in an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    None,
    /// Memory nodes answer for a region that is over as if nothing had ever been written in it (E37).
    EmptyRegion,
    /// A replica that was started again takes part in the epoch that lists its first life (V7).
    OldEpoch,
}

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whether the next epoch lists the second life of the second follower; otherwise it lists first lives.
    pub lists_second_life: bool,
    /// Memory nodes.
    pub memory: u8,
    /// Proposals and certificates that the liar says at most.
    pub says: u8,
    /// Whether the liar speaks of the slot behind the end, in both epochs.
    pub speaks_later: bool,
    /// Whether followers never hear each other.
    pub is_cut: bool,
    /// What is wrong.
    pub bug: Bug,
}

impl Instance {
    pub(super) fn name(&self) -> String {
        let Self { lists_second_life, memory, says, speaks_later, is_cut, bug } = self;
        let life = if *lists_second_life { 2 } else { 1 };
        let later = if *speaks_later { " both epochs" } else { "" };
        let cut = if *is_cut { " cut" } else { "" };
        let bug = if *bug == Bug::None { String::new() } else { format!(" {bug:?}") };
        format!("lists life {life} memory={memory} says={says}{later}{cut}{bug}")
    }
}

/// An instance of a few seconds.
pub const SMALL: Instance = Instance {
    lists_second_life: true,
    memory: 1,
    says: 3,
    speaks_later: false,
    is_cut: true,
    bug: Bug::None,
};

/// The bugs that must be found, each with the instance that has it.
pub const CONTROLS: [(&str, Instance); 2] =
    [("V7", SMALL), ("E37", Instance { bug: Bug::EmptyRegion, ..SMALL })];

/// What the liar can say of epoch 0 in all, to two followers.
const ALL: u8 = 12;

/// The instances of a level, for both lists of lives: followers that never hear each other, with all that can be said of epoch 0, over three memory
/// nodes, and in both epochs; and followers that do. Each level has the liar say more.
#[must_use]
pub fn standard(more: u8) -> Vec<Instance> {
    let of = |lists_second_life, says: u8| Instance { lists_second_life, says: says + more, ..SMALL };
    let all = |lists_second_life| Instance { says: ALL, ..of(lists_second_life, 0) };
    let of_three = |lists_second_life| Instance { memory: 3, ..of(lists_second_life, 3) };
    let later = |lists_second_life| Instance { speaks_later: true, ..of(lists_second_life, 4) };
    let cut = [true, false].into_iter().flat_map(|life| [all(life), of_three(life), later(life)]);
    let open = [of(false, 2), of(true, 3)].map(|instance| Instance { is_cut: false, ..instance });
    cut.chain(open).collect()
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Cluster::new(instance, deadline))
}

#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Bug, Instance, SMALL, explore};

    #[test]
    fn what_an_epoch_that_is_over_left_behind_decides_nothing_again() {
        for lists_second_life in [true, false] {
            let of = Instance { lists_second_life, ..SMALL };
            let heard = Instance { says: 2, is_cut: false, ..of };
            let later = Instance { speaks_later: true, ..of };
            for (instance, least) in [(heard, 50_000), (of, 2_500), (later, 2_500)] {
                let report = explore(instance, Instant::now() + Duration::from_secs(300));
                assert_eq!(report.broken, None);
                assert!(report.exhausted && report.reached && report.unique > least, "{report:?}");
            }
        }
    }

    #[test]
    fn a_region_that_is_over_and_reads_as_empty_is_found_and_so_is_a_life_in_an_old_epoch() {
        for (bug, checker) in [(Bug::EmptyRegion, "U-S1"), (Bug::OldEpoch, "U-S13")] {
            let report = explore(Instance { bug, ..SMALL }, Instant::now() + Duration::from_secs(300));
            let found = report.broken.as_ref().map(|broken| broken.checker.as_str());
            assert_eq!(found, Some(checker), "{report:?}");
        }
    }
}
