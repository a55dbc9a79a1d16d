//! The state as chunks: what is hashed, transferred and restored.
//!
//! Chunk 0 is the header: format, quota, length of the stream. The others are the stream, cut every 64 KiB: the agreed time,
//! then each key by bytes with its deadline, its charge, whether it may hold less, and its value. A value is a tag and its elements in canonical order:
//! of strings the bytes, of lists the order, of sets by bytes, of hashes by field, of sorted sets by member with the score as
//! the server prints it, of streams by id with the last id.
//!
//! A restore empties the server, sends what builds each value, reads all of it back, and is taken only if that is byte for
//! byte what came.
//!
//! *Bounds.* While it restores, the stream; no length field is believed before the bytes have come.

use synod_crypto::Hash;
use synod_service::{Arriving, Chunks};
use synod_wire::{Bytes, Limits, Malformed, Reader, Wire, Writer, wire};

use crate::adapter::{Adapter, Config, Moment};
use crate::keyspace::Keyspace;
use crate::perform::last_id_of;
use crate::resp::{BULK_MAX, ELEMENTS_MAX, Reply};
use crate::server::Server;

const FORMAT: u8 = 1;

const STRING: u8 = 1;
const LIST: u8 = 2;
const SET: u8 = 3;
const HASH: u8 = 4;
const SORTED: u8 = 5;
const STREAM: u8 = 6;

/// Elements that one command of a restore carries.
const ELEMENTS_AT_ONCE: usize = 512;

wire! {
    /// Chunk 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Header {
        pub(crate) format: u8,
        pub(crate) quota: u64,
        pub(crate) bytes: u64,
    }
}

/// All chunks of a state.
pub(crate) fn chunks<S: Server>(adapter: &Adapter<S>) -> Chunks {
    let stream = encode(adapter);
    let header = Header { format: FORMAT, quota: adapter.config.bytes_max, bytes: stream.len() as u64 };
    Chunks::cut(&header, &stream)
}

/// Begins with chunk 0; `None` when it is of a state with another quota.
pub(crate) fn begin(chunk: &[u8], config: &Config) -> Option<Arriving> {
    let header = Header::decode(Bytes::copy_from_slice(chunk), &Limits::default()).ok()?;
    (header.format == FORMAT && header.quota == config.bytes_max).then(|| Arriving::begin(header.bytes))?
}

/// The stream of a state, read from the server.
pub(crate) fn encode<S: Server>(adapter: &Adapter<S>) -> Bytes {
    let mut out = Writer::with_capacity(1 << 12);
    adapter.moment.position.write(&mut out);
    adapter.moment.time.write(&mut out);
    out.count(adapter.keys.len());
    for (key, kept) in adapter.keys.iter() {
        blob(key, &mut out);
        kept.deadline.write(&mut out);
        kept.charged.write(&mut out);
        kept.is_above.write(&mut out);
        out.bytes(&value(&adapter.server, key));
    }
    out.freeze()
}

fn blob(bytes: &[u8], out: &mut Writer) {
    out.count(bytes.len());
    out.bytes(bytes);
}

fn words(words: &[&[u8]]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::copy_from_slice(word)).collect()
}

fn strings<S: Server>(server: &S, command: &[&[u8]]) -> Vec<Bytes> {
    server.ask(&[words(command)]).pop().and_then(Reply::strings).unwrap_or_default()
}

/// The canonical bytes of a value; empty where there is none, or none of a known type.
pub(crate) fn value<S: Server>(server: &S, key: &[u8]) -> Bytes {
    let mut out = Writer::with_capacity(64);
    let kind = server.ask(&[words(&[b"TYPE", key])]).pop();
    let Some(Reply::Simple(kind)) = kind else { return Bytes::new() };
    match &kind[..] {
        b"string" => {
            let Some(Reply::Bulk(text)) = server.ask(&[words(&[b"GET", key])]).pop() else {
                return Bytes::new();
            };
            out.byte(STRING);
            blob(&text, &mut out);
        }
        b"list" => {
            out.byte(LIST);
            all(&strings(server, &[b"LRANGE", key, b"0", b"-1"]), &mut out);
        }
        b"set" => {
            let mut members = strings(server, &[b"SMEMBERS", key]);
            members.sort();
            out.byte(SET);
            all(&members, &mut out);
        }
        b"hash" => pairs(HASH, strings(server, &[b"HGETALL", key]), &mut out),
        b"zset" => pairs(SORTED, strings(server, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]), &mut out),
        b"stream" => stream(server, key, &mut out),
        _ => {}
    }
    out.freeze()
}

fn all(elements: &[Bytes], out: &mut Writer) {
    out.count(elements.len());
    elements.iter().for_each(|element| blob(element, out));
}

fn pairs(tag: u8, flat: Vec<Bytes>, out: &mut Writer) {
    let (pieces, _) = flat.as_chunks::<2>();
    let mut pairs: Vec<&[Bytes; 2]> = pieces.iter().collect();
    pairs.sort();
    out.byte(tag);
    out.count(pairs.len() * 2);
    pairs.into_iter().flatten().for_each(|element| blob(element, out));
}

fn stream<S: Server>(server: &S, key: &[u8], out: &mut Writer) {
    out.byte(STREAM);
    let info = server.ask(&[words(&[b"XINFO", b"STREAM", key])]).pop();
    let last = match &info {
        Some(Reply::Array(items)) => last_id_of(items),
        _ => None,
    };
    let (time, number) = last.unwrap_or_default();
    blob(format!("{time}-{number}").as_bytes(), out);
    let entries = server.ask(&[words(&[b"XRANGE", key, b"-", b"+"])]).pop();
    let Some(Reply::Array(entries)) = entries else { return out.count(0) };
    out.count(entries.len());
    for entry in entries {
        if let Reply::Array(parts) = entry
            && let [Reply::Bulk(id), fields] = &parts[..]
        {
            blob(id, out);
            all(&fields.clone().strings().unwrap_or_default(), out);
        }
    }
}

/// Builds the state of a stream on an emptied server.
pub(crate) fn restore<S: Server>(server: &S, stream: &Bytes) -> Option<(Moment, Keyspace)> {
    let mut input = Reader::new(stream, &Limits { frame_max: u32::MAX }).ok()?;
    let mut keys = Keyspace::default();
    let position = u64::read(&mut input).ok()?;
    let time = u64::read(&mut input).ok()?;
    server.ask(&[words(&[b"FLUSHALL"])]);
    for _ in 0..input.count(u32::MAX as usize).ok()? {
        let key = read_blob(&mut input).ok()?;
        let deadline = Option::<u64>::read(&mut input).ok()?;
        let charged = u64::read(&mut input).ok()?;
        let is_above = bool::read(&mut input).ok()?;
        let commands = commands(&key, &mut input).ok()??;
        let replies = server.ask(&commands);
        let refused = replies.iter().any(|reply| matches!(reply, Reply::Error(_)));
        if refused || keys.get(&key).is_some() || keys.charged().checked_add(charged).is_none() {
            return None;
        }
        keys.appears(&key);
        keys.ends(&key, deadline);
        keys.charge(&key, charged);
        if is_above {
            keys.is_above(&key);
        }
    }
    let moment = Moment { position, time, draw: Hash::ZERO, index: 0 };
    (input.remaining() == 0).then_some((moment, keys))
}

fn read_blob(input: &mut Reader) -> Result<Bytes, Malformed> {
    let length = input.count(BULK_MAX)?;
    input.take(length)
}

fn read_all(input: &mut Reader) -> Result<Vec<Bytes>, Malformed> {
    let count = input.count(ELEMENTS_MAX)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(read_blob(input)?);
    }
    Ok(elements)
}

/// The commands that build a value; `None` for a tag that no value has.
fn commands(key: &Bytes, input: &mut Reader) -> Result<Option<Vec<Vec<Bytes>>>, Malformed> {
    let name: &[u8] = match input.byte()? {
        STRING => return Ok(Some(vec![vec![Bytes::from_static(b"SET"), key.clone(), read_blob(input)?]])),
        LIST => b"RPUSH",
        SET => b"SADD",
        HASH => b"HSET",
        SORTED => return Ok(Some(scored(key, &read_all(input)?))),
        STREAM => return read_stream(key, input).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(in_parts(name, key, &read_all(input)?)))
}

fn in_parts(name: &[u8], key: &Bytes, elements: &[Bytes]) -> Vec<Vec<Bytes>> {
    let front = [Bytes::copy_from_slice(name), key.clone()];
    elements.chunks(ELEMENTS_AT_ONCE).map(|some| front.iter().chain(some).cloned().collect()).collect()
}

/// Members with scores, which ZADD wants in front.
fn scored(key: &Bytes, flat: &[Bytes]) -> Vec<Vec<Bytes>> {
    let (pieces, _) = flat.as_chunks::<2>();
    let turned: Vec<Bytes> =
        pieces.iter().flat_map(|[member, score]| [score.clone(), member.clone()]).collect();
    in_parts(b"ZADD", key, &turned)
}

fn read_stream(key: &Bytes, input: &mut Reader) -> Result<Vec<Vec<Bytes>>, Malformed> {
    let last = read_blob(input)?;
    let mut commands = Vec::new();
    let count = input.count(ELEMENTS_MAX)?;
    for _ in 0..count {
        let id = read_blob(input)?;
        let fields = read_all(input)?;
        let front = [Bytes::from_static(b"XADD"), key.clone(), id];
        commands.push(front.into_iter().chain(fields).collect());
    }
    if commands.is_empty() {
        // A stream without entries: one that is trimmed at once, with the id that was given out last.
        commands.push(words(&[b"XADD", key, b"MAXLEN", b"0", &last, b"x", b"x"]));
    }
    commands.push(words(&[b"XSETID", key, &last]));
    Ok(commands)
}
