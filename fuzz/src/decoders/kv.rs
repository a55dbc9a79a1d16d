//! The key-value store: operations, replies, numbers, scores, snapshots.

use synod_crypto::Hash;
use synod_crypto::merkle::{Tree, leaf};
use synod_kv::{COMMANDS, Config, DEPTH_MAX, Kv, Reply, Score, number, operation};
use synod_machine::Wall;
use synod_machine::broadcast::Position;
use synod_service::{App, At, Replies, Request};
use synod_wire::{Bytes, Drawn};

use super::{one_of, some_bytes};
use crate::check::{accept, bounded};
use crate::{Kind, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("kv-operation", Kind::Slow, run, asked),
    Target::new("kv-reply", Kind::Decoder, reply, answered),
    Target::new("kv-number", Kind::Decoder, number, numbered),
    Target::new("kv-score", Kind::Decoder, score, scored),
    Target::new("kv-restore", Kind::Slow, restore, snapshot),
];

/// Keys and words that operations share, so that they meet.
const WORDS: &[&[u8]] = &[
    b"a",
    b"b",
    b"list",
    b"set",
    b"hash",
    b"zset",
    b"0",
    b"1",
    b"-1",
    b"2",
    b"10",
    b"EX",
    b"PX",
    b"NX",
    b"XX",
    b"COUNT",
    b"MATCH",
    b"*",
    b"[a-",
    b"WITHSCORES",
    b"BYSCORE",
    b"REV",
    b"LIMIT",
    b"(1",
    b"-inf",
    b"+inf",
    b"1.5",
    b"nan",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"",
    b"\xff\x00",
];

const fn at(position: u64) -> At {
    At { position: Position(position), time: Wall(1_000 + position), draw: Hash([9; 32]) }
}

/// Executes requests in one block; the replies.
fn execute(store: &mut Kv, position: u64, bodies: &[&[u8]]) -> Vec<Bytes> {
    let mut replies = Replies::default();
    let requests = bodies.iter().map(|body| Request { session: 1, sequence: 1, body });
    store.execute(&at(position), &mut { requests }, &mut replies);
    replies.drain().collect()
}

/// A store with one key of each kind.
fn stocked() -> Kv {
    let mut store = Kv::new(Config { bytes_max: 1 << 20 });
    let mut command = |words: &[&str]| {
        let mut words = words.iter().map(|word| word.as_bytes());
        let verb = words.next().and_then(synod_kv::Verb::find);
        let Some(verb) = verb else { unreachable!("the stock is made of known commands") };
        let mut body = Vec::new();
        operation::write_command(verb, words.collect::<Vec<_>>().into_iter(), &mut body);
        let replies = execute(&mut store, 1, &[&body]);
        assert!(replies.iter().all(|reply| !reply.starts_with(b"-")), "{replies:?}");
    };
    command(&["SET", "a", "10"]);
    command(&["RPUSH", "list", "x", "y"]);
    command(&["SADD", "set", "x", "y"]);
    command(&["HSET", "hash", "x", "1"]);
    command(&["ZADD", "zset", "1.5", "x", "2", "y"]);
    store
}

/// Puts an operation to a store, as a question and as a request.
///
/// # Panics
/// When it has no reply, a reply that does not decode, a question that changes the state, or breaks an invariant.
pub fn run(bytes: &[u8]) {
    let mut store = stocked();
    let before = store.root();
    let answer = store.query(bytes);
    assert_eq!(store.root(), before, "a question changed the state");
    if let Some(answer) = &answer {
        accept();
        assert!(Reply::decode(answer).is_some(), "the answer {answer:?} is no reply");
        assert!(operation::is_read(bytes), "an answered question is a read");
    }
    let replies = execute(&mut store, 2, &[bytes]);
    let [reply] = replies.as_slice() else { unreachable!("one reply per request, not {}", replies.len()) };
    assert!(Reply::decode(reply).is_some(), "the reply {reply:?} is no reply");
    store.invariants();
    if answer.is_none() && !reply.starts_with(b"-") {
        accept();
    }
    let mut twin = stocked();
    assert_eq!(execute(&mut twin, 2, &[bytes]), replies, "two replicas differ");
    assert_eq!(twin.root(), store.root(), "two replicas differ");
}

fn arguments(from: &mut Drawn, count: u64) -> Vec<Vec<u8>> {
    let word = |from: &mut Drawn| match from.below(6) {
        0 => some_bytes(from, 300),
        _ => one_of(from, WORDS).to_vec(),
    };
    (0..count).map(|_| word(from)).collect()
}

fn body(from: &mut Drawn, out: &mut Vec<u8>) {
    let row = COMMANDS[usize::try_from(from.below(COMMANDS.len() as u64)).unwrap_or(0)];
    let fixed = u64::from(row.arity.unsigned_abs()) - 1;
    let more = if row.arity < 0 { from.below(4) } else { 0 };
    let words = arguments(from, fixed + more);
    operation::write_body(row.verb, words.iter().map(Vec::as_slice), out);
}

/// A drawn operation.
pub(crate) fn asked(from: &mut Drawn) -> Vec<u8> {
    let mut out = Vec::new();
    let words = arguments(from, 3);
    let mut words = words.iter().map(Vec::as_slice);
    match from.below(12) {
        0 => {
            let count = from.below(4);
            let mut bodies = Vec::new();
            (0..count).for_each(|_| body(from, &mut bodies));
            let watched = operation::Watched { key: b"a", version: from.below(3) };
            let count = usize::try_from(count).unwrap_or(0);
            operation::write_transaction([watched].into_iter(), count, &bodies, &mut out);
        }
        1 => operation::write_versions(words.collect::<Vec<_>>().into_iter(), &mut out),
        2 => operation::write_fetch(words.next().unwrap_or_default(), &mut out),
        3 => {
            let (prefix, after) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let limit = u32::try_from(from.below(1 << 33)).unwrap_or(u32::MAX);
            operation::write_range(&operation::Range { prefix, after, limit }, &mut out);
        }
        _ => {
            // A command is a body behind its tag.
            operation::write_command(synod_kv::Verb::Get, [].into_iter(), &mut out);
            out.truncate(1);
            body(from, &mut out);
        }
    }
    out
}

/// Reads a reply.
///
/// # Panics
/// When an accepted reply is not what it would be written as.
pub fn reply(bytes: &[u8]) {
    let input = Bytes::copy_from_slice(bytes);
    let Some(reply) = bounded(bytes.len(), || Reply::decode(&input)) else { return };
    accept();
    let mut again = Vec::new();
    reply.write(&mut again);
    assert!(again == bytes, "roundtrip: {reply:?} is written as {again:?}");
    again.push(b'_');
    assert!(Reply::decode(&Bytes::from(again)).is_none(), "a byte behind {reply:?} was accepted");
}

fn drawn_reply(from: &mut Drawn, depth: u8) -> Reply {
    let leaf = if depth == 0 { 7 } else { 11 };
    let text = |from: &mut Drawn| Bytes::from_static(one_of(from, &[&b"OK"[..], b"ERR no", b"", b"QUEUED"]));
    let many = |from: &mut Drawn| -> Vec<Reply> {
        (0..from.below(4)).map(|_| drawn_reply(from, depth - 1)).collect()
    };
    let pairs = |from: &mut Drawn| -> Vec<(Reply, Reply)> {
        (0..from.below(3)).map(|_| (drawn_reply(from, depth - 1), drawn_reply(from, depth - 1))).collect()
    };
    match from.below(leaf) {
        0 => Reply::Simple(text(from)),
        1 => Reply::Error(text(from)),
        2 => Reply::Integer(from.next().cast_signed() >> from.below(64)),
        3 => Reply::Bulk(Bytes::from(some_bytes(from, 300))),
        4 => Reply::Null,
        5 => Reply::NullArray,
        6 => Score::from_bits(from.next()).map_or(Reply::Null, Reply::Double),
        7 => Reply::Array(many(from)),
        8 => Reply::Set(many(from)),
        9 => Reply::Map(pairs(from)),
        _ => Reply::Pairs(pairs(from)),
    }
}

/// The bytes of a drawn reply, of which the reply comes back.
pub(crate) fn answered(from: &mut Drawn) -> Vec<u8> {
    let depth = from.below(u64::from(DEPTH_MAX)).to_le_bytes()[0];
    let reply = drawn_reply(from, depth);
    let mut out = Vec::new();
    reply.write(&mut out);
    let again = Reply::decode(&Bytes::from(out.clone()));
    assert!(again.as_ref() == Some(&reply), "roundtrip: {reply:?} came back as {again:?}");
    out
}

/// Reads a decimal integer.
///
/// # Panics
/// When an accepted integer is not what it would be written as.
pub fn number(bytes: &[u8]) {
    let Some(value) = number::parse(bytes) else { return };
    accept();
    let mut again = Vec::new();
    number::write(&mut again, value);
    assert!(again == bytes, "roundtrip: {value} is written as {again:?}");
}

fn numbered(from: &mut Drawn) -> Vec<u8> {
    let mut out = Vec::new();
    number::write(&mut out, from.next().cast_signed() >> from.below(64));
    out
}

/// Reads a score.
///
/// # Panics
/// When the text of an accepted score does not read back to it, or its bits do not.
pub fn score(bytes: &[u8]) {
    let Some(score) = bounded(bytes.len(), || Score::parse(bytes)) else { return };
    accept();
    assert_eq!(Score::parse(score.text().as_bytes()), Some(score), "roundtrip: {}", score.text());
    assert_eq!(Score::from_bits(score.to_bits()), Some(score), "roundtrip: bits of {}", score.text());
}

fn scored(from: &mut Drawn) -> Vec<u8> {
    let texts: &[&[u8]] =
        &[b"inf", b"-inf", b"+inf", b"0", b"-0", b"1e400", b"1e-400", b"0x10", b"NaN", b".5", b"5."];
    match from.below(3) {
        0 => one_of(from, texts).to_vec(),
        1 => (from.next().cast_signed() >> from.below(64)).to_string().into_bytes(),
        _ => Score::from_bits(from.next()).map_or_else(Vec::new, |score| score.text().into_bytes()),
    }
}

/// Restores a store: chunks behind a length of two bytes each, in order.
///
/// # Panics
/// When a refused snapshot leaves a state behind, or the state of an accepted one breaks an invariant, or has the root
/// of its chunks and is encoded as others. Chunks in another order are the caller's to find, by the root.
pub fn restore(bytes: &[u8]) {
    let mut store = Kv::new(Config { bytes_max: 1 << 20 });
    let mut chunks: Vec<&[u8]> = Vec::new();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (chunk, behind) = behind.split_at_checked(length).unwrap_or((behind, &[]));
        chunks.push(chunk);
        rest = behind;
    }
    for (index, chunk) in (0_u32..).zip(&chunks) {
        let taken = bounded(bytes.len() + STORE_BYTES / 8, || store.restore(index, chunk));
        if taken.is_err() {
            assert_eq!((store.keys(), store.chunks()), (0, 1), "a refused snapshot left a state behind");
            return;
        }
    }
    if !is_whole(&chunks) {
        return;
    }
    store.invariants();
    let certified = Tree::new(chunks.iter().map(|chunk| leaf(chunk)).collect()).root();
    if store.root() == certified {
        accept();
        let again = (0..store.chunks()).map(|index| store.chunk(index));
        assert!(again.eq(chunks.iter().copied()), "roundtrip: a restored store is not the one of its chunks");
    }
}

/// What a store sets aside for itself, whatever it is restored from.
const STORE_BYTES: usize = 128 << 10;

/// Whether there are as many chunks as the header says: chunk 0 ends with their number.
fn is_whole(chunks: &[&[u8]]) -> bool {
    let header = chunks.first().and_then(|header| header.last_chunk::<4>());
    header.is_some_and(|count| u64::from(u32::from_le_bytes(*count)) < chunks.len() as u64)
}

fn snapshot(from: &mut Drawn) -> Vec<u8> {
    let mut store = if from.below(4) == 0 { Kv::new(Config::default()) } else { stocked() };
    for position in 3..3 + from.below(8) {
        let operation = asked(from);
        execute(&mut store, position, &[&operation]);
    }
    store.root();
    let mut out = Vec::new();
    for index in 0..store.chunks() {
        let chunk = store.chunk(index);
        out.extend(u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&chunk);
    }
    out
}

/// The reply of a store to one operation.
pub(crate) fn once(store: &mut Kv, operation: &[u8]) -> Bytes {
    let mut replies = execute(store, 1, &[operation]);
    replies.pop().unwrap_or_default()
}
