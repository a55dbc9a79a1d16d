//! Delivered entries on their way to execution, in order, each with what is known about its signature.

use std::collections::VecDeque;

use synod_crypto::Hash;
use synod_machine::broadcast::{Entry, Position, Ticket};

use super::config::{COMMAND_BYTES, SLOT_BYTES};
use crate::frame::Item;

/// What is known about an item's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Nobody asked yet.
    Unasked,
    /// A job checks it.
    Asked,
    /// Its client signed it; the item's digest.
    Good(Hash),
    /// Its client did not.
    Bad,
}

/// One entry and its item; `None` for an empty or undecodable payload.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) entry: Entry,
    pub(super) item: Option<Item>,
    pub(super) check: Check,
}

impl Slot {
    fn bytes(&self) -> u64 {
        let commands = match &self.item {
            Some(Item::Frame(frame)) => frame.commands.len() as u64 * COMMAND_BYTES,
            _ => 0,
        };
        SLOT_BYTES + self.entry.payload.len() as u64 + commands
    }
}

/// The entries above the executed position, without holes, and the barriers among them.
#[derive(Debug)]
pub(super) struct Backlog {
    slots: VecDeque<Slot>,
    /// Barriers, each with the position behind which it came.
    barriers: VecDeque<(Position, Ticket)>,
    /// The last position that was delivered.
    delivered: Position,
    /// The last position whose check was asked when its block ended.
    flushed: Position,
    bytes: u64,
}

impl Backlog {
    /// An empty backlog behind `position`.
    pub(super) const fn new(position: Position) -> Self {
        Self {
            slots: VecDeque::new(),
            barriers: VecDeque::new(),
            delivered: position,
            flushed: position,
            bytes: 0,
        }
    }

    /// Appends the next entry.
    pub(super) fn push(&mut self, slot: Slot) {
        let next = Position(self.delivered.0 + 1);
        assert_eq!(slot.entry.position, next, "the ordering layer delivers without holes");
        self.delivered = next;
        self.bytes += slot.bytes();
        self.slots.push_back(slot);
    }

    /// Notes a barrier behind everything delivered so far.
    pub(super) fn push_barrier(&mut self, ticket: Ticket) {
        self.barriers.push_back((self.delivered, ticket));
    }

    /// The next barrier that `executed` has reached.
    pub(super) fn pop_barrier(&mut self, executed: Position) -> Option<Ticket> {
        let (behind, ticket) = self.barriers.front().copied()?;
        if behind > executed {
            return None;
        }
        self.barriers.pop_front();
        Some(ticket)
    }

    pub(super) fn front(&self) -> Option<&Slot> {
        self.slots.front()
    }

    pub(super) fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.bytes -= slot.bytes();
        Some(slot)
    }

    /// The entry of `position`, if it waits.
    pub(super) fn slot_mut(&mut self, position: Position) -> Option<&mut Slot> {
        let front = self.slots.front()?.entry.position;
        let at = position.0.checked_sub(front.0)?;
        self.slots.get_mut(usize::try_from(at).ok()?)
    }

    /// The entries that came since the last call.
    pub(super) fn fresh(&mut self) -> impl Iterator<Item = &mut Slot> {
        let front = self.slots.front().map_or(0, |slot| slot.entry.position.0);
        let skip = (self.flushed.0 + 1).saturating_sub(front);
        self.flushed = self.delivered;
        self.slots.iter_mut().skip(usize::try_from(skip).unwrap_or(usize::MAX))
    }

    /// Whether checks were asked since this entry came.
    pub(super) fn is_flushed(&self, position: Position) -> bool {
        position <= self.flushed
    }

    /// All entries.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.flushed = self.delivered;
        self.slots.iter_mut()
    }

    /// Continues behind `position`: what waited is part of the state installed there. Barriers wait for it.
    pub(super) fn jump(&mut self, position: Position) {
        self.slots.clear();
        self.bytes = 0;
        self.delivered = position;
        self.flushed = position;
        for (behind, _) in &mut self.barriers {
            *behind = position;
        }
    }

    pub(super) const fn delivered(&self) -> Position {
        self.delivered
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.barriers.len() as u64 * 16
    }
}
