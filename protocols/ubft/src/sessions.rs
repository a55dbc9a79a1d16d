//! Sessions of clients and replicas (specification, 4.8): replicated state, a function of the order alone.
//!
//! A session holds the highest id that was executed, which of the last w_c ids were, and their results. Its name is made of the slot
//! and the place in which it was opened, so that no name returns. *Bounds.* `sessions_max` sessions of clients and one of each replica, each
//! with w_c results of `reply_max` bytes.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Hasher, PublicKey};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, List, wire};

use crate::batch::Slot;
use crate::message::REPLY_MAX;

/// A session that was idle for so many slots gives way to a new one.
pub const IDLE_SLOTS: u64 = 1 << 20;
/// Sessions below belong to replicas.
pub const FIRST_CLIENT: u64 = 128;
/// Most ids of a session that are kept.
pub const SESSION_WINDOW_MAX: u32 = 64;

/// Sessions of a table at most, whatever the configuration.
pub const TABLE_MAX: usize = 1 << 16;
/// Results of a session at most: [`SESSION_WINDOW_MAX`].
const REPLIES_MAX: usize = 64;

wire! {
    /// A session as a snapshot has it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SessionRow {
        /// Its name.
        pub name: u64,
        /// Whose.
        pub key: PublicKey,
        /// Chosen by its client.
        pub nonce: u64,
        /// The highest id that was executed.
        pub highest: u64,
        /// The slot in which it was used last.
        pub last: Slot,
        /// The last results, by id.
        pub replies: List<(u64, Blob<REPLY_MAX>), REPLIES_MAX>,
    }
}

/// How many, and how much of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// C: sessions of clients.
    pub sessions_max: u32,
    /// w_c: requests of a session that may wait at once, 1 to [`SESSION_WINDOW_MAX`].
    pub session_window: u32,
    /// Longest result.
    pub reply_max: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { sessions_max: 64, session_window: 16, reply_max: 1 << 10 }
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is to be executed.
    Fresh,
    /// It was executed, with this result.
    Done(Bytes),
    /// It is too old: whether it was executed is not known any more.
    Below,
    /// Beyond what a session may have waiting, by a window at most: where it was sent to f + 1 others executed what it waits for already.
    /// It is heard, and not executed.
    Ahead,
    /// Beyond that as well.
    Beyond,
    /// There is no such session: it is gone.
    Gone,
    /// There is no such session yet, as far as this replica executed.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    key: PublicKey,
    nonce: u64,
    highest: u64,
    replies: BTreeMap<u64, Bytes>,
    last: Slot,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Sessions {
    limits: SessionLimits,
    table: BTreeMap<u64, Session>,
}

/// The name of a session that is opened in a slot, at a place of its batch.
#[must_use]
pub const fn name(slot: Slot, place: u64) -> u64 {
    FIRST_CLIENT.saturating_add(slot.0.saturating_mul(64)).saturating_add(place)
}

impl Sessions {
    /// One for each replica.
    #[must_use]
    pub fn new(limits: SessionLimits, replicas: impl Iterator<Item = (NodeId, PublicKey)>) -> Self {
        let session = |(id, key): (NodeId, PublicKey)| {
            (u64::from(id.0), Session { key, nonce: 0, highest: 0, replies: BTreeMap::new(), last: Slot(0) })
        };
        Self { limits, table: replicas.map(session).collect() }
    }

    /// The key of a session.
    #[must_use]
    pub fn key(&self, session: u64) -> Option<PublicKey> {
        self.table.get(&session).map(|session| session.key)
    }

    /// The session that was opened for a key and a nonce.
    #[must_use]
    pub fn find(&self, key: PublicKey, nonce: u64) -> Option<u64> {
        let is_it = |(name, session): &(&u64, &Session)| {
            **name >= FIRST_CLIENT && session.key == key && session.nonce == nonce
        };
        self.table.iter().find(is_it).map(|(name, _)| *name)
    }

    /// What becomes of a request, where everything below `executed` is. Ids of the session lie above `floor`.
    #[must_use]
    pub fn fate(&self, session: u64, id: u64, floor: u64, executed: Slot) -> Fate {
        let Some(found) = self.table.get(&session) else {
            return if session < name(executed, 0) { Fate::Gone } else { Fate::Unknown };
        };
        let window = u64::from(self.limits.session_window);
        if let Some(reply) = found.replies.get(&id) {
            return Fate::Done(reply.clone());
        }
        if id <= floor || id.saturating_add(window) <= found.highest {
            return Fate::Below;
        }
        match id.saturating_sub(found.highest.max(floor)) {
            ahead if ahead <= window => Fate::Fresh,
            ahead if ahead <= 2 * window => Fate::Ahead,
            _ => Fate::Beyond,
        }
    }

    /// Whether a request is known to be executed.
    #[must_use]
    pub fn is_done(&self, session: u64, id: u64) -> bool {
        self.table.get(&session).is_some_and(|found| found.replies.contains_key(&id))
    }

    /// A request was executed.
    pub fn done(&mut self, session: u64, id: u64, reply: &Bytes, slot: Slot) {
        let window = u64::from(self.limits.session_window);
        let reply_max = usize::try_from(self.limits.reply_max).unwrap_or(usize::MAX);
        let Some(found) = self.table.get_mut(&session) else { return };
        found.highest = found.highest.max(id);
        found.last = slot;
        found.replies.insert(id, reply.slice(..reply.len().min(reply_max)));
        let highest = found.highest;
        // Lowest first: not all that are kept are looked at for each request.
        while let Some(oldest) = found.replies.first_entry()
            && oldest.key().saturating_add(window) <= highest
        {
            oldest.remove();
        }
    }

    /// Opens a session, in the order of all requests; none where all are in use.
    pub fn open(&mut self, (key, nonce): (PublicKey, u64), slot: Slot, place: u64) -> Option<u64> {
        if let Some(session) = self.find(key, nonce) {
            return Some(session);
        }
        let clients = self.table.range(FIRST_CLIENT..).count();
        if clients >= usize::try_from(self.limits.sessions_max).unwrap_or(0) {
            let idle = self.table.range(FIRST_CLIENT..).min_by_key(|(name, session)| (session.last, **name));
            let (oldest, last) = idle.map(|(name, session)| (*name, session.last))?;
            if slot.0.saturating_sub(last.0) < IDLE_SLOTS {
                return None;
            }
            self.table.remove(&oldest);
        }
        let session = Session { key, nonce, highest: 0, replies: BTreeMap::new(), last: slot };
        self.table.insert(name(slot, place), session);
        Some(name(slot, place))
    }

    /// All of it, by name.
    #[must_use]
    pub fn rows(&self) -> List<SessionRow, TABLE_MAX> {
        let row = |(name, session): (&u64, &Session)| {
            let replies = session.replies.iter();
            let replies = replies.filter_map(|(id, reply)| Some((*id, reply.clone().try_into().ok()?)));
            SessionRow {
                name: *name,
                key: session.key,
                nonce: session.nonce,
                highest: session.highest,
                last: session.last,
                replies: List::try_from(replies.collect::<Vec<_>>()).unwrap_or_default(),
            }
        };
        List::try_from(self.table.iter().map(row).collect::<Vec<_>>()).unwrap_or_default()
    }

    /// The table that rows were taken of.
    #[must_use]
    pub fn restore(limits: SessionLimits, rows: List<SessionRow, TABLE_MAX>) -> Self {
        let session = |row: SessionRow| {
            let SessionRow { name, key, nonce, highest, last, replies } = row;
            let replies = replies.into_iter().map(|(id, reply)| (id, reply.into_bytes())).collect();
            (name, Session { key, nonce, highest, replies, last })
        };
        Self { limits, table: rows.into_iter().map(session).collect() }
    }

    /// What stands for all of it.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut hasher = Hasher::new("ubft sessions");
        for (name, session) in &self.table {
            hasher.add(&name.to_le_bytes()).add(&session.key.0).add(&session.nonce.to_le_bytes());
            hasher.add(&session.highest.to_le_bytes()).add(&session.last.0.to_le_bytes());
            for (id, reply) in &session.replies {
                hasher.add(&id.to_le_bytes()).add(reply);
            }
        }
        hasher.finish()
    }

    /// Bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let replies =
            |session: &Session| session.replies.values().map(|reply| reply.len() + 64).sum::<usize>();
        self.table.values().map(|session| replies(session) + 160).sum::<usize>() as u64
    }

    /// Bytes that are held at most, with so many replicas.
    #[must_use]
    pub fn bytes_max(limits: &SessionLimits, replicas: u32) -> u64 {
        let each = u64::from(limits.session_window) * (u64::from(limits.reply_max) + 64) + 160;
        (u64::from(limits.sessions_max) + u64::from(replicas)) * each
    }
}
