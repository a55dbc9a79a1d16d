//! The result of a run.

use super::order::Order;
use super::run::{Events, Plan};
use crate::chaos::ledger::Lane;
use crate::chaos::report::spread;
use crate::output::Report;
use std::time::Duration;
use synod_config::{SynError, code};

/// What a run found.
pub(super) struct Findings {
    pub(super) lane: Lane,
    pub(super) order: Order,
    pub(super) events: Events,
    /// Whether all members hold the same keys and values.
    pub(super) hash_equal: bool,
    pub(super) keys: u64,
    /// Members whose state was compared.
    pub(super) members: usize,
    /// Journals that members took for damaged.
    pub(super) damaged: u64,
    /// Members that clients named for contradicting an accepted result.
    pub(super) blamed: u64,
    /// From the start of a process until its node voted.
    pub(super) to_vote: Vec<Duration>,
    pub(super) took: Duration,
}

impl Findings {
    /// Promises that were broken.
    pub(super) fn violations(&self) -> u64 {
        let broken = self.lane.lost + self.lane.duplicated + self.events.equivocations + self.blamed;
        broken + self.damaged + self.events.gone.len() as u64 + u64::from(!self.hash_equal)
    }

    /// Whether everything was checked and nothing is wrong.
    pub(super) fn ok(&self) -> bool {
        self.violations() == 0 && self.order.violations == 0 && self.unchecked().is_empty()
    }

    /// What was not checked.
    fn unchecked(&self) -> Vec<&'static str> {
        let missing = [
            (self.lane.acked == 0, "nothing was acknowledged"),
            (self.order.windows == 0, "no two members stood at a sync, so no order window was effective"),
            (
                self.order.after + self.order.violations < self.order.probes,
                "writes of order windows stayed open",
            ),
            (self.events.cuts > 4 && self.events.loss.dropped == 0, "no cut lost anything"),
        ];
        missing.into_iter().filter_map(|(is, what)| is.then_some(what)).collect()
    }

    /// What is wrong, as an error.
    pub(super) fn error(&self) -> SynError {
        let values =
            [("lost", &*self.lane.lost.to_string()), ("duplicated", &*self.lane.duplicated.to_string())];
        let mut error = self.lane.because(SynError::of(code::AUDIT_FAILED, &values));
        let counts = [
            (self.order.violations, "writes acknowledged on votes that were not durable"),
            (self.events.equivocations, "double signatures reported by members"),
            (self.damaged, "journals taken for damaged after a power cut"),
            (self.blamed, "members named by clients for contradicting results"),
        ];
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            error = error.because(format!("{count} {what}"));
        }
        if !self.hash_equal {
            error = error.because("the states of the members are not all equal");
        }
        let error = self.events.gone.iter().fold(error, SynError::because);
        self.unchecked().into_iter().fold(error, SynError::because)
    }
}

/// The result as it is printed.
pub(super) fn report(plan: &Plan, found: &Findings) -> Report {
    let (events, loss) = (&found.events, &found.events.loss);
    let report = Report::new("synod-power/1")
        .field("commit", env!("SYNOD_BUILD_COMMIT"))
        .field("system", "hotstuff")
        .field("backend", "fuse")
        .field("seed", plan.seed)
        .field("sync", plan.sync)
        .field("seconds", found.took.as_secs())
        .field("cuts", events.cuts)
        .field("cuts_all", events.cuts_all)
        .field("cuts_at_operation", events.at_operation)
        .field("cuts_lossy", events.lossy)
        .field("writes_kept", loss.kept)
        .field("writes_dropped", loss.dropped)
        .field("writes_torn", loss.torn)
        .field("names_kept", loss.names_kept)
        .field("names_dropped", loss.names_dropped)
        .field("violations", found.violations())
        .field("order_windows", found.order.windows)
        .field("order_probes", found.order.probes)
        .field("order_violations", found.order.violations);
    found
        .lane
        .onto(report)
        .field("equivocations", events.equivocations)
        .field("damaged", found.damaged)
        .field("hash_equal", found.hash_equal)
        .field("members", found.members)
        .field("keys", found.keys)
        .field("restart_to_vote_ms", spread(&found.to_vote))
        .field("ok", found.ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_chaos::fs::Loss;

    fn findings() -> Findings {
        Findings {
            lane: Lane { acked: 5, ..Lane::default() },
            order: Order { windows: 1, probes: 8, violations: 0, after: 8 },
            events: Events { cuts: 5, loss: Loss { dropped: 3, ..Loss::default() }, ..Events::default() },
            hash_equal: true,
            keys: 1,
            members: 4,
            damaged: 0,
            blamed: 0,
            to_vote: Vec::new(),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn any_broken_promise_and_any_check_that_did_not_run_fails_the_run() {
        assert!(findings().ok());
        for spoil in [
            |f: &mut Findings| f.lane.lost = 1,
            |f: &mut Findings| f.lane.duplicated = 1,
            |f: &mut Findings| f.lane.acked = 0,
            |f: &mut Findings| f.order.violations = 1,
            |f: &mut Findings| f.order = Order::default(),
            |f: &mut Findings| f.order.after = 7,
            |f: &mut Findings| f.events.equivocations = 1,
            |f: &mut Findings| f.events.gone.push("n1 did not come back".to_owned()),
            |f: &mut Findings| f.events.loss = Loss::default(),
            |f: &mut Findings| f.damaged = 1,
            |f: &mut Findings| f.blamed = 1,
            |f: &mut Findings| f.hash_equal = false,
        ] {
            let mut spoilt = findings();
            spoil(&mut spoilt);
            assert!(!spoilt.ok());
        }
    }
}
