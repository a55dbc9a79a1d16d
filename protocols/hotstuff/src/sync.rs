//! Block sync (specification 4.11): what is missing, whom to ask, and when to ask somebody else.
//!
//! A nested machine that keeps a bounded list of wants. The replica says what is missing and what has arrived; this
//! machine chooses peers by score, asks, and moves on when an answer is late. It believes nothing: the replica checks
//! every answer by digest, root or proof.
//!
//! *Bounds.* [`WANTS_MAX`] wants, of them [`RANGES_MAX`] ranges, one question in flight for each.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::{Event, Machine, Message as Spoken, Never, Queue, Span, Time, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, wire};

use crate::message::{RANGE_MAX, Want};
use crate::{Rule, View};

/// Most things wanted at once.
pub(crate) const WANTS_MAX: usize = 64;
/// Most ranges in flight, one per peer.
pub(crate) const RANGES_MAX: usize = 4;
/// Questions asked for one want before it is given up; whoever still needs it says so again.
const ATTEMPTS_MAX: u32 = 64;
/// The score of a peer nothing is known about, and the highest.
const SCORE_MAX: u64 = 1 << 20;

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A block by digest.
    Block(Hash),
    /// A body by payload root.
    Body(Hash),
    /// Committed blocks from this height on.
    Range(u64),
    /// The certificate of a view.
    Certificate(View),
    /// The newest commit proof.
    Proof,
    /// The newest certified state.
    Anchor,
}

impl Key {
    fn want(self) -> Want {
        let one = |hash: Hash| List::try_from(vec![hash]).unwrap_or_default();
        match self {
            Self::Block(digest) => Want::Blocks(one(digest)),
            Self::Body(root) => Want::Bodies(one(root)),
            Self::Range(from) => Want::Range { from, count: u32::try_from(RANGE_MAX).unwrap_or(u32::MAX) },
            Self::Certificate(view) => Want::Certificate(view),
            Self::Proof => Want::Proof,
            // No member retains the blocks from genesis on: who holds a certified state answers with it.
            Self::Anchor => Want::Range { from: 0, count: 1 },
        }
    }

    const fn is_range(self) -> bool {
        matches!(self, Self::Range(_))
    }
}

/// What the replica tells.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// This is missing; `hints` are likely to have it.
    Want(Key, NodeSet),
    /// This is here, from `Some` peer that answered well, or no longer wanted.
    Settled(Key, Option<NodeId>),
    /// A peer answered badly: ask somebody else at once.
    Bad(Key, NodeId),
    /// A peer's answer is of no use: ask somebody else once its time is over.
    Useless(NodeId),
}

wire! {
    /// A question, as the nested machine says it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Question(pub(crate) Want);
}

impl Spoken for Question {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

#[derive(Clone, Debug)]
struct Asked {
    number: u64,
    hints: NodeSet,
    tried: NodeSet,
    peer: NodeId,
    attempts: u32,
    at: Time,
}

/// The wants of one replica.
#[derive(Clone, Debug)]
pub(crate) struct BlockSync {
    others: NodeSet,
    patience: Span,
    wants: BTreeMap<Key, Asked>,
    next: u64,
    scores: BTreeMap<NodeId, u64>,
}

impl BlockSync {
    /// Wants nothing yet; the first question waits `patience` for its answer.
    pub(crate) const fn new(others: NodeSet, patience: Span) -> Self {
        Self { others, patience, wants: BTreeMap::new(), next: 0, scores: BTreeMap::new() }
    }

    /// Whether `key` is wanted and `from` was asked for it.
    pub(crate) fn was_asked(&self, key: Key, from: NodeId) -> bool {
        self.wants.get(&key).is_some_and(|asked| asked.peer == from || asked.tried.contains(from))
    }

    /// Whether `key` is wanted.
    pub(crate) fn wants(&self, key: Key) -> bool {
        self.wants.contains_key(&key)
    }

    /// The ranges asked of `from`.
    pub(crate) fn ranges_of(&self, from: NodeId) -> Vec<u64> {
        let of_peer = self.wants.iter().filter(|(_, asked)| asked.peer == from || asked.tried.contains(from));
        of_peer.filter_map(|(key, _)| if let Key::Range(from) = key { Some(*from) } else { None }).collect()
    }

    /// The views up to this one whose certificates are wanted.
    pub(crate) fn certificates_to(&self, view: View) -> Vec<View> {
        let wanted =
            self.wants.keys().filter_map(|key| if let Key::Certificate(v) = key { Some(*v) } else { None });
        wanted.filter(|wanted| *wanted <= view).collect()
    }

    /// Whether anything is wanted.
    pub(crate) fn is_busy(&self) -> bool {
        !self.wants.is_empty()
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        160 * self.wants.len() as u64
    }

    fn want(&mut self, key: Key, hints: NodeSet, turn: &mut Turn<'_, Self>) {
        if let Some(asked) = self.wants.get_mut(&key) {
            asked.hints = asked.hints.or(hints);
            return;
        }
        let ranges = self.wants.keys().filter(|k| k.is_range()).count();
        if self.wants.len() >= WANTS_MAX || (key.is_range() && ranges >= RANGES_MAX) || self.others.is_empty()
        {
            return;
        }
        let number = self.next;
        self.next += 1;
        let fresh = Asked {
            number,
            hints: hints.and(self.others),
            tried: NodeSet::EMPTY,
            peer: NodeId::default(),
            attempts: 0,
            at: turn.now(),
        };
        self.wants.insert(key, fresh);
        self.ask(key, turn);
    }

    /// Asks the best peer that was not tried yet; when all were, begins again with all.
    fn ask(&mut self, key: Key, turn: &mut Turn<'_, Self>) {
        let Some(asked) = self.wants.get(&key) else { return };
        let busy: NodeSet = match key.is_range() {
            true => {
                self.wants.iter().filter(|(k, _)| k.is_range() && **k != key).map(|(_, a)| a.peer).collect()
            }
            false => NodeSet::EMPTY,
        };
        let hinted = asked.hints.minus(asked.tried);
        let untried = self.others.minus(asked.tried);
        let mut pick = [hinted, untried.minus(busy), untried].into_iter().find(|set| !set.is_empty());
        let begin_again = pick.is_none();
        let from = pick.take().unwrap_or(self.others);
        let score = |id: &NodeId| self.scores.get(id).copied().unwrap_or(SCORE_MAX / 2);
        let best = from.iter().map(|id| score(&id)).max().unwrap_or(0);
        let equals: Vec<NodeId> = from.iter().filter(|id| score(id) == best).collect();
        let draw = turn.rng().below(equals.len() as u64);
        let Some(peer) = usize::try_from(draw).ok().and_then(|at| equals.get(at)).copied() else { return };
        let now = turn.now();
        let Some(asked) = self.wants.get_mut(&key) else { return };
        if begin_again {
            asked.tried = NodeSet::EMPTY;
        }
        asked.tried.insert(peer);
        asked.peer = peer;
        asked.attempts += 1;
        asked.at = now;
        let doublings = (asked.attempts / 2).min(4);
        let (number, wait) = (asked.number, self.patience.times(1 << doublings));
        turn.applied(if key.is_range() { Rule::SyncRange } else { Rule::Pull });
        turn.send(peer, Question(key.want()));
        turn.arm(number, wait);
    }

    fn late(&mut self, number: u64, turn: &mut Turn<'_, Self>) {
        let found = self.wants.iter().find(|(_, asked)| asked.number == number);
        let Some((key, asked)) = found.map(|(key, asked)| (*key, asked.clone())) else { return };
        self.punish(asked.peer);
        if asked.attempts >= ATTEMPTS_MAX {
            self.wants.remove(&key);
        } else {
            self.ask(key, turn);
        }
    }

    fn settle(&mut self, key: Key, by: Option<NodeId>, turn: &mut Turn<'_, Self>) {
        if let Some(asked) = self.wants.remove(&key) {
            turn.disarm(asked.number);
        }
        if let Some(peer) = by {
            let score = self.scores.entry(peer).or_insert(SCORE_MAX / 2);
            *score = (*score + SCORE_MAX / 16).min(SCORE_MAX);
        }
    }

    fn punish(&mut self, peer: NodeId) {
        let score = self.scores.entry(peer).or_insert(SCORE_MAX / 2);
        *score /= 2;
    }
}

impl Machine for BlockSync {
    type Input = Ask;
    type Message = Question;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = Never;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Ask::Want(key, hints)) => self.want(key, hints, turn),
            Event::Input(Ask::Settled(key, by)) => self.settle(key, by, turn),
            Event::Input(Ask::Bad(key, peer)) => {
                self.punish(peer);
                if self.was_asked(key, peer) {
                    self.ask(key, turn);
                }
            }
            Event::Input(Ask::Useless(peer)) => self.punish(peer),
            Event::Timer(number) => self.late(number, turn),
            Event::Done(done) => match done {},
            // Answers and questions reach the replica, which checks and serves them.
            Event::Message { .. } | Event::Start | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        assert!(self.wants.len() <= WANTS_MAX);
        assert!(self.wants.keys().filter(|key| key.is_range()).count() <= RANGES_MAX);
    }
}
