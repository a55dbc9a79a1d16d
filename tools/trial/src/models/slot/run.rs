//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::cluster::Cluster;
use crate::models::report::{Broken, InstanceReport};

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whether replica 1 lies.
    pub liar: bool,
    /// Whether slots are signed and nothing is promised.
    pub slow: bool,
    /// Deviations of one run at most.
    pub deviations: u8,
}

impl Instance {
    fn name(&self) -> String {
        let liar = if self.liar { "a liar" } else { "no liar" };
        let path = if self.slow { "signed" } else { "promised" };
        format!("two slots, {path}, {liar}, {} deviations", self.deviations)
    }
}

/// The planted bugs that must be found, each with the instance that finds it.
pub const CONTROLS: [(&str, Instance); 3] = [
    ("U9", Instance { liar: false, slow: false, deviations: 1 }),
    ("V4", Instance { liar: true, slow: true, deviations: 2 }),
    ("V14", Instance { liar: false, slow: false, deviations: 2 }),
];

/// The instances of a level: with promises and without, with a liar and without.
#[must_use]
pub fn standard(deviations: u8) -> Vec<Instance> {
    let all = [(false, false), (false, true), (true, false), (true, true)];
    all.map(|(liar, slow)| Instance { liar, slow, deviations }).to_vec()
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    let began = Instant::now();
    let cluster = Cluster::new(instance, deadline);
    let checker = cluster.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let cluster = checker.model();
    cluster.end();
    let broken = checker.discovery("safe").map(|path| {
        let breach = path.last_state().breach.clone();
        let (checker, what) =
            breach.map_or(("", String::new()), |breach| (breach.checker, breach.what.clone()));
        let trail = path.into_actions().iter().map(|choice| format!("{choice:?}")).collect();
        Broken { instance: instance.name(), checker: checker.to_owned(), what, trail }
    });
    let (machines, steps) = cluster.size();
    InstanceReport {
        name: instance.name(),
        states: checker.state_count() as u64,
        unique: checker.unique_state_count() as u64,
        exhausted: broken.is_none() && !cluster.was_cut(),
        depth: checker.max_depth() as u64,
        machines,
        steps,
        reached: ["all is executed in a later view", "a view is left behind a promise"]
            .iter()
            .all(|reached| checker.discovery(reached).is_some()),
        broken,
        ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Instance, explore};

    #[test]
    fn with_one_deviation_and_with_two_nothing_is_broken_and_every_view_is_left() {
        let one = [(false, false, 1), (false, true, 1), (true, false, 1), (true, true, 1)];
        for (liar, slow, deviations) in one.into_iter().chain([(false, false, 2), (true, true, 2)]) {
            let instance = Instance { liar, slow, deviations };
            let report = explore(instance, Instant::now() + Duration::from_secs(300));
            assert_eq!(report.broken, None);
            let least = if deviations == 1 { 200 } else { 5_000 };
            assert!(report.exhausted && report.reached && report.unique > least, "{report:?}");
        }
    }
}
