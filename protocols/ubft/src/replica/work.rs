//! What a replica holds of one slot, and of one stream.
//!
//! *Bounds.* A slot keeps [`BATCHES_MAX`] batches, beside those that somebody may still be bound to; a stream keeps t messages that wait
//! for their turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::Time;
use synod_quorum::NodeSet;
use synod_wire::{Bytes, Wire as _};

use super::merge::Merging;
use super::words::{Summary, Word};
use crate::batch::{Batch, Slot, View};
use crate::body::Body;
use crate::certificate::Left;
use crate::few::Few;
use crate::slot::Ballot;
use crate::stream::{Checked, State, Stream};

/// Batches of one slot to which nobody is bound.
pub(super) const BATCHES_MAX: usize = 4;
/// Bodies by reference that are kept of one stream.
const BODIES_MAX: usize = 2;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) ballot: Ballot,
    /// The number of the newest proposal in its leader's stream; 0 where a summary showed it.
    pub(super) k: u64,
    /// Since when the newest proposal is here.
    pub(super) since: Option<Time>,
    /// The view whose proposal the user was asked about.
    pub(super) judged: Option<View>,
    pub(super) endorsed: Option<(View, Hash)>,
    /// The slow path goes on for the proposal of this view.
    pub(super) slow: Option<View>,
    /// All promised to commit to the newest proposal.
    pub(super) is_unanimous: bool,
    /// It counted as fast or slow (4.10).
    pub(super) is_scored: bool,
    /// f + 1 certificates decided it.
    pub(super) is_slow: bool,
    /// The newest view in which this replica promised to commit, with number and batch of the proposal; where promises go with locks (4.18).
    pub(super) stood: Option<(View, u64, Hash)>,
    batches: Few<Hash, Arc<Batch>>,
}

impl Work {
    pub(super) const fn new(slot: Slot) -> Self {
        Self {
            ballot: Ballot::new(slot),
            k: 0,
            since: None,
            judged: None,
            endorsed: None,
            slow: None,
            is_unanimous: false,
            is_scored: false,
            is_slow: false,
            stood: None,
            batches: Few::new(),
        }
    }

    /// The same of another slot, in the memory of this one.
    pub(super) fn renew(self, slot: Slot) -> Self {
        Self { ballot: self.ballot.renew(slot), batches: self.batches.cleared(), ..Self::new(slot) }
    }

    pub(super) fn batch(&self, digest: Hash) -> Option<&Arc<Batch>> {
        self.batches.get(digest)
    }

    /// Keeps a batch; of those to which nobody is bound one gives way.
    pub(super) fn keep(&mut self, digest: Hash, batch: Arc<Batch>) {
        self.batches.insert(digest, batch);
        let is_bound = |kept: Hash| self.ballot.bound().any(|bound| bound == kept);
        let mut free = self.batches.keys().filter(|kept| *kept != digest && !is_bound(*kept));
        let first = free.next();
        if let Some(first) = first.filter(|_| free.count() + 1 >= BATCHES_MAX) {
            self.batches.remove(first);
        }
    }

    /// Batches that somebody is bound to and that are not here.
    pub(super) fn missing(&self) -> usize {
        let missing = self.ballot.bound().filter(|digest| !self.batches.contains(*digest));
        missing.collect::<BTreeSet<Hash>>().len()
    }

    pub(super) fn bytes(&self) -> u64 {
        let batches: usize = self.batches.values().map(|batch| batch.size_hint() + 64).sum();
        batches as u64 + size_of::<Self>() as u64 + self.ballot.bytes()
    }
}

/// How far a message of a stream is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Its body goes by reference.
    Wanting {
        digest: Hash,
        length: u32,
    },
    /// Its certificates are checked.
    Checking,
    Ready(Box<Checked>),
    /// It proves nothing, or is no message.
    Bad,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) stream: Stream,
    pub(super) waiting: BTreeMap<u64, Stage>,
    pub(super) is_halted: bool,
    /// The newest summary as it came; checked where it is needed.
    pub(super) summary: Option<Summary>,
    /// A summary is checked for this lane.
    pub(super) is_restoring: bool,
    /// Who passed on one that proves nothing: no more of this stream is taken from them.
    pub(super) untold: NodeSet,
    /// Since when something is missing.
    pub(super) gap: Option<Time>,
    /// Where the replica stood when it went to its view.
    pub(super) left: Option<Left>,
    /// The own newest shares about this stream: of a summary, with its number, and of where it stood.
    pub(super) share: Option<(u64, Word)>,
    pub(super) left_share: Option<Word>,
    pub(super) merging: Merging,
    bodies: VecDeque<(Hash, Bytes)>,
}

impl Lane {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            waiting: BTreeMap::new(),
            is_halted: false,
            summary: None,
            is_restoring: false,
            untold: NodeSet::EMPTY,
            gap: None,
            left: None,
            share: None,
            left_share: None,
            merging: Merging::default(),
            bodies: VecDeque::new(),
        }
    }

    /// A message takes its place of the tail; false where a later one has it.
    pub(super) fn wait(&mut self, k: u64, stage: Stage, tail: u64) -> bool {
        let of_place = |other: &u64| other % tail == k % tail;
        let other = self.waiting.keys().copied().find(of_place);
        if other.is_some_and(|other| other >= k) {
            return false;
        }
        other.into_iter().for_each(|other| drop(self.waiting.remove(&other)));
        self.waiting.insert(k, stage);
        true
    }

    /// The last message that is known to be there, beyond what is applied.
    pub(super) fn known(&self) -> u64 {
        let waiting = self.waiting.last_key_value().map_or(0, |(k, _)| *k);
        waiting.max(self.summary.as_ref().map_or(0, |summary| summary.certificate.subject.k))
    }

    /// Whether the message that comes next is not here, and it or one behind it is known of.
    pub(super) fn has_gap(&self) -> bool {
        let next = self.stream.next_k();
        // One that is promised is there, though nobody may say so again.
        let is_known = self.known() >= next || self.merging.is_promised(next);
        !self.is_halted && is_known && !self.waiting.contains_key(&next)
    }

    pub(super) fn keep_body(&mut self, digest: Hash, body: Bytes) {
        if self.bodies.len() >= BODIES_MAX {
            self.bodies.pop_front();
        }
        self.bodies.push_back((digest, body));
    }

    pub(super) fn body(&self, digest: Hash) -> Option<&Bytes> {
        self.bodies.iter().find(|(kept, _)| *kept == digest).map(|(_, body)| body)
    }

    pub(super) fn bytes(&self) -> u64 {
        let waiting = |stage: &Stage| match stage {
            Stage::Ready(checked) => checked.bytes(),
            Stage::Wanting { .. } | Stage::Checking | Stage::Bad => size_of::<Stage>() as u64,
        };
        let waits: u64 = self.waiting.values().map(waiting).sum();
        let bodies: usize = self.bodies.iter().map(|(_, body)| body.len()).sum();
        let rows = |state: &State| state.size_hint() as u64;
        let summary = self.summary.as_ref().map_or(0, |summary| rows(&summary.state));
        let left = self.left.as_ref().map_or(0, |left| left.commits.len() as u64 * 48);
        waits + bodies as u64 + summary + left + self.stream.bytes() + self.merging.bytes()
    }
}

/// What this replica said in its own stream, whether it is applied yet or not: what it may say next follows from it.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) view: View,
    pub(super) low: Slot,
    pub(super) next_prepare: Option<Slot>,
    /// It showed what it must propose in its view.
    pub(super) is_shown: bool,
    /// States of the own stream that wait for their certificate, by number.
    pub(super) states: BTreeMap<u64, State>,
    pub(super) summarized: u64,
}

/// Reads a message of a stream.
pub(super) fn read_body(bytes: Bytes, frame_max: u32) -> Option<Body> {
    Body::decode(bytes, &synod_wire::Limits { frame_max }).ok()
}
