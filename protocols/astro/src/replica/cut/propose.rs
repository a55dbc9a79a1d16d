//! Whose turn it is, and what it proposes.

use std::sync::Arc;

use synod_machine::Turn;
use synod_quorum::NodeId;

use super::cuts::Pending;
use crate::cut::cut_of;
use crate::replica::{Carrier, Replica, say};
use crate::words::{Timer, Word};

impl<B: Carrier> Replica<B> {
    /// A start, first or again.
    pub(in crate::replica) fn start_cuts(&self, turn: &mut Turn<'_, Self>) {
        if self.cuts.is_on() {
            turn.arm(Timer::Cut, self.cuts.every);
        }
    }

    /// A period is over: whose turn it is proposes, and whoever heard of no cut asks the next member for one.
    pub(in crate::replica) fn on_cut_due(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Cut, self.cuts.every);
        self.cuts.tried.clear();
        let silent = self.cuts.silent;
        self.cuts.silent = silent.saturating_add(1);
        if silent > 0 {
            self.ask_cut(turn);
        }
        self.propose_again(turn);
        let (number, me) = (self.cuts.turn(), self.me());
        if self.cuts.proposer(number) == Some(me) {
            self.propose(number, turn);
        }
    }

    /// What was proposed here and is not certified is said again.
    fn propose_again(&self, turn: &mut Turn<'_, Self>) {
        let me = self.me();
        let Some(pending) = self.cuts.pending.get(&me) else { return };
        if let Some(sign) = self.cuts.signed.get(&me).filter(|sign| sign.number == pending.cut.number) {
            say(turn, self.others(), Word::CutPropose(Box::new((*pending.cut).clone())));
            say(turn, self.others(), Word::CutSign(*sign));
        }
    }

    /// Proposes what has settled here, once its own signature is recorded: a number has one cut, also after a crash.
    fn propose(&mut self, number: u64, turn: &mut Turn<'_, Self>) {
        let me = self.me();
        if self.cuts.pending.get(&me).is_some_and(|one| one.cut.number >= number) {
            return;
        }
        // What an earlier life proposed is not known any more.
        if self.cuts.signed.get(&me).is_some_and(|signed| signed.number >= number) {
            return;
        }
        let place = (self.config.view.context, self.config.view.roster.epoch());
        let cut = match cut_of(&self.cuts.viewed(self.ledger.book()), place, (number, me)) {
            Ok(cut) => cut,
            Err(why) => return self.refuse_cut(me, why, turn),
        };
        self.cuts.pending.insert(me, Pending { cut: Arc::new(cut), lack: None, is_rooting: false });
        self.try_sign(me, turn);
    }

    /// Asks members one after another for a newer certified cut.
    pub(super) fn ask_cut(&self, turn: &mut Turn<'_, Self>) {
        let others = self.others();
        let nth = self.cuts.silent.checked_rem(u64::from(others.count())).unwrap_or_default();
        if let Some(peer) = others.iter().nth(usize::try_from(nth).unwrap_or_default()) {
            say(turn, peer, Word::AskCut(self.cuts.number()));
        }
    }

    pub(in crate::replica) fn on_ask_cut(&self, from: NodeId, above: u64, turn: &mut Turn<'_, Self>) {
        if let Some(kept) = self.cuts.newest.as_ref().filter(|kept| kept.certified.cut.number > above) {
            say(turn, from, Word::CutCertified(Box::new(kept.certified.clone())));
        }
    }
}
