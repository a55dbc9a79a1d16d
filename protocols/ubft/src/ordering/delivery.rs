//! What was executed, as entries: each at its position, given to the user in order, and no more of them than it may have unapplied.
//!
//! *Bounds.* The entries of one slot wait, and a number of empty ones before them: the next slot is executed once all are given.

use std::collections::VecDeque;

use synod_machine::Wall;
use synod_machine::broadcast::{Entry, Origin, Position};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::batch::Slot;

/// Counted, and not given yet.
#[derive(Debug)]
enum Counted {
    /// So many slots in which nothing was executed.
    Empty { count: u64, time: Wall },
    /// A request.
    Entry(Entry),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Delivery {
    me: NodeId,
    ahead_max: u64,
    /// The next slot to count, the position of the last entry below it, and agreed time there.
    slot: Slot,
    counted: u64,
    time: Wall,
    waiting: VecDeque<Counted>,
    /// The position of the first that waits, or would.
    next: u64,
    /// A slot that is executed once its entries are given, and its number of requests.
    executing: Option<(Slot, usize)>,
    /// The last position that the user was given, or has, and the last one that it applied.
    delivered: u64,
    applied: u64,
    /// The user takes the state at this position.
    jumping: Option<u64>,
}

impl Delivery {
    pub(super) const fn new(me: NodeId, ahead_max: u64, resume: Position) -> Self {
        Self {
            me,
            ahead_max,
            slot: Slot(0),
            counted: 0,
            time: Wall(0),
            waiting: VecDeque::new(),
            next: 1,
            executing: None,
            delivered: resume.0,
            applied: resume.0,
            jumping: None,
        }
    }

    pub(super) const fn counted(&self) -> u64 {
        self.counted
    }

    pub(super) const fn time(&self) -> Wall {
        self.time
    }

    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) const fn applied(&self) -> u64 {
        self.applied
    }

    /// Nothing was executed in the slots below this one that were not counted: each is one entry of the layer's own.
    pub(super) fn skip_to(&mut self, slot: Slot) {
        let count = slot.0.saturating_sub(self.slot.0);
        if count == 0 {
            return;
        }
        self.slot = slot;
        self.counted = self.counted.saturating_add(count);
        let time = self.time;
        match self.waiting.back_mut() {
            Some(Counted::Empty { count: more, time: of }) if *of == time => {
                *more = more.saturating_add(count)
            }
            _ => self.waiting.push_back(Counted::Empty { count, time }),
        }
    }

    /// The requests of a slot: the position of each is told to `place`, which knows where it came from.
    pub(super) fn count(
        &mut self,
        (slot, time): (Slot, Wall),
        payloads: Vec<Bytes>,
        mut place: impl FnMut(usize, Position) -> Origin,
    ) {
        self.skip_to(slot);
        assert!(self.executing.is_none(), "one slot is executed at a time");
        (self.slot, self.time) = (Slot(slot.0.saturating_add(1)), time);
        let count = payloads.len();
        self.executing = Some((slot, count));
        for (at, payload) in payloads.into_iter().enumerate() {
            self.counted = self.counted.saturating_add(1);
            let position = Position(self.counted);
            let (origin, last) = (place(at, position), at.saturating_add(1) == count);
            let entry = Entry { position, time, last, origin, payload, proof: None };
            self.waiting.push_back(Counted::Entry(entry));
        }
    }

    /// The next entry, if the user may have it. What it has already is let go.
    pub(super) fn give(&mut self) -> Option<Entry> {
        self.let_go();
        let is_next = self.next == self.delivered.saturating_add(1) && self.jumping.is_none();
        if !is_next || self.delivered.saturating_sub(self.applied) >= self.ahead_max {
            return None;
        }
        let entry = match self.waiting.front_mut()? {
            Counted::Empty { count, time } => {
                let (position, time, origin) = (Position(self.next), *time, Origin::Member(self.me));
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.waiting.pop_front();
                }
                Entry { position, time, last: true, origin, payload: Bytes::new(), proof: None }
            }
            Counted::Entry(_) => match self.waiting.pop_front()? {
                Counted::Entry(entry) => entry,
                Counted::Empty { .. } => unreachable!("the first is an entry"),
            },
        };
        assert_eq!(entry.position.0, self.next, "positions have no hole");
        (self.delivered, self.next) = (self.next, self.next.saturating_add(1));
        Some(entry)
    }

    fn let_go(&mut self) {
        let has = self.delivered.max(self.jumping.unwrap_or(0));
        while self.next <= has {
            match self.waiting.front_mut() {
                None => return,
                Some(Counted::Empty { count, .. }) => {
                    let over = (*count).min(has.saturating_sub(self.next).saturating_add(1));
                    *count = count.saturating_sub(over);
                    self.next = self.next.saturating_add(over);
                    if *count == 0 {
                        self.waiting.pop_front();
                    }
                }
                Some(Counted::Entry(_)) => {
                    self.waiting.pop_front();
                    self.next = self.next.saturating_add(1);
                }
            }
        }
    }

    /// The slot whose entries are all given, and how many results it has; once.
    pub(super) fn executed(&mut self) -> Option<(Slot, usize)> {
        self.executing.take_if(|_| self.waiting.is_empty())
    }

    /// The state is another one: all slots below `slot` are executed, `position` is the last one there.
    pub(super) fn restart(&mut self, slot: Slot, position: Position, time: Wall) {
        (self.slot, self.counted, self.time) = (slot, position.0, time);
        self.waiting.clear();
        self.executing = None;
        self.next = position.0.saturating_add(1);
    }

    /// The lowest position at which the user's state is good for something, where it has none: what lies between is not here.
    pub(super) fn missing(&self) -> Option<u64> {
        let last = self.next.saturating_sub(1);
        (last > self.delivered && self.jumping.is_none_or(|jumping| jumping < last)).then_some(last)
    }

    /// The position that the user was given last, or is to take.
    pub(super) fn reaches(&self) -> u64 {
        self.delivered.max(self.jumping.unwrap_or(0))
    }

    pub(super) const fn jump(&mut self, position: Position) {
        self.jumping = Some(position.0);
    }

    /// The user applied everything up to a position. False where it was never given that much.
    pub(super) fn apply(&mut self, position: Position) -> bool {
        if position.0 > self.reaches() {
            return false;
        }
        if self.jumping.is_some_and(|jumping| jumping <= position.0) {
            self.jumping = None;
            self.delivered = self.delivered.max(position.0);
        }
        if position.0 > self.delivered {
            // It is between what it had and what it is to take.
            return false;
        }
        self.applied = self.applied.max(position.0);
        true
    }

    pub(super) fn bytes(&self) -> u64 {
        let of = |counted: &Counted| match counted {
            Counted::Empty { .. } => 0,
            Counted::Entry(entry) => entry.payload.len() as u64,
        };
        self.waiting.iter().map(|counted| of(counted) + 128).sum()
    }

    pub(super) fn invariants(&self) {
        assert!(self.applied <= self.delivered, "what was not given is not applied");
        assert!(self.next <= self.counted.saturating_add(1), "what is given was counted");
    }
}
