//! The few words of the Redis protocol that a history needs.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a reply may take; after that its outcome counts as unknown.
const REPLY: Duration = Duration::from_secs(8);
/// Longest line and string that are read.
const LENGTH_MAX: usize = 64 << 10;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A status.
    Status,
    /// A number.
    Number(i64),
    /// A string.
    Text(String),
    /// No value.
    Nothing,
    /// A refusal, which says nothing about what happened.
    Refusal,
}

/// A connection.
pub(super) struct Line(BufReader<TcpStream>);

impl Line {
    pub(super) fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, CONNECT)?;
        stream.set_read_timeout(Some(REPLY))?;
        stream.set_write_timeout(Some(REPLY))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Calls one command and waits for its reply.
    pub(super) fn call(&mut self, words: &[&str]) -> io::Result<Told> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        reply(&mut self.0)
    }
}

fn reply(from: &mut impl io::BufRead) -> io::Result<Told> {
    let odd = || io::Error::from(io::ErrorKind::InvalidData);
    let mut line = String::new();
    from.by_ref().take(LENGTH_MAX as u64).read_line(&mut line)?;
    let line = line.strip_suffix("\r\n").ok_or_else(odd)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(odd)?;
    match kind {
        "+" => Ok(Told::Status),
        "-" => Ok(Told::Refusal),
        ":" => rest.parse().map(Told::Number).map_err(|_| odd()),
        "_" => Ok(Told::Nothing),
        "$" if rest == "-1" => Ok(Told::Nothing),
        "$" => {
            let length: usize = rest.parse().ok().filter(|length| *length <= LENGTH_MAX).ok_or_else(odd)?;
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text)?;
            let text = String::from_utf8(text).map_err(|_| odd())?;
            text.strip_suffix("\r\n").map(|text| Told::Text(text.to_owned())).ok_or_else(odd)
        }
        _ => Err(odd()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Told, reply};

    #[test]
    fn replies_are_read_and_broken_ones_are_not_taken_for_answers() {
        let read = |text: &str| reply(&mut text.as_bytes()).ok();
        assert_eq!(read("+OK\r\n"), Some(Told::Status));
        assert_eq!(read(":-7\r\n"), Some(Told::Number(-7)));
        assert_eq!(read("$3\r\nabc\r\n"), Some(Told::Text("abc".to_owned())));
        assert_eq!(read("$-1\r\n"), Some(Told::Nothing));
        assert_eq!(read("-UNKNOWN it\r\n"), Some(Told::Refusal));
        for broken in ["", "+OK", ":x\r\n", "$5\r\nabc\r\n", "$999999999\r\n", "?\r\n"] {
            assert_eq!(read(broken), None, "{broken:?}");
        }
    }
}
