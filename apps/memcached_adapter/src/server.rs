//! The server beside the adapter: what it is asked, and how its replies are read.

use synod_wire::Bytes;

use crate::command::VALUE_MAX;

/// What the server is asked. It never sees a time: a value without one stays until it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The value of a key.
    Get(Bytes),
    /// Stores a value.
    Set {
        /// Under this key.
        key: Bytes,
        /// What the client notes with it.
        flags: u32,
        /// The value.
        data: Bytes,
    },
    /// Adds behind a value.
    Append(Bytes, Bytes),
    /// Adds in front of a value.
    Prepend(Bytes, Bytes),
    /// Removes a key.
    Delete(Bytes),
    /// Counts a number up.
    Up(Bytes, u64),
    /// Counts a number down, at most to zero.
    Down(Bytes, u64),
    /// Forgets everything.
    FlushAll,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line, without its end.
    Line(Bytes),
    /// A value with its flags, or that there is none.
    Value(Option<(u32, Bytes)>),
}

/// Why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAReply;

/// A Memcached server that nobody else speaks to: one thread, an error instead of eviction (`-M`), neither crawler nor slab
/// mover, and more memory than the quota.
///
/// Errors of the world end the process inside the implementation: a server that does not answer has no state to go on with.
pub trait Server: Send {
    /// Sends commands in one go; one reply for each, in order.
    fn ask(&self, commands: &[Ask]) -> Vec<Reply>;
}

/// Longest line of a reply, in bytes.
const LINE_MAX: usize = 2_048;

impl Ask {
    /// As the server reads it.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let stores = |verb: &str, key: &Bytes, flags: u32, data: &Bytes| {
            let line = [verb.as_bytes(), key, format!(" {flags} 0 {}\r\n", data.len()).as_bytes()].concat();
            [&line[..], data, b"\r\n"].concat()
        };
        let counts = |verb: &str, key: &Bytes, by: u64| {
            [verb.as_bytes(), key, format!(" {by}\r\n").as_bytes()].concat()
        };
        Bytes::from(match self {
            Self::Get(key) => [b"get ", &key[..], b"\r\n"].concat(),
            Self::Set { key, flags, data } => stores("set ", key, *flags, data),
            Self::Append(key, data) => stores("append ", key, 0, data),
            Self::Prepend(key, data) => stores("prepend ", key, 0, data),
            Self::Delete(key) => [b"delete ", &key[..], b"\r\n"].concat(),
            Self::Up(key, by) => counts("incr ", key, *by),
            Self::Down(key, by) => counts("decr ", key, *by),
            Self::FlushAll => b"flush_all\r\n".to_vec(),
        })
    }

    /// Reads the reply to this from the front of `bytes`: the reply and its length, or `None` while more bytes have to come.
    ///
    /// # Errors
    /// [`NotAReply`] when no bytes can make it one.
    pub fn read(&self, bytes: &[u8]) -> Result<Option<(Reply, usize)>, NotAReply> {
        let Some(line) = line(bytes)? else { return Ok(None) };
        let behind = line.len() + 2;
        if !matches!(self, Self::Get(_)) {
            return Ok(Some((Reply::Line(Bytes::copy_from_slice(line)), behind)));
        }
        if line == b"END" {
            return Ok(Some((Reply::Value(None), behind)));
        }
        let text = core::str::from_utf8(line).map_err(|_| NotAReply)?;
        let mut words = text.split(' ');
        let (Some("VALUE"), Some(_), Some(flags), Some(length), None) =
            (words.next(), words.next(), words.next(), words.next(), words.next())
        else {
            return Ok(Some((Reply::Line(Bytes::copy_from_slice(line)), behind)));
        };
        let flags = flags.parse().map_err(|_| NotAReply)?;
        let length = length.parse().ok().filter(|length| *length <= VALUE_MAX).ok_or(NotAReply)?;
        let end = b"\r\nEND\r\n";
        let Some(found) = bytes.get(behind..behind + length + end.len()) else { return Ok(None) };
        let (data, rest) = found.split_at(length);
        if rest != end {
            return Err(NotAReply);
        }
        Ok(Some((Reply::Value(Some((flags, Bytes::copy_from_slice(data)))), behind + found.len())))
    }
}

fn line(bytes: &[u8]) -> Result<Option<&[u8]>, NotAReply> {
    match bytes.windows(2).take(LINE_MAX).position(|end| end == b"\r\n") {
        Some(length) => Ok(bytes.get(..length)),
        None if bytes.len() > LINE_MAX => Err(NotAReply),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_and_waited_for() {
        let get = Ask::Get(Bytes::from_static(b"k"));
        let value = Reply::Value(Some((7, Bytes::from_static(b"a\r\nb"))));
        let bytes = b"VALUE k 7 4\r\na\r\nb\r\nEND\r\n";
        assert_eq!(get.read(bytes), Ok(Some((value, bytes.len()))));
        for end in 0..bytes.len() {
            assert_eq!(get.read(&bytes[..end]), Ok(None), "cut at {end}");
        }
        assert_eq!(get.read(b"END\r\nmore"), Ok(Some((Reply::Value(None), 5))));
        let line = Ask::FlushAll.read(b"OK\r\n");
        assert_eq!(line, Ok(Some((Reply::Line(Bytes::from_static(b"OK")), 4))));
    }

    #[test]
    fn a_reply_beyond_its_bounds_is_none() {
        let get = Ask::Get(Bytes::from_static(b"k"));
        assert_eq!(get.read(&[b'x'; LINE_MAX + 1]), Err(NotAReply));
        assert_eq!(get.read(format!("VALUE k 0 {}\r\n", VALUE_MAX + 1).as_bytes()), Err(NotAReply));
        assert_eq!(get.read(b"VALUE k 0 1\r\nxyEND\r\n\r\n"), Err(NotAReply));
    }
}
