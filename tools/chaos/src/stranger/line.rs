//! One connection, spoken by hand.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

/// The label under which both sides export the bytes that name a session.
const EXPORTER: &[u8] = b"EXPORTER-synod-hello";
/// Longest frame that is assembled.
const FRAME_MAX: usize = 16 << 20;
/// Bytes in front of a frame's body.
const HEADER: usize = 8;
/// Type of a TLS record that holds an alert.
const ALERT: u8 = 21;

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The other side sent this TLS alert.
    Alert(String),
    /// The other side's verdict was this code.
    Verdict(u16),
    /// The other side closed without a word.
    Closed,
    /// The other side said nothing for as long as this side waits.
    Silent,
    /// This side could not go on: what it met.
    Broken(String),
    /// The other side takes this one for what it said it is.
    Admitted,
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Alert(name) => write!(f, "alert {name}"),
            Self::Verdict(code) => write!(f, "verdict SYN-{code}"),
            Self::Closed => f.write_str("closed"),
            Self::Silent => f.write_str("no answer"),
            Self::Broken(why) => write!(f, "broken: {why}"),
            Self::Admitted => f.write_str("admitted"),
        }
    }
}

/// A socket that counts.
struct Counted {
    stream: TcpStream,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(into)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl Write for Counted {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let count = self.stream.write(from)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// One connection.
pub struct Line {
    socket: Counted,
    tls: Option<rustls::Connection>,
    /// Application bytes that were read and not asked for.
    inbox: Vec<u8>,
    /// The other side takes nothing any more; what it said may still be read.
    deaf: bool,
    begun: Instant,
}

impl Line {
    /// Connects, without TLS.
    ///
    /// # Errors
    /// Nobody listens, or not in time.
    pub fn plain(to: SocketAddr, patience: Duration) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&to, patience)?, None, patience)
    }

    /// Connects and speaks TLS as a client.
    ///
    /// # Errors
    /// Nobody listens, or the configuration is unsound.
    pub fn dial(to: SocketAddr, config: Arc<ClientConfig>, patience: Duration) -> io::Result<Self> {
        let tls = client_session(config)?;
        Self::over(TcpStream::connect_timeout(&to, patience)?, Some(tls.into()), patience)
    }

    /// Speaks TLS as the server of a connection that came in.
    ///
    /// # Errors
    /// The configuration is unsound.
    pub fn accept(stream: TcpStream, config: Arc<ServerConfig>, patience: Duration) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::over(stream, Some(tls.into()), patience)
    }

    fn over(stream: TcpStream, tls: Option<rustls::Connection>, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let socket = Counted { stream, bytes: 0 };
        Ok(Self { socket, tls, inbox: Vec::new(), deaf: false, begun: Instant::now() })
    }

    /// Bytes that passed in both directions, TLS included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.socket.bytes
    }

    /// Time since it was connected.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The socket, to share its read and write sides between threads.
    #[must_use]
    pub const fn stream(&self) -> &TcpStream {
        &self.socket.stream
    }

    /// Early data, sent in the first flight if a ticket allows it; whether it does.
    pub fn early(&mut self, bytes: &[u8]) -> bool {
        let Some(rustls::Connection::Client(tls)) = &mut self.tls else { return false };
        tls.early_data().is_some_and(|mut early| early.write_all(bytes).is_ok())
    }

    /// Whether the other side took the early data, or the session was resumed.
    #[must_use]
    pub fn was_resumed(&self) -> bool {
        let Some(rustls::Connection::Client(tls)) = &self.tls else { return false };
        tls.is_early_data_accepted() || tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Completes TLS, as far as this side can tell.
    ///
    /// # Errors
    /// How it ended instead.
    pub fn shake(&mut self) -> Result<(), End> {
        loop {
            self.flush()?;
            if !self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                return self.flush();
            }
            self.fill()?;
        }
    }

    /// Bytes that name this session on both sides; `None` before TLS is complete and without it.
    #[must_use]
    pub fn session(&self) -> Option<[u8; 32]> {
        self.tls.as_ref()?.export_keying_material([0; 32], EXPORTER, None).ok()
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// How it ended instead, as far as a write tells.
    pub fn say(&mut self, bytes: &[u8]) -> Result<(), End> {
        let Some(tls) = &mut self.tls else {
            // What the other side said before it closed is still to be read.
            self.deaf |= self.socket.write_all(bytes).is_err();
            return Ok(());
        };
        // A piece at a time: the buffer of the session is bounded.
        for piece in bytes.chunks(16 << 10) {
            tls.writer().write_all(piece).map_err(|why| End::Broken(why.to_string()))?;
            while tls.wants_write() && !self.deaf {
                self.deaf |= tls.write_tls(&mut self.socket).is_err();
            }
            if self.deaf {
                break;
            }
        }
        Ok(())
    }

    /// Hears one frame: its queue, its machine, its body.
    ///
    /// # Errors
    /// How it ended instead.
    pub fn frame(&mut self) -> Result<(u8, u8, Vec<u8>), End> {
        loop {
            if let Some(header) = self.inbox.first_chunk::<HEADER>() {
                let [a, b, c, d, queue, machine, ..] = *header;
                let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                if length > FRAME_MAX {
                    return Err(End::Broken(format!("a frame of {length} bytes")));
                }
                if self.inbox.len() >= HEADER + length {
                    let body = self.inbox[HEADER..HEADER + length].to_vec();
                    self.inbox.drain(..HEADER + length);
                    return Ok((queue, machine, body));
                }
            }
            self.fill()?;
        }
    }

    /// Whether the other side takes nothing any more.
    #[must_use]
    pub const fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Reads what is there, without waiting, and forgets it.
    ///
    /// # Errors
    /// How it ended instead.
    pub fn drain(&mut self) -> Result<(), End> {
        let waiting = |why: io::Error| End::Broken(why.to_string());
        self.socket.stream.set_nonblocking(true).map_err(waiting)?;
        let drained = loop {
            match self.fill() {
                Ok(()) => self.inbox.clear(),
                Err(End::Silent) => break Ok(()),
                Err(end) => break Err(end),
            }
        };
        self.socket.stream.set_nonblocking(false).map_err(waiting)?;
        drained
    }

    /// Reads until the other side ends the connection; how it did.
    pub fn end(&mut self) -> End {
        if let Err(end) = self.flush() {
            return end;
        }
        loop {
            if let Err(end) = self.fill() {
                return if self.tls.is_none() { self.plain_alert().unwrap_or(end) } else { end };
            }
        }
    }

    /// What came without TLS, as the alert it may be.
    fn plain_alert(&self) -> Option<End> {
        match self.inbox.as_slice() {
            [ALERT, _, _, _, _, _, code, ..] => Some(End::Alert(alert(*code))),
            _ => None,
        }
    }

    fn flush(&mut self) -> Result<(), End> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() && !self.deaf {
            // What the other side said before it closed is still to be read.
            self.deaf |= tls.write_tls(&mut self.socket).is_err();
        }
        Ok(())
    }

    /// Reads what comes next.
    fn fill(&mut self) -> Result<(), End> {
        let mut part = [0; 16 << 10];
        let Some(tls) = &mut self.tls else {
            let count = self.socket.read(&mut part).map_err(|why| ended(&why))?;
            self.inbox.extend_from_slice(&part[..count]);
            return if count == 0 { Err(End::Closed) } else { Ok(()) };
        };
        match tls.read_tls(&mut self.socket) {
            Ok(0) => return Err(End::Closed),
            Ok(_) => {}
            Err(why) => return Err(ended(&why)),
        }
        let processed = tls.process_new_packets();
        while let Ok(count @ 1..) = tls.reader().read(&mut part) {
            self.inbox.extend_from_slice(&part[..count]);
        }
        match processed {
            Ok(_) => Ok(()),
            Err(rustls::Error::AlertReceived(alert)) => Err(End::Alert(snake(&format!("{alert:?}")))),
            Err(other) => {
                // The alert this side owes.
                let _ = self.flush();
                Err(End::Broken(other.to_string()))
            }
        }
    }
}

/// A client's session before its first byte.
///
/// # Errors
/// The configuration is unsound.
pub(crate) fn client_session(config: Arc<ClientConfig>) -> io::Result<ClientConnection> {
    let name = ServerName::try_from("synod").map_err(io::Error::other)?;
    ClientConnection::new(config, name).map_err(io::Error::other)
}

fn ended(why: &io::Error) -> End {
    match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => End::Silent,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => End::Closed,
        _ => End::Broken(why.to_string()),
    }
}

/// The name of an alert by its number.
pub(crate) fn alert(code: u8) -> String {
    snake(&format!("{:?}", rustls::AlertDescription::from(code)))
}

/// `AccessDenied` as the standard writes it: `access_denied`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_names_of_the_standard() {
        assert_eq!(snake(&format!("{:?}", rustls::AlertDescription::AccessDenied)), "access_denied");
        assert_eq!(snake(&format!("{:?}", rustls::AlertDescription::from(70))), "protocol_version");
    }

    #[test]
    fn an_end_says_what_the_other_side_did() {
        let shown: Vec<String> =
            [End::Alert("x".into()), End::Verdict(2_104), End::Closed].iter().map(End::to_string).collect();
        assert_eq!(shown, ["alert x", "verdict SYN-2104", "closed"]);
    }
}
