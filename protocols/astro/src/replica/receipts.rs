//! Receipts: each replica's signed word that a batch has settled, counted by its representative (specification, section 4.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_machine::broadcast::{Except, Lot};
use synod_machine::{Span, Turn, planted};
use synod_quorum::NodeId;
use synod_wire::List;

use super::{Carrier, Replica, compute, say};
use crate::batch::Opened;
use crate::fault::Fault;
use crate::job::Work;
use crate::trace::Rule;
use crate::words::{Level, Output, Receipt, Settled, Timer, Word};

/// Receipts of one member for one batch: one for each certificate that certifies more.
const RECEIPTS_MAX: u8 = 64;

/// One of this node's own batches, until all is told of it.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) opened: Arc<Opened>,
    /// What each member says is open, and how often it said so.
    receipts: BTreeMap<u8, (Except, u8)>,
    /// How many members say of each entry that it has settled.
    votes: Vec<u8>,
}

impl Own {
    pub(super) fn new(opened: Arc<Opened>) -> Self {
        let votes = vec![0; opened.digests.len()];
        Self { opened, receipts: BTreeMap::new(), votes }
    }

    /// Whether a member says more than before: of entries that there are, and not for the hundredth time.
    fn is_news(&self, receipt: &Receipt) -> bool {
        let items = receipt.open.items();
        let is_of_it = items
            .last()
            .is_none_or(|last| usize::try_from(*last).is_ok_and(|last| last < self.opened.digests.len()));
        let is_more = |(known, times): &(Except, u8)| {
            *times < RECEIPTS_MAX && receipt.open != *known && receipt.open.within(known)
        };
        receipt.digest == self.opened.digest
            && is_of_it
            && self.receipts.get(&receipt.member).is_none_or(is_more)
    }

    /// Counts a receipt; gives the entries that now have so many votes.
    fn count(&mut self, receipt: Receipt, thresholds: [u8; 2]) -> [Vec<u32>; 2] {
        let before = self.receipts.remove(&receipt.member);
        let times = before.as_ref().map_or(0, |(_, times)| *times).saturating_add(1);
        self.receipts.insert(receipt.member, (receipt.open.clone(), times));
        let mut reached = [Vec::new(), Vec::new()];
        for (at, votes) in (0_u32..).zip(&mut self.votes) {
            let was_open =
                before.as_ref().is_none_or(|(before, _)| before.items().binary_search(&at).is_ok());
            if !was_open || receipt.open.items().binary_search(&at).is_ok() {
                continue;
            }
            *votes = votes.saturating_add(1);
            for (threshold, reached) in thresholds.into_iter().zip(&mut reached) {
                if *votes == threshold {
                    reached.push(at);
                }
            }
        }
        reached
    }

    /// Members whose word is missing, or leaves entries open.
    pub(super) fn lacks(&self, member: u8) -> bool {
        self.receipts.get(&member).is_none_or(|(open, _)| !open.items().is_empty())
    }

    pub(super) fn bytes(&self) -> u64 {
        let lists: usize = self.receipts.values().map(|(open, _)| size_of_val(open.items())).sum();
        self.opened.bytes() + (size_of::<Self>() + self.votes.len() + lists + self.receipts.len() * 64) as u64
    }
}

impl<B: Carrier> Replica<B> {
    /// Signs a receipt once everything certified of a batch has settled.
    pub(super) fn receipt_if_settled(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (view, me) = (Arc::clone(&self.config.view), self.config.me);
        let Some(batch) = self.lane_mut(lot.source).batches.get_mut(&lot.sequence) else { return };
        let Some(open) = batch.open().filter(|_| batch.unsettled == 0 || planted!(A13)) else {
            return;
        };
        if std::mem::replace(&mut batch.is_signing, true) {
            return;
        }
        let settled = Settled { context: view.context, lot, digest: batch.digest, open: open.digest() };
        compute(turn, Work::Sign { view, me, settled, open });
    }

    /// This node's own receipt is signed.
    pub(super) fn on_receipt_signed(&mut self, receipt: Receipt, turn: &mut Turn<'_, Self>) {
        let lot = receipt.lot;
        let Some(batch) = self.lane_mut(lot.source).batches.get_mut(&lot.sequence) else { return };
        batch.is_signing = false;
        if batch.open().as_ref() != Some(&receipt.open) {
            return self.receipt_if_settled(lot, turn);
        }
        batch.receipt = Some(receipt.clone());
        turn.applied(Rule::Receipt);
        if lot.source == self.me() {
            self.count_receipt(receipt, turn);
        } else {
            say(turn, NodeId(u32::from(lot.source)), Word::Receipt(receipt));
        }
    }

    /// A receipt for one of this node's own batches, unchecked.
    pub(super) fn on_receipt(&mut self, from: NodeId, receipt: Receipt, turn: &mut Turn<'_, Self>) {
        if from.member() != Some(receipt.member) || receipt.lot.source != self.me() {
            return turn.blame(from, Fault::BadReceipt);
        }
        if self.desk.own.get(&receipt.lot.sequence).is_some_and(|own| own.is_news(&receipt)) {
            compute(turn, Work::Receipt { view: Arc::clone(&self.config.view), from, receipt });
        }
    }

    /// A good receipt.
    pub(super) fn count_receipt(&mut self, receipt: Receipt, turn: &mut Turn<'_, Self>) {
        let [one, quorum] = [self.quorums.one_correct(), self.quorums.intersecting()];
        let votes = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        let lot = receipt.lot;
        let Some(own) = self.desk.own.get_mut(&lot.sequence).filter(|own| own.is_news(&receipt)) else {
            return;
        };
        turn.output(Output::Receipted(receipt.clone()));
        let [settled, stable] = own.count(receipt, [votes(one), votes(quorum)]);
        self.progress(lot, &settled, Level::Settled, turn);
        self.progress(lot, &stable, Level::Stable, turn);
        let members = self.config.view.roster.all();
        let is_whole = |own: &Own| members.iter().filter_map(NodeId::member).all(|member| !own.lacks(member));
        if self.desk.own.get(&lot.sequence).is_some_and(is_whole) {
            self.desk.own.remove(&lot.sequence);
        }
    }

    /// Tells the user how sure entries of its own are.
    pub(super) fn progress(&self, lot: Lot, lines: &[u32], level: Level, turn: &mut Turn<'_, Self>) {
        let Some(own) = self.desk.own.get(&lot.sequence).filter(|_| lot.source == self.me()) else { return };
        let lines = lines.iter().filter_map(|at| own.opened.batch.lines.get(usize::try_from(*at).ok()?));
        let entries: Vec<_> = lines.map(|line| (line.entry.id, line.entry.transfer)).collect();
        if !entries.is_empty() {
            turn.output(Output::Progress { level, entries });
        }
    }

    /// Asks those who have not receipted this node's own batches.
    pub(super) fn on_receipts_due(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Receipts, self.receipts_every());
        self.offer_again(turn);
        self.ask_credits(turn);
        let source = self.me();
        let certified = self.lane_mut(source).frontier;
        for peer in self.others().iter() {
            let Some(member) = peer.member() else { continue };
            let lacking = self.desk.own.range(..=certified).filter(|(_, own)| own.lacks(member));
            let lots: Vec<Lot> =
                lacking.take(64).map(|(sequence, _)| Lot { source, sequence: *sequence }).collect();
            if let Some(lots) = List::try_from(lots).ok().filter(|lots| !lots.is_empty()) {
                say(turn, peer, Word::AskReceipts(lots));
            }
        }
        let retain = self.config.parameters.retain;
        self.desk.own.retain(|sequence, _| *sequence > certified.saturating_sub(retain));
    }

    pub(super) const fn receipts_every(&self) -> Span {
        self.config.parameters.resend
    }

    /// Another representative misses receipts.
    pub(super) fn on_ask_receipts(&mut self, from: NodeId, lots: &[Lot], turn: &mut Turn<'_, Self>) {
        for lot in lots.iter().filter(|lot| from.member() == Some(lot.source)) {
            let batch = self.lane_mut(lot.source).batches.get(&lot.sequence);
            match batch.and_then(|batch| batch.receipt.clone()) {
                Some(receipt) => say(turn, from, Word::Receipt(receipt)),
                None => self.receipt_if_settled(*lot, turn),
            }
        }
    }
}
