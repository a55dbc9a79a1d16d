//! Instances of the gate, the control, and one exploration.

use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::town::Town;
use crate::models::report::{Broken, InstanceReport};

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whether one founder lies: it says nothing but its lies.
    pub liar: bool,
    /// Deviations of one run at most.
    pub deviations: u8,
}

impl Instance {
    fn name(&self) -> String {
        let liar = if self.liar { "a liar" } else { "no liar" };
        format!("joins of two at once, {liar}, {} deviations", self.deviations)
    }
}

/// One list per view and member: two half-supported ones stop for ever.
pub const CONTROLS: [(&str, Instance); 1] = [("A30", Instance { liar: false, deviations: 1 })];

/// The instances of a level: with a founder who lies, and with four who do not.
#[must_use]
pub fn standard(deviations: u8) -> Vec<Instance> {
    [false, true].map(|liar| Instance { liar, deviations }).to_vec()
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    let began = Instant::now();
    let town = Town::new(instance, deadline);
    let checker = town.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let town = checker.model();
    town.end();
    let broken = checker.discovery("safe").map(|path| {
        let breach = town.breach(path.last_state());
        let (checker, what) = breach.map_or(("", String::new()), |breach| (breach.checker, breach.what));
        let trail = path.into_actions().iter().map(|choice| format!("{choice:?}")).collect();
        Broken { instance: instance.name(), checker: checker.to_owned(), what, trail }
    });
    let (machines, steps) = town.size();
    InstanceReport {
        name: instance.name(),
        states: checker.state_count() as u64,
        unique: checker.unique_state_count() as u64,
        exhausted: broken.is_none() && !town.was_cut(),
        depth: checker.max_depth() as u64,
        machines: machines as u64,
        steps: steps as u64,
        reached: checker.discovery("both have joined").is_some(),
        broken,
        ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Instance, explore};

    fn explored(instance: Instance) -> crate::models::report::InstanceReport {
        explore(instance, Instant::now() + Duration::from_secs(240))
    }

    #[test]
    fn two_who_ask_at_once_both_join_with_a_silent_founder_and_without() {
        for liar in [false, true] {
            let report = explored(Instance { liar, deviations: 0 });
            assert_eq!(report.broken, None);
            assert!(report.exhausted && report.reached && report.unique > 15, "{report:?}");
        }
    }

    /// A-S9 and T54 in every schedule with one deviation.
    #[test]
    fn one_deviation_or_lie_breaks_no_chain_of_views_and_keeps_nobody_out() {
        for liar in [false, true] {
            let report = explored(Instance { liar, deviations: 1 });
            assert_eq!(report.broken, None);
            assert!(report.exhausted && report.reached && report.unique > 500, "{report:?}");
        }
    }
}
