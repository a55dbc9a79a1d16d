//! Replies in order: a slot per command, filled in any order, sent from the front.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::resp::{Ask, Protocol, render};

/// The place of a reply in the order of a connection's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);

/// What a result becomes.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// The reply.
    Reply,
    /// The versions of these keys, for WATCH.
    Watch(Vec<Bytes>),
    /// The replies of a transaction; for each queued command the reply that is already known, or `None`.
    Transaction(Vec<Option<Vec<u8>>>),
    /// The replies of these commands, or of the first of them.
    Burst(Vec<Ask>),
}

/// A command that waits for its result.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) purpose: Purpose,
    pub(crate) ordered: bool,
}

#[derive(Debug)]
enum State {
    Waiting(Waiting),
    /// A canonical reply and the dialect it was asked in.
    Ready(Bytes),
}

/// The replies that a connection owes.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Number of the slot at the front.
    first: u64,
    slots: VecDeque<(Protocol, State)>,
    /// Bytes of ready replies behind an unready one.
    held: usize,
    output: BytesMut,
    /// Size of the output's memory: its capacity leaves out what was sent already.
    allocated: usize,
}

/// Memory of the output that is kept between replies, in bytes.
const OUTPUT_KEPT: usize = 16 << 10;
/// Places of replies that are kept between bursts.
const SLOTS_KEPT: usize = 128;

/// The reply in place of bytes that are not a reply.
const UNREADABLE: &[u8] = b"-ERR SYN-9001 the result is not a reply\r\n";

impl Replies {
    /// Number of commands whose reply is not in the output.
    pub(crate) fn owed(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of replies that are not sent.
    pub(crate) fn bytes(&self) -> usize {
        self.held + self.output.len()
    }

    /// Memory held, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.held + self.allocated + self.slots.capacity() * size_of::<(Protocol, State)>()
    }

    pub(crate) fn output(&self) -> &BytesMut {
        &self.output
    }

    /// Forgets the front of the output, which was sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.output.advance(count.min(self.output.len()));
        if self.output.is_empty() && self.allocated > OUTPUT_KEPT {
            self.output = BytesMut::new();
            self.allocated = 0;
        }
    }

    /// Adds a reply that is known at once.
    pub(crate) fn ready(&mut self, protocol: Protocol, reply: &[u8]) {
        if self.slots.is_empty() {
            self.first += 1;
            self.put(protocol, reply);
        } else {
            self.held += reply.len();
            self.slots.push_back((protocol, State::Ready(Bytes::copy_from_slice(reply))));
        }
    }

    /// Adds a reply that will come.
    pub(crate) fn wait(&mut self, protocol: Protocol, purpose: Purpose, ordered: bool) -> Slot {
        self.slots.push_back((protocol, State::Waiting(Waiting { purpose, ordered })));
        Slot(self.first + self.slots.len() as u64 - 1)
    }

    /// Changes whether a waiting command is ordered.
    pub(crate) fn order(&mut self, slot: Slot) {
        if let Some((_, State::Waiting(waiting))) = self.get(slot) {
            waiting.ordered = true;
        }
    }

    /// Changes what the result of a waiting command becomes.
    pub(crate) fn purpose(&mut self, slot: Slot, purpose: Purpose) {
        if let Some((_, State::Waiting(waiting))) = self.get(slot) {
            waiting.purpose = purpose;
        }
    }

    /// Takes out what waits in a slot, to be filled at once; `None` when nothing waits there.
    pub(crate) fn take(&mut self, slot: Slot) -> Option<Waiting> {
        let (_, state) = self.get(slot)?;
        match core::mem::replace(state, State::Ready(Bytes::new())) {
            State::Waiting(waiting) => Some(waiting),
            ready @ State::Ready(_) => {
                *state = ready;
                None
            }
        }
    }

    /// Fills a slot that was taken, and moves what is ready at the front to the output.
    pub(crate) fn fill(&mut self, slot: Slot, reply: Bytes) {
        self.held += reply.len();
        if let Some((_, state)) = self.get(slot) {
            *state = State::Ready(reply);
        }
        while let Some((_, State::Ready(_))) = self.slots.front() {
            let Some((protocol, State::Ready(reply))) = self.slots.pop_front() else { break };
            self.first += 1;
            self.held -= reply.len();
            self.put(protocol, &reply);
        }
        if self.slots.is_empty() && self.slots.capacity() > SLOTS_KEPT {
            self.slots = VecDeque::new();
        }
    }

    fn put(&mut self, protocol: Protocol, reply: &[u8]) {
        if !render(reply, protocol, &mut self.output) {
            self.output.extend_from_slice(UNREADABLE);
        }
        self.allocated = self.allocated.max(self.output.capacity());
    }

    fn get(&mut self, slot: Slot) -> Option<&mut (Protocol, State)> {
        let index = slot.0.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }
}
