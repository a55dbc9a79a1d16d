//! What clients saw of one key.

use super::action::{Action, Answer};
use super::check::{Verdict, check};
use core::fmt;

/// Operations of a refuted history that are printed: the last ones.
const SHOWN_MAX: usize = 40;

/// One operation, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who called.
    pub client: u32,
    /// What for.
    pub action: Action,
    /// When, in nanoseconds of a clock that all clients share.
    pub called: u64,
    /// When the answer came, and what it was; `None` if it is not known whether the operation took effect.
    pub answered: Option<(u64, Answer)>,
}

/// The operations on one key, which is absent at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The key.
    pub key: String,
    /// In any order.
    pub operations: Vec<Operation>,
}

impl History {
    /// What was known at a moment: later calls are not there, later answers have not come.
    #[must_use]
    pub fn until(&self, moment: u64) -> Self {
        let known = self.operations.iter().filter(|operation| operation.called <= moment);
        let operations = known.map(|operation| Operation {
            answered: operation.answered.filter(|(at, _)| *at <= moment),
            ..*operation
        });
        Self { key: self.key.clone(), operations: operations.collect() }
    }
}

impl fmt::Display for History {
    /// The last operations in the order of their calls, one per line, times in microseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut operations = self.operations.clone();
        operations.sort_unstable_by_key(|operation| operation.called);
        let hidden = operations.len().saturating_sub(SHOWN_MAX);
        write!(f, "key {}, {} operations", self.key, operations.len())?;
        if hidden > 0 {
            write!(f, ", the last {SHOWN_MAX}")?;
        }
        for operation in &operations[hidden..] {
            let (client, called) = (operation.client, operation.called / 1_000);
            write!(f, "\n  client {client} {:?} called {called} us", operation.action)?;
            match operation.answered {
                Some((at, answer)) => write!(f, ", answered {} us: {answer:?}", at / 1_000)?,
                None => write!(f, ", no answer")?,
            }
        }
        Ok(())
    }
}

/// The verdicts on many histories.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Histories that were checked.
    pub histories: u64,
    /// Their operations.
    pub operations: u64,
    /// Those of them without an answer.
    pub unknown: u64,
    /// Histories for which the search was given up.
    pub undecided: u64,
    /// Histories that nothing explains.
    pub refuted: u64,
    /// The shortest unexplained prefix of the first of these.
    pub offence: Option<History>,
}

impl Tally {
    /// Checks one more history.
    pub fn add(&mut self, history: &History) {
        self.histories += 1;
        self.operations += history.operations.len() as u64;
        self.unknown += history.operations.iter().filter(|seen| seen.answered.is_none()).count() as u64;
        match check(history) {
            Verdict::Linearizable => {}
            Verdict::Undecided => self.undecided += 1,
            Verdict::Refuted(prefix) => {
                self.refuted += 1;
                self.offence.get_or_insert(prefix);
            }
        }
    }

    /// Adds what another one counted.
    pub fn join(&mut self, other: Self) {
        self.histories += other.histories;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.undecided += other.undecided;
        self.refuted += other.refuted;
        self.offence = self.offence.take().or(other.offence);
    }

    /// The word of reports: `true`, `false`, or `undecided` if nothing is refuted but not all is explained.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match (self.refuted, self.undecided) {
            (0, 0) => "true",
            (0, _) => "undecided",
            _ => "false",
        }
    }
}
