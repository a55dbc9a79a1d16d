//! Questions to servers, whose equal answers are put together: where clients stand (3.2, 4.2); for heights see [`super::heights`].
//!
//! Servers answer ten questions about clients a second of each broker and say nothing to more (4.8), so they are asked one
//! after the other; a question that waits for its turn is not asked in vain. Links take turns, so each question waits behind at
//! most as many of another link as its own link asked before it, and one more.
//!
//! *Bounds.* 1,024 clients' questions, 64 of one link, each for 10 s after it was asked. Where all places are taken, the newest
//! question of the link with most waiting gives way to that of a link with two fewer.

use std::collections::{BTreeMap, VecDeque};

use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};

use super::job::{Combined, Task};
use super::{Broker, Step, Timer};
use crate::certified::aggregate_of;
use crate::fault::Fault;
use crate::message::{ClientMessage, Nack, ServerMessage, SignedState, StateAnswer, StateAsk};
use crate::statement::{BlsSignatureBytes, State};

/// Questions of clients that are open at once.
const QUERIES_MAX: usize = 1_024;
/// Of them, those that one link asks.
const OF_LINK_MAX: usize = 64;
/// How long one is open once it was asked.
const QUERY: Span = Span::secs(10);
/// Between two of them.
const PACE: Span = Span::millis(110);
/// How long one waits for its turn at most: as long as all before it take.
const TURN: Span = Span::secs(120);

/// What servers answered; who lied once is not heard again.
#[derive(Clone, Debug)]
pub(super) struct Answers<S> {
    of: BTreeMap<NodeId, (S, BlsSignatureBytes)>,
    liars: NodeSet,
    /// Whether equal ones of them are being put together.
    pub(super) combining: bool,
}

impl<S> Default for Answers<S> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), liars: NodeSet::EMPTY, combining: false }
    }
}

impl<S: Clone + Eq> Answers<S> {
    pub(super) fn hear(&mut self, from: NodeId, said: &S, signature: BlsSignatureBytes) {
        if !self.liars.contains(from) {
            self.of.insert(from, (said.clone(), signature));
        }
    }

    /// Equal answers of enough servers, to be put together. None while others are: answers gather meanwhile.
    pub(super) fn votes(
        &mut self,
        enough: impl Fn(NodeSet) -> bool,
    ) -> Option<(S, Vec<(NodeId, BlsSignatureBytes)>)> {
        if self.combining {
            return None;
        }
        let found = self.of.values().find_map(|(said, _)| {
            let equal = self.of.iter().filter(|(_, (other, _))| other == said);
            let votes: Vec<_> = equal.map(|(id, (_, signature))| (*id, *signature)).collect();
            enough(votes.iter().map(|(id, _)| *id).collect()).then(|| (said.clone(), votes))
        });
        self.combining = found.is_some();
        found
    }

    /// Who answered, or is not heard.
    pub(super) fn heard(&self) -> NodeSet {
        self.of.keys().copied().collect::<NodeSet>().or(self.liars)
    }

    pub(super) fn exclude(&mut self, liars: NodeSet) {
        self.combining = false;
        self.liars = self.liars.or(liars);
        self.of.retain(|id, _| !liars.contains(*id));
    }
}

/// A client's question.
#[derive(Clone, Debug)]
struct Query {
    link: NodeId,
    /// When its client asked; once its turn came, when servers were asked.
    since: Time,
    waits: bool,
    answers: Answers<State>,
}

/// Of a question: what its client drew, and the client.
type Key = (u64, u32);

/// Questions that wait for their turn.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// Of each link in order; every link here has one.
    of: BTreeMap<NodeId, VecDeque<Key>>,
    /// The same links, in turn.
    turns: VecDeque<NodeId>,
}

impl Waiting {
    fn push(&mut self, link: NodeId, key: Key) {
        let of = self.of.entry(link).or_default();
        if of.is_empty() {
            self.turns.push_back(link);
        }
        of.push_back(key);
    }

    /// The first question of the link whose turn it is, which comes last then.
    fn pop(&mut self) -> Option<Key> {
        let link = self.turns.pop_front()?;
        let of = self.of.get_mut(&link)?;
        let key = of.pop_front();
        match of.is_empty() {
            true => drop(self.of.remove(&link)),
            false => self.turns.push_back(link),
        }
        key
    }

    fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        self.of.values_mut().for_each(|of| of.retain(&keep));
        self.of.retain(|_, of| !of.is_empty());
        self.turns.retain(|link| self.of.contains_key(link));
    }

    /// Takes the newest question out of the link that has most, which are above `least`.
    fn give_way(&mut self, least: usize) -> Option<(NodeId, Key)> {
        let (link, of) = self.of.iter_mut().max_by_key(|(_, of)| of.len())?;
        let newest = if of.len() > least { of.pop_back() } else { None };
        newest.map(|key| (*link, key))
    }
}

/// Everything that is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    queries: BTreeMap<Key, Query>,
    waiting: Waiting,
    /// Whether servers were asked less than [`PACE`] ago.
    pacing: bool,
}

impl Questions {
    fn of_link(&self, link: NodeId) -> usize {
        self.queries.values().filter(|query| query.link == link).count()
    }

    /// Forgets what nobody answered in time.
    pub(super) fn expire(&mut self, now: Time) {
        self.queries.retain(|_, query| now.since(query.since) < if query.waits { TURN } else { QUERY });
        self.waiting.retain(|key| self.queries.contains_key(key));
    }

    /// Makes room for one more question of `link`. The link whose question has none, if there is one: another, or itself.
    fn make_room(&mut self, link: NodeId) -> Option<NodeId> {
        let own = self.of_link(link);
        if own >= OF_LINK_MAX {
            return Some(link);
        }
        if self.queries.len() < QUERIES_MAX {
            return None;
        }
        // Both have a place then, and whoever gave way does not take it back at once.
        let Some((other, key)) = self.waiting.give_way(own + 1) else { return Some(link) };
        self.queries.remove(&key);
        Some(other)
    }

    /// Has a question wait for its turn, unless it does.
    fn wait(&mut self, link: NodeId, key: Key, now: Time) {
        let fresh = Query { link, since: now, waits: false, answers: Answers::default() };
        let query = self.queries.entry(key).or_insert(fresh);
        query.since = now;
        if query.waits && query.link == link {
            return;
        }
        if core::mem::replace(&mut query.waits, true) {
            // It came by another link before.
            self.waiting.retain(|waiting| *waiting != key);
        }
        query.link = link;
        self.waiting.push(link, key);
    }

    fn remove(&mut self, key: Key) {
        if self.queries.remove(&key).is_some_and(|query| query.waits) {
            self.waiting.retain(|waiting| *waiting != key);
        }
    }
}

impl Broker {
    pub(super) fn on_query(&mut self, link: NodeId, nonce: u64, id: u32, turn: &mut Step<'_>) {
        if id >= self.trusted {
            Self::nack(link, Nack::NotInDirectory, super::HEIGHTS, turn);
        } else {
            let key = (nonce, id);
            let known = self.questions.queries.get(&key).is_some_and(|query| query.link == link);
            let without = if known { None } else { self.questions.make_room(link) };
            if let Some(without) = without {
                Self::nack(without, Nack::Busy, QUERY, turn);
            }
            if without != Some(link) {
                self.questions.wait(link, key, turn.now());
                self.ask_state(turn);
            }
        }
    }

    /// Servers can be asked about the next client.
    pub(super) fn on_ask(&mut self, turn: &mut Step<'_>) {
        self.questions.pacing = false;
        self.ask_state(turn);
    }

    fn ask_state(&mut self, turn: &mut Step<'_>) {
        if self.questions.pacing {
            return;
        }
        while let Some(key) = self.questions.waiting.pop() {
            let Some(query) = self.questions.queries.get_mut(&key) else { continue };
            (query.waits, query.since) = (false, turn.now());
            self.questions.pacing = true;
            turn.arm(Timer::Ask, PACE);
            let (nonce, id) = key;
            return Self::ask_servers(self.servers(), ServerMessage::StateAsk(StateAsk { nonce, id }), turn);
        }
    }

    pub(super) fn on_state(&mut self, from: NodeId, signed: &SignedState, turn: &mut Step<'_>) {
        let said = &signed.statement;
        let key = (said.nonce, said.id);
        if let Some(query) = self.questions.queries.get_mut(&key) {
            query.answers.hear(from, said, signed.signature);
            self.combine_states(key, turn);
        }
    }

    /// Answers to clients carry a certificate of a height, and there is one now.
    pub(super) fn answer_queries(&mut self, turn: &mut Step<'_>) {
        let waiting: Vec<Key> = self.questions.queries.keys().copied().collect();
        waiting.into_iter().for_each(|key| self.combine_states(key, turn));
    }

    fn combine_states(&mut self, key: Key, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        let Some(query) = self.questions.queries.get_mut(&key) else { return };
        if let Some((said, votes)) = query.answers.votes(|set| quorums.has_correct(set)) {
            self.compute(turn, Task::States(said, votes));
        }
    }

    pub(super) fn state_proven(&mut self, state: &State, combined: Combined<State>, turn: &mut Step<'_>) {
        let key = (state.nonce, state.id);
        let Some(query) = self.questions.queries.get_mut(&key) else { return };
        match combined {
            Ok(certificate) => {
                let aggregate = aggregate_of(&certificate, &self.config.cluster);
                let (Some(aggregate), Some(height)) = (aggregate, self.shown.clone()) else {
                    query.answers.combining = false;
                    return;
                };
                let answer = StateAnswer { next_k: state.next_k, tag: state.tag, aggregate, height };
                let link = query.link;
                self.questions.remove(key);
                Self::tell(link, ClientMessage::State(Box::new(answer)), turn);
            }
            Err(liars) => {
                liars.iter().for_each(|liar| turn.blame(liar, Fault::ForgedState));
                query.answers.exclude(liars);
                if !liars.is_empty() {
                    self.combine_states(key, turn);
                }
            }
        }
    }
}
