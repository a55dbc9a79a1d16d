//! X3 and H-S6: a promise is in the journal before it is on the wire, and the certificate or the commit of a block
//! before it is delivered; the lock never falls, is what the highest certificate demands, every vote obeys the pack's rule, and a complaint hides no
//! certificate that its member's promises rest on.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::sighting::{MarkSeen, Pack, Phase, SafetySeen, Seen, Sighting};
use super::{Blocks, Oracle, Verdict, breach};

#[derive(Clone, Default)]
struct Journal {
    voted: BTreeSet<(u64, Phase, [u8; 32])>,
    proposed: BTreeSet<(u64, [u8; 32])>,
    complained: u64,
    /// By the view of a promise: the highest certificate that this or an earlier promise rests on.
    held: BTreeMap<u64, u64>,
    /// The last position that a commit or a checkpoint in the journal covers.
    committed: u64,
    /// Blocks whose certificates are in the journal and whose last positions are not looked up yet.
    ordered: BTreeSet<Hash>,
    /// The views of certificates, and the newest term given up, that reopening read.
    certified: BTreeSet<u64>,
    given_up: u64,
    safety: Option<SafetySeen>,
    /// The highest block that is committed, by its view.
    decided: Option<MarkSeen>,
}

impl Journal {
    /// A promise of `view` rests on the certificate of view `held`.
    fn rests(&mut self, view: u64, held: u64) {
        let before = self.rested(view);
        self.held.insert(view, held.max(before));
        for later in self.held.range_mut(view..) {
            *later.1 = held.max(*later.1);
        }
    }

    /// Whether a safety record that was read back names certificates that were not. They stand before it in the log: it
    /// survived in its slot alone, so its sync never ended, and nothing that rests on it left.
    fn lacks(&self, safety: &SafetySeen) -> bool {
        let certified = safety.high.view == 0 || self.certified.contains(&safety.high.view);
        !certified || safety.given_up > self.given_up
    }

    /// The highest certificate that promises up to `view` rest on.
    fn rested(&self, view: u64) -> u64 {
        self.held.range(..=view).next_back().map_or(0, |(_, held)| *held)
    }
}

/// Watches safety records and the votes that rest on them.
#[derive(Clone)]
pub struct Promises {
    pack: Pack,
    journals: BTreeMap<u32, Journal>,
    reopening: BTreeSet<u32>,
    /// Last positions of blocks.
    lasts: BTreeMap<Hash, u64>,
}

impl Promises {
    /// For a run of `pack`.
    #[must_use]
    pub fn new(pack: Pack) -> Self {
        Self { pack, journals: BTreeMap::new(), reopening: BTreeSet::new(), lasts: BTreeMap::new() }
    }

    fn written(&mut self, node: u32, safety: SafetySeen, blocks: &Blocks) -> Verdict {
        let replayed = self.reopening.contains(&node);
        let journal = self.journals.entry(node).or_default();
        if replayed && journal.lacks(&safety) {
            return Ok(());
        }
        let before = journal.safety.replace(safety);
        let (voted, phase) = safety.voted;
        let below = blocks.get(&voted.digest).map_or(0, |header| header.justify);
        journal.rests(voted.view, below);
        journal.rests(safety.ordered.view, safety.ordered.view);
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
        // A lock at or above the view of the vote rose behind it in the same turn: it stands on the branch voted for.
        let behind = safety.lock.view >= mark.view && blocks.extends(&safety.lock.digest, &mark.digest);
        // A lock against a commit of its view or a later one: more than f lie, and what is committed stays.
        let decided = self.journals.get(&node).and_then(|journal| journal.decided);
        let void = decided.is_some_and(|decided| {
            decided.view >= safety.lock.view && blocks.extends(&mark.digest, &decided.digest)
        });
        if allowed || behind || void {
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

    /// A complaint is in the journal, and shows no certificate below those that promises rest on which it gives up:
    /// after it no promise of these views is made.
    fn complained(&self, node: u32, view: u64, high: u64) -> Verdict {
        match self.journals.get(&node) {
            Some(journal) if journal.complained < view => {}
            Some(journal) if high < journal.rested(view) => {
                let held = journal.rested(view);
                return breach("H-S6", format!("n{node} complained with {high} and had promised on {held}"));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        breach("X3", format!("n{node} complained of {view} without its record"))
    }

    /// What is delivered is answered to clients: its commit is in the journal, or, where order votes commit, the
    /// certificate of its block or of a block above it.
    fn delivered(&mut self, node: u32, position: u64, blocks: &Blocks) -> Verdict {
        let covered = |journal: &Journal| journal.committed >= position;
        if self.journals.get(&node).is_some_and(covered) {
            return Ok(());
        }
        let ordered = self.journals.get_mut(&node).map(|journal| core::mem::take(&mut journal.ordered));
        for digest in ordered.unwrap_or_default() {
            if let Some(last) = self.last(digest, blocks) {
                self.committed(node, last);
            }
        }
        if self.journals.get(&node).is_some_and(covered) {
            return Ok(());
        }
        breach("X3", format!("n{node} delivered position {position} without the record of its commit"))
    }

    /// The position of a block's last entry, or of the last entry below it.
    fn last(&mut self, digest: Hash, blocks: &Blocks) -> Option<u64> {
        let (mut above, mut at) = (Vec::new(), digest);
        let mut last = loop {
            if let Some(last) = self.lasts.get(&at) {
                break *last;
            }
            let header = blocks.get(&at)?;
            above.push((at, header.count));
            if header.justify == 0 {
                break 0;
            }
            at = header.parent;
        };
        for (digest, count) in above.into_iter().rev() {
            last += count;
            self.lasts.insert(digest, last);
        }
        Some(last)
    }

    fn committed(&mut self, node: u32, position: u64) {
        let journal = self.journals.entry(node).or_default();
        journal.committed = journal.committed.max(position);
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
            Seen::GaveUp { view, .. } if self.reopening.contains(&node) => {
                let journal = self.journals.entry(node).or_default();
                journal.given_up = journal.given_up.max(view);
                Ok(())
            }
            Seen::Certificate(cert) => {
                let journal = self.journals.entry(node).or_default();
                if self.reopening.contains(&node) {
                    journal.certified.insert(cert.of.view);
                }
                if self.pack == Pack::Chain2Order && cert.phase == Phase::Generic {
                    journal.ordered.insert(cert.of.digest);
                }
                Ok(())
            }
            Seen::Safety(safety) => self.written(node, safety, blocks),
            Seen::Voted(mark, phase) => self.voted(node, mark, phase),
            Seen::Proposed(mark) => self.proposed(node, mark),
            Seen::Complained { view, high } => self.complained(node, view, high),
            Seen::Delivered { position, .. } => self.delivered(node, position, blocks),
            Seen::Committed { digest, last } => {
                self.lasts.insert(digest, last);
                self.committed(node, last);
                let journal = self.journals.entry(node).or_default();
                let view = blocks.get(&digest).map_or(0, |header| header.own.view);
                if journal.decided.is_none_or(|before| before.view < view) {
                    journal.decided = Some(MarkSeen { view, digest });
                }
                Ok(())
            }
            Seen::Stable(position) => {
                self.committed(node, position);
                Ok(())
            }
            Seen::Entered(_)
            | Seen::Jumped(_)
            | Seen::Header(_)
            | Seen::GaveUp { .. }
            | Seen::Item { .. }
            | Seen::Proved { .. } => Ok(()),
        }
    }
}
