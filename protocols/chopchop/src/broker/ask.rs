//! Questions to servers, whose equal answers are put together: heights, and where clients stand (3.2, 4.2, D16).
//!
//! *Bounds.* One height at a time, 1,024 clients' questions, each for 10 s.

use std::collections::BTreeMap;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::job::{Combined, Task};
use super::{Broker, Step};
use crate::certificate::HeightCertificate;
use crate::certified::aggregate_of;
use crate::fault::Fault;
use crate::message::{ClientMessage, Nack, ServerMessage, SignedHeight, SignedState, StateAnswer, StateAsk};
use crate::statement::{BlsSignatureBytes, Height, State};

/// Questions of clients that are open at once.
const QUERIES_MAX: usize = 1_024;
/// How long one is open.
const QUERY: Span = Span::secs(10);

/// What one server answered.
type Answers<S> = BTreeMap<NodeId, (S, BlsSignatureBytes)>;

/// A client's question.
#[derive(Clone, Debug)]
struct Query {
    link: NodeId,
    since: Time,
    answers: Answers<State>,
    combining: bool,
}

/// Everything that is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    /// The height that is asked for, and who signed it.
    height: Option<(u64, Time, Answers<Height>)>,
    combining: bool,
    queries: BTreeMap<(u64, u32), Query>,
}

impl Questions {
    /// Forgets what nobody answered in time.
    pub(super) fn expire(&mut self, now: Time) {
        self.queries.retain(|_, query| now.since(query.since) < QUERY);
        if self.height.as_ref().is_some_and(|(_, since, _)| now.since(*since) >= Span::secs(2)) {
            self.height = None;
            self.combining = false;
        }
    }
}

impl Broker {
    /// The height of the certificate that can be shown.
    pub(super) fn proven_height(&self) -> u64 {
        self.shown.as_ref().map_or(1, |shown| shown.statement.height)
    }

    /// Asks every server to sign `height`, unless one as high is asked for or shown.
    pub(super) fn ask_height(&mut self, height: u64, turn: &mut Step<'_>) {
        let asked = self.questions.height.as_ref().map_or(0, |(asked, ..)| *asked);
        let shown = self.shown.as_ref().map_or(0, |shown| shown.statement.height);
        if height <= asked.max(shown) || self.questions.combining {
            return;
        }
        self.questions.height = Some((height, turn.now(), BTreeMap::new()));
        Self::ask_servers(self.servers(), ServerMessage::HeightAsk(Height { height }), turn);
    }

    pub(super) fn on_height(&mut self, from: NodeId, signed: &SignedHeight, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        let Questions { height, combining, .. } = &mut self.questions;
        let Some((asked, _, answers)) = height.as_mut().filter(|_| !*combining) else { return };
        if signed.statement.height != *asked {
            return;
        }
        answers.insert(from, (signed.statement.clone(), signed.signature));
        if quorums.has_correct(answers.keys().copied().collect()) {
            let votes = answers.iter().map(|(id, (_, signature))| (*id, *signature)).collect();
            *combining = true;
            self.compute(turn, Task::Heights(signed.statement.clone(), votes));
        }
    }

    pub(super) fn height_proven(&mut self, combined: Combined<Height>, turn: &mut Step<'_>) {
        self.questions.combining = false;
        match combined {
            Ok(certificate) => {
                self.questions.height = None;
                let statement = certificate.statement.clone();
                let better =
                    self.shown.as_ref().is_none_or(|shown| shown.statement.height < statement.height);
                if let Some(aggregate) = aggregate_of(&certificate, &self.config.cluster).filter(|_| better) {
                    self.height = self.height.max(statement.height);
                    self.shown = Some(HeightCertificate { statement, aggregate });
                }
                self.watch_window(turn);
            }
            Err(liars) => {
                for liar in liars.iter() {
                    turn.blame(liar, Fault::ForgedHeight);
                    if let Some((_, _, answers)) = &mut self.questions.height {
                        answers.remove(&liar);
                    }
                }
            }
        }
    }

    pub(super) fn on_query(&mut self, link: NodeId, nonce: u64, id: u32, turn: &mut Step<'_>) {
        if id >= self.trusted {
            Self::nack(link, Nack::NotInDirectory, super::HEIGHTS, turn);
        } else if self.questions.queries.len() >= QUERIES_MAX {
            Self::nack(link, Nack::Busy, QUERY, turn);
        } else {
            let now = turn.now();
            let fresh = Query { link, since: now, answers: BTreeMap::new(), combining: false };
            self.questions.queries.entry((nonce, id)).or_insert(fresh).link = link;
            Self::ask_servers(self.servers(), ServerMessage::StateAsk(StateAsk { nonce, id }), turn);
        }
    }

    pub(super) fn on_state(&mut self, from: NodeId, signed: &SignedState, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        let said = &signed.statement;
        let Some(query) = self.questions.queries.get_mut(&(said.nonce, said.id)) else { return };
        query.answers.insert(from, (said.clone(), signed.signature));
        let equal = query.answers.iter().filter(|(_, (other, _))| other == said);
        let votes: Vec<_> = equal.map(|(id, (_, signature))| (*id, *signature)).collect();
        if !query.combining && quorums.has_correct(votes.iter().map(|(id, _)| *id).collect()) {
            query.combining = true;
            self.compute(turn, Task::States(said.clone(), votes));
        }
    }

    pub(super) fn state_proven(&mut self, state: &State, combined: Combined<State>, turn: &mut Step<'_>) {
        let key = (state.nonce, state.id);
        let Some(query) = self.questions.queries.get_mut(&key) else { return };
        query.combining = false;
        match combined {
            Ok(certificate) => {
                let aggregate = aggregate_of(&certificate, &self.config.cluster);
                let (Some(aggregate), Some(height)) = (aggregate, self.shown.clone()) else { return };
                let answer = StateAnswer { next_k: state.next_k, tag: state.tag, aggregate, height };
                let link = query.link;
                self.questions.queries.remove(&key);
                Self::tell(link, ClientMessage::State(Box::new(answer)), turn);
            }
            Err(liars) => {
                for liar in liars.iter() {
                    query.answers.remove(&liar);
                    turn.blame(liar, Fault::ForgedState);
                }
            }
        }
    }
}
