//! The adapter as an application: requests in agreed order in, commands to the server, canonical replies out.

use synod_crypto::Hash;
use synod_service::{App, Arriving, At, Chunks, Replies, Request, Unrecoverable};
use synod_wire::Bytes;

use crate::command::{Command, VALUE_MAX, Way};
use crate::keyspace::{ITEM_BYTES, Item, Keyspace};
use crate::server::{Ask, Reply, Server};
use crate::snapshot;

/// Seconds from which on a time is counted from 1970: thirty days.
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;
/// Commands that are sent to the server in one go.
const AT_ONCE: usize = 512;

const FULL: &str = "SERVER_ERROR out of memory storing object\r\n";
const LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
const NOT_FOUND: &str = "NOT_FOUND\r\n";
const NOT_STORED: &str = "NOT_STORED\r\n";
const STORED: &str = "STORED\r\n";

/// What all replicas must agree on about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most bytes that keys and values may hold, by the adapter's own account: far less than the server's memory, which is
    /// cut into classes.
    pub bytes_max: u64,
}

impl Default for Config {
    /// 256 MiB, the largest archive of an external application.
    fn default() -> Self {
        Self { bytes_max: 256 << 20 }
    }
}

/// What of the state the server does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) position: u64,
    /// Agreed time in ms.
    pub(crate) time: u64,
    /// The last virtual id.
    pub(crate) cas: u64,
    /// When everything goes, if somebody asked for that.
    pub(crate) flush_at: Option<u64>,
    pub(crate) keys: Keyspace,
}

/// A Memcached server as an application.
#[derive(Debug)]
pub struct Adapter<S> {
    pub(crate) config: Config,
    pub(crate) server: S,
    pub(crate) kept: Kept,
    frozen: Option<Chunks>,
    restoring: Option<Arriving>,
}

impl<S: Server> Adapter<S> {
    /// An adapter in front of a server, which is emptied: what it holds is nobody's state.
    pub fn new(config: Config, server: S) -> Self {
        server.ask(&[Ask::FlushAll]);
        Self { config, server, kept: Kept::default(), frozen: None, restoring: None }
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &S {
        &self.server
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.kept.keys.len()
    }

    fn perform(&mut self, body: &[u8]) -> Bytes {
        let done = match Command::parse(body) {
            Ok(Command::Read { keys, with_ids, until }) => Ok(self.read(&keys, with_ids, until)),
            Ok(Command::Store { way, key, flags, until, data }) => {
                self.store(way, &key, (flags, until), data)
            }
            Ok(Command::Delete(key)) => Ok(self.delete(&key)),
            Ok(Command::Count { key, up, by }) => Ok(self.count(&key, up, by)),
            Ok(Command::Touch { key, until }) => Ok(self.touch(&key, until)),
            Ok(Command::Flush(delay)) => Ok(self.flush(delay)),
            Ok(Command::Version) => Ok(Bytes::from_static(b"VERSION synod\r\n")),
            Err(refused) => Err(refused),
        };
        done.unwrap_or_else(|refused| Bytes::from_static(refused.as_bytes()))
    }

    fn one(&self, ask: Ask) -> Reply {
        let mut replies = self.server.ask(&[ask]);
        assert_eq!(replies.len(), 1, "one reply per command");
        replies.remove(0)
    }

    /// A new virtual id.
    const fn next(&mut self) -> u64 {
        self.kept.cas += 1;
        self.kept.cas
    }

    /// When something ends that is stated in seconds: `Err` when that is over already.
    fn deadline(&self, until: i64) -> Result<Option<u64>, ()> {
        let ms = until.saturating_mul(1_000);
        let ms = match until {
            0 => return Ok(None),
            ..0 => return Err(()),
            1..=RELATIVE_MAX => u64::try_from(ms).unwrap_or(0).saturating_add(self.kept.time),
            _ => u64::try_from(ms).unwrap_or(0),
        };
        if ms > self.kept.time { Ok(Some(ms)) } else { Err(()) }
    }

    fn read(&mut self, keys: &[Bytes], with_ids: bool, until: Option<i64>) -> Bytes {
        let known: Vec<Bytes> =
            keys.iter().filter(|key| self.kept.keys.get(key).is_some()).cloned().collect();
        let asks: Vec<Ask> = known.iter().cloned().map(Ask::Get).collect();
        let mut out = Vec::new();
        for (key, reply) in known.iter().zip(self.server.ask(&asks)) {
            if let (Reply::Value(Some((flags, data))), Some(item)) = (reply, self.kept.keys.get(key)) {
                out.extend_from_slice(
                    &[b"VALUE ", &key[..], format!(" {flags} {}", data.len()).as_bytes()].concat(),
                );
                if with_ids {
                    out.extend_from_slice(format!(" {}", item.cas).as_bytes());
                }
                out.extend_from_slice(&[b"\r\n", &data[..], b"\r\n"].concat());
            }
        }
        out.extend_from_slice(b"END\r\n");
        if let Some(until) = until {
            known.iter().for_each(|key| drop(self.touch(key, until)));
        }
        Bytes::from(out)
    }

    fn store(
        &mut self,
        way: Way,
        key: &Bytes,
        (flags, until): (u32, i64),
        data: Bytes,
    ) -> Result<Bytes, &'static str> {
        let former = self.kept.keys.get(key);
        match (way, former) {
            (Way::Set, _) | (Way::Add, None) | (Way::Replace | Way::Append | Way::Prepend, Some(_)) => {}
            (Way::Cas(id), Some(item)) if item.cas == id => {}
            (Way::Cas(_), Some(_)) => return Err("EXISTS\r\n"),
            (Way::Cas(_), None) => return Err(NOT_FOUND),
            _ => return Err(NOT_STORED),
        }
        let before = former.map_or(0, |item| item.length);
        let joins = matches!(way, Way::Append | Way::Prepend);
        let length = if joins { before } else { 0 } + data.len() as u64;
        if length > VALUE_MAX as u64 {
            return Err(LARGE);
        }
        let freed = former.map_or(0, |item| ITEM_BYTES + key.len() as u64 + item.length);
        let cost = ITEM_BYTES + key.len() as u64 + length;
        if self.kept.keys.charged() - freed + cost > self.config.bytes_max {
            return Err(FULL);
        }
        // What joins a value keeps its time and flags.
        let deadline = if joins { Ok(former.and_then(|item| item.deadline)) } else { self.deadline(until) };
        let ask = match way {
            Way::Append => Ask::Append(key.clone(), data),
            Way::Prepend => Ask::Prepend(key.clone(), data),
            _ => Ask::Set { key: key.clone(), flags, data },
        };
        let cas = self.next();
        let Ok(deadline) = deadline else {
            self.delete(key);
            return Ok(Bytes::from_static(STORED.as_bytes()));
        };
        if self.one(ask) != Reply::Line(Bytes::from_static(b"STORED")) {
            // A server with too little memory has lost what others keep; the root will say so.
            self.kept.keys.remove(key);
            return Err(FULL);
        }
        self.kept.keys.put(key, Item { cas, deadline, length });
        Ok(Bytes::from_static(STORED.as_bytes()))
    }

    fn delete(&mut self, key: &Bytes) -> Bytes {
        if self.kept.keys.get(key).is_none() {
            return Bytes::from_static(NOT_FOUND.as_bytes());
        }
        self.one(Ask::Delete(key.clone()));
        self.kept.keys.remove(key);
        Bytes::from_static(b"DELETED\r\n")
    }

    fn count(&mut self, key: &Bytes, up: bool, by: u64) -> Bytes {
        let Some(item) = self.kept.keys.get(key) else { return Bytes::from_static(NOT_FOUND.as_bytes()) };
        let ask = if up { Ask::Up(key.clone(), by) } else { Ask::Down(key.clone(), by) };
        // A shorter number may leave blanks behind it, so its length is what the server says.
        let mut replies = self.server.ask(&[ask, Ask::Get(key.clone())]).into_iter();
        let (counted, read) = (replies.next(), replies.next());
        let Some(Reply::Line(line)) = counted else {
            return Bytes::from_static(b"SERVER_ERROR no reply\r\n");
        };
        if line.first().is_some_and(u8::is_ascii_digit) {
            let length = match read {
                Some(Reply::Value(Some((_, data)))) => data.len() as u64,
                _ => item.length,
            };
            let cas = self.next();
            self.kept.keys.put(key, Item { cas, length, ..item });
        }
        Bytes::from([&line[..], b"\r\n"].concat())
    }

    fn touch(&mut self, key: &Bytes, until: i64) -> Bytes {
        let Some(item) = self.kept.keys.get(key) else { return Bytes::from_static(NOT_FOUND.as_bytes()) };
        match self.deadline(until) {
            Ok(deadline) => self.kept.keys.put(key, Item { deadline, ..item }),
            Err(()) => drop(self.delete(key)),
        }
        Bytes::from_static(b"TOUCHED\r\n")
    }

    /// Everything goes, now or later. Keys are deleted by name: the server's own way counts in its seconds.
    fn flush(&mut self, delay: i64) -> Bytes {
        match self.deadline(delay) {
            Ok(Some(at)) => self.kept.flush_at = Some(at),
            Ok(None) | Err(()) => {
                self.kept.flush_at = None;
                self.remove_all();
            }
        }
        Bytes::from_static(b"OK\r\n")
    }

    fn remove_all(&mut self) {
        let all: Vec<Bytes> = self.kept.keys.iter().map(|(key, _)| key.clone()).collect();
        self.remove(&all);
    }

    fn remove(&mut self, keys: &[Bytes]) {
        for some in keys.chunks(AT_ONCE) {
            self.server.ask(&some.iter().cloned().map(Ask::Delete).collect::<Vec<_>>());
        }
        keys.iter().for_each(|key| self.kept.keys.remove(key));
    }

    /// Removes what has ended, before anything of the slot.
    fn expire(&mut self) {
        let due = self.kept.keys.due(self.kept.time);
        self.remove(&due);
        if self.kept.flush_at.is_some_and(|at| at <= self.kept.time) {
            self.kept.flush_at = None;
            self.remove_all();
        }
    }

    fn take_over(&mut self, index: u32, chunk: &[u8]) -> Option<()> {
        if index == 0 {
            self.restoring = Some(snapshot::begin(chunk, &self.config)?);
        } else {
            self.restoring.as_mut()?.add(index, chunk)?;
        }
        if self.restoring.as_ref()?.is_whole() {
            let stream = self.restoring.take()?.stream();
            self.kept = snapshot::restore(&self.server, &stream)?;
            // The server has the last word: what it holds now must be what was sent.
            (snapshot::encode(self) == stream).then_some(())?;
        }
        Some(())
    }

    fn empty(&mut self) {
        self.remove_all();
        (self.kept, self.restoring) = (Kept::default(), None);
        self.server.ask(&[Ask::FlushAll]);
    }
}

impl<S: Server> App for Adapter<S> {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        self.frozen = None;
        self.kept.position = at.position.0;
        self.kept.time = self.kept.time.max(at.time.0);
        self.expire();
        for request in requests {
            let reply = self.perform(request.body);
            replies.push(reply);
        }
    }

    /// Nothing is asked past the order: the server is one, and its commands take turns.
    fn query(&self, _question: &[u8]) -> Option<Bytes> {
        None
    }

    fn root(&mut self) -> Hash {
        let chunks = self.frozen.take().unwrap_or_else(|| snapshot::chunks(self));
        let root = chunks.root();
        self.frozen = Some(chunks);
        root
    }

    fn chunks(&self) -> u32 {
        self.frozen.as_ref().map_or_else(|| snapshot::chunks(self).count(), Chunks::count)
    }

    fn chunk(&self, index: u32) -> Bytes {
        self.frozen.as_ref().map_or_else(|| snapshot::chunks(self).get(index), |chunks| chunks.get(index))
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        self.frozen = None;
        if index == 0 {
            self.empty();
        }
        self.take_over(index, chunk).ok_or_else(|| {
            self.empty();
            Unrecoverable(format!("chunk {index} does not belong to a snapshot of a Memcached server"))
        })
    }

    fn bytes(&self) -> u64 {
        self.kept.keys.charged() + 192 * self.kept.keys.len() as u64
    }

    fn invariants(&self) {
        self.kept.keys.check();
    }
}
