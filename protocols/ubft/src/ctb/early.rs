//! Promises that go with what is locked (specification, 4.18): a receiver that can tell already what a message is promises something with its
//! LOCKED, before anybody delivered the message.
//!
//! Such a promise binds once the message is delivered, so it must stay possible to deliver it: until it is, or a summary has its place,
//! the lock does not move on to a later message of this place, and what comes of one waits. A broadcaster that is stopped for two
//! messages elsewhere stops this one not: all receivers locked it, so nobody delivers another. Where a summary took the place and
//! hides what became of the promise, the lock moves on, and the LOCKED of all others still delivers the message.
//!
//! *Bounds.* [`EARLY_MAX`] promises, each with one LOCK and one SIGNED that wait.

use std::collections::BTreeMap;

use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use super::CtBroadcast;
use super::receiver::{Lock, Receiver, Wanted};
use super::words::{Output, Told};
use crate::trace::Rule;

/// Promises of one broadcaster's messages that are not delivered, at most.
pub(crate) const EARLY_MAX: usize = 4;

#[derive(Clone, Debug)]
struct Promised {
    lock: Lock,
    /// The lock stays until it is delivered.
    is_kept: bool,
    later: Later,
}

/// What came of later messages of the place: of several the newest.
#[derive(Clone, Debug, Default)]
struct Later {
    lock: Option<(u64, Bytes)>,
    signed: Option<(Wanted, Option<Bytes>)>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    promised: BTreeMap<u64, Promised>,
}

impl Early {
    /// Whether a promise of message `k` is open.
    pub(super) fn is_promised(&self, k: u64) -> bool {
        self.promised.contains_key(&k)
    }

    /// What message `k` waits behind, for an earlier one has its place and is promised.
    fn before(&mut self, k: u64, tail: u64) -> Option<&mut Later> {
        let mut earlier = self.promised.range_mut(..k).filter(|(_, one)| one.is_kept && !planted!(V13));
        earlier.find(|(first, _)| (k - **first).is_multiple_of(tail)).map(|(_, one)| &mut one.later)
    }

    fn waits(&self, k: u64, tail: u64) -> bool {
        let mut earlier = self.promised.range(..k).filter(|(_, one)| one.is_kept && !planted!(V13));
        earlier.any(|(first, _)| (k - first).is_multiple_of(tail))
    }

    pub(super) fn bytes(&self) -> u64 {
        let one = |one: &Promised| {
            let lock = one.later.lock.as_ref().map_or(0, |(_, body)| body.len());
            let signed = one.later.signed.as_ref().and_then(|(_, body)| body.as_ref()).map_or(0, Bytes::len);
            one.lock.body.len() + lock + signed + 512
        };
        self.promised.values().map(one).sum::<usize>() as u64
    }
}

impl CtBroadcast {
    /// Whether this receiver may promise something with what it locks of message `k`, which is new to it.
    #[must_use]
    pub fn may_promise(&self, k: u64) -> bool {
        let index = self.config.index(k);
        let is_new = |receiver: &Receiver| receiver.slots.get(index).is_some_and(|slot| slot.locked() < k);
        self.config.parameters.merge_promises
            && (1..crate::config::NUMBER_END).contains(&k)
            && self.early().is_some_and(|(receiver, tail)| {
                !receiver.is_stopped
                    && is_new(receiver)
                    && receiver.early.promised.len() < EARLY_MAX
                    && !receiver.early.waits(k, tail)
            })
    }

    fn early(&self) -> Option<(&Receiver, u64)> {
        match &self.side {
            super::Side::Sender(_) => None,
            super::Side::Receiver { receiver, .. } => {
                Some((receiver, u64::from(self.config.parameters.tail.max(1))))
            }
        }
    }

    pub(super) fn waits(&self, k: u64) -> bool {
        self.early().is_some_and(|(receiver, tail)| receiver.early.waits(k, tail))
    }

    /// Locks message `k`, and promises something with it.
    pub(super) fn promise(&mut self, k: u64, body: Bytes, turn: &mut Turn<'_, Self>) {
        let may = self.may_promise(k) && body.len() <= self.config.body_max();
        let Some(receiver) = self.receiver().filter(|_| may) else { return self.on_lock(k, body, turn) };
        let mut lock = Lock::new(k, body);
        lock.is_promised = true;
        let promised = Promised { lock: lock.clone(), is_kept: true, later: Later::default() };
        receiver.early.promised.insert(k, promised);
        turn.applied(Rule::Merged);
        self.lock(lock, turn);
    }

    /// A later LOCK of a place whose message is promised: of several the newest waits, and of one number the first.
    pub(super) fn hold_lock(&mut self, k: u64, body: Bytes, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::MergedWait);
        let tail = u64::from(self.config.parameters.tail.max(1));
        let Some(later) = self.receiver().and_then(|receiver| receiver.early.before(k, tail)) else { return };
        if later.lock.as_ref().is_none_or(|(last, _)| *last < k) {
            later.lock = Some((k, body));
        }
    }

    /// A later SIGNED of it; others than the broadcaster are asked again.
    pub(super) fn hold_signed(&mut self, from: NodeId, signed: Wanted, body: Option<Bytes>) {
        let (is_own, tail) = (from == self.broadcaster, u64::from(self.config.parameters.tail.max(1)));
        let Some(receiver) = self.receiver().filter(|_| is_own) else { return };
        let Some(later) = receiver.early.before(signed.k, tail) else { return };
        if later.signed.as_ref().is_none_or(|(last, _)| last.k <= signed.k) {
            later.signed = Some((signed, body));
        }
    }

    /// Nothing is waited for any more: what came later of the place is looked at.
    fn go_on(&mut self, later: Later, turn: &mut Turn<'_, Self>) {
        if let Some((k, body)) = later.lock {
            self.on_lock(k, body, turn);
        }
        if let Some((signed, body)) = later.signed {
            self.on_signed(self.broadcaster, signed, body, turn);
        }
    }

    /// A summary has the places of messages up to `k`: locks may move on, and what all locked is delivered still.
    pub(super) fn covered(&mut self, k: u64, turn: &mut Turn<'_, Self>) {
        let Some(receiver) = self.receiver() else { return };
        let covered = receiver.early.promised.range_mut(..=k).map(|(_, one)| {
            one.is_kept = false;
            core::mem::take(&mut one.later)
        });
        let covered: Vec<Later> = covered.collect();
        covered.into_iter().for_each(|later| self.go_on(later, turn));
    }

    /// Message `k` is delivered, or nothing is owed for its promise any more.
    pub(super) fn settled(&mut self, k: u64, turn: &mut Turn<'_, Self>) {
        let promised = self.receiver().and_then(|receiver| receiver.early.promised.remove(&k));
        promised.into_iter().for_each(|promised| self.go_on(promised.later, turn));
    }

    /// What others promised of a message that is delivered here.
    pub(super) fn tell_promises(&mut self, index: usize, k: u64, turn: &mut Turn<'_, Self>) {
        if !self.config.parameters.merge_promises {
            return;
        }
        let Some(receiver) = self.receiver() else { return };
        let others = receiver.others;
        for by in others.iter().filter(|by| receiver.promises(*by, index)) {
            turn.output(Output::Promised { k, by });
        }
    }

    /// A receiver says what it locked of message `k`, after the lock here moved on: if that is what was promised, all locked it.
    pub(super) fn deliver_late(&mut self, from: NodeId, k: u64, told: &Told, turn: &mut Turn<'_, Self>) {
        let Some(receiver) = self.receiver() else { return };
        let is_all = receiver.others == NodeSet::only(from);
        let Some(promised) = receiver.early.promised.get_mut(&k) else { return };
        if is_all && !promised.is_kept && promised.lock.is(told) {
            let body = promised.lock.body.clone();
            turn.applied(Rule::A1DeliverFast);
            turn.output(Output::Delivered { k, body });
            self.settled(k, turn);
        }
    }
}
