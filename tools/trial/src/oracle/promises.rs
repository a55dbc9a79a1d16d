//! X3 and H-S6: a promise is in the journal before it is on the wire; the lock never falls, is what the highest
//! certificate demands, and every vote obeys the pack's rule.

use std::collections::{BTreeMap, BTreeSet};

use super::sighting::{MarkSeen, Pack, Phase, SafetySeen, Seen, Sighting};
use super::{Blocks, Oracle, Verdict, breach};

#[derive(Default)]
struct Journal {
    voted: BTreeSet<(u64, Phase, [u8; 32])>,
    proposed: BTreeSet<(u64, [u8; 32])>,
    complained: u64,
    safety: Option<SafetySeen>,
}

/// Watches safety records and the votes that rest on them.
pub struct Promises {
    pack: Pack,
    journals: BTreeMap<u32, Journal>,
    reopening: BTreeSet<u32>,
}

impl Promises {
    /// For a run of `pack`.
    #[must_use]
    pub fn new(pack: Pack) -> Self {
        Self { pack, journals: BTreeMap::new(), reopening: BTreeSet::new() }
    }

    fn written(&mut self, node: u32, safety: SafetySeen, blocks: &Blocks) -> Verdict {
        let replayed = self.reopening.contains(&node);
        let journal = self.journals.entry(node).or_default();
        let before = journal.safety.replace(safety);
        let (voted, phase) = safety.voted;
        journal.voted.insert((voted.view, phase, voted.digest.0));
        journal.voted.insert((safety.ordered.view, Phase::Order, safety.ordered.digest.0));
        journal.proposed.insert((safety.proposed.view, safety.proposed.digest.0));
        journal.complained = journal.complained.max(safety.complained);
        if let Some(before) = &before {
            if safety.lock.view < before.lock.view {
                return breach("H-S6", format!("n{node}: the lock fell to view {}", safety.lock.view));
            }
            if safety.complained < before.complained {
                return breach("H-S5", format!("n{node}: the complaint fell to view {}", safety.complained));
            }
        }
        let fresh = before.is_none_or(|before| before.voted != safety.voted);
        if fresh && !replayed { self.ruled(node, &safety, blocks) } else { Ok(()) }
    }

    /// A new vote obeys the rule, given the lock that was written with it.
    fn ruled(&self, node: u32, safety: &SafetySeen, blocks: &Blocks) -> Verdict {
        let (mark, phase) = safety.voted;
        let Some(header) = blocks.get(&mark.digest) else { return Ok(()) };
        // In the three-chain pack whoever votes has seen the certificate of the parent, which locks the block that the
        // parent's own justify certifies.
        let demanded = match self.pack {
            Pack::Chain3 => blocks.get(&header.parent).map_or(0, |parent| parent.justify),
            Pack::Basic | Pack::Chain2 | Pack::Chain2Order | Pack::Lab2 => 0,
        };
        if safety.lock.view < demanded {
            let (view, lock) = (mark.view, safety.lock.view);
            return breach("H-S6", format!("n{node} voted in view {view} with lock {lock} below {demanded}"));
        }
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
        if allowed {
            return Ok(());
        }
        breach("H-S6", format!("n{node} voted in view {} against its pack's rule", mark.view))
    }

    fn voted(&self, node: u32, mark: MarkSeen, phase: Phase) -> Verdict {
        let kept =
            self.journals.get(&node).is_some_and(|j| j.voted.contains(&(mark.view, phase, mark.digest.0)));
        if kept {
            return Ok(());
        }
        breach("X3", format!("n{node} sent a {phase:?} vote of view {} without its record", mark.view))
    }

    fn proposed(&self, node: u32, mark: MarkSeen) -> Verdict {
        let kept = self.journals.get(&node).is_some_and(|j| j.proposed.contains(&(mark.view, mark.digest.0)));
        if kept {
            return Ok(());
        }
        breach("X3", format!("n{node} proposed in view {} without its record", mark.view))
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
        let node = sighting.node;
        match sighting.seen {
            Seen::Reopened => {
                self.journals.remove(&node);
                self.reopening.insert(node);
                Ok(())
            }
            Seen::Started => {
                self.reopening.remove(&node);
                Ok(())
            }
            Seen::Safety(safety) => self.written(node, safety, blocks),
            Seen::Voted(mark, phase) => self.voted(node, mark, phase),
            Seen::Proposed(mark) => self.proposed(node, mark),
            Seen::Complained { view, .. } => self.complained(node, view),
            Seen::Entered(_)
            | Seen::Jumped(_)
            | Seen::Header(_)
            | Seen::Certificate(_)
            | Seen::GaveUp { .. }
            | Seen::Committed(_)
            | Seen::Delivered { .. } => Ok(()),
        }
    }
}
