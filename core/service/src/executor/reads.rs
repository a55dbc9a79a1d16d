//! Reads of executed state (hotstuff 4.10).
//!
//! A quorum read is answered only behind a barrier that was asked after the read arrived: then everything that could
//! have been committed by what this node knew is executed. One barrier serves all reads of a turn.

use std::collections::BTreeMap;

use synod_machine::broadcast::{Position, Submit, Ticket};
use synod_machine::{Span, Turn, planted};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

use super::config::{ExecutorLimits, SLOT_BYTES};
use super::replies::SMALL_MAX;
use super::{Executor, ExecutorOutput, ExecutorTimer};
use crate::app::App;
use crate::message::{Answer, Answered, ClientMessage, Query, ReadMode, value_digest};

/// Reads that wait: for the end of the turn, then for their barrier.
#[derive(Debug, Default)]
pub(super) struct Reads {
    gathering: Vec<(NodeId, Query)>,
    asked: BTreeMap<Ticket, Vec<(NodeId, Query)>>,
    count: u64,
    bytes: u64,
}

impl Reads {
    fn add(&mut self, from: NodeId, query: Query, limits: &ExecutorLimits) -> bool {
        let bytes = query.question.len() as u64;
        let fits = self.count < u64::from(limits.reads) && self.bytes + bytes <= limits.reads_bytes;
        if fits {
            self.count += 1;
            self.bytes += bytes;
            self.gathering.push((from, query));
        }
        fits
    }

    fn take(&mut self, ticket: Ticket) -> Vec<(NodeId, Query)> {
        let reads = self.asked.remove(&ticket).unwrap_or_default();
        self.count -= reads.len() as u64;
        self.bytes -= reads.iter().map(|(_, query)| query.question.len() as u64).sum::<u64>();
        reads
    }

    /// The ordering layer gives no barrier: the clients ask again.
    pub(super) fn drop_barrier(&mut self, ticket: Ticket) {
        drop(self.take(ticket));
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes + self.count * SLOT_BYTES
    }
}

impl<P: App + 'static> Executor<P> {
    /// A read. Over the budget, or while the state is being installed, it is dropped and the client asks others.
    pub(super) fn on_query(&mut self, from: NodeId, query: Query, turn: &mut Turn<'_, Self>) {
        if self.transfer.is_some() {
            return;
        }
        if planted!(K2) || query.mode == ReadMode::Local {
            return self.answer_read(from, &query, turn);
        }
        let first = self.reads.gathering.is_empty();
        if self.reads.add(from, query, &self.settings.limits) && first {
            turn.arm(ExecutorTimer::Reads, Span::ZERO);
        }
    }

    /// The turn in which reads arrived is over: asks one barrier for all of them.
    pub(super) fn on_reads(&mut self, turn: &mut Turn<'_, Self>) {
        if self.reads.gathering.is_empty() {
            return;
        }
        let ticket = self.pool.ticket();
        let gathered = core::mem::take(&mut self.reads.gathering);
        self.reads.asked.insert(ticket, gathered);
        turn.output(ExecutorOutput::Submit(Submit::Barrier(ticket)));
    }

    /// Everything in front of the barrier is executed.
    pub(super) fn answer_reads(&mut self, ticket: Ticket, turn: &mut Turn<'_, Self>) {
        for (from, query) in self.reads.take(ticket) {
            self.answer_read(from, &query, turn);
        }
    }

    fn answer_read(&self, from: NodeId, query: &Query, turn: &mut Turn<'_, Self>) {
        let value = self.app.query(&query.question);
        let answer = answer(self.settings.own, query, self.executed, value);
        turn.send(from, ClientMessage::Answer(answer));
    }
}

/// The answer of member `own` to a read: the value if it is small or this member was named, else its digest.
pub(crate) fn answer(own: NodeId, query: &Query, executed: Position, value: Option<Bytes>) -> Answer {
    let understood = value.is_some();
    let value = value.unwrap_or_default();
    let named = Some(query.full) == own.member();
    let digest = value_digest(understood, &value);
    let value = match Blob::try_from(value) {
        Ok(value) if named || value.len() <= SMALL_MAX => Answered::Body(value),
        Ok(_) => Answered::Digest(digest),
        Err(_) => Answered::Gone(digest),
    };
    Answer { id: query.id, executed, understood, value }
}
