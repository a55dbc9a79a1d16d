//! Independent checks of what every run shows. Nothing here calls production predicates: quorum sizes are literal
//! tables, rules are written out again, and what a replica decided is recomputed from what it said.

mod agreement;
mod blocks;
mod commits;
mod execution;
mod promises;
mod sighting;
mod tables;
mod views;
mod votes;

pub use agreement::Agreement;
pub use blocks::Blocks;
pub use commits::Commits;
pub use execution::{ExecutedSeen, Execution};
pub use promises::Promises;
pub use sighting::{CertSeen, HeaderSeen, MarkSeen, Pack, Phase, SafetySeen, Seen, Sighting};
pub use tables::{faults, quorum, weak};
pub use views::Views;
pub use votes::Votes;

/// A property that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The checker, as `testing.md` names it.
    pub checker: &'static str,
    /// What was seen.
    pub what: String,
}

/// The verdict of one sighting.
pub type Verdict = Result<(), Breach>;

/// One property, watching every sighting of a run.
pub trait Oracle {
    /// Takes one sighting.
    ///
    /// # Errors
    /// [`Breach`] when the property is broken.
    fn see(&mut self, sighting: &Sighting, blocks: &Blocks) -> Verdict;
}

pub(crate) fn breach(checker: &'static str, what: String) -> Verdict {
    Err(Breach { checker, what })
}
