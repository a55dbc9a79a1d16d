//! Replies: one canonical byte form that a gateway turns into RESP2 or RESP3.
//!
//! The form is RESP3 with two additions: `^` marks an absent array (RESP2 `*-1`, RESP3 `_`), and `&` a list of
//! member and score pairs (RESP2 flat, RESP3 pairs). Replicas compare replies as bytes, so every reply has one
//! encoding.
//!
//! *Bounds.* A reply is at most [`REPLY_BYTES_MAX`](crate::REPLY_BYTES_MAX), for a transaction plus one value and
//! one error text per command; decoding goes at most [`DEPTH_MAX`] deep and allocates in proportion to its input.

use bytes::Bytes;

use crate::{denied::Denied, number, score::Score};

/// Deepest nesting of a reply: an array of results, one of which is a list of pairs.
pub const DEPTH_MAX: u8 = 4;

/// A reply as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK`.
    Simple(Bytes),
    /// A refusal: its text without the leading `-`.
    Error(Bytes),
    /// A number.
    Integer(i64),
    /// A string of bytes.
    Bulk(Bytes),
    /// No value.
    Null,
    /// No array: EXEC of a transaction whose watched keys changed, LPOP with a count of an absent key.
    NullArray,
    /// A score.
    Double(Score),
    /// Results in order.
    Array(Vec<Reply>),
    /// Distinct members in byte order.
    Set(Vec<Reply>),
    /// Fields with values, in byte order of the fields.
    Map(Vec<(Reply, Reply)>),
    /// Members with scores.
    Pairs(Vec<(Reply, Reply)>),
}

impl Reply {
    /// Appends the canonical bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut answer = Answer::new(out);
        match self {
            Self::Simple(text) => answer.line(b'+', text),
            Self::Error(text) => answer.line(b'-', text),
            Self::Integer(value) => answer.integer(*value),
            Self::Bulk(bytes) => answer.bulk(bytes),
            Self::Null => answer.null(),
            Self::NullArray => answer.null_array(),
            Self::Double(score) => answer.double(*score),
            Self::Array(items) => {
                answer.array(items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Self::Set(items) => {
                answer.set(items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Self::Map(pairs) | Self::Pairs(pairs) => {
                let tag = if matches!(self, Self::Map(_)) { b'%' } else { b'&' };
                answer.count(tag, pairs.len());
                for (left, right) in pairs {
                    left.write(out);
                    right.write(out);
                }
            }
        }
    }

    /// Reads one reply that fills `bytes` entirely; `None` when it is not one.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let mut rest = bytes.clone();
        let reply = read(&mut rest, DEPTH_MAX)?;
        rest.is_empty().then_some(reply)
    }

    /// The text of an error reply.
    #[must_use]
    pub fn error(&self) -> Option<&[u8]> {
        match self {
            Self::Error(text) => Some(text),
            _ => None,
        }
    }
}

fn read(rest: &mut Bytes, depth: u8) -> Option<Reply> {
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    if rest.get(end + 1) != Some(&b'\n') || end == 0 {
        return None;
    }
    let line = rest.split_to(end + 2).slice(..end);
    let text = line.slice(1..);
    Some(match line[0] {
        b'+' => Reply::Simple(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Integer(number::parse(&text)?),
        // A score has many texts and one that is written: replicas compare bytes.
        b',' => Reply::Double(Score::parse(&text).filter(|score| score.text().as_bytes() == text)?),
        b'_' if text.is_empty() => Reply::Null,
        b'^' if text.is_empty() => Reply::NullArray,
        b'$' => {
            let length = usize::try_from(number::parse(&text)?).ok()?;
            if rest.len() < length.checked_add(2)? || rest[length..length + 2] != *b"\r\n" {
                return None;
            }
            let bytes = rest.split_to(length);
            let _line_end = rest.split_to(2);
            Reply::Bulk(bytes)
        }
        b'*' => Reply::Array(items(rest, &text, depth)?),
        b'~' => Reply::Set(items(rest, &text, depth)?),
        b'%' => Reply::Map(pairs(rest, &text, depth)?),
        b'&' => Reply::Pairs(pairs(rest, &text, depth)?),
        _ => return None,
    })
}

/// Reads as many replies as `text` says; the vector grows with what is read, never by the number alone.
fn items(rest: &mut Bytes, text: &[u8], depth: u8) -> Option<Vec<Reply>> {
    let depth = depth.checked_sub(1)?;
    let count = usize::try_from(number::parse(text)?).ok()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read(rest, depth)?);
    }
    Some(items)
}

fn pairs(rest: &mut Bytes, text: &[u8], depth: u8) -> Option<Vec<(Reply, Reply)>> {
    let depth = depth.checked_sub(1)?;
    let count = usize::try_from(number::parse(text)?).ok()?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((read(rest, depth)?, read(rest, depth)?));
    }
    Some(pairs)
}

/// Writes replies without building values: what the commands use.
pub(crate) struct Answer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    room: usize,
}

impl<'a> Answer<'a> {
    /// Appends behind what `out` holds, with the full room for one reply.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, room: crate::REPLY_BYTES_MAX }
    }

    /// Appends behind what `out` holds, at most `room` bytes.
    pub(crate) fn within(out: &'a mut Vec<u8>, room: usize) -> Self {
        let start = out.len();
        Self { out, start, room }
    }

    /// Whether `more` bytes still fit.
    ///
    /// # Errors
    /// The refusal of a reply that would be too large.
    pub(crate) fn fits(&self, more: u64) -> Result<(), Denied> {
        let used = (self.out.len() - self.start) as u64;
        if used.saturating_add(more) > self.room as u64 {
            Err(crate::denied::REPLY_TOO_LARGE)
        } else {
            Ok(())
        }
    }

    fn line(&mut self, tag: u8, text: &[u8]) {
        self.out.push(tag);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, tag: u8, count: usize) {
        self.out.push(tag);
        number::write(self.out, i64::try_from(count).unwrap_or(i64::MAX));
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn simple(&mut self, text: &'static str) {
        self.line(b'+', text.as_bytes());
    }

    /// Drops what was written and answers the refusal instead.
    pub(crate) fn deny(&mut self, denied: &Denied) {
        self.out.truncate(self.start);
        self.line(b'-', denied.text().as_bytes());
    }

    pub(crate) fn integer(&mut self, value: i64) {
        self.out.push(b':');
        number::write(self.out, value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Answers a length or count of the store.
    pub(crate) fn size(&mut self, size: usize) {
        self.integer(i64::try_from(size).unwrap_or(i64::MAX));
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.count(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Answers a string, or that there is none.
    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(b"_\r\n");
    }

    pub(crate) fn null_array(&mut self) {
        self.out.extend_from_slice(b"^\r\n");
    }

    pub(crate) fn double(&mut self, score: Score) {
        self.line(b',', score.text().as_bytes());
    }

    pub(crate) fn array(&mut self, count: usize) {
        self.count(b'*', count);
    }

    pub(crate) fn set(&mut self, count: usize) {
        self.count(b'~', count);
    }

    pub(crate) fn map(&mut self, count: usize) {
        self.count(b'%', count);
    }

    pub(crate) fn pairs(&mut self, count: usize) {
        self.count(b'&', count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn every_kind_of_reply_survives_a_round_trip() {
        let one = Score::parse(b"1.5").expect("a number");
        let all = Reply::Array(vec![
            Reply::Simple(Bytes::from_static(b"OK")),
            Reply::Error(Bytes::from_static(b"ERR no")),
            Reply::Integer(-3),
            bulk("a\r\nb"),
            bulk(""),
            Reply::Null,
            Reply::NullArray,
            Reply::Double(one),
            Reply::Set(vec![bulk("m")]),
            Reply::Map(vec![(bulk("f"), bulk("v"))]),
            Reply::Pairs(vec![(bulk("m"), Reply::Double(one))]),
            Reply::Array(Vec::new()),
        ]);
        let mut out = Vec::new();
        all.write(&mut out);
        assert_eq!(Reply::decode(&Bytes::from(out)), Some(all));
    }

    #[test]
    fn damaged_replies_are_refused() {
        for text in
            ["", "+OK", "+OK\r", "$3\r\nab\r\n", "$-1\r\n", "*1\r\n", "_x\r\n", ":1.5\r\n", "?\r\n", "\r\n"]
        {
            assert_eq!(Reply::decode(&Bytes::copy_from_slice(text.as_bytes())), None, "{text:?}");
        }
        assert_eq!(Reply::decode(&Bytes::from_static(b"+OK\r\n+OK\r\n")), None);
        assert_eq!(Reply::decode(&Bytes::from_static(b"*9000000000000000000\r\n:1\r\n")), None);
    }

    #[test]
    fn a_score_has_one_text_in_a_reply() {
        for (text, good) in
            [("1.5", true), ("1.50", false), ("+1", false), ("1e0", false), ("inf", true), ("-0", false)]
        {
            let reply = Bytes::from(format!(",{text}\r\n"));
            assert_eq!(Reply::decode(&reply).is_some(), good, "{text}");
        }
    }

    #[test]
    fn nesting_has_a_floor() {
        let nested = |depth: usize| Bytes::from("*1\r\n".repeat(depth) + ":1\r\n");
        assert!(Reply::decode(&nested(usize::from(DEPTH_MAX))).is_some());
        assert!(Reply::decode(&nested(usize::from(DEPTH_MAX) + 1)).is_none());
    }
}
