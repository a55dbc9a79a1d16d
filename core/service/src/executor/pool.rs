//! Items that were admitted here and are not yet executed, and who waits for them.
//!
//! An item is verified once when it is admitted. When it comes back in the agreed order it is recognised by its
//! bytes, so its signature is not checked again; this takes the place of a cache of verified digests, costs one
//! comparison and no hash. What is admitted stays until it is executed or its session closes.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, PublicKey};
use synod_machine::broadcast::Ticket;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::config::{ExecutorLimits, SLOT_BYTES};
use crate::frame::Item;

/// Connections that can wait for one item: its own, and some that replaced it or repeat its bytes.
const WAITERS_MAX: usize = 4;
/// The part of the pool that openings may take, all together: anybody can make keys for more of them.
const OPENINGS_SHARE: u64 = 8;
/// Advice before anything was measured, and the longest.
const RETRY_MS: u64 = 100;
const RETRY_MS_MAX: u64 = 10_000;

/// The name of an item among those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// Of an opening.
    Open(PublicKey, u64),
    /// Of a frame: session and first sequence.
    Frame(u64, u64),
}

impl Name {
    pub(super) fn of(item: &Item) -> Self {
        match item {
            Item::Open(opening) => Self::Open(opening.key, opening.nonce),
            Item::Frame(frame) => Self::Frame(frame.session, frame.first),
        }
    }

    const fn session(self) -> u64 {
        match self {
            Self::Open(..) => 0,
            Self::Frame(session, _) => session,
        }
    }
}

/// One admitted item.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) payload: Bytes,
    pub(super) digest: Hash,
    pub(super) waiters: Vec<NodeId>,
    /// Whether the client sent it here more than once: then this node answers in full.
    pub(super) repeated: bool,
    ticket: Ticket,
    /// Who brought it first.
    from: NodeId,
}

/// What one session has in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: u64,
    items: u32,
}

/// The items in flight, within the budgets.
#[derive(Debug)]
pub(super) struct Pool {
    items: BTreeMap<Name, Pending>,
    tickets: BTreeMap<Ticket, Name>,
    shares: BTreeMap<u64, Share>,
    /// Openings in flight of each connection.
    openings: BTreeMap<NodeId, u64>,
    /// The items that each connection waits for.
    waiting: BTreeMap<NodeId, BTreeSet<Name>>,
    bytes: u64,
    last_ticket: u64,
    drained: Drained,
}

/// How fast items leave, measured over about a second.
#[derive(Clone, Copy, Debug, Default)]
struct Drained {
    since: Time,
    bytes: u64,
    bytes_per_s: u64,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self {
            items: BTreeMap::new(),
            tickets: BTreeMap::new(),
            shares: BTreeMap::new(),
            openings: BTreeMap::new(),
            waiting: BTreeMap::new(),
            bytes: 0,
            last_ticket: 0,
            drained: Drained { since: Time::ZERO, bytes: 0, bytes_per_s: 0 },
        }
    }

    /// The item in flight under this name.
    pub(super) fn get(&self, name: Name) -> Option<&Pending> {
        self.items.get(&name)
    }

    /// A fresh ticket; barriers use tickets of the same numbering.
    pub(super) const fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    /// Whether an item of `bytes` bytes of `session` fits the budgets (hotstuff 4.14): the session's and the global
    /// one, and from half of the global one on the session's fair share.
    pub(super) fn fits(&self, session: u64, bytes: u64, limits: &ExecutorLimits) -> bool {
        let share = self.shares.get(&session).copied().unwrap_or_default();
        let fair = limits.pool_bytes / self.shares.len().max(1) as u64;
        let scarce = self.bytes + bytes > limits.pool_bytes / 2;
        let session_bytes = if scarce { limits.session_bytes.min(fair) } else { limits.session_bytes };
        self.bytes + bytes <= limits.pool_bytes
            && (self.items.len() as u64) < u64::from(limits.pool_items)
            && share.items < limits.session_items
            && share.bytes + bytes <= session_bytes
    }

    /// Whether an opening of `bytes` bytes that `from` brings fits: the pool, the share of all openings, and from half
    /// of that on the fair share of its connection.
    pub(super) fn fits_opening(&self, from: NodeId, bytes: u64, limits: &ExecutorLimits) -> bool {
        let share = self.shares.get(&0).copied().unwrap_or_default();
        let most = (u64::from(limits.pool_items) / OPENINGS_SHARE).max(1);
        let own = self.openings.get(&from).copied().unwrap_or_default();
        let fair = (most / self.openings.len().max(1) as u64).max(1);
        self.bytes + bytes <= limits.pool_bytes
            && (self.items.len() as u64) < u64::from(limits.pool_items)
            && u64::from(share.items) < most
            && share.bytes + bytes <= limits.pool_bytes / OPENINGS_SHARE
            && (u64::from(share.items) < most / 2 || own < fair)
    }

    /// Queued bytes over drain rate, in milliseconds.
    pub(super) fn retry_ms(&self) -> u32 {
        let ms = self.bytes.saturating_mul(1_000).checked_div(self.drained.bytes_per_s).unwrap_or(RETRY_MS);
        u32::try_from(ms.clamp(10, RETRY_MS_MAX)).unwrap_or(u32::MAX)
    }

    /// Takes an item in; the caller checked that it fits and is not there.
    pub(super) fn admit(&mut self, name: Name, payload: Bytes, digest: Hash, from: NodeId) -> Ticket {
        let ticket = self.ticket();
        let bytes = payload.len() as u64;
        let share = self.shares.entry(name.session()).or_default();
        share.bytes += bytes;
        share.items += 1;
        self.bytes += bytes;
        self.tickets.insert(ticket, name);
        if let Name::Open(..) = name {
            *self.openings.entry(from).or_default() += 1;
        }
        self.waiting.entry(from).or_default().insert(name);
        let pending = Pending { payload, digest, waiters: vec![from], repeated: false, ticket, from };
        let before = self.items.insert(name, pending);
        assert!(before.is_none(), "an item is admitted once while it is in flight");
        ticket
    }

    /// The client sent the item again: `from` waits for it too, and this node will answer in full.
    pub(super) fn repeat(&mut self, name: Name, from: NodeId) {
        let Some(pending) = self.items.get_mut(&name) else { return };
        pending.repeated = true;
        if !pending.waiters.contains(&from) {
            let gone = (pending.waiters.len() == WAITERS_MAX).then(|| pending.waiters.remove(0));
            pending.waiters.push(from);
            self.waiting.entry(from).or_default().insert(name);
            if let Some(gone) = gone {
                self.stop_waiting(gone, name);
            }
        }
    }

    fn stop_waiting(&mut self, guest: NodeId, name: Name) {
        if let Some(names) = self.waiting.get_mut(&guest) {
            names.remove(&name);
            if names.is_empty() {
                self.waiting.remove(&guest);
            }
        }
    }

    /// Takes the item out: it was executed, refused, or its session closed.
    pub(super) fn settle(&mut self, name: Name) -> Option<Pending> {
        let pending = self.items.remove(&name)?;
        self.tickets.remove(&pending.ticket);
        pending.waiters.iter().for_each(|waiter| self.stop_waiting(*waiter, name));
        if let Name::Open(..) = name
            && let Some(count) = self.openings.get_mut(&pending.from)
        {
            *count -= 1;
            if *count == 0 {
                self.openings.remove(&pending.from);
            }
        }
        let bytes = pending.payload.len() as u64;
        self.bytes -= bytes;
        if let Some(share) = self.shares.get_mut(&name.session()) {
            share.bytes -= bytes;
            share.items -= 1;
            if share.items == 0 {
                self.shares.remove(&name.session());
            }
        }
        Some(pending)
    }

    /// The name of the item that was submitted under this ticket.
    pub(super) fn name(&self, ticket: Ticket) -> Option<Name> {
        self.tickets.get(&ticket).copied()
    }

    /// The names in flight of one session.
    pub(super) fn of_session(&self, session: u64) -> Vec<Name> {
        let range = Name::Frame(session, 0)..=Name::Frame(session, u64::MAX);
        self.items.range(range).map(|(name, _)| *name).collect()
    }

    /// All names in flight.
    pub(super) fn names(&self) -> Vec<Name> {
        self.items.keys().copied().collect()
    }

    /// Counts what execution took off the order, for [`Pool::retry_ms`].
    pub(super) fn drain(&mut self, bytes: u64, now: Time) {
        self.drained.bytes += bytes;
        let span = now.since(self.drained.since);
        if span >= Span::secs(1) {
            // An idle time before the first item says nothing about the speed.
            let busy = span.min(Span::secs(2));
            let rate = u128::from(self.drained.bytes) * 1_000_000_000 / u128::from(busy.0);
            let bytes_per_s = u64::try_from(rate).unwrap_or(u64::MAX);
            self.drained = Drained { since: now, bytes: 0, bytes_per_s };
        }
    }

    /// The connection of `guest` is gone; what it waited for is executed all the same.
    pub(super) fn forget(&mut self, guest: NodeId) {
        for name in self.waiting.remove(&guest).unwrap_or_default() {
            if let Some(pending) = self.items.get_mut(&name) {
                pending.waiters.retain(|waiter| *waiter != guest);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.items.len()
    }

    pub(super) const fn payload_bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.items.len() as u64 * SLOT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, Pool};
    use synod_crypto::Hash;
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;
    use synod_wire::Bytes;

    fn with_queued(bytes: usize) -> Pool {
        let mut pool = Pool::new();
        pool.admit(Name::Frame(1, 1), Bytes::from(vec![0; bytes]), Hash::ZERO, NodeId(9));
        pool
    }

    #[test]
    fn the_advice_to_come_back_is_what_is_queued_over_the_speed_at_which_it_leaves() {
        let mut pool = with_queued(50_000);
        assert_eq!(pool.retry_ms(), 100, "nothing was measured yet");
        pool.drain(60_000, Time::ZERO + Span::millis(400));
        assert_eq!(pool.retry_ms(), 100, "not yet a second");
        pool.drain(40_000, Time::ZERO + Span::secs(1));
        assert_eq!(pool.retry_ms(), 500, "50,000 bytes at 100,000 a second");
        pool.drain(10_000, Time::ZERO + Span::secs(60));
        assert_eq!(pool.retry_ms(), 10_000, "5,000 a second: of an idle minute two seconds count");
        pool.drain(1_000_000_000, Time::ZERO + Span::secs(61));
        assert_eq!(pool.retry_ms(), 10, "nobody is told to come back at once");
    }
}
