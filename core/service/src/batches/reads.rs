//! Reads of executed state: of a height at least, so that who holds a certificate of a height reads what it did there.
//!
//! There is no barrier beside a Chop Chop server, so [`ReadMode::Quorum`] is answered as not understood: a read names the
//! height that it needs instead, and is answered between two batches once that height is executed.

use std::collections::VecDeque;

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, Limits, Wire, wire};

use super::BatchExecutor;
use crate::executor::answer;
use crate::lanes::LaneApp;
use crate::message::{ClientMessage, Query, ReadMode};

/// Longest question of an application.
pub const ASK_MAX: usize = 4 << 10;
/// How far ahead of what is executed a read may wait.
const AHEAD_MAX: u64 = 65_536;
/// Reads of one peer that may wait.
const WAITING_MAX: usize = 64;

wire! {
    /// What is asked of a batch executor: the question of a [`Query`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum BatchQuestion {
        /// Asks the application once height `since` is executed.
        0 = Ask {
            /// The height at least; 0 for the state as it is.
            since: u64,
            /// The application's own encoding of the question.
            question: Blob<ASK_MAX>,
        },
        /// The code of the operation of a client at a height: one byte; none when it is not known any more, or was none.
        1 = Result {
            /// The client.
            id: u32,
            /// The height.
            height: u64,
        },
        /// Where this executor stands: a [`BatchStanding`].
        2 = Standing,
    }

    /// Where a batch executor stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BatchStanding {
        /// The height executed.
        pub height: u64,
        /// Position of the newest durable checkpoint; 0 at first.
        pub checkpoint: Position,
        /// Its height.
        pub checkpoint_height: u64,
        /// Its root: the Merkle root over the chunks of the state.
        pub root: Hash,
    }
}

impl BatchQuestion {
    const fn since(&self) -> u64 {
        match self {
            Self::Ask { since, .. } => *since,
            Self::Result { height, .. } => *height,
            Self::Standing => 0,
        }
    }
}

/// Reads that wait for a height.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: VecDeque<(NodeId, Query, BatchQuestion)>,
}

impl Reads {
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.waiting.retain(|(from, ..)| *from != peer);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|(_, query, _)| 256 + 2 * query.question.len() as u64).sum()
    }
}

impl<P: LaneApp> BatchExecutor<P> {
    /// A read. The client asks others when it is dropped.
    pub(super) fn on_query(&mut self, from: NodeId, query: Query, turn: &mut Turn<'_, Self>) {
        let read = BatchQuestion::decode(query.question.bytes().clone(), &Limits::default()).ok();
        let read = read.filter(|read| read.since() <= self.height.saturating_add(AHEAD_MAX));
        let Some(read) = read.filter(|_| query.mode == ReadMode::Local) else {
            let answer = answer(self.settings.own, &query, self.position, None);
            return turn.send(from, ClientMessage::Answer(answer));
        };
        let waiting = &mut self.reads.waiting;
        if waiting.iter().filter(|(peer, ..)| *peer == from).count() >= WAITING_MAX {
            return;
        }
        if waiting.len() >= self.settings.limits.reads as usize {
            waiting.pop_front();
        }
        waiting.push_back((from, query, read));
        if self.work.is_none() && self.install.is_none() {
            self.answer_reads(turn);
        }
    }

    /// Between two batches: answers what has its height.
    pub(super) fn answer_reads(&mut self, turn: &mut Turn<'_, Self>) {
        assert!(self.state.is_home(), "reads are answered between batches");
        if self.reads.waiting.is_empty() {
            return;
        }
        let height = self.height;
        let ready = |(_, _, read): &(NodeId, Query, BatchQuestion)| read.since() <= height;
        let (due, rest): (VecDeque<_>, _) =
            core::mem::take(&mut self.reads.waiting).into_iter().partition(ready);
        self.reads.waiting = rest;
        for (from, query, read) in due {
            let value = self.read(&read);
            let answer = answer(self.settings.own, &query, self.position, value);
            turn.send(from, ClientMessage::Answer(answer));
        }
    }

    fn read(&self, read: &BatchQuestion) -> Option<Bytes> {
        match read {
            BatchQuestion::Ask { question, .. } => self.state.query(question.bytes()),
            BatchQuestion::Result { id, height } => {
                Some(self.results.code(*id, *height).into_iter().collect::<Vec<u8>>().into())
            }
            BatchQuestion::Standing => Some(self.standing().encode()),
        }
    }

    /// Where this executor stands.
    #[must_use]
    pub fn standing(&self) -> BatchStanding {
        let newest = self.kept.newest().map(|kept| &kept.record);
        BatchStanding {
            height: self.height,
            checkpoint: newest.map_or(Position(0), |record| record.position),
            checkpoint_height: newest.map_or(0, |record| record.height),
            root: newest.map_or(Hash::ZERO, |record| record.root),
        }
    }
}
