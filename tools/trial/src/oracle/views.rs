//! H-S8: views only rise, and view v + 1 is entered only when a quorum certified a block of view v or gave up the
//! term that v ends.

use std::collections::BTreeMap;

use super::sighting::{Seen, Sighting};
use super::{Blocks, Oracle, Phase, Verdict, breach, quorum};

/// Watches the view timers of honest members.
pub struct Views {
    members: u32,
    entered: BTreeMap<u32, (u32, u64)>,
}

impl Views {
    /// For a cluster of `members`.
    #[must_use]
    pub fn new(members: u32) -> Self {
        Self { members, entered: BTreeMap::new() }
    }

    /// The highest view an honest member entered.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.entered.values().map(|(_, view)| *view).max().unwrap_or(0)
    }

    fn is_shown(&self, view: u64, blocks: &Blocks) -> bool {
        let enough = |count| count >= quorum(self.members);
        let certified = [Phase::Generic, Phase::Prepare, Phase::Precommit, Phase::Commit]
            .into_iter()
            .any(|phase| enough(blocks.best(phase, view)));
        certified || enough(blocks.complainers(view).count_ones())
    }
}

impl Oracle for Views {
    fn see(&mut self, sighting: &Sighting, blocks: &Blocks) -> Verdict {
        let Seen::Entered(view) = sighting.seen else { return Ok(()) };
        if !sighting.honest {
            return Ok(());
        }
        let node = sighting.node;
        let before = self.entered.insert(node, (sighting.incarnation, view));
        match before {
            Some((incarnation, last)) if incarnation == sighting.incarnation && view < last => {
                breach("H-S8", format!("n{node} went from view {last} back to {view}"))
            }
            Some((incarnation, last)) if incarnation == sighting.incarnation && view == last => Ok(()),
            _ if view <= 1 || self.is_shown(view - 1, blocks) => Ok(()),
            _ => breach("H-S8", format!("n{node} entered view {view} and nothing ended view {}", view - 1)),
        }
    }
}
