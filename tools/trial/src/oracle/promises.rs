//! X3 and H-S6: a promise is in the journal before it is on the wire; the lock never falls, is what the highest
//! certificate demands, and every vote obeys the pack's rule.

use std::collections::{BTreeMap, BTreeSet};

use super::sighting::{MarkSeen, Pack, Phase, SafetySeen, Seen, Sighting};
use super::{Blocks, Oracle, Verdict, breach};

#[derive(Default)]
struct Journal {
    voted: BTreeSet<(u64, Phase, [u8; 32])>,
    complained: u64,
    safety: Option<SafetySeen>,
}

/// Watches safety records and the votes that rest on them.
pub struct Promises {
    pack: Pack,
    journals: BTreeMap<u32, Journal>,
}

impl Promises {
    /// For a run of `pack`.
    #[must_use]
    pub fn new(pack: Pack) -> Self {
        Self { pack, journals: BTreeMap::new() }
    }

    fn written(&mut self, node: u32, safety: SafetySeen, blocks: &Blocks) -> Verdict {
        let journal = self.journals.entry(node).or_default();
        if let Some(before) = &journal.safety {
            if safety.lock.view < before.lock.view {
                return breach("H-S6", format!("n{node}: the lock fell to view {}", safety.lock.view));
            }
            if safety.complained < before.complained {
                return breach("H-S5", format!("n{node}: the complaint fell to view {}", safety.complained));
            }
        }
        let (voted, phase) = safety.voted;
        journal.voted.insert((voted.view, phase, voted.digest.0));
        journal.voted.insert((safety.ordered.view, Phase::Order, safety.ordered.digest.0));
        journal.complained = journal.complained.max(safety.complained);
        journal.safety = Some(safety);
        // In the three-chain pack a certificate locks the block that its own block's justify certifies.
        let demanded = match (self.pack, blocks.get(&safety.high.digest)) {
            (Pack::Chain3, Some(header)) => header.justify,
            _ => 0,
        };
        if safety.lock.view < demanded {
            return breach("H-S6", format!("n{node}: lock {} below {demanded}", safety.lock.view));
        }
        Ok(())
    }

    fn voted(&self, node: u32, mark: MarkSeen, phase: Phase, blocks: &Blocks) -> Verdict {
        let Some(journal) = self.journals.get(&node) else {
            return breach("X3", format!("n{node} voted in view {} before any record", mark.view));
        };
        if !journal.voted.contains(&(mark.view, phase, mark.digest.0)) {
            return breach(
                "X3",
                format!("n{node} sent a {phase:?} vote of view {} without its record", mark.view),
            );
        }
        let (Some(safety), Some(header)) = (&journal.safety, blocks.get(&mark.digest)) else { return Ok(()) };
        let allowed = match (self.pack, phase) {
            (Pack::Chain3, Phase::Generic) | (Pack::Basic, Phase::Prepare) => {
                blocks.extends(&mark.digest, &safety.lock.digest) || header.justify > safety.lock.view
            }
            (Pack::Chain2 | Pack::Chain2Order, Phase::Generic) => {
                let told =
                    header.given_up.is_some_and(|(end, high)| end + 1 == mark.view && header.justify >= high);
                header.justify + 1 == mark.view || told
            }
            _ => true,
        };
        // A vote may be sent again long after, when the lock has moved on; only a first vote is judged by it.
        let current = safety.voted.0 == mark;
        if allowed || !current {
            return Ok(());
        }
        breach("H-S6", format!("n{node} voted in view {} against its pack's rule", mark.view))
    }

    fn complained(&self, node: u32, view: u64) -> Verdict {
        match self.journals.get(&node) {
            Some(journal) if journal.complained >= view => Ok(()),
            _ => breach("X3", format!("n{node} complained of {view} without its record")),
        }
    }
}

impl Oracle for Promises {
    fn see(&mut self, sighting: &Sighting, blocks: &Blocks) -> Verdict {
        if !sighting.honest {
            return Ok(());
        }
        match sighting.seen {
            Seen::Safety(safety) => self.written(sighting.node, safety, blocks),
            Seen::Voted(mark, phase) => self.voted(sighting.node, mark, phase, blocks),
            Seen::Complained { view, .. } => self.complained(sighting.node, view),
            Seen::Header(_)
            | Seen::Proposed(_)
            | Seen::Certificate(_)
            | Seen::GaveUp { .. }
            | Seen::Committed(_)
            | Seen::Delivered { .. } => Ok(()),
        }
    }
}
