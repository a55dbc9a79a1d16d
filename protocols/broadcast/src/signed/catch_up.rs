//! Those who are behind: ACKs collected again by whoever waits, certificates and payloads served, and how far everybody is.
//!
//! *Lazy totality.* Members tell how far each source's slots are certified, and which slots are certified in part. Whoever lacks
//! a certificate asks whoever has it; whoever has one that another lacks sends it. So what one correct member delivers, all do.

use std::collections::VecDeque;
use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, List};

use super::job::Payload;
use super::slot::Collected;
use super::words::{Except, Message, Row, Said, Timer};
use super::{Items, Job, ROWS_MAX, SignedBroadcast};
use crate::Lot;
use crate::bracha::doubled;
use crate::fault::Fault;
use crate::trace::Rule;

/// Slots that one frontier has asked about, per source.
const ASKED_MAX: usize = 64;
/// Rows in one answer.
const ROWS_PER_ANSWER: usize = 256;

/// Slots certified in part, in the order in which they came to be so; the oldest go.
#[derive(Clone, Debug, Default)]
pub(super) struct RowLog {
    gone: u64,
    rows: VecDeque<Row>,
}

impl RowLog {
    pub(super) fn push(&mut self, lot: Lot, open: Except) {
        self.rows.push_back(Row { lot, open });
        if self.rows.len() > ROWS_MAX {
            self.rows.pop_front();
            self.gone += 1;
        }
    }

    fn count(&self) -> u64 {
        self.gone.saturating_add(self.rows.len() as u64)
    }

    /// Rows from a number on, and the number of the first.
    fn from(&self, number: u64) -> (u64, Vec<Row>) {
        let first = number.max(self.gone);
        let skipped = usize::try_from(first.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        (first, self.rows.iter().skip(skipped).take(ROWS_PER_ANSWER).cloned().collect())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| (size_of::<Row>() + size_of_val(row.open.items())) as u64).sum()
    }
}

/// What a member said of how far it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier {
    certified: Vec<Lot>,
    /// Rows of it that were read.
    read: u64,
}

impl Frontier {
    pub(super) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.certified.len() * size_of::<Lot>()) as u64
    }

    fn of(&self, source: u8) -> u64 {
        self.certified.iter().find(|lot| lot.source == source).map_or(0, |lot| lot.sequence)
    }
}

impl<I: Items> SignedBroadcast<I> {
    /// A start, first or again: what was accepted is signed, what is proven is told, what is open goes on.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Frontier, self.config.frontier_every);
        let lots = self.lanes.iter().flat_map(|(source, lane)| {
            lane.slots.keys().map(|sequence| Lot { source: *source, sequence: *sequence })
        });
        let lots: Vec<Lot> = lots.collect();
        for lot in lots {
            self.wait(lot, turn);
            self.sign_again(lot, turn);
            let is_mine = lot.source == self.me();
            let Some(slot) = self.slot(lot) else { continue };
            let (is_proven, stored) = (!slot.certificates.is_empty(), slot.stored);
            match stored {
                Some((_, name)) if is_mine && !is_proven => turn.load(name),
                _ => self.deliver(lot, turn),
            }
        }
    }

    /// Signs what an earlier life accepted and had perhaps not signed.
    fn sign_again(&self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, context) = (self.me(), self.view.context);
        let Some(slot) = self.slot(lot).filter(|slot| slot.said.is_none() && slot.certificates.is_empty())
        else {
            return;
        };
        let Some(accepted) = &slot.accepted else { return };
        let signature = Signature([0; 64]);
        let said =
            Said { member: me, except: accepted.except.clone(), authorized: accepted.authorized, signature };
        let acked = said.statement(context, lot, accepted.digest);
        turn.compute(Job::Sign { view: Arc::clone(&self.view), me: self.config.me, acked, said });
    }

    /// A slot has no certificate: its source sends it again, and anybody else who waited before collects its ACKs, so that a
    /// source which stops between PREPARE and COMMIT holds nothing up.
    pub(super) fn on_resend_due(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, others, longest) = (self.me(), self.others(), self.config.resend_max);
        let Some(slot) = self.slot_mut(lot) else { return };
        let Some((wait, times)) = slot.resend else { return };
        let next = doubled(wait, longest);
        slot.resend = Some((next, times.saturating_add(1)));
        turn.arm(Timer::Resend(lot), next);
        if lot.source != me && times == 0 {
            return;
        }
        let own = slot.said.clone();
        let collected = slot.collected.get_or_insert_with(|| {
            turn.applied(Rule::Rescue);
            Collected::default()
        });
        collected.good.extend(own.map(|said| (me, said)));
        let answered = collected.good.keys().chain(collected.waiting.keys());
        let answered = answered.fold(NodeSet::EMPTY, |set, member| set.with(NodeId(u32::from(*member))));
        let silent = others.minus(answered);
        turn.send(others, Message::Ask(lot));
        self.send_payload(lot, silent, turn);
        self.collect(lot, true, turn);
    }

    pub(super) fn on_ask(&mut self, from: NodeId, lot: Lot, turn: &mut Turn<'_, Self>) {
        if self.slot(lot).is_some() {
            self.answer(lot, NodeSet::only(from), turn);
        }
    }

    /// A payload is wanted: from memory, or from the disk.
    pub(super) fn on_pull(&mut self, from: NodeId, lot: Lot, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(slot) = self.slot(lot) else { return };
        if let Some(payload) = slot.payload(digest) {
            return serve(NodeSet::only(from), lot, &payload.bytes, turn);
        }
        let Some(name) = slot.blob(digest) else { return };
        let (_, wanting) = self.wanted.entry(name).or_insert((lot, NodeSet::EMPTY));
        if wanting.insert(from) && wanting.count() == 1 {
            turn.load(name);
        }
    }

    /// A payload was read: for peers, for the user, or to be sent again.
    pub(super) fn on_loaded(&mut self, name: Hash, bytes: Option<Bytes>, turn: &mut Turn<'_, Self>) {
        if let Some((lot, wanting)) = self.wanted.remove(&name)
            && let Some(payload) = &bytes
        {
            serve(wanting, lot, payload, turn);
        }
        let Some(payload) = bytes else { return };
        let lots = self.lanes.iter().flat_map(|(source, lane)| {
            let waiting = lane
                .slots
                .iter()
                .filter(|(_, slot)| slot.stored.is_some_and(|(_, of)| of == name) && slot.payload.is_none());
            let waiting = waiting
                .filter(|(_, slot)| slot.told < slot.certificates.len() || slot.certificates.is_empty());
            waiting.map(|(sequence, _)| Lot { source: *source, sequence: *sequence })
        });
        let lots: Vec<Lot> = lots.collect();
        for lot in lots {
            let others = self.others();
            let Some(slot) = self.slot_mut(lot) else { continue };
            slot.payload = slot.stored.map(|(digest, name)| Payload { digest, name, bytes: payload.clone() });
            let is_open = slot.certificates.is_empty();
            if is_open && lot.source == self.me() {
                self.send_payload(lot, others, turn);
            }
            self.deliver(lot, turn);
        }
    }

    /// A payload that was asked for.
    pub(super) fn on_pulled(&mut self, from: NodeId, lot: Lot, payload: Bytes, turn: &mut Turn<'_, Self>) {
        if self.is_too_long(&payload) {
            return turn.blame(from, Fault::TooLong);
        }
        if self.slot(lot).is_some_and(|slot| slot.pull.is_some()) {
            turn.compute(Job::Take {
                view: Arc::clone(&self.view),
                from,
                lot,
                payload,
                signature: None,
                digest: I::digest,
            });
        }
    }

    /// Asks the next of the certificate's signers for its payload.
    pub(super) fn on_pull_due(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, longest) = (self.me(), self.config.pull_max);
        let Some(slot) = self.slot_mut(lot) else { return };
        let (Some((wait, asked)), Some(certificate)) = (slot.pull, slot.certificates.first()) else { return };
        let digest = certificate.digest;
        let signers: Vec<u8> =
            certificate.said.iter().map(|said| said.member).filter(|member| *member != me).collect();
        slot.pull = Some((doubled(wait, longest), asked.wrapping_add(1)));
        turn.arm(Timer::Pull(lot), wait);
        let nth = usize::try_from(asked).unwrap_or_default().checked_rem(signers.len()).unwrap_or_default();
        if let Some(peer) = signers.get(nth) {
            turn.send(NodeId(u32::from(*peer)), Message::Pull { lot, digest });
        }
    }

    /// How far a member is. Certificates prove themselves, so one member's word is enough to ask that member.
    pub(super) fn on_frontier(
        &mut self,
        (from, member): (NodeId, u8),
        certified: List<Lot, 128>,
        rows: u64,
        turn: &mut Turn<'_, Self>,
    ) {
        let frontier = self.frontiers.entry(member).or_default();
        frontier.certified = certified.into_vec();
        if rows > frontier.read {
            turn.send(from, Message::AskRows(frontier.read));
        }
        let mut missing = Vec::new();
        for (source, lane) in &self.lanes {
            let reached = frontier.of(*source);
            let first = lane.certified.saturating_add(1);
            let within = (first..=reached).take_while(|sequence| lane.holds(*sequence));
            let lacking = within
                .filter(|sequence| lane.slots.get(sequence).is_none_or(|slot| slot.certificates.is_empty()));
            missing.extend(lacking.take(ASKED_MAX).map(|sequence| Lot { source: *source, sequence }));
        }
        for lot in missing {
            turn.applied(Rule::CatchUp);
            turn.send(from, Message::Ask(lot));
        }
    }

    /// Says how far this node is, where somebody is behind.
    pub(super) fn on_frontier_due(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Frontier, self.config.frontier_every);
        let lots = self.lanes.iter().map(|(source, lane)| Lot { source: *source, sequence: lane.certified });
        let lots: Vec<Lot> = lots.filter(|lot| lot.sequence > 0).collect();
        let (rows, none) = (self.rows.count(), Frontier::default());
        let is_behind = |member: NodeId| {
            let said = member.member().and_then(|member| self.frontiers.get(&member)).unwrap_or(&none);
            lots.iter().any(|lot| said.of(lot.source) < lot.sequence)
        };
        let others = self.others();
        if rows > 0 || others.iter().any(is_behind) {
            let certified = List::try_from(lots).expect("a source per member at most");
            turn.send(others, Message::Frontier { certified, rows });
        }
    }

    pub(super) fn on_ask_rows(&self, from: NodeId, number: u64, turn: &mut Turn<'_, Self>) {
        let (first, rows) = self.rows.from(number);
        if let Ok(rows) = List::try_from(rows) {
            turn.send(from, Message::Rows { from: first, rows });
        }
    }

    /// Slots certified in part elsewhere: what is known there and not here is asked for, what is known here is sent.
    pub(super) fn on_rows(
        &mut self,
        (from, member): (NodeId, u8),
        number: u64,
        rows: List<Row, ROWS_PER_ANSWER>,
        turn: &mut Turn<'_, Self>,
    ) {
        let frontier = self.frontiers.entry(member).or_default();
        if number < frontier.read {
            return;
        }
        frontier.read = number.saturating_add(rows.len() as u64);
        for row in &rows {
            let Some(slot) = self.slot(row.lot).filter(|slot| !slot.certificates.is_empty()) else {
                continue;
            };
            if !slot.open.within(&row.open) {
                turn.send(from, Message::Ask(row.lot));
            }
            if !row.open.within(&slot.open) {
                self.answer(row.lot, NodeSet::only(from), turn);
            }
        }
    }
}

fn serve<I: Items>(to: NodeSet, lot: Lot, payload: &Bytes, turn: &mut Turn<'_, SignedBroadcast<I>>) {
    let payload = Blob::try_from(payload.clone()).expect("the configuration bounds payloads");
    turn.send(to, Message::Pulled { lot, payload });
}
