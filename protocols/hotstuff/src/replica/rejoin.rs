//! Rejoining after lost promises (3.5): listen until nothing this member may have promised can matter any more.
//!
//! Every promise of the lost log is at or below e(z + 1), z the highest certificate at any honest replica before the
//! loss. The highest view c in the statuses of a quorum of the others, and a direct commit at s >= c + 2 held here,
//! show s >= z; then giving up e(s + 1) bars votes, orders and proposals of that term and the next boundary alike.

use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};

use super::state::{Core, Mode};
use crate::pacemaker::Pace;
use crate::trace::{Note, NoteName};
use crate::{Record, Rule, View};

impl Core {
    /// A member showed its highest certificate since this restart.
    pub(crate) fn on_shown(&mut self, from: NodeId, view: View, turn: &mut Turn<'_, Self>) {
        if let Mode::Listening { shown } = &mut self.mode {
            let known = shown.entry(from).or_default();
            *known = (*known).max(view);
            let top = self.chain.top().header.view;
            if self.direct_view().is_some_and(|view| view == top) {
                self.on_direct_commit(top, turn);
            }
        }
    }

    /// The view of the last committed block, if it is directly committed by what is held.
    fn direct_view(&self) -> Option<View> {
        let height = self.chain.top().header.height;
        self.proof_from(height).filter(|(at, _)| *at == height).map(|(_, proof)| proof.header.view)
    }

    /// c: the highest certificate view shown by a quorum of the other members, if a quorum showed any.
    fn highest_shown(&self) -> Option<View> {
        let Mode::Listening { shown } = &self.mode else { return None };
        let members: NodeSet = shown.keys().copied().collect();
        let enough = self.config.roster().weights().is_quorum(members.without(self.own()));
        enough.then(|| shown.values().copied().max().unwrap_or_default())
    }

    /// A block of view `view` was committed by a proof of its own: the replica may act again if it lies far enough
    /// above everything shown.
    pub(crate) fn on_direct_commit(&mut self, view: View, turn: &mut Turn<'_, Self>) {
        let Some(shown) = self.highest_shown() else { return };
        let proved = self.direct_view() == Some(view);
        let delivered = self.delivery.height + 1 >= self.chain.top().header.height;
        if view.0 < shown.0.saturating_add(2) || !proved || !delivered {
            return;
        }
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
