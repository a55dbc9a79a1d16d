//! Payloads on their way into the order: this replica is the client of its own session (specification, 4.8).
//!
//! A payload is held until it is executed. It goes to all replicas, this one included, as a request that they hear on the link of the
//! session; where that is not enough it is signed: at once on the slow path, when the leader asks for it, and with the first repetition.
//! With an epoch ids begin anew: what was not executed by then is void in the order, and is asked again under a new id.
//!
//! *Bounds.* `pending_max` payloads and barriers of `pending_bytes_max` bytes; beyond it they are refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Signature};
use synod_machine::broadcast::{Refusal, Ticket};
use synod_machine::{Span, Time};
use synod_wire::Bytes;

use super::OrderingConfig;
use crate::config::NUMBER_END;
use crate::message::ClientStatement;

/// The longest wait before something is said again.
pub const RETRY_MAX: Span = Span::secs(1);
/// A user whose payload has no place is told to wait so long.
pub(super) const BUSY_MS: u32 = 10;

/// What an own request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Payload(Ticket),
    Barrier(Ticket),
}

/// A request that is not executed yet.
#[derive(Debug)]
struct Asked {
    why: Why,
    payload: Bytes,
    again: Time,
    wait: Span,
    is_signing: bool,
    signature: Option<Signature>,
}

/// A request, as it is said.
pub(super) struct Said {
    pub(super) payload: Bytes,
    pub(super) signature: Option<Signature>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Asking {
    session: u64,
    window: u64,
    payload_max: usize,
    pending_max: usize,
    bytes_max: u64,
    retry: Span,
    /// Ids lie above; none where nothing may be asked.
    floor: Option<u64>,
    /// The last id that was used above the floor.
    last: u64,
    /// Without an id, oldest first.
    fresh: VecDeque<Asked>,
    asked: BTreeMap<u64, Asked>,
    /// Of payloads: one that is given again while it waits is the same.
    tickets: BTreeSet<Ticket>,
    bytes: u64,
}

impl Asking {
    pub(super) fn new(config: &OrderingConfig) -> Self {
        Self {
            session: u64::from(config.replica.config.me.0),
            window: u64::from(config.replica.sessions.session_window),
            payload_max: config.payload_max(),
            pending_max: usize::try_from(config.pending_max).unwrap_or(usize::MAX),
            bytes_max: config.pending_bytes_max,
            retry: config.retry,
            floor: None,
            last: 0,
            fresh: VecDeque::new(),
            asked: BTreeMap::new(),
            tickets: BTreeSet::new(),
            bytes: 0,
        }
    }

    pub(super) const fn session(&self) -> u64 {
        self.session
    }

    pub(super) const fn retry(&self) -> Span {
        self.retry
    }

    pub(super) const fn pending_max(&self) -> usize {
        self.pending_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.fresh.is_empty()
    }

    /// Takes a payload, or a barrier, which has none.
    pub(super) fn take(&mut self, why: Why, payload: Bytes) -> Result<(), Refusal> {
        if payload.len() > self.payload_max {
            return Err(Refusal::TooLarge);
        }
        if let Why::Payload(ticket) = why
            && self.tickets.contains(&ticket)
        {
            return Ok(());
        }
        if self.floor.is_none() {
            return Err(Refusal::NotReady);
        }
        let bytes = self.bytes.saturating_add(payload.len() as u64);
        if self.fresh.len() + self.asked.len() >= self.pending_max || bytes > self.bytes_max {
            return Err(Refusal::Busy { retry_ms: BUSY_MS });
        }
        if let Why::Payload(ticket) = why {
            self.tickets.insert(ticket);
        }
        self.bytes = bytes;
        self.fresh.push_back(Asked {
            why,
            payload,
            again: Time::ZERO,
            wait: self.retry,
            is_signing: false,
            signature: None,
        });
        Ok(())
    }

    /// Where ids begin now. What was asked above another floor, and was not executed, is void.
    pub(super) fn begin(&mut self, floor: Option<u64>) {
        let Some(above) = floor.filter(|_| floor != self.floor) else {
            self.floor = floor;
            return;
        };
        self.floor = floor;
        if self.last >= above && self.last <= above.saturating_add(u64::from(u32::MAX)) {
            // It was not in this epoch's state for a while, and is again.
            return;
        }
        self.last = above;
        for (_, void) in core::mem::take(&mut self.asked).into_iter().rev() {
            self.fresh.push_front(Asked { is_signing: false, signature: None, wait: self.retry, ..void });
        }
    }

    /// Gives an id to what waits, as far as the window of the session goes.
    pub(super) fn next(&mut self, now: Time) -> Option<u64> {
        self.floor?;
        let id = self.last.saturating_add(1);
        let oldest = self.asked.first_key_value().map_or(id, |(oldest, _)| *oldest);
        if id.saturating_sub(oldest) >= self.window || id >= NUMBER_END {
            return None;
        }
        let asked = self.fresh.pop_front()?;
        self.last = id;
        self.asked.insert(id, Asked { again: now + asked.wait, ..asked });
        Some(id)
    }

    /// A request as it is to be said.
    pub(super) fn said(&self, id: u64) -> Option<Said> {
        let asked = self.asked.get(&id)?;
        Some(Said { payload: asked.payload.clone(), signature: asked.signature })
    }

    /// What is to be signed of a request; once.
    pub(super) fn unsigned(&mut self, id: u64) -> Option<ClientStatement> {
        let session = self.session;
        let asked = self.asked.get_mut(&id).filter(|asked| !asked.is_signing)?;
        asked.is_signing = true;
        Some(ClientStatement::Asked { session, id, op: Hash::of(&asked.payload) })
    }

    /// It is signed. False where it is not waited for any more.
    pub(super) fn sign(&mut self, id: u64, op: Hash, signature: Signature) -> bool {
        let asked = self.asked.get_mut(&id).filter(|asked| Hash::of(&asked.payload) == op);
        asked.is_some_and(|asked| {
            asked.signature = Some(signature);
            true
        })
    }

    /// What is to be said again.
    pub(super) fn due(&mut self, now: Time) -> Vec<u64> {
        if self.floor.is_none() {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (id, asked) in self.asked.iter_mut().filter(|(_, asked)| now >= asked.again) {
            asked.wait = Span(asked.wait.times(2).0.min(RETRY_MAX.0));
            asked.again = now + asked.wait;
            due.push(*id);
        }
        due
    }

    /// A request of this session is executed: what it was for, if it is one of this life's.
    pub(super) fn done(&mut self, id: u64) -> Option<Why> {
        let Asked { why, payload, .. } = self.asked.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(payload.len() as u64);
        if let Why::Payload(ticket) = why {
            self.tickets.remove(&ticket);
        }
        Some(why)
    }

    /// Ids that wait.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.asked.keys().copied().collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + (self.fresh.len() + self.asked.len()) as u64 * 256
    }

    pub(super) fn bytes_max(config: &OrderingConfig) -> u64 {
        config.pending_bytes_max + u64::from(config.pending_max) * 256
    }

    pub(super) fn invariants(&self) {
        let oldest = self.asked.keys().next().copied().unwrap_or(self.last);
        assert!(self.last.saturating_sub(oldest) <= self.window, "ids that wait are within a window");
        assert!(self.fresh.len() + self.asked.len() <= self.pending_max, "what waits is bounded");
    }
}
