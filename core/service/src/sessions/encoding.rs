//! The session table as canonical chunks: its part of the state root and of snapshots.

use std::collections::BTreeMap;

use synod_crypto::{Hash, PublicKey};
use synod_machine::{Unrecoverable, Wall};
use synod_tail::BitWindow;
use synod_wire::{Blob, Bytes, Limits, List, Reader, Wire, Writer, wire};

use super::session::{Cached, Session};
use super::{KEPT_MAX, SessionLimits, Sessions};
use crate::app::CHUNK_MAX;

wire! {
    /// What precedes the sessions in the encoded table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TableHeader {
        /// Window of every session.
        pub window: u32,
        /// Number of sessions that follow, in order of their ids.
        pub count: u32,
    }

    /// One session, encoded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SessionRecord {
        /// The id.
        pub id: u64,
        /// The client's key.
        pub key: PublicKey,
        /// The opening's nonce.
        pub nonce: u64,
        /// Agreed time of its last frame.
        pub last: Wall,
        /// The window's base.
        pub base: u64,
        /// The window's bitmap.
        pub words: List<u64, 64>,
        /// The kept results in order of their first sequence.
        pub cached: List<CachedRecord, 8192>,
    }

    /// The kept results of one frame, encoded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CachedRecord {
        /// The frame's first sequence.
        pub first: u64,
        /// The sequence behind its last command.
        pub end: u64,
        /// Digest of the results.
        pub digest: Hash,
        /// The results, while they are kept.
        pub body: Option<Blob<KEPT_MAX>>,
    }
}

impl Sessions {
    /// Gives the canonical encoding in chunks of at most [`CHUNK_MAX`] bytes; equal tables give equal chunks. Costs
    /// one pass over the table.
    pub fn chunks(&self, mut put: impl FnMut(Bytes)) {
        let mut out = Writer::with_capacity(2 * CHUNK_MAX);
        let count = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        TableHeader { window: self.limits.window, count }.write(&mut out);
        for (id, session) in &self.table {
            record(*id, session).write(&mut out);
            if out.len() >= CHUNK_MAX {
                out = cut(out, &mut put);
            }
        }
        put(out.freeze());
    }

    /// Rebuilds the table from all its chunks in order.
    ///
    /// # Errors
    /// [`Unrecoverable`] when the chunks are not those of a table with these limits.
    pub fn restore(limits: SessionLimits, chunks: &[Bytes]) -> Result<Self, Unrecoverable> {
        let mut all = Writer::with_capacity(chunks.iter().map(Bytes::len).sum());
        chunks.iter().for_each(|chunk| all.bytes(chunk));
        let refuse = |why: &dyn core::fmt::Display| Unrecoverable(format!("the session table: {why}"));
        let all = all.freeze();
        let mut input = Reader::new(&all, &Limits { frame_max: u32::MAX }).map_err(|error| refuse(&error))?;
        let header = TableHeader::read(&mut input).map_err(|error| refuse(&error))?;
        if header.window != limits.window || header.count > limits.sessions_max {
            return Err(refuse(&"it was made under other limits"));
        }
        let mut table = Self::new(limits);
        for _ in 0..header.count {
            let record = SessionRecord::read(&mut input).map_err(|error| refuse(&error))?;
            table.add(record).ok_or_else(|| refuse(&"a session contradicts the limits"))?;
        }
        input.finish().map_err(|error| refuse(&error))?;
        Ok(table)
    }

    fn add(&mut self, record: SessionRecord) -> Option<()> {
        let id = record.id;
        let window = BitWindow::from_words(record.base, record.words.into_vec())?;
        if window.size() != u64::from(self.limits.window)
            || self.table.last_key_value().is_some_and(|l| *l.0 >= id)
        {
            return None;
        }
        let mut cached = BTreeMap::<u64, Cached>::new();
        for one in record.cached {
            if one.first >= one.end || cached.last_key_value().is_some_and(|last| *last.0 >= one.first) {
                return None;
            }
            let body = one.body.map(Blob::into_bytes);
            cached.insert(one.first, Cached { end: one.end, digest: one.digest, body });
        }
        let session = Session::from_parts(record.key, record.nonce, record.last, window, cached);
        if self.by_key.insert((session.key, session.nonce), id).is_some() {
            return None;
        }
        self.by_idle.insert((session.last, id));
        self.bodies += session.bodies();
        self.digests += session.digests();
        self.table.insert(id, session);
        Some(())
    }
}

/// Puts every whole chunk of what was written; what remains starts the next.
fn cut(out: Writer, put: &mut impl FnMut(Bytes)) -> Writer {
    let mut whole = out.freeze();
    while whole.len() >= CHUNK_MAX {
        put(whole.split_to(CHUNK_MAX));
    }
    let mut rest = Writer::with_capacity(2 * CHUNK_MAX);
    rest.bytes(&whole);
    rest
}

fn record(id: u64, session: &Session) -> SessionRecord {
    let cached = session.cached.iter().map(|(first, cached)| CachedRecord {
        first: *first,
        end: cached.end,
        digest: cached.digest,
        body: cached.body.clone().and_then(|body| Blob::try_from(body).ok()),
    });
    SessionRecord {
        id,
        key: session.key,
        nonce: session.nonce,
        last: session.last,
        base: session.window.base(),
        words: bounded(session.window.words().to_vec()),
        cached: bounded(cached.collect()),
    }
}

fn bounded<T, const MAX: usize>(values: Vec<T>) -> List<T, MAX> {
    match List::try_from(values) {
        Ok(list) => list,
        Err(_) => unreachable!("a window has at most 64 words and 5,120 kept frames"),
    }
}
