//! What nodes answer to items: matching, accepting, naming who contradicts.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Span, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Limits, Wire};

use super::frames::Flight;
use super::latency::WAIT_MAX;
use super::{Client, ClientOutput, Doubt, Outcome, Rejection, RequestId};
use crate::executor::ServiceFault;
use crate::matching::{Heard, Say, Verdict};
use crate::message::{Answered, BODY_MAX, CommandResult, Refused, Reply, ReplyBatch, Results, body_digest};

impl Client {
    /// Replies of one node.
    pub(super) fn on_replies(&mut self, from: NodeId, batch: ReplyBatch, turn: &mut Turn<'_, Self>) {
        let leader = batch.leader.map(NodeId::from).filter(|leader| self.good_nodes().contains(*leader));
        if leader.is_some() && !self.deviants.contains(from) {
            self.leader = leader;
        }
        for reply in batch.replies {
            match reply {
                Reply::Opened { nonce, session } => self.on_opened(from, nonce, session, turn),
                Reply::Executed { session, first, answer } if self.session() == Some(session) => {
                    self.on_executed(from, first, answer, turn);
                }
                Reply::Refused { session: 0, first, why } => self.on_opening_refused(first, why, turn),
                Reply::Refused { session, first, why } if self.session() == Some(session) => {
                    self.on_frame_refused(from, first, why, turn);
                }
                Reply::Executed { .. } | Reply::Refused { .. } => {}
            }
        }
    }

    fn on_executed(&mut self, from: NodeId, first: u64, answer: Answered, turn: &mut Turn<'_, Self>) {
        self.quiet.remove(&from);
        let (say, body) = heard(answer, body_digest);
        let room = self.config.bodies_bytes.saturating_sub(self.bodies_held());
        let body = body.filter(|body| body.len() as u64 <= room);
        let Some(flight) = self.flights.get_mut(&first) else {
            return self.on_late_result(from, first, (say, body), turn);
        };
        if flight.matching.hear(from, say, body) == Heard::Equivocated {
            turn.blame(from, ServiceFault::EquivocatedResult(Bytes::new()));
        }
        self.judge(first, turn);
    }

    /// A result of a frame that is decided: only a contradiction matters.
    fn on_late_result(
        &mut self,
        from: NodeId,
        first: u64,
        (say, body): (Say<Hash>, Option<Bytes>),
        turn: &mut Turn<'_, Self>,
    ) {
        let (Say::Result(digest) | Say::Gone(digest)) = say else { return };
        // A retry that arrives when the results were acknowledged is answered by marks, which name no position.
        let marks = body.and_then(|body| Results::decode(body, &Limits::default()).ok());
        if marks.is_some_and(|marks| marks.position == Position(0)) {
            return;
        }
        if self.decided.get(&first).is_some_and(|decided| *decided != digest) {
            self.name_deviant(from, digest, turn);
        }
    }

    fn on_frame_refused(&mut self, from: NodeId, first: u64, why: Refused, turn: &mut Turn<'_, Self>) {
        let Some(flight) = self.flights.get_mut(&first) else { return };
        flight.matching.hear(from, Say::Refused(why), None);
        let escalated = flight.escalated;
        let heard = !flight.advised.insert(from);
        match why {
            Refused::Busy { .. } | Refused::NotReady if heard => {}
            Refused::Busy { retry_ms } => {
                // What one node advises may be a lie: it delays no longer than the node's silence would.
                let many = self.config.trust.accepts(flight.advised);
                let most = if many { WAIT_MAX } else { flight.wait };
                self.pause(first, Span::millis(u64::from(retry_ms)).min(most), turn);
            }
            // The node catches up; the wait for nodes that say nothing may have grown far beyond that.
            Refused::NotReady if escalated => self.pause(first, self.config.escalate_min, turn),
            _ => {
                self.judge(first, turn);
                // One node's refusal proves nothing: the others are asked.
                if !escalated {
                    self.on_late(first, turn);
                }
            }
        }
    }

    /// Acts on what is known about a frame.
    fn judge(&mut self, first: u64, turn: &mut Turn<'_, Self>) {
        let Some(flight) = self.flights.get(&first) else { return };
        match flight.matching.verdict(|set| self.config.trust.accepts(set)) {
            Verdict::Open => {}
            Verdict::Accepted(digest, body) => self.accept(first, digest, body, turn),
            Verdict::Bodiless(digest) => {
                // The member named for the body gave another result: it will send none.
                if flight.matching.contradicting(digest).contains(flight.full) && !flight.escalated {
                    self.on_late(first, turn);
                }
            }
            Verdict::Gone(_) => self.give_up(first, Doubt::ResultLost, turn),
            Verdict::Refused(why) => self.on_final_refusal(first, why, turn),
        }
    }

    /// Power W refuses. Whether the frame was or will be ordered is another matter, except where no order can make it
    /// execute.
    fn on_final_refusal(&mut self, first: u64, why: Refused, turn: &mut Turn<'_, Self>) {
        match why {
            Refused::UnknownSession => self.lose_session(turn),
            Refused::OutsideWindow | Refused::Reused => self.give_up(first, Doubt::OutsideWindow, turn),
            Refused::BadSignature | Refused::TooLarge => {
                let session = self.session().unwrap_or_default();
                let Some(flight) = self.land(first, turn) else { return };
                for (sequence, tag) in (first..).zip(flight.tags) {
                    let outcome = Outcome::Rejected(Rejection::Refused(why));
                    turn.output(ClientOutput::Outcome { tag, id: RequestId { session, sequence }, outcome });
                }
            }
            Refused::Busy { .. } | Refused::NotReady => unreachable!("these are never final"),
        }
    }

    fn accept(&mut self, first: u64, digest: Hash, body: Bytes, turn: &mut Turn<'_, Self>) {
        let Some(flight) = self.land(first, turn) else { return };
        self.rebase(&flight);
        let session = self.session().unwrap_or_default();
        let by = flight.matching.agreeing(digest);
        if !flight.escalated {
            self.latency.record(turn.now().since(flight.sent));
        }
        let _evicted = self.decided.insert(first, digest);
        for node in flight.matching.contradicting(digest).iter() {
            self.name_deviant(node, digest, turn);
        }
        self.remind(flight.matching.answered(), turn);
        let results = Results::decode(body, &Limits::default()).ok();
        match results.filter(|results| fits(results, session, first, &flight)) {
            Some(results) => self.tell(&flight, results, by, turn),
            // Power W agreed on bytes that are no results: nothing is known of the commands.
            None => tell_all(session, first, &flight, turn),
        }
    }

    fn tell(&mut self, flight: &Flight, results: Results, by: NodeSet, turn: &mut Turn<'_, Self>) {
        let Results { session, first, position, results } = results;
        self.floor = self.floor.max(position);
        for ((sequence, tag), result) in (first..).zip(&flight.tags).zip(results) {
            let id = RequestId { session, sequence };
            let outcome = match result {
                CommandResult::Value(value) => Outcome::Accepted { value: value.into_bytes(), position, by },
                CommandResult::Repeated | CommandResult::Oversize | CommandResult::Forgotten => {
                    Outcome::Unknown(id, Doubt::ResultLost)
                }
                CommandResult::Outside => Outcome::Unknown(id, Doubt::OutsideWindow),
            };
            turn.output(ClientOutput::Outcome { tag: *tag, id, outcome });
        }
    }

    /// A node contradicted what a weak quorum says: it is blamed and asked last.
    pub(super) fn name_deviant(&mut self, node: NodeId, digest: Hash, turn: &mut Turn<'_, Self>) {
        self.deviants.insert(node);
        if self.leader == Some(node) {
            self.leader = None;
        }
        turn.blame(node, ServiceFault::ContradictedResult(Bytes::copy_from_slice(&digest.0)));
    }

    pub(super) fn bodies_held(&self) -> u64 {
        let flights = self.flights.values().map(|flight| flight.matching.bytes()).sum::<u64>();
        flights + self.reads.values().map(super::reads::Read::bodies).sum::<u64>()
    }
}

/// Takes an answer apart; the digest of a body is computed, never believed.
pub(super) fn heard(answer: Answered, digest: impl Fn(&[u8]) -> Hash) -> (Say<Hash>, Option<Bytes>) {
    match answer {
        Answered::Digest(digest) => (Say::Result(digest), None),
        Answered::Gone(digest) => (Say::Gone(digest), None),
        Answered::Body(body) => {
            let body: Blob<BODY_MAX> = body;
            (Say::Result(digest(&body)), Some(body.into_bytes()))
        }
    }
}

fn fits(results: &Results, session: u64, first: u64, flight: &Flight) -> bool {
    results.session == session && results.first == first && results.results.len() == flight.tags.len()
}

fn tell_all(session: u64, first: u64, flight: &Flight, turn: &mut Turn<'_, Client>) {
    for (sequence, tag) in (first..).zip(&flight.tags) {
        let id = RequestId { session, sequence };
        let outcome = Outcome::Unknown(id, Doubt::ResultLost);
        turn.output(ClientOutput::Outcome { tag: *tag, id, outcome });
    }
}
