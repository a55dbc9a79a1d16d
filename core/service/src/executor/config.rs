//! What an executor is built from.

use synod_crypto::{Hash, Scope};
use synod_quorum::{Epoch, NodeId, Roster};

use crate::frame::ITEM_MAX;
use crate::message::BODY_MAX;
use crate::sessions::{SessionLimits, Sessions};

/// How the origin of a client's item is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Every item carries the client's signature; nobody is trusted for it.
    Signed,
    /// No signatures: the receiving node vouches by its link, and a Byzantine member can forge commands. Refused
    /// outside loopback by the configuration, printed by `status` and by every benchmark.
    Channel,
}

/// The bounds of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorLimits {
    /// The session table; equal at all nodes.
    pub sessions: SessionLimits,
    /// Positions between snapshots; equal at all nodes.
    pub checkpoint_every: u64,
    /// Most bytes of items that were admitted and are not yet executed.
    pub pool_bytes: u64,
    /// Most such items.
    pub pool_items: u32,
    /// Most bytes of such items of one session.
    pub session_bytes: u64,
    /// Most such items of one session.
    pub session_items: u32,
    /// Bytes of delivered entries not yet executed above which no input is taken, but while a state is installed.
    pub lag_bytes: u64,
    /// Most bytes of entries that the ordering machine delivers before one of them is applied: what waits while a
    /// state is installed.
    pub ahead_bytes: u64,
    /// Bytes of results kept for retries, outside the state.
    pub ring_bytes: u64,
    /// Most reads that wait for a barrier.
    pub reads: u32,
    /// Most bytes of them.
    pub reads_bytes: u64,
    /// Most bytes the application may hold; its own limits must keep it.
    pub app_bytes: u64,
}

impl Default for ExecutorLimits {
    fn default() -> Self {
        Self {
            sessions: SessionLimits::default(),
            checkpoint_every: 65_536,
            pool_bytes: 64 << 20,
            pool_items: 262_144,
            session_bytes: 4 << 20,
            session_items: 1_024,
            lag_bytes: 128 << 20,
            ahead_bytes: Self::ahead(64, 1 << 20, 16_384),
            ring_bytes: 32 << 20,
            reads: 4_096,
            reads_bytes: 16 << 20,
            app_bytes: 8 << 30,
        }
    }
}

/// What an executor is built from.
#[derive(Clone, Debug)]
pub struct ExecutorConfig<P> {
    /// The application in its first state.
    pub app: P,
    /// This member.
    pub own: NodeId,
    /// The members, who are the sources of state.
    pub roster: Roster,
    /// The cluster in whose name clients sign.
    pub cluster: Hash,
    /// How the origin of items is known.
    pub auth: ClientAuth,
    /// Its bounds.
    pub limits: ExecutorLimits,
}

/// The part of the configuration that stays.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) own: NodeId,
    pub(super) roster: Roster,
    pub(super) scope: Scope,
    pub(super) auth: ClientAuth,
    pub(super) limits: ExecutorLimits,
}

impl<P> ExecutorConfig<P> {
    /// Separates the application from the settings.
    pub(super) fn split(self) -> (P, Settings) {
        assert!(self.limits.checkpoint_every > 0, "checkpoints are a positive number of positions apart");
        assert!(self.roster.member(self.own).is_some(), "an executor runs at a member");
        let scope = Scope { cluster: self.cluster, epoch: Epoch(0) };
        let Self { app, own, roster, auth, limits, .. } = self;
        (app, Settings { own, roster, scope, auth, limits })
    }
}

/// Connections whose refusals are counted.
pub(super) const REFUSED_MAX: usize = 4_096;

/// Bytes that one element of a table costs besides what it holds.
pub(super) const SLOT_BYTES: u64 = 256;

/// Bytes that a decoded command costs besides its own.
pub(super) const COMMAND_BYTES: u64 = 32;

impl ExecutorLimits {
    /// Most bytes that the entries of so many blocks take while they wait, for [`Self::ahead_bytes`]. A command is at
    /// least one byte of its block.
    #[must_use]
    pub const fn ahead(blocks: u64, block_bytes: u64, block_items: u64) -> u64 {
        blocks * (block_bytes * (1 + COMMAND_BYTES) + block_items * SLOT_BYTES)
    }

    /// The most bytes an executor with these limits holds: the application, the session table, the pool, entries not
    /// yet executed, the ring, waiting reads, replies of one block (one body per guest at most before it is sent),
    /// and the names of 17 snapshots with 64 B per 64 KiB of state.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        let state = self.app_bytes + Sessions::bytes_max(&self.sessions);
        let pool = self.pool_bytes + u64::from(self.pool_items) * SLOT_BYTES + ITEM_MAX as u64;
        let lag = self.lag_bytes.max(self.ahead_bytes) + 2 * ITEM_MAX as u64;
        let routes = u64::from(self.sessions.sessions_max) * 128 + REFUSED_MAX as u64 * 64;
        let reads = self.reads_bytes + u64::from(self.reads) * SLOT_BYTES;
        let replies = 2 * OUTBOX_BYTES_MAX + BODY_MAX as u64;
        let snapshots = 18 * (state / 256) + (4 << 20);
        let serving = 1 << 20;
        state + pool + lag + routes + 2 * self.ring_bytes + reads + replies + snapshots + serving
    }
}

/// Bytes of replies above which they are sent before their block ends.
pub(super) const OUTBOX_BYTES_MAX: u64 = 16 << 20;
