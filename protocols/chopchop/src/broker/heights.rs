//! Questions for heights (D16): servers sign those that they delivered.
//!
//! What stores say of themselves is what they accepted, so a question may come before its delivery, and be lost on a server
//! that has not even accepted it. Each height is therefore a question of its own, which keeps no other from being asked, and
//! which is asked again where no answer came.
//!
//! *Bounds.* Eight heights, each for 10 s after it was asked for first; one certificate is put together at a time.

use std::collections::BTreeMap;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::ask::Answers;
use super::job::{Combined, Task};
use super::{Broker, Step};
use crate::certificate::HeightCertificate;
use crate::certified::aggregate_of;
use crate::fault::Fault;
use crate::message::{ServerMessage, SignedHeight};
use crate::statement::Height;

/// Heights that are asked for at once.
const OPEN_MAX: usize = 8;
/// How long one is asked for.
const OPEN: Span = Span::secs(10);
/// Whoever did not answer is asked again after so long, or when the height is known to be delivered.
const AGAIN: Span = Span::millis(200);

/// A height that is asked for.
#[derive(Clone, Debug)]
struct Question {
    since: Time,
    /// When servers were asked last.
    asked: Time,
    answers: Answers<Height>,
}

/// The heights that are asked for, and who signed them.
#[derive(Clone, Debug, Default)]
pub(super) struct Heights(BTreeMap<u64, Question>);

impl Heights {
    /// Forgets what nobody answered in time.
    pub(super) fn expire(&mut self, now: Time) {
        self.0.retain(|_, question| question.answers.combining || now.since(question.since) < OPEN);
    }

    /// Makes room for one more. The lowest stay, for they are delivered first, and each that is proven takes all below it
    /// along.
    fn make_room(&mut self) {
        if self.0.len() >= OPEN_MAX {
            let highest = self.0.iter().rev().find(|(_, question)| !question.answers.combining);
            if let Some(height) = highest.map(|(height, _)| *height) {
                self.0.remove(&height);
            }
        }
    }
}

impl Broker {
    /// The height of the certificate that can be shown.
    pub(super) fn proven_height(&self) -> u64 {
        self.shown.as_ref().map_or(1, |shown| shown.statement.height)
    }

    /// Asks every server to sign `height`, unless one as high is shown or it was asked for a moment ago.
    pub(super) fn ask_height(&mut self, height: u64, turn: &mut Step<'_>) {
        self.ask_height_after(AGAIN, height, turn);
    }

    /// The same for one that f + 1 servers delivered: those that knew nothing of it when they were asked know it now.
    pub(super) fn ask_delivered_height(&mut self, height: u64, turn: &mut Step<'_>) {
        self.ask_height_after(Span::ZERO, height, turn);
    }

    fn ask_height_after(&mut self, pause: Span, height: u64, turn: &mut Step<'_>) {
        if self.shown.as_ref().is_some_and(|shown| height <= shown.statement.height) {
            return;
        }
        let now = turn.now();
        let heights = &mut self.heights;
        if heights.0.get(&height).is_some_and(|question| now.since(question.asked) < pause) {
            return;
        }
        if !heights.0.contains_key(&height) {
            heights.make_room();
        }
        let fresh = Question { since: now, asked: now, answers: Answers::default() };
        let question = heights.0.entry(height).or_insert(fresh);
        question.asked = now;
        let silent = self.config.cluster.roster().all().minus(question.answers.heard());
        if !silent.is_empty() && !question.answers.combining {
            Self::ask_servers(silent, ServerMessage::HeightAsk(Height { height }), turn);
        }
    }

    /// Asks for every open height again where no answer came.
    pub(super) fn ask_heights_again(&mut self, turn: &mut Step<'_>) {
        let open: Vec<u64> = self.heights.0.keys().copied().collect();
        open.into_iter().for_each(|height| self.ask_height(height, turn));
    }

    /// Asks a server that was not reached before.
    pub(super) fn ask_heights_of(&self, server: NodeId, turn: &mut Step<'_>) {
        for (height, question) in &self.heights.0 {
            if !question.answers.heard().contains(server) {
                Self::ask_servers(server, ServerMessage::HeightAsk(Height { height: *height }), turn);
            }
        }
    }

    pub(super) fn on_height(&mut self, from: NodeId, signed: &SignedHeight, turn: &mut Step<'_>) {
        if let Some(question) = self.heights.0.get_mut(&signed.statement.height) {
            question.answers.hear(from, &signed.statement, signed.signature);
            self.combine_heights(turn);
        }
    }

    /// Puts together what enough servers signed, the highest first, if nothing else is.
    fn combine_heights(&mut self, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        if self.heights.0.values().any(|question| question.answers.combining) {
            return;
        }
        let mut highest = self.heights.0.values_mut().rev();
        let ready = highest.find_map(|question| question.answers.votes(|set| quorums.has_correct(set)));
        if let Some((said, votes)) = ready {
            self.compute(turn, Task::Heights(said, votes));
        }
    }

    pub(super) fn height_proven(&mut self, combined: Combined<Height>, turn: &mut Step<'_>) {
        match combined {
            Ok(certificate) => {
                let statement = certificate.statement.clone();
                self.heights.0.retain(|height, _| *height > statement.height);
                let better =
                    self.shown.as_ref().is_none_or(|shown| shown.statement.height < statement.height);
                if let Some(aggregate) = aggregate_of(&certificate, &self.config.cluster).filter(|_| better) {
                    self.height = self.height.max(statement.height);
                    self.shown = Some(HeightCertificate { statement, aggregate });
                    self.answer_queries(turn);
                }
                self.combine_heights(turn);
                self.watch_window(turn);
            }
            Err(liars) => {
                liars.iter().for_each(|liar| turn.blame(liar, Fault::ForgedHeight));
                self.heights.0.values_mut().for_each(|question| question.answers.exclude(liars));
                if !liars.is_empty() {
                    self.combine_heights(turn);
                }
            }
        }
    }
}
