//! RESP2, as far as an adapter speaks it: commands to the server, replies from it.
//!
//! *Bounds.* [`BULK_MAX`] bytes of a string, [`ELEMENTS_MAX`] elements of an array, arrays in arrays to a depth of
//! [`DEPTH_MAX`]; a length beyond is refused before anything is kept for it. Reading does not recurse.

use synod_wire::Bytes;

/// Longest string of a reply, in bytes.
pub const BULK_MAX: usize = 64 << 20;
/// Most elements of one array of a reply.
pub const ELEMENTS_MAX: usize = 1 << 24;
/// How deep arrays stand in arrays.
pub const DEPTH_MAX: usize = 6;

/// A reply of a server, or of the adapter in its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// A status line.
    Simple(Bytes),
    /// An error line.
    Error(Bytes),
    /// A number.
    Integer(i64),
    /// A string.
    Bulk(Bytes),
    /// No string, or no array.
    Null,
    /// Several replies.
    Array(Vec<Reply>),
}

/// Why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAReply;

impl Reply {
    /// The status of success.
    pub const OK: Self = Self::Simple(Bytes::from_static(b"OK"));

    /// An error of the adapter.
    #[must_use]
    pub const fn refused(why: &'static str) -> Self {
        Self::Error(Bytes::from_static(why.as_bytes()))
    }

    /// The string of a bulk reply.
    #[must_use]
    pub const fn bulk(&self) -> Option<&Bytes> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The strings of an array of them; `None` when it is something else.
    #[must_use]
    pub fn strings(self) -> Option<Vec<Bytes>> {
        let Self::Array(items) = self else { return None };
        items.into_iter().map(|item| item.bulk().cloned()).collect()
    }

    /// An array of strings.
    #[must_use]
    pub fn array(strings: impl IntoIterator<Item = Bytes>) -> Self {
        Self::Array(strings.into_iter().map(Self::Bulk).collect())
    }

    /// Its canonical bytes: RESP2.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        // What is still to be written, the next one last: arrays stand in arrays.
        let mut rest = vec![self];
        while let Some(reply) = rest.pop() {
            match reply {
                Self::Simple(line) => text(b'+', line, &mut out),
                Self::Error(line) => text(b'-', line, &mut out),
                Self::Integer(number) => text(b':', number.to_string().as_bytes(), &mut out),
                Self::Null => out.extend_from_slice(b"$-1\r\n"),
                Self::Bulk(bytes) => {
                    text(b'$', bytes.len().to_string().as_bytes(), &mut out);
                    out.extend_from_slice(bytes);
                    out.extend_from_slice(b"\r\n");
                }
                Self::Array(items) => {
                    text(b'*', items.len().to_string().as_bytes(), &mut out);
                    rest.extend(items.iter().rev());
                }
            }
        }
        Bytes::from(out)
    }

    /// Reads one reply from the front of `bytes`: the reply and its length, or `None` while more bytes have to come.
    ///
    /// # Errors
    /// [`NotAReply`] when no bytes can make it one.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, NotAReply> {
        let mut at = 0;
        let mut open: Vec<(usize, Vec<Self>)> = Vec::new();
        loop {
            let Some((kind, line, behind)) = line(bytes, at)? else { return Ok(None) };
            at = behind;
            let mut done = match kind {
                b'+' => Self::Simple(Bytes::copy_from_slice(line)),
                b'-' => Self::Error(Bytes::copy_from_slice(line)),
                b':' => Self::Integer(integer(line)?),
                b'$' => match length(line, BULK_MAX)? {
                    None => Self::Null,
                    Some(count) => {
                        let Some(found) = bytes.get(at..at + count + 2) else { return Ok(None) };
                        let (string, end) = found.split_at(count);
                        if end != b"\r\n" {
                            return Err(NotAReply);
                        }
                        at += count + 2;
                        Self::Bulk(Bytes::copy_from_slice(string))
                    }
                },
                b'*' => match length(line, ELEMENTS_MAX)? {
                    None => Self::Null,
                    Some(0) => Self::Array(Vec::new()),
                    Some(_) if open.len() >= DEPTH_MAX => return Err(NotAReply),
                    Some(count) => {
                        open.push((count, Vec::new()));
                        continue;
                    }
                },
                _ => return Err(NotAReply),
            };
            loop {
                let Some((count, mut items)) = open.pop() else { return Ok(Some((done, at))) };
                items.push(done);
                if items.len() < count {
                    open.push((count, items));
                    break;
                }
                done = Self::Array(items);
            }
        }
    }
}

fn text(kind: u8, line: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(line);
    out.extend_from_slice(b"\r\n");
}

/// Longest line, in bytes.
const LINE_MAX: usize = 64 << 10;

/// The kind and the line at `at`, and where the next one begins.
type Line<'a> = Option<(u8, &'a [u8], usize)>;

fn line(bytes: &[u8], at: usize) -> Result<Line<'_>, NotAReply> {
    let Some((kind, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else { return Ok(None) };
    match rest.windows(2).take(LINE_MAX).position(|end| end == b"\r\n") {
        Some(length) => Ok(Some((*kind, rest.get(..length).unwrap_or_default(), at + length + 3))),
        None if rest.len() > LINE_MAX => Err(NotAReply),
        None => Ok(None),
    }
}

fn integer(line: &[u8]) -> Result<i64, NotAReply> {
    core::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(NotAReply)
}

fn length(line: &[u8], max: usize) -> Result<Option<usize>, NotAReply> {
    match integer(line)? {
        -1 => Ok(None),
        number => usize::try_from(number).ok().filter(|count| *count <= max).map(Some).ok_or(NotAReply),
    }
}

/// A command as the server reads it: an array of strings.
#[must_use]
pub fn command(words: &[Bytes]) -> Bytes {
    Reply::array(words.iter().cloned()).encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_reply_comes_back_and_every_shortening_waits_for_more() {
        let nested = Reply::Array(vec![
            Reply::Array(vec![bulk("a"), Reply::Null, Reply::Array(vec![])]),
            Reply::Integer(-7),
            Reply::OK,
            Reply::refused("ERR no"),
            bulk(""),
        ]);
        let bytes = nested.encode();
        assert_eq!(Reply::read(&bytes), Ok(Some((nested, bytes.len()))));
        for end in 0..bytes.len() {
            assert_eq!(Reply::read(&bytes[..end]), Ok(None), "cut at {end}");
        }
        let two = [&bytes[..], b":1\r\n"].concat();
        assert_eq!(Reply::read(&two).map(|read| read.map(|(_, length)| length)), Ok(Some(bytes.len())));
    }

    #[test]
    fn lengths_beyond_a_bound_and_other_bytes_are_refused() {
        let long = format!("${}\r\n", BULK_MAX + 1);
        let many = format!("*{}\r\n", ELEMENTS_MAX + 1);
        for bytes in ["?\r\n", ":x\r\n", "$-2\r\n", "$3\r\nabcde", &long, &many] {
            assert_eq!(Reply::read(bytes.as_bytes()), Err(NotAReply), "{bytes}");
        }
        assert_eq!(Reply::read(format!("${BULK_MAX}\r\n").as_bytes()), Ok(None));
        let deep = |depth: usize| ["*1\r\n".repeat(depth), ":1\r\n".to_owned()].concat();
        assert!(Reply::read(deep(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(Reply::read(deep(DEPTH_MAX + 1).as_bytes()), Err(NotAReply));
    }
}
