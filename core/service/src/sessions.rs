//! The replicated table of sessions: exactly-once, whatever is retried or ordered twice (hotstuff 4.8).
//!
//! Every call is a function of the agreed order alone, so the table is equal at all correct nodes and part of the
//! state root. Results are kept per frame, because a frame is one item and a retry sends the same bytes: a frame that
//! is not yet acknowledged keeps its digest always and its body while bodies fit their budgets.
//!
//! *Bounds.* `sessions_max` sessions of 256 B, window / 8 B, at most (window + 1,024) digests of 64 B and 64 KiB of
//! bodies each; 256 MiB of bodies over all sessions.

mod encoding;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, PublicKey};
use synod_machine::Wall;
use synod_machine::broadcast::Position;
use synod_tail::BitWindow;
use synod_wire::Bytes;

pub use encoding::{CachedRecord, SessionRecord, TableHeader};
pub use session::{Cached, Fate, Session};

use crate::frame::ClientFrame;

/// Longest body that the table keeps; of a longer one it keeps the digest.
pub const KEPT_MAX: usize = 4 << 10;

/// The limits of the table. All nodes of a cluster use equal ones, for they decide what is in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most sessions.
    pub sessions_max: u32,
    /// Commands a session may have in flight: a power of two, 64 to 4,096.
    pub window: u32,
    /// Most bytes of kept bodies per session.
    pub bodies_max: u64,
    /// Most bytes of kept bodies over all sessions.
    pub bodies_total_max: u64,
    /// A full table closes the session longest idle, if it was idle for this long of agreed time.
    pub idle_ms: u64,
}

impl Default for SessionLimits {
    /// 65,536 sessions, windows of 1,024, 64 KiB and 256 MiB of bodies, one hour.
    fn default() -> Self {
        Self {
            sessions_max: 65_536,
            window: 1_024,
            bodies_max: 64 << 10,
            bodies_total_max: 256 << 20,
            idle_ms: 3_600_000,
        }
    }
}

/// What came of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A new session; a full table closed this other one for it.
    New {
        /// The id.
        session: u64,
        /// The session that gave way.
        closed: Option<u64>,
    },
    /// The session of this key and nonce is open already.
    Before(u64),
    /// The table is full of sessions in use.
    Full,
}

/// All open sessions.
#[derive(Clone, Debug)]
pub struct Sessions {
    limits: SessionLimits,
    table: BTreeMap<u64, Session>,
    by_key: BTreeMap<(PublicKey, u64), u64>,
    by_idle: BTreeSet<(Wall, u64)>,
    /// Bytes of kept bodies.
    bodies: u64,
    /// Digests kept over all sessions.
    digests: u64,
}

impl Sessions {
    /// An empty table.
    ///
    /// # Panics
    /// When the window is no power of two between 64 and 4,096: the configuration was not checked.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        assert!(BitWindow::is_size(limits.window), "a session window is a power of two from 64 to 4096");
        Self {
            limits,
            table: BTreeMap::new(),
            by_key: BTreeMap::new(),
            by_idle: BTreeSet::new(),
            bodies: 0,
            digests: 0,
        }
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// The session of this id.
    #[must_use]
    pub fn get(&self, session: u64) -> Option<&Session> {
        self.table.get(&session)
    }

    /// The open session of this key and nonce.
    #[must_use]
    pub fn find(&self, key: PublicKey, nonce: u64) -> Option<u64> {
        self.by_key.get(&(key, nonce)).copied()
    }

    /// Executes an opening at `position`.
    pub fn open(&mut self, key: PublicKey, nonce: u64, position: Position, time: Wall) -> Opened {
        if let Some(session) = self.find(key, nonce) {
            return Opened::Before(session);
        }
        let closed = match self.make_room(time) {
            Err(()) => return Opened::Full,
            Ok(closed) => closed,
        };
        let session = position.0;
        self.by_key.insert((key, nonce), session);
        self.by_idle.insert((time, session));
        let before = self.table.insert(session, Session::new(key, nonce, time, self.limits.window));
        assert!(before.is_none(), "one item per position, so one session per id");
        Opened::New { session, closed }
    }

    /// Begins to execute a frame: moves the base up by what the client acknowledged, and decides for each command
    /// whether it is executed now; those are marked as executed. `None` for a session that is not open. The fates
    /// replace what `fates` held.
    pub fn begin(&mut self, frame: &ClientFrame, time: Wall, fates: &mut Vec<Fate>) -> Option<()> {
        fates.clear();
        let session = self.table.get_mut(&frame.session)?;
        let freed = session.acknowledge(frame.acked);
        self.bodies -= freed.bytes;
        self.digests -= freed.count;
        session.mark(frame, fates);
        if session.last < time {
            self.by_idle.remove(&(session.last, frame.session));
            self.by_idle.insert((time, frame.session));
            session.last = time;
        }
        Some(())
    }

    /// Keeps the results of a frame for retries.
    ///
    /// # Panics
    /// When the session is not open: results exist only of frames that [`Sessions::begin`] took.
    pub fn remember(&mut self, frame: &ClientFrame, digest: Hash, body: &Bytes) {
        let Some(session) = self.table.get_mut(&frame.session) else {
            unreachable!("results are kept of frames that an open session began")
        };
        let kept = (body.len() <= KEPT_MAX).then(|| body.clone());
        let added = kept.as_ref().map_or(0, |body| body.len() as u64);
        let before = session.keep(frame.first, Cached { end: frame.end(), digest, body: kept });
        self.digests += u64::from(before.is_none());
        self.bodies += added;
        self.bodies -= before.map_or(0, |cached| cached.bytes());
        self.bodies -= session.trim(self.limits.bodies_max);
        self.trim_all();
    }

    /// Number of open sessions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Bytes held, by the formula of the module.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let fixed = 256 + u64::from(self.limits.window) / 8;
        self.table.len() as u64 * fixed + self.digests * 64 + self.bodies
    }

    /// The most that [`Sessions::bytes`] can be.
    #[must_use]
    pub fn bytes_max(limits: &SessionLimits) -> u64 {
        let window = u64::from(limits.window);
        let each = 256 + window / 8 + (window + 1_024) * 64;
        u64::from(limits.sessions_max) * each + limits.bodies_total_max
    }

    /// Asserts what must hold between executions.
    pub fn invariants(&self) {
        assert_eq!(self.table.len(), self.by_key.len(), "each session has one name");
        assert_eq!(
            self.table.len(),
            self.by_idle.len(),
            "each session has one place in the order of idleness"
        );
        assert!(self.table.len() as u64 <= u64::from(self.limits.sessions_max), "the table is bounded");
        assert!(self.bodies <= self.limits.bodies_total_max, "kept bodies are bounded");
    }

    /// Closes the session longest idle if the table is full and that one may be closed.
    fn make_room(&mut self, time: Wall) -> Result<Option<u64>, ()> {
        if (self.table.len() as u64) < u64::from(self.limits.sessions_max) {
            return Ok(None);
        }
        let Some((last, session)) = self.by_idle.first().copied() else { return Err(()) };
        if time.0.saturating_sub(last.0) <= self.limits.idle_ms {
            return Err(());
        }
        self.close(session);
        Ok(Some(session))
    }

    fn close(&mut self, id: u64) {
        let Some(session) = self.table.remove(&id) else { return };
        self.by_key.remove(&(session.key, session.nonce));
        self.by_idle.remove(&(session.last, id));
        self.bodies -= session.bodies();
        self.digests -= session.digests();
    }

    /// Drops bodies of the sessions longest idle until all of them fit.
    fn trim_all(&mut self) {
        let mut excess = self.bodies.saturating_sub(self.limits.bodies_total_max);
        for (_, id) in &self.by_idle {
            if excess == 0 {
                break;
            }
            let Some(session) = self.table.get_mut(id) else { continue };
            let goal = session.bodies().saturating_sub(excess);
            let freed = session.trim(goal);
            self.bodies -= freed;
            excess = excess.saturating_sub(freed);
        }
    }
}
