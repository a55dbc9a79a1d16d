//! Making a failing scenario small: a shorter safety phase, delta debugging over incidents, then fewer requests, guests
//! and nodes, constant latencies, shorter and weaker incidents, fewer options, and last the frames: those outside the
//! causal past of the violation go at once, then every one without which the same checker still fires.

use std::collections::BTreeSet;

use synod_machine::Span;

use crate::checker::Violation;
use crate::network::Latency;
use crate::scenario::Scenario;

/// Rounds in which the frames outside the past go before single frames are tried.
const PASTS_MAX: u32 = 8;

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

/// What is made small: something that runs scenarios.
pub trait Subject {
    /// How a scenario fails; `None` when it does not, cannot be run (too few nodes for its system), or there is no time
    /// left.
    fn fails(&mut self, scenario: &Scenario) -> Option<Violation>;

    /// The names of the frames in the causal past of a scenario's violation; `None` where that has no meaning.
    fn past(&mut self, _scenario: &Scenario) -> Option<BTreeSet<u32>> {
        None
    }
}

impl<F: FnMut(&Scenario) -> Option<Violation>> Subject for F {
    fn fails(&mut self, scenario: &Scenario) -> Option<Violation> {
        self(scenario)
    }
}

/// One search: the best so far and what is left of the budget.
struct Search<'a> {
    subject: &'a mut dyn Subject,
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
        match self.subject.fails(&candidate) {
            Some(violation) if violation.checker == self.violation.checker => {
                self.best = candidate;
                self.violation = violation;
                true
            }
            _ => false,
        }
    }

    /// Delta debugging: drops parts of a list while it still fails, ever smaller ones, and single ones until none can go.
    fn thin<T: Clone>(&mut self, list: fn(&Scenario) -> Vec<T>, put: fn(&mut Scenario, Vec<T>)) {
        let mut size = list(&self.best).len();
        while size > 0 {
            let dropped = self.sweep(size, list, put);
            size = if size == 1 && dropped { 1 } else { size / 2 };
        }
    }

    /// Tries to do without each part of `size` elements, the last ones first; whether any went.
    fn sweep<T: Clone>(
        &mut self,
        size: usize,
        list: fn(&Scenario) -> Vec<T>,
        put: fn(&mut Scenario, Vec<T>),
    ) -> bool {
        let mut end = list(&self.best).len();
        let mut dropped = false;
        while end > 0 {
            let from = end.saturating_sub(size);
            let mut left = list(&self.best);
            left.drain(from..end.min(left.len()));
            let mut candidate = self.best.clone();
            put(&mut candidate, left);
            dropped |= self.accept(candidate);
            end = from;
        }
        dropped
    }

    fn incidents(&mut self) {
        self.thin(
            |scenario| scenario.incidents.clone(),
            |scenario, incidents| scenario.incidents = incidents,
        );
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

    /// Ends each incident earlier and makes it weaker where it does not matter.
    fn weaken(&mut self) {
        for at in 0..self.best.incidents.len() {
            let mut candidate = self.best.clone();
            candidate.incidents[at].lasts = Span(candidate.incidents[at].lasts.0 / 2);
            self.accept(candidate);
            for _ in 0..64 {
                let mut candidate = self.best.clone();
                candidate.incidents[at].amount /= 2;
                if !self.accept(candidate) {
                    break;
                }
            }
        }
    }

    /// Leaves options at their defaults where they do not matter.
    fn options(&mut self) {
        let names: Vec<String> = self.best.options.keys().cloned().collect();
        for name in names {
            let mut candidate = self.best.clone();
            candidate.options.remove(&name);
            self.accept(candidate);
        }
    }

    /// Nothing happens behind the violation.
    fn cut(&mut self) {
        let horizon = Span(self.violation.time.0.saturating_add(1));
        if horizon < self.best.horizon {
            self.accept(Scenario { horizon, ..self.best.clone() });
        }
    }

    /// A failure behind the end of the safety phase, such as progress that does not come: that phase gets as short as it
    /// may be, at once or by halves.
    fn shorten(&mut self) {
        if self.violation.time.0 <= self.best.horizon.0 {
            return;
        }
        let mut gone = self.best.horizon.0;
        while gone > 0 {
            let horizon = Span(self.best.horizon.0.saturating_sub(gone));
            if !self.accept(Scenario { horizon, ..self.best.clone() }) {
                gone /= 2;
            }
            gone = gone.min(self.best.horizon.0);
            if gone < Span::millis(1).0 {
                return;
            }
        }
    }

    /// Lets only frames be heard that the violation rests on, as long as that makes them fewer.
    fn past(&mut self) {
        for _ in 0..PASTS_MAX {
            let Some(past) = self.subject.past(&self.best) else { return };
            let heard = Some(past.into_iter().collect());
            if !self.accept(Scenario { heard, ..self.best.clone() }) {
                return;
            }
        }
    }

    /// Lets only frames be heard without which the checker would not fire.
    fn frames(&mut self) {
        self.past();
        let list = |scenario: &Scenario| scenario.heard.clone().unwrap_or_default();
        let put = |scenario: &mut Scenario, heard| scenario.heard = Some(heard);
        let mut size = list(&self.best).len();
        while size > 0 {
            let dropped = self.sweep(size, list, put);
            if dropped {
                self.past();
            }
            size = if size == 1 && dropped { 1 } else { (size / 2).min(list(&self.best).len()) };
        }
    }
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most runs.
    pub runs_max: u32,
    /// Fewest members that are left.
    pub nodes_min: u32,
}

/// Makes a failing scenario small.
///
/// `None` when the scenario does not fail in the first place.
pub fn shrink(scenario: &Scenario, limits: Limits, mut subject: impl Subject) -> Option<Shrunk> {
    let violation = subject.fails(scenario)?;
    let best = scenario.clone();
    let mut search = Search { subject: &mut subject, best, violation, runs: 1, runs_max: limits.runs_max };
    search.cut();
    search.shorten();
    search.incidents();
    search.lower(1, |s| &mut s.requests);
    search.lower(0, |s| &mut s.guests);
    search.lower(limits.nodes_min.min(scenario.nodes), |s| &mut s.nodes);
    let longest = search.best.latency.largest();
    let calm = Scenario { latency: Latency::Constant(longest), jitter: Span::ZERO, ..search.best.clone() };
    search.accept(calm);
    search.weaken();
    search.incidents();
    search.options();
    search.shorten();
    search.frames();
    search.cut();
    search.incidents();
    search.lower(1, |s| &mut s.requests);
    search.frames();
    let Search { best, violation, runs, .. } = search;
    Some(Shrunk { scenario: best, violation, runs })
}

#[cfg(test)]
#[path = "shrink_tests.rs"]
mod tests;
