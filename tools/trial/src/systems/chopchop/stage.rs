//! A run under direction: a test decides which messages get through, and looks at the world while time passes. All oracles
//! watch, as in drawn runs.

use std::time::Instant;

use synod_chopchop::vocabulary::Message;
use synod_machine::{Never, Span};
use synod_quorum::NodeId;
use synod_sim::{Passage, Scenario, Script, Violation};

use super::book::Book;
use super::run::{report, settle};
use super::sight;
use super::world::{Beside, Trial, build_on, disk_of};
use crate::report::RunReport;

/// Between two looks.
const LOOK: Span = Span::millis(5);

/// Decides about messages of Chop Chop; those of the ordering layer get through.
struct Censor<F>(F);

impl<F: FnMut(NodeId, NodeId, &Message<Never>) -> bool> Script for Censor<F> {
    fn passes(&mut self, passage: &Passage<'_>) -> bool {
        let Passage { from, to, body, .. } = passage;
        sight::opened(body).is_none_or(|message| (self.0)(from.0, to.0, &message))
    }
}

/// A world that a test directs.
pub struct Stage {
    scenario: Scenario,
    token: String,
    trial: Trial,
    started: Instant,
    violation: Option<Violation>,
}

impl Stage {
    /// Builds the world of a scenario, in which `passes` says which messages get through until the core is healed, by sender,
    /// receiver and content.
    ///
    /// # Errors
    /// The scenario is none of Chop Chop.
    pub fn new(
        scenario: &Scenario,
        passes: impl FnMut(NodeId, NodeId, &Message<Never>) -> bool + 'static,
    ) -> Result<Self, String> {
        let token = format!("{}:{:x}:directed", scenario.system, scenario.seed);
        let beside = Beside { script: Some(Box::new(Censor(passes))), ..Beside::default() };
        let trial = build_on(scenario, &token, beside, disk_of(scenario))?;
        let scenario = scenario.clone();
        Ok(Self { scenario, token, trial, started: Instant::now(), violation: None })
    }

    /// Lets time pass; the longest time in it without a new height, to 5 ms. It stands still once a checker fired.
    pub fn run(&mut self, span: Span) -> Span {
        let end = self.trial.world.now() + span;
        let (mut since, mut longest) = (self.trial.world.now(), Span(0));
        let mut highest = self.book(|book| book.highest);
        while self.violation.is_none() && self.trial.world.now() < end {
            let until = (self.trial.world.now() + LOOK).min(end);
            self.violation = self.trial.world.run(until, &mut self.trial.workload).err();
            let reached = self.book(|book| book.highest);
            let now = self.trial.world.now();
            longest = longest.max(now.since(since));
            if reached > highest {
                (highest, since) = (reached, now);
            }
        }
        longest
    }

    /// What is known of the run.
    pub fn book<T>(&self, look: impl FnOnce(&Book) -> T) -> T {
        look(&self.trial.book.borrow())
    }

    /// The clients that have their place in the genesis, in order of their ids.
    #[must_use]
    pub fn clients(&self) -> Vec<NodeId> {
        self.trial.roles.clients.iter().take(self.trial.roles.known as usize).copied().collect()
    }

    /// Heals the world and demands what every run demands; a violation of before is the verdict.
    #[must_use]
    pub fn settle(mut self) -> RunReport {
        let violation = self.violation.take();
        let verdict = match violation {
            Some(violation) => Err(violation),
            None => settle(&mut self.trial, &self.scenario).and_then(|()| self.trial.world.finish()),
        };
        report(&self.trial, &self.scenario, &self.token, (verdict.err(), self.started))
    }
}
