//! Instances of the gate, the control, and one exploration.

use std::time::Instant;

use super::town::Town;
use crate::models::bounded::explored;
use crate::models::report::InstanceReport;

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whether one founder lies: it says nothing but its lies.
    pub liar: bool,
    /// Deviations of one run at most.
    pub deviations: u8,
}

impl Instance {
    pub(super) fn name(&self) -> String {
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
    explored(Town::new(instance, deadline))
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
