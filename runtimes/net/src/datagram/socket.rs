//! One UDP socket: many datagrams per system call, either way, and a pace for sending.
//!
//! *Bundles.* What goes to one address in a row leaves as one packet that the system cuts up ([`Bundles`]), and what the
//! system joined on its way is read as one and cut here: on a link between two processes of one machine nobody cuts at all.
//! A system that cannot is found out when the socket opens, or by the first bundle it refuses as such; a way that is too narrow
//! for a bundle is that of one address and is remembered for it alone.
//!
//! *Bounds.* `queue_max` datagrams wait to be sent, at most 1,200 bytes and a key each; the newest is dropped beyond. 64 rooms of 65
//! kB are read into, whose pages the system gives when they are used.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike,
    SockaddrStorage, recvmmsg, sendmsg, setsockopt,
};
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use synod_machine::Time;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::bundle::{Bundle, Bundles};
use super::burst::{Draft, tag_first};
use super::pace::Pace;
use crate::reactor::ConnWaker;

/// Datagrams that are queued for one round of system calls.
const BATCH: usize = 512;
/// Bundles of one that one system call sends.
const SINGLES: usize = 128;
/// Packets that one system call reads.
const ROOMS: usize = 64;
/// Bytes read of a packet: the longest there is, at a distance that puts no two rooms' begins into one place of a cache.
const ROOM: usize = 65_536 + 1_088;

/// A packet that was read.
#[derive(Clone, Copy)]
struct Read {
    from: Option<SocketAddr>,
    bytes: usize,
    /// Length of each datagram in it but the last.
    each: usize,
}

/// What one call read.
pub(crate) struct Inbound {
    buffer: Vec<u8>,
    packets: Vec<Read>,
}

impl Inbound {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; ROOMS * ROOM], packets: Vec::with_capacity(ROOMS) }
    }

    /// As if a call had read these.
    #[cfg(test)]
    pub(crate) fn of(datagrams: &[(SocketAddr, Vec<u8>)]) -> Self {
        let mut inbound = Self { buffer: vec![0; datagrams.len() * ROOM], packets: Vec::new() };
        for ((from, datagram), room) in datagrams.iter().zip(inbound.buffer.chunks_exact_mut(ROOM)) {
            room[..datagram.len()].copy_from_slice(datagram);
            let (from, bytes) = (Some(*from), datagram.len());
            inbound.packets.push(Read { from, bytes, each: bytes });
        }
        inbound
    }

    /// Stands in while the real one is lent.
    pub(crate) const fn empty() -> Self {
        Self { buffer: Vec::new(), packets: Vec::new() }
    }

    /// The datagrams in the order they came.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.packets.iter().zip(self.buffer.chunks_exact(ROOM)).flat_map(|(read, room)| {
            let bytes = room.get(..read.bytes).unwrap_or_default();
            // An empty datagram is one, too: it is counted as too short.
            let empty = bytes.is_empty().then_some(bytes);
            let each = bytes.chunks(read.each.max(1)).chain(empty);
            read.from.into_iter().flat_map(move |from| each.clone().map(move |datagram| (from, datagram)))
        })
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
    queue: VecDeque<(SocketAddr, Draft)>,
    queue_max: usize,
    /// What the pace admitted.
    bundles: Bundles,
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
            bundles: Bundles::default(),
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
            // Where the system joins nothing, datagrams come one by one.
            let _: nix::Result<()> = setsockopt(&socket, UdpGroSegment, &true);
            // No length for all: each bundle says its own. Only a system that cuts knows the option.
            if setsockopt(&socket, UdpGsoSegment, &0).is_err() {
                self.bundles.unbundle();
            }
            self.state = State::Open(UdpSocket::from_std(socket)?);
            self.waker.list();
        }
        Ok(())
    }

    pub(crate) fn waker(&self) -> &Arc<ConnWaker> {
        &self.waker
    }

    /// Reads up to 64 packets; whether there were any. Without, the waker is rung when some come.
    pub(crate) fn read(&self, into: &mut Inbound) -> io::Result<bool> {
        into.packets.clear();
        let State::Open(socket) = &self.state else { return Ok(false) };
        loop {
            let fd = socket.as_raw_fd();
            let read = socket.try_io(Interest::READABLE, || {
                if self.is_v6 { receive::<SockaddrIn6>(fd, into) } else { receive::<SockaddrIn>(fd, into) }
            });
            match read {
                Ok(()) => return Ok(!into.packets.is_empty()),
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
    pub(crate) fn put(&mut self, to: SocketAddr, datagram: Draft) -> bool {
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
        if !matches!(self.state, State::Open(_)) {
            return sent;
        }
        self.is_blocked = false;
        if self.bundles.is_empty() {
            let open = self.pace.open(now).min(BATCH).min(self.queue.len());
            self.pace.take(open);
            tag_first(&mut self.queue, open);
            self.bundles.add(self.queue.drain(..open).map(|(to, datagram)| (to, datagram.sealed())));
        }
        while !self.bundles.is_empty() {
            let State::Open(socket) = &self.state else { break };
            let (first, is_single) = match self.bundles.iter().next() {
                Some(first) => (first, first.is_single()),
                None => break,
            };
            let done = socket.try_io(Interest::WRITABLE, || match is_single {
                true => send(socket, self.bundles.iter().take_while(|next| next.is_single()).take(SINGLES)),
                false => send_bundle(socket, first).map(|()| 1),
            });
            sent.calls += 1;
            match done {
                Ok(count) => (0..count).for_each(|_| sent.count(self.bundles.pop())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waker = self.waker.waker();
                    if socket.poll_send_ready(&mut Context::from_waker(&waker)).is_pending() {
                        self.is_blocked = true;
                        return sent;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if !is_single => match Refused::of(&error) {
                    Refused::System => {
                        tracing::info!(%error, "the system cuts no datagrams: each leaves alone");
                        self.bundles.unbundle();
                    }
                    Refused::Way => {
                        tracing::debug!(%error, to = %first.to, "too narrow a way: each datagram leaves alone");
                        self.bundles.narrow_first();
                    }
                    Refused::Once => self.bundles.part_first(),
                },
                Err(error) => {
                    // Of the first one: no route, no permission. The others may have a better way.
                    tracing::debug!(%error, "a datagram was refused");
                    self.bundles.pop();
                    sent.refused += 1;
                }
            }
        }
        sent.more = !self.queue.is_empty() && self.pace.open(now) > 0;
        sent
    }

    /// Datagrams that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.bundles.waiting()
    }

    /// When a socket that waits for its pace may send again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let waits = !self.queue.is_empty() && !self.is_blocked && matches!(self.state, State::Open(_));
        waits.then(|| self.pace.opens())
    }
}

impl Sent {
    fn count(&mut self, bundle: Option<Bundle>) {
        for datagram in bundle.iter().flat_map(|bundle| &bundle.datagrams) {
            self.datagrams += 1;
            self.bytes += datagram.len() as u64;
        }
    }
}

fn receive<S>(fd: i32, into: &mut Inbound) -> io::Result<()>
where
    S: SockaddrLike + Copy + Into<SocketAddr>,
{
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        into.buffer.chunks_exact_mut(ROOM).map(|room| [IoSliceMut::new(room)]).collect();
    // Made anew each time: the system shortens the lengths of addresses and control messages in used ones.
    let mut headers = MultiHeaders::<S>::preallocate(slices.len(), Some(nix::cmsg_space!(i32)));
    let received = recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
    into.packets.extend(received.map(|message| {
        let joined = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::UdpGroSegments(each) => usize::try_from(each).ok(),
                _ => None,
            })
        });
        let each = joined.filter(|each| *each > 0).unwrap_or(message.bytes);
        Read { from: message.address.map(Into::into), bytes: message.bytes, each }
    }));
    Ok(())
}

/// Sends bundles of one; how many left.
fn send<'b>(socket: &UdpSocket, singles: impl Iterator<Item = &'b Bundle>) -> io::Result<usize> {
    let singles: Vec<(&SocketAddr, &Vec<u8>)> =
        singles.filter_map(|bundle| Some((&bundle.to, bundle.datagrams.first()?))).collect();
    let addresses: Vec<_> = singles.iter().map(|(to, _)| to.as_any()).collect();
    let slices: Vec<[IoSlice<'_>; 1]> = singles.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        singles.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut messages: Vec<MMsgHdr<'_>> = addresses
        .iter()
        .zip(&slices)
        .zip(&mut controls)
        .map(|((to, slice), control)| MMsgHdr::new_with_addr(to, slice, control))
        .collect();
    Ok(sendmmsg(socket, &mut messages, SendFlags::DONTWAIT)?)
}

/// What it says of others that a bundle was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// The system cuts no packets up.
    System,
    /// Its datagrams and what is before them are longer than packets may be on the way to this address.
    Way,
    /// Nothing.
    Once,
}

impl Refused {
    fn of(error: &io::Error) -> Self {
        use nix::errno::Errno::{EINVAL, EIO, EMSGSIZE, ENOPROTOOPT, EOPNOTSUPP};
        let is = |code: nix::errno::Errno| error.raw_os_error() == Some(code as i32);
        if [EIO, ENOPROTOOPT, EOPNOTSUPP].into_iter().any(is) {
            Self::System
        } else if [EINVAL, EMSGSIZE].into_iter().any(is) {
            Self::Way
        } else {
            Self::Once
        }
    }
}

/// Sends a bundle as one packet that the system cuts.
fn send_bundle(socket: &UdpSocket, bundle: &Bundle) -> io::Result<()> {
    let each = u16::try_from(bundle.each).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    let slices: Vec<IoSlice<'_>> = bundle.datagrams.iter().map(|bytes| IoSlice::new(bytes)).collect();
    let to = SockaddrStorage::from(bundle.to);
    let cut = [ControlMessage::UdpGsoSegments(&each)];
    sendmsg(socket.as_raw_fd(), &slices, &cut, MsgFlags::MSG_DONTWAIT, Some(&to))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Refused;
    use nix::errno::Errno;
    use std::io;

    #[test]
    fn only_what_is_true_of_every_address_is_held_against_the_system() {
        let of = |code: Errno| Refused::of(&io::Error::from_raw_os_error(code as i32));
        assert_eq!([Errno::EIO, Errno::ENOPROTOOPT, Errno::EOPNOTSUPP].map(of), [Refused::System; 3]);
        assert_eq!([Errno::EINVAL, Errno::EMSGSIZE].map(of), [Refused::Way; 2]);
        assert_eq!([Errno::EPERM, Errno::ENETUNREACH].map(of), [Refused::Once; 2]);
    }
}
