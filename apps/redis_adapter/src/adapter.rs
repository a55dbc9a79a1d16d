//! The adapter as an application: requests in agreed order in, commands to the server, canonical replies out.

use synod_crypto::Hash;
use synod_service::{App, Arriving, At, Chunks, Replies, Request, Unrecoverable};
use synod_wire::{Bytes, Limits, Wire};

use crate::keyspace::{KEY_BYTES, Keyspace};
use crate::operation::{Command, Operation};
use crate::resp::Reply;
use crate::server::Server;
use crate::snapshot;
use crate::table::{Class, Effect, Keys, Row, Weight, find, why_not};

/// Longest operation, in bytes.
pub const OPERATION_BYTES_MAX: u32 = 4 << 20;
/// Longest string that an offset may make, in bytes.
const OFFSET_MAX: u64 = 8 << 20;
/// Longest name of a command.
const NAME_MAX: usize = 32;

pub(crate) const SYNTAX: Reply = Reply::refused("ERR syntax error");
pub(crate) const NOT_A_NUMBER: Reply = Reply::refused("ERR value is not an integer or out of range");
const MALFORMED: Reply = Reply::refused("ERR the request does not decode");
const FULL: Reply = Reply::refused("OOM the quota of the replicated server is used up");
const WORDS: Reply = Reply::refused(WRONG_NUMBER);
const WRONG_NUMBER: &str = "ERR wrong number of arguments";
const TOO_LONG: Reply = Reply::refused("ERR the command was carried out, and its reply is too long");
/// Room that a short reply is given.
const LIGHT_BYTES: usize = 512;
/// Room for the count in front of the replies of a burst.
const COUNT_BYTES: usize = 16;

/// What all replicas must agree on about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most bytes that keys and values may hold, by the adapter's own account.
    pub bytes_max: u64,
    /// Most bytes that the replies to one burst may have together.
    pub replies_max: u32,
}

impl Default for Config {
    /// 256 MiB, the largest archive of an external application, and 16 KiB.
    fn default() -> Self {
        Self { bytes_max: 256 << 20, replies_max: 16 << 10 }
    }
}

/// Whether these words are a command that is allowed; the whole rest is found when it is carried out.
///
/// # Errors
/// Why they are none, as an error of Redis.
pub fn check<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), &'static str> {
    let count = words.len();
    let name = words.take(1).next().map(name_of).unwrap_or_default();
    let row = find(&name).ok_or_else(|| why_not(&name))?;
    if row.fits(count) { Ok(()) } else { Err(WRONG_NUMBER) }
}

/// The name of a command in capitals; empty where it is none.
fn name_of(word: &[u8]) -> String {
    let word = if word.len() <= NAME_MAX { word } else { &[] };
    core::str::from_utf8(word).unwrap_or_default().to_ascii_uppercase()
}

/// Where in the agreed order a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    pub(crate) position: u64,
    /// Agreed time in ms.
    pub(crate) time: u64,
    pub(crate) draw: Hash,
    /// Commands of the slot before this one.
    pub(crate) index: u64,
}

/// A Redis server as an application.
#[derive(Debug)]
pub struct Adapter<S> {
    pub(crate) config: Config,
    pub(crate) server: S,
    pub(crate) moment: Moment,
    pub(crate) keys: Keyspace,
    frozen: Option<Chunks>,
    restoring: Option<Arriving>,
}

/// What a command is refused or answered with before it reaches the server.
pub(crate) type Done = Result<Reply, Reply>;

impl<S: Server> Adapter<S> {
    /// An adapter in front of a server, which is emptied: what it holds is nobody's state.
    pub fn new(config: Config, server: S) -> Self {
        let adapter = Self {
            config,
            server,
            moment: Moment::default(),
            keys: Keyspace::default(),
            frozen: None,
            restoring: None,
        };
        adapter.one(&[Bytes::from_static(b"FLUSHALL")]);
        adapter
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &S {
        &self.server
    }

    /// Sends one command.
    pub(crate) fn one(&self, words: &[Bytes]) -> Reply {
        let mut replies = self.server.ask(&[words.to_vec()]);
        assert_eq!(replies.len(), 1, "one reply per command");
        replies.remove(0)
    }

    /// Executes what one request asks.
    fn perform(&mut self, body: &[u8]) -> Bytes {
        let limits = Limits { frame_max: OPERATION_BYTES_MAX };
        match Operation::decode(Bytes::copy_from_slice(body), &limits) {
            Ok(Operation::One(command)) => self.command(&command).encode(),
            Ok(Operation::Burst(burst)) => Reply::Array(self.burst(&burst)).encode(),
            Ok(Operation::Whole(all)) => {
                Reply::Array(all.iter().map(|command| self.command(command)).collect()).encode()
            }
            Err(_) => MALFORMED.encode(),
        }
    }

    /// Executes as many commands as have room for their replies, the first in any case. What changes something is begun only where its
    /// reply has room; the reply to a read that has none is given up, with all that follows it.
    fn burst(&mut self, burst: &[Command]) -> Vec<Reply> {
        let most = usize::try_from(self.config.replies_max).unwrap_or(usize::MAX).saturating_sub(COUNT_BYTES);
        let (mut replies, mut bytes) = (Vec::new(), 0_usize);
        for command in burst {
            let words = command.words();
            let row = words.first().and_then(|name| find(&name_of(name)));
            let weight = row.map_or(Weight::Light, |row| row.weight(&words));
            let least = bytes.saturating_add(LIGHT_BYTES);
            if !replies.is_empty() && (weight == Weight::Heavy || least > most) {
                break;
            }
            let mut reply = self.command(command);
            let mut length = reply.encode().len();
            if bytes.saturating_add(length) > most {
                if weight == Weight::Read && !replies.is_empty() {
                    break;
                }
                reply = TOO_LONG;
                length = reply.encode().len();
            }
            bytes = bytes.saturating_add(length);
            replies.push(reply);
        }
        replies
    }

    fn command(&mut self, command: &Command) -> Reply {
        self.moment.index += 1;
        let words = command.words();
        let name = words.first().map(|name| name_of(name)).unwrap_or_default();
        let Some(row) = find(&name) else { return Reply::refused(why_not(&name)) };
        if !row.fits(words.len()) {
            return WORDS;
        }
        let done = match row.class {
            Class::Own(own) => self.own(own, row, &words),
            Class::Pure => self.pass(row, &words),
            Class::Sorted => self.pass(row, &words).map(sorted),
        };
        done.unwrap_or_else(|refused| refused)
    }

    /// Passes a command on, and learns what became of its keys.
    pub(crate) fn pass(&mut self, row: &Row, words: &[Bytes]) -> Done {
        let keys = keys_of(row.keys, words)?;
        if row.effect == Effect::Reads {
            return Ok(self.one(words));
        }
        let cost = cost(row, words)?;
        if !matches!(row.effect, Effect::Shrinks) {
            self.has_room(cost)?;
        }
        let reply = self.send(words, &keys);
        if matches!(reply, Reply::Error(_)) {
            return Ok(reply);
        }
        // SETNX and MSETNX say with 0 that they wrote nothing.
        let wrote = !row.name.ends_with("NX") || reply != Reply::Integer(0);
        match row.effect {
            Effect::Reads => {}
            Effect::Shrinks => keys.iter().for_each(|key| self.keys.is_above(key)),
            Effect::Grows => keys.iter().for_each(|key| self.grow(key, cost)),
            Effect::Writes if wrote => {
                let each = cost / (keys.len() as u64).max(1);
                keys.iter().for_each(|key| self.written(key, each));
            }
            Effect::Writes => {}
            Effect::Stores => {
                if let Some(key) = keys.first() {
                    self.keys.ends(key, None);
                    self.recount(key);
                }
            }
            Effect::Spreads => keys.iter().for_each(|key| self.recount(key)),
        }
        Ok(reply)
    }

    /// Sends a command that writes, and asks which of its keys are there behind it.
    pub(crate) fn send(&mut self, words: &[Bytes], keys: &[Bytes]) -> Reply {
        let exists = |key: &Bytes| vec![Bytes::from_static(b"EXISTS"), key.clone()];
        let mut commands = vec![words.to_vec()];
        commands.extend(keys.iter().map(exists));
        let mut replies = self.server.ask(&commands).into_iter();
        let reply = replies.next().unwrap_or(Reply::Null);
        for (key, there) in keys.iter().zip(replies) {
            if there == Reply::Integer(0) {
                self.keys.vanishes(key);
            } else {
                self.keys.appears(key);
            }
        }
        reply
    }
    /// Whether `cost` more bytes fit, once keys were counted that may hold less than they are charged for.
    pub(crate) fn has_room(&mut self, cost: u64) -> Result<(), Reply> {
        while self.keys.charged().saturating_add(cost) > self.config.bytes_max {
            let Some(key) = self.keys.first_above() else { return Err(FULL) };
            self.recount(&key);
        }
        Ok(())
    }

    /// Charges a key for what it grew by.
    pub(crate) fn grow(&mut self, key: &Bytes, bytes: u64) {
        let before = self.keys.get(key).map_or(0, |kept| kept.charged);
        self.keys.charge(key, before.saturating_add(bytes));
        self.keys.is_above(key);
    }

    /// A key was written anew.
    pub(crate) fn written(&mut self, key: &Bytes, bytes: u64) {
        self.keys.ends(key, None);
        self.keys.charge(key, bytes);
    }

    /// Charges a key for exactly what it holds.
    pub(crate) fn recount(&mut self, key: &Bytes) {
        if self.keys.get(key).is_some() {
            let value = snapshot::value(&self.server, key).len() as u64;
            self.keys.charge(key, KEY_BYTES + key.len() as u64 + value);
        }
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, key: &Bytes) {
        self.send(&[Bytes::from_static(b"DEL"), key.clone()], std::slice::from_ref(key));
    }

    /// Removes the keys whose time has come, before anything of the slot.
    fn expire(&mut self) {
        let due = self.keys.due(self.moment.time);
        for some in due.chunks(512) {
            let words: Vec<Bytes> =
                [Bytes::from_static(b"DEL")].into_iter().chain(some.iter().cloned()).collect();
            self.one(&words);
        }
        due.iter().for_each(|key| self.keys.vanishes(key));
    }

    fn take_over(&mut self, index: u32, chunk: &[u8]) -> Option<()> {
        if index == 0 {
            self.restoring = Some(snapshot::begin(chunk, &self.config)?);
        } else {
            self.restoring.as_mut()?.add(index, chunk)?;
        }
        if self.restoring.as_ref()?.is_whole() {
            let stream = self.restoring.take()?.stream();
            (self.moment, self.keys) = snapshot::restore(&self.server, &stream)?;
            // The server has the last word: what it holds now must be what was sent.
            (snapshot::encode(self) == stream).then_some(())?;
        }
        Some(())
    }

    fn empty(&mut self) {
        (self.moment, self.keys, self.restoring) = (Moment::default(), Keyspace::default(), None);
        self.one(&[Bytes::from_static(b"FLUSHALL")]);
    }
}

fn sorted(reply: Reply) -> Reply {
    match reply {
        Reply::Array(mut items) => {
            items.sort();
            Reply::Array(items)
        }
        other => other,
    }
}

/// The keys of a command, each once.
pub(crate) fn keys_of(keys: Keys, words: &[Bytes]) -> Result<Vec<Bytes>, Reply> {
    let behind = |from: usize| words.get(from..).unwrap_or_default();
    let counted = |from: usize| {
        let count = words.get(from).and_then(|word| number(word)).filter(|count| *count > 0);
        let count = count.and_then(|count| usize::try_from(count).ok()).ok_or(NOT_A_NUMBER)?;
        behind(from + 1).get(..count).ok_or(SYNTAX)
    };
    let mut found: Vec<Bytes> = match keys {
        Keys::None => Vec::new(),
        Keys::One => behind(1).iter().take(1).cloned().collect(),
        Keys::Two => behind(1).iter().take(2).cloned().collect(),
        Keys::All | Keys::Store => behind(1).to_vec(),
        Keys::Pairs if words.len().is_multiple_of(2) => return Err(WORDS),
        Keys::Pairs => behind(1).iter().step_by(2).cloned().collect(),
        Keys::Behind => behind(2).to_vec(),
        Keys::Counted => counted(1)?.to_vec(),
        Keys::StoreCounted => behind(1).iter().take(1).chain(counted(2)?).cloned().collect(),
    };
    let mut at = 0;
    while at < found.len() {
        let (before, rest) = found.split_at(at);
        if rest.first().is_some_and(|key| before.contains(key)) {
            found.remove(at);
        } else {
            at += 1;
        }
    }
    Ok(found)
}

/// What a command may add: its words, and the bytes that an offset reaches over.
fn cost(row: &Row, words: &[Bytes]) -> Result<u64, Reply> {
    let reach = match row.name {
        "SETRANGE" => offset(words)?,
        "SETBIT" => offset(words)? / 8,
        _ => 0,
    };
    if reach > OFFSET_MAX {
        return Err(Reply::refused("ERR the offset is beyond what a replicated server keeps"));
    }
    Ok(reach + paid(words))
}

/// What words are charged, a key's own charge with them.
pub(crate) fn paid(words: &[Bytes]) -> u64 {
    // Each word may become an element of its own, with a length in front of it.
    words.iter().map(|word| word.len() as u64 + 8).sum::<u64>() + KEY_BYTES
}

fn offset(words: &[Bytes]) -> Result<u64, Reply> {
    words.get(2).and_then(|word| number(word)).and_then(|at| u64::try_from(at).ok()).ok_or(NOT_A_NUMBER)
}

/// A decimal number as the server reads one.
pub(crate) fn number(word: &[u8]) -> Option<i64> {
    let text = core::str::from_utf8(word).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" && text == "0" || !digits.starts_with('0');
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain && all { text.parse().ok() } else { None }
}

impl<S: Server> App for Adapter<S> {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        self.frozen = None;
        let time = self.moment.time.max(at.time.0);
        self.moment = Moment { position: at.position.0, time, draw: at.draw, index: 0 };
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
            Unrecoverable(format!("chunk {index} does not belong to a snapshot of a Redis server"))
        })
    }

    fn bytes(&self) -> u64 {
        self.keys.charged() + 256 * self.keys.len() as u64
    }

    fn invariants(&self) {
        self.keys.check();
    }
}
