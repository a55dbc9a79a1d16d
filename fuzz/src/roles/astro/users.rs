//! What users of a broadcast gave, were asked and were told: the same for all members where honest ones gave it.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::broadcast::{Offer, Slot};
use synod_machine::host::Hosted;
use synod_wire::Bytes;

use super::flock::{Flock, HONEST};
use crate::tape::Tape;

/// The users of the honest members.
pub(super) struct Users {
    /// What was delivered in each slot, by whoever was first.
    delivered: BTreeMap<Slot, Bytes>,
    /// What each member's user broadcast.
    offered: Vec<BTreeMap<u64, Bytes>>,
    /// What each member was asked to judge.
    proposed: Vec<Vec<(Slot, Hash)>>,
}

impl Users {
    pub(super) fn new() -> Self {
        Self {
            delivered: BTreeMap::new(),
            offered: vec![BTreeMap::new(); HONEST],
            proposed: vec![Vec::new(); HONEST],
        }
    }

    /// Whether anything was delivered.
    pub(super) fn were_told(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Keeps what a member's user is asked to judge, by its digest.
    pub(super) fn proposed(&mut self, at: usize, slot: Slot, payload: &Bytes) -> Hash {
        let digest = Hash::of(payload);
        if !self.proposed[at].contains(&(slot, digest)) {
            self.proposed[at].push((slot, digest));
        }
        digest
    }

    /// Something that a member's user was asked to judge before.
    pub(super) fn judged(&self, at: usize, tape: &mut Tape<'_>) -> Option<(Slot, Hash)> {
        self.proposed[at].get(tape.below(self.proposed[at].len())).copied()
    }

    /// A member's user broadcasts something in its next slot, or again what it broadcast there.
    pub(super) fn broadcast<H: Hosted>(
        &mut self,
        at: usize,
        sequence: u64,
        flock: &mut Flock<H>,
        tape: &mut Tape<'_>,
    ) {
        let payload = Bytes::copy_from_slice(tape.take(5));
        let payload = self.offered[at].entry(sequence).or_insert(payload).clone();
        flock.ask(at, Offer::Broadcast { sequence, payload });
    }

    /// A member's user that came back broadcasts all again from a slot on.
    pub(super) fn broadcast_again<H: Hosted>(&self, at: usize, from: u64, flock: &mut Flock<H>) {
        for (sequence, payload) in self.offered[at].range(from..) {
            flock.ask(at, Offer::Broadcast { sequence: *sequence, payload: payload.clone() });
        }
    }

    /// A slot's payload is told; whether it is for the first time.
    ///
    /// # Panics
    /// When the slot has another one, or an honest source gave another one.
    pub(super) fn delivered(&mut self, slot: Slot, payload: Bytes) -> bool {
        let source = usize::try_from(slot.source.0).unwrap_or(usize::MAX);
        if let Some(offered) = self.offered.get(source) {
            assert_eq!(offered.get(&slot.sequence), Some(&payload), "not what its source broadcast");
        }
        let is_first = !self.delivered.contains_key(&slot);
        let known = self.delivered.entry(slot).or_insert_with(|| payload.clone());
        assert!(*known == payload, "{slot:?} has two payloads");
        is_first
    }
}
