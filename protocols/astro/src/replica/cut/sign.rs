//! From a proposed cut to this node's signature on the state behind it.

use std::sync::Arc;

use synod_machine::Turn;
use synod_quorum::NodeId;

use super::cuts::Pending;
use crate::cut::{Cut, CutSign, CutState, NoCut, count};
use crate::fault::Fault;
use crate::job::Work;
use crate::replica::{Carrier, Replica, compute, keep, say};
use crate::trace::Rule;
use crate::words::{Promise, Word};

impl<B: Carrier> Replica<B> {
    /// A member proposes a cut.
    pub(in crate::replica) fn on_cut_proposed(&mut self, from: NodeId, cut: Cut, turn: &mut Turn<'_, Self>) {
        let (number, proposer) = (cut.number, cut.proposer);
        let here = (self.config.view.context, self.config.view.roster.epoch());
        let is_its = from.member() == Some(proposer) && self.cuts.proposer(number) == Some(proposer);
        if !is_its || (cut.context, cut.epoch) != here {
            return turn.blame(from, Fault::WrongCut);
        }
        if !self.cuts.is_on() || !self.cuts.is_next(number) {
            return;
        }
        match self.cuts.signed.get(&proposer) {
            Some(sign) if sign.number == number => return say(turn, self.others(), Word::CutSign(*sign)),
            Some(sign) if sign.number > number => return,
            _ => {}
        }
        // A look counts every account: one for each proposer in a period, and none while another is under way.
        let is_known = |one: &Pending| one.cut.number >= number || one.is_rooting;
        if self.cuts.pending.get(&proposer).is_some_and(is_known) || !self.cuts.tried.insert(proposer) {
            return;
        }
        self.cuts.pending.insert(proposer, Pending { cut: Arc::new(cut), lack: None, is_rooting: false });
        self.try_sign(proposer, turn);
    }

    /// Signs cuts that waited for what came.
    pub(in crate::replica) fn sign_ready(&mut self, turn: &mut Turn<'_, Self>) {
        if self.cuts.pending.is_empty() {
            return;
        }
        for proposer in self.cuts.ready(self.ledger.book()) {
            self.try_sign(proposer, turn);
        }
    }

    /// Has the state behind a cut hashed if all that it counts has settled here; waits otherwise.
    pub(super) fn try_sign(&mut self, proposer: u8, turn: &mut Turn<'_, Self>) {
        let Some(pending) = self.cuts.pending.get(&proposer).filter(|one| !one.is_rooting) else { return };
        let cut = Arc::clone(&pending.cut);
        let counted = count(&self.cuts.viewed(self.ledger.book()), &cut);
        let Some(pending) = self.cuts.pending.get_mut(&proposer) else { return };
        match counted {
            Ok(counted) => {
                (pending.lack, pending.is_rooting) = (None, true);
                let (view, me) = (Arc::clone(&self.config.view), self.config.me);
                compute(turn, Work::Root { view, me, cut, counted: Box::new(counted) });
            }
            Err(NoCut::Lack(lack)) => pending.lack = Some(lack),
            Err(why) => self.refuse_cut(proposer, why, turn),
        }
    }

    /// A cut that is never signed here.
    pub(super) fn refuse_cut(&mut self, proposer: u8, why: NoCut, turn: &mut Turn<'_, Self>) {
        self.cuts.pending.remove(&proposer);
        let from = NodeId(u32::from(proposer));
        match why {
            NoCut::Wrong | NoCut::NotFunded if from != self.config.me => {
                turn.blame(from, Fault::WrongCut);
            }
            _ => turn.applied(Rule::CutPassed),
        }
    }

    /// The state behind a cut is hashed, and signed if it is in order.
    pub(in crate::replica) fn on_rooted(
        &mut self,
        proposer: u8,
        number: u64,
        rooted: Result<(Arc<CutState>, CutSign), NoCut>,
        turn: &mut Turn<'_, Self>,
    ) {
        let pending = self.cuts.pending.get_mut(&proposer).filter(|one| one.cut.number == number);
        let Some(pending) = pending else { return };
        // Of an earlier life of this number: its root says nothing of this cut.
        if rooted.as_ref().is_ok_and(|(state, _)| state.cut != *pending.cut) {
            return;
        }
        pending.is_rooting = false;
        let cut = Arc::clone(&pending.cut);
        let (state, sign) = match rooted {
            Ok(rooted) => rooted,
            Err(why) => return self.refuse_cut(proposer, why, turn),
        };
        if self.cuts.signed.get(&proposer).is_some_and(|signed| signed.number >= number) {
            return;
        }
        turn.applied(Rule::CutSign);
        keep(turn, Promise::CutSigned(sign));
        self.cuts.signed.insert(proposer, sign);
        self.cuts.states.insert(proposer, state);
        if proposer == self.me() {
            turn.applied(Rule::CutPropose);
            say(turn, self.others(), Word::CutPropose(Box::new((*cut).clone())));
        }
        say(turn, self.others(), Word::CutSign(sign));
        self.count_cut_sign(sign, turn);
    }
}
