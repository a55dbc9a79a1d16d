//! Who replicates, which memory nodes there are, and how much is kept.

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Scope, Signature};
use synod_machine::Span;
use synod_quorum::{Epoch, Model, NodeId, Quorums, Roster};

use crate::batch::{INLINE_MAX, REQUESTS_MAX, View};
use crate::certificate::WINDOW_MAX;
use crate::statement::Statement;

/// Longest body that Consistent Tail Broadcast carries, beyond `batch_bytes_max`.
pub const BODY_EXTRA: u32 = 64;
/// Longest body of all: what a slot of a ring may have.
pub const BODY_MAX: usize = 64 << 10;
/// Sequence numbers, views, slots and stamps lie below, so that adding to one cannot overflow.
pub const NUMBER_END: u64 = 1 << 62;
/// What is not answered is said or asked again, after waits that double up to so many times T_fast.
pub(crate) const WAIT_TIMES_MAX: u64 = 64;
/// A leader is suspected after so long at the latest.
pub const SUSPECT_MAX: Span = Span::secs(10);
/// Replicas at most: each has a queue of its own for what is locked of its messages.
pub const MEMBERS_MAX: u32 = 63;
/// Replicas that may promise with what they lock: a message that one of the two followers promises is locked by the other, or signed by its
/// leader.
const MERGE_MEMBERS: u32 = 3;
/// Memory nodes at most.
pub const MEMORY_MAX: usize = 32;

/// How much is kept, and how long is waited (specification, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// t: of a broadcaster's messages the last so many are delivered. A power of two, 16 at least.
    pub tail: u32,
    /// W: slots that are worked on at most. A power of two, 32 at least.
    pub window: u32,
    /// B: requests of a batch at most.
    pub batch_max: u32,
    /// Bytes of a batch at most.
    pub batch_bytes_max: u32,
    /// R: longest operation that a request carries itself; a longer one goes by reference.
    pub request_inline_max: u32,
    /// Longest operation.
    pub request_max: u32,
    /// LOCKED carries a body up to this length, and the digest of a longer one.
    pub echo_raw_max: u32,
    /// A snapshot is taken behind so many slots; a multiple of half a window.
    pub snapshot_slots: u32,
    /// Followers promise to certify a proposal with what they lock of it, which saves a delay (4.18); of three replicas alone.
    pub merge_promises: bool,
    /// How long the fast path may take before the slow one is begun.
    pub fast: Span,
    /// How long a follower may take to say that it heard a request, before its client is asked to sign it.
    pub echo: Span,
    /// How long a leader may take before it is suspected; doubles up to [`SUSPECT_MAX`].
    pub suspect: Span,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            tail: 256,
            window: 512,
            batch_max: 16,
            batch_bytes_max: 8 << 10,
            request_inline_max: 2 << 10,
            request_max: 256 << 10,
            echo_raw_max: 512,
            snapshot_slots: 1 << 16,
            merge_promises: false,
            fast: Span::millis(2),
            echo: Span::millis(1),
            suspect: Span::millis(50),
        }
    }
}

/// A memory node, and the boot number under which it is believed: one that came back empty is as good as crashed until it is
/// readmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// How this replica calls it.
    pub node: NodeId,
    /// See [`synod_machine::register::RegisterReply::boot`].
    pub boot: u64,
}

/// What every part of a replica must know, of one epoch.
#[derive(Clone, Debug)]
pub struct Config {
    /// Digest of the genesis.
    pub cluster: Hash,
    /// The epoch: locks, promises and registers are of one.
    pub epoch: Epoch,
    /// This replica.
    pub me: NodeId,
    /// All replicas, under the number of the epoch.
    pub roster: Arc<Roster>,
    /// The view in which the epoch begins.
    pub first_view: View,
    /// The 2f_m + 1 memory nodes.
    pub memory: Vec<Memory>,
    /// See [`Parameters`].
    pub parameters: Parameters,
}

/// A configuration that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// Replicas are not 2f + 1 with f of one at least, more than [`MEMBERS_MAX`], or this is none of them.
    Replicas,
    /// Memory nodes are not 2f_m + 1, too many, named twice or like replicas.
    Memory,
    /// The tail is no power of two, below 16 or above 2^16.
    Tail,
    /// A body of nothing, or one longer than [`BODY_MAX`].
    Body,
    /// The window is no power of two, below 32 or above [`crate::certificate::WINDOW_MAX`].
    Window,
    /// Snapshots behind no slots, or behind another number of them than multiples of half a window.
    Snapshots,
    /// No request in a batch, more than [`crate::batch::REQUESTS_MAX`], or operations longer than their places.
    Batch,
    /// Promises that go with what is locked, of more than three replicas: there a liar keeps a promise from being fulfilled.
    Merge,
    /// A wait of no length, or one of the fast path that is longer than a fifth of the one for the leader.
    Wait,
}

impl Config {
    /// The thresholds, if everything else is in order.
    ///
    /// # Errors
    /// [`Unsound`].
    pub fn quorums(&self) -> Result<Quorums, Unsound> {
        let n = self.roster.size();
        let is_odd = |count: u32| !count.is_multiple_of(2);
        let is_here = self.roster.member(self.me).is_some() && self.roster.epoch() == self.epoch;
        if !(3..=MEMBERS_MAX).contains(&n) || !is_odd(n) || !is_here {
            return Err(Unsound::Replicas);
        }
        let nodes: std::collections::BTreeSet<NodeId> =
            self.memory.iter().map(|memory| memory.node).collect();
        let is_replica = |node: &NodeId| self.roster.member(*node).is_some();
        let is_named_well = nodes.len() == self.memory.len() && !nodes.iter().any(is_replica);
        if self.memory.len() > MEMORY_MAX || self.memory.len().is_multiple_of(2) || !is_named_well {
            return Err(Unsound::Memory);
        }
        let Parameters {
            tail,
            window,
            batch_max,
            batch_bytes_max,
            request_inline_max,
            request_max,
            snapshot_slots,
            merge_promises,
            fast,
            echo,
            suspect,
            ..
        } = self.parameters;
        if !tail.is_power_of_two() || !(16..=1 << 16).contains(&tail) {
            return Err(Unsound::Tail);
        }
        if batch_bytes_max == 0 || self.body_max() > BODY_MAX {
            return Err(Unsound::Body);
        }
        if !window.is_power_of_two() || window < 32 || exceeds(window, WINDOW_MAX) {
            return Err(Unsound::Window);
        }
        if snapshot_slots == 0 || !snapshot_slots.is_multiple_of(window / 2) {
            return Err(Unsound::Snapshots);
        }
        let is_inline = request_inline_max <= request_max && request_inline_max <= batch_bytes_max;
        if batch_max == 0
            || exceeds(batch_max, REQUESTS_MAX)
            || !is_inline
            || exceeds(request_inline_max, INLINE_MAX)
        {
            return Err(Unsound::Batch);
        }
        if merge_promises && n != MERGE_MEMBERS {
            return Err(Unsound::Merge);
        }
        if fast == Span::ZERO || echo == Span::ZERO || fast.times(5) > suspect || suspect > SUSPECT_MAX {
            return Err(Unsound::Wait);
        }
        Quorums::new(Model::Majority, n).map_err(|_| Unsound::Replicas)
    }

    /// Memory nodes that make an operation complete: f_m + 1.
    #[must_use]
    pub fn memory_quorum(&self) -> u32 {
        let nodes = u32::try_from(self.memory.len()).unwrap_or(u32::MAX);
        Quorums::new(Model::Crash, nodes).map_or(u32::MAX, |quorums| quorums.available())
    }

    /// The leader of a view.
    #[must_use]
    pub fn leader(&self, view: View) -> NodeId {
        let n = u64::from(self.roster.size().max(1));
        NodeId(u32::try_from(view.0 % n).unwrap_or(0))
    }

    /// Longest body of a broadcast message: S.
    #[must_use]
    pub fn body_max(&self) -> usize {
        let max = self.parameters.batch_bytes_max.saturating_add(BODY_EXTRA);
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// The same replicas in another epoch, whose first view and boots are others.
    #[must_use]
    pub fn at(&self, epoch: Epoch) -> Option<Self> {
        let roster = Roster::new(epoch, self.roster.members().to_vec()).ok()?;
        Some(Self { epoch, roster: Arc::new(roster), ..self.clone() })
    }

    /// Where signatures are good.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { cluster: self.cluster, epoch: self.epoch }
    }

    /// What a replica is said to have signed; none if it is no replica.
    #[must_use]
    pub fn claim(&self, statement: Statement, signature: Signature) -> Option<Claim<Statement>> {
        let signer = NodeId(u32::from(statement.signer()));
        let key = self.roster.member(signer)?.key;
        Some(Claim { statement, scope: self.scope(), signer, key, signature })
    }

    /// Registers of a region: t for each broadcaster but the owner.
    #[must_use]
    pub fn registers(&self) -> u32 {
        self.roster.size().saturating_sub(1).saturating_mul(self.parameters.tail)
    }

    /// The place of message `k` of `broadcaster` in arrays of the tail.
    #[must_use]
    pub fn index(&self, k: u64) -> usize {
        usize::try_from(k % u64::from(self.parameters.tail.max(1))).unwrap_or(0)
    }
}

fn exceeds(value: u32, max: usize) -> bool {
    usize::try_from(value).is_ok_and(|value| value > max)
}
