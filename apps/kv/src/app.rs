//! The store as an application: requests in agreed order in, replies out.

use core::ops::Bound;

use synod_crypto::{Hash, merkle};
use synod_service::{App, At, Replies, Request, Unrecoverable};
use synod_wire::Bytes;

use crate::{
    REPLY_BYTES_MAX, SCAN_MAX,
    denied::{MALFORMED, REPLY_TOO_LARGE, WRONG_TYPE},
    operation::{Kind, Parser, Range, Span},
    reply::Answer,
    snapshot::{Header, Stream},
    store::Store,
    value::Value,
    verbs::{self, Writing},
};

/// The reply that most writes get.
const OK: &[u8] = b"+OK\r\n";

/// What all replicas must agree on about the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most bytes that the store may hold, by its own deterministic account. Commands that would grow it
    /// further are refused.
    pub bytes_max: u64,
}

impl Default for Config {
    /// 1 GiB.
    fn default() -> Self {
        Self { bytes_max: 1 << 30 }
    }
}

/// A key-value store that replicas execute.
#[derive(Debug)]
pub struct Kv {
    config: Config,
    store: Store,
    /// Where the arguments of the present command stand; kept for its memory.
    spans: Vec<Span>,
    /// The present reply; kept for its memory.
    reply: Vec<u8>,
    restoring: Option<Restoring>,
}

/// A snapshot that has arrived in part.
#[derive(Debug)]
struct Restoring {
    header: Header,
    next: u32,
    stream: Stream,
}

/// Memory that is kept for replies between blocks, in bytes.
const REPLY_KEPT: usize = 64 << 10;

impl Kv {
    /// An empty store.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, store: Store::new(), spans: Vec::new(), reply: Vec::new(), restoring: None }
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.store.keys().len()
    }

    fn header(&self) -> Header {
        Header {
            time: self.store.time(),
            writes: self.store.writes(),
            keys: self.store.keys().len() as u64,
            weight: self.store.weight(),
            chunks: self.store.tree().chunks(),
        }
    }

    /// Executes one operation into `self.reply`.
    fn perform(&mut self, draw: &Hash, operation: &[u8]) {
        self.reply.clear();
        let Self { config, store, spans, reply, .. } = self;
        let done = match Parser::new(operation) {
            Some((Kind::Command, mut parser)) => {
                let mut writing = Writing { store, draw, bytes_max: config.bytes_max };
                command(&mut parser, &mut writing, spans, Answer::new(reply))
            }
            Some((Kind::Transaction, parser)) => {
                let mut writing = Writing { store, draw, bytes_max: config.bytes_max };
                transaction(&parser, &mut writing, spans, reply)
            }
            Some((kind, mut parser)) => question(&kind, &mut parser, store, reply),
            None => None,
        };
        if done.is_none() {
            reply.clear();
            Answer::new(reply).deny(&MALFORMED);
        }
    }

    /// Takes over chunk `index`; `None` when it is none of the snapshot.
    fn take_over(&mut self, index: u32, chunk: &[u8]) -> Option<()> {
        if index == 0 {
            let header = Header::decode(chunk)?;
            self.store = Store::resumed(header.time, header.writes);
            self.restoring = Some(Restoring { header, next: 1, stream: Stream::default() });
        } else {
            let restoring = self.restoring.as_mut().filter(|restoring| restoring.next == index)?;
            if index > restoring.header.chunks {
                return None;
            }
            restoring.stream.add(chunk).ok()?;
            restoring.next += 1;
            while let Some(entry) = restoring.stream.next().ok()? {
                let sound = entry.version > 0
                    && entry.version <= restoring.header.writes
                    && entry.deadline.is_none_or(|deadline| deadline > restoring.header.time);
                (sound && self.store.adopt(entry)).then_some(())?;
            }
        }
        self.store.tree_mut().settle();
        if let Some(restoring) = self.restoring.take_if(|restoring| restoring.next > restoring.header.chunks)
        {
            (restoring.stream.is_empty() && self.header() == restoring.header).then_some(())?;
        }
        Some(())
    }
}

/// Executes one command; `None` when it does not decode.
fn command(
    parser: &mut Parser<'_>,
    writing: &mut Writing<'_>,
    spans: &mut Vec<Span>,
    mut answer: Answer<'_>,
) -> Option<()> {
    let (verb, arguments) = parser.body(spans)?;
    if !parser.finished() {
        return None;
    }
    if let Err(denied) = verbs::write(verb, writing, &arguments, &mut answer) {
        answer.deny(&denied);
    }
    Some(())
}

/// Executes a transaction if no watched key changed; `None`, and nothing has changed, when it does not decode.
fn transaction(
    parser: &Parser<'_>,
    writing: &mut Writing<'_>,
    spans: &mut Vec<Span>,
    reply: &mut Vec<u8>,
) -> Option<()> {
    // Read through once, so that a transaction that does not decode to its end executes nothing.
    let mut reader = parser.fork();
    let mut unchanged = true;
    for _ in 0..reader.watched_count()? {
        let watched = reader.watched()?;
        unchanged &= writing.store.version(watched.key) == watched.version;
    }
    let count = reader.commands_count()?;
    let mut commands = reader.fork();
    for _ in 0..count {
        reader.body(spans)?;
    }
    if !reader.finished() {
        return None;
    }
    if !unchanged {
        Answer::new(reply).null_array();
        return Some(());
    }
    Answer::new(reply).array(count);
    for _ in 0..count {
        let (verb, arguments) = commands.body(spans)?;
        let room = REPLY_BYTES_MAX.saturating_sub(reply.len());
        let mut answer = Answer::within(reply, room);
        // What is answered without asking for room is at most one value, so a transaction passes the cap by one.
        if room == 0 {
            answer.deny(&REPLY_TOO_LARGE);
        } else if let Err(denied) = verbs::write(verb, writing, &arguments, &mut answer) {
            answer.deny(&denied);
        }
    }
    Some(())
}

/// Answers a question that only programs ask; `None` when it does not decode.
fn question(kind: &Kind, parser: &mut Parser<'_>, store: &Store, reply: &mut Vec<u8>) -> Option<()> {
    let mut answer = Answer::new(reply);
    match kind {
        Kind::Versions => {
            let count = parser.watched_count()?;
            answer.array(count);
            for _ in 0..count {
                version(store, parser.blob()?, &mut answer);
            }
        }
        Kind::Fetch => fetch(store, parser.blob()?, &mut answer),
        Kind::Range => range(store, &parser.range()?, &mut answer),
        Kind::Command | Kind::Transaction => return None,
    }
    parser.finished().then_some(())
}

/// Answers a string with its version.
fn fetch(store: &Store, key: &[u8], answer: &mut Answer<'_>) {
    let text = match store.get(key).map(|entry| &entry.value) {
        Some(Value::Text(text)) => Some(text.as_slice()),
        Some(_) => return answer.deny(&WRONG_TYPE),
        None => None,
    };
    answer.array(2);
    answer.bulk_or_null(text);
    version(store, key, answer);
}

/// Answers a page of keys in byte order.
fn range(store: &Store, range: &Range<'_>, answer: &mut Answer<'_>) {
    let limit = usize::try_from(range.limit).unwrap_or(SCAN_MAX).min(SCAN_MAX);
    let start = if range.after.is_empty() || range.after < range.prefix {
        Bound::Included(range.prefix)
    } else {
        Bound::Excluded(range.after)
    };
    let mut room = REPLY_BYTES_MAX;
    let fits = |key: &&Bytes| {
        let cost = key.len() + 32;
        let fits = cost <= room;
        room = room.saturating_sub(cost);
        fits
    };
    let keys = store.keys().range::<[u8], _>((start, Bound::Unbounded));
    let keys = keys.take_while(|key| key.starts_with(range.prefix)).take_while(fits);
    let page: Vec<_> = keys.take(limit).collect();
    answer.array(page.len());
    page.iter().for_each(|key| answer.bulk(key));
}

fn version(store: &Store, key: &[u8], answer: &mut Answer<'_>) {
    answer.integer(i64::try_from(store.version(key)).unwrap_or(i64::MAX));
}

impl App for Kv {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        self.store.advance(at.time.0);
        for request in requests {
            self.perform(&at.draw, request.body);
            replies.push(match self.reply.as_slice() {
                OK => Bytes::from_static(OK),
                reply => Bytes::copy_from_slice(reply),
            });
        }
        self.reply.clear();
        self.reply.shrink_to(REPLY_KEPT);
        self.store.tree_mut().settle();
    }

    fn query(&self, question: &[u8]) -> Option<Bytes> {
        let mut reply = Vec::new();
        let (kind, mut parser) = Parser::new(question)?;
        match kind {
            Kind::Transaction => return None,
            Kind::Command => {
                let mut spans = Vec::new();
                let (verb, arguments) = parser.body(&mut spans)?;
                if !verb.command().is_read() || !parser.finished() {
                    return None;
                }
                let mut answer = Answer::new(&mut reply);
                if let Err(denied) = verbs::read(verb, &self.store, &arguments, &mut answer) {
                    answer.deny(&denied);
                }
            }
            kind => self::question(&kind, &mut parser, &self.store, &mut reply)?,
        }
        Some(Bytes::from(reply))
    }

    fn root(&mut self) -> Hash {
        let mut leaves = vec![Hash::ZERO];
        self.store.tree_mut().hash(&mut leaves);
        leaves[0] = merkle::leaf(&self.header().encode());
        merkle::Tree::new(leaves).root()
    }

    fn chunks(&self) -> u32 {
        1 + self.store.tree().chunks()
    }

    fn chunk(&self, index: u32) -> Bytes {
        match index.checked_sub(1) {
            None => self.header().encode(),
            Some(index) => self.store.tree().chunk(index),
        }
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        self.take_over(index, chunk).ok_or_else(|| {
            self.restoring = None;
            self.store = Store::new();
            Unrecoverable(format!("chunk {index} does not belong to a snapshot of the key-value store"))
        })
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    fn invariants(&self) {
        if self.restoring.is_none() {
            self.store.invariants();
        }
    }
}
