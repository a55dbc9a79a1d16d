//! Reads (hotstuff 4.10): a quorum of equal values, else a second round, else ordered.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Span, Time, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::latency::back_off;
use super::open::reject;
use super::replies::heard;
use super::{Client, ClientOutput, ClientTimer, Outcome, Rejection, RequestId, Waiting};
use crate::executor::ServiceFault;
use crate::frame::COMMANDS_BYTES_MAX;
use crate::matching::{Heard, Matching, Say, Verdict};
use crate::message::{Answer, ClientMessage, QUESTION_MAX, Query, ReadMode, value_digest};

/// Rounds before a read is ordered.
const ROUNDS: u32 = 2;

/// One read in flight.
#[derive(Debug)]
pub(super) struct Read {
    tag: u64,
    question: Bytes,
    mode: ReadMode,
    fallback: Option<Bytes>,
    due: Time,
    round: u32,
    wait: Span,
    matching: Matching<Hash>,
    /// Who answered in this round, fit or not; and from which position each.
    answered: NodeSet,
    positions: Vec<(NodeId, Position)>,
    /// Whether the accepted value is an answer of the application.
    understood: Vec<(Hash, bool)>,
}

impl Read {
    pub(super) fn new(tag: u64, question: Bytes, mode: ReadMode, fallback: Option<Bytes>, due: Time) -> Self {
        Self {
            tag,
            question,
            mode,
            fallback,
            due,
            round: 0,
            wait: Span::ZERO,
            matching: Matching::default(),
            answered: NodeSet::EMPTY,
            positions: Vec::new(),
            understood: Vec::new(),
        }
    }

    pub(super) fn bodies(&self) -> u64 {
        self.matching.bytes()
    }

    pub(super) fn bytes(&self) -> u64 {
        let ordered = self.fallback.as_ref().map_or(0, |command| command.len() as u64);
        let answers = 64 * (self.positions.len() + self.understood.len()) as u64;
        512 + self.question.len() as u64 + ordered + answers
    }
}

impl Client {
    /// Starts a read.
    pub(super) fn on_query(&mut self, read: Read, deadline: Span, turn: &mut Turn<'_, Self>) {
        let ordered = read.fallback.as_ref().map_or(0, Bytes::len);
        let held: u64 = self.reads.values().map(Read::bytes).sum();
        let why = match () {
            () if self.closed => Some(Rejection::Closed),
            () if deadline == Span::ZERO => Some(Rejection::Malformed),
            () if read.question.len() > QUESTION_MAX || ordered > COMMANDS_BYTES_MAX => {
                Some(Rejection::TooLarge)
            }
            () if self.reads.len() as u64 >= u64::from(self.config.reads) => Some(Rejection::Busy),
            () if held + read.bytes() > self.config.queue_bytes => Some(Rejection::Busy),
            () => None,
        };
        if let Some(why) = why {
            return reject(read.tag, why, turn);
        }
        let id = self.next_read;
        self.next_read += 1;
        self.reads.insert(id, read);
        self.ask_round(id, turn);
    }

    /// Asks everybody, or for a local read one node.
    fn ask_round(&mut self, id: u64, turn: &mut Turn<'_, Self>) {
        let full = self.preferred();
        let nodes = self.config.trust.nodes();
        let first_wait = self.latency.escalate(self.config.escalate_min);
        let Some(mut read) = self.reads.remove(&id) else { return };
        turn.disarm(ClientTimer::Read(id));
        turn.disarm(ClientTimer::ReadDeadline(id));
        // Each round has its own id, so that an answer of an earlier one is not taken for a second answer.
        let id = self.next_read;
        self.next_read += 1;
        turn.arm(ClientTimer::ReadDeadline(id), read.due.since(turn.now()));
        read.wait = if read.round == 0 { first_wait } else { back_off(read.wait, turn.rng()) };
        read.round += 1;
        read.matching = Matching::default();
        read.answered = NodeSet::EMPTY;
        read.positions.clear();
        read.understood.clear();
        let Ok(question) = Blob::try_from(read.question.clone()) else {
            unreachable!("its size was checked when it was taken")
        };
        let query = Query { id, mode: read.mode, full: full.member().unwrap_or_default(), question };
        let to = if read.mode == ReadMode::Local { NodeSet::only(full) } else { nodes };
        turn.arm(ClientTimer::Read(id), read.wait);
        for node in to.iter() {
            turn.send(node, ClientMessage::Query(query.clone()));
        }
        self.reads.insert(id, read);
    }

    /// One node's answer.
    pub(super) fn on_answer(&mut self, from: NodeId, answer: Answer, turn: &mut Turn<'_, Self>) {
        let Answer { id, executed, understood, value } = answer;
        let (say, body) = heard(value, |value| value_digest(understood, value));
        let room = self.config.bodies_bytes.saturating_sub(self.bodies_held());
        let (floor, trust) = (self.floor, &self.config.trust);
        let Some(read) = self.reads.get_mut(&id) else { return };
        let first = read.answered.insert(from);
        if read.mode == ReadMode::Local || executed >= floor {
            let body = body.filter(|body| body.len() as u64 <= room);
            if let (Some(_), Say::Result(digest), true) = (&body, say, first) {
                read.understood.push((digest, understood));
            }
            // A question that arrives twice is answered twice, the second time from a later state: the first result counts,
            // and another one is a lie only about the same state.
            let again = read.positions.contains(&(from, executed));
            match read.matching.hear(from, say, body) {
                Heard::Counted if first => read.positions.push((from, executed)),
                Heard::Equivocated if again => {
                    turn.blame(from, ServiceFault::EquivocatedResult(Bytes::new()));
                }
                Heard::Counted | Heard::Equivocated => {}
            }
        }
        let local = read.mode == ReadMode::Local;
        // Everybody answered: waiting longer helps nobody in the first rounds; later ones keep their pace.
        let over = read.answered == trust.nodes() && (read.round < ROUNDS || read.fallback.is_some());
        match read.matching.verdict(|set| if local { !set.is_empty() } else { trust.reads(set) }) {
            Verdict::Accepted(digest, value) => self.accept_read(id, digest, value, turn),
            Verdict::Open | Verdict::Bodiless(_) | Verdict::Gone(_) if over => self.on_read_late(id, turn),
            _ => {}
        }
    }

    fn accept_read(&mut self, id: u64, digest: Hash, value: Bytes, turn: &mut Turn<'_, Self>) {
        let Some(read) = self.reads.get(&id) else { return };
        let by = read.matching.agreeing(digest);
        let reached = read.positions.iter().filter(|(node, _)| by.contains(*node)).map(|(_, at)| *at);
        let position = reached.min().unwrap_or_default();
        let understood = read.understood.iter().any(|(of, understood)| *of == digest && *understood);
        let outcome = if understood {
            Outcome::Accepted { value, position, by }
        } else {
            Outcome::Rejected(Rejection::NotUnderstood)
        };
        self.end_read(id, outcome, turn);
    }

    /// The round is over without a quorum of equal answers: another, or the order decides.
    pub(super) fn on_read_late(&mut self, id: u64, turn: &mut Turn<'_, Self>) {
        let Some(read) = self.reads.get(&id) else { return };
        if !read.answered.is_empty() {
            self.missed = self.missed.or(self.config.trust.nodes().minus(read.answered));
        }
        if read.round >= ROUNDS && read.mode == ReadMode::Quorum && read.fallback.is_some() {
            self.order_read(id, turn);
        } else {
            self.ask_round(id, turn);
        }
    }

    fn order_read(&mut self, id: u64, turn: &mut Turn<'_, Self>) {
        let Some(read) = self.reads.remove(&id) else { return };
        turn.disarm(ClientTimer::Read(id));
        turn.disarm(ClientTimer::ReadDeadline(id));
        match read.fallback {
            Some(body) if self.has_room(body.len() as u64) => {
                self.enqueue(Waiting { tag: read.tag, body, due: read.due, behind: false }, turn);
            }
            Some(_) => reject(read.tag, Rejection::Busy, turn),
            None => {}
        }
    }

    pub(super) fn on_read_due(&mut self, id: u64, turn: &mut Turn<'_, Self>) {
        self.end_read(id, Outcome::Rejected(Rejection::NoQuorum), turn);
    }

    pub(super) fn end_read(&mut self, id: u64, outcome: Outcome, turn: &mut Turn<'_, Self>) {
        let Some(read) = self.reads.remove(&id) else { return };
        turn.disarm(ClientTimer::Read(id));
        turn.disarm(ClientTimer::ReadDeadline(id));
        let id = RequestId { session: self.session().unwrap_or_default(), sequence: 0 };
        turn.output(ClientOutput::Outcome { tag: read.tag, id, outcome });
    }
}
