//! Counters of the network runtime, written by the reactor and readable from any thread without a lock.
//!
//! Bounds: one row per member and one for all guests together; labels are never a peer's choice.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use synod_machine::Cost;
use synod_quorum::NodeId;

use crate::Refusal;
use crate::datagram::Dropped;
use crate::histogram::{Histogram, TIMES_NS};

/// Queues with a counter of their own; higher ones share the last.
pub const QUEUE_CLASSES: usize = 4;

/// Reactors with a gauge of their own; further ones share the last.
pub(crate) const LOOPS: usize = 4;

/// What a verification job checks, as far as its cost tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// One signature.
    Signature,
    /// Several signatures.
    Batch,
    /// A pairing.
    Pairing,
}

impl Check {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Signature, Self::Batch, Self::Pairing];

    /// The word in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Batch => "batch",
            Self::Pairing => "pairing",
        }
    }

    /// What a job of this cost checks; `None` for one that checks nothing, or signs.
    pub(crate) const fn of(cost: &Cost) -> Option<Self> {
        match (cost.pairing, cost.verify + cost.batch_verify) {
            _ if cost.sign > 0 => None,
            (0, 0) => None,
            (0, 1) => Some(Self::Signature),
            (0, _) => Some(Self::Batch),
            _ => Some(Self::Pairing),
        }
    }
}

/// A number that only rises, or a gauge; written by one thread.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The present value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Relaxed);
    }

    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Relaxed);
    }

    pub(crate) fn sub(&self, by: u64) {
        self.0.fetch_sub(by, Relaxed);
    }
}

/// What passed between this node and one peer.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Bytes handed to the socket, framing and TLS included.
    pub sent_bytes: Counter,
    /// Bytes taken from the socket.
    pub received_bytes: Counter,
    /// Frames sent, by queue.
    pub sent_frames: [Counter; QUEUE_CLASSES],
    /// Frames received, by queue.
    pub received_frames: [Counter; QUEUE_CLASSES],
    /// Bytes of those sent, their headers included, TLS not.
    pub sent_frame_bytes: [Counter; QUEUE_CLASSES],
    /// Bytes of those received, their headers included, TLS not.
    pub received_frame_bytes: [Counter; QUEUE_CLASSES],
    /// Frames given up: no link, or a full queue that drops or evicts.
    pub dropped_frames: Counter,
    /// Vectored writes.
    pub writes: Counter,
    /// Links that came up after the first one.
    pub reconnects: Counter,
    /// Links closed because a queue was full, a reader stalled, or the peer fell silent.
    pub resets: Counter,
    /// Bytes that wait to be sent now.
    pub queue_bytes: Counter,
    /// Frames that did not decode or broke the framing.
    pub strikes: Counter,
    /// The newest round trip of a heartbeat, in nanoseconds; 0 before the first.
    pub rtt_ns: Counter,
}

impl PeerCounters {
    pub(crate) fn sent(&self, queue: u8, bytes: usize) {
        self.sent_frames[class(queue)].add(1);
        self.sent_frame_bytes[class(queue)].add(bytes as u64);
    }

    pub(crate) fn received(&self, queue: u8, bytes: usize) {
        self.received_frames[class(queue)].add(1);
        self.received_frame_bytes[class(queue)].add(bytes as u64);
    }
}

fn class(queue: u8) -> usize {
    usize::from(queue).min(QUEUE_CLASSES - 1)
}

/// What passed by datagram links.
#[derive(Debug, Default)]
pub struct LinkCounters {
    /// Datagrams handed to the system.
    pub sent: Counter,
    /// Their bytes.
    pub sent_bytes: Counter,
    /// System calls for them.
    pub writes: Counter,
    /// Datagrams taken from the system, dropped ones included.
    pub received: Counter,
    /// Their bytes.
    pub received_bytes: Counter,
    /// Links accepted.
    pub accepted: Counter,
    /// Links that gave way to newer ones.
    pub evicted: Counter,
    /// Datagrams given up before the system had them: a full queue, or the system refused.
    pub lost: Counter,
    /// Accepted links now, sampled.
    pub open: Counter,
    /// Datagrams that wait to be sent, sampled.
    pub queue: Counter,
    dropped: [Counter; Dropped::ALL.len()],
}

impl LinkCounters {
    /// Datagrams that were dropped for this reason.
    #[must_use]
    pub const fn dropped(&self, why: Dropped) -> &Counter {
        &self.dropped[why as usize]
    }

    pub(crate) fn drop(&self, why: Dropped) {
        self.dropped(why).add(1);
    }
}

/// All counters of a node.
#[derive(Debug)]
pub struct Counters {
    members: Vec<PeerCounters>,
    guests: PeerCounters,
    /// Datagram links.
    pub datagrams: LinkCounters,
    refusals: [Counter; Refusal::ALL.len()],
    /// Handshakes that ended without a code of their own: closed, silent, over a quota.
    pub handshakes_broken: Counter,
    /// Handshakes under way.
    pub handshakes_open: Counter,
    /// Links that are up, guests included.
    pub links_up: Counter,
    /// Turns of the reactors.
    pub turns: Counter,
    /// Jobs run.
    pub jobs: Counter,
    /// Batches the jobs were run in.
    pub job_batches: Counter,
    /// How late each reactor's newest turns began, at most, in nanoseconds: the longest of the last quarter second.
    pub(crate) late_ns: [Counter; LOOPS],
    checks: [Histogram; Check::ALL.len()],
}

impl Counters {
    pub(crate) fn new(members: u32) -> Self {
        Self {
            members: (0..members).map(|_| PeerCounters::default()).collect(),
            guests: PeerCounters::default(),
            datagrams: LinkCounters::default(),
            refusals: core::array::from_fn(|_| Counter::default()),
            handshakes_broken: Counter::default(),
            handshakes_open: Counter::default(),
            links_up: Counter::default(),
            turns: Counter::default(),
            jobs: Counter::default(),
            job_batches: Counter::default(),
            late_ns: Default::default(),
            checks: Check::ALL.map(|_| Histogram::new(TIMES_NS)),
        }
    }

    /// The counters of a member; of all guests together for any other id.
    #[must_use]
    pub fn peer(&self, peer: NodeId) -> &PeerCounters {
        let index = usize::try_from(peer.0).unwrap_or(usize::MAX);
        self.members.get(index).unwrap_or(&self.guests)
    }

    /// How often a handshake ended with `refusal`, refused by either side.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refusals[usize::from(refusal.code() - 2_101)].get()
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.refusals[usize::from(refusal.code() - 2_101)].add(1);
    }

    /// How late turns of the reactors began, at most, in nanoseconds: the longest of the last quarter second.
    #[must_use]
    pub fn late_ns(&self) -> u64 {
        self.late_ns.iter().map(Counter::get).max().unwrap_or(0)
    }

    /// How long verification jobs took, in nanoseconds. Jobs of one batch share its time by what they cost.
    #[must_use]
    pub const fn check(&self, kind: Check) -> &Histogram {
        &self.checks[kind as usize]
    }

    /// The sum of one counter over all peers.
    pub fn total(&self, of: impl Fn(&PeerCounters) -> u64) -> u64 {
        self.members.iter().chain([&self.guests]).map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_rows_and_guests_share_one() {
        let counters = Counters::new(2);
        counters.peer(NodeId(1)).sent(0, 70);
        counters.peer(NodeId(200)).sent(9, 30);
        counters.peer(NodeId(300)).sent(3, 12);
        assert_eq!(counters.peer(NodeId(1)).sent_frames[0].get(), 1);
        assert_eq!(counters.peer(NodeId(200)).sent_frames[3].get(), 2);
        assert_eq!(counters.peer(NodeId(200)).sent_frame_bytes[3].get(), 42);
        assert_eq!(counters.total(|p| p.sent_frames.iter().map(Counter::get).sum()), 3);
    }

    #[test]
    fn a_check_is_known_by_its_cost_and_what_signs_is_none() {
        let cost = Cost::default();
        assert_eq!(Check::of(&cost), None);
        assert_eq!(Check::of(&Cost { verify: 1, ..cost }), Some(Check::Signature));
        assert_eq!(Check::of(&Cost { batch_verify: 3, ..cost }), Some(Check::Batch));
        assert_eq!(Check::of(&Cost { pairing: 2, verify: 1, ..cost }), Some(Check::Pairing));
        assert_eq!(Check::of(&Cost { sign: 1, verify: 1, ..cost }), None);
        for (at, kind) in Check::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn refusals_are_counted_by_code() {
        let counters = Counters::new(1);
        counters.refuse(Refusal::SecondInstance);
        assert_eq!(counters.refused(Refusal::SecondInstance), 1);
        assert_eq!(Refusal::ALL.iter().map(|r| counters.refused(*r)).sum::<u64>(), 1);
    }
}
