//! From members' signatures on a root to a certified cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, Wire};

use crate::cut::{CertifiedCut, CutCertificate, CutSign, CutSignedBy};
use crate::fault::Fault;
use crate::job::Work;
use crate::replica::{Carrier, Replica, compute, keep};
use crate::trace::Rule;
use crate::words::{Output, Promise};

impl<B: Carrier> Replica<B> {
    /// A member's signature, unchecked.
    pub(in crate::replica) fn on_cut_sign(&self, from: NodeId, sign: CutSign, turn: &mut Turn<'_, Self>) {
        let is_its =
            from.member() == Some(sign.member) && self.cuts.proposer(sign.number) == Some(sign.proposer);
        if !is_its {
            return turn.blame(from, Fault::WrongCut);
        }
        let known = self.cuts.votes.get(&(sign.proposer, sign.member));
        let is_news = known.is_none_or(|known| {
            sign.number > known.number
                || sign.number == known.number && sign.root != known.root && !self.cuts.liars.contains(from)
        });
        if self.cuts.is_on() && self.cuts.is_next(sign.number) && is_news {
            compute(turn, Work::CutSign { view: Arc::clone(&self.config.view), from, sign });
        }
    }

    /// A good signature.
    pub(in crate::replica) fn count_cut_sign(&mut self, sign: CutSign, turn: &mut Turn<'_, Self>) {
        if !self.cuts.is_next(sign.number) {
            return;
        }
        match self.cuts.votes.get(&(sign.proposer, sign.member)).copied() {
            Some(known) if known.number > sign.number => return,
            Some(known) if known.number == sign.number && known.root != sign.root => {
                return self.show_two_roots(known, sign, turn);
            }
            _ => {}
        }
        self.cuts.votes.insert((sign.proposer, sign.member), sign);
        self.certify_cut(sign, turn);
    }

    fn show_two_roots(&mut self, one: CutSign, other: CutSign, turn: &mut Turn<'_, Self>) {
        let member = NodeId(u32::from(one.member));
        if self.cuts.liars.insert(member) {
            turn.blame(member, Fault::TwoRoots);
            turn.output(Output::TwoRoots { member, number: one.number, evidence: (one, other).encode() });
        }
    }

    /// Puts a certificate together once a quorum signed the root that this node has.
    fn certify_cut(&mut self, sign: CutSign, turn: &mut Turn<'_, Self>) {
        let CutSign { number, proposer, root, .. } = sign;
        let all = self.cuts.votes.iter().filter(|((of, _), _)| *of == proposer).map(|(_, vote)| *vote);
        let votes: BTreeMap<u8, CutSign> = all
            .filter(|vote| (vote.number, vote.root) == (number, root))
            .map(|vote| (vote.member, vote))
            .collect();
        let members = votes.keys().map(|member| NodeId(u32::from(*member)));
        if !self.quorums.intersects(members.fold(NodeSet::EMPTY, NodeSet::with)) {
            return;
        }
        // Whoever has not signed it yet will, or asks for it when a period is over.
        let Some(state) = self.cuts.state(proposer, root) else { return };
        let signed =
            votes.into_values().map(|vote| CutSignedBy { member: vote.member, signature: vote.signature });
        let signed = List::try_from(signed.collect::<Vec<_>>()).expect("one of each member");
        let (context, epoch) = (self.config.view.context, self.config.view.roster.epoch());
        let certificate = CutCertificate { context, epoch, number, proposer, root, signed };
        let (cut, record) = (state.cut.clone(), state.record.clone());
        self.take_certified_cut(CertifiedCut { cut, record, certificate }, turn);
    }

    /// A certified cut of another member, unchecked.
    pub(in crate::replica) fn on_cut_certified(
        &self,
        from: NodeId,
        certified: CertifiedCut,
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.cuts.is_on() || certified.cut.number <= self.cuts.number() {
            return;
        }
        let here = (self.config.view.context, self.config.view.roster.epoch());
        if (certified.record.context, certified.record.epoch) != here {
            return turn.blame(from, Fault::WrongCut);
        }
        let view = Arc::clone(&self.config.view);
        compute(turn, Work::CutCertified { view, from, certified: Box::new(certified) });
    }

    /// A certified cut, checked or put together here.
    pub(in crate::replica) fn take_certified_cut(
        &mut self,
        certified: CertifiedCut,
        turn: &mut Turn<'_, Self>,
    ) {
        if certified.cut.number <= self.cuts.number() {
            return;
        }
        turn.applied(Rule::CutCertify);
        keep(turn, Promise::CutCertified(Box::new(certified.clone())));
        let (record, certificate) = (certified.record.clone(), certified.certificate.clone());
        let kept = self.cuts.certify(certified);
        let accounts = kept.state.as_ref().map(|state| Arc::clone(&state.accounts));
        let (record, certificate) = (Box::new(record), Box::new(certificate));
        turn.output(Output::CutCertified { record, certificate, accounts });
        self.consider_fetch(turn);
    }

    /// Proves how an account stands behind the last certified cut.
    pub(in crate::replica) fn on_prove(
        &self,
        ticket: u64,
        (ledger, account): (u32, synod_ledger::AccountId),
        turn: &mut Turn<'_, Self>,
    ) {
        let proof = self.cuts.served.as_ref().and_then(|kept| {
            let state = kept.state.as_ref()?;
            state.accounts.prove((ledger, account), &state.record, &kept.certified.certificate)
        });
        turn.output(Output::Proof { ticket, proof: proof.map(Box::new) });
    }
}
