//! A receiver (Alg. 1, lines 6 to 42): one lock per number, the fast delivery when all receivers have locked the same, the slow one
//! through registers.
//!
//! *Bounds.* t locks, t words heard of each other receiver, t slow deliveries under way; all are made at the start.

use std::collections::BTreeSet;

use synod_crypto::{Hash, Signature};
use synod_machine::{Span, Time, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::early::Early;
use super::words::Told;
use crate::config::{Config, WAIT_TIMES_MAX};

/// The one message of a number that this receiver stands by.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) k: u64,
    pub(super) body: Bytes,
    digest: Option<Hash>,
    /// The broadcaster's, once it was checked.
    pub(super) signature: Option<Signature>,
    /// Something was promised with it (4.18).
    pub(super) is_promised: bool,
}

impl Lock {
    pub(super) const fn new(k: u64, body: Bytes) -> Self {
        Self { k, body, digest: None, signature: None, is_promised: false }
    }

    pub(super) fn digest(&mut self) -> Hash {
        *self.digest.get_or_insert_with(|| Hash::of(&self.body))
    }

    /// What is said of it: itself, up to a length, or its digest.
    pub(super) fn told(&mut self, raw_max: usize) -> Told {
        let raw = (self.body.len() <= raw_max).then(|| Blob::try_from(self.body.clone()).ok()).flatten();
        raw.map_or_else(|| Told::Digest(self.digest()), Told::Raw)
    }

    pub(super) fn is(&mut self, told: &Told) -> bool {
        match told {
            Told::Raw(body) => *body.bytes() == self.body,
            Told::Digest(digest) => self.digest() == *digest,
        }
    }
}

/// A message that is to be delivered through registers.
#[derive(Clone, Debug)]
pub(super) struct Slow {
    pub(super) k: u64,
    pub(super) digest: Hash,
    pub(super) signature: Signature,
    pub(super) stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The own register is written.
    Writing,
    /// Those of others are read.
    Reading {
        /// Whose are not read.
        left: NodeSet,
        /// Entries whose signatures are not checked.
        checks: u32,
    },
}

/// A signed message whose body is not here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) k: u64,
    pub(super) digest: Hash,
    pub(super) signature: Signature,
}

/// What a receiver says that it locked.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) k: u64,
    pub(super) told: Told,
    /// It promises something with it (4.18).
    pub(super) is_promised: bool,
}

/// Since when messages of a place were heard of and not delivered.
#[derive(Clone, Copy, Debug)]
struct Overdue {
    since: Time,
    wait: Span,
}

/// All of one place of the tail.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) lock: Option<Lock>,
    pub(super) slow: Option<Slow>,
    pub(super) wanted: Option<Wanted>,
    pub(super) delivered: u64,
    overdue: Option<Overdue>,
}

impl Slot {
    pub(super) fn locked(&self) -> u64 {
        self.lock.as_ref().map_or(0, |lock| lock.k)
    }

    /// Whether message `k` with this digest is what the lock lets through: a newer one, or the one that is locked.
    pub(super) fn admits(&mut self, k: u64, digest: Hash) -> bool {
        match &mut self.lock {
            Some(lock) if lock.k == k => planted!(U2) || lock.digest() == digest,
            Some(lock) => k > lock.k,
            None => true,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) slots: Vec<Slot>,
    /// By member: what it says it locked; empty of the broadcaster and of this node.
    heard: Vec<Vec<Option<Said>>>,
    pub(super) others: NodeSet,
    pub(super) early: Early,
    pub(super) is_stopped: bool,
    pub(super) is_armed: bool,
}

impl Receiver {
    pub(super) fn new(config: &Config, broadcaster: NodeId) -> Self {
        let tail = usize::try_from(config.parameters.tail).unwrap_or(0);
        let others = config.roster.others(config.me).without(broadcaster);
        let heard = |member| if others.contains(NodeId(member)) { vec![None; tail] } else { Vec::new() };
        Self {
            slots: vec![Slot::default(); tail],
            heard: (0..config.roster.size()).map(heard).collect(),
            others,
            early: Early::default(),
            is_stopped: false,
            is_armed: false,
        }
    }

    pub(super) fn slot(&mut self, index: usize) -> Option<&mut Slot> {
        self.slots.get_mut(index)
    }

    fn heard_of(&mut self, from: NodeId, index: usize) -> Option<&mut Option<Said>> {
        self.heard.get_mut(usize::try_from(from.0).ok()?)?.get_mut(index)
    }

    /// Keeps what a receiver says (lines 18 to 21): newer numbers, and what is locked here. Whether it promises, for the first time,
    /// something about what is locked here.
    pub(super) fn hear(&mut self, from: NodeId, index: usize, said: Said) -> bool {
        let is_ours = self
            .slot(index)
            .and_then(|slot| slot.lock.as_mut())
            .is_some_and(|lock| lock.k == said.k && lock.is(&said.told));
        let Some(heard) = self.heard_of(from, index) else { return false };
        let last = heard.as_ref().filter(|last| last.k == said.k && last.told == said.told);
        let was_promised = last.is_some_and(|last| last.is_promised);
        let is_news = is_ours && said.is_promised && !was_promised;
        if is_ours || heard.as_ref().is_none_or(|last| said.k > last.k) {
            *heard = Some(Said { is_promised: said.is_promised || was_promised, ..said });
        }
        is_news
    }

    /// Whether a receiver promised something about what is locked here.
    pub(super) fn promises(&mut self, from: NodeId, index: usize) -> bool {
        let is_promised = self
            .heard_of(from, index)
            .is_some_and(|heard| heard.as_ref().is_some_and(|heard| heard.is_promised));
        is_promised && self.agrees(from, index)
    }

    /// Whether a receiver locked what is locked here.
    pub(super) fn agrees(&mut self, from: NodeId, index: usize) -> bool {
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let (Some(lock), Ok(from)) = (&mut slot.lock, usize::try_from(from.0)) else { return false };
        let heard = self.heard.get(from).and_then(|heard| heard.get(index)?.as_ref());
        heard.is_some_and(|heard| heard.k == lock.k && lock.is(&heard.told))
    }

    /// Whether every other receiver locked what is locked here (line 22).
    pub(super) fn is_unanimous(&mut self, index: usize) -> bool {
        let missing = self.others.iter().filter(|other| !self.agrees(*other, index)).count();
        missing <= usize::from(planted!(U6))
    }

    /// Somebody spoke of a message of this place: whether a wait begins, anew where it is locked now.
    pub(super) fn expect(&mut self, index: usize, is_locked: bool, now: Time, wait: Span) -> bool {
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let is_new = is_locked || slot.overdue.is_none();
        if is_new {
            slot.overdue = Some(Overdue { since: now, wait });
        }
        is_new
    }

    /// Messages of a place that were spoken of and are not delivered: what is locked, what is signed and has no body, and
    /// what each of the others says, for a liar may speak of any.
    fn spoken_of(&self, index: usize) -> BTreeSet<u64> {
        let Some(slot) = self.slots.get(index) else { return BTreeSet::new() };
        let heard = self.heard.iter().filter_map(|heard| Some(heard.get(index)?.as_ref()?.k));
        let signed = slot.wanted.map_or(0, |wanted| wanted.k);
        heard.chain([slot.locked(), signed]).filter(|k| *k > slot.delivered).collect()
    }

    /// Messages whose wait is over, which doubles, and whether any is waited for.
    pub(super) fn overdue(&mut self, now: Time, first: Span) -> (Vec<u64>, bool) {
        let (mut due, mut is_any) = (Vec::new(), false);
        for index in 0..self.slots.len() {
            let Some(overdue) = self.slots.get(index).and_then(|slot| slot.overdue) else { continue };
            let spoken_of = self.spoken_of(index);
            let is_due = now.since(overdue.since) >= overdue.wait;
            let wait =
                if is_due { overdue.wait.times(2).min(first.times(WAIT_TIMES_MAX)) } else { overdue.wait };
            let since = if is_due { now } else { overdue.since };
            is_any |= !spoken_of.is_empty();
            if let Some(slot) = self.slots.get_mut(index) {
                slot.overdue = (!spoken_of.is_empty()).then_some(Overdue { since, wait });
            }
            if is_due {
                due.extend(spoken_of);
            }
        }
        (due, is_any)
    }

    pub(super) fn bytes(&self) -> u64 {
        let body = |slot: &Slot| slot.lock.as_ref().map_or(0, |lock| lock.body.len()) + size_of::<Slot>();
        let slots: usize = self.slots.iter().map(body).sum();
        let words = |heard: &Option<Said>| {
            let raw = match heard.as_ref().map(|heard| &heard.told) {
                Some(Told::Raw(body)) => body.bytes().len(),
                Some(Told::Digest(_)) | None => 0,
            };
            raw + size_of::<Option<Said>>()
        };
        let heard: usize = self.heard.iter().flatten().map(words).sum();
        (slots + heard) as u64 + self.early.bytes()
    }
}
