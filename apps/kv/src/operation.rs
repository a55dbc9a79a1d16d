//! Operations: what one request carries. A command, a transaction, or a question that only programs ask.
//!
//! Format: a tag, then counts and lengths as minimal varints. Arguments exclude the command's name, which
//! travels as its number. Encoders write straight from borrowed arguments; the store reads without copying.
//!
//! *Bounds.* [`OPERATION_BYTES_MAX`], [`ARGUMENTS_MAX`], [`VALUE_BYTES_MAX`], [`COMMANDS_MAX`], [`WATCHED_MAX`];
//! what passes them does not decode and is answered by an error.

use crate::{ARGUMENTS_MAX, COMMANDS_MAX, OPERATION_BYTES_MAX, VALUE_BYTES_MAX, WATCHED_MAX, commands::Verb};

const COMMAND: u8 = 1;
const TRANSACTION: u8 = 2;
const VERSIONS: u8 = 3;
const FETCH: u8 = 4;
const RANGE: u8 = 5;

/// A watched key: the transaction happens only if the key still has this version. An absent key has version 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its version when it was watched.
    pub version: u64,
}

/// A question over keys in byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// Only keys that begin so.
    pub prefix: &'a [u8],
    /// Only keys behind this one; the last key of one answer is the cursor for the next. Empty: from the start.
    pub after: &'a [u8],
    /// Most keys in the answer; the store caps it at 1,024.
    pub limit: u32,
}

/// Appends the operation of one command.
pub fn write_command<'a>(verb: Verb, arguments: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.push(COMMAND);
    write_body(verb, arguments, out);
}

/// Appends a command as one member of a transaction.
pub fn write_body<'a>(verb: Verb, arguments: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.push(verb.number());
    write_varint(out, arguments.len() as u64);
    for argument in arguments {
        write_blob(out, argument);
    }
}

/// Appends a transaction: watched keys, then `count` commands whose bodies [`write_body`] wrote into `bodies`.
pub fn write_transaction<'a>(
    watched: impl ExactSizeIterator<Item = Watched<'a>>,
    count: usize,
    bodies: &[u8],
    out: &mut Vec<u8>,
) {
    out.push(TRANSACTION);
    write_varint(out, watched.len() as u64);
    for watched in watched {
        write_blob(out, watched.key);
        write_varint(out, watched.version);
    }
    write_varint(out, count as u64);
    out.extend_from_slice(bodies);
}

/// Appends the question for the versions of keys; the answer is an array of integers in the same order.
pub fn write_versions<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.push(VERSIONS);
    write_varint(out, keys.len() as u64);
    for key in keys {
        write_blob(out, key);
    }
}

/// Appends the question for a string with its version; the answer is an array of the string, or null, and an
/// integer.
pub fn write_fetch(key: &[u8], out: &mut Vec<u8>) {
    out.push(FETCH);
    write_blob(out, key);
}

/// Appends a question over keys in byte order; the answer is an array of keys.
pub fn write_range(range: &Range<'_>, out: &mut Vec<u8>) {
    out.push(RANGE);
    write_blob(out, range.prefix);
    write_blob(out, range.after);
    write_varint(out, u64::from(range.limit));
}

fn write_varint(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}

fn write_blob(out: &mut Vec<u8>, blob: &[u8]) {
    write_varint(out, blob.len() as u64);
    out.extend_from_slice(blob);
}

/// Where an argument stands in the operation's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    start: u32,
    length: u32,
}

/// The arguments of one command, borrowed from the operation.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// Number of arguments, the name not counted.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`; the arity check has made sure that it exists.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// The argument at `index`, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        self.bytes.get(span.start as usize..)?.get(..span.length as usize)
    }

    /// The arguments from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let spans = self.spans.get(index..).unwrap_or_default();
        spans.iter().map(move |span| &bytes[span.start as usize..][..span.length as usize])
    }

    /// Total length of all arguments in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.spans.iter().map(|span| u64::from(span.length)).sum()
    }
}

/// An operation, decoded as far as its kind.
pub(crate) enum Kind {
    Command,
    Transaction,
    Versions,
    Fetch,
    Range,
}

/// A cursor over one operation.
pub(crate) struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    /// Starts behind the tag; `None` when the operation is empty, too long, or of no known kind.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<(Kind, Self)> {
        if bytes.len() > OPERATION_BYTES_MAX {
            return None;
        }
        let kind = match *bytes.first()? {
            COMMAND => Kind::Command,
            TRANSACTION => Kind::Transaction,
            VERSIONS => Kind::Versions,
            FETCH => Kind::Fetch,
            RANGE => Kind::Range,
            _ => return None,
        };
        Some((kind, Self { bytes, at: 1 }))
    }

    /// A copy that stands at the same byte.
    pub(crate) fn fork(&self) -> Self {
        Self { bytes: self.bytes, at: self.at }
    }

    /// Whether every byte was read.
    pub(crate) fn finished(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads a minimal varint.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value: u64 = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            let part = u64::from(byte & 0x7f);
            if part.leading_zeros() < shift {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                let padded = byte == 0 && shift > 0;
                return (!padded).then_some(value);
            }
        }
        None
    }

    /// Reads a count of at most `max`.
    fn count(&mut self, max: usize) -> Option<usize> {
        usize::try_from(self.varint()?).ok().filter(|count| *count <= max)
    }

    fn span(&mut self) -> Option<Span> {
        let length = self.count(VALUE_BYTES_MAX)?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        let span = Span { start: u32::try_from(self.at).ok()?, length: u32::try_from(length).ok()? };
        self.at = end;
        Some(span)
    }

    /// Reads one string of bytes.
    pub(crate) fn blob(&mut self) -> Option<&'a [u8]> {
        let span = self.span()?;
        self.bytes.get(span.start as usize..)?.get(..span.length as usize)
    }

    /// Reads one command body; its arguments are found through `spans`, which is overwritten.
    pub(crate) fn body<'s>(&mut self, spans: &'s mut Vec<Span>) -> Option<(Verb, Arguments<'s>)>
    where
        'a: 's,
    {
        let verb = Verb::from_number(*self.bytes.get(self.at)?)?;
        self.at += 1;
        spans.clear();
        for _ in 0..self.count(ARGUMENTS_MAX)? {
            spans.push(self.span()?);
        }
        Some((verb, Arguments { bytes: self.bytes, spans }))
    }

    /// Reads how many keys a transaction watches.
    pub(crate) fn watched_count(&mut self) -> Option<usize> {
        self.count(WATCHED_MAX)
    }

    /// Reads one watched key.
    pub(crate) fn watched(&mut self) -> Option<Watched<'a>> {
        Some(Watched { key: self.blob()?, version: self.varint()? })
    }

    /// Reads how many commands a transaction has.
    pub(crate) fn commands_count(&mut self) -> Option<usize> {
        self.count(COMMANDS_MAX)
    }

    /// Reads a range question.
    pub(crate) fn range(&mut self) -> Option<Range<'a>> {
        Some(Range { prefix: self.blob()?, after: self.blob()?, limit: u32::try_from(self.varint()?).ok()? })
    }
}

/// Whether an operation may be answered by a quorum read; `false` also for what does not decode.
#[must_use]
pub fn is_read(operation: &[u8]) -> bool {
    match operation {
        [COMMAND, number, ..] => Verb::from_number(*number).is_some_and(|verb| verb.command().is_read()),
        [VERSIONS | FETCH | RANGE, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(verb: Verb, arguments: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write_command(verb, arguments.iter().copied(), &mut out);
        out
    }

    #[test]
    fn a_command_reads_back_without_copies() {
        let operation = command(Verb::Set, &[b"k", b"", &[7; 300]]);
        let (_, mut parser) = Parser::new(&operation).expect("a known kind");
        let mut spans = Vec::new();
        let (verb, arguments) = parser.body(&mut spans).expect("a body");
        assert_eq!(verb, Verb::Set);
        assert_eq!(arguments.from(0).collect::<Vec<_>>(), [&b"k"[..], b"", &[7; 300]]);
        assert_eq!(arguments.get(3), None);
        assert!(parser.finished());
    }

    #[test]
    fn every_shortening_is_refused() {
        let operation = command(Verb::MSet, &[b"alpha", b"1", b"beta", b"2"]);
        for end in 0..operation.len() {
            let read =
                Parser::new(&operation[..end]).and_then(|(_, mut p)| p.body(&mut Vec::new()).map(|_| ()));
            assert_eq!(read, None, "cut at {end}");
        }
    }

    #[test]
    fn padded_and_oversized_numbers_are_refused() {
        let varint = |bytes: &[u8]| {
            let mut with_tag = vec![COMMAND];
            with_tag.extend_from_slice(bytes);
            Parser::new(&with_tag).and_then(|(_, mut parser)| parser.varint())
        };
        assert_eq!(varint(&[0]), Some(0));
        assert_eq!(varint(&[0x80, 1]), Some(128));
        assert_eq!(varint(&[0x80, 0]), None);
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Some(u64::MAX));
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
        assert_eq!(varint(&[0x80; 11]), None);
    }

    #[test]
    fn limits_hold_at_the_cap_and_break_behind_it() {
        let arguments = |count: usize| {
            let operation = command(Verb::Del, &vec![&b""[..]; count]);
            Parser::new(&operation).and_then(|(_, mut p)| p.body(&mut Vec::new()).map(|(_, a)| a.len()))
        };
        assert_eq!(arguments(ARGUMENTS_MAX - 1), Some(ARGUMENTS_MAX - 1));
        assert_eq!(arguments(ARGUMENTS_MAX), Some(ARGUMENTS_MAX));
        assert_eq!(arguments(ARGUMENTS_MAX + 1), None);
        let value = |length: usize| {
            let operation = command(Verb::Get, &[&vec![0; length]]);
            Parser::new(&operation).and_then(|(_, mut p)| p.body(&mut Vec::new()).map(|_| ()))
        };
        assert!(value(VALUE_BYTES_MAX - 1).is_some());
        assert!(value(VALUE_BYTES_MAX).is_some());
        assert!(value(VALUE_BYTES_MAX + 1).is_none());
        let whole = |length: usize| {
            let mut bytes = vec![0; length];
            bytes[0] = COMMAND;
            Parser::new(&bytes).is_some()
        };
        assert!(whole(OPERATION_BYTES_MAX) && !whole(OPERATION_BYTES_MAX + 1));
    }

    #[test]
    fn only_what_changes_nothing_is_a_read() {
        assert!(is_read(&command(Verb::Get, &[b"k"])));
        assert!(!is_read(&command(Verb::Set, &[b"k", b"v"])));
        let mut versions = Vec::new();
        write_versions([&b"k"[..]].into_iter(), &mut versions);
        assert!(is_read(&versions));
        let mut transaction = Vec::new();
        write_transaction([].into_iter(), 0, &[], &mut transaction);
        assert!(!is_read(&transaction));
        assert!(!is_read(&[]) && !is_read(&[COMMAND, 255]));
    }
}
