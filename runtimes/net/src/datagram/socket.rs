//! One UDP socket: up to 128 datagrams per system call, either way, and a pace for sending.
//!
//! *Bounds.* `queue_max` datagrams wait to be sent, at most 1,200 bytes each; the newest is dropped beyond.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, recvmmsg};
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use synod_machine::Time;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::format::DATAGRAM_MAX;
use super::pace::Pace;
use crate::reactor::ConnWaker;

/// Datagrams per system call.
pub(crate) const BATCH: usize = 128;
/// Bytes read of a datagram: enough to see that it is too long.
const ROOM: usize = DATAGRAM_MAX + 16;

/// A datagram and its other end.
pub(crate) type Packet = (SocketAddr, Vec<u8>);

/// What one call read.
pub(crate) struct Inbound {
    buffer: Vec<u8>,
    lengths: Vec<(Option<SocketAddr>, usize)>,
}

impl Inbound {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BATCH * ROOM], lengths: Vec::with_capacity(BATCH) }
    }

    /// Stands in while the real one is lent.
    pub(crate) const fn empty() -> Self {
        Self { buffer: Vec::new(), lengths: Vec::new() }
    }

    /// The datagrams in the order they came.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.lengths
            .iter()
            .zip(self.buffer.chunks_exact(ROOM))
            .filter_map(|((from, length), bytes)| Some(((*from)?, bytes.get(..*length)?)))
    }
}

enum State {
    Bound(std::net::UdpSocket),
    Open(UdpSocket),
    Broken,
}

/// A socket and what waits for it.
pub(crate) struct Wire {
    state: State,
    is_v6: bool,
    queue: VecDeque<Packet>,
    queue_max: usize,
    pace: Pace,
    /// The system takes no more; the waker is rung when it does.
    is_blocked: bool,
    waker: Arc<ConnWaker>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    /// Datagrams that the system refused.
    pub(crate) refused: u64,
    /// Whether more may be sent at once.
    pub(crate) more: bool,
}

impl Wire {
    pub(crate) fn new(
        socket: std::net::UdpSocket,
        queue_max: u32,
        pace: Pace,
        waker: Arc<ConnWaker>,
    ) -> Self {
        let is_v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
        let queue_max = usize::try_from(queue_max).unwrap_or(usize::MAX);
        let is_blocked = false;
        Self {
            state: State::Bound(socket),
            is_v6,
            queue: VecDeque::new(),
            queue_max,
            pace,
            is_blocked,
            waker,
        }
    }

    /// Registers the socket with the runtime of this thread.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        if let State::Bound(_) = self.state
            && let State::Bound(socket) = core::mem::replace(&mut self.state, State::Broken)
        {
            self.state = State::Open(UdpSocket::from_std(socket)?);
            self.waker.list();
        }
        Ok(())
    }

    pub(crate) fn waker(&self) -> &Arc<ConnWaker> {
        &self.waker
    }

    /// Reads up to 128 datagrams; whether there were any. Without, the waker is rung when some come.
    pub(crate) fn read(&self, into: &mut Inbound) -> io::Result<bool> {
        into.lengths.clear();
        let State::Open(socket) = &self.state else { return Ok(false) };
        loop {
            let fd = socket.as_raw_fd();
            let read = socket.try_io(Interest::READABLE, || {
                if self.is_v6 { receive::<SockaddrIn6>(fd, into) } else { receive::<SockaddrIn>(fd, into) }
            });
            match read {
                Ok(()) => return Ok(!into.lengths.is_empty()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waker = self.waker.waker();
                    match socket.poll_recv_ready(&mut Context::from_waker(&waker)) {
                        Poll::Pending => return Ok(false),
                        Poll::Ready(ready) => ready?,
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Queues a datagram; false when the queue is full, or the socket of no use.
    pub(crate) fn put(&mut self, to: SocketAddr, datagram: Vec<u8>) -> bool {
        let has_room = self.queue.len() < self.queue_max && !matches!(self.state, State::Broken);
        if has_room {
            let to = match to.ip() {
                IpAddr::V4(v4) if self.is_v6 => SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()),
                _ => to,
            };
            self.queue.push_back((to, datagram));
        }
        has_room
    }

    /// Sends what waits, as far as pace and system allow, one batch.
    pub(crate) fn flush(&mut self, now: Time) -> Sent {
        let mut sent = Sent::default();
        let State::Open(socket) = &self.state else { return sent };
        self.is_blocked = false;
        while !self.queue.is_empty() {
            let open = self.pace.open(now).min(BATCH);
            if open == 0 {
                return sent;
            }
            let (front, _) = self.queue.as_slices();
            let batch = front.get(..open).unwrap_or(front);
            let done = socket.try_io(Interest::WRITABLE, || send(socket, batch));
            sent.calls += 1;
            match done {
                Ok(count) => {
                    self.pace.take(count);
                    for (_, datagram) in self.queue.drain(..count) {
                        sent.datagrams += 1;
                        sent.bytes += datagram.len() as u64;
                    }
                    if sent.datagrams >= 4 * BATCH as u64 {
                        sent.more = !self.queue.is_empty();
                        return sent;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waker = self.waker.waker();
                    match socket.poll_send_ready(&mut Context::from_waker(&waker)) {
                        Poll::Pending => {
                            self.is_blocked = true;
                            return sent;
                        }
                        Poll::Ready(_) => {}
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    // Of the first one: no route, no permission. The others may have a better way.
                    tracing::debug!(%error, "a datagram was refused");
                    self.queue.pop_front();
                    sent.refused += 1;
                }
            }
        }
        sent
    }

    /// Datagrams that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// When a socket that waits for its pace may send again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let waits = !self.queue.is_empty() && !self.is_blocked && matches!(self.state, State::Open(_));
        waits.then(|| self.pace.opens())
    }
}

fn receive<S>(fd: i32, into: &mut Inbound) -> io::Result<()>
where
    S: SockaddrLike + Copy + Into<SocketAddr>,
{
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        into.buffer.chunks_exact_mut(ROOM).map(|room| [IoSliceMut::new(room)]).collect();
    // Made anew each time: the system shortens the lengths of addresses in used ones.
    let mut headers = MultiHeaders::<S>::preallocate(slices.len(), None);
    let received = recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
    into.lengths.extend(received.map(|message| (message.address.map(Into::into), message.bytes)));
    Ok(())
}

fn send(socket: &UdpSocket, batch: &[Packet]) -> io::Result<usize> {
    let addresses: Vec<_> = batch.iter().map(|(to, _)| to.as_any()).collect();
    let slices: Vec<[IoSlice<'_>; 1]> = batch.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        batch.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut messages: Vec<MMsgHdr<'_>> = addresses
        .iter()
        .zip(&slices)
        .zip(&mut controls)
        .map(|((to, slice), control)| MMsgHdr::new_with_addr(to, slice, control))
        .collect();
    Ok(sendmmsg(socket, &mut messages, SendFlags::DONTWAIT)?)
}
