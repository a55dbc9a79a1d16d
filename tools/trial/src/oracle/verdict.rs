//! What an oracle is, and what it says.

use super::{Blocks, Sighting};

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
