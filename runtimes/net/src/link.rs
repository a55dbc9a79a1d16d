//! One connection: a socket, the TLS session over it, and the frames in and out.
//!
//! *What it gives.* [`Socket`] hides TCP and Unix sockets, [`Channel`] adds TLS and framing. Reading takes what the
//! socket has, 64 KiB per call; writing turns queued chunks into one vectored write.
//!
//! *Copies.* Without TLS a body above 1 KiB goes from the machine's encoding to the socket without a copy; with TLS
//! the copy is the encryption. Shorter bodies are staged behind their headers, which costs less than a vector entry.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::collections::VecDeque;
use std::io::{self, BufRead, IoSlice, Write};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use synod_wire::Bytes;
use tokio::net::{TcpStream, UnixStream};

use crate::frames::{Assembler, BadFrame, HEADER, QueueTable, Route, STEP, Speaker, header};
use crate::{Error, tls};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($inner) => $call,
            Socket::Unix($inner) => $call,
        }
    };
}

impl Socket {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, s => s.poll_read_ready(cx))
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, s => s.poll_write_ready(cx))
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        either!(self, s => s.readable().await)
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        either!(self, s => s.writable().await)
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        either!(self, s => s.try_read(into))
    }

    fn try_read_buf(&self, into: &mut BytesMut) -> io::Result<usize> {
        either!(self, s => s.try_read_buf(into))
    }

    fn try_write_vectored(&self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, s => s.try_write_vectored(from))
    }

    pub(crate) async fn shutdown(&mut self) {
        use tokio::io::AsyncWriteExt;
        let _ = either!(self, s => s.shutdown().await);
    }
}

/// Lets the TLS library write to the socket without waiting; counts bytes and calls.
struct Out<'a> {
    socket: &'a Socket,
    bytes: usize,
    calls: u64,
}

impl Write for Out<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.socket.try_write_vectored(from)?;
        self.bytes = self.bytes.saturating_add(written);
        self.calls = self.calls.saturating_add(1);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What one call of [`Channel::write`] did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: usize,
    pub(crate) calls: u64,
    /// The socket takes no more now.
    pub(crate) blocked: bool,
}

/// What one call of [`Channel::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes came.
    Bytes(usize),
    /// Nothing now.
    Blocked,
    /// The other side closed.
    Closed,
}

/// Frames on their way into the socket, as few large chunks.
#[derive(Default)]
pub(crate) struct Chunks {
    staged: BytesMut,
    ready: VecDeque<Bytes>,
    bytes: usize,
}

const STAGED_BODY_MAX: usize = 1 << 10;

impl Chunks {
    /// Appends a frame; false when the body is longer than any frame can be.
    pub(crate) fn put(&mut self, route: Route, body: Bytes) -> bool {
        let Some(header) = header(route, body.len()) else { return false };
        self.bytes = self.bytes.saturating_add(HEADER).saturating_add(body.len());
        self.staged.extend_from_slice(&header);
        if body.len() <= STAGED_BODY_MAX {
            self.staged.extend_from_slice(&body);
        } else {
            self.seal();
            self.ready.push_back(body);
        }
        true
    }

    /// Bytes not yet taken.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn seal(&mut self) {
        if !self.staged.is_empty() {
            self.ready.push_back(self.staged.split().freeze());
        }
    }

    /// The first chunks, together at most `max` bytes and `count` entries.
    fn front(&self, max: usize, count: usize) -> Vec<IoSlice<'_>> {
        let mut left = max;
        let mut slices = Vec::with_capacity(self.ready.len().min(count));
        for chunk in self.ready.iter().take(count) {
            let part = chunk.get(..left.min(chunk.len())).unwrap_or_default();
            left = left.saturating_sub(part.len());
            slices.push(IoSlice::new(part));
            if left == 0 {
                break;
            }
        }
        slices
    }

    fn advance(&mut self, mut taken: usize) {
        self.bytes = self.bytes.saturating_sub(taken);
        while let Some(chunk) = self.ready.front_mut() {
            let part = taken.min(chunk.len());
            chunk.advance(part);
            taken = taken.saturating_sub(part);
            if !chunk.is_empty() {
                break;
            }
            self.ready.pop_front();
        }
    }
}

/// Most entries of one vectored write.
const VECTOR_MAX: usize = 64;
/// Plain bytes of one TLS record.
const RECORD: usize = 16 << 10;

/// A socket with TLS, if any, and framing.
pub(crate) struct Channel {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<Box<rustls::Connection>>,
    pub(crate) inward: Assembler,
    pub(crate) outward: Chunks,
}

impl Channel {
    pub(crate) fn new(socket: Socket, tls: Option<rustls::Connection>) -> Self {
        if let Socket::Tcp(stream) = &socket {
            // Without it small frames wait for acknowledgements; failing to set it costs latency only.
            let _ = stream.set_nodelay(true);
        }
        Self { socket, tls: tls.map(Box::new), inward: Assembler::default(), outward: Chunks::default() }
    }

    /// Reads once into the assembler.
    ///
    /// # Errors
    /// What the socket said, or the TLS failure by its code.
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> Result<Read, Error> {
        let done = match &self.tls {
            None => self.socket.try_read_buf(self.inward.room()),
            Some(_) => self.socket.try_read(scratch),
        };
        match done {
            Ok(0) => Ok(Read::Closed),
            Ok(count) => {
                let fresh = scratch.get(..count).unwrap_or_default();
                if self.tls.is_some() && self.decrypt(fresh)? {
                    Ok(Read::Closed)
                } else {
                    Ok(Read::Bytes(count))
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Read::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::Bytes(0)),
            Err(source) => Err(Error::Refused { address: "peer".to_owned(), source }),
        }
    }

    /// Feeds bytes to TLS; whether the peer said goodbye.
    fn decrypt(&mut self, mut fresh: &[u8]) -> Result<bool, Error> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        let broken = |source| Error::Refused { address: "peer".to_owned(), source };
        while !fresh.is_empty() {
            tls.read_tls(&mut fresh).map_err(broken)?;
            let state = tls.process_new_packets().map_err(|error| tls::named(&error))?;
            if state.plaintext_bytes_to_read() > 0 {
                let mut reader = tls.reader();
                loop {
                    let taken = match reader.fill_buf() {
                        Ok(plain) => {
                            self.inward.push(plain);
                            plain.len()
                        }
                        Err(_) => 0,
                    };
                    if taken == 0 {
                        break;
                    }
                    reader.consume(taken);
                }
            }
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// [`BadFrame`] when the framing is broken.
    pub(crate) fn frame(
        &mut self,
        table: &QueueTable,
        speaker: Speaker,
    ) -> Result<Option<(Route, Bytes)>, BadFrame> {
        self.inward.next(table, speaker)
    }

    /// Whether bytes wait for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.outward.bytes() > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Encrypts what is queued, then writes until the socket takes no more.
    ///
    /// # Errors
    /// What the socket said.
    pub(crate) fn write(&mut self) -> Result<Written, Error> {
        self.outward.seal();
        let mut out = Out { socket: &self.socket, bytes: 0, calls: 0 };
        let ended = match &mut self.tls {
            Some(tls) => Self::write_tls(tls, &mut self.outward, &mut out),
            None => Self::write_plain(&mut self.outward, &mut out),
        };
        let written = Written { bytes: out.bytes, calls: out.calls, blocked: ended.is_err() };
        match ended {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                Err(Error::Refused { address: "peer".to_owned(), source: error })
            }
            _ => Ok(written),
        }
    }

    fn write_tls(
        tls: &mut rustls::Connection,
        chunks: &mut Chunks,
        out: &mut Out<'_>,
    ) -> Result<(), io::Error> {
        while chunks.bytes() > 0 {
            let taken = tls.writer().write_vectored(&chunks.front(RECORD, VECTOR_MAX))?;
            chunks.advance(taken);
            if taken == 0 {
                break;
            }
        }
        while tls.wants_write() {
            tls.write_tls(out)?;
        }
        Ok(())
    }

    fn write_plain(chunks: &mut Chunks, out: &mut Out<'_>) -> Result<(), io::Error> {
        while chunks.bytes() > 0 {
            let taken = out.write_vectored(&chunks.front(usize::MAX, VECTOR_MAX))?;
            chunks.advance(taken);
        }
        Ok(())
    }

    /// Reads and forgets.
    pub(crate) fn drain(&self, scratch: &mut [u8]) -> Read {
        match self.socket.try_read(scratch) {
            Ok(0) => Read::Closed,
            Ok(count) => Read::Bytes(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Read::Blocked,
            Err(_) => Read::Closed,
        }
    }

    /// Says goodbye on TLS, without waiting.
    pub(crate) fn goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.write();
    }

    /// A buffer of the size that [`Channel::read`] wants.
    pub(crate) fn scratch() -> Vec<u8> {
        vec![0; STEP]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_keep_frames_whole_and_share_large_bodies() {
        let mut chunks = Chunks::default();
        let large = Bytes::from(vec![9; 5_000]);
        let route = Route { machine: 1, queue: 2 };
        assert!(chunks.put(route, Bytes::from_static(b"ab")));
        assert!(chunks.put(route, large.clone()));
        assert!(chunks.put(route, Bytes::from_static(b"c")));
        chunks.seal();
        assert_eq!(chunks.bytes(), 3 * HEADER + 2 + 5_000 + 1);
        assert_eq!(chunks.ready.len(), 3, "one staged run, the body, one staged run");
        assert_eq!(chunks.ready.get(1).map(|body| body.as_ptr()), Some(large.as_ptr()));
    }

    #[test]
    fn chunks_are_consumed_in_order_by_any_steps() {
        let mut chunks = Chunks::default();
        let mut want = Vec::new();
        for n in 0..20_u8 {
            let body = vec![n; usize::from(n) * 300];
            let route = Route { machine: n, queue: 0 };
            want.extend_from_slice(&header(route, body.len()).expect("short"));
            want.extend_from_slice(&body);
            assert!(chunks.put(route, body.into()));
        }
        chunks.seal();
        let mut seen = Vec::new();
        for step in [1, 8, 9, 1_000, 16_384].into_iter().cycle() {
            let taken: Vec<u8> = chunks.front(step, 3).iter().flat_map(|s| s.to_vec()).collect();
            if taken.is_empty() {
                break;
            }
            assert!(taken.len() <= step);
            chunks.advance(taken.len());
            seen.extend_from_slice(&taken);
        }
        assert_eq!(seen, want);
        assert_eq!(chunks.bytes(), 0);
    }
}
