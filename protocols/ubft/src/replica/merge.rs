//! The shorter pattern (specification, 4.18): a follower that can judge a proposal when its leader's LOCK comes promises to certify it with
//! its LOCKED, which the leader hears as well; no WILL_CERTIFY follows.
//!
//! The promise binds once the proposal is delivered: then it is signed before the view is left, or at once where it was left meanwhile.
//! Until then it delays nothing. It is made of the next message of the leader's stream alone, whose place in it nothing can change: so
//! what is promised is valid wherever it is delivered. The broadcast keeps it possible to deliver it ([`crate::ctb`]); whoever promised to
//! commit and cannot leave its view says again what it locked, and with that the other follower delivers.
//!
//! *Bounds.* [`EARLY_MAX`] promises of a stream that are not delivered; numbers of t proposals; a word of each other follower about t
//! messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Event, Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Wire as _};

use super::consensus::Consensus;
use super::words::{Word, node};
use super::work::read_body;
use crate::batch::{Batch, Slot, View};
use crate::body::Body;
use crate::config::BODY_MAX;
use crate::ctb::{self, EARLY_MAX};
use crate::stream::Checked;
use crate::trace::Rule;

/// A proposal that came and is not delivered.
#[derive(Clone, Debug)]
struct Weighed {
    k: u64,
    body: Bytes,
    view: View,
    slot: Slot,
    batch: Arc<Batch>,
    digest: Hash,
    length: usize,
    is_vouched: bool,
}

/// A promise that goes with what was locked of message `k`.
#[derive(Clone, Copy, Debug)]
struct Early {
    k: u64,
    view: View,
    slot: Slot,
}

/// What there is of one stream beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Merging {
    weighed: Option<Weighed>,
    /// What this replica promised of messages that are not delivered.
    early: Vec<Early>,
    /// Who promised something about messages that are delivered and not applied.
    promised: BTreeMap<u64, NodeSet>,
    /// The last proposals, by number.
    applied: VecDeque<(u64, View, Slot)>,
}

impl Merging {
    /// Whether something is promised about message `k`, which is not delivered.
    pub(super) fn is_promised(&self, k: u64) -> bool {
        self.early.iter().any(|early| early.k == k)
    }

    /// The message, read before it was delivered.
    pub(super) fn take(&mut self, k: u64, body: &Bytes) -> Option<Checked> {
        let Weighed { view, slot, batch, digest, length, .. } =
            self.weighed.take_if(|weighed| weighed.k == k && weighed.body == *body)?;
        Some(Checked::Prepare { view, slot, batch, digest, length })
    }

    pub(super) fn bytes(&self) -> u64 {
        let weighed = self.weighed.as_ref();
        let weighed =
            weighed.map_or(0, |weighed| weighed.body.len() + super::admit::batch_bytes(&weighed.batch));
        (weighed + self.early.len() * 32 + self.promised.len() * 32 + self.applied.len() * 32) as u64
    }
}

impl Consensus {
    /// The batch of a proposal that comes, if this replica may promise to certify it with what it locks; whoever vouches for it says so
    /// by [`Self::vouch`] before the message is given.
    pub fn weigh(&mut self, from: NodeId, word: &Word) -> Option<Arc<Batch>> {
        if !self.config.parameters.merge_promises || self.is_over() || self.sealing.is_some() {
            return None;
        }
        let Word::Ctb { broadcaster, word: ctb::Message::Lock { k, body } } = word else { return None };
        let (k, leader) = (*k, self.leader());
        let is_leaders = from == leader && node(*broadcaster) == leader && leader != self.me();
        if !is_leaders || !self.ctb.get(leader).is_some_and(|one| one.may_promise(k)) {
            return None;
        }
        let lane = self.lanes.get(&leader).filter(|lane| !lane.is_halted)?;
        let is_next = lane.stream.next_k() == k && !lane.waiting.contains_key(&k);
        if !is_next || lane.merging.early.len() >= EARLY_MAX || body.bytes().len() > self.config.body_max() {
            return None;
        }
        let body = body.bytes().clone();
        let frame_max = u32::try_from(BODY_MAX).unwrap_or(u32::MAX);
        let Some(Body::Prepare { view, slot, batch }) = read_body(body.clone(), frame_max) else {
            return None;
        };
        let (digest, length) = batch.measure();
        let is_valid = lane.stream.may_prepare(&self.config, (view, slot), (&batch, length), digest).is_ok();
        let is_new = self.works.get(slot).is_none_or(|work| work.ballot.may_promise(view));
        if view != self.view || !is_valid || !self.is_open(slot) || !is_new {
            return None;
        }
        // What f + 1 replicas show to be certified nobody need have heard (E30).
        let is_vouched = lane.stream.must(slot) == Some(digest);
        let batch = Arc::new(batch);
        let weighed = Weighed { k, body, view, slot, batch: Arc::clone(&batch), digest, length, is_vouched };
        self.lanes.get_mut(&leader)?.merging.weighed = Some(weighed);
        (!is_vouched).then_some(batch)
    }

    /// This replica vouches for what [`Self::weigh`] gave last.
    pub fn vouch(&mut self) {
        let leader = self.leader();
        let weighed = self.lanes.get_mut(&leader).and_then(|lane| lane.merging.weighed.as_mut());
        weighed.into_iter().for_each(|weighed| weighed.is_vouched = true);
    }

    /// A leader's LOCK: whether it is what this replica vouches for, and promises to certify.
    pub(super) fn promise_early(
        &mut self,
        of: NodeId,
        (k, body): (u64, &Bytes),
        turn: &mut Turn<'_, Self>,
    ) -> bool {
        let view = self.view;
        if !self.config.parameters.merge_promises || self.sealing.is_some() || of != self.leader() {
            return false;
        }
        let Some(lane) = self.lanes.get_mut(&of).filter(|lane| lane.stream.next_k() == k) else {
            return false;
        };
        let is_it = |weighed: &&mut Weighed| {
            weighed.is_vouched && weighed.k == k && weighed.view == view && weighed.body == *body
        };
        let Some(weighed) = lane.merging.weighed.as_mut().filter(is_it) else { return false };
        weighed.is_vouched = false;
        let (slot, digest) = (weighed.slot, weighed.digest);
        if !self.ctb.get(of).is_some_and(|one| one.may_promise(k)) {
            return false;
        }
        if !self.work(slot).is_some_and(|work| work.ballot.promise_early(view, digest)) {
            return false;
        }
        if let Some(lane) = self.lanes.get_mut(&of) {
            lane.merging.early.push(Early { k, view, slot });
        }
        self.cast(of, Event::Input(ctb::Input::Promise { k, body: body.clone() }), turn);
        self.expect(turn);
        true
    }

    /// A replica promised something about a message that is delivered here: it counts once the message is applied.
    pub(super) fn on_promised(&mut self, of: NodeId, k: u64, by: NodeId, turn: &mut Turn<'_, Self>) {
        let tail = self.config.parameters.tail as usize;
        let Some(lane) = self.lanes.get_mut(&of).filter(|lane| !lane.is_halted) else { return };
        if k >= lane.stream.next_k() {
            let waiting = &lane.waiting;
            if waiting.contains_key(&k) {
                lane.merging.promised.entry(k).or_insert(NodeSet::EMPTY).insert(by);
            }
            if lane.merging.promised.len() > tail {
                lane.merging.promised.retain(|k, _| waiting.contains_key(k));
            }
            return;
        }
        let found = lane.merging.applied.iter().rev().find(|(applied, _, _)| *applied == k).copied();
        if let Some((_, view, slot)) = found
            && let Some(work) = self.work(slot)
        {
            work.ballot.will_certify(by, view);
            self.consider(slot, turn);
        }
    }

    /// A proposal is applied: what was promised of it counts from now on.
    pub(super) fn merge(
        &mut self,
        of: NodeId,
        (k, view, slot): (u64, View, Slot),
        (digest, batch): (Hash, &Arc<Batch>),
        turn: &mut Turn<'_, Self>,
    ) {
        let tail = self.config.parameters.tail as usize;
        if !self.config.parameters.merge_promises {
            return;
        }
        let Some(lane) = self.lanes.get_mut(&of) else { return };
        let merging = &mut lane.merging;
        if merging.applied.len() >= tail {
            merging.applied.pop_front();
        }
        merging.applied.push_back((k, view, slot));
        let by = merging.promised.remove(&k).unwrap_or(NodeSet::EMPTY);
        merging.early.retain(|early| early.k != k);
        if let Some(work) = self.work(slot) {
            by.iter().for_each(|by| work.ballot.will_certify(by, view));
        }
        self.fulfil((view, slot), digest, Some(batch), turn);
    }

    /// A proposal is delivered: if this replica promised to certify it with what it locked, it is bound to it from now on. Where it left
    /// the view meanwhile it signs at once, for others may need it to leave.
    fn fulfil(
        &mut self,
        (view, slot): (View, Slot),
        digest: Hash,
        batch: Option<&Arc<Batch>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (me, own, is_sealing) = (self.me(), self.view, self.sealing.is_some());
        let Some(work) = self.work(slot) else { return };
        if (planted!(V12) && is_sealing) || !work.ballot.fulfil(view, digest) {
            return;
        }
        work.ballot.will_certify(me, view);
        if view == own {
            work.endorsed = Some((view, digest));
        }
        match batch {
            Some(batch) => work.keep(digest, Arc::clone(batch)),
            None => self.want_batch(slot, digest, turn),
        }
        if view < own {
            turn.applied(Rule::ServeShare);
            self.sign_proposal(view, slot, digest, turn);
        }
    }

    /// A summary shows a proposal as if it had been applied.
    pub(super) fn fulfil_shown(&mut self, place: (View, Slot), digest: Hash, turn: &mut Turn<'_, Self>) {
        if self.config.parameters.merge_promises {
            self.fulfil(place, digest, None, turn);
        }
    }

    /// A summary has the place of messages of a stream. What became of a promise may be hidden by it, for the view was left: then it is
    /// open, and the lock may move on all the same.
    pub(super) fn cover_early(&mut self, of: NodeId, turn: &mut Turn<'_, Self>) {
        let Some(lane) = self.lanes.get(&of) else { return };
        let next = lane.stream.next_k();
        let covered: Vec<Early> = lane.merging.early.iter().filter(|early| early.k < next).copied().collect();
        for Early { k, view, slot } in covered {
            let is_open = self.works.get(slot).is_some_and(|work| work.ballot.is_early(view));
            if is_open {
                self.cast(of, Event::Input(ctb::Input::Covered(k)), turn);
            } else {
                self.settle_early(of, k, turn);
            }
        }
    }

    fn settle_early(&mut self, of: NodeId, k: u64, turn: &mut Turn<'_, Self>) {
        if let Some(lane) = self.lanes.get_mut(&of) {
            lane.merging.early.retain(|early| early.k != k);
        }
        self.cast(of, Event::Input(ctb::Input::Settled(k)), turn);
    }

    /// Slots below the checkpoint owe nothing.
    pub(super) fn release_early(&mut self, turn: &mut Turn<'_, Self>) {
        let low = self.low.low;
        let of_lane = |(id, lane): (&NodeId, &super::work::Lane)| {
            let id = *id;
            let below: Vec<u64> =
                lane.merging.early.iter().filter(|early| early.slot < low).map(|early| early.k).collect();
            below.into_iter().map(move |k| (id, k))
        };
        let below: Vec<(NodeId, u64)> = self.lanes.iter().flat_map(of_lane).collect();
        below.into_iter().for_each(|(of, k)| self.settle_early(of, k, turn));
    }

    /// A message is delivered whose place a summary has: what was promised of it binds.
    pub(super) fn on_late(&mut self, of: NodeId, k: u64, body: Bytes, turn: &mut Turn<'_, Self>) {
        let Some(lane) = self.lanes.get_mut(&of).filter(|lane| lane.merging.is_promised(k)) else { return };
        lane.merging.early.retain(|early| early.k != k);
        let frame_max = u32::try_from(BODY_MAX).unwrap_or(u32::MAX);
        if let Some(Body::Prepare { view, slot, batch }) = read_body(body, frame_max) {
            let digest = batch.digest();
            self.fulfil((view, slot), digest, Some(&Arc::new(batch)), turn);
        }
    }

    /// What this follower locked of the proposal of a slot that it promised to commit to, for the other one that may have promised to
    /// certify it and does not have it: its lock may have moved on since (T51).
    pub(super) fn show_lock(&self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let (view, leader, me) = (self.view, self.leader(), self.me());
        let work = self.works.get(slot).filter(|_| self.config.parameters.merge_promises && leader != me);
        let stood = work.and_then(|work| Some((work, work.stood?))).filter(|(_, (of, ..))| *of == view);
        let Some((work, (_, k, digest))) = stood else { return };
        let (Some(batch), Some(broadcaster)) = (work.batch(digest), leader.member()) else { return };
        let body = Body::Prepare { view, slot, batch: Batch::clone(batch) }.encode();
        let raw_max = usize::try_from(self.config.parameters.echo_raw_max).unwrap_or(0);
        let raw = (body.len() <= raw_max).then(|| body.clone().try_into().ok()).flatten();
        let told = raw.map_or_else(|| ctb::Told::Digest(Hash::of(&body)), ctb::Told::Raw);
        let word = ctb::Message::Locked { broadcaster, k, told, promise: false };
        turn.send(self.others().without(leader), Word::Ctb { broadcaster, word });
    }
}
