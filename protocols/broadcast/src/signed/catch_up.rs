//! Those who are behind: ACKs collected again by whoever waits, certificates and payloads served, and how far everybody is.
//!
//! *Lazy totality.* Members tell how far each source's slots are certified, and which slots are certified in part. Whoever lacks
//! a certificate asks whoever has it; whoever has one that another lacks sends it. So what one correct member delivers, all do.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::{Span, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, List};

use super::crossing::UNSIGNED;
use super::job::Payload;
use super::slot::{Collected, Slot};
use super::words::{BEYOND_MAX, Message, ROWS_PER_ANSWER, Row, Said, Timer};
use super::{Items, Job, SignedBroadcast};
use crate::Lot;
use crate::fault::Fault;
use crate::patience::doubled;
use crate::trace::Rule;

/// Slots that one frontier has asked about, per source.
const ASKED_MAX: usize = 64;
/// Times that rows are read whose slots stay as they are: an answer may be lost, and what is kept no longer does not come.
const TRIES_MAX: u32 = 8;
/// Slots whose certificates are sent upon rows at once: fewer than a link's queue holds.
const ANSWERED_MAX: usize = 64;

/// What a member said of how far it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier {
    certified: Vec<Lot>,
    /// Which of its lives its rows are of, and how many of them were read.
    life: u64,
    read: u64,
    /// How often the next of them were read in vain: what they tell of has not come.
    tries: u32,
    /// Whether rows were asked for and have not come.
    is_asked: bool,
    /// How many of them were answered.
    answered: u64,
}

impl Frontier {
    pub(super) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.certified.len() * size_of::<Lot>()) as u64
    }

    /// All rows are read again.
    const fn begin(&mut self) {
        (self.read, self.tries, self.is_asked, self.answered) = (0, 0, false, 0);
    }

    fn of(&self, source: u8) -> u64 {
        self.certified.iter().find(|lot| lot.source == source).map_or(0, |lot| lot.sequence)
    }
}

impl<I: Items> SignedBroadcast<I> {
    /// A start, first or again: what was accepted is signed, what is proven is told, what is open goes on.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        self.life = turn.rng().draw();
        turn.arm(Timer::Frontier, self.config.bounds.frontier_every);
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
                Some((_, name)) if (is_mine || slot.carried.is_some()) && !is_proven => turn.load(name),
                None if !is_proven => self.pull(lot, turn),
                _ => self.deliver(lot, turn),
            }
        }
    }

    /// Signs what an earlier life accepted and had perhaps not signed. A certificate of an older view is no reason not to: others may lack
    /// one that counts in this view.
    fn sign_again(&self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, context, epoch) = (self.me(), self.view.context, self.view.roster.epoch());
        let is_proven = |slot: &Slot| slot.certificates.iter().any(|certificate| certificate.epoch == epoch);
        let Some(slot) = self.slot(lot).filter(|slot| slot.said.is_none() && !is_proven(slot)) else {
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
        let (me, others, longest) = (self.me(), self.others(), self.config.bounds.resend_max);
        let is_short = self.is_short(lot);
        let Some(slot) = self.lanes.get_mut(&lot.source).and_then(|lane| lane.slot(lot.sequence)) else {
            return;
        };
        match slot.certified().filter(|_| slot.resend.is_some()) {
            // What older views certified of it is all that is known of what is worked on.
            Some(digest) if is_short => slot.taken = slot.taken.or(Some((digest, UNSIGNED))),
            Some(_) => slot.resend = None,
            None => {}
        }
        let Some(waiting) = &mut slot.resend else { return };
        let left = waiting.left(turn.now());
        if left > Span::ZERO {
            turn.arm(Timer::Resend(lot), left);
            return self.collect(lot, true, turn);
        }
        turn.arm(Timer::Resend(lot), waiting.again(longest));
        if lot.source != me && waiting.times == 1 {
            return;
        }
        self.patience.say_again(lot.source, waiting);
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
            self.endorse_again(lot, turn);
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
        let Some(payload) = bytes else { return self.on_damaged(name, turn) };
        let lacks = |slot: &Slot| {
            let wanted = slot.stored.filter(|(digest, _)| slot.wants() == Some(*digest));
            wanted.is_some_and(|(digest, _)| slot.payload(digest).is_none())
        };
        for lot in self.stored_as(name, lacks) {
            let others = self.others();
            let Some(slot) = self.slot_mut(lot) else { continue };
            let bytes = || payload.clone();
            slot.payload =
                slot.stored.map(|(digest, name)| Payload { digest, name, bytes: bytes(), read: None });
            let is_open = slot.certificates.is_empty();
            if is_open && lot.source == self.me() {
                self.send_payload(lot, others, turn);
            }
            self.propose_carried(lot, turn);
            self.deliver(lot, turn);
            self.collect(lot, false, turn);
        }
    }

    /// Slots whose payload is on the disk under a name.
    fn stored_as(&self, name: Hash, fits: fn(&Slot) -> bool) -> Vec<Lot> {
        let all = self.lanes.iter().flat_map(|(source, lane)| {
            lane.slots.iter().map(|(sequence, slot)| (Lot { source: *source, sequence: *sequence }, slot))
        });
        let fitting = all.filter(|(_, slot)| slot.stored.is_some_and(|(_, of)| of == name) && fits(slot));
        fitting.map(|(lot, _)| lot).collect()
    }

    /// A payload cannot be read any more: others have it.
    fn on_damaged(&mut self, name: Hash, turn: &mut Turn<'_, Self>) {
        for lot in self.stored_as(name, |_| true) {
            if let Some(slot) = self.slot_mut(lot) {
                slot.stored = None;
            }
            self.release(name, turn);
            self.pull(lot, turn);
        }
        turn.compact();
    }

    /// Has a payload brought that is wanted and not here.
    pub(super) fn pull(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let first = self.config.bounds.pull;
        let Some(slot) = self.slot_mut(lot) else { return };
        // Another payload may be here, which a source that signed two sent to this member alone.
        let is_missing = slot.wants().is_some_and(|digest| slot.payload(digest).is_none());
        if slot.pull.is_none() && is_missing {
            slot.pull = Some((first, 0));
            turn.applied(Rule::Pull);
            self.on_pull_due(lot, turn);
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
                reading: I::read,
            });
        }
    }

    /// Asks the next of the certificate's signers for its payload; of a slot without one, the next member.
    pub(super) fn on_pull_due(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, longest) = (self.me(), self.config.bounds.pull_max);
        let members: Vec<u8> = self.config.members.iter().filter_map(NodeId::member).collect();
        let Some(slot) = self.slot_mut(lot) else { return };
        let (Some((wait, asked)), Some(digest)) = (slot.pull, slot.wants()) else { return };
        let signed = |member: &u8| {
            let mut certificate = slot.certificates.first().into_iter().flat_map(|one| one.said.iter());
            slot.certificates.is_empty() || certificate.any(|said| said.member == *member)
        };
        // Signers of an older view may be gone, and all of them together.
        let others = || members.iter().copied().filter(|member| *member != me);
        let mut signers: Vec<u8> = others().filter(signed).collect();
        if signers.is_empty() {
            signers = others().collect();
        }
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
        (certified, beyond): (List<Lot, 128>, List<Lot, BEYOND_MAX>),
        (life, rows): (u64, u64),
        turn: &mut Turn<'_, Self>,
    ) {
        let frontier = self.frontiers.entry(member).or_default();
        frontier.certified = certified.into_vec();
        if frontier.life != life {
            frontier.life = life;
            frontier.begin();
        }
        if rows > frontier.read {
            frontier.is_asked = true;
            turn.send(from, Message::AskRows(frontier.read));
        }
        let mut missing = BTreeSet::new();
        for (source, lane) in &self.lanes {
            let reached = frontier.of(*source);
            let first = lane.certified.saturating_add(1);
            let within = (first..=reached).take_while(|sequence| lane.holds(*sequence));
            let lacking = within.filter(|sequence| lane.lacks(*sequence));
            missing.extend(lacking.take(ASKED_MAX).map(|sequence| Lot { source: *source, sequence }));
        }
        let lacks = |lot: &&Lot| self.lanes.get(&lot.source).is_some_and(|lane| lane.lacks(lot.sequence));
        missing.extend(beyond.iter().filter(lacks));
        for lot in missing {
            turn.applied(Rule::CatchUp);
            turn.send(from, Message::Ask(lot));
        }
    }

    /// Says how far this node is, where somebody is behind.
    pub(super) fn on_frontier_due(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Frontier, self.config.bounds.frontier_every);
        let lots = self.lanes.iter().map(|(source, lane)| Lot { source: *source, sequence: lane.certified });
        let lots: Vec<Lot> = lots.filter(|lot| lot.sequence > 0).collect();
        let (rows, none) = (self.rows.count(), Frontier::default());
        let is_behind = |member: NodeId| {
            let said = member.member().and_then(|member| self.frontiers.get(&member)).unwrap_or(&none);
            lots.iter().any(|lot| said.of(lot.source) < lot.sequence)
        };
        let others = self.others();
        let is_any_behind = others.iter().any(is_behind);
        let beyond = self.next_beyond();
        if rows > 0 || !beyond.is_empty() || is_any_behind {
            let certified = List::try_from(lots).expect("a source per member at most");
            let beyond = List::try_from(beyond).expect("that many are taken");
            turn.send(others, Message::Frontier { certified, beyond, life: self.life, rows });
        }
    }

    /// The next slots that are certified above one that is not: all of them in turn, however many there are.
    fn next_beyond(&mut self) -> Vec<Lot> {
        let certified = self.lanes.iter().flat_map(|(source, lane)| {
            let above = lane.slots.range(lane.certified.saturating_add(1)..);
            let certified = above.filter(|(_, slot)| !slot.certificates.is_empty());
            certified.map(|(sequence, _)| Lot { source: *source, sequence: *sequence })
        });
        let told = self.beyond;
        let (mut next, again): (Vec<Lot>, Vec<Lot>) = certified.partition(|lot| Some(*lot) > told);
        next.extend(again);
        next.truncate(BEYOND_MAX);
        self.beyond = next.last().copied();
        next
    }

    pub(super) fn on_ask_rows(&self, from: NodeId, number: u64, turn: &mut Turn<'_, Self>) {
        let (first, rows) = self.rows.from(number);
        if let Ok(rows) = List::try_from(rows) {
            turn.send(from, Message::Rows { life: self.life, from: first, rows });
        }
    }

    /// A connection is new or broken, and what was on its way is lost: all rows of that member are read again.
    pub(super) fn on_link(&mut self, peer: NodeId) {
        if let Some(frontier) = peer.member().and_then(|member| self.frontiers.get_mut(&member)) {
            frontier.begin();
        }
    }

    /// Slots certified in part elsewhere: what is known there and not here is asked for, what is known here is sent, once. Rows are
    /// read again while what was asked for has not come.
    pub(super) fn on_rows(
        &mut self,
        (from, member): (NodeId, u8),
        (life, number): (u64, u64),
        rows: List<Row, ROWS_PER_ANSWER>,
        turn: &mut Turn<'_, Self>,
    ) {
        let frontier = self.frontiers.entry(member).or_default();
        if !frontier.is_asked || life != frontier.life || number < frontier.read {
            return;
        }
        frontier.is_asked = false;
        let answered = frontier.answered;
        let (mut ahead, mut behind) = (BTreeSet::new(), BTreeSet::new());
        // The first row whose slot is to change, the first one that nothing certifies here, and the end of what is looked at now.
        let (mut done, mut lacking, mut until) = (None, None, rows.len() as u64);
        for (at, row) in (0_u64..).zip(&rows) {
            // What nothing certifies here is asked for by frontiers.
            if self.lanes.get(&row.lot.source).is_some_and(|lane| lane.lacks(row.lot.sequence)) {
                (done, lacking) = (done.or(Some(at)), lacking.or(Some(at)));
                continue;
            }
            let Some(slot) = self.slot(row.lot).filter(|slot| !slot.certificates.is_empty()) else {
                continue;
            };
            let is_behind = number.saturating_add(at) >= answered && !row.open.within(&slot.open);
            if is_behind && behind.len() == ANSWERED_MAX && !behind.contains(&row.lot) {
                until = at;
                break;
            }
            if is_behind {
                behind.insert(row.lot);
            }
            if !slot.open.within(&row.open) {
                done = done.or(Some(at));
                ahead.insert(row.lot);
            }
        }
        for lot in ahead {
            turn.send(from, Message::Ask(lot));
        }
        for lot in behind {
            self.answer(lot, NodeSet::only(from), turn);
        }
        let end = number.saturating_add(until);
        let frontier = self.frontiers.entry(member).or_default();
        frontier.answered = answered.max(number.saturating_add(lacking.unwrap_or(until)));
        match done {
            Some(at) if at > 0 => (frontier.read, frontier.tries) = (number.saturating_add(at), 1),
            Some(_) if frontier.tries < TRIES_MAX => frontier.tries += 1,
            _ => (frontier.read, frontier.tries) = (end, 0),
        }
    }
}

fn serve<I: Items>(to: NodeSet, lot: Lot, payload: &Bytes, turn: &mut Turn<'_, SignedBroadcast<I>>) {
    let payload = Blob::try_from(payload.clone()).expect("the configuration bounds payloads");
    turn.send(to, Message::Pulled { lot, payload });
}
