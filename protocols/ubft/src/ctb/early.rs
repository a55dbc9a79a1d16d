//! Promises that go with what is locked (specification, 4.18): a receiver that can tell already what a message is promises something with its
//! LOCKED, before anybody delivered the message.
//!
//! Such a promise binds once the message is delivered, so it must stay possible to deliver it: until it is, or a summary has its place,
//! the lock does not move on to a later message of this place, and what comes of one waits. A broadcaster that is stopped for two
//! messages elsewhere stops this one not: all receivers locked it, so nobody delivers another. Where a summary took the place and
//! hides what became of the promise, the lock moves on, and the LOCKED of all others still delivers the message.
//!
//! *Bounds.* [`EARLY_MAX`] promises, one LOCK and one SIGNED that wait.

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
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    promised: BTreeMap<u64, Promised>,
    lock: Option<(u64, Bytes)>,
    signed: Option<(NodeId, Wanted, Option<Bytes>)>,
}

impl Early {
    /// Whether a promise of message `k` is open.
    pub(super) fn is_promised(&self, k: u64) -> bool {
        self.promised.contains_key(&k)
    }

    /// Whether message `k` waits, for an earlier one has its place and is promised.
    fn waits(&self, k: u64, tail: u64) -> bool {
        let is_before =
            |(first, one): (&u64, &Promised)| one.is_kept && *first < k && (k - first) % tail == 0;
        !planted!(V13) && self.promised.iter().any(is_before)
    }

    pub(super) fn bytes(&self) -> u64 {
        let promised: usize = self.promised.values().map(|one| one.lock.body.len() + 128).sum();
        let lock = self.lock.as_ref().map_or(0, |(_, body)| body.len());
        let signed = self.signed.as_ref().and_then(|(_, _, body)| body.as_ref()).map_or(0, Bytes::len);
        (promised + lock + signed) as u64
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
        receiver.early.promised.insert(k, Promised { lock: lock.clone(), is_kept: true });
        turn.applied(Rule::Merged);
        self.lock(lock, turn);
    }

    /// A later LOCK of a place whose message is promised: of several the newest waits, and of one number the first.
    pub(super) fn hold_lock(&mut self, k: u64, body: Bytes, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::MergedWait);
        let Some(receiver) = self.receiver() else { return };
        if receiver.early.lock.as_ref().is_none_or(|(last, _)| *last < k) {
            receiver.early.lock = Some((k, body));
        }
    }

    /// A later SIGNED of it; others than the broadcaster are asked again.
    pub(super) fn hold_signed(&mut self, from: NodeId, signed: Wanted, body: Option<Bytes>) {
        let is_own = from == self.broadcaster;
        let Some(receiver) = self.receiver().filter(|_| is_own) else { return };
        if receiver.early.signed.as_ref().is_none_or(|(_, last, _)| last.k <= signed.k) {
            receiver.early.signed = Some((from, signed, body));
        }
    }

    /// Nothing waits for message `k` any more: what waited for it is looked at.
    fn go_on(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(receiver) = self.receiver() else { return };
        let (lock, signed) = (receiver.early.lock.take(), receiver.early.signed.take());
        if let Some((k, body)) = lock {
            self.on_lock(k, body, turn);
        }
        if let Some((from, signed, body)) = signed {
            self.on_signed(from, signed, body, turn);
        }
    }

    /// A summary has the place of message `k`: the lock may move on, and what all locked is delivered still.
    pub(super) fn covered(&mut self, k: u64, turn: &mut Turn<'_, Self>) {
        let promised = self.receiver().and_then(|receiver| receiver.early.promised.get_mut(&k));
        if promised.is_some_and(|promised| core::mem::replace(&mut promised.is_kept, false)) {
            self.go_on(turn);
        }
    }

    /// Message `k` is delivered, or nothing is owed for its promise any more.
    pub(super) fn settled(&mut self, k: u64, turn: &mut Turn<'_, Self>) {
        let promised = self.receiver().and_then(|receiver| receiver.early.promised.remove(&k));
        if promised.is_some_and(|promised| promised.is_kept) {
            self.go_on(turn);
        }
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
