//! The state as chunks: what is hashed, transferred and restored.
//!
//! Chunk 0 is the header: format, agreed time, number of writes, keys, length of all entries, number of chunks.
//! The others are the leaves of the tree in order of the hash, each cut every 64 KiB. An entry is kind, version,
//! deadline (0: none), key, then the length of its value and the value; numbers are little-endian and of fixed
//! width, so that the length of an encoding is a sum. Joined, the chunks behind the header are one stream of
//! entries, which is how they are restored: in order, each chunk once.
//!
//! *Bounds.* Between chunks a restore holds the part of one entry, at most 64 MiB and the bytes of one chunk; a length
//! larger than that is refused before anything is kept for it.

use bytes::Bytes;

use crate::{
    CHUNK_BYTES, ENTRY_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX,
    score::Score,
    tree::{ENTRY_FIXED_BYTES, Entry},
    value::{End, Fields, List, Set, Sorted, Value},
};

/// Format of header and entries.
const FORMAT: u8 = 1;

const TEXT: u8 = 1;
const LIST: u8 = 2;
const SET: u8 = 3;
const FIELDS: u8 = 4;
const SORTED: u8 = 5;

/// What chunk 0 holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) time: u64,
    pub(crate) writes: u64,
    pub(crate) keys: u64,
    pub(crate) weight: u64,
    /// Chunks behind the header.
    pub(crate) chunks: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(37);
        out.push(FORMAT);
        for number in [self.time, self.writes, self.keys, self.weight] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.chunks.to_le_bytes());
        Bytes::from(out)
    }

    pub(crate) fn decode(chunk: &[u8]) -> Option<Self> {
        let mut input = Input { rest: chunk };
        if input.array::<1>()? != [FORMAT] {
            return None;
        }
        let header = Self {
            time: input.u64()?,
            writes: input.u64()?,
            keys: input.u64()?,
            weight: input.u64()?,
            chunks: input.u32()?,
        };
        input.rest.is_empty().then_some(header)
    }
}

/// Encodes entries whose weights sum to `weight`.
pub(crate) fn encode<'a>(entries: impl Iterator<Item = &'a Entry>, weight: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(usize::try_from(weight).unwrap_or(0));
    for entry in entries {
        encode_entry(entry, &mut out);
    }
    assert_eq!(out.len() as u64, weight, "weights are lengths of encodings");
    out
}

fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    out.push(match &entry.value {
        Value::Text(_) => TEXT,
        Value::List(_) => LIST,
        Value::Set(_) => SET,
        Value::Fields(_) => FIELDS,
        Value::Sorted(_) => SORTED,
    });
    out.extend_from_slice(&entry.version.to_le_bytes());
    out.extend_from_slice(&entry.deadline.unwrap_or(0).to_le_bytes());
    blob(&entry.key, out);
    length(entry.value.weight(), out);
    match &entry.value {
        Value::Text(text) => blob(text, out),
        Value::List(list) => {
            length(entry.value.elements(), out);
            list.items().iter().for_each(|item| blob(item, out));
        }
        Value::Set(set) => {
            length(entry.value.elements(), out);
            set.members().iter().for_each(|member| blob(member, out));
        }
        Value::Fields(fields) => {
            length(entry.value.elements(), out);
            for (field, value) in fields.fields().iter() {
                blob(field, out);
                blob(value, out);
            }
        }
        Value::Sorted(sorted) => {
            length(entry.value.elements(), out);
            for (member, score) in sorted.members().iter() {
                blob(member, out);
                out.extend_from_slice(&score.to_bits().to_le_bytes());
            }
        }
    }
}

fn length(value: u64, out: &mut Vec<u8>) {
    let value = u32::try_from(value).unwrap_or_else(|_| unreachable!("an entry is at most 64 MiB"));
    out.extend_from_slice(&value.to_le_bytes());
}

fn blob(bytes: &[u8], out: &mut Vec<u8>) {
    length(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Why a stream of entries cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A stream of entries, given chunk by chunk.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pending: Vec<u8>,
    read: usize,
}

impl Stream {
    /// Adds a chunk.
    pub(crate) fn add(&mut self, chunk: &[u8]) -> Result<(), Broken> {
        if chunk.is_empty() || chunk.len() > CHUNK_BYTES {
            return Err(Broken);
        }
        self.pending.drain(..self.read);
        self.read = 0;
        self.pending.extend_from_slice(chunk);
        Ok(())
    }

    /// The next entry, once all of it is here.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Broken> {
        let rest = self.pending.get(self.read..).unwrap_or_default();
        let Some(whole) = entry_length(rest)? else { return Ok(None) };
        let Some(bytes) = rest.get(..whole) else { return Ok(None) };
        let entry = decode_entry(bytes).ok_or(Broken)?;
        if entry.weight() != whole as u64 || entry.value.is_empty_collection() {
            return Err(Broken);
        }
        self.read += whole;
        Ok(Some(entry))
    }

    /// Whether every byte was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.read == self.pending.len()
    }
}

/// Length of the first entry, once its two lengths are here.
fn entry_length(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    let mut input = Input { rest: bytes };
    let fixed = input.array::<17>();
    let (Some(_), Some(key)) = (fixed, input.u32()) else { return Ok(None) };
    if key as usize > KEY_BYTES_MAX {
        return Err(Broken);
    }
    let Some(value) = input.bytes(key as usize).and_then(|_| input.u32()) else { return Ok(None) };
    let whole = ENTRY_FIXED_BYTES + u64::from(key) + u64::from(value);
    if whole > ENTRY_BYTES_MAX {
        return Err(Broken);
    }
    usize::try_from(whole).map(Some).map_err(|_| Broken)
}

fn decode_entry(bytes: &[u8]) -> Option<Entry> {
    let mut input = Input { rest: bytes };
    let [kind] = input.array()?;
    let version = input.u64()?;
    let deadline = Some(input.u64()?).filter(|deadline| *deadline > 0);
    let key = Bytes::copy_from_slice(input.blob()?);
    let _value_length = input.u32()?;
    let value = match kind {
        TEXT => Value::Text(input.blob()?.to_vec()),
        LIST => Value::List(decode_list(&mut input)?),
        SET => Value::Set(decode_set(&mut input)?),
        FIELDS => Value::Fields(decode_fields(&mut input)?),
        SORTED => Value::Sorted(decode_sorted(&mut input)?),
        _ => return None,
    };
    input.rest.is_empty().then_some(Entry { key, version, deadline, value })
}

fn decode_list(input: &mut Input<'_>) -> Option<List> {
    let mut list = List::default();
    for _ in 0..input.u32()? {
        list.push(End::Right, input.blob()?);
    }
    Some(list)
}

fn decode_set(input: &mut Input<'_>) -> Option<Set> {
    let mut set = Set::default();
    let mut last = None;
    for _ in 0..input.u32()? {
        let member = input.blob()?;
        (last.replace(member) < Some(member)).then_some(())?;
        set.add(member);
    }
    Some(set)
}

fn decode_fields(input: &mut Input<'_>) -> Option<Fields> {
    let mut fields = Fields::default();
    let mut last = None;
    for _ in 0..input.u32()? {
        let field = input.blob()?;
        (last.replace(field) < Some(field)).then_some(())?;
        fields.set(field, input.blob()?);
    }
    Some(fields)
}

fn decode_sorted(input: &mut Input<'_>) -> Option<Sorted> {
    let mut sorted = Sorted::default();
    let mut last = None;
    for _ in 0..input.u32()? {
        let member = input.blob()?;
        (last.replace(member) < Some(member)).then_some(())?;
        sorted.set(member, Score::from_bits(input.u64()?)?);
    }
    Some(sorted)
}

/// A cursor over fixed-width fields.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn blob(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        if length > VALUE_BYTES_MAX { None } else { self.bytes(length) }
    }
}
