//! Rejoining after lost promises (3.5): listen until nothing this member may have promised can matter any more.
//!
//! Every promise of the lost log is at or below e(z + 1), z the highest certificate at any honest replica before the
//! loss. The highest view c of a QC or TC in the statuses of a quorum of the others, and a direct commit at s >= c + 2
//! held here, show s >= z; then giving up e(s + 1) bars votes, orders and proposals of that term and the next boundary
//! alike.

use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};

use super::state::{Core, Mode, Shown};
use crate::pacemaker::Pace;
use crate::trace::{Note, NoteName};
use crate::{Record, Rule, View};

/// How far below the last committed block a proof is looked for.
const PROVED_WITHIN: u64 = 4;

impl Core {
    /// A member showed its highest certificates since this restart. What a quorum shows first counts: later views say
    /// nothing about the promises that were lost.
    pub(crate) fn on_shown(&mut self, from: NodeId, now: Shown, turn: &mut Turn<'_, Self>) {
        if self.highest_shown().is_none()
            && let Mode::Listening { shown } = &mut self.mode
        {
            let known = shown.entry(from).or_insert(now);
            *known = Shown { qc: known.qc.max(now.qc), tc: now.tc };
        }
        self.try_rejoin(turn);
    }

    /// The view of the newest committed block that is directly committed by what is held. The very last one may be
    /// committed by order votes that nobody has verified.
    fn direct_view(&self) -> Option<View> {
        let top = self.chain.top().header.height;
        let mut newest = (top.saturating_sub(PROVED_WITHIN)..=top).rev();
        newest.find_map(|height| self.direct_proof(height)).map(|proof| proof.header.view)
    }

    /// c: the highest certificate view shown by a quorum of the other members, if a quorum showed any. A member counts
    /// once the TC it named is known to be one.
    fn highest_shown(&self) -> Option<View> {
        let Mode::Listening { shown } = &self.mode else { return None };
        let held = self.tc.as_ref().map_or(View::GENESIS, |tc| tc.view);
        let counted: Vec<_> = shown.iter().filter(|(_, shown)| shown.tc <= held).collect();
        let members: NodeSet = counted.iter().map(|(id, _)| **id).collect();
        let enough = self.config.roster().weights().is_quorum(members.without(self.own()));
        let highest = counted.iter().map(|(_, shown)| shown.qc.max(shown.tc)).max();
        highest.filter(|_| enough)
    }

    /// A cluster at rest commits nothing, and nothing would ever be proved above what was shown: the others are given an
    /// empty item to order. That is no promise.
    pub(crate) fn stir(&mut self, turn: &mut Turn<'_, Self>) {
        let rests = core::mem::replace(&mut self.quiet, true);
        if rests && self.highest_shown().is_some() {
            turn.applied(Rule::Listen);
            let item = self.empty_item();
            self.send_items(self.others(), vec![item], turn);
        }
    }

    /// Acts again if a block is committed by a proof of its own that lies far enough above everything shown.
    pub(crate) fn try_rejoin(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(shown) = self.highest_shown() else { return };
        let delivered = self.delivery.height + 1 >= self.chain.top().header.height;
        let far = |view: &View| delivered && view.0 >= shown.0.saturating_add(2);
        let Some(view) = self.direct_view().filter(far) else { return };
        let complained = self.terms.end(view.next()).max(self.safety.complained);
        assert!(complained > view, "what is given up lies above the proof");
        self.safety.complained = complained;
        self.out.promised = true;
        self.out.keep(Record::Rejoined);
        self.mode = Mode::Acting;
        self.tell(Pace::GaveUp(complained), turn);
        turn.applied(Rule::Rejoin);
        let values = [view.0, complained.0, shown.0];
        turn.note(Note { name: NoteName::Rejoined, values, digest: self.chain.top().digest });
    }
}
