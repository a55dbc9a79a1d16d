//! Replies on their way: which connection a session's replies go to, one message per connection and block, and the
//! ring of results kept for retries.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_quorum::NodeId;
use synod_tail::ByteFifo;
use synod_wire::{Bytes, List};

use super::Executor;
use super::config::OUTBOX_BYTES_MAX;
use crate::app::App;
use crate::message::{Answered, BODY_MAX, ClientMessage, REPLIES_MAX, Reply, ReplyBatch};

/// A body of at most this many bytes is sent by all in place of its digest.
pub(super) const SMALL_MAX: usize = 128;

/// Where a session's replies go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) guest: NodeId,
    pub(super) counter: u64,
}

#[derive(Debug, Default)]
struct Batch {
    replies: Vec<Reply>,
    bytes: usize,
}

/// Replies of the present block, routes and the ring.
#[derive(Debug)]
pub(super) struct Replier {
    outbox: BTreeMap<NodeId, Batch>,
    outbox_bytes: u64,
    routes: BTreeMap<u64, Route>,
    /// The sessions whose replies go to each connection.
    routed: BTreeMap<NodeId, BTreeSet<u64>>,
    ring: ByteFifo<(u64, u64)>,
    results: BTreeMap<(u64, u64), (Hash, Bytes)>,
}

impl Replier {
    pub(super) const fn new(ring_bytes: u64) -> Self {
        Self {
            outbox: BTreeMap::new(),
            outbox_bytes: 0,
            routes: BTreeMap::new(),
            routed: BTreeMap::new(),
            ring: ByteFifo::new(ring_bytes),
            results: BTreeMap::new(),
        }
    }

    pub(super) fn route(&self, session: u64) -> Option<Route> {
        self.routes.get(&session).copied()
    }

    pub(super) fn attach(&mut self, session: u64, route: Route) {
        self.detach(session);
        self.routes.insert(session, route);
        self.routed.entry(route.guest).or_default().insert(session);
    }

    pub(super) fn detach(&mut self, session: u64) {
        let Some(route) = self.routes.remove(&session) else { return };
        if let Some(sessions) = self.routed.get_mut(&route.guest) {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.routed.remove(&route.guest);
            }
        }
    }

    /// The connection of `guest` is gone.
    pub(super) fn forget(&mut self, guest: NodeId) {
        for session in self.routed.remove(&guest).unwrap_or_default() {
            self.routes.remove(&session);
        }
    }

    /// Keeps a body for retries; the oldest bodies leave for it.
    pub(super) fn keep(&mut self, session: u64, first: u64, digest: Hash, body: &Bytes) {
        if self.results.contains_key(&(session, first)) {
            return;
        }
        let Self { ring, results, .. } = self;
        let bytes = body.len() as u64 + 128;
        let kept = ring.push_evicting((session, first), bytes, |old| {
            results.remove(&old);
        });
        if kept.is_ok() {
            results.insert((session, first), (digest, body.clone()));
        }
    }

    /// The body with this digest, if the ring still has it.
    pub(super) fn body(&self, session: u64, first: u64, digest: Hash) -> Option<Bytes> {
        let (kept, body) = self.results.get(&(session, first))?;
        (*kept == digest).then(|| body.clone())
    }

    /// Queues a reply until the block ends; says whether too much waits already.
    fn queue(&mut self, guest: NodeId, reply: Reply) -> bool {
        let bytes = size(&reply);
        let batch = self.outbox.entry(guest).or_default();
        batch.bytes += bytes;
        batch.replies.push(reply);
        self.outbox_bytes += bytes as u64;
        batch.bytes > BODY_MAX / 2
            || batch.replies.len() == REPLIES_MAX
            || self.outbox_bytes > OUTBOX_BYTES_MAX
    }

    fn take(&mut self) -> BTreeMap<NodeId, Batch> {
        self.outbox_bytes = 0;
        core::mem::take(&mut self.outbox)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.outbox_bytes + self.ring.bytes() + self.routes.len() as u64 * 128
    }
}

/// Bytes of a reply on the wire, at most.
fn size(reply: &Reply) -> usize {
    let body = match reply {
        Reply::Executed { answer: Answered::Body(body), .. } => body.len(),
        _ => 32,
    };
    body + 32
}

impl<P: App + 'static> Executor<P> {
    /// Replies to one connection when the block ends.
    pub(super) fn reply(&mut self, guest: NodeId, reply: Reply, turn: &mut Turn<'_, Self>) {
        // A body may fill a message alone, so what waits leaves before it.
        let large = matches!(&reply, Reply::Executed { answer: Answered::Body(body), .. } if body.len() > BODY_MAX / 2);
        if large {
            self.flush(turn);
        }
        if self.replier.queue(guest, reply) {
            self.flush(turn);
        }
    }

    /// Replies at once: the answer to something just received.
    pub(super) fn reply_now(&self, guest: NodeId, reply: Reply, turn: &mut Turn<'_, Self>) {
        let mut replies = List::default();
        match replies.push(reply) {
            Ok(()) => turn.send(guest, ClientMessage::Replies(ReplyBatch { leader: self.leader, replies })),
            Err(_) => unreachable!("an empty list has room"),
        }
    }

    /// Sends what waits, one message per connection. Nothing of the executor's own must be durable first: an entry
    /// reaches the executor only after the ordering layer's certificate and body of it are durable here, and
    /// execution is a function of the order.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_, Self>) {
        for (guest, batch) in self.replier.take() {
            let Ok(replies) = List::try_from(batch.replies) else {
                unreachable!("a batch is sent when it holds as many replies as a message")
            };
            turn.send(guest, ClientMessage::Replies(ReplyBatch { leader: self.leader, replies }));
        }
    }

    /// The answer to a frame whose commands were all executed or given up before: its kept results in full, or what
    /// is left of them.
    pub(super) fn repeat(&self, session: u64, first: u64, count: u64) -> Reply {
        let cached = self.sessions.get(session).and_then(|open| open.cached(first));
        let answer = match cached {
            None => super::execute::marks(self.sessions.get(session), session, first, count),
            Some(cached) => {
                let body = cached.body.clone().or_else(|| self.replier.body(session, first, cached.digest));
                body.map_or(Answered::Gone(cached.digest), super::execute::full)
            }
        };
        Reply::Executed { session, first, answer }
    }
}
