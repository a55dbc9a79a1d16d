//! Making a failing scenario small: delta debugging over incidents, then fewer requests, guests and nodes, then
//! constant latencies. The same checker must keep firing.

use synod_machine::Span;

use crate::checker::Violation;
use crate::network::Latency;
use crate::scenario::{Incident, Scenario};

/// A smaller scenario that fails alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The scenario.
    pub scenario: Scenario,
    /// How it fails.
    pub violation: Violation,
    /// Runs it took.
    pub runs: u32,
}

/// One search: the best so far and what is left of the budget.
struct Search<'a> {
    check: &'a mut dyn FnMut(&Scenario) -> Option<Violation>,
    best: Scenario,
    violation: Violation,
    runs: u32,
    runs_max: u32,
}

impl Search<'_> {
    /// Takes `candidate` as the best if the same checker fires.
    fn accept(&mut self, candidate: Scenario) -> bool {
        if self.runs >= self.runs_max || candidate == self.best {
            return false;
        }
        self.runs += 1;
        match (self.check)(&candidate) {
            Some(violation) if violation.checker == self.violation.checker => {
                self.best = candidate;
                self.violation = violation;
                true
            }
            _ => false,
        }
    }

    /// Delta debugging: drops ever smaller parts of the list while it still fails.
    fn incidents(&mut self) {
        let mut parts = 2;
        while self.best.incidents.len() >= 2 || parts == 2 {
            let list = self.best.incidents.clone();
            let size = list.len().div_ceil(parts).max(1);
            let dropped = (0..list.len()).step_by(size).any(|from| {
                let keep = |(at, _): &(usize, &Incident)| !(from..from + size).contains(at);
                let incidents = list.iter().enumerate().filter(keep).map(|(_, i)| i.clone()).collect();
                self.accept(Scenario { incidents, ..self.best.clone() })
            });
            if dropped {
                parts = parts.saturating_sub(1).max(2);
            } else if size == 1 {
                break;
            } else {
                parts = (parts * 2).min(list.len());
            }
        }
    }

    /// Lowers a number: to the least, then by halves, then by ones.
    fn lower(&mut self, least: u32, of: fn(&mut Scenario) -> &mut u32) {
        let mut step = u32::MAX;
        while step > 0 {
            let mut candidate = self.best.clone();
            let number = of(&mut candidate);
            step = step.min(number.saturating_sub(least));
            *number -= step;
            if !self.accept(candidate) {
                step /= 2;
            }
        }
    }

    /// Ends each incident earlier where it does not matter.
    fn shorten(&mut self) {
        for at in 0..self.best.incidents.len() {
            let mut candidate = self.best.clone();
            candidate.incidents[at].lasts = Span(candidate.incidents[at].lasts.0 / 2);
            self.accept(candidate);
        }
    }
}

/// Makes a failing scenario small with at most `runs_max` runs of `check`, which gives the violation of a scenario.
/// A `check` that cannot run a scenario (too few nodes for its system) gives `None`.
///
/// `None` when the scenario does not fail in the first place.
pub fn shrink(
    scenario: &Scenario,
    runs_max: u32,
    mut check: impl FnMut(&Scenario) -> Option<Violation>,
) -> Option<Shrunk> {
    let violation = check(scenario)?;
    let best = scenario.clone();
    let mut search = Search { check: &mut check, best, violation, runs: 1, runs_max };
    let cut = Scenario { horizon: Span(search.violation.time.0.saturating_add(1)), ..search.best.clone() };
    if cut.horizon < search.best.horizon {
        search.accept(cut);
    }
    search.incidents();
    search.lower(1, |s| &mut s.requests);
    search.lower(0, |s| &mut s.guests);
    search.lower(1, |s| &mut s.nodes);
    let longest = search.best.latency.largest();
    let calm = Scenario { latency: Latency::Constant(longest), jitter: Span::ZERO, ..search.best.clone() };
    search.accept(calm);
    search.shorten();
    search.incidents();
    let Search { best, violation, runs, .. } = search;
    Some(Shrunk { scenario: best, violation, runs })
}

#[cfg(test)]
#[path = "shrink_tests.rs"]
mod tests;
